"""What a sheet is told when something is wrong with it: verdicts, wrong answers that are trusted, and causes named.

    python benchmarks/misfit.py --processes 16 --seconds 480 -o results/misfit.json     # 8 minutes

Two settings: a laboratory's (96 samples, 24 pools, 6 pools a sample, 3 % positive, 2 % of counts off by one) and the
README's (100 items, 35 dense pools, 6 %, 10 % of counts). Files of 40 plates are simulated with something wrong, in all
plates or in the first one only, and decoded by `decode_sheet` with the default decoder under the model as it should be.
Counted are the plates that were touched, and beside them those that were not. Files of all kinds take turns, and
results are written every half minute: a run that is stopped early has fewer plates of each kind. `--add FILE` adds a
run with another seed.
"""

import argparse
import json
import multiprocessing
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor

import qgt
from qgt.lab.answers.decoding import DecodedSheet, decode_sheet
from qgt.trust.confidence import BoundCalibrated
from setting import in_processes, paper_problem, provenance, write

FILE = 40  # plates
HONEST = 20  # times as many plates of correct use: false alarms are rare
LONE = 10  # times as few plates where only one of a file is touched
SAVED = 30.0  # seconds after which results are written again
TRUSTED = (qgt.Verdict.CERTAIN, qgt.Verdict.CONFIDENT)


def lab_problem(seed: int) -> qgt.Problem:
    g = torch.Generator().manual_seed(seed)
    design = qgt.Design.column_regular(pools=24, items=96, weight=6, generator=g)
    return qgt.Problem(design, qgt.Bernoulli(0.03), qgt.SparseInteger(0.02, 1))


SETTINGS: dict[str, Callable[[int], qgt.Problem]] = {
    "lab": lab_problem,
    "readme": lambda seed: paper_problem(pools=35, noise=0.1, seed=seed),
}


# --- what may be wrong ----------------------------------------------------------------------------------------------


class File(NamedTuple):
    """A file with something wrong in it."""

    x: Tensor  # what is true
    y: Tensor  # what the file says
    touched: Tensor  # (plates,), bool
    cause: tuple[str, ...] | None  # the cause's kind and the names it should give; None where there is none to name


Misuse = Callable[[qgt.Problem, Callable[[int], qgt.Problem], Generator], File]


def _file(x: Tensor, y: Tensor, cause: tuple[str, ...] | None = None, *, lone: bool = False) -> File:
    touched = torch.zeros(len(y), dtype=torch.bool)
    touched[: 1 if lone else len(y)] = True
    return File(x, y, touched, cause)


def correct(problem: qgt.Problem, make: Callable[[int], qgt.Problem], g: Generator) -> File:
    return _file(*problem.simulate(FILE, generator=g))


def another_design(problem: qgt.Problem, make: Callable[[int], qgt.Problem], g: Generator) -> File:
    x, y = make(1 + _below(10**6, g)).simulate(FILE, generator=g)
    return _file(x, y, ("another design",))


def pools_swapped(problem: qgt.Problem, make: Callable[[int], qgt.Problem], g: Generator) -> File:
    x, y = problem.simulate(FILE, generator=g)
    a, b = torch.randperm(problem.pools, generator=g)[:2].tolist()
    y[:, [a, b]] = y[:, [b, a]]
    return _file(x, y, ("pools swapped", *(problem.design.pool_names[i] for i in (a, b))))


def pools_reversed(problem: qgt.Problem, make: Callable[[int], qgt.Problem], g: Generator) -> File:
    x, y = problem.simulate(FILE, generator=g)
    return _file(x, y.flip(1), ("pools reversed",))


def count_changed(by: int | None, *, lone: bool = False) -> Misuse:
    """One count of each plate is off by so much, or tenfold."""

    def made(problem: qgt.Problem, make: Callable[[int], qgt.Problem], g: Generator) -> File:
        x, y = problem.simulate(FILE, generator=g)
        for row in range(1 if lone else FILE):
            pool = _below(problem.pools, g)
            if by is None:
                some = (y[row] > 0).nonzero().flatten()
                pool = int(some[_below(len(some), g)]) if len(some) else pool
            y[row, pool] = y[row, pool] + by if by is not None else 10 * max(1.0, float(y[row, pool]))
        return _file(x, y, lone=lone)

    return made


def pool_failed(problem: qgt.Problem, make: Callable[[int], qgt.Problem], g: Generator) -> File:
    x, y = problem.simulate(FILE, generator=g)
    pool = _below(problem.pools, g)
    y[:, pool] = 0
    return _file(x, y, ("pool failed", problem.design.pool_names[pool]))


def transfer_missed(problem: qgt.Problem, make: Callable[[int], qgt.Problem], g: Generator) -> File:
    matrix = problem.design.matrix.clone()
    entries = matrix.nonzero()
    pool, item = entries[_below(len(entries), g)].tolist()
    matrix[pool, item] = 0
    real = qgt.Problem(qgt.Design.from_matrix(matrix), problem.prior, problem.noise)
    x, y = real.simulate(FILE, generator=g)
    return _file(x, y, ("transfer", problem.design.pool_names[pool], problem.design.item_names[item]))


def samples_swapped(problem: qgt.Problem, make: Callable[[int], qgt.Problem], g: Generator) -> File:
    x, y = problem.simulate(FILE, generator=g)
    a, b = torch.randperm(problem.items, generator=g)[:2].tolist()
    x[:, [a, b]] = x[:, [b, a]]  # the labels are exchanged: what is found in a belongs to b
    return _file(x, y)


def samples_swapped_half_way(problem: qgt.Problem, make: Callable[[int], qgt.Problem], g: Generator) -> File:
    """Two tubes were exchanged when half of the pools were made."""
    matrix, half = problem.design.matrix.clone(), problem.pools // 2
    a, b = torch.randperm(problem.items, generator=g)[:2].tolist()
    matrix[half:, [a, b]] = matrix[half:, [b, a]]
    real = qgt.Problem(qgt.Design.from_matrix(matrix), problem.prior, problem.noise)
    return _file(*real.simulate(FILE, generator=g))


def other_rate(times: float) -> Misuse:
    def made(problem: qgt.Problem, make: Callable[[int], qgt.Problem], g: Generator) -> File:
        assert isinstance(problem.prior, qgt.Bernoulli) and isinstance(problem.prior.rate, float)
        real = qgt.Problem(problem.design, qgt.Bernoulli(times * problem.prior.rate), problem.noise)
        return _file(*real.simulate(FILE, generator=g), ("prevalence",))

    return made


def other_noise(noise: qgt.Noise) -> Misuse:
    def made(problem: qgt.Problem, make: Callable[[int], qgt.Problem], g: Generator) -> File:
        real = qgt.Problem(problem.design, problem.prior, noise)
        return _file(*real.simulate(FILE, generator=g), ("noise",))

    return made


def households(problem: qgt.Problem, make: Callable[[int], qgt.Problem], g: Generator) -> File:
    assert isinstance(problem.prior, qgt.Bernoulli) and isinstance(problem.prior.rate, float)
    prior = qgt.Households(size=4, seed_rate=2 * problem.prior.rate, attack_rate=0.5)
    return _file(*qgt.Problem(problem.design, prior, problem.noise).simulate(FILE, generator=g))


MISUSES: dict[str, Misuse] = {
    "correct use": correct,
    "counts of another design": another_design,
    "two pools' counts swapped": pools_swapped,
    "pools in reverse order": pools_reversed,
    "one count + 1": count_changed(1),
    "one count + 2": count_changed(2),
    "one count tenfold": count_changed(None),
    "one count + 1, in one plate of the file": count_changed(1, lone=True),
    "one count + 2, in one plate of the file": count_changed(2, lone=True),
    "one count tenfold, in one plate of the file": count_changed(None, lone=True),
    "one pool failed, entered as 0": pool_failed,
    "one transfer missed": transfer_missed,
    "two samples swapped": samples_swapped,
    "two samples swapped half way": samples_swapped_half_way,
    "true rate 30 times smaller": other_rate(1 / 30),
    "true rate 5 times larger": other_rate(5),
    "true noise 0.3": other_noise(qgt.SparseInteger(0.3, 1)),
    "true noise 0.1, up to 3": other_noise(qgt.SparseInteger(0.1, 3)),
    "true noise Gaussian 0.5, rounded": other_noise(qgt.RoundedGaussian(0.5)),
    "households instead of independent": households,
}


def _below(number: int, g: Generator) -> int:
    return int(torch.randint(number, (), generator=g))


# --- counting -------------------------------------------------------------------------------------------------------


@dataclass
class Tally:
    """What the plates of some files were told."""

    files: int = 0
    alarms: int = 0  # files that do not fit
    causes: int = 0  # files whose first cause is the true one
    nameable: int = 0  # files with a cause that could be named
    verdicts: Counter[str] = field(default_factory=Counter)  # of plates that were touched
    wrong: Counter[str] = field(default_factory=Counter)
    beside: Counter[str] = field(default_factory=Counter)  # of plates that were not
    named: Counter[str] = field(default_factory=Counter)  # first causes, by kind

    def add(self, other: "Tally") -> None:
        """Take in another's."""
        for name in ("files", "alarms", "causes", "nameable"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("verdicts", "wrong", "beside", "named"):
            getattr(self, name).update(getattr(other, name))


def count(sheet: DecodedSheet, file: File, tally: Tally) -> None:
    right = (sheet.result.x == file.x).all(1).tolist()
    for account, fine, touched in zip(sheet.accounts, right, file.touched.tolist(), strict=True):
        word = account.verdict.value
        (tally.verdicts if touched else tally.beside)[word] += 1
        tally.wrong[word] += touched and not fine
    tally.files += 1
    tally.nameable += file.cause is not None
    tally.alarms += sheet.fit is not None and sheet.fit.suspect
    first = sheet.causes[0] if sheet.causes else None
    if first is not None:
        tally.named[first.kind] += 1
        names = set(first.words.replace(":", " ").replace(",", " ").split())
        tally.causes += file.cause is not None and first.kind == file.cause[0] and set(file.cause[1:]) <= names


class Task(NamedTuple):
    """One file."""

    setting: str
    misuse: str
    seed: int
    seconds: float  # an instance
    calibrate: float


@cache
def bound(setting: str, seconds: float, calibrate: float) -> BoundCalibrated:
    """The decoder of a setting: its simulations run once in each process."""
    return qgt.Calibrated(qgt.Certified(time_limit=seconds, certificates=False), calibrate).bind(SETTINGS[setting](0))


def work(task: Task) -> tuple[Task, Tally, float]:
    decoder = bound(task.setting, task.seconds, task.calibrate)
    decoder.learned()
    start, tally, g = time.perf_counter(), Tally(), torch.Generator().manual_seed(task.seed)
    file = MISUSES[task.misuse](decoder.problem, SETTINGS[task.setting], g)
    count(decode_sheet(decoder.problem, file.y, None, decoder), file, tally)
    return task, tally, time.perf_counter() - start


def tasks(told: argparse.Namespace) -> list[Task]:
    """The files to make; those of all kinds in turn, so that each has its share whenever the time is over."""
    made: list[tuple[float, Task]] = []
    for setting in SETTINGS:
        for row, misuse in enumerate(MISUSES):
            plates = told.plates * (HONEST if misuse == "correct use" else 1)
            files = max(1, round(plates / LONE if "in one plate" in misuse else plates / FILE))
            for i in range(files if told.only in misuse else 0):
                seed = told.seed * 10**9 + row * 10**5 + i
                made.append((i / files, Task(setting, misuse, seed, told.time_limit, told.calibrate)))
    return [task for _, task in sorted(made, key=lambda pair: pair[0])]


def row(setting: str, misuse: str, tally: Tally, seconds: float) -> dict[str, Any]:
    return {
        "setting": setting,
        "misuse": misuse,
        "plates": tally.verdicts.total(),
        **{word.value: tally.verdicts[word.value] for word in qgt.Verdict},
        **{f"wrong_{word.value}": tally.wrong[word.value] for word in TRUSTED},
        "beside": dict(tally.beside),
        "files": tally.files,
        "alarms": tally.alarms,
        "names_a_cause": tally.nameable > 0,  # whether there is one to name
        "true_cause_first": tally.causes,
        "causes": dict(tally.named),
        "seconds": round(seconds, 1),
    }


def save(told: argparse.Namespace, found: dict[tuple[str, str], tuple[Tally, float]]) -> list[dict[str, Any]]:
    rows = [row(*key, *found[key]) for setting in SETTINGS for m in MISUSES if (key := (setting, m)) in found]
    settings = {"seed": told.seed, "file": FILE, "time_limit": told.time_limit, "calibrate": told.calibrate}
    write(told.output, {"measured_on": provenance("cpu"), **settings, "rows": rows})
    return rows


def add(output: Path, other: Path) -> None:
    """Add what another run counted, kind by kind."""
    results, more = json.loads(output.read_text()), json.loads(other.read_text())
    seeds = [results["seed"], more["seed"]]
    assert seeds[0] != seeds[1], "both runs have the same seed"
    counted = {(one["setting"], one["misuse"]): one for one in more["rows"]}
    for one in results["rows"]:
        for key, value in counted[one["setting"], one["misuse"]].items():
            if isinstance(value, dict):
                one[key] = dict(Counter(one[key]) + Counter(value))
            elif isinstance(value, int | float) and not isinstance(value, bool):
                one[key] = round(one[key] + value, 1)
    write(output, {**results, "seed": seeds})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-o", "--output", type=Path, default=Path("results/misfit.json"))
    parser.add_argument("--plates", type=int, default=1000, help="of each kind")
    parser.add_argument("--seconds", type=float, default=480.0, help="after which to stop")
    parser.add_argument("--only", default="", help="kinds whose name holds this")
    parser.add_argument("--time-limit", type=float, default=0.25, help="seconds per plate: misled searches are long")
    parser.add_argument("--calibrate", type=float, default=10.0, help="seconds, once in each process and setting")
    parser.add_argument("--processes", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--add", type=Path, help="only add this run's rows, of another seed, to the results")
    told = parser.parse_args()
    if told.add is not None:
        return add(told.output, told.add)
    found: dict[tuple[str, str], tuple[Tally, float]] = {}
    todo, saved = tasks(told), time.perf_counter()
    for task, tally, seconds in in_processes(work, todo, processes=told.processes, seconds=told.seconds):
        total, spent = found.setdefault((task.setting, task.misuse), (Tally(), 0.0))
        total.add(tally)
        found[task.setting, task.misuse] = total, spent + seconds
        if time.perf_counter() - saved > SAVED:
            saved = time.perf_counter()
            save(told, found)
            print(f"{sum(total.files for total, _ in found.values())} of {len(todo)} files", flush=True)
    for one in save(told, found):
        print(*(f"{key} {value}" for key, value in one.items()), sep="; ")


if __name__ == "__main__":
    main()
