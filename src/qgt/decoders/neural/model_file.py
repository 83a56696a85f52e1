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
from safetensors.torch import save_file
from torch import Tensor, nn

from qgt.decoders.neural.heads import Softmax
from qgt.decoders.neural.network import Architecture, Network, number_of_weights
from qgt.files import codec
from qgt.files.store import replacing
from qgt.model.design import Design

# Tensors with texts beside them in one file: models, and the checkpoints of `qgt.learning`.


def write_tensors(path: str | Path, tensors: Mapping[str, Tensor], texts: Mapping[str, str]) -> None:
    """Replace the file at `path`, or leave it as it was and raise a ValueError that says why.

    Example:
        >>> import tempfile, torch
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_tensors(f"{folder}/a.safetensors", {"w": torch.zeros(2)}, {"said": "hello"})
        ...     [file.name for file in Path(folder).iterdir()]
        ['a.safetensors']
    """
    plain = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    try:
        with replacing(path) as temporary:
            save_file(plain, temporary, dict(texts))
    except OSError as error:
        raise ValueError(f"{path}: cannot be written ({error.strerror or error}); check the folder.") from error
    except SafetensorError as error:  # how a full disk is reported
        raise ValueError(f"{path}: cannot be written ({error}); check the folder and its disk.") from error


# Models.

MODEL_FORMAT = 3
HEAD_FORMAT = 4  # of a description with `head`, which versions that read format 3 only would not heed
MODEL_FILE = "model.safetensors"
LARGEST_FILE = 2**31  # bytes; far above any network of this kind, far below what would exhaust a machine
MOST_TENSORS = 20_000  # above any network that an architecture builds (`network.MOST_LAYERS`)


class ModelFileError(ValueError):
    """A model file that cannot be used, and why.

    Example:
        >>> issubclass(ModelFileError, ValueError)
        True
    """


def model_path(path: str | Path) -> Path:
    """The model's file: the one given, or the one in a folder that was given."""
    return Path(path) / MODEL_FILE if Path(path).is_dir() else Path(path)


def write_model(folder: str | Path, description: codec.Table, weights: Mapping[str, Tensor]) -> None:
    """Write the folder with the model file in it, all or nothing."""
    form = HEAD_FORMAT if "head" in description else MODEL_FORMAT
    text = json.dumps({"format": form, **description}, allow_nan=False)
    on_cpu = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
    write_tensors(Path(folder) / MODEL_FILE, on_cpu, {"qgt": text, "sha256": checksum(text, on_cpu)})


def read_model(file: Path) -> tuple[dict[str, object], dict[str, Tensor]]:
    """The description and the weights as they were written; what they mean is still to be checked."""
    text, weights = _content(file)
    try:
        description = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{file}: its description is not JSON ({error}).") from error
    if not isinstance(description, dict) or description.get("format") not in (MODEL_FORMAT, HEAD_FORMAT):
        found = description.get("format") if isinstance(description, dict) else None
        known = f"{MODEL_FORMAT} and {HEAD_FORMAT}"
        raise ModelFileError(f"{file}: format {found} is not known here; this version reads formats {known}.")
    return description, weights


def check_cost(
    architecture: Architecture, weights: Mapping[str, Tensor], design: Design, *, missing: bool, loads: bool = False
) -> None:
    """Refuse an architecture that asks for other weights than the file holds, before anything is built for it.

    Layers cost as much as weights do; their number the architectures themselves keep within `network.MOST_LAYERS`.
    """
    held = sum(tensor.numel() for tensor in weights.values())
    asked = number_of_weights(architecture, design, missing=missing, loads=loads)
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


# A trained network as an ONNX file: counts in, calls and scores out, for programs that have neither torch nor us.
#
# What belongs to decoding is inside: the scale of the counts, missing ones, rounds, and the threshold. What `bind` adds
# is not: the file does not know which counts are possible.

OPSET = 18
NO_ONNX = "writing ONNX files needs more packages: install them with pip install 'qgt[onnx]'."


class _Decoder(nn.Module):
    """What the file computes."""

    def __init__(self, network: Network, threshold: float) -> None:
        super().__init__()
        self.network, self.threshold = network, threshold

    def forward(self, counts: Tensor) -> tuple[Tensor, Tensor]:
        """Calls, and the scores they are made of."""
        scores, head = self.network(counts[None])[0], self.network.head
        if isinstance(head, Softmax):
            each = head.log_probabilities(scores).exp().transpose(1, 2)  # (instances, items, values)
            return head.values(scores, self.threshold), each
        return (scores >= self.threshold).to(torch.uint8), scores


def write_onnx(path: Path, network: Network, threshold: float, *, pools: int, described: dict[str, str]) -> None:
    """Write the file at `path`, all or nothing, with some facts about it among its properties."""
    try:
        import onnxscript  # noqa: F401 - what torch needs to export
    except ImportError as error:
        raise ValueError(NO_ONNX) from error
    example = torch.zeros(3, pools)  # its number of rows is not the file's
    program = torch.onnx.export(
        _Decoder(network, threshold).eval(),
        (example,),
        input_names=["counts"],
        output_names=["calls", "scores"],
        dynamic_shapes={"counts": {0: torch.export.Dim("instances", min=1)}},
        opset_version=OPSET,
        dynamo=True,
        verbose=False,
    )
    assert program is not None
    program.model.metadata_props.update({f"qgt.{key}": value for key, value in described.items()})
    with replacing(path) as file:
        program.save(str(file), external_data=False)


def onnx_facts(fingerprint: str, pool_names: tuple[str, ...], item_names: tuple[str, ...]) -> dict[str, str]:
    """What a user of the file needs to know: which problem, and what its columns are."""
    return {"problem": fingerprint, "pools": json.dumps(list(pool_names)), "items": json.dumps(list(item_names))}
