"""`Certified` on one model after the other: answers a second, beside plain problems of the same information.

    python benchmarks/models.py                                     # this machine, one thread, all models
    python benchmarks/models.py --device cuda --instances 20000 --minutes 5
    python benchmarks/models.py --models missing households         # those whose names contain one of these words
    python benchmarks/models.py --before OTHER_CHECKOUT             # another version too: results/models_before.json

Each model has a *plain twin*: items of one rate, counts with errors of at most 1 (the paper's setting), and as much
information. A tenth of 33 counts is missing: the twin has 30 pools. A Gaussian error that rounds to another count in
some share of cases: the counts of the twin are off in that share. An unknown rate: the twin is a mixture of known
rates. Households, and a rate for each item: each instance is paired with a plain one whose statuses have the same
information, -log P(x), under a prior of one rate, because a few instances with far more information than the mean take
most of the time. The ratio is the twin's answers a second over those of the model, measured in turns within one run:
whatever else the machine does befalls both. Batches are warm, and the best of `--repeats` counts: CPU time on a CPU,
where decoding uses one thread, and seconds on a GPU.

Instances have a share of `--minutes`: a batch that takes longer ends early, and then the share proved is below 1.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor

import qgt  # and nothing else of ours: another version of the library runs this file too

ITEMS, RATE, BOUND = 100, 0.06, 1  # the paper's
OFF = qgt.SparseInteger(0.1, BOUND)
HOMES = qgt.Households(size=4, seed_rate=0.1, attack_rate=0.6)
LONGEST = 30.0  # seconds for a batch of one of two versions
PAIRED_RATES = [0.01, 0.03, 0.06, 0.1, 0.16, 0.25]
RATES = [0.02, 0.04, 0.06, 0.08, 0.1, 0.12, 0.14]  # the middles of seven parts of the rates from 1 to 15 %


class Work(NamedTuple):
    """A problem with some counts."""

    problem: qgt.Problem
    y: Tensor


def work(
    problem: qgt.Problem,
    instances: float,
    *,
    truth: qgt.Problem | None = None,  # whose instances they are, if of another one
    missing: float = 0.0,  # share of counts that are missing
    rounded: bool = False,
) -> Work:
    """The counts of so many instances."""
    g = Generator().manual_seed(1)
    y = (truth or problem).simulate(max(1, round(instances)), generator=g).y
    if rounded:
        y = y.round()
    if missing:
        y = torch.where(torch.rand(y.shape, generator=g) < missing, torch.nan, y)
    return Work(problem, y)


def design(pools: int) -> qgt.Design:
    return qgt.Design.bernoulli(pools=pools, items=ITEMS, generator=Generator().manual_seed(pools))


def plain(pools: int, rate: float = RATE, errors: float = 0.1) -> qgt.Problem:
    return qgt.Problem(design(pools), qgt.Bernoulli(rate), qgt.SparseInteger(errors, BOUND))


def like_gaussian(sigma: float) -> float:
    """The rate of the plain error that changes as many counts as rounding a Gaussian error does."""
    return 2 * (1 - NormalDist().cdf(0.5 / sigma)) * (2 * BOUND + 1) / (2 * BOUND)  # an error may also be 0


def information(problem: qgt.Problem, x: Tensor) -> Tensor:
    """Nats that some statuses have, by the prior."""
    assert isinstance(problem.prior, qgt.Prior)
    return -problem.prior.log_prob(x)


def paired(problem: qgt.Problem, instances: int) -> list[Work]:
    """For each instance that `work` draws a plain one of the same information, by their rates.

    The rate is the one whose items have the entropy nearest to that information; the number of defectives gives the
    instance the same information to within half the log odds of the rate.
    """
    g = Generator().manual_seed(1)
    nats = information(problem, problem.simulate(instances, generator=g).x)
    p = torch.tensor(PAIRED_RATES, dtype=torch.float64)
    entropies = -problem.items * (p * p.log() + (1 - p) * (1 - p).log())
    nearest, found = (nats[:, None] - entropies).abs().argmin(1), []
    for which in nearest.unique().tolist():
        twin, rate = plain(problem.pools, PAIRED_RATES[which]), p[which]
        none = -problem.items * (1 - rate).log()  # the information of no defective
        defectives = ((nats[nearest == which] - none) / ((1 - rate) / rate).log()).round().clamp(0, problem.items)
        order = torch.rand(len(defectives), problem.items, generator=g).argsort(1).argsort(1)
        x = (order < defectives[:, None]).to(torch.uint8)
        sizes = problem.design.pool_sizes.to(torch.float64)
        found.append(Work(twin, twin.noise.sample(twin.design.count(x), sizes, generator=g)))
    return found


def unknown_rate(pools: int) -> qgt.Problem:
    return qgt.Problem(design(pools), qgt.UnknownRate(0.01, 0.15), OFF)


def gaussian(pools: int, sigma: float) -> qgt.Problem:
    return qgt.Problem(design(pools), qgt.Bernoulli(RATE), qgt.Gaussian(sigma))


def rates(pools: int) -> qgt.Problem:
    each = torch.linspace(0.02, 0.1, ITEMS, dtype=torch.float64)
    return qgt.Problem(design(pools), qgt.Bernoulli(each), OFF)


def households(pools: int) -> qgt.Problem:
    return qgt.Problem(design(pools), HOMES, OFF)


def unknown_level(pools: int) -> qgt.Problem:
    return qgt.Problem(design(pools), qgt.UnknownLevel(HOMES, low=0.3, high=3.0), OFF)


def mixture(pools: int, instances: int) -> list[Work]:
    return [work(plain(pools, rate), instances / len(RATES)) for rate in RATES]


MODELS: dict[str, Callable[[int], tuple[Work, list[Work]]]] = {
    "plain, M = 30": lambda n: (work(plain(30), n), [work(plain(30), n)]),
    "plain, M = 35": lambda n: (work(plain(35), n), [work(plain(35), n)]),
    "a tenth of 33 counts missing": lambda n: (work(plain(33), n, missing=0.1), [work(plain(30), n)]),
    "a tenth of 39 counts missing": lambda n: (work(plain(39), n, missing=0.1), [work(plain(35), n)]),
    "unknown rate of 1 to 15 %, truth 6 %, M = 30": lambda n: (
        work(unknown_rate(30), n, truth=plain(30)),
        [work(plain(30), n)],
    ),
    "unknown rate of 1 to 15 %, M = 35": lambda n: (work(unknown_rate(35), n), mixture(35, n)),
    "Gaussian 0.27, M = 30": lambda n: (work(gaussian(30, 0.27), n), [work(plain(30, RATE, like_gaussian(0.27)), n)]),
    "Gaussian 0.27, rounded, M = 30": lambda n: (
        work(gaussian(30, 0.27), n, rounded=True),
        [work(plain(30, RATE, like_gaussian(0.27)), n)],
    ),
    "Gaussian 0.5, M = 40": lambda n: (work(gaussian(40, 0.5), n), [work(plain(40, RATE, like_gaussian(0.5)), n)]),
    "a rate for each item, M = 30": lambda n: (work(rates(30), n), paired(rates(30), n)),
    "households of 4, M = 20": lambda n: (work(households(20), n), paired(households(20), n)),
    "households of 4, level unknown, M = 25": lambda n: (work(unknown_level(25), n), paired(unknown_level(25), n)),
}


@contextmanager
def counted_nodes() -> Iterator[list[int]]:
    """How many nodes are relaxed."""
    from qgt.decoders.certified.search import Search

    relax, nodes = Search._relax, [0]

    def counting(search: Any, some: Any, iterations: int) -> Any:
        nodes[0] += len(some.owner)
        return relax(search, some, iterations)

    Search._relax = counting  # type: ignore[method-assign]
    try:
        yield nodes
    finally:
        Search._relax = relax  # type: ignore[method-assign]


@dataclass
class Clock:
    """Time in which decodes have to be done."""

    end: float
    batches: float  # that are still to do

    def share(self, part: float) -> float:
        """Seconds for a part of the next batch, which may leave some to others."""
        seconds = max(1.0, self.end - time.perf_counter()) * part / max(self.batches, part)
        self.batches -= part
        return seconds


def seconds_of(decode: Callable[[], qgt.Decoded], device: str) -> tuple[float, qgt.Decoded]:
    now = time.process_time if device == "cpu" else time.perf_counter
    start = now()
    result = decode()
    result.x.cpu()  # waits for the device
    return now() - start, result


def decoded(batches: list[Work], arguments: argparse.Namespace, clock: Clock) -> list[dict[str, float]]:
    """What each turn of decoding some batches took, proved, and looked at; the first turn warms up."""
    turns = [dict.fromkeys(("instances", "proved", "nodes", "seconds"), 0.0) for _ in range(arguments.repeats + 1)]
    instances = sum(len(batch.y) for batch in batches)
    for batch in batches:
        y = batch.y.to(arguments.device)
        for turn in turns:
            limit = clock.share(len(y) / instances) / len(y)
            decode = qgt.Certified(odds=arguments.odds, time_limit=limit).bind(batch.problem)
            with counted_nodes() as nodes:
                seconds, result = seconds_of(lambda: decode(y), arguments.device)  # noqa: B023
            turn["instances"] += len(y)
            turn["seconds"] += seconds
            turn["nodes"] += nodes[0]
            turn["proved"] += int((result.status == qgt.Status.PROVED).sum())
    return turns


def measured(name: str, arguments: argparse.Namespace, clock: Clock) -> dict[str, Any]:
    """One row: a model and its plain twin."""
    model, twin = MODELS[name](arguments.instances)
    row: dict[str, Any] = {"model": name, "device": arguments.device, "odds": arguments.odds}
    for side, batches in (("of the model", [model]), ("of the twin", twin)):
        _, *turns = decoded(batches, arguments, clock)
        best = min(turns, key=lambda turn: turn["seconds"] / max(turn["proved"], 0.5))
        n, proved, seconds = best["instances"], best["proved"], best["seconds"]
        row["instances"] = int(n)
        row[side] = {
            "proved a second": round(proved / seconds, 1),
            "proved": round(proved / n, 4),
            "nodes each": round(best["nodes"] / n, 2),
            "ms each": round(1e3 * seconds / n, 4),
        }
    row["ratio"] = round(row["of the twin"]["proved a second"] / max(row["of the model"]["proved a second"], 1e-9), 2)
    return row


def rate(name: str, arguments: argparse.Namespace) -> float:
    """Proofs a second of the model alone, by whatever version of the library runs this file; a first turn warms up."""
    batch = MODELS[name](arguments.instances)[0]
    y, found = batch.y.to(arguments.device), 0.0
    for _ in range(2):
        decode = qgt.Certified(odds=arguments.odds, time_limit=LONGEST / len(y)).bind(batch.problem)
        seconds, result = seconds_of(lambda: decode(y), arguments.device)  # noqa: B023
        found = int((result.status == qgt.Status.PROVED).sum()) / seconds
    return round(found, 1)


def rates_of(checkout: Path, names: list[str], arguments: argparse.Namespace) -> dict[str, float]:
    """The same of the version in a checkout, in a process of its own."""
    given = ["--device", arguments.device, "--instances", str(arguments.instances), "--odds", str(arguments.odds)]
    command = [sys.executable, __file__, "--rates", *names, *given]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(checkout / "src"), os.environ.get("PYTHONPATH", "")]),
    }
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(line) for line in done.stdout.splitlines())


def compared(names: list[str], arguments: argparse.Namespace) -> None:
    """This version and another one, in one run."""
    from setting import provenance, write

    before, now = (rates_of(one, names, arguments) for one in (arguments.before, Path(__file__).parents[1]))
    rows = [{"model": name, "before": before[name], "now": now[name]} for name in names]
    measured_on = {"instances": arguments.instances, **provenance(arguments.device)}
    write(Path("results/models_before.json"), {"measured on": measured_on, "rows": rows})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--models", nargs="*", default=[""], help="only models whose names contain one of these words")
    parser.add_argument("--instances", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--odds", type=float, default=1.0)
    parser.add_argument("--minutes", type=float, default=5.0, help="in all")
    parser.add_argument("-o", "--output", type=Path, default=Path("results/models.json"))
    parser.add_argument("--before", type=Path, help="a checkout of another version: compare with it")
    parser.add_argument("--rates", nargs="*", help="only print proofs a second of these models")
    arguments = parser.parse_args()
    if arguments.device == "cpu":
        torch.set_num_threads(1)  # so that CPU time means something
    for name in arguments.rates or ():
        print(json.dumps([name, rate(name, arguments)]), flush=True)
    if arguments.rates:
        return None
    names = [name for name in MODELS if any(words in name for words in arguments.models)]
    if arguments.before:
        return compared(names, arguments)
    from setting import provenance, write

    clock = Clock(time.perf_counter() + 60 * arguments.minutes, 2 * len(names) * (arguments.repeats + 1))
    stored = json.loads(arguments.output.read_text()) if arguments.output.exists() else {"rows": []}
    stored["measured on"] = stored.get("measured on", {}) | {arguments.device: provenance(arguments.device)}
    for name in names:
        row = measured(name, arguments, clock)
        old = {(one["model"], one["device"]): one for one in stored["rows"]} | {(name, arguments.device): row}
        stored["rows"] = [old[one, on] for on in ("cpu", "cuda") for one in MODELS if (one, on) in old]
        print(json.dumps(row), flush=True)
        write(arguments.output, stored)
    return None


if __name__ == "__main__":
    main()
