"""What a decoder returns: calls, a status for each instance, and as much evidence as it has.

Every field has a row for each instance. Where instances have different numbers of rows (the answers that come close,
the leaves of a proof), the rows of all lie in one table, and `Spans` says which belong to which.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Bool, Float32, Float64, Int8, Int64, UInt8
from numpy.typing import NDArray
from torch import Tensor

from qgt.files.documents import frame, html_facts, html_table

if TYPE_CHECKING:
    from pandas import DataFrame

Floats = NDArray[np.float64]


class Status(IntEnum):
    """What is known of one instance's calls. A failed instance is data, not an exception.

    Example:
        >>> Status.PROVED.meaning
        'proved: under the model, no other answer is more probable'
    """

    OK = 0
    PROVED = 1
    NOT_CONVERGED = 2
    TIME_LIMIT = 3
    INFEASIBLE = 4

    @property
    def meaning(self) -> str:
        """The status in words."""
        return (
            "decoded; the decoder makes no claim about its answer",
            "proved: under the model, no other answer is more probable",
            "the iteration did not settle; the calls are its last ones",
            "time ran out; the calls are the best found so far",
            "under the model, no answer explains these counts; do not use the calls",
        )[self]


@dataclass(frozen=True, eq=False)
class Spans:
    """Which rows of a long table belong to which instance: each instance's lie together, in the instances' order.

    Example:
        >>> import torch
        >>> spans, order = Spans.of(torch.tensor([2, 0, 2]), instances=3)
        >>> order, spans.rows(2), spans.owner
        (tensor([1, 0, 2]), slice(1, 3, None), tensor([0, 2, 2]))
    """

    ends: Int64[Tensor, " instances"]  # where each instance's rows end

    @classmethod
    def of(cls, owner: Int64[Tensor, " rows"], instances: int) -> "tuple[Spans, Int64[Tensor, ' rows']]":
        """Spans for rows with the given owners, and the order to put the rows in; each owner's stay in order."""
        return cls(torch.bincount(owner, minlength=instances).cumsum(0)), owner.argsort(stable=True)

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def numbers(self) -> Int64[Tensor, " instances"]:
        """How many rows each instance has."""
        return self.ends.diff(prepend=self.ends.new_zeros(1))

    @property
    def owner(self) -> Int64[Tensor, " rows"]:
        """The instance of each row."""
        return torch.arange(len(self), device=self.ends.device).repeat_interleave(self.numbers)

    def rows(self, instance: int) -> slice:
        """The rows of one instance."""
        return slice(int(self.ends[instance - 1]) if instance else 0, int(self.ends[instance]))

    def alone(self, instance: int) -> "tuple[Spans, slice]":
        """Spans of one instance, and the rows that are its."""
        rows = self.rows(instance)
        return Spans(self.ends.new_tensor([rows.stop - rows.start])), rows

    def pick(self, instances: Int64[Tensor, " picked"]) -> "tuple[Spans, Int64[Tensor, ' rows']]":
        """Spans of some instances, and the rows that are theirs."""
        numbers = self.numbers[instances]
        first = (self.ends - self.numbers)[instances]
        spans = Spans(numbers.cumsum(0))
        within = torch.arange(int(numbers.sum()), device=self.ends.device) - (spans.ends - numbers)[spans.owner]
        return spans, first[spans.owner] + within


@dataclass(frozen=True, eq=False)
class Answers:
    """Answers to each instance, the most probable first.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.5))
        >>> result = qgt.Certified().bind(problem)(torch.tensor([[1.0, 1.0]]))
        >>> result.evidence.alternatives.of_instance(0).x
        tensor([[0, 1, 0],
                [1, 0, 1]], dtype=torch.uint8)
    """

    spans: Spans
    x: UInt8[Tensor, "answers items"]
    log_joint: Float64[Tensor, " answers"]
    probability: Float64[Tensor, " answers"]

    def of_instance(self, instance: int) -> "Answers":
        """One instance's answers."""
        spans, rows = self.spans.alone(instance)
        return Answers(spans, self.x[rows], self.log_joint[rows], self.probability[rows])

    def marginals(self) -> Float64[Tensor, "instances items"]:
        """The probability that an item is defective, as far as the answers listed have it."""
        owner = self.spans.owner
        found = torch.zeros(len(self.spans), self.x.shape[1], dtype=torch.float64, device=self.x.device)
        return found.index_add_(0, owner, self.probability[:, None] * self.x.clamp(max=1))

    def listed(self) -> Float64[Tensor, " instances"]:
        """The probability of all answers listed for an instance together."""
        found = torch.zeros(len(self.spans), dtype=torch.float64, device=self.x.device)
        return found.index_add_(0, self.spans.owner, self.probability)

    def pick(self, instances: Int64[Tensor, " picked"]) -> "Answers":
        """The answers to some instances."""
        spans, rows = self.spans.pick(instances)
        return Answers(spans, self.x[rows], self.log_joint[rows], self.probability[rows])


class LeafItem(IntEnum):
    """What a leaf of a proof says of one item: the int8 codes of `Proof.fixed`.

    A leaf without BOX items is a box: the x that have 0 and 1 where it says so. A leaf with BOX items is a *complement
    leaf*: such a box without the smaller box in which every BOX item has its value. So at least one BOX item of each
    of its x has the other value. The smaller box, with these items fixed, belongs to other leaves. (BOX_0 plus a value,
    0 or 1, is the code for that value.)

    SOME and every lower code, down to -128, mark a *set with a defective*: of all items of a leaf that have the same
    such code, at least one is 1. Leaves of households need that: the household is not free of defectives.

    Example:
        >>> LeafItem(LeafItem.BOX_0 + 1)  # of two items, [2, 3] is all x but 01, and [-1, 3] is 00 and 10
        <LeafItem.BOX_1: 3>
    """

    SOME = -2  # like every lower code: of the items with this code at least one is 1
    FREE = -1  # 0 or 1
    ZERO = 0
    ONE = 1
    BOX_0 = 2  # 0 in the box that the leaf leaves out
    BOX_1 = 3  # 1 in the box that the leaf leaves out


@dataclass(frozen=True, eq=False)
class Proof:
    """The leaves of each instance's search: sets of x, with the multipliers that exclude what is in them.

    A leaf is all x whose items are as `fixed` says (the codes of `LeafItem`) and whose number of defectives lies
    between `least` and `most`. `qgt.check_certificate` says what such a proof must show.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.1))
        >>> proof = qgt.Certified().bind(problem)(torch.tensor([[1.0, 1.0]])).proof
        >>> bool((proof.of_instance(0).least <= proof.of_instance(0).most).all())
        True
    """

    odds: float  # the alternatives are claimed to hold every x more than 1/odds as probable as the answer
    spans: Spans
    fixed: Int8[Tensor, "leaves items"]
    least: Int64[Tensor, " leaves"]
    most: Int64[Tensor, " leaves"]
    pi: Float32[Tensor, "leaves pools"]
    shares: Float32[Tensor, "leaves memberships"]  # pool by pool; or none at all: (leaves, 0)

    def of_instance(self, instance: int) -> "Proof":
        """One instance's leaves."""
        return self._rows(*self.spans.alone(instance))

    def pick(self, instances: Int64[Tensor, " picked"]) -> "Proof":
        """The leaves of some instances."""
        return self._rows(*self.spans.pick(instances))

    def _rows(self, spans: Spans, rows: slice | Tensor) -> "Proof":
        parts = self.fixed, self.least, self.most, self.pi, self.shares
        return Proof(self.odds, spans, *(part[rows] for part in parts))


@dataclass(frozen=True, eq=False)
class Evidence:
    """What a decoder knows of its answers; None where it does not know.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.5))
        >>> evidence = qgt.Exhaustive().bind(problem)(torch.tensor([[1.0, 1.0]])).evidence
        >>> evidence.confidence, evidence.iterations is None
        (tensor([0.5000], dtype=torch.float64), True)
    """

    log_joint: Float64[Tensor, " instances"] | None = None  # of the answer and the counts
    bound: Float64[Tensor, " instances"] | None = None  # on the log joint of any x: what is not excluded
    complete: Bool[Tensor, " instances"] | None = None  # whether every answer that comes close is listed
    confidence: Float64[Tensor, " instances"] | None = None  # the probability of the answer, as far as is known
    marginals: Float64[Tensor, "instances items"] | None = None  # of each item being defective; NaN where not known
    values: Float64[Tensor, "instances items values"] | None = None  # the probability of each copy number or category
    interval: Float64[Tensor, "instances items 2"] | None = None  # 90 % of the amount, where called; NaN elsewhere
    unsettled: Bool[Tensor, "instances items"] | None = None  # items on which the answers listed differ
    alternatives: Answers | None = None  # the answers that come close, the answer itself first
    fit: Float64[Tensor, " instances"] | None = None  # p-value: how often counts of the model fit their answer worse
    iterations: Int64[Tensor, " instances"] | None = None  # until it settled

    @property
    def gap(self) -> Float64[Tensor, " instances"] | None:
        """How much more probable an answer may be that is not excluded, in nats: 0 where there is none."""
        if self.log_joint is None or self.bound is None:
            return None
        return (self.bound - self.log_joint).nan_to_num(nan=0.0, posinf=torch.inf).clamp(min=0.0)

    def pick(self, instances: Int64[Tensor, " picked"]) -> "Evidence":
        """The evidence for some instances."""
        return Evidence(**{name: _pick(getattr(self, name), instances) for name in _names(self)})


SHOWN = 10  # instances, and defective items of one, that a notebook shows


@dataclass(frozen=True, eq=False, repr=False)
class Decoded:
    """The calls for a batch of instances, with what is known about them.

    `scores` (None where a decoder has none) rank the items of an instance, larger meaning more surely defective. Where
    items have loads, `amounts` says how much each item has that is called defective, and 0 for the others. Where items
    have copies or categories, x says how many and which, and `scores` rank items by the probability of not being 0.

    Example:
        >>> import torch
        >>> result = Decoded(torch.zeros(2, 5, dtype=torch.uint8), torch.tensor([0, 4], dtype=torch.uint8))
        >>> [Status(status).name for status in result.status.tolist()]
        ['OK', 'INFEASIBLE']
    """

    x: UInt8[Tensor, "instances items"]
    status: UInt8[Tensor, " instances"]
    scores: Float64[Tensor, "instances items"] | None = None
    evidence: Evidence = field(default_factory=Evidence)
    proof: Proof | None = None
    amounts: Float64[Tensor, "instances items"] | None = None
    blocks: "tuple[Decoded, ...] | None" = None  # of categories: the result, with its proof, of each by itself

    def __repr__(self) -> str:
        found = torch.bincount(self.status.long(), minlength=len(Status)).tolist()
        numbers = {status.name: number for status, number in zip(Status, found, strict=True) if number}
        known = [name for name in _names(self.evidence) if getattr(self.evidence, name) is not None]
        shown = f", {', '.join(f'{name}: {number}' for name, number in numbers.items())}" if numbers else ""
        extra = [name for name in ("scores", "proof", "amounts", "blocks") if getattr(self, name) is not None]
        has = f", with {', '.join([*extra, *known])}" if extra or known else ""
        return f"Decoded(instances={len(self.x)}, items={self.x.shape[1]}{shown}{has})"

    def _repr_html_(self) -> str:
        columns = self.pick(torch.arange(min(SHOWN, len(self.x)), device=self.x.device))._columns(None, most=SHOWN)
        more = f"<p>and {len(self.x) - SHOWN:,} more instances</p>" if len(self.x) > SHOWN else ""
        return html_facts("Decoded", {"": repr(self)}, html_table(columns) + more)

    def to_frame(self, items: Sequence[str] | None = None, *, by_item: bool = False) -> "DataFrame":
        """A DataFrame of pandas (the extra `pandas`), with a row for each instance, or for each item of each instance.

        `items` are the names of the items, such as `problem.design.item_names`; without them an item is its number,
        counted from 0.

        Example:
            >>> import torch, qgt
            >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.1))
            >>> result = qgt.Exhaustive().bind(problem)(torch.tensor([[0.0, 1.0]]))
            >>> result.to_frame(problem.design.item_names)[["status", "defectives", "items"]]
               status  defectives  items
            0  PROVED           1  (I3,)
        """
        if items is not None and len(items) != self.x.shape[1]:
            raise ValueError(f"items has {len(items)} names: give {self.x.shape[1]}, such as design.item_names.")
        return frame(self._long_columns(items) if by_item else self._columns(items))

    def _columns(self, items: Sequence[str] | None, most: int | None = None) -> dict[str, list[object]]:
        """One entry for each instance: its status, its defective items, and how sure that is."""
        names = range(self.x.shape[1]) if items is None else items
        columns: dict[str, list[object]] = {
            "status": [Status(one).name for one in self.status.tolist()],
            "defectives": (self.x > 0).sum(1).tolist(),
            "items": [_listed([names[i] for i in one.nonzero().flatten().tolist()], most) for one in self.x],
        }
        for name in ("confidence", "fit", "log_joint"):
            known = getattr(self.evidence, name)
            columns |= {} if known is None else {name: known.tolist()}
        return columns

    def _long_columns(self, items: Sequence[str] | None) -> dict[str, list[object]]:
        instances, size = self.x.shape
        columns: dict[str, list[object]] = {
            "instance": [i for i in range(instances) for _ in range(size)],
            "item": [*(range(size) if items is None else items)] * instances,
            "x": self.x.flatten().tolist(),
        }
        parts = {"score": self.scores, "amount": self.amounts, "probability": self.evidence.marginals}
        return columns | {name: part.flatten().tolist() for name, part in parts.items() if part is not None}

    @property
    def values(self) -> UInt8[Tensor, "instances items"] | Float64[Tensor, "instances items"]:
        """What the answer says that each item has: amounts where items have loads, else statuses."""
        return self.x if self.amounts is None else self.amounts

    def pick(self, instances: Int64[Tensor, " picked"]) -> "Decoded":
        """The result for some of the instances, in the order given."""
        return Decoded(**{name: _pick(getattr(self, name), instances) for name in _names(self)})

    def cpu(self) -> "Decoded":
        """The same, on the CPU."""
        here: Decoded = _on_cpu(self)
        return here

    @classmethod
    def joined(cls, parts: "Sequence[Decoded]") -> "Decoded":
        """The results of several batches by the same decoder as one."""
        joined: Decoded = _joined(parts)
        return joined


def _listed(names: Sequence[object], most: int | None) -> object:
    """Names as a tuple or, cut where they are many, as a text."""
    if most is None:
        return tuple(names)
    return ", ".join(map(str, names[:most])) + (f" and {len(names) - most} more" if len(names) > most else "")


def _names(record: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(record)]


def _pick(part: Tensor | Answers | Evidence | Proof | tuple[Decoded, ...] | None, instances: Tensor) -> Any:
    if part is None:
        return None
    if isinstance(part, tuple):
        return tuple(one.pick(instances) for one in part)
    return part[instances] if isinstance(part, Tensor) else part.pick(instances)


def _on_cpu(part: Any) -> Any:
    """A record with its tensors on the CPU; what is neither a record nor a tensor stays as it is."""
    if isinstance(part, Tensor):
        return part.cpu()
    if isinstance(part, tuple):
        return tuple(map(_on_cpu, part))
    if not dataclasses.is_dataclass(part) or isinstance(part, type):
        return part
    return dataclasses.replace(part, **{name: _on_cpu(getattr(part, name)) for name in _names(part)})


def _joined(parts: Sequence[Any]) -> Any:
    """Records of one type as one: tensors are put after each other, spans moved behind those before."""
    first = parts[0]
    if isinstance(first, Tensor):
        return torch.cat(list(parts))
    if isinstance(first, tuple):
        return tuple(map(_joined, zip(*parts, strict=True)))
    if isinstance(first, Spans):
        return Spans(torch.cat([part.numbers for part in parts]).cumsum(0))
    if first is None or isinstance(first, float):
        return first
    if isinstance(first, Proof):  # some batches have no shares
        width = max(part.shares.shape[1] for part in parts)
        parts = [dataclasses.replace(part, shares=_wider(part.shares, width)) for part in parts]
    return type(first)(**{name: _joined([getattr(part, name) for part in parts]) for name in _names(first)})


def _wider(shares: Tensor, width: int) -> Tensor:
    """Shares (leaves, memberships), of nothing where there are none."""
    return shares if shares.shape[1] == width else shares.new_zeros(len(shares), width)
