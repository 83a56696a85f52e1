"""Samples: what is to be tested, where each stands, and what is known of it before any test."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from qgt.arguments import whole
from qgt.files.cells import escape, unescape
from qgt.files.grids import Grid, read_grids
from qgt.files.numbers import has_decimal_commas, number
from qgt.lab import plates as wells_of
from qgt.lab.mangled import looks_mangled

HEADS = {  # what each column may be called; the first is what `write` calls it
    "names": ("sample", "name", "sample name", "sample id", "sample_id", "id", "item", "barcode"),
    "plates": ("plate", "plate name", "source plate"),
    "wells": ("well", "position", "source well"),
    "households": ("household", "family", "group"),
    "risks": ("risk", "rate", "probability"),
}


@dataclass(frozen=True)
class Samples:
    """Samples with their places and, where known, their households or risks.

    Example:
        >>> samples = Samples.numbered(96)
        >>> samples.names[8], samples.plates[8], samples.wells[8], len(samples)
        ('S9', 'Plate 1', 'A2', 96)
    """

    names: tuple[str, ...]
    plates: tuple[str, ...]  # of each sample, the plate that it stands on
    wells: tuple[str, ...]  # and its well
    households: tuple[str, ...] | None = None  # samples of one label belong together
    risks: tuple[float, ...] | None = None  # each sample's probability of being positive, before any test

    def __post_init__(self) -> None:
        number = len(self.names)
        if not number:
            raise ValueError("names is empty: give at least one sample.")
        for field in ("plates", "wells", "households", "risks"):
            given = getattr(self, field)
            if given is not None and len(given) != number:
                raise ValueError(f"{field} holds {len(given)} entries for {number} samples: give one for each.")
        _refuse_repeats("names", self.names)
        _refuse_repeats("wells", [f"{p}, {w}" for p, w in zip(self.plates, self.wells, strict=True)])
        for name in self.names:
            if not name or name != name.strip() or any(ord(character) < 32 for character in name):
                raise ValueError(f"names holds {name!r}: give names without line breaks or blanks at their ends.")
        for name in self.wells:
            if wells_of.well(name) != name:
                raise ValueError(f"wells holds {name!r}: give wells such as A1 or H12.")
        for risk in self.risks or ():
            if not 0 < risk < 1:
                raise ValueError(f"risks holds {risk!r}: give probabilities between 0 and 1.")

    def __len__(self) -> int:
        return len(self.names)

    @property
    def plate_names(self) -> tuple[str, ...]:
        """The plates, in the order of their first samples."""
        return tuple(dict.fromkeys(self.plates))

    @property
    def places(self) -> dict[str, tuple[str, str]]:
        """The plate and the well of each sample."""
        return dict(zip(self.names, zip(self.plates, self.wells, strict=True), strict=True))

    def plate_size(self, plate: str) -> int:
        """How many wells a plate must have for its samples: 96 or 384."""
        return wells_of.smallest([w for p, w in zip(self.plates, self.wells, strict=True) if p == plate])

    @classmethod
    def numbered(cls, count: int, *, plate: int = 96) -> "Samples":
        """Samples S1, S2, ... that fill plates of 96 or 384 wells down their columns."""
        count, wells = whole("count", count, least=1), wells_of.wells(plate)
        return cls.placed([f"S{number}" for number in range(1, count + 1)], plate=len(wells))

    @classmethod
    def placed(
        cls,
        names: Sequence[str],
        *,
        plate: int = 96,
        households: Sequence[str] | None = None,
        risks: Sequence[float] | None = None,
    ) -> "Samples":
        """Samples that fill plates down their columns, in the order given.

        Example:
            >>> Samples.placed(["Ann", "Bob"]).wells
            ('A1', 'B1')
        """
        wells = wells_of.wells(plate)
        return cls(
            tuple(names),
            tuple(f"Plate {number // len(wells) + 1}" for number in range(len(names))),
            tuple(wells[number % len(wells)] for number in range(len(names))),
            None if households is None else tuple(households),
            None if risks is None else tuple(risks),
        )

    @classmethod
    def read(cls, source: str | Path, *, data: bytes | None = None) -> "Samples":
        """Read a samples file, CSV or XLSX: a header, and a row for each sample.

        One column has the samples' names (`sample`); others may have `plate`, `well`, `household` and `risk`. Without
        wells, samples fill plates of 96 in the order of the file. What a spreadsheet has made of a name (a date,
        1.2E+13) is refused with its place.

        Args:
            source: The file, or what to call it where `data` is given.
            data: Its content, as with an upload.
        """
        grids = read_grids(source, data)
        if len(grids) > 1:
            raise ValueError(f"{source}: has {len(grids)} sheets; keep the one with the samples.")
        return _read(grids[0])

    def write(self, path: str | Path, *, remark: str = "") -> None:
        """Write a CSV file that `read` reads, straight to the path, with a remark above where one is given."""
        given = {field: getattr(self, field) for field in HEADS if getattr(self, field) is not None}
        with Path(path).open("w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            if remark:
                writer.writerow([f"# {remark}", *[""] * (len(given) - 1)])
            writer.writerow([HEADS[field][0] for field in given])
            for row in zip(*given.values(), strict=True):
                writer.writerow([escape(cell) if isinstance(cell, str) else cell for cell in row])


def _read(grid: Grid) -> Samples:
    rows = [row for row in range(len(grid.rows)) if any(grid.rows[row])]
    while rows and grid.rows[rows[0]][0].startswith("#") and not any(grid.rows[rows[0]][1:]):
        del rows[0]  # a remark
    if len(rows) < 2:
        raise ValueError(f"{grid.name}: lists no samples; give a header such as 'sample', and a row for each sample.")
    grid.refuse_ragged(rows)
    columns = _columns(grid, rows[0])
    texts = {field: [unescape(grid.rows[row][column]) for row in rows[1:]] for field, column in columns.items()}
    names = _names(grid, rows[1:], columns["names"])
    households = texts.get("households")
    if households is not None:  # a sample without a label lives alone
        households = [label or f"alone: {name}" for label, name in zip(households, names, strict=True)]
    risks = _risks(grid, rows[1:], columns["risks"]) if "risks" in columns else None
    if "wells" not in columns:
        if "plates" in columns:
            raise ValueError(f"{grid.name}: has plates but no wells; add a column 'well', such as A1.")
        return Samples.placed(names, households=households, risks=risks)
    wells = [_well(grid, row, columns["wells"]) for row in rows[1:]]
    plates = texts.get("plates") or ["Plate 1"] * len(names)
    for row, plate in zip(rows[1:], plates, strict=True):
        if not plate:
            raise ValueError(f"{grid.place(row, columns['plates'])} is empty; name the plate of every sample.")
    try:
        return Samples(
            tuple(names),
            tuple(plates),
            tuple(wells),
            None if households is None else tuple(households),
            None if risks is None else tuple(risks),
        )
    except ValueError as error:
        raise ValueError(f"{grid.name}: {error}") from error


def _columns(grid: Grid, header: int) -> dict[str, int]:
    """Where each field's column is."""
    found: dict[str, int] = {}
    for column, text in enumerate(grid.rows[header]):
        field = next((field for field, heads in HEADS.items() if text.lower() in heads), None)
        if field is None:
            known = ", ".join(heads[0] for heads in HEADS.values())
            raise ValueError(f"{grid.place(header, column)} holds {text!r}; name the columns {known}, or leave it out.")
        if field in found:
            raise ValueError(f"{grid.place(header, column)} is a second column of {field}; keep one.")
        found[field] = column
    if "names" not in found:
        raise ValueError(f"{grid.place(header)} has no column of names; call it 'sample'.")
    return found


def _names(grid: Grid, rows: Sequence[int], column: int) -> list[str]:
    seen: dict[str, int] = {}
    for row in rows:
        name = unescape(grid.rows[row][column])
        if not name:
            raise ValueError(f"{grid.place(row, column)} is empty; name every sample.")
        if name in seen:
            raise ValueError(
                f"{grid.place(row, column)} holds {name!r}, as row {seen[name] + 1} does; give each its own name."
            )
        if reason := looks_mangled(name):
            raise ValueError(
                f"{grid.place(row, column)} holds {name!r}, {reason}; format the cells as text and write it again."
            )
        seen[name] = row
    return list(seen)


def _well(grid: Grid, row: int, column: int) -> str:
    name = wells_of.well(grid.rows[row][column])
    if name is None:
        raise ValueError(
            f"{grid.place(row, column)} holds {grid.rows[row][column]!r}; write a well, such as A1 or H12."
        )
    return name


def _risks(grid: Grid, rows: Sequence[int], column: int) -> list[float]:
    commas = has_decimal_commas(grid.rows[row][column] for row in rows)
    values = []
    for row in rows:
        value = number(grid.rows[row][column], commas=commas)
        if isinstance(value, str) or not 0 < value < 1:
            raise ValueError(
                f"{grid.place(row, column)} holds {grid.rows[row][column]!r}; write a probability between 0 and 1."
            )
        values.append(value)
    return values


def _refuse_repeats(field: str, values: Sequence[str]) -> None:
    seen: set[str] = set()
    for value in values:
        if value in seen:
            raise ValueError(f"{field} holds {value!r} twice: give each sample its own.")
        seen.add(value)
