# %% [markdown]
# # Loads: cycle thresholds instead of counts
#
# A PCR machine does not count positive samples. It reports a cycle threshold (Ct): the lower, the more there is to
# find. Here 30 samples are in 15 pools, each sample in three. A positive sample has a *load*, which differs from
# sample to sample by orders of magnitude.

# %%
import torch

import qgt

g = torch.Generator().manual_seed(4)
design = qgt.Design.column_regular(pools=15, items=30, weight=3, generator=g)
loads = qgt.Loads(rate=0.07, mean=2.9, sd=1.0)  # log10 of the copies in a positive sample
cycles = qgt.CycleThreshold(sigma=0.25, intercept=37.0, slope=-3.32, limit=38.0)
problem = qgt.Problem(design, loads, cycles)
problem

# %% [markdown]
# Three simulated plates. `inf` means that nothing was detected.

# %%
x, y = problem.simulate(3, generator=g)
print(y.round(decimals=1))

# %% [markdown]
# `LoadPosterior` finds the most probable set of positive samples, how probable it is, and how much each positive
# has.

# %%
result = qgt.LoadPosterior().bind(problem)(y)
result

# %%
for plate in range(3):
    for item in result.x[plate].nonzero().flatten().tolist():
        low, high = result.evidence.interval[plate, item].tolist()
        amount, truth = float(result.amounts[plate, item]), float(x[plate, item])
        name = design.item_names[item]
        print(f"plate {plate + 1}, {name}: {amount:,.0f} copies (90 %: {low:,.0f} to {high:,.0f}), truth {truth:,.0f}")

# %% [markdown]
# In words, as a laboratory reads them:

# %%
for account in qgt.accounts(problem, y, None, result):
    print(account.words, "\n")
