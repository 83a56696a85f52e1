"""What is run: the paper's problems and decoders as studies, at a scale for two cores or for a GPU.

N = 100 items, 6 % of them defective, a design of fair coin flips, noise of at most 1. Figure "vs M" has 10 % of the
counts noisy, figure "vs S" has M = 35, the table of complexity has M = 35 and 6 % (section "Experiments").

All decoders of a point decode the same instances. Residual networks cost more to train than all the rest, so they
have a study of their own, on the first designs of some points: its instances are the others' there.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from qgt.study import Study

LIMIT, PAPERS, RESIDUAL, GAMP = "certified MAP", "MLP, the paper's", "residual network", "GAMP"
TOLD, NEARLY, SCANNING = "AMP, told K", "AMP, told K ± 1", "AMP, scanning K"
FIXED = "AMP, told 6 for all"
POOLS_NOISE, LEVELS_NOISE = 0.1, 0.06  # S/N of the figure over pools and of the table


@dataclass(frozen=True)
class Scale:
    """How much of everything. The sizes of the problem are the paper's; tests have smaller ones."""

    name: str
    pools: tuple[int, ...]  # the points of the figure over pools
    noise: tuple[float, ...]  # those of the figure over noise
    designs: int  # at every point
    instances: int  # of every design
    batch: int
    training: Mapping[str, int] = field(default_factory=dict)  # of the paper's networks, where not its data sizes
    residual: Mapping[str, Any] = field(default_factory=dict)  # width, blocks, train
    residual_pools: tuple[int, ...] = ()
    residual_noise: tuple[float, ...] = ()
    levels: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 7)
    level_designs: int = 5
    time_limit: float = 0.05  # seconds per instance for the limit, shared by a batch
    probes: int = 1000  # instances at which a network is verified: the paper's T
    items: int = 100
    rate: float = 0.06
    bound: int = 1
    fixed_pools: int = 35  # of the figure over noise and of the table
    defectives: int = 6  # what AMP is told where it is told the same for all


QUICK = Scale(
    "quick",
    pools=(20, 25, 30, 35, 40),
    noise=(0.04, 0.12, 0.20),
    designs=1,
    instances=2000,
    batch=500,
    training={"epochs": 10},
    residual={"width": 256, "blocks": 3, "train": {"steps": 1500, "batch": 1024, "learning_rate": 0.0015}},
    residual_pools=(35,),  # with less training than this it says nothing of what such a network can do
    level_designs=1,
    time_limit=0.2,
)
FULL = Scale(
    "full",
    pools=(20, 22, 25, 28, 30, 35, 40),
    noise=(0.04, 0.08, 0.12, 0.16, 0.20),
    designs=3,
    instances=4000,
    batch=4000,
    residual={"width": 512, "blocks": 6, "train": {"steps": 10_000}},
    residual_pools=(20, 22, 25, 28, 30, 35, 40),
    residual_noise=(0.04, 0.08, 0.12, 0.16, 0.20),
)


def parts(scale: Scale) -> dict[str, list[Study]]:
    """The studies of each part of the reproduction."""
    pools, noise = {"noise.rate": POOLS_NOISE}, {"design.pools": scale.fixed_pools}
    table = {**noise, "noise.rate": LEVELS_NOISE}
    return {
        "vs_pools": _figure(scale, pools, "design.pools", scale.pools, scale.residual_pools),
        "vs_noise": _figure(scale, noise, "noise.rate", scale.noise, scale.residual_noise),
        "complexity": [_study(scale, table, {}, _levels(scale), scale.level_designs)],
    }


def level_name(level: int) -> str:
    """What a network of the table is called in its study."""
    return f"level {level}"


def _figure(
    scale: Scale, at: Mapping[str, Any], key: str, values: tuple[Any, ...], residual: tuple[Any, ...]
) -> list[Study]:
    """A figure's studies: all decoders, and the residual network where it is trained."""
    studies = [_study(scale, at, {key: list(values)}, _decoders(scale), scale.designs)]
    entry = {RESIDUAL: {"kind": "residual", **scale.residual}}
    return studies + ([_study(scale, at, {key: list(residual)}, entry, 1)] if residual else [])


def _study(
    scale: Scale, at: Mapping[str, Any], grid: Mapping[str, Any], decoders: Mapping[str, Any], designs: int
) -> Study:
    """The paper's problem with decoders over a grid; keys that the grid varies have any value before."""
    fixed = {"design.pools": scale.fixed_pools, "noise.rate": POOLS_NOISE, **at}
    problem = {
        "design": {"kind": "bernoulli", "pools": fixed["design.pools"], "items": scale.items},
        "prior": {"kind": "bernoulli", "rate": scale.rate},
        "noise": {"kind": "sparse_integer", "rate": fixed["noise.rate"], "bound": scale.bound},
    }
    sizes = {"instances": scale.instances, "batch": scale.batch, "designs": designs}
    return Study.from_plain({**sizes, "problem": problem, "grid": grid, "decoders": decoders})


def _decoders(scale: Scale) -> dict[str, dict[str, Any]]:
    """The paper's network and its three AMPs, what needs no K, and the limit."""
    limit = {"kind": "certified", "odds": 1.0, "certificates": False, "time_limit": scale.time_limit, "limit": True}
    told: dict[str, str | int] = {TOLD: "true", NEARLY: "noisy", FIXED: scale.defectives}
    return {
        LIMIT: limit,
        PAPERS: {"kind": "mlp", "level": 5, "train": dict(scale.training)},
        **{name: {"kind": "amp", "defectives": value, "tune": True} for name, value in told.items()},
        SCANNING: {"kind": "amp"},
        GAMP: {"kind": "gamp"},
    }


def _levels(scale: Scale) -> dict[str, dict[str, Any]]:
    """The networks of the table of complexity."""
    entry = {"kind": "mlp", "train": dict(scale.training)}
    return {level_name(level): {**entry, "level": level} for level in scale.levels}


def all_studies(scale: Scale) -> list[Study]:
    """Every study of every part, in order."""
    return list(itertools.chain.from_iterable(parts(scale).values()))
