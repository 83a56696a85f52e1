"""SPT mosquito: a line `Worklist`, then position, column, row of source and destination, and nanolitres.

Deck positions count from 1: first the plates of samples, then the plates of pools. The format has no room for remarks:
the name of the file carries the check code.
"""

from qgt.lab import plates
from qgt.lab.worklists.moves import Moves, nanolitres

STEP = 0.1


def files(made: Moves) -> dict[str, str]:
    """One line for each transfer."""
    deck = {plate: number for number, plate in enumerate([*made.sources, *made.targets], 1)}
    lines = ["Worklist"]
    for move in made.moves:
        ends = ((move.source_plate, move.source_well), (move.pool_plate, move.pool_well))
        places = [f"{deck[plate]},{plates.place(well)[1] + 1},{plates.place(well)[0] + 1}" for plate, well in ends]
        lines.append(",".join([*places, nanolitres(move.volume, STEP)]))
    return {"mosquito.csv": "".join(f"{line}\r\n" for line in lines)}
