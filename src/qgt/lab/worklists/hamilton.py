"""Hamilton (Venus): CSV with labware and positions, wells as A1."""

from qgt.lab.worklists.moves import Moves, csv_text

HEADER = ("SourceLabware", "SourcePosition", "TargetLabware", "TargetPosition", "Volume", "Design")


def files(made: Moves) -> dict[str, str]:
    """One line for each transfer."""
    rows = [(*row, made.code) for row in made.rows]
    return {"hamilton.csv": csv_text(HEADER, rows)}
