"""What a decoded sheet leaves behind: the files that a person keeps, prints or sends on, all made from one account."""

import dataclasses
import json
import tempfile
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from qgt.decoders.certificate_file import write_certificate
from qgt.decoders.results import Status
from qgt.files.workbooks import Row, write_workbook
from qgt.lab import reports
from qgt.lab.accounts import Account
from qgt.lab.decoding import DecodedSheet
from qgt.lab.report_pages import sheet_page

HTML, CALLS, REPORT, XLSX, JSON, PROOFS = (
    *("report.html", "calls.csv", "report.csv", "report.xlsx", "results.json"),
    "proofs.safetensors",
)


def products(sheet: DecodedSheet, *, title: str, decoder: str, facts: Mapping[str, object]) -> dict[str, bytes]:
    """The files of a decoded sheet by their names: a page, tables, plain data and, where there are any, proofs.

    Args:
        sheet: What was decoded.
        title: The page's title.
        decoder: The decoder's name.
        facts: What stands at the foot of the page: files, versions, the design's name.

    Example:
        >>> import torch, qgt
        >>> from qgt.lab.decoding import decode_sheet
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.05))
        >>> y = torch.tensor([[0.0, 1.0]], dtype=torch.float64)
        >>> sheet = decode_sheet(problem, y, ["a"], qgt.Certified(), calibrate=None)
        >>> made = products(sheet, title="Monday", decoder="certified", facts={})
        >>> made["calls.csv"]
        b'instance,I1,I2,I3\\na,0,0,1\\n'
    """
    made = account_products(sheet.accounts, sheet.problem.design.item_names, sheet_facts(sheet, decoder))
    made[HTML] = sheet_page(sheet, title=title, facts=facts).encode()
    if sheet.result.proof is not None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / PROOFS
            write_certificate(path, problem=sheet.problem, y=sheet.y, result=sheet.result)
            made[PROOFS] = path.read_bytes()
    return made


def account_products(made: Sequence[Account], items: Sequence[str], facts: Mapping[str, object]) -> dict[str, bytes]:
    """The tables of accounts, and everything as JSON: what there is also of several rounds.

    Args:
        made: The accounts.
        items: The names of all items.
        facts: What the JSON file holds.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        reports.write_calls(folder / CALLS, made, items)
        reports.write_report(folder / REPORT, made)
        if find_spec("openpyxl") is not None:
            write_workbook(folder / XLSX, {"report": _report(made), "calls": _calls(made, items)})
        found = {path.name: path.read_bytes() for path in folder.iterdir()}
    return {**found, JSON: json.dumps(facts, allow_nan=False, indent=1).encode()}


def sheet_facts(sheet: DecodedSheet, decoder: str) -> dict[str, object]:
    """A decoded sheet as plain data, for JSON."""
    status = sheet.result.status
    return {
        "decoder": decoder,
        "instances": len(sheet.accounts),
        "mean_defectives_called": sum(len(one.defective) for one in sheet.accounts) / len(sheet.accounts),
        "status": {one.name: int((status == one).sum()) for one in Status},
        "fingerprint": sheet.problem.fingerprint,
        "file_fit": None if sheet.fit is None else dataclasses.asdict(sheet.fit),
        "causes": [dataclasses.asdict(cause) for cause in sheet.causes],
        "results": [one.plain for one in sheet.accounts],
    }


def _report(made: Sequence[Account]) -> list[Row]:
    return [reports.COLUMNS, *map(reports.report_row, made)]


def _calls(made: Sequence[Account], items: Sequence[str]) -> list[Row]:
    """One row for each item and one column for each instance: spreadsheets are longer than they are wide."""
    calls = [{**dict.fromkeys(one.defective, 1), **dict.fromkeys(one.undecided, None)} for one in made]
    rows: list[Row] = [["item", *(one.name for one in made)]]
    rows += [[item, *(call.get(item, 0) for call in calls)] for item in items]
    return rows
