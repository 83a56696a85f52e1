"""Certificates in files: what is claimed of each instance, and the leaves that show it.

One safetensors file holds the answers, the answers listed beside them and the packed leaves. Its header ties them to
what they are about: the fingerprint of the problem, and hashes of the counts and of the answers. Probabilities are not
stored: they follow from the answers listed, and are computed again on loading.

Leaves are packed, because proofs are long. A leaf is closed by its multipliers, whatever they are, so these may be
rounded as long as the checker still finds the leaf closed. Most leaves do with multiples of a quarter; the others keep
their exact numbers. Tables go column by column through xz, which finds what neighbouring leaves have in common.

A certificate of copies or categories is one of their parts (see `qgt.model.categories`). Where categories were proved
one by one, the file also has the answers and leaves of each category, under the names `block1.`, `block2.` and so on.

A file may come from anybody. It is never unpacked to more than RATIO times its own size (or ENOUGH bytes, where that is
more), so that a small file cannot ask for much memory.
"""

import hashlib
import json
import lzma
import math
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from jaxtyping import Float64
from numpy.typing import NDArray
from torch import Tensor

from qgt.arguments import positive
from qgt.decoders.checker import CHECKER_TOLERANCE, InstanceCosts, LeafTable, Shared, closed, refuse_bad_spans
from qgt.decoders.contract import check_counts
from qgt.decoders.parts import from_parts, to_parts
from qgt.decoders.results import Answers, Decoded, Evidence, Floats, Proof, Spans, Status
from qgt.files.store import replacing
from qgt.model.categories import Categories
from qgt.model.factors import Factors
from qgt.model.problem import Problem

CERTIFICATE_FORMAT = 4
FLAGS = ("status", "complete")
LEAF_TABLES = ("fixed", "least", "most", "step", "pi", "exact", "shares", "exact_shares")
LARGEST_CERTIFICATE = 2**31  # bytes of a file
MOST_UNPACKED = 512  # bytes unpacked for each byte of a file, at most; 8 to 83 in honest proofs of 100 to 20,000 items
ALWAYS_UNPACKED = 2**28  # bytes that any file may be unpacked to
NUMBERS_AT_A_TIME = 2**20  # numbers in one array at a time
DENOMINATORS = (2, 3, 4, 6, 8, 12, 16, 24)  # multiples of a half, a third, a quarter, ...
EXACTLY = 0  # in the place of a step: the multipliers as they are
Kind = TypeVar("Kind", bound=np.generic)
Counts = Float64[Tensor, "instances pools"] | Float64[Tensor, "instances pools categories"]


def save_certificate(path: str | Path, problem: Problem, y: Counts, result: Decoded) -> None:
    """Write a result's answers, the answers beside them and their proofs, tied to the problem and to the counts.

    Example:
        >>> import tempfile, torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.1))
        >>> y = torch.tensor([[1.0, 1.0]], dtype=torch.float64)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_certificate(f"{folder}/proof", problem, y, qgt.Certified().bind(problem)(y))
        ...     load_certificate(f"{folder}/proof", problem, y).x
        tensor([[0, 1, 0]], dtype=torch.uint8)
    """
    with replacing(path) as temporary:
        write_certificate(temporary, problem, y, result)


def write_certificate(path: str | Path, problem: Problem, y: Counts, result: Decoded) -> None:
    """Write as `save_certificate` does, but straight to the path: for those who replace files themselves."""
    from safetensors.torch import save_file

    tensors, header = _certificate(problem, y, result)
    save_file(tensors, path, header)


def certificate_bytes(problem: Problem, y: Counts, result: Decoded) -> bytes:
    """The content of the file that `save_certificate` writes."""
    from safetensors.torch import save

    return save(*_certificate(problem, y, result))


def _certificate(problem: Problem, y: Tensor, result: Decoded) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors of a certificate's file, and its header."""
    y = check_counts(problem, y, missing=True).cpu()
    reports, parts = y, result
    if problem.values is not None:
        reports, parts = problem.values.part_reports(y), to_parts(problem.values, result)
    tensors = _tensors(problem.in_parts, reports, parts)
    assert result.proof is not None  # or it was refused
    header = {
        "format": CERTIFICATE_FORMAT,
        "odds": result.proof.odds,
        "shares": result.proof.shares.shape[1] > 0,
        "problem": problem.fingerprint,
        "counts": digest_of_table(y),
        "calls": digest_of_table(parts.x),
    }
    if result.blocks is not None:
        header["blocks"] = [one.proof is not None and one.proof.shares.shape[1] > 0 for one in result.blocks]
        for category, one in enumerate(_needed_blocks(problem, y, result), 1):
            alone = _tensors(problem.of_category(category), problem.reports_of(y, category), one.block, one.slack)
            tensors |= {f"block{category}.{name}": tensor for name, tensor in alone.items()}
    plain = {name: tensor.cpu().contiguous() for name, tensor in tensors.items()}
    return plain, {"certificate": json.dumps(header)}


def _tensors(problem: Problem, y: Tensor, result: Decoded, slack: Floats | None = None) -> dict[str, Tensor]:
    """The tensors of a result of 0/1 items; `slack` is that of `pack_proof`."""
    answers, proof = result.evidence.alternatives, result.proof
    if proof is None or answers is None:
        raise ValueError("the result has no certificates: decode with Certified(certificates=True).")
    packed = pack_proof(problem.factors(y), result, slack)
    complete = result.evidence.complete
    return {
        "x": result.x,
        "status": result.status,
        "complete": torch.zeros(len(y), dtype=torch.uint8) if complete is None else complete.to(torch.uint8),
        "answers.ends": answers.spans.ends,
        "answers.x": torch.from_numpy(np.packbits(answers.x.cpu().numpy(), axis=1)),
        "proof.ends": torch.from_numpy(packed.ends),
        **{f"proof.{name}": as_tensor(packed.tables[name]) for name in LEAF_TABLES},
    }


class _NeededBlock(NamedTuple):
    """The result of one category by itself, and how far beyond its best answer each instance's leaves must be closed.

    A combination may cost more than the best answers to its categories, where these name the same item.
    """

    block: Decoded
    slack: Floats  # (instances,), in nats


def _needed_blocks(problem: Problem, y: Tensor, result: Decoded) -> list[_NeededBlock]:
    """The categories of a result, each with the leaves that its claims need."""
    assert result.blocks is not None and result.proof is not None  # as the caller saw
    over = torch.zeros(len(y), dtype=torch.float64)
    for category, block in enumerate(result.blocks, 1):
        alone, reports = problem.of_category(category), problem.reports_of(y, category)
        mine = (result.x.cpu() == category).to(torch.uint8)
        over += alone.log_joint(block.x.cpu(), reports) - alone.log_joint(mine, reports)
    complete = result.evidence.complete
    listed = torch.zeros(len(y), dtype=torch.bool) if complete is None else complete.cpu()
    slack = over.nan_to_num(0.0, 0.0, 0.0).clamp(min=0.0) + torch.where(listed, math.log(result.proof.odds), 0.0)
    claimed = (result.status == Status.PROVED) | (result.status == Status.INFEASIBLE)
    used = claimed & (result.proof.spans.numbers == 0)  # others have leaves of all categories together
    made = []
    for block in result.blocks:
        status = torch.where(used.to(block.status.device), block.status, int(Status.TIME_LIMIT)).to(torch.uint8)
        made.append(_NeededBlock(replace(block, status=status), slack.numpy()))
    return made


def load_certificate(path: str | Path, problem: Problem, y: Counts) -> Decoded:
    """Read what `save_certificate` wrote; whether it proves anything is for `check_certificate`.

    A file that belongs to another problem or to other counts is refused by name.

    Example:
        >>> import tempfile, torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.1))
        >>> y = torch.tensor([[1.0, 1.0]], dtype=torch.float64)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_certificate(f"{folder}/proof", problem, y, qgt.Certified().bind(problem)(y))
        ...     qgt.check_certificate(problem, y, load_certificate(f"{folder}/proof", problem, y))
        tensor([True])
    """
    y = check_counts(problem, y, missing=True).cpu()
    header, tensors = _read(path)
    if header.get("problem") != problem.fingerprint:
        raise ValueError(f"{path}: is a certificate for another problem: check it against the one it was made for.")
    if header.get("counts") != digest_of_table(y):
        raise ValueError(f"{path}: is a certificate for other counts: check it against those it was made for.")
    values = problem.values
    try:
        odds = positive("odds", header.get("odds"))
        shares = _shares_of_blocks(header, problem)
        own, blocks = _apart(tensors, len(shares))
        each = Path(path).stat().st_size // (1 + len(shares))
        if values is None:
            return _decoded(own, problem, y, odds, header.get("shares") is True, each, header)
        reports = values.part_reports(y)
        whole = _decoded(own, problem.in_parts, reports, odds, header.get("shares") is True, each, header)
        if not blocks:
            return from_parts(values, whole)
        alone = [
            _decoded(block, problem.of_category(category), problem.reports_of(y, category), odds, shared, each)
            for category, (block, shared) in enumerate(zip(blocks, shares, strict=True), 1)
        ]
        return replace(from_parts(values, whole), blocks=tuple(alone))
    except (ValueError, OSError) as error:
        raise ValueError(f"{path}: is not a usable certificate: {error}.") from error


def _shares_of_blocks(header: dict[str, object], problem: Problem) -> list[bool]:
    """Whether the proof of each category has shares; empty where categories have no proofs of their own."""
    found = header.get("blocks", [])
    if not isinstance(found, list) or not all(isinstance(one, bool) for one in found):
        raise ValueError("its header says nothing usable of its blocks")
    if found and (not isinstance(problem.prior, Categories) or len(found) != problem.prior.levels):
        raise ValueError(f"it has {len(found)} blocks, and they are not the categories of this problem")
    return found


def _apart(tensors: dict[str, Tensor], blocks: int) -> tuple[dict[str, Tensor], list[dict[str, Tensor]]]:
    """The tensors of a certificate, and those of each of its blocks."""
    names = [f"block{category}." for category in range(1, blocks + 1)]
    each = [{key.removeprefix(name): one for key, one in tensors.items() if key.startswith(name)} for name in names]
    return {key: one for key, one in tensors.items() if not key.startswith(tuple(names))}, each


def _decoded(
    tensors: dict[str, Tensor],
    problem: Problem,
    y: Tensor,
    odds: float,
    shares: bool,
    file: int,
    header: dict[str, object] | None = None,
) -> Decoded:
    """The result of 0/1 items that some tensors are, from a file of so many bytes; a header has the digest of its x."""
    _refuse_malformed(tensors, problem, len(y))
    if header is not None and header.get("calls") != digest_of_table(tensors["x"]):
        raise ValueError("its answers were changed after it was made")
    packed = Packed(
        tensors["proof.ends"].numpy(), {name: tensors[f"proof.{name}"].numpy().tobytes() for name in LEAF_TABLES}
    )
    memberships = problem.design.transfers if shares else 0
    proof = unpack_proof(packed, odds, Sizes(problem.items, problem.pools, memberships), file)
    bits = np.unpackbits(tensors["answers.x"].numpy(), axis=1, count=problem.items)
    answers = _weighed(problem, y, Spans(tensors["answers.ends"]), torch.from_numpy(bits))
    complete = tensors["complete"].bool() & (odds > 1)
    return Decoded(tensors["x"], tensors["status"], None, Evidence(complete=complete, alternatives=answers), proof)


def digest_of_table(values: Tensor) -> str:
    """The SHA-256 of a table of numbers, the same on every machine; NaN marks a missing number."""
    table = values.cpu().numpy().astype("<f8") + 0.0  # no negative zeros
    table[np.isnan(table)] = np.nan  # one of many
    return hashlib.sha256(json.dumps(table.shape).encode() + table.tobytes()).hexdigest()


def _read(path: str | Path) -> tuple[dict[str, object], dict[str, Tensor]]:
    """The header and the tensors of a file."""
    from safetensors import SafetensorError, safe_open

    try:
        if Path(path).stat().st_size > LARGEST_CERTIFICATE:
            raise ValueError(f"{path}: is larger than any certificate of ours.")
        with safe_open(path, "pt") as file:
            text = (file.metadata() or {}).get("certificate", "")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - a file is no dict
    except (OSError, SafetensorError, RuntimeError) as error:
        raise ValueError(f"{path}: cannot be read as a certificate ({error}).") from error
    try:
        header = json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise ValueError(f"{path}: is not a certificate: it holds {', '.join(sorted(tensors)) or 'nothing'}.")
    if header.get("format") != CERTIFICATE_FORMAT:
        raise ValueError(
            f"{path}: has format {header.get('format')}, and this version of qgt reads format {CERTIFICATE_FORMAT}."
        )
    return header, tensors


def _refuse_malformed(tensors: dict[str, Tensor], problem: Problem, instances: int) -> None:
    """Raise a ValueError unless the tensors have the names, kinds and sizes of a certificate."""
    wanted = {"x", *FLAGS, "answers.ends", "answers.x", "proof.ends", *(f"proof.{name}" for name in LEAF_TABLES)}
    if set(tensors) != wanted:
        raise ValueError(f"it holds {', '.join(sorted(tensors)) or 'nothing'}")
    for name, tensor in tensors.items():
        kind = torch.int64 if name.endswith(".ends") else torch.uint8
        if tensor.dtype != kind or tensor.dim() != (2 if name in ("x", "answers.x") else 1):
            raise ValueError(f"{name} is {tensor.dtype} of shape {tuple(tensor.shape)}")
    for name in ("x", *FLAGS, "answers.ends", "proof.ends"):
        if len(tensors[name]) != instances:
            raise ValueError(f"{name} is for {len(tensors[name])} instances, and there are {instances}")
    refuse_bad_spans("answers", Spans(tensors["answers.ends"]), len(tensors["answers.x"]))
    refuse_bad_spans("proof", Spans(tensors["proof.ends"]))
    if tensors["x"].shape[1] != problem.items or tensors["answers.x"].shape[1] != math.ceil(problem.items / 8):
        raise ValueError("its answers are not of this problem's items")
    if bool((tensors["x"] > 1).any()):
        raise ValueError(f"x holds {int(tensors['x'].max())}, and an answer is of zeros and ones")
    if bool((tensors["status"] > max(Status)).any()):
        raise ValueError(f"it holds status {int(tensors['status'].max())}, and statuses are 0 to {max(Status)}")


def _weighed(problem: Problem, y: Tensor, spans: Spans, x: Tensor) -> Answers:
    """Answers with their log joints, and their probabilities if they were all there are."""
    rows = max(1, NUMBERS_AT_A_TIME // max(1, problem.items, problem.pools))
    pieces = zip(x.split(rows), spans.owner.split(rows), strict=True)
    log_joint = torch.cat([problem.log_joint(some, y[owner]) for some, owner in pieces])
    most = torch.full((len(y),), -torch.inf, dtype=torch.float64).scatter_reduce_(0, spans.owner, log_joint, "amax")
    weight = (log_joint - most[spans.owner]).exp().nan_to_num(0.0)
    total = torch.zeros(len(y), dtype=torch.float64).index_add_(0, spans.owner, weight)
    return Answers(spans, x, log_joint, (weight / total[spans.owner]).nan_to_num(0.0))


# --- packing --------------------------------------------------------------------------------------------------------


class Packed(NamedTuple):
    """A proof as bytes, with what is needed to read them."""

    ends: NDArray[np.int64]
    tables: dict[str, bytes]


def pack_proof(factors: Factors, result: Decoded, slack: Floats | None = None) -> Packed:
    """Round the multipliers of a result's proof, and compress it; what claims nothing needs no leaves.

    Leaves stay closed to what the result claims, or as far beyond the cost of its answers as `slack` says.
    """
    assert result.proof is not None and result.evidence.alternatives is not None  # as the caller saw
    shared, parts, steps = Shared.of(factors), [], []
    claims = (result.status == Status.PROVED) | (result.status == Status.INFEASIBLE)
    for i, claimed in enumerate(claims.tolist()):
        leaves = LeafTable.of(result.proof.of_instance(i))
        if not claimed:
            leaves = leaves.pick(np.zeros(len(leaves.least), dtype=bool))
        order = np.lexsort(np.vstack([leaves.fixed.T[::-1], leaves.least]))  # like beside like compresses best
        parts.append(leaves.pick(order))
        beyond = None if slack is None else float(slack[i])
        steps.append(_coarsest(InstanceCosts.of(shared, factors, i), result, i, parts[-1], beyond))
    numbers = np.array([len(part.least) for part in parts], dtype=np.int64)
    nothing = LeafTable.of(result.proof.pick(torch.zeros(0, dtype=torch.int64)))
    fixed, least, most, pi, shares = (np.concatenate(columns) for columns in zip(nothing, *parts, strict=True))
    step = np.concatenate([np.zeros(0, dtype=np.uint8), *steps])
    # Numbers of one step lie together: mixed with others they compress worse.
    some = np.argsort(step, kind="stable")[(step == EXACTLY).sum() :]
    rounded, shared = (np.rint(part[some] * step[some, None]).astype(np.int16) for part in (pi, shares))
    tables = {
        "fixed": fixed.astype(np.int8),
        "least": least.astype(np.int32),
        "most": most.astype(np.int32),
        "step": step,
        "pi": np.ascontiguousarray(rounded.T),
        "exact": pi[step == EXACTLY].astype(np.float32),
        "shares": np.ascontiguousarray(shared.T),
        "exact_shares": shares[step == EXACTLY].astype(np.float32),
    }
    return Packed(numbers.cumsum(), {name: lzma.compress(table.tobytes()) for name, table in tables.items()})


class Sizes(NamedTuple):
    """How many numbers each leaf of a proof has."""

    items: int
    pools: int
    memberships: int  # 0 where a proof has no shares

    @property
    def bytes(self) -> int:
        """What a leaf takes unpacked, at most."""
        return 9 + self.items + 4 * (self.pools + self.memberships)


def unpack_proof(packed: Packed, odds: float, sizes: Sizes, file: int) -> Proof:
    """The proof that was packed into a file of so many bytes, up to rounding; a ValueError where it is not one."""
    leaves, (items, pools, memberships) = int(packed.ends[-1]) if len(packed.ends) else 0, sizes
    allowed = max(ALWAYS_UNPACKED, MOST_UNPACKED * file)
    if leaves * sizes.bytes > allowed:
        raise ValueError(
            f"its {leaves:,} leaves take {leaves * sizes.bytes:,} bytes, more than a proof has ({allowed:,})"
        )
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
    number = int((step == EXACTLY).sum())
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


def _coarsest(
    costs: InstanceCosts, result: Decoded, i: int, leaves: LeafTable, slack: float | None
) -> NDArray[np.uint8]:
    """For each leaf the largest step of multipliers at which it is still closed."""
    x, answers = result.x[i].cpu().numpy(), result.evidence.alternatives
    assert answers is not None and result.proof is not None
    step = np.full(len(leaves.least), EXACTLY, dtype=np.uint8)
    listed = np.zeros((0, len(x)), dtype=np.uint8)
    limit = costs.more_than_any
    if int(result.status[i]) == Status.PROVED:
        complete = result.evidence.complete is not None and bool(result.evidence.complete[i])
        listed = np.concatenate([x[None], answers.of_instance(i).x.cpu().numpy()])
        limit = float(costs.of_x(x[None])[0]) + (math.log(result.proof.odds) if complete else 0.0) - CHECKER_TOLERANCE
        if slack is not None:  # sums of several categories round otherwise than one cost
            limit = float(costs.of_x(x[None])[0]) + slack - CHECKER_TOLERANCE / 2
    if not costs.possible or not math.isfinite(limit):
        return step
    for fineness in DENOMINATORS:
        small = [(np.abs(part * fineness) < 2**15 - 1).all(1) for part in (leaves.pi, leaves.shares)]
        left = np.flatnonzero((step == EXACTLY) & small[0] & small[1])
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
    try:
        unpacking = lzma.LZMADecompressor(memlimit=2**28)
        plain = unpacking.decompress(data, max_length=size + 1)
    except (lzma.LZMAError, EOFError) as error:
        raise ValueError(f"a table is damaged ({error})") from error
    if len(plain) != size or not unpacking.eof:
        raise ValueError("a table does not have the size it should")
    return plain
