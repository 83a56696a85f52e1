"""Certificates in files: answers, alternatives and leaves as safetensors, with the fingerprint of their problem."""

from pathlib import Path

import torch
from torch import Tensor

from qgt.decoders.results import Answers, Decoded, Evidence, Proof, Spans, Status
from qgt.files.atomic import replacing
from qgt.model.problem import Problem

COLUMNS = {"alternatives": ("x", "log_joint", "probability"), "proof": ("fixed", "least", "most", "pi")}


def save_certificate(path: str | Path, problem: Problem, result: Decoded) -> None:
    """Write a result's answers, alternatives and proofs, as safetensors, with the problem's fingerprint.

    Example:
        >>> import tempfile, torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.1))
        >>> result = qgt.Certified().bind(problem)(torch.tensor([[1.0, 1.0]]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_certificate(f"{folder}/proof", problem, result)
        ...     load_certificate(f"{folder}/proof", problem).x
        tensor([[0, 1, 0]], dtype=torch.uint8)
    """
    with replacing(path) as temporary:
        write_certificate(temporary, problem, result)


def write_certificate(path: str | Path, problem: Problem, result: Decoded) -> None:
    """Write as `save_certificate` does, but straight to the path: for those who replace files themselves."""
    from safetensors.torch import save_file

    answers, proof = result.evidence.alternatives, result.proof
    if proof is None or answers is None:
        raise ValueError("the result has no certificates: decode with Certified(certificates=True).")
    tensors = {"x": result.x, "status": result.status}
    tensors |= {"alternatives.ends": answers.spans.ends, "proof.ends": proof.spans.ends}
    tensors |= {f"alternatives.{name}": getattr(answers, name) for name in COLUMNS["alternatives"]}
    tensors |= {f"proof.{name}": getattr(proof, name) for name in COLUMNS["proof"]}
    save_file({k: v.cpu().contiguous() for k, v in tensors.items()}, path, {"problem": problem.fingerprint})


def load_certificate(path: str | Path, problem: Problem) -> Decoded:
    """Read what `save_certificate` wrote for this problem; whether it proves anything is for `check_certificate`.

    Example:
        >>> import tempfile, torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.1))
        >>> y = torch.tensor([[1.0, 1.0]], dtype=torch.float64)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_certificate(f"{folder}/proof", problem, qgt.Certified().bind(problem)(y))
        ...     qgt.check_certificate(problem, y, load_certificate(f"{folder}/proof", problem))
        tensor([True])
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            owner = (file.metadata() or {}).get("problem")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - a file is no dict
    except (OSError, SafetensorError) as error:
        raise ValueError(f"{path}: cannot be read as a certificate ({error}).") from error
    if owner != problem.fingerprint:
        raise ValueError(f"{path}: is a certificate for another problem: check it against the one it was made for.")
    _refuse_malformed(path, tensors, problem)
    spans = {key: Spans(tensors[f"{key}.ends"]) for key in COLUMNS}
    answers = Answers(spans["alternatives"], *(tensors[f"alternatives.{name}"] for name in COLUMNS["alternatives"]))
    proof = Proof(spans["proof"], *(tensors[f"proof.{name}"] for name in COLUMNS["proof"]))
    return Decoded(tensors["x"], tensors["status"], None, Evidence(alternatives=answers), proof)


def _refuse_malformed(path: str | Path, tensors: dict[str, Tensor], problem: Problem) -> None:
    """Raise a ValueError unless the tensors have the names, kinds and sizes of a certificate."""
    width = {"x": problem.items, "fixed": problem.items, "pi": problem.pools}
    kinds = {"x": torch.uint8, "status": torch.uint8, "fixed": torch.int8, "pi": torch.float32}
    kinds |= {"least": torch.int64, "most": torch.int64, "ends": torch.int64}
    kinds |= {"log_joint": torch.float64, "probability": torch.float64}
    wanted = {"x", "status"} | {f"{key}.{name}" for key, columns in COLUMNS.items() for name in (*columns, "ends")}
    if set(tensors) != wanted:
        raise ValueError(f"{path}: is not a certificate: it holds {', '.join(sorted(tensors)) or 'nothing'}.")
    if tensors["status"].dim() != 1 or any(tensors[f"{key}.ends"].dim() != 1 for key in COLUMNS):
        raise ValueError(f"{path}: is not a certificate: a status for each instance is missing.")
    for name, tensor in tensors.items():
        part, _, kind = name.rpartition(".")
        ends = tensors[f"{part}.ends"] if part else tensors["status"]
        rows = len(tensors["status"]) if not part or kind == "ends" else int(ends[-1]) if len(ends) else 0
        shape = (rows, width[kind]) if kind in width else (rows,)
        if tensor.dtype != kinds[kind] or tensor.shape != shape:
            raise ValueError(f"{path}: {name} is {tensor.dtype} of shape {tuple(tensor.shape)}, not {shape}.")
        if kind == "status" and bool((tensor > max(Status)).any()):
            raise ValueError(f"{path}: holds a status that there is not: the file is damaged.")
        if kind == "ends" and bool((tensor.diff(prepend=tensor.new_zeros(1)) < 0).any()):
            raise ValueError(f"{path}: {name} is not in order: the file is damaged.")
