# %% [markdown]
# # A decoder of your own against the limit
#
# A decoder is a frozen dataclass with two methods: `supports`, which refuses problems that it cannot decode, and
# `bind`, which returns a function of the counts. This one starts with the item whose pools have the largest counts,
# subtracts the item from its pools, and goes on.

# %%
from dataclasses import dataclass

import torch

import qgt
import qgt.testing


@dataclass(frozen=True)
class Subtract:
    """Take the item that explains most, subtract it, and repeat while a pool of its size is left."""

    least: float = 0.6  # mean count of an item's pools, below which it stops

    def supports(self, problem):
        return None

    def bind(self, problem):
        A = problem.design.matrix.double()  # (pools, items)
        weight = A.sum(0).clamp(min=1)

        def decode(y, defectives):
            left, x = y.nan_to_num().clone(), torch.zeros(len(y), problem.items, dtype=torch.uint8)
            for _ in range(problem.items):
                scores = (left.clamp(max=1) @ A / weight).masked_fill(x > 0, -1)  # (instances, items)
                best, item = scores.max(1)
                rows = (best >= self.least).nonzero().flatten()
                if not len(rows):
                    break
                x[rows, item[rows]] = 1
                left[rows] -= A.T[item[rows]]
            return qgt.Decoded(x, torch.zeros(len(y), dtype=torch.uint8))

        return qgt.BoundDecoder(problem, decode)


# %% [markdown]
# Is it a decoder as the library understands the word? `check_decoder` tries it on small problems: other numbers of
# instances, impossible counts, other orders of pools.

# %%
checked = qgt.testing.check_decoder(Subtract())
print(len(checked.passed), "checks passed")

# %% [markdown]
# How often is it right? The same 300 instances for each number of pools, beside GAMP and the limit:

# %%
g = torch.Generator().manual_seed(0)
rows = []
for pools in (8, 10, 12, 14, 16):
    design = qgt.Design.column_regular(pools=pools, items=30, weight=5, generator=g)
    problem = qgt.Problem(design, qgt.Bernoulli(0.05), qgt.SparseInteger(rate=0.05, bound=1))
    x, y = problem.simulate(300, generator=g)
    found = {"subtract": Subtract(), "gamp": qgt.GAMP(), "limit": qgt.Certified(odds=1.0)}
    rates = {name: qgt.score(x, one.bind(problem)(y).x).success_rate for name, one in found.items()}
    rows.append((pools, rates))
    print(pools, "pools:", ", ".join(f"{name} {rate:.3f}" for name, rate in rates.items()))

# %%
from matplotlib.figure import Figure

figure = Figure(figsize=(5, 3), layout="constrained")
axes = figure.subplots()
for name in ("limit", "gamp", "subtract"):
    axes.plot([pools for pools, _ in rows], [rates[name] for _, rates in rows], marker="o", label=name)
axes.set(xlabel="pools", ylabel="success rate", ylim=(0, 1.02))
axes.legend()
figure

# %% [markdown]
# A study (`qgt.Study`, `qgt.run_study`) does the same in parallel, with intervals, and continues where it stopped.
