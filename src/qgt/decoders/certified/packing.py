"""Proofs made small: multipliers as few bits as still prove, and tables compressed.

A leaf is closed by its multipliers, whatever they are, so they may be rounded as long as it stays closed: most do with
multiples of a quarter, and what does not keeps its exact numbers. Tables go column by column through xz, which finds
what neighbouring leaves have in common.
"""

import lzma
import math
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from qgt.decoders.certified.certificate import CLOSE
from qgt.decoders.certified.closing import closed
from qgt.decoders.certified.leaves import Costs, Leaves, Shared
from qgt.decoders.envelopes import Floats
from qgt.decoders.results import Decoded, Proof, Spans, Status
from qgt.model.factors import Factors

STEPS = (2, 3, 4, 6, 8, 12, 16, 24)  # multiples of a half, a third, a quarter, ...
Kind = TypeVar("Kind", bound=np.generic)
EXACT = 0  # in the place of a step: the multipliers as they are
LARGEST = 2**30  # bytes that a table may take unpacked


class Packed(NamedTuple):
    """A proof as bytes, with what is needed to read them."""

    ends: NDArray[np.int64]
    tables: dict[str, bytes]


def pack(factors: Factors, result: Decoded) -> Packed:
    """Round the multipliers of a result's proof, and compress it; what claims nothing needs no leaves."""
    assert result.proof is not None and result.evidence.alternatives is not None  # as the caller saw
    shared, parts, steps = Shared.of(factors), [], []
    claims = (result.status == Status.PROVED) | (result.status == Status.INFEASIBLE)
    if result.evidence.by_highs is not None:
        claims = claims & ~result.evidence.by_highs
    for i, claimed in enumerate(claims.tolist()):
        leaves = Leaves.of(result.proof.of_instance(i))
        if not claimed:
            leaves = leaves.pick(np.zeros(len(leaves.least), dtype=bool))
        order = np.lexsort(np.vstack([leaves.fixed.T[::-1], leaves.least]))  # like beside like compresses best
        parts.append(leaves.pick(order))
        steps.append(_coarsest(Costs.of(shared, factors, i), result, i, parts[-1]))
    numbers = np.array([len(part.least) for part in parts], dtype=np.int64)
    nothing = Leaves.of(result.proof.pick(torch.zeros(0, dtype=torch.int64)))
    fixed, least, most, pi, shares = (np.concatenate(columns) for columns in zip(nothing, *parts, strict=True))
    step = np.concatenate([np.zeros(0, dtype=np.uint8), *steps])
    # Numbers of one step lie together: mixed with others they compress worse.
    some = np.argsort(step, kind="stable")[(step == EXACT).sum() :]
    rounded, shared = (np.rint(part[some] * step[some, None]).astype(np.int16) for part in (pi, shares))
    tables = {
        "fixed": fixed.astype(np.int8),
        "least": least.astype(np.int32),
        "most": most.astype(np.int32),
        "step": step,
        "pi": np.ascontiguousarray(rounded.T),
        "exact": pi[step == EXACT].astype(np.float32),
        "shares": np.ascontiguousarray(shared.T),
        "exact_shares": shares[step == EXACT].astype(np.float32),
    }
    return Packed(numbers.cumsum(), {name: lzma.compress(table.tobytes()) for name, table in tables.items()})


def unpack(packed: Packed, *, odds: float, items: int, pools: int, memberships: int) -> Proof:
    """The proof that was packed, up to rounding; a ValueError where the bytes are not one.

    It has shares of that many memberships, which may be 0.
    """
    leaves = int(packed.ends[-1]) if len(packed.ends) else 0
    step = _table(packed, "step", np.uint8, leaves)
    pi = _multipliers(packed, "pi", "exact", step, pools)
    shares = _multipliers(packed, "shares", "exact_shares", step, memberships)
    least, most = (
        torch.from_numpy(_table(packed, name, np.int32, leaves).astype(np.int64)) for name in ("least", "most")
    )
    fixed = torch.from_numpy(_table(packed, "fixed", np.int8, leaves * items).reshape(leaves, items).copy())
    spans = Spans(torch.from_numpy(packed.ends))
    return Proof(odds, spans, fixed, least, most, torch.from_numpy(pi), torch.from_numpy(shares))


def _multipliers(packed: Packed, name: str, exact: str, step: NDArray[np.uint8], width: int) -> NDArray[np.float32]:
    """Rounded multipliers, and those that are kept as they were: (leaves, width)."""
    number = int((step == EXACT).sum())
    order = np.argsort(step, kind="stable")  # the exact ones first
    found = np.zeros((len(step), width), dtype=np.float32)
    found[order[:number]] = _table(packed, exact, np.float32, number * width).reshape(number, width)
    some = order[number:]
    rounded = _table(packed, name, np.int16, len(some) * width).reshape(width, len(some)).T
    found[some] = rounded / step[some, None].astype(np.float32)
    return found


def as_tensor(data: bytes) -> Tensor:
    """Bytes as a tensor, for files that hold tensors."""
    return torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.zeros(0, dtype=torch.uint8)


def _coarsest(costs: Costs, result: Decoded, i: int, leaves: Leaves) -> NDArray[np.uint8]:
    """For each leaf the largest step of multipliers at which it is still closed."""
    x, answers = result.x[i].cpu().numpy(), result.evidence.alternatives
    assert answers is not None and result.proof is not None
    step = np.full(len(leaves.least), EXACT, dtype=np.uint8)
    listed = np.zeros((0, len(x)), dtype=np.uint8)
    limit = costs.more_than_any
    if int(result.status[i]) == Status.PROVED:
        complete = result.evidence.complete is not None and bool(result.evidence.complete[i])
        listed = np.concatenate([x[None], answers.of_instance(i).x.cpu().numpy()])
        limit = float(costs.of_x(x[None])[0]) + (math.log(result.proof.odds) if complete else 0.0) - CLOSE
    if not costs.possible or not math.isfinite(limit):
        return step
    for fineness in STEPS:
        small = [(np.abs(part * fineness) < 2**15 - 1).all(1) for part in (leaves.pi, leaves.shares)]
        left = np.flatnonzero((step == EXACT) & small[0] & small[1])
        some = leaves.pick(left)
        some = some._replace(pi=_rounded(some.pi, fineness), shares=_rounded(some.shares, fineness))
        step[left[closed(costs, limit, listed, some)]] = fineness
    return step


def _rounded(values: Floats, fineness: int) -> Floats:
    """Multiples of 1 / fineness, as they are read again."""
    return (np.rint(values * fineness) / np.float32(fineness)).astype(np.float32).astype(np.float64)


def _table(packed: Packed, name: str, kind: type[Kind], length: int) -> NDArray[Kind]:
    """One table, of as many numbers as it must have."""
    return np.frombuffer(_unpacked(packed.tables[name], length * np.dtype(kind).itemsize), kind)


def _unpacked(data: bytes, size: int) -> bytes:
    """Decompress no more than is asked for."""
    if size > LARGEST:
        raise ValueError(f"a table of {size:,} bytes is more than a proof has")
    try:
        unpacking = lzma.LZMADecompressor(memlimit=2**28)
        plain = unpacking.decompress(data, max_length=size + 1)
    except (lzma.LZMAError, EOFError) as error:
        raise ValueError(f"a table is damaged ({error})") from error
    if len(plain) != size or not unpacking.eof:
        raise ValueError("a table does not have the size it should")
    return plain
