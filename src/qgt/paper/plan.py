"""What is run: the paper's problems and decoders as studies, at a scale for two cores or for a GPU.

N = 100 items, 6 % of them defective, a design of fair coin flips, noise of at most 1. Figure "vs M" has 10 % of the
counts noisy, figure "vs S" has M = 35, the table of complexity has M = 35 and 6 % (section "Experiments").

All decoders of a point decode the same instances. Residual networks cost more to train than all the rest, so they
have a study of their own, on the first designs of some points: its instances are the others' there.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from qgt.files.codec import Table
from qgt.study import Study, Task
from qgt.study.plan import Value

# What identifies a decoder, in the studies and in the counts; what it is called in figures and tables is its label.
LIMIT, PAPERS, RESIDUAL, GAMP = "limit", "network", "residual", "gamp"
TOLD, NEARLY, FIXED, SCANNING = "amp_told", "amp_nearly", "amp_fixed", "amp"
LABELS = {
    LIMIT: "certified MAP",
    PAPERS: "MLP, the paper's",
    TOLD: "AMP, told K",
    NEARLY: "AMP, told K ± 1",
    FIXED: "AMP, told {defectives} for all",
    SCANNING: "AMP, scanning K",
    GAMP: "GAMP",
    RESIDUAL: "residual network",
}
POOLS_NOISE, LEVELS_NOISE = 0.1, 0.06  # S/N of the figure over pools and of the table


@dataclass(frozen=True)
class ResidualNetworks:
    """The residual networks, and the points at which they are trained."""

    width: int
    blocks: int
    train: Mapping[str, int | float]  # settings; steps among them
    pools: tuple[int, ...] = ()
    noise: tuple[float, ...] = ()


@dataclass(frozen=True)
class Scale:
    """How much of everything. The sizes of the problem are the paper's; tests have smaller ones."""

    name: str
    pools: tuple[int, ...]  # the points of the figure over pools
    noise: tuple[float, ...]  # those of the figure over noise
    designs: int  # at every point
    instances: int  # of every design
    batch: int
    residual: ResidualNetworks
    training: Mapping[str, int] = field(default_factory=dict)  # of the paper's networks, where not its data sizes
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
    # With less training than this it says nothing of what such a network can do.
    residual=ResidualNetworks(256, 3, {"steps": 1500, "batch": 1024, "learning_rate": 0.0015}, pools=(35,)),
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
    residual=ResidualNetworks(
        512,
        6,
        {"steps": 10_000},
        pools=(20, 22, 25, 28, 30, 35, 40),
        noise=(0.04, 0.08, 0.12, 0.16, 0.20),
    ),
)


@dataclass(frozen=True)
class PaperPlan:
    """The studies of a reproduction, made once: every problem is drawn and every decoder checked by then."""

    scale: Scale
    vs_pools: Sequence[Study]
    vs_noise: Sequence[Study]
    complexity: Sequence[Study]

    @classmethod
    def of(cls, scale: Scale) -> "PaperPlan":
        """The plan at a scale."""
        pools, noise = {"noise.rate": POOLS_NOISE}, {"design.pools": scale.fixed_pools}
        table = {**noise, "noise.rate": LEVELS_NOISE}
        levels = _study(scale, table, {}, _levels(scale), scale.level_designs, verify=scale.probes)
        return cls(
            scale,
            _figure(scale, pools, "design.pools", scale.pools, scale.residual.pools),
            _figure(scale, noise, "noise.rate", scale.noise, scale.residual.noise),
            [levels],
        )

    @property
    def parts(self) -> dict[str, Sequence[Study]]:
        """The studies of each part, by its name in files and tables."""
        return {"vs_pools": self.vs_pools, "vs_noise": self.vs_noise, "complexity": self.complexity}

    @property
    def tasks(self) -> Iterator[Task]:
        """Every task of every part, in order."""
        return (task for studies in self.parts.values() for study in studies for task in study.tasks)


def level_key(level: int) -> str:
    """What identifies a network of the table of complexity."""
    return f"level_{level}"


def _figure(
    scale: Scale, at: Mapping[str, Value], key: str, values: Sequence[Value], residual: Sequence[Value]
) -> list[Study]:
    """A figure's studies: all decoders, and the residual network where it is trained."""
    studies = [_study(scale, at, {key: list(values)}, _decoders(scale), scale.designs)]
    settings = {"width": scale.residual.width, "blocks": scale.residual.blocks, "train": dict(scale.residual.train)}
    entry = {RESIDUAL: {"kind": "residual", "label": LABELS[RESIDUAL], **settings}}
    return studies + ([_study(scale, at, {key: list(residual)}, entry, 1)] if residual else [])


def _study(
    scale: Scale,
    at: Mapping[str, Value],
    grid: Mapping[str, Sequence[Value]],
    decoders: Mapping[str, Table],
    designs: int,
    verify: int | None = None,
) -> Study:
    """The paper's problem with decoders over a grid; keys that the grid varies have any value before."""
    fixed = {"design.pools": scale.fixed_pools, "noise.rate": POOLS_NOISE, **at}
    problem = {
        "design": {"kind": "bernoulli", "pools": fixed["design.pools"], "items": scale.items},
        "prior": {"kind": "bernoulli", "rate": scale.rate},
        "noise": {"kind": "sparse_integer", "rate": fixed["noise.rate"], "bound": scale.bound},
    }
    sizes = {"instances": scale.instances, "batch": scale.batch, "designs": designs}
    sizes |= {} if verify is None else {"verify": verify}
    return Study.from_plain({**sizes, "problem": problem, "grid": grid, "decoders": decoders})


def _decoders(scale: Scale) -> dict[str, dict[str, object]]:
    """The paper's network and its three AMPs, what needs no K, and the limit."""
    limit = {"kind": "certified", "odds": 1.0, "certificates": False, "time_limit": scale.time_limit, "limit": True}
    told: dict[str, str | int] = {TOLD: "true", NEARLY: "noisy", FIXED: scale.defectives}
    entries: dict[str, dict[str, object]] = {
        LIMIT: limit,
        PAPERS: {"kind": "mlp", "level": 5, "train": dict(scale.training)},
        **{key: {"kind": "amp", "defectives": value, "tune": True} for key, value in told.items()},
        SCANNING: {"kind": "amp"},
        GAMP: {"kind": "gamp"},
    }
    labels = {key: LABELS[key].format(defectives=scale.defectives) for key in entries}
    return {key: {**entry, "label": labels[key]} for key, entry in entries.items()}


def _levels(scale: Scale) -> dict[str, dict[str, object]]:
    """The networks of the table of complexity."""
    entry = {"kind": "mlp", "train": dict(scale.training)}
    return {level_key(level): {**entry, "level": level, "label": f"level {level}"} for level in scale.levels}
