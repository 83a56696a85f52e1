"""Generalised approximate message passing (Rangan 2011) with the exact discrete channel and the number of defectives
as one more unknown.

The design's mean alpha makes plain GAMP fail on 0/1 matrices. So y = (A - alpha) x + c + error, with B = A - alpha and
c = alpha sum x treated as a Gaussian variable of its own (prior mean alpha sum pi, variance alpha^2 sum pi (1 - pi)).
Each iteration, for all instances at once:

    v_p = B.^2 v_x + v_c                      p = B x + c - v_p s
    r_k proportional to P(y | k) N(k; p, v_p + eps)     over the whole counts k that the noise allows
    z, v_z: mean and variance of that mixture           s = (z - p) / v_p,  v_s = (1 - v_z / v_p) / v_p
    v_r = 1 / (B.^2^T v_s)                    r = x + v_r B^T s
    x = sigmoid(logit(pi) + (r - 1/2) / v_r)  v_x = x (1 - x)
    c, v_c: the product of c's prior and N(c + sum s / sum v_s, 1 / sum v_s)

with s, x and c damped. A missing count allows no k: its pool has z = p and v_z = v_p, and tells nothing. `scores` are
the marginals P(x_j = 1 | y) of the final iteration.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from qgt.arguments import fraction, whole
from qgt.decoders.amp import Affine
from qgt.decoders.contract import LEAST_PART, BoundDecoder, refuse_unsupported
from qgt.decoders.results import Decoded, Evidence, Status
from qgt.model.factors import pool_costs
from qgt.model.prior import Bernoulli
from qgt.model.problem import Problem

SMOOTHING = 0.02  # eps: counts are whole numbers, and a Gaussian much narrower than their spacing has no gradient
SETTLED_CHANGE = 1e-3  # largest change of a marginal at which an instance leaves the batch
TINY = 1e-12
TAIL = 1e-13  # probability of an error beyond those that are looked at
INSTANCES_AT_A_TIME, MARGINALS_AT_A_TIME = 2**12, 2**24  # instances at a time, and their marginals


@dataclass(frozen=True)
class GAMP:
    """Message passing with per-item priors, any noise, and no need of K; its scores are probabilities.

    `damping` is the share of each new message that is taken.

    Example:
        >>> import torch, qgt
        >>> g = torch.Generator().manual_seed(0)
        >>> design = qgt.Design.bernoulli(pools=40, items=100, generator=g)
        >>> problem = qgt.Problem(design, qgt.Bernoulli(0.06), qgt.SparseInteger(rate=0.1, bound=1))
        >>> x, y = problem.simulate(100, generator=g)
        >>> qgt.score(x, GAMP().bind(problem)(y).x).success_rate > 0.9
        True
    """

    damping: float = 0.7
    iterations: int = 100

    def __post_init__(self) -> None:
        object.__setattr__(self, "damping", fraction("damping", self.damping))
        object.__setattr__(self, "iterations", whole("iterations", self.iterations, least=1))

    def supports(self, problem: Problem) -> str | None:
        """Independent items."""
        if isinstance(problem.prior, Bernoulli):
            return None
        return f"its prior {type(problem.prior).__name__} is not Bernoulli; messages assume independent items."

    def bind(self, problem: Problem) -> BoundDecoder:
        """Centre the design and find the reach of the noise once."""
        refuse_unsupported(self, problem)
        model = _model(problem)

        def decode(y: Tensor, defectives: Tensor | None) -> Decoded:
            here, rows = model.to(y.device), max(1, min(INSTANCES_AT_A_TIME, MARGINALS_AT_A_TIME // problem.items))
            parts = [_run(self, problem, here, piece) for piece in y.split(rows)] or [_run(self, problem, here, y)]
            x, settled, count = (torch.cat(column) for column in zip(*parts, strict=True))
            status = torch.where(settled, int(Status.OK), int(Status.NOT_CONVERGED)).to(torch.uint8)
            return Decoded((x > 0.5).to(torch.uint8), status, x, Evidence(iterations=count))

        return BoundDecoder(problem, decode, takes_missing=True, least_part=LEAST_PART)


class _Model(NamedTuple):
    """What stays the same from instance to instance."""

    B: Affine  # (pools, items): the design less its mean
    square: Affine  # its entries squared: (1 - alpha)^2 for ones, alpha^2 for zeros
    alpha: float
    rate: Tensor  # (items,)
    offsets: Tensor  # (offsets,): how far the true counts that are looked at may be from the report
    sizes: Tensor  # (pools,)

    def to(self, device: torch.device) -> "_Model":
        """The same on another device."""
        return self._replace(rate=self.rate.to(device), offsets=self.offsets.to(device), sizes=self.sizes.to(device))


def _model(problem: Problem) -> _Model:
    design = problem.design
    alpha = design.transfers / (design.pools * design.items)
    assert isinstance(problem.prior, Bernoulli)
    rate, sizes = problem.prior.marginals(problem.items), design.pool_sizes.to(torch.float64)
    B, square = Affine(design, 1.0, -alpha), Affine(design, 1 - 2 * alpha, alpha**2)
    return _Model(B, square, alpha, rate, _offsets(problem, int(sizes.max())), sizes)


def _offsets(problem: Problem, largest: int) -> Tensor:
    """How far from a report its true count may be, but for a probability too small to count."""
    reach = min(math.ceil(problem.noise.reach(largest, TAIL)), largest + 1)  # beyond, all counts are looked at
    return torch.arange(-reach, reach + 1, dtype=torch.float64)


def _channel(problem: Problem, model: _Model, y: Tensor) -> tuple[Tensor, Tensor]:
    """The counts each pool may truly have had, (instances, pools, counts), and their log likelihoods."""
    costs, largest = pool_costs(problem.design, problem.noise, y), int(model.sizes.max())
    if len(model.offsets) > largest:  # then all there are
        counts = torch.arange(largest + 1, dtype=torch.float64, device=y.device).expand(*y.shape, -1)
    else:
        counts = y.round().nan_to_num(0.0)[:, :, None] + model.offsets
    possible = (counts >= 0) & (counts <= model.sizes[:, None]) & ~y.isnan()[:, :, None]
    weight = -costs.tables[costs.which[:, :, None], counts.clamp(0, largest).to(torch.int64)]
    return counts, torch.where(possible, weight, -torch.inf)


def _run(config: GAMP, problem: Problem, model: _Model, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Iterate a chunk of instances; their marginals, whether they settled, and after how many iterations."""
    n, device = len(y), y.device
    counts, weight = _channel(problem, model, y)
    marginals = model.rate.repeat(n, 1)
    settled = torch.zeros(n, dtype=torch.bool, device=device)
    number = torch.zeros(n, dtype=torch.int64, device=device)
    active = torch.arange(n, device=device)
    state = _start(model, n)
    for iteration in range(1, config.iterations + 1):
        if not len(active):
            break
        after = _iterate(config, model, state, counts, weight)
        done = (after.x - state.x).abs().amax(1) < SETTLED_CHANGE
        marginals[active], number[active], settled[active] = after.x, iteration, done
        keep = ~done
        active, counts, weight = active[keep], counts[keep], weight[keep]
        state = _State(*(part[keep] for part in after))
    return marginals, settled, number


class _State(NamedTuple):
    x: Tensor  # (instances, items)
    s: Tensor  # (instances, pools)
    c: Tensor  # (instances, 1)
    variance: Tensor  # (instances, 1), of c


def _start(model: _Model, n: int) -> _State:
    c, variance = _mean_prior(model)
    return _State(
        model.rate.repeat(n, 1),
        torch.zeros(n, len(model.sizes), dtype=torch.float64, device=model.rate.device),
        c.expand(n, 1),
        variance.expand(n, 1),
    )


def _mean_prior(model: _Model) -> tuple[Tensor, Tensor]:
    """Mean and variance of c = alpha sum x."""
    return model.alpha * model.rate.sum(), model.alpha**2 * (model.rate * (1 - model.rate)).sum() + TINY


def _iterate(config: GAMP, model: _Model, state: _State, counts: Tensor, weight: Tensor) -> _State:
    take = config.damping
    spread = state.x * (1 - state.x)
    v_p = (model.square.times(spread) + state.variance).clamp(min=TINY)  # (instances, pools)
    p = model.B.times(state.x) + state.c - v_p * state.s
    z, v_z = _posterior_counts(p, v_p, counts, weight)
    s = take * (z - p) / v_p + (1 - take) * state.s
    v_s = ((1 - v_z / v_p) / v_p).clamp(min=TINY)
    v_r = 1 / model.square.transposed_times(v_s).clamp(min=TINY)  # (instances, items)
    r = state.x + v_r * model.B.transposed_times(s)
    x = take * torch.sigmoid(torch.logit(model.rate) + (r - 0.5) / v_r) + (1 - take) * state.x
    total = v_s.sum(1, keepdim=True)
    mean, variance = _mean_prior(model)
    seen = state.c + s.sum(1, keepdim=True) / total
    v_c = 1 / (1 / variance + total)
    c = take * v_c * (mean / variance + seen * total) + (1 - take) * state.c
    return _State(x, s, c, v_c)


def _posterior_counts(p: Tensor, v_p: Tensor, counts: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of each pool's true count: a mixture over the counts that the observed one allows."""
    wide = (v_p + SMOOTHING)[:, :, None]
    log_r = weight - (counts - p[:, :, None]).square() / (2 * wide)
    r = torch.softmax(log_r, dim=2).nan_to_num(0.0)  # no possible count: no information
    gain = (v_p / (v_p + SMOOTHING))[:, :, None]
    means = p[:, :, None] + gain * (counts - p[:, :, None])
    z = (r * means).sum(2)
    none = r.sum(2) == 0
    z = torch.where(none, p, z)
    v_z = (r * (means - z[:, :, None]).square()).sum(2) + gain[:, :, 0] * SMOOTHING
    return z, torch.where(none, v_p, v_z)
