"""The exact decoder beside another solver, OR-Tools CP-SAT, on instances of the paper's size.

    pip install -e '.[cpsat]'
    python benchmarks/cross_check.py [--instances 200] [--harder 30]

The two share nothing but the problem: CP-SAT gets the noise as |A x - y| <= D with a charge for every pool that errs,
its costs rounded to 1e-9. Answers are compared by their log joint (of equally probable ones each may find another),
where both proved theirs; prints the number of disagreements and both solvers' times, one core each.
"""

import argparse
import math
import time

import torch
from ortools.sat.python import cp_model

import qgt
from setting import paper_problem

SCALE = 10**9  # CP-SAT computes with whole numbers
POOLS, NOISE, LIMIT = 35, 0.1, 60.0  # M, S/N, seconds per instance


def cp_sat(problem: qgt.Problem, y: torch.Tensor) -> tuple[list[int], bool, float]:
    """The most probable x for one instance's counts, whether that is proved, and the seconds it took."""
    rate, noise = float(problem.prior.rate), problem.noise
    each = noise.rate / (2 * noise.bound + 1)
    item = round(SCALE * math.log((1 - rate) / rate))
    error = round(SCALE * math.log((1 - noise.rate + each) / each))
    model = cp_model.CpModel()
    x = [model.new_bool_var("") for _ in range(problem.items)]
    errs = [model.new_bool_var("") for _ in range(problem.pools)]
    for row, count, wrong in zip(problem.design.matrix.tolist(), y.long().tolist(), errs, strict=True):
        total = sum(one for one, member in zip(x, row, strict=True) if member)
        model.add(total - count <= noise.bound * wrong)
        model.add(count - total <= noise.bound * wrong)
    model.minimize(item * sum(x) + error * sum(errs))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_time_in_seconds = LIMIT
    start = time.perf_counter()
    status = solver.solve(model)
    seconds = time.perf_counter() - start
    found = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
    return [solver.value(one) if found else 0 for one in x], status == cp_model.OPTIMAL, seconds


def compare(bound: int, instances: int) -> int:
    """Print how one bound D fares, and return the number of disagreements."""
    paper = paper_problem(pools=POOLS, noise=NOISE, seed=0)
    problem = qgt.Problem(paper.design, paper.prior, qgt.SparseInteger(rate=NOISE, bound=bound))
    y = problem.simulate(instances, generator=torch.Generator().manual_seed(bound)).y
    decode, parts, times = qgt.ExactMAP(time_limit=LIMIT, workers=1).bind(problem), [], []
    for counts in y:
        start = time.perf_counter()
        parts.append(decode(counts[None]))
        times.append(time.perf_counter() - start)
    ours = qgt.Decoded.joined(parts)
    theirs = [cp_sat(problem, counts) for counts in y]
    x = torch.tensor([calls for calls, _, _ in theirs], dtype=torch.uint8)
    proved = torch.tensor([sure for _, sure, _ in theirs])
    both = proved & (ours.status == qgt.Status.PROVED)
    apart = (ours.evidence.log_joint - problem.log_joint(x, y)).abs() > 1e-6
    disagreements = int((apart & both).sum())
    print(
        f"D={bound}: {instances} instances, proved by both {int(both.sum())}, by HiGHS "
        f"{int((ours.status == qgt.Status.PROVED).sum())}, by CP-SAT {int(proved.sum())}; disagreements {disagreements}"
    )
    seconds = {"HiGHS": torch.tensor(times), "CP-SAT": torch.tensor([s for _, _, s in theirs])}
    for name, times in seconds.items():
        median, most = times.quantile(0.5), times.quantile(0.9)
        print(f"  {name:<7} median {1e3 * median:.1f} ms, 90 % within {1e3 * most:.1f} ms, at most {times.max():.2f} s")
    return disagreements


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--instances", type=int, default=200, help="with D = 1")
    parser.add_argument("--harder", type=int, default=30, help="with D = 3")
    arguments = parser.parse_args()
    print(f"N=100, M={POOLS}, S/N={NOISE}; limit {LIMIT:g} s")
    total = compare(1, arguments.instances) + compare(3, arguments.harder)
    print(f"disagreements in all: {total}")


if __name__ == "__main__":
    main()
