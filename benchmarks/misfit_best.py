"""How many wrong counts could anybody see? The best detector there is, which knows what went wrong but not where.

    python benchmarks/misfit_best.py --plates 400 --processes 16 -o results/misfit_best.json     # 2 minutes

One count of a plate is off by 1 or by 2, in a pool drawn at random, in the two settings of `misfit.py`. By the lemma of
Neyman and Pearson no test with as few false alarms sees more than the one that compares

    ratio(y) = mean over pools i of P(y - by e_i) / P(y)

with a threshold. P(y) is the sum over a list of answers. The false alarms are too rare to be simulated directly: their
chance is E[1 / ratio where ratio >= threshold] over spoilt plates, for those have the density ratio(y) P(y).

Two samples exchanged in all pools need no simulation: where all items have the same rate, the counts are as probable as
before, so no test sees more than its false alarms; the answer is wrong where just one of the two is defective.
"""

import argparse
import math
import multiprocessing
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

import qgt
from misfit import SETTINGS
from qgt.trust.fit import INSTANCE_ALARM
from setting import in_processes, provenance, write

ODDS, LIMIT = 1000.0, 0.05  # of the lists; seconds an instance
PART = 5  # plates a task


class Task(NamedTuple):
    """Some plates."""

    setting: str
    by: int
    seed: int


def log_ratios(task: Task) -> tuple[Task, list[float]]:
    """Of spoilt plates."""
    problem, g = SETTINGS[task.setting](0), torch.Generator().manual_seed(task.seed)
    decode = qgt.Certified(ODDS, LIMIT, certificates=False).bind(problem)
    y = problem.simulate(PART, generator=g).y
    y[torch.arange(PART), torch.randint(problem.pools, (PART,), generator=g)] += task.by
    own = _log_p(decode, y)
    less = [_log_p(decode, row - task.by * torch.eye(problem.pools, dtype=torch.float64)) for row in y]
    told = torch.stack([part.logsumexp(0) for part in less]) - math.log(problem.pools) - own
    return task, told.tolist()


def _log_p(decode: qgt.Decode, y: Tensor) -> Tensor:
    """log P(y), but for what is not listed; -inf where no x explains it."""
    result = decode(y)
    answers = result.evidence.alternatives
    assert answers is not None
    each = [answers.of_instance(i).log_joint for i in range(len(y))]
    found = torch.stack([one.logsumexp(0) if len(one) else torch.tensor(-torch.inf).double() for one in each])
    return torch.where(result.status == qgt.Status.INFEASIBLE, -torch.inf, found)


def seen(log_ratio: Tensor, alarms: float) -> tuple[float, float]:
    """The share of spoilt plates above the least threshold with so few false alarms, and their chance."""
    ordered = log_ratio.sort(descending=True).values
    chance = (-ordered).exp().cumsum(0) / len(ordered)
    number = int((chance <= alarms).sum())
    return number / len(ordered), float(chance[number - 1]) if number else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-o", "--output", type=Path, default=Path("results/misfit_best.json"))
    parser.add_argument("--plates", type=int, default=400, help="of each row")
    parser.add_argument("--seconds", type=float, default=480.0, help="after which to stop")
    parser.add_argument("--processes", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("--seed", type=int, default=0)
    told = parser.parse_args()
    keys = [(setting, by) for setting in SETTINGS for by in (1, 2)]
    tasks = [Task(*key, told.seed * 10**6 + i) for i in range(math.ceil(told.plates / PART)) for key in keys]
    found: dict[tuple[str, int], list[float]] = {key: [] for key in keys}
    for task, values in in_processes(log_ratios, tasks, processes=told.processes, seconds=told.seconds):
        found[task.setting, task.by] += values
    rows: list[dict[str, Any]] = []
    for (setting, by), values in found.items():
        share, chance = seen(torch.tensor(values, dtype=torch.float64), INSTANCE_ALARM)
        row = {"setting": setting, "by": by, "plates": len(values), "seen_at_best": round(share, 4)}
        rows.append({**row, "false_alarms": float(f"{chance:.2g}")})
        print(rows[-1])
    settings = {"seed": told.seed, "alarm": INSTANCE_ALARM, "odds": ODDS}
    write(told.output, {"measured_on": provenance("cpu"), **settings, "rows": rows})


if __name__ == "__main__":
    main()
