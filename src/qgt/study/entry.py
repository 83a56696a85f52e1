"""A study's decoder: one entry of its file, with what the decoder is told and how its calls are made.

`kind` names a decoder of the registry, with that class's fields as keys, or a network to train for each problem:

    [decoders.GAMP]                 [decoders."AMP, told K"]        [decoders.network]
    kind = "gamp"                   kind = "amp"                    kind = "mlp"
    damping = 0.5                   defectives = "true"             level = 5
                                    tune = true                     train = { epochs = 60 }
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch

from qgt.arguments import whole
from qgt.decoders.contract import BoundDecoder, Decoder
from qgt.decoders.neural.decoder import describe
from qgt.decoders.neural.network import ARCHITECTURES, MLP, Architecture, ResidualMLP
from qgt.decoders.neural.settings import TrainConfig, make_config
from qgt.decoders.registry import DECODERS
from qgt.files import plain
from qgt.model.problem import Problem

VALIDATION = 1000  # instances on which a threshold is tuned
COMMON = frozenset({"kind", "defectives", "tune", "instances", "batch", "limit"})

Told = Literal["true", "noisy"] | int | None


@dataclass(frozen=True)
class Recipe:
    """A network to train for each problem."""

    architecture: Architecture
    config: TrainConfig

    @property
    def content(self) -> dict[str, Any]:
        """Everything that determines the network, apart from the problem, as plain data."""
        return {"architecture": describe(self.architecture), "config": dataclasses.asdict(self.config)}


@dataclass(frozen=True)
class Entry:
    """A decoder of a study; `instances` and `batch` are None where it takes the study's."""

    name: str
    kind: str
    method: Decoder | Recipe
    defectives: Told = None  # the number it is told: the true one, that plus -1, 0 or 1, or the same for all
    tune: bool = False  # whether its scores become calls by a threshold tuned on instances of its own
    instances: int | None = None
    batch: int | None = None
    limit: bool = False  # whether figures show it as what no decoder exceeds

    @property
    def content(self) -> dict[str, Any]:
        """Everything of it that determines results, with defaults written out, as plain data."""
        method: Any = self.method
        fields = method.content if isinstance(method, Recipe) else dataclasses.asdict(method)
        told = {"defectives": self.defectives, "tune": VALIDATION if self.tune else 0}
        return {"kind": self.kind, "fields": fields, **told}

    def refusal(self, problem: Problem) -> str | None:
        """Why it cannot decode a problem, or None."""
        if isinstance(self.method, Recipe):
            return None
        if isinstance(self.defectives, int) and self.defectives > problem.items:
            return f"defectives={self.defectives} is more than the {problem.items} items."
        return self.method.supports(problem)

    def check(self, problem: Problem) -> None:
        """Raise a ValueError where the decoder cannot do what the entry asks, as binding it to a problem shows."""
        if isinstance(self.method, Recipe) or not (self.tune or self.defectives is not None):
            return
        bound = self.method.bind(problem)
        if self.defectives is not None and not (isinstance(bound, BoundDecoder) and bound.takes_defectives):
            raise ValueError(f"defectives={self.defectives!r} has no meaning for {self.kind}: leave it out.")
        if self.tune and bound(torch.zeros(0, problem.pools, dtype=torch.float64)).scores is None:
            raise ValueError(f"tune has no meaning for {self.kind}, which gives no scores: leave it out.")


def parse_entry(name: str, value: object) -> Entry:
    """The entry that a table of a study's file describes."""
    where = f"decoders.{name}"
    table = plain.as_table(where, value)
    made = plain.kind_of(where, table, {**DECODERS, **ARCHITECTURES})
    given = {key: value for key, value in table.items() if key not in COMMON}
    try:
        method = _recipe(where, made, given) if made in ARCHITECTURES.values() else _decoder(where, made, given)
        entry = Entry(name, table["kind"], method, **_common(table))
    except (ValueError, TypeError) as error:
        raise ValueError(str(error) if str(error).startswith(where) else f"{where}: {error}") from error
    for key in ("defectives", "tune"):
        if key in table and isinstance(entry.method, Recipe):
            raise ValueError(f"{where}.{key} has no meaning for a network: leave it out.")
    return entry


def _common(table: Mapping[str, Any]) -> dict[str, Any]:
    """The keys that every entry may have, checked."""
    common: dict[str, Any] = {key: plain.typed(key, table[key], bool) for key in ("tune", "limit") if key in table}
    common |= {key: whole(key, table[key], least=1) for key in ("instances", "batch") if key in table}
    if "defectives" in table:
        told = table["defectives"]
        if told not in ("true", "noisy") and not (isinstance(told, int) and not isinstance(told, bool) and told >= 0):
            raise ValueError(f'defectives={told!r} is not valid: give "true", "noisy" or a whole number.')
        common["defectives"] = told
    return common


def _decoder(where: str, cls: type[Decoder], given: Mapping[str, Any]) -> Decoder:
    fields = {field.name for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    plain.check_keys(where, given, required=set(), optional=fields | COMMON)
    return cls(**given)


def _recipe(where: str, cls: type[MLP] | type[ResidualMLP], given: Mapping[str, Any]) -> Recipe:
    fields = {field.name for field in dataclasses.fields(cls)}
    levels = {"level"} if cls is MLP else set()
    plain.check_keys(where, given, required=set(), optional=fields | levels | {"train"} | COMMON)
    settings = plain.as_table(f"{where}.train", given.get("train", {}))
    config = make_config(fresh=cls is ResidualMLP or "steps" in settings, given=settings)
    chosen = {key: value for key, value in given.items() if key != "train"}
    if "level" not in chosen:
        return Recipe(cls(**chosen), config)
    if len(chosen) > 1:
        raise ValueError("level was given with other fields of the network: give the level or the fields.")
    return Recipe(MLP.level(chosen["level"]), config)
