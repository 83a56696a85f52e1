"""What a decoded sheet leaves behind: the files that a person keeps, prints or sends on, all made from one account."""

import dataclasses
import json
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from qgt.decoders.certified.certificate_file import write_certificate
from qgt.decoders.results import Status
from qgt.files.workbooks import Row, write_workbook
from qgt.lab import reports
from qgt.lab.decoding import DecodedSheet

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
    made = {
        HTML: reports.sheet_page(sheet, title=title, facts=facts).encode(),
        JSON: json.dumps(sheet_facts(sheet, decoder), allow_nan=False, indent=1).encode(),
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        reports.write_calls(folder / CALLS, sheet.accounts, sheet.problem.design.item_names)
        reports.write_report(folder / REPORT, sheet.accounts)
        if sheet.result.proof is not None:
            write_certificate(folder / PROOFS, problem=sheet.problem, y=sheet.y, result=sheet.result)
        if find_spec("openpyxl") is not None:
            write_workbook(folder / XLSX, {"report": _report(sheet), "calls": _calls(sheet)})
        made |= {path.name: path.read_bytes() for path in folder.iterdir()}
    return dict(sorted(made.items()))


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


def _report(sheet: DecodedSheet) -> list[Row]:
    return [reports.COLUMNS, *map(reports.report_row, sheet.accounts)]


def _calls(sheet: DecodedSheet) -> list[Row]:
    """One row for each item and one column for each instance: spreadsheets are longer than they are wide."""
    calls = [{**dict.fromkeys(one.defective, 1), **dict.fromkeys(one.undecided, None)} for one in sheet.accounts]
    rows: list[Row] = [["item", *(one.name for one in sheet.accounts)]]
    rows += [[item, *(call.get(item, 0) for call in calls)] for item in sheet.problem.design.item_names]
    return rows
