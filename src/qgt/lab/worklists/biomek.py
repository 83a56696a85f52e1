"""Beckman Biomek: CSV for 'Transfer From File', wells as A1."""

from qgt.lab.worklists.moves import Moves, csv_text

HEADER = ("SourcePlate", "SourceWell", "DestinationPlate", "DestinationWell", "Volume", "Design")


def files(made: Moves) -> dict[str, str]:
    """One line for each transfer."""
    rows = [(*row, made.code) for row in made.rows]
    return {"biomek.csv": csv_text(HEADER, rows)}
