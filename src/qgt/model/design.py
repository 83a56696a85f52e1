"""The pooling design: which items go into which pools.

A design is a 0/1 matrix A with one row per pool and one column per item; pool i reports the count (A x)_i of its
defective items, plus noise.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float64, Int64, UInt8
from torch import Generator, Tensor

from qgt.arguments import fraction, whole
from qgt.files import tables


@dataclass(frozen=True, eq=False, repr=False)
class Design:
    """A pooling matrix with names for its pools and items.

    Names default to P1, P2, ... and I1, I2, ...; they label files and never change what is decoded.

    Example:
        >>> import torch
        >>> design = Design(torch.tensor([[1, 1, 0], [0, 1, 1]], dtype=torch.uint8))
        >>> design
        Design(pools=2, items=3, transfers=4)
        >>> design.count(torch.tensor([[0, 1, 1]], dtype=torch.uint8))
        tensor([[1., 2.]], dtype=torch.float64)
    """

    matrix: UInt8[Tensor, "pools items"]
    pool_names: tuple[str, ...] = ()
    item_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.matrix.dim() != 2 or self.matrix.dtype != torch.uint8 or not self.matrix.numel():
            raise ValueError(
                f"matrix of shape {tuple(self.matrix.shape)} and {self.matrix.dtype} is not valid: "
                "give a uint8 tensor (pools, items) with at least one of each."
            )
        if int(self.matrix.max()) > 1:
            raise ValueError(f"matrix holds {int(self.matrix.max())}: give entries 0 and 1 only.")
        for field, prefix, size in (("pool_names", "P", self.pools), ("item_names", "I", self.items)):
            names = getattr(self, field) or tuple(f"{prefix}{i}" for i in range(1, size + 1))
            if len(names) != size or len(set(names)) != size:
                raise ValueError(f"{field} holds {len(set(names))} different names: give {size} different ones.")
            for name in names:
                if not name or name != name.strip() or any(ord(character) < 32 for character in name):
                    raise ValueError(f"{field} holds {name!r}: give names without line breaks or blanks at their ends.")
            object.__setattr__(self, field, tuple(names))

    @property
    def pools(self) -> int:
        """The number of pools, M."""
        return self.matrix.shape[0]

    @property
    def items(self) -> int:
        """The number of items, N."""
        return self.matrix.shape[1]

    @property
    def pool_sizes(self) -> Int64[Tensor, " pools"]:
        """How many items each pool holds."""
        return self.matrix.sum(1, dtype=torch.int64)

    @property
    def item_degrees(self) -> Int64[Tensor, " items"]:
        """How many pools each item is in."""
        return self.matrix.sum(0, dtype=torch.int64)

    def __repr__(self) -> str:
        return f"Design(pools={self.pools}, items={self.items}, transfers={int(self.pool_sizes.sum())})"

    def count(self, x: UInt8[Tensor, "instances items"]) -> Float64[Tensor, "instances pools"]:
        """Count the defective items of each pool: A x, the only place where statuses become counts."""
        # uint8 products wrap at 256 and integer ones are slow; float32 holds every count exactly up to 2^24 items.
        dtype = torch.float32 if self.items < 2**24 else torch.float64
        return (x.to(dtype) @ self.matrix.to(x.device, dtype).T).to(torch.float64)

    @classmethod
    def bernoulli(cls, *, pools: int, items: int, probability: float = 0.5, generator: Generator) -> "Design":
        """Put each item into each pool independently with the given probability.

        Example:
            >>> Design.bernoulli(pools=35, items=100, generator=torch.Generator().manual_seed(0)).pools
            35
        """
        shape = whole("pools", pools, least=1), whole("items", items, least=1)
        probability = fraction("probability", probability)
        draws = torch.rand(shape, dtype=torch.float64, generator=generator, device=generator.device)
        return cls((draws < probability).to(torch.uint8))

    @classmethod
    def column_regular(cls, *, pools: int, items: int, weight: int, generator: Generator) -> "Design":
        """Put each item into exactly `weight` pools, with pool sizes as even as possible (they differ by at most 1).

        Items choose their pools at random; then random members move from the largest pool to the smallest until the
        sizes are even. (Filling the smallest pools first would be even too, but makes complementary columns, whose
        sums cannot be told apart.)
        """
        pools, items = whole("pools", pools, least=1), whole("items", items, least=1)
        weight = whole("weight", weight, least=0, most=pools)
        device = generator.device
        keys = torch.rand(items, pools, dtype=torch.float64, generator=generator, device=device)
        chosen = keys.topk(weight, dim=1).indices  # (items, weight)
        matrix = torch.zeros(items, pools, dtype=torch.uint8, device=device).scatter_(1, chosen, 1).T.contiguous()
        sizes = matrix.sum(1, dtype=torch.int64)
        while sizes.max() - sizes.min() > 1:
            large, small = sizes.argmax(), sizes.argmin()
            movable = (matrix[large] > matrix[small]).nonzero().flatten()
            item = movable[torch.randint(len(movable), (), generator=generator, device=device)]
            matrix[large, item], matrix[small, item] = 0, 1
            sizes[large] -= 1
            sizes[small] += 1
        return cls(matrix)

    @classmethod
    def doubly_regular(cls, *, pools: int, items: int, weight: int, generator: Generator) -> "Design":
        """Put each item into exactly `weight` pools of exactly equal size; `items * weight` must divide by `pools`.

        A column-regular design has this property already when the division is exact: its pool sizes differ by at
        most one and sum to `items * weight`.
        """
        pools, items = whole("pools", pools, least=1), whole("items", items, least=1)
        if (items * whole("weight", weight, least=0, most=pools)) % pools:
            raise ValueError(
                f"items={items}, weight={weight}, pools={pools} is not valid: equal pools need items * weight "
                f"({items * weight}) divisible by pools; use column_regular for sizes that differ by one."
            )
        return cls.column_regular(pools=pools, items=items, weight=weight, generator=generator)

    @classmethod
    def from_rows(cls, rows: Sequence[str], pool_names: Sequence[str] = (), item_names: Sequence[str] = ()) -> "Design":
        """Make a design from one string of 0s and 1s per pool, the form a problem's spec stores it in.

        Example:
            >>> Design.from_rows(["110", "011"]).rows
            ('110', '011')
        """
        for number, row in enumerate(rows, 1):
            if not isinstance(row, str) or set(row) - {"0", "1"} or len(row) != len(rows[0]) or not row:
                raise ValueError(f"row {number} is {row!r}: give strings of 0 and 1, all of the same length.")
        if not rows:
            raise ValueError("rows is empty: give at least one pool.")
        matrix = torch.tensor([[int(entry) for entry in row] for row in rows], dtype=torch.uint8)
        return cls(matrix, tuple(pool_names), tuple(item_names))

    @property
    def rows(self) -> tuple[str, ...]:
        """The matrix as one string of 0s and 1s per pool."""
        return tuple("".join(map(str, row)) for row in self.matrix.tolist())

    @classmethod
    def from_csv(cls, path: str | Path) -> "Design":
        """Read a design: a header of item names and a first column of pool names, both optional."""
        sheet = tables.read(path)
        for i, row in enumerate(sheet.values):
            for j, value in enumerate(row):
                if value not in (0.0, 1.0):
                    raise ValueError(
                        f"{path}: {sheet.place(i, j)} holds {value:g}; a design has 1 where the item is in the pool "
                        "and 0 where it is not (numeric names need 'pool' in the top left cell)."
                    )
        matrix = torch.tensor(sheet.values, dtype=torch.float64).to(torch.uint8)
        return cls(matrix, sheet.row_names or (), sheet.column_names or ())

    def to_csv(self, path: str | Path) -> None:
        """Write the design with its names; `from_csv` reads it back."""
        tables.write(path, self.matrix.tolist(), row_names=self.pool_names, column_names=self.item_names, corner="pool")
