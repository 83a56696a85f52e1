"""A map of settings: how many instances are proved within a budget, by Certified, HiGHS and CP-SAT.

    python benchmarks/map.py --instances 200 --budget 1                       # all settings
    python benchmarks/map.py --rows households "positive or negative"         # those whose names hold these words
    python benchmarks/map.py --solvers certified highs --instances 20 --budget 0.2
    python benchmarks/map.py --rows "N = 20,000" --budget 5 --solvers certified highs linear_program

All solve the same instances with the same time in all: `budget` seconds per instance on every core. Certified decodes
a batch on all cores and shares the batch's time; the others take one instance per core. Proved answers are compared.
CP-SAT takes part where ortools is installed.
Rows are added to the results as they come; what is measured again replaces what is old.
"""

import argparse
import importlib.util
import json
import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor

import cpsat
import qgt
from qgt.model.noise import Noise
from setting import provenance, write

LARGE = 5  # instances at most, of problems with more than 5,000 items
FRACTIONS = [2**-power for power in range(7, -1, -1)]  # of the budget
APART = 1e-4  # nats: two proved answers must not differ by more


def dense(items: int, pools: int) -> qgt.Design:
    return qgt.Design.bernoulli(pools=pools, items=items, generator=Generator().manual_seed(items + pools))


def regular(items: int, pools: int, weight: int) -> qgt.Design:
    g = Generator().manual_seed(items + pools + weight)
    return qgt.Design.column_regular(pools=pools, items=items, weight=weight, generator=g)


def one_rate(design: qgt.Design, rate: float, noise: Noise) -> qgt.Problem:
    return qgt.Problem(design, qgt.Bernoulli(rate), noise)


HOMES = qgt.Households(size=4, seed_rate=0.1, attack_rate=0.6)
OFF = qgt.SparseInteger(0.1, 1)
TESTS = qgt.PositiveNegative(0.95, 0.98)
SETTINGS: dict[str, Callable[[], qgt.Problem]] = {
    "the paper's: N = 100, M = 30, 6 %, D = 1": lambda: one_rate(dense(100, 30), 0.06, OFF),
    "D = 3, S/N = 0.1, M = 35": lambda: one_rate(dense(100, 35), 0.06, qgt.SparseInteger(0.1, 3)),
    "D = 3, S/N = 0.3, M = 50": lambda: one_rate(dense(100, 50), 0.06, qgt.SparseInteger(0.3, 3)),
    "noiseless, M = 20": lambda: one_rate(dense(100, 20), 0.06, qgt.Noiseless()),
    "Gaussian 0.5, M = 40": lambda: one_rate(dense(100, 40), 0.06, qgt.Gaussian(0.5)),
    "Gaussian 1, M = 60": lambda: one_rate(dense(100, 60), 0.06, qgt.Gaussian(1.0)),
    "2 %, M = 20": lambda: one_rate(dense(100, 20), 0.02, OFF),
    "15 %, M = 50": lambda: one_rate(dense(100, 50), 0.15, OFF),
    "30 %, M = 70": lambda: one_rate(dense(100, 70), 0.3, OFF),
    "N = 400 dense, M = 120": lambda: one_rate(dense(400, 120), 0.06, OFF),
    "N = 400, weight 8, M = 120": lambda: one_rate(regular(400, 120, 8), 0.06, OFF),
    "N = 1,000, weight 8, M = 300": lambda: one_rate(regular(1000, 300, 8), 0.06, OFF),
    "N = 2,000, weight 8, M = 600": lambda: one_rate(regular(2000, 600, 8), 0.06, OFF),
    "N = 20,000, weight 4, 0.5 %, M = 2,000": lambda: one_rate(regular(20_000, 2000, 4), 0.005, OFF),
    "positive or negative, N = 100, M = 45": lambda: one_rate(regular(100, 45, 5), 0.02, TESTS),
    "positive or negative, 6 %, N = 100, M = 45": lambda: one_rate(regular(100, 45, 5), 0.06, TESTS),
    "positive or negative, pools of 35 items, N = 100, M = 40": lambda: one_rate(regular(100, 40, 14), 0.02, TESTS),
    "positive or negative, no errors, N = 100, M = 45": lambda: one_rate(
        regular(100, 45, 5), 0.05, qgt.PositiveNegative()
    ),
    "positive or negative, N = 500, M = 150": lambda: one_rate(regular(500, 150, 6), 0.01, TESTS),
    "positive or negative, no errors, N = 500, M = 150": lambda: one_rate(
        regular(500, 150, 6), 0.02, qgt.PositiveNegative()
    ),
    "bins 0, 1 to 2, 3 to 5, more, M = 40": lambda: one_rate(regular(100, 40, 8), 0.06, qgt.Binned([1, 3, 6], OFF)),
    "saturating at 3, M = 35": lambda: one_rate(regular(100, 35, 8), 0.06, qgt.Saturating(3, OFF)),
    "reads: 500 of each pool, 1 % wrong, M = 35": lambda: one_rate(regular(100, 35, 8), 0.06, qgt.Reads(500, 0.01)),
    "households of 4, M = 16": lambda: qgt.Problem(dense(100, 16), HOMES, OFF),
    "households of 4, M = 20": lambda: qgt.Problem(dense(100, 20), HOMES, OFF),
    "households of 4, level unknown, M = 20": lambda: qgt.Problem(
        dense(100, 20), qgt.UnknownLevel(HOMES, low=0.3, high=3.0), OFF
    ),
    "unknown rate, 1 to 15 %, M = 30": lambda: qgt.Problem(dense(100, 30), qgt.UnknownRate(0.01, 0.15), OFF),
}


class Answers(NamedTuple):
    """What a solver makes of a batch."""

    proved: Tensor
    log_joint: Tensor
    seconds: float


def by_certified(problem: qgt.Problem, y: Tensor, budget: float, cores: int) -> Answers:
    decode = qgt.Certified(odds=1.0, time_limit=budget).bind(problem)
    decode(y[:1])  # libraries start with the first one
    start = time.perf_counter()
    result = decode(y)
    seconds = time.perf_counter() - start
    proved = result.status == qgt.Status.PROVED
    assert torch.equal(qgt.check_certificate(problem, y, result), proved), "a certificate was refused"
    return Answers(proved, problem.log_joint(result.x, y), seconds)


def by_linear_program(problem: qgt.Problem, y: Tensor, budget: float, cores: int) -> Answers:
    decode = qgt.LinearProgram().bind(problem)  # it has no time limit
    start = time.perf_counter()
    result = decode(y)
    seconds = time.perf_counter() - start
    return Answers(result.status == qgt.Status.PROVED, problem.log_joint(result.x, y), seconds)


def by_highs(problem: qgt.Problem, y: Tensor, budget: float, cores: int) -> Answers:
    decode = qgt.ExactMAP(time_limit=budget * cores, workers=cores).bind(problem)
    decode(y[:1])
    start = time.perf_counter()
    result = decode(y)
    seconds = time.perf_counter() - start
    return Answers(result.status == qgt.Status.PROVED, problem.log_joint(result.x, y), seconds)


def by_cpsat(problem: qgt.Problem, y: Tensor, budget: float, cores: int) -> Answers:
    factors = problem.factors(y)
    items = factors.items
    rows, fixed = [row.nonzero().flatten().tolist() for row in problem.design.matrix], []
    if items.groups is not None:
        rows += [row.nonzero().flatten().tolist() for row in items.groups.matrix]
        fixed += list(items.groups.tables.numpy())
    if items.total is not None:
        rows.append(list(range(problem.items)))
        fixed.append(items.total.numpy())
    weights, known = items.weights.numpy(), items.known.numpy()
    instances = [
        cpsat.Instance(rows, [*factors.pools.of_instance(i).numpy(), *fixed], weights, known, budget * cores)
        for i in range(len(y))
    ]
    # A process of its own: ortools and torch bring different copies of the same libraries.
    with ProcessPoolExecutor(cores, multiprocessing.get_context("spawn")) as pool:
        found = list(pool.map(cpsat.solve, instances))
    x = torch.tensor([one.x for one in found], dtype=torch.uint8).view(len(y), problem.items)
    log_joint = problem.log_joint(x, y)
    seconds = sum(one.seconds for one in found) / cores
    return Answers(torch.tensor([one.proved for one in found]) & log_joint.isfinite(), log_joint, seconds)


SOLVERS = {
    "certified": by_certified,
    "highs": by_highs,
    "cpsat": by_cpsat,
    "linear_program": by_linear_program,
}
USUAL = ["certified", "highs", "cpsat"]


def measured(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """One row of the map."""
    problem, cores = SETTINGS[name](), torch.get_num_threads()
    number = min(arguments.instances, LARGE) if problem.items > 5000 else arguments.instances
    y = problem.simulate(number, generator=Generator().manual_seed(1)).y
    row: dict[str, Any] = {"setting": name, "instances": number, "budget": arguments.budget, "cores": cores}
    best: Tensor | None = None
    for solver in arguments.solvers:
        proved, log_joint, seconds = SOLVERS[solver](problem, y, arguments.budget, cores)
        row[solver] = {"proved": int(proved.sum()), "ms": round(1e3 * seconds / number, 2)}
        told = torch.where(proved, log_joint, torch.nan)
        if best is not None:
            apart = (told - best).abs() > APART
            row["disagreements"] = row.get("disagreements", 0) + int(apart.sum())
        best = told if best is None else torch.where(best.isnan(), told, best)
    if {"certified", "highs"} <= set(arguments.solvers):
        row["certified"] |= as_many_as(row["highs"]["proved"], problem, y, arguments.budget, cores)
    return row


def as_many_as(proved: int, problem: qgt.Problem, y: Tensor, budget: float, cores: int) -> dict[str, float]:
    """The first of ever longer budgets in which Certified proves as many, with the time that it took.

    A batch shares its time: while a single instance is open, Certified uses all of it, where HiGHS gives up each
    instance by itself. So the time of the whole budget says little about the instances that both prove.
    """
    for part in FRACTIONS:
        found = by_certified(problem, y, part * budget, cores)
        if int(found.proved.sum()) >= proved:
            return {"as many as highs, ms": round(1e3 * found.seconds / len(y), 2)}
    return {}


def not_measured(old: dict[str, Any], date: str | None) -> dict[str, Any]:
    """The solvers' figures of an earlier run, with their dates: those measured now take their place."""
    kept = {solver: old[solver] for solver in SOLVERS if solver in old}
    return {solver: {"instances": old["instances"], "date": date} | figures for solver, figures in kept.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", nargs="*", default=[""], help="only settings whose names hold one of these words")
    parser.add_argument("--instances", type=int, default=100)
    parser.add_argument("--budget", type=float, default=1.0, help="seconds per instance")
    usual = [one for one in USUAL if one != "cpsat" or importlib.util.find_spec("ortools")]
    parser.add_argument("--solvers", nargs="*", default=usual, choices=list(SOLVERS))
    parser.add_argument("-o", "--output", type=Path, default=Path("results/map.json"))
    arguments = parser.parse_args()
    stored = json.loads(arguments.output.read_text()) if arguments.output.exists() else {"rows": []}
    stored_on = stored.get("measured on", {}).get("date")
    stored["measured on"] = provenance("cpu")
    for name in SETTINGS:
        if any(words in name for words in arguments.rows):
            row = measured(name, arguments)
            rest = {old["setting"]: old for old in stored["rows"]}
            row = not_measured(rest.pop(name, {}), stored_on) | row
            stored["rows"] = [row if one == name else rest[one] for one in SETTINGS if one == name or one in rest]
            print(json.dumps(row), flush=True)
            write(arguments.output, stored)


if __name__ == "__main__":
    main()
