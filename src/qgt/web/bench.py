"""The bench: runs whose plan is read and whose decoder is ready, so that the next sheet of counts need not wait."""

import tempfile
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path

from qgt.decoders.registry import make_decoder
from qgt.lab.plan_folder import read_plan
from qgt.lab.samples import Samples
from qgt.lab.scouting import decoder_name
from qgt.model.problem import Problem
from qgt.trust.calibration import BoundCalibrated, Calibrated
from qgt.web.settings import Settings
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
    """The runs that were used last."""

    settings: Settings
    store: Store
    _kept: OrderedDict[str, Prepared] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def prepared(self, run: str) -> Prepared:
        """A run that is ready to decode; its plan is read from the store at the first use."""
        with self._lock:
            found = self._kept.pop(run, None) or self._prepare(run)
            self._kept[run] = found
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return found

    def ready(self, run: str) -> bool:
        """Whether the run's decoder has nothing left to measure."""
        with self._lock:
            found = self._kept.get(run)
        return found is not None and bool(found.decoder._learned)

    def _prepare(self, run: str) -> Prepared:
        with tempfile.TemporaryDirectory() as name:
            unpack(self.store.files(run), Path(name))
            plan = read_plan(Path(name))
        seconds, problem = self.settings.seconds, plan.problem
        name = decoder_name(problem)
        decoder = make_decoder(name, {"time_limit": str(seconds)})
        return Prepared(name, problem, plan.samples, Calibrated(decoder, seconds=self.settings.calibrate).bind(problem))


def unpack(files: dict[str, bytes], folder: Path) -> None:
    """Write a run's files into a folder of ours; their names are those that the lab gave them."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def packed(folder: Path) -> dict[str, bytes]:
    """All files of a folder by their paths in it."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
