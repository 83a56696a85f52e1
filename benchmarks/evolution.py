"""Is a threshold of belief propagation the design's, or that of the order in which messages are sent?

python benchmarks/evolution.py threshold --population 4000                       # adds to results/evolution.json
python benchmarks/evolution.py schedules --items 10000 --instances 5 --ratios 0.17 0.18 0.19

**Threshold.** In a random design of infinitely many items no two neighbours of an item are neighbours of each other.
The messages that reach one are then independent, and their law follows from that of the sweep before: no order of
messages is left. The law is kept as a population, from which the messages to a pool are drawn (population dynamics).
Messages are probabilities, and true ones: an item that is said to be defective with probability p is so with
probability p. So its status is drawn by what it says; populations of both statuses, drawn by themselves, would drift
apart. The least M/N from which the share of wrong items falls to nothing is what belief propagation can do in the
regular design, in any order. It is found by halving.

**Schedules.** The same instances in the orders of messages that a sweep may have: all pools at once, damped, or in 8 or
64 turns. Where they solve and fail the same instances, the order is not to blame.
"""

import argparse
import dataclasses
import json
import math
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Generator, Tensor

import qgt
from qgt.decoders.belief.sweeps import SUREST_MESSAGE, FactorCosts, Graph, _steps, messages, prior_odds, sweep
from qgt.files.store import write_text
from thresholds import NOISE, RATE, SOLVED, regular, seeded

RESULTS = Path(__file__).resolve().parents[1] / "results/evolution.json"
TURNS = {"all at once, damped": 1, "8 turns": 8, "64 turns": 64}
STALLED = 40  # sweeps without progress, after which nothing more is expected


class Law:
    """What items tell pools: a population of log odds."""

    def __init__(self, weight: int, ratio: float, population: int, generator: Generator) -> None:
        self.weight, self.population, self.generator = weight, population, generator
        self.prior = math.log(RATE / (1 - RATE))
        self.told = torch.full((8 * population,), self.prior, dtype=torch.float64)
        low, part = divmod(weight / ratio, 1.0)  # pools have one of two sizes
        larger = round(part * population)
        self.pools = [(int(low), population - larger), (int(low) + 1, larger)]

    def sweep(self) -> float:
        """One sweep of all messages; the share of items that are then called wrong."""
        said: list[list[Tensor]] = [[], []]  # by pools, to items that are not defective and to those that are
        for size, number in self.pools:
            if number:
                heard = self._draw(self.told, (size, number))
                x = torch.rand(size, number, generator=self.generator, dtype=torch.float64) < torch.sigmoid(heard)
                new = messages(heard, self._likelihood(x.sum(0))).clamp(-SUREST_MESSAGE, SUREST_MESSAGE)
                said[0].append(new[~x])
                said[1].append(new[x])
        defective = torch.rand(len(self.told), generator=self.generator) < RATE
        both = [self._draw(torch.cat(one), (self.weight, len(self.told))) for one in said]
        told = torch.where(defective, both[1], both[0])  # (pools of an item, items)
        self.told = (self.prior + told[1:].sum(0)).clamp(-SUREST_MESSAGE, SUREST_MESSAGE)
        return float(((self.prior + told.sum(0) > 0) != defective).double().mean())

    def _draw(self, values: Tensor, shape: "torch.Size | tuple[int, ...]") -> Tensor:
        return values[torch.randint(len(values), tuple(shape), generator=self.generator)]

    def _likelihood(self, counts: Tensor) -> Tensor:
        """T(0), T(1), ... of each pool's report: (counts, pools)."""
        size = int(counts.max()) + NOISE.bound + 1
        sizes = torch.full((len(counts),), float(10 * size), dtype=torch.float64)
        reports = NOISE.sample(counts.double()[None], sizes, generator=self.generator)[0]
        possible = torch.arange(size + NOISE.bound + 1, dtype=torch.float64)[:, None]
        return NOISE.log_prob(reports, possible, sizes).exp()


def solves(weight: int, ratio: float, population: int, generator: Generator) -> tuple[bool, int, float]:
    """Whether the share of wrong items falls below that of a solved instance, after how many sweeps, and how low."""
    law, least, since, sweeps = Law(weight, ratio, population, generator), 1.0, 0, 0
    while least > SOLVED / 10 and since < STALLED:
        wrong, sweeps = law.sweep(), sweeps + 1
        since = 0 if wrong < 0.98 * least else since + 1
        least = min(least, wrong)
    return least <= SOLVED, sweeps, least


def threshold(weight: int, population: int, precision: float) -> dict[str, object]:
    """The least M/N that solves, by halving."""
    low, high, tried = 0.15, 0.25, []
    while high - low > precision:
        ratio = (low + high) / 2
        solved, sweeps, least = solves(weight, ratio, population, seeded(f"{weight} {ratio} {population}"))
        low, high = (low, ratio) if solved else (ratio, high)
        tried.append({"ratio": round(ratio, 5), "solved": solved, "sweeps": sweeps, "wrong": float(f"{least:.3g}")})
        print(tried[-1], flush=True)
    return {"weight": weight, "population": population, "low": round(low, 5), "high": round(high, 5), "tried": tried}


def schedules(items: int, ratio: float, instances: int, iterations: int) -> list[dict[str, object]]:
    """The same instances in each order of messages."""
    found = {name: {"solved": 0, "settled": 0, "wrong": 0, "sweeps": 0} for name in TURNS}
    same = 0
    for number in range(instances):
        generator = seeded(f"schedules {items} {ratio} {number}")
        problem = qgt.Problem(regular(round(ratio * items), items, generator), qgt.Bernoulli(RATE), NOISE)
        x, y = problem.simulate(1, generator=generator)
        wrong = {name: _wrong(found[name], turns, problem, x, y, iterations) for name, turns in TURNS.items()}
        same += len({one <= SOLVED * items for one in wrong.values()}) == 1
    shared = {"items": items, "ratio": ratio, "instances": instances, "same_outcome": same}
    return [{**shared, "schedule": name, **one} for name, one in found.items()]


def _wrong(counted: dict[str, int], turns: int, problem: qgt.Problem, x: Tensor, y: Tensor, iterations: int) -> int:
    """Decode in one order of messages, and count."""
    factors = problem.factors(y)
    graph = Graph.of(factors)
    graph = dataclasses.replace(graph, steps=_steps(problem.design.lists, 0, layers=turns), at_once=turns == 1)
    beliefs = sweep(graph, FactorCosts.of(factors).likelihoods(), prior_odds(factors), None, iterations, 1e-3)
    wrong = int(((beliefs.marginals.T > 0.5) != x.bool()).sum())
    counted["solved"] += wrong <= SOLVED * problem.items
    counted["settled"] += int(beliefs.settled[0])
    counted["wrong"] += wrong
    counted["sweeps"] += int(beliefs.sweeps[0])
    return wrong


def save(part: str, rows: list[dict[str, object]], same: Callable[[dict[str, object]], object]) -> None:
    """Put rows in the place of those that are of the same."""
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    new = {same(row) for row in rows}
    kept = [row for row in found.get(part, []) if same(row) not in new]
    found[part] = sorted([*kept, *rows], key=lambda row: str(same(row)))
    write_text(RESULTS, json.dumps(found, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["threshold", "schedules"])
    parser.add_argument("--weight", type=int, default=8)
    parser.add_argument("--population", type=int, default=4000, help="pools whose messages are kept")
    parser.add_argument("--precision", type=float, default=0.001)
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--instances", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=300)
    parser.add_argument("--ratios", type=float, nargs="+", default=[0.17, 0.18, 0.19])
    given = parser.parse_args()
    if given.part == "threshold":
        found = threshold(given.weight, given.population, given.precision)
        save("threshold", [found], lambda row: (row["weight"], row["population"]))
        return
    for ratio in given.ratios:
        rows = schedules(given.items, ratio, given.instances, given.iterations)
        print(*rows, sep="\n", flush=True)
        save("schedules", rows, lambda row: (row["items"], row["ratio"], row["schedule"]))


if __name__ == "__main__":
    main()
