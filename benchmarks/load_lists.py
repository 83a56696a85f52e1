"""Whether lists of sets that `LoadPosterior` calls complete are complete: every set of a small plate, fitted.

    python benchmarks/load_lists.py --plates 40 -o results/load_lists.json

9 samples in 5 to 7 pools, rates of 0.05 to 0.2, cycle thresholds and amounts. All sets of up to 5 samples are fitted,
each from the loads of the best set with one sample less: as the search fits them. A set is *lacking* where a list
called complete does not have it although its odds are 1, 2 or 10 % of the best set's, and more than `RARE` of those of
every set with one sample less; rarer additions are not listed, but summed up. `overstated` is the confidence less the
share that the answer has of all these sets.
"""

import argparse
import itertools
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

import qgt
from qgt.decoders.loads.evidence import Fitted, Plates, PositiveSets
from qgt.decoders.loads.search import RARE, SetListing, SetSearch
from setting import provenance, write

ITEMS, MOST = 9, 5  # samples, and of them in the largest sets
POOLS, RATES = (5, 6, 7), (0.05, 0.1, 0.2)
LOADS = {"mean": 2.0, "sd": 1.0, "low": 0.0, "high": 4.0}
NOISES = {
    "cycles": qgt.CycleThreshold(sigma=0.4, limit=37.0),
    "amounts": qgt.Amount(relative=0.2, absolute=1.0),
}
SHARES = (0.01, 0.02, 0.1)  # of the best set's odds


Sets = list[tuple[Fitted, Tensor]]  # of each size; and the highest evidence of the sets with one item less


class Kind(NamedTuple):
    """Plates of one kind."""

    noise: str
    pools: int
    rate: float


def kinds() -> Iterator[Kind]:
    """All kinds of plates."""
    return itertools.starmap(Kind, itertools.product(NOISES, POOLS, RATES))


def problem_of(kind: Kind, seed: int) -> qgt.Problem:
    """A random design, each sample in a pool or not with even chances, and the first pool with all samples."""
    generator = torch.Generator().manual_seed(1000 * seed + 10 * kind.pools + round(10 * kind.rate))
    matrix = (torch.rand(kind.pools, ITEMS, generator=generator) < 0.45).to(torch.uint8)
    matrix[0] = 1
    return qgt.Problem(qgt.Design.from_matrix(matrix), qgt.Loads(rate=kind.rate, **LOADS), NOISES[kind.noise])


def search_of(problem: qgt.Problem, y: Tensor) -> SetSearch:
    """The search of `LoadPosterior` with its usual options."""
    loads = problem.loads
    assert loads is not None
    who = loads.statuses()
    assert isinstance(who, qgt.FactoredPrior)
    options = qgt.LoadPosterior()
    plates = Plates.of(problem, loads, who.costs(problem.items), y)
    return SetSearch(plates, window=math.log(options.odds), width=3, most_sets=options.most_sets)


def every_set(search: SetSearch, most: int = MOST) -> Iterator[tuple[Fitted, Tensor]]:
    """The fitted sets of each size, with the highest evidence of the sets with one item less (-inf for none)."""
    plates = search.plates
    instances, items = len(plates), plates.problem.items
    empty = PositiveSets(
        torch.arange(instances), torch.full((instances, 1), -1), torch.zeros(instances, 1, dtype=torch.float64)
    )
    fitted = search.fitted(empty)
    yield fitted, torch.full((instances,), -torch.inf, dtype=torch.float64)
    for _ in range(most):
        some = torch.arange(items).expand(len(fitted.sets), -1)
        gain, log = search._gains(fitted.sets, fitted.totals, some)
        row, item = (gain > -torch.inf).nonzero(as_tuple=True)
        order = fitted.evidence[row].argsort(descending=True, stable=True)
        row, item = row[order], item[order]
        sets = PositiveSets(
            fitted.sets.owner[row],
            torch.cat([fitted.sets.items[row], item[:, None]], 1),
            torch.cat([fitted.sets.logs[row], log[row, item][:, None]], 1),
        )
        first = _first_of(search.keys(sets))  # of the best set with one item less
        parent = fitted.evidence[row[first]]
        fitted = search.fitted(sets[first])
        yield fitted, parent


def _first_of(keys: Tensor) -> Tensor:
    """The first row of each key."""
    order = keys.argsort(stable=True)
    new = torch.ones_like(keys, dtype=torch.bool)
    new[1:] = keys[order[1:]] != keys[order[:-1]]
    return order[new]


class Overstated(NamedTuple):
    """By how much the confidence in an answer exceeds what all sets leave it."""

    mean: float
    most: float


def overstated(problem: qgt.Problem, y: Tensor, sets: Sets) -> Overstated:
    """The confidence of complete lists less the share that the answer has of all fitted sets."""
    result = qgt.LoadPosterior().bind(problem)(y)
    confidence, complete = result.evidence.confidence, result.evidence.complete
    assert confidence is not None and complete is not None
    weight = torch.zeros(len(y), dtype=torch.float64)
    answer = torch.zeros_like(weight)
    for fitted, _ in sets:
        owner = fitted.sets.owner
        mine = (fitted.evidence - sets_top(sets, len(y))[owner]).exp()
        weight.index_add_(0, owner, mine)
        answer.index_add_(0, owner, mine * (fitted.sets.statuses(problem.items) == result.x[owner]).all(1))
    over = (confidence - answer / weight)[complete]
    return Overstated(float(over.mean()), float(over.max()))


def sets_top(sets: Sets, instances: int) -> Tensor:
    """The highest evidence of each instance."""
    top = torch.full((instances,), -torch.inf, dtype=torch.float64)
    for fitted, _ in sets:
        top = top.scatter_reduce(0, fitted.sets.owner, fitted.evidence, "amax")
    return top


def lacking(
    search: SetSearch, listing: SetListing, all_sets: Sets, shares: tuple[float, ...] = SHARES
) -> dict[str, Any]:
    """What complete lists lack: plates for each share of the best set's odds, and the shares themselves."""
    evidence = torch.cat([fitted.evidence for fitted, _ in all_sets])
    gain = evidence - torch.cat([parent for _, parent in all_sets])
    owner = torch.cat([fitted.sets.owner for fitted, _ in all_sets])
    keys = torch.cat([search.keys(fitted.sets) for fitted, _ in all_sets])
    best = torch.full((len(search.plates),), -torch.inf, dtype=torch.float64)
    best = best.scatter_reduce(0, listing.fitted.sets.owner, listing.fitted.evidence, "amax")
    share = (evidence - best[owner]).exp()
    unlisted = ~torch.isin(keys, search.keys(listing.fitted.sets)) & listing.complete[owner]
    missing = unlisted & (gain > math.log(RARE))
    worst = torch.zeros_like(best).scatter_reduce(0, owner[missing], share[missing], "amax")
    return {
        "complete": int(listing.complete.sum()),
        "fits": len(listing.fitted.sets),
        **{f"lack_{bound:g}": int((worst >= bound).sum()) for bound in shares},
        "lack_better": int((worst > 1).sum()),
        "shares": [round(one, 4) for one in worst[worst >= min(shares)].sort().values.tolist()],
    }


def measured(kind: Kind, seed: int, plates: int) -> dict[str, Any]:
    """Plates of one design."""
    problem = problem_of(kind, seed)
    y = problem.simulate(plates, generator=torch.Generator().manual_seed(seed)).y
    search = search_of(problem, y)
    before = time.process_time()
    listing = search.run()
    seconds = time.process_time() - before
    sets = list(every_set(search))
    over = overstated(problem, y, sets)
    found = {**kind._asdict(), "seed": seed, "plates": plates, **lacking(search, listing, sets)}
    return {**found, "overstated_mean": over.mean, "overstated_most": over.most, "cpu_seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plates", type=int, default=20, help="of each kind and design")
    parser.add_argument("--seeds", type=int, default=4, help="designs of each kind")
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    rows = []
    for kind, seed in itertools.product(kinds(), range(given.seeds)):
        rows.append(measured(kind, seed, given.plates))
        print(rows[-1], flush=True)
    names = ("plates", "complete", "fits", *(f"lack_{bound:g}" for bound in SHARES), "lack_better", "cpu_seconds")
    total = {name: sum(row[name] for row in rows) for name in names}
    total["overstated_mean"] = sum(row["overstated_mean"] * row["plates"] for row in rows) / total["plates"]
    total["overstated_most"] = max(row["overstated_most"] for row in rows)
    print(total, sorted(share for row in rows for share in row["shares"])[::-1], flush=True)
    if given.output:
        write(given.output, {**provenance("cpu"), "total": total, "rows": rows})


if __name__ == "__main__":
    main()
