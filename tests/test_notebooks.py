"""The example notebooks: their scripts run, and the notebooks have the scripts' cells with outputs."""

import json
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = sorted((ROOT / "examples/notebooks").glob("*.py"))


@pytest.fixture
def notebooks(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    sys.modules.pop("notebooks", None)
    import notebooks

    return notebooks


@pytest.mark.usefixtures("no_plugins", "unchecked")
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_runs(script, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("qgt.trust.confidence.PRECISE", 0.05)  # how precise a confidence is is tested elsewhere
    runpy.run_path(str(script), run_name="__main__")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_notebook_has_the_cells_of_its_script_and_their_outputs(script, notebooks):
    assert not notebooks.stale(script), "run 'python benchmarks/notebooks.py --write'"
    text = script.with_suffix(".ipynb").read_text("utf-8")
    outputs = [output for cell in json.loads(text)["cells"] for output in cell.get("outputs", ())]
    assert len(outputs) >= 3 and len(text) < 200_000
    assert str(ROOT) not in text


def test_a_cell_shows_what_it_prints_and_its_last_value(notebooks):
    scope: dict[str, object] = {}
    assert list(notebooks.run("a = 3\nprint('b')", scope)) == [
        {"output_type": "stream", "name": "stdout", "text": ["b\n"]}
    ]
    (shown,) = notebooks.run("a + 1", scope)
    assert shown["data"] == {"text/plain": ["4"]}
    with pytest.raises(ZeroDivisionError):
        list(notebooks.run("a / 0", scope))
