"""Lists of whole numbers, one after the other: how a design keeps which items are in which pools.

Memory is in proportion to the entries, not to pools times items. The sums over each list are the sparse product A z:
pool i's sum of z is `z[entries[starts[i] : starts[i + 1]]].sum()`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import torch
import torch.nn.functional as F
from jaxtyping import Int64
from torch import Tensor

# Instances summed at a time. On a CPU their values then fit its caches (1,000 instances of 20,000 items: 23 ms, and 82
# all at once); on a GPU large launches are the cheap ones, as far as memory goes.
CPU_BLOCK = 64
GPU_NUMBERS = 2**26
# From these on sums over lists are at least as fast as a matrix product, and lists are shorter than rows of zeros.
SMALL = 2**16  # entries of the matrix
RATIO = 16  # entries for each 1


def is_sparse(entries: int, ones: int | float) -> bool:
    """Whether a 0/1 matrix of so many entries, so many of them ones, is better kept and written as lists."""
    return entries > max(SMALL, RATIO * ones)


@dataclass(frozen=True, eq=False)
class Lists:
    """Sorted lists of different whole numbers below `bound`; list i is `entries[starts[i] : starts[i + 1]]`.

    Example:
        >>> lists = Lists.of([[0, 1], [], [1, 2]], bound=3)
        >>> lists.starts, lists.entries
        (tensor([0, 2, 2, 4]), tensor([0, 1, 1, 2]))
        >>> lists.transposed().entries  # which lists hold 0, 1 and 2
        tensor([0, 0, 2, 2])
    """

    bound: int
    starts: Int64[Tensor, " ends"]
    entries: Int64[Tensor, " entries"]

    def __post_init__(self) -> None:
        for name, tensor in (("starts", self.starts), ("entries", self.entries)):
            if tensor.dim() != 1 or tensor.dtype != torch.int64:
                raise ValueError(
                    f"{name} is {tensor.dtype} {tuple(tensor.shape)}: give an int64 tensor of one dimension."
                )
        starts, entries = self.starts, self.entries
        rising = len(starts) and bool((starts.diff() >= 0).all())
        if not rising or int(starts[0]) != 0 or int(starts[-1]) != len(entries):
            raise ValueError(f"starts is not valid: give numbers that rise from 0 to {len(entries)}, the entries.")
        if wrong := ((entries < 0) | (entries >= self.bound)).nonzero()[:1].flatten().tolist():
            place = self._place(wrong[0])
            raise ValueError(f"{place} holds {int(entries[wrong[0]])}: give numbers from 0 to {self.bound - 1}.")
        first = torch.zeros(len(entries) + 1, dtype=torch.bool, device=entries.device)
        first[starts] = True  # there a list begins, and nothing comes before
        if wrong := ((entries.diff() <= 0) & ~first[1:-1]).nonzero()[:1].flatten().tolist():
            place = self._place(wrong[0] + 1)
            raise ValueError(f"{place} holds {int(entries[wrong[0] + 1])} twice or out of order: sort each list.")

    def _place(self, entry: int) -> str:
        return f"lists[{int(torch.searchsorted(self.starts, entry, right=True)) - 1}]"

    @classmethod
    def of(cls, lists: Sequence[Sequence[int]], *, bound: int) -> "Lists":
        """Take lists in any order of entries; refuse an entry that is not a whole number, too large or repeated."""
        flat: list[int] = []
        for number, one in enumerate(lists):
            for entry in one:
                if type(entry) is not int or not 0 <= entry < bound:
                    raise ValueError(f"lists[{number}] holds {entry!r}: give whole numbers from 0 to {bound - 1}.")
            flat.extend(sorted(one))
        sizes = torch.tensor([len(one) for one in lists], dtype=torch.int64)
        return cls(bound, starts_of(sizes), torch.tensor(flat, dtype=torch.int64))

    @classmethod
    def of_pairs(cls, owners: Tensor, entries: Tensor, *, lists: int, bound: int) -> "Lists":
        """Take pairs (list, entry) that are sorted already, on any device."""
        starts = starts_of(owners.bincount(minlength=lists))
        return cls(bound, starts.cpu(), entries.cpu().contiguous())  # no longer a view of what it was taken from

    @classmethod
    def of_columns(cls, columns: Tensor, *, lists: int) -> "Lists":
        """Take, for each number below the bound, the lists that it is in: (bound, lists of each number).

        Example:
            >>> list(Lists.of_columns(torch.tensor([[0, 2], [1, 2]]), lists=3))
            [[0], [1], [0, 1]]
        """
        owners, order = columns.flatten().sort(stable=True)  # stable: the numbers of each list stay sorted
        return cls.of_pairs(owners, order // max(columns.shape[1], 1), lists=lists, bound=len(columns))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __iter__(self) -> Iterator[list[int]]:
        """The lists one by one, without ever holding all of them as Python numbers."""
        for start, end in pairwise(self.starts.tolist()):
            yield self.entries[start:end].tolist()

    @property
    def sizes(self) -> Int64[Tensor, " lists"]:
        """How many entries each list has."""
        return self.starts.diff()

    @property
    def owners(self) -> Int64[Tensor, " entries"]:
        """The number of the list that each entry is in."""
        return torch.repeat_interleave(torch.arange(len(self)), self.sizes)

    def matrix(self, dtype: torch.dtype) -> Tensor:
        """The 0/1 matrix with a row for each list and a column for each number below the bound."""
        matrix = torch.zeros(len(self), self.bound, dtype=dtype)
        matrix[self.owners, self.entries] = 1
        return matrix

    def transposed(self) -> "Lists":
        """For each number below the bound, the lists that it is in."""
        order = self.entries.argsort(stable=True)  # stable: the lists of each number stay sorted
        return Lists.of_pairs(self.entries[order], self.owners[order], lists=self.bound, bound=len(self))

    def to(self, device: torch.device) -> "Lists":
        """The same lists on another device."""
        return Lists(self.bound, self.starts.to(device), self.entries.to(device))

    def sums(self, values: Tensor, dtype: torch.dtype) -> Tensor:
        """For each instance and list, the sum of the values that the list names; computed in `dtype`, given in float64.

        Args:
            values: (instances, bound), on the lists' device.
            dtype: float32 is faster, and exact for whole numbers whose sums stay below 2^24.
        """
        result = torch.empty(len(values), len(self), dtype=torch.float64, device=values.device)
        block = CPU_BLOCK if values.device.type == "cpu" else max(CPU_BLOCK, GPU_NUMBERS // self.bound)
        for start in range(0, len(values), block):
            part = values[start : start + block].T  # (bound, instances)
            # A fresh tensor has the strides of the fast path; `contiguous` would keep those of a single instance.
            table = torch.empty(part.shape, dtype=dtype, device=part.device).copy_(part)
            summed = F.embedding_bag(self.entries, table, self.starts, mode="sum", include_last_offset=True)
            result[start : start + block] = summed.T
        return result  # (instances, lists)


def starts_of(sizes: Tensor) -> Tensor:
    """Where each of consecutive lists begins, and where the last one ends."""
    return F.pad(sizes.cumsum(0), (1, 0))


# Products with a design's matrix and its transpose: by sums over lists, or by a matrix where that is faster.


@dataclass(frozen=True, eq=False)
class Products:
    """A 0/1 matrix, given by the columns of the ones in each row, that can be multiplied with on any device.

    Example:
        >>> import torch
        >>> products = Products(Lists.of([[0, 1], [1, 2]], bound=3))
        >>> products.times(torch.tensor([[0, 1, 1]], dtype=torch.uint8))
        tensor([[1., 2.]], dtype=torch.float64)
    """

    lists: Lists

    @cached_property
    def sparse(self) -> bool:
        """Whether lists are shorter and faster than a matrix."""
        return is_sparse(len(self.lists) * self.lists.bound, len(self.lists.entries))

    def times(self, x: Tensor) -> Tensor:
        """A x for every row of x (instances, items): exact for statuses, in float64 for float64."""
        # uint8 products wrap at 256 and integer ones are slow; float32 holds every count exactly up to 2^24 items.
        dtype = torch.float32 if x.dtype == torch.uint8 and self.lists.bound < 2**24 else torch.float64
        if self.sparse:
            return self._lists_on(x.device, transposed=False).sums(x, dtype)
        return (x.to(dtype) @ self._matrix_on(x.device, dtype).T).to(torch.float64)

    def transposed_times(self, z: Tensor) -> Tensor:
        """A' z for every row of z (instances, pools)."""
        if self.sparse:
            return self._lists_on(z.device, transposed=True).sums(z, torch.float64)
        return z @ self._matrix_on(z.device, torch.float64)

    @cached_property
    def _matrices(self) -> dict[tuple[torch.device, torch.dtype], Tensor]:
        """The matrix as a dense design has needed it so far."""
        return {}

    @cached_property
    def _copies(self) -> dict[tuple[torch.device, bool], Lists]:
        """The lists, and their transposes, on the devices that a sparse design was used on."""
        return {}

    def _matrix_on(self, device: torch.device, dtype: torch.dtype) -> Tensor:
        if (device, dtype) not in self._matrices:
            self._matrices[device, dtype] = self.lists.matrix(dtype).to(device)
        return self._matrices[device, dtype]

    def _lists_on(self, device: torch.device, *, transposed: bool) -> Lists:
        if (device, transposed) not in self._copies:
            lists = self.lists.transposed() if transposed else self.lists
            self._copies[device, transposed] = lists.to(device)
        return self._copies[device, transposed]
