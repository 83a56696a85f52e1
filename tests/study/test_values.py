"""Studies of copies and categories: decoders and follow-up rounds, scored by parts."""

from pathlib import Path

import pytest
import torch

from qgt import Categories, Copies, Design, Problem
from qgt.study import Study, run_study, study_results
from qgt.study.batch import _outcomes
from qgt.study.plan import parse_entry

SPEC = """
instances = 10
batch = 5
designs = [0]

[problem]
design = { kind = "column_regular", pools = 12, items = 20, weight = 4 }
prior = %s
noise = { kind = "sparse_integer", rate = 0.05, bound = 1 }

[decoders.certified]
kind = "certified"
time_limit = 1.0

[decoders.amp]
kind = "pooled_amp"
"""


@pytest.mark.parametrize(
    "prior", ['{ kind = "categories", rates = [0.05, 0.05] }', '{ kind = "copies", frequency = 0.05, ploidy = 2 }']
)
def test_a_study_scores_decoders(prior: str, tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(SPEC % prior)
    study = Study.load(tmp_path / "study.toml")
    run_study(study, tmp_path / "study.db")
    rates = {one.decoder: one.score.success_rate for one in study_results(study, tmp_path / "study.db")}
    assert rates["certified"] >= 0.8 and rates["certified"] >= rates["amp"]


def test_a_wrong_category_is_a_false_positive_and_a_false_negative() -> None:
    design, x = Design.from_rows(["11"]), torch.tensor([[1, 0]], dtype=torch.uint8)
    other = torch.tensor([[2, 0]], dtype=torch.uint8)
    assert _outcomes(Problem(design, Categories((0.1, 0.1))), x, other).triples.tolist() == [[0, 1, 1]]
    assert _outcomes(Problem(design, Copies(frequency=0.1)), x, other).triples.tolist() == [[1, 1, 0]]


def test_a_threshold_has_no_meaning_for_values() -> None:
    entry = parse_entry("certified", {"kind": "certified", "tune": True})
    with pytest.raises(ValueError, match="leave it out where they have copies or categories"):
        entry.check(Problem(Design.from_rows(["11"]), Categories((0.1, 0.1))))
