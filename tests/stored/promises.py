"""The names, words and codes that docs/stability.md promises, as lists of texts.

    python tests/stored/promises.py --write     # when a version is released: adds what is new to promises.json

`test_promises.py` checks that nothing of promises.json is missing from the code of today.
"""

import inspect
import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import httpx

import qgt
from qgt import cli
from qgt.cli.verbs import COMMAND
from qgt.decoders.registry import DECODERS
from qgt.lab.plan.robots import FORMATS
from qgt.lab.verdicts import Call, Verdict
from qgt.model.problem import MAKERS, NOISES, PRIORS
from qgt.web.app import in_background
from qgt.web.jobs import JobState
from qgt.web.settings import Settings

STORED = Path(__file__).parent / "promises.json"
METHODS = ("get", "post", "put", "delete")


def promised() -> dict[str, list[str]]:
    """What the code of today has of each kind."""
    with tempfile.TemporaryDirectory() as folder, in_background(Settings(Path(folder), port=0)) as state:
        described = httpx.get(f"{state.settings.address}/api/v1/openapi.json", timeout=60).json()
    found = {
        "public names": list(qgt.__all__),
        "arguments": [argument for name in qgt.__all__ for argument in _arguments(name)],
        "options": [option for verb, command in COMMAND.commands.items() for option in _options(verb, command)],
        "requests": [_request(method, path) for path in described["paths"] for method in described["paths"][path]],
        "fields": [field for name, shape in described["components"]["schemas"].items() for field in _of(name, shape)],
        "decoders": list(DECODERS),
        "designs": list(MAKERS),
        "priors": list(PRIORS),
        "noises": list(NOISES),
        "worklists": list(FORMATS),
        "verdicts": [word.value for word in Verdict],
        "calls": [word.value for word in Call],
        "statuses": [f"{word.name} = {word.value}" for word in qgt.Status],
        "states of a job": list(get_args(JobState)),
        "exit codes": [f"bad input or usage = {cli.BAD}", f"interrupted = {cli.INTERRUPTED}"],
    }
    return {kind: sorted(names) for kind, names in found.items()}


def _arguments(name: str) -> list[str]:
    """The arguments of a public function, or of a class that is made by a call."""
    value = getattr(qgt, name)
    if not callable(value) or getattr(value, "_is_protocol", False):
        return []
    try:
        taken = inspect.signature(value).parameters
    except ValueError:  # an enumeration or an exception says nothing of its arguments
        return []
    return [f"{name}({argument})" for argument in taken if not argument.startswith("_")]


def _options(verb: str, command: Any) -> list[str]:
    return [f"{verb} {name}" for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)]


def _request(method: str, path: str) -> str:
    assert method in METHODS, method
    return f"{method.upper()} {path}"


def _of(name: str, shape: Mapping[str, Any]) -> list[str]:
    return [f"{name}.{field}" for field in shape.get("properties", {})]


def main() -> None:
    """Print what is new; with --write, add it to the file."""
    stored = json.loads(STORED.read_text("utf-8")) if STORED.exists() else {}
    now = promised()
    for kind, names in now.items():
        for name in sorted(set(names) - set(stored.get(kind, []))):
            print(f"{kind}: {name}")
    if "--write" in sys.argv:
        both = {kind: sorted({*names, *stored.get(kind, [])}) for kind, names in now.items()}
        STORED.write_text(json.dumps(both, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
