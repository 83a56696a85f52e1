"""When the answer to an instance is sure enough to stop, whatever rounds it had.

`Calibrated` learns by simulating one problem. Here every instance has a problem of its own, so the chance that the
truth is not listed is not learned but bounded away by longer lists, of all answers that are more than 1/odds as
probable, with

    odds = 30 / (1 - confidence).

An instance whose answer turns out not to be sure needs no such list: from then on only answers that are more than
1/coarse_odds as probable are searched for to the end. What such a list lacks is small, and taken as

    unlisted = weight of the answers listed in its last factor of ten  +  3 / odds

of the weight listed. Each further factor of ten holds about half the weight of the one before (N = 100, M = 21: 0.0025,
then 0.0014), so all of them together about what the last one holds; the second term is for lists that end before it.
`benchmarks/follow_up.py` measures what the confidence is worth when tests stop by it.

The fit is a p-value over all rounds: how often counts drawn around the answer are as far from it, and answers as
unusual before any count. The pools of later rounds depend on earlier counts, but their errors do not.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float64
from torch import Generator, Tensor

from qgt.arguments import fraction, positive
from qgt.decoders.certified.decoder import CertifiedUntilDoubtful
from qgt.decoders.loads.posterior import LoadPosterior
from qgt.decoders.results import Answers, Decoded, Status
from qgt.rounds.history import History, decode_histories
from qgt.trust.confidence import prior_rates, with_values
from qgt.trust.fit import both, misfit, share_above

COARSE_ODDS = 100.0  # of the first lists
LAST_ANSWERS, BEYOND = 10.0, 3.0  # the factor that the last answers lie in; how many of the least ones may lie beyond
SIMULATED_COUNTS = 10_000  # counts drawn for a fit


@dataclass(frozen=True)
class Settle:
    """Decodes histories, and says how sure each answer is.

    `time_limit` is in seconds for each instance. The evidence is that of `Certified`, with a confidence that leaves
    room for answers that are not listed; it is NaN where time ran out before a list was there.

    Example:
        >>> import torch, qgt
        >>> g = torch.Generator().manual_seed(0)
        >>> design = qgt.Design.bernoulli(pools=30, items=100, generator=g)
        >>> problem = qgt.Problem(design, qgt.Bernoulli(0.06), qgt.SparseInteger(0.1, 1))
        >>> x, y = problem.simulate(3, generator=g)
        >>> result = Settle(confidence=0.999)([History.start(problem, row) for row in y])
        >>> bool((result.x == x).all()), bool((result.evidence.confidence >= 0.999).all())
        (True, True)
    """

    confidence: float = 0.999
    time_limit: float = 10.0
    coarse_odds: float = COARSE_ODDS  # odds of the lists of instances that are not sure

    def __post_init__(self) -> None:
        object.__setattr__(self, "confidence", fraction("confidence", self.confidence))
        object.__setattr__(self, "time_limit", positive("time_limit", self.time_limit))
        object.__setattr__(self, "coarse_odds", positive("coarse_odds", self.coarse_odds))
        if not 0.5 <= self.confidence <= 0.999999:
            raise ValueError(f"confidence={self.confidence} is not valid: give a number from 0.5 to 0.999999.")

    @property
    def odds(self) -> float:
        """Of the lists of instances that look sure."""
        return max(self.coarse_odds, 30 / (1 - self.confidence))

    def __call__(self, histories: Sequence[History]) -> Decoded:
        """Decode: with long lists where answers are sure, and short ones where they turn out not to be.

        Answers about loads have probabilities that leave room for what is not listed: those stay as they are.
        """
        if histories and histories[0].problem.loads is not None:
            return decode_histories(histories, LoadPosterior(odds=self.odds))
        certified = CertifiedUntilDoubtful(
            self.odds, self.time_limit, stop_confidence=self.confidence, coarse_odds=self.coarse_odds
        )
        result = decode_histories(histories, certified)
        evidence, answers = result.evidence, result.evidence.alternatives
        assert answers is not None and evidence.complete is not None and evidence.confidence is not None
        doubtful = (result.status == Status.PROVED) & (evidence.confidence < self.confidence)
        room = 1 - torch.where(evidence.complete, unlisted(answers, self.odds), unlisted(answers, self.coarse_odds))
        confidence = torch.where(evidence.complete | doubtful, evidence.confidence * room, torch.nan)
        listed = Answers(answers.spans, answers.x, answers.log_joint, answers.probability * room[answers.spans.owner])
        known = torch.where((evidence.complete | doubtful)[:, None], _marginals(histories, listed), torch.nan)
        found = replace(evidence, confidence=confidence, alternatives=listed, marginals=known)
        return replace(result, evidence=with_values(histories[0].problem, result, found) if histories else found)


def _marginals(histories: Sequence[History], listed: Answers) -> Float64[Tensor, "instances items"]:
    """The probability that each item is defective; where no listed answer is right, what the prior says."""
    known, rest = listed.marginals(), (1 - listed.listed()).clamp(min=0.0)
    rates = prior_rates(histories[0].problem) if histories else None
    return (known + rest[:, None] * (1.0 if rates is None else rates)).clamp(max=1.0)


def unlisted(answers: Answers, odds: float) -> Float64[Tensor, " instances"]:
    """The chance that the truth is not listed, from how the listed weight thins out.

    Example:
        >>> import torch, qgt
        >>> x, spans = torch.zeros(2, 3, dtype=torch.uint8), qgt.Spans(torch.tensor([2]))
        >>> weight = torch.tensor([0.95, 0.05], dtype=torch.float64)
        >>> unlisted(Answers(spans, x, weight.log(), weight), odds=100.0), unlisted(Answers(spans, x, weight.log(), weight), odds=1e4)
        (tensor([0.0800], dtype=torch.float64), tensor([0.0003], dtype=torch.float64))
    """  # noqa: E501 - an example's line
    owner, instances = answers.spans.owner, len(answers.spans)
    best = torch.full((instances,), -torch.inf, dtype=torch.float64, device=owner.device)
    best = best.scatter_reduce(0, owner, answers.log_joint, "amax")
    last = answers.log_joint < best[owner] - math.log(odds / LAST_ANSWERS)
    share = torch.zeros_like(best).index_add_(0, owner, answers.probability * last)
    return (share + BEYOND / odds).clamp(max=1.0)


def history_fit(history: History, x: Tensor, *, generator: Generator) -> float:
    """How often counts of the model are as far from their answer as these, and answers as unusual.

    The answer x has a status for each item, or an amount where items have loads.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"] * 4), qgt.Bernoulli(0.1), qgt.SparseInteger(0.1, 1))
        >>> x, g = torch.tensor([0, 1, 0], dtype=torch.uint8), torch.Generator().manual_seed(0)
        >>> history_fit(History.start(problem, torch.ones(8, dtype=torch.float64)), x, generator=g) > 0.1
        True
        >>> history_fit(History.start(problem, torch.tensor([2.0, 0.0] * 4).double()), x, generator=g) < 1e-4
        True
    """  # noqa: E501 - an example's line
    problem, y = history.problem, history.y
    totals = problem.totals(x[None])
    drawn = problem.reports(totals.expand(SIMULATED_COUNTS, *totals.shape[1:]), generator=generator)
    drawn = torch.where(y.isnan(), torch.nan, drawn)
    here, there = misfit(problem, y[None], x[None]), misfit(problem, drawn, x.expand(SIMULATED_COUNTS, -1))
    truths = problem.prior.sample(SIMULATED_COUNTS, problem.items, generator=generator)
    unusual = misfit(problem, drawn[:1].expand_as(drawn), truths).prior.sort().values
    return float(both(share_above(there.noise.sort().values, here.noise), share_above(unusual, here.prior))[0])
