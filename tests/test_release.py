"""The checks before a release: equal versions, and a changelog that has the version and nothing unreleased."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FILES = {
    "src/qgt/version.py": '__version__ = "1.2.3"\n',
    "CITATION.cff": "cff-version: 1.2.0\nversion: 1.2.3\ndate-released: 2026-11-17\n",
    "CHANGELOG.md": "# Changelog\n\n## [Unreleased]\n\n## [1.2.3] - 2026-11-17\n\n- All.\n\n## [1.2.2] - 2026-11-16\n",
    "pyproject.toml": 'classifiers = [\n  "Development Status :: 5 - Production/Stable",\n]\n',
    "tests/stored/1.2.3/counts.csv": "",
}


@pytest.fixture
def faults(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    sys.modules.pop("release", None)
    import release

    return lambda root: list(release.faults(root))


def test_the_version_of_the_citation_is_that_of_the_package(faults):
    assert [fault for fault in faults(ROOT) if "[Unreleased]" not in fault] == []


@pytest.mark.parametrize(
    "changed, said",
    [
        ({}, []),
        (
            {"src/qgt/version.py": '__version__ = "2.0.0"\n'},
            ["CITATION.cff has version 1.2.3", "no heading '## [2.0.0]", "tests/stored has no files of 2.0.0"],
        ),
        ({"CHANGELOG.md": "## [Unreleased]\n\n- New.\n\n## [1.2.3] - 2026-11-17\n"}, ["changes under [Unreleased]"]),
        ({"pyproject.toml": '  "Development Status :: 4 - Beta",\n'}, ["write 5 - Production/Stable"]),
        ({"CHANGELOG.md": "## [1.2.3]\n"}, ["no heading '## [1.2.3] - DATE'"]),
        ({"CHANGELOG.md": "## [1.2.3] - 2026-11-18\n"}, ["write date-released: 2026-11-18"]),
    ],
)
def test_what_is_not_ready_is_said(faults, tmp_path, changed, said):
    for name, text in {**FILES, **changed}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = faults(tmp_path)
    assert len(found) == len(said) and all(words in fault for words, fault in zip(said, found, strict=True)), found
