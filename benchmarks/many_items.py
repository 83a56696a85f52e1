"""Certified and the programs of HiGHS on ever more items, in small pools: seconds for three instances.

python benchmarks/many_items.py     # every item in 4 pools, M/N = 0.1, 0.5 % defective, 2 % of counts noisy
"""

import time

import torch

import qgt
from qgt.files.text import markdown_table

DECODERS = {
    "certified, odds 1": qgt.Certified(odds=1.0, time_limit=20.0, certificates=False),
    "linear_program": qgt.LinearProgram(),
    "exact": qgt.ExactMAP(time_limit=20.0),
}


def main() -> None:
    generator, rows = torch.Generator().manual_seed(0), []
    for items in (1000, 2000, 5000, 10_000):
        design = qgt.Design.column_regular(pools=items // 10, items=items, weight=4, generator=generator)
        problem = qgt.Problem(design, qgt.Bernoulli(0.005), qgt.SparseInteger(rate=0.02, bound=1))
        y = problem.simulate(4, generator=generator).y
        for name, decoder in DECODERS.items():
            decode = decoder.bind(problem)
            decode(y[:1])  # the first call pays for set-up
            start = time.perf_counter()
            result = decode(y[1:])
            proved = int((result.status == qgt.Status.PROVED).sum())
            rows.append([f"{items:,}", name, f"{time.perf_counter() - start:.2f}", f"{proved} of 3"])
    print(markdown_table(["items", "decoder", "seconds", "proved"], rows))


if __name__ == "__main__":
    main()
