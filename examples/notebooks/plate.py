# %% [markdown]
# # A plate, from samples to calls
#
# A laboratory has 24 samples and expects about one of them to be positive. Its assay counts the positive samples of
# a pool, and 2 % of the counts are wrong by one. How many pools does it need, and what do the counts mean?

# %%
import torch

import qgt

g = torch.Generator().manual_seed(0)
assay = qgt.SparseInteger(rate=0.03, bound=1)  # an error is -1, 0 or +1: 2 % of the counts are wrong
question = qgt.Question(qgt.Samples.numbered(24), positives=(0, 2), assay=assay, certainty=0.9)
plan = qgt.plan(question, generator=g, seconds=1.0)
print(plan.recommended.pools, "pools instead of 24 tests")
plan.problem.design

# %% [markdown]
# `qgt.write_plan(plan, "folder")` would write the sheet to print, the worklists for robots, and a table to fill in.
# Here the laboratory's work is simulated: three plates, and the counts of their pools.

# %%
problem = plan.problem
x, y = problem.simulate(3, generator=g)
print(y)

# %% [markdown]
# `Certified` finds the most probable answer and all others that are nearly as probable. `Calibrated` measures by
# simulation how often such answers are right.

# %%
decode = qgt.Calibrated(qgt.Certified(), seconds=0.5).bind(problem)
result = decode(y)
result

# %% [markdown]
# The account of a plate has a verdict, a call for every sample, and all of it in words.

# %%
for account in qgt.accounts(problem, y, ["Plate 1", "Plate 2", "Plate 3"], result):
    print(account.words, "\n")

# %% [markdown]
# The plates were simulated, so the truth is known:

# %%
print(qgt.score(x, result.x))
