"""docs/api.md, every public name in one line with its docstring's first; and src/qgt/__init__.pyi, for type checkers.

python benchmarks/api.py            # print the page
python benchmarks/api.py --check    # exit with 1 if one of them is out of date
python benchmarks/api.py --write    # write both
"""

import argparse
import inspect
import sys
from pathlib import Path

import qgt
from qgt.files.documents import markdown_table

ROOT = Path(__file__).resolve().parents[1]
PAGE, STUB = ROOT / "docs/api.md", ROOT / "src/qgt/__init__.pyi"
HEAD = """# All public names

This page lists every public name with the first line of its docstring. Write `qgt.` before each of them;
`help(qgt.Design)` shows a whole docstring, with an example that runs. A `*` means that the arguments after it are given
by name.

(Made by `python benchmarks/api.py --write`.)
"""
ROOMS = {  # in the order in which a reader meets them
    "model": "Problems: designs, priors, noises",
    "decoders": "Decoders and what they return",
    "trust": "Trust: scores, confidence, fit, verification",
    "rounds": "Follow-up rounds",
    "lab": "Accounts of decoded instances",
    "learning": "Training",
    "study": "Studies",
    "files": "Parts of your own",
}
CONSTANTS = {"DECODERS": "The decoders by the names that files and the command use."}
LONGEST = 110  # characters of a call, beyond which its arguments are left to `help`


def page() -> str:
    """The whole page."""
    by_room: dict[str, list[str]] = {room: [] for room in ROOMS}
    for name in qgt.__all__:
        by_room[qgt._HOME[name].split(".")[0]].append(name)  # a new room is a KeyError: give it a place above
    parts = [HEAD]
    for room, names in by_room.items():
        rows = [[f"`{call(name)}`", meaning(name)] for name in names]
        parts.append(f"## {ROOMS[room]}\n\n{markdown_table(['name', 'what it is'], rows)}\n")
    return "\n".join(parts)


def stub() -> str:
    """What type checkers read in place of `qgt/__init__.py`, which imports names when they are first used."""
    homes = sorted((f"qgt.{module}", name) for name, module in qgt._HOME.items())
    lines = [f"from {module} import {name} as {name}" for module, name in [*homes, ("qgt.version", "__version__")]]
    return "\n".join(["# Made from `_PUBLIC` in __init__.py by `python benchmarks/api.py --write`.", "", *lines, ""])


def call(name: str) -> str:
    """A name with the arguments it takes, where it takes any."""
    value = getattr(qgt, name)
    plain = inspect.isclass(value) and (
        getattr(value, "_is_protocol", False) or issubclass(value, str | int | Exception)
    )
    if name in CONSTANTS or plain:
        return name
    written, starred = [], False
    for one in inspect.signature(value).parameters.values():
        if one.name.startswith("_"):
            continue
        if one.kind is one.KEYWORD_ONLY and not starred:
            written, starred = [*written, "*"], True
        default = "" if one.default is one.empty else f"={one.default!r}"
        written.append(f"{one.name}{default if '<' not in default else '=...'}")
    text = f"{name}({', '.join(written)})"
    return text if len(text) <= LONGEST else f"{name}(...)"


def meaning(name: str) -> str:
    """The first line of a docstring."""
    if name in CONSTANTS:
        return CONSTANTS[name]
    return (inspect.getdoc(getattr(qgt, name)) or "").splitlines()[0].replace("|", "\\|")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="only say whether a file is out of date")
    parser.add_argument("--write", action="store_true", help="write both files")
    arguments = parser.parse_args()
    files = {PAGE: page(), STUB: stub()}
    if arguments.write:
        for path, text in files.items():
            path.write_text(text, encoding="utf-8")
    elif arguments.check:
        old = [path for path, text in files.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
        for path in old:
            print(f"{path}: is out of date; run 'python benchmarks/api.py --write'.")
        return int(bool(old))
    else:
        print(files[PAGE])
    return 0


if __name__ == "__main__":
    sys.exit(main())
