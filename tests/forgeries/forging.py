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

from forgeries.answers import ABOUT_LOG_JOINT, ANSWERS
from forgeries.case import Case, Forger
from forgeries.proofs import PROOFS
from forgeries.truth import FEW_ITEMS, fails_by_trying, in_leaves, leaves_out
from qgt.decoders.checker import check_certificate
from qgt.decoders.results import Decoded, Evidence, Status
from qgt.model.problem import Problem

WITNESSES = 40  # x looked at, to see whether some lies in no leaf


class Forged(NamedTuple):
    """A forgery: its kind, the certificate, and why it should be refused."""

    kind: str
    result: Decoded
    why: str


KINDS: dict[str, Forger] = {**ANSWERS, **PROOFS}


def forged(case: Case, generator: Generator, *, repeats: int = 1) -> Iterator[Forged]:
    """Forgeries of each kind that this case allows: each kind is tried so often, and none comes twice."""
    witnesses, seen = witnesses_of(case, generator), set[tuple[str, bytes]]()
    for kind, forge in (pair for _ in range(repeats) for pair in KINDS.items()):
        changed = forge(case, generator)
        if changed is not None and kind not in ABOUT_LOG_JOINT:
            changed = replace(changed, evidence=replace(changed.evidence, log_joint=None))
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
    told = evidence.complete, evidence.confidence, evidence.log_joint
    parts += [torch.zeros(0) if part is None else part for part in told]
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
    if case.problem.items <= FEW_ITEMS:
        return "the proof does not show it" if fails_by_trying(case.truth, changed) else None
    return "an x is in no leaf" if len(witnesses) and leaves_out(case.problem, proof, witnesses) else None


def accepted(problem: Problem, y: Tensor, results: list[Decoded]) -> list[bool]:
    """Which of several certificates for one instance the checker accepts; those that it refuses to read are not."""
    together: dict[tuple[object, ...], list[int]] = {}
    for i, result in enumerate(results):
        together.setdefault(_form(result), []).append(i)
    verdicts = [False] * len(results)
    for some in together.values():
        told = [_told(problem, y, results[i]) for i in some]
        for i, holds in zip(some, _verdicts(problem, y, told), strict=True):
            verdicts[i] = holds
    return verdicts


def _verdicts(problem: Problem, y: Tensor, results: list[Decoded]) -> list[bool]:
    """All together, or one by one where the checker refuses to read some of them."""
    try:
        return check_certificate(problem, y.expand(len(results), -1), Decoded.joined(results)).tolist()
    except ValueError:
        return [False] if len(results) == 1 else [_verdicts(problem, y, [one])[0] for one in results]


def _form(result: Decoded) -> tuple[object, ...]:
    """The same for results that can be put together."""
    proof, answers = result.proof, result.evidence.alternatives
    assert proof is not None and answers is not None
    kinds = [part.dtype for part in (result.x, answers.x, proof.fixed, proof.least, proof.most, proof.pi, proof.shares)]
    return proof.odds, proof.shares.shape[1], *kinds


def _told(problem: Problem, y: Tensor, result: Decoded) -> Decoded:
    """One instance's result in which everything that is judged is told, so that results can be put together.

    No confidence claims nothing, and so does one of 0. Where no log joint is told it is the right one, so that a
    certificate is refused for what was forged.
    """
    evidence, none = result.evidence, torch.zeros(1, dtype=torch.float64)
    log_joint = evidence.log_joint
    if log_joint is None:
        log_joint = problem.log_joint(result.x.clamp(0, 1).to(torch.uint8), y)
    told = Evidence(
        log_joint=log_joint,
        complete=torch.zeros(1, dtype=torch.bool) if evidence.complete is None else evidence.complete,
        confidence=none if evidence.confidence is None else evidence.confidence,
        alternatives=evidence.alternatives,
    )
    return replace(result, scores=None, evidence=told)


def witnesses_of(case: Case, generator: Generator) -> Tensor:
    """Some x of honest leaves, of which a forgery may leave some out."""
    proof = case.result.proof
    assert proof is not None
    return in_leaves(case.problem, proof, WITNESSES, generator)
