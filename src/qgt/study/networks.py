"""The networks of a study: trained once for each problem, and found again by what determines them.

A network's folder is named by the hash of its problem and its recipe, so studies that share the folder of networks
share the networks. Training happens in a folder of its own that is renamed when the network is whole; a training that
was cut off leaves its checkpoint there and goes on from it. Where two processes need the same network, one trains it
and the other waits. On a GPU the networks of one recipe can be trained as one stack.
"""

import hashlib
import json
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from qgt.decoders.neural.decoder import NeuralDecoder
from qgt.decoders.neural.record import Epoch
from qgt.files.store import locked
from qgt.learning.training import train, train_many
from qgt.study.plan import Recipe, Task, digest_of, generator

# Networks as names and contents, to be sent to other machines and back.

Parcel = tuple[tuple[str, bytes], ...]  # a network's files, by name
_ONE_AT_A_TIME = threading.Lock()


def packed_network(network: Path) -> Parcel:
    """The files of a network's folder."""
    files = sorted(path for path in network.iterdir() if path.is_file())
    return tuple((path.name, path.read_bytes()) for path in files)


def unpack_network(parcel: Parcel, network: Path) -> None:
    """Write a network's files into its folder, which is made. Names that lead elsewhere are refused."""
    network.mkdir(parents=True)
    for name, content in parcel:
        if name in ("", ".", "..") or Path(name).name != name:
            raise ValueError(f"a network's file is called {name!r}: a plain name is needed.")
        (network / name).write_bytes(content)


def unpacked(parcel: Parcel, name: str) -> tempfile.TemporaryDirectory[str]:
    """A folder of networks with this one in it; it is there as long as somebody holds it, and usually much longer."""
    with _ONE_AT_A_TIME:  # of two threads that need the same one, each would make it, and one folder would go at once
        return _unpacked(parcel, name)


@lru_cache(maxsize=64)
def _unpacked(parcel: Parcel, name: str) -> tempfile.TemporaryDirectory[str]:
    folder = tempfile.TemporaryDirectory(prefix="qgt-networks-")
    unpack_network(parcel, Path(folder.name) / name)
    return folder


# Networks, trained once and found again.

TRAINED = "trained.json"  # beside a network: what its training took
LOCKS = "locks"  # in the folder of networks: one empty file for each that was trained there


def network_path(folder: Path, task: Task) -> Path:
    """Where a task's network is, or will be: a folder to save one in, too, that was trained elsewhere."""
    return folder / digest_of("network", task.fingerprint, _recipe(task).content, task.sources)[:32]


def training_seconds(folder: Path, task: Task) -> float:
    """What a task's network took to train: its share, where it was trained in a stack; 0 where nothing is known."""
    path = network_path(folder, task) / TRAINED
    return float(json.loads(path.read_text(encoding="utf-8"))["seconds"]) if path.exists() else 0.0


def ensure_network(
    folder: Path, task: Task, *, device: str = "cpu", on_epoch: Callable[[Epoch], None] | None = None
) -> None:
    """Train a task's network unless it is there; Ctrl-C leaves a checkpoint from which the next call goes on."""
    recipe, path = _recipe(task), network_path(folder, task)
    if path.exists():
        return
    with _alone(folder, path.name):
        if path.exists():  # another process had the lock, and trained it
            return
        part = path.with_name(f"{path.name}.{device}.part")
        part.mkdir(parents=True, exist_ok=True)
        net = train(
            task.problem(),
            recipe.architecture,
            recipe.config,
            generator=generator("train", path.name, device=device),
            on_epoch=on_epoch,
            checkpoint=part / "checkpoint.safetensors",
        )
        _save([net], [part])
        (part / "checkpoint.safetensors").unlink(missing_ok=True)
        _put(part, path)


def ensure_stack(
    folder: Path, tasks: Sequence[Task], *, device: str, on_epoch: Callable[[Epoch], None] | None = None
) -> None:
    """Train the networks of tasks that share a recipe as one computation, unless all are there.

    A stack is named by all its networks, so a call that was cut off, even between saving two of them, is gone on from
    by the same call.
    """
    recipe, paths = _recipe(tasks[0]), [network_path(folder, task) for task in tasks]
    if all(path.exists() for path in paths):
        return
    name = digest_of("stack", [path.name for path in paths])[:32]
    with _alone(folder, name):
        if all(path.exists() for path in paths):
            return
        part = folder / f"{name}.{device}.part"
        part.mkdir(parents=True, exist_ok=True)
        nets = train_many(
            [task.problem() for task in tasks],
            recipe.architecture,
            recipe.config,
            generator=generator("train", name, device=device),
            on_epoch=on_epoch,
            checkpoint=part / "checkpoint.safetensors",
        )
        _save(nets, [part / path.name for path in paths])
        for path in paths:
            _put(part / path.name, path)
        shutil.rmtree(part)


class NetworkTraining(NamedTuple):
    """Networks to train: those of tasks that share a recipe as one stack, or a single one by itself."""

    tasks: tuple[Task, ...]
    device: str
    stacked: bool

    @property
    def name(self) -> str:
        """The training in words, for messages."""
        first = self.tasks[0].name
        return f"training {len(self.tasks)} networks, {first} and on" if len(self.tasks) > 1 else f"training {first}"

    def is_done(self, folder: Path) -> bool:
        """Whether all its networks are there."""
        return all(network_path(folder, task).exists() for task in self.tasks)

    def run(self, folder: Path, on_epoch: Callable[[Epoch], None] | None = None) -> None:
        """Train what is not there."""
        if self.stacked:
            ensure_stack(folder, self.tasks, device=self.device, on_epoch=on_epoch)
            return
        for task in self.tasks:
            ensure_network(folder, task, device=self.device, on_epoch=on_epoch)


def adopt_network(folder: Path, task: Task, network: Parcel) -> None:
    """Put a network that was trained elsewhere in its place, whole or not at all; one that is there stays."""
    path = network_path(folder, task)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{path.name}.", suffix=".part", dir=folder) as part:
        unpack_network(network, Path(part) / path.name)
        _put(Path(part) / path.name, path)


def weights_digest(net: NeuralDecoder) -> str:
    """A hash of the weights and the threshold: equal where two networks decode alike."""
    state = hashlib.sha256(repr(net.threshold).encode())
    for name, tensor in sorted(net.network.state_dict().items()):
        state.update(name.encode() + tensor.cpu().numpy().tobytes())
    return state.hexdigest()[:32]


def _recipe(task: Task) -> Recipe:
    assert isinstance(task.entry.method, Recipe)
    return task.entry.method


@contextmanager
def _alone(folder: Path, name: str) -> Iterator[None]:
    """Let one process at a time do what the name stands for; later ones find it done."""
    with locked(folder / LOCKS / name):
        yield


def _save(nets: Sequence[NeuralDecoder], paths: Sequence[Path]) -> None:
    """Save networks that were trained together, each with its share of the time until the last of them had stopped."""
    longest = max(net.training.seconds if net.training else 0.0 for net in nets)
    for net, path in zip(nets, paths, strict=True):
        net.save(path)
        (path / TRAINED).write_text(json.dumps({"seconds": round(longest / len(nets), 3)}) + "\n", encoding="utf-8")


def _put(part: Path, path: Path) -> None:
    """Give a whole network its name, unless another has it by now (as one of a stack, or alone): that one stays."""
    try:
        part.rename(path)
    except OSError:
        if not path.exists():
            raise
        shutil.rmtree(part)
