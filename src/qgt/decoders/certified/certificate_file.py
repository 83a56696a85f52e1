"""Certificates in files: what is claimed of each instance, and the leaves that show it.

One safetensors file holds the answers, the answers listed beside them and the packed leaves. Its header ties them to
what they are about: the fingerprint of the problem, and hashes of the counts and of the answers. Probabilities are not
stored: they follow from the answers listed, and are computed again on loading.
"""

import hashlib
import json
import math
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from qgt.arguments import positive
from qgt.decoders.certified.packing import Packed, as_tensor, pack, unpack
from qgt.decoders.contract import check_counts
from qgt.decoders.results import Answers, Decoded, Evidence, Spans, Status
from qgt.files.atomic import replacing
from qgt.model.problem import Problem

FORMAT = 3
FLAGS = ("status", "complete", "by_highs")
TABLES = ("fixed", "least", "most", "step", "pi", "exact", "shares", "exact_shares")
LARGEST = 2**31  # bytes of a file


def save_certificate(
    path: str | Path, problem: Problem, y: Float64[Tensor, "instances pools"], result: Decoded
) -> None:
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


def write_certificate(
    path: str | Path, problem: Problem, y: Float64[Tensor, "instances pools"], result: Decoded
) -> None:
    """Write as `save_certificate` does, but straight to the path: for those who replace files themselves."""
    from safetensors.torch import save_file

    answers, proof = result.evidence.alternatives, result.proof
    if proof is None or answers is None:
        raise ValueError("the result has no certificates: decode with Certified(certificates=True).")
    y = check_counts(problem, y, missing=True).cpu()
    packed = pack(problem.factors(y), result)
    complete, by_highs = result.evidence.complete, result.evidence.by_highs
    none = torch.zeros(len(y), dtype=torch.uint8)
    tensors = {
        "x": result.x,
        "status": result.status,
        "complete": none if complete is None else complete.to(torch.uint8),
        "by_highs": none.clone() if by_highs is None else by_highs.to(torch.uint8),  # files hold no tensor twice
        "answers.ends": answers.spans.ends,
        "answers.x": torch.from_numpy(np.packbits(answers.x.cpu().numpy(), axis=1)),
        "proof.ends": torch.from_numpy(packed.ends),
        **{f"proof.{name}": as_tensor(packed.tables[name]) for name in TABLES},
    }
    header = {
        "format": FORMAT,
        "odds": proof.odds,
        "shares": proof.shares.shape[1] > 0,
        "problem": problem.fingerprint,
        "counts": digest(y),
        "calls": digest(result.x),
    }
    plain = {name: tensor.cpu().contiguous() for name, tensor in tensors.items()}
    save_file(plain, path, {"certificate": json.dumps(header)})


def load_certificate(path: str | Path, problem: Problem, y: Float64[Tensor, "instances pools"]) -> Decoded:
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
    if header.get("counts") != digest(y):
        raise ValueError(f"{path}: is a certificate for other counts: check it against those it was made for.")
    try:
        odds = positive("odds", header.get("odds"))
        _refuse_malformed(tensors, problem, len(y))
        if header.get("calls") != digest(tensors["x"]):
            raise ValueError("its answers were changed after it was made")
        packed = Packed(
            tensors["proof.ends"].numpy(), {name: tensors[f"proof.{name}"].numpy().tobytes() for name in TABLES}
        )
        memberships = problem.design.transfers if header.get("shares") is True else 0
        proof = unpack(packed, odds=odds, items=problem.items, pools=problem.pools, memberships=memberships)
    except ValueError as error:
        raise ValueError(f"{path}: is not a usable certificate: {error}.") from error
    bits = np.unpackbits(tensors["answers.x"].numpy(), axis=1, count=problem.items)
    answers = _weighed(problem, y, Spans(tensors["answers.ends"]), torch.from_numpy(bits))
    complete = tensors["complete"].bool() & (odds > 1)
    evidence = Evidence(complete=complete, alternatives=answers, by_highs=tensors["by_highs"].bool())
    return Decoded(tensors["x"], tensors["status"], None, evidence, proof)


def digest(values: Tensor) -> str:
    """The SHA-256 of a table of numbers, the same on every machine; NaN stands for what is missing."""
    table = values.cpu().numpy().astype("<f8") + 0.0  # no negative zeros
    table[np.isnan(table)] = np.nan  # one of many
    return hashlib.sha256(json.dumps(table.shape).encode() + table.tobytes()).hexdigest()


def _read(path: str | Path) -> tuple[dict[str, object], dict[str, Tensor]]:
    """The header and the tensors of a file."""
    from safetensors import SafetensorError, safe_open

    try:
        if Path(path).stat().st_size > LARGEST:
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
    if header.get("format") != FORMAT:
        raise ValueError(f"{path}: has format {header.get('format')}, and this version of qgt reads format {FORMAT}.")
    return header, tensors


def _refuse_malformed(tensors: dict[str, Tensor], problem: Problem, instances: int) -> None:
    """Raise a ValueError unless the tensors have the names, kinds and sizes of a certificate."""
    wanted = {"x", *FLAGS, "answers.ends", "answers.x", "proof.ends", *(f"proof.{name}" for name in TABLES)}
    if set(tensors) != wanted:
        raise ValueError(f"it holds {', '.join(sorted(tensors)) or 'nothing'}")
    for name, tensor in tensors.items():
        kind = torch.int64 if name.endswith(".ends") else torch.uint8
        if tensor.dtype != kind or tensor.dim() != (2 if name in ("x", "answers.x") else 1):
            raise ValueError(f"{name} is {tensor.dtype} of shape {tuple(tensor.shape)}")
    for name in ("x", *FLAGS, "answers.ends", "proof.ends"):
        if len(tensors[name]) != instances:
            raise ValueError(f"{name} is for {len(tensors[name])} instances, and there are {instances}")
    for name in ("answers.ends", "proof.ends"):
        if bool((tensors[name].diff(prepend=tensors[name].new_zeros(1)) < 0).any()):
            raise ValueError(f"{name} is not in order")
    rows = int(tensors["answers.ends"][-1]) if instances else 0
    if tensors["x"].shape[1] != problem.items or tensors["answers.x"].shape != (rows, math.ceil(problem.items / 8)):
        raise ValueError("its answers are not of this problem's items")
    if bool((tensors["status"] > max(Status)).any()):
        raise ValueError("it holds a status that there is not")


def _weighed(problem: Problem, y: Tensor, spans: Spans, x: Tensor) -> Answers:
    """Answers with their log joints, and their probabilities if they were all there are."""
    log_joint = problem.log_joint(x, y[spans.owner])
    most = torch.full((len(y),), -torch.inf, dtype=torch.float64).scatter_reduce_(0, spans.owner, log_joint, "amax")
    weight = (log_joint - most[spans.owner]).exp().nan_to_num(0.0)
    total = torch.zeros(len(y), dtype=torch.float64).index_add_(0, spans.owner, weight)
    return Answers(spans, x, log_joint, (weight / total[spans.owner]).nan_to_num(0.0))
