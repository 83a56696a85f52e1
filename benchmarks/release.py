"""What must be right before a version is released, beyond the tests: `make release` runs this first.

python benchmarks/release.py        # exit with 1 if something is not right

- nothing is left to commit;
- the version of src/qgt/version.py is also that of CITATION.cff and of the newest heading of CHANGELOG.md, with a date;
- CHANGELOG.md has nothing under [Unreleased];
- tests/stored has the files of this version, by which later versions are tested;
- from 1.0 on the classifiers of pyproject.toml call the package stable.

`make release` then runs the tests, the README's commands among them, builds the site, and builds, installs and uses
the package.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def faults(root: Path) -> Iterator[str]:
    """What is not ready in the files of a repository."""
    version = _found(root / "src/qgt/version.py", r'^__version__ = "(.+)"$')
    cited = _found(root / "CITATION.cff", r"^version: (.+)$")
    if cited != version:
        yield f"CITATION.cff has version {cited}: write {version}, as in src/qgt/version.py."
    changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    sections = re.findall(r"^## \[(.+?)\](?: - (\S+))?\n((?:(?!## \[).*\n?)*)", changelog, flags=re.MULTILINE)
    released = [(name, date) for name, date, _ in sections if name != "Unreleased"]
    if not released or released[0][0] != version or not re.fullmatch(r"\d{4}-\d\d-\d\d", released[0][1]):
        yield f"CHANGELOG.md has no heading '## [{version}] - DATE' before those of earlier versions: add it."
    elif _found(root / "CITATION.cff", r"^date-released: (.+)$") != released[0][1]:
        yield f"CITATION.cff has another date than CHANGELOG.md: write date-released: {released[0][1]}."
    if any(name == "Unreleased" and text.strip() for name, _, text in sections):
        yield f"CHANGELOG.md has changes under [Unreleased]: move them under [{version}]."
    if not (root / f"tests/stored/{version}").is_dir():
        yield f"tests/stored has no files of {version}: run tests/stored/make.py and tests/stored/promises.py --write."
    stage = _found(root / "pyproject.toml", r'^  "Development Status :: (.+)",$')
    if stage != (wanted := "4 - Beta" if str(version).startswith("0.") else "5 - Production/Stable"):
        yield f"pyproject.toml has the Development Status {stage}: write {wanted}."


def uncommitted(root: Path) -> list[str]:
    """The files that git would commit."""
    command = ["git", "-C", str(root), "status", "--porcelain"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def _found(path: Path, pattern: str) -> str | None:
    match = re.search(pattern, path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return None if match is None else match[1]


def main() -> int:
    found = [*faults(ROOT), *(f"not committed: {line}" for line in uncommitted(ROOT))]
    print("\n".join(found) or "The files are ready for a release.")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
