"""Checkpoints of a training: its tensors and how far it is in one safetensors file, written all or nothing.

A checkpoint carries the identity of the work it belongs to; reading it for other work is refused.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open
from torch import Tensor

from qgt.decoders.neural.model_file import write_tensors
from qgt.decoders.neural.record import Epoch
from qgt.files import codec

KEY = "qgt-checkpoint"


@dataclass(frozen=True)
class Progress:
    """How far a training is."""

    number: int  # epochs done
    seed: int  # of its generator
    history: Sequence[Sequence[Epoch]]  # of each network


@dataclass(frozen=True, eq=False)
class TrainingState:
    """All that a training needs to go on: tensors by name, and how far it is."""

    tensors: Mapping[str, Tensor]
    progress: Progress

    def under(self, prefix: str) -> dict[str, Tensor]:
        """The tensors whose names begin with the prefix, without it."""
        return {n.removeprefix(prefix): tensor for n, tensor in self.tensors.items() if n.startswith(prefix)}


def write_checkpoint(path: Path, state: TrainingState, identity: codec.Table) -> None:
    """Replace the file at `path`, or leave it as it was."""
    progress = codec.encode("progress", state.progress, Progress)
    text = json.dumps({"identity": identity, "progress": progress}, allow_nan=False)
    write_tensors(path, state.tensors, {KEY: text})


def read_checkpoint(path: Path, identity: codec.Table) -> TrainingState:
    """The state; a ValueError where the file is damaged or belongs to other work."""
    try:
        with safe_open(path, framework="pt") as content:
            text = json.loads((content.metadata() or {})[KEY])
            tensors = {name: content.get_tensor(name) for name in content.keys()}  # noqa: SIM118 - not a dict
        found = dict(text["identity"])
        state = TrainingState(tensors, codec.decode("progress", text["progress"], Progress))
    except (OSError, SafetensorError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise refusal(path, error) from error
    for key, value in identity.items():
        if json.dumps(found.get(key)) != json.dumps(value):
            raise ValueError(f"{path}: was made with another {key}; use the same {key}, or remove it to start anew.")
    return state


def refusal(path: Path, error: Exception) -> ValueError:
    """What to raise where a file does not hold what a checkpoint must."""
    return ValueError(f"{path}: is not a checkpoint ({error}); remove it to start anew.")
