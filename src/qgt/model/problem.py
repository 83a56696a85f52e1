"""The problem: everything a decoder may know. y = A x + noise, with x drawn from the prior.

A problem has a readable spec (plain dicts, lists, numbers and strings) that goes through TOML and JSON unchanged, and
a fingerprint by which results and trained decoders name the problem they belong to.

A problem file may describe its design in four ways: `matrix` (rows of 0s and 1s), `lists` (the items of each pool,
counted from 0) with the number of `items`, `file` (a CSV beside the problem file), or `kind` with a maker's arguments
and, if the maker draws, a `seed`. The spec has a matrix for a small or dense design, and lists for a sparse one.
"""

import hashlib
import inspect
import json
import math
import reprlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float64, UInt8
from torch import Generator, Tensor

from qgt.arguments import whole
from qgt.files import codec, documents, plugins
from qgt.files.documents import html_facts
from qgt.files.grids import csv_bytes
from qgt.model.categories import Categories, Copies, PartsPrior
from qgt.model.design import Design
from qgt.model.factors import Factors, pool_costs
from qgt.model.loads import Amount, CycleThreshold, Loads, as_statuses, possible_totals
from qgt.model.noise import (
    Binned,
    Gaussian,
    Noise,
    Noiseless,
    Outliers,
    PerCategory,
    PerPool,
    PositiveNegative,
    Reads,
    RoundedGaussian,
    Saturating,
    SparseInteger,
    by_pool,
)
from qgt.model.prior import Bernoulli, FactoredPrior, FixedWeight, Households, Prior, Sampler, UnknownLevel, UnknownRate

PRIORS: dict[str, type] = {
    "bernoulli": Bernoulli,
    "categories": Categories,
    "copies": Copies,
    "fixed_weight": FixedWeight,
    "households": Households,
    "loads": Loads,
    "parts": PartsPrior,
    "unknown_level": UnknownLevel,
    "unknown_rate": UnknownRate,
}
NOISES: dict[str, type] = {
    "amount": Amount,
    "binned": Binned,
    "cycle_threshold": CycleThreshold,
    "gaussian": Gaussian,
    "noiseless": Noiseless,
    "outliers": Outliers,
    "per_category": PerCategory,
    "per_pool": PerPool,
    "positive_negative": PositiveNegative,
    "reads": Reads,
    "rounded_gaussian": RoundedGaussian,
    "saturating": Saturating,
    "sparse_integer": SparseInteger,
}
MAKERS: dict[str, Callable[..., Design]] = {
    "bernoulli": Design.bernoulli,
    "column_regular": Design.column_regular,
    "coupled": Design.coupled,
    "doubly_regular": Design.doubly_regular,
    "hypercube": Design.hypercube,
    "kirkman_triples": Design.kirkman_triples,
    "reed_solomon": Design.reed_solomon,
    "rows_and_columns": Design.rows_and_columns,
    "shifted_transversal": Design.shifted_transversal,
    "sparse_graph_code": Design.sparse_graph_code,
    "steiner_triples": Design.steiner_triples,
}
Values = UInt8[Tensor, "instances items"] | Float64[Tensor, "instances items"]  # statuses, copies, categories; amounts
Counts = Float64[Tensor, "instances pools"] | Float64[Tensor, "instances pools categories"]
Spec = Mapping[str, codec.Table]  # a problem as plain data: design, prior and noise
PARTS: codec.Kinds = {Sampler: PRIORS, Prior: PRIORS, Noise: NOISES}
DRAWN_AT_A_TIME = 2**20  # numbers drawn at a time on a CPU, so that scratch memory does not grow with the instances


class Instances(NamedTuple):
    """Statuses, copies, categories, or amounts where items have loads, and what was observed for them, row by row."""

    x: UInt8[Tensor, "instances items"] | Float64[Tensor, "instances items"]
    y: Float64[Tensor, "instances pools"] | Float64[Tensor, "instances pools categories"]

    @property
    def statuses(self) -> UInt8[Tensor, "instances items"]:
        """Who is defective, whatever x is."""
        return as_statuses(self.x)


_LONG = reprlib.Repr()
_LONG.maxother = 200  # a prior may have a rate for each of a million items


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
        self._check_items()
        if (each := by_pool(self.noise)) is not None:
            each.check(self.pools)
        if self.loads is not None and self.noise.integer:
            raise ValueError(
                f"noise={self.noise} reports whole numbers, and items have amounts: give CycleThreshold or Amount."
            )
        if isinstance(self.noise, PerCategory):
            if not isinstance(self.prior, Categories):
                raise ValueError(
                    f"noise={self.noise} is for categories, and the prior is {self.prior}: give Categories, or another "
                    "noise."
                )
            self.noise.check(len(self.prior.columns), self.pools)
        noises = self.noise.noises if isinstance(self.noise, PerCategory) else (self.noise,)
        if self.values is not None and any(isinstance(one, CycleThreshold | Amount) for one in noises):
            raise ValueError(f"noise={self.noise} is for items with amounts: give a noise of counts, such as Reads.")

    def _check_items(self) -> None:
        """Ask the prior for the items of the design: it raises where it is for another number of items."""
        if self.values is not None:
            self.values.distributions(self.items)
        who = self.prior if self.loads is None else self.loads.statuses()
        if isinstance(who, Prior):
            who.marginals(self.items)

    def _repr_html_(self) -> str:
        parts = {"design": self.design, "prior": self.prior, "noise": self.noise}
        facts = {name: _LONG.repr(part) for name, part in parts.items()}
        return html_facts("Problem", {**facts, "fingerprint": self.fingerprint[:12]})

    @property
    def values(self) -> Categories | Copies | None:
        """The prior of copies or categories, where items have any; None where they are 0 or 1, or have amounts."""
        return self.prior if isinstance(self.prior, Categories | Copies) else None

    @property
    def report_shape(self) -> tuple[int, ...]:
        """The shape of an instance's reports: pools; or pools and categories, where each category is reported."""
        return (self.pools, len(self.prior.columns)) if isinstance(self.prior, Categories) else (self.pools,)

    @property
    def report_names(self) -> tuple[str, ...]:
        """What a sheet calls each report: the pool or, where pools report categories, the pool and the category.

        Example:
            >>> Problem(Design.from_rows(["11", "10"]), Categories(rates=(0.1,), names=["variant A"])).report_names
            ('P1 variant A', 'P2 variant A')
        """
        each = self.reported_categories
        return tuple(f"{pool} {one}" for pool in self.design.pool_names for one in each) or self.design.pool_names

    @property
    def reported_categories(self) -> tuple[str, ...]:
        """The names of the categories that pools report; none where a pool reports one number."""
        return self.prior.reported_labels if isinstance(self.prior, Categories) else ()

    @cached_property
    def in_parts(self) -> "Problem":
        """The same problem with 0/1 items, several for each item with copies or categories; itself where it has none.

        Example:
            >>> Problem(Design.from_rows(["110", "011"]), Categories(rates=(0.1, 0.1))).in_parts.design.rows
            ('110000', '011000', '000110', '000011')
            >>> Problem(Design.from_rows(["110", "011"]), Copies(frequency=0.1, ploidy=2)).in_parts.design.rows
            ('110110', '011011')
        """
        if self.values is None:
            return self
        values = self.values
        return Problem(values.part_design(self.design), PartsPrior(values), values.part_noise(self.noise, self.pools))

    def of_category(self, category: int) -> "Problem":
        """The problem of one category by itself, with 0/1 items that are in it or in the first category.

        Example:
            >>> Problem(Design.from_rows(["11"]), Categories(rates=(0.25, 0.5))).of_category(1).prior
            Bernoulli(rate=0.5)
        """
        assert isinstance(self.prior, Categories)  # other problems have no categories
        noise = self.prior.noise_of(self.noise, category)
        return Problem(self.design, Bernoulli(self.prior.alone(category)), noise)

    def reports_of(
        self, y: Float64[Tensor, "instances pools categories"], category: int
    ) -> Float64[Tensor, "instances pools"]:
        """What the pools report of one category; missing where they do not report it."""
        assert isinstance(self.prior, Categories)
        columns = self.prior.columns
        if category in columns:
            return y[:, :, columns.index(category)].contiguous()
        return torch.full_like(y[:, :, 0], torch.nan)

    @property
    def loads(self) -> Loads | None:
        """The prior of amounts, where items have any."""
        return self.prior if isinstance(self.prior, Loads) else None

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
        kind = torch.uint8 if self.loads is None else torch.float64
        x = torch.empty(instances, self.items, dtype=kind, device=device)
        y = torch.empty(instances, *self.report_shape, dtype=torch.float64, device=device)
        # On a GPU large launches are the cheap ones.
        rows = max(1, DRAWN_AT_A_TIME // max(self.items, self.pools)) if device.type == "cpu" else 2**18
        for start in range(0, instances, rows):
            chunk = slice(start, start + rows)
            x[chunk] = self.prior.sample(len(x[chunk]), self.items, generator=generator)
            y[chunk] = self.reports(self.totals(x[chunk]), generator=generator)
        return Instances(x, y)

    def totals(self, x: Values) -> Counts:
        """What the items of each pool add up to before any noise; for categories, one number for each."""
        return self.design.count(x) if self.values is None else self.values.totals(self.design, x)

    def sizes(self, device: torch.device) -> Float64[Tensor, " pools"]:
        """What each pool's items may add up to at most, for noises that depend on it: items, or all their copies."""
        sizes = self.design.pool_sizes.to(device, torch.float64)
        return sizes * self.prior.levels if isinstance(self.prior, Copies) else sizes

    def reports(self, totals: Counts, *, generator: Generator) -> Counts:
        """What pools report of what their items add up to."""
        sizes = self.sizes(totals.device)
        if totals.dim() == 2 or isinstance(self.noise, PerCategory):
            return self.noise.sample(totals, sizes, generator=generator)
        return torch.stack([self.noise.sample(one, sizes, generator=generator) for one in totals.unbind(2)], 2)

    def log_joint(self, x: Values, y: Counts) -> Float64[Tensor, " instances"]:
        """The log probability of x and y together, missing counts (NaN) left out: the oracle for every decoder."""
        if not isinstance(self.prior, Prior | Loads | Categories | Copies):
            raise ValueError(f"{self.prior} can only be sampled: give it methods `log_prob` and `marginals`.")
        return self.prior.log_prob(x) + self.log_reports(x, y).flatten(1).sum(1)

    def log_reports(self, x: Values, y: Counts) -> Counts:
        """The log probability, or density, of each report given x; 0 where the report is missing."""
        if y.dim() == 3:
            assert isinstance(self.prior, Categories)
            parts = self.in_parts.log_reports(self.prior.to_parts(x), self.prior.part_reports(y))
            found: Tensor = parts.unflatten(1, (y.shape[2], self.pools))  # (instances, categories, pools)
            return found.transpose(1, 2)
        sizes, counts = self.sizes(y.device), self.totals(x)
        missing = y.isnan()
        each = self.noise.log_prob(torch.where(missing, counts, y), counts, sizes)  # noises need not know of NaN
        return torch.where(missing, 0.0, each)

    def blur(self, x: UInt8[Tensor, "instances items"], y: Counts) -> Float64[Tensor, " instances"]:
        """How far `log_joint` may be off because float64 rounds: answers that differ by less cannot be told apart.

        Example:
            >>> import torch, qgt
            >>> problem = qgt.Problem(qgt.Design.from_rows(["11"]), qgt.Bernoulli(0.1), qgt.Gaussian(sigma=1e-9))
            >>> x, y = torch.zeros(1, 2, dtype=torch.uint8), torch.tensor([[0.5]], dtype=torch.float64)
            >>> bool(problem.blur(x, y) > 1)  # the density is exp of about -1e17
            True
        """
        if self.values is not None:
            return self.in_parts.blur(self.values.to_parts(x), self.values.part_reports(y))
        size = self.log_reports(x, y).abs().sum(1)
        if isinstance(self.prior, FactoredPrior):
            size = size + self.prior.costs(self.items).size(x)
        return 4 * torch.finfo(torch.float64).eps * (80 + math.log2(self.items + self.pools)) * size

    def explainable(self, y: Counts) -> Bool[Tensor, " instances"]:
        """Whether each pool's count, taken alone, is possible for some number of defectives in that pool, or missing.

        False proves that no x explains the instance; True proves nothing, since pools may contradict each other.
        """
        if self.values is not None:
            return self.in_parts.explainable(self.values.part_reports(y))
        if self.loads is not None:
            sizes = self.design.pool_sizes.to(y.device, torch.float64)
            return possible_totals(self.loads, self.noise, y, sizes).all(1)
        return pool_costs(self.design, self.noise, y).possible(self.design.pool_sizes).all(1)

    def factors(self, y: Float64[Tensor, "instances pools"]) -> Factors:
        """The problem and some counts as costs, for decoders that search among all x."""
        if self.values is not None:
            raise ValueError(f"{self.prior} has items of other values than 0 and 1: ask `in_parts` for its factors.")
        if not isinstance(self.prior, FactoredPrior):
            raise ValueError(f"{self.prior} is not a sum over items and groups: give it a method `costs`.")
        return Factors(self.design, self.prior.costs(self.items), pool_costs(self.design, self.noise, y))

    @property
    def spec(self) -> dict[str, dict[str, object]]:
        """The problem as plain data; `from_spec` gives it back."""
        return {
            "design": _design_spec(self.design),
            "prior": _prior_spec(self.prior),
            "noise": _noise_spec(self.noise),
        }

    @property
    def fingerprint(self) -> str:
        """The same on every machine, different for every other problem; see `fingerprint_of`."""
        return _fingerprint(self.design, _prior_spec(self.prior), _noise_spec(self.noise))

    @classmethod
    def from_spec(cls, spec: object, *, folder: Path = Path(), files: Mapping[str, bytes] | None = None) -> "Problem":
        """Make the problem that a spec describes; unknown keys and wrong types are refused by name.

        Args:
            spec: The plain data.
            folder: Where a design's file is.
            files: The contents of the files that a spec may name, as with an upload; None reads them in the folder.

        Example:
            >>> Problem.from_spec({"design": {"matrix": ["110", "011"]}, "prior": {"kind": "bernoulli", "rate": 0.1}})
            Problem(design=Design(pools=2, items=3, transfers=4), prior=Bernoulli(rate=0.1), noise=Noiseless())
        """
        parts = {"noise": {"kind": "noiseless"}, **codec.as_table("problem", spec)}
        codec.check_keys("problem", parts, required={"design", "prior", "noise"})
        return cls(
            _design("design", codec.as_table("design", parts["design"]), folder, files),
            codec.decode("prior", parts["prior"], Sampler, PARTS),
            codec.decode("noise", parts["noise"], Noise, PARTS),
        )

    @classmethod
    def load(cls, path: str | Path, files: Mapping[str, bytes] | None = None) -> "Problem":
        """Read a problem file, TOML or JSON.

        Args:
            path: The file.
            files: The contents of the file and of its design's file, by their names, where they are not on disk.

        Example:
            >>> files = {"p.toml": b'design.file = "d.csv"\\nprior = {kind = "bernoulli", rate = 0.1}', "d.csv": b"1,1"}
            >>> Problem.load("p.toml", files).design
            Design(pools=1, items=2, transfers=2)
        """
        folder, data = Path(path).parent, documents.content_in(files, Path(path).name)
        return documents.load(path, "problem", lambda spec: cls.from_spec(spec, folder=folder, files=files), data)

    def save(self, path: str | Path) -> None:
        """Write the spec, as JSON where the name ends in .json and as TOML otherwise.

        A part of your own is written as "file:Class", and read again once `load_plugin` has had that file.
        """
        spec = self.spec
        plugins.refuse_homeless([spec["prior"], spec["noise"]])
        documents.save(path, spec)


def problem_files(problem: Problem) -> dict[str, bytes]:
    """A problem as two files: `problem.toml`, and `design.csv` that it names.

    Example:
        >>> files = problem_files(Problem(Design.from_rows(["11"]), Bernoulli(0.1)))
        >>> files["design.csv"], Problem.load("problem.toml", files).prior
        (b'pool,items\\n,I1 I2\\nP1,I1 I2\\n', Bernoulli(rate=0.1))
    """
    spec = documents.to_toml({**problem.spec, "design": {"file": "design.csv"}})
    return {"design.csv": csv_bytes(problem.design.csv_rows(form="lists")), "problem.toml": spec.encode()}


def fingerprint_of(spec: Spec) -> str:
    """The fingerprint of the problem that a spec describes, even where its prior or noise is of the user's own."""
    return _fingerprint(stored_design(spec["design"]), spec["prior"], spec["noise"])


def _fingerprint(design: Design, prior: codec.Table, noise: codec.Table) -> str:
    """The SHA-256 of the design's own and the specs of the other parts, as JSON with sorted keys and no spaces."""
    essence = {"design": design.fingerprint, "prior": prior, "noise": noise}
    text = json.dumps(essence, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _prior_spec(prior: Sampler) -> dict[str, object]:
    return codec.encode_table("prior", prior, Sampler, PARTS)


def _noise_spec(noise: Noise) -> dict[str, object]:
    return codec.encode_table("noise", noise, Noise, PARTS)


def _design_spec(design: Design) -> dict[str, object]:
    """The design as plain data, with its names where they are not the usual ones."""
    names = {"pool_names": design.own_pool_names, "item_names": design.own_item_names}
    given = {key: list(value) for key, value in names.items() if value is not None}
    if not design.sparse:
        return {"matrix": list(design.rows), **given}
    return {"items": design.items, "lists": list(design.lists), **given}


def stored_design(spec: codec.Table) -> Design:
    """The design that a problem's spec holds, as rows or lists: nothing is drawn, and no other file is read."""
    form = {"lists", "items"} if "lists" in spec else {"matrix"}
    codec.check_keys("design", spec, required=form, optional={"pool_names", "item_names"})
    lists = {key: codec.typed(key, value, list) for key, value in spec.items() if key != "items"}
    for key in ("pool_names", "item_names"):
        for name in lists.get(key, []):
            codec.typed(key, name, str)
    names = lists.get("pool_names", ()), lists.get("item_names", ())
    if "matrix" in spec:
        return Design.from_rows(lists["matrix"], *names)
    for one in lists["lists"]:
        codec.typed("lists", one, list)
    return Design.from_lists(
        lists["lists"], items=whole("items", spec["items"]), pool_names=names[0], item_names=names[1]
    )


def draws(kind: str) -> bool:
    """Whether designs of this kind are drawn at random, so that a recipe for one has a seed.

    Example:
        >>> draws("column_regular"), draws("steiner_triples")
        (True, False)
    """
    return kind in MAKERS and "generator" in inspect.signature(MAKERS[kind]).parameters


def _made_design(where: str, spec: codec.Table) -> Design:
    """The design of a recipe: its `kind`, the arguments of the maker and, if that draws, a `seed`."""
    maker: Callable[..., Design] = codec.kind_of(where, spec, MAKERS)
    parameters = inspect.signature(maker).parameters.values()
    wanted = {"seed" if p.name == "generator" else p.name for p in parameters}
    optional = {p.name for p in parameters if p.default is not inspect.Parameter.empty}
    codec.check_keys(where, spec, required={"kind", *wanted - optional}, optional=optional)
    arguments = {key: value for key, value in spec.items() if key not in ("kind", "seed")}
    if "seed" in wanted:
        arguments["generator"] = torch.Generator().manual_seed(whole("seed", spec["seed"], most=2**63 - 1))
    return maker(**arguments)


def _design(where: str, spec: codec.Table, folder: Path, files: Mapping[str, bytes] | None) -> Design:
    """The design of a problem file, in any of the four ways; see the top of this module."""
    try:
        if "file" in spec:
            codec.check_keys(where, spec, required={"file"})
            name = codec.typed("file", spec["file"], str)
            return Design.from_csv(folder / name, documents.content_in(files, name))
        return stored_design(spec) if "matrix" in spec or "lists" in spec else _made_design(where, spec)
    except (ValueError, TypeError) as error:
        raise ValueError(str(error) if str(error).startswith(where) else f"{where}: {error}") from error
