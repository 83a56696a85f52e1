"""Plain CSV: for robots that are told which column is which, and for people."""

import csv
import io

from qgt.files.tables import escape
from qgt.lab.worklists.moves import Moves, microlitres

HEADER = ("sample", "source plate", "source well", "pool", "pool plate", "pool well", "volume in uL", "design")


def files(made: Moves) -> dict[str, str]:
    """One line for each transfer, with the samples' own names."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(HEADER)
    for move in made.moves:
        names = (move.sample, move.source_plate, move.source_well, move.pool, move.pool_plate, move.pool_well)
        writer.writerow([*map(escape, names), microlitres(move.volume), made.design])
    return {"transfers.csv": stream.getvalue()}
