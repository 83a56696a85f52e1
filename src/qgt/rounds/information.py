"""How much the reports of a pool would tell about the answer, in bits.

With answers a of weights w_a, and c_a defectives of the pool under each, a report r has probability

    P(r) = sum_a w_a P(r | c_a),        and        I = H(r) - sum_a w_a H(r | c_a)

is the information that it is expected to give. Several pools of one round are chosen one after the other: what the
second tells depends on what the first will have told, so the first's reports are drawn for some scenarios, in each of
which the answers have the weights that they would then have, and the mean over scenarios counts.

The change of a pool by one item needs no new counts: if g(c, j) is the weight of answers with c defectives in the pool
and item j defective, adding j moves g(c, j) from c to c + 1, and taking it out moves it to c - 1.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float32
from torch import Tensor

from qgt.model.noise import Noise

TAIL = 1e-6  # probability of a report that is left out
STEPS = 64  # from a true count to the farthest report, where reports need not be whole
REPORTS = 256  # different reports at most: beyond, neighbours are taken together


@dataclass(frozen=True, eq=False)
class Channel:
    """P(report | count) of pools of every size, or of one size where it is the same for all.

    Example:
        >>> import qgt
        >>> channel = Channel.of(qgt.SparseInteger(rate=0.3, bound=1), sizes=4, most=2)
        >>> channel.table.shape, channel.table[0, 1]  # one size, counts 0 to 2, reports -1 to 3
        (torch.Size([1, 3, 5]), tensor([0.0000, 0.1000, 0.8000, 0.1000, 0.0000]))
    """

    table: Float32[Tensor, "sizes counts reports"]
    doubt: Float32[Tensor, "sizes counts"]  # H(report | count)

    @classmethod
    def of(cls, noise: Noise, *, sizes: int, most: int) -> "Channel":
        """Ask the noise, for pools of 0 to `sizes` items and counts of 0 to `most`."""
        reach = noise.reach(sizes, TAIL)
        step = 1.0 if noise.integer else max(reach, 1e-6) / STEPS
        report = torch.arange(-reach, most + reach + step / 2, step, dtype=torch.float64)
        count = torch.arange(most + 1, dtype=torch.float64)[:, None]
        size = torch.arange(sizes + 1, dtype=torch.float64).clamp(min=1)[:, None, None]
        # A count above the size does not occur; some noises have no probability for it.
        table = noise.log_prob(report, torch.minimum(count, size), size).exp().nan_to_num()
        table = table[:, :, (table > 0).any(0).any(0)]
        if table.shape[2] > REPORTS:
            parts = table.split(-(-table.shape[2] // REPORTS), 2)
            table = torch.stack([part.sum(2) for part in parts], 2)
        table = table / table.sum(2, keepdim=True).clamp(min=1e-300)
        same = (table - table[-1:]).abs().amax(2) < 1e-12  # (sizes, counts)
        if bool((same | (count[:, 0] > size[:, :, 0])).all()):
            table = table[-1:]
        return cls(table.float(), _entropy(table).float())

    @property
    def same_for_all_sizes(self) -> bool:
        """Whether what a pool reports depends on its count alone."""
        return len(self.table) == 1

    def information(self, weight: Tensor, size: Tensor) -> Tensor:
        """The bits that pools tell, given the weights of their counts: (..., counts) with sizes that broadcast."""
        if self.same_for_all_sizes:
            reports, doubt = weight @ self.table[0], weight @ self.doubt[0]
        else:
            at = size.expand(weight.shape[:-1])
            reports = (weight[..., None, :] @ self.table[at])[..., 0, :]
            doubt = (weight * self.doubt[at]).sum(-1)
        return _entropy(reports) - doubt


def _entropy(probability: Tensor) -> Tensor:
    return -(probability * probability.clamp(min=1e-30).log2()).sum(-1)


def told(
    channel: Channel,
    x: Float32[Tensor, "answers items"],
    weight: Float32[Tensor, "scenarios answers"],
    pools: Bool[Tensor, "pools items"],
) -> Float32[Tensor, " pools"]:
    """The information of pools, averaged over scenarios.

    Example:
        >>> import torch, qgt
        >>> x, half = torch.eye(2), torch.full((1, 2), 0.5)
        >>> channel = Channel.of(qgt.Noiseless(), sizes=2, most=2)
        >>> told(channel, x, half, torch.tensor([[True, False], [True, True]]))  # one item tells all, both nothing
        tensor([1., 0.])
    """
    here = weight @ _levels(channel, x, pools)  # (pools, scenarios, counts)
    return channel.information(here, pools.sum(1)[:, None]).mean(1)


def told_flipped(
    channel: Channel,
    x: Float32[Tensor, "answers items"],
    weight: Float32[Tensor, "scenarios answers"],
    pools: Bool[Tensor, "pools items"],
) -> Float32[Tensor, "pools items"]:
    """The information of every pool with each item put in or taken out, averaged over scenarios."""
    at = _levels(channel, x, pools)  # (pools, answers, counts)
    here = weight @ at  # (pools, scenarios, counts)
    each = at.transpose(1, 2)[:, None] * weight[:, None]  # (pools, scenarios, counts, answers)
    ones = each @ x  # (pools, scenarios, counts, items)
    zero = torch.zeros_like(ones[:, :, :1])
    added = torch.cat([zero, ones[:, :, :-1]], 2)  # from c - 1 defectives to c
    dropped = torch.cat([ones[:, :, 1:], zero], 2)
    moved = torch.where(pools[:, None, None, :], dropped, added)
    near = (here[..., None] - ones + moved).clamp(min=0.0).transpose(2, 3)  # (pools, scenarios, items, counts)
    sizes = pools.sum(1, keepdim=True) + torch.where(pools, -1, 1)  # (pools, items)
    return channel.information(near, sizes[:, None]).mean(1)


def _levels(channel: Channel, x: Tensor, pools: Tensor) -> Tensor:
    """1 where an answer has that many defectives in a pool: (pools, answers, counts)."""
    counts = pools.float() @ x.T
    return (counts[..., None] == torch.arange(channel.table.shape[1])).float()
