"""Training and decoding on a Dask cluster: many machines work, and this process alone writes.

A job is the same pure function as here, so its row is the same wherever it is done. What a job needs beyond its plan
travels with it: networks by content, sent once to each worker. A training is the same function as here too, in a
folder of the worker's own, and its networks come back by content. A worker trains one stack at a time for each of its
threads: with one thread, and a GPU of its own, one stack has the GPU.
"""

import contextlib
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from qgt.decoders.neural.record import Epoch
from qgt.files.plugins import load_same, loaded_plugins
from qgt.study.batch import Job, decode_batch
from qgt.study.entry import Recipe
from qgt.study.networks import Training, adopt_network, network_path
from qgt.study.parcels import Parcel, packed, unpacked
from qgt.study.plan import Task
from qgt.study.scheduler import connected, finished
from qgt.study.store import Row
from qgt.study.workers import Decoded

Sources = Sequence[tuple[Path, str]]  # plugins, with the hash of each


def decode_on_cluster(jobs: Iterable[Job], scheduler: str) -> Decoded:
    """Decode on the workers of a Dask scheduler, for example tls://head:8786."""
    plugins, sent = _plugins(), dict[Task, Any]()
    with connected(scheduler) as client:

        def send(job: Job) -> Any:
            """Send a job, and with the first of a task its network."""
            if isinstance(job.task.entry.method, Recipe) and job.task not in sent:
                # As a piece of work, not by `scatter`: what was scattered is lost with the workers that hold it.
                network = packed(network_path(job.networks, job.task))
                sent[job.task] = client.submit(parcel_itself, network, pure=False)
            return client.submit(decode_anywhere, job, sent.get(job.task), plugins, pure=False)

        with contextlib.closing(finished(client, jobs, send)) as ended:
            yield from ended


def train_on_cluster(trainings: Iterable[Training], folder: Path, scheduler: str) -> Iterator[Training]:
    """Train on the workers of a scheduler; each training comes when its networks are in the folder."""
    plugins = _plugins()
    with connected(scheduler) as client:

        def send(training: Training) -> Any:
            return client.submit(train_anywhere, training, plugins, pure=False)

        with contextlib.closing(finished(client, trainings, send)) as ended:
            for training, networks in ended:
                for task, network in zip(training.tasks, networks, strict=True):
                    adopt_network(folder, task, network)
                yield training


def parcel_itself(parcel: Parcel) -> Parcel:
    """What a worker does to have a network: nothing. Should it be lost, the scheduler has this done again."""
    return parcel


def decode_anywhere(job: Job, network: Parcel | None, plugins: Sources) -> Row:
    """What a worker does: unpack the network, load the same plugins, decode."""
    load_same(plugins)
    _check_device(job.device)
    if network is None:
        return decode_batch(job)
    folder = unpacked(network, network_path(job.networks, job.task).name)  # held until the job is done
    return decode_batch(job._replace(networks=Path(folder.name)))


def train_anywhere(training: Training, plugins: Sources) -> list[Parcel]:
    """What a worker does: train in a folder of its own, and send the networks back."""
    load_same(plugins)
    _check_device(training.device)
    with tempfile.TemporaryDirectory(prefix="qgt-training-") as name:
        training.run(Path(name), on_epoch=_stop_if_unwanted)
        return [packed(network_path(Path(name), task)) for task in training.tasks]


def _plugins() -> Sources:
    """The plugins of this process; one that has changed is refused here, in words."""
    plugins = [(plugin.path, plugin.sha256) for plugin in loaded_plugins()]
    load_same(plugins)
    return plugins


def _check_device(device: str) -> None:
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("device='cuda' cannot be used by this worker, which sees no GPU: give cpu, or other workers.")


def _stop_if_unwanted(epoch: Epoch) -> None:
    """End a training that nobody waits for any more: Dask itself lets what runs run on, for hours here."""
    from distributed import get_worker

    worker = get_worker()
    known = worker.state.tasks.get(worker.get_current_task())
    if known is None or known.state == "cancelled":
        raise RuntimeError(f"nobody waits for this training any more; it was stopped after epoch {epoch.number}.")
