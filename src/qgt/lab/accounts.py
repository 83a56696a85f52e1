"""Accounts: everything a person wants to know of one decoded instance, computed once.

The command, its reports and any page show the same `Account` in different clothes, so they cannot disagree. An account
never makes an all-clear of a failure: items that the decoder could not decide are `undecided`, not free of defects.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from qgt.decoders.results import Answers, Decoded, Status
from qgt.lab import reported, wording
from qgt.lab.verdicts import Verdict, verdict
from qgt.lab.wording import Alternative, Residual
from qgt.model.factors import pool_costs
from qgt.model.noise import Noiseless
from qgt.model.problem import Problem
from qgt.model.reports import usual_reports
from qgt.trust.rescue import Rescue

NOTHING = "Time ran out before any possible answer was found, so no item is called. Decode again with more time."


@dataclass(frozen=True)
class Account:
    """One decoded instance.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.05))
        >>> y = torch.tensor([[1.0, 1.0]], dtype=torch.float64)
        >>> (account,) = qgt.accounts(problem, y, ["plate 7"], qgt.Certified().bind(problem)(y))
        >>> account.name, str(account.verdict), account.defective, account.retests
        ('plate 7', 'confident', ('I2',), ('I1', 'I2', 'I3'))
    """

    name: str
    verdict: Verdict
    status: Status
    confidence: float | None  # the answer's probability; None where it is not known
    at_most: float | None  # a bound on it, where the list of answers is incomplete
    fit: float | None  # p-value of the counts' fit to the model; None where it is not known
    proved_by: str | None  # "certified" or "highs"; None where nothing is, or other decoders were at work
    defective: tuple[str, ...]  # items that are called
    undecided: tuple[str, ...]  # items about which nothing is said
    residuals: tuple[Residual, ...]  # pools whose count is not what the calls add up to
    alternatives: tuple[Alternative, ...]  # other answers, the most probable first
    retests: tuple[str, ...]  # items on which the answers differ, the most doubtful first
    words: str

    @property
    def plain(self) -> dict[str, object]:
        """The account as plain data, for JSON."""
        return {
            "instance": self.name,
            "verdict": self.verdict.value,
            "status": self.status.name,
            "confidence": _rounded(self.confidence),
            "confidence_at_most": _rounded(self.at_most),
            "fit": self.fit,
            "proved_by": self.proved_by,
            "defective": list(self.defective),
            "undecided": list(self.undecided),
            "residuals": [one._asdict() for one in self.residuals],
            "alternatives": [
                {"probability": _rounded(one.probability), "added": list(one.added), "dropped": list(one.dropped)}
                for one in self.alternatives
            ],
            "retests": list(self.retests),
            "words": self.words,
        }


def accounts(
    problem: Problem,
    y: Float64[Tensor, "instances pools"],
    names: Sequence[str] | None,
    result: Decoded,
    *,
    rescues: Mapping[int, Rescue] | None = None,
    file_fits: bool = True,
) -> list[Account]:
    """The account of every instance of a decoded batch.

    Args:
        problem: What was decoded.
        y: Its counts.
        names: The instances' names; None numbers them from 1.
        result: What the decoder returned for these counts.
        rescues: For impossible instances, by number from 0: which of their counts must be wrong.
        file_fits: Whether the file as a whole fits the model; where it does not, no answer of it is trusted.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.05))
        >>> y = torch.tensor([[1.0, 1.0], [0.0, 2.0]], dtype=torch.float64)
        >>> made = accounts(problem, y, None, qgt.Certified().bind(problem)(y))
        >>> print(made[0].words.replace(". ", ".\\n"))
        Defective: I2 (1 of 3 items).
        The probability of this answer is 95 %.
        All 2 counts agree with this answer exactly.
        The other answer: I1 and I3 instead of I2 (5 %).
        To settle it, retest the items on which the answers differ, the most doubtful first: I1, I2 and I3.
        >>> str(made[1].verdict), made[1].defective, made[1].undecided
        ('impossible', (), ('I1', 'I2', 'I3'))
    """
    names = numbers(len(y)) if names is None else names
    if not len(names) == len(y) == len(result.x):
        raise ValueError(f"{len(names)} names, {len(y)} rows of y and {len(result.x)} results: give one of each.")
    sizes = problem.design.pool_sizes.to(result.x.device, torch.float64)
    expected = usual_reports(problem.noise, problem.design.count(result.x), sizes)  # (instances, pools)
    off = (y != expected) & ~y.isnan()  # a count that is missing fits anything
    undecided = _undecided(result)  # (instances, items)
    listed = _listed(problem, result)
    return [
        _account(
            problem,
            _Instance(name, i, y[i], expected[i], off[i], undecided[i], others, (rescues or {}).get(i), file_fits),
            result,
        )
        for i, (name, others) in enumerate(zip(names, listed, strict=True))
    ]


def numbers(instances: int) -> list[str]:
    """The names of instances that have none: 1, 2, ..."""
    return [str(number) for number in range(1, instances + 1)]


def tally(made: Sequence[Account], right: Sequence[bool]) -> dict[Verdict, tuple[int, int]]:
    """For each verdict that occurs, surest first: how many instances have it, and how many of them are right.

    Args:
        made: Accounts of simulated instances.
        right: Whether the calls of each are the truth.
    """
    pairs = list(zip((one.verdict for one in made), right, strict=True))
    each = {word: [fine for own, fine in pairs if own is word] for word in reversed(Verdict)}
    return {word: (len(fine), sum(fine)) for word, fine in each.items() if fine}


@dataclass(frozen=True, eq=False)
class _Instance:
    """What was found for all instances together, for one of them."""

    name: str
    number: int
    y: Tensor  # (pools,)
    expected: Tensor  # (pools,)
    off: Tensor  # (pools,), bool
    undecided: Tensor  # (items,), bool
    alternatives: tuple[Alternative, ...]
    rescue: Rescue | None
    file_fits: bool


def _account(problem: Problem, one: _Instance, result: Decoded) -> Account:
    i, evidence = one.number, result.evidence
    status = Status(int(result.status[i]))
    whole = None if evidence.complete is None else bool(evidence.complete[i])  # None where no answers are listed
    nothing = bool(one.undecided.all())
    known = None if nothing or status == Status.INFEASIBLE else _number(evidence.confidence, i)
    confidence, at_most = (None, known) if whole is False else (known, None)
    fit = _number(evidence.fit, i)
    word = verdict(status, confidence, fit if one.file_fits else 0.0)
    # What a rescue found holds only if just those counts are wrong: it stands in the words, never in the calls.
    defective = _names(problem, (result.x[i] > 0) & ~one.undecided)
    residuals = () if nothing or word is Verdict.IMPOSSIBLE else _residuals(problem, one)
    retests = () if nothing else _retests(problem, result, i)
    counted = int((~one.y.isnan()).sum())
    made = Account(
        name=one.name,
        verdict=word,
        status=status,
        confidence=confidence,
        at_most=at_most,
        fit=fit,
        proved_by=result.proved_by(i),
        defective=defective,
        undecided=_names(problem, one.undecided),
        residuals=residuals,
        alternatives=one.alternatives,
        retests=retests,
        words="",
    )
    if word is Verdict.IMPOSSIBLE:
        return replace(made, words=_why_impossible(problem, one))
    if nothing:
        return replace(made, words=NOTHING)
    words = _in_words(problem, made, counted, listed_all=whole is True, file_fits=one.file_fits)
    return replace(made, words=words)


def _in_words(problem: Problem, made: Account, counted: int, *, listed_all: bool, file_fits: bool) -> str:
    """A possible answer in two to seven sentences."""
    word, status, proved, noise = made.verdict, made.status, made.status == Status.PROVED, problem.noise
    sentences = (
        wording.called(made.defective, problem.items, trusted=word in (Verdict.CERTAIN, Verdict.CONFIDENT)),
        wording.standing(status, word, made.confidence, made.at_most, alone=listed_all and not made.alternatives),
        wording.proved_elsewhere(made.proved_by, word),
        wording.misfit(made.fit, word, file_fits=file_fits),
        wording.explained(made.residuals, counted, whole=reported.exact(noise), noun=reported.noun(noise)),
        wording.others(made.alternatives),
        wording.unlisted(made.confidence, made.alternatives, fits=not made.residuals) if proved else "",
        wording.advice(word, status, made.retests),
    )
    return " ".join(sentence for sentence in sentences if sentence)


def _undecided(result: Decoded) -> Bool[Tensor, "instances items"]:
    """Items about which an instance's result says nothing.

    All of an impossible instance, unless the evidence names those that are unsettled, and all where the search found
    no possible answer in its time: the calls are zeros then, which must not be read as an all-clear.
    """
    evidence, failed = result.evidence, result.status == Status.INFEASIBLE
    late = result.status == Status.TIME_LIMIT
    empty = torch.zeros_like(late)
    if evidence.confidence is not None:
        empty |= evidence.confidence == 0
    if evidence.log_joint is not None:
        empty |= evidence.log_joint == -torch.inf
    undecided = (failed | (late & empty))[:, None].expand_as(result.x)
    if evidence.unsettled is None:
        return undecided
    named = failed & evidence.unsettled.any(1)
    return torch.where(named[:, None], evidence.unsettled, undecided)


def _listed(problem: Problem, result: Decoded) -> Iterator[tuple[Alternative, ...]]:
    """The other answers listed for each instance, most probable first; none where the decoder lists none."""
    answers, complete = result.evidence.alternatives, result.evidence.complete
    if answers is None:
        yield from ((),) * len(result.x)
        return
    start = 0
    for i, end in enumerate(answers.spans.ends.tolist()):
        known = complete is None or bool(complete[i])
        yield tuple(_differing(problem, result.x[i], answers, slice(start, end), known))
        start = end


def _differing(problem: Problem, own: Tensor, answers: Answers, rows: slice, known: bool) -> Iterator[Alternative]:
    names = problem.design.item_names
    for x, probability in zip(answers.x[rows], answers.probability[rows].tolist(), strict=True):
        changed = (x != own).nonzero().flatten().tolist()
        added = tuple(names[j] for j in changed if x[j])
        dropped = tuple(names[j] for j in changed if not x[j])
        if changed:
            yield Alternative(probability if known else None, added, dropped)


def _residuals(problem: Problem, one: _Instance) -> tuple[Residual, ...]:
    where = one.off.nonzero().flatten().tolist()
    return tuple(reported.residual(problem, i, float(one.y[i]), float(one.expected[i])) for i in where)


def _retests(problem: Problem, result: Decoded, i: int) -> tuple[str, ...]:
    if result.evidence.unsettled is None:
        return ()
    items = result.evidence.unsettled[i].nonzero().flatten().tolist()
    if result.scores is not None:
        doubt = (result.scores[i] - 0.5).abs().round(decimals=9).tolist()  # equal doubts keep the items' order
        items.sort(key=lambda j: doubt[j])
    return tuple(problem.design.item_names[j] for j in items)


def _why_impossible(problem: Problem, one: _Instance) -> str:
    """Which counts are impossible by themselves; where none is, which contradict the others."""
    y, rescue = one.y, one.rescue
    sizes = problem.design.pool_sizes
    possible = pool_costs(problem.design, problem.noise, y[None]).possible(sizes)[0].tolist()
    rows = zip(problem.design.pool_names, y.tolist(), sizes.tolist(), possible, strict=True)
    broken = [(name, count, size) for name, count, size, fine in rows if not fine]
    if broken and (odd := reported.mistaken(problem.noise, y, sizes)):
        return f"{wording.UNEXPLAINED} {odd}"
    if broken and (remedy := reported.allowed(problem.noise)):
        return wording.no_report(broken, problem.pools, remedy)
    fractions = [row for row in broken if not row[1].is_integer()] if problem.noise.integer else []
    exact = isinstance(problem.noise, Noiseless)
    why = wording.impossible(fractions or broken, problem.pools, fractions=bool(fractions), exact=exact)
    if rescue is None or fractions or not rescue.wrong:
        return why
    likely = None if bool(rescue.undecided.any()) else _names(problem, rescue.x > 0)
    return f"{why} {wording.rescued(rescue.wrong, likely, problem.items)}"


def _names(problem: Problem, items: Tensor) -> tuple[str, ...]:
    return tuple(problem.design.item_names[j] for j in items.nonzero().flatten().tolist())


def _number(values: Tensor | None, i: int) -> float | None:
    """An instance's value, None where it is not known."""
    value = None if values is None else float(values[i])
    return None if value is None or value != value else value


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
