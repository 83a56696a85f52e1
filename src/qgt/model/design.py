"""The pooling design: which items go into which pools.

A design is a 0/1 matrix A with one row per pool and one column per item; pool i reports the count (A x)_i of its
defective items, plus noise. Inside, it is the list of each pool's items: a million items in eight pools each are eight
million numbers, not 10^11 zeros and ones. `count` and `spread` multiply by A and its transpose without writing A down,
unless A is small or dense: then a matrix product is faster.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import torch
from jaxtyping import Float64, Int64, UInt8
from torch import Generator, Tensor

from qgt.arguments import fits_memory, fraction, whole
from qgt.files.documents import html_facts
from qgt.files.grids import CellRow, write_rows
from qgt.files.store import replacing
from qgt.model import combinatorial, constructions, design_forms
from qgt.model.lists import Lists, Products

SHOWN_TRANSFERS = 20_000  # beyond which a notebook shows a design without its matrix
ITEM_BYTES, TRANSFER_BYTES = 64, 40  # for an item's name, and for a transfer while it is drawn and sorted
CODED_TRANSFERS = 10  # of an item in a sparse-graph code, at least


def numbered(prefix: str, size: int) -> tuple[str, ...]:
    """The usual names: P1, P2, ... for the prefix P."""
    return tuple(f"{prefix}{number}" for number in range(1, size + 1))


def checked_names(field: str, names: Sequence[str] | None, prefix: str, size: int) -> tuple[str, ...] | None:
    """The names, or None where they are none or the usual ones, which need not be kept."""
    if not names:
        return None
    if len(names) != size or len(set(names)) != size:
        raise ValueError(f"{field} holds {len(set(names))} different names: give {size} different ones.")
    refuse_untidy(field, names)
    usual = all(name == f"{prefix}{number}" for number, name in enumerate(names, 1))
    return None if usual else tuple(names)


def refuse_untidy(field: str, names: Sequence[str]) -> None:
    """Raise a ValueError for a name that is empty, has a line break, or has blanks at its ends."""
    for name in names:
        if not name or name != name.strip() or any(ord(character) < 32 for character in name):
            raise ValueError(f"{field} holds {name!r}: give names without line breaks or blanks at their ends.")


def _check_size(pools: int, items: int, transfers: float) -> None:
    """Refuse, before anything is drawn, a design that this machine has no memory for."""
    fits_memory(f"A design of {items:,} items in {pools:,} pools", ITEM_BYTES * items + TRANSFER_BYTES * transfers)


def _range(numbers: Tensor) -> str:
    """The least and the largest of some numbers, or the one that all are."""
    least, most = int(numbers.min()), int(numbers.max())
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


@dataclass(frozen=True, eq=False, repr=False)
class Design:
    """Which items are in which pools, with names for both.

    Make one by `from_matrix`, `from_rows`, `from_lists`, `from_csv`; at random by `bernoulli`, `column_regular`,
    `doubly_regular`, `coupled` and `sparse_graph_code`; or by a rule by `rows_and_columns`, `hypercube`,
    `steiner_triples`, `kirkman_triples`, `shifted_transversal` and `reed_solomon`. Names default to P1, P2, ... and
    I1, I2, ...; they label files and never change what is decoded. A design stays on the CPU; `count` and `spread` work
    where their arguments are.

    Example:
        >>> import torch
        >>> design = Design.from_matrix([[1, 1, 0], [0, 1, 1]])
        >>> design
        Design(pools=2, items=3, transfers=4)
        >>> design.members(0)
        tensor([0, 1])
        >>> design.count(torch.tensor([[0, 1, 1]], dtype=torch.uint8))
        tensor([[1., 2.]], dtype=torch.float64)
    """

    lists: Lists  # of each pool, the items in it
    own_pool_names: tuple[str, ...] | None = None  # None: P1, P2, ...
    own_item_names: tuple[str, ...] | None = None  # None: I1, I2, ...

    def __post_init__(self) -> None:
        if not len(self.lists) or self.lists.bound < 1:
            raise ValueError(
                f"{len(self.lists)} pools of {self.lists.bound} items cannot be a design: give at least one of each."
            )
        _check_size(self.pools, self.items, float(self.transfers))
        pool_names = checked_names("pool_names", self.own_pool_names, "P", self.pools)
        item_names = checked_names("item_names", self.own_item_names, "I", self.items)
        object.__setattr__(self, "own_pool_names", pool_names)
        object.__setattr__(self, "own_item_names", item_names)

    @cached_property
    def pools(self) -> int:
        """The number of pools, M."""
        return len(self.lists)

    @cached_property
    def items(self) -> int:
        """The number of items, N."""
        return self.lists.bound

    @property
    def transfers(self) -> int:
        """The number of ones in the matrix: how often something goes from an item into a pool."""
        return len(self.lists.entries)

    @property
    def sparse(self) -> bool:
        """Whether lists are shorter and faster than a matrix."""
        return self._products.sparse

    @cached_property
    def pool_names(self) -> tuple[str, ...]:
        """The names of the pools; P1, P2, ... where none were given."""
        return self.own_pool_names or numbered("P", self.pools)

    @cached_property
    def item_names(self) -> tuple[str, ...]:
        """The names of the items; I1, I2, ... where none were given."""
        return self.own_item_names or numbered("I", self.items)

    @property
    def pool_sizes(self) -> Int64[Tensor, " pools"]:
        """How many items each pool holds."""
        return self.lists.sizes

    @property
    def item_degrees(self) -> Int64[Tensor, " items"]:
        """How many pools each item is in."""
        return self.lists.entries.bincount(minlength=self.items)

    def members(self, pool: int) -> Int64[Tensor, " members"]:
        """The numbers of the items in a pool, in order; pools and items are counted from 0."""
        pool = whole("pool", pool, most=self.pools - 1)
        return self.lists.entries[int(self.lists.starts[pool]) : int(self.lists.starts[pool + 1])]

    @cached_property
    def matrix(self) -> UInt8[Tensor, "pools items"]:
        """The whole matrix A, made when first asked for and then kept; write into a clone of it, never into itself."""
        return self.lists.matrix(torch.uint8)

    @property
    def rows(self) -> tuple[str, ...]:
        """The matrix as one string of 0s and 1s per pool."""
        return tuple(bytes(row).decode("ascii") for row in (self.matrix + ord("0")).tolist())

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256 of the sizes and the lists: the same on every machine, whatever the names.

        Example:
            >>> Design.from_rows(["110", "011"]).fingerprint[:12]
            'ceaa85c32e87'
        """
        digest = hashlib.sha256(f"qgt design {self.pools} {self.items}\n".encode())
        for numbers in (self.lists.starts, self.lists.entries):
            digest.update(numbers.contiguous().numpy().astype("<i8", copy=False).data)
        return digest.hexdigest()

    def __repr__(self) -> str:
        return f"Design(pools={self.pools}, items={self.items}, transfers={self.transfers})"

    def _repr_html_(self) -> str:
        facts: dict[str, object] = {"pools": f"{self.pools:,}", "items": f"{self.items:,}"}
        facts |= {"items in a pool": _range(self.pool_sizes), "pools of an item": _range(self.item_degrees)}
        return html_facts("Design", facts, self._picture() if self.transfers <= SHOWN_TRANSFERS else "")

    def _picture(self) -> str:
        """The matrix as an image: a square for each transfer."""
        squares = "".join(f"M{item} {pool}h1v1h-1z" for pool, items in enumerate(self.lists) for item in items)
        return (
            f'<svg viewBox="0 0 {self.items} {self.pools}" width="{min(6 * self.items, 600)}" role="img" '
            f'aria-label="{self.pools} pools of {self.items} items" style="border:1px solid #888">'
            f'<path d="{squares}" fill="#1f5582"/></svg>'
        )

    def count(
        self, x: UInt8[Tensor, "instances items"] | Float64[Tensor, "instances items"]
    ) -> Float64[Tensor, "instances pools"]:
        """Count the defective items of each pool: A x, exactly for statuses; for float64 the sums of its numbers."""
        return self._products.times(x)

    def spread(self, z: Float64[Tensor, "instances pools"]) -> Float64[Tensor, "instances items"]:
        """Give each item the sum of its pools' numbers: A' z, the transpose of `count`.

        Example:
            >>> Design.from_rows(["110", "011"]).spread(torch.tensor([[1.0, 2.0]], dtype=torch.float64))
            tensor([[1., 3., 2.]], dtype=torch.float64)
        """
        return self._products.transposed_times(z)

    @cached_property
    def _products(self) -> Products:
        return Products(self.lists)

    @classmethod
    def from_matrix(cls, matrix: object, pool_names: Sequence[str] = (), item_names: Sequence[str] = ()) -> "Design":
        """Make a design from its 0/1 matrix, one row per pool and one column per item.

        The matrix is anything that NumPy reads: a tensor or an array of any type, lists, a sparse matrix of SciPy, or a
        DataFrame, whose labels become the names where they are texts.

        Example:
            >>> Design.from_matrix([[1, 1, 0], [0, 1, 1]])
            Design(pools=2, items=3, transfers=4)
            >>> Design.from_matrix([[1, 1, 0], [0, 2, 1]])
            Traceback (most recent call last):
            ValueError: matrix holds 2 in row 2, column 2: give entries 0 and 1 only.
        """
        (pools, items), owners, entries = design_forms.ones(matrix)
        if not pools or not items:
            raise ValueError(f"matrix has shape ({pools}, {items}): give at least one pool and one item.")
        lists = Lists.of_pairs(owners, entries, lists=pools, bound=items)
        labels = design_forms.labels(matrix)
        return cls(lists, tuple(pool_names) or labels[0], tuple(item_names) or labels[1])

    @classmethod
    def from_rows(cls, rows: Sequence[str], pool_names: Sequence[str] = (), item_names: Sequence[str] = ()) -> "Design":
        """Make a design from one string of 0s and 1s per pool, the form a problem's spec stores a small one in.

        Example:
            >>> Design.from_rows(["110", "011"]).rows
            ('110', '011')
        """
        for number, row in enumerate(rows, 1):
            if not isinstance(row, str) or set(row) - {"0", "1"} or len(row) != len(rows[0]) or not row:
                raise ValueError(f"row {number} is {row!r}: give strings of 0 and 1, all of the same length.")
        if not rows:
            raise ValueError("rows is empty: give at least one pool.")
        digits = torch.frombuffer(bytearray("".join(rows), "ascii"), dtype=torch.uint8) - ord("0")
        return cls.from_matrix(digits.reshape(len(rows), -1), pool_names, item_names)

    @classmethod
    def from_lists(
        cls,
        lists: Sequence[Sequence[int]],
        *,
        items: int,
        pool_names: Sequence[str] = (),
        item_names: Sequence[str] = (),
    ) -> "Design":
        """Make a design from the items of each pool, counted from 0, in any order.

        Example:
            >>> Design.from_lists([[0, 1], [2, 1]], items=4).rows
            ('1100', '0110')
        """
        listed = Lists.of(lists, bound=whole("items", items, least=1))
        return cls(listed, tuple(pool_names), tuple(item_names))

    @classmethod
    def bernoulli(cls, *, pools: int, items: int, probability: float = 0.5, generator: Generator) -> "Design":
        """Put each item into each pool independently with the given probability.

        Example:
            >>> Design.bernoulli(pools=35, items=100, generator=torch.Generator().manual_seed(0)).pools
            35
        """
        pools, items = whole("pools", pools, least=1), whole("items", items, least=1)
        probability = fraction("probability", probability)
        _check_size(pools, items, pools * items * probability)
        return cls(constructions.bernoulli(pools, items, probability, generator))

    @classmethod
    def column_regular(cls, *, pools: int, items: int, weight: int, generator: Generator) -> "Design":
        """Put each item into exactly `weight` pools, with pool sizes as even as possible (they differ by at most 1).

        Example:
            >>> g = torch.Generator().manual_seed(0)
            >>> Design.column_regular(pools=4, items=6, weight=2, generator=g).pool_sizes
            tensor([3, 3, 3, 3])
        """
        pools, items = whole("pools", pools, least=1), whole("items", items, least=1)
        weight = whole("weight", weight, most=pools)
        _check_size(pools, items, float(items * weight))
        return cls(constructions.regular(pools, items, weight, generator))

    @classmethod
    def doubly_regular(cls, *, pools: int, items: int, weight: int, generator: Generator) -> "Design":
        """Put each item into exactly `weight` pools of exactly equal size; `items * weight` must divide by `pools`.

        A column-regular design has this property already when the division is exact: its pool sizes differ by at
        most one and sum to `items * weight`.

        Example:
            >>> g = torch.Generator().manual_seed(0)
            >>> Design.doubly_regular(pools=4, items=6, weight=2, generator=g).item_degrees
            tensor([2, 2, 2, 2, 2, 2])
        """
        constructions.check_even(whole("pools", pools, least=1), whole("items", items, least=1), weight)
        return cls.column_regular(pools=pools, items=items, weight=weight, generator=generator)

    @classmethod
    def coupled(
        cls, *, pools: int, items: int, weight: int, blocks: int, width: int = 3, generator: Generator
    ) -> "Design":
        """Put each item into `weight` pools near its place on a line: belief propagation then needs fewer pools.

        Items are in `blocks` along the line, pools in `blocks + width - 1` groups, and an item's pools are in the
        `width` groups from its block's on. See `qgt.model.constructions`.

        Example:
            >>> g = torch.Generator().manual_seed(0)
            >>> Design.coupled(pools=12, items=40, weight=3, blocks=4, generator=g).pool_sizes
            tensor([ 5,  5, 10, 10, 15, 15, 15, 15, 10, 10,  5,  5])
        """
        pools, items = whole("pools", pools, least=1), whole("items", items, least=1)
        weight = whole("weight", weight, least=1, most=pools)
        _check_size(pools, items, float(items * weight))
        return cls(constructions.coupled(pools, items, weight, blocks, width, generator))

    @classmethod
    def sparse_graph_code(
        cls, *, items: int, defectives: int, corrected: int = 2, spare: float = 0.1, generator: Generator
    ) -> "Design":
        """Make the pools of Karimi et al. (2019), from whose exact counts `Peeling` finds up to so many defectives.

        The counts of one node identify up to `corrected` (1 or 2) defectives. The share `spare` of nodes is added to
        the number that is needed in the limit of many items. See `qgt.model.constructions`.

        Example:
            >>> g = torch.Generator().manual_seed(0)
            >>> Design.sparse_graph_code(items=10_000, defectives=100, generator=g)
            Design(pools=1254, items=10000, transfers=198948)
        """
        items = whole("items", items, least=1)
        _check_size(1, items, float(CODED_TRANSFERS * items))
        return cls(constructions.sparse_graph_code(items, defectives, corrected, spare, generator))

    @classmethod
    def rows_and_columns(cls, *, rows: int, columns: int, items: int | None = None) -> "Design":
        """Put the items on a plate, row by row, and pool its rows and its columns.

        Each item is in two pools, its row's and its column's; two items share at most one. Positive or negative pools
        without errors identify one defective. Phatarfod and Sudbury 1994, The use of a square array scheme in blood
        testing, Statistics in Medicine 13.

        Args:
            rows: The number of rows: the first pools.
            columns: The number of columns: the other pools.
            items: If not rows * columns; the last row is then shorter, but not empty.

        Example:
            >>> Design.rows_and_columns(rows=8, columns=12)
            Design(pools=20, items=96, transfers=192)
            >>> Design.rows_and_columns(rows=2, columns=3, items=5).rows
            ('11100', '00011', '10010', '01001', '00100')
        """
        rows, columns = whole("rows", rows, least=1), whole("columns", columns, least=1)
        _check_size(rows + columns, rows * columns, 2.0 * rows * columns)
        return cls(Lists.of_columns(combinatorial.plate(rows, columns, items), lists=rows + columns))

    @classmethod
    def hypercube(cls, *, side: int, dimensions: int) -> "Design":
        """Put an item at each point of a grid, and pool its slices: side^dimensions items, side * dimensions pools.

        The digits of an item's number, counted from 0, to the base `side` are its coordinates, the last one changing
        fastest. Each item is in `dimensions` pools of side^(dimensions - 1) items; two items share at most
        dimensions - 1. Positive or negative pools without errors identify one defective. Mutesa et al. 2021, A pooled
        testing strategy for identifying SARS-CoV-2 at low prevalence, Nature 589.

        For a number of items that is not a power, use `shifted_transversal` or `reed_solomon`.

        Example:
            >>> Design.hypercube(side=3, dimensions=4)
            Design(pools=12, items=81, transfers=324)
        """
        side, dimensions = whole("side", side, least=2), whole("dimensions", dimensions, least=1, most=31)
        items = min(side**dimensions, 2**62)  # more than any machine has memory for
        _check_size(side * dimensions, items, float(dimensions * items))
        return cls(Lists.of_columns(combinatorial.grid(side, dimensions), lists=side * dimensions))

    @classmethod
    def steiner_triples(cls, *, pools: int, items: int | None = None) -> "Design":
        """Put each item into three pools, such that every two pools have exactly one item in common.

        A Steiner triple system: pools = 6 k + 1 or 6 k + 3, with pools * (pools - 1) / 6 items and (pools - 1) / 2
        items in each pool. Two items share at most one pool, so positive or negative pools without errors identify two
        defectives. Bose 1939 and Skolem 1958; see `qgt.model.combinatorial`.

        Args:
            pools: How many; 6 k + 1 or 6 k + 3.
            items: Keep the first so many. Two pools then have at most one item in common. Pool sizes differ by at most
                2 for up to 93 pools, and by at most 3 for up to 303.

        Example:
            >>> Design.steiner_triples(pools=45)
            Design(pools=45, items=330, transfers=990)
            >>> Design.steiner_triples(pools=13, items=20).pool_sizes
            tensor([5, 5, 6, 4, 5, 4, 4, 5, 4, 4, 5, 4, 5])
        """
        pools = whole("pools", pools, least=3)
        _check_size(pools, pools * (pools - 1) // 6, pools * (pools - 1) / 2)
        columns = combinatorial.first_items(combinatorial.steiner(pools), pools, items)
        return cls(Lists.of_columns(columns, lists=pools))

    @classmethod
    def kirkman_triples(cls, *, pools: int, items: int | None = None) -> "Design":
        """Put each item into three pools, in classes of pools / 3 items that have every pool once.

        A Kirkman triple system, or a part of one: pools = 6 k + 3. The first pools / 3 items are the first class, and
        so on, so c classes give pools of exactly c items, and any other number of items pools that differ by one. Two
        items share at most one pool, so positive or negative pools without errors identify two defectives.
        Ray-Chaudhuri and Wilson 1971; see `qgt.model.combinatorial`.

        Args:
            pools: How many; 6 k + 3.
            items: Keep the first so many. The default is all: pools * (pools - 1) / 6 for up to 99 pools and most
                numbers above, as in a Steiner system, and (pools / 3)^2 for the others, the first of which is 105.

        Example:
            >>> Design.kirkman_triples(pools=45, items=105).pool_sizes.unique()
            tensor([7])
            >>> Design.kirkman_triples(pools=93)
            Design(pools=93, items=1426, transfers=4278)
        """
        pools = whole("pools", pools, least=3)
        _check_size(pools, pools * (pools - 1) // 6, pools * (pools - 1) / 2)
        columns = combinatorial.first_items(combinatorial.kirkman(pools).flatten(0, 1), pools, items)
        return cls(Lists.of_columns(columns, lists=pools))

    @classmethod
    def shifted_transversal(cls, *, items: int, prime: int, layers: int) -> "Design":
        """Put each item into one of `prime` pools in each of `layers` layers: STD(items; prime; layers).

        The compression power is the smallest g with prime^(g + 1) >= items; two items share at most g pools. So t
        defectives are identified although E of the positive or negative pools are wrong if t g + 2 E < layers.
        Pools of a layer differ by at most one item, except in the last of prime + 1 layers. Thierry-Mieg 2006, A new
        pooling strategy for high-throughput screening: the Shifted Transversal Design, BMC Bioinformatics 7.

        Args:
            items: How many; at least `prime`.
            prime: The pools of a layer, a prime number.
            layers: From g + 1, so that no two items are in the same pools, to prime + 1.

        Example:
            >>> Design.shifted_transversal(items=96, prime=11, layers=4)  # g = 1: three defectives are identified
            Design(pools=44, items=96, transfers=384)
        """
        prime = combinatorial.checked_prime(prime)
        items = whole("items", items, least=prime)
        layers = combinatorial.checked_layers(layers, items, prime)
        _check_size(prime * layers, items, float(items * layers))
        power = combinatorial.compression_power(items, prime)
        columns = combinatorial.polynomials(combinatorial.FiniteField.of(prime), layers, power, items)
        return cls(Lists.of_columns(columns, lists=prime * layers))

    @classmethod
    def reed_solomon(cls, *, symbols: int, evaluations: int, degree: int, items: int | None = None) -> "Design":
        """Make items polynomials over the field of `symbols` elements; pools are its values at some elements.

        There are symbols^(degree + 1) polynomials up to the degree. Each is in one of `symbols` pools for each of the
        evaluations; two of them share at most `degree` pools. So t defectives are identified although E of the positive
        or negative pools are wrong if t * degree + 2 E < evaluations. Kautz and Singleton 1964, Nonrandom binary
        superimposed codes, IEEE Transactions on Information Theory 10.

        Args:
            symbols: The pools of an evaluation; a prime or a power of one, such as 7, 8 or 9.
            evaluations: From degree + 1, so that no two items are in the same pools, to `symbols`.
            degree: The highest degree.
            items: Keep the first so many, at least `symbols`. A multiple of `symbols` gives pools of exactly equal
                size, any other number pools that differ by one.

        Example:
            >>> design = Design.reed_solomon(symbols=8, evaluations=6, degree=2, items=384)  # as in P-BEST
            >>> design, design.pool_sizes.unique()
            (Design(pools=48, items=384, transfers=2304), tensor([48]))
        """
        symbols = combinatorial.checked_symbols(symbols)
        degree = whole("degree", degree, most=symbols - 1)
        evaluations = whole("evaluations", evaluations, least=degree + 1, most=symbols)
        most = min(symbols ** (degree + 1), 2**62)  # more than any machine has memory for
        items = most if items is None else whole("items", items, least=symbols, most=min(most, 2**31 - 1))
        _check_size(symbols * evaluations, items, float(items * evaluations))
        columns = combinatorial.polynomials(combinatorial.FiniteField.of(symbols), evaluations, degree, items)
        return cls(Lists.of_columns(columns, lists=symbols * evaluations))

    @classmethod
    def from_csv(cls, path: str | Path, data: bytes | None = None) -> "Design":
        """Read a design, as lists or as a matrix, whose header and first column of names are optional; see `to_csv`.

        Args:
            path: The file, CSV or XLSX, or what to call it where `data` is given.
            data: Its content, as with an upload.
        """
        return cls(*design_forms.read_design(path, data))

    def to_csv(self, path: str | Path, *, form: Literal["matrix", "lists"] | None = None) -> None:
        """Write the design with its names, whole or not at all; `from_csv` reads it back.

        Args:
            path: The file.
            form: "matrix" writes a table of 0s and 1s, "lists" one line per pool with its items. The default is
                lists for a sparse design and a matrix for any other.
        """
        with replacing(path) as temporary:
            self.write_csv(temporary, form=form)

    def write_csv(self, path: str | Path, *, form: Literal["matrix", "lists"] | None = None) -> None:
        """Write as `to_csv` does, but straight to the path: for those who replace files themselves."""
        write_rows(path, self.csv_rows(form=form))

    def csv_rows(self, *, form: Literal["matrix", "lists"] | None = None) -> Iterator[CellRow]:
        """The rows of the file that `to_csv` writes."""
        form = form or ("lists" if self.sparse else "matrix")
        return design_forms.design_rows(self.lists, self.pool_names, self.item_names, form)
