"""What pools should report, if no error were made: what reports are held against where somebody looks for errors."""

import torch
from jaxtyping import Float64
from torch import Tensor

from qgt.model.noise import Noise, Numbers, Outliers, PerPool
from qgt.model.readings import PositiveNegative, Reads
from qgt.model.scales import Binned, Saturating


def usual_reports(
    noise: Noise, counts: Float64[Tensor, "instances pools"], sizes: Float64[Tensor, " pools"]
) -> Float64[Tensor, "instances pools"]:
    """The report of each pool without an error: its count, or what stands for that count.

    Example:
        >>> import torch
        >>> counts = torch.tensor([[0.0, 3.0]], dtype=torch.float64)
        >>> sizes = torch.tensor([8.0, 8.0], dtype=torch.float64)
        >>> usual_reports(PositiveNegative(0.9, 0.99), counts, sizes), usual_reports(Binned([1, 5]), counts, sizes)
        (tensor([[0., 1.]], dtype=torch.float64), tensor([[0., 1.]], dtype=torch.float64))
    """
    own = noise.noise if isinstance(noise, Outliers) else noise
    if not isinstance(own, PerPool):
        return _usual(own, counts, sizes)
    return torch.stack([_usual(one, counts[:, i], sizes[i]) for i, one in enumerate(own.noises)], 1)


def noise_of(noise: Noise, pool: int) -> Noise:
    """The noise of one pool: its own where pools have different ones.

    Example:
        >>> from qgt.model.noise import Noiseless
        >>> noise_of(PerPool([Noiseless(), Saturating(3)]), 1)
        Saturating(cap=3, noise=Noiseless())
    """
    if isinstance(noise, Outliers):
        return noise_of(noise.noise, pool)
    return noise.noises[pool] if isinstance(noise, PerPool) else noise


def _usual(noise: Noise, counts: Numbers, sizes: Numbers) -> Numbers:
    if isinstance(noise, Outliers):
        return _usual(noise.noise, counts, sizes)
    if isinstance(noise, PositiveNegative):
        return (counts > 0).to(torch.float64)
    if isinstance(noise, Saturating):
        return _usual(noise.noise, counts, sizes).clamp(max=noise.cap)
    if isinstance(noise, Binned):
        edges = torch.tensor(noise.edges, dtype=torch.float64, device=counts.device)
        return torch.bucketize(_usual(noise.noise, counts, sizes).contiguous(), edges, right=True).to(torch.float64)
    if isinstance(noise, Reads):
        share = (counts / sizes.clamp(min=1)).clamp(max=1)
        return (noise.depth * ((1 - noise.error) * share + noise.error * (1 - share))).round()
    return counts
