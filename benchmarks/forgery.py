"""Does the checker refuse every forged certificate and accept every honest one? Counts of both, by kind.

    python benchmarks/forgery.py --processes 16 --seconds 540 -o results/forgery.json     # 9 minutes

Each round draws a problem (12 noises, eight priors, 6 to 40 items; in every fourth round counts are missing), decodes
instances with and without time limits, checks what was claimed, directly and through a file, and forges each
certificate in every way of `tests/forgeries`, some ways several times. A changed certificate counts as forged only
where its claim is false, or is not shown: by trying every x up to 14 items, otherwise by the honest result; and it
counts once, however often it was made. On problems of up to ten items an adversary then looks for certificates of false
claims, led by what the checker says (`forgeries.adversary`). Rounds are numbered, so
`--first ROUND --rounds 1 --processes 1` repeats one. Results are written every half minute. `--add FILE` adds a run of
another seed to them.
"""

import argparse
import json
import math
import multiprocessing
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))  # where the forgeries are made

import torch
from torch import Generator, Tensor

import qgt
from forgeries import problems
from forgeries.adversary import KIND as ADVERSARY
from forgeries.adversary import attack
from forgeries.case import Case
from forgeries.forging import KINDS, Forged, accepted, forged, why_false
from forgeries.problems import NOISES, PRIORS
from forgeries.truth import FEW_ITEMS, MOST_ITEMS, Truth
from setting import in_processes, provenance, write

ITEMS = (8, 6, 10, 8, 14, 9, 12, 8, 20, 10, 14, 8, 30, 7, 9, 40)
INSTANCES = 32  # of a round, whose certificates are forged
HONEST = 128  # of a round, whose certificates must be accepted
ODDS = 100.0
LIMITS = (0.0005, 0.002, 0.005, 0.02)  # seconds per instance, for honest results of searches that were cut short
PATIENCE = 0.02  # seconds per instance for those that are not
BRIEFLY = 0.005  # seconds per instance for problems that the certificates are not about
REPEATS = 6  # times each kind is tried per instance
ATTACKS = 6  # instances of a round that the adversary takes on
SAVED = 30.0  # seconds after which results are written again
OTHER = ("counts: one changed", "counts: of another instance", "problem: another rate", "problem: another noise",
         "problem: another design", "problem: two pools exchanged", "problem: an entry changed")  # fmt: skip


class Round(NamedTuple):
    """A problem and decoded instances of it."""

    problem: qgt.Problem
    noise: str
    y: Tensor
    result: qgt.Decoded  # odds 100
    brief: qgt.Decoded  # odds 1, or cut short


@dataclass
class Tally:
    """What was tried and what got through."""

    rounds: int = 0
    forged: Counter[str] = field(default_factory=Counter)
    through: Counter[str] = field(default_factory=Counter)  # forged and accepted
    reasons: Counter[str] = field(default_factory=Counter)
    noises: Counter[str] = field(default_factory=Counter)
    honest: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)  # honest and refused
    examples: list[str] = field(default_factory=list)

    def add(self, other: "Tally") -> None:
        """Take in another's."""
        self.rounds += other.rounds
        for name in ("forged", "through", "reasons", "noises", "honest", "refused"):
            getattr(self, name).update(getattr(other, name))
        self.examples = (self.examples + other.examples)[:50]


def problem_of(number: int, g: Generator) -> tuple[qgt.Problem, str]:
    """The problem of a round: sizes, noises and priors come in turns of different lengths, so that all of them meet."""
    items, noise = ITEMS[number % len(ITEMS)], list(NOISES)[(number + number // 48) % len(NOISES)]
    return problems.problem_of(noise, PRIORS[int(torch.randint(len(PRIORS), (), generator=g))], items, g), noise


def round_of(number: int, g: Generator) -> Round:
    """Decode instances; every sixth has a count that is off by one more."""
    problem, name = problem_of(number, g)
    y = problems.counts_of(problem, HONEST, g, missing=number % 4 == 3)
    result = qgt.Certified(ODDS, PATIENCE).bind(problem)(y)
    limit = LIMITS[number // 2 % len(LIMITS)]
    brief = qgt.Certified(1.0, PATIENCE) if number % 2 else qgt.Certified(ODDS, limit)
    return Round(problem, name, y, result, brief.bind(problem)(y))


# --- honest ---------------------------------------------------------------------------------------------------------


def claims(result: qgt.Decoded) -> Tensor:
    """Which instances' results claim something."""
    return (result.status == qgt.Status.PROVED) | (result.status == qgt.Status.INFEASIBLE)


def check_honest(this: Round, number: int, tally: Tally) -> None:
    """Honest certificates must be accepted, directly and through a file."""
    kind = "odds 1" if number % 2 else f"time limit {1e3 * LIMITS[number // 2 % len(LIMITS)]:g} ms"
    for name, result in (("odds 100", this.result), (kind, this.brief)):
        told = claims(result)
        for way, one in ((name, result), (f"{name}, through a file", through_a_file(this, result))):
            fine = qgt.check_certificate(this.problem, this.y, one)
            tally.honest[way] += int(told.sum())
            refused = (told & ~fine).nonzero().flatten().tolist()
            tally.refused[way] += len(refused)
            tally.examples += [f"round {number}: honest, {way}, instance {i}" for i in refused]


def through_a_file(this: Round, result: qgt.Decoded) -> qgt.Decoded:
    with tempfile.TemporaryDirectory() as folder:
        qgt.save_certificate(f"{folder}/proof", this.problem, this.y, result)
        return qgt.load_certificate(f"{folder}/proof", this.problem, this.y)


# --- forged ---------------------------------------------------------------------------------------------------------


def truth_of(problem: qgt.Problem, y: Tensor, honest: qgt.Decoded) -> Truth | None:
    """What is true of one instance; None where the honest result is not complete."""
    if problem.items <= MOST_ITEMS:
        return Truth.by_trying(problem, y)
    complete = honest.evidence.complete
    assert complete is not None
    known = int(honest.status[0]) == qgt.Status.INFEASIBLE or bool(complete[0])
    return Truth.of_listed(problem, y, honest) if known else None


def cases(this: Round) -> Iterator[tuple[int, Case]]:
    for i in range(INSTANCES):
        if not bool(claims(this.result)[i]):
            continue
        alone = [result.pick(torch.tensor([i])) for result in (this.result, this.brief)]
        truth = truth_of(this.problem, this.y[i : i + 1], alone[0])
        if truth is not None:
            other = this.result.pick(torch.tensor([(i + 1) % INSTANCES]))
            yield i, Case(this.problem, this.y[i : i + 1], alone[0], truth, other, alone[1])


def forge(this: Round, number: int, g: Generator, tally: Tally) -> None:
    """Every kind of forgery of every instance."""
    few = torch.arange(INSTANCES)
    this = this._replace(y=this.y[few], result=this.result.pick(few), brief=this.brief.pick(few))
    attacks = ATTACKS if this.problem.items <= FEW_ITEMS else 0
    for i, case in cases(this):
        made = list(forged(case, g, repeats=REPEATS))
        judge(this, case.problem, case.y, made, f"round {number}: instance {i}", tally)
        if attacks and case.truth.possible:
            attacks -= 1
            found = attack(case, g)
            tally.forged[ADVERSARY] += found.tried
            tally.noises[this.noise] += found.tried
            tally.through[ADVERSARY] += len(found.through)
            tally.examples += [f"round {number}: instance {i}: {one.kind} ({one.why})" for one in found.through]
    for kind, problem, y in elsewhere(this, g):
        # Up to 14 items what is true is found by trying, and needs no decoder.
        honest = qgt.Certified(ODDS, BRIEFLY).bind(problem)(y) if problem.items > MOST_ITEMS else this.result
        for i in claims(this.result).nonzero().flatten().tolist():
            alone = honest.pick(torch.tensor([i]))
            truth = truth_of(problem, y[i : i + 1], alone)
            if truth is None:
                continue
            result = without_shadow(this.result.pick(torch.tensor([i])))
            # Its leaves hold every x, so that no witness speaks against them.
            why = why_false(Case(problem, y[i : i + 1], alone, truth, result, result), result, result.x[:0])
            made = [] if why is None else [Forged(kind, result, why)]
            judge(this, problem, y[i : i + 1], made, f"round {number}: instance {i}", tally)


def without_shadow(result: qgt.Decoded) -> qgt.Decoded:
    """A result whose probabilities are not claimed: under another problem only the answer and its list are judged."""
    answers = result.evidence.alternatives
    assert answers is not None
    evidence = replace(
        result.evidence,
        confidence=torch.zeros(1, dtype=torch.float64),
        alternatives=replace(answers, probability=torch.zeros_like(answers.probability)),
    )
    return replace(result, evidence=evidence)


def elsewhere(this: Round, g: Generator) -> Iterator[tuple[str, qgt.Problem, Tensor]]:
    """Problems and counts that the certificates are not about."""
    problem, y = this.problem, this.y
    design, prior, noise = problem.design, problem.prior, problem.noise
    changed = y.clone()
    changed[torch.arange(len(y)), torch.randint(problem.pools, (len(y),), generator=g)] += 1
    yield "counts: one changed", problem, changed
    yield "counts: of another instance", problem, y.roll(1, 0)
    if isinstance(prior, qgt.Bernoulli) and isinstance(prior.rate, float):
        yield "problem: another rate", qgt.Problem(design, qgt.Bernoulli(min(0.6, 5 * prior.rate)), noise), y
    others = [one for name, one in NOISES.items() if one != noise and name != this.noise]
    other = others[int(torch.randint(len(others), (), generator=g))]
    yield "problem: another noise", qgt.Problem(design, prior, other), y
    drawn = qgt.Design.bernoulli(pools=problem.pools, items=problem.items, generator=g)
    yield "problem: another design", qgt.Problem(drawn, prior, noise), y
    order = torch.arange(problem.pools)
    order[:2] = order[:2].flip(0)
    yield "problem: two pools exchanged", qgt.Problem(qgt.Design.from_matrix(design.matrix[order]), prior, noise), y
    matrix = design.matrix.clone()
    matrix[0, int(torch.randint(problem.items, (), generator=g))] ^= 1
    yield "problem: an entry changed", qgt.Problem(qgt.Design.from_matrix(matrix), prior, noise), y


def judge(this: Round, problem: qgt.Problem, y: Tensor, made: list[Forged], where: str, tally: Tally) -> None:
    """Put forgeries to the checker."""
    for one, through in zip(made, accepted(problem, y, [one.result for one in made]), strict=True):
        tally.forged[one.kind] += 1
        tally.reasons[one.why] += 1
        tally.noises[this.noise] += 1
        if through:
            tally.through[one.kind] += 1
            tally.examples.append(f"{where}: {one.kind} ({one.why})")


# --- many -----------------------------------------------------------------------------------------------------------


class Share(NamedTuple):
    """One round."""

    seed: int
    number: int


def work(share: Share) -> Tally:
    tally, g = Tally(rounds=1), torch.Generator().manual_seed(share.seed * 10**9 + share.number)
    this = round_of(share.number, g)
    check_honest(this, share.number, tally)
    forge(this, share.number, g, tally)
    return tally


def save(path: Path, told: argparse.Namespace, total: Tally, seconds: float) -> None:
    kinds = [
        {"kind": kind, "forged": total.forged[kind], "accepted": total.through[kind]}
        for kind in (*KINDS, *OTHER, ADVERSARY)
    ]
    ways = [{"way": way, "honest": n, "refused": total.refused[way]} for way, n in sorted(total.honest.items())]
    found = {"kinds": kinds, "honest": ways, "reasons": dict(total.reasons), "noises": dict(total.noises)}
    settings = {"seed": told.seed, "processes": told.processes, "rounds": total.rounds, "seconds": round(seconds)}
    write(path, {"measured_on": provenance("cpu"), **settings, **found, "examples": total.examples})


def add(output: Path, other: Path) -> None:
    """Add what another run counted, kind by kind."""
    results, more = json.loads(output.read_text()), json.loads(other.read_text())
    assert results["seed"] != more["seed"], "both runs have the same seed"
    for part, name in (("kinds", "kind"), ("honest", "way")):
        counted = {one[name]: one for one in more[part]}
        for one in results[part]:
            new = counted.get(one[name], {})
            one.update({key: value + new.get(key, 0) for key, value in one.items() if key != name})
    for part in ("reasons", "noises"):
        results[part] = dict(Counter(results[part]) + Counter(more[part]))
    sums = {key: results[key] + more[key] for key in ("rounds", "seconds", "examples")}
    write(output, {**results, **sums, "seed": [results["seed"], more["seed"]]})


def summary(total: Tally, seconds: float) -> str:
    forged = f"{total.forged.total():,} forged, {total.through.total()} accepted"
    honest = f"{total.honest.total():,} honest, {total.refused.total()} refused"
    return f"{forged}; {honest}; {total.rounds} rounds, {seconds:.0f} s"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-o", "--output", type=Path, default=Path("results/forgery.json"))
    parser.add_argument("--number", type=float, default=math.inf, help="of forgeries, after which to stop")
    parser.add_argument("--seconds", type=float, default=480.0, help="after which to stop")
    parser.add_argument("--rounds", type=int, default=20_000, help="at most")
    parser.add_argument("--first", type=int, default=0, help="the first round's number")
    parser.add_argument("--processes", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--add", type=Path, help="only add this run, of another seed, to the results")
    told = parser.parse_args()
    if told.add is not None:
        add(told.output, told.add)
        return 0
    shares = [Share(told.seed, told.first + i) for i in range(told.rounds)]
    total, start, saved = Tally(), time.perf_counter(), time.perf_counter()
    for tally in in_processes(work, shares, processes=told.processes, seconds=told.seconds):
        total.add(tally)
        if total.forged.total() >= told.number:
            break
        if time.perf_counter() - saved > SAVED:
            saved = time.perf_counter()
            save(told.output, told, total, saved - start)
            print(summary(total, saved - start), flush=True)
    seconds = time.perf_counter() - start
    for kind in (*KINDS, *OTHER, ADVERSARY):
        print(f"{total.forged[kind]:>9,} forged, {total.through[kind]} accepted: {kind}")
    for way, number in sorted(total.honest.items()):
        print(f"{number:>9,} honest, {total.refused[way]} refused: {way}")
    print(*total.examples, summary(total, seconds), sep="\n")
    save(told.output, told, total, seconds)
    return int(total.through.total() > 0 or total.refused.total() > 0)


if __name__ == "__main__":
    raise SystemExit(main())
