"""The facts of an account in plain sentences: what is called, how sure that is, what does not fit, what to do next.

Each function says one fact in one or two sentences, with the design's own names. A name that would blur a sentence
(it holds a comma, " and ", quotes or characters that do not print) is written in quotes, as in JSON.
"""

import json
import math
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from qgt.decoders.results import Status
from qgt.lab.verdicts import SUSPECT_BELOW, Verdict

SHOWN_ALTERNATIVES = 3  # alternatives named, before "and 2 more"
UNLISTED = 0.05  # of the probability, from which it is worth a word that no listed answer has it
NAMED_AT_MOST = 6  # pools or samples named, before "and 4 others"
LIMITS = (90, 99)  # per cent, from which answers are confident and certain
CALLED_AT_MOST = 100  # positive samples named, before "and 4 others": of more, nobody reads the names in a sentence
UNEXPLAINED = "No set of positive samples explains these counts, so no sample is called."
_BLURRED = re.compile(r'[,;"]|\band\b|\binstead of\b|^\s|\s$|^$')


class Residual(NamedTuple):
    """A pool whose count is not what the calls add up to, or whose report is another than they make usual."""

    pool: str
    counted: float
    expected: float
    reported: str = ""  # in words, where the report is not a count

    @property
    def off(self) -> float:
        """By how much the count is too high."""
        return self.counted - self.expected

    @property
    def plain(self) -> dict[str, object]:
        """As plain data, for JSON, which has no infinite numbers: those are None, and `reported` says what they are."""
        return {
            name: None if isinstance(value, float) and math.isinf(value) else value
            for name, value in self._asdict().items()
        }

    @property
    def words(self) -> str:
        """The pool and both numbers.

        Example:
            >>> Residual("P2", -1.0, 0.0).words
            'P2 (counted -1, expected 0)'
        """
        return f"{quoted(self.pool)} ({self.both})"

    @property
    def both(self) -> str:
        """What was counted or reported, and what was expected.

        Example:
            >>> Residual("P2", 0.0, 1.0, "reported negative, expected positive").both
            'reported negative, expected positive'
        """
        return self.reported or f"counted {self.counted:g}, expected {self.expected:g}"


class Alternative(NamedTuple):
    """Another answer, by what it calls otherwise than the answer given."""

    probability: float | None  # None where it is not known, as with an incomplete list
    added: tuple[str, ...]
    dropped: tuple[str, ...]

    @property
    def change(self) -> str:
        """The difference in words.

        Example:
            >>> Alternative(0.1, ("I7",), ("I2", "I9")).change
            'I7 instead of I2 and I9'
        """
        added, dropped = in_one_phrase(map(quoted, self.added)), in_one_phrase(map(quoted, self.dropped))
        if added and dropped:
            return f"{added} instead of {dropped}"
        return f"also {added}" if added else f"without {dropped}"


class More(NamedTuple):
    """Answers that are listed but not named."""

    number: int = 0
    probability: float | None = 0.0  # of all of them together; None where it is not known


def called(positive: Sequence[str], samples: int, *, trusted: bool) -> str:
    """Which samples are positive in the answer.

    Example:
        >>> called(["S2", "S9"], 40, trusted=True), called([], 40, trusted=False)
        ('Positive: S2 and S9 (2 of 40 samples).', 'Best answer: none of the 40 samples is positive.')
    """
    if not positive:
        return f"None of the {samples} samples is positive." if trusted else f"Best answer: {_none(samples)}."
    names = f"{in_one_phrase(map(quoted, positive), most=CALLED_AT_MOST)} ({len(positive)} of {samples} samples)"
    return f"Positive: {names}." if trusted else f"Best answer: {names}."


def standing(status: Status, word: Verdict, confidence: float | None, at_most: float | None, alone: bool) -> str:
    """How probable the answer is, as far as that is known; nothing for a suspect one, whose model is in doubt."""
    if word is Verdict.SUSPECT:
        return ""
    if confidence is not None and status in (Status.PROVED, Status.OK):
        if word is Verdict.UNSURE and status == Status.PROVED:
            return f"No other answer is more probable, but the probability of this one is only {percent(confidence)}."
        if word is Verdict.UNSURE:
            return f"The probability of this answer is only {percent(confidence)}."
        near = ", and no other answer comes close" if alone and status == Status.PROVED else ""
        return f"The probability of this answer is {percent(confidence)}{near}."
    known = "its probability is not known"
    if at_most is not None and at_most < 0.995:  # else the bound says nothing
        known += f", but it is {'at most ' if at_most >= 0.01 else ''}{percent(at_most)}"
    if status == Status.TIME_LIMIT:
        return f"Time ran out: this is the best answer found so far, and {known}."
    if status == Status.PROVED:
        stopped = "" if at_most is None else " Not all that come close are listed:"
        return f"No other answer is more probable.{stopped} {known if stopped else known.capitalize()}."
    if status == Status.NOT_CONVERGED:
        return "The decoder did not settle on an answer: these are its last calls, and nothing is proved."
    return "The decoder makes no claim about this answer."


FAR_BEHIND = 14.0  # nats: beyond a million times, the number says no more


def gap_words(gap: float) -> str:
    """How much more probable an answer may be that the search did not get to, from the gap in nats.

    Example:
        >>> gap_words(0.7)
        'An answer that the search did not get to may be up to 2.0 times as probable.'
    """
    if gap > FAR_BEHIND:
        return "An answer that the search did not get to may be far more probable."
    times = f"{math.exp(gap):.1f}" if gap < math.log(10) else f"{math.exp(gap):,.0f}"
    return f"An answer that the search did not get to may be up to {times} times as probable."


def misfit_words(fit: float | None, word: Verdict, *, file_fits: bool = True, noun: str = "counts") -> str:
    """That the reports of a plate, or those of its file, do not fit the model, where they do not."""
    if word is not Verdict.SUSPECT:
        return ""
    if fit is None or fit >= SUSPECT_BELOW:
        assert not file_fits  # else it would not be suspect
        return f"Do not trust this answer: the {noun} of the file as a whole do not fit the model."
    often = f"{round(1 / SUSPECT_BELOW):,}"
    return (
        f"Do not trust this answer: the {noun} do not fit the model (such a bad fit happens by chance less than once "
        f"in {often} times; p = {fit:.1g}). Check that the {noun} belong to this design, that none is mistyped, and "
        "that the noise of the model is right."
    )


def explained_words(residuals: Sequence[Residual], pools: int, *, whole: bool, noun: str = "counts") -> str:
    """Which counts the answer does not explain; where counts are real numbers, how far they are off.

    Example:
        >>> explained_words([Residual("P2", -1.0, 0.0)], 20, whole=True)
        '1 of 20 counts differs from this answer: P2 (counted -1, expected 0). The other 19 agree with it.'
    """
    if not residuals:
        return f"{f'All {pools} {noun} agree' if pools > 1 else f'The {noun[:-1]} agrees'} with this answer exactly."
    if not whole:
        sizes = [abs(one.off) for one in residuals]
        worst = residuals[sizes.index(max(sizes))]
        return f"The {noun} differ from this answer by {sum(sizes) / pools:.2g} on average, most in {worst.words}."
    named = in_one_phrase([one.words for one in residuals], most=NAMED_AT_MOST)
    rest = pools - len(residuals)
    agree = f" The other {rest} agree with it." if rest > 1 else " The other one agrees with it." if rest else ""
    return f"{len(residuals)} of {pools} {noun} differ{'s' * (len(residuals) == 1)} from this answer: {named}.{agree}"


def agreeing(residuals: Sequence[Residual], pools: int, *, noun: str) -> str:
    """How many reports agree with an answer as far as their errors go, where reports are real numbers.

    Example:
        >>> agreeing([], 24, noun="cycle thresholds")
        'All 24 cycle thresholds agree with this answer within their errors.'
    """
    if not residuals:
        return f"All {pools} {noun} agree with this answer within their errors."
    named = in_one_phrase([one.words for one in residuals], most=NAMED_AT_MOST)
    return f"{len(residuals)} of {pools} {noun} differ{'s' * (len(residuals) == 1)} from this answer: {named}."


def amount_words(amount: float) -> str:
    """An amount with two digits, as people write numbers up to a million.

    Example:
        >>> amount_words(1395.8), amount_words(24747634.2), amount_words(0.0531)
        ('1,400', '2.5e+07', '0.053')
    """
    rounded = float(f"{amount:.2g}")
    return f"{rounded:,.0f}" if 10 <= rounded < 1e6 else f"{amount:.2g}"


def loads_words(loads: Sequence[tuple[str, str]]) -> str:
    """How much the positive samples of an answer have.

    Example:
        >>> loads_words([("S1", "1,400 (1,200 to 1,600)")])
        'Amounts, with 90 % between the numbers in brackets: S1 1,400 (1,200 to 1,600).'
    """
    if not loads:
        return ""
    told = [f"{sample} {words}" for sample, words in loads[:NAMED_AT_MOST]]
    more = f"; and {len(loads) - NAMED_AT_MOST} more" if len(loads) > NAMED_AT_MOST else ""
    return f"Amounts, with 90 % between the numbers in brackets: {'; '.join(told)}{more}."


def others(alternatives: Sequence[Alternative], more: More = More()) -> str:  # noqa: B008 - it is immutable
    """The most probable alternatives, and how many more there are."""
    if not alternatives:
        return ""
    told = [one.change + _in_brackets(one.probability) for one in alternatives[:SHOWN_ALTERNATIVES]]
    if left := beyond(alternatives[SHOWN_ALTERNATIVES:], more):
        known = "" if left.probability is None else f", together {percent(left.probability)}"
        told.append(f"and {left.number} more{known}")
    return f"{'Other answers' if len(alternatives) > 1 else 'The other answer'}: {'; '.join(told)}."


def beyond(left: Sequence[Alternative], more: More) -> More | None:
    """The alternatives that are not shown, together; None where there are none."""
    known = [one.probability for one in left if one.probability is not None]
    number = len(left) + more.number
    whole = len(known) == len(left) and more.probability is not None
    return More(number, sum(known) + (more.probability or 0.0) if whole else None) if number else None


def unlisted_words(
    confidence: float | None,
    alternatives: Sequence[Alternative],
    more: More = More(),  # noqa: B008 - it is immutable
    *,
    fits: bool,
) -> str:
    """What the probability that no listed answer has is for, where it is much; `fits` where all counts agree.

    Example:
        >>> unlisted_words(0.7, [Alternative(0.05, ("I7",), ())], fits=True)
        'The other 25 %: answers that are not listed, or a count that is off by more than the noise allows.'
    """
    listed = beyond(alternatives, more) or More()
    if confidence is None or listed.probability is None:
        return ""
    rest = 1 - confidence - listed.probability
    if rest < UNLISTED:
        return ""
    where = "" if fits else " Count again where this answer differs."
    wrong = "a count that is off by more than the noise allows"
    return f"The other {percent(rest)}: answers that are not listed, or {wrong}.{where}"


def advice(word: Verdict, status: Status, retests: Sequence[str], uncalled: int = 0) -> str:
    """What to do next, where `uncalled` samples have no call at all.

    Example:
        >>> advice(Verdict.UNSURE, Status.TIME_LIMIT, [], 40)
        'No probability is known, so 40 samples are not called: decode again with more time.'
    """
    if word is Verdict.CERTAIN and not retests:
        return "Nothing needs a retest."
    if word is Verdict.SUSPECT:
        return ""
    if uncalled:
        time = ": decode again with more time" if status == Status.TIME_LIMIT else ""
        named = f" Retest {in_one_phrase(map(quoted, retests), most=NAMED_AT_MOST)}." if retests else ""
        number = "1 sample is" if uncalled == 1 else f"{uncalled} samples are"
        return f"No probability is known, so {number} not called{time}.{named}"
    if not retests:
        return "Decode again with more time." if status == Status.TIME_LIMIT else ""
    if len(retests) == 1:
        return f"To settle it, retest {quoted(retests[0])}: no other sample is in doubt."
    names = in_one_phrase(map(quoted, retests), most=NAMED_AT_MOST)
    return f"To settle it, retest the samples in doubt, the most doubtful first: {names}."


def overfull(full: Sequence[tuple[str, float, int]]) -> str:
    """That the categories of some pools add up to more than the pools have samples.

    Example:
        >>> overfull([("P2", 5.0, 4)])
        'The categories of a pool add up to more than its samples in P2 (5 of 4 samples). Count there again.'
    """
    named = in_one_phrase(
        [f"{quoted(pool)} ({total:g} of {size} samples)" for pool, total, size in full], NAMED_AT_MOST
    )
    return f"The categories of a pool add up to more than its samples in {named}. Count there again."


def impossible(
    broken: Sequence[tuple[str, float, int]],
    pools: int,
    *,
    fractions: bool,
    exact: bool,
    noun: str = "counts",
    unit: str = "samples",
) -> str:
    """Why no answer explains the counts, and what to do.

    Args:
        broken: Pools whose count is impossible by itself: name, count and size.
        pools: The number of pools.
        fractions: Whether counts that are not whole numbers are the reason.
        exact: Whether the model says that counts are never off.
        noun: What the reports are called.
        unit: What a pool's size is a number of.
    """
    start = UNEXPLAINED
    if fractions:
        named = in_one_phrase([f"{quoted(pool)} (counted {count:g})" for pool, count, _ in broken], most=NAMED_AT_MOST)
        remedy = "round them, or use a noise for real-valued counts"
        return f"{start} These counts are not whole numbers: {remedy}. They are in {named}."
    if broken:
        rows = [f"{quoted(pool)} (counted {count:g}, of {size} {unit})" for pool, count, size in broken]
        alone = "is impossible whatever the others are" if len(broken) == 1 else "are impossible by themselves"
        which = f"{len(broken)} of {pools} {noun} {alone}: {in_one_phrase(rows, most=NAMED_AT_MOST)}"
        return f"{start} {which}. Count there again, or check the design."
    model = " The model says that counts are never off: if they may be, give the problem a noise." if exact else ""
    return f"{start} Each of the {noun} by itself is possible, but together they contradict each other.{model}"


def no_report(broken: Sequence[tuple[str, float, int]], pools: int, remedy: str, *, noun: str = "results") -> str:
    """That some reports are none that a pool can make, and what to write.

    Example:
        >>> no_report([("P2", 2.0, 8)], 20, "write 1 for positive and 0 for negative")
        'No sample is called because 1 of 20 results is not valid: P2 (2). Check it, and write 1 for positive and 0 for negative.'
    """  # noqa: E501 - an example's line
    named = in_one_phrase([f"{quoted(pool)} ({value:g})" for pool, value, _ in broken], most=NAMED_AT_MOST)
    valid, them = ("is not valid", "it") if len(broken) == 1 else ("are not valid", "them")
    which = f"{len(broken)} of {pools} {noun} {valid}: {named}"
    return f"No sample is called because {which}. Check {them}, and {remedy}."


def rescued(wrong: Sequence[str], likely: Sequence[str] | None, samples: int) -> str:
    """Which counts must be wrong, by the answer that takes the fewest to be.

    Args:
        wrong: The pools with those counts.
        likely: The positive samples of that answer; None where others come close, so that it would be a guess.
        samples: The number of samples.

    Example:
        >>> rescued(["P5"], ["I1"], 40), rescued(["P5"], None, 40)
        ('Look at P5 first: if only its count is wrong, I1 is positive, of 40 samples.', 'Look at P5 first.')
    """
    named = in_one_phrase(map(quoted, wrong), most=NAMED_AT_MOST)
    if likely is None:
        return f"Look at {named} first."
    only = "only its count is wrong" if len(wrong) == 1 else "only these counts are wrong"
    if not likely:
        return f"Look at {named} first: if {only}, {_none(samples)}."
    verb = "is" if len(likely) == 1 else "are"
    return (
        f"Look at {named} first: if {only}, {in_one_phrase(map(quoted, likely))} {verb} positive, of {samples} samples."
    )


def percent(probability: float) -> str:
    """A probability in whole per cent, never rounded up to a limit that it does not reach.

    Near 0 and 1 it says no more than a list of answers that leaves out the least probable ones can know.

    Example:
        >>> percent(0.4998), percent(0.8999), percent(0.999), percent(0.002)
        ('50 %', '89 %', 'over 99 %', 'under 1 %')
    """
    if probability >= 0.995:
        return "over 99 %"
    whole = round(100 * probability)
    if whole in LIMITS and probability < whole / 100:
        whole -= 1
    return f"{whole} %" if whole and probability >= 0.01 else "under 1 %"


def in_one_phrase(names: Iterable[str], most: int | None = None) -> str:
    """Names as one phrase: commas, and a last "and"; beyond `most`, how many others there are.

    Example:
        >>> in_one_phrase(["a", "b", "c"]), in_one_phrase(["a", "b", "c"], most=1)
        ('a, b and c', 'a and 2 others')
    """
    names = list(names)
    if most is not None and len(names) > most:
        left = len(names) - most
        names = [*names[:most], f"{left} other{'s' if left > 1 else ''}"]
    return " and ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)


def many(number: int, noun: str) -> str:
    """A number of things.

    Example:
        >>> many(1, "plate"), many(1200, "plate")
        ('1 plate', '1,200 plates')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def quoted(name: str) -> str:
    """A name as it stands in a sentence: as it is, or in quotes where it would blur the sentence.

    Example:
        >>> print(quoted("A1"), quoted("Lee, Ann"), quoted("tab\\there"))
        A1 "Lee, Ann" "tab\\there"
    """
    if name.isprintable() and not _BLURRED.search(name):
        return name
    text = json.dumps(name, ensure_ascii=False)
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in text)


def _none(samples: int) -> str:
    return f"none of the {samples} samples is positive"


def _in_brackets(probability: float | None) -> str:
    return "" if probability is None else f" ({percent(probability)})"
