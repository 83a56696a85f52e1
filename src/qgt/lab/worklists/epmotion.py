"""Eppendorf epMotion: CSV with rack numbers and wells, at most 500 transfers in a file.

Source racks and pool racks are numbered apart, each from 1. Lines that begin with # are remarks; the values follow
their header without gaps, so the remarks come last.
"""

from qgt.lab.worklists.moves import Move, Moves, microlitres

MOST = 500  # transfers in a file
TOOLS = ((10.0, "TS_10"), (50.0, "TS_50"), (300.0, "TS_300"), (1000.0, "TS_1000"))  # up to so many microlitres


def files(made: Moves) -> dict[str, str]:
    """As many files as the transfers need, numbered from 1."""
    parts = [made.moves[start : start + MOST] for start in range(0, len(made.moves), MOST)]
    return {f"epmotion-{number}.csv": _text(made, part, number, len(parts)) for number, part in enumerate(parts, 1)}


def _text(made: Moves, part: tuple[Move, ...], number: int, of: int) -> str:
    head = [f"# {made.design}; file {number} of {of}".replace(",", ";")]
    for kind, racks in (("source", made.sources), ("pool", made.targets)):
        head += [f"# {kind} rack {rack}: {made.labels[plate]}" for rack, plate in enumerate(racks, 1)]
    lines = ["Rack,Src.Well,Rack,Dest.Well,Volume,Tool"]
    for move in part:
        source, target = made.sources.index(move.source_plate) + 1, made.targets.index(move.pool_plate) + 1
        volume = microlitres(move.volume)
        lines.append(f"{source},{move.source_well},{target},{move.pool_well},{volume},{_tool(move.volume)}")
    return "".join(f"{line}\r\n" for line in [lines[0], *lines[1:], *head])


def _tool(volume: float) -> str:
    for most, name in TOOLS:
        if volume <= most:
            return name
    raise ValueError(
        f"volume={volume:g} is not valid here: an epMotion tool takes at most {TOOLS[-1][0]:g} microlitres."
    )
