"""Beckman (Labcyte) Echo: CSV in nanolitres, multiples of 2.5. Its source plates are those of 384 wells."""

from qgt.lab.worklists.moves import Moves, csv_text, nanolitres

HEADER = (
    "Source Plate Name",
    "Source Plate Type",
    "Source Well",
    "Destination Plate Name",
    "Destination Plate Type",
    "Destination Well",
    "Transfer Volume",
    "Design",
)
TYPES = {96: "96-well plate", 384: "384PP_AQ_BP"}
STEP = 2.5


def files(made: Moves) -> dict[str, str]:
    """One line for each transfer."""
    rows = [
        (
            made.labels[move.source_plate],
            TYPES[made.sizes[move.source_plate]],
            move.source_well,
            made.labels[move.pool_plate],
            TYPES[made.sizes[move.pool_plate]],
            move.pool_well,
            nanolitres(move.volume, STEP),
            made.code,
        )
        for move in made.moves
    ]
    return {"echo.csv": csv_text(HEADER, rows)}
