"""How fast `Problem.simulate` is, beside the floor: the time to draw the same random numbers and nothing else.

python benchmarks/simulate.py [--instances 1000000]
"""

import argparse
import resource
import time

import torch

import qgt
from qgt.model.problem import DRAWN_AT_A_TIME

ITEMS, POOLS = 100, 35


def draw(instances: int, generator: torch.Generator) -> None:
    """Draw one uniform number per item and one per pool, chunk by chunk as `simulate` does."""
    rows = DRAWN_AT_A_TIME // ITEMS
    for start in range(0, instances, rows):
        here = min(rows, instances - start)
        for width in (ITEMS, POOLS):
            torch.rand(here, width, dtype=torch.float64, generator=generator)


def seconds(function: object, *arguments: object) -> float:
    start = time.perf_counter()
    function(*arguments)  # type: ignore[operator]
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--instances", type=int, default=1_000_000)
    instances = parser.parse_args().instances
    generator = torch.Generator().manual_seed(0)
    design = qgt.Design.bernoulli(pools=POOLS, items=ITEMS, generator=generator)
    problem = qgt.Problem(design, qgt.Bernoulli(0.06), qgt.SparseInteger(rate=0.1, bound=1))
    problem.simulate(10_000, generator=generator)  # warm-up
    floor = min(seconds(draw, instances, generator) for _ in range(3))
    whole = min(seconds(lambda: problem.simulate(instances, generator=generator)) for _ in range(3))
    kept = instances * (ITEMS + 8 * POOLS) / 2**20
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    print(f"N={ITEMS}, M={POOLS}, {instances:,} instances, {torch.get_num_threads()} threads, best of 3")
    print(f"simulate   {whole:6.2f} s   {instances / whole:12,.0f} instances/s")
    print(f"floor      {floor:6.2f} s   {instances / floor:12,.0f} instances/s   (drawing the random numbers only)")
    print(f"ratio      {whole / floor:6.2f}     results take {kept:,.0f} MiB, peak of the process {peak:,.0f} MiB")


if __name__ == "__main__":
    main()
