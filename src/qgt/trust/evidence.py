"""Evidence: what a decoder's behaviour at T instances says about the pooling matrix, one number for each entry.

The numbers are large where the decoder acts as if the item were in the pool. Three estimators give them:

- `least_squares`, the paper's (section "Structural Verifiability Analysis"): with Jacobians B_i = d scores / d y
  (items, pools), the C that minimises sum_i ||I - C B_i||^2, which is (sum B_i^T) (sum B_i B_i^T)^+. One linear map
  (all B_i equal, rank at most M < N) does not determine A, so a linear network cannot pass.
- `mean_jacobian`: the mean of B_i^T. Works for strong networks whose outputs saturate.
- `regression`: the least-squares regression of y on the decoder's calls. Needs no gradients, so it audits any decoder.

Exact two-means on the entries (sort, best split) makes the evidence a 0/1 matrix. `explained` says whether the decoder
decodes at all: without that, evidence of any kind is noise.
"""

from collections.abc import Iterator

import torch
from jaxtyping import Float, Float64, UInt8
from torch import Tensor

from qgt.decoders.neural.network import Network

ESTIMATORS = ("least_squares", "mean_jacobian", "regression")
CHUNK = 2**22  # entries of Jacobians held at a time


def jacobians(network: Network, y: Float[Tensor, "instances pools"]) -> Float[Tensor, "instances items pools"]:
    """The derivative of a network's scores by the counts, in forward mode: one pass per pool, all instances at once."""

    def scores(counts: Tensor) -> Tensor:
        single: Tensor = network(counts[None])[0]
        return single

    def along(direction: Tensor) -> Tensor:
        derivative: Tensor = torch.func.jvp(scores, (y,), (direction.expand_as(y),))[1]
        return derivative  # (instances, items)

    directions = torch.eye(y.shape[1], dtype=y.dtype, device=y.device)
    by_pool: Tensor = torch.func.vmap(along)(directions)  # (pools, instances, items)
    return by_pool.movedim(0, 2)


def jacobian_evidence(
    network: Network, y: Float64[Tensor, "instances pools"], *, least_squares: bool
) -> Float64[Tensor, "pools items"]:
    """The paper's closed form, or the mean Jacobian, accumulated chunk by chunk in float64."""
    mean: Tensor | float = 0.0
    square: Tensor | float = 0.0
    for part in _jacobian_chunks(network, y):
        mean = mean + part.sum(0) / len(y)  # (items, pools)
        if least_squares:
            flat = part.transpose(0, 1).flatten(1)  # (items, instances * pools)
            square = square + flat @ flat.T / len(y)
    assert isinstance(mean, Tensor)
    if not isinstance(square, Tensor):
        return mean.T.contiguous()
    # Jacobians are float32, so eigenvalues this small are rounding, not rank.
    inverse: Tensor = torch.linalg.pinv(square, rtol=1e-11, hermitian=True)
    return mean.T @ inverse


def _jacobian_chunks(network: Network, y: Tensor) -> Iterator[Tensor]:
    device = next(network.parameters()).device
    with torch.no_grad():
        items = network(y[:1].to(device, torch.float32)[None]).shape[2]
        for counts in y.split(max(1, CHUNK // (y.shape[1] * items))):
            yield jacobians(network, counts.to(device, torch.float32)).to(torch.float64)


def regression_evidence(
    y: Float64[Tensor, "instances pools"], calls: UInt8[Tensor, "instances items"]
) -> Float64[Tensor, "pools items"]:
    """The least-squares W in y = W calls, of least norm where the calls do not determine it."""
    x = calls.to(torch.float64)
    inverse: Tensor = torch.linalg.pinv(x.T @ x, hermitian=True)
    return (inverse @ (x.T @ y)).T.contiguous()


def explained(
    y: Float64[Tensor, "instances pools"],
    calls: UInt8[Tensor, "instances items"],
    matrix: UInt8[Tensor, "pools items"],
) -> float:
    """The share of the counts' variance that a decoder's calls explain, through the design it decodes for.

    It is 1 - sum (y - A x)^2 / sum (y - mean)^2: 1 for calls that give all counts, 0 for the best constant guess at
    each count, and below 0 for calls that have nothing to do with the counts.

    Example:
        >>> import torch
        >>> x = torch.tensor([[1, 0, 0], [0, 1, 1]], dtype=torch.uint8)
        >>> matrix = torch.tensor([[1, 1, 0], [0, 1, 1]], dtype=torch.uint8)
        >>> y = x.double() @ matrix.double().T
        >>> explained(y, x, matrix), explained(y, x.flip(0), matrix)
        (1.0, -3.0)
    """
    missed = (y - calls.to(torch.float64) @ matrix.to(torch.float64).T).square().sum()
    varied = (y - y.mean(0)).square().sum()
    if not bool(varied):  # counts that never change say nothing about who decodes them
        return 0.0
    return 1.0 - float(missed / varied)


def two_means(values: Float64[Tensor, " values"]) -> tuple[float, tuple[float, float]]:
    """The split of numbers into two groups with the least sum of squares, exactly, and the groups' means.

    Returns the midpoint between the two groups; values above it belong to the upper one. Where all values are equal
    there is nothing to split, and they all belong to the lower group.

    Example:
        >>> import torch
        >>> two_means(torch.tensor([0.0, 0.5, 2.0, 2.5]).double())
        (1.25, (0.25, 2.25))
    """
    ordered = (values - values.mean()).sort().values  # centred, so that sums of squares keep their digits
    n, sums = len(ordered), ordered.cumsum(0)
    below = torch.arange(1, n, dtype=torch.float64)
    # Least within-group squares is most between-group squares: (sum below)^2 / below + (sum above)^2 / above.
    gain = sums[:-1].square() / below + (sums[-1] - sums[:-1]).square() / (n - below)
    gain[ordered[1:] == ordered[:-1]] = -1.0  # equal values stay together
    if n < 2 or not bool((gain > 0).any()):
        return float(values.max()), (float(values.mean()), float(values.mean()))
    cut = int(gain.argmax())
    split = (ordered[cut] + ordered[cut + 1]) / 2 + values.mean()
    upper = values > split
    return float(split), (float(values[~upper].mean()), float(values[upper].mean()))


def ranked(evidence: Float64[Tensor, "pools items"], claimed: UInt8[Tensor, "pools items"]) -> float | None:
    """The chance that evidence for a claimed 1 exceeds that for a claimed 0; None where the claim has only one."""
    ones, zeros = evidence[claimed == 1].sort().values, evidence[claimed == 0].sort().values
    if not len(ones) or not len(zeros):
        return None
    below = torch.searchsorted(zeros, ones) + torch.searchsorted(zeros, ones, right=True)
    return float(below.double().mean() / 2 / len(zeros))  # ties count a half
