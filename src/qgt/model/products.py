"""Products with a design's matrix and its transpose: by sums over lists, or by a matrix where that is faster."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from qgt.model.lists import Lists, is_sparse


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
            matrix = torch.zeros(len(self.lists), self.lists.bound, dtype=dtype)
            matrix[self.lists.owners, self.lists.entries] = 1
            self._matrices[device, dtype] = matrix.to(device)
        return self._matrices[device, dtype]

    def _lists_on(self, device: torch.device, *, transposed: bool) -> Lists:
        if (device, transposed) not in self._copies:
            lists = self.lists.transposed() if transposed else self.lists
            self._copies[device, transposed] = lists.to(device)
        return self._copies[device, transposed]
