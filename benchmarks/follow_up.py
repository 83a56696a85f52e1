"""How many tests until the answer is sure: follow-up rounds beside the schemes of others.

python benchmarks/follow_up.py goals --instances 10000 --processes 16     # N = 100, 6 %, S/N = 0.1; and calibration
python benchmarks/follow_up.py sweep --instances 500 --processes 16       # first rounds, risks, lists, spread pools
python benchmarks/follow_up.py frontier --instances 800 --processes 16    # one follow-up: tests against success
python benchmarks/follow_up.py table --instances 1000 --processes 16      # policies by prevalence, with noise or not
python benchmarks/follow_up.py curve --instances 500 --processes 16       # tests against prevalence, 0.5 to 20 %
python benchmarks/follow_up.py households --instances 2000 --processes 16
python benchmarks/follow_up.py time --instances 400 --processes 2         # goals by the clock, on a machine left alone
python benchmarks/follow_up.py merge ROWS.json ...                        # rows of other machines into the results
python benchmarks/follow_up.py draw                                       # figures, from the results alone

Results grow in results/follow_up.json, or in the file --results names, as batches end. A run that was stopped, or that
--minutes ended, goes on where it was; batches that the results have are not run again. --policies and --rates run some
cases of a part alone.
"""

import argparse
import json
import math
import multiprocessing
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import torch

import qgt
from qgt.files.store import write_text
from qgt.pictures.figures import policy_frontier_figure, prevalence_figure, rounds_figure, save_figure
from qgt.rounds.history import Setting
from qgt.rounds.policies import FollowUp, Policy, simulate_policy
from qgt.rounds.schemes import Scheme
from qgt.theory.limits import fewest_tests, information
from qgt.version import provenance

RESULTS, IMAGES = Path("results/follow_up.json"), Path("docs/images")
TIMED = 1_000_000  # the first seed of batches that are timed and not kept
EDGES = (0.0, 0.9, 0.99, 0.995, 0.997, 0.998, 0.999, 0.9995, 0.9999)  # of bins of confidence
ITEMS = 100
PARTS = ("goals", "sweep", "frontier", "table", "curve", "households")


@dataclass(frozen=True)
class Case:
    """A policy in a setting."""

    part: str
    policy: str
    rate: float
    noise: float
    households: bool = False

    @property
    def key(self) -> str:
        """Its name in the results."""
        return f"{self.part} / {self.policy} / {self.rate:g} / {self.noise:g}" + (
            " / households" if self.households else ""
        )

    @property
    def batch(self) -> int:
        """Instances that share a first round: few where many items are defective and a batch takes minutes."""
        return 5 if self.policy == "follow-up" and self.rate > 0.1 else 25

    @property
    def setting(self) -> Setting:
        """What it is simulated in."""
        noise = qgt.SparseInteger(self.noise, 1) if self.noise else qgt.Noiseless()
        prior: Any = qgt.Bernoulli(self.rate)
        if self.households:
            prior = qgt.Households(size=4, seed_rate=self.rate / 0.6, attack_rate=0.6)
        return Setting(ITEMS, prior, noise)


@cache  # a table of a hundred rows has eight settings
def bound(rate: float, noise: float) -> float:
    """The entropy of x over what the best first pool tells: fewer tests would each have to tell more than that."""
    return fewest_tests(qgt.SparseInteger(noise, 1) if noise else qgt.Noiseless(), rate, items=ITEMS)


def start_of(rate: float, noise: float) -> int:
    """The pools of the first round: as many as random pools need at least, by what each tells."""
    return max(3, round(information(ITEMS, rate, qgt.SparseInteger(noise, 1))))


def policy_of(case: Case) -> Policy:
    """The policy of a name."""
    if case.part in ("sweep", "frontier", "households"):
        words = dict(word.split("=") for word in case.policy.split())
        return FollowUp(
            int(words["first"]), pools=20, risk=float(words["risk"]), confidence=float(words["confidence"]),
            odds=float(words["odds"]), spread=words["spread"] == "yes", spare=int(words["spare"]),
            follow_ups=1 if case.part == "frontier" else None, time_limit=4.0 if case.part == "frontier" else 2.0,
        )  # fmt: skip
    lead = (2 if case.policy == "checked" else 4) if case.noise else 1  # as many as make 999 of 1,000 right
    first = start_of(case.rate, case.noise)
    ours = {
        "follow-up": FollowUp(first=first, risk=0.05, confidence=0.996, odds=30.0, time_limit=2.0),
        "one pool a round": FollowUp(first=first, pools=1, confidence=0.996, odds=30.0, time_limit=2.0),
        "all items, then one pool a round": FollowUp(first=1, pools=1, confidence=0.996, odds=30.0, time_limit=2.0),
        "three pools a round": FollowUp(first=first, pools=3, confidence=0.996, odds=30.0, time_limit=2.0),
        "one follow-up": FollowUp(
            first + 5, pools=20, risk=0.006, follow_ups=1, confidence=0.998, odds=300.0, time_limit=4.0
        ),
        "non-adaptive": FollowUp(first=round(1.9 * first), follow_ups=0),
    }
    return ours[case.policy] if case.policy in ours else Scheme(case.policy, lead=lead)


OURS = ("follow-up", "one pool a round", "three pools a round", "one follow-up", "non-adaptive")
SCHEMES = ("individual", "dorfman", "halving", "grouped_halving", "staged", "staged_longer", "checked")


def cases(part: str) -> Iterator[Case]:
    """What a part of the benchmark runs."""
    if part == "goals":
        yield from (Case(part, policy, 0.06, 0.1) for policy in ("follow-up", "one follow-up"))
    elif part == "sweep":
        for first, risk, confidence, odds, spread in product((15, 16, 17), (0.05, 0.15), (0.996,), (10, 30), ("yes",)):
            yield _swept(part, first, risk, confidence, odds, spread)
        yield _swept(part, 16, 0.05, 0.996, 30, "no")
        yield _swept(part, 16, 0.05, 0.998, 10, "yes")
    elif part == "frontier":
        for first, risk, spare in product((18, 19, 20, 21), (0.003, 0.0005), (0, 1, 2, 4)):
            yield _swept(part, first, risk, 0.998, 300, "yes", spare)
        yield _swept(part, 19, 0.003, 0.998, 300, "no", 2)
        yield _swept(part, 20, 0.0001, 0.9995, 1000, "yes", 4)
    elif part == "table":
        for rate in (0.01, 0.03, 0.06, 0.1):
            yield from (Case(part, policy, rate, noise) for noise in (0.0, 0.1) for policy in (*OURS, *SCHEMES))
        # Where most instances have one defective item or none, a first round for all of them is the larger part.
        yield from (Case(part, "all items, then one pool a round", 0.01, noise) for noise in (0.0, 0.1))
    elif part == "curve":
        for rate in (0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.12, 0.16, 0.2):
            yield from (Case(part, policy, rate, 0.1) for policy in ("follow-up", "non-adaptive", "grouped_halving"))
    elif part == "households":
        for first in (10, 11, 12, 13):
            one = _swept(part, first, 0.05, 0.996, 30, "yes")
            yield Case(part, one.policy, 0.06, 0.1, households=True)


def _swept(part: str, first: int, risk: float, confidence: float, odds: float, spread: str, spare: int = 0) -> Case:
    policy = f"first={first} risk={risk} confidence={confidence} odds={odds} spread={spread} spare={spare}"
    return Case(part, policy, 0.06, 0.1)


def run(job: tuple[Case, int]) -> tuple[str, dict[str, Any]]:
    """One batch."""
    case, seed = job
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(1_000_003 * seed + 17)
    start = time.process_time()
    ran = simulate_policy(policy_of(case), case.setting, case.batch, generator=generator)
    seconds = time.process_time() - start
    bins = [[0, 0.0, 0] for _ in EDGES]
    for confidence, wrong in zip(ran.confidence.tolist(), ran.wrong.tolist(), strict=True):
        if confidence == confidence:
            place = max(i for i, edge in enumerate(EDGES) if confidence >= edge)
            bins[place] = [bins[place][0] + 1, bins[place][1] + confidence, bins[place][2] + (not wrong)]
    return case.key, {
        "tests": _histogram(ran.tests), "rounds": _histogram(ran.rounds), "transfers": int(ran.transfers.sum()),
        "wrong": int(ran.wrong.sum()), "seconds": seconds, "confidence": bins, "seeds": [seed],
        "policy": repr(policy_of(case)),
    }  # fmt: skip


def _histogram(values: torch.Tensor) -> dict[str, int]:
    kinds, numbers = values.unique(return_counts=True)
    return {str(kind): number for kind, number in zip(kinds.tolist(), numbers.tolist(), strict=True)}


def added(old: dict[str, Any] | None, new: dict[str, Any]) -> dict[str, Any]:
    """Two batches as one."""
    if old is None:
        return new
    both = {key: old[key] + new[key] for key in ("transfers", "wrong", "seconds", "seeds")}
    for key in ("tests", "rounds"):
        both[key] = {k: old[key].get(k, 0) + new[key].get(k, 0) for k in sorted({*old[key], *new[key]}, key=int)}
    pairs = zip(old["confidence"], new["confidence"], strict=True)
    both["policy"] = old["policy"]
    both["confidence"] = [[a + b for a, b in zip(one, other, strict=True)] for one, other in pairs]
    return both


def mean(histogram: dict[str, int]) -> tuple[float, float]:
    """The mean, and its standard error."""
    n = sum(histogram.values())
    average = sum(int(k) * number for k, number in histogram.items()) / n
    variance = sum((int(k) - average) ** 2 * number for k, number in histogram.items()) / max(1, n - 1)
    return average, math.sqrt(variance / n)


def measure(wanted: list[Case], instances: int, processes: int, minutes: float, results: Path) -> None:
    """Run what is not there yet, until the minutes are over; every batch that ends is kept."""
    data = read(results)
    data["measured_on"] = provenance("cpu")
    for case in wanted:  # rows of a policy with other settings are not this one's
        if data["cases"].get(case.key, {}).get("policy") != repr(policy_of(case)):
            data["cases"].pop(case.key, None)
    jobs = [
        (case, seed)
        for seed in range(-(-instances // min(case.batch for case in wanted)))  # all cases grow together
        for case in wanted
        if seed * case.batch < instances and seed not in data["cases"].get(case.key, {}).get("seeds", [])
    ]
    start = last = time.monotonic()
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for number, (key, found) in enumerate(pool.imap_unordered(run, jobs), 1):
            data["cases"][key] = added(data["cases"].get(key), found)
            over = time.monotonic() - start > 60 * minutes
            if time.monotonic() - last > 10 or number == len(jobs) or over:
                last = time.monotonic()
                write(results, data)
                print(f"{number} of {len(jobs)} batches", flush=True)
            if over:
                break
    for case in wanted:
        if case.key in data["cases"]:
            print(line(case, data["cases"][case.key]))


def time_goals(wanted: list[Case], instances: int, processes: int, results: Path) -> None:
    """Seconds by the clock for each instance, with so many processes: start and imports of a process not among them."""
    data = read(results)
    data["measured_on"], data["clock"] = provenance("cpu"), {}
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        pool.map(_imported, range(processes), chunksize=1)
        for case in wanted:
            batches = -(-instances // case.batch)
            start = time.monotonic()
            list(pool.imap_unordered(run, [(case, TIMED + seed) for seed in range(batches)]))
            seconds, ran = time.monotonic() - start, batches * case.batch
            data["clock"][case.key] = {"seconds": seconds / ran, "instances": ran, "processes": processes}
            print(f"{case.key}: {seconds / ran:.3f} s an instance by the clock, {processes} processes", flush=True)
    write(results, data)


def _imported(number: int) -> int:
    return number


def read(results: Path) -> dict[str, Any]:
    """The results that a file holds, none where it is not there."""
    found: dict[str, Any] = json.loads(results.read_text("utf-8")) if results.exists() else {"cases": {}}
    return found


def write(results: Path, data: dict[str, Any]) -> None:
    """Write them, a line for each case."""
    rows = ",\n".join(f"  {json.dumps(key)}: {json.dumps(found)}" for key, found in sorted(data["cases"].items()))
    head = f'"measured_on": {json.dumps(data["measured_on"])},\n "clock": {json.dumps(data.get("clock", {}))}'
    write_text(results, f'{{{head},\n "cases": {{\n{rows}\n}}}}\n')


def merge(results: Path, others: list[Path]) -> None:
    """Add the rows of other files; a case whose batches are there already is refused."""
    data = read(results)
    for other in others:
        more = read(other)
        data["measured_on"] = more["measured_on"]
        for key, found in more["cases"].items():
            here = data["cases"].get(key, {}).get("seeds", [])
            if not here or data["cases"][key]["policy"] != found["policy"] or set(here) <= set(found["seeds"]):
                data["cases"][key] = found
            elif set(here) & set(found["seeds"]):
                raise ValueError(f"{other}: {key} has some batches that {results} has: rows cannot be told apart.")
            else:
                data["cases"][key] = added(data["cases"].get(key), found)
    write(results, data)


def line(case: Case, found: dict[str, Any]) -> str:
    """One result in words."""
    (tests, error), (rounds, _), n = mean(found["tests"]), mean(found["rounds"]), sum(found["tests"].values())
    said = sum(one[1] for one in found["confidence"])
    confidence = f", confidence {said / n:.5f}" if said else ""
    least = "" if case.households else f" (bound {bound(case.rate, case.noise):.1f})"  # it takes items as independent
    return (
        f"{case.key}: {tests:.2f} +- {error:.2f} tests{least}, {rounds:.2f} rounds, "
        f"success {1 - found['wrong'] / n:.4f} of {n}{confidence}, {found['seconds'] / n:.2f} s each"
    )


def draw(found: dict[str, Any]) -> None:
    """Tests against prevalence, and tests against rounds, each beside the entropy bound."""
    curve: dict[str, list[tuple[float, float, float]]] = {}
    for case in cases("curve"):
        if case.key in found:
            curve.setdefault(case.policy, []).append((case.rate, *mean(found[case.key]["tests"])))
    least = [(case.rate, bound(case.rate, case.noise)) for case in cases("curve") if case.policy == "follow-up"]
    IMAGES.mkdir(parents=True, exist_ok=True)
    if curve:
        save_figure(prevalence_figure(curve, least, ITEMS), IMAGES / "follow_up_prevalence.png", "png")
    points = {
        case.policy: (
            *mean(found[case.key]["rounds"])[:1],
            *mean(found[case.key]["tests"]),
            1 - _failed(found[case.key]),
        )
        for case in cases("table")
        if (case.rate, case.noise) == (0.06, 0.1) and case.key in found
    }
    if points:
        save_figure(rounds_figure(points, bound(0.06, 0.1), ITEMS), IMAGES / "follow_up_rounds.png", "png")

    firsts: dict[int, list[tuple[float, float]]] = {}
    for case in cases("frontier"):
        if case.key in found:
            first = int(case.policy.split()[0].partition("=")[2])
            firsts.setdefault(first, []).append((mean(found[case.key]["tests"])[0], _failed(found[case.key])))
    if firsts:
        save_figure(policy_frontier_figure(firsts, ITEMS), IMAGES / "follow_up_frontier.png", "png")


def _failed(found: dict[str, Any]) -> float:
    return float(found["wrong"] / sum(found["tests"].values()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("part", choices=(*PARTS, "time", "merge", "draw"))
    parser.add_argument("files", nargs="*", type=Path, help="for merge")
    parser.add_argument("--instances", type=int, default=50, help="of each case, in whole batches")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after so many; running again goes on")
    parser.add_argument("--policies", nargs="+", help="these alone, by their names in the results")
    parser.add_argument("--rates", nargs="+", type=float, help="these prevalences alone")
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    if arguments.part == "draw":
        draw(read(arguments.results)["cases"])
    elif arguments.part == "merge":
        merge(arguments.results, arguments.files)
    else:
        wanted = [
            case
            for case in cases("goals" if arguments.part == "time" else arguments.part)
            if case.policy in (arguments.policies or [case.policy]) and case.rate in (arguments.rates or [case.rate])
        ]
        if not wanted:
            raise SystemExit(f"No case of {arguments.part} has these policies and rates.")
        if arguments.part == "time":
            time_goals(wanted, arguments.instances, arguments.processes, arguments.results)
        else:
            measure(wanted, arguments.instances, arguments.processes, arguments.minutes, arguments.results)


if __name__ == "__main__":
    main()
