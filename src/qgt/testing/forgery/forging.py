"""Forged certificates: honest ones, changed in every way that might deceive a checker.

`KINDS` names the ways. A changed certificate is a forgery only if it claims what is false or does not show what it
claims; `forged` keeps those, by the oracle of `truth`. A checker must refuse them all.
"""

import hashlib
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from qgt.decoders.checker import check_certificate
from qgt.decoders.results import Decoded, Status
from qgt.model.problem import Problem
from qgt.testing.forgery.answers import ANSWERS
from qgt.testing.forgery.case import Case, Forger
from qgt.testing.forgery.proofs import PROOFS
from qgt.testing.forgery.truth import FEW_ITEMS, fails_by_trying, has_steps, in_leaves, leaves_out

WITNESSES = 40  # x looked at, to see whether some lies in no leaf


class Forged(NamedTuple):
    """A forgery: its kind, the certificate, and why it should be refused."""

    kind: str
    result: Decoded
    why: str


KINDS: dict[str, Forger] = {**ANSWERS, **PROOFS}


def forged(case: Case, generator: Generator, *, repeats: int = 1) -> Iterator[Forged]:
    """Forgeries of each kind that this case allows: each kind is tried so often, and none comes twice.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.1))
        >>> y = torch.tensor([[1.0, 1.0]], dtype=torch.float64)
        >>> from qgt.testing.forgery.truth import Truth
        >>> honest = qgt.Certified().bind(problem)(y)
        >>> case = Case(problem, y, honest, Truth.by_trying(problem, y), honest, honest)
        >>> made = list(forged(case, torch.Generator().manual_seed(0)))
        >>> len(made) > 10, any(accepted(problem, y, [one.result for one in made]))
        (True, False)
    """
    witnesses, seen = witnesses_of(case, generator), set[tuple[str, bytes]]()
    for kind, forge in (pair for _ in range(repeats) for pair in KINDS.items()):
        changed = forge(case, generator)
        if changed is None or (name := (kind, _digest(changed))) in seen:
            continue
        seen.add(name)
        why = why_false(case, changed, witnesses)
        if why is not None:
            yield Forged(kind, changed, why)


def _digest(result: Decoded) -> bytes:
    """The same for two results only if they claim and show the same."""
    proof, evidence = result.proof, result.evidence
    assert proof is not None and evidence.alternatives is not None
    odds = torch.tensor(proof.odds, dtype=torch.float64)
    parts = [result.x, result.status, proof.fixed, proof.least, proof.most, proof.pi, proof.shares, odds]
    parts += [evidence.alternatives.x, evidence.alternatives.probability]
    parts += [torch.zeros(0) if part is None else part for part in (evidence.complete, evidence.confidence)]
    return hashlib.sha256(b"|".join(part.numpy().tobytes() for part in parts)).digest()


def why_false(case: Case, changed: Decoded, witnesses: Tensor) -> str | None:
    """Why a changed certificate is a forgery; None where it claims nothing, or shows what it claims."""
    proof = changed.proof
    assert proof is not None
    if int(changed.status[0]) not in (Status.PROVED, Status.INFEASIBLE):
        return None
    if not 1 <= proof.odds < math.inf:
        return "the odds ask nothing"
    refuted = case.truth.refutes(changed)
    if refuted is not None:
        return refuted
    if int(changed.status[0]) == Status.INFEASIBLE and not bool(case.problem.explainable(case.y)[0]):
        return None
    if case.problem.items <= FEW_ITEMS and not has_steps(case.problem):
        return "the proof does not show it" if fails_by_trying(case.truth, changed) else None
    return "an x is in no leaf" if len(witnesses) and leaves_out(case.problem, proof, witnesses) else None


def accepted(problem: Problem, y: Tensor, results: list[Decoded]) -> list[bool]:
    """Which of several certificates for one instance the checker accepts; those that it refuses to read are not."""
    verdicts = [False] * len(results)
    by_odds: dict[float, list[int]] = {}
    for i, result in enumerate(results):
        assert result.proof is not None
        by_odds.setdefault(result.proof.odds, []).append(i)
    for some in by_odds.values():
        try:
            found = check_certificate(problem, y.expand(len(some), -1), _joined([results[i] for i in some]))
        except ValueError:
            continue
        for i, holds in zip(some, found.tolist(), strict=True):
            verdicts[i] = holds
    return verdicts


def _joined(results: list[Decoded]) -> Decoded:
    """Results as one; what only some of them tell is told of none."""
    told = [replace(one, scores=None, evidence=replace(one.evidence, fit=None, iterations=None)) for one in results]
    unknown = torch.zeros(1, dtype=torch.bool)
    for i, one in enumerate(told):  # no confidence claims nothing, and so does one of 0
        none = torch.zeros(1, dtype=torch.float64)
        evidence = one.evidence
        evidence = replace(
            evidence,
            confidence=none if evidence.confidence is None else evidence.confidence,
            complete=unknown if evidence.complete is None else evidence.complete,
        )
        told[i] = replace(one, evidence=evidence)
    return Decoded.joined(told)


def witnesses_of(case: Case, generator: Generator) -> Tensor:
    """Some x of honest leaves, of which a forgery may leave some out."""
    proof = case.result.proof
    assert proof is not None
    return in_leaves(case.problem, proof, WITNESSES, generator)
