"""Sheets of counts as people spoil them: each is read right or refused by its place; no wrong value is ever taken.

A case is a design, its true counts and the bytes of a sheet in a random layout, after a random change. Each change says
what may be read afterwards: the same counts, the same with a missing one, or nothing at all.
"""

import datetime
import io
import math
import re
from dataclasses import dataclass, field
from random import Random

from qgt import Design
from qgt.lab.sheets.counts import read_counts
from qgt.lab.sheets.names import ALPHABET, label

Rows = list[list[object]]
PLACE = re.compile(r"row \d+|rows \d+|column \d+|columns \d+|sheet '|is empty|no numbers|has no (row|column) for pool")


@dataclass
class Case:
    """A sheet and what reading it may give."""

    design: Design
    y: list[list[float]]  # (instances, pools)
    rows: Rows
    layout: str
    head: int  # rows above the first count
    values: list[tuple[int, int, int, int]]  # of each count: row, column, instance, pool
    kind: str = "csv"
    separator: str = ","
    commas: bool = False
    names: list[str] = field(default_factory=list)
    change: str = "none"
    readable: bool = True  # whether any reading is right
    gone: set[tuple[int, int]] = field(default_factory=set)  # counts that may be missing: instance and pool
    data: bytes = b""


def random_case(seed: int) -> Case:
    random = Random(seed)
    pools = random.choice([2, 3, 5, 8, 13, 24, 40])
    names = random.choice(
        [
            [f"P{i}" for i in range(1, pools + 1)],
            [f"Pool {i:03d}" for i in range(pools)],
            [f"{i:04d}" for i in range(pools)],
            [str(i) for i in range(1, pools + 1)],
            [f"=x{i}" for i in range(pools)],
        ]
    )
    items = max(3, pools // 2)
    matrix = ["".join(random.choice("01") for _ in range(items)) for _ in range(pools)]
    design = Design.from_rows(matrix, names)
    instances = random.choice([1, 1, 2, 4])
    real = random.random() < 0.3
    y = [
        [round(random.uniform(-1, 9), 2) if real else float(random.randint(-1, 12)) for _ in names]
        for _ in range(instances)
    ]
    layout = random.choice(["wide", "long", "tidy", "plate"])
    case = _laid_out(random, design, y, layout)
    case.kind = random.choice(["csv", "csv", "xlsx"])
    case.separator = random.choice([",", ";", "\t"])
    case.commas = case.kind == "csv" and case.separator != "," and random.random() < 0.5
    if random.random() < 0.6:
        random.choice(CHANGES)(random, case)
    case.data = _rendered(random, case)
    return case


def _laid_out(random: Random, design: Design, y: list[list[float]], layout: str) -> Case:
    names, runs = list(design.pool_names), [f"run {i + 1}" for i in range(len(y))]
    order = random.sample(range(len(names)), len(names))
    values: list[tuple[int, int, int, int]] = []
    rows: Rows
    if layout == "wide":
        rows = [[random.choice(["instance", "sample", ""]), *(names[j] for j in order)]]
        for i, run in enumerate(runs):
            rows.append([run, *(y[i][j] for j in order)])
            values += [(i + 1, place + 1, i, j) for place, j in enumerate(order)]
    elif layout == "long":
        single = ["count"] if len(y) == 1 else runs
        rows = [["pool", *single]]
        for place, j in enumerate(order):
            rows.append([names[j], *(y[i][j] for i in range(len(y)))])
            values += [(place + 1, i + 1, i, j) for i in range(len(y))]
    elif layout == "tidy":
        rows = [["plate", "pool", "count"]]
        for i, run in enumerate(runs):
            for j in order:
                values.append((len(rows), 2, i, j))
                rows.append([run, names[j], y[i][j]])
    else:
        rows = []
        for i, run in enumerate(runs):
            top = len(rows)
            rows.append([run, *range(1, 13)])
            rows += [[letter, *[""] * 12] for letter in "ABCDEFGH"]
            for j in range(len(names)):
                rows[top + 1 + j % 8][1 + j // 8] = y[i][j]
                values.append((top + 1 + j % 8, 1 + j // 8, i, j))
            rows.append([""] * 13)
    return Case(design, y, rows, layout, 1, values, names=names)


# --- changes ----------------------------------------------------------------------------------------------------------


def blank_cell(random, case):
    row, column, i, j = random.choice(case.values)
    case.rows[row][column] = random.choice(["", "NA", "nan", "n/a"])
    case.gone.add((i, j))


def spoiled_cell(random, case):
    row, column, _, _ = random.choice(case.values)
    value = case.rows[row][column]
    spoiled = [
        "{}?",
        "<{}",
        "{} pos",
        "1.000.000",
        "1'000",
        "O",
        "l",
        "inf",
        "1e999",
        "--3",
        "+-1",
        "3 4",
        "#N/A",
        "#REF!",
        "TRUE",
        "2-Mar",
        "1/2",
        "1,000.5",
        "½",
        "٣",
        "1_0",
        "0x1F",
        "ND",
        "neg",
        "-",
        "*",
        "{}*",
        "10%",
        "3;4",
        "1,234,567",
    ]
    case.rows[row][column] = random.choice(spoiled).format(value)
    case.readable = False


def dated_cell(random, case):
    row, column, _, _ = random.choice(case.values)
    case.rows[row][column] = datetime.date(2026, random.randint(1, 12), 3) if case.kind == "xlsx" else "2026-03-02"
    case.readable = False


def lone_formula(random, case):
    row, column, _, _ = random.choice(case.values)
    case.rows[row][column] = "=SUM(A1:A2)"
    case.readable = False


def renamed_pool(random, case):
    if case.layout == "plate":
        return
    old = random.choice(case.names)
    new = random.choice(
        ["PX", old + "x", old.lower() + " ", "", "1.2E+13", "02-Mar", old + ".0" if old.isdigit() else "?"]
    )
    if new.strip() == old or new.strip() in case.names:
        return
    _replace_name(case, old, new, once=case.layout == "tidy")
    case.readable = False


def lost_zeros(random, case):
    if case.layout == "plate" or not any(name.startswith("0") for name in case.names):
        return
    for name in case.names:
        _replace_name(case, name, int(name))
    case.readable = False


def doubled_pool(random, case):
    if case.layout == "plate" or len(case.names) < 2:
        return
    old, new = random.sample(case.names, 2)
    _replace_name(case, old, new, once=case.layout == "tidy")
    case.readable = False


def _replace_name(case, old, new, once=False):
    where = [
        (r, c)
        for r, row in enumerate(case.rows)
        for c, cell in enumerate(row)
        if cell == old and not _is_value(case, r, c)
    ]
    for r, c in where[: 1 if once else None]:
        case.rows[r][c] = new


def _is_value(case, row, column):
    return any((row, column) == value[:2] for value in case.values)


def dropped_row(random, case):
    if case.layout == "wide":
        if len(case.y) < 2:
            return
        case.change = "dropped instance"
    row = random.choice(case.values)[0]
    if case.layout == "wide":  # a sheet without one of its instances is a right sheet of the others
        i = next(i for r, _, i, _ in case.values if r == row)
        del case.rows[row], case.y[i]
        return
    if case.layout == "plate":
        del case.rows[row]
    else:
        del case.rows[row]
    case.readable = False


def doubled_row(random, case):
    row = random.choice(case.values)[0]
    case.rows.insert(row, list(case.rows[row]))
    case.readable = False


def dropped_column(random, case):
    if case.layout == "tidy":
        return
    column = random.choice(case.values)[1]
    if case.layout == "long" and len(case.y) > 1:
        i = next(i for _, c, i, _ in case.values if c == column)
        for row in case.rows:
            del row[column]
        del case.y[i]
        return
    for row in case.rows:
        if column < len(row):
            del row[column]
    case.readable = False


def shifted_row(random, case):
    row = random.choice(case.values)[0]
    case.rows[row] = [*case.rows[row][:1], random.choice([0, 1, 7]), *case.rows[row][1:]]
    case.readable = False


def wrong_code(random, case):
    other = "".join(random.choice(ALPHABET) for _ in range(6))
    case.rows.insert(0, [f"# Design brisk-owl, check code {other}"])
    case.readable = False


def right_code(random, case):
    case.rows.insert(0, [f"# {label(case.design)}"])


def blank_rows(random, case):
    if case.layout != "plate":
        case.rows.insert(random.randint(1, len(case.rows)), [""] * len(case.rows[0]))
    case.rows += [[""] * len(case.rows[0])] * random.randint(0, 3)


def trailing_columns(random, case):
    for row in case.rows:
        row += [""] * 3


def stray_cell(random, case):
    case.rows[random.choice(case.values)[0]].append(random.choice([5, "x", "see note"]))
    case.readable = False


def emptied(random, case):
    for row, column, _, _ in case.values:
        case.rows[row][column] = ""
    case.readable = False


def mixed_marks(random, case):
    if len(case.values) < 2:
        return
    (r, c, _, _), (s, d, _, _) = random.sample(case.values, 2)
    case.kind, case.commas = "csv", False
    case.separator = random.choice([";", "\t"])
    case.rows[r][c], case.rows[s][d] = "1,5", "2.5"
    case.readable = False


def grouped_digits(random, case):
    row, column, _, _ = random.choice(case.values)
    case.rows[row][column] = random.choice(["1,000", "12,000", "1.000,5"])
    case.readable = False


def titled(random, case):
    """Titles above the table, as laboratories write them; names that are numbers are looked for in row 1 alone."""
    case.rows[:0] = [
        [random.choice(["Screening KW 46", "Gerät 7", "Lauf: Montag"])] for _ in range(random.randint(1, 3))
    ]
    if any(name.isdigit() for name in case.names) and case.layout != "plate":
        case.readable = False


def remarked(random, case):
    """A column of remarks beside the counts, with a header of its own."""
    if case.layout == "plate":
        return
    head = random.choice(["Kommentar", "Operator", "what we saw"])
    for row in case.rows:
        row.append(head if row is case.rows[0] else random.choice(["Ann", "see note"]))


def stray_pool(random, case):
    """One more column of numbers: of a pool that the design does not have, or of a second count."""
    if case.layout in ("plate", "long"):
        return
    head = random.choice(["P99", "repeat", "x"])
    for row in case.rows:
        row.append(head if row is case.rows[0] else random.choice([0, 1, 7]))
    case.readable = False


def with_controls(random, case):
    if case.layout not in ("long", "tidy"):
        return
    row = list(case.rows[1])
    row[1 if case.layout == "tidy" else 0] = random.choice(["NTC", "Positivkontrolle", "PC 1"])
    case.rows.insert(random.randint(1, len(case.rows)), row)


CHANGES = [
    blank_cell, spoiled_cell, spoiled_cell, spoiled_cell, dated_cell, lone_formula, renamed_pool, lost_zeros,
    doubled_pool, dropped_row, doubled_row, dropped_column, shifted_row, wrong_code, right_code, blank_rows,
    trailing_columns, stray_cell, emptied, mixed_marks, grouped_digits, titled, remarked, stray_pool, with_controls,
]  # fmt: skip


# --- files ------------------------------------------------------------------------------------------------------------


def _rendered(random: Random, case: Case) -> bytes:
    if case.kind == "xlsx":
        return _xlsx(case)
    end = random.choice(["\n", "\r\n"])
    lines = [case.separator.join(_cell(cell, case) for cell in row) for row in case.rows]
    text = end.join(lines) + random.choice(["", end, end * 2])
    if case.separator == "\t" and random.random() < 0.3:
        return text.encode(random.choice(["utf-16", "utf-16-le"]))
    if not text.isascii() and all(ord(character) < 256 for character in text) and random.random() < 0.5:
        return text.encode("cp1252")
    return text.encode(random.choice(["utf-8", "utf-8-sig"]))


def _cell(cell: object, case: Case) -> str:
    if isinstance(cell, float):
        text = str(int(cell)) if cell.is_integer() else str(cell)
        return text.replace(".", ",") if case.commas else text
    text = str(cell)
    if text.startswith("=x"):
        text = f"'{text}"
    return f'"{text}"' if any(mark in text for mark in (case.separator, '"', "\n")) else text


def _xlsx(case: Case) -> bytes:
    from openpyxl import Workbook

    book = Workbook()
    sheet = book.active
    for r, row in enumerate(case.rows, 1):
        for c, value in enumerate(row, 1):
            if value == "":
                continue
            cell = sheet.cell(r, c, value)
            if isinstance(value, str) and (value.startswith("=x") or value.startswith("#")):
                cell.data_type = "s"
    stream = io.BytesIO()
    book.save(stream)
    return stream.getvalue()


def judged(case: Case) -> str | None:
    """What is wrong with how a case was read; None where nothing is."""
    try:
        sheet = read_counts("counts", case.design, data=case.data)
    except ValueError as error:
        said = str(error)
        if not said.startswith("counts") or not (
            PLACE.search(said) or "XLSX" in said or "plates" in said or "name" in said
        ):
            return f"refused without a place: {said}"
        return None
    if not case.readable:
        return f"read what it should refuse: {sheet.y.tolist()}"
    found = sheet.y.tolist()
    if len(found) != len(case.y):
        return f"{len(found)} instances instead of {len(case.y)}"
    for i, (row, true) in enumerate(zip(found, case.y, strict=True)):
        for j, (value, wanted) in enumerate(zip(row, true, strict=True)):
            missing = math.isnan(value) and (i, j) in case.gone
            if not missing and ((i, j) in case.gone or value != wanted):
                return f"instance {i}, pool {j}: {value} instead of {wanted}"
    return None


def refused(case: Case) -> bool:
    """Whether a case is refused."""
    try:
        read_counts("counts", case.design, data=case.data)
    except ValueError:
        return True
    return False
