"""Copies and categories through their parts: how a decoder of 0/1 items decodes items of other values.

`qgt.model.categories` says how a problem whose items have copies or categories is one of 0/1 items, its *parts*. A
decoder that takes groups of items decodes that problem, and its answers are read back here: each x of parts is one x of
values, with the same probability, so that proofs, bounds and confidence need no change.
"""

from dataclasses import replace

from torch import Tensor

from qgt.decoders.contract import BoundDecoder, Decoder
from qgt.decoders.results import Answers, Decoded
from qgt.model.categories import Categories, Copies
from qgt.model.problem import Problem


def through_parts(decoder: Decoder, problem: Problem, *, probabilities: bool = True) -> BoundDecoder:
    """The decoder of a problem with copies or categories, by its parts.

    Args:
        decoder: One that supports the problem of the parts.
        problem: The problem.
        probabilities: Whether the decoder's scores are probabilities; others only rank.
    """
    values, decode_parts = problem.values, decoder.bind(problem.in_parts)
    assert values is not None  # as the caller saw

    def decode(y: Tensor, defectives: Tensor | None) -> Decoded:
        return from_parts(values, decode_parts(values.part_reports(y)), probabilities=probabilities)

    return BoundDecoder(problem, decode, takes_missing=True)


def from_parts(values: Categories | Copies, result: Decoded, *, probabilities: bool = True) -> Decoded:
    """A result of parts as one of values; its proof remains one of the parts.

    Example:
        >>> import torch, qgt
        >>> parts = qgt.Decoded(torch.tensor([[1, 0, 1, 0]], dtype=torch.uint8), torch.zeros(1, dtype=torch.uint8))
        >>> from_parts(qgt.Copies(frequency=0.1, ploidy=2), parts).x
        tensor([[2, 0]], dtype=torch.uint8)
    """
    evidence, scores, each = result.evidence, result.scores, None
    if scores is not None and not probabilities:
        scores = scores.unflatten(1, (values.levels, scores.shape[1] // values.levels)).amax(1)
    elif scores is not None:
        each = values.value_probabilities(scores)
        scores = 1 - each[:, :, 0]
    known = None if evidence.marginals is None else 1 - values.value_probabilities(evidence.marginals)[:, :, 0]
    unsettled = evidence.unsettled
    if unsettled is not None:
        unsettled = unsettled.unflatten(1, (values.levels, unsettled.shape[1] // values.levels)).any(1)
    answers = evidence.alternatives
    if answers is not None:
        answers = Answers(answers.spans, values.from_parts(answers.x), answers.log_joint, answers.probability)
    evidence = replace(evidence, marginals=known, values=each, unsettled=unsettled, alternatives=answers)
    return replace(result, x=values.from_parts(result.x), scores=scores, evidence=evidence)


def to_parts(values: Categories | Copies, result: Decoded) -> Decoded:
    """The other way round, as far as a checker of proofs needs it: answers, status, confidence and proof."""
    evidence, answers = result.evidence, result.evidence.alternatives
    if answers is not None:
        answers = Answers(answers.spans, values.to_parts(answers.x), answers.log_joint, answers.probability)
    kept = replace(evidence, marginals=None, values=None, unsettled=None, alternatives=answers)
    return replace(result, x=values.to_parts(result.x), scores=None, evidence=kept)
