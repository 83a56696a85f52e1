"""Running a reproduction: networks, then studies, then the networks' readings of A; counts, figures and tables out.

Everything lies in one folder. What a run has done there, a later run finds: rows in `reproduce.db`, networks and the
checkpoints of those in training in `reproduce.networks`.
"""

import dataclasses
import math
import os
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import torch

from qgt.decoders.neural.decoder import NeuralDecoder, load
from qgt.learning.run import Epoch
from qgt.paper.counts import Counts, Level, Measured
from qgt.paper.drawing import draw
from qgt.paper.plan import Scale, all_studies, level_name, parts
from qgt.study import Progress, Result, Study, Task, ensure_stack, network_path, networks_folder, results, run
from qgt.study.entry import Recipe
from qgt.study.seeds import generator
from qgt.study.store import Store
from qgt.trust.verification import verify
from qgt.version import __version__

STACK = 2**22  # parameters trained together on a GPU: enough to fill it, and little is lost when one is cut off

OnProgress = Callable[[Progress], None]


def reproduce(
    folder: str | Path,
    scale: Scale,
    *,
    workers: int = 1,
    device: str = "cpu",
    on_progress: OnProgress | None = None,
) -> Counts:
    """Run what is not yet in the folder, and write `counts.json`, the figures and the tables there.

    Example:
        >>> from qgt.paper import QUICK, reproduce
        >>> from qgt.paper.plan import all_studies
        >>> sum(len(study.tasks) for study in all_studies(QUICK))
        64
    """
    folder = Path(folder)
    db = folder / "reproduce.db"
    if device == "cuda":  # many small networks fill a GPU only together
        _train_stacks(all_studies(scale), networks_folder(db), device, on_progress)
    for name, studies in parts(scale).items():
        for study in studies:
            run(study, db, workers=workers, device=device, on_progress=_named(name, on_progress))
    _collect(scale, db).save(folder / "counts.json")
    return redraw(folder)


def redraw(folder: str | Path) -> Counts:
    """Make the figures and tables of a folder again, from its `counts.json` alone."""
    counts = Counts.load(Path(folder) / "counts.json")
    draw(counts, Path(folder))
    return counts


def _named(part: str, on_progress: OnProgress | None) -> OnProgress | None:
    """The callback, told which part a study belongs to."""
    if on_progress is None:
        return None
    return lambda progress: on_progress(dataclasses.replace(progress, doing=f"{part}: {progress.doing}"))


def _train_stacks(studies: Sequence[Study], folder: Path, device: str, on_progress: OnProgress | None) -> None:
    """Train every network of the studies, those of one recipe together."""
    stacks = list(_stacks(task for study in studies for task in study.tasks))
    for number, tasks in enumerate(stacks):
        what = f"training {len(tasks)} networks, {tasks[0].name} and on"

        def tell(epoch: Epoch, number: int = number, what: str = what) -> None:
            if on_progress is not None:
                doing = f"{what}: epoch {epoch.number} of {epoch.total}"
                on_progress(Progress(number, len(stacks), doing))

        ensure_stack(folder, tasks, device=device, on_epoch=tell)


def _stacks(tasks: Iterable[Task]) -> Iterator[list[Task]]:
    """Tasks whose networks are trained together. Always the same ones, so that one that was cut off is found again."""
    by_recipe: dict[str, dict[Task, Recipe]] = {}
    for task in tasks:
        if isinstance(task.entry.method, Recipe):
            by_recipe.setdefault(repr(task.entry.method.content), {})[task] = task.entry.method
    for group in by_recipe.values():
        members = list(group)
        pools = max(task.problem().pools for task in members)
        size = next(iter(group.values())).architecture.parameters(pools=pools, items=members[0].items)
        together = max(1, STACK // size)
        yield from (members[i : i + together] for i in range(0, len(members), together))


def _collect(scale: Scale, db: Path) -> Counts:
    """Add up what the database holds, verify the table's networks, and say where the time went."""
    planned = parts(scale)
    found = {name: [one for study in studies for one in results(study, db)] for name, studies in planned.items()}
    nets = {task: load(network_path(networks_folder(db), task)) for task in _network_tasks(planned.values())}
    seconds = {name: _seconds(planned[name], found[name], nets) for name in planned}
    start = time.perf_counter()
    levels = [_level(scale, level, planned["complexity"][0], found["complexity"], nets) for level in scale.levels]
    seconds["complexity"]["verifying"] = {"all levels": round(time.perf_counter() - start, 3)}
    return Counts(
        scale,
        _measured_on([task for studies in planned.values() for study in studies for task in study.tasks], db),
        seconds,
        _by_point(found["vs_pools"]),
        _by_point(found["vs_noise"]),
        levels,
    )


def _network_tasks(studies: Iterable[Sequence[Study]]) -> list[Task]:
    tasks = [task for group in studies for study in group for task in study.tasks]
    return [task for task in tasks if isinstance(task.entry.method, Recipe)]


def _by_point(found: Sequence[Result]) -> list[Result]:
    """Point by point, as a study has them, where several studies were put together; times to the millisecond."""
    found = [dataclasses.replace(one, seconds=round(one.seconds, 3)) for one in found]
    points = list(dict.fromkeys(tuple(one.point.items()) for one in found))
    return sorted(found, key=lambda one: points.index(tuple(one.point.items())))


def _level(scale: Scale, level: int, study: Study, found: Sequence[Result], nets: dict[Task, NeuralDecoder]) -> Level:
    """A row of the table of complexity: A read back from each network by the paper's estimator."""
    name, wrong, entries = level_name(level), [], 0
    for task in study.tasks:
        if task.entry.name == name:
            seeded = generator("verify", task.key)
            report = verify(nets[task], task.problem(), instances=scale.probes, generator=seeded)
            wrong.append(int(report.wrong.sum()))
            entries = report.wrong.numel()
    return Level(level, next(one.score for one in found if one.decoder == name), tuple(wrong), entries)


def _seconds(
    studies: Sequence[Study], found: Sequence[Result], nets: dict[Task, NeuralDecoder]
) -> dict[str, dict[str, float]]:
    """Seconds of training and of decoding, by decoder; a network has its share of its stack's."""
    training: dict[str, float] = {}
    for study in studies:
        for task in study.tasks:
            if task in nets:
                training[task.entry.name] = training.get(task.entry.name, 0.0) + _share(nets[task], nets.values())
    decoding: dict[str, float] = {}
    for one in found:
        decoding[one.decoder] = decoding.get(one.decoder, 0.0) + one.seconds
    return {
        "training": {name: round(value, 3) for name, value in training.items()},
        "decoding": {name: round(value, 3) for name, value in decoding.items()},
    }


def _share(net: NeuralDecoder, nets: Iterable[NeuralDecoder]) -> float:
    """A network's part of the time its stack took: until the last of it had stopped."""
    stack = [other for other in nets if other.training["seed"] == net.training["seed"]]
    return max(math.fsum(row["seconds"] for row in other.training["history"]) for other in stack) / len(stack)


def _measured_on(tasks: Sequence[Task], db: Path) -> Measured:
    """Hardware and versions: what the rows say of themselves."""
    with Store(db, create=False) as store:
        rows = [row.provenance for task in tasks for row in store.rows(task.key)]
    releases = sorted({str(row["torch"]) for row in rows})
    return Measured(
        devices=sorted({str(row["device"]) for row in rows}),
        cores=os.cpu_count(),
        versions={"qgt": __version__, "torch": " and ".join(releases), "python": platform.python_version()},
        threads=torch.get_num_threads(),
        design_seeds=sorted({task.design for task in tasks if task.design is not None}),
        date=time.strftime("%Y-%m-%d"),
    )
