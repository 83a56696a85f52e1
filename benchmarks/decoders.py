"""Speed of the model-driven decoders.

    python benchmarks/decoders.py                  # CPU: batched AMP against one instance at a time; growth with N
    python benchmarks/decoders.py --device cuda    # GPU: growth with N

How often each is right is a study, `benchmarks/compare.toml`.
The one-at-a-time AMP is the same algorithm in plain NumPy, as the published code has it; both decode the same
instances with the true number of defectives, and their success rates are printed.
"""

import argparse
import math
import time

import numpy as np
import torch

import qgt
from setting import RATE, paper_problem, provenance, synchronize


def numpy_amp(A: np.ndarray, y: np.ndarray, k: int, iterations: int = 200) -> np.ndarray:
    """Bayes AMP for one instance, straightforwardly."""
    M, N = A.shape
    scale = math.sqrt(M / 4)
    B, signal, rate = (A - 0.5) / scale, (y - 0.5 * k) / scale, k / N
    if rate in (0, 1):
        return np.full(N, rate)
    x = np.full(N, rate)
    z, previous = signal - B @ x, math.nan
    for _ in range(iterations):
        tau = math.sqrt(z @ z / M)
        v = max(tau * tau, 1e-3)
        s = x + B.T @ z
        x = 1 / (1 + np.exp(np.clip(-(math.log(rate / (1 - rate)) + (s - 0.5) / v), -700, 700)))
        z = signal - B @ x + z * np.sum(x * (1 - x)) / v / M
        if (tau - previous) ** 2 <= 1e-9 * tau * tau:
            break
        previous = tau
    return x


def batched_against_single() -> None:
    problem = paper_problem(pools=35, noise=0.1, seed=0)
    x, y = problem.simulate(20_000, generator=torch.Generator().manual_seed(1))
    k = x.sum(1)
    decode = qgt.AMP(density=0.5).bind(problem)
    calls, batched = decode(y, defectives=k).x, 0.0  # once to warm up
    for _ in range(3):
        start = time.perf_counter()
        decode(y, defectives=k)
        batched = max(batched, len(y) / (time.perf_counter() - start))
    A, few = problem.design.matrix.double().numpy(), 2000
    numpy_amp(A, y[0].numpy(), int(k[0]))
    start = time.perf_counter()
    singles = [numpy_amp(A, y[i].numpy(), int(k[i])) for i in range(few)]
    single = few / (time.perf_counter() - start)
    by_single = torch.tensor(np.stack(singles) >= 0.5).to(torch.uint8)
    print(f"batched AMP      {batched:10,.0f} decodes/s   {qgt.score(x[:few], calls[:few]).success_rate:.3f} success")
    print(f"one at a time    {single:10,.0f} decodes/s   {qgt.score(x[:few], by_single).success_rate:.3f} success")
    print(f"ratio            {batched / single:10.1f}")


def growth(device: str) -> None:
    """Time per decode as N grows at constant M / N."""
    print(f"{'N':>6} {'M':>5} {'AMP, K given':>14} {'GAMP':>14}   microseconds per decode")
    for items, instances in ((100, 4096), (1000, 512), (10_000, 64)):
        pools = items * 35 // 100
        generator = torch.Generator(device).manual_seed(0)
        design = qgt.Design.bernoulli(pools=pools, items=items, generator=generator)
        problem = qgt.Problem(design, qgt.Bernoulli(RATE), qgt.SparseInteger(rate=0.1, bound=1))
        x, y = problem.simulate(instances, generator=generator)
        k = x.sum(1)
        amp, gamp = qgt.AMP().bind(problem), qgt.GAMP().bind(problem)
        times, rates = [], []
        for decode in (lambda amp=amp, y=y, k=k: amp(y, defectives=k), lambda gamp=gamp, y=y: gamp(y)):
            decode()
            synchronize(device)
            start = time.perf_counter()
            result = decode()
            synchronize(device)
            times.append((time.perf_counter() - start) / instances * 1e6)
            rates.append(qgt.score(x, result.x).success_rate)
        success = f"success {rates[0]:.3f} and {rates[1]:.3f}"
        print(f"{items:>6} {pools:>5} {times[0]:>14,.1f} {times[1]:>14,.1f}   {success}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cpu")
    device = parser.parse_args().device
    print(provenance(device))
    if device == "cpu":
        batched_against_single()
    growth(device)


if __name__ == "__main__":
    main()
