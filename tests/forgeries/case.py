"""One honest certificate, and ways to change its parts."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor

from forgeries.truth import Truth
from qgt.decoders.results import Answers, Decoded, Proof, Spans, Status
from qgt.model.problem import Problem


@dataclass(frozen=True, eq=False)
class Case:
    """An honest result for one instance, what is true of it, and results from which parts can be taken."""

    problem: Problem
    y: Tensor  # (1, pools)
    result: Decoded
    truth: Truth
    other: Decoded  # for another instance of the problem
    brief: Decoded  # for this instance, with a proof of odds 1 or of a search that ran out of time


Forger = Callable[[Case, Generator], Decoded | None]  # None where the case does not allow it


def with_leaves(result: Decoded, keep: Tensor | None = None, **columns: Tensor) -> Decoded:
    """One instance's result with some of its leaves, or with other columns."""
    proof = result.proof
    assert proof is not None
    names = ("fixed", "least", "most", "pi", "shares")
    table = {name: columns.get(name, getattr(proof, name)) for name in names}
    if len(table["shares"]) != len(table["least"]):  # leaves made anew share out nothing
        table["shares"] = torch.zeros(len(table["least"]), proof.shares.shape[1])
    if keep is not None:
        table = {name: column[keep] for name, column in table.items()}
    made = Proof(proof.odds, Spans(torch.tensor([len(table["least"])])), **table)
    return replace(result, proof=made)


def with_answers(result: Decoded, x: Tensor, probability: Tensor) -> Decoded:
    """One instance's result with other answers listed."""
    listed = Answers(Spans(torch.tensor([len(x)])), x, torch.zeros(len(x), dtype=torch.float64), probability)
    return replace(result, evidence=replace(result.evidence, alternatives=listed))


def with_evidence(result: Decoded, *, complete: bool | None = None, confidence: float | None = None) -> Decoded:
    """One instance's result with other claims."""
    evidence = result.evidence
    if complete is not None:
        evidence = replace(evidence, complete=torch.tensor([complete]))
    if confidence is not None:
        evidence = replace(evidence, confidence=torch.tensor([confidence], dtype=torch.float64))
    return replace(result, evidence=evidence)


def claiming(result: Decoded, status: Status) -> Decoded:
    """One instance's result with another status."""
    return replace(result, status=torch.tensor([int(status)], dtype=torch.uint8))


def listed(result: Decoded) -> Answers:
    """The answers listed."""
    assert result.evidence.alternatives is not None
    return result.evidence.alternatives


def proof_of(result: Decoded) -> Proof:
    """The proof."""
    assert result.proof is not None
    return result.proof


def one_of(size: int, generator: Generator) -> int:
    """A number from 0 to size - 1."""
    return int(torch.randint(size, (), generator=generator))


def answer_only(result: Decoded) -> Decoded:
    """The result with no word on probabilities, so that only the answer is claimed."""
    silent = replace(result, evidence=replace(result.evidence, confidence=None, complete=None))
    return with_answers(silent, listed(result).x, torch.zeros(len(listed(result).x), dtype=torch.float64))
