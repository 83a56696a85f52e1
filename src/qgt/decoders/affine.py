"""A design as a matrix of numbers: slope * A + offset, multiplied with in time in proportion to the transfers.

Message passing works on the design less its mean, which has no zeros. But the mean is one number for all entries, so
that it adds the same to every pool: slope * (A x) + offset * sum(x). A dense design is written down as it is, for one
matrix product is faster than sums over long lists.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from qgt.model.design import Design


@dataclass(frozen=True, eq=False)
class Affine:
    """The matrix slope * A + offset of a design A.

    Example:
        >>> import torch, qgt
        >>> matrix = Affine(qgt.Design.from_rows(["110", "011"]), 2.0, -1.0)
        >>> matrix.times(torch.tensor([[1.0, 0.0, 3.0]], dtype=torch.float64))
        tensor([[-2.,  2.]], dtype=torch.float64)
    """

    design: Design
    slope: float
    offset: float

    def times(self, x: Tensor) -> Tensor:
        """The matrix times every row of x: (rows, items) to (rows, pools)."""
        if self.design.sparse:
            return self.slope * self.design.count(x) + self.offset * x.sum(1, keepdim=True)
        return x @ self._dense_on(x.device).T

    def transposed_times(self, z: Tensor) -> Tensor:
        """Its transpose times every row of z: (rows, pools) to (rows, items)."""
        if self.design.sparse:
            return self.slope * self.design.spread(z) + self.offset * z.sum(1, keepdim=True)
        return z @ self._dense_on(z.device)

    def add_transposed_times(self, x: Tensor, z: Tensor) -> Tensor:
        """The same added to x, in place."""
        return x.add_(self.transposed_times(z)) if self.design.sparse else x.addmm_(z, self._dense_on(z.device))

    @cached_property
    def _copies(self) -> dict[torch.device, Tensor]:
        """The matrix on the devices that it was used on."""
        return {}

    def _dense_on(self, device: torch.device) -> Tensor:
        if device not in self._copies:
            matrix = self.design.matrix.to(torch.float64) * self.slope + self.offset
            self._copies[device] = matrix.to(device)
        return self._copies[device]
