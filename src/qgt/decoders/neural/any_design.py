"""The network for any design as a decoder: rounds of messages, a judge, and tries that doubt one item after the other.

Every round's calls are judged by the exact posterior, log P(x, y), and the most probable calls win. An instance whose
answer the network itself believes (the product of its probabilities) is settled. An unsettled instance is tried again:
its most doubtful item is taken to be the opposite of what was called, by its prior; then the second most doubtful, and
so on. The judge always uses the true prior. So a try can find a better answer and cannot spoil one.

`pretrained` loads the weights that ship with the package. Their file says how they were trained, and for which ranges.
"""

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from qgt.arguments import whole
from qgt.decoders.contract import BoundDecoder, no_amounts, refuse_unsupported
from qgt.decoders.neural import model_file
from qgt.decoders.neural.messages import LEAST_LOG, MessageNetwork, Seen
from qgt.decoders.neural.model_file import ModelFileError
from qgt.decoders.neural.network import MOST_LAYERS
from qgt.decoders.results import Decoded, Evidence, Status
from qgt.files import codec
from qgt.model.design import Design
from qgt.model.factors import PoolCosts, pool_costs
from qgt.model.prior import Prior
from qgt.model.problem import Problem

KIND = "any_design"
SHIPPED = "any_design.safetensors"
LARGEST_MATRIX = 2**24  # entries of a design: the matrix is dense here, and each instance has hidden vectors beside it
HIDDEN_AT_A_TIME = 2**24  # numbers of hidden vectors held at a time
WINDOW = 64  # totals of a table that are looked at, where a pool has more
SETTLED = math.log(0.98)  # the network's own log probability of its calls from which on they stand
DOUBT = 5.0  # the logit of an item that is taken to be the opposite of what was called
LEAST_RATE = 1e-6
ROUNDS, TRIES = 24, 24
TRIES_TOGETHER = 8  # tries of an instance that are made side by side


class OutsideTraining(UserWarning):
    """A problem is outside of what a pretrained network was trained on."""


@dataclass(frozen=True)
class TrainedOn:
    """What random problems the weights were trained on, each from least to most."""

    items: tuple[int, int] = (50, 500)
    pools: tuple[int, int] = (8, 192)
    rate: tuple[float, float] = (0.005, 0.15)
    column_weight: tuple[int, int] = (3, 115)


@dataclass(frozen=True, eq=False, repr=False)
class AnyDesign:
    """A network that decodes any design: the design, the prior and the noise are its inputs.

    `rounds` is how often items and pools exchange messages, `tries` how many doubtful items of an unsettled instance
    are doubted in turn. Correlated items (households) enter by their marginals, and the judge uses their whole prior.
    `scores` are the network's probabilities; `evidence.iterations` is how many rounds an instance took.

    Example:
        >>> import torch, qgt
        >>> g = torch.Generator().manual_seed(0)
        >>> design = qgt.Design.column_regular(pools=30, items=60, weight=6, generator=g)
        >>> problem = qgt.Problem(design, qgt.Bernoulli(0.05), qgt.SparseInteger(rate=0.05, bound=1))
        >>> x, y = problem.simulate(20, generator=g)
        >>> qgt.score(x, qgt.pretrained().bind(problem)(y).x).success_rate > 0.8
        True
    """

    network: MessageNetwork
    made: Mapping[str, Any] = field(default_factory=dict)  # how the weights were trained
    ranges: TrainedOn = TrainedOn()
    rounds: int = ROUNDS
    tries: int = TRIES

    def __post_init__(self) -> None:
        object.__setattr__(self, "rounds", whole("rounds", self.rounds, least=1, most=MOST_LAYERS))
        object.__setattr__(self, "tries", whole("tries", self.tries, least=0))

    def __repr__(self) -> str:
        return f"AnyDesign(width={self.network.width}, rounds={self.rounds}, tries={self.tries})"

    def supports(self, problem: Problem) -> str | None:
        """Statuses of a prior with marginals and probabilities, and a matrix that fits into memory."""
        if not isinstance(problem.prior, Prior) and problem.loads is None:
            return f"its prior {type(problem.prior).__name__} has no marginals; train a network for this problem."
        if problem.pools * problem.items > LARGEST_MATRIX:
            return f"its design has {problem.pools} x {problem.items} entries; use belief propagation."
        return no_amounts(problem)

    def outside(self, problem: Problem) -> tuple[str, ...]:
        """How the problem is outside of what the weights were trained on, one sentence each; empty where it is not.

        Example:
            >>> import qgt
            >>> problem = qgt.Problem(qgt.Design.from_rows(["111", "011"]), qgt.Bernoulli(0.3))
            >>> for sentence in qgt.pretrained().outside(problem):
            ...     print(sentence)
            items=3 is outside the range of training, 50 to 500.
            pools=2 is outside the range of training, 8 to 192.
            rate=0.3 is outside the range of training, 0.005 to 0.15.
            column_weight=1.66667 is outside the range of training, 3 to 115.
        """
        assert isinstance(problem.prior, Prior)
        numbers = {
            "items": problem.items,
            "pools": problem.pools,
            "rate": float(problem.prior.marginals(problem.items).mean()),
            "column_weight": problem.design.transfers / problem.items,
        }
        ranges = {name: getattr(self.ranges, name) for name in numbers}
        return tuple(
            f"{name}={value:g} is outside the range of training, {ranges[name][0]:g} to {ranges[name][1]:g}."
            for name, value in numbers.items()
            if not ranges[name][0] <= round(value, 9) <= ranges[name][1]
        )

    def bind(self, problem: Problem) -> BoundDecoder:
        """Get ready to decode on any device; warn where the problem is outside of the training's ranges."""
        refuse_unsupported(self, problem)
        outside = " ".join(self.outside(problem))
        if outside:
            said = f"the pretrained network may decode this problem poorly: {outside}"
            warnings.warn(said, OutsideTraining, stacklevel=2)
        copies: dict[torch.device, MessageNetwork] = {}

        def decode(y: Tensor, defectives: Tensor | None) -> Decoded:
            if y.device not in copies:
                copies[y.device] = _copy(self.network, y.device)
            at_a_time = _at_a_time(self.network, problem)
            parts = [_decode(self, copies[y.device], problem, part) for part in y.split(at_a_time)]
            parts = parts or [_decode(self, copies[y.device], problem, y)]
            x, scores, iterations = (torch.cat(column) for column in zip(*parts, strict=True))
            status = torch.full((len(y),), Status.OK, dtype=torch.uint8, device=y.device)
            return Decoded(x, status, scores, Evidence(iterations=iterations))

        return BoundDecoder(problem, decode, takes_missing=True)

    def save(self, path: str | Path) -> None:
        """Write the folder `path` with the model file in it, all or nothing."""
        model_file.write_model(path, self.description, self.network.state_dict())

    @property
    def description(self) -> dict[str, object]:
        """All but the weights, as plain data."""
        ranges = {name: list(getattr(self.ranges, name)) for name in TrainedOn.__dataclass_fields__}
        sizes = {"width": self.network.width, "inside": self.network.inside}
        return {"kind": KIND, **sizes, "rounds": self.rounds, "tries": self.tries, "ranges": ranges, "made": self.made}


@dataclass(frozen=True)
class Pretrained:
    """The network for any design with the weights that ship, or those of a file: `qgt decode --decoder pretrained`.

    Example:
        >>> import qgt
        >>> problem = qgt.Problem(qgt.Design.hypercube(side=4, dimensions=3), qgt.Bernoulli(0.03))
        >>> qgt.Pretrained(tries=2).supports(problem) is None
        True
    """

    rounds: int = ROUNDS
    tries: int = TRIES
    weights: str = ""  # a folder or file that `qgt train --from pretrained` wrote; empty: the weights that ship

    def __post_init__(self) -> None:
        object.__setattr__(self, "rounds", whole("rounds", self.rounds, least=1, most=MOST_LAYERS))
        object.__setattr__(self, "tries", whole("tries", self.tries, least=0))

    def supports(self, problem: Problem) -> str | None:
        """What the network supports."""
        return self._decoder.supports(problem)

    def outside(self, problem: Problem) -> tuple[str, ...]:
        """How the problem is outside of what the weights were trained on."""
        return self._decoder.outside(problem)

    def bind(self, problem: Problem) -> BoundDecoder:
        """Load the weights once, and get ready."""
        return self._decoder.bind(problem)

    @property
    def _decoder(self) -> AnyDesign:
        return pretrained(self.weights or None, rounds=self.rounds, tries=self.tries)


def pretrained(path: str | Path | None = None, *, rounds: int = ROUNDS, tries: int = TRIES) -> AnyDesign:
    """The network for any design, with the weights that ship with the package or those in a folder or file.

    Example:
        >>> import qgt
        >>> qgt.pretrained(rounds=40).rounds
        40
    """
    network, made, ranges = _shipped() if path is None else _read(model_file.model_path(path))
    return AnyDesign(network, made, ranges, rounds, tries)


@cache
def _shipped() -> tuple[MessageNetwork, Mapping[str, Any], TrainedOn]:
    with resources.as_file(resources.files("qgt") / "data" / SHIPPED) as file:
        return _read(file)


def _read(file: Path) -> tuple[MessageNetwork, Mapping[str, Any], TrainedOn]:
    description, weights = model_file.read_model(file)
    try:
        if description.get("kind") != KIND:
            raise ValueError("it is a network for one problem; give it to `qgt.load` or --model")
        width, inside = (codec.decode(name, description[name], int) for name in ("width", "inside"))
        held = sum(tensor.numel() for tensor in weights.values())
        if not 0 < width * inside <= held or width < 1:  # before anything is built
            raise ValueError(f"a network of width={width} and inside={inside} has more than {held:,} weights")
        network = MessageNetwork(width=width, inside=inside, generator=torch.Generator().manual_seed(0))
        model_file.check_weights(network.state_dict(), weights)
        network.load_state_dict(dict(weights))
        given = codec.as_table("ranges", description["ranges"])
        codec.check_keys("ranges", given, required=set(TrainedOn.__dataclass_fields__))
        ranges = TrainedOn(**{name: _pair(name, value) for name, value in given.items()})
        return network.eval().requires_grad_(False), dict(codec.as_table("made", description["made"])), ranges
    except (ValueError, LookupError, TypeError, RecursionError, OverflowError) as error:
        raise ModelFileError(f"{file}: is not a usable model: {error}") from error


def _pair(name: str, value: object) -> tuple[Any, Any]:
    if not isinstance(value, list) or len(value) != 2 or not all(isinstance(one, int | float) for one in value):
        raise ValueError(f"ranges.{name}={value!r} is not valid: give two numbers.")
    return value[0], value[1]


def _copy(network: MessageNetwork, device: torch.device) -> MessageNetwork:
    made = MessageNetwork(width=network.width, inside=network.inside, generator=torch.Generator().manual_seed(0))
    made.load_state_dict(network.state_dict())
    return made.to(device).eval().requires_grad_(False)


# What the network is shown of a problem.


def shown(problem: Problem, y: Tensor, costs: PoolCosts | None = None) -> Seen:
    """A problem and some reports as the network's inputs.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.5))
        >>> seen = shown(problem, torch.tensor([[1.0, torch.nan]], dtype=torch.float64))
        >>> seen.tables, seen.first
        (tensor([[[-30.,   0., -30.],
                 [  0.,   0.,   0.]]]), tensor([[0., 0.]]))
    """
    assert isinstance(problem.prior, Prior)
    n, device, design = len(y), y.device, problem.design
    costs = pool_costs(design, problem.noise, y) if costs is None else costs
    A = design.matrix.to(device, torch.float32).expand(n, -1, -1)
    rate = problem.prior.marginals(problem.items).to(device).clamp(LEAST_RATE, 1 - LEAST_RATE)
    sizes = design.pool_sizes.to(device)
    first = _first(costs, design, rate)  # (instances, pools)
    width = min(WINDOW, costs.tables.shape[1])
    totals = first[..., None] + torch.arange(width, device=device)  # (instances, pools, totals)
    tables = -costs.tables[costs.which[..., None], totals.clamp(max=costs.tables.shape[1] - 1)]
    tables = torch.where(totals <= sizes[:, None], tables, -torch.inf)
    tables = (tables - tables.amax(2, keepdim=True)).nan_to_num(LEAST_LOG, neginf=LEAST_LOG).clamp(min=LEAST_LOG)
    tables = torch.where(y.isnan()[..., None], 0.0, tables).to(torch.float32)
    ones = torch.ones(n, 1, device=device)
    prior = rate.logit().to(torch.float32).expand(n, -1)
    return Seen(A, prior, tables, first.to(torch.float32), ones.expand(-1, problem.items), ones.expand(-1, len(sizes)))


def _first(costs: PoolCosts, design: Design, rate: Tensor) -> Tensor:
    """Where the window of each table begins: around the totals that the report and the prior together make likely."""
    counts = costs.tables.shape[1]
    if counts <= WINDOW:
        return torch.zeros_like(costs.which)
    pools, device = design.pools, rate.device
    mean = design.count(rate[None])[0]  # (pools,)
    spread = design.count((rate * (1 - rate))[None])[0]
    pairs, place = (costs.which * pools + torch.arange(pools, device=device)).unique(return_inverse=True)
    totals = torch.arange(counts, dtype=torch.float64, device=device)
    kind, pool = pairs // pools, pairs % pools
    # Four times the variance: the report counts for more than what was expected.
    likely = -costs.tables[kind] - (totals - mean[pool, None]).square() / (8 * spread[pool, None] + 2)
    centre = (likely.softmax(1) * totals).sum(1).nan_to_num(0.0)
    first = (centre.round().to(torch.int64) - WINDOW // 2).clamp(0, counts - WINDOW)
    return first[place]


# Rounds, the judge, and tries.


@torch.inference_mode()
def _decode(config: AnyDesign, network: MessageNetwork, problem: Problem, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Calls, probabilities, and the number of rounds that each instance took."""
    costs = pool_costs(problem.design, problem.noise, y)
    seen = shown(problem, y, costs)
    best = _Best.none(problem, costs)
    _try(config, network, seen, best, torch.arange(len(y), device=y.device), 1)
    doubtful = best.logits.abs().argsort(dim=1, stable=True)[:, : config.tries]  # the most doubtful first
    calls = best.logits > 0
    for items in doubtful.split(TRIES_TOGETHER, dim=1) if config.tries else ():
        unsettled = (~best.settled()).nonzero()[:, 0]
        for rows in unsettled.split(max(1, _at_a_time(network, problem) // TRIES_TOGETHER)):
            copies = items.shape[1]
            several = rows.repeat_interleave(copies)
            item = items[rows].flatten()[:, None]
            opposite = torch.where(calls[several].gather(1, item), -DOUBT, DOUBT)
            part = Seen(*(one[several] for one in seen))
            _try(config, network, part._replace(prior=part.prior.scatter(1, item, opposite)), best, rows, copies)
    return best.x, best.logits.sigmoid().to(torch.float64), best.rounds


def _at_a_time(network: MessageNetwork, problem: Problem) -> int:
    """How many instances are decoded at a time, so that memory does not grow with the batch."""
    return max(1, HIDDEN_AT_A_TIME // (problem.items * network.inside))


def _try(config: AnyDesign, network: MessageNetwork, seen: Seen, best: "_Best", rows: Tensor, copies: int) -> None:
    """Take all rounds with some instances, each in so many copies, one after the other; those that stand leave."""
    fixed, state = network.begin(seen)
    for _ in range(config.rounds):
        if not len(rows):
            return
        state = network.round(fixed, state)
        stands = best.update(rows, state.logits.unflatten(0, (len(rows), copies)))
        if bool(stands.any()):
            rows, keep = rows[~stands], (~stands).repeat_interleave(copies)
            fixed, state = fixed.at(keep), type(state)(*(part[keep] for part in state))


@dataclass(eq=False)
class _Best:
    """The most probable answers so far."""

    problem: Problem
    costs: PoolCosts
    x: Tensor  # (instances, items), uint8
    cost: Tensor  # (instances,), float64
    logits: Tensor  # (instances, items): of the round that gave the answer
    rounds: Tensor  # (instances,)
    belief: Tensor  # (instances,): the network's log probability of the answer, at most 0

    @classmethod
    def none(cls, problem: Problem, costs: PoolCosts) -> "_Best":
        n, device = len(costs.which), costs.which.device
        x = torch.zeros(n, problem.items, dtype=torch.uint8, device=device)
        cost = torch.full((n,), torch.inf, dtype=torch.float64, device=device)
        logits = torch.zeros(n, problem.items, device=device)
        rounds = torch.zeros(n, dtype=torch.int64, device=device)
        return cls(problem, costs, x, cost, logits, rounds, torch.full((n,), -torch.inf, device=device))

    def settled(self) -> Tensor:
        """Which answers stand."""
        return self.belief >= SETTLED

    def update(self, rows: Tensor, logits: Tensor) -> Tensor:
        """Judge a round's calls of some instances, logits (rows, copies, items); which instances stand now."""
        assert isinstance(self.problem.prior, Prior)
        copies, calls = logits.shape[1], (logits.flatten(0, 1) > 0).to(torch.uint8)
        counts = self.problem.design.count(calls).to(torch.int64)  # (rows * copies, pools)
        reports = self.costs.tables[self.costs.which[rows.repeat_interleave(copies)], counts].sum(1)
        each = (reports - self.problem.prior.log_prob(calls)).view(len(rows), copies)
        cost, which = each.min(1)
        x, logits = (_picked(part, which) for part in (calls.view_as(logits), logits))
        belief = torch.nn.functional.logsigmoid(logits.abs()).sum(1)
        same, first = (x == self.x[rows]).all(1), self.rounds[rows] == 0
        better = (cost < self.cost[rows]) | first | (same & (belief > self.belief[rows]))
        self.rounds[rows] += copies
        chosen = rows[better]
        self.x[chosen], self.cost[chosen], self.logits[chosen] = x[better], cost[better], logits[better]
        self.belief[chosen] = belief[better]
        return same & ~first & (belief >= SETTLED) & (cost < torch.inf)


def _picked(parts: Tensor, which: Tensor) -> Tensor:
    """One copy (rows, items) of each row of (rows, copies, items)."""
    return parts.take_along_dim(which[:, None, None], 1)[:, 0]
