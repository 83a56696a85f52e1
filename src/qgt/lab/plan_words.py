"""A plan in words, as rows of a table and as a figure, for the command and the page alike."""

from typing import TYPE_CHECKING

from qgt.lab.classical import ClassicalScheme
from qgt.lab.expectations import Range
from qgt.lab.naming import label
from qgt.lab.planning import Candidate, Plan
from qgt.lab.question import Question
from qgt.pictures.figures import PlanPoint, plan_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = (
    "pools",
    "transfers",
    "each",
    "largest pool",
    "plates",
    "right",
    "interval",
    "follow-ups",
    "saved",
    "bound",
)
MEANING = (
    "pools: tests of the first round. transfers: pipetting steps. each: transfers per sample. largest pool: samples in "
    "it. plates: simulated. right: share of them without a single error, with its 99 % interval. follow-ups: samples "
    "tested alone afterwards, per plate. saved: fewer tests than one for each sample. bound: no design with such pools "
    "can do with fewer. Below the designs: what laboratories do today, with the same positives and the same assay."
)


def plan_rows(plan: Plan) -> list[list[str]]:
    """The candidates as rows under `COLUMNS`, with a mark at the recommended one; then the schemes of today."""
    designs = [[*_row(one), "<- recommended" if one is plan.recommended else ""] for one in plan.candidates]
    return [*designs, *([*_scheme_row(one, len(plan.question.samples)), one.name] for one in plan.classical)]


def plan_words(plan: Plan) -> list[str]:
    """What to do and what to expect, in sentences.

    Example:
        >>> import torch
        >>> from qgt.lab.planning import Question, plan
        >>> from qgt.lab.samples import Samples
        >>> question = Question(Samples.numbered(12), positives=(0, 1), certainty=0.8)
        >>> made = plan(question, generator=torch.Generator().manual_seed(0), seconds=0.5)
        >>> plan_words(made)[1].startswith("Make ")
        True
    """
    one, question = plan.recommended, plan.question
    low, high = (f"{100 * end:.1f} %" for end in one.interval)
    words = [f"{label(one.design)}."]
    pools = f"{one.pools} pool{'s' if one.pools > 1 else ''}"
    words.append(
        f"Make {pools}. Each of the {len(question.samples)} samples goes into {one.weight} of them: "
        f"{one.transfers:,} transfers; the largest pool holds {one.largest_pool} samples."
    )
    rounds = " after follow-ups" if question.follow_ups else ""
    words.append(
        f"Of {one.plates:,} simulated plates, {100 * one.success:.1f} % were decoded without a single error{rounds}; "
        f"the true share is between {low} and {high}, with a certainty of 99 %."
    )
    if question.follow_ups:
        words.append(f"On average {one.follow_ups:.2f} samples of a plate have to be tested again, alone.")
    if one.tests_saved > 0:
        words.append(f"This saves {one.tests_saved:.1f} of {len(question.samples)} tests.")
    else:
        words.append("This saves nothing: test each sample alone instead.")
    words += [*_compared(plan), *_caution(plan)]
    words += household_words(question)
    words.append(
        f"All of this holds if as many samples are positive as expected ({_range(question.positives)}) and the assay "
        f"errs as stated (seed {plan.seed})."
    )
    if question.samples.notes:
        words.append(f"The list of samples: {' '.join(question.samples.notes)}")
    return words


def household_words(question: Question) -> list[str]:
    """What the plan takes for granted about households, where samples have them.

    Example:
        >>> from qgt.lab.samples import Samples
        >>> samples = Samples.placed(["a", "b", "c", "d"], households=["x", "x", "y", "y"])
        >>> print(household_words(Question(samples, (0.1, 0.1)))[0])
        Households: where there is an outbreak, each member is positive with probability 50 % (attack rate, the usual value); every other sample with 0.5 % (background, the usual value).
    """  # noqa: E501 - an example's line
    rates = question.household_rates
    if rates is None:
        return []
    given = (question.attack_rate, question.background)
    attack, others = (
        f"{100 * rate:.3g} % ({name}{', the usual value' if own is None else ''})"
        for rate, own, name in zip(rates, given, ("attack rate", "background"), strict=True)
    )
    return [
        f"Households: where there is an outbreak, each member is positive with probability {attack}; every other "
        f"sample with {others}."
    ]


def _compared(plan: Plan) -> list[str]:
    """How the plan compares with what laboratories do today."""
    told = [
        f"{scheme.name} ({scheme.tests:.1f} tests, {100 * scheme.success:.1f} % of plates without an error)"
        for scheme in plan.classical
    ]
    if not told:
        return []
    words = [f"For comparison, with the same assay: {'; '.join(told)}."]
    better = plan.better_classical
    if better is not None:
        certainty = plan.question.certainty
        enough = better.interval.low >= certainty
        often = f"also right on {100 * certainty:g} % of plates" if enough else "right as often"
        fewer = plan.recommended.tests - better.tests
        words.append(f"Consider the following instead: {better.name}. It takes {fewer:.1f} fewer tests and is {often}.")
    return words


def _caution(plan: Plan) -> list[str]:
    """What was not shown, where the certainty asked for was not."""
    question, one = plan.question, plan.recommended
    if plan.reached:
        return []
    words = f"Caution: no design within these limits was shown right on {100 * question.certainty:g} % of plates"
    best = max((scheme.success for scheme in plan.classical), default=0.0)
    if one.interval.low > best:
        words += "; this one is right more often than what laboratories do today"
    return [f"{words}. Allow more pools, transfers or follow-ups, give it more time (--seconds), or ask for less."]


def plan_picture(plan: Plan) -> "Figure":
    """The candidates as a figure."""
    points = [
        PlanPoint(one.pools, one.weight, one.success, *one.interval, recommended=one is plan.recommended)
        for one in plan.candidates
    ]
    question = plan.question
    bound = min(one.entropy_bound for one in plan.candidates)
    return plan_figure(points, certainty=question.certainty, bound=bound, items=len(question.samples))


def _row(one: Candidate) -> list[str]:
    low, high = one.interval
    return [
        str(one.pools),
        f"{one.transfers:,}",
        str(one.weight) + (" (households together)" if one.together else ""),
        str(one.largest_pool),
        f"{one.plates:,}",
        f"{100 * one.success:.1f} %",
        f"{100 * low:.1f} to {100 * high:.1f} %",
        f"{one.follow_ups:.2f}",
        f"{one.tests_saved:.1f}",
        f"{one.entropy_bound:.1f}",
    ]


def _scheme_row(one: ClassicalScheme, samples: int) -> list[str]:
    low, high = one.interval
    return [
        str(one.pools),
        f"{one.transfers:,}",
        f"{one.transfers / samples:g}",
        str(one.largest_pool),
        f"{one.plates:,}",
        f"{100 * one.success:.1f} %",
        f"{100 * low:.1f} to {100 * high:.1f} %",
        f"{one.follow_ups:.2f}",
        f"{samples - one.tests:.1f}",
        "",
    ]


def _range(positives: Range) -> str:
    low, high = positives
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"
