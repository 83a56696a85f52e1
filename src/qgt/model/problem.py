"""The problem: everything a decoder may know. y = A x + noise, with x drawn from the prior.

A problem has a readable spec (plain dicts, lists, numbers and strings) that goes through TOML and JSON unchanged, and
a fingerprint, the SHA-256 of that spec, by which results and trained decoders name the problem they belong to.

A problem file may describe its design in three ways: `matrix` (rows of 0s and 1s), `file` (a CSV beside the problem
file), or `kind` with a maker's arguments and a `seed`.
"""

import hashlib
import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float64, UInt8
from torch import Generator, Tensor

from qgt.arguments import whole
from qgt.files import codec, documents, keys, plugins
from qgt.model.design import Design
from qgt.model.noise import Noise, Noiseless, RoundedGaussian, SparseInteger
from qgt.model.prior import Bernoulli, FixedWeight, Households, Prior, Sampler

PRIORS: dict[str, type] = {"bernoulli": Bernoulli, "fixed_weight": FixedWeight, "households": Households}
NOISES: dict[str, type] = {
    "noiseless": Noiseless,
    "rounded_gaussian": RoundedGaussian,
    "sparse_integer": SparseInteger,
}
MAKERS: dict[str, Callable[..., Design]] = {
    "bernoulli": Design.bernoulli,
    "column_regular": Design.column_regular,
    "doubly_regular": Design.doubly_regular,
}
PARTS: codec.Kinds = {Sampler: PRIORS, Prior: PRIORS, Noise: NOISES}
CHUNK = 2**20  # numbers drawn at a time on a CPU, so that scratch memory does not grow with the instances


class Instances(NamedTuple):
    """Statuses and the counts observed for them, row by row."""

    x: UInt8[Tensor, "instances items"]
    y: Float64[Tensor, "instances pools"]


@dataclass(frozen=True, eq=False)
class Problem:
    """A design, a prior for x, and the noise of the counts.

    Example:
        >>> import torch
        >>> g = torch.Generator().manual_seed(0)
        >>> design = Design.bernoulli(pools=35, items=100, generator=g)
        >>> problem = Problem(design, Bernoulli(0.06), SparseInteger(rate=0.1, bound=1))
        >>> x, y = problem.simulate(1000, generator=g)
        >>> tuple(x.shape), tuple(y.shape)
        ((1000, 100), (1000, 35))
    """

    design: Design
    prior: Sampler
    noise: Noise = Noiseless()  # noqa: RUF009 - frozen and without fields, so sharing it is harmless

    def __post_init__(self) -> None:
        if isinstance(self.prior, Prior):
            self.prior.marginals(self.design.items)  # raises where the prior is for another number of items

    @property
    def pools(self) -> int:
        """The number of pools, M."""
        return self.design.pools

    @property
    def items(self) -> int:
        """The number of items, N."""
        return self.design.items

    def simulate(self, instances: int, *, generator: Generator) -> Instances:
        """Draw statuses and counts on the generator's device, in chunks, so that scratch memory stays small."""
        instances, device = whole("instances", instances), generator.device
        x = torch.empty(instances, self.items, dtype=torch.uint8, device=device)
        y = torch.empty(instances, self.pools, dtype=torch.float64, device=device)
        # On a GPU large launches are the cheap ones.
        rows = max(1, CHUNK // max(self.items, self.pools)) if device.type == "cpu" else 2**18
        for start in range(0, instances, rows):
            chunk = slice(start, start + rows)
            x[chunk] = self.prior.sample(len(x[chunk]), self.items, generator=generator)
            y[chunk] = self.noise.sample(self.design.count(x[chunk]), generator=generator)
        return Instances(x, y)

    def log_joint(
        self, x: UInt8[Tensor, "instances items"], y: Float64[Tensor, "instances pools"]
    ) -> Float64[Tensor, " instances"]:
        """The log probability of x and y together: the oracle for every decoder."""
        if not isinstance(self.prior, Prior):
            raise ValueError(f"{self.prior} can only be sampled: give it methods `log_prob` and `marginals`.")
        return self.prior.log_prob(x) + self.noise.log_prob(y, self.design.count(x)).sum(1)

    def explainable(self, y: Float64[Tensor, "instances pools"]) -> Bool[Tensor, " instances"]:
        """Whether each pool's count, taken alone, is possible for some number of defectives in that pool.

        False proves that no x explains the instance; True proves nothing, since pools may contradict each other.
        """
        sizes = self.design.pool_sizes.to(y.device)
        values, which = _distinct(y)
        counts = torch.arange(int(sizes.max()) + 1, dtype=torch.float64, device=y.device)
        shape = len(values), len(counts)
        possible = self.noise.log_prob(values[:, None].expand(shape), counts.expand(shape)) > -torch.inf
        within = possible.cumsum(1) > 0  # (values, counts): possible for some number up to this one
        return within[which, sizes.expand_as(which)].all(1)

    @property
    def spec(self) -> dict[str, dict[str, object]]:
        """The problem as plain data; `from_spec` gives it back."""
        return {
            "design": {
                "matrix": list(self.design.rows),
                "pool_names": list(self.design.pool_names),
                "item_names": list(self.design.item_names),
            },
            "prior": codec.encode("prior", self.prior, Sampler, PARTS),
            "noise": codec.encode("noise", self.noise, Noise, PARTS),
        }

    @property
    def fingerprint(self) -> str:
        """The same on every machine, different for every other problem; see `fingerprint_of`."""
        return fingerprint_of(self.spec)

    @classmethod
    def from_spec(cls, spec: object, *, folder: Path = Path()) -> "Problem":
        """Make the problem that a spec describes; unknown keys and wrong types are refused by name.

        Example:
            >>> Problem.from_spec({"design": {"matrix": ["110", "011"]}, "prior": {"kind": "bernoulli", "rate": 0.1}})
            Problem(design=Design(pools=2, items=3, transfers=4), prior=Bernoulli(rate=0.1), noise=Noiseless())
        """
        parts = {"noise": {"kind": "noiseless"}, **keys.as_table("problem", spec)}
        keys.check_keys("problem", parts, required={"design", "prior", "noise"})
        return cls(
            _design("design", keys.as_table("design", parts["design"]), folder),
            codec.decode("prior", parts["prior"], Sampler, PARTS),
            codec.decode("noise", parts["noise"], Noise, PARTS),
        )

    @classmethod
    def load(cls, path: str | Path) -> "Problem":
        """Read a problem file, TOML or JSON."""
        return documents.load(path, "problem", lambda spec: cls.from_spec(spec, folder=Path(path).parent))

    def save(self, path: str | Path) -> None:
        """Write the spec, as JSON where the name ends in .json and as TOML otherwise.

        A part of your own is written as "file:Class", and read again once `load_plugin` has had that file.
        """
        plugins.refuse_homeless(self.spec)
        documents.save(path, self.spec)


def _distinct(y: Tensor) -> tuple[Tensor, Tensor]:
    """Values that cover all of y, and where each entry stands among them."""
    if y.numel() and float(y.max() - y.min()) < 2**16 and bool((y == y.floor()).all()):  # far cheaper than sorting
        lowest, highest = int(y.min()), int(y.max())
        return torch.arange(lowest, highest + 1, dtype=y.dtype, device=y.device), (y - lowest).to(torch.int64)
    values, which = y.unique(return_inverse=True)
    return values, which


def fingerprint_of(spec: Mapping[str, Mapping[str, object]]) -> str:
    """The SHA-256 of a problem's spec without its names, as JSON with sorted keys and no spaces."""
    essence = {**spec, "design": {"matrix": spec["design"]["matrix"]}}
    text = json.dumps(essence, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _design(where: str, spec: dict[str, Any], folder: Path) -> Design:
    try:
        if "file" in spec:
            keys.check_keys(where, spec, required={"file"})
            return Design.from_csv(folder / keys.typed("file", spec["file"], str))
        if "matrix" in spec:
            keys.check_keys(where, spec, required={"matrix"}, optional={"pool_names", "item_names"})
            lists = {key: keys.typed(key, value, list) for key, value in spec.items()}
            for key in ("pool_names", "item_names"):
                for name in lists.get(key, []):
                    keys.typed(key, name, str)
            return Design.from_rows(lists["matrix"], lists.get("pool_names", ()), lists.get("item_names", ()))
        maker: Callable[..., Design] = keys.kind_of(where, spec, MAKERS)
        parameters = inspect.signature(maker).parameters.values()
        wanted = {p.name for p in parameters if p.name != "generator"}
        optional = {p.name for p in parameters if p.default is not inspect.Parameter.empty}
        keys.check_keys(where, spec, required={"kind", "seed", *wanted - optional}, optional=optional)
        generator = torch.Generator().manual_seed(whole("seed", spec["seed"], most=2**63 - 1))
        return maker(generator=generator, **{k: v for k, v in spec.items() if k not in ("kind", "seed")})
    except (ValueError, TypeError) as error:
        raise ValueError(str(error) if str(error).startswith(where) else f"{where}: {error}") from error
