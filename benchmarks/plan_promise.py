"""Does a plan keep its promise? Random questions are planned, and new plates decoded with the recommended design.

    python benchmarks/plan_promise.py --processes 15 --limit 470            # 20 questions, 1,000 plates each: 5 minutes
    python benchmarks/plan_promise.py --questions 4 --plates 100 --largest 48 --seconds 5 -o /tmp/small.json

A question has 24 to 384 samples, 0.5 to 10 % of them positive, and one of the assays that a plan knows. Its plan states
a 99 % interval for the share of plates that are decoded without an error. New plates, drawn with other seeds and
decoded with the same time each, give a share of their own; the promise is kept where that share is in the interval. As
both shares are measured, a true one falls outside now and then: `p` is that of Fisher's exact test that the two are the
same.

Plans come first, then parts of 100 plates. All is written as it comes: the same command goes on where it was stopped.
"""

import argparse
import json
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from scipy.stats import fisher_exact

import qgt
from qgt.files.documents import json_by_rows
from qgt.files.store import write_text
from qgt.lab.plan.planning import plan
from qgt.lab.plan.question import Question
from qgt.lab.plan.simulation import PLATE, Scout, simulated_plates
from qgt.lab.sheets.samples import Samples
from setting import in_processes, provenance

ASSAYS = {
    "exact counts": qgt.Noiseless(),
    "counts, 2 % off by one": qgt.SparseInteger(rate=0.02, bound=1),
    "readings, deviation 0.2": qgt.Gaussian(sigma=0.2),
    "positive or negative, 2 % missed, 1 % false": qgt.PositiveNegative(sensitivity=0.98, specificity=0.99),
}
PART = 100  # plates a task
Row = dict[str, Any]


class PlanTask(NamedTuple):
    """A question to plan."""

    number: int
    seconds: float
    largest: int


class PlatesTask(NamedTuple):
    """Some new plates for a plan that was made."""

    row: Row
    largest: int
    part: int
    plates: int


def question(number: int, largest: int) -> tuple[str, Question]:
    """A random question; its number is its seed."""
    draw = random.Random(number)
    items = min(largest, round(24 * 16 ** draw.random()))  # 24 to 384, by ratio
    rate = 0.005 * 20 ** draw.random()  # 0.5 to 10 %
    low, high = max(0.0, 0.5 * rate * items), max(1.0, 1.5 * rate * items)
    name = list(ASSAYS)[number % len(ASSAYS)]
    asked = Question(
        Samples.numbered(items),
        (round(low, 1), round(high, 1)),
        ASSAYS[name],
        certainty=draw.choice([0.9, 0.95]),
        follow_ups=draw.random() < 0.5,
    )
    return name, asked


def planned(task: PlanTask) -> Row:
    """One question, and what its plan promises."""
    torch.set_num_threads(1)
    name, asked = question(task.number, task.largest)
    clock, start = time.perf_counter(), time.process_time()
    made = plan(asked, generator=torch.Generator().manual_seed(task.number), seconds=task.seconds)
    one = made.recommended
    return {
        "question": task.number,
        "samples": len(asked.samples),
        "positives": list(asked.positives),
        "assay": name,
        "certainty": asked.certainty,
        "follow_ups": asked.follow_ups,
        "seconds": round(time.perf_counter() - clock, 1),
        "cpu": round(time.process_time() - start, 1),
        "reached": made.reached,
        "pools": one.pools,
        "weight": one.weight,
        "tests": round(one.tests, 2),
        "promised": [one.successes, one.plates, round(one.interval.low, 4), round(one.interval.high, 4)],
        "parts": [],
        "seen": [0, 0, 0],
        "plates_cpu": 0.0,
    }


def seen(task: PlatesTask) -> tuple[PlatesTask, list[int], float]:
    """New plates of a plan: how many were right, of how many, the samples tested again, and the seconds of CPU."""
    torch.set_num_threads(1)
    start, number = time.process_time(), task.row["question"]
    _, asked = question(number, task.largest)
    below = asked.certainty if asked.follow_ups else None
    scout = Scout(asked.samples, asked.prior, asked.assay, below, number)
    problem = scout.problem(scout.design(task.row["pools"], task.row["weight"]))
    generator = torch.Generator().manual_seed(10**6 + 1000 * number + task.part)
    found = simulated_plates(problem, task.plates, retest_below=below, generator=generator, seconds=1e9)
    return task, [found.right, found.plates, found.follow_ups], time.process_time() - start


def judged(row: Row) -> Row:
    """A row with what the new plates say about its promise."""
    (right, plates, follow_ups), (successes, of, low, high) = row["seen"], row["promised"]
    if not plates:
        return row
    share, table = right / plates, [[successes, of - successes], [right, plates - right]]
    return {
        **row,
        "kept": low <= share <= high,
        "better": share > high,
        "p": float(f"{fisher_exact(table)[1]:.3g}"),
        "tests_seen": round(row["pools"] + follow_ups / plates, 2),
    }


def line(row: Row) -> str:
    """One question in words."""
    (right, plates, _), (successes, of, low, high) = row["seen"], row["promised"]
    words = (
        f"{row['question']:3} {row['samples']:4} samples, {row['assay']}: {row['pools']} pools, planned in "
        f"{row['cpu']:.0f} s of CPU; promised {successes}/{of} = {successes / of:.3f} ({low:.3f} to {high:.3f})"
    )
    if not plates:
        return words
    verdict = "kept" if row["kept"] else "better" if row["better"] else "WORSE"
    return f"{words}; seen {right}/{plates} = {right / plates:.3f}: {verdict}, p {row['p']:.2g}"


def measure(given: argparse.Namespace, settings: Row) -> Sequence[Row]:
    """Plan, then decode; what the file holds already is not done again."""
    rows = _stored(given.output, settings)
    end = time.perf_counter() + given.limit

    def keep(row: Row) -> None:
        rows[row["question"]] = judged(row)
        ordered = [rows[number] for number in sorted(rows)]
        write_text(given.output, json_by_rows({"measured_on": provenance("cpu"), **settings, "rows": ordered}))

    todo = [PlanTask(n, given.seconds, given.largest) for n in range(given.questions) if n not in rows]
    print(f"{len(todo)} plans to make: about {len(todo) * given.seconds / 60:.0f} minutes of CPU", flush=True)
    for row in in_processes(planned, todo, processes=given.processes, seconds=given.limit):
        keep(row)
        print(line(row), flush=True)
    parts = [
        PlatesTask(rows[number], given.largest, part, min(PART, given.plates - PART * part))
        for part in range(-(-given.plates // PART))
        for number in sorted(rows)
        if part not in rows[number]["parts"]
    ]
    print(
        f"{len(parts)} parts of {PART} plates: at most {len(parts) * PART * PLATE / 60:.0f} minutes of CPU", flush=True
    )
    left = end - time.perf_counter()
    for task, found, took in in_processes(seen, parts, processes=given.processes, seconds=left):
        row = rows[task.row["question"]]
        added = [one + two for one, two in zip(row["seen"], found, strict=True)]
        cpu = round(row["plates_cpu"] + took, 1)
        keep({**row, "parts": sorted([*row["parts"], task.part]), "seen": added, "plates_cpu": cpu})
    return [rows[number] for number in sorted(rows)]


def _stored(path: Path, settings: Row) -> dict[int, Row]:
    """The rows of a run that was stopped."""
    if not path.exists():
        return {}
    found = json.loads(path.read_text("utf-8"))
    if {name: found.get(name) for name in settings} != settings:
        raise SystemExit(f"{path}: was measured with other settings; give another file, or delete it.")
    return {row["question"]: row for row in found["rows"]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-o", "--output", type=Path, default=Path("results/plan_promise.json"))
    parser.add_argument("--questions", type=int, default=20)
    parser.add_argument("--plates", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=45.0, help="for each plan")
    parser.add_argument("--largest", type=int, default=384, help="samples")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds after which to stop")
    given = parser.parse_args()
    settings = {"plates": given.plates, "seconds_a_plan": given.seconds, "largest": given.largest}
    rows = measure(given, settings)
    for one in rows:
        print(line(one))
    whole = [one for one in rows if one["seen"][1] == given.plates]
    if len(whole) < given.questions:
        print(f"{given.questions - len(whole)} questions are not done: give the same command again.")
        return 1
    kept, better = sum(one["kept"] for one in whole), sum(one["better"] for one in whole)
    print(f"{kept} of {len(whole)} promises kept, {better} exceeded; least p: {min(one['p'] for one in whole):.2g}")
    print(f"{sum(one['cpu'] + one['plates_cpu'] for one in whole) / 60:.0f} minutes of CPU")
    return int(any(not one["kept"] and not one["better"] and one["p"] < 0.05 / len(whole) for one in whole))


if __name__ == "__main__":
    sys.exit(main())
