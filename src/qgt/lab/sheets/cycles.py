"""Cycle thresholds and amounts as PCR machines export them: one row for each well, below a preamble of settings.

A machine's table has a column of values (`Ct`, `Cq`, `Cp`, or `Quantity` where the assay reports amounts) and one of
names (`Sample Name`, `Name`, `Pool`) or wells. It may also have columns of targets, tasks and plates. The names are
those of the design's pools. Rows of controls and standards, wells without a name, omitted wells and other targets are
left out, and the notes say so.

Nothing is chosen silently. If the file has several targets, the user must name one, and say which of the others is the
internal control, or that none is. Where the positive control did not amplify, the file is refused. Several wells of one
pool are replicates. If all of them amplified and agree, their mean is read; if none amplified, nothing was detected;
otherwise the file is refused. Where a target is an internal control, a well in which the control did not amplify is not
measured, because the reaction failed, and to read "not detected" there would be an all-clear by accident.

A name may have the design's check code before or after the pool's name (`869FD3-P1`). Another design's code is refused.
The table of a follow-up round is read in the same way; its pools may be of several plates, and their names decide.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from qgt.files.grids import escape
from qgt.files.tables import is_number, number
from qgt.lab.reported import Detector, detector, read_reports
from qgt.lab.sheets import plates
from qgt.lab.sheets.headers import (
    AMOUNT,
    CYCLE,
    NAMED_TEXTS,
    POOL,
    RUNS,
    SAMPLES,
    TARGETS,
    TASKS,
    TUBES,
    WELLS,
    head,
    is_standard,
    machine_head,
    rows_said,
)
from qgt.lab.sheets.layouts import LayoutSheet, unknown
from qgt.lab.sheets.names import coded, proposal_in
from qgt.lab.sheets.plates import POOL_PLATE
from qgt.lab.wording import in_one_phrase, many, quoted
from qgt.model.noise import Noise, noise_of

PREAMBLE = 200  # rows among which a machine's header is looked for: settings of a run may take a hundred
APART = 1.0  # cycles by which replicates may differ: a factor of two in the amount
NAMED = 6  # names that an error or a note lists
_NAMES = POOL | frozenset(SAMPLES["names"])
_OMIT = {"omit": "true", "omitted": "true", "include": "false"}  # what a cell of the column says of a well left out
NO_CONTROL = "none"  # in place of a control's name: no target of the file is one
_POSITIVE_CONTROL = re.compile(r"(ptc|pc|pk|pos.*)[ ]?\d*")
_NO_TEMPLATE = re.compile(r"(ntc|nec|nc|nk|ntk|blank|water|wasser|leerwert|neg.*|no template.*|leerkontrolle)[ ]?\d*")


@dataclass(frozen=True)
class WellReports:
    """What the wells of a machine's file report, NaN where a pool was not measured."""

    values: list[list[float]]  # (instances, pools)
    names: tuple[str, ...] | None
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Columns:
    """Where the columns of a machine's table are; None for one that it does not have."""

    header: int  # the row
    value: int
    name: int | None
    well: int | None
    task: int | None
    plate: int | None
    omit: int | None
    targets: tuple[int, ...]  # the most telling first


class _Well(NamedTuple):
    """A row of the table that is a pool's."""

    row: int
    plate: str
    pool: str
    position: str  # empty where the table does not have a column of wells


class _Targets(NamedTuple):
    """Which rows are read, and which are those of the internal control."""

    rows: frozenset[int]
    controls: frozenset[int]
    control: str | None  # its name, as the file writes it
    column: int | None  # of the targets' names
    name: str  # the target that is read; empty where the file names none
    notes: list[str]


_Group = Mapping[tuple[str, str], list[_Well]]  # the wells of each plate and pool


# Where the table is.


def machine_table(sheet: LayoutSheet, found: Detector) -> int | None:
    """The header of a machine's table: the first row that names a column of values, and one of names or wells.

    Example:
        >>> from qgt.files.grids import read_grids
        >>> grid = read_grids("run.csv", b"Block Type,96well\\nWell,Sample Name,CT\\nA1,P1,27.3\\n")[0]
        >>> machine_table(LayoutSheet(grid, ("P1", "P2")), Detector(math.inf, 40.0, signed=False))
        1
    """
    for row in sheet.rows[:PREAMBLE]:
        heads = _heads(sheet, row)
        if _values(found) & set(heads) and (_NAMES | WELLS) & set(heads) and not _names_pools(sheet, row):
            return row
    return None


def has_targets(sheet: LayoutSheet, found: Detector) -> bool:
    """Whether a sheet is a machine's table with a column of targets."""
    header = machine_table(sheet, found)
    return header is not None and bool({*TARGETS} & set(_heads(sheet, header)))


def refuse_without_values(sheet: LayoutSheet, found: Detector) -> None:
    """Raise a ValueError for a machine's table that does not have a column of values."""
    for row in sheet.rows[:PREAMBLE]:
        heads = set(_heads(sheet, row))
        if (_NAMES | WELLS) & heads and {*TARGETS, *TASKS} & heads and not _names_pools(sheet, row):
            wanted = "Ct, Cq or Cp" if found.cycles else "Quantity, Copies or Concentration"
            raise ValueError(
                f"{sheet.grid.place(row)} is the header of a table of wells, but no column is called {wanted}; export "
                "the results of the wells, not their means or settings."
            )


def _heads(sheet: LayoutSheet, row: int) -> list[str]:
    return [machine_head(sheet.cell(row, column)) for column in range(sheet.width)]


def _values(found: Detector) -> frozenset[str]:
    return CYCLE if found.cycles else AMOUNT


def _names_pools(sheet: LayoutSheet, row: int) -> bool:
    """Whether a row has the names of several pools, as a table with a column for each pool does."""
    return sheet.hits([sheet.cell(row, column) for column in range(sheet.width)]) > 1


def _columns(sheet: LayoutSheet, header: int, body: Sequence[int], found: Detector) -> _Columns:
    heads = _heads(sheet, header)

    def called(words: Iterable[str]) -> list[int]:
        return [column for column, word in enumerate(heads) if word in frozenset(words)]

    values = called(_values(found))
    if len(values) > 1:
        one, other = values[:2]
        raise ValueError(
            f"{sheet.grid.name}: columns {one + 1} ({sheet.cell(header, one)!r}) and {other + 1} "
            f"({sheet.cell(header, other)!r}) may both be what the pools report; delete one of them."
        )
    names = sorted(called(_NAMES), key=lambda column: -sheet.hits([sheet.cell(row, column) for row in body]))
    wells = [*called(WELLS), *called(TUBES)]
    wells.sort(key=lambda column: -sum(plates.well(sheet.cell(row, column)) is not None for row in body))
    targets = sorted(called(TARGETS), key=lambda column: TARGETS.index(heads[column]))
    return _Columns(
        header,
        values[0],
        next(iter(names), None),
        next(iter(wells), None),
        next(iter(called(TASKS)), None),
        _plate_column(sheet, header, called(RUNS), body),
        next(iter(called(_OMIT)), None),
        tuple(column for column in targets if any(sheet.cell(row, column) for row in body)),
    )


def _plate_column(sheet: LayoutSheet, header: int, called: Sequence[int], body: Sequence[int]) -> int | None:
    """The column that names the plates; of several, the one that tells rows apart."""
    differ = [column for column in called if len({sheet.cell(row, column) for row in body}) > 1]
    if len(differ) > 1:
        one, other = differ[:2]
        raise ValueError(
            f"{sheet.grid.name}: columns {one + 1} ({sheet.cell(header, one)!r}) and {other + 1} "
            f"({sheet.cell(header, other)!r}) could both name the plates; keep one of them."
        )
    return next(iter(differ or called), None)


def _body(sheet: LayoutSheet, header: int, found: Detector) -> tuple[list[int], list[int]]:
    """The rows of the table, and those below an empty row that are not of the table."""
    rows = [row for row in sheet.rows if row > header]
    gap = next((below for above, below in pairwise([header, *rows]) if below > above + 1 and below != rows[0]), None)
    foot = []
    if gap is not None:
        heads = _heads(sheet, header)
        named = _NAMES if _NAMES & set(heads) else WELLS
        telling = [column for column, word in enumerate(heads) if word in named | _values(found)]
        for row in rows:
            texts = [sheet.cell(row, column) for column in telling]
            if row >= gap and sum(map(bool, texts)) < 2 and not sheet.hits(texts):
                foot.append(row)
    body = [row for row in rows if row not in frozenset(foot)]
    for row in body:
        if _heads(sheet, row) == _heads(sheet, header):
            raise ValueError(
                f"{sheet.grid.place(row)} repeats the header, so the file has several tables; keep one of them, or put "
                "all rows below one header, with a column 'Plate' that tells the tables apart."
            )
    if not body:
        raise ValueError(f"{sheet.grid.place(header)} is the header of a table without rows; add a row for each well.")
    sheet.grid.refuse_ragged([header, *body])
    return body, foot


# Reading.


def read_machine(
    sheet: LayoutSheet,
    header: int,
    noise: Noise,
    *,
    code: str,
    target: str | None = None,
    control: str | None = None,
    one_set: bool = False,
) -> WellReports:
    """What the pools report in a machine's table; raise a ValueError that names the place and what to do.

    Args:
        sheet: The grid, and the names of the pools.
        header: The row with the names of the columns; see `machine_table`.
        noise: What the assay reports: cycle thresholds or amounts.
        code: The design's check code, which names of pools may have too.
        target: Which target the pools' reports are; may be None where the file has only one.
        control: The target that amplifies in every reaction that worked, or `NO_CONTROL`; may be None where the file
            has no target besides the one that is read.
        one_set: Whether the file has each pool once, on whichever plate, as with the pools of a follow-up round. Then
            pools must have names: their wells do not show which proposal they are of.
    """
    found = detector(noise_of(noise, 0))
    assert found is not None  # otherwise no machine's table is looked for
    sheet, codes_said = _without_codes(sheet, header, code)
    body, foot = _body(sheet, header, found)
    columns = _columns(sheet, header, body, found)
    if one_set and columns.name is None:
        raise ValueError(
            f"{sheet.grid.place(header)} names wells but no pools; add a column 'Sample' with the names of the round's "
            f"pools, such as {sheet.pools[0]!r}."
        )
    rows, external, left_out = _rows_of_pools(sheet, columns, body)
    chosen = _targets(sheet, columns, rows, target, control)
    _refuse_failed_run(sheet, columns, external, chosen, found)
    wells = [_well(sheet, columns, row, one_set) for row in rows]
    groups = _grouped(sheet, [well for well in wells if well.row in chosen.rows])
    refuse_absent_pools(sheet, groups)
    values, said = _read(sheet, groups, columns.value, noise)
    failed, failures_said = _failed(sheet, columns, groups, values, chosen.controls, wells, noise, chosen.control)
    measured = {row: math.nan if row in failed else value for row, value in values.items()}
    instances = list(dict.fromkeys(plate for plate, _ in groups))
    means, means_said = _means(sheet, columns, groups, measured, found)
    y = [[means[plate, pool] for pool in sheet.pools] for plate in instances]
    _refuse_empty(sheet, columns, instances, y)
    above, below = _outside_said(sheet, header, foot)
    notes = (*above, _columns_said(sheet, columns, found), *codes_said, *chosen.notes, *left_out, *below)
    notes = (*notes, *_contamination(sheet, columns, external, found))
    notes = (*notes, *said, *means_said, *failures_said)
    return WellReports(y, None if columns.plate is None or one_set else tuple(instances), notes)


def _without_codes(sheet: LayoutSheet, header: int, code: str) -> tuple[LayoutSheet, list[str]]:
    """The sheet with the pools' names alone where they have the design's check code too; another code is refused."""
    names = [column for column, word in enumerate(_heads(sheet, header)) if word in _NAMES]
    rows, seen = [list(row) for row in sheet.grid.rows], 0
    for row in (row for row in sheet.rows if row > header):
        for column in names:
            text = sheet.cell(row, column)
            found = coded(text, lambda name: name in sheet.known or is_standard(name))
            if found is None:
                continue
            if found[0] == code:
                rows[row][column], seen = escape(found[1]), seen + 1
            elif found[1] in sheet.known:
                raise ValueError(
                    f"{sheet.grid.place(row, column)} holds {text!r}, with check code {found[0]}, but the design has "
                    f"{code}; this well belongs to another design: give that one, or delete the row."
                )
    if not seen:
        return sheet, []
    grid = replace(sheet.grid, rows=tuple(map(tuple, rows)))
    return replace(sheet, grid=grid), [f"{many(seen, 'name')} with the check code of the design: {code}."]


def _refuse_empty(
    sheet: LayoutSheet, columns: _Columns, instances: Sequence[str], y: Sequence[Sequence[float]]
) -> None:
    """Refuse a plate without any value."""
    for plate, row in zip(instances, y, strict=True):
        if all(map(math.isnan, row)):
            raise ValueError(
                f"{sheet.grid.name}: no pool{_of(plate)} has a value in column {columns.value + 1} "
                f"({sheet.cell(columns.header, columns.value)!r}); fill it in, with 'not detected' where nothing "
                "amplified."
            )


def _outside_said(sheet: LayoutSheet, header: int, foot: Sequence[int]) -> tuple[list[str], list[str]]:
    """Notes on the texts above the table, and on those below it."""
    above = [text for row in sheet.rows if row < header for text in sheet.texts(row)]
    below = [text for row in foot for text in sheet.texts(row)]
    return (
        [rows_said(header, above[:NAMED_TEXTS])] if above else [],
        [f"Not read below the table: {', '.join(map(repr, below[:NAMED_TEXTS]))}."] if below else [],
    )


def _columns_said(sheet: LayoutSheet, columns: _Columns, found: Detector) -> str:
    def said(column: int) -> str:
        return f"column {column + 1} ({sheet.cell(columns.header, column)!r})"

    what = "cycle thresholds" if found.cycles else "amounts"
    plate = "" if columns.plate is None else f", {said(columns.plate)} the plates"
    if columns.name is None:
        assert columns.well is not None  # a header has names or wells
        names = f"{said(columns.well)} the wells, down the columns: A1 is {sheet.pools[0]}"
    else:
        names = f"{said(columns.name)} the pools"
    return f"Each row is a well: {said(columns.value)} has the {what}, {names}{plate}."


def _of(plate: str) -> str:
    return f" of plate {plate!r}" if plate else ""


def _name(sheet: LayoutSheet, columns: _Columns, row: int) -> str:
    """The pool of a row: by its name or, where the table has no names, by its well."""
    if columns.name is not None:
        return sheet.cell(row, columns.name)
    assert columns.well is not None
    if len(sheet.pools) > POOL_PLATE:
        raise ValueError(
            f"{sheet.grid.name}: has wells without names, but {len(sheet.pools)} pools take several plates of "
            f"{POOL_PLATE} wells; add a column 'Sample' with the pools' names."
        )
    text = sheet.cell(row, columns.well)
    pool_at = dict(zip(plates.wells(POOL_PLATE), sheet.pools, strict=False))
    found = plates.well(text)
    if found is None:
        raise ValueError(f"{sheet.grid.place(row, columns.well)} holds {text!r}; write a well, such as A1.")
    return pool_at.get(found, "")


def _rows_of_pools(
    sheet: LayoutSheet, columns: _Columns, body: Sequence[int]
) -> tuple[list[int], dict[int, str], list[str]]:
    """The rows that are a pool's, the names of controls by their rows, and notes; an unknown name is refused."""
    kept, strange, empty, omitted = [], [], [], []
    controls: dict[int, str] = {}
    for row in body:
        name, task = _name(sheet, columns, row), "" if columns.task is None else sheet.cell(row, columns.task)
        if _is_omitted(sheet, columns, row):
            omitted.append(row)
        elif is_standard(task) and name in sheet.known and columns.name is not None:
            assert columns.task is not None
            raise ValueError(
                f"{sheet.grid.place(row, columns.task)} holds {task!r}, but the row is called {name!r}, which is a "
                "pool; correct the task, or the name."
            )
        elif is_standard(task) or (name not in sheet.known and is_standard(name)):
            controls[row] = name if is_standard(name) or not task else task
        elif not name:
            empty.append(row)
        elif name not in sheet.known:
            strange.append(row)
        else:
            kept.append(row)
    if strange:
        raise ValueError(_unknown_names(sheet, columns, strange))
    _refuse_unnamed(sheet, columns, empty)
    if not kept:
        rows = f"its {len(controls)} rows are controls ({_listed(controls.values())})" if controls else "no row has one"
        raise ValueError(f"{sheet.grid.name}: has no well of a pool: {rows}; export the wells of the pools too.")
    return kept, controls, [*_controls_said(controls), *_wells_said(empty, omitted)]


def _controls_said(controls: Mapping[int, str]) -> list[str]:
    """A note on the rows of controls and standards, if there are any."""
    if not controls:
        return []
    kinds = f"{many(len(controls), 'control')} or standard{'s' if len(controls) > 1 else ''}"
    return [f"Not read: {kinds} ({_listed(controls.values())})."]


def _wells_said(empty: Sequence[int], omitted: Sequence[int]) -> list[str]:
    """Notes on the rows without a name, and on those that the file marks as omitted."""
    notes = [f"Not read: {many(len(empty), 'well')} without a name."] if empty else []
    if omitted:
        rows = in_one_phrase([str(row + 1) for row in omitted], most=NAMED)
        notes.append(f"Not read: {many(len(omitted), 'well')} that the file marks as omitted (row {rows}).")
    return notes


def _is_omitted(sheet: LayoutSheet, columns: _Columns, row: int) -> bool:
    if columns.omit is None:
        return False
    return sheet.cell(row, columns.omit).lower() == _OMIT[machine_head(sheet.cell(columns.header, columns.omit))]


def _unknown_names(sheet: LayoutSheet, columns: _Columns, rows: Sequence[int]) -> str:
    assert columns.name is not None  # a well that is not a pool's has no name
    first = sheet.cell(rows[0], columns.name)
    others = [name for name in dict.fromkeys(sheet.cell(row, columns.name) for row in rows) if name != first]
    said = f"{sheet.grid.place(rows[0], columns.name)} holds {first!r}, {unknown(sheet, first)}"
    also = f" Unknown are also {in_one_phrase(map(repr, others), most=NAMED)}." if others else ""
    remedy = " Delete the rows of wells that are not pools." if proposal_in(first) is None else ""
    return f"{said}{also}{remedy}"


def _refuse_unnamed(sheet: LayoutSheet, columns: _Columns, rows: Sequence[int]) -> None:
    """Raise a ValueError for a value in a well that is not a pool's: it may be a pool whose name was forgotten."""
    for row in rows:
        text = sheet.cell(row, columns.value)
        if text and is_number(text) and text.lower() not in ("na", "nan", "n/a") and text.strip("0.,"):
            where = sheet.grid.place(row, columns.value)
            if columns.name is None:
                raise ValueError(f"{where} holds {text!r}, but no pool is in that well; delete the row.")
            raise ValueError(f"{where} holds {text!r} in a well without a name; name its pool, or delete the row.")


def _amplified(sheet: LayoutSheet, columns: _Columns, row: int, found: Detector) -> bool | None:
    """Whether something was detected in a well; None where it was not measured."""
    text = sheet.cell(row, columns.value)
    value = found.read(text, number(text, commas="," in text), True) if text else math.nan
    return None if isinstance(value, str) or math.isnan(value) else value != found.nothing


def _contamination(sheet: LayoutSheet, columns: _Columns, controls: Mapping[int, str], found: Detector) -> list[str]:
    """A note on controls without a template in which something was detected; positives and standards should be."""
    seen = []
    for row, name in controls.items():
        if _NO_TEMPLATE.fullmatch(head(name)) and _amplified(sheet, columns, row, found):
            target = sheet.cell(row, columns.targets[0]) if columns.targets else ""
            value = sheet.cell(row, columns.value)
            seen.append(f"row {row + 1} ({value}{f', target {quoted(target)}' if target else ''})")
    if not seen:
        return []
    return [f"Controls without a template amplified: {in_one_phrase(seen, most=NAMED)}; check for contamination."]


def _refuse_failed_run(
    sheet: LayoutSheet, columns: _Columns, controls: Mapping[int, str], chosen: "_Targets", found: Detector
) -> None:
    """Raise a ValueError where a positive control did not amplify: "not detected" is then no all-clear."""
    for row, name in controls.items():
        target = "" if chosen.column is None else sheet.cell(row, chosen.column)
        own = target.casefold() in ("", chosen.name.casefold())
        if own and _POSITIVE_CONTROL.fullmatch(head(name)) and _amplified(sheet, columns, row, found) is False:
            raise ValueError(
                f"{sheet.grid.place(row, columns.value)} holds {sheet.cell(row, columns.value)!r} for the positive "
                f"control {name!r}: the run may have failed, and 'not detected' would then mean nothing; test the "
                "pools again, or delete that row to decode the run nevertheless."
            )


# Targets: one that is read and, if there is one, the control.


def _targets(
    sheet: LayoutSheet, columns: _Columns, rows: Sequence[int], target: str | None, control: str | None
) -> _Targets:
    """The target that is read and the control, as the user chose them."""
    if not columns.targets:
        refuse_targets(sheet.grid.name, target, control)
        return _Targets(frozenset(rows), frozenset(), None, None, "", [])
    if target is not None and control is not None and target.casefold() == control.casefold():
        raise ValueError(f"target={target!r} and control={control!r} are the same: give two targets of the file.")
    column = _target_column(sheet, columns, rows, target, control)
    named: dict[str, list[int]] = {}
    for row in rows:
        named.setdefault(sheet.cell(row, column), []).append(row)
    without = control is not None and control.casefold() == NO_CONTROL and NO_CONTROL not in map(str.casefold, named)
    checked = None if without else _known_target(sheet, column, named, "control", control)
    chosen = _known_target(sheet, column, named, "target", target)
    left = [name for name in named if name != checked]
    if chosen is None and len(left) == 1:
        chosen = left[0]
    if chosen is None:
        raise ValueError(_ask_target(sheet, columns, column, left))
    others = [name for name in left if name != chosen]
    if others and checked is None and not without:
        raise ValueError(_ask_control(sheet, columns, column, chosen, others))
    controls = frozenset(named[checked] if checked is not None else ())
    if len(named) == 1:
        notes = [f"The target is {quoted(chosen)}."] if chosen else []
        return _Targets(frozenset(rows), controls, None, column, chosen, notes)
    said = f"Target {quoted(chosen)} was read" + (f", with the control {quoted(checked)}" if checked else "")
    dropped = f"; not read: {in_one_phrase(map(quoted, others), most=NAMED)}" if others else ""
    return _Targets(frozenset(named[chosen]), controls, checked, column, chosen, [f"{said}{dropped}."])


def _ask_target(sheet: LayoutSheet, columns: _Columns, column: int, left: Sequence[str]) -> str:
    which = "--target NAME, or the field 'Target' of the page" if left else "another --control"
    return (
        f"{sheet.grid.place(columns.header, column)}: the pools have {len(left)} targets "
        f"({in_one_phrase([repr(name) for name in left], most=NAMED)}); say which one to decode by {which}."
    )


def _ask_control(sheet: LayoutSheet, columns: _Columns, column: int, chosen: str, others: Sequence[str]) -> str:
    """Why a choice of the control is asked for: where it is not looked at, a failed reaction is an all-clear."""
    return (
        f"{sheet.grid.place(columns.header, column)}: besides {chosen!r} the pools have "
        f"{in_one_phrase([repr(name) for name in others], most=NAMED)}; say which one is the internal control by "
        f"--control NAME, or the field 'Internal control' of the page, so that a failed reaction is not read as 'not "
        f"detected'. If none is, write --control {NO_CONTROL}."
    )


def refuse_targets(name: str, target: str | None, control: str | None) -> None:
    """Raise a ValueError where a target was asked for and a file does not name targets."""
    for what, given in (("target", target), ("control", control)):
        if given is not None:
            raise ValueError(
                f"{what}={given!r} is not valid: {name} has no column of targets beside its wells; leave it out."
            )


def _target_column(
    sheet: LayoutSheet, columns: _Columns, rows: Sequence[int], target: str | None, control: str | None
) -> int:
    """The column that has the given names or, where none is given, the first that tells rows apart."""
    texts = {column: {sheet.cell(row, column) for row in rows} for column in columns.targets}
    given = {name.casefold() for name in (target, control) if name is not None} - {NO_CONTROL}
    for column, seen in texts.items():
        if given and given <= {text.casefold() for text in seen}:
            return column
    return next((column for column, seen in texts.items() if len(seen) > 1), columns.targets[0])


def _known_target(
    sheet: LayoutSheet, column: int, named: Mapping[str, Sequence[int]], what: str, given: str | None
) -> str | None:
    """A target as the file writes it."""
    if given is None:
        return None
    for name in named:
        if name.casefold() == given.casefold():
            return name
    has = in_one_phrase([repr(name) for name in named], most=NAMED)
    raise ValueError(f"{what}={given!r} is not valid: column {column + 1} of {sheet.grid.name} has {has}; give one.")


# Wells: grouped by plate and pool, read, and joined where a pool has several.


def _well(sheet: LayoutSheet, columns: _Columns, row: int, one_set: bool) -> _Well:
    plate = "" if columns.plate is None else sheet.cell(row, columns.plate)
    if columns.plate is not None and not plate:
        raise ValueError(f"{sheet.grid.place(row, columns.plate)} is empty; name the plate of every row.")
    text = "" if columns.well is None else sheet.cell(row, columns.well)
    position, name = plates.well(text) or text, _name(sheet, columns, row)
    return _Well(row, "", name, f"{plate} {position}".strip()) if one_set else _Well(row, plate, name, position)


def _grouped(sheet: LayoutSheet, wells: Sequence[_Well]) -> dict[tuple[str, str], list[_Well]]:
    """The wells of each plate and pool; a well that occurs twice is refused."""
    groups: dict[tuple[str, str], list[_Well]] = {}
    at: dict[tuple[str, str], _Well] = {}
    for well in wells:
        key = (well.plate, well.position)
        if well.position and key in at:
            raise ValueError(
                f"{sheet.grid.name}: rows {at[key].row + 1} and {well.row + 1} are both for well {well.position}"
                f"{_of(well.plate)}; delete one, or add a column 'Plate' that tells them apart."
            )
        at[key] = well
        groups.setdefault((well.plate, well.pool), []).append(well)
    return groups


def refuse_absent_pools(sheet: LayoutSheet, groups: _Group) -> None:
    """Raise a ValueError for pools without a well, on any plate."""
    for plate in dict.fromkeys(plate for plate, _ in groups):
        absent = [pool for pool in sheet.pools if (plate, pool) not in groups]
        if absent:
            raise ValueError(
                f"{sheet.grid.name}: has no well{_of(plate)} for {_pools(absent)}; add a row for each, with an empty "
                "value if it was not measured."
            )


def _pools(names: Sequence[str]) -> str:
    return f"pool{'s' if len(names) > 1 else ''} {in_one_phrase(map(repr, names), most=NAMED)}"


def _read(sheet: LayoutSheet, groups: _Group, column: int, noise: Noise) -> tuple[dict[int, float], tuple[str, ...]]:
    """The value of each well's row, NaN where it was not measured, and notes on how cells were read."""
    pool_at = {pool: number for number, pool in enumerate(sheet.pools)}
    # The rows of the file, in a line for each replicate, so that each pool has its place.
    lines: list[list[int | None]] = []
    for plate in dict.fromkeys(plate for plate, _ in groups):
        own = {pool: wells for (of, pool), wells in groups.items() if of == plate}
        for place in range(max(map(len, own.values()))):
            line: list[int | None] = [None] * len(sheet.pools)
            for pool, wells in own.items():
                line[pool_at[pool]] = wells[place].row if place < len(wells) else None
            lines.append(line)

    def row_of(i: int, pool: int) -> str:
        row = lines[i][pool]
        assert row is not None  # an empty cell is never refused
        return sheet.grid.place(row, column)

    texts = [["" if row is None else sheet.cell(row, column) for row in line] for line in lines]
    values, notes = read_reports(texts, noise, row_of)
    return {
        row: value
        for line, found in zip(lines, values, strict=True)
        for row, value in zip(line, found, strict=True)
        if row is not None
    }, notes


def _failed(
    sheet: LayoutSheet,
    columns: _Columns,
    groups: _Group,
    values: Mapping[int, float],
    controls: frozenset[int],
    wells: Sequence[_Well],
    noise: Noise,
    name: str | None,
) -> tuple[frozenset[int], list[str]]:
    """The rows of wells whose control did not amplify, and a note on their pools."""
    if name is None:
        return frozenset(), []
    found = detector(noise_of(noise, 0))
    assert found is not None
    checks = _grouped(sheet, [well for well in wells if well.row in controls])
    if lacking := [pool for plate, pool in groups if (plate, pool) not in checks]:
        raise ValueError(
            f"{sheet.grid.name}: the control {name!r} has no well for {_pools(lacking)}; add its rows, or leave "
            "--control out."
        )
    cycles, _ = _read(sheet, checks, columns.value, noise)
    failed: dict[int, _Well] = {}
    for key, some in groups.items():
        for well in some:
            own = [check for check in checks[key] if check.position and check.position == well.position]
            if any(cycles[check.row] == found.nothing or math.isnan(cycles[check.row]) for check in own or checks[key]):
                failed[well.row] = well
    for plate in dict.fromkeys(plate for plate, _ in groups):
        if all(well.row in failed for (of, _), some in groups.items() if of == plate for well in some):
            raise ValueError(
                f"{sheet.grid.name}: the control {name!r} amplified in no well{_of(plate)}, so the reactions failed; "
                "test the plate again, or give another --control."
            )
    return frozenset(failed), _failures_said(failed, values, found, name)


def _failures_said(failed: Mapping[int, _Well], values: Mapping[int, float], found: Detector, name: str) -> list[str]:
    if not failed:
        return [f"The control {quoted(name)} amplified in every well."]
    detected = [row for row in failed if not math.isnan(values[row]) and values[row] != found.nothing]
    pools = in_one_phrase([_label(well) for well in failed.values()], most=NAMED)
    also = f" In {len(detected):,} of them the target amplified." if detected else ""
    return [
        f"The control {quoted(name)} did not amplify in {many(len(failed), 'well')}, taken as not measured: {pools}."
        f"{also}"
    ]


def _label(well: _Well) -> str:
    return quoted(well.pool) + (f" of {quoted(well.plate)}" if well.plate else "")


def _means(
    sheet: LayoutSheet, columns: _Columns, groups: _Group, values: Mapping[int, float], found: Detector
) -> tuple[dict[tuple[str, str], float], list[str]]:
    """What each plate's pools report, the mean of their wells, and notes on replicates."""
    means: dict[tuple[str, str], float] = {}
    several, partly = [], []
    trouble: list[tuple[_Well, str]] = []
    for key, wells in groups.items():
        rows = [well.row for well in wells if not math.isnan(values[well.row])]
        means[key] = _mean([values[row] for row in rows])
        if len(rows) > 1:
            several.append(key)
        if 0 < len(rows) < len(wells):
            partly.append(_label(wells[0]))
        if why := _disagreement(sheet, columns, rows, values, found):
            trouble.append((wells[0], why))
    if trouble:
        well, why = trouble[0]
        more = len(trouble) - 1
        also = f" {many(more, 'other pool')} {'have' if more > 1 else 'has'} such wells." if more else ""
        raise ValueError(f"{why} for {_pools([well.pool])}{_of(well.plate)}; {_KEEP}.{also}")
    notes = []
    if several:
        notes.append(
            f"{many(len(several), 'pool')} {'are means' if len(several) > 1 else 'is the mean'} of replicates."
        )
    if partly:
        notes.append(
            f"Replicates that were not measured are left out of the means of {in_one_phrase(partly, most=NAMED)}."
        )
    return means, notes


_KEEP = "keep the row that is right, or test the pool again and leave its cells empty until then"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def _disagreement(
    sheet: LayoutSheet, columns: _Columns, rows: Sequence[int], values: Mapping[int, float], found: Detector
) -> str:
    """Why wells of one pool are not replicates of one measurement; empty where they are."""
    if len(rows) < 2:
        return ""
    low, high = min(rows, key=lambda row: values[row]), max(rows, key=lambda row: values[row])
    nothing = [values[row] == found.nothing for row in rows]
    if any(nothing):
        why = "" if all(nothing) else "so that one well amplified and the other did not"
    elif found.cycles:
        why = f"which differ by more than {APART:g} cycle" if values[high] - values[low] > APART else ""
    else:
        why = "which differ by more than a factor of two" if values[high] > 2.0**APART * values[low] > 0 else ""
    first, last = sorted((low, high))
    texts = [sheet.cell(row, columns.value) for row in (first, last)]
    place = sheet.grid.place(first, columns.value)
    return f"{place} holds {texts[0]!r} and row {last + 1} holds {texts[1]!r}, {why}," if why else ""


def _listed(names: Iterable[str]) -> str:
    return in_one_phrase(map(quoted, dict.fromkeys(names)), most=NAMED)
