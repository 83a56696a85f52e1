"""A decode in plain words: what is called, whether it is proved, how sure it is, what does not fit, what to retest.

A verdict is one of four words:

    proved      the most probable answer, proved; every other that comes near is listed; confidence 99 % or more
    confident   the most probable answer, proved; confidence 90 % or more
    unsure      anything else that is possible, a search that ran out of time included
    impossible  no x explains the counts

Confidence is the answer's weight among the answers listed (`qgt.Certified`). Decoders that list none get words too,
and never more than "unsure": they say what is called, not how far to trust it.
"""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float64, UInt8
from torch import Tensor

from qgt.decoders.results import Decoded, Status
from qgt.model.factors import pool_costs
from qgt.model.problem import Problem

Verdict = Literal["proved", "confident", "unsure", "impossible"]

PROVED_FROM, CONFIDENT_FROM = 0.99, 0.9
SHOWN = 3  # alternatives told in words, before "and others"
RETESTED = 6  # items named for a retest


class Residual(NamedTuple):
    """A pool whose count is not what the calls add up to."""

    pool: str
    counted: float
    expected: float

    @property
    def off(self) -> float:
        """By how much the count is too high."""
        return self.counted - self.expected


class Alternative(NamedTuple):
    """Another answer, by what it calls otherwise than the answer given."""

    probability: float
    added: tuple[str, ...]
    dropped: tuple[str, ...]

    @classmethod
    def of(cls, problem: Problem, own: Tensor, x: Tensor, probability: float) -> "Alternative":
        """What `x` calls otherwise than `own`."""
        added, dropped = (
            tuple(problem.design.item_names[j] for j in mask.nonzero().flatten().tolist())
            for mask in (x > own, x < own)
        )
        return cls(probability, added, dropped)

    @property
    def change(self) -> str:
        """The difference in words.

        Example:
            >>> Alternative(0.1, ("I7",), ("I2", "I9")).change
            'I7 instead of I2 and I9'
        """
        if self.added and self.dropped:
            return f"{joined(self.added)} instead of {joined(self.dropped)}"
        return f"also {joined(self.added)}" if self.added else f"without {joined(self.dropped)}"


def verdict(status: int, confidence: float, complete: bool) -> Verdict:
    """How far to trust one decode, in one word.

    Example:
        >>> verdict(Status.PROVED, 0.97, complete=True), verdict(Status.TIME_LIMIT, 0.97, complete=False)
        ('confident', 'unsure')
    """
    if status == Status.INFEASIBLE:
        return "impossible"
    if status != Status.PROVED or not confidence >= CONFIDENT_FROM:  # a confidence that is not known is NaN
        return "unsure"
    return "proved" if complete and confidence >= PROVED_FROM else "confident"


def verdicts(result: Decoded) -> list[Verdict]:
    """The verdict of every instance of a batch.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.05))
        >>> verdicts(qgt.Certified().bind(problem)(torch.tensor([[1.0, 1.0], [0.0, 2.0]])))
        ['confident', 'impossible']
    """
    return [verdict_of(result, i) for i in range(len(result.status))]


def verdict_of(result: Decoded, i: int) -> Verdict:
    """The verdict of one instance of a batch."""
    return verdict(*_known(result, i))


def in_words(problem: Problem, y: Float64[Tensor, " pools"], result: Decoded, i: int) -> str:
    """Instance `i` of a decoded batch, whose counts are `y`, in two to six plain sentences.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.05))
        >>> y = torch.tensor([[1.0, 1.0]], dtype=torch.float64)
        >>> print(in_words(problem, y[0], qgt.Certified().bind(problem)(y), 0).replace(". ", ".\\n"))
        Defective: I2 (1 of 3 items).
        This is proved to be the most probable answer, with a confidence of 95 %.
        All 2 counts are explained exactly.
        The alternative: I1 and I3 instead of I2 (5 %).
        To settle it, retest the items on which the answers differ, the most doubtful first: I1, I2 and I3.
    """
    status, confidence, complete = _known(result, i)
    if status == Status.INFEASIBLE:
        return _why_impossible(problem, y)
    others = alternatives(problem, result, i)
    if status == Status.TIME_LIMIT and not others and confidence == 0:
        return "Time ran out before any possible answer was found. Decode again with more time."
    sentences = [
        _calls(problem, result.x[i]),
        _standing(status, confidence, complete, alone=not others),
        _fit(problem, y, result.x[i]),
        _alternatives(others),
        _advice(problem, result, i),
    ]
    return " ".join(sentence for sentence in sentences if sentence)


def residuals(problem: Problem, y: Float64[Tensor, " pools"], x: UInt8[Tensor, " items"]) -> list[Residual]:
    """The pools whose count is not what the calls `x` add up to."""
    expected = problem.design.count(x[None])[0]
    rows = zip(problem.design.pool_names, y.tolist(), expected.tolist(), strict=True)
    return [Residual(*row) for row in rows if row[1] != row[2]]


def alternatives(problem: Problem, result: Decoded, i: int) -> list[Alternative]:
    """The other answers listed for an instance, most probable first; none where the decoder lists none."""
    if result.evidence.alternatives is None:
        return []
    listed, own = result.evidence.alternatives.of_instance(i), result.x[i]
    found = zip(listed.x, listed.probability.tolist(), strict=True)
    return [Alternative.of(problem, own, x, probability) for x, probability in found if not torch.equal(x, own)]


def to_retest(problem: Problem, result: Decoded, i: int) -> list[str]:
    """The items on which the answers listed differ, the most doubtful first."""
    if result.evidence.unsettled is None:
        return []
    items = result.evidence.unsettled[i].nonzero().flatten().tolist()
    if result.scores is not None:
        doubt = (result.scores[i] - 0.5).abs().round(decimals=9).tolist()  # equal doubts keep the items' order
        items.sort(key=lambda j: doubt[j])
    return [problem.design.item_names[j] for j in items]


def percent(probability: float) -> str:
    """A probability in whole per cent, rounded down, so that no figure shows a limit as reached that is not.

    Near 0 and 1 it says no more than a list of answers that leaves out the least probable ones can know.

    Example:
        >>> percent(0.8999), percent(0.999), percent(0.002)
        ('89 %', 'over 99 %', 'under 1 %')
    """
    if math.isnan(probability):
        return "unknown"
    if probability >= 0.995:
        return "over 99 %"
    whole = math.floor(100 * probability + 1e-9)
    return f"{whole} %" if whole else "under 1 %"


def joined(names: Sequence[str], most: int | None = None) -> str:
    """Names as one phrase: commas, and a last "and"; beyond `most`, how many others there are.

    Example:
        >>> joined(["a", "b", "c"]), joined(["a", "b", "c"], most=1)
        ('a, b and c', 'a and 2 others')
    """
    if most is not None and len(names) > most:
        left = len(names) - most
        names = [*names[:most], f"{left} other{'s' if left > 1 else ''}"]
    return " and ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)


def _known(result: Decoded, i: int) -> tuple[int, float, bool]:
    """An instance's status, its confidence (NaN where the decoder tells none) and whether its list is complete."""
    evidence = result.evidence
    confidence = math.nan if evidence.confidence is None else float(evidence.confidence[i])
    complete = False if evidence.complete is None else bool(evidence.complete[i])
    return int(result.status[i]), confidence, complete


def _calls(problem: Problem, x: Tensor) -> str:
    names = [problem.design.item_names[j] for j in x.nonzero().flatten().tolist()]
    if not names:
        return f"None of the {problem.items} items is defective."
    return f"Defective: {joined(names)} ({len(names)} of {problem.items} items)."


def _standing(status: int, confidence: float, complete: bool, alone: bool) -> str:
    """What is proved of the answer, and the confidence in it."""
    known = "" if math.isnan(confidence) else f", with a confidence of {'' if complete else 'at most '}"
    known += "" if math.isnan(confidence) else percent(confidence)
    if status == Status.PROVED:
        if complete and alone:
            return f"This is proved to be the most probable answer, and no other comes near it: {percent(confidence)}."
        return f"This is proved to be the most probable answer{known or '; how probable it is was not computed'}."
    if status == Status.TIME_LIMIT:
        return f"Time ran out before a proof: this is the best answer found so far{known}."
    return f"Nothing is proved: {Status(status).meaning}."


def _fit(problem: Problem, y: Tensor, x: Tensor) -> str:
    """Which counts the calls do not explain."""
    off = residuals(problem, y, x)
    if not off:
        return f"All {problem.pools} counts are explained exactly."
    told = [f"{one.pool} (counted {one.counted:g}, expected {one.expected:g})" for one in off]
    rest = problem.pools - len(off)
    fitting = f"; the other {rest} fit exactly" if rest else ""
    return f"It takes {len(off)} of {problem.pools} counts to be off: {joined(told, most=RETESTED)}{fitting}."


def _alternatives(others: Sequence[Alternative]) -> str:
    if not others:
        return ""
    told = [f"{one.change} ({percent(one.probability)})" for one in others[:SHOWN]]
    left = others[SHOWN:]
    more = f"; and {len(left)} more, together {percent(sum(one.probability for one in left))}" if left else ""
    return f"The alternative{'s' if len(others) > 1 else ''}: {'; '.join(told)}{more}."


def _advice(problem: Problem, result: Decoded, i: int) -> str:
    """What to do next."""
    word, items = verdict_of(result, i), to_retest(problem, result, i)
    if word == "proved":
        return "Nothing needs a retest."
    if not items:
        return "Decode again with more time." if int(result.status[i]) == Status.TIME_LIMIT else ""
    if len(items) == 1:
        return f"To settle it, retest {items[0]}, the one item on which the answers differ."
    which = "the items on which the answers differ, the most doubtful first"
    return f"To settle it, retest {which}: {joined(items, most=RETESTED)}."


def _why_impossible(problem: Problem, y: Tensor) -> str:
    """Name the pools whose count is impossible by itself; where there are none, pools contradict each other."""
    sizes = problem.design.pool_sizes
    possible = pool_costs(problem.design, problem.noise, y[None]).possible(sizes)[0].tolist()
    rows = zip(problem.design.pool_names, y.tolist(), sizes.tolist(), possible, strict=True)
    alone = [f"{name} (counted {count:g}, of {size} items)" for name, count, size, fine in rows if not fine]
    start = "Impossible: no set of defective items explains these counts, so a count or the design is wrong."
    if alone:
        return f"{start} Impossible whatever the others say: {joined(alone, most=RETESTED)}. Count there again."
    return f"{start} Each count by itself is possible, but together they contradict each other."
