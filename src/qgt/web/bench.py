"""The bench: runs whose plan is read and whose decoder is ready, so that the next sheet of counts need not wait."""

import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path

from qgt.decoders.registry import make_decoder
from qgt.lab.plan.folder import read_plan
from qgt.lab.plan.simulation import decoder_name
from qgt.lab.sheets.samples import Samples
from qgt.model.problem import Problem
from qgt.trust.confidence import BoundCalibrated, Calibrated
from qgt.web.settings import Settings
from qgt.web.shelf import Shelf
from qgt.web.store import Store

KEPT = 16  # runs


@dataclass(frozen=True, eq=False)
class Prepared:
    """What a run's plan says, and a decoder bound to its problem."""

    decoder_name: str
    problem: Problem
    samples: Samples
    decoder: BoundCalibrated


@dataclass(frozen=True, eq=False)
class Bench:
    """The runs that were used last; runs of one problem share what was measured of it."""

    settings: Settings
    store: Store
    _runs: Shelf[Prepared] = field(default_factory=lambda: Shelf(most=KEPT))
    _decoders: Shelf[BoundCalibrated] = field(default_factory=lambda: Shelf(most=KEPT))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def prepared(self, run: str) -> Prepared:
        """A run that is ready to decode; its plan is read from the store at the first use."""
        with self._lock:
            found = self._runs.get(run)
            if found is None:
                found = self._prepare(run)
                self._runs.put(run, found)
        return found

    def ready(self, run: str) -> bool:
        """Whether the run's decoder has nothing left to measure."""
        return bool(self.prepared(run).decoder._learned)

    def _prepare(self, run: str) -> Prepared:
        with tempfile.TemporaryDirectory() as name:
            unpack(self.store.files(run), Path(name))
            plan = read_plan(Path(name))
        problem, name = plan.problem, decoder_name(plan.problem)
        decoder = self._decoders.get(problem.fingerprint)
        if decoder is None:
            inner = make_decoder(name, {"time_limit": str(self.settings.seconds)})
            decoder = Calibrated(inner, seconds=self.settings.calibrate).bind(problem)
            self._decoders.put(problem.fingerprint, decoder)
        return Prepared(name, problem, plan.samples, decoder)


def unpack(files: dict[str, bytes], folder: Path) -> None:
    """Write a run's files into a folder of ours; their names are those that the lab gave them."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def packed(folder: Path) -> dict[str, bytes]:
    """All files of a folder by their paths in it."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
