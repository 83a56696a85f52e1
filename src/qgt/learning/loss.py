"""Losses for training a stack of networks: one number per network, averaged over its instances.

The paper's loss (its equation "balanced MSE") averages the squared error over an instance's defective items and over
its other items separately, and takes the mean of the two; a side without items is left out. As a weighted square it
is sum_j w_j (score_j - x_j)^2 with w_j = 1 / (2 #defective) or 1 / (2 #other).
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from qgt.decoders.neural.network import Rounds


def balanced_mse(
    scores: Float[Tensor, "models instances items"], x: Float[Tensor, "models instances items"]
) -> Float[Tensor, " models"]:
    """The paper's loss, averaged over instances.

    Example:
        >>> import torch
        >>> balanced_mse(torch.tensor([[[0.5, 0.5, 0.0]]]), torch.tensor([[[1.0, 0.0, 0.0]]]))
        tensor([0.1875])
    """
    ones = x.sum(2, keepdim=True)  # (models, instances, 1)
    defective, other = 0.5 / ones, 0.5 / (x.shape[2] - ones)  # a side without items has an infinite, unused weight
    weighted = F.mse_loss(scores, x, reduction="none") * torch.where(x == 1, defective, other)
    return weighted.sum((1, 2)) / x.shape[1]


def binary_cross_entropy(
    scores: Float[Tensor, "models instances items"], x: Float[Tensor, "models instances items"]
) -> Float[Tensor, " models"]:
    """The log loss of logits, summed over items and averaged over instances."""
    return F.binary_cross_entropy_with_logits(scores, x, reduction="none").sum((1, 2)) / x.shape[1]


def loss_of_rounds(
    loss: Callable[[Tensor, Tensor], Tensor], rounds: Rounds, x: Float[Tensor, "models instances items"]
) -> Float[Tensor, " models"]:
    """The loss of all rounds, a later one weighing more: the mean with weights 1, 2, 3, ...

    Where the network says whether it believes its answers, the log loss of that is added: a round is right where its
    logits have the signs of x.

    Example:
        >>> import torch
        >>> x = torch.tensor([[[1.0, 0.0, 0.0]]])
        >>> scores = torch.stack([torch.zeros(1, 1, 3), x])
        >>> loss_of_rounds(balanced_mse, Rounds(scores), x)  # a third of the first round's, which is 0.5
        tensor([0.1667])
    """
    number = len(rounds.scores)
    each = torch.stack([loss(scores, x) for scores in rounds.scores])  # (rounds, models)
    weights = torch.arange(1, number + 1, dtype=each.dtype, device=each.device)
    total = (weights @ each) / (number * (number + 1) / 2)
    if rounds.belief is None:
        return total
    right = ((rounds.scores.detach() > 0) == (x > 0)).all(3)  # (rounds, models, instances)
    judged = F.binary_cross_entropy_with_logits(rounds.belief, right.to(x.dtype), reduction="none")
    return total + judged.mean((0, 2))


LOSSES = {"balanced_mse": balanced_mse, "binary_cross_entropy": binary_cross_entropy}
