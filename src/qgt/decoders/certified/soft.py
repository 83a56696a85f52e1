"""Tables of costs without infinities, for searches that must find their way back from what is impossible."""

import torch
from torch import Tensor

FAR = 10.0  # what each step beyond the possible counts costs, where an answer must cost something


def softened(tables: Tensor) -> Tensor:
    """Tables (rows, counts) from count -1 on, finite: impossible counts cost more the farther off they are; float32.

    Example:
        >>> import torch
        >>> softened(torch.tensor([[torch.inf, 3.0]], dtype=torch.float64))
        tensor([[23., 13.,  3., 13.]])
    """
    table = torch.nn.functional.pad(tables, (1, 1), value=torch.inf)
    possible = table.isfinite()
    at = torch.arange(table.shape[1], device=table.device)
    far = (at[:, None] - at).abs() + torch.where(possible[:, None], 0, table.shape[1])  # (rows, counts, counts)
    worst = torch.where(possible, table, 0.0).amax(1, keepdim=True)
    return torch.where(possible, table, worst + FAR * far.amin(2)).float()
