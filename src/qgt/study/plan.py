"""The plan: a study names a problem, the grids to vary it over, and decoders; its tasks are their product.

A task is one decoder on one problem, and its key is the hash of everything that determines its results. How many
instances it decodes is not part of that: more instances later is just another run.

All decoders of a study decode the same instances in the same order: block number b is drawn with a seed that depends
on the problem, the block's size and b alone. A decoder with a smaller batch of its own takes slices of a block.
"""

import copy
import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

import torch

from qgt.arguments import whole
from qgt.decoders.contract import BoundDecoder, Decoder, without_costs
from qgt.decoders.neural.decoder import ARCHITECTURES, NETWORKS, ON_FRESH_DATA, describe
from qgt.decoders.neural.mlp import MLP
from qgt.decoders.neural.network import Architecture
from qgt.decoders.neural.record import TrainConfig, make_config
from qgt.decoders.registry import DECODERS, KINDS
from qgt.files import codec, documents, plugins
from qgt.model.problem import Instances, Problem, Spec
from qgt.rounds.policies import FollowUp, Policy
from qgt.rounds.schemes import Scheme
from qgt.trust.metrics import METRICS

# Seeds and names from content: what a result depends on, hashed, so that order and workers change nothing.


def digest_of(*parts: object) -> str:
    """The SHA-256 of plain data, as JSON with sorted keys and no spaces.

    Example:
        >>> digest_of("a", {"b": 1})[:12]
        '3d6f51e1fd24'
    """
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def generator(*parts: object, device: str = "cpu") -> torch.Generator:
    """A generator whose seed is the hash of plain data, cut to the 63 bits that torch takes.

    Example:
        >>> generator("a", 1).initial_seed() == generator("a", 1).initial_seed() != generator("a", 2).initial_seed()
        True
    """
    return torch.Generator(device).manual_seed(int(digest_of(*parts)[:16], 16) >> 1)


# A study's decoder: one entry of its file, with what the decoder is told and how its calls are made.
#
# `kind` names a decoder of the registry or of a plugin ("file:Class"), with that class's fields as keys, or a network
# to train for each problem:
#
#     [decoders.GAMP]                 [decoders."AMP, told K"]        [decoders.network]
#     kind = "gamp"                   kind = "amp"                    kind = "mlp"
#     damping = 0.5                   defectives = "true"             level = 5
#                                     tune = true                     train = { epochs = 60 }
#
# A policy, under `policies`, makes its own pools, round by round, for the items of the problem:
#
#     [policies."follow-up"]          [policies.halving]
#     kind = "follow_up"              kind = "scheme"
#     first = 16                      name = "grouped_halving"

TUNED_ON = 1000  # instances on which a threshold is tuned
COMMON = frozenset({"kind", "label", "defectives", "tune", "instances", "batch", "limit"})

POLICIES: dict[str, type] = {"follow_up": FollowUp, "scheme": Scheme}
POLICY_KINDS: codec.Kinds = {Policy: POLICIES}
OF_A_POLICY = frozenset({"kind", "label", "instances", "batch"})

Told = Literal["true", "noisy"] | int | None


@dataclass(frozen=True)
class Recipe:
    """A network to train for each problem."""

    architecture: Architecture
    config: TrainConfig

    @property
    def content(self) -> dict[str, object]:
        """Everything that determines the network, apart from the problem, as plain data."""
        config = codec.encode("config", self.config, TrainConfig)
        return {"architecture": describe(self.architecture), "config": config}


@dataclass(frozen=True)
class Entry:
    """A decoder of a study; `instances` and `batch` are None where it takes the study's.

    `name` identifies it, in files and in code; `label` is what tables and figures call it (empty: the name).
    """

    name: str
    kind: str
    method: Decoder | Recipe | Policy
    defectives: Told = None  # the number it is told: the true one, that plus -1, 0 or 1, or the same for all
    tune: bool = False  # whether its scores become calls by a threshold tuned on instances of its own
    instances: int | None = None
    batch: int | None = None
    limit: bool = False  # whether figures show it as what no decoder exceeds
    label: str = ""

    def __post_init__(self) -> None:
        for key in ("instances", "batch"):
            if getattr(self, key) is not None:
                whole(key, getattr(self, key), least=1)
        if isinstance(self.defectives, int):
            whole("defectives", self.defectives)

    @property
    def content(self) -> dict[str, object]:
        """Everything of it that determines results, with defaults written out, as plain data."""
        if isinstance(self.method, Recipe):
            method: object = self.method.content
        elif isinstance(self.method, Policy):
            method = codec.encode("method", self.method, Policy, POLICY_KINDS)
        else:
            method = codec.encode("method", self.method, Decoder, KINDS)
        return {"method": method, "defectives": self.defectives, "tune": TUNED_ON if self.tune else 0}

    def refusal(self, problem: Problem) -> str | None:
        """Why it cannot decode a problem, or None."""
        if isinstance(self.method, Recipe):
            return None
        if isinstance(self.method, Policy):  # schemes of others are for items that are 0 or 1
            return without_costs(problem.in_parts if isinstance(self.method, FollowUp) else problem)
        if isinstance(self.defectives, int) and self.defectives > problem.items:
            return f"defectives={self.defectives} is more than the {problem.items} items."
        return self.method.supports(problem)

    def check(self, problem: Problem) -> None:
        """Raise a ValueError where the decoder cannot do what the entry asks, as binding it to a problem shows."""
        if isinstance(self.method, Recipe | Policy) or not (self.tune or self.defectives is not None):
            return
        if self.tune and problem.values is not None:
            raise ValueError("tune is for items that are 0 or 1: leave it out where they have copies or categories.")
        bound = self.method.bind(problem)
        if self.defectives is not None and not (isinstance(bound, BoundDecoder) and bound.takes_defectives):
            raise ValueError(f"defectives={self.defectives!r} has no meaning for {self.kind}: leave it out.")
        if self.tune and bound(torch.zeros(0, problem.pools, dtype=torch.float64)).scores is None:
            raise ValueError(f"tune has no meaning for {self.kind}, which gives no scores: leave it out.")


def parse_entry(name: str, value: object) -> Entry:
    """The entry that a table of a study's file describes."""
    where = f"decoders.{name}"
    table = codec.as_table(where, value)
    cls = codec.class_of(f"{where}.kind", table.get("kind"), {**DECODERS, **ARCHITECTURES})
    if clash := sorted(COMMON & codec.field_names(cls)):
        raise ValueError(f"{where}: {cls.__name__} has a field {clash[0]}, which has a meaning in studies: rename it.")
    method = _recipe(where, table) if table["kind"] in ARCHITECTURES else _decoder(where, table)
    for key in ("defectives", "tune"):
        if key in table and isinstance(method, Recipe):
            raise ValueError(f"{where}.{key} has no meaning for a network: leave it out.")
    common = {key: table[key] for key in COMMON - {"kind"} if key in table}
    known = {"name": name, "kind": table["kind"], "method": method}
    return codec.decode_fields(where, common, Entry, known=known)


def parse_policy(name: str, value: object) -> Entry:
    """The policy that a table of a study's file describes."""
    where = f"policies.{name}"
    table = codec.as_table(where, value)
    codec.class_of(f"{where}.kind", table.get("kind"), POLICIES)
    method = codec.decode_part(where, table, Policy, POLICY_KINDS, also=OF_A_POLICY)
    common = {key: table[key] for key in OF_A_POLICY - {"kind"} if key in table}
    return codec.decode_fields(where, common, Entry, known={"name": name, "kind": table["kind"], "method": method})


def _decoder(where: str, table: codec.Table) -> Decoder:
    return codec.decode_part(where, table, Decoder, KINDS, also=COMMON)


def _recipe(where: str, table: codec.Table) -> Recipe:
    """A network, by its fields or the paper's level, and how to train it."""
    settings = codec.as_table(f"{where}.train", table.get("train", {}))
    fresh = table["kind"] in ON_FRESH_DATA or "steps" in settings
    try:
        config = make_config(fresh=fresh, given=settings)
    except (ValueError, TypeError) as error:
        raise codec.explained_at(f"{where}.train", error, settings) from error
    level = {"level"} if table["kind"] == "mlp" else set()
    architecture = codec.decode_part(where, table, Architecture, NETWORKS, also=COMMON | level | {"train"})
    if not level & set(table):
        return Recipe(architecture, config)
    if codec.field_names(MLP) & set(table):
        raise ValueError(f"{where}.level was given with other fields of the network: give the level or the fields.")
    try:
        return Recipe(MLP.level(whole("level", table["level"])), config)
    except ValueError as error:
        raise codec.explained_at(where, error, level) from error


# The study and its tasks.

Value = int | float | str
KEYS = frozenset({"instances", "max_failures", "batch", "designs", "metric", "verify", "grid", "decoders", "policies"})
# The version since which equal tasks have equal results, up to chance. A version that changes on purpose what decoders
# answer raises it: rows of both must not be mixed. Any other version goes on with the studies of earlier ones.
RESULTS_SINCE = "0.1.0"
WHOLE_KEYS = ("instances", "batch", "max_failures", "verify")


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
        code = {"qgt": RESULTS_SINCE, **self.sources}
        return digest_of("task", self.fingerprint, self.entry.content, self.block, self.batch, code)

    @cached_property
    def sources(self) -> dict[str, str]:
        """The SHA-256 of each plugin that its problem or its decoder is from: other code has other results."""
        parts = [part for name, part in self.problem_spec.items() if name != "design"]
        return plugins.sources([*parts, self.entry.content])

    @property
    def stream(self) -> str:
        """Which instances it decodes: tasks with the same stream decode the same ones, in the same order."""
        return digest_of("instances", self.fingerprint, self.block)[:32]

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
        numbers = {key: whole(key, data[key], least=1) for key in WHOLE_KEYS if key in data}
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
