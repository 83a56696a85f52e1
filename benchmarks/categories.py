"""Copies and categories: how often they are right and proved, beside message passing, linear programs and thresholding.

    python benchmarks/categories.py success -o results/categories.json        # N = 100, 20 to 40 pools, one thread
    python benchmarks/categories.py brute -o results/categories.json          # small problems against every x
    python benchmarks/categories.py networks -o results/categories.json --device cuda --seconds 10    # a network a row
    python benchmarks/categories.py plates -o results/categories.json         # verdicts, calls and follow-up rounds

`success`: items are in one of 2, 3 or 4 categories, 6 % of them not in the first; or have 0, 1 or 2 copies of an allele
of frequency 3 %, so that pools of all problems have as many to count. Noisy reports are off by one, as in the paper's
setting. Every instance is decoded by itself. `proved` counts answers that are shown to be the most probable ones in one
second of one core's time, which does not depend on what else the machine does. Where all are proved, the share of right
answers is the limit of all decoders. The same instances go to all.

`brute`: small random problems with any noise, or one for each category, rates of all items or of each item, missing
reports and arbitrary ones. Counted are the problems in which `Certified` finds, proves and lists what trying every x
does, and in which its certificates are accepted.

`networks`: the rows of `success` once more, for networks. The four designs of a row have one network each, which are
trained side by side for `--seconds`. Counted are the instances of `success` and `--tests` new ones of each design, in
one pass and with `--rounds` rounds. A row that is in the results is skipped, unless it was trained for less time; rows
are written one by one, and none is begun after `--limit` seconds, so that several calls may share the work.

`plates`: 96 samples in too few pools, decoded as `qgt decode` does it, with 10 seconds of calibration: how many plates
are certain and how many of those are wrong, how many samples are called with a wrong value, and the same after one
follow-up round of at most four pools for each plate that is not certain.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))  # where the random problems are made

import numpy as np
import torch
from torch import Tensor

import qgt
from qgt.decoders.neural.record import TrainConfig
from qgt.lab.answers.decoding import ByLongerLists, DecodedSheet, decode_history, decode_sheet
from qgt.lab.rounds import propose
from qgt.learning.run import TrainingRun
from qgt.rounds.history import History, measure
from qgt.rounds.stopping import Settle
from random_values import equals_brute_force, random_case
from setting import provenance, synchronize, write

ITEMS, DESIGNS = 100, 4
MOST_SECONDS = 3.0  # by the clock, for searches that share the machine with others
PRIORS: dict[str, qgt.Categories | qgt.Copies] = {
    "2 categories": qgt.Categories((0.06,)),
    "3 categories": qgt.Categories((0.03, 0.03)),
    "4 categories": qgt.Categories((0.02, 0.02, 0.02)),
    "0, 1, 2 copies": qgt.Copies(frequency=0.03, ploidy=2),
}
OTHERS: dict[str, qgt.Decoder] = {
    "amp": qgt.PooledAMP(),
    "linear_program": qgt.LinearProgram(),
    "iht": qgt.PooledIHT(),
}


class Drawn(NamedTuple):
    """A problem with some of its instances."""

    problem: qgt.Problem
    x: Tensor
    y: Tensor


def noise_of(rate: float) -> qgt.Noise:
    """Counts that are off by one now and then."""
    return qgt.SparseInteger(rate=rate, bound=1) if rate else qgt.Noiseless()


def one_by_one(problem: qgt.Problem, x: Tensor, y: Tensor) -> list[tuple[bool, bool, float]]:
    """Whether each answer is right, whether it was proved in a second of one core's time, and its seconds."""
    decode = qgt.Certified(odds=1.0, time_limit=MOST_SECONDS, certificates=False).bind(problem)
    decode(y[:1])  # warm
    found = []
    for i in range(len(y)):
        start = time.process_time()
        result = decode(y[i : i + 1])
        seconds = time.process_time() - start
        proved = int(result.status[0]) == qgt.Status.PROVED and seconds <= 1.0
        found.append((bool((result.x[0] == x[i]).all()), proved, seconds))
    return found


def success(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A row for each kind of items, number of pools and noise."""
    for name, prior in PRIORS.items():
        if not name.startswith(arguments.rows):
            continue
        for pools in arguments.pools:
            for rate in (0.0, 0.1):
                yield _row(name, prior, pools, rate, arguments.instances)


def problems_of(prior: qgt.Categories | qgt.Copies, pools: int, rate: float, instances: int) -> Iterator[Drawn]:
    """The designs of a row, each with its own instances."""
    for seed in range(DESIGNS):
        g = torch.Generator().manual_seed(1000 * pools + seed)
        problem = qgt.Problem(qgt.Design.bernoulli(pools=pools, items=ITEMS, generator=g), prior, noise_of(rate))
        yield Drawn(problem, *problem.simulate(instances // DESIGNS, generator=g))


def _row(name: str, prior: qgt.Categories | qgt.Copies, pools: int, rate: float, instances: int) -> dict[str, Any]:
    ours: list[tuple[bool, bool, float]] = []
    right = dict.fromkeys(OTHERS, 0)
    seconds = dict.fromkeys(OTHERS, 0.0)
    for problem, x, y in problems_of(prior, pools, rate, instances):
        ours += one_by_one(problem, x, y)
        for other, decoder in OTHERS.items():
            decode = decoder.bind(problem)
            start = time.process_time()
            right[other] += int((decode(y).x == x).all(1).sum())
            seconds[other] += time.process_time() - start
    times = 1e3 * np.array([each for *_, each in ours])
    return {
        "items": name,
        "pools": pools,
        "noise": rate,
        "instances": len(ours),
        "right": sum(one for one, *_ in ours),
        "proved": sum(proved for _, proved, _ in ours),
        "median_ms": round(float(np.median(times)), 2),
        "mean_ms": round(float(times.mean()), 2),
        "others": {
            other: {"right": right[other], "ms": round(1e3 * seconds[other] / len(ours), 2)} for other in OTHERS
        },
    }


def brute(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A row for each kind: problems, and those that agree with trying every x in everything."""
    for kind in ("copies", "categories"):
        if not kind.startswith(arguments.rows):
            continue
        g = torch.Generator().manual_seed(2027)
        odds = (1.0, 5.0, 100.0)
        equal = [equals_brute_force(random_case(kind, g), odds[number % 3]) for number in range(arguments.problems)]
        yield {"kind": kind, "problems": len(equal), "instances": 4 * len(equal), "equal": sum(equal)}


PROBE = 20  # steps, by which the number of steps in the time is found
SHARE = 0.95  # of the time for steps; the rest is for validations


def networks(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A row for each kind of items, number of pools and noise that has none yet, or one of less training."""
    began, done = time.perf_counter(), {_key(row): row["seconds"] for row in _stored(arguments, "networks")}
    for name, prior in PRIORS.items():
        for pools in arguments.pools:
            for rate in (0.0, 0.1):
                if not name.startswith(arguments.rows) or done.get((name, pools, rate), 0.0) >= arguments.seconds:
                    continue
                if time.perf_counter() - began > arguments.limit:
                    print("the time is up: call again for the other rows")
                    return
                yield _trained(name, prior, pools, rate, arguments)


def _key(row: dict[str, Any]) -> tuple[str, int, float]:
    return row["items"], row["pools"], row["noise"]


def _stored(arguments: argparse.Namespace, part: str) -> list[dict[str, Any]]:
    path = arguments.output
    found: list[dict[str, Any]] = json.loads(path.read_text()).get(part, []) if path and path.exists() else []
    return found


def _trained(
    name: str, prior: qgt.Categories | qgt.Copies, pools: int, rate: float, arguments: argparse.Namespace
) -> dict[str, Any]:
    """Train the networks of one row, and count."""
    drawn, device = list(problems_of(prior, pools, rate, arguments.instances)), arguments.device
    network = qgt.Refining(arguments.width, arguments.blocks, 5)
    problems = [one.problem for one in drawn]
    steps = _steps(problems, network, arguments)
    config = TrainConfig.fresh(steps=steps, batch=arguments.batch, validation=arguments.validation)
    g = torch.Generator(device).manual_seed(pools)
    synchronize(device)
    start = time.perf_counter()
    nets = qgt.train_many(problems, network, config, generator=g)
    synchronize(device)
    seconds = time.perf_counter() - start
    right = dict.fromkeys(("one_pass", "rounds", "new_one_pass", "new_rounds"), 0)
    for net, (problem, x, y) in zip(nets, drawn, strict=True):
        new = problem.simulate(arguments.tests, generator=g)
        for way, one in (("one_pass", net), ("rounds", net.with_rounds(arguments.rounds))):
            decode = one.bind(problem)
            right[way] += int((decode(y.to(device)).x.cpu() == x).all(1).sum())
            right[f"new_{way}"] += int((decode(new.y).x == new.x).all(1).sum())
    return {
        "items": name,
        "pools": pools,
        "noise": rate,
        "seconds": arguments.seconds,
        "trained_seconds": round(seconds, 1),
        "steps": config.total_steps,
        "batch": config.batch,
        "network": str(network),
        "rounds": arguments.rounds,
        "instances": sum(len(one.x) for one in drawn),
        "new_instances": DESIGNS * arguments.tests,
        "right": right,
        "measured_on": provenance(device),
    }


def _steps(problems: list[qgt.Problem], network: qgt.Architecture, arguments: argparse.Namespace) -> int:
    """As many steps as the time allows, by a few of them; the first epoch is for libraries and captures."""
    config = TrainConfig(instances=None, steps=PROBE, epochs=3, patience=None, validation=2, batch=arguments.batch)
    g = torch.Generator(arguments.device).manual_seed(0)
    run = TrainingRun.begin([one.in_parts for one in problems], network, config, g)
    run.epoch()
    synchronize(arguments.device)
    start = time.perf_counter()
    run.epoch()
    synchronize(arguments.device)
    return max(100, int(SHARE * arguments.seconds * PROBE / (time.perf_counter() - start)))


PLATES: dict[str, tuple[qgt.Categories | qgt.Copies, qgt.Noise, int]] = {
    "two variants, 3 % and 1 %, counts off in 2 %": (qgt.Categories((0.03, 0.01)), qgt.SparseInteger(0.02, 1), 13),
    "an allele of 1 %, 2,000 reads": (qgt.Copies(frequency=0.01, ploidy=2), qgt.Reads(2000, 0.001), 11),
}


def plates(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A row for each kind of samples."""
    for name, (prior, noise, pools) in PLATES.items():
        if name.startswith(arguments.rows):
            yield {"samples": name, "pools": pools, **_plates(prior, noise, pools, arguments.instances)}


def _plates(prior: qgt.Categories | qgt.Copies, noise: qgt.Noise, pools: int, instances: int) -> dict[str, Any]:
    g = torch.Generator().manual_seed(5)
    design = qgt.Design.column_regular(pools=pools, items=96, weight=5, generator=g)
    problem = qgt.Problem(design, prior, noise)
    x, y = problem.simulate(instances, generator=g)
    sheet = decode_sheet(problem, y, None, qgt.Certified(certificates=False, time_limit=5.0))
    way = ByLongerLists(Settle(confidence=0.99), g)
    settled = decode_history(problem, [History.start(problem, row) for row in y], sheet.names, way)
    histories = list(settled.histories)
    for one in propose(settled, confidence=0.99, pools=4, risk=0.005, generator=g):
        place = settled.names.index(one.account.name)
        setting = histories[place].setting
        counts = measure(setting, x[place], one.pools.matrix, generator=g)
        histories[place] = histories[place].after(one.pools.matrix, counts)
    after = decode_history(problem, histories, sheet.names, way, rounds=2)
    added = sum(history.problem.pools - pools for history in histories)
    return {"plates": instances, "first": _told(sheet, x), "after": _told(after, x), "pools_added": added}


def _told(sheet: DecodedSheet, x: Tensor) -> dict[str, int]:
    """Plates that are certain, and those of them that are wrong; samples that are called, and those called wrong."""
    values = sheet.problem.values
    assert values is not None
    certain = [str(one.verdict) == "certain" for one in sheet.accounts]
    right = (sheet.result.x == x).all(1).tolist()
    calls = [
        (each.cell, values.cells[value])
        for one, row in zip(sheet.accounts, x.tolist(), strict=True)
        for each, value in zip(one.calls, row, strict=True)
    ]
    made = [(cell, true) for cell, true in calls if cell]
    zero = values.cells[0]
    return {
        "certain": sum(certain),
        "certain_wrong": sum(sure and not fine for sure, fine in zip(certain, right, strict=True)),
        "best_right": sum(right),
        "called": len(made),
        "positive": sum(cell != zero for cell, _ in made),
        "positive_wrong": sum(cell not in (zero, true) for cell, true in made),
        "negative_wrong": sum(cell == zero and true != zero for cell, true in made),
        "not_called": len(calls) - len(made),
    }


PARTS = {"success": success, "brute": brute, "networks": networks, "plates": plates}


def main() -> None:
    """Measure one part, and put its rows into the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--pools", type=int, nargs="+", default=[20, 25, 30, 35, 40])
    parser.add_argument("--rows", default="", help="Only the kind whose name begins so.")
    parser.add_argument("--instances", type=int, default=100)
    parser.add_argument("--problems", type=int, default=500)
    parser.add_argument("--device", default="cpu", help="Of networks.")
    parser.add_argument("--seconds", type=float, default=10.0, help="Of training, for each row of networks.")
    parser.add_argument("--limit", type=float, default=500.0, help="Seconds after which no network is begun.")
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--blocks", type=int, default=2)
    parser.add_argument("--batch", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--tests", type=int, default=2500, help="New instances for each network.")
    parser.add_argument("--validation", type=int, default=4000)
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for row in PARTS[arguments.part](arguments):
        print(json.dumps(row), flush=True)
        rows.append(row)
        if arguments.part == "networks":
            _put(arguments, row)
    if arguments.output is not None and arguments.part != "networks":
        before = json.loads(arguments.output.read_text()) if arguments.output.exists() else {}
        write(arguments.output, {**before, **provenance("cpu"), arguments.part: rows})


def _put(arguments: argparse.Namespace, row: dict[str, Any]) -> None:
    """Write a row of networks in its place, so that a call that ends early loses none."""
    if arguments.output is None:
        return
    before = json.loads(arguments.output.read_text()) if arguments.output.exists() else {}
    rows = {_key(one): one for one in before.get("networks", [])} | {_key(row): row}
    order = [(name, pools, rate) for name in PRIORS for pools in range(ITEMS + 1) for rate in (0.0, 0.1)]
    write(arguments.output, {**before, "networks": [rows[key] for key in order if key in rows]})


if __name__ == "__main__":
    main()
