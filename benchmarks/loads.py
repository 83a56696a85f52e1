"""Amounts instead of counts: plates exactly right, and how far the confidence in them can be trusted.

    python benchmarks/loads.py --device cuda --plates 300 -o results/loads.json
    python benchmarks/loads.py --rows "real 45 x 105" --plates 20                # some rows, by their beginning
    python benchmarks/loads.py speed --device cuda --plates 1000 -o results/loads_speed.json
    python benchmarks/loads.py speed --plates 20 -o results/loads_speed_cpu.json # on two cores
    python benchmarks/loads.py misfit --device cuda --plates 400 -o results/loads_misfit.json
    python benchmarks/loads.py draw                                              # docs/images/loads_success.png

Two worlds. *Simple*: amounts uniform between 0 and 1, reports off by a factor of 1.95^e, e normal with standard
deviation 0.1, and exactly 0 without positives: the simulation by which Tapestry was published (Ghosh et al. 2021,
Tapestry: a single-round pooling design for SARS-CoV-2, IEEE Open J. Signal Process.). *Real*: cycle thresholds of
single positives normal with mean 27.3 and standard deviation 6.2 between 10 and 37, as 1,632 published positives have
them; pools off by 0.15, 0.25 or 0.4 cycles, and nothing reported beyond 38.

Each plate has a given number of positives, and the decoders are told the rate. All decoders get the same plates.
`limit` is the mean confidence of the posterior: the share of plates that any decoder can get right, as far as the
model is right and no better set was overlooked. `told` is the same for decoders that are told how many positives a
plate has: as all plates of a row have the same number, no decoder does better, told or not. `overlooked` counts plates
whose true set is more probable than the answer by more than OVERLOOKED nats: what the search missed.

Running again goes on where an earlier call ended; delete the file to measure all rows again.

`misfit` decodes plates of which something is not as the model says: 96 samples, 2 % positive, 36 pools. A plate is
trusted where its answer is certain (99 % after calibration) and its reports fit; what counts is how many trusted
answers are wrong.
"""

import argparse
import json
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

import qgt
from qgt.decoders.loads.evidence import NONE, Plates, PositiveSets
from qgt.pictures.figures import SuccessPanel, save_figure, success_figure
from qgt.trust.fit import INSTANCE_ALARM
from setting import provenance, synchronize, write

OVERLOOKED = 0.5  # nats
DECADES_PER_CYCLE = math.log10(2.0)
REAL = {
    "mean": (37 - 27.3) * DECADES_PER_CYCLE,
    "sd": 6.2 * DECADES_PER_CYCLE,
    "low": 0.0,
    "high": 27 * DECADES_PER_CYCLE,
}
SURE, NEGATIVE = 0.99, 0.01
BASELINES = {
    "comp_sbl": "COMP, SBL",
    "comp_nnomp": "COMP, NNOMP",
    "comp_lasso": "COMP, LASSO",
    "load_gamp": "GAMP",
    "comp_nnls": "COMP, NNLS",
    "comp": "COMP",
}
WORLDS = {"simple": "simple loads", "real": "real loads"}
RESULTS, IMAGE = Path("results/loads.json"), Path("docs/images/loads_success.png")


class Row(NamedTuple):
    """Plates of one kind."""

    world: str
    pools: int
    items: int
    positives: int
    error: float  # in cycles

    @property
    def name(self) -> str:
        """The row in words."""
        return f"{self.world} {self.pools} x {self.items}, {self.positives} positives, error {self.error}"


def rows() -> Iterator[Row]:
    sizes = {(16, 40): (2, 3, 4, 5), (45, 105): (3, 5, 8, 10, 12, 15), (93, 961): (5, 10, 15)}
    for (pools, items), numbers in sizes.items():
        yield from (Row("simple", pools, items, number, 0.1) for number in numbers)
        yield from (Row("real", pools, items, number, 0.25) for number in numbers)
    for error in (0.15, 0.4):
        yield from (Row("real", 45, 105, number, error) for number in (5, 8))


def design_of(row: Row, seed: int) -> qgt.Design:
    """Each item in three pools: Kirkman's triples where there are any, else as even as can be."""
    if row.pools % 6 == 3:
        return qgt.Design.kirkman_triples(pools=row.pools, items=row.items)
    generator = torch.Generator().manual_seed(seed)
    return qgt.few_transfers(items=row.items, pools=row.pools, weight=3, generator=generator)


def problem_of(row: Row, seed: int) -> qgt.Problem:
    """What the decoders are told."""
    rate = row.positives / row.items
    if row.world == "real":
        noise: qgt.Noise = qgt.CycleThreshold(sigma=row.error, intercept=37.0, limit=38.0)
        return qgt.Problem(design_of(row, seed), qgt.Loads(rate=rate, **REAL), noise)
    even = (torch.arange(2000, dtype=torch.float64) + 0.5) / 2000
    loads = qgt.Loads(rate=rate, values=even.log10().tolist())
    return qgt.Problem(design_of(row, seed), loads, qgt.Amount(relative=row.error * math.log(1.95)))


def plates_of(row: Row, problem: qgt.Problem, number: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """True amounts and reports: just so many positives on each plate."""
    who = qgt.FixedWeight(row.positives).sample(number, row.items, generator=generator)
    if row.world == "real":
        amounts = qgt.Loads(rate=1.0, **REAL).sample(number, row.items, generator=generator)
    else:
        draws = torch.rand(number, row.items, dtype=torch.float64, generator=generator, device=generator.device)
        amounts = draws.clamp(min=1 / 32768)
    x = amounts * who
    sizes = problem.design.pool_sizes.to(x.device, torch.float64)
    return x, problem.noise.sample(problem.design.count(x), sizes, generator=generator)


def scores(x: Tensor, called: Tensor) -> dict[str, Any]:
    """How right calls are: plates, positives and negatives."""
    true = x > 0
    right = (called > 0) == true
    return {
        "right": int(right.all(1).sum()),
        "sensitivity": float(right[true].double().mean()),
        "specificity": float(right[~true].double().mean()),
    }


def timed(decode: qgt.Decode, y: Tensor) -> tuple[qgt.Decoded, float]:
    """The answers, and how many seconds they took."""
    synchronize(y.device.type)
    start = time.perf_counter()
    result = decode(y)
    synchronize(y.device.type)
    return result, time.perf_counter() - start


def measured(row: Row, seed: int, number: int, device: str) -> dict[str, Any]:
    problem = problem_of(row, seed)
    generator = torch.Generator(device).manual_seed(seed)
    x, y = plates_of(row, problem, number, generator)
    decode = qgt.LoadPosterior().bind(problem)
    decode(y[:2])
    result, seconds = timed(decode, y)
    confidence, complete = result.evidence.confidence, result.evidence.complete
    assert confidence is not None and complete is not None
    right = (result.x == (x > 0)).all(1)
    sure = confidence > SURE
    found = {
        "row": row.name, **row._asdict(), "plates": number, **scores(x, result.x),
        "limit": float(confidence.mean()), "told": told_the_number(result, row.positives),
        "sure": int(sure.sum()), "sure_right": int(right[sure].sum()),
        "complete": int(complete.sum()), "overlooked": int(_overlooked(problem, x, y, result).sum()),
        **_amounts(x, result), "calibration": _bins(confidence, right), "ms_per_plate": 1000 * seconds / number,
    }  # fmt: skip
    found["others"] = {name: _other(name, problem, x, y) for name in BASELINES if name in qgt.DECODERS}
    return found


def told_the_number(result: qgt.Decoded, positives: int) -> float:
    """The share of plates that the best decoder would get right if it were told how many positives each plate has.

    Among the listed sets of that size, all equally likely before any report, the mean of the best one's share. Where
    no listed set has that size, the best decoder is taken to be right.
    """
    answers = result.evidence.alternatives
    assert answers is not None
    owner = answers.spans.owner
    own = answers.x.sum(1) == positives
    weight = torch.where(own, answers.log_joint, -torch.inf)
    best = torch.full((len(answers.spans),), -torch.inf, dtype=weight.dtype, device=weight.device)
    best = best.scatter_reduce(0, owner, weight, "amax")
    share = torch.where(own, (weight - best[owner]).exp(), 0.0)
    total = torch.zeros_like(best).index_add_(0, owner, share)
    return float(torch.where(total > 0, 1 / total, 1.0).mean())


def _bins(confidence: Tensor, right: Tensor) -> list[tuple[int, float, int]]:
    """Plates, the sum of their confidences, and how many were right, in ten bins of confidence."""
    which = (confidence * 10).to(torch.int64).clamp(max=9)
    rows = [which == i for i in range(10)]
    return [(int(own.sum()), float(confidence[own].sum()), int(right[own].sum())) for own in rows]


def _amounts(x: Tensor, result: qgt.Decoded) -> dict[str, Any]:
    """How near the amounts of right calls are, in decades, and how often 90 % intervals hold the truth."""
    assert result.amounts is not None and result.evidence.interval is not None
    called = (result.x > 0) & (x > 0)
    off = (result.amounts[called] / x[called]).log10().abs()
    low, high = result.evidence.interval[called].unbind(1)
    inside = (low <= x[called]) & (x[called] <= high)
    return {"median_decades_off": float(off.median()), "inside_interval": int(inside.sum()), "amounts": len(off)}


def _overlooked(problem: qgt.Problem, x: Tensor, y: Tensor, result: qgt.Decoded) -> Tensor:
    """Whether the true set is more probable than the answer."""
    loads = problem.loads
    assert loads is not None and result.evidence.log_joint is not None
    who = loads.statuses()
    assert isinstance(who, qgt.FactoredPrior)
    amounts, items = x.topk(int((x > 0).sum(1).max()), 1)
    logs = torch.where(amounts > 0, amounts, 1.0).log10().clamp(*loads.span)
    truth = PositiveSets(torch.arange(len(x), device=x.device), torch.where(amounts > 0, items, NONE), logs)
    better = []
    for part in torch.arange(len(x), device=x.device).split(64):
        plates = Plates.of(problem, loads, who.costs(problem.items), y[part])
        own = PositiveSets(torch.arange(len(part), device=x.device), truth.items[part], truth.logs[part])
        better.append(plates.fit(own).evidence > result.evidence.log_joint[part] + OVERLOOKED)
    return torch.cat(better) & ~(result.x == (x > 0)).all(1)


def _other(name: str, problem: qgt.Problem, x: Tensor, y: Tensor) -> dict[str, Any]:
    decode = qgt.DECODERS[name]().bind(problem)
    start = time.perf_counter()
    result = decode(y.cpu())
    return {**scores(x.cpu(), result.x), "ms_per_plate": 1000 * (time.perf_counter() - start) / len(y)}


def speed(seed: int, device: str, plates: int) -> list[dict[str, Any]]:
    """96 samples in 24 pools of weight 4, 1 and 3 % positive, realistic loads: plates a second."""
    found = []
    for rate in (0.01, 0.03):
        generator = torch.Generator().manual_seed(seed)
        design = qgt.few_transfers(items=96, pools=24, weight=4, generator=generator)
        noise = qgt.CycleThreshold(sigma=0.25, intercept=37.0, limit=38.0)
        problem = qgt.Problem(design, qgt.Loads(rate=rate, **REAL), noise)
        x, y = problem.simulate(plates, generator=torch.Generator(device).manual_seed(seed))
        decode = qgt.LoadPosterior().bind(problem)
        decode(y[:4])
        result, seconds = timed(decode, y)
        single, work = [], []
        for i in range(min(20, plates)):
            before = time.process_time()
            single.append(timed(decode, y[i : i + 1])[1])
            work.append(time.process_time() - before)  # of all threads: other programs do not count
        right = int((result.x == (x > 0)).all(1).sum())
        alone = {"mean": sum(single) / len(single), "most": max(single)}
        alone |= {"cpu_mean": sum(work) / len(work), "cpu_most": max(work)}
        found.append(
            {"rate": rate, "plates": plates, "right": right, "per_second": plates / seconds, "one_plate": alone}
        )
        print(found[-1], flush=True)
    return found


def _misfit_problem(**changed: Any) -> qgt.Problem:
    """The model, or what the plates really are."""
    design = qgt.few_transfers(items=96, pools=36, weight=4, generator=torch.Generator().manual_seed(0))
    cycles = {"sigma": 0.25, "intercept": 37.0, "limit": 38.0}
    noise = qgt.CycleThreshold(**{**cycles, **{key: value for key, value in changed.items() if key in cycles | SLOPE}})
    loads = {**REAL, **{key: value for key, value in changed.items() if key in REAL}}
    return qgt.Problem(design, qgt.Loads(rate=changed.get("rate", 0.02), **loads), noise)


SLOPE = {"slope": 0.0, "dropout": 0.0, "background": 0.0}
SPOILED: dict[str, dict[str, Any]] = {
    "as the model says": {},
    "error 0.5 cycles, not 0.25": {"sigma": 0.5},
    "error 1 cycle": {"sigma": 1.0},
    "error 0.1 cycles": {"sigma": 0.1},
    "efficiency 90 %, not 100 %": {"slope": -1 / math.log10(1.9)},
    "efficiency 80 %": {"slope": -1 / math.log10(1.8)},
    "loads ten times as small": {"mean": REAL["mean"] - 1.0},
    "loads ten times as large": {"mean": REAL["mean"] + 1.0},
    "loads of half the spread": {"sd": REAL["sd"] / 2},
    "5 % of pools fail": {"dropout": 0.05},
    "a background that reads 35": {"background": 4.0},
    "6 % positive, not 2 %": {"rate": 0.06},
}


def misfits(seed: int, device: str, plates: int) -> list[dict[str, Any]]:
    """What becomes of plates that the model does not describe."""
    problem = _misfit_problem()
    decode = qgt.Calibrated(qgt.LoadPosterior(), seconds=120.0, simulations=2000).bind(problem)
    found = []
    for name, changed in SPOILED.items():
        drawn = _misfit_problem(**changed).simulate(plates, generator=torch.Generator(device).manual_seed(seed))
        found.append(_judged(name, decode, drawn.x, drawn.y))
    x, y = problem.simulate(plates, generator=torch.Generator(device).manual_seed(seed + 1))
    rows = torch.arange(plates, device=y.device)
    swapped = y.clone()
    swapped[:, [3, 8]] = y[:, [8, 3]]
    found.append(_judged("two pools swapped on every plate", decode, x, swapped))
    finite = y.nan_to_num(posinf=99.0)
    first, last = finite.argmin(1), finite.argmax(1)
    swapped = y.clone()
    swapped[rows, first], swapped[rows, last] = y[rows, last], y[rows, first]
    found.append(_judged("the strongest pool swapped with an empty one", decode, x, swapped))
    failed = y.clone()
    failed[rows, first] = math.inf
    found.append(_judged("the strongest pool failed: nothing detected", decode, x, failed))
    found.append(_judged("the pools in reverse order", decode, x, y.flip(1)))
    return found


def _judged(name: str, decode: Any, x: Tensor, y: Tensor) -> dict[str, Any]:
    result = decode(y)
    fit, confidence = result.evidence.fit, result.evidence.confidence
    wrong = (result.x != (x > 0)).any(1)
    suspect = fit < INSTANCE_ALARM
    trusted = ~suspect & (confidence >= SURE)
    missed = (x > 0) & (result.evidence.marginals <= NEGATIVE) & ~suspect[:, None]
    row = {
        "plates": name, "number": len(y), "suspect": int(suspect.sum()), "wrong": int(wrong.sum()),
        "trusted": int(trusted.sum()), "trusted_wrong": int((trusted & wrong).sum()),
        "positives": int((x > 0).sum()), "positives_called_negative": int(missed.sum()),
    }  # fmt: skip
    print(row, flush=True)
    return row


def panels_of(found: list[dict[str, Any]]) -> list[SuccessPanel]:
    """A panel for each world and size, with the error that most rows of the world have."""
    usual = {"simple": 0.1, "real": 0.25}
    panels = []
    for world, words in WORLDS.items():
        rows = [row for row in found if (row["world"], row["error"]) == (world, usual[world])]
        for pools, items in sorted({(row["pools"], row["items"]) for row in rows}):
            own = sorted((row for row in rows if row["pools"] == pools), key=lambda row: int(row["positives"]))
            right = {"LoadPosterior": [row["right"] for row in own]}
            right |= {words: [row["others"][name]["right"] for row in own] for name, words in BASELINES.items()}
            strict = all("told" in row for row in own)  # older results have the mean confidence alone
            limit = [row["told" if strict else "limit"] for row in own]
            title = f"{words}: {items} samples, {pools} pools"
            panels.append(
                SuccessPanel(title, [row["positives"] for row in own], own[0]["plates"], right, limit, strict)
            )
    return panels


def measured_before(output: Path | None, about: dict[str, Any], plates: int) -> list[dict[str, Any]]:
    """The rows of a file that an earlier call began on such a device, with the same seed and number of plates."""
    if output is None or not output.exists():
        return []
    stored = json.loads(output.read_text("utf-8"))
    same = all(stored[key] == about[key] for key in ("seed", "device", "qgt"))
    return [row for row in stored["results"] if row["plates"] == plates] if same else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", default="rates", choices=("rates", "speed", "misfit", "draw"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--plates", type=int, default=100)
    parser.add_argument("--rows", nargs="*", default=[""])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    if given.what == "draw":
        found = json.loads(RESULTS.read_text("utf-8"))["results"]
        return save_figure(success_figure(panels_of(found)), IMAGE, "png")
    about = {"seed": given.seed, **provenance(given.device), "threads": torch.get_num_threads()}
    found: list[dict[str, Any]] = []
    if given.what == "speed":
        found = speed(given.seed, given.device, given.plates)
    elif given.what == "misfit":
        found = misfits(given.seed, given.device, given.plates)
    else:
        found = measured_before(given.output, about, given.plates)
        ended = {row["row"] for row in found}
        for row in rows():
            if row.name in ended or not row.name.startswith(tuple(given.rows)):
                continue
            found.append(measured(row, given.seed, given.plates, given.device))
            shown = {key: value for key, value in found[-1].items() if key not in ("calibration", *Row._fields)}
            print(shown, flush=True)
            if given.output:
                given.output.write_text(json.dumps({**about, "results": found}))  # whatever comes after
    if given.output:
        write(given.output, {**about, "results": found})
    return None


if __name__ == "__main__":
    main()
