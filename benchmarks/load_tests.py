"""Tests that plates of amounts need for 99 % of them to be exactly right; and what `certain` is worth after rounds.

    python benchmarks/load_tests.py stages --device cuda --processes 4 --minutes 7    # results/load_tests.json
    python benchmarks/load_tests.py rounds --processes 12 --minutes 7                 # results/load_rounds.json
    python benchmarks/load_tests.py draw                                              # docs/images/loads_tests.png

The first two may run at the same time, one on the GPU and one on the other cores. Both keep what has ended when the
minutes are over, and go on from there when they are called again.

96 samples a plate, 0.5 to 10 % positive, loads and cycle thresholds as in `loads.py`: those of single positives normal
with mean 27.3 and standard deviation 6.2 between 10 and 37, pools off by 0.25 cycles, nothing reported beyond 38. No
pool has more than 32 samples, for any scheme. All schemes get the same plates, and a sample that is tested alone reads
the same in all schemes.

    one stage       the fewest pools with which `LoadPosterior` names the positives of 99 % of plates exactly
    two stages      fewer pools; the samples of plates below 99 % on which the sets listed differ are then tested alone,
                    and on plates whose list is not complete all samples that no pool clears
    rounds          `qgt follow-up`: a first round, then up to four pools at a time until the answer is certain
    pools, then single tests (Dorfman), 8 rows and 12 columns, COMP
                    samples whose pools are all detected are tested alone; a pool is detected if it reports a cycle
    COMP, one stage the same samples are called positive, and not tested again

`stages` chooses pools and weights on some plates, and measures what it has chosen on others ("fresh" rows). `rounds`
decodes ten plates together, as the command does with a file, and gives the verdicts that the command gives.
"""

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

import qgt
from loads import REAL
from qgt.arguments import generator_of
from qgt.decoders.results import Decoded
from qgt.lab.answers.decoding import ByLongerLists, decode_history
from qgt.lab.plan.loads import detected, not_cleared, pools_for_loads
from qgt.lab.plan.simulation import fewest, to_test_alone
from qgt.lab.rounds import propose
from qgt.lab.verdicts import Call, Verdict
from qgt.pictures.figures import needed_tests_figure, save_figure
from qgt.rounds.history import History, measure
from qgt.rounds.stopping import Settle
from setting import in_processes, provenance, write

STAGES, ROUNDS = Path("results/load_tests.json"), Path("results/load_rounds.json")
IMAGE = Path("docs/images/loads_tests.png")
ITEMS, LARGEST, GOAL, CERTAIN = 96, 32, 0.99, 0.99
NOISE = qgt.CycleThreshold(sigma=0.25, intercept=37.0, limit=38.0)
RATES = (0.005, 0.01, 0.02, 0.03, 0.05, 0.1)
GUESS = {0.005: 18, 0.01: 22, 0.02: 28, 0.03: 34, 0.05: 48, 0.1: 80}  # pools of one stage, where the search begins
WEIGHTS = (3, 4, 5)  # of one stage
FIRST_STAGES, FIRST_STAGE_WEIGHTS = (0.31, 0.37, 0.43, 0.5, 0.6, 0.7), (2, 3)  # of two stages; pools as shares
COMP_WEIGHTS = (2, 3, 4, 5, 6, 7, 8)
DRAWN = 4000  # plates of each rate: the first half to choose by, the second to measure on
FRESH = 60.0  # seconds for plates to measure on, however long the searches took
PART = 250  # plates decoded together, after which a search may give a design up
FIRSTS = {  # first rounds: pools, and the weight
    0.005: ((6, 2), (9, 3)),
    0.01: ((6, 2), (9, 3)),
    0.02: ((9, 3), (12, 3)),
    0.03: ((13, 3), (17, 3)),
    0.05: ((18, 3), (24, 3)),
    0.1: ((27, 3), (34, 3)),
}
SHEET, NEXT_POOLS, ENDLESS = 10, 4, 30
ONE, TWO = "one stage", "two stages"
COMP_ONE, COMP_TWO = "COMP, one stage", "COMP, then single tests"
DORFMAN, ARRAY = "pools, then single tests", "rows and columns, then single tests"


# The plates.


@dataclass(frozen=True, eq=False)
class Plates:
    """Some plates of one rate."""

    x: Tensor  # (plates, items): amounts
    alone: Tensor  # (plates, items): whether a test of the sample by itself is positive

    def part(self, first: int, number: int) -> "Plates":
        """So many plates, from one on."""
        return Plates(self.x[first : first + number], self.alone[first : first + number])

    def right(self, called: Tensor) -> Tensor:
        """Whether all samples of each plate are called right."""
        return (called.bool() == (self.x > 0)).all(1)


@lru_cache(maxsize=2)
def plates_of(rate: float, seed: int) -> Plates:
    """All plates of a rate, the same in every process."""
    generator = generator_of("load tests", seed, rate)
    x = qgt.Loads(rate=rate, **REAL).sample(DRAWN, ITEMS, generator=generator)
    return Plates(x, detected(NOISE, NOISE.sample(x, torch.ones(ITEMS, dtype=torch.float64), generator=generator)))


def some_plates(rate: float, seed: int, number: int, *, fresh: bool) -> Plates:
    """The plates to choose by, or those to measure on."""
    if number > DRAWN // 2:
        raise ValueError(f"plates={number} is not valid: {DRAWN // 2:,} are drawn to choose by; give fewer.")
    return plates_of(rate, seed).part(DRAWN // 2 if fresh else 0, number)


def design_of(pools: int, weight: int, seed: int) -> qgt.Design:
    """Always the same for one seed."""
    generator = generator_of("load tests design", seed, pools, weight)
    return qgt.few_transfers(items=ITEMS, pools=pools, weight=weight, generator=generator)


def fewest_pools(weight: int) -> int:
    """With which no pool has more samples than are allowed."""
    return max(weight, -(-ITEMS * weight // LARGEST))


# What a scheme took, and how often it was right.


@dataclass
class Tally:
    """Plates so far."""

    plates: int = 0
    right: int = 0
    tests: float = 0.0  # of all plates
    squares: float = 0.0  # of the tests of each

    def add(self, tests: Tensor, right: Tensor) -> None:
        """Count some plates: the tests of each, and whether it is right."""
        self.plates += len(right)
        self.right += int(right.sum())
        self.tests += float(tests.sum())
        self.squares += float(tests.double().square().sum())

    @property
    def wrong(self) -> int:
        """Plates on which some sample is called wrong."""
        return self.plates - self.right

    @property
    def mean(self) -> float:
        """Tests for a plate."""
        return self.tests / self.plates

    @property
    def error(self) -> float:
        """The standard error of the mean number of tests."""
        variance = max(0.0, self.squares / self.plates - self.mean**2)
        return math.sqrt(variance / max(1, self.plates - 1))

    def row(self, scheme: str, rate: float, weight: int, pools: int, *, fresh: bool = False) -> dict[str, Any]:
        """As stored."""
        return {
            "scheme": scheme, "rate": rate, "weight": weight, "pools": pools, "plates": self.plates,
            "right": self.right, "tests": round(self.mean, 4), "error": round(self.error, 4), "fresh": fresh,
        }  # fmt: skip


Best = dict[str, dict[float, dict[str, Any]]]  # rows by scheme and rate


def needed(rows: Sequence[dict[str, Any]]) -> Best:
    """The row with the fewest tests that had enough plates right.

    Rows of designs that were given up have fewer plates than the others of their scheme and rate.
    """
    tried = [row for row in rows if not row["fresh"]]
    most: dict[tuple[str, float], int] = {}
    for row in tried:
        key = row["scheme"], row["rate"]
        most[key] = max(most.get(key, 0), row["plates"])
    found: Best = {}
    for row in sorted(tried, key=lambda row: (row["rate"], row["tests"])):
        if row["plates"] == most[row["scheme"], row["rate"]] and row["right"] >= GOAL * row["plates"]:
            found.setdefault(row["scheme"], {}).setdefault(row["rate"], row)
    return found


def on_fresh_plates(rows: Sequence[dict[str, Any]]) -> Best:
    """The same designs, measured on plates that they were not chosen by."""
    named = ("scheme", "rate", "weight", "pools")
    fresh = {tuple(row[name] for name in named): row for row in rows if row["fresh"]}
    return {
        scheme: {
            rate: fresh[key] for rate, row in by_rate.items() if (key := tuple(row[name] for name in named)) in fresh
        }
        for scheme, by_rate in needed(rows).items()
    }


# One stage and two.


class Task(NamedTuple):
    """A search for pools, or the measurement of some that were chosen."""

    kind: str  # one stage, two stages, detected, or fresh
    rate: float
    weight: int
    plates: int
    seed: int
    device: str
    pools: int = 0  # where they were chosen
    scheme: str = ""  # likewise

    @property
    def key(self) -> list[Any]:
        """Its name in the results."""
        return [self.kind, self.rate, self.weight, self.plates, self.seed, self.pools, self.scheme]


def decoded(
    task: Task, pools: int, *, give_up: Callable[[Tally, Tally], bool] = lambda one, two: False
) -> tuple[Tally, Tally]:
    """One stage and two stages with so many pools, on plates to choose by or on fresh ones."""
    design = design_of(pools, task.weight, task.seed)
    problem = qgt.Problem(design, qgt.Loads(rate=task.rate, **REAL), NOISE)
    decode = qgt.LoadPosterior().bind(problem)
    one, two = Tally(), Tally()
    for first in range(0, task.plates, PART):
        here = some_plates(task.rate, task.seed, task.plates, fresh=task.kind == "fresh").part(first, PART)
        y = _reports(problem, here.x, task, first).to(task.device)
        found = decode(y)
        add_decoded(one, two, here, found, to_test_alone(found, CERTAIN, not_cleared(problem, y)), pools)
        if give_up(one, two):
            break
    return one, two


def add_decoded(one: Tally, two: Tally, here: Plates, found: Decoded, alone: Tensor, pools: int) -> None:
    """Count some decoded plates for one stage, and for two, in which some samples are tested alone."""
    again, called = alone.cpu(), found.x.cpu().bool()
    one.add(torch.full((len(here.x),), pools), here.right(called))
    two.add(pools + again.sum(1), here.right(torch.where(again, here.alone, called)))


def _reports(problem: qgt.Problem, x: Tensor, task: Task, part: int) -> Tensor:
    fresh = task.kind == "fresh"
    generator = generator_of("load tests reports", task.seed, task.rate, problem.design.fingerprint, part, fresh)
    sizes = problem.design.pool_sizes.to(torch.float64)
    return problem.noise.sample(problem.design.count(x), sizes, generator=generator)


def both_rows(task: Task, pools: int, found: tuple[Tally, Tally]) -> list[dict[str, Any]]:
    """One stage and two stages with the same pools, as stored."""
    return [
        one.row(name, task.rate, task.weight, pools, fresh=task.kind == "fresh")
        for name, one in zip((ONE, TWO), found, strict=True)
    ]


def searched(task: Task) -> list[dict[str, Any]]:
    """One stage: about the fewest pools of one weight with which enough plates are right."""
    rows: list[dict[str, Any]] = []
    allowed = (1 - GOAL) * task.plates

    def good(pools: int) -> bool:
        one, two = decoded(task, pools, give_up=lambda one, two: one.wrong > allowed)
        rows.extend(both_rows(task, pools, (one, two)))
        return one.wrong <= allowed

    fewest(good, fewest_pools(task.weight), ITEMS - 1, first=GUESS[task.rate], step=1.15, ratio=1.02)
    return rows


def with_pools(task: Task) -> list[dict[str, Any]]:
    """Two stages with so many pools, given up where too many plates are wrong."""
    allowed = (1 - GOAL) * task.plates
    found = decoded(task, task.pools, give_up=lambda one, two: two.wrong > allowed)
    return both_rows(task, task.pools, found)


# Schemes that ask of a pool only whether it is detected.


def screened(design: qgt.Design, task: Task, *, fresh: bool = False) -> tuple[Tally, Tally]:
    """COMP: samples whose pools are all detected, called positive; and the same tested alone.

    With a partition into pools this is Dorfman's scheme, and with an array's lines it is that of rows and columns.
    """
    problem = qgt.Problem(design, qgt.Loads(rate=task.rate, **REAL), NOISE)
    plates = some_plates(task.rate, task.seed, task.plates, fresh=fresh)
    candidates = qgt.COMP().bind(problem)(_reports(problem, plates.x, task, 0)).x.bool()
    one, two = Tally(), Tally()
    one.add(torch.full((task.plates,), design.pools), plates.right(candidates))
    two.add(design.pools + candidates.sum(1), plates.right(candidates & plates.alone))
    return one, two


def partition(pools: int) -> qgt.Design:
    """Each sample in one pool, the pools as even as can be."""
    matrix = torch.zeros(pools, ITEMS, dtype=torch.uint8)
    matrix[torch.arange(ITEMS) * pools // ITEMS, torch.arange(ITEMS)] = 1
    return qgt.Design.from_matrix(matrix)


def by_detection(task: Task) -> list[dict[str, Any]]:
    """The schemes of today at one rate: every number of pools, each weight."""
    rows = []
    for pools in range(-(-ITEMS // LARGEST), ITEMS // 2 + 1):
        rows.append(screened(partition(pools), task)[1].row(DORFMAN, task.rate, 1, pools))
    array = qgt.Design.rows_and_columns(rows=8, columns=12)
    rows.append(screened(array, task)[1].row(ARRAY, task.rate, 2, array.pools))
    for weight in COMP_WEIGHTS:
        pools = fewest_pools(weight)
        while pools < ITEMS:
            one, two = screened(design_of(pools, weight, task.seed), task)
            rows.append(one.row(COMP_ONE, task.rate, weight, pools))
            rows.append(two.row(COMP_TWO, task.rate, weight, pools))
            if one.wrong <= (1 - GOAL) * task.plates:
                break  # more pools only cost more
            pools = max(pools + 1, round(1.04 * pools))
    return rows


def measured_again(task: Task) -> list[dict[str, Any]]:
    """What was chosen, on fresh plates."""
    if task.scheme in (ONE, TWO):
        return [row for row in both_rows(task, task.pools, decoded(task, task.pools)) if row["scheme"] == task.scheme]
    if task.scheme == ARRAY:
        one, two = screened(qgt.Design.rows_and_columns(rows=8, columns=12), task, fresh=True)
    else:
        design = partition(task.pools) if task.scheme == DORFMAN else design_of(task.pools, task.weight, task.seed)
        one, two = screened(design, task, fresh=True)
    own = one if task.scheme in (ONE, COMP_ONE) else two
    return [own.row(task.scheme, task.rate, task.weight, task.pools, fresh=True)]


def run_task(task: Task) -> tuple[list[Any], list[dict[str, Any]]]:
    """In a process of its own."""
    work = {ONE: searched, TWO: with_pools, "detected": by_detection, "fresh": measured_again}[task.kind]
    found = work(task)
    if task.device != "cpu":
        torch.cuda.empty_cache()  # several processes share one GPU: what one of them keeps, others miss
    return task.key, found


def tasks_of(rates: Sequence[float], plates: int, seed: int, device: str) -> Iterator[Task]:
    """All searches, the shortest first: when time is over, whole rates are done."""
    for rate in sorted(rates):
        yield Task("detected", rate, 0, plates, seed, "cpu")
        for weight in FIRST_STAGE_WEIGHTS:
            sizes = {max(fewest_pools(weight), round(share * GUESS[rate])) for share in FIRST_STAGES}
            yield from (Task(TWO, rate, weight, plates, seed, device, pools) for pools in sorted(sizes))
        for weight in WEIGHTS:
            yield Task(ONE, rate, weight, plates, seed, device)


def whole_rates(tasks: Sequence[Task], done: Sequence[list[Any]]) -> set[float]:
    """The rates of which all searches have ended."""
    ended = {json.dumps(key) for key in done}
    return {task.rate for task in tasks} - {task.rate for task in tasks if json.dumps(task.key) not in ended}


def chosen(rows: Sequence[dict[str, Any]], plates: int, seed: int, device: str) -> list[Task]:
    """What is to be measured on fresh plates, the shortest first."""
    best = [row for by_rate in needed(rows).values() for row in by_rate.values()]
    best.sort(key=lambda row: float(row["rate"]))
    return [
        Task("fresh", row["rate"], row["weight"], plates, seed, device, row["pools"], row["scheme"]) for row in best
    ]


# Rounds, as the command makes them.


class Case(NamedTuple):
    """A sheet of plates with a first round of so many pools."""

    rate: float
    first: int
    weight: int
    sheet: int
    seed: int

    @property
    def key(self) -> list[Any]:
        """Its name in the results."""
        return list(self)


def run_case(case: Case) -> tuple[list[Any], list[dict[str, Any]]]:
    """All rounds of a sheet: a row for each plate."""
    plates = plates_of(case.rate, case.seed).part(SHEET * case.sheet, SHEET)
    generator = generator_of("load rounds", *case)
    design = design_of(case.first, case.weight, case.seed)
    problem = qgt.Problem(design, qgt.Loads(rate=case.rate, **REAL), NOISE)
    sizes = design.pool_sizes.to(torch.float64)
    y = NOISE.sample(design.count(plates.x), sizes, generator=generator)
    histories = {str(i): History.start(problem, row) for i, row in enumerate(y)}
    rows: dict[str, dict[str, Any]] = {}
    way, names = ByLongerLists(Settle(confidence=CERTAIN), generator), list(histories)
    for number in range(1, ENDLESS + 1):
        # All plates of the sheet, as the command does: those that are open look unlike the model if held alone.
        sheet = decode_history(problem, list(histories.values()), names, way, rounds=number)
        for place, (name, account) in enumerate(zip(names, sheet.accounts, strict=True)):
            who = plates.x[int(name)] > 0
            calls = [one.call for one in account.calls]
            missed = sum(call is Call.NEGATIVE and positive for call, positive in zip(calls, who.tolist(), strict=True))
            rows[name] = {
                "rate": case.rate, "first": case.first, "weight": case.weight, "plate": SHEET * case.sheet + int(name),
                "tests": histories[name].problem.pools, "rounds": len(histories[name].rounds),
                "verdict": account.verdict.value, "right": bool((sheet.result.x[place] == who).all()),
                "positives": int(who.sum()), "called_negative": missed, "retests": len(account.retests),
            }  # fmt: skip
        proposed = propose(
            sheet, confidence=CERTAIN, pools=NEXT_POOLS, at_most=LARGEST, risk=(1 - CERTAIN) / 2, generator=generator
        )
        for one in proposed:
            history, truth = histories[one.account.name], plates.x[int(one.account.name)]
            reports = measure(history.setting, truth, one.pools.matrix, generator=generator)
            histories[one.account.name] = history.after(one.pools.matrix, reports)
        if not proposed:
            break
    return case.key, list(rows.values())


def cases_of(rates: Sequence[float], plates: int, seed: int) -> Iterator[Case]:
    """All cases grow together."""
    for sheet in range(-(-plates // SHEET)):
        for rate in sorted(rates, reverse=True):
            yield from (Case(rate, first, weight, sheet, seed) for first, weight in FIRSTS[rate])


def rounds_needed(rows: Sequence[dict[str, Any]]) -> dict[float, dict[str, Any]]:
    """By rate, the first round with the fewest tests that had enough plates right."""
    found: dict[float, dict[str, Any]] = {}
    for rate, first, weight in sorted({(row["rate"], row["first"], row["weight"]) for row in rows}):
        own = [row for row in rows if (row["rate"], row["first"], row["weight"]) == (rate, first, weight)]
        tally = Tally()
        tally.add(torch.tensor([row["tests"] for row in own]), torch.tensor([row["right"] for row in own]))
        enough = tally.right >= GOAL * tally.plates
        if enough and (rate not in found or tally.mean < found[rate]["tests"]):
            rounds = sum(row["rounds"] for row in own) / len(own)
            found[rate] = {**tally.row("rounds", rate, weight, first), "rounds": rounds}
    return found


def trust(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """By rate, and of all: plates certain after the first round and after later ones, and how many of these are wrong.

    A plate that is not certain in the end is one for which the command finds no further pool that would help.
    """
    found = []
    for rate in [*sorted({row["rate"] for row in rows}), None]:
        own = [row for row in rows if rate in (None, row["rate"])]
        line: dict[str, Any] = {"rate": rate, "plates": len(own)}
        for name, later in (("first", False), ("later", True)):
            certain = [row for row in own if row["verdict"] == Verdict.CERTAIN and (row["rounds"] > 1) == later]
            line[f"certain_{name}"] = len(certain)
            line[f"wrong_{name}"] = sum(not row["right"] for row in certain)
        line["not_certain"] = len(own) - line["certain_first"] - line["certain_later"]
        for name in ("positives", "called_negative"):
            line[name] = sum(row[name] for row in own)
        found.append(line)
    return found


# The figure.

Curves = dict[str, list[tuple[float, float, float]]]
OURS = {ONE: "LoadPosterior, one stage", TWO: "LoadPosterior, then singles"}
OTHERS = {
    COMP_ONE: "COMP, one stage",
    ARRAY: "rows and columns, then singles",
    DORFMAN: "pools, then singles (Dorfman)",
    COMP_TWO: "COMP, then singles",
}


def curves(stages: Sequence[dict[str, Any]], rounds: Sequence[dict[str, Any]]) -> tuple[Curves, Curves]:
    """Our schemes and those of others: the rate, the mean number of tests on fresh plates, and its standard error."""
    found = on_fresh_plates(stages)
    ours, others = (
        {
            words: [(rate, row["tests"], row["error"]) for rate, row in sorted(found[name].items())]
            for name, words in schemes.items()
            if found.get(name)
        }
        for schemes in (OURS, OTHERS)
    )
    ours["LoadPosterior, rounds"] = [
        (rate, row["tests"], row["error"]) for rate, row in sorted(rounds_needed(rounds).items())
    ]
    return ours, others


def bound() -> list[tuple[float, float]]:
    """Pools of one stage below which no design can work, whatever the sizes of its pools."""
    loads = qgt.Loads(rate=1.0, **REAL)
    sizes = range(2, LARGEST + 1, 2)
    return [(rate, min(pools_for_loads(loads, NOISE, rate, ITEMS, size) for size in sizes)) for rate in RATES]


# The command.


def kept(path: Path, seed: int) -> dict[str, Any]:
    """What a file has of this seed."""
    stored = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return stored if stored.get("seed") == seed else {"seed": seed, "done": [], "rows": []}


def work_off(
    path: Path,
    about: dict[str, Any],
    tasks: Sequence[Any],
    run: Callable[[Any], Any],
    *,
    processes: int,
    seconds: float,
) -> dict[str, Any]:
    """Run what the file has not; every task that ends is kept."""
    stored = {**kept(path, about["seed"]), **about}
    done = {json.dumps(key) for key in stored["done"]}
    todo = [task for task in tasks if json.dumps(task.key) not in done]
    for number, (key, rows) in enumerate(in_processes(run, todo, processes=processes, seconds=seconds), 1):
        stored["done"].append(key)
        stored["rows"] += rows
        print(f"{number} of {len(todo)}: {key}", flush=True)
        if number % 10 == 0 or number == len(todo) or processes < 9:
            write(path, stored)
    write(path, stored)
    return stored


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("stages", "rounds", "draw"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--plates", type=int, help="of each point: 1,000 for stages, 200 for rounds")
    parser.add_argument("--rates", type=float, nargs="+", default=list(RATES))
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after so many; running again goes on")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    if given.what == "draw":
        stages, rounds = (json.loads(path.read_text("utf-8"))["rows"] for path in (STAGES, ROUNDS))
        return save_figure(needed_tests_figure(*curves(stages, rounds), bound(), ITEMS), IMAGE, "png")
    about = {"seed": given.seed, "measured_on": provenance(given.device)}
    end = time.perf_counter() + 60 * given.minutes
    if given.what == "rounds":
        cases = list(cases_of(given.rates, given.plates or 200, given.seed))
        path = given.output or ROUNDS
        found = work_off(path, about, cases, run_case, processes=given.processes, seconds=60 * given.minutes)
        for line in [*rounds_needed(found["rows"]).values(), *trust(found["rows"])]:
            print(line)
        return None
    path, plates = given.output or STAGES, given.plates or 1000
    tasks = list(tasks_of(given.rates, plates, given.seed, given.device))
    found = work_off(path, about, tasks, run_task, processes=given.processes, seconds=60 * given.minutes)
    whole, left = whole_rates(tasks, found["done"]), max(FRESH, end - time.perf_counter())
    fresh = [task for task in chosen(found["rows"], plates, given.seed, given.device) if task.rate in whole]
    found = work_off(path, about, fresh, run_task, processes=given.processes, seconds=left)
    for best in (needed(found["rows"]), on_fresh_plates(found["rows"])):
        for by_rate in best.values():
            for row in by_rate.values():
                print(row)
    return None


if __name__ == "__main__":
    main()
