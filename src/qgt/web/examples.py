"""Examples to try with one click: a plan, and counts as a laboratory would have entered them."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch

from qgt.lab.plan.planning import Candidate, Plan
from qgt.lab.plan.question import Question
from qgt.lab.plan.simulation import Scout
from qgt.lab.sheets.samples import Samples
from qgt.model.noise import Noise, Noiseless, SparseInteger
from qgt.theory.limits import pools_needed
from qgt.web.counting import Entered, keep, typed_table
from qgt.web.house import House
from qgt.web.planning import add_run

SAMPLES, WEIGHT, POSITIVES, CERTAINTY = 96, 5, (1.0, 4.0), 0.95
VOLUME = 10.0  # microlitres of each transfer
PLATES, SECONDS = 200, 5.0  # simulated, to say what the design promises


@dataclass(frozen=True)
class Example:
    """A plate whose truth is known, because it was simulated."""

    key: str
    title: str
    words: str
    pools: int
    assay: Noise
    seed: int  # of the plate
    slip: float = 0.0  # what is added to the first count, as a typing error


EXAMPLES: Mapping[str, Example] = MappingProxyType(
    {
        one.key: one
        for one in (
            Example(
                "clear",
                "A clear plate",
                "96 samples in 24 pools with exact counts. All positives are found, and the answer is proved.",
                24,
                Noiseless(),
                seed=3,
            ),
            Example(
                "doubt",
                "A plate in doubt",
                "16 pools, and some counts are off by one. Other answers come close; the page says what to test again.",
                16,
                SparseInteger(rate=0.05, bound=1),
                seed=2,
            ),
            Example(
                "slip",
                "A mistyped count",
                "One exact count was typed wrongly. No answer explains the counts, and the page says where to look.",
                24,
                Noiseless(),
                seed=5,
                slip=1.0,
            ),
        )
    }
)


def add_example(house: House, example: Example) -> str:
    """Make an example's run, with its counts entered."""
    made = example_plan(example)
    problem = made.problem
    y = problem.simulate(1, generator=torch.Generator().manual_seed(example.seed)).y
    y[0, 0] += example.slip
    run = add_run(house, example.title, made, VOLUME, "example")
    names, pools, values = ["Plate 1"], problem.design.pool_names, y.tolist()
    keep(house, run, "example", "", Entered(typed_table(names, pools, values), tuple(names), values), pools)
    return run


def example_plan(example: Example) -> Plan:
    """A plan of one design, measured on simulated plates like any other."""
    question = Question(Samples.numbered(SAMPLES), POSITIVES, example.assay, CERTAINTY)
    scout = Scout(question.samples, question.prior, question.assay, None, seed=0)
    design = scout.design(example.pools, WEIGHT)
    tally = scout.measure("measuring", design, PLATES, seconds=SECONDS)
    bound = pools_needed(example.assay, sum(POSITIVES) / 2 / SAMPLES, items=SAMPLES, size=int(design.pool_sizes.max()))
    one = Candidate(design, WEIGHT, tally.plates, tally.right, 0.0, bound)
    return Plan(question, (one,), one, one.interval.low >= CERTAINTY, seed=0)
