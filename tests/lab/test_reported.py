"""Reports that are no counts are spoken of as what they are: positives, ranges, reads."""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

import qgt
from qgt.lab.answers.decoding import decode_sheet
from qgt.lab.answers.outputs import card, report_row
from qgt.model.noise import usual_reports

ROWS = ["110100", "011010", "101001", "000111"]


def account(noise: qgt.Noise, y: list[float]) -> qgt.Account:
    problem = qgt.Problem(qgt.Design.from_rows(ROWS), qgt.Bernoulli(0.1), noise)
    sheet = decode_sheet(problem, torch.tensor([y], dtype=torch.float64), ["a"], qgt.Certified(), calibrate=None)
    return sheet.accounts[0]


def test_a_positive_is_not_off_by_one() -> None:
    """Two defectives in a pool make it positive, which is no wrong count of 1."""
    noise = qgt.PositiveNegative(0.99, 0.99)
    fine = account(noise, [1.0, 1.0, 1.0, 0.0])
    assert fine.residuals == () and "All 4 results agree with this answer exactly." in fine.words
    off = account(noise, [1.0, 1.0, 0.0, 1.0])
    assert len(off.residuals) <= 1
    one = account(qgt.PositiveNegative(0.7, 0.7), [0.0, 0.0, 0.0, 1.0])
    assert "1 of 4 results differs from this answer: P4 (reported positive, expected negative)" in one.words
    assert "P4: reported positive, expected negative" in report_row(one)
    assert one.plain["residuals"][0]["counted"] == 1.0


def test_ranges_and_reads_have_their_own_words() -> None:
    noise = qgt.Binned([1, 2], qgt.SparseInteger(0.2, 1))
    one = account(noise, [0.0, 0.0, 0.0, 1.0])
    assert "P4 (reported range 1 (1), expected range 0 (below 1))" in one.words
    reads = account(qgt.Reads(30, 0.05), [12.0, 1.0, 9.0, 2.0])
    assert "The results differ from this answer by" in reads.words and "reads, expected" in reads.words


def test_reports_that_cannot_be_are_told_how_to_write_them() -> None:
    one = account(qgt.PositiveNegative(0.9, 0.9), [2.0, 0.0, 1.0, 0.0])
    assert one.verdict == "impossible"
    assert "1 of 4 results is not valid: P1 (2)" in one.words and "write 1 for positive and 0 for negative" in one.words


def test_pools_of_different_kinds_are_each_spoken_of_as_they_are() -> None:
    noise = qgt.PerPool([qgt.SparseInteger(0.2, 1), qgt.PositiveNegative(0.7, 0.7), *[qgt.SparseInteger(0.2, 1)] * 2])
    one, other = account(noise, [0.0, 1.0, 0.0, 0.0]), account(noise, [0.0, 0.0, 1.0, 0.0])
    words = [residual.words for residual in (*one.residuals, *other.residuals)]
    assert words == ["P2 (reported positive, expected negative)", "P3 (counted 1, expected 0)"]
    problem = qgt.Problem(qgt.Design.from_rows(ROWS), qgt.Bernoulli(0.1), noise)
    y = torch.tensor([1.0, 1.0, 0.0, torch.nan], dtype=torch.float64)
    assert [count.counted for count in card(problem, one, y).counts][1:] == ["positive", "0", "missing"]


def test_a_noise_from_a_plugin_is_spoken_of_as_it_describes_itself() -> None:
    one = account(Pairs(), [3.0, 0.0, 0.0, 0.0])
    assert one.words.endswith("1 of 4 pairs is not valid: P1 (3). Check it, and write a number of pairs.")
    fine = account(Pairs(), [1.0, 0.0, 0.0, 0.0])
    assert "All 4 pairs agree with this answer exactly." in fine.words
    y = torch.tensor([1.0, 0.0, 0.0, 0.0], dtype=torch.float64)
    problem = qgt.Problem(qgt.Design.from_rows(ROWS), qgt.Bernoulli(0.1), Pairs())
    assert [count.counted for count in card(problem, fine, y).counts][:2] == ["one pair", "0"]


@dataclass(frozen=True)
class Pairs:
    """Every pool reports the number of pairs of defectives."""

    integer = True
    reports = qgt.Reports("pairs", counts=False, words={1.0: "one pair"}, remedy="write a number of pairs")

    def reach(self, size: int, tail: float) -> float:
        return float(size)

    def usual_report(self, counts: Tensor, sizes: Tensor) -> Tensor:
        return (counts / 2).floor()

    def sample(self, counts: Tensor, sizes: Tensor, *, generator: Generator) -> Tensor:
        return self.usual_report(counts, sizes)

    def log_prob(self, y: Tensor, counts: Tensor, sizes: Tensor) -> Tensor:
        return torch.where(y == self.usual_report(counts, sizes), 0.0, -torch.inf).double()


def test_usual_reports_are_the_most_probable_ones() -> None:
    """Held against the noises themselves."""
    counts, sizes = torch.arange(9.0, dtype=torch.float64)[:, None], torch.tensor([8.0], dtype=torch.float64)
    reports = torch.arange(-3.0, 60.0, dtype=torch.float64)
    for noise in (
        qgt.Noiseless(),
        qgt.SparseInteger(0.3, 2),
        qgt.RoundedGaussian(0.6),
        qgt.PositiveNegative(0.9, 0.95),
        qgt.Saturating(3, qgt.SparseInteger(0.1, 1)),
        qgt.Binned([1, 4], qgt.SparseInteger(0.1, 1)),
        qgt.Reads(40, 0.01),
    ):
        usual = usual_reports(noise, counts, sizes)
        table = noise.log_prob(reports[None], counts, sizes)  # (counts, reports)
        best = table.amax(1)
        own = noise.log_prob(usual, counts, sizes)[:, 0]
        slack = 0.05 if isinstance(noise, qgt.Reads) else 1e-9  # a binomial's mode is within one of its mean
        assert bool((own >= best - slack).all()), noise


def test_a_file_of_positives_fits_its_model() -> None:
    g = torch.Generator().manual_seed(0)
    design = qgt.Design.bernoulli(pools=12, items=14, generator=g)
    problem = qgt.Problem(design, qgt.Bernoulli(0.08), qgt.PositiveNegative(0.95, 0.95))
    y = problem.simulate(20, generator=g).y
    sheet = decode_sheet(problem, y, None, qgt.Certified(), calibrate=0.5)
    assert sheet.fit is not None and sheet.fit.words.startswith("The results fit the model: ")
    assert abs(sheet.fit.expected - 0.6) < 0.1  # 12 pools, 5 % wrong
