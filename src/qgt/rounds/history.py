"""The rounds of one instance: pools that were tested together, then pools chosen by what those told.

After the first round every instance has pools of its own. A later round is what a pool always is, more factors: so an
instance's history is a problem with all its pools, in the order of the rounds, and the counts of all of them. A pool
measured twice is two pools; a count that is missing is NaN, and no factor. Instances whose pools agree are decoded as
one batch, the others one after the other: one design of all instances' pools, with NaN for those that an instance does
not have, would make every relaxation as long as the pools of all.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float64, UInt8
from torch import Generator, Tensor

from qgt.decoders.contract import Decoder
from qgt.decoders.results import Decoded
from qgt.model.categories import Categories, Copies
from qgt.model.design import Design
from qgt.model.lists import Lists
from qgt.model.noise import Noise, PerCategory, PerPool, by_pool
from qgt.model.prior import Sampler
from qgt.model.problem import Problem
from qgt.rounds.choosing import later_noise


class Setting(NamedTuple):
    """What all instances share before any pool is made."""

    items: int
    prior: Sampler
    noise: Noise


@dataclass(frozen=True, eq=False)
class History:
    """All pools of one instance so far, and their counts.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.1))
        >>> history = History.start(problem, torch.tensor([1.0, 1.0], dtype=torch.float64))
        >>> history = history.after(torch.tensor([[0, 1, 0]], dtype=torch.uint8), torch.tensor([1.0]).double())
        >>> history.rounds, history.problem.design.rows, history.y
        ((2, 1), ('110', '011', '010'), tensor([1., 1., 1.], dtype=torch.float64))
    """

    problem: Problem  # with the pools of all rounds
    y: Float64[Tensor, " pools"] | Float64[Tensor, "pools categories"]
    rounds: tuple[int, ...]  # the pools of each round

    @classmethod
    def start(cls, problem: Problem, y: Float64[Tensor, " pools"] | Float64[Tensor, "pools categories"]) -> "History":
        """The first round."""
        return cls(problem, y, (problem.pools,))

    @property
    def setting(self) -> Setting:
        """What all instances share."""
        return Setting(self.problem.items, self.problem.prior, later_noise(self.problem.noise))

    def after(
        self,
        matrix: UInt8[Tensor, "new items"],
        y: Float64[Tensor, " counts"] | Float64[Tensor, "counts categories"],
        pool_names: Sequence[str] = (),
    ) -> "History":
        """The history with one more round."""
        if len(matrix) != len(y):
            raise ValueError(f"y holds {len(y)} counts for {len(matrix)} pools: give one for each.")
        problem = with_pools(self.problem, matrix, pool_names)
        return History(problem, torch.cat([self.y, y.to(torch.float64)]), (*self.rounds, len(matrix)))

    def measured(self) -> Iterator[tuple[Tensor, Tensor]]:
        """The pools and the counts of each round."""
        matrix, y = self.problem.design.matrix, self.y
        yield from zip(torch.split(matrix, list(self.rounds)), torch.split(y, list(self.rounds)), strict=True)


def with_pools(problem: Problem, matrix: UInt8[Tensor, "new items"], pool_names: Sequence[str] = ()) -> Problem:
    """The problem with more pools, after those it has.

    Args:
        problem: Whatever has one noise for all pools.
        matrix: The new pools.
        pool_names: Their names; they need them where the problem's pools have names of their own.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110"], pool_names=["A"]), qgt.Bernoulli(0.1))
        >>> with_pools(problem, torch.tensor([[0, 1, 1]], dtype=torch.uint8), ["B"]).design.pool_names
        ('A', 'B')
    """
    design = problem.design
    if matrix.dim() != 2 or matrix.shape[1] != design.items:
        raise ValueError(f"matrix of shape {tuple(matrix.shape)} is not valid: give (pools, {design.items}).")
    owners, entries = matrix.nonzero().T
    pools = design.pools + len(matrix)
    lists = Lists.of_pairs(
        torch.cat([design.lists.owners, owners + design.pools]),
        torch.cat([design.lists.entries, entries]),
        lists=pools,
        bound=design.items,
    )
    names: tuple[str, ...] | None = None
    if pool_names or design.own_pool_names:
        names = (*design.pool_names, *(pool_names or (f"P{number}" for number in range(design.pools + 1, pools + 1))))
    return Problem(Design(lists, names, design.own_item_names), problem.prior, _for_pools(problem.noise, pools))


def _for_pools(noise: Noise, pools: int) -> Noise:
    """A noise of all pools so far, for so many pools."""
    if isinstance(noise, PerCategory):
        return PerCategory([_for_pools(one, pools) for one in noise.noises])
    return later_noise(noise) if by_pool(noise) is None else PerPool([later_noise(noise)] * pools)


def measure(
    setting: Setting,
    x: UInt8[Tensor, " items"] | Float64[Tensor, " items"],
    matrix: UInt8[Tensor, "new items"],
    *,
    generator: Generator,
) -> Tensor:
    """What pools report of a truth: (new,), or (new, categories)."""
    if isinstance(setting.prior, Categories | Copies):
        problem = Problem(Design.from_matrix(matrix), setting.prior, setting.noise)
        return problem.reports(problem.totals(x[None]), generator=generator)[0]
    counts = (matrix.double() @ x.double())[None]
    return setting.noise.sample(counts, matrix.sum(1).double(), generator=generator)[0]


def decode_histories(histories: Sequence[History], decoder: Decoder) -> Decoded:
    """Decode instances, each with its own pools: those whose problems are the same together.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.1))
        >>> first = [History.start(problem, torch.tensor([1.0, 1.0], dtype=torch.float64)) for _ in range(2)]
        >>> later = first[1].after(torch.tensor([[1, 0, 0]], dtype=torch.uint8), torch.tensor([1.0]).double())
        >>> decode_histories([first[0], later], qgt.Certified(certificates=False)).x
        tensor([[0, 1, 0],
                [1, 0, 1]], dtype=torch.uint8)
    """
    together = by_problem(histories)
    parts = [
        decoder.bind(histories[places[0]].problem)(torch.stack([histories[place].y for place in places]))
        for places in together
    ]
    order = torch.tensor([place for places in together for place in places])
    joined = Decoded.joined(parts)
    return joined if len(together) == 1 else joined.pick(order.argsort())


def by_problem(histories: Sequence[History]) -> list[list[int]]:
    """The places of the histories that have the same problem, problem by problem.

    Instances without later pools share the problem of the first round.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.1))
        >>> first = [History.start(problem, torch.ones(2, dtype=torch.float64)) for _ in range(3)]
        >>> later = first[1].after(torch.tensor([[1, 0, 0]], dtype=torch.uint8), torch.tensor([1.0]).double())
        >>> by_problem([first[0], later, first[2]])
        [[0, 2], [1]]
    """
    together: dict[int, list[int]] = {}
    for place, history in enumerate(histories):
        together.setdefault(id(history.problem), []).append(place)
    return list(together.values())
