"""Plans for copies and categories: what a person types, the bound, simulated plates, and the folder with its sheets."""

import csv
import json
from pathlib import Path

import pytest
import torch

import qgt
from qgt import Categories, Copies, Noiseless, Question, Reads, Samples, SparseInteger, plan, read_plan, write_plan
from qgt.decoders.certified.decoder import Certified
from qgt.lab.plan.folder import plan_words
from qgt.lab.plan.question import parse_assay, parse_categories, positives_of
from qgt.lab.plan.simulation import judged, simulated_plates
from qgt.lab.sheets.counts import read_counts
from qgt.theory.limits import pools_needed, pools_needed_for_values

VARIANTS = Categories((0.06, 0.03), names=["variant A", "variant B"])
ALLELE = Copies(frequency=0.04, ploidy=2)


def test_categories_as_people_write_them() -> None:
    both = parse_categories("variant A = 3%; variant  B=0,5 %")
    assert both == Categories((0.03, 0.005), names=["variant A", "variant B"])
    assert parse_categories("BA.1=0.02,BA.2=0.04").names == ("BA.1", "BA.2")
    assert parse_categories("A=0,02,B=0,04").rates == (0.02, 0.04)


@pytest.mark.parametrize(
    "text, words",
    [
        ("variant A", "give a name and a share for each"),
        ("variant A=3%, =1%", "give a name and a share for each"),
        ("variant A=3%, variant A=1%", "give each category a name of its own"),
        ("variant A=70%, variant B=40%", "leave some probability to the first category"),
        ("variant A=3", "it is above 1"),
        ("negative=3%", "give each category a name of its own"),
    ],
)
def test_categories_that_are_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_categories(text)


def test_reads_need_a_depth_and_others_have_none() -> None:
    assert parse_assay("reads", [0.001], 2000) == Reads(depth=2000, error=0.001)
    with pytest.raises(ValueError, match="give the number of reads of each pool"):
        parse_assay("reads", [])
    with pytest.raises(ValueError, match="it is for the assay reads"):
        parse_assay("count", [], 2000)


def test_the_bound_of_one_category_is_that_of_positives() -> None:
    for noise in (Noiseless(), SparseInteger(0.1, 1)):
        own = pools_needed_for_values(noise, Categories((0.06,)), items=100, size=20)
        assert own == pytest.approx(pools_needed(noise, 0.06, items=100, size=20), rel=1e-6)
    twice = pools_needed_for_values(Noiseless(), Copies(frequency=0.03, ploidy=1), items=100, size=20)
    assert twice == pytest.approx(pools_needed(Noiseless(), 0.03, items=100, size=20), rel=1e-6)


def test_a_question_of_values_says_what_it_cannot_have() -> None:
    assert positives_of(VARIANTS, 100) == pytest.approx((9.0, 9.0))
    question = Question(Samples.numbered(100), (0, 0), values=VARIANTS)
    assert question.positives == pytest.approx((9.0, 9.0)) and question.prior is VARIANTS
    with pytest.raises(ValueError, match="measures amounts"):
        Question(Samples.numbered(20), (0, 0), qgt.CycleThreshold(sigma=0.25), values=VARIANTS)
    families = Samples.placed(["a", "b", "c"], households=["x", "x", "y"])
    with pytest.raises(
        ValueError, match=r"samples has households \(2 of them\), and categories .* leave out the column"
    ):
        Question(families, (0, 0), values=VARIANTS)
    with pytest.raises(ValueError, match="and copies are planned for samples that are independent"):
        Question(families, (0, 0), values=ALLELE)
    risky = Samples.placed(["a", "b"], risks=[0.1, 0.2])
    with pytest.raises(ValueError, match="has no frequency that could differ"):
        Question(risky, (0, 0), values=Copies.from_distribution([0.9, 0.08, 0.02]))
    with pytest.raises(ValueError, match="has rates of its own for each sample"):
        Question(risky, (0, 0), values=Categories([[0.1, 0.2], [0.2, 0.1]]))


@pytest.mark.parametrize("values", [VARIANTS, ALLELE], ids=["variants", "copies"])
def test_risks_share_out_what_is_expected(values: Categories | Copies) -> None:
    risks = [0.001, 0.01, 0.02, 0.3, 1e-9]
    question = Question(Samples.placed(list("abcde"), risks=risks), (0, 0), values=values)
    prior = question.prior
    assert isinstance(prior, Categories | Copies)
    each = 1 - prior.distributions(5)[:, 0]
    assert float(each.sum()) == pytest.approx(5 * (1 - values.distribution[0]))
    odds = (each / (1 - each)) / torch.tensor([risk / (1 - risk) for risk in risks], dtype=torch.float64)
    assert torch.allclose(odds, odds[:1].expand(5), rtol=1e-6)  # one factor for all
    if isinstance(prior, Categories):  # which variant a positive has is as before
        share = prior.distributions(5)[:, 1] / each
        assert torch.allclose(share, torch.full_like(share, 2 / 3))
    alike = Question(Samples.placed(list("abcde"), risks=[0.2] * 5), (0, 0), values=values).prior
    assert isinstance(alike, Categories | Copies)
    assert torch.allclose(alike.distributions(5), values.distributions(5))


def test_the_bound_of_samples_with_risks_is_below_that_of_samples_alike() -> None:
    alike, differ = (Samples.placed([f"s{i}" for i in range(40)], risks=[0.05 * r, 0.05] * 20) for r in (1.0, 0.01))
    bounds = [Question(samples, (0, 0), values=VARIANTS).entropy_bound(12) for samples in (alike, differ)]
    assert bounds[1] < bounds[0]
    assert bounds[0] == pytest.approx(Question(Samples.numbered(40), (0, 0), values=VARIANTS).entropy_bound(12))


@pytest.mark.parametrize("values", [VARIANTS, ALLELE], ids=["variants", "copies"])
def test_samples_tested_alone_are_called_by_their_value(values: Categories | Copies, unchecked: None) -> None:
    g = torch.Generator().manual_seed(0)
    design = qgt.Design.column_regular(pools=6, items=20, weight=3, generator=g)
    problem = qgt.Problem(design, values)
    x, y = problem.simulate(60, generator=g)
    found = Certified(certificates=False).bind(problem)(y)
    alone = judged(x, found, None, problem.noise, values=values, generator=g)
    after = judged(x, found, 0.95, problem.noise, values=values, generator=g)
    assert after.follow_ups > 0 and after.right > alone.right and after.success > 0.9
    assert simulated_plates(problem, 20, retest_below=None, generator=g, seconds=5.0).plates == 20


@pytest.mark.parametrize(
    "values, assay", [(VARIANTS, SparseInteger(0.02, 1)), (ALLELE, Reads(2000, 0.001))], ids=["variants", "copies"]
)
def test_a_plan_from_question_to_sheet(values: Categories | Copies, assay: qgt.Noise, tmp_path: Path) -> None:
    question = Question(Samples.numbered(16), (0, 0), assay, 0.7, values=values)
    made = plan(question, generator=torch.Generator().manual_seed(0), seconds=1.0)
    assert made.classical == () and made.recommended.pools <= 16
    told = " ".join(plan_words(made))
    assert ("6 % are variant A" in told) if values is VARIANTS else ("2,000 reads" in told)
    folder = write_plan(made, tmp_path / "plan")
    assert read_plan(folder.path).problem.prior == values
    stored = json.loads((folder.path / "plan.json").read_text())
    assert stored["question"]["values"]["kind"] == ("categories" if values is VARIANTS else "copies")
    columns = ["variant A", "variant B"] if values is VARIANTS else ["reads"]
    remark, header, *lines = list(csv.reader((folder.path / "counts.csv").read_text().splitlines()))
    assert header == ["pool", "pool plate", "well", "samples", *columns] and len(lines) == made.recommended.pools
    filled = [[*line[:4], *("0" for _ in columns)] for line in lines]
    text = "\n".join(",".join(row) for row in [[remark[0].replace(",", " ")], header, *filled])
    problem = folder.problem
    sheet = read_counts(
        "filled", problem.design, noise=assay, data=text.encode(), categories=problem.reported_categories
    )
    assert sheet.y.shape[1:] == problem.report_shape and sheet.names is None and not bool(sheet.y.any())
    assert ("each category" in (folder.path / "README.txt").read_text()) == (values is VARIANTS)
