"""Classical group testing: how often each decoder finds all defectives from positives and negatives alone.

    python benchmarks/classical.py --instances 1000 --processes 16     # the counts, into results/classical.json
    python benchmarks/classical.py draw                                # docs/images/classical.png from them

N items, each in as many pools as leave half of them positive. COMP, DD and SCOMP take reports for true, so there are
settings without errors and one with. Certified is the most probable x, and its success rate the limit where it is
proved; `undecided` are instances that were not within the time limit.
"""

import argparse
import json
import math
from pathlib import Path
from typing import Any, NamedTuple

from torch import Generator

import qgt
from setting import in_processes, provenance, write

DECODERS: dict[str, qgt.Decoder] = {
    "COMP": qgt.COMP(),
    "DD": qgt.DD(),
    "SCOMP": qgt.SCOMP(),
    "LinearProgram": qgt.LinearProgram(),
}
CERTIFIED = "Certified"
TOGETHER = 50  # instances of a task
SETTINGS: dict[str, tuple[int, float, qgt.PositiveNegative, tuple[int, ...]]] = {
    "N = 100, 5 %": (100, 0.05, qgt.PositiveNegative(), (20, 30, 40, 50, 60, 70)),
    "N = 500, 2 %": (500, 0.02, qgt.PositiveNegative(), (60, 80, 100, 120, 140)),
    "N = 1,000, 1 %": (1000, 0.01, qgt.PositiveNegative(), (60, 80, 100, 120, 140)),
    "N = 100, 2 %, 5 % and 2 % wrong": (100, 0.02, qgt.PositiveNegative(0.95, 0.98), (20, 30, 40, 50, 60)),
}


def problem_of(name: str, pools: int) -> qgt.Problem:
    """Columns of weight M ln 2 / K: then half of the pools are positive."""
    items, rate, noise, _ = SETTINGS[name]
    weight = max(2, round(math.log(2) * pools / (items * rate)))
    g = Generator().manual_seed(items + pools)
    design = qgt.Design.column_regular(pools=pools, items=items, weight=weight, generator=g)
    return qgt.Problem(design, qgt.Bernoulli(rate), noise)


class Task(NamedTuple):
    """Some instances of one cell, a setting with a number of pools."""

    setting: str
    pools: int
    number: int  # of the cell's tasks, from 0
    instances: int
    time_limit: float


def tasks_of(setting: str, pools: int, instances: int, time_limit: float) -> list[Task]:
    """A cell in tasks of equal size, but for the last one."""
    starts = range(0, instances, TOGETHER)
    sizes = [min(TOGETHER, instances - start) for start in starts]
    return [Task(setting, pools, number, size, time_limit) for number, size in enumerate(sizes)]


def work(task: Task) -> dict[str, Any]:
    """All decoders on the same instances."""
    problem = problem_of(task.setting, task.pools)
    x, y = problem.simulate(task.instances, generator=Generator().manual_seed(1000 * task.number + task.pools))
    row: dict[str, Any] = {"setting": task.setting, "M": task.pools, "instances": len(y), "right": {}}
    for decoder, made in DECODERS.items():
        row["right"][decoder] = int((made.bind(problem)(y).x == x).all(1).sum())
    result = qgt.Certified(odds=1.0, time_limit=task.time_limit).bind(problem)(y)
    row["right"][CERTIFIED] = int((result.x == x).all(1).sum())
    row["undecided"] = int((result.status != qgt.Status.PROVED).sum())
    return row


def added(row: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Two parts of one cell together."""
    right = {decoder: number + other["right"][decoder] for decoder, number in row["right"].items()}
    sums = {name: row[name] + other[name] for name in ("instances", "undecided")}
    return {**row, **sums, "right": right}


def draw(results: Path, picture: Path) -> None:
    """Success rates over the number of pools, from the results alone."""
    from qgt.pictures.figures import curves_figure, save_figure
    from qgt.study import StudyResult

    found = []
    for row in json.loads(results.read_text())["rows"]:
        for decoder, right in row["right"].items():
            number, items = row["instances"], SETTINGS[row["setting"]][0]
            score = qgt.Score(items, {(1, 0, 0): right, (0, 1, 1): number - right})
            point = {"pools": row["M"], "setting": row["setting"]}
            limit = decoder == CERTIFIED
            statuses = {qgt.Status.PROVED.name: number - row["undecided"]} if limit else {}
            found.append(StudyResult(point, decoder, decoder, limit, 1, score, statuses, 0.0, True))
    save_figure(curves_figure(found), picture, "png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("part", nargs="?", default="measure", choices=["measure", "draw"])
    parser.add_argument("--rows", nargs="*", default=[""], help="only settings whose names hold one of these words")
    parser.add_argument("--instances", type=int, default=200)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--time-limit", type=float, default=1.0, help="seconds per instance for Certified")
    parser.add_argument("-o", "--output", type=Path, default=Path("results/classical.json"))
    parser.add_argument("--picture", type=Path, default=Path("docs/images/classical.png"))
    arguments = parser.parse_args()
    if arguments.part == "draw":
        return draw(arguments.output, arguments.picture)
    stored = json.loads(arguments.output.read_text()) if arguments.output.exists() else {"rows": []}
    stored["measured on"] = provenance("cpu")
    names = [name for name in SETTINGS if any(words in name for words in arguments.rows)]
    cells = [(name, pools) for name in names for pools in SETTINGS[name][3]]
    tasks = [task for cell in cells for task in tasks_of(*cell, arguments.instances, arguments.time_limit)]
    made: dict[tuple[str, int], dict[str, Any]] = {}
    for part in in_processes(work, tasks, processes=arguments.processes, seconds=math.inf):
        cell = part["setting"], part["M"]
        made[cell] = added(made[cell], part) if cell in made else part
        if made[cell]["instances"] == arguments.instances:
            others = [old for old in stored["rows"] if (old["setting"], old["M"]) != cell]
            rows = [*others, made[cell]]
            stored["rows"] = sorted(rows, key=lambda one: (list(SETTINGS).index(one["setting"]), one["M"]))
            print(json.dumps(made[cell]), flush=True)
            write(arguments.output, stored)


if __name__ == "__main__":
    main()
