"""The plan: a study names a problem, the grids to vary it over, and decoders; its tasks are their product.

A task is one decoder on one problem, and its key is the hash of everything that determines its results. How many
instances it decodes is not part of that: more instances later is just another run.

All decoders of a study decode the same instances in the same order: block number b is drawn with a seed that depends
on the problem, the block's size and b alone. A decoder with a smaller batch of its own takes slices of a block.
"""

import copy
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from qgt.arguments import whole
from qgt.files import codec, documents, plugins
from qgt.model.problem import Instances, Problem, Spec
from qgt.study.entry import Entry, Recipe, parse_entry, parse_policy
from qgt.study.seeds import digest, generator
from qgt.trust.metrics import METRICS
from qgt.version import __version__

Value = int | float | str
KEYS = frozenset({"instances", "max_failures", "batch", "designs", "metric", "verify", "grid", "decoders", "policies"})
NUMBERS = ("instances", "batch", "max_failures", "verify")


@dataclass(frozen=True, eq=False)
class Task:
    """One decoder on one problem; tasks are equal where their results are."""

    point: Mapping[str, Value]  # where on the grid
    design: int | None  # the seed of its design; None where the study has just one
    problem_spec: Spec
    fingerprint: str
    items: int
    entry: Entry
    block: int  # instances drawn at a time, for all decoders alike
    batch: int  # of these, decoded at a time: one row
    batches: int  # how many at most
    max_failures: int | None

    @cached_property
    def key(self) -> str:
        """The hash of everything that determines the results."""
        code = {"qgt": __version__, **self.sources}
        return digest("task", self.fingerprint, self.entry.content, self.block, self.batch, code)

    @cached_property
    def sources(self) -> dict[str, str]:
        """The SHA-256 of each plugin that its problem or its decoder is from: other code has other results."""
        parts = [part for name, part in self.problem_spec.items() if name != "design"]
        return plugins.sources([*parts, self.entry.content])

    @property
    def stream(self) -> str:
        """Which instances it decodes: tasks with the same stream decode the same ones, in the same order."""
        return digest("instances", self.fingerprint, self.block)[:32]

    @property
    def name(self) -> str:
        """The task in words, for messages."""
        place = [f"{key} = {value}" for key, value in self.point.items()]
        return ", ".join([self.entry.name, *place, *([] if self.design is None else [f"design {self.design}"])])

    def problem(self) -> Problem:
        """The problem, made anew."""
        return Problem.from_spec(self.problem_spec)

    def draw(self, problem: Problem, batch: int) -> Instances:
        """The instances of a batch, the same for every decoder, worker and device; `problem` is the task's, made."""
        block, first = divmod(batch * self.batch, self.block)
        seeded = generator("instances", self.fingerprint, self.block, block)
        x, y = problem.simulate(self.block, generator=seeded)
        return Instances(x[first : first + self.batch], y[first : first + self.batch])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Task) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


@dataclass(frozen=True, eq=False)
class Study:
    """Problems, decoders and how many instances: everything that `run_study` and `study_results` need to know.

    Example:
        >>> study = Study.from_plain({
        ...     "problem": {
        ...         "design": {"kind": "bernoulli", "pools": 8, "items": 20},
        ...         "prior": {"kind": "bernoulli", "rate": 0.1},
        ...     },
        ...     "grid": {"design.pools": [6, 8, 10]},
        ...     "decoders": {"AMP": {"kind": "amp"}, "GAMP": {"kind": "gamp"}},
        ... })
        >>> len(study.tasks)
        6
    """

    problem: Spec  # a problem's spec; a design that is drawn has no seed here
    decoders: Sequence[Entry]
    grid: Mapping[str, Sequence[Value]] = field(default_factory=dict)  # dotted keys into the problem
    designs: Sequence[int] = (0,)  # seeds: every design at every point of the grid
    instances: int = 2000  # per task; rounded up to whole batches
    batch: int = 500
    max_failures: int | None = None  # stop a task once its batches, in order, have as many
    metric: str = "success_rate"  # what figures show
    verify: int | None = None  # at how many instances A is read back from each network; None: it is not
    folder: Path = Path()  # where a design's file is looked for
    tasks: Sequence[Task] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tasks", tuple(self._tasks()))

    @classmethod
    def from_plain(cls, data: codec.Table, *, folder: Path = Path()) -> "Study":
        """The study that plain data describes; whatever cannot work is refused by name, before anything runs."""
        codec.check_keys("study", data, required={"problem"}, optional=KEYS)
        decoders = codec.as_table("decoders", data.get("decoders", {}))
        policies = codec.as_table("policies", data.get("policies", {}))
        if not decoders and not policies:
            raise ValueError("decoders is empty: add a table [decoders.NAME] or [policies.NAME] with a kind.")
        if both := sorted(set(decoders) & set(policies)):
            raise ValueError(f"policies.{both[0]} has the name of a decoder: give another.")
        numbers = {key: whole(key, data[key], least=1) for key in NUMBERS if key in data}
        metric = data.get("metric", "success_rate")
        if metric not in METRICS:
            raise ValueError(f"metric={metric!r} is not known: give one of {', '.join(METRICS)}.")
        given = codec.as_table("problem", data["problem"])
        codec.check_keys("problem", given, required={"design", "prior"}, optional={"noise"})
        problem = {part: codec.as_table(f"problem.{part}", table) for part, table in given.items()}
        entries = (
            *(parse_entry(name, value) for name, value in decoders.items()),
            *(parse_policy(name, value) for name, value in policies.items()),
        )
        if "verify" in data and not any(isinstance(entry.method, Recipe) for entry in entries):
            raise ValueError("verify has no meaning without a network among the decoders: leave it out.")
        return cls(
            problem,
            entries,
            _grid(problem, codec.as_table("grid", data.get("grid", {}))),
            _designs(data.get("designs", 1)),
            metric=metric,
            folder=folder,
            **numbers,
        )

    @classmethod
    def load(cls, path: str | Path) -> "Study":
        """Read a study file, TOML or JSON."""
        return documents.load(
            path, "study", lambda data: cls.from_plain(codec.as_table("study", data), folder=Path(path).parent)
        )

    def with_instances(self, instances: int) -> "Study":
        """The same study with another number of instances; decoders with a smaller number of their own keep it."""
        count = whole("instances", instances, least=1)
        decoders = [replace(e, instances=e.instances and min(e.instances, count)) for e in self.decoders]
        return replace(self, instances=count, decoders=decoders)

    @property
    def points(self) -> list[dict[str, Value]]:
        """Every combination of the grid's values; one empty point where there is no grid."""
        return [dict(zip(self.grid, values, strict=True)) for values in itertools.product(*self.grid.values())]

    def _tasks(self) -> Iterator[Task]:
        """Point by point, so that all decoders of a comparison advance together."""
        drawn = "kind" in self.problem["design"]
        if drawn and "seed" in self.problem["design"]:
            raise ValueError("problem.design.seed is not for a study: leave it out, and give designs = [seed].")
        if not drawn and tuple(self.designs) != (0,):
            raise ValueError("designs has no meaning where the design is given: leave it out.")
        checked = False
        for point, seed in itertools.product(self.points, self.designs):
            spec = _at(self.problem, {**point, "design.seed": seed} if drawn else point)
            problem = Problem.from_spec(spec, folder=self.folder)
            # A file may change while the study runs: its matrix is taken now.
            spec = spec if drawn else problem.spec
            made = (point, seed if drawn else None, spec, problem.fingerprint, problem.items)
            for entry in self.decoders:
                if not checked:
                    self._check(entry, problem)
                if (reason := entry.refusal(problem)) is not None:
                    raise ValueError(f"decoders.{entry.name} cannot decode the problem at {point or 'hand'}: {reason}")
                yield Task(*made, entry, *self._sizes(entry))
            checked = True

    def _check(self, entry: Entry, problem: Problem) -> None:
        try:
            if entry.refusal(problem) is None:
                entry.check(problem)
        except ValueError as error:
            raise ValueError(f"decoders.{entry.name}: {error}") from error
        if entry.batch is not None and self.batch % entry.batch:
            raise ValueError(
                f"decoders.{entry.name}: batch={entry.batch} does not divide the study's batch of {self.batch}, "
                "so its instances would not be the others': give a divisor."
            )

    def _sizes(self, entry: Entry) -> tuple[int, int, int, int | None]:
        """Block, batch, batches and failures of a task."""
        batch = entry.batch or self.batch
        batches = -(-(entry.instances or self.instances) // batch)
        return self.batch, batch, batches, self.max_failures


def _designs(value: object) -> tuple[int, ...]:
    """Seeds of designs, from their number or from themselves."""
    if not isinstance(value, list | tuple):
        return tuple(range(whole("designs", value, least=1, most=10_000)))
    seeds = tuple(whole("designs", seed, most=2**63 - 1) for seed in value)
    if not seeds or len(set(seeds)) < len(seeds):
        raise ValueError(f"designs={value!r} is not valid: give at least one seed, each once.")
    return seeds


def _grid(problem: Spec, grid: codec.Table) -> dict[str, tuple[Value, ...]]:
    """The grid, every key of which must be in the problem already."""
    known, checked = _flat(problem), dict[str, tuple[Value, ...]]()
    for key, values in _flat(grid).items():
        if key not in known:
            raise ValueError(f"grid.{key} is not in the problem: add it there, or use one of {', '.join(known)}.")
        if not isinstance(values, list | tuple) or not values:
            raise ValueError(f"grid.{key}={values!r} is not valid: give a list of values.")
        for value in values:
            if not isinstance(value, int | float | str) or isinstance(value, bool):
                raise ValueError(f"grid.{key} holds {value!r}: give numbers or texts.")
        if len(set(values)) < len(values):
            raise ValueError(f"grid.{key}={values!r} holds a value twice: give each once.")
        checked[key] = tuple(values)
    return checked


def _flat(tables: codec.Table) -> dict[str, object]:
    """Dotted keys and their values. TOML reads `a.b = 1` as a table and `"a.b" = 1` as a key: both mean the same."""
    parts = [
        {f"{part}.{key}": value for key, value in values.items()} if isinstance(values, Mapping) else {part: values}
        for part, values in tables.items()
    ]
    return {key: value for part in parts for key, value in part.items()}


def _at(problem: Spec, values: Mapping[str, Value]) -> dict[str, dict[str, object]]:
    """The problem's spec with the values at their dotted keys."""
    spec = {part: copy.deepcopy(dict(table)) for part, table in problem.items()}
    for key, value in values.items():
        part, _, name = key.partition(".")
        spec[part][name] = value
    return spec
