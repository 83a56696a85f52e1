"""Running a reproduction: networks, then studies; counts, figures and tables out.

Everything lies in one folder. What a run has done there, a later run finds: rows in `reproduce.db`, networks and the
checkpoints of those in training in `reproduce.networks`.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from qgt.decoders.neural.network import number_of_weights
from qgt.files.store import replacing, write_text
from qgt.paper.plan import FIXED, LIMIT, NEARLY, PAPERS, POOLS_NOISE, TOLD, PaperPlan, Scale
from qgt.paper.tables import FIGURES, TABLES, Counts, Number, across, write_complexity_csv
from qgt.pictures.figures import curves_figure, draw_panel, line_label, line_styles, save_figure
from qgt.pictures.style import QUIET_WORDS, LineEnd, name_ends
from qgt.study import (
    Comparison,
    NetworkTraining,
    Study,
    StudyProgress,
    StudyResult,
    Task,
    compare_decoders,
    measured_on,
    networks_folder,
    run_study,
    study_results,
    to_milliseconds,
    train_all,
    training_seconds,
    write_csv,
)
from qgt.study.plan import Recipe
from qgt.study.running import OnStudyProgress
from qgt.study.store import StudyStore
from qgt.trust.metrics import METRICS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STACK = 2**22  # parameters trained together on a GPU: enough to fill it, and little is lost when one is cut off


def reproduce(
    folder: str | Path,
    scale: Scale,
    *,
    workers: int = 1,
    device: str = "cpu",
    scheduler: str | None = None,
    on_progress: OnStudyProgress | None = None,
) -> Counts:
    """Run what is not yet in the folder, and write `counts.json`, the figures and the tables there.

    Example:
        >>> from qgt.paper import PaperPlan, QUICK
        >>> len(list(PaperPlan.of(QUICK).tasks))
        64
    """
    folder, plan = Path(folder), PaperPlan.of(scale)
    db = folder / "reproduce.db"
    if device == "cuda":  # many small networks fill a GPU only together
        _train_stacks(plan.tasks, networks_folder(db), device, scheduler, on_progress)
    for name, studies in plan.parts.items():
        for study in studies:
            told = _named(name, on_progress)
            run_study(study, db, workers=workers, device=device, scheduler=scheduler, on_progress=told)
    collect(plan, db).save(folder / "counts.json")
    return redraw(folder)


def redraw(folder: str | Path) -> Counts:
    """Make the figures and tables of a folder again, from its `counts.json` alone."""
    path, db = Path(folder) / "counts.json", Path(folder) / "reproduce.db"
    if db.exists() and not path.exists():
        with StudyStore(db, reading=True) as store:
            batches = store.count()
        raise ValueError(
            f"{path}: is not there yet, because the run in this folder is not finished ({batches} batches are "
            "counted); run the same 'qgt reproduce' again to finish it."
        )
    counts = Counts.load(path)
    draw(counts, Path(folder))
    return counts


def collect(plan: PaperPlan, db: Path) -> Counts:
    """Add up what the database holds of a plan."""
    found = {
        name: _by_point([one for study in studies for one in study_results(study, db)])
        for name, studies in plan.parts.items()
    }
    return Counts(
        plan.scale,
        measured_on([study for studies in plan.parts.values() for study in studies], db),
        {name: _seconds(studies, found[name], db) for name, studies in plan.parts.items()},
        **{name: to_milliseconds(each) for name, each in found.items()},
        pairs_vs_pools=_pairs(found["vs_pools"]),
        pairs_vs_noise=_pairs(found["vs_noise"]),
    )


def _named(part: str, on_progress: OnStudyProgress | None) -> OnStudyProgress | None:
    """The callback, told which part a study belongs to."""
    if on_progress is None:
        return None
    return lambda progress: on_progress(replace(progress, doing=f"{part}: {progress.doing}"))


def _train_stacks(
    tasks: Iterable[Task], folder: Path, device: str, scheduler: str | None, on_progress: OnStudyProgress | None
) -> None:
    """Train every network of the tasks, those of one recipe together."""
    stacks = [NetworkTraining(tuple(stack), device, stacked=True) for stack in _stacks(tasks)]

    def tell(done: int, doing: str) -> None:
        if on_progress is not None:
            on_progress(StudyProgress(done, len(stacks), doing))

    train_all(stacks, folder, scheduler=scheduler, on_progress=tell)


def _stacks(tasks: Iterable[Task]) -> Iterator[list[Task]]:
    """Tasks whose networks are trained together. Always the same ones, so that one that was cut off is found again."""
    by_recipe: dict[str, dict[Task, Recipe]] = {}
    for task in tasks:
        if isinstance(task.entry.method, Recipe):
            by_recipe.setdefault(repr(task.entry.method.content), {})[task] = task.entry.method
    for group in by_recipe.values():
        members = list(group)
        widest = max((task.problem().design for task in members), key=lambda design: design.pools)
        size = number_of_weights(next(iter(group.values())).architecture, widest)
        together = max(1, STACK // size)
        yield from (members[i : i + together] for i in range(0, len(members), together))


def _by_point(found: Sequence[StudyResult]) -> list[StudyResult]:
    """Point by point, as a study has them, where several studies were put together."""
    points = list(dict.fromkeys(tuple(one.point.items()) for one in found))
    return sorted(found, key=lambda one: points.index(tuple(one.point.items())))


def _pairs(found: Sequence[StudyResult]) -> list[Comparison]:
    """The network against each of the paper's AMPs, and every decoder against the limit."""
    others = dict.fromkeys(one.decoder for one in found if not one.limit)
    wanted = [*((PAPERS, amp) for amp in (TOLD, NEARLY, FIXED)), *((name, LIMIT) for name in others)]
    return [comparison for first, second in wanted for comparison in compare_decoders(found, first, second)]


def _seconds(studies: Sequence[Study], found: Sequence[StudyResult], db: Path) -> dict[str, dict[str, float]]:
    """Seconds of training, decoding and verifying, by decoder; a network has its share of its stack's."""
    folder = networks_folder(db)
    spent: dict[str, dict[str, float]] = {"training": {}, "decoding": {}, "verifying": {}}

    def add(doing: str, name: str, seconds: float) -> None:
        spent[doing][name] = spent[doing].get(name, 0.0) + seconds

    with StudyStore(db, reading=True) as store:
        for task in (task for study in studies for task in study.tasks):
            if isinstance(task.entry.method, Recipe):
                add("training", task.entry.name, training_seconds(folder, task))
                readings = list(store.readings(task.key))
                if readings:
                    add("verifying", task.entry.name, math.fsum(one.seconds for one in readings))
    for one in found:
        add("decoding", one.decoder, one.seconds)
    return {doing: {name: round(value, 3) for name, value in each.items()} for doing, each in spent.items() if each}


# The files of a reproduction: its figures and tables, from its counts alone.


def draw(counts: Counts, folder: Path) -> list[Path]:
    """Write every figure and table; their paths."""
    writers: dict[str, Callable[[Path], None]] = {
        "complexity.csv": partial(write_complexity_csv, counts),
        **{f"{name}.md": partial(write_text, text=make(counts) + "\n") for name, make in TABLES.items()},
    }
    for name in FIGURES:
        found = getattr(counts, name)
        writers |= {f"{name}.csv": partial(write_csv, found), **_images(name, curves_figure(found, METRICS))}
    writers |= _images("success_vs_pools", success_figure(counts))
    for file, write in writers.items():
        write(folder / file)
    return [folder / file for file in writers]


def success_figure(counts: Counts) -> "Figure":
    """Success rates against pools in one panel, every line with its name at its end."""
    from matplotlib.figure import Figure

    found, scale = counts.vs_pools, counts.scale
    figure = Figure(figsize=(8, 4.8), layout="constrained")
    ax = figure.subplots()
    styles = line_styles(found)
    draw_panel(ax, found, styles, "success_rate")
    _name_lines(ax, found, {name: style.color for name, style in styles.items()})
    ax.tick_params(labelsize=10.5)
    ax.set_xlabel("pools", fontsize=11.5)
    ax.set_ylabel("share of instances without an error", fontsize=11.5)
    ax.set_title("How often every item is called right", loc="left", fontsize=13.5, fontweight="bold", pad=27)
    setting = (
        f"{scale.items} items, {100 * scale.rate:g} % defective; {100 * POOLS_NOISE:g} % of counts noisy; "
        f"{scale.designs * scale.instances:,} instances a point"
    )
    ax.text(0, 1.035, setting, transform=ax.transAxes, fontsize=10.5, color=QUIET_WORDS)
    return figure


def _name_lines(ax: "Axes", found: Sequence[StudyResult], colours: Mapping[str, str]) -> None:
    """Write each decoder's name right of its line's end; the limit's is bold."""
    left, right = min(map(across, found)), max(map(across, found))
    margin = 0.02 * (right - left) or 0.5  # a single point needs some room too
    ax.set_xlim(left - margin, right + margin)
    ends = []
    for name, (x, y) in _ends(found).items():
        line = [one for one in found if one.decoder == name]
        ends.append(LineEnd(x, y, colours[name], line_label(line), bold=line[0].limit))
    name_ends(ax, ends, fontsize=10.5)


def _ends(found: Sequence[StudyResult]) -> dict[str, tuple[Number, float]]:
    """The last point of each decoder's line."""
    last: dict[str, StudyResult] = {}
    for one in sorted(found, key=across):
        last[one.decoder] = one
    return {name: (across(one), one.score.success_rate) for name, one in last.items()}


def _images(name: str, figure: "Figure") -> dict[str, Callable[[Path], None]]:
    return {f"{name}.{form}": partial(_write_image, figure, form) for form in ("svg", "png")}


def _write_image(figure: "Figure", form: str, path: Path) -> None:
    with replacing(path) as temporary:
        save_figure(figure, temporary, form)
