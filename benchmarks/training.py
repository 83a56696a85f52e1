"""How fast training is, beside what the machine could do at best.

    python benchmarks/training.py                  # CPU: share of the GEMM rate, and against a plain loop
    python benchmarks/training.py --device cuda    # GPU: one Level 5 training to early stopping

On the CPU: (1) the floating-point operations of Level 5's matrix products, over the time of whole training steps, as
a share of the rate of a large float32 product measured in the same run; (2) the time to reach a validation loss (the
one a short run of ours with a cosine learning rate ends at), against a plain PyTorch loop on the same problem
(nn.Sequential, DataLoader, batch 64, Adam at 1e-3).
"""

import argparse
import itertools
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import qgt
from qgt.learning.run import TrainingRun
from qgt.learning.steps import balanced_mse
from setting import paper_problem, provenance, synchronize

SHORT = qgt.TrainConfig(batch=256, learning_rate=4e-3, epochs=30, patience=None, cosine=True)


def gemm_rate(size: int = 2048, repeats: int = 5) -> float:
    """The best rate of a float32 matrix product, in operations per second."""
    a, b = torch.randn(size, size), torch.randn(size, size)
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        a @ b
        best = min(best, time.perf_counter() - start)
    return 2 * size**3 / best


def step_operations(pools: int, hidden: tuple[int, ...], items: int, batch: int) -> int:
    """Operations of a step's matrix products: forward, by weights, by inputs (but not by the counts)."""
    widths = [pools, *hidden, items]
    products = [a * b for a, b in itertools.pairwise(widths)]
    return 2 * batch * (3 * sum(products) - products[0])


def gemm_share(problem: qgt.Problem) -> None:
    run = TrainingRun.begin([problem], qgt.MLP.level(5), qgt.TrainConfig(), torch.Generator().manual_seed(0))
    run.epoch()  # warm-up
    rates = []
    for _ in range(6):
        rates.append(gemm_rate())
        run.data.fill(run.generator)
        start = time.perf_counter()
        run.steps.run(0)
        seconds = time.perf_counter() - start
        operations = step_operations(problem.pools, (500, 500), problem.items, run.config.batch)
        rates.append(operations * run.config.epoch_steps / seconds)
    gemm, ours = max(rates[0::2]), max(rates[1::2])
    print(f"GEMM rate      {gemm / 1e9:7.1f} GFLOP/s  (float32, 2048 x 2048 x 2048)")
    print(f"training steps {ours / 1e9:7.1f} GFLOP/s  = {100 * ours / gemm:.0f} % of it  (Level 5, batch 1024)")


def ours(problem: qgt.Problem) -> tuple[float, float]:
    """Seconds of a short run, data included, and the validation loss it ends at."""
    start = time.perf_counter()
    run = TrainingRun.begin([problem], qgt.MLP.level(5), SHORT, torch.Generator().manual_seed(0))
    while not run.finished:
        epoch = run.epoch()
    return time.perf_counter() - start, epoch.validation_loss


def plain(problem: qgt.Problem, target: float, limit: float) -> tuple[float, int, float]:
    """The same network, loss and data sizes in an ordinary loop: seconds, epochs and loss when it gets there."""
    start = time.perf_counter()
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    config = qgt.TrainConfig()
    x, y = problem.simulate(config.instances or 0, generator=generator)
    xv, yv = problem.simulate(config.validation, generator=generator)
    loader = DataLoader(TensorDataset(y.float(), x.float()), batch_size=64, shuffle=True)
    layers: list[nn.Module] = []
    for a, b in ((problem.pools, 500), (500, 500)):
        layers += [nn.Linear(a, b), nn.LeakyReLU(0.01), nn.BatchNorm1d(b), nn.Dropout(0.1)]
    network = nn.Sequential(*layers, nn.Linear(500, problem.items))
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    epochs, loss = 0, float("inf")
    while loss > target and time.perf_counter() - start < limit:
        network.train()
        for counts, truth in loader:
            optimizer.zero_grad()
            balanced_mse(network(counts)[None], truth[None]).sum().backward()
            optimizer.step()
        network.eval()
        with torch.no_grad():
            loss = float(balanced_mse(network(yv.float())[None], xv.float()[None]))
        epochs += 1
    return time.perf_counter() - start, epochs, loss


def to_early_stopping(problem: qgt.Problem, device: str) -> None:
    """The second run is reported: the first pays for starting the device's libraries."""
    for name in ("first run", "second run"):
        generator = torch.Generator(device).manual_seed(0)
        synchronize(device)
        start = time.perf_counter()
        net = qgt.train(problem, qgt.MLP.level(5), generator=generator)
        synchronize(device)
        seconds, epochs = time.perf_counter() - start, net.training.epochs
        score = qgt.Score(problem.items, net.training.test)
        print(
            f"{name}: Level 5 to early stopping {seconds:.2f} s, {epochs} epochs, {1000 * seconds / epochs:.1f} ms each"
        )
        print(f"  {score}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cpu")
    device = parser.parse_args().device
    problem = paper_problem(pools=35, noise=0.06, seed=0)
    print(provenance(device))
    if device != "cpu":
        return to_early_stopping(problem, device)
    gemm_share(problem)
    seconds, target = ours(problem)
    print(f"ours           {seconds:6.1f} s to validation loss {target:.4f} ({SHORT.epochs} epochs)", flush=True)
    elapsed, epochs, loss = plain(problem, target, limit=6 * seconds)
    reached = "" if loss <= target else f", gave up at {loss:.4f}"
    print(f"plain loop     {elapsed:6.1f} s ({epochs} epochs{reached}): {elapsed / seconds:.1f} times ours")
    return None


if __name__ == "__main__":
    main()
