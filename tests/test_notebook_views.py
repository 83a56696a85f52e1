"""What a notebook shows: short texts and tables in HTML, and results as DataFrames."""

import re
import sys
from dataclasses import dataclass

import pytest
import torch

import qgt
from qgt.files.documents import html_facts


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def problem() -> qgt.Problem:
    design = qgt.Design.column_regular(pools=10, items=15, weight=4, generator=seeded())
    return qgt.Problem(design, qgt.Bernoulli([0.1] * 15), qgt.SparseInteger(rate=0.1, bound=1))


@pytest.fixture(scope="module")
def result(problem) -> qgt.Decoded:
    return qgt.Certified().bind(problem)(problem.simulate(12, generator=seeded(1)).y)


def test_a_result_is_a_line_and_a_table(problem, result):
    shown = repr(result)
    assert shown.startswith("Decoded(instances=12, items=15, PROVED: 12, with scores, proof, log_joint")
    assert "\n" not in shown and len(shown) < 250
    page = result._repr_html_()
    assert page.count("<tr>") == 1 + 1 + 10 and "and 2 more instances" in page
    empty = qgt.Certified().bind(problem)(torch.zeros(0, 10))
    assert "instances=0" in repr(empty) and "<table>" in empty._repr_html_()
    failed = qgt.Certified().bind(problem)(torch.full((1, 10), 500.0))
    assert "INFEASIBLE: 1" in repr(failed) and "INFEASIBLE" in failed._repr_html_()


def test_a_design_is_drawn_where_it_is_small(problem):
    page = problem.design._repr_html_()
    assert page.count("h1v1h-1z") == problem.design.transfers
    assert "<th>items in a pool</th><td>6</td>" in page and "<th>pools of an item</th><td>4</td>" in page
    large = qgt.Design.column_regular(pools=100, items=3000, weight=8, generator=seeded())
    assert "svg" not in large._repr_html_() and "<td>3,000</td>" in large._repr_html_()


def test_a_problem_is_a_table_of_its_parts(problem):
    page = problem._repr_html_()
    assert re.findall("<th>(.+?)</th>", page) == ["design", "prior", "noise", "fingerprint"]
    assert "SparseInteger(rate=0.1, bound=1)" in page and len(page) < 1000


def test_names_are_escaped():
    @dataclass(frozen=True)
    class Odd:
        name: str = "<script>"

        def sample(self, instances, items, *, generator):
            return torch.zeros(instances, items, dtype=torch.uint8)

    assert "<script>" not in qgt.Problem(qgt.Design.from_rows(["1"]), Odd())._repr_html_()
    assert "<i>" not in html_facts("<i>", {"<i>": "<i>"})


def test_a_result_is_a_frame_by_instance_or_by_item(problem, result):
    names = problem.design.item_names
    frame = result.to_frame(names)
    assert list(frame.columns) == ["status", "defectives", "items", "confidence", "log_joint"]
    assert [len(items) for items in frame["items"]] == frame["defectives"].tolist() == result.x.sum(1).tolist()
    assert frame["items"][0] == tuple(names[i] for i in result.x[0].nonzero().flatten().tolist())
    long = result.to_frame(by_item=True)
    assert long.pivot(index="instance", columns="item", values="x").to_numpy().tolist() == result.x.tolist()
    with pytest.raises(ValueError, match=r"items has 2 names: give 15, such as design\.item_names"):
        result.to_frame(["a", "b"])


def test_without_pandas_the_error_says_how_to_get_it(result, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ValueError, match=r"pip install 'qgt\[pandas\]'"):
        result.to_frame()
    with pytest.raises(ValueError, match=r"pip install 'qgt\[pandas\]'"):
        qgt.study_frame([])
    assert "Decoded" in result._repr_html_()
