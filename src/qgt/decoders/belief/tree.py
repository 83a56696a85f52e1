"""What one factor tells each of its items: exact sums over how many of the *other* items are defective.

A factor has d items and a likelihood T(c) of c defectives among them. With p_k the probability that item k is
defective as far as everything outside the factor says, item j is told the log odds

    log sum_c T(c + 1) P_j(c)  -  log sum_c T(c) P_j(c),        P_j: the law of the number of defectives but for item j.

All d of these laws would take d^2 K operations one by one, K being the number of possible counts. A binary tree over
the items gives them together: on the way up, the law of each half is convolved from those of its quarters; on the way
down, the likelihood of the number in one half is T summed over the law of the other half. The leaves end with the two
sums above. No law has more entries than items below it, or than possible counts, so all levels together take about
d K operations. Everything added is positive: nothing cancels, and no division can fail. Sums are scaled to a
largest entry of 1 where many factors below multiply, so that nothing underflows as a whole.

Tensors are (items, columns): one column for each factor of each instance, side by side, which is what makes it fast.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float64
from torch import Tensor

SCALED = 32  # items below a node from which its sums are scaled
COLUMNS, COLUMNS_ON_GPU = 2048, 2**17  # at a time: on a CPU their sums stay in its cache


def messages(
    odds: Float64[Tensor, "items columns"], likelihood: Float64[Tensor, "counts columns"]
) -> Float64[Tensor, "items columns"]:
    """The log odds that each column's factor tells each of its items; 0 where it excludes both statuses.

    Args:
        odds: What each item tells the factor, finite log odds of being defective.
        likelihood: T(0), T(1), ...; counts beyond the last are impossible.

    Example:
        >>> import torch
        >>> odds = torch.tensor([[0.0], [2.0]], dtype=torch.float64)
        >>> messages(odds, torch.tensor([[0.0], [1.0], [0.0]], dtype=torch.float64))  # exactly one of the two
        tensor([[-2.],
                [ 0.]], dtype=torch.float64)
    """
    step = COLUMNS if odds.device.type == "cpu" else COLUMNS_ON_GPU
    parts = zip(odds.split(step, 1), likelihood.split(step, 1), strict=True)
    return torch.cat([_messages(*part) for part in parts], 1)


def _messages(odds: Tensor, likelihood: Tensor) -> Tensor:
    if likelihood.shape[0] < 2:
        likelihood = F.pad(likelihood, (0, 0, 0, 1))
    levels = _laws(odds, likelihood.shape[0])
    below = likelihood[None]  # (nodes, counts, columns): the likelihood of the number of defectives below each node
    for laws in reversed(levels):
        below = _split(laws, below[: len(laws) // 2]) if len(laws) > 1 else below[:, :2]
    none, one = below[: len(odds), 0], below[: len(odds), 1]
    return (one.log() - none.log()).nan_to_num(nan=0.0, posinf=torch.inf, neginf=-torch.inf)


def _laws(odds: Tensor, counts: int) -> list[Tensor]:
    """The laws of the number of defectives below each node, (nodes, numbers, columns), from leaves to the last two."""
    levels = [torch.stack([torch.sigmoid(-odds), torch.sigmoid(odds)], 1)]
    while len(levels[-1]) > 2:
        if len(levels[-1]) % 2:  # one more node, with no items
            nothing = torch.zeros_like(levels[-1][:1])
            nothing[:, 0] = 1.0
            levels[-1] = torch.cat([levels[-1], nothing])
        levels.append(_scaled(_sum_law(levels[-1][0::2], levels[-1][1::2], counts), 2 ** len(levels)))
    return levels


def _sum_law(a: Tensor, b: Tensor, counts: int) -> Tensor:
    """The law of the sum of two independent numbers, as far as it is below `counts`."""
    width = min(a.shape[1] + b.shape[1] - 1, counts)
    result = a.new_zeros(len(a), width, a.shape[2])
    for k in range(min(b.shape[1], width)):
        most = min(a.shape[1], width - k)
        result[:, k : k + most].addcmul_(b[:, k : k + 1], a[:, :most])
    return result


def _split(laws: Tensor, above: Tensor) -> Tensor:
    """The likelihood of each node's number, from that of its and its neighbour's together."""
    width, counts = laws.shape[1], above.shape[1]
    result = torch.zeros_like(laws)
    for node in (0, 1):
        neighbour, own = laws[1 - node :: 2], result[node::2]
        for k in range(min(width, counts)):
            most = min(width, counts - k)
            own[:, :most].addcmul_(neighbour[:, k : k + 1], above[:, k : k + most])
    return _scaled(result, SCALED)


def _scaled(sums: Tensor, items: int) -> Tensor:
    """The sums over the largest of each node and column; a scale of all of them changes no message."""
    if items < SCALED:
        return sums
    return sums / sums.amax(1, keepdim=True).clamp(min=torch.finfo(sums.dtype).tiny)
