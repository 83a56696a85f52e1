"""Counts as people have them: CSV or XLSX, in any usual layout, with nothing guessed silently.

Read are a column per pool, a row per pool (`pool,count`), rows of `plate,pool,count`, and plates as they stand on the
bench, several in one file; commas, semicolons or tabs between cells; decimal points or commas; empty cells as missing
counts; for an assay that reports positive or negative, the words of laboratories and instruments; for one that reports
cycle thresholds or amounts, also the tables of PCR machines, one row for each well (`cycles`). Titles above the
table and columns of other texts are left out. Whatever was detected or left out stands in the notes. Whatever could be
read in two ways, and every cell that is not a report, is refused with its sheet, row and column, what was found and
what to write.

Lines at the top that begin with # are remarks. Where any line shows a check code, it must be the design's.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from jaxtyping import Float64, UInt8
from torch import Tensor

from qgt.files import tables
from qgt.files.grids import Grid, read_grid, read_grids, unescape
from qgt.lab.reported import Detector, detector, mistaken, noun, read_reports
from qgt.lab.sheets.cycles import has_targets, machine_table, read_machine, refuse_targets, refuse_without_values
from qgt.lab.sheets.layouts import Layout, LayoutSheet, by_category, layout_of
from qgt.lab.sheets.names import check_code, code_in
from qgt.lab.sheets.samples import Samples
from qgt.lab.wording import in_one_phrase
from qgt.model.design import Design
from qgt.model.noise import Noise, PerCategory, PerPool, by_pool, noise_of, reports_of
from qgt.model.problem import Counts

NAMED_MISSING = 6  # missing counts that a note names
EARLIEST_LAST = 35.0  # cycles: fewer are not all that a machine runs


@dataclass(frozen=True, eq=False)
class CountSheet:
    """Counts, one row for each instance and one column for each pool, and how they were found in the file.

    Example:
        >>> design = Design.from_rows(["110", "011"])
        >>> sheet = read_counts("typed", design, data=b"pool;count\\nP2;1,5\\nP1;\\n")
        >>> sheet.y, sheet.names
        (tensor([[   nan, 1.5000]], dtype=torch.float64), None)
        >>> print(*sheet.notes, sep="\\n")
        Cells are separated by semicolons.
        Each row is a pool.
        Numbers have decimal commas.
        1 of 2 counts is missing: P1.
    """

    y: Counts  # NaN where a count is missing; where pools report categories, a number for each of them
    names: tuple[str, ...] | None  # of the instances; None where the file has none
    notes: tuple[str, ...]  # what was detected: layout, separator, decimal commas, missing counts


def read_counts(
    source: str | Path,
    design: Design,
    samples: Samples | None = None,
    *,
    noise: Noise | None = None,
    data: bytes | None = None,
    target: str | None = None,
    control: str | None = None,
    categories: Sequence[str] = (),
) -> CountSheet:
    """Read counts; raise a ValueError that names the place where the file is wrong and what to write.

    Args:
        source: The file, or what to call it where `data` is given.
        design: The design whose pools were counted.
        samples: The samples, so that their names, and what a spreadsheet made of them, are recognised.
        noise: What the assay reports; where that is positive or negative, words are read. None is for counts.
        data: The file's content, as with an upload or a text that was typed.
        target: Which target of a PCR machine's file to read, where it has several.
        control: The target that is the internal control: where it did not amplify, a pool was not measured.
        categories: The names of the categories that pools report; none where a pool reports one number.

    Example:
        >>> design = Design.from_rows(["110", "011"])
        >>> read_counts("typed", design, data=b"plate,P1,P2\\nA,1,0\\n").y
        tensor([[1., 0.]], dtype=torch.float64)
        >>> read_counts("typed", design, data=b"plate,P1,P2\\nA,1,x\\n")
        Traceback (most recent call last):
        ValueError: typed: row 2, column 3 holds 'x'; write a finite number, or leave the cell empty if it is missing.
        >>> from qgt.model.noise import PositiveNegative
        >>> sheet = read_counts("typed", design, noise=PositiveNegative(), data=b"Pool;Ergebnis\\nP1;POS\\nP2;neg\\n")
        >>> sheet.y, sheet.notes[-1]
        (tensor([[1., 0.]], dtype=torch.float64), '2 cells read as words: 1 negative (neg), 1 positive (POS).')
        >>> from qgt.model.loads import CycleThreshold
        >>> machine = b"Well,Sample Name,Target Name,CT\\nA1,P1,N1,27.3\\nB1,P2,N1,Undetermined\\n"
        >>> sheet = read_counts("run.csv", design, noise=CycleThreshold(sigma=0.25), data=machine)
        >>> sheet.y, sheet.notes[-1]
        (tensor([[27.3000,     inf]], dtype=torch.float64), '1 cell read as not detected: 1 Undetermined.')
        >>> two = b"pool,variant A,variant B\\nP1,1,0\\nP2,0,2\\n"
        >>> read_counts("typed", design, data=two, categories=["variant A", "variant B"]).y
        tensor([[[1., 0.],
                 [0., 2.]]], dtype=torch.float64)
    """
    grids = read_grids(source, data)
    if categories:
        refuse_targets(str(source), target, control)
        read = [_read_categories(grid, design, samples, noise, categories) for grid in grids]
        return _joined(source, grids, read, [])
    names = () if samples is None else samples.names
    wells = read_wells(
        source, grids, design.pool_names, check_code(design), noise, samples=names, target=target, control=control
    )
    if wells is not None:
        return wells
    refuse_targets(str(source), target, control)
    return _joined(source, grids, [_read_sheet(grid, design, samples, noise) for grid in grids], [])


def read_wells(
    source: str | Path,
    grids: Sequence[Grid],
    pools: tuple[str, ...],
    code: str,
    noise: Noise | None,
    *,
    samples: tuple[str, ...] = (),
    target: str | None = None,
    control: str | None = None,
    one_set: bool = False,
) -> CountSheet | None:
    """The reports of a PCR machine's table, of a first round or of a later one; None where a file is another table.

    Args:
        source: The file, or what to call it.
        grids: Its sheets.
        pools: The names of the pools, in the order of their reports.
        code: The design's check code.
        noise: What the assay reports.
        samples: The names of samples, so that they are recognised.
        target: Which target to read, where the file has several.
        control: The target that is the internal control, or none.
        one_set: Whether the file has each pool once, on whichever plate, as with the pools of a follow-up round.
    """
    found = None if noise is None else detector(noise_of(noise, 0))
    if noise is None or found is None:
        return None
    sheets = [LayoutSheet(grid, pools, samples) for grid in grids]
    headers = [machine_table(sheet, found) for sheet in sheets]
    wells = [(sheet, header) for sheet, header in zip(sheets, headers, strict=True) if header is not None]
    if not wells:
        for sheet in sheets:
            refuse_without_values(sheet, found)
        return None
    if one_set and len(wells) > 1:
        tables = in_one_phrase([str(sheet.grid.sheet) for sheet, _ in wells], most=NAMED_MISSING)
        raise ValueError(f"{source}: {len(wells)} sheets have values of wells ({tables}); keep that of the round.")
    read = [_read_table(sheet, header, code, noise, target, control, one_set) for sheet, header in wells]
    left_out = [str(grid.sheet) for grid, header in zip(grids, headers, strict=True) if header is None]
    return _joined(source, [sheet.grid for sheet, _ in wells], read, left_out)


def names_targets(grids: Sequence[Grid], noise: Noise) -> bool:
    """Whether a file is a PCR machine's table that says which target each row is of."""
    found = detector(noise_of(noise, 0))
    return found is not None and any(has_targets(LayoutSheet(grid, ()), found) for grid in grids)


def _joined(
    source: str | Path, grids: Sequence[Grid], read: Sequence[CountSheet], left_out: Sequence[str]
) -> CountSheet:
    """The counts of all sheets; notes say which sheets of a machine's workbook do not have results of wells."""
    unread = f"Not read: sheets without values of wells ({in_one_phrase(left_out, most=NAMED_MISSING)})."
    others = (unread,) if left_out else ()
    if len(read) == 1:
        return replace(read[0], notes=(*others, *read[0].notes))
    names = [name for grid, one in zip(grids, read, strict=True) for name in _sheet_names(grid, one)]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{source}: two sheets have an instance called {twice!r}; give each its own name.")
    notes = dict.fromkeys(note for one in read for note in one.notes)
    said = f"{len(read)} sheets were read: {in_one_phrase([str(grid.sheet) for grid in grids])}."
    return CountSheet(torch.cat([one.y for one in read]), tuple(names), (said, *others, *notes))


def _sheet_names(grid: Grid, one: CountSheet) -> Sequence[str]:
    """The names of a sheet's instances, where there are several sheets: those without one are called as the sheet."""
    if one.names is not None:
        return one.names
    title = str(grid.sheet)
    return [title] if len(one.y) == 1 else [f"{title} {i + 1}" for i in range(len(one.y))]


def _read_sheet(grid: Grid, design: Design, samples: Samples | None, noise: Noise | None) -> CountSheet:
    notes = _code(grid, check_code(design))
    sheet = _sheet(grid, design.pool_names, samples, noise)
    read = _read_layout(sheet, layout_of(sheet), noise, notes)
    return replace(read, notes=(*read.notes, *_odd(read.y, design, noise)))


def _read_categories(
    grid: Grid, design: Design, samples: Samples | None, noise: Noise | None, categories: Sequence[str]
) -> CountSheet:
    """A sheet whose pools report a number for each category."""
    notes = _code(grid, check_code(design))
    reports = tuple(f"{pool} {category}" for pool in design.pool_names for category in categories)
    noise = None if noise is None else noise_of_reports(noise, design.pools, len(categories))
    sheet = _sheet(grid, reports, samples, noise)
    read = _read_layout(sheet, by_category(sheet, design.pool_names, categories), noise, notes)
    reported: Tensor = read.y  # (instances, pools * categories)
    return replace(read, y=reported.unflatten(1, (design.pools, len(categories))))


def _sheet(grid: Grid, reports: tuple[str, ...], samples: Samples | None, noise: Noise | None) -> LayoutSheet:
    """A grid without the remarks at its top; `reports` are the names of the pools, or of pools and categories."""
    words = noise is not None and any(_has_words(noise_of(noise, i)) for i in range(len(reports)))
    sheet = LayoutSheet(grid, reports, () if samples is None else samples.names, _remarks(grid), words)
    if not sheet.rows:
        raise ValueError(f"{grid.name}: is empty; give one row per line, cells separated by commas.")
    return sheet


def _read_layout(sheet: LayoutSheet, layout: Layout, noise: Noise | None, notes: Sequence[str]) -> CountSheet:
    """The reports in the cells that a layout has found."""
    grid = sheet.grid
    texts = [[sheet.cell(*cell) for cell in cells] for cells in layout.cells]
    values, said = read_reports(texts, noise, lambda i, report: grid.place(*layout.cells[i][report]))
    y = torch.tensor(values, dtype=torch.float64)  # (instances, reports)
    for i in y.isnan().all(1).nonzero().flatten().tolist():  # a blank sheet is not an all-clear
        where = grid.place(*layout.cells[i][0])
        raise ValueError(f"{where} and all other counts of this instance are empty; fill them in.")
    missing = _missing(sheet.pools, layout.names, y, noise)
    return CountSheet(y, layout.names, (*grid.notes, *notes, *layout.notes, *said, *missing))


def noise_of_reports(noise: Noise, pools: int, categories: int) -> Noise:
    """The noise of every report, where each pool has one for each of so many categories, or just one."""
    if isinstance(noise, PerCategory):
        if all(by_pool(one) is None for one in noise.noises):
            return PerPool(list(noise.noises) * pools)
        return PerPool([noise_of(one, pool) for pool in range(pools) for one in noise.noises])
    each = by_pool(noise)
    return noise if each is None else PerPool([one for one in each.noises for _ in range(categories)])


def _read_table(
    sheet: LayoutSheet,
    header: int,
    code: str,
    noise: Noise,
    target: str | None,
    control: str | None,
    one_set: bool,
) -> CountSheet:
    """The wells of a PCR machine's table."""
    notes = _code(sheet.grid, code)
    made = read_machine(sheet, header, noise, code=code, target=target, control=control, one_set=one_set)
    y = torch.tensor(made.values, dtype=torch.float64)  # (instances, pools)
    missing = _missing(sheet.pools, made.names, y, noise)
    found = detector(noise_of(noise, 0))
    assert found is not None  # otherwise there is no such table
    said = (*sheet.grid.notes, *notes, *made.notes, *missing, *_last_cycles(y, found))
    return CountSheet(y, made.names, said)


def _has_words(noise: Noise) -> bool:
    """Whether cells may have words: positive and negative, or that nothing was detected."""
    return reports_of(noise).binary or detector(noise) is not None


def _remarks(grid: Grid) -> int:
    """The first row after the remarks at the top."""
    first = 0
    while first < len(grid.rows):
        line = [cell for cell in grid.rows[first] if cell]
        shown = code_in(" ".join(line)) is not None
        if line and not (line[0].startswith("#") and grid.rows[first][0] and (shown or len(line) == 1)):
            break  # a header may begin with # too, but has other cells
        first += 1
    return first


def _code(grid: Grid, own: str) -> list[str]:
    """That the check code is the design's, where the sheet shows one; another one is refused."""
    seen = False
    for row, cells in enumerate(grid.rows):
        found = code_in(" ".join(cell for cell in cells if cell))
        if found is not None and found != own:
            raise ValueError(
                f"{grid.place(row)} shows check code {found}, but the design has {own}; these counts belong to "
                "another design: give that one."
            )
        seen = seen or found is not None
    return [f"The check code is the design's: {own}."] if seen else []


def _odd(y: Tensor, design: Design, noise: Noise | None) -> tuple[str, ...]:
    """A note on numbers that cannot be readings; where reports are whole numbers, the decoder's words say it."""
    if noise is None or noise.integer:
        return ()
    if (found := detector(noise_of(noise, 0))) is not None:
        return _last_cycles(y, found)
    return tuple(dict.fromkeys(said for row in y if (said := mistaken(noise, row, design.pool_sizes))))


def _last_cycles(y: Tensor, found: Detector) -> tuple[str, ...]:
    """A note on cells of exactly 40 cycles, say, where the assay does not say which cycle is the last."""
    values = y[y.isfinite()]
    if not found.cycles or found.limit is not None or not len(values):
        return ()
    last = float(values.max())
    number = int((values == last).sum())
    if number < 2 or last < EARLIEST_LAST or last != int(last):
        return ()
    return (
        f"{number} cells have exactly {last:g} cycles and are read as such. If the machine writes {last:g} where "
        f"nothing amplified, set limit = {last:g} in the problem's noise.",
    )


def _missing(pools: Sequence[str], names: Sequence[str] | None, y: Tensor, noise: Noise | None) -> tuple[str, ...]:
    """A note on missing counts."""
    gone = y.isnan()
    if not bool(gone.any()):
        return ()
    several = len(y) > 1
    said = [
        pools[pool] + (f" of {names[i] if names else i + 1}" if several else "") for i, pool in gone.nonzero().tolist()
    ]
    verb = "is" if len(said) == 1 else "are"
    what = "counts" if noise is None else noun(noise)
    note = f"{len(said)} of {math.prod(y.shape)} {what} {verb} missing: {in_one_phrase(said, most=NAMED_MISSING)}."
    if noise is None or detector(noise_of(noise, 0)) is None:
        return (note,)
    return (
        note,
        "An empty cell is a pool that was not measured: if the machine leaves cells empty where nothing amplified, "
        "write 'not detected' there.",
    )


# Statuses in CSV files: read them and match their rows and columns by name.


def read_calls(
    path: str | Path,
    design: Design,
    instances: Sequence[str] | int,
    owner: str,
    cells: Sequence[str] | None = None,
) -> Float64[Tensor, "instances items"]:
    """The calls of a file, rows in the order of the instances and columns in the design's; NaN where one is empty.

    `cells` are what the file has for each number of copies or category, where items have such.
    """
    if cells is None:
        sheet = tables.read_table(path, columns=design.item_names, missing=True)
    else:
        sheet = _value_table(path, cells, design.item_names, missing=True)
    rows = _order("instance", path, sheet, instances, owner)
    columns = _order("item", path, sheet, design.item_names, "the design")
    values = torch.tensor(sheet.values, dtype=torch.float64)  # (instances, items)
    strange = ~values.isnan() & (values != 0) & (values != 1)
    for row, column in [] if cells is not None else strange.nonzero()[:1].tolist():
        place = sheet.place(row, column)
        raise ValueError(f"{path}: {place} holds {sheet.values[row][column]:g}; write 0, 1 or nothing.")
    return values[rows][:, columns]


def read_pair(
    truth: str | Path, calls: str | Path, cells: Sequence[str] | None = None
) -> tuple[UInt8[Tensor, "instances items"], UInt8[Tensor, "instances items"]]:
    """The statuses of two files, the second's rows and columns put in the first's order.

    The truth may have amounts, as `qgt simulate` writes them for loads: an item with an amount is positive. `cells` are
    what the files have for each number of copies or category, where items have such.
    """
    if cells is None:
        true = tables.read_table(truth)
        called = tables.read_table(calls, columns=true.column_names or ())
    else:
        true = _value_table(truth, cells)
        called = _value_table(calls, cells, true.column_names or ())
    rows = _order("instance", calls, called, true.row_names or len(true.values), str(truth))
    columns = _order("item", calls, called, true.column_names or len(true.values[0]), str(truth))
    if cells is not None:
        x, found = (torch.tensor(sheet.values).to(torch.uint8) for sheet in (true, called))
        return x, found[rows][:, columns]
    return _true_statuses(truth, true), _statuses(calls, called)[rows][:, columns]


def _value_table(
    path: str | Path, cells: Sequence[str], columns: Sequence[str] = (), *, missing: bool = False
) -> tables.Table:
    """A table of copies or categories, under a header and beside names, as numbers from 0."""
    grid = read_grid(path)
    number = {**{cell: place for place, cell in enumerate(cells)}, **{str(i): i for i in range(len(cells))}}
    rows = [list(row) for row in grid.rows]
    for i, row in enumerate(rows):
        for j, cell in enumerate(row):
            text = unescape(cell)
            if i and j and text in number:
                row[j] = str(number[text])
            elif i and j and not (missing and not text):
                raise ValueError(f"{grid.place(i, j)} holds {text!r}; write {', '.join(cells[:-1])} or {cells[-1]}.")
    return tables.table_of(replace(grid, rows=tuple(map(tuple, rows))), columns=columns, missing=missing)


def _order(kind: str, path: str | Path, sheet: tables.Table, wanted: Sequence[str] | int, owner: str) -> list[int]:
    """The place of each wanted item or instance in a file: by name if both sides have names, otherwise by number."""
    line, first, size, names = "column", sheet.first_column, len(sheet.values[0]), sheet.column_names
    if kind == "instance":
        line, first, size, names = "row", sheet.first_row, len(sheet.values), sheet.row_names
    if names is None or isinstance(wanted, int):
        number = wanted if isinstance(wanted, int) else len(wanted)
        if size != number:
            raise ValueError(f"{path}: has {size} {line}s of numbers, but {owner} has {number} {kind}s; match them.")
        return list(range(size))
    position, known = {name: i for i, name in enumerate(names)}, set(wanted)
    if strange := [name for name in names if name not in known]:
        where = f"{path}: {line} {position[strange[0]] + first}"
        raise ValueError(
            f"{where} is called {strange[0]!r}, but {owner} has no such {kind}; use its names, such as {wanted[0]!r}."
        )
    if missing := [name for name in wanted if name not in position]:
        raise ValueError(f"{path}: has no {line} for {kind} {missing[0]!r} of {owner}; add it.")
    return [position[name] for name in wanted]


def _true_statuses(path: str | Path, sheet: tables.Table) -> Tensor:
    """Who is positive: statuses of 0 and 1, or amounts from 0 up, which have decimal fractions and are never just 1."""
    values = torch.tensor(sheet.values, dtype=torch.float64)  # (instances, items)
    if bool((values == 1).any()) or bool((values == values.round()).all()):  # 2 or 0.5 among 0s and 1s is a slip
        return _statuses(path, sheet)
    for row, column in ((values < 0) | ~values.isfinite()).nonzero()[:1].tolist():
        place = sheet.place(row, column)
        raise ValueError(f"{path}: {place} holds {sheet.values[row][column]:g}; write an amount, 0 for a negative.")
    return (values > 0).to(torch.uint8)


def _statuses(path: str | Path, sheet: tables.Table) -> Tensor:
    values = torch.tensor(sheet.values, dtype=torch.float64)  # (instances, items)
    for row, column in ((values != 0) & (values != 1)).nonzero()[:1].tolist():
        raise ValueError(f"{path}: {sheet.place(row, column)} holds {sheet.values[row][column]:g}; write 0 or 1.")
    return values.to(torch.uint8)
