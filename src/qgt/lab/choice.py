"""Which decoder to take where nobody says: by the size of the problem, with the reason in words."""

from typing import NamedTuple

from qgt.decoders.registry import DECODERS
from qgt.model.problem import Problem

# Items up to which the search of `Certified` takes seconds. Beyond, in this order: what takes time in proportion to the
# transfers, what is exact where its relaxation is whole, and what takes any design.
SEARCHED = 5000
LARGE = ("belief", "linear_program", "gamp")


class Choice(NamedTuple):
    """A decoder's name, and why it was taken; nothing is said of the usual one."""

    name: str
    why: str = ""


def usual_decoder(problem: Problem) -> Choice:
    """`certified`, or for very many items the first of the others that supports the problem.

    Example:
        >>> import torch, qgt
        >>> g = torch.Generator().manual_seed(0)
        >>> design = qgt.Design.column_regular(pools=2000, items=8000, weight=6, generator=g)
        >>> usual_decoder(qgt.Problem(design, qgt.Bernoulli(0.05))).name
        'belief'
    """
    if problem.items <= SEARCHED:
        return Choice("certified")
    for name in LARGE if problem.design.sparse else LARGE[1:]:
        if DECODERS[name]().supports(problem) is None:
            return Choice(
                name,
                f"Decoded by {name}, not by certified: a search among {problem.items:,} items would take long, and "
                "nothing is proved here. --decoder certified searches.",
            )
    return Choice("certified")
