"""The problem: everything a decoder may know. y = A x + noise, with x drawn from the prior.

A problem has a readable spec (plain dicts, lists, numbers and strings) that goes through TOML and JSON unchanged, and
a fingerprint by which results and trained decoders name the problem they belong to.

A problem file may describe its design in four ways: `matrix` (rows of 0s and 1s), `lists` (the items of each pool,
counted from 0) with the number of `items`, `file` (a CSV beside the problem file), or `kind` with a maker's arguments
and a `seed`. The spec has a matrix for a small or dense design, and lists for a sparse one.
"""

import dataclasses
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
from qgt.files import plain
from qgt.files.atomic import replacing
from qgt.model.design import Design
from qgt.model.factors import Factors, pool_costs
from qgt.model.noise import Noise, Noiseless, RoundedGaussian, SparseInteger
from qgt.model.prior import Bernoulli, FactoredPrior, FixedWeight, Households, Prior, Sampler

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
        sizes = self.design.pool_sizes.to(device, torch.float64)
        for start in range(0, instances, rows):
            chunk = slice(start, start + rows)
            x[chunk] = self.prior.sample(len(x[chunk]), self.items, generator=generator)
            y[chunk] = self.noise.sample(self.design.count(x[chunk]), sizes, generator=generator)
        return Instances(x, y)

    def log_joint(
        self, x: UInt8[Tensor, "instances items"], y: Float64[Tensor, "instances pools"]
    ) -> Float64[Tensor, " instances"]:
        """The log probability of x and y together: the oracle for every decoder."""
        if not isinstance(self.prior, Prior):
            raise ValueError(f"{self.prior} can only be sampled: give it methods `log_prob` and `marginals`.")
        sizes = self.design.pool_sizes.to(y.device, torch.float64)
        return self.prior.log_prob(x) + self.noise.log_prob(y, self.design.count(x), sizes).sum(1)

    def explainable(self, y: Float64[Tensor, "instances pools"]) -> Bool[Tensor, " instances"]:
        """Whether each pool's count, taken alone, is possible for some number of defectives in that pool.

        False proves that no x explains the instance; True proves nothing, since pools may contradict each other.
        """
        return pool_costs(self.design, self.noise, y).possible(self.design.pool_sizes).all(1)

    def factors(self, y: Float64[Tensor, "instances pools"]) -> Factors:
        """The problem and some counts as costs, for decoders that search among all x."""
        if not isinstance(self.prior, FactoredPrior):
            raise ValueError(f"{self.prior} is not a sum over items: give it a method `costs`.")
        return Factors(self.design, self.prior.costs(self.items), pool_costs(self.design, self.noise, y))

    @property
    def spec(self) -> dict[str, Any]:
        """The problem as plain data; `from_spec` gives it back."""
        return {
            "design": _design_spec(self.design),
            "prior": _part_spec(self.prior, PRIORS),
            "noise": _part_spec(self.noise, NOISES),
        }

    @property
    def fingerprint(self) -> str:
        """The same on every machine, different for every other problem; see `fingerprint_of`."""
        return _fingerprint(self.design, _part_spec(self.prior, PRIORS), _part_spec(self.noise, NOISES))

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any], *, folder: Path = Path()) -> "Problem":
        """Make the problem that a spec describes; unknown keys and wrong types are refused by name.

        Example:
            >>> Problem.from_spec({"design": {"matrix": ["110", "011"]}, "prior": {"kind": "bernoulli", "rate": 0.1}})
            Problem(design=Design(pools=2, items=3, transfers=4), prior=Bernoulli(rate=0.1), noise=Noiseless())
        """
        parts = {"noise": {"kind": "noiseless"}, **plain.as_table("problem", spec)}
        plain.check_keys("problem", parts, required={"design", "prior", "noise"})
        return cls(
            _design("design", plain.as_table("design", parts["design"]), folder),
            _part("prior", plain.as_table("prior", parts["prior"]), PRIORS),
            _part("noise", plain.as_table("noise", parts["noise"]), NOISES),
        )

    @classmethod
    def load(cls, path: str | Path) -> "Problem":
        """Read a problem file, TOML or JSON."""
        return plain.load(path, "problem", lambda spec: cls.from_spec(spec, folder=Path(path).parent))

    def save(self, path: str | Path) -> None:
        """Write the spec, as JSON where the name ends in .json and as TOML otherwise."""
        text = json.dumps(self.spec, indent=1) + "\n" if Path(path).suffix == ".json" else _toml(self.spec)
        with replacing(path) as temporary:
            temporary.write_text(text, encoding="utf-8")


def fingerprint_of(spec: Mapping[str, Any]) -> str:
    """The fingerprint of the problem that a spec describes, even where its prior or noise is of the user's own."""
    return _fingerprint(stored_design(spec["design"]), spec["prior"], spec["noise"])


def _fingerprint(design: Design, prior: Mapping[str, Any], noise: Mapping[str, Any]) -> str:
    """The SHA-256 of the design's own and the specs of the other parts, as JSON with sorted keys and no spaces."""
    essence = {"design": design.fingerprint, "prior": prior, "noise": noise}
    text = json.dumps(essence, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _design_spec(design: Design) -> dict[str, Any]:
    """The design as plain data, with its names where they are not the usual ones."""
    names = {"pool_names": design.own_pool_names, "item_names": design.own_item_names}
    given = {key: list(value) for key, value in names.items() if value is not None}
    if not design.sparse:
        return {"matrix": list(design.rows), **given}
    return {"items": design.items, "lists": list(design.lists), **given}


def _part_spec(part: object, kinds: Mapping[str, type]) -> dict[str, Any]:
    """A part's kind and fields; a part of the user's own is called by its class's full name."""
    if not dataclasses.is_dataclass(part) or isinstance(part, type):
        raise ValueError(f"{part!r} has no readable spec: make its class a frozen dataclass.")
    names = {cls: name for name, cls in kinds.items()}
    kind = names.get(type(part), f"{type(part).__module__}.{type(part).__qualname__}")
    fields = {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}
    plain = {k: list(v) if isinstance(v, tuple) else v for k, v in fields.items()}
    for name, value in plain.items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{kind}.{name}={value!r} is not plain data: use numbers, strings and lists.") from error
    return {"kind": kind, **plain}


def _part(where: str, spec: dict[str, Any], kinds: Mapping[str, type]) -> Any:
    cls = plain.kind_of(where, spec, kinds)
    fields = {field.name for field in dataclasses.fields(cls)}
    plain.check_keys(where, spec, required={"kind", *fields})
    try:
        return cls(**{name: spec[name] for name in fields})
    except (ValueError, TypeError) as error:
        raise ValueError(f"{where}: {error}") from error


def stored_design(spec: Mapping[str, Any]) -> Design:
    """The design that a problem's spec holds, as rows or lists: nothing is drawn, and no other file is read."""
    form = {"lists", "items"} if "lists" in spec else {"matrix"}
    plain.check_keys("design", spec, required=form, optional={"pool_names", "item_names"})
    lists = {key: plain.typed(key, value, list) for key, value in spec.items() if key != "items"}
    for key in ("pool_names", "item_names"):
        for name in lists.get(key, []):
            plain.typed(key, name, str)
    names = lists.get("pool_names", ()), lists.get("item_names", ())
    if "matrix" in spec:
        return Design.from_rows(lists["matrix"], *names)
    for one in lists["lists"]:
        plain.typed("lists", one, list)
    return Design.from_lists(lists["lists"], items=spec["items"], pool_names=names[0], item_names=names[1])


def _design(where: str, spec: dict[str, Any], folder: Path) -> Design:
    try:
        if "file" in spec:
            plain.check_keys(where, spec, required={"file"})
            return Design.from_csv(folder / plain.typed("file", spec["file"], str))
        if "matrix" in spec or "lists" in spec:
            return stored_design(spec)
        maker: Callable[..., Design] = plain.kind_of(where, spec, MAKERS)
        parameters = inspect.signature(maker).parameters.values()
        wanted = {p.name for p in parameters if p.name != "generator"}
        optional = {p.name for p in parameters if p.default is not inspect.Parameter.empty}
        plain.check_keys(where, spec, required={"kind", "seed", *wanted - optional}, optional=optional)
        generator = torch.Generator().manual_seed(whole("seed", spec["seed"], most=2**63 - 1))
        return maker(generator=generator, **{k: v for k, v in spec.items() if k not in ("kind", "seed")})
    except (ValueError, TypeError) as error:
        raise ValueError(str(error) if str(error).startswith(where) else f"{where}: {error}") from error


def _toml(spec: Mapping[str, Mapping[str, Any]]) -> str:
    """Write a spec as TOML: one table per part. JSON's scalars and lists are TOML's, but for the DEL character."""
    lines = []
    for part, values in spec.items():
        lines.append(f"[{part}]")
        for key, value in values.items():
            text = json.dumps(value, ensure_ascii=False, allow_nan=False).replace("\x7f", "\\u007f")
            lines.append(f"{key} = {text}")
        lines.append("")
    return "\n".join(lines)
