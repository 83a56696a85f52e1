"""Statuses in CSV files: read them and match their rows and columns by name."""

from collections.abc import Sequence
from pathlib import Path

import torch
from jaxtyping import Float64, UInt8
from torch import Tensor

from qgt.files import tables
from qgt.model.design import Design


def read_calls(
    path: str | Path, design: Design, instances: Sequence[str] | int, owner: str
) -> Float64[Tensor, "instances items"]:
    """The calls of a file, rows in the order of the instances and columns in the design's; NaN where one is empty."""
    sheet = tables.read_table(path, columns=design.item_names, missing=True)
    rows = _order("instance", path, sheet, instances, owner)
    columns = _order("item", path, sheet, design.item_names, "the design")
    values = torch.tensor(sheet.values, dtype=torch.float64)  # (instances, items)
    for row, column in (~values.isnan() & (values != 0) & (values != 1)).nonzero()[:1].tolist():
        place = sheet.place(row, column)
        raise ValueError(f"{path}: {place} holds {sheet.values[row][column]:g}; write 0, 1 or nothing.")
    return values[rows][:, columns]


def read_pair(
    truth: str | Path, calls: str | Path
) -> tuple[UInt8[Tensor, "instances items"], UInt8[Tensor, "instances items"]]:
    """The statuses of two files, the second's rows and columns put in the first's order."""
    true = tables.read_table(truth)
    called = tables.read_table(calls, columns=true.column_names or ())
    rows = _order("instance", calls, called, true.row_names or len(true.values), str(truth))
    columns = _order("item", calls, called, true.column_names or len(true.values[0]), str(truth))
    return _statuses(truth, true), _statuses(calls, called)[rows][:, columns]


def _order(kind: str, path: str | Path, sheet: tables.Table, wanted: Sequence[str] | int, owner: str) -> list[int]:
    """Where each wanted pool, item or instance stands in a file: by name if both sides have names, else by number."""
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


def _statuses(path: str | Path, sheet: tables.Table) -> Tensor:
    values = torch.tensor(sheet.values, dtype=torch.float64)  # (instances, items)
    for row, column in ((values != 0) & (values != 1)).nonzero()[:1].tolist():
        raise ValueError(f"{path}: {sheet.place(row, column)} holds {sheet.values[row][column]:g}; write 0 or 1.")
    return values.to(torch.uint8)
