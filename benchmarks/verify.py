"""Time and peak memory of the paper's estimator, against the naive version: stacked reverse-mode Jacobians.

    python benchmarks/verify.py

Each measurement runs in a process of its own, so that its peak memory is its own. The naive version holds all T
Jacobians (T x N x M) at once and differentiates one output at a time; where that would take more than the budget it is
run on fewer instances and its time scaled up, and the table says so.
"""

import argparse
import resource
import subprocess
import sys
import time

import torch

import qgt
from qgt.trust.verification import jacobian_evidence

CASES = [(100, 35, 1_000), (100, 35, 10_000), (1_000, 350, 100)]  # items, pools, instances
NAIVE_LIMIT = 100 * 35 * 1_000  # entries of Jacobians the naive version is given


def naive(network: torch.nn.Module, y: torch.Tensor) -> torch.Tensor:
    """The closed form as one would first write it."""
    single = torch.func.vmap(torch.func.jacrev(lambda z: network(z[None, None])[0, 0]))
    B = single(y.float()).double()  # (instances, items, pools)
    return B.sum(0).T @ torch.linalg.pinv(torch.einsum("tnm,tkm->nk", B, B), hermitian=True)


def measure(kind: str, items: int, pools: int, instances: int) -> None:
    """Print seconds and peak MiB above what was used before."""
    generator = torch.Generator().manual_seed(0)
    design = qgt.Design.bernoulli(pools=pools, items=items, generator=generator)
    network = qgt.MLP.level(5).build(design, generator=generator).eval()
    y = qgt.Problem(design, qgt.Bernoulli(0.06)).simulate(instances, generator=generator).y
    run = naive if kind == "naive" else lambda network, y: jacobian_evidence(network, y, least_squares=True)
    with torch.no_grad():
        run(network, y[:2])  # warm-up
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        start = time.perf_counter()
        run(network, y)
    seconds = time.perf_counter() - start
    print(seconds, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**10)


def in_process(kind: str, items: int, pools: int, instances: int) -> tuple[float, float]:
    command = [sys.executable, __file__, "--one", kind, str(items), str(pools), str(instances)]
    seconds, peak = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-2:]
    return float(seconds), float(peak)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    one = parser.parse_args().one
    if one:
        return measure(one[0], *map(int, one[1:]))
    print(f"{'N':>5} {'M':>4} {'T':>6}   {'ours':>8} {'peak':>10}   {'naive':>8} {'peak':>10}   ratio")
    for items, pools, instances in CASES:
        few = max(10, min(instances, NAIVE_LIMIT // (items * pools)))
        ours, peak = in_process("ours", items, pools, instances)
        slow, naive_peak = in_process("naive", items, pools, few)
        slow *= instances / few
        note = "" if few == instances else f"  (naive: {few} instances, time scaled)"
        print(
            f"{items:>5} {pools:>4} {instances:>6}   {ours:>6.2f} s {peak:>6.0f} MiB   "
            f"{slow:>6.1f} s {naive_peak:>6.0f} MiB   {slow / ours:.1f}{note}",
            flush=True,
        )
    return None


if __name__ == "__main__":
    main()
