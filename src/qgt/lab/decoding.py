"""Decoding a sheet of counts, in parts, so that a person can see how far it is."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from jaxtyping import Float64
from torch import Tensor

from qgt.decoders.contract import BoundDecoder, Decoder
from qgt.decoders.results import Decoded
from qgt.lab.accounts import Account, accounts, numbers
from qgt.model.problem import Problem

OnProgress = Callable[[int, int], None]  # instances done, and of how many
PART, PART_ON_GPU = 128, 2**15  # instances decoded together: smaller parts lose speed, larger ones say nothing long


@dataclass(frozen=True, eq=False)
class DecodedSheet:
    """A sheet of counts, what the decoder made of it, and an account of every instance."""

    problem: Problem
    y: Float64[Tensor, "instances pools"]
    names: Sequence[str]
    result: Decoded
    accounts: Sequence[Account]


def decode_sheet(
    problem: Problem,
    y: Float64[Tensor, "instances pools"],
    names: Sequence[str] | None,
    decoder: Decoder,
    *,
    defectives: int | None = None,
    device: str = "cpu",
    on_progress: OnProgress | None = None,
) -> DecodedSheet:
    """Decode the counts of a sheet and account for every instance.

    Args:
        problem: The problem that the counts belong to.
        y: The counts, as `qgt.lab.sheets.read_counts` reads them.
        names: The instances' names; None numbers them from 1.
        decoder: Any decoder that supports the problem.
        defectives: The number of defectives of every instance, where it is known and the decoder takes it.
        device: Where to decode; the result is on the CPU.
        on_progress: Called after each part with the number of instances done, and of all.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.05))
        >>> y = torch.tensor([[0.0, 1.0], [0.0, 2.0]], dtype=torch.float64)
        >>> sheet = decode_sheet(problem, y, ["a", "b"], qgt.Certified())
        >>> [(one.name, str(one.verdict)) for one in sheet.accounts]
        [('a', 'certain'), ('b', 'impossible')]
    """
    bound = decoder.bind(problem)
    if defectives is not None and not (isinstance(bound, BoundDecoder) and bound.takes_defectives):
        raise ValueError(f"defectives={defectives} was given, but this decoder cannot use it: leave it out.")
    parts, done = [], 0
    for part in y.split(PART if device == "cpu" else PART_ON_GPU):
        here = part.to(device)
        told = isinstance(bound, BoundDecoder) and defectives is not None
        found = bound(here, defectives=defectives) if told else bound(here)  # type: ignore[call-arg]
        parts.append(_on_cpu(found))
        done += len(part)
        if on_progress is not None:
            on_progress(done, len(y))
    result = Decoded.joined(parts)
    names = numbers(len(y)) if names is None else names
    return DecodedSheet(problem, y, names, result, accounts(problem, y, names, result))


def _on_cpu(part: Any) -> Any:
    """A result, or a part of one, with its tensors on the CPU."""
    if isinstance(part, Tensor):
        return part.cpu()
    if not dataclasses.is_dataclass(part) or isinstance(part, type):
        return part
    return dataclasses.replace(part, **{f.name: _on_cpu(getattr(part, f.name)) for f in dataclasses.fields(part)})
