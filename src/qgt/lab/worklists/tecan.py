"""Tecan Freedom EVO and Fluent: a .gwl worklist.

    A;RackLabel;RackID;RackType;Position;TubeID;Volume;LiquidClass;;TipMask;   aspirate
    D;...                                                                      dispense, the same fields
    W;                                                                         wash, or a new tip
    C;...                                                                      a remark

Positions count down the columns from 1; labels have at most 32 characters.
"""

from qgt.lab import plates
from qgt.lab.worklists.moves import Moves, microlitres


def files(made: Moves) -> dict[str, str]:
    """Three lines for each transfer."""
    lines = [f"C;{made.design}"]
    for move in made.moves:
        volume = microlitres(move.volume)
        lines.append(f"A;{_place(made, move.source_plate, move.source_well)};;{volume};;;;")
        lines.append(f"D;{_place(made, move.pool_plate, move.pool_well)};;{volume};;;;")
        lines.append("W;")
    return {"tecan.gwl": "".join(f"{line}\r\n" for line in lines)}


def _place(made: Moves, plate: str, well: str) -> str:
    size = made.sizes[plate]
    return f"{made.labels[plate]};;{size} Well Microplate;{plates.position(well, size)}"
