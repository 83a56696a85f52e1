"""Is any answer called PROVED that is not the most probable one? Every prior and noise of docs/models.md, counted.

    python benchmarks/false_proofs.py --device cuda --seconds 540 -o results/false_proofs.json
    python benchmarks/false_proofs.py --device cuda --instances 1000000 --first 40     # go on where a run ended

Each round takes one prior, one noise and one size, draws a design and instances, and decodes them with
`Certified(certificates=False)`. One count of every eighth instance is off by two; in every fifth round a quarter of the
counts are missing. An answer that is PROVED is false where another x is more probable by more than TOLERANCE nats, and
INFEASIBLE is false where some x is possible.

Up to 16 items all x are tried: their log probabilities come from the prior's and the noise's own `log_prob`, not from
the tables that the decoder works on, and nothing of a decoder is used. Beyond, the oracle is the truth that was drawn
no answer that is PROVED may be less probable. That is weaker, but sharp where an exact decoder is often right: a bound
that is too high excludes the truth.

Rounds are numbered, and what a number draws depends on the seed alone: `--first ROUND --rounds 1` repeats one on the
same kind of device. Results are written every half minute. Exit code 1 says that something false was called proved.
It needs torch, numpy, scipy, safetensors and jaxtyping.
"""

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor

import qgt
from setting import provenance, write

TOLERANCE = 3e-6  # nats: the decoder takes costs that differ by 1e-6 for equal, and sums of them round
SMALL, LARGE = (8, 10, 12, 14, 16), (40, 100, 200)
TRIED = 2**26  # x times instances times pools at a time
MISSING = 0.25
SAVED = 30.0  # seconds after which results are written again
# Seconds per instance for few items, and for more: what takes longer claims nothing, and is counted as open.
LIMITS = (0.0004, 0.01)


def families(items: int) -> qgt.Households:
    return qgt.Households(size=4, seed_rate=0.1, attack_rate=0.6, background=0.01)


def rates(items: int, g: Generator) -> list[float]:
    return (0.01 + 0.19 * torch.rand(items, generator=g, dtype=torch.float64)).tolist()


PRIORS = ("one rate", "rates", "known items", "fixed number", "unknown rate", "households", "unknown level of rates",
          "unknown level of households")  # fmt: skip
NOISES = ("noiseless", "D = 1", "D = 3", "rounded Gaussian", "Gaussian", "positive or negative", "diluted", "ranges",
          "saturating", "reads", "outliers", "outliers of real numbers", "each pool its own")  # fmt: skip


def prior_of(name: str, items: int, g: Generator) -> qgt.Prior:
    """A prior of docs/models.md."""
    drawn = rates(items, g)
    if name == "known items":
        drawn[0], drawn[-1] = 1.0, 0.0
    priors: dict[str, qgt.Prior] = {
        "one rate": qgt.Bernoulli(0.06),
        "rates": qgt.Bernoulli(drawn),
        "known items": qgt.Bernoulli(drawn),
        "fixed number": qgt.FixedWeight(max(1, round(0.06 * items))),
        "unknown rate": qgt.UnknownRate(low=0.01, high=0.15),
        "households": families(items),
        "unknown level of rates": qgt.UnknownLevel(qgt.Bernoulli(drawn), low=0.5, high=3.0),
        "unknown level of households": qgt.UnknownLevel(families(items), low=0.5, high=3.0),
    }
    return priors[name]


def noise_of(name: str, pools: int) -> qgt.Noise:
    """A noise of docs/models.md."""
    noises: dict[str, qgt.Noise] = {
        "noiseless": qgt.Noiseless(),
        "D = 1": qgt.SparseInteger(rate=0.1, bound=1),
        "D = 3": qgt.SparseInteger(rate=0.1, bound=3),
        "rounded Gaussian": qgt.RoundedGaussian(sigma=0.5),
        "Gaussian": qgt.Gaussian(sigma=0.3, growth=0.1),
        "positive or negative": qgt.PositiveNegative(sensitivity=0.95, specificity=0.99),
        "diluted": qgt.PositiveNegative(sensitivity=0.95, specificity=0.99, dilution=0.1),
        "ranges": qgt.Binned(edges=[1, 5]),
        "saturating": qgt.Saturating(cap=3, noise=qgt.SparseInteger(rate=0.1, bound=1)),
        "reads": qgt.Reads(depth=100, error=0.01),
        "outliers": qgt.Outliers(qgt.SparseInteger(rate=0.1, bound=1), rate=0.01),
        "outliers of real numbers": qgt.Outliers(qgt.Gaussian(sigma=0.3), rate=0.01),
    }
    if name != "each pool its own":
        return noises[name]
    all_ = list(noises.values())
    return qgt.PerPool([all_[(5 * pool + pools) % len(all_)] for pool in range(pools)])


class Round(NamedTuple):
    """One problem, and instances of it."""

    number: int
    prior: str
    noise: str
    missing: bool
    problem: qgt.Problem
    x: Tensor
    y: Tensor


def round_of(number: int, told: argparse.Namespace) -> Round:
    """Sizes, noises and priors come in turns whose lengths have no common divisor, so that all of them meet."""
    g = Generator().manual_seed(told.seed * 10**9 + number)
    sizes = [*SMALL, *(LARGE[number // len(SMALL) % len(LARGE) :][:1])]
    items, missing = sizes[number % len(sizes)], number % 5 == 4
    prior, noise = PRIORS[number // len(NOISES) % len(PRIORS)], NOISES[number % len(NOISES)]
    pools = max(4, round(items * (0.4 + 0.3 * float(torch.rand((), generator=g)))))
    if items > max(SMALL):
        pools = max(20, round(0.4 * items))
    weight = max(2, min(8, pools // 3))
    design = qgt.Design.column_regular(pools=pools, items=items, weight=weight, generator=g)
    if number // 6 % 2:
        design = qgt.Design.bernoulli(pools=pools, items=items, generator=g)
    problem = qgt.Problem(design, prior_of(prior, items, g), noise_of(noise, pools))
    number_of = told.batch if items in SMALL else max(1, told.batch // 20)
    on_device = Generator(told.device).manual_seed(told.seed * 10**9 + number)
    x, y = problem.simulate(number_of, generator=on_device)
    y[::8, number % pools] += 2
    if missing:
        y[torch.rand(y.shape, generator=on_device, device=y.device) < MISSING] = torch.nan
    return Round(number, prior, noise, missing, problem, x, y)


# --- oracles --------------------------------------------------------------------------------------------------------


def best_by_trying(this: Round) -> Tensor:
    """The log joint of the most probable x of each instance, -inf where none is possible: (instances,)."""
    problem, y = this.problem, this.y
    every = (torch.arange(2**problem.items)[:, None] >> torch.arange(problem.items) & 1).to(torch.uint8)
    prior = problem.prior.log_prob(every).to(y.device)  # type: ignore[attr-defined]
    counts = problem.design.count(every).to(y.device, torch.int64)  # (x, pools)
    rows = max(1, TRIED // (len(every) * problem.pools))
    return torch.cat([_best(this, some, prior, counts) for some in y.split(rows)])


def _best(this: Round, y: Tensor, prior: Tensor, counts: Tensor) -> Tensor:
    sizes = this.problem.design.pool_sizes.to(y.device, torch.float64)
    number = torch.arange(int(sizes.max()) + 1, dtype=torch.float64, device=y.device)[:, None, None]  # (counts, 1, 1)
    missing = y.isnan()
    each = this.problem.noise.log_prob(torch.where(missing, number, y), number, sizes)  # (counts, instances, pools)
    each = torch.where(missing, 0.0, each.expand(len(number), *y.shape))
    total = prior.expand(len(y), -1)
    for pool in range(y.shape[1]):
        total = total + each[:, :, pool].T[:, counts[:, pool]]  # (instances, x)
    return total.amax(1)


# --- counting -------------------------------------------------------------------------------------------------------


@dataclass
class Tally:
    """What was claimed, and what of it is false."""

    rows: dict[tuple[str, str], dict[str, int]] = field(default_factory=dict)
    rounds: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, this: Round, counted: dict[str, int], examples: list[str]) -> None:
        """Take in a round."""
        row = self.rows.setdefault((this.prior, this.noise), dict.fromkeys(counted, 0))
        for name, number in counted.items():
            row[name] += number
        self.rounds += 1
        self.examples = (self.examples + examples)[:50]

    def total(self, name: str) -> int:
        """The sum of a column."""
        return sum(row[name] for row in self.rows.values())


def judge(this: Round, tally: Tally, patience: float) -> None:
    """Decode a round, and hold what is claimed against the oracle."""
    problem, y = this.problem, this.y
    limit = patience * LIMITS[problem.items not in SMALL]
    decoder = qgt.Certified(odds=1.0, time_limit=limit, certificates=False)
    result = decoder.bind(problem)(y)
    proved, impossible = result.status == qgt.Status.PROVED, result.status == qgt.Status.INFEASIBLE
    own, tried = problem.log_joint(result.x, y), problem.items in SMALL
    best = best_by_trying(this) if tried else problem.log_joint(this.x, y)
    # The comparison is written so that NaN counts as false.
    wrong = (proved & ~(best <= own + TOLERANCE)) | (impossible & ~(best == -torch.inf))
    counted = {
        "instances": len(y),
        "by_trying": len(y) if tried else 0,
        "missing": int(y.isnan().any(1).sum()),
        "proved": int(proved.sum()),
        "infeasible": int(impossible.sum()),
        "open": int((~proved & ~impossible).sum()),
        "false": int(wrong.sum()),
    }
    examples = [
        f"round {this.number}, instance {i}: {this.prior}, {this.noise}, {problem.items} items: another x is "
        f"exp({float(best[i] - own[i]):g}) times as probable"
        for i in wrong.nonzero().flatten().tolist()[:5]
    ]
    tally.add(this, counted, examples)


def save(told: argparse.Namespace, tally: Tally, seconds: float) -> None:
    rows: list[dict[str, Any]] = [{"prior": p, "noise": n, **row} for (p, n), row in sorted(tally.rows.items())]
    settings = {"seed": told.seed, "first": told.first, "rounds": tally.rounds, "batch": told.batch}
    sums = {name: tally.total(name) for name in (next(iter(tally.rows.values())) if tally.rows else ())}
    found = {
        **settings,
        "tolerance": TOLERANCE,
        "time_limits": [told.patience * limit for limit in LIMITS],
        "seconds": round(seconds),
        **sums,
    }
    write(told.output, {"measured_on": provenance(told.device), **found, "rows": rows, "examples": tally.examples})


def rounds(told: argparse.Namespace) -> Iterator[Round]:
    for number in range(told.first, told.first + told.rounds):
        yield round_of(number, told)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-o", "--output", type=Path, default=Path("results/false_proofs.json"))
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--instances", type=float, default=1e6, help="after which to stop")
    parser.add_argument("--seconds", type=float, default=540.0, help="after which to stop")
    parser.add_argument("--batch", type=int, default=5000, help="instances of a round of few items")
    parser.add_argument("--rounds", type=int, default=10**6, help="at most")
    parser.add_argument("--first", type=int, default=0, help="the first round's number")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--patience", type=float, default=1.0, help="times the seconds per instance; a CPU needs more")
    told = parser.parse_args()
    tally, start, saved = Tally(), time.perf_counter(), time.perf_counter()
    for this in rounds(told):
        judge(this, tally, told.patience)
        now = time.perf_counter()
        if now - saved > SAVED:
            saved = now
            save(told, tally, now - start)
            print(f"round {this.number}: {tally.total('instances'):,} instances, {tally.total('proved'):,} proved, "
                  f"{tally.total('false')} false, {now - start:.0f} s", flush=True)  # fmt: skip
        if now - start > told.seconds or tally.total("instances") >= told.instances:
            break
    seconds = time.perf_counter() - start
    save(told, tally, seconds)
    print(*tally.examples, sep="\n")
    names = ("instances", "by_trying", "missing", "proved", "infeasible", "open", "false")
    print(", ".join(f"{tally.total(name):,} {name}" for name in names), f"in {tally.rounds} rounds, {seconds:.0f} s")
    return int(tally.total("false") > 0)


if __name__ == "__main__":
    raise SystemExit(main())
