"""Running a study: networks first, then every batch that is not in the store yet, then what the networks tell of A.

Workers decode and this process alone writes, one row as each batch is finished. Whatever ends a run (Ctrl-C, a kill, a
fault) loses the batches in progress and nothing else; the next run goes on from the rows that are there.
"""

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from qgt.arguments import check_device, whole
from qgt.decoders.neural.decoder import NeuralDecoder, load
from qgt.decoders.neural.record import Epoch
from qgt.study.batch import BatchJob, DecodedRows, decode_here, decode_in_processes
from qgt.study.cluster import check_address, decode_on_cluster, train_on_cluster
from qgt.study.networks import NetworkTraining, network_path, weights_digest
from qgt.study.plan import Recipe, Study, Task, generator
from qgt.study.reading import TaskTally
from qgt.study.store import Reading, Row, StudyStore
from qgt.trust.verification import ESTIMATORS, verify
from qgt.version import provenance


@dataclass(frozen=True)
class StudyProgress:
    """What a study's progress callback receives.

    Example:
        >>> StudyProgress(done=3, total=12, doing="AMP, design.pools = 8").row is None
        True
    """

    done: int  # batches that need no more work
    total: int
    doing: str  # in words
    row: Row | None = None  # just written and safe; None at the start and while networks train


OnStudyProgress = Callable[[StudyProgress], None]


def run_study(
    study: Study,
    db: str | Path,
    *,
    workers: int = 1,
    device: str = "cpu",
    networks: Path | None = None,
    scheduler: str | None = None,
    on_progress: OnStudyProgress | None = None,
) -> None:
    """Decode whatever of a study is not yet in the database.

    With one worker all work is done in this process, with its threads; with more, in as many processes of one thread
    each. On "cuda" it is done in this process, on instances drawn as on a CPU. Given the address of a Dask `scheduler`,
    its workers train and decode instead, on their `device`. However it is done, the counts are the same. Networks are
    kept in the folder `networks`, by default beside the database.

    Example:
        >>> from qgt import Study, study_results
        >>> design = {"kind": "bernoulli", "pools": 8, "items": 20}
        >>> problem = {"design": design, "prior": {"kind": "bernoulli", "rate": 0.1}}
        >>> study = Study.from_plain({"problem": problem, "decoders": {"AMP": {"kind": "amp"}}})
        >>> run_study(study, "study.db")
        >>> [result.score.instances for result in study_results(study, "study.db")]
        [2000]
    """
    whole("workers", workers, least=1)
    check_device(device, here=scheduler is None)
    if scheduler is not None:
        check_address(scheduler)
    folder = networks_folder(db) if networks is None else networks
    with StudyStore(db) as store:
        # Tasks that are equal share a tally.
        tallies = {task: TaskTally.of(task, store.rows(task.key)) for task in study.tasks}
        ledger = Ledger(tallies, on_progress)
        ledger.tell("starting")
        _train(ledger, folder, device, scheduler)
        jobs = (BatchJob(task, batch, device, folder) for task, batch in ledger.missing())
        decoded = _decoded(jobs, workers, device, scheduler)
        with contextlib.closing(decoded):  # whatever happens here ends the workers at once
            for job, row in decoded:
                store.add(row)
                ledger.add(job.task, row)
        if study.verify is not None:
            _read_back(ledger, store, folder, study.verify)


def _decoded(jobs: Iterable[BatchJob], workers: int, device: str, scheduler: str | None) -> DecodedRows:
    """The rows of jobs as they are finished: on a cluster, in processes, or here."""
    if scheduler is not None:
        return decode_on_cluster(jobs, scheduler)
    return decode_in_processes(jobs, workers) if workers > 1 and device == "cpu" else decode_here(jobs)


def networks_folder(db: str | Path) -> Path:
    """Where a study's networks are kept if nothing else is said."""
    return Path(db).with_suffix(".networks")


@dataclass(frozen=True, eq=False)
class Ledger:
    """What is done and what is missing."""

    tallies: dict[Task, TaskTally]
    on_progress: OnStudyProgress | None

    def missing(self) -> Iterator[tuple[Task, int]]:
        """The batches to decode, in order. Asked for one at a time, it stops a task as soon as its rows say so."""
        for task, tally in self.tallies.items():
            for batch in range(task.batches):
                if tally.finished:
                    break
                if batch not in tally:
                    yield task, batch

    def add(self, task: Task, row: Row) -> None:
        """Count a row that is in the store."""
        self.tallies[task].add(row)
        self.tell(task.name, row)

    def tell(self, doing: str, row: Row | None = None) -> None:
        """Report how far it is."""
        if self.on_progress is not None:
            done = sum(tally.done for tally in self.tallies.values())
            self.on_progress(StudyProgress(done, sum(task.batches for task in self.tallies), doing, row))


def train_all(
    trainings: Sequence[NetworkTraining],
    folder: Path,
    *,
    scheduler: str | None = None,
    on_progress: Callable[[int, str], None],
) -> None:
    """Train the networks that are not in the folder: one training after another here, or on the workers of a scheduler.

    `on_progress` receives how many trainings are done, and what is being done in words.
    """
    if scheduler is None:
        for number, training in enumerate(trainings):

            def tell(epoch: Epoch, number: int = number, name: str = training.name) -> None:
                on_progress(number, f"{name}: epoch {epoch.number} of {epoch.total}")

            training.run(folder, on_epoch=tell)
        return
    missing = [training for training in trainings if not training.is_done(folder)]
    if not missing:
        return
    there = len(trainings) - len(missing)
    on_progress(there, f"training on the cluster: {len(missing)} to do")
    for number, done in enumerate(train_on_cluster(missing, folder, scheduler), 1):
        on_progress(there + number, f"{done.name}: done, {number} of {len(missing)}")


def _train(ledger: Ledger, folder: Path, device: str, scheduler: str | None) -> None:
    """Train the networks that unfinished tasks need, and see that finished rows are of the same ones."""
    needed = {
        task: tally
        for task, tally in ledger.tallies.items()
        if isinstance(task.entry.method, Recipe) and not tally.finished
    }
    once = {network_path(folder, task): NetworkTraining((task,), device, stacked=False) for task in needed}
    train_all(list(once.values()), folder, scheduler=scheduler, on_progress=lambda _, doing: ledger.tell(doing))
    for task, tally in needed.items():
        if tally.rows and weights_digest(load(network_path(folder, task))) != tally.rows[0].provenance["network"]:
            raise ValueError(
                f"{network_path(folder, task)}: is not the network that {task.name} was begun with; "
                "put that one back, or use another database."
            )


def _read_back(ledger: Ledger, store: StudyStore, folder: Path, probes: int) -> None:
    """Read A back from every network, by every estimator that the store does not have yet."""
    for task in ledger.tallies:
        if not isinstance(task.entry.method, Recipe):
            continue
        there = {one.estimator for one in store.readings(task.key) if one.probes == probes}
        missing = [estimator for estimator in ESTIMATORS if estimator not in there]
        net = load(network_path(folder, task)) if missing else None
        for estimator in missing:
            assert net is not None
            ledger.tell(f"reading A back from {task.name}: {estimator.replace('_', ' ')}")
            store.add(_reading(task, net, estimator, probes))


def _reading(task: Task, net: NeuralDecoder, estimator: str, probes: int) -> Reading:
    """Every estimator asks every network of a problem at the same instances."""
    start = time.perf_counter()
    asked = generator("verify", task.fingerprint)
    report = verify(net, task.problem(), estimator=estimator, instances=probes, generator=asked)
    seconds = time.perf_counter() - start
    where = {**provenance("cpu"), "date": time.strftime("%Y-%m-%d"), "network": weights_digest(net)}
    counts = int(report.wrong.sum()), report.wrong.numel()
    return Reading(task.key, estimator, probes, *counts, seconds, where)
