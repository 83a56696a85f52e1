"""The threshold that turns scores into calls: the tau with the highest success rate, found exactly.

An instance is decoded without error by "call 1 where score >= tau" for exactly the tau in the half-open interval
(highest score of its non-defective items, lowest score of its defective items]. So the best tau is a point covered by
most intervals, and sorting their ends finds it: O(n log n), no grid.
"""

import torch
from jaxtyping import Float, UInt8
from torch import Tensor


def best_threshold(scores: Float[Tensor, "instances items"], x: UInt8[Tensor, "instances items"]) -> float:
    """Return a tau at which `scores >= tau` equals x for as many instances as any tau can reach.

    Of several best stretches it takes the widest, and in that the middle, to be as far from mistakes as it can. The
    result is a number of the scores' own dtype, so comparing with it rounds nothing.

    Example:
        >>> import torch
        >>> scores = torch.tensor([[0.1, 0.9], [0.4, 0.8]])
        >>> round(best_threshold(scores, torch.tensor([[0, 1], [0, 1]], dtype=torch.uint8)), 3)
        0.6
    """
    if not len(scores) or bool(scores.isnan().any()):
        raise ValueError("scores are empty or hold NaN: give at least one instance with finite scores.")
    low = scores.masked_fill(x == 1, -torch.inf).amax(1)  # (instances,)
    high = scores.masked_fill(x == 0, torch.inf).amin(1)
    possible = low < high
    if not bool(possible.any()):
        return float(scores.median())  # no tau decodes any instance: all are equally good
    low, high = low[possible].sort().values, high[possible].sort().values
    # At tau = h the covering intervals are those that began below h less those that ended below h.
    covered = torch.searchsorted(low, high) - torch.searchsorted(high, high)
    best = high[covered == covered.max()]
    ends = torch.cat([low, high]).sort().values
    below = ends[torch.searchsorted(ends, best) - 1]  # the stretch (below, best] is covered throughout
    widest = (best - below).nan_to_num(nan=torch.inf).argmax()
    return _inside(below[widest], best[widest])


def _inside(low: Tensor, high: Tensor) -> float:
    """A finite number in (low, high], the middle where both ends are finite."""
    if torch.isinf(high):
        return 0.0 if torch.isinf(low) else float(torch.nextafter(low, high))
    if torch.isinf(low):
        return float(high)
    middle = low / 2 + high / 2  # high - low may overflow
    return float(middle if middle > low else high)
