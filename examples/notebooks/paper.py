# %% [markdown]
# # The paper at a small size
#
# *Verifiable Deep Quantitative Group Testing* (arXiv 2512.07279) trains a network to decode counts, and then
# recovers the design from the network. Here both are done with 20 items in 12 pools, in seconds. `qgt reproduce`
# repeats the paper's experiments at their own size.

# %%
import torch

import qgt
from qgt.pictures.figures import verification_figure

g = torch.Generator().manual_seed(1)
design = qgt.Design.bernoulli(pools=12, items=20, generator=g)
problem = qgt.Problem(design, qgt.Bernoulli(0.06), qgt.SparseInteger(rate=0.06, bound=1))
problem

# %% [markdown]
# The network sees simulated counts only. It learns in a few epochs.

# %%
config = qgt.TrainConfig(instances=8000, validation=500, batch=200, epochs=5)
net = qgt.train(problem, qgt.MLP((128,)), config, generator=g)
x, y = problem.simulate(400, generator=g)
scores = {"network": qgt.score(x, net.bind(problem)(y).x)}
scores["limit"] = qgt.score(x, qgt.Certified(odds=1.0).bind(problem)(y).x)
for name, found in scores.items():
    print(f"{name}: {found.success_rate:.3f} of instances without an error")

# %% [markdown]
# No decoder is right more often than the limit, which is the exact search for the most probable answer.
#
# How the network's scores change with the counts reveals which items are in which pools:

# %%
report = qgt.verify(net, problem, instances=500, generator=g)
print(report.verdict)
verification_figure(report)

# %% [markdown]
# If somebody swaps two pools on the sheet, the network contradicts the sheet:

# %%
sheet = design.matrix.clone()
sheet[[2, 7]] = sheet[[7, 2]]
claim = qgt.Problem(qgt.Design.from_matrix(sheet), problem.prior, problem.noise)
print(qgt.verify(net, claim, instances=500, generator=g).verdict)
