"""The plan folder: everything between a plan and the counts, written once, and read back for decoding.

    README.txt            what to do, in words
    pooling_sheet.html    to print: by sample, by pool, maps of the plates
    worklists/            the transfers for robots, one file or more for each format
    counts.csv, .xlsx     to fill in: one line for each pool
    samples.csv           the samples and where they stand
    design.csv            which sample is in which pool
    problem.toml          the design, the prior and the noise, for `qgt decode`
    plan.json             the question, the candidates and the seed
    candidates.svg        the candidates as a figure

A folder is never written over: its sheets may have been printed, and its pools made. Every page and file shows the
design's name and check code, in it or in its name; a folder whose design no longer has its code is refused.
"""

import csv
import json
import secrets
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from qgt.files import codec, documents
from qgt.files.grids import write_workbook
from qgt.files.tables import escape
from qgt.lab.naming import check_code, label, short_name
from qgt.lab.plan_words import household_words, plan_picture, plan_words
from qgt.lab.planning import Plan
from qgt.lab.pooling_sheets import pooling_sheet
from qgt.lab.samples import Samples
from qgt.lab.scouting import decoder_name
from qgt.lab.worklists.formats import worklist_files
from qgt.lab.worklists.moves import moves_of, pool_places
from qgt.model.design import Design
from qgt.model.problem import Problem
from qgt.version import __version__

BLANK = ("pool", "pool plate", "well", "samples", "count")  # the header of the sheet to fill in


@dataclass(frozen=True, eq=False)
class PlanFolder:
    """What a plan folder holds.

    Example:
        >>> import qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["11"], item_names=["S1", "S2"]), qgt.Bernoulli(0.1))
        >>> PlanFolder(Path("plan"), "calm-owl", "234567", problem, qgt.Samples.numbered(2), 10.0).samples.wells
        ('A1', 'B1')
    """

    path: Path
    name: str  # the design's short name
    code: str  # its check code
    problem: Problem
    samples: Samples
    volume: float  # microlitres of each transfer


def write_plan(plan: Plan, folder: str | Path, *, volume: float = 10.0) -> PlanFolder:
    """Write a plan into a new folder, whole or not at all.

    Args:
        plan: The plan.
        folder: The folder, which must not be there yet, or be empty.
        volume: Microlitres of each transfer.

    Example:
        >>> import tempfile, torch, qgt
        >>> question = qgt.Question(qgt.Samples.numbered(12), (0, 1), certainty=0.8)
        >>> made = qgt.plan(question, generator=torch.Generator().manual_seed(0), seconds=0.5)
        >>> with tempfile.TemporaryDirectory() as here:
        ...     folder = write_plan(made, Path(here) / "plan")
        ...     read_plan(folder.path).code == folder.code, (folder.path / "pooling_sheet.html").exists()
        (True, True)
    """
    target = Path(folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ValueError(f"{target}: is there already, and its pools may have been made; give another folder.")
    part = target.absolute().with_name(f".{target.absolute().name}.{secrets.token_hex(4)}")
    try:
        part.mkdir(parents=True)
        _write(plan, part, volume)
        if target.exists():
            target.rmdir()
        part.rename(target)
    except OSError as error:
        raise ValueError(f"{target}: cannot be written ({error.strerror}); give another folder.") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return read_plan(target)


def read_plan(folder: str | Path) -> PlanFolder:
    """Read what `write_plan` wrote; raise a ValueError where the design, the prior or the noise has changed since.

    Example:
        >>> read_plan("nowhere")
        Traceback (most recent call last):
        ValueError: nowhere/problem.toml: cannot be read (No such file or directory); check the path.
    """
    path = Path(folder)
    problem = Problem.load(path / "problem.toml")
    samples = Samples.read(path / "samples.csv")
    stored = documents.load(path / "plan.json", "plan", lambda plain: codec.as_table("plan", plain))
    code, volume = codec.typed("code", stored.get("code"), str), codec.typed("volume", stored.get("volume"), float)
    if check_code(problem.design) != code or problem.design.item_names != samples.names:
        raise ValueError(
            f"{path}: its design has check code {check_code(problem.design)}, but the plan was made with {code}; "
            "design.csv or samples.csv has been changed: bring back the files as they were."
        )
    if problem.fingerprint != codec.typed("fingerprint", stored.get("fingerprint"), str):
        raise ValueError(
            f"{path}: its problem.toml is not the one that the plan was made with; bring it back as it was. To decode "
            "with another prior or noise, put problem.toml and design.csv into a folder of their own."
        )
    return PlanFolder(path, short_name(problem.design), code, problem, samples, volume)


def blank_counts(design: Design) -> list[list[str | int | None]]:
    """The rows of a sheet of counts to fill in: a remark, a header, and a line for each pool.

    Example:
        >>> from qgt import Design
        >>> blank_counts(Design.from_rows(["110", "011"]))[1:3]
        [['pool', 'pool plate', 'well', 'samples', 'count'], ['P1', 'Pools 1', 'A1', 2, None]]
    """
    rows: list[list[str | int | None]] = [[f"# {label(design)}"], list(BLANK)]
    places = pool_places(design.pools)
    for name, (plate, well), size in zip(design.pool_names, places, design.pool_sizes.tolist(), strict=True):
        rows.append([name, plate, well, size, None])
    return rows


def _write(plan: Plan, folder: Path, volume: float) -> None:
    problem, samples = plan.problem, plan.question.samples
    design = problem.design
    design.write_csv(folder / "design.csv", form="lists")
    spec = {**problem.spec, "design": {"file": "design.csv"}}
    documents.save(folder / "problem.toml", spec)
    samples.write(folder / "samples.csv", remark=label(design))
    sheet = pooling_sheet(design, samples, volume, notes=household_words(plan.question))
    (folder / "pooling_sheet.html").write_text(sheet, encoding="utf-8")
    (folder / "worklists").mkdir()
    for name, text in worklist_files(moves_of(design, samples, volume)).items():
        (folder / "worklists" / name).write_bytes(text.encode())  # line ends are the robot's
    rows = blank_counts(design)
    _write_rows(folder / "counts.csv", rows)
    _write_workbook(folder / "counts.xlsx", rows)
    plan_picture(plan).savefig(folder / "candidates.svg")
    (folder / "plan.json").write_text(json.dumps(_plain(plan, volume), indent=1) + "\n", encoding="utf-8")
    (folder / "README.txt").write_text(_readme(plan), encoding="utf-8")


def _write_rows(path: Path, rows: Sequence[Sequence[str | int | None]]) -> None:
    width = max(map(len, rows))
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        for row in rows:
            cells = [escape(cell) if isinstance(cell, str) else cell for cell in row]
            writer.writerow([*cells, *[None] * (width - len(row))])


def _write_workbook(path: Path, rows: Sequence[Sequence[str | int | None]]) -> None:
    try:
        import openpyxl  # noqa: F401 - asked for by its absence
    except ImportError:
        return  # counts.csv does as well; the README names what is there
    write_workbook(path, {"counts": rows})


def _plain(plan: Plan, volume: float) -> dict[str, object]:
    question, problem = plan.question, plan.problem
    rates = question.household_rates
    return {
        "name": short_name(problem.design),
        "code": check_code(problem.design),
        "volume": float(volume),
        "seed": plan.seed,
        "reached": plan.reached,
        "question": {
            "samples": len(question.samples),
            "positives": list(question.positives),
            "assay": problem.spec["noise"],
            "certainty": question.certainty,
            "most_pools": question.most_pools,
            "largest_pool": question.largest_pool,
            "most_transfers": question.most_transfers,
            "follow_ups": question.follow_ups,
            **({} if rates is None else {"attack_rate": rates[0], "background": rates[1]}),
        },
        "candidates": [
            {
                "pools": one.pools,
                "weight": one.weight,
                "households_together": one.together,
                "transfers": one.transfers,
                "largest_pool": one.largest_pool,
                "plates": one.plates,
                "successes": one.successes,
                "interval": [round(end, 6) for end in one.interval],
                "follow_ups": round(one.follow_ups, 6),
                "tests_saved": round(one.tests_saved, 6),
                "entropy_bound": round(one.entropy_bound, 6),
                "recommended": one is plan.recommended,
            }
            for one in plan.candidates
        ],
        "today": [
            {
                "scheme": one.name,
                "pools": one.pools,
                "largest_pool": one.largest_pool,
                "plates": one.plates,
                "successes": one.successes,
                "interval": [round(end, 6) for end in one.interval],
                "follow_ups": round(one.follow_ups, 6),
                "tests_saved": round(len(question.samples) - one.tests, 6),
            }
            for one in plan.classical
        ],
        "fingerprint": problem.fingerprint,
        "version": f"qgt {__version__}",
    }


def _readme(plan: Plan) -> str:
    name = decoder_name(plan.problem)
    decoder = "" if name == "certified" else f" --decoder {name}"
    steps = [
        "1. Print pooling_sheet.html (A4, landscape), or give your robot its file from the folder worklists.",
        "2. Make the pools. Check each pool's number of samples and its volume against the sheet.",
        "3. Write each pool's count into counts.csv or counts.xlsx. Leave the cell of a failed pool empty; do not "
        "write 0.",
        f"4. Decode in this folder:  qgt decode counts.csv --problem .{decoder}",
        "   Add  -o calls.csv --report report.csv --html report.html  for files to keep.",
    ]
    if plan.question.follow_ups:
        steps.append("5. Where a plate is unsure, test the samples that it names again, alone.")
    words = plan_words(plan)
    return "\n".join([words[0], "", *words[1:], "", *steps, ""])
