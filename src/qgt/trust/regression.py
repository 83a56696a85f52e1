"""Probabilities from features: a logistic regression, and the monotone step function nearest to what was seen.

Both are small on purpose: they are fitted to a few thousand simulated instances in milliseconds.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

RIDGE = 1.0  # how strongly weights are pulled to 0: one observation's worth
GUESS_RIDGE = 0.25  # the same of the bias where there are guesses: they may be off sevenfold
STEPS = 30
CERTAIN, NOT_CERTAIN = 0.99, 0.989  # the confidence from which an answer is called certain; one that is just below
EQUAL = 1e9  # scores that agree to so many parts of 1 are equal


@dataclass(frozen=True, eq=False)
class Logistic:
    """P(yes) = sigmoid(expected + bias + weights . (features - centre) / scale).

    `expected` is the logit of a guess made before anything was observed; where there is none, it is 0.

    Example:
        >>> import torch
        >>> x = torch.linspace(-3, 3, 200, dtype=torch.float64)[:, None]
        >>> fitted = Logistic.fit(x, torch.rand(200, generator=torch.Generator().manual_seed(0)) < x[:, 0].sigmoid())
        >>> bool(fitted(x)[150] > fitted(x)[50])
        True
    """

    centre: Float64[Tensor, " features"]
    scale: Float64[Tensor, " features"]
    weights: Float64[Tensor, " features"]
    bias: Float64[Tensor, ""]

    @classmethod
    def fit(
        cls,
        features: Float64[Tensor, "n features"],
        yes: Bool[Tensor, " n"] | Float64[Tensor, " n"],
        *,
        expected: Float64[Tensor, " n"] | None = None,
    ) -> "Logistic":
        """By Newton's method. Weights are pulled to 0, and so is the bias: few observations change a guess little.

        Args:
            features: What is known of each observation.
            yes: Whether it is a yes; or the chance of it, where that is known.
            expected: The logit of a guess for each; without guesses, two observations of one half are added.
        """
        centre = features.mean(0) if len(features) else features.new_zeros(features.shape[1])
        scale = features.std(0, correction=0).clamp(min=1e-9) if len(features) else torch.ones_like(centre)
        z = torch.cat([(features - centre) / scale, torch.ones_like(features[:, :1])], 1)
        target, pull = yes.double(), torch.full((z.shape[1],), RIDGE, dtype=z.dtype)
        pull[-1] = GUESS_RIDGE
        if expected is None:
            # Two halves at the centre: where all answers are alike, the estimate stays finite.
            extra = torch.zeros(2, z.shape[1], dtype=z.dtype)
            extra[:, -1] = 1.0
            z, target = torch.cat([z, extra]), torch.cat([target, torch.full((2,), 0.5, dtype=torch.float64)])
            pull[-1] = 0.0
        start = torch.zeros_like(target) if expected is None else expected
        w = torch.zeros(z.shape[1], dtype=z.dtype)
        for _ in range(STEPS):
            p = torch.sigmoid(start + z @ w)
            gradient = z.T @ (p - target) + pull * w
            curvature = (z * (p * (1 - p))[:, None]).T @ z + torch.diag(pull + 1e-9)
            step = torch.linalg.solve(curvature, gradient)
            w = w - step * min(1.0, 5.0 / max(float(step.abs().max()), 1e-12))
            if float(step.abs().max()) < 1e-9:
                break
        return cls(centre, scale, w[:-1], w[-1])

    def __call__(
        self, features: Float64[Tensor, "n features"], expected: Float64[Tensor, " n"] | float = 0.0
    ) -> Float64[Tensor, " n"]:
        """The probabilities of yes."""
        return torch.sigmoid(expected + ((features - self.centre) / self.scale) @ self.weights + self.bias)


@dataclass(frozen=True, eq=False)
class Claims:
    """Simulated answers that were called certain, and how many of them are wrong: what such a call can rest on.

    Fifty simulated answers cannot show that fewer than one in a hundred is wrong. If n of them were called certain and
    w of those are wrong, `CERTAIN` is supported where (n - w + 1) / (n + 2) reaches it. Where it is not, every
    confidence stays below `CERTAIN`.

    Example:
        >>> import torch
        >>> few, many = (Claims.of(torch.ones(n).double(), torch.ones(n).bool()) for n in (10, 98))
        >>> few.most, many.most
        (0.989, 1.0)
    """

    certain: Float64[Tensor, ""]
    wrong: Float64[Tensor, ""]

    @classmethod
    def of(cls, confidence: Float64[Tensor, " n"], right: Bool[Tensor, " n"]) -> "Claims":
        """From the confidence of simulated answers, and whether they are right."""
        certain = confidence >= CERTAIN
        return cls(certain.sum().double(), (certain & ~right).sum().double())

    def __add__(self, other: "Claims") -> "Claims":
        return Claims(self.certain + other.certain, self.wrong + other.wrong)

    @property
    def most(self) -> float:
        """The highest confidence that they support."""
        shown = float((self.certain - self.wrong + 1) / (self.certain + 2))
        return 1.0 if shown >= CERTAIN else NOT_CERTAIN


@dataclass(frozen=True, eq=False)
class Monotone:
    """A function that never falls: the share of yes in each stretch of scores, interpolated between stretches.

    Example:
        >>> import torch
        >>> score = torch.arange(8.0, dtype=torch.float64)
        >>> shares = Monotone.fit(score, torch.tensor([0, 0, 1, 0, 0, 1, 1, 1]).bool())(score)
        >>> [round(share, 2) for share in shares.tolist()]
        [0.25, 0.25, 0.4, 0.4, 0.4, 0.8, 0.8, 0.8]
    """

    at: Float64[Tensor, " ends"]  # the first and the last score of each stretch
    share: Float64[Tensor, " ends"]

    @classmethod
    def fit(cls, score: Float64[Tensor, " n"], yes: Bool[Tensor, " n"]) -> "Monotone":
        """Pool neighbours until shares rise; each stretch counts one yes and one no more, so none is certain.

        Equal scores are one neighbour: where instances are few and alike, their order would make steps of chance.
        """
        values, which, number = score.mul(EQUAL).round().unique(return_inverse=True, return_counts=True)
        hits = torch.zeros(len(values), dtype=torch.float64).index_add_(0, which, yes.double())
        blocks: list[tuple[float, float, float, float]] = []  # yes, number, first and last score
        for at, hit, size in zip(values.div(EQUAL).tolist(), hits.tolist(), number.tolist(), strict=True):
            block = (hit, float(size), at, at)
            while blocks and blocks[-1][0] * block[1] >= block[0] * blocks[-1][1]:
                last = blocks.pop()
                block = (last[0] + block[0], last[1] + block[1], last[2], block[3])
            blocks.append(block)
        table = torch.tensor(blocks or [(0.0, 0.0, 0.0, 0.0)], dtype=torch.float64)
        share = ((table[:, 0] + 1) / (table[:, 1] + 2)).cummax(0).values
        return cls(table[:, 2:].flatten(), share.repeat_interleave(2))

    def __call__(self, score: Float64[Tensor, " n"]) -> Float64[Tensor, " n"]:
        """The shares at some scores: those of the first and last stretch beyond them."""
        right = torch.searchsorted(self.at, score.contiguous()).clamp(1, len(self.at) - 1)
        low, high = self.at[right - 1], self.at[right]
        part = ((score - low) / (high - low).clamp(min=1e-300)).clamp(0.0, 1.0)
        return torch.lerp(self.share[right - 1], self.share[right], part)
