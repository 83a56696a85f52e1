"""Checking proofs without the solver that made them: plain sums, no search, no optimisation.

A certificate is a list of leaves, sets of x, for each instance: some items fixed, the number of defectives k between
two numbers, and multipliers pi of the pools. It proves what is claimed of the instance if

1. the leaves hold every x: for each k, they split the cube {0, 1}^N item by item;
2. each leaf excludes what is not listed: for every x of k defectives in it, with r_j = w_j - (A' pi)_j,

       cost(x) = constant + sum_j w_j x_j + sum_i f_i((A x)_i)
              >= constant + sum of the fixed r_j + the least free r_j, as many as make k
                          + sum_i min over c of (f_i(c) + pi_i c)  =:  bound,

   reaches the limit (the answer's cost plus log odds); or all but one x of the leaf do, for any other swaps a free item
   for another, at the cost of the difference of their r_j; and that one is listed, or costs as much as the limit.

Where all items weigh the same and a count costs one of two values, the costs of x with k defectives have steps, and a
bound above the last step below the limit reaches it. Sums are in float64; `MARGIN` is far more than they round off.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float64
from numpy.typing import NDArray
from torch import Tensor

from qgt.decoders.contract import Decoded, Ragged, Status
from qgt.files.atomic import replacing
from qgt.model.prior import Bernoulli, FixedWeight
from qgt.model.problem import Problem

MARGIN = 1e-7
CLOSE = 2e-6  # an x that is more probable by a factor of 1.000002 counts as equally probable
FREE = -1

Floats = NDArray[np.float64]


def check_certificate(
    problem: Problem, y: Float64[Tensor, "instances pools"], result: Decoded, *, odds: float = 1.0
) -> Bool[Tensor, " instances"]:
    """Whether each instance's certificate proves that its answer is the most probable x, or that no x is possible.

    With `odds` above 1, also that every x more than 1/odds as probable as the answer is listed among its
    alternatives. An instance whose status claims no proof has none.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.1))
        >>> y = torch.tensor([[1.0, 1.0]], dtype=torch.float64)
        >>> result = qgt.Certified().bind(problem)(y)
        >>> check_certificate(problem, y, result), check_certificate(problem, y + 1, result)
        (tensor([True]), tensor([False]))
    """
    if "dual" not in result.info:
        raise ValueError("the result has no certificates: decode with Certified(certificates=True).")
    own = result.x.cpu().numpy()
    costs = _Costs.of(problem)
    proved = [
        _proves(costs.with_tables(problem, y[i].cpu()), own[i], Status(status), _plain(result, "alternatives", i),
                _plain(result, "dual", i), odds)
        for i, status in enumerate(result.status.tolist())
    ]  # fmt: skip
    return torch.tensor(proved, dtype=torch.bool)


def save_certificate(path: str | Path, problem: Problem, result: Decoded) -> None:
    """Write a result's answers, alternatives and proofs, as safetensors, with the problem's fingerprint.

    Example:
        >>> import tempfile, torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.1))
        >>> result = qgt.Certified().bind(problem)(torch.tensor([[1.0, 1.0]]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_certificate(f"{folder}/proof", problem, result)
        ...     load_certificate(f"{folder}/proof", problem).x
        tensor([[0, 1, 0]], dtype=torch.uint8)
    """
    with replacing(path) as temporary:
        write_certificate(temporary, problem, result)


def write_certificate(path: str | Path, problem: Problem, result: Decoded) -> None:
    """Write as `save_certificate` does, but straight to the path: for those who replace files themselves."""
    from safetensors.torch import save_file

    if "dual" not in result.info:
        raise ValueError("the result has no certificates: decode with Certified(certificates=True).")
    tensors = {"x": result.x, "status": result.status}
    for key in ("alternatives", "dual"):
        tensors |= {f"{key}.{name}": column for name, column in result.info[key].columns.items()}
        tensors[f"{key}.ends"] = result.info[key].ends
    save_file({k: v.cpu().contiguous() for k, v in tensors.items()}, path, {"problem": problem.fingerprint})


def load_certificate(path: str | Path, problem: Problem) -> Decoded:
    """Read what `save_certificate` wrote for this problem; whether it proves anything is for `check_certificate`.

    Example:
        >>> import tempfile, torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.1))
        >>> y = torch.tensor([[1.0, 1.0]], dtype=torch.float64)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_certificate(f"{folder}/proof", problem, qgt.Certified().bind(problem)(y))
        ...     check_certificate(problem, y, load_certificate(f"{folder}/proof", problem))
        tensor([True])
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            owner = (file.metadata() or {}).get("problem")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - a file is no dict
    except (OSError, SafetensorError) as error:
        raise ValueError(f"{path}: cannot be read as a certificate ({error}).") from error
    if owner != problem.fingerprint:
        raise ValueError(f"{path}: is a certificate for another problem: check it against the one it was made for.")
    _refuse_malformed(path, tensors, problem)
    rows = {
        key: Ragged(tensors[f"{key}.ends"], {name: tensors[f"{key}.{name}"] for name in columns})
        for key, columns in _COLUMNS.items()
    }
    return Decoded(tensors["x"], tensors["status"], None, rows)


_COLUMNS = {"alternatives": ("x", "log_joint", "probability"), "dual": ("fixed", "least", "most", "pi")}


def _refuse_malformed(path: str | Path, tensors: dict[str, Tensor], problem: Problem) -> None:
    """Raise a ValueError unless the tensors have the names, kinds and sizes of a certificate."""
    width = {"x": problem.items, "fixed": problem.items, "pi": problem.pools}
    kinds = {"x": torch.uint8, "status": torch.uint8, "fixed": torch.int8, "pi": torch.float32}
    kinds |= {"least": torch.int64, "most": torch.int64, "ends": torch.int64}
    kinds |= {"log_joint": torch.float64, "probability": torch.float64}
    wanted = {"x", "status"} | {f"{key}.{name}" for key, columns in _COLUMNS.items() for name in (*columns, "ends")}
    if set(tensors) != wanted:
        raise ValueError(f"{path}: is not a certificate: it holds {', '.join(sorted(tensors)) or 'nothing'}.")
    for name, tensor in tensors.items():
        part, _, kind = name.rpartition(".")
        ends = tensors[f"{part}.ends"] if part else tensors["status"]
        rows = len(tensors["status"]) if not part or kind == "ends" else int(ends[-1]) if len(ends) else 0
        shape = (rows, width[kind]) if kind in width else (rows,)
        if tensor.dtype != kinds[kind] or tensor.shape != shape:
            raise ValueError(f"{path}: {name} is {tensor.dtype} of shape {tuple(tensor.shape)}, not {shape}.")
        if kind == "status" and bool((tensor > max(Status)).any()):
            raise ValueError(f"{path}: holds a status that there is not: the file is damaged.")
        if kind == "ends" and bool((tensor.diff(prepend=tensor.new_zeros(1)) < 0).any()):
            raise ValueError(f"{path}: {name} is not in order: the file is damaged.")


def _plain(result: Decoded, key: str, instance: int) -> dict[str, Any]:
    return {name: column.cpu().numpy() for name, column in result.info[key][instance].items()}


class _Costs(NamedTuple):
    """The cost of x, from the problem alone."""

    matrix: Floats
    weights: Floats
    known: NDArray[np.int8]
    total: int | None
    constant: float
    tables: Floats = np.zeros((0, 0))  # (pools, counts), infinite where impossible

    @classmethod
    def of(cls, problem: Problem) -> "_Costs":
        matrix, items = problem.design.matrix.cpu().numpy().astype(np.float64), problem.items
        free, nothing = np.full(items, FREE, dtype=np.int8), np.zeros(items)
        if isinstance(problem.prior, FixedWeight):
            some = (torch.arange(items) < problem.prior.defectives).to(torch.uint8)
            constant = -float(problem.prior.log_prob(some[None])[0])
            return cls(matrix, nothing, free, problem.prior.defectives, constant)
        if not isinstance(problem.prior, Bernoulli):
            raise ValueError(
                f"{problem.prior} is not a sum over items: certificates are for Bernoulli and FixedWeight."
            )
        rate = problem.prior.marginals(items).numpy()
        sure = (rate == 0) | (rate == 1)
        odds = np.where(sure, 0.5, rate)
        weights, none = np.log1p(-odds) - np.log(odds), np.where(sure, 0.0, np.log1p(-odds))
        return cls(matrix, weights, np.where(sure, rate, FREE).astype(np.int8), None, -float(none.sum()))

    def with_tables(self, problem: Problem, y: Tensor) -> "_Costs":
        sizes = problem.design.pool_sizes.cpu()
        counts = torch.arange(int(sizes.max()) + 1, dtype=torch.float64).expand(len(y), -1)
        log_prob = problem.noise.log_prob(y[:, None].expand_as(counts), counts)
        return self._replace(tables=torch.where(counts <= sizes[:, None], -log_prob, torch.inf).numpy())

    def of_x(self, x: NDArray[Any]) -> Floats:
        """The costs of whole x: (rows,)."""
        possible = ((self.known == FREE) | (self.known == x)).all(1) & (x <= 1).all(1)
        if self.total is not None:
            possible &= x.sum(1, dtype=np.int64) == self.total
        counts = (np.minimum(x, 1).astype(np.float64) @ self.matrix.T).astype(np.int64)
        pools = self.tables[np.arange(len(self.tables)), counts].sum(1)
        return np.asarray(np.where(possible, self.constant + x @ self.weights + pools, np.inf))

    def enough(self, limit: float) -> Floats:
        """The bound at which no x of 0, 1, ... defectives costs less than the limit: (items + 1,)."""
        free, finite = self.known == FREE, self.tables[np.isfinite(self.tables)]
        k = np.arange(len(self.known) + 1)
        low, high = (finite.min(), finite.max()) if len(finite) else (0.0, 0.0)
        two = len(finite) > 0 and np.minimum(finite - low, high - finite).max() < 1e-12 and high - low > 1e-3
        if not two or not free.any() or np.ptp(self.weights[free]) > 0:
            return np.full(len(k), limit)
        base = self.constant + self.weights[free][0] * (k - (self.known == 1).sum()) + len(self.tables) * low
        steps = np.ceil((limit - base) / (high - low)) - 1
        return np.where(steps >= 0, base + (high - low) * steps + MARGIN, -np.inf)


def _proves(
    costs: _Costs, x: NDArray[np.uint8], status: Status, listed: dict[str, Any], leaves: dict[str, Any], odds: float
) -> bool:
    """Whether one instance's leaves prove its claim."""
    if status not in (Status.PROVED, Status.INFEASIBLE) or not np.isfinite(costs.tables).any(1).all():
        return status == Status.INFEASIBLE  # a pool whose count is impossible needs no tree
    known, limit = np.zeros((0, len(x)), dtype=np.uint8), _more_than_any(costs)
    if status == Status.PROVED:
        cost = float(costs.of_x(x[None])[0])
        if not np.isfinite(cost):
            return False
        known, limit = np.concatenate([x[None], listed["x"]]), cost + float(np.log(odds)) - CLOSE
    return _hold_all(costs, leaves) and _exclude_all(costs, limit, known, leaves)


def _more_than_any(costs: _Costs) -> float:
    """More than any possible x costs."""
    finite = np.where(np.isfinite(costs.tables), costs.tables, -np.inf).max(1)
    return float(costs.constant + np.maximum(costs.weights, 0.0).sum() + finite.sum() + 1.0)


def _hold_all(costs: _Costs, leaves: dict[str, Any]) -> bool:
    """Whether every possible x is in some leaf: for each k, the leaves split the cube item by item."""
    fixed, free = leaves["fixed"], costs.known == FREE
    agree = (fixed[:, ~free] == FREE) | (fixed[:, ~free] == costs.known[~free])
    fixed, least, most = fixed[agree.all(1)][:, free], leaves["least"][agree.all(1)], leaves["most"][agree.all(1)]
    totals = range(len(free) + 1) if costs.total is None else [costs.total]
    seen: set[bytes] = set()  # most k have the same leaves as their neighbours
    for total in totals:
        here = (least <= total) & (total <= most)
        if here.tobytes() not in seen and not _covers(fixed[here]):
            return False
        seen.add(here.tobytes())
    return True


def _covers(fixed: NDArray[np.int8]) -> bool:
    """Whether boxes of a cube, rows of 0, 1 and FREE, cover it, as the leaves of a tree of splits do."""
    todo = [fixed]
    while todo:
        boxes = todo.pop()
        if (boxes == FREE).all(1).any():
            continue  # one of them is the whole cube
        split = (boxes != FREE).all(0) & (len(boxes) > 0)
        if not split.any():
            return False
        item = int(split.argmax())
        for value in (0, 1):
            half = boxes[boxes[:, item] == value].copy()
            half[:, item] = FREE
            todo.append(half)
    return True


def _exclude_all(costs: _Costs, limit: float, known: NDArray[np.uint8], leaves: dict[str, Any]) -> bool:
    """Whether each leaf holds nothing below the limit but known x."""
    fixed, pi = leaves["fixed"], leaves["pi"].astype(np.float64)
    if not np.isfinite(pi).all():
        return False
    free, counts = fixed == FREE, np.arange(costs.tables.shape[1])
    reduced = costs.weights - pi @ costs.matrix
    value = np.sort(np.where(free, reduced, np.inf), 1)  # (leaves, items)
    least = np.pad(np.cumsum(value, 1), ((0, 0), (1, 0)))  # of 0, 1, ... free items
    pools = sum((row + pi[:, i, None] * counts).min(1) for i, row in enumerate(costs.tables))
    base = costs.constant + np.where(fixed == 1, reduced, 0.0).sum(1) + pools - _rounding(costs, pi)

    leaf, total = _pairs(leaves["least"], leaves["most"], len(costs.known))
    number = total - (fixed == 1).sum(1)[leaf]  # of free items that are defective
    possible = (number >= 0) & (number <= free.sum(1)[leaf])
    leaf, total, number = leaf[possible], total[possible], number[possible]
    bound, enough = base[leaf] + least[leaf, number], costs.enough(limit)[total]
    left = bound < enough
    leaf, number, bound, enough = leaf[left], number[left], bound[left], enough[left]

    edges = np.pad(value, ((0, 0), (1, 1)), constant_values=((0, 0), (-np.inf, np.inf)))
    alone = bound + (edges[leaf, number + 1] - edges[leaf, number]) >= enough
    order = np.argsort(np.where(free, reduced, np.inf)[leaf], 1, kind="stable")
    inside = np.argsort(order, 1, kind="stable") < number[:, None]
    own = np.where(free[leaf], inside, fixed[leaf] == 1).astype(np.uint8)
    listed, dear = {row.tobytes() for row in known}, costs.of_x(own) >= limit - MARGIN
    return bool(alone.all()) and all(ok or row.tobytes() in listed for ok, row in zip(dear.tolist(), own, strict=True))


def _rounding(costs: _Costs, pi: Floats) -> Floats:
    """More than all sums of a leaf can be off: float64's precision times their terms and their number; (leaves,)."""
    finite = np.where(np.isfinite(costs.tables), np.abs(costs.tables), 0.0).max(1).sum()
    items = np.abs(costs.weights).sum() + (np.abs(pi) @ costs.matrix).sum(1)
    terms = abs(costs.constant) + finite + items + np.abs(pi).sum(1) * costs.tables.shape[1]
    return np.asarray(4 * np.finfo(np.float64).eps * (sum(costs.matrix.shape) + 10) * terms)


def _pairs(least: NDArray[np.int64], most: NDArray[np.int64], items: int) -> tuple[NDArray[np.int64], ...]:
    """Every leaf with every number of defectives it may have."""
    k = np.arange(items + 1)
    return ((k >= least[:, None]) & (k <= most[:, None])).nonzero()
