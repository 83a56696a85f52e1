"""What a decoded sheet leaves behind: the files that a person keeps, prints or sends on, all made from one account."""

import dataclasses
import json
import tempfile
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from qgt.decoders.certificate_file import write_certificate
from qgt.decoders.results import Status
from qgt.files.grids import WorkbookRow, write_workbook
from qgt.lab import reports
from qgt.lab.accounts import Account
from qgt.lab.decoding import DecodedSheet
from qgt.lab.naming import check_code
from qgt.lab.report_pages import sheet_page
from qgt.lab.samples import Samples
from qgt.lab.verdicts import Call
from qgt.model.design import Design

HTML, CALLS, BY_SAMPLE, REPORT, XLSX, JSON, PROOFS = (
    *("report.html", "calls.csv", "calls_by_sample.csv", "report.csv", "report.xlsx", "results.json"),
    "proofs.safetensors",
)


def products(
    sheet: DecodedSheet,
    *,
    title: str,
    decoder: str,
    facts: Mapping[str, object],
    samples: Samples | None = None,
) -> dict[str, bytes]:
    """The files of a decoded sheet by their names: a page, tables, plain data and, where there are any, proofs.

    Args:
        sheet: What was decoded.
        title: The page's title.
        decoder: The decoder's name.
        facts: What stands at the foot of the page: files, versions.
        samples: Where the samples stand, if that is known.

    Example:
        >>> import torch, qgt
        >>> from qgt.lab.decoding import decode_sheet
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.05))
        >>> y = torch.tensor([[0.0, 1.0]], dtype=torch.float64)
        >>> sheet = decode_sheet(problem, y, ["a"], qgt.Certified(), calibrate=None)
        >>> made = products(sheet, title="Monday", decoder="certified", facts={})
        >>> made["calls.csv"]
        b'plate,I1,I2,I3\\na,0,0,1\\n'
    """
    made = account_products(sheet.accounts, sheet.problem.design, sheet_facts(sheet, decoder), samples)
    made[HTML] = sheet_page(sheet, title=title, facts=facts, samples=samples).encode()
    if sheet.result.proof is not None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / PROOFS
            write_certificate(path, problem=sheet.problem, y=sheet.y, result=sheet.result)
            made[PROOFS] = path.read_bytes()
    return made


def account_products(
    made: Sequence[Account], design: Design, facts: Mapping[str, object], samples: Samples | None = None
) -> dict[str, bytes]:
    """The tables of accounts, and everything as JSON: what there is also of several rounds.

    Args:
        made: The accounts.
        design: The design of the first round.
        facts: What the JSON file holds.
        samples: Where the samples stand, if that is known.
    """
    lines = list(reports.sample_rows(made, check_code(design), None if samples is None else samples.places))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        reports.write_calls(folder / CALLS, made, design.item_names)
        reports.write_samples(folder / BY_SAMPLE, lines)
        reports.write_report(folder / REPORT, made)
        if find_spec("openpyxl") is not None:
            sheets: dict[str, Sequence[WorkbookRow]] = {
                "report": _report(made),
                "samples": [reports.SAMPLE_COLUMNS, *lines],
                "calls": _calls(made),
            }
            write_workbook(folder / XLSX, sheets)
        found = {path.name: path.read_bytes() for path in folder.iterdir()}
    return {**found, JSON: json.dumps(facts, allow_nan=False, indent=1).encode()}


def sheet_facts(sheet: DecodedSheet, decoder: str) -> dict[str, object]:
    """A decoded sheet as plain data, for JSON."""
    status = sheet.result.status
    return {
        "decoder": decoder,
        "instances": len(sheet.accounts),
        "check_code": check_code(sheet.problem.design),
        "called": {word.value: sum(len(one.called(word)) for one in sheet.accounts) for word in Call},
        "status": {one.name: int((status == one).sum()) for one in Status},
        "fingerprint": sheet.problem.fingerprint,
        "file_fit": None if sheet.fit is None else dataclasses.asdict(sheet.fit),
        "causes": [dataclasses.asdict(cause) for cause in sheet.causes],
        "results": [one.plain for one in sheet.accounts],
    }


def _report(made: Sequence[Account]) -> list[WorkbookRow]:
    return [reports.COLUMNS, *map(reports.report_row, made)]


def _calls(made: Sequence[Account]) -> list[WorkbookRow]:
    """One row for each sample and one column for each instance: spreadsheets are longer than they are wide."""
    rows: list[WorkbookRow] = [["sample", *(one.name for one in made)]]
    for line in zip(*(one.calls for one in made), strict=True):
        rows.append([line[0].sample, *(int(each.call.cell) if each.call.cell else None for each in line)])
    return rows
