"""Readers of worklists that share no code with the writers: each rebuilds which source well went into which pool well.

They are written from the formats' descriptions. A reader returns (source plate label, source well, pool plate label,
pool well, microlitres) for every transfer, and refuses what the robot would refuse.
"""

import ast
import csv
import io
import re

ROWS = "ABCDEFGHIJKLMNOP"
Transfer = tuple[str, str, str, str, float]


def well_of(position: int, rows: int) -> str:
    """The well with that number, counted down the columns from 1."""
    return f"{ROWS[(position - 1) % rows]}{(position - 1) // rows + 1}"


def _table(text: str, columns: int) -> list[list[str]]:
    rows = list(csv.reader(io.StringIO(text)))
    assert all(len(row) == columns for row in rows), "a line has another number of cells"
    return rows


def generic(files: dict[str, str]) -> list[Transfer]:
    (text,) = files.values()
    header, *rows = _table(text, 8)
    assert header[1:6] == ["source plate", "source well", "pool", "pool plate", "pool well"]
    cells = [[re.sub(r"^'('*[=+\-@\t\r])", r"\1", cell) for cell in row] for row in rows]  # as spreadsheets show them
    return [(row[1], row[2], row[4], row[5], float(row[6])) for row in cells]


def tecan(files: dict[str, str]) -> list[Transfer]:
    ((name, text),) = files.items()
    assert name.endswith(".gwl")
    lines = [line for line in text.split("\r\n") if line and not line.startswith("C;")]
    assert len(lines) % 3 == 0
    found = []
    for take, give, wash in zip(lines[::3], lines[1::3], lines[2::3], strict=True):
        assert wash == "W;"
        ends = []
        for line, kind in ((take, "A"), (give, "D")):
            cells = line.split(";")
            assert len(cells) == 11
            assert cells[0] == kind
            label, rack, position = cells[1], cells[3], int(cells[4])
            assert 0 < len(label) <= 32
            size = int(rack.split()[0])
            assert 1 <= position <= size
            ends.append((label, well_of(position, {96: 8, 384: 16}[size]), float(cells[6])))
        assert ends[0][2] == ends[1][2]
        found.append((*ends[0][:2], *ends[1][:2], ends[0][2]))
    return found


class _Labware:
    def __init__(self, label):
        self.label = label

    def __getitem__(self, well):
        return (self.label, well)


class _Pipette:
    def __init__(self, found):
        self.found, self.tips = found, 0

    def reset_tipracks(self):
        self.tips = 0

    def transfer(self, volume, source, target, new_tip):
        assert new_tip == "always"
        self.tips += 1
        assert self.tips <= 4 * 96, "out of tips"
        self.found.append((*source, *target, volume))


class _Protocol:
    """As much of the robot as the protocol uses; it records what is pipetted."""

    def __init__(self, text):
        self.rows, self.found, self.slots = list(csv.reader(io.StringIO(text))), [], set()
        self.params = self.transfers = self

    def parse_as_csv(self):
        return self.rows

    def load_labware(self, kind, slot, label=None):
        assert slot not in self.slots, "two plates in one slot"
        self.slots.add(slot)
        return _Labware(label)

    def load_instrument(self, name, mount, tip_racks):
        return _Pipette(self.found)

    def pause(self, words):
        assert words


def opentrons(files: dict[str, str]) -> list[Transfer]:
    table = next(text for name, text in files.items() if name.endswith(".csv"))
    protocol = next(text for name, text in files.items() if name.endswith(".py"))
    ast.parse(protocol)
    scope: dict = {}
    exec(compile(protocol, "protocol.py", "exec"), scope)  # run as the robot would
    robot = _Protocol(table)
    scope["run"](robot)
    return robot.found


def hamilton(files: dict[str, str]) -> list[Transfer]:
    (text,) = files.values()
    header, *rows = _table(text, 6)
    assert header[:5] == ["SourceLabware", "SourcePosition", "TargetLabware", "TargetPosition", "Volume"]
    return [(*row[:4], float(row[4])) for row in rows]


def biomek(files: dict[str, str]) -> list[Transfer]:
    (text,) = files.values()
    header, *rows = _table(text, 6)
    assert header[:5] == ["SourcePlate", "SourceWell", "DestinationPlate", "DestinationWell", "Volume"]
    return [(*row[:4], float(row[4])) for row in rows]


def epmotion(files: dict[str, str]) -> list[Transfer]:
    found = []
    for text in files.values():
        lines = text.split("\r\n")[:-1]
        values = [line for line in lines[1:] if not line.startswith("#")]
        assert lines[1 : 1 + len(values)] == values, "values begin in line 2 and have no gaps"
        assert len(values) <= 500
        remarks = [line for line in lines if line.startswith("# ") and " rack " in line]
        racks = {tuple(line[2:].split(": ")[0].split(" rack ")): line.split(": ", 1)[1] for line in remarks}
        for line in values:
            source, source_well, target, target_well, volume, tool = line.split(",")
            assert float(volume) <= float(tool.removeprefix("TS_"))
            found.append((racks["source", source], source_well, racks["pool", target], target_well, float(volume)))
    return found


def echo(files: dict[str, str]) -> list[Transfer]:
    (text,) = files.values()
    header, *rows = _table(text, 8)
    assert header[0] == "Source Plate Name"
    assert header[6] == "Transfer Volume"
    assert all(float(row[6]) / 2.5 == round(float(row[6]) / 2.5) for row in rows)
    return [(row[0], row[2], row[3], row[5], float(row[6]) / 1000) for row in rows]


def mosquito(files: dict[str, str], deck: list[str]) -> list[Transfer]:
    """The format has no labels: `deck` says which plate stands in each position."""
    (text,) = files.values()
    first, *lines = text.split("\r\n")[:-1]
    assert first == "Worklist"
    found = []
    for line in lines:
        a, column, row, b, to_column, to_row, volume = line.split(",")
        wells = f"{ROWS[int(row) - 1]}{column}", f"{ROWS[int(to_row) - 1]}{to_column}"
        found.append((deck[int(a) - 1], wells[0], deck[int(b) - 1], wells[1], float(volume) / 1000))
    return found


READERS = {
    "generic": generic,
    "tecan": tecan,
    "opentrons": opentrons,
    "hamilton": hamilton,
    "biomek": biomek,
    "epmotion": epmotion,
    "echo": echo,
}
BY_POSITION = {"mosquito": mosquito}  # formats without labels: their readers also get the plates on the deck
WITHOUT_CODE = ("mosquito", "opentrons")  # formats whose text has no room for the check code: the file's name has it
