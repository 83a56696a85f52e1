"""Pictures as SVG text for pages: drawn with the page's own style classes, so that they follow its light and dark.

They contain no words except their titles, which screen readers read. Words around a picture are the page's own text,
whose size does not shrink with the picture.
"""

from html import escape

import torch
from jaxtyping import UInt8
from torch import Tensor

from qgt.trust.metrics import Interval

BAR = 22  # pixels


def rate_bar(mean: float, interval: Interval, *, title: str, limit: float | None = None, marked: bool = False) -> str:
    """A bar from 0 to 1 with its interval, and a line at the limit where there is one.

    Example:
        >>> rate_bar(0.5, Interval(0.4, 0.6), title="half").count("<rect")
        3
    """
    low, high, middle = 100 * interval.low, 100 * interval.high, BAR / 2
    kind = "bar marked" if marked else "bar"
    parts = [
        f'<rect class="track" width="100%" height="{BAR}"/>',
        f'<rect class="{kind}" width="{100 * mean:.2f}%" height="{BAR - 8}" y="4"/>',
        # At least a hair wide: ten thousand instances leave little to draw.
        f'<rect class="interval" x="{low:.2f}%" width="{max(0.2, high - low):.2f}%" y="{middle - 1.5}" height="3"/>',
    ]
    parts += [f'<line class="whisker" x1="{end:.2f}%" x2="{end:.2f}%" y1="5" y2="{BAR - 5}"/>' for end in (low, high)]
    if limit is not None:
        at = f"{100 * limit:.2f}%"
        parts.append(f'<line class="limit" x1="{at}" x2="{at}" y1="0" y2="{BAR}"/>')
    return f'<svg role="img" width="100%" height="{BAR}"><title>{escape(title)}</title>{"".join(parts)}</svg>'


def matrix_picture(matrix: UInt8[Tensor, "pools items"], *, title: str) -> str:
    """A 0/1 matrix, a square for each 1.

    Example:
        >>> import torch
        >>> matrix_picture(torch.tensor([[1, 1, 0]], dtype=torch.uint8), title="A").count("M0 0h2v1h-2z")
        1
    """
    pools, items = matrix.shape
    return (
        f'<svg class="matrix" role="img" viewBox="0 0 {items} {pools}"><title>{escape(title)}</title>'
        f'<rect class="track" width="{items}" height="{pools}"/><path class="one" d="{_squares(matrix)}"/></svg>'
    )


def _squares(matrix: Tensor) -> str:
    """A path over all ones, neighbours in a row drawn as one."""
    edges = torch.nn.functional.pad(matrix.to(torch.int8), (1, 1)).diff(dim=1)  # 1 where a run begins, -1 after it
    starts, ends = (edges == 1).nonzero().tolist(), (edges == -1).nonzero().tolist()
    runs = ((row, begin, end - begin) for (row, begin), (_, end) in zip(starts, ends, strict=True))
    return "".join(f"M{begin} {row}h{length}v1h-{length}z" for row, begin, length in runs)
