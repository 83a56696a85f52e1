"""The networks of a study: trained once for each problem, and found again by what determines them.

A network's folder is named by the hash of its problem and its recipe, so studies that share the folder of networks
share the networks. Training happens in a folder of its own that is renamed when the network is whole; a training that
was cut off leaves its checkpoint there and goes on from it. On a GPU the networks of one recipe can be trained as one
stack.
"""

import hashlib
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from qgt.decoders.neural.decoder import NeuralDecoder
from qgt.learning.run import Epoch
from qgt.learning.training import train, train_many
from qgt.study.entry import Recipe
from qgt.study.plan import Task
from qgt.study.seeds import digest, generator


def network_path(folder: Path, task: Task) -> Path:
    """Where a task's network is, or will be: a folder to save one in, too, that was trained elsewhere."""
    assert isinstance(task.entry.method, Recipe)
    return folder / digest("network", task.fingerprint, task.entry.method.content, task.sources)[:32]


def ensure_network(
    folder: Path, task: Task, *, device: str = "cpu", on_epoch: Callable[[Epoch], None] | None = None
) -> None:
    """Train a task's network unless it is there; Ctrl-C leaves a checkpoint from which the next call goes on."""
    recipe, path = task.entry.method, network_path(folder, task)
    assert isinstance(recipe, Recipe)
    if path.exists():
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
    if net.training["interrupted"]:
        raise KeyboardInterrupt
    net.save(part)
    (part / "checkpoint.safetensors").unlink(missing_ok=True)
    part.rename(path)


def ensure_stack(
    folder: Path, tasks: Sequence[Task], *, device: str, on_epoch: Callable[[Epoch], None] | None = None
) -> None:
    """Train the networks of tasks that share a recipe as one computation, unless all are there.

    A stack is named by all its networks, so a call that was cut off, even between saving two of them, is gone on from
    by the same call.
    """
    recipe, paths = tasks[0].entry.method, [network_path(folder, task) for task in tasks]
    assert isinstance(recipe, Recipe)
    if all(path.exists() for path in paths):
        return
    name = digest("stack", [path.name for path in paths])[:32]
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
    if nets[0].training["interrupted"]:
        raise KeyboardInterrupt
    for path, net in zip(paths, nets, strict=True):
        if not path.exists():
            net.save(part / path.name)
            (part / path.name).rename(path)
    shutil.rmtree(part)


def weights_digest(net: NeuralDecoder) -> str:
    """A hash of the weights and the threshold: equal where two networks decode alike."""
    state = hashlib.sha256(repr(net.threshold).encode())
    for name, tensor in sorted(net.network.state_dict().items()):
        state.update(name.encode() + tensor.cpu().numpy().tobytes())
    return state.hexdigest()[:32]
