"""Accounts: everything a person wants to know of one decoded instance, computed once.

The command, its reports and any page show the same `Account`, so they cannot disagree. An account never makes an
all-clear of a failure: a sample is called negative only where its probability is low enough (`verdicts.call`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float64, UInt8
from torch import Tensor

from qgt.decoders.results import Answers, Decoded, Status
from qgt.lab import reported, wording
from qgt.lab.plan.loads import not_covered
from qgt.lab.verdicts import Call, Verdict, call, verdict
from qgt.lab.wording import Alternative, More, Residual
from qgt.model.categories import Categories, Copies
from qgt.model.factors import pool_costs
from qgt.model.noise import Noiseless, usual_reports
from qgt.model.problem import Counts, Problem
from qgt.trust.confidence import prior_rates, with_values
from qgt.trust.diagnosis import Rescue
from qgt.trust.fit import off_reports

OUT_OF_TIME = "Time ran out before any possible answer was found, so no sample is called. Decode again with more time."
MOST_ALTERNATIVES = 100  # of an instance that an account names; a report of 15,000 answers helps nobody


class SampleLoad(NamedTuple):
    """How much a sample has that the answer has as positive, if it is positive."""

    amount: float
    low: float  # the amount is between these two with a probability of 90 %
    high: float
    alone: float | None  # the cycle threshold of the sample tested alone; None where pools report no cycles

    @property
    def words(self) -> str:
        """The load as a person reads it."""
        low, amount, high = (wording.amount_words(value) for value in (self.low, self.amount, self.high))
        about = f"{amount} ({low} to {high})"
        return about if self.alone is None else f"{about}, Ct {self.alone:.1f} alone"

    @property
    def cells(self) -> tuple[float | None, ...]:
        """The load as cells of a table: three digits of amounts, hundredths of cycles."""
        amounts = (float(f"{value:.3g}") for value in (self.amount, self.low, self.high))
        return (*amounts, None if self.alone is None else round(self.alone, 2))


class SampleValue(NamedTuple):
    """Which number of copies or which category a sample has."""

    label: str  # as people say it; empty where the sample is not called
    cell: str  # as a table of calls has it; empty where the sample is not called
    probabilities: tuple[tuple[str, float], ...] | None  # of each value, 0 first; None where they are not known

    @property
    def plain(self) -> dict[str, object]:
        """As plain data, for JSON."""
        known = None if self.probabilities is None else {name: round(p, 6) for name, p in self.probabilities}
        return {"called": self.label or None, "probabilities": known}


class SampleCall(NamedTuple):
    """What is called of one sample."""

    sample: str
    call: Call
    probability: float | None  # that it is positive; None where it is not known
    load: SampleLoad | None = None  # where samples have loads, and the answer has this one as positive
    value: SampleValue | None = None  # where samples have copies or categories

    @property
    def named(self) -> str:
        """The sample, with its number of copies or its category where it is called positive."""
        return valued(self.sample, self.value.label if self.value is not None and self.call is Call.POSITIVE else "")

    @property
    def cell(self) -> str:
        """The cell of a table of calls: 1, 0, copies or a category, or empty where nothing is decided."""
        return self.call.cell if self.value is None else self.value.cell

    @property
    def words(self) -> str:
        """The call as a person reads it, with the number of copies or the category."""
        return (self.value.label if self.value is not None else "") or self.call.words

    @property
    def doubt(self) -> float | None:
        """How far the probability of being positive, or of the likeliest value, is from one half."""
        if self.value is not None and self.value.probabilities is not None:
            return abs(max(probability for _, probability in self.value.probabilities) - 0.5)
        return None if self.probability is None else abs(self.probability - 0.5)


def valued(sample: str, label: str) -> str:
    """A sample with its number of copies or its category.

    Example:
        >>> valued("S1", "variant A"), valued("S1", "")
        ('S1 (variant A)', 'S1')
    """
    return f"{sample} ({label})" if label else sample


@dataclass(frozen=True)
class Account:
    """One decoded instance.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.05))
        >>> y = torch.tensor([[1.0, 1.0]], dtype=torch.float64)
        >>> (account,) = qgt.accounts(problem, y, ["plate 7"], qgt.Certified().bind(problem)(y))
        >>> account.name, str(account.verdict), account.answer, account.positives, account.retests
        ('plate 7', 'confident', ('I2',), ('I2',), ('I1', 'I3'))
    """

    name: str
    verdict: Verdict
    status: Status
    confidence: float | None  # the answer's probability; None where it is not known
    at_most: float | None  # a bound on it, where the list of answers is incomplete
    fit: float | None  # p-value of the counts' fit to the model; None where it is not known
    answer: tuple[str, ...]  # the positive samples of the best answer, with copies or categories: whatever it is worth
    calls: tuple[SampleCall, ...]  # every sample's call, in the design's order
    residuals: tuple[Residual, ...]  # pools whose count is not what the calls add up to
    alternatives: tuple[Alternative, ...]  # other answers, the most probable first: at most `MOST_ALTERNATIVES`
    more: More  # how many answers are listed beyond those
    words: str

    @property
    def positives(self) -> tuple[str, ...]:
        """The samples that are called positive."""
        return self.called(Call.POSITIVE)

    @property
    def named_positives(self) -> tuple[str, ...]:
        """The samples that are called positive, with their numbers of copies or categories."""
        return tuple(one.named for one in self.calls if one.call is Call.POSITIVE)

    @property
    def retests(self) -> tuple[str, ...]:
        """The samples to test again, the most doubtful first."""
        doubt = {one.sample: one.doubt for one in self.calls if one.doubt is not None}
        order = sorted(self.called(Call.RETEST), key=lambda sample: round(doubt.get(sample, 1.0), 9))
        return tuple(order)  # equal doubts keep the samples' order

    def called(self, word: Call) -> tuple[str, ...]:
        """The samples with a call."""
        return tuple(one.sample for one in self.calls if one.call is word)

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
            "answer": list(self.answer),
            "calls": {one.sample: one.call.value for one in self.calls},
            "probabilities": {one.sample: _rounded(one.probability) for one in self.calls},
            **({"loads": loads} if (loads := self._loads()) else {}),
            **({"values": values} if (values := self._values()) else {}),
            "residuals": [one.plain for one in self.residuals],
            "alternatives": [
                {"probability": _rounded(one.probability), "added": list(one.added), "dropped": list(one.dropped)}
                for one in self.alternatives
            ],
            "alternatives_left_out": self.more.number,
            "retests": list(self.retests),
            "words": self.words,
        }

    def _values(self) -> dict[str, dict[str, object]]:
        return {one.sample: one.value.plain for one in self.calls if one.value is not None}

    def _loads(self) -> dict[str, dict[str, float | None]]:
        return {
            one.sample: dict(zip(one.load._fields, one.load.cells, strict=True))
            for one in self.calls
            if one.load is not None
        }


def accounts(
    problem: Problem,
    y: Counts,
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
        Positive: I2 (1 of 3 samples).
        The probability of this answer is 95 %.
        All 2 counts agree with this answer exactly.
        The other answer: I1 and I3 instead of I2 (5 %).
        To settle it, retest the samples in doubt, the most doubtful first: I1 and I3.
        >>> str(made[1].verdict), [str(one.call) for one in made[1].calls]
        ('impossible', ['none', 'none', 'none'])
    """
    names = numbers(len(y)) if names is None else names
    if not len(names) == len(y) == len(result.x):
        raise ValueError(f"{len(names)} names, {len(y)} rows of y and {len(result.x)} results: give one of each.")
    instances = _instances(problem, y, names, result, rescues or {}, file_fits)
    return [_account(problem, one, result) for one in instances]


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
    """One instance's part of what was computed for all instances together."""

    name: str
    number: int
    y: Tensor  # (pools,), in parts where samples have copies or categories
    expected: Tensor  # (pools,)
    off: Tensor  # (pools,), bool
    probabilities: Tensor  # (items,): that each is defective; NaN where not known
    values: Tensor | None  # (items, values): of each number of copies or category
    nothing: bool  # no possible answer was found
    alternatives: tuple[Alternative, ...]
    more: More
    rescue: Rescue | None
    file_fits: bool


def _instances(
    problem: Problem, y: Tensor, names: Sequence[str], result: Decoded, rescues: Mapping[int, Rescue], file_fits: bool
) -> Iterator[_Instance]:
    # What pools report is held against the answer in parts: where they report categories, a pool for each of them.
    parts, values = problem.in_parts, problem.values
    x = result.values if values is None else values.to_parts(result.x)
    counts = y if values is None else values.part_reports(y)
    sizes = parts.design.pool_sizes.to(result.x.device, torch.float64)
    expected = usual_reports(parts.noise, parts.design.count(x), sizes)  # (instances, pools)
    off = off_reports(parts, counts, x)  # a count that is missing fits anything
    known = _probabilities(problem, result)  # (instances, items)
    each = _value_probabilities(problem, result, known)
    nothing, listed = _found_nothing(result), _listed(problem, result)
    for i, (name, (alternatives, more)) in enumerate(zip(names, listed, strict=True)):
        yield _Instance(
            name,
            i,
            y=counts[i],
            expected=expected[i],
            off=off[i],
            probabilities=known[i],
            values=None if each is None else each[i],
            nothing=bool(nothing[i]),
            alternatives=alternatives,
            more=more,
            rescue=rescues.get(i),
            file_fits=file_fits,
        )


def _account(problem: Problem, one: _Instance, result: Decoded) -> Account:
    i, evidence = one.number, result.evidence
    status = Status(int(result.status[i]))
    whole = None if evidence.complete is None else bool(evidence.complete[i])  # None where no answers are listed
    known = None if one.nothing or status == Status.INFEASIBLE else _number(evidence.confidence, i)
    confidence, at_most = (None, known) if whole is False else (known, None)
    fit = _number(evidence.fit, i)
    word = verdict(status, confidence, fit if one.file_fits else 0.0)
    # An answer of a rescue is right only if just those counts are wrong: it is in the words, never in the calls.
    none = one.nothing or word is Verdict.IMPOSSIBLE
    residuals = () if none else _residuals(problem, one)
    counted = int((~one.y.isnan()).sum())
    made = Account(
        name=one.name,
        verdict=word,
        status=status,
        confidence=confidence,
        at_most=at_most,
        fit=fit,
        answer=() if none else named_items(problem, result.x[i]),
        calls=tuple(_calls(problem, result, one, word)),
        residuals=residuals,
        alternatives=one.alternatives,
        more=one.more,
        words="",
    )
    if word is Verdict.IMPOSSIBLE:
        return replace(made, words=_why_impossible(problem, one))
    if one.nothing:
        return replace(made, words=OUT_OF_TIME)
    gap = _number(evidence.gap, i) if status == Status.TIME_LIMIT else None
    words = _in_words(problem, made, counted, gap, listed_all=whole is True, file_fits=one.file_fits)
    return replace(made, words=words)


def _in_words(
    problem: Problem, made: Account, counted: int, gap: float | None, *, listed_all: bool, file_fits: bool
) -> str:
    """A possible answer in two to eight sentences."""
    word, status, proved, noise = made.verdict, made.status, made.status == Status.PROVED, problem.in_parts.noise
    sentences = (
        wording.called(made.answer, problem.items, trusted=word in (Verdict.CERTAIN, Verdict.CONFIDENT)),
        wording.standing(status, word, made.confidence, made.at_most, alone=listed_all and not made.alternatives),
        "" if gap is None or word is Verdict.SUSPECT else wording.gap_words(gap),
        wording.loads_words([(one.sample, one.load.words) for one in made.calls if one.load is not None]),
        wording.misfit_words(made.fit, word, file_fits=file_fits, noun=reported.noun(noise)),
        wording.explained_words(made.residuals, counted, whole=reported.exact(noise), noun=reported.noun(noise))
        if problem.loads is None
        else wording.agreeing(made.residuals, counted, noun=reported.noun(noise)),
        wording.others(made.alternatives, made.more),
        wording.unlisted_words(made.confidence, made.alternatives, made.more, fits=not made.residuals)
        if proved and word is not Verdict.SUSPECT
        else "",
        wording.advice(word, status, made.retests, len(made.called(Call.NONE))),
        "" if word is Verdict.SUSPECT else not_covered(problem),
    )
    return " ".join(sentence for sentence in sentences if sentence)


def _found_nothing(result: Decoded) -> Bool[Tensor, " instances"]:
    """Where the search found no possible answer in its time: its calls are zeros, which are not an all-clear."""
    evidence, late = result.evidence, result.status == Status.TIME_LIMIT
    empty = torch.zeros_like(late)
    if evidence.confidence is not None:
        empty |= evidence.confidence == 0
    if evidence.log_joint is not None:
        empty |= evidence.log_joint == -torch.inf
    return late & empty


def _probabilities(problem: Problem, result: Decoded) -> Float64[Tensor, "instances items"]:
    """The probability that each item is defective; NaN where it is not known."""
    evidence, answers = result.evidence, result.evidence.alternatives
    if evidence.marginals is not None:
        return evidence.marginals
    unknown = torch.full(result.x.shape, torch.nan, dtype=torch.float64, device=result.x.device)
    if answers is None or evidence.complete is None:
        return unknown
    rates, rest = prior_rates(problem), (1 - answers.listed()).clamp(min=0.0)[:, None]
    rest = rest if rates is None else rest * rates.to(rest.device)  # what is not listed may be anything
    return torch.where(evidence.complete[:, None], (answers.marginals() + rest).clamp(max=1.0), unknown)


def _value_probabilities(problem: Problem, result: Decoded, known: Tensor) -> Tensor | None:
    """The probability of each number of copies or category, (instances, items, values); NaN where it is not known."""
    if problem.values is None:
        return None
    evidence = result.evidence
    if evidence.marginals is not None and evidence.values is not None:
        return evidence.values
    if evidence.alternatives is None and evidence.confidence is None:
        return torch.full((*result.x.shape, problem.values.levels + 1), torch.nan, dtype=torch.float64)
    return with_values(problem, result, replace(evidence, marginals=known)).values


def _calls(problem: Problem, result: Decoded, one: _Instance, word: Verdict) -> Iterator[SampleCall]:
    """The call of every sample, by the one rule there is."""
    i, unsettled, names = one.number, result.evidence.unsettled, problem.design.item_names
    if one.nothing or word is Verdict.IMPOSSIBLE:
        value = None if problem.values is None else SampleValue("", "", None)
        yield from (SampleCall(name, Call.NONE, None, value=value) for name in names)
        return
    answered, loads = result.x[i].tolist(), {} if word is Verdict.SUSPECT else _loads(problem, result, i)
    differs = [0] * len(names) if unsettled is None else unsettled[i].tolist()
    each = [None] * len(names) if one.values is None else one.values.tolist()
    rows = zip(names, one.probabilities.tolist(), answered, differs, each, strict=True)
    for name, p, own, other, values in rows:
        probability = None if p != p or word is Verdict.SUSPECT else p  # a probability of a model that does not fit
        shares = None if probability is None else values
        called = call(
            word,
            probability,
            answered=bool(own),
            differs=bool(other),
            value=None if shares is None else shares[own] if own else 0.0,
        )
        value = None if problem.values is None else _value(problem.values, called, own, shares)
        yield SampleCall(name, called, probability, loads.get(name), value)


def _value(values: Categories | Copies, called: Call, own: int, shares: list[float] | None) -> SampleValue:
    """The value of a sample: named where it is called, with the probabilities where they are known."""
    number = {Call.POSITIVE: own, Call.NEGATIVE: 0}.get(called)
    label, cell = ("", "") if number is None else (values.labels[number], values.cells[number])
    return SampleValue(label, cell, None if shares is None else tuple(zip(values.labels, shares, strict=True)))


def _loads(problem: Problem, result: Decoded, i: int) -> dict[str, SampleLoad]:
    """The loads of the samples that the answer has as positive; none where samples have no amounts."""
    amounts, interval = result.amounts, result.evidence.interval
    if amounts is None or interval is None:
        return {}
    found = {}
    for j in result.x[i].nonzero().flatten().tolist():
        amount, (low, high) = float(amounts[i, j]), interval[i, j].tolist()
        found[problem.design.item_names[j]] = SampleLoad(amount, low, high, reported.alone(problem.noise, amount))
    return found


def _listed(problem: Problem, result: Decoded) -> Iterator[tuple[tuple[Alternative, ...], More]]:
    """The other answers listed for each instance, most probable first; none where the decoder lists none."""
    answers, complete = result.evidence.alternatives, result.evidence.complete
    if answers is None:
        yield from (((), More()),) * len(result.x)
        return
    start = 0
    for i, end in enumerate(answers.spans.ends.tolist()):
        known = complete is None or bool(complete[i])
        others = (answers.x[start:end] != result.x[i]).any(1).nonzero().flatten() + start
        shown, left = others[:MOST_ALTERNATIVES], others[MOST_ALTERNATIVES:]
        together = float(answers.probability[left].sum()) if known else None
        yield tuple(_differing(problem, result.x[i], answers, shown, known)), More(len(left), together)
        start = end


def _differing(problem: Problem, own: Tensor, answers: Answers, rows: Tensor, known: bool) -> Iterator[Alternative]:
    for x, probability in zip(answers.x[rows], answers.probability[rows].tolist(), strict=True):
        changed = x != own
        added, dropped = named_items(problem, x * changed), named_items(problem, own * changed)
        yield Alternative(probability if known else None, added, dropped)


def _residuals(problem: Problem, one: _Instance) -> tuple[Residual, ...]:
    where = one.off.nonzero().flatten().tolist()
    parts = problem.in_parts
    return tuple(reported.residual(parts, i, float(one.y[i]), float(one.expected[i])) for i in where)


def _why_impossible(problem: Problem, one: _Instance) -> str:
    """Which counts are impossible by themselves; where none is, which contradict the others."""
    y, rescue, whole = one.y, one.rescue, problem
    problem = problem.in_parts
    sizes = problem.design.pool_sizes
    possible = pool_costs(problem.design, problem.noise, y[None]).possible(sizes)[0].tolist()
    rows = zip(problem.design.pool_names, y.tolist(), sizes.tolist(), possible, strict=True)
    broken = [(name, count, size) for name, count, size, fine in rows if not fine]
    if broken and (odd := reported.mistaken(problem.noise, y, sizes)):
        return f"{wording.UNEXPLAINED} {odd}"
    if broken and (remedy := reported.allowed(problem.noise)):
        return wording.no_report(broken, problem.pools, remedy, noun=reported.noun(problem.noise))
    fractions = [row for row in broken if not row[1].is_integer()] if problem.noise.integer else []
    exact, noun = isinstance(problem.noise, Noiseless), reported.noun(problem.noise)
    if exact and not broken and (full := _overfull(whole, y)):
        return f"{wording.UNEXPLAINED} {wording.overfull(full)}"
    unit = "copies" if isinstance(whole.values, Copies) else "samples"
    why = wording.impossible(
        fractions or broken, problem.pools, fractions=bool(fractions), exact=exact, noun=noun, unit=unit
    )
    if rescue is None or fractions or not rescue.wrong:
        return why
    likely = None if bool(rescue.undecided.any()) else named_items(whole, rescue.x)
    return f"{why} {wording.rescued(rescue.wrong, likely, whole.items)}"


def _overfull(problem: Problem, y: Tensor) -> list[tuple[str, float, int]]:
    """Pools whose categories add up to more than the pool has samples: name, sum and size."""
    if not isinstance(problem.values, Categories):
        return []
    sums = y.view(-1, problem.pools).nansum(0).tolist()
    rows = zip(problem.design.pool_names, sums, problem.design.pool_sizes.tolist(), strict=True)
    return [(name, total, size) for name, total, size in rows if total > size]


def named_items(problem: Problem, x: UInt8[Tensor, " items"]) -> tuple[str, ...]:
    """The items that are not 0 in x, with their numbers of copies or categories where they have such.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["11"]), qgt.Copies(frequency=0.1, ploidy=2))
        >>> named_items(problem, torch.tensor([0, 2], dtype=torch.uint8))
        ('I2 (2 copies)',)
    """
    names, values = problem.design.item_names, problem.values
    some = x.nonzero().flatten().tolist()
    if values is None:
        return tuple(names[j] for j in some)
    return tuple(valued(names[j], values.labels[int(x[j])]) for j in some)


def _number(values: Tensor | None, i: int) -> float | None:
    """An instance's value, None where it is not known."""
    value = None if values is None else float(values[i])
    return None if value is None or value != value else value


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
