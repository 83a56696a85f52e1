"""A trained network as a decoder: scores from the network, calls by one threshold for all items (the paper's rule).

A saved model is one safetensors file: the weights, and in its header a JSON text with everything else (format
version, architecture, problem spec and fingerprint, threshold, training history, seed, library versions) and the
SHA-256 of both. Loading runs no code from the file and trusts nothing in it: sizes, keys, shapes, dtypes, finiteness,
checksum and fingerprint are checked, and whatever is wrong becomes a `ModelFileError` that says so.
"""

import copy
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from qgt.decoders.contract import BoundDecoder, Decoded, Status, refuse_unsupported
from qgt.decoders.neural.network import ARCHITECTURES, Architecture, Network
from qgt.files import codec
from qgt.files.atomic import replacing
from qgt.model.problem import Problem, fingerprint_of

NETWORKS: codec.Kinds = {Architecture: ARCHITECTURES}
FORMAT = 1
FILE = "model.safetensors"
LARGEST_FILE = 2**31  # bytes; far above any network of this kind, far below what would exhaust a machine
CHUNK = 8192  # instances per forward pass, so that memory does not grow with the batch


class ModelFileError(ValueError):
    """A model file that cannot be used, and why.

    Example:
        >>> issubclass(ModelFileError, ValueError)
        True
    """


@dataclass(frozen=True, eq=False, repr=False)
class NeuralDecoder:
    """A network trained for one problem, with its threshold; made by `qgt.train`, and tied to that problem.

    `scores` are the network's raw outputs; an item is called defective where its score reaches the threshold.

    Example:
        >>> import torch, qgt
        >>> g = torch.Generator().manual_seed(0)
        >>> design = qgt.Design.bernoulli(pools=6, items=8, generator=g)
        >>> problem = qgt.Problem(design, qgt.Bernoulli(0.1))
        >>> net = qgt.train(problem, qgt.MLP((16,)), qgt.TrainConfig(instances=500, epochs=2), generator=g)
        >>> net.bind(problem)(problem.simulate(3, generator=g).y).x.shape
        torch.Size([3, 8])
    """

    architecture: Architecture
    network: Network
    threshold: float
    spec: Mapping[str, Any]  # of the problem it was trained for
    training: Mapping[str, Any] = field(default_factory=dict)  # history, seed, versions: plain data

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the problem it was trained for."""
        return fingerprint_of(self.spec)

    @property
    def problem(self) -> Problem:
        """The problem it was trained for, rebuilt from its spec."""
        return Problem.from_spec(self.spec)

    def __repr__(self) -> str:
        return f"NeuralDecoder({self.architecture}, threshold={self.threshold:.4g}, problem={self.fingerprint[:12]})"

    def supports(self, problem: Problem) -> str | None:
        """Only the problem it was trained for."""
        if problem.fingerprint == self.fingerprint:
            return None
        return (
            f"it was trained for problem {self.fingerprint[:12]} and this is {problem.fingerprint[:12]}; "
            "train a network for this one."
        )

    def bind(self, problem: Problem) -> BoundDecoder:
        """Get ready to decode on any device."""
        refuse_unsupported(self, problem)
        copies: dict[torch.device, Network] = {}

        def decode(y: Tensor, defectives: Tensor | None) -> Decoded:
            if y.device not in copies:
                copies[y.device] = copy.deepcopy(self.network).to(y.device).eval()
            scores = raw_scores(copies[y.device], y)
            status = torch.full((len(y),), Status.OK, dtype=torch.uint8, device=y.device)
            return Decoded((scores >= self.threshold).to(torch.uint8), status, scores.to(torch.float64))

        return BoundDecoder(problem, decode)

    def save(self, path: str | Path) -> None:
        """Write the folder `path` with the model file in it, all or nothing."""
        description = {
            "format": FORMAT,
            "architecture": describe(self.architecture),
            "problem": self.spec,
            "fingerprint": self.fingerprint,
            "threshold": self.threshold,
            "training": self.training,
        }
        text = json.dumps(description, allow_nan=False)
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in self.network.state_dict().items()}
        with replacing(Path(path) / FILE) as temporary:
            save_file(tensors, temporary, {"qgt": text, "sha256": _checksum(text, tensors)})

    @classmethod
    def load(cls, path: str | Path) -> "NeuralDecoder":
        """Read what `save` wrote, from the folder or the file itself."""
        file = Path(path) / FILE if Path(path).is_dir() else Path(path)
        text, tensors = _read(file)
        try:
            return cls(**_parse(text, tensors, budget=file.stat().st_size))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ModelFileError(f"{file}: is not a usable model: {error}") from error


def load(path: str | Path) -> NeuralDecoder:
    """Load a saved network; see `NeuralDecoder.load`.

    Example:
        >>> load("no/such")
        Traceback (most recent call last):
        qgt.decoders.neural.decoder.ModelFileError: no/such: cannot be read (No such file or directory); check the path.
    """
    return NeuralDecoder.load(path)


def raw_scores(network: Network, y: Tensor) -> Tensor:
    """A single network's outputs for float64 counts: float32, (instances, items)."""
    with torch.inference_mode():
        parts = [network(part.to(torch.float32)[None])[0] for part in y.split(CHUNK)]
        return torch.cat(parts) if parts else network(y.to(torch.float32)[None])[0]


def describe(architecture: Architecture) -> dict[str, object]:
    """An architecture as plain data: its kind and its fields."""
    plain: dict[str, object] = codec.encode("architecture", architecture, Architecture, NETWORKS)
    return plain


def _checksum(text: str, tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()


def _read(file: Path) -> tuple[str, dict[str, Tensor]]:
    """The description and the weights, with only their checksum verified."""
    try:
        if file.stat().st_size > LARGEST_FILE:
            raise ModelFileError(f"{file}: is larger than {LARGEST_FILE} bytes; it is not a model of ours.")
        with safe_open(file, framework="pt") as content:
            metadata = content.metadata() or {}
            tensors = {name: content.get_tensor(name) for name in content.keys()}  # noqa: SIM118 - not a dict
    except OSError as error:
        raise ModelFileError(f"{file}: cannot be read ({error.strerror or error}); check the path.") from error
    except (SafetensorError, ValueError, RuntimeError, TypeError, KeyError, OverflowError) as error:
        raise ModelFileError(f"{file}: is truncated, altered or not a model ({error}).") from error
    if set(metadata) != {"qgt", "sha256"}:
        raise ModelFileError(f"{file}: is a safetensors file of another program; train or copy the model again.")
    try:
        checksum = _checksum(metadata["qgt"], tensors)
    except (TypeError, RuntimeError, UnicodeEncodeError) as error:  # dtypes that NumPy lacks
        raise ModelFileError(f"{file}: holds tensors no model has ({error}).") from error
    if checksum != metadata["sha256"]:
        raise ModelFileError(f"{file}: was altered after it was saved (checksum); copy the model again.")
    return metadata["qgt"], tensors


def _parse(text: str, tensors: Mapping[str, Tensor], budget: int) -> dict[str, Any]:
    """The decoder's fields, every one checked against the others."""
    description = json.loads(text)
    if description["format"] != FORMAT:
        raise ValueError(f"format {description['format']} is not known here; this version reads format {FORMAT}.")
    architecture = codec.decode("architecture", description["architecture"], Architecture, NETWORKS)
    matrix = description["problem"]["design"]["matrix"]
    sizes = {"pools": len(matrix), "items": len(matrix[0])}
    if 4 * architecture.parameters(**sizes) > budget:  # before building, lest a small file ask for much memory
        raise ValueError(f"{architecture} needs more weights than the file holds")
    network = architecture.build(**sizes, generator=torch.Generator().manual_seed(0))
    _check_weights(network.state_dict(), tensors)
    network.load_state_dict(dict(tensors))
    if description["fingerprint"] != fingerprint_of(description["problem"]):
        raise ValueError("the fingerprint does not belong to the problem")
    if not isinstance(description["threshold"], float) or not math.isfinite(description["threshold"]):
        raise ValueError(f"threshold {description['threshold']!r} is not a number")
    return {
        "architecture": architecture,
        "network": network.eval(),
        "threshold": description["threshold"],
        "spec": description["problem"],
        "training": dict(description["training"]),
    }


def _check_weights(expected: Mapping[str, Tensor], given: Mapping[str, Tensor]) -> None:
    if set(expected) != set(given):
        raise ValueError(f"weights {sorted(set(expected) ^ set(given))[:3]} are missing or too many")
    for name, tensor in given.items():
        if tensor.shape != expected[name].shape or tensor.dtype != torch.float32:
            raise ValueError(
                f"weight {name} is {tensor.dtype} {tuple(tensor.shape)}, not float32 {tuple(expected[name].shape)}"
            )
        if not bool(torch.isfinite(tensor).all()):
            raise ValueError(f"weight {name} is not finite")
