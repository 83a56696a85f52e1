"""The file a trained network is saved in: one safetensors file, all or nothing.

It holds the weights and, in its header, a JSON text with everything else (format version, architecture, problem spec
and fingerprint, threshold, training) and the SHA-256 of both. Reading runs no code from the file and trusts nothing in
it. What a file may cost is bounded before it is paid: its size, the number of its tensors, and the weights and layers
of the network it asks for. Whatever is wrong becomes a `ModelFileError` that says so.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from qgt.decoders.neural.network import Architecture
from qgt.files import codec
from qgt.files import tensors as tensor_files
from qgt.model.design import Design

FORMAT = 3
FILE = "model.safetensors"
LARGEST_FILE = 2**31  # bytes; far above any network of this kind, far below what would exhaust a machine
MOST_TENSORS = 20_000  # above any network that an architecture builds (`network.MOST_LAYERS`)


class ModelFileError(ValueError):
    """A model file that cannot be used, and why.

    Example:
        >>> issubclass(ModelFileError, ValueError)
        True
    """


def place(path: str | Path) -> Path:
    """The model's file: the one given, or the one in a folder that was given."""
    return Path(path) / FILE if Path(path).is_dir() else Path(path)


def write(folder: str | Path, description: codec.Table, weights: Mapping[str, Tensor]) -> None:
    """Write the folder with the model file in it, all or nothing."""
    text = json.dumps({"format": FORMAT, **description}, allow_nan=False)
    on_cpu = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
    tensor_files.write_tensors(Path(folder) / FILE, on_cpu, {"qgt": text, "sha256": checksum(text, on_cpu)})


def read(file: Path) -> tuple[dict[str, object], dict[str, Tensor]]:
    """The description and the weights as they were written; what they mean is still to be checked."""
    text, weights = _content(file)
    try:
        description = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{file}: its description is not JSON ({error}).") from error
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        found = description.get("format") if isinstance(description, dict) else None
        raise ModelFileError(f"{file}: format {found} is not known here; this version reads format {FORMAT}.")
    return description, weights


def check_cost(architecture: Architecture, weights: Mapping[str, Tensor], design: Design, *, missing: bool) -> None:
    """Refuse an architecture that asks for other weights than the file holds, before anything is built for it.

    Layers cost as much as weights do; their number the architectures themselves keep within `network.MOST_LAYERS`.
    """
    held = sum(tensor.numel() for tensor in weights.values())
    asked = architecture.parameters(pools=design.pools, items=design.items, missing=missing)
    if asked != held:
        raise ValueError(f"its {architecture.__class__.__name__} has {asked:,} weights, and the file holds {held:,}")


def check_weights(expected: Mapping[str, Tensor], given: Mapping[str, Tensor]) -> None:
    """Refuse weights of other names, shapes or types than a network's, and weights that are not finite."""
    if set(expected) != set(given):
        raise ValueError(f"weights {sorted(set(expected) ^ set(given))[:3]} are missing or too many")
    for name, tensor in given.items():
        if tensor.shape != expected[name].shape or tensor.dtype != torch.float32:
            raise ValueError(
                f"weight {name} is {tensor.dtype} {tuple(tensor.shape)}, not float32 {tuple(expected[name].shape)}"
            )
        if not bool(torch.isfinite(tensor).all()):
            raise ValueError(f"weight {name} is not finite")


def checksum(text: str, weights: Mapping[str, Tensor]) -> str:
    """The SHA-256 of a description and its weights."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(weights):
        tensor = weights[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()


def _content(file: Path) -> tuple[str, dict[str, Tensor]]:
    """The description's text and the weights, with only their checksum verified."""
    try:
        if file.stat().st_size > LARGEST_FILE:
            raise ModelFileError(f"{file}: is larger than {LARGEST_FILE} bytes; it is not a model of ours.")
        with safe_open(file, framework="pt") as content:
            metadata, names = content.metadata() or {}, content.keys()
            if len(names) > MOST_TENSORS:
                raise ModelFileError(f"{file}: holds more than {MOST_TENSORS} tensors; it is not a model of ours.")
            weights = {name: content.get_tensor(name) for name in names}
    except ModelFileError:
        raise
    except OSError as error:
        raise ModelFileError(f"{file}: cannot be read ({error.strerror or error}); check the path.") from error
    except (SafetensorError, ValueError, RuntimeError, TypeError, KeyError, OverflowError) as error:
        raise ModelFileError(f"{file}: is truncated, altered or not a model ({error}).") from error
    if set(metadata) != {"qgt", "sha256"}:
        raise ModelFileError(f"{file}: is a safetensors file of another program; train or copy the model again.")
    try:
        found = checksum(metadata["qgt"], weights)
    except (TypeError, RuntimeError, UnicodeEncodeError) as error:  # dtypes that NumPy lacks
        raise ModelFileError(f"{file}: holds tensors no model has ({error}).") from error
    if found != metadata["sha256"]:
        raise ModelFileError(f"{file}: was altered after it was saved (checksum); copy the model again.")
    return metadata["qgt"], weights
