"""The README's picture of y = A x + noise: 8 pools, 12 items, 3 of them defective.

python benchmarks/picture.py            # writes docs/images/pools.png
"""

from pathlib import Path

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

import qgt

FILE = Path(__file__).resolve().parents[1] / "docs/images/pools.png"
POOLS, ITEMS, DEFECTIVE = 8, 12, (3, 8, 9)
NOISY, ERROR = 6, 1  # the pool whose count is off, and by how much
INK, GREY, PALE, RED, AMBER = "#222222", "#9aa3ad", "#eef1f4", "#c0392b", "#b9770e"
Y_LEFT, A_LEFT, X_LEFT, NOISE_LEFT = 0.0, 3.1, 16.7, 20.0  # left edges, in cells
TOP_OF_ITEMS = -2.0  # x is taller than A by four cells: it begins two above


def cell(axes: Axes, left: float, top: float, text: str = "", *, fill: str = "white", ink: str = INK) -> None:
    """One square with a text."""
    axes.add_patch(Rectangle((left, top), 1, 1, facecolor=fill, edgecolor="#c9ced4", linewidth=0.8))
    axes.text(left + 0.5, top + 0.53, text, ha="center", va="center", color=ink, fontsize=12)


def heading(axes: Axes, left: float, letter: str, words: str, top: float) -> None:
    """A letter of the equation, and below it what it stands for."""
    axes.text(left, top - 1.55, letter, ha="center", va="center", fontsize=18, style="italic", color=INK)
    axes.text(left, top - 0.65, words, ha="center", va="center", fontsize=10.5, color=INK)


def draw() -> Figure:
    """The whole picture."""
    generator = torch.Generator().manual_seed(4)
    design = qgt.Design.column_regular(pools=POOLS, items=ITEMS, weight=4, generator=generator)
    x = torch.zeros(1, ITEMS, dtype=torch.uint8)
    x[0, list(DEFECTIVE)] = 1
    counts = design.count(x)[0].to(torch.int64).tolist()
    figure = Figure(figsize=(9.3, 6.15))
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set(xlim=(-1.6, 22.0), ylim=(11.4, -4.2), aspect="equal")
    axes.axis("off")
    for i in range(POOLS):
        error = ERROR if i == NOISY else 0
        axes.text(-0.25, i + 0.53, f"P{i + 1}", ha="right", va="center", fontsize=10, color=GREY)
        cell(axes, Y_LEFT, i, str(counts[i] + error), ink=AMBER if error else INK, fill=PALE)
        for j, inside in enumerate(design.matrix[i].tolist()):
            counted = bool(inside) and j in DEFECTIVE
            fill = RED if counted else "#cfd6dd" if inside else "white"
            cell(axes, A_LEFT + j, i, "1" if inside else "", fill=fill, ink="white" if counted else INK)
        cell(axes, NOISE_LEFT, i, f"+{error}" if error else "0", ink=AMBER if error else GREY)
    for j in range(ITEMS):
        hot = j in DEFECTIVE
        axes.text(A_LEFT + j + 0.5, POOLS + 0.45, f"I{j + 1}", ha="center", fontsize=9.5, color=RED if hot else GREY)
        top = TOP_OF_ITEMS + j
        cell(axes, X_LEFT, top, "1" if hot else "0", fill=RED if hot else "white", ink="white" if hot else GREY)
        axes.text(X_LEFT + 1.2, top + 0.53, f"I{j + 1}", va="center", fontsize=9.5, color=RED if hot else GREY)
    heading(axes, Y_LEFT + 0.5, "y", "counts", 0)
    heading(axes, A_LEFT + ITEMS / 2, "A", "the design: which items are in which pool", 0)
    heading(axes, X_LEFT + 0.5, "x", "statuses", TOP_OF_ITEMS)
    heading(axes, NOISE_LEFT + 0.5, "noise", "errors", 0)
    for left, sign in ((2.05, "="), (15.9, "·"), (19.15, "+")):
        axes.text(left, POOLS / 2, sign, ha="center", va="center", fontsize=20, color=INK)
    caption = (
        "A pool's count is the number of its red cells: its defective items.\n"
        f"The count of P{NOISY + 1} is off by one. The task: from y and A, find x."
    )
    axes.text(A_LEFT + ITEMS / 2 - 0.7, POOLS + 2.2, caption, ha="center", va="center", fontsize=11.5, color=INK)
    return figure


if __name__ == "__main__":
    draw().savefig(FILE, dpi=150, facecolor="white", metadata={"Software": None})
    print(f"Wrote {FILE}")
