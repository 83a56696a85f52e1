"""What simulations taught, kept on disk: the next sheet of the same problem need not wait for them.

A file's name is the hash of all that the simulations depend on: the problem's fingerprint, the decoder with its
options, the time and the number allowed, the version of qgt, and the machine, because its speed decides what a decoder
finds within a time limit. Simulations of plugins and of trained networks are not kept: a name does not identify their
behaviour. A file that is damaged or of another version is ignored, and the problem is simulated again. Nothing here
raises where the folder cannot be used.
"""

import dataclasses
import hashlib
import json
import os
import platform
from contextlib import suppress
from pathlib import Path

import torch
from torch import Tensor

from qgt.decoders.contract import Decoder
from qgt.files.store import replacing
from qgt.model.problem import Problem
from qgt.version import __version__

CACHE_FORMAT = 5  # to be raised whenever simulations teach something else than before
MOST_FILES = 50  # files kept: the newest
SWITCH = "QGT_CACHE"  # the variable that names another folder, or "off"
OFF = "off"
_PLAIN = (bool, int, float, str, type(None))


def cache_folder(given: str | Path | None = None) -> Path | None:
    """Where to keep what is learned; None for nowhere.

    The first of these that is given: the argument, the variable QGT_CACHE, `qgt` in XDG_CACHE_HOME; otherwise
    `~/.cache/qgt`. "off" means nowhere.

    Example:
        >>> cache_folder("off") is None, cache_folder("here").name
        (True, 'here')
    """
    named = str(given) if given is not None else os.environ.get(SWITCH, "")
    if named.strip().lower() == OFF:
        return None
    if named.strip():
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME", "")
    if base and Path(base).is_absolute():  # a relative one is to be ignored, by the standard
        return Path(base) / "qgt"
    try:
        return Path.home() / ".cache" / "qgt"
    except RuntimeError:  # no home
        return None


def key_of(problem: Problem, decoder: Decoder, *, seconds: float, simulations: int, often: str = "whole") -> str | None:
    """The name of what is learned; None where the problem or the decoder is more than its options say."""
    named = _named(decoder)
    if named is None or not _ours(problem.prior) or not _ours(problem.noise):
        return None
    machine = [platform.node(), platform.machine(), os.cpu_count(), torch.__version__]
    parts = [CACHE_FORMAT, __version__, machine, problem.fingerprint, named, seconds, simulations, often]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _named(decoder: object) -> object:
    """A decoder of ours as plain data: its class and its options; None where some option is no plain data."""
    kind = type(decoder)
    if not dataclasses.is_dataclass(decoder) or kind.__module__.split(".")[0] != "qgt":
        return None
    told: dict[str, object] = {}
    for field in dataclasses.fields(decoder):
        value = getattr(decoder, field.name)
        told[field.name] = value if isinstance(value, _PLAIN) else _named(value)
        if told[field.name] is None and value is not None:
            return None
    return [f"{kind.__module__}.{kind.__qualname__}", told]


def _ours(value: object) -> bool:
    """Whether a prior or a noise is made of our classes and of plain data alone."""
    if isinstance(value, (*_PLAIN, Tensor)):
        return True
    if isinstance(value, list | tuple):
        return all(map(_ours, value))
    if not dataclasses.is_dataclass(value) or type(value).__module__.split(".")[0] != "qgt":
        return False
    return all(_ours(getattr(value, field.name)) for field in dataclasses.fields(value))


def recall(folder: Path, key: str) -> dict[str, Tensor] | None:
    """The tensors kept under a name; None where there are none, or none that are whole."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(_path(folder, key), "pt") as file:
            told = (file.metadata() or {}).get("digest")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - a file is no dict
    except (OSError, SafetensorError, RuntimeError, ValueError):
        return None
    return tensors if told == _digest(key, tensors) else None


def keep(folder: Path, key: str, tensors: dict[str, Tensor]) -> None:
    """Keep tensors under a name, whole or not at all, and let go of the oldest where there are many."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    plain = {name: tensor.contiguous() for name, tensor in tensors.items()}
    with suppress(OSError, SafetensorError, RuntimeError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with replacing(_path(folder, key)) as temporary:
            save_file(plain, temporary, {"digest": _digest(key, plain)})
        oldest = sorted(folder.glob("*.calibration"), key=lambda path: path.stat().st_mtime)[:-MOST_FILES]
        for path in oldest:
            path.unlink(missing_ok=True)


def _path(folder: Path, key: str) -> Path:
    return folder / f"{key}.calibration"


def _digest(key: str, tensors: dict[str, Tensor]) -> str:
    found = hashlib.sha256(key.encode())
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        found.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode())
        found.update(tensor.numpy().tobytes())
    return found.hexdigest()
