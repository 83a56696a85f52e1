"""Decodes per second of the paper's network (Level 5), beside the floor: its matrix products alone.

    python benchmarks/decoding.py [--device cuda]

A decode is the whole call: checks of the counts, casting, network, threshold, and whether each count is possible.
"""

import argparse
import itertools
import time
from collections.abc import Callable

import torch

import qgt
from setting import paper_problem, provenance, synchronize


def seconds_per_call(function: Callable[[], object], device: str, budget: float = 1.0) -> float:
    """The median time of a call."""
    for _ in range(3):
        function()
    times: list[float] = []
    until = time.perf_counter() + budget
    while time.perf_counter() < until or len(times) < 5:
        synchronize(device)
        start = time.perf_counter()
        function()
        synchronize(device)
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2]


def floor(batch: int, pools: int, items: int, device: str) -> Callable[[], object]:
    """The network's three matrix products with nothing between them."""
    widths = [pools, 500, 500, items]
    weights = [torch.randn(a, b, device=device) for a, b in itertools.pairwise(widths)]
    start = torch.randn(batch, pools, device=device)

    def products() -> object:
        h = start
        for weight in weights:
            h = h @ weight
        return h

    return products


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cpu")
    device = parser.parse_args().device
    problem = paper_problem(pools=35, noise=0.06, seed=0)
    config = qgt.TrainConfig(instances=2000, validation=200, epochs=1)
    net = qgt.train(problem, qgt.MLP.level(5), config, generator=torch.Generator(device).manual_seed(0))
    decode = net.bind(problem)
    print(provenance(device))
    print(f"{'batch':>6} {'decodes/s':>12} {'floor':>12} {'share':>6}")
    for batch in (1, 64, 4096):
        y = problem.simulate(batch, generator=torch.Generator(device).manual_seed(1)).y
        ours = batch / seconds_per_call(lambda y=y: decode(y), device)
        least = batch / seconds_per_call(floor(batch, problem.pools, problem.items, device), device)
        print(f"{batch:>6} {ours:>12,.0f} {least:>12,.0f} {100 * ours / least:>5.0f}%")


if __name__ == "__main__":
    main()
