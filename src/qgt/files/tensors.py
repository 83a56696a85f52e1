"""Tensors with texts beside them in one safetensors file, written all or nothing."""

from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from qgt.files.store import replacing


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
