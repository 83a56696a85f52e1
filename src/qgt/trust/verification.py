"""Structural verification: read the pooling matrix back from a decoder, and say where it disagrees with a claim.

A decoder that inverts y = A x has learned A. Evidence turns its behaviour into one number for each entry of A;
here they are split in two, set beside the claimed design, and put into a verdict. There is none where the evidence
does not fall into two groups, nor where the decoder's calls explain the counts no better than a constant guess: its
evidence is then noise.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Float64, Int64, UInt8
from torch import Generator, Tensor

from qgt.arguments import whole
from qgt.decoders.contract import Decoder
from qgt.decoders.neural.decoder import NeuralDecoder
from qgt.decoders.neural.heads import Softmax, network_inputs, scaled_totals
from qgt.decoders.neural.network import Network
from qgt.decoders.results import Decoded
from qgt.model.design import Design
from qgt.model.loads import Loads
from qgt.model.noise import usual_reports
from qgt.model.problem import Counts, Problem

# Evidence: what a decoder's behaviour at T instances says about the pooling matrix, one number for each entry.
#
# The numbers are large where the decoder acts as if the item were in the pool. Three estimators give them:
#
# - `least_squares`, the paper's (section "Structural Verifiability Analysis"): with Jacobians B_i = d scores / d y
#   (items, pools), the C that minimises sum_i ||I - C B_i||^2, which is (sum B_i^T) (sum B_i B_i^T)^+. One linear map
#   (all B_i equal, rank at most M < N) does not determine A, so a linear network cannot pass.
# - `mean_jacobian`: the mean of B_i^T. Works for strong networks whose outputs saturate.
# - `regression`: the least-squares regression of y on the decoder's calls. Needs no gradients, so it audits any
#   decoder.
#
# Where items have copies or categories, the scores are logits of a softmax, and B_i is the derivative of the parts'
# probabilities with all logits times `SOFTENED`: the probabilities of a sure network hardly change with a count.
#
# Where items have loads, reports are read as networks read them, as scaled totals (`decoders.neural.heads`). At an
# instance with few positives the log amount of a positive item follows the totals of its own pools and no others. So
# B_i is the derivative of the amounts head by the scaled totals, with two kinds of zeros: rows of items that are not
# called, whose amount is 0 whatever is reported, and columns of pools in which nothing was detected, because "nothing"
# cannot change a little. The mean Jacobian of an item is over the instances in which the item is called. The regression
# is of scaled totals, less that of an empty pool, on calls.
#
# Exact two-means on the entries (sort, best split) makes the evidence a 0/1 matrix. `explained_share` says whether the
# decoder decodes at all: without that, evidence of any kind is noise.

ESTIMATORS = ("least_squares", "mean_jacobian", "regression")
SOFTENED = 0.3  # of logits, before their softmax
JACOBIANS_AT_A_TIME = 2**22  # entries of Jacobians held at a time


def jacobians(network: Network, y: Float[Tensor, "instances pools"]) -> Float[Tensor, "instances items pools"]:
    """The derivative of a network's scores by the counts, in forward mode: one pass per pool, all instances at once.

    For a network with a softmax it is the derivative of the softened probabilities.
    """

    def scores(counts: Tensor) -> Tensor:
        single: Tensor = network(counts[None])[0]
        return network.head.marginals(SOFTENED * single) if isinstance(network.head, Softmax) else single

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
    return _of_jacobians(_jacobian_chunks(network, y), len(y), least_squares)


def amounts_evidence(
    network: Network,
    problem: Problem,
    y: Float64[Tensor, "instances pools"],
    calls: UInt8[Tensor, "instances items"],
    *,
    least_squares: bool,
) -> Float64[Tensor, "pools items"]:
    """The same for loads: of the amounts of the items called, by the totals of the pools that detected something."""
    evidence = _of_jacobians(_amount_chunks(network, problem, y, calls), len(y), least_squares)
    return evidence if least_squares else evidence * (len(y) / calls.sum(0).clamp(min=1).to(evidence.device))


def _of_jacobians(parts: Iterator[Tensor], number: int, least_squares: bool) -> Float64[Tensor, "pools items"]:
    mean: Tensor | float = 0.0
    square: Tensor | float = 0.0
    for part in parts:
        mean = mean + part.sum(0) / number  # (items, pools)
        if least_squares:
            flat = part.transpose(0, 1).flatten(1)  # (items, instances * pools)
            square = square + flat @ flat.T / number
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
        for counts in y.split(max(1, JACOBIANS_AT_A_TIME // (y.shape[1] * items))):
            yield jacobians(network, counts.to(device, torch.float32)).to(torch.float64)


def _amount_chunks(network: Network, problem: Problem, y: Tensor, calls: Tensor) -> Iterator[Tensor]:
    """Jacobians of the amounts head by scaled totals, 0 for items not called and for pools with nothing detected."""
    assert problem.loads is not None
    detected = scaled_totals(problem, problem.loads, y).detected
    begin = 0
    for part in _jacobian_chunks(network, network_inputs(problem, y)):  # (instances, 2 items, 2 pools)
        rows = slice(begin, begin := begin + len(part))
        item, pool = calls[rows, :, None].to(part.device), detected[rows, None, :].to(part.device)
        yield part[:, problem.items :, ::2] * (item * pool)


def regression_evidence(
    y: Float64[Tensor, "instances pools"], calls: UInt8[Tensor, "instances items"]
) -> Float64[Tensor, "pools items"]:
    """The least-squares W in y = W calls, of least norm where the calls do not determine it."""
    x = calls.to(torch.float64)
    inverse: Tensor = torch.linalg.pinv(x.T @ x, hermitian=True)
    return (inverse @ (x.T @ y)).T.contiguous()


def explained_share(
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
        >>> explained_share(y, x, matrix), explained_share(y, x.flip(0), matrix)
        (1.0, -3.0)
    """
    return _share(y, calls.to(torch.float64) @ matrix.to(torch.float64).T)


def _share(y: Tensor, expected: Tensor) -> float:
    missed = (y - expected).square().sum()
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


# Rows of a matrix that are swapped: whole pools, or whole items, that were exchanged.


def swapped(recovered: UInt8[Tensor, "rows n"], claimed: UInt8[Tensor, "rows n"]) -> list[tuple[int, int]]:
    """Pairs of rows that are each much nearer to the other's claim than to their own.

    Example:
        >>> import torch
        >>> claimed = torch.tensor([[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1], [1, 0, 1, 0, 1, 0]], dtype=torch.uint8)
        >>> swapped(claimed[[1, 0, 2]], claimed)
        [(0, 1)]
    """
    a, b = recovered.double(), claimed.double()
    distance: Float64[Tensor, "rows rows"] = a.sum(1)[:, None] + b.sum(1) - 2 * a @ b.T  # differing entries
    own, nearest = distance.diagonal(), distance.argmin(1)
    moved = (distance.amin(1) < own / 3) & (own >= 3)
    pairs = ((i, int(nearest[i])) for i in moved.nonzero().flatten().tolist())
    return [(i, j) for i, j in pairs if i < j and bool(moved[j]) and int(nearest[j]) == i]


def exchange(matrix: UInt8[Tensor, "rows n"], pairs: list[tuple[int, int]]) -> UInt8[Tensor, "rows n"]:
    """The matrix with pairs of rows exchanged.

    Example:
        >>> import torch
        >>> exchange(torch.tensor([[1, 0], [0, 1]], dtype=torch.uint8), [(0, 1)])
        tensor([[0, 1],
                [1, 0]], dtype=torch.uint8)
    """
    order = list(range(len(matrix)))
    for a, b in pairs:
        order[a], order[b] = b, a
    return matrix[order]


# Evidence beside a claim, and the verdict.

BEST = "best"  # of the estimators: the one whose evidence separates most clearly
NO_EVIDENCE = 3.0  # above the separation of one Gaussian group that is cut in two (2.65)
CHANCE = 0.0  # the share of the counts' variance that the best constant guess explains
# How far past the split, in units of half the centroids' distance, evidence must be to contradict a claim.
SURE_DISTANCE = 0.25


class Mismatch(NamedTuple):
    """An entry where the evidence contradicts the claimed design; `sureness` is 0 at the split and 1 at a centroid."""

    pool: str
    item: str
    claimed: int
    recovered: int
    sureness: float


class Swap(NamedTuple):
    """Two whole pools or items that are swapped."""

    kind: str  # "pool" or "item"
    first: str
    second: str


@dataclass(frozen=True, eq=False, repr=False)
class VerificationReport:
    """What a decoder reveals about the design, beside the design that is claimed.

    Example:
        >>> import torch
        >>> design = Design.from_rows(["110", "011"])
        >>> report = report_on(torch.tensor([[0.9, 1.1, 0.0], [0.1, 0.1, 1.0]]).double(), design, "regression", 9)
        >>> round(report.error_percent, 1), report.mismatches[0][:4]
        (16.7, ('P2', 'I2', 1, 0))
    """

    estimator: str
    instances: int
    claimed: Design
    evidence: Float64[Tensor, "pools items"]
    recovered: UInt8[Tensor, "pools items"]
    centroids: tuple[float, float]
    split: float
    spread: float  # the standard deviation of the evidence around its centroids
    explained: float | None = None  # the share of the counts' variance that the decoder's calls explain, if measured

    @property
    def wrong(self) -> UInt8[Tensor, "pools items"]:
        """1 where the recovered entry differs from the claimed one."""
        return (self.recovered != self.claimed.matrix).to(torch.uint8)

    @property
    def error_percent(self) -> float:
        """The share of entries that differ, the paper's measure."""
        return 100 * float(self.wrong.double().mean())

    @property
    def coin_flip_percent(self) -> float:
        """The error to expect of a matrix of coin flips."""
        return 50.0

    @property
    def constant_percent(self) -> float:
        """The error of the best constant matrix: all zeros or all ones."""
        density = float(self.claimed.matrix.double().mean())
        return 100 * min(density, 1 - density)

    @property
    def separation(self) -> float:
        """The distance of the two centroids in standard deviations around them; 0 where there is no evidence."""
        distance = self.centroids[1] - self.centroids[0]
        return distance / self.spread if self.spread else (float("inf") if distance else 0.0)

    @property
    def auc(self) -> float | None:
        """The chance that evidence for a claimed 1 exceeds that for a claimed 0; None where the claim has only one."""
        return ranked(self.evidence, self.claimed.matrix)

    @property
    def pool_errors(self) -> Int64[Tensor, " pools"]:
        """Differing entries by pool."""
        return self.wrong.sum(1, dtype=torch.int64)

    @property
    def item_errors(self) -> Int64[Tensor, " items"]:
        """Differing entries by item."""
        return self.wrong.sum(0, dtype=torch.int64)

    @property
    def sureness(self) -> Float64[Tensor, "pools items"]:
        """How clear the evidence of each entry is: 0 at the split, 1 at a centroid's distance from it."""
        half = (self.centroids[1] - self.centroids[0]) / 2
        return (self.evidence - self.split).abs() / half if half else torch.zeros_like(self.evidence)

    @property
    def mismatches(self) -> list[Mismatch]:
        """Entries whose evidence contradicts the claim, surest first; differences too close to call are left out."""
        sureness = self.sureness
        found = ((self.wrong == 1) & (sureness >= SURE_DISTANCE)).nonzero().tolist()
        rows = [
            Mismatch(
                self.claimed.pool_names[i],
                self.claimed.item_names[j],
                int(self.claimed.matrix[i, j]),
                int(self.recovered[i, j]),
                float(sureness[i, j]),
            )
            for i, j in found
        ]
        return sorted(rows, key=lambda row: -row.sureness)

    @property
    def undecided(self) -> int:
        """How many differing entries are too close to the split to count as contradictions."""
        return int(self.wrong.sum()) - len(self.mismatches)

    @property
    def swaps(self) -> list[Swap]:
        """Whole pools and items that are swapped."""
        claimed, names = self.claimed.matrix, (self.claimed.pool_names, self.claimed.item_names)
        pools = swapped(self.recovered, claimed)
        items = swapped(self.recovered.T, exchange(claimed, pools).T)
        pools = swapped(self.recovered, exchange(claimed.T, items).T)  # again, with the items in their places
        return [Swap("pool", names[0][a], names[0][b]) for a, b in pools] + [
            Swap("item", names[1][a], names[1][b]) for a, b in items
        ]

    @property
    def by_chance(self) -> bool:
        """Whether its calls explain the counts no better than a constant guess, so that the evidence is noise."""
        return self.explained is not None and self.explained <= CHANCE

    @property
    def decisive(self) -> bool:
        """Whether there is a verdict: a decoder that decodes, and evidence that falls into two groups."""
        return self.separation > NO_EVIDENCE and not self.by_chance

    @property
    def agrees(self) -> bool:
        """Whether nothing contradicts the claim (and there is evidence at all)."""
        return self.decisive and not self.mismatches and not self.swaps

    @property
    def verdict(self) -> str:
        """The report in a sentence or two."""
        close = f" (differing entries too close to call: {self.undecided})" if self.undecided else ""
        facts = f"{self.error_percent:.2f} % of entries differ from the claim; the best constant matrix has "
        facts += f"{self.constant_percent:.1f} %."
        if self.by_chance:
            return f"No verdict: the decoder explains the counts no better than a constant guess. {facts}"
        if not self.decisive:
            return f"No verdict: the evidence does not fall into two groups. {facts}"
        names = "".join(f"{s.kind.capitalize()}s {s.first} and {s.second} are swapped. " for s in self.swaps)
        if self.agrees:
            return f"The decoder agrees with the claimed design{close}. {facts}"
        return f"{len(self.mismatches)} entries contradict the claimed design{close}. {names}{facts}"

    def __repr__(self) -> str:
        return f"VerificationReport({self.estimator}, error_percent={self.error_percent:.3g})"

    def to_dict(self) -> dict[str, object]:
        """The report as plain data."""
        return {
            "estimator": self.estimator,
            "instances": self.instances,
            "agrees": self.agrees,
            "decisive": self.decisive,
            "explained": self.explained,
            "error_percent": self.error_percent,
            "coin_flip_percent": self.coin_flip_percent,
            "constant_percent": self.constant_percent,
            "auc": self.auc,
            "centroids": list(self.centroids),
            "split": self.split,
            "separation": self.separation if self.separation < float("inf") else None,
            "mismatches": [mismatch._asdict() for mismatch in self.mismatches],
            "undecided": self.undecided,
            "swaps": [swap._asdict() for swap in self.swaps],
            "pool_errors": dict(zip(self.claimed.pool_names, self.pool_errors.tolist(), strict=True)),
            "item_errors": dict(zip(self.claimed.item_names, self.item_errors.tolist(), strict=True)),
            "claimed": list(self.claimed.rows),
            "recovered": list(Design.from_matrix(self.recovered).rows),
            "evidence": self.evidence.tolist(),
        }

    def to_json(self) -> str:
        """The report as JSON text."""
        return json.dumps(self.to_dict(), allow_nan=False)


def verify(
    decoder: Decoder,
    problem: Problem,
    *,
    estimator: str = BEST,
    instances: int = 1000,
    counts: Counts | None = None,
    generator: Generator | None = None,
) -> VerificationReport:
    """Compare the design that a decoder reveals with the one that `problem` claims.

    The decoder is probed at instances of its own problem (for a trained network, the one it was trained for, which
    the claim may contradict), drawn from the generator; or, without one, at the observed `counts`: regressing real
    counts on a decoder's calls shows what was really pooled. `estimator` names the way evidence is made of what the
    decoder does; "best" tries those that apply and takes the one whose evidence falls into two groups most clearly.

    Example:
        >>> import torch, qgt
        >>> g = torch.Generator().manual_seed(0)
        >>> problem = qgt.Problem(qgt.Design.bernoulli(pools=9, items=6, generator=g), qgt.Bernoulli(0.2))
        >>> report = verify(qgt.MaximumNeighborhood(), problem, instances=500, generator=g)
        >>> report.error_percent, report.estimator
        (0.0, 'regression')
    """
    names = _estimators(estimator, decoder)
    if problem.values is not None:  # the design of their parts
        counts = None if counts is None else problem.values.part_reports(counts)
        problem = problem.in_parts
    own = decoder.problem if isinstance(decoder, NeuralDecoder) else problem
    if (own.pools, own.items) != (problem.pools, problem.items):
        raise ValueError(
            f"the claimed design has {problem.pools} pools and {problem.items} items, the decoder's "
            f"{own.pools} and {own.items}: claim a design of the same size."
        )
    y = _probes(own, instances, generator) if counts is None else counts
    found = decoder.bind(own)(y)
    share = _explained(own, y, found)
    reports = [
        report_on(_evidence(decoder, own, y, found.x, name).cpu(), problem.design, name, len(y), share)
        for name in names
    ]
    return max(reports, key=lambda report: report.separation)


def _estimators(estimator: str, decoder: Decoder) -> tuple[str, ...]:
    """The estimators to try: the one that was named, or those that apply to the decoder."""
    if estimator not in (BEST, *ESTIMATORS):
        raise ValueError(f"estimator={estimator!r} is not known: give one of {', '.join((BEST, *ESTIMATORS))}.")
    if isinstance(decoder, NeuralDecoder):
        return ESTIMATORS if estimator == BEST else (estimator,)
    if estimator not in (BEST, "regression"):
        raise ValueError(f"estimator={estimator!r} needs a network's gradients: use estimator='regression'.")
    return ("regression",)


def _explained(problem: Problem, y: Tensor, found: Decoded) -> float | None:
    """The share of the reports' variance that a decoder's answers explain; None where it answers no amounts."""
    if problem.loads is None:
        return explained_share(y, found.x, problem.design.matrix.to(y.device))
    if found.amounts is None:
        return None
    return _share(scaled_totals(problem, problem.loads, y).value, _usual_totals(problem, problem.loads, found.amounts))


def _usual_totals(problem: Problem, loads: Loads, amounts: Tensor) -> Tensor:
    """The scaled totals that pools report without an error."""
    sizes = problem.design.pool_sizes.to(amounts.device, torch.float64)
    return scaled_totals(problem, loads, usual_reports(problem.noise, problem.design.count(amounts), sizes)).value


def _evidence(
    decoder: Decoder, problem: Problem, y: Tensor, calls: Tensor, estimator: str
) -> Float64[Tensor, "pools items"]:
    """One number for each entry of A, made by one of the estimators."""
    if isinstance(decoder, NeuralDecoder) and estimator != "regression":
        # As trained: which instances a refining network tries again has no derivative.
        network, squares = decoder.as_trained().network, estimator == "least_squares"
        if problem.loads is not None:
            return amounts_evidence(network, problem, y, calls, least_squares=squares)
        return jacobian_evidence(network, y, least_squares=squares)
    if problem.loads is not None:
        empty = _usual_totals(
            problem, problem.loads, torch.zeros(1, problem.items, dtype=torch.float64, device=y.device)
        )
        return regression_evidence(scaled_totals(problem, problem.loads, y).value - empty, calls)
    return regression_evidence(y, calls)


def _probes(problem: Problem, instances: int, generator: Generator | None) -> Tensor:
    """Counts to probe a decoder at."""
    if generator is None:
        raise ValueError("generator is missing: give one to draw instances from, or give counts.")
    return problem.simulate(whole("instances", instances, least=1), generator=generator).y


def report_on(
    evidence: Float64[Tensor, "pools items"],
    claimed: Design,
    estimator: str,
    instances: int,
    explained: float | None = None,
) -> VerificationReport:
    """Cluster the evidence and set it beside the claim."""
    split, centroids = two_means(evidence.flatten())
    recovered = (evidence > split).to(torch.uint8)
    nearest = torch.where(recovered == 1, centroids[1], centroids[0])
    spread = float((evidence - nearest).square().mean().sqrt())
    return VerificationReport(estimator, instances, claimed, evidence, recovered, centroids, split, spread, explained)
