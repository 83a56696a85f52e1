"""The standard benchmark: named problems with fixed instances, on which every decoder can be compared with every other.

`data/standard.toml` has the problems with their seeds, so that two laboratories decode the same counts. A row is one
decoder on one problem: how many instances it decoded without an error, in what time and memory. The limit is what
`Certified` reaches where it proved nearly all answers to be the most probable ones: no decoder is right more often, on
average.
"""

import hashlib
import json
import math
import time
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor

from qgt.decoders.contract import Decoder
from qgt.decoders.registry import DECODERS, make_decoder
from qgt.decoders.results import Status
from qgt.files.documents import markdown_table
from qgt.files.store import write_text
from qgt.model.problem import Instances, Problem
from qgt.trust.metrics import Interval, wilson
from qgt.version import provenance

PROVED_SHARE = 0.98  # of answers, from which on the success of `Certified` is called the limit
FIRST_PART, PART = 5, 50  # instances decoded together: a decoder too slow for all is stopped after few
FAILED = "it failed: "  # before the error, where a row says why a decoder has no result
ENOUGH = 50  # instances, from which on a row is ranked: the interval of a few includes every limit
SECONDS_EACH = "5"  # of a search, for one instance
NOT_COMPARED = ("exhaustive",)  # refuses all of the problems: they are too large


@dataclass(frozen=True)
class StandardProblem:
    """One of the problems, with its instances."""

    name: str
    level: str
    seed: int
    fingerprint: str
    spec: Mapping[str, Any]
    most: int  # instances

    @cached_property
    def problem(self) -> Problem:
        """The problem itself."""
        return Problem.from_spec(self.spec)

    def instances(self, number: int | None = None) -> Instances:
        """The first instances, which are the same everywhere; a ValueError where they are not.

        Args:
            number: How many; None takes all.
        """
        found = self.problem.simulate(self.most, generator=Generator().manual_seed(self.seed))
        if self.fingerprint != (drawn := fingerprint_of(found)):
            raise ValueError(
                f"{self.name}: the instances drawn here have the fingerprint {drawn}, not {self.fingerprint}: "
                "this version of torch draws other numbers; use the one in constraints.txt."
            )
        return Instances(found.x[:number], found.y[:number])


def fingerprint_of(found: Instances) -> str:
    """A few characters that tell instances apart; the last digits of a real number, which a machine may round, do not.

    Example:
        >>> import torch
        >>> fingerprint_of(Instances(torch.zeros(1, 2, dtype=torch.uint8), torch.ones(1, 1, dtype=torch.float64)))
        'bfbd6d05dc22'
    """
    digest = hashlib.sha256()
    for part in (found.x, found.y):
        digest.update(json.dumps([round(value, 6) for value in part.double().flatten().tolist()]).encode())
    return digest.hexdigest()[:12]


@lru_cache(maxsize=1)
def standard_problems() -> tuple[StandardProblem, ...]:
    """The problems of the standard benchmark.

    Example:
        >>> [one.name for one in standard_problems()][:3]
        ['paper-20', 'paper-25', 'paper-35']
    """
    stored = tomllib.loads((files("qgt.data") / "standard.toml").read_text("utf-8"))
    return tuple(_problem(one, stored["instances"]) for one in stored["problems"])


def standard_version() -> int:
    """The version of the set of problems."""
    return int(tomllib.loads((files("qgt.data") / "standard.toml").read_text("utf-8"))["version"])


def _problem(plain: Mapping[str, Any], most: int) -> StandardProblem:
    own = {name: plain.get(name, "") for name in ("name", "level", "seed", "fingerprint")}
    return StandardProblem(**own, spec={name: plain[name] for name in ("design", "prior", "noise")}, most=most)


# Rows.


@dataclass(frozen=True)
class StandardRow:
    """One decoder on one problem.

    Example:
        >>> row = StandardRow("paper-25", "gamp", instances=200, right=100, seconds=1.5, cpu_seconds=1.0)
        >>> row.success, row.milliseconds
        (0.5, 5.0)
    """

    problem: str
    decoder: str
    instances: int  # decoded in the time that was given
    right: int  # without a single error
    seconds: float  # for all of them, by the clock
    cpu_seconds: float  # the same of all threads together, which a busy neighbour changes less
    memory_mb: float | None = None  # by which the process grew; None where the system does not say
    proved: int | None = None  # answers shown to be the most probable ones; None for decoders that prove nothing
    refused: str = ""  # why the decoder does not take the problem, or how it failed
    source: str = ""  # the SHA-256 of the file that has the decoder, if it is a plugin

    @property
    def success(self) -> float:
        """The share of instances without an error."""
        return self.right / self.instances if self.instances else math.nan

    @property
    def interval(self) -> Interval:
        """Wilson's 95 % interval of that share."""
        return wilson(self.right, self.instances)

    @property
    def milliseconds(self) -> float:
        """CPU time for each instance, in a batch."""
        return 1000 * self.cpu_seconds / self.instances if self.instances else math.nan


def standard_decoders() -> dict[str, Decoder]:
    """Every decoder of the package that takes some of the problems; those that search have 5 s for each instance."""
    found = {}
    for name in DECODERS:
        if name not in NOT_COMPARED:
            limited = {"time_limit": SECONDS_EACH} if name in ("certified", "exact") else {}
            found[name] = make_decoder(name, limited)
    return found


def run_standard(
    decoders: Mapping[str, Decoder],
    *,
    problems: Sequence[StandardProblem] | None = None,
    instances: int | None = None,
    seconds: float = 120.0,
    done: Iterable[StandardRow] = (),
    sources: Mapping[str, str] | None = None,
    on_row: Callable[[StandardRow], None] | None = None,
) -> list[StandardRow]:
    """Every decoder on every problem. A decoder that raises an error gets a row that says so, and the others go on.

    Args:
        decoders: The decoders by the names that rows give them.
        problems: Some of the problems; None takes all.
        instances: Decode only the first ones of each problem; None decodes all.
        seconds: For each row. A decoder that is slower decodes fewer instances, and its row says how many.
        done: Rows of an earlier call, which are not measured again unless the decoder has another source now.
        sources: The SHA-256 of the files of decoders that are plugins, by their names.
        on_row: Called after each new row.

    Example:
        >>> import qgt
        >>> rows = run_standard({"gamp": qgt.GAMP()}, problems=standard_problems()[2:3], instances=20)
        >>> rows[0].problem, rows[0].instances, rows[0].right > 10
        ('paper-35', 20, True)
    """
    known = {(row.problem, row.decoder, row.source): row for row in done}
    found = []
    for one in standard_problems() if problems is None else problems:
        drawn: Instances | None = None
        for name, decoder in decoders.items():
            source = (sources or {}).get(name, "")
            row = known.get((one.name, name, source))
            if row is None or not _complete(row, min(instances or one.most, one.most), seconds):
                drawn = drawn or one.instances(instances)
                row = replace(_attempted(one, name, decoder, drawn, seconds), source=source)
                if on_row is not None:
                    on_row(row)
            found.append(row)
    return found


def _complete(row: StandardRow, wanted: int, seconds: float) -> bool:
    """Whether a row of an earlier call need not be measured again."""
    refused = bool(row.refused) and not row.refused.startswith(FAILED)  # an error may have been of the machine
    return refused or row.instances >= wanted or row.seconds >= seconds


def _attempted(one: StandardProblem, name: str, decoder: Decoder, drawn: Instances, seconds: float) -> StandardRow:
    """A row; of a decoder that fails, one that says how: an hour of other rows is not lost for it."""
    try:
        return _measured(one, name, decoder, drawn, seconds)
    except Exception as error:
        return StandardRow(one.name, name, 0, 0, 0.0, 0.0, refused=f"{FAILED}{type(error).__name__}: {error}")


def _measured(one: StandardProblem, name: str, decoder: Decoder, drawn: Instances, seconds: float) -> StandardRow:
    if (reason := decoder.supports(one.problem)) is not None:
        return StandardRow(one.name, name, 0, 0, 0.0, 0.0, refused=reason)
    before, start, cpu = _memory_reset(), time.perf_counter(), time.process_time()
    decode, right, proved, decoded = decoder.bind(one.problem), 0, 0, 0
    proves = False
    while decoded < len(drawn.x) and (not decoded or time.perf_counter() - start < seconds):
        part = slice(decoded, decoded + (PART if decoded else FIRST_PART))
        result = decode(drawn.y[part])
        right += int(_right(drawn.x[part], result.x).sum())
        proved += int((result.status == Status.PROVED).sum())
        proves = proves or bool((result.status == Status.PROVED).any())
        decoded += len(drawn.x[part])
    took, cpu = time.perf_counter() - start, time.process_time() - cpu
    return StandardRow(one.name, name, decoded, right, took, cpu, _grown(before), proved if proves else None)


def _right(x: Tensor, found: Tensor) -> Tensor:
    """Which instances are without an error: of amounts, whether an item is positive counts, not how much it has."""
    if x.dtype == torch.float64:
        x = (x > 0).to(found.dtype)
    right: Tensor = (x == found).all(1)
    return right


# The memory of the process, where the system says it.

STATUS_FILE, CLEAR_FILE = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def _memory_reset() -> float | None:
    """The memory now, in MB; from here on the peak is measured anew."""
    try:
        CLEAR_FILE.write_text("5")  # resets VmHWM, see proc(5)
        return _memory("VmRSS")
    except OSError:
        return None


def _grown(before: float | None) -> float | None:
    return None if before is None else round(max(0.0, _memory("VmHWM") - before), 1)


def _memory(name: str) -> float:
    line = next(line for line in STATUS_FILE.read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) / 1024


# Files and tables.


@dataclass(frozen=True)
class StandardResults:
    """The rows of one or more decoders, and where they were measured."""

    rows: Sequence[StandardRow]
    version: int = field(default_factory=standard_version)
    made_on: Mapping[str, Any] = field(default_factory=lambda: provenance("cpu"))

    @classmethod
    def load(cls, path: str | Path) -> "StandardResults":
        """Read what `save` wrote."""
        try:
            plain = json.loads(Path(path).read_text("utf-8"))
            rows = [StandardRow(**row) for row in plain["rows"]]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path}: does not have results of the standard benchmark ({error}).") from error
        if plain["version"] != standard_version():
            raise ValueError(f"{path}: has version {plain['version']} of the problems; run them anew.")
        return cls(rows, plain["version"], plain["made_on"])

    def save(self, path: str | Path) -> None:
        """Write them as JSON, one row a line."""
        rows = ",\n".join("  " + json.dumps(asdict(row)) for row in self.rows)
        head = json.dumps({"version": self.version, "made_on": dict(self.made_on)}, indent=1)[:-2]
        write_text(Path(path), f'{head},\n "rows": [\n{rows}\n ]\n}}\n')

    def limit(self, problem: str) -> StandardRow | None:
        """The row of the decoder whose success no other exceeds, on average; None where not enough is proved."""
        for row in self.rows:
            measured = row.problem == problem and row.instances > 0
            if measured and row.decoder == "load_posterior":  # lists answers instead of proving one
                return row
            if measured and row.decoder == "certified" and (row.proved or 0) >= PROVED_SHARE * row.instances:
                return row
        return None

    def ranking(self) -> str:
        """All decoders as a Markdown table: on how many problems each is at the limit, the best first.

        Rows with few instances are not counted.
        """
        names = dict.fromkeys(row.decoder for row in self.rows if row.instances)
        header = [
            "decoder",
            "problems it takes",
            "at the limit on",
            "mean distance from the limit",
            "median CPU ms each",
        ]
        return markdown_table(header, [cells for *_, cells in sorted(map(self._standing, names))])

    def _standing(self, decoder: str) -> tuple[int, float, list[str]]:
        """By what a decoder is ranked, and its cells."""
        own = [row for row in self.rows if row.decoder == decoder and row.instances]
        beside = [(row, limit) for row in own if (limit := self.limit(row.problem)) is not None]
        ranked = [(row, limit) for row, limit in beside if row.instances >= ENOUGH]
        reached = sum(row.interval.high >= limit.success for row, limit in ranked)
        lost = sum(limit.success - row.success for row, limit in ranked) / len(ranked) if ranked else math.inf
        middle = sorted(row.milliseconds for row in own)[len(own) // 2]
        cells = [str(len(own)), f"{reached}/{len(ranked)}", f"{lost:.3f}" if ranked else "", f"{middle:.3g}"]
        return -reached, lost, [f"**{decoder}**", *cells]

    def table(self, problem: str) -> str:
        """The decoders that take a problem as a Markdown table, the best first, those with few instances last."""
        limit = self.limit(problem)
        rows = [row for row in self.rows if row.problem == problem and row.instances]
        rows.sort(key=lambda row: (row.instances < ENOUGH, -row.success, row.milliseconds))
        cells = [
            [
                f"**{row.decoder}**" + (" (the limit)" if row is limit else ""),
                f"{row.success:.3f}",
                f"{row.interval.low:.3f} to {row.interval.high:.3f}",
                str(row.instances),
                "" if row.proved is None else f"{100 * row.proved // row.instances} %",
                f"{row.milliseconds:.3g}",
                "" if row.memory_mb is None else f"{row.memory_mb:.0f}",
            ]
            for row in rows
        ]
        return markdown_table(["decoder", "right", "95 % interval", "instances", "proved", "CPU ms each", "MB"], cells)
