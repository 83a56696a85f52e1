"""Checkpoints of long work: tensors and plain data in one safetensors file, written all or nothing.

A checkpoint carries the identity of the work it belongs to; reading it for other work is refused.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from qgt.files.atomic import replacing

KEY = "qgt-checkpoint"


def write(path: Path, tensors: Mapping[str, Tensor], identity: Mapping[str, Any], progress: Mapping[str, Any]) -> None:
    """Replace the file at `path`, or leave it as it was."""
    text = json.dumps({"identity": identity, "progress": progress})
    plain = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    with replacing(path) as temporary:
        save_file(plain, temporary, {KEY: text})


def read(path: Path, identity: Mapping[str, Any]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the progress; a ValueError where the file is damaged or belongs to other work."""
    try:
        with safe_open(path, framework="pt") as content:
            state = json.loads((content.metadata() or {})[KEY])
            tensors = {name: content.get_tensor(name) for name in content.keys()}  # noqa: SIM118 - not a dict
        found, progress = state["identity"], dict(state["progress"])
    except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: is not a checkpoint ({error}); remove it to start anew.") from error
    for key, value in identity.items():
        if json.dumps(found.get(key)) != json.dumps(value):
            raise ValueError(f"{path}: was made with another {key}; use the same {key}, or remove it to start anew.")
    return tensors, progress


def under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin with the prefix, without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
