"""A study's decoder: one entry of its file, with what the decoder is told and how its calls are made.

`kind` names a decoder of the registry or of a plugin ("file:Class"), with that class's fields as keys, or a network to
train for each problem:

    [decoders.GAMP]                 [decoders."AMP, told K"]        [decoders.network]
    kind = "gamp"                   kind = "amp"                    kind = "mlp"
    damping = 0.5                   defectives = "true"             level = 5
                                    tune = true                     train = { epochs = 60 }

A policy, under `policies`, makes its own pools, round by round, for the items of the problem:

    [policies."follow-up"]          [policies.halving]
    kind = "follow_up"              kind = "scheme"
    first = 16                      name = "grouped_halving"
"""

from dataclasses import dataclass
from typing import Literal

import torch

from qgt.arguments import whole
from qgt.decoders.certified.costs import supported
from qgt.decoders.contract import BoundDecoder, Decoder
from qgt.decoders.neural.decoder import ARCHITECTURES, NETWORKS, ON_FRESH_DATA, describe
from qgt.decoders.neural.mlp import MLP
from qgt.decoders.neural.network import Architecture
from qgt.decoders.neural.record import TrainConfig, make_config
from qgt.decoders.registry import DECODERS, KINDS
from qgt.files import codec
from qgt.model.prior import FactoredPrior
from qgt.model.problem import Problem
from qgt.rounds.policies import FollowUp, Policy
from qgt.rounds.schemes import Scheme

VALIDATION = 1000  # instances on which a threshold is tuned
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
        return {"method": method, "defectives": self.defectives, "tune": VALIDATION if self.tune else 0}

    def refusal(self, problem: Problem) -> str | None:
        """Why it cannot decode a problem, or None."""
        if isinstance(self.method, Recipe):
            return None
        if isinstance(self.method, Policy):
            return None if isinstance(problem.prior, FactoredPrior) else supported(problem)
        if isinstance(self.defectives, int) and self.defectives > problem.items:
            return f"defectives={self.defectives} is more than the {problem.items} items."
        return self.method.supports(problem)

    def check(self, problem: Problem) -> None:
        """Raise a ValueError where the decoder cannot do what the entry asks, as binding it to a problem shows."""
        if isinstance(self.method, Recipe | Policy) or not (self.tune or self.defectives is not None):
            return
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
