"""Samples: what is to be tested, where each stands, and what is known of it before any test."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

from qgt.arguments import whole
from qgt.files.grids import CellRow, Grid, csv_bytes, read_grids, unescape
from qgt.files.tables import has_decimal_commas, number
from qgt.lab.sheets import plates
from qgt.lab.sheets.headers import NAMED_TEXTS, SAMPLES, TOP, columns_said, head, rows_said
from qgt.lab.sheets.names import looks_mangled
from qgt.model.design import refuse_untidy


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
    notes: tuple[str, ...] = field(default=(), compare=False, repr=False)  # how a file was read, and what was left out

    def __post_init__(self) -> None:
        number = len(self.names)
        if not number:
            raise ValueError("names is empty: give at least one sample.")
        for name in ("plates", "wells", "households", "risks"):
            given = getattr(self, name)
            if given is not None and len(given) != number:
                raise ValueError(f"{name} holds {len(given)} entries for {number} samples: give one for each.")
        _refuse_repeats("names", self.names)
        _refuse_repeats("wells", [f"{p}, {w}" for p, w in zip(self.plates, self.wells, strict=True)])
        refuse_untidy("names", self.names)
        for name in self.wells:
            if plates.well(name) != name:
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

    def on_plate(self, plate: str) -> dict[str, str]:
        """The sample in each well of a plate that has one.

        Example:
            >>> Samples.numbered(2).on_plate("Plate 1")
            {'A1': 'S1', 'B1': 'S2'}
        """
        rows = zip(self.names, self.plates, self.wells, strict=True)
        return {well: name for name, own, well in rows if own == plate}

    def plate_size(self, plate: str) -> int:
        """How many wells a plate must have for its samples: 96 or 384."""
        return plates.smallest(list(self.on_plate(plate)))

    @classmethod
    def numbered(cls, count: int, *, plate: int = 96) -> "Samples":
        """Samples S1, S2, ... that fill plates of 96 or 384 wells down their columns."""
        count, wells = whole("count", count, least=1), plates.wells(plate)
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
        wells = plates.wells(plate)
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

        One column has the samples' names (`sample`); others may have `plate`, `well`, `household` and `risk`. Other
        usual headers are known, in English and German. Titles above the header and columns of other things are left
        out. `notes` of the samples say so. Without wells, samples fill plates of 96 in the order of the file. What a
        spreadsheet has made of a name (a date, 1.2E+13), and what could be read in two ways, is refused with its place.

        Args:
            source: The file, or what to call it where `data` is given.
            data: Its content, as with an upload.

        Example:
            >>> found = Samples.read("typed", data="Screening KW 46\\nProbe;Alter\\nAnn;71\\nBob;8\\n".encode())
            >>> found.names, found.notes[1]
            (('Ann', 'Bob'), "Row 2 was taken as the header; not read above it: 'Screening KW 46'.")
        """
        grids = read_grids(source, data)
        headed = [grid for grid in grids if len(grids) == 1 or _candidates(grid, _filled(grid))]
        if len(headed) != 1:
            raise ValueError(f"{source}: has {len(grids)} sheets; keep the one with the samples.")
        (grid,) = headed
        others = [repr(one.sheet) for one in grids if one is not grid]
        said = (f"Sheet {grid.sheet!r} was read, not {', '.join(others)}.",) if others else ()
        found = _read(grid)
        return replace(found, notes=(*grid.notes, *said, *found.notes))

    def write(self, path: str | Path, *, remark: str = "") -> None:
        """Write a CSV file that `read` reads, straight to the path, with a remark above where one is given."""
        Path(path).write_bytes(self.csv_bytes(remark=remark))

    def csv_bytes(self, *, remark: str = "") -> bytes:
        """The content of the file that `write` writes."""
        given = {name: getattr(self, name) for name in SAMPLES if getattr(self, name) is not None}
        top: list[CellRow] = [[f"# {remark}", *[""] * (len(given) - 1)]] if remark else []
        header = [SAMPLES[name][0] for name in given]
        return csv_bytes([*top, header, *zip(*given.values(), strict=True)])


def _read(grid: Grid) -> Samples:
    filled = _filled(grid)
    if len(filled) < 2:
        raise ValueError(f"{grid.name}: lists no samples; give a header such as 'sample', and a row for each sample.")
    header = _header(grid, filled)
    rows = [row for row in filled if row >= header]
    if len(rows) < 2:
        raise ValueError(f"{grid.name}: lists no samples; give a row for each sample below row {header + 1}.")
    grid.refuse_ragged(rows)
    columns = _columns(grid, header)
    notes = _said(grid, filled, header, rows[1:], columns)
    _refuse_footers(grid, rows)
    texts = {name: [unescape(grid.rows[row][column]) for row in rows[1:]] for name, column in columns.items()}
    names = _names(grid, rows[1:], columns["names"])
    households = texts.get("households")
    if households is not None:  # a sample without a label lives alone
        households = [label or f"alone: {name}" for label, name in zip(households, names, strict=True)]
    risks = _risks(grid, rows[1:], columns["risks"]) if "risks" in columns else None
    if "wells" not in columns:
        if "plates" in columns:
            raise ValueError(f"{grid.name}: has plates but no wells; add a column 'well', such as A1.")
        return replace(Samples.placed(names, households=households, risks=risks), notes=notes)
    wells = tuple(_well(grid, row, columns["wells"]) for row in rows[1:])
    on = tuple(texts.get("plates") or ["Plate 1"] * len(names))
    for row, plate in zip(rows[1:], on, strict=True):
        if not plate:
            raise ValueError(f"{grid.place(row, columns['plates'])} is empty; name the plate of every sample.")
    own = tuple(households) if households is not None else None
    try:
        return Samples(tuple(names), on, wells, own, None if risks is None else tuple(risks), notes)
    except ValueError as error:
        raise ValueError(f"{grid.name}: {error}") from error


def _filled(grid: Grid) -> list[int]:
    """The rows that hold something, after the remarks at the top."""
    rows = [row for row in range(len(grid.rows)) if any(grid.rows[row])]
    while rows and grid.rows[rows[0]][0].startswith("#") and not any(grid.rows[rows[0]][1:]):
        del rows[0]
    return rows


def _fields(cells: Sequence[str]) -> list[str | None]:
    """Which field each cell of a header is for; None where it is for none."""
    return [next((name for name, heads in SAMPLES.items() if head(text) in heads), None) for text in cells]


def _candidates(grid: Grid, rows: Sequence[int]) -> list[int]:
    """The rows that may be the header, because they name a column of samples."""
    return [row for row in rows[:TOP] if "names" in _fields(grid.rows[row])]


def _header(grid: Grid, rows: Sequence[int]) -> int:
    """The row of the header; where two may be it, that is refused, unless one is a header through and through."""
    found = _candidates(grid, rows)
    whole = [row for row in found if None not in _fields(grid.rows[row])]
    if len(found) == 1 or (len(whole) == 1 and whole[0] == rows[0]):  # a sample may be called 'sample'
        return found[0]
    if found:
        raise ValueError(
            f"{grid.name}: rows {found[0] + 1} and {found[1] + 1} could both be the header; delete the one that is not."
        )
    known = ", ".join(heads[0] for heads in SAMPLES.values())
    if all(_fields(grid.rows[rows[0]])):
        raise ValueError(f"{grid.place(rows[0])} has no column of names; call it 'sample'.")
    column = next(i for i, name in enumerate(_fields(grid.rows[rows[0]])) if name is None)
    raise ValueError(
        f"{grid.place(rows[0], column)} holds {grid.rows[rows[0]][column]!r}, and no row names a column of samples; "
        f"name the columns {known}, or leave it out."
    )


def _columns(grid: Grid, header: int) -> dict[str, int]:
    """Where each field's column is; a column of other things is none."""
    found: dict[str, int] = {}
    for column, name in enumerate(_fields(grid.rows[header])):
        if name is None:
            continue
        if name in found:
            one, other = grid.rows[header][found[name]], grid.rows[header][column]
            raise ValueError(
                f"{grid.place(header, column)} is a second column of {name}: {one!r} and {other!r} could both be "
                "meant; keep one of them."
            )
        found[name] = column
    return found


def _said(
    grid: Grid, filled: Sequence[int], header: int, body: Sequence[int], columns: dict[str, int]
) -> tuple[str, ...]:
    """What was assumed: the row of the header, what its columns were taken for, and what was left out."""
    notes, top = [], grid.rows[header]
    above = [text for row in filled if row < header for text in grid.rows[row] if text]
    if above:
        notes.append(rows_said(header, above[:NAMED_TEXTS]))
    called = {name: top[column] for name, column in columns.items()}
    if any(text.lower() != SAMPLES[name][0] for name, text in called.items()):
        notes.append(
            "Columns: " + ", ".join(f"{text!r} was read as {SAMPLES[n][0]}" for n, text in called.items()) + "."
        )
    unread = [
        column
        for column in range(len(top))
        if column not in columns.values() and (top[column] or any(grid.rows[row][column] for row in body))
    ]
    for column in unread:
        if not top[column]:
            raise ValueError(f"{grid.place(header, column)} has no name; name every column, or empty it.")
        texts = [grid.rows[row][column] for row in body]
        if "wells" not in columns and any(texts) and all(plates.well(text) for text in texts if text):
            raise ValueError(
                f"{grid.place(header, column)} holds {top[column]!r} above wells; call the column 'well' if the "
                "samples stand there, or delete it."
            )
    if unread:
        notes.append(columns_said([top[column] for column in unread]))
        if "wells" not in columns:
            notes.append("No column names wells: samples fill plates of 96 down the columns, in the order of the file.")
    return tuple(notes)


def _refuse_footers(grid: Grid, rows: Sequence[int]) -> None:
    """Raise a ValueError for a single text below the list, which may be a sample or a remark."""
    if sum(map(bool, grid.rows[rows[0]])) < 2:
        return
    for before, row in pairwise(rows):
        texts = [text for text in grid.rows[row] if text]
        if row > before + 1 and len(texts) == 1:
            raise ValueError(
                f"{grid.place(row)} holds only {texts[0]!r}, below an empty row: a sample or a remark; delete the "
                "row, or the empty one above it."
            )


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
    text = grid.rows[row][column]
    name = plates.well(text)
    if name is None:
        remedy = "write a well, such as A1 or H12"
        if text.isascii() and text.isdecimal() and 1 <= int(text[:4]) <= 96:
            place, across = int(text) - 1, plates.shape(96)[1]
            down = plates.wells(96)[place]
            along = f"{plates.row_letter(place // across)}{place % across + 1}"
            remedy += f" ({text} is {down} counted down the columns, and {along} counted along the rows)"
        raise ValueError(f"{grid.place(row, column)} holds {text!r}; {remedy}.")
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
