"""How often the baselines for loads find exactly the positives of a plate of 105 samples in 45 pools.

    python benchmarks/load_baselines.py [plates] [decoders ...]

Two settings: loads even in (0, 1) with the noise that Tapestry simulates (a report is the total times 1.95^e, e normal
with standard deviation 0.1), and cycle thresholds with the spread of published positives.
"""

import math
import sys
import time

import torch

import qgt
from qgt.decoders.registry import make_decoder

DECODERS = ("comp_nnls", "comp_nnomp", "comp_sbl", "comp_lasso", "load_gamp")
POSITIVES = (5, 8, 10)
LEAST, MEAN_CT, SD_CT, FIRST_CT, LAST_CT = 1 / 32768, 27.3, 6.2, 10.0, 37.0


def problems(positives: int) -> dict[str, qgt.Problem]:
    design = qgt.Design.kirkman_triples(pools=45, items=105)
    even = [math.log10(LEAST + (1 - LEAST) * (i + 0.5) / 400) for i in range(400)]
    doublings = math.log10(2.0)
    spread = qgt.Loads(
        rate=positives / 105,
        mean=(LAST_CT - MEAN_CT) * doublings,
        sd=SD_CT * doublings,
        low=0.0,
        high=(LAST_CT - FIRST_CT) * doublings,
    )
    return {
        "even": qgt.Problem(
            design, qgt.Loads(rate=positives / 105, values=even), qgt.Amount(relative=0.1 * math.log(1.95))
        ),
        "cycles": qgt.Problem(design, spread, qgt.CycleThreshold(sigma=0.25, intercept=LAST_CT, limit=38.0)),
    }


def plates(name: str, problem: qgt.Problem, positives: int, number: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Loads and reports of plates with exactly so many positives."""
    generator = torch.Generator().manual_seed(positives)
    shape = number, problem.items
    who = torch.rand(shape, generator=generator).argsort(1) < positives
    if name == "even":
        amounts = torch.rand(shape, generator=generator, dtype=torch.float64).clamp(min=LEAST)
    else:
        assert problem.loads is not None
        every = qgt.Loads(rate=1.0, mean=problem.loads.mean, sd=problem.loads.sd, low=0.0, high=problem.loads.high)
        amounts = every.sample(*shape, generator=generator)
    x = torch.where(who, amounts, 0.0)
    sizes = problem.design.pool_sizes.double()
    return x, problem.noise.sample(problem.design.count(x), sizes, generator=generator)


def main() -> None:
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    kinds = sys.argv[2:] or DECODERS
    for positives in POSITIVES:
        for name, problem in problems(positives).items():
            x, y = plates(name, problem, positives, number)
            truth = x > 0
            for kind in kinds:
                kind, *options = kind.split(",")
                decoder = make_decoder(kind, dict(option.split("=") for option in options)).bind(problem)
                start = time.perf_counter()
                result = decoder(y)
                took = (time.perf_counter() - start) / number
                called = result.x > 0
                exact = float((called == truth).all(1).double().mean())
                sensitivity = float((called & truth).sum() / truth.sum())
                specificity = float((~called & ~truth).sum() / (~truth).sum())
                settled = float((result.status == qgt.Status.OK).double().mean())
                print(
                    f"{name:7}{positives:3}  {decoder_name(kind, options):32} exact {exact:.3f}  sensitivity "
                    f"{sensitivity:.4f}  specificity {specificity:.4f}  settled {settled:.2f}  {1000 * took:.1f} ms",
                    flush=True,
                )


def decoder_name(kind: str, options: list[str]) -> str:
    return " ".join([kind, *options])


if __name__ == "__main__":
    main()
