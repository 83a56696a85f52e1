"""When an answer is sure enough: a search that was stopped says nothing of the answers that it did not list."""

import math
from functools import partial

import pytest
import torch
from torch import Tensor

from qgt import Answers, Bernoulli, Categories, Certified, Decoded, Design, Problem, SparseInteger, Status
from qgt.decoders.certified import decoder
from qgt.decoders.certified.search import SearchOptions
from qgt.lab.answers.decoding import ByLongerLists, decode_history
from qgt.lab.verdicts import Call
from qgt.rounds.history import History
from qgt.rounds.stopping import COARSE_ODDS, Settle


def lacks(answers: Answers, others: Answers) -> Tensor:
    """Of each instance, whether the second list has an answer that the first one lacks."""
    found = []
    for i in range(len(others.spans)):
        own = {tuple(x) for x in answers.of_instance(i).x.tolist()}
        found.append(any(tuple(x) not in own for x in others.of_instance(i).x.tolist()))
    return torch.tensor(found)


@pytest.mark.parametrize("prior, most_bytes", [(Bernoulli(0.05), 5e4), (Categories((0.04, 0.04)), 3e4)])
def test_a_list_that_was_stopped_clears_nobody(
    prior: Bernoulli | Categories, most_bytes: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The best answer may be proved before the answers that come close are found. A limit of memory stops a search
    # like a limit of time, and always at the same place.
    g = torch.Generator().manual_seed(0)
    design = Design.bernoulli(pools=10, items=40, generator=g)
    problem = Problem(design, prior, SparseInteger(rate=0.1, bound=1))
    y = problem.simulate(8, generator=g).y
    whole = Certified(odds=COARSE_ODDS, certificates=False).bind(problem)(y).evidence.alternatives
    monkeypatch.setattr(decoder, "SearchOptions", partial(SearchOptions, most_bytes=most_bytes))
    if isinstance(prior, Categories):
        monkeypatch.setattr(decoder, "Certified", partial(Certified, memory=most_bytes / 1e9))
        monkeypatch.setattr(decoder, "SearchOptions", SearchOptions)
    way = ByLongerLists(Settle(confidence=0.99), torch.Generator().manual_seed(0))
    sheet = decode_history(problem, [History.start(problem, row) for row in y], None, way)
    _says_nothing_of(sheet.result, short := lacks(sheet.result.evidence.alternatives, whole))
    for stopped, account in zip(short.tolist(), sheet.accounts, strict=True):
        assert not stopped or not account.called(Call.NEGATIVE)


def _says_nothing_of(result: Decoded, short: Tensor) -> None:
    """Some lists are short though their answer is proved, and no probability is told of them."""
    evidence = result.evidence
    assert bool((short & (result.status == Status.PROVED)).any())
    assert bool(evidence.confidence[short].isnan().all()) and bool(evidence.marginals[short].isnan().all())


def test_a_doubtful_answer_still_has_its_probabilities() -> None:
    design = Design.from_rows(["1100", "0011"])
    problem = Problem(design, Bernoulli(0.1))
    y = torch.tensor([1.0, 0.0], dtype=torch.float64)
    evidence = Settle(confidence=0.99)([History.start(problem, y)]).evidence
    assert evidence.complete.tolist() == [False] and math.isclose(float(evidence.confidence[0]), 0.5, abs_tol=0.05)
    assert float(evidence.marginals[0, 2]) < 0.01
