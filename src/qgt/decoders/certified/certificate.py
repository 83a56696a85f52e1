"""Checking proofs without the solver that made them: plain sums, no search, no optimisation.

A result makes claims about each instance, and its certificate is the evidence for them:

    optimal      the answer is the most probable x
    listed       every x more than 1/odds as probable as the answer is among the alternatives
    impossible   no x explains the counts

A certificate is a list of leaves, sets of x with multipliers of the pools. Claims hold if the leaves hold every x
together (`leaves`), and each is closed (`closing`): below the answer's cost, below that cost plus log odds, or below
everything.
Probabilities are not believed either: no answer may be given more weight than it has among those listed.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float64
from numpy.typing import NDArray
from torch import Tensor

from qgt.decoders.certified.closing import closed
from qgt.decoders.certified.leaves import Costs, Leaves, Shared, hold_every_x
from qgt.decoders.contract import check_counts
from qgt.decoders.envelopes import Floats
from qgt.decoders.results import Answers, Decoded, Proof, Status
from qgt.model.prior import FactoredPrior
from qgt.model.problem import Problem

CLOSE = 2e-6  # an x that is more probable by a factor of 1.000002 counts as equally probable
TOO_MUCH = 1e-6  # of a probability, by which it may exceed what the listed answers allow


@dataclass(frozen=True, eq=False)
class Claims:
    """Which claims a certificate shows to hold, instance by instance.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.1))
        >>> y = torch.tensor([[1.0, 1.0], [0.0, 2.0]], dtype=torch.float64)
        >>> claims = qgt.check_claims(problem, y, qgt.Certified().bind(problem)(y))
        >>> claims.optimal, claims.listed, claims.impossible
        (tensor([ True, False]), tensor([ True, False]), tensor([False,  True]))
    """

    optimal: Bool[Tensor, " instances"]
    listed: Bool[Tensor, " instances"]
    impossible: Bool[Tensor, " instances"]
    sober: Bool[Tensor, " instances"]  # no answer has more probability than it has among those listed
    weight: Float64[Tensor, " instances"]  # of the answer among those listed: no confidence may exceed it


def check_claims(problem: Problem, y: Float64[Tensor, "instances pools"], result: Decoded) -> Claims:
    """Which claims about each instance its certificate shows; see `Claims`.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.1))
        >>> y = torch.tensor([[1.0, 1.0]], dtype=torch.float64)
        >>> check_claims(problem, y, qgt.Certified(odds=1.0).bind(problem)(y)).optimal
        tensor([True])
    """
    proof, answers = result.proof, result.evidence.alternatives
    if proof is None or answers is None:
        raise ValueError("the result has no certificates: decode with Certified(certificates=True).")
    if not 1 <= proof.odds < math.inf:
        raise ValueError(f"the proof's odds={proof.odds} are not valid: they must be finite, and 1 or more.")
    if not isinstance(problem.prior, FactoredPrior):
        raise ValueError(f"{problem.prior} is not a sum over items and groups: it has no `costs`.")
    y = check_counts(problem, y, missing=True).cpu()
    _refuse_other_shapes(problem, y, result, proof)
    factors = problem.factors(y)
    shared = Shared.of(factors)
    rows = [
        _claims(
            Costs.of(shared, factors, i),
            Status(status),
            result.x[i].cpu().numpy(),
            answers.of_instance(i),
            proof.of_instance(i),
        )
        for i, status in enumerate(result.status.tolist())
    ]
    table = torch.tensor(rows, dtype=torch.float64).view(len(y), 5)
    optimal, listed, impossible, sober, weight = table.unbind(1)
    return Claims(optimal.bool(), listed.bool(), impossible.bool(), sober.bool(), weight)


def check_certificate(
    problem: Problem, y: Float64[Tensor, "instances pools"], result: Decoded
) -> Bool[Tensor, " instances"]:
    """Whether everything that is claimed of each instance is shown by its certificate.

    PROVED claims that the answer is optimal; a list that says it is complete, that it is; INFEASIBLE, that no x is
    possible; a confidence or a probability, that the answer has at least that weight among those listed. An instance
    whose status claims no proof has none, nor has one that HiGHS proved (`evidence.by_highs`), which leaves nothing to
    check.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.1))
        >>> y = torch.tensor([[1.0, 1.0]], dtype=torch.float64)
        >>> result = qgt.Certified().bind(problem)(y)
        >>> check_certificate(problem, y, result), check_certificate(problem, y + 1, result)
        (tensor([True]), tensor([False]))
    """
    claims, evidence, status = check_claims(problem, y, result), result.evidence, result.status.cpu()
    holds = (status == Status.PROVED) & claims.optimal & claims.sober
    if evidence.by_highs is not None:
        holds &= ~evidence.by_highs.cpu()  # it claims no certificate
    if evidence.complete is not None:
        holds &= claims.listed | ~evidence.complete.cpu()
    if evidence.confidence is not None:
        holds &= evidence.confidence.cpu() <= claims.weight + TOO_MUCH
    return holds | ((status == Status.INFEASIBLE) & claims.impossible)


def _refuse_other_shapes(problem: Problem, y: Tensor, result: Decoded, proof: Proof) -> None:
    """Raise a ValueError where the parts of a result do not belong together."""
    answers = result.evidence.alternatives
    assert answers is not None  # as `check_claims` saw
    lengths = {"x": len(result.x), "status": len(result.status), "alternatives": len(answers.spans)}
    for name, length in {**lengths, "proof": len(proof.spans)}.items():
        if length != len(y):
            raise ValueError(f"the result's {name} has {length} instances, but y has {len(y)}: give its own counts.")
    widths = {"x": (result.x, problem.items), "alternatives": (answers.x, problem.items)}
    widths |= {"proof.fixed": (proof.fixed, problem.items), "proof.pi": (proof.pi, problem.pools)}
    widths |= {"proof.shares": (proof.shares, problem.design.transfers)}
    for name, (tensor, width) in widths.items():
        if name == "proof.shares" and tensor.dim() == 2 and tensor.shape[1] == 0:
            continue  # a proof may do without
        if tensor.dim() != 2 or tensor.shape[1] != width:
            raise ValueError(f"the result's {name} has shape {tuple(tensor.shape)}: it belongs to another problem.")
    if bool((result.status > max(Status)).any()):
        raise ValueError("the result holds a status that there is not.")


def _claims(
    costs: Costs, status: Status, x: NDArray[np.uint8], answers: Answers, proof: Proof
) -> tuple[bool, bool, bool, bool, float]:
    """Whether an answer is optimal, its list complete, its counts impossible, its list sober; and its weight."""
    leaves = Leaves.of(proof)
    if status == Status.INFEASIBLE:
        none = np.zeros((0, len(x)), dtype=np.uint8)
        shown = not costs.possible or (  # a pool whose count is impossible needs no tree
            hold_every_x(costs.shared, leaves) and closed(costs, costs.more_than_any, none, leaves).all()
        )
        return False, False, bool(shown), True, 0.0
    cost, given = float(costs.of_x(x[None])[0]), answers.x.cpu().numpy()
    others = costs.of_x(given)
    if not math.isfinite(cost):
        return False, False, False, False, 0.0
    weight, weights = _weights(cost, x, given, others)
    sober = bool((answers.probability.cpu().numpy() <= weights + TOO_MUCH).all())
    better = bool((others < cost - CLOSE).any())  # an answer that is listed and more probable
    if status != Status.PROVED or better or not hold_every_x(costs.shared, leaves):
        return False, False, False, sober, weight
    listed = np.concatenate([x[None], given])
    if closed(costs, cost + math.log(proof.odds) - CLOSE, listed, leaves).all():
        return True, True, False, sober, weight
    return bool(closed(costs, cost - CLOSE, listed, leaves).all()), False, False, sober, weight


def _weights(cost: float, x: NDArray[np.uint8], given: NDArray[np.uint8], others: Floats) -> tuple[float, Floats]:
    """The probability of the answer, and of those listed, if these were all there are, each counted once."""
    different = {row.tobytes(): float(other) for row, other in zip(given, others, strict=True)}
    least = min([cost, *different.values()])  # the sums stay finite even where an answer is far more probable
    total = math.fsum(math.exp(least - each) for each in {**different, x.tobytes(): cost}.values())
    return math.exp(least - cost) / total, np.exp(least - others) / total
