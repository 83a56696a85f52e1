"""Do all files and the page call every sample alike, and is nobody called negative who may be positive?

    python benchmarks/calls.py -o results/calls.json                     # 20 minutes of one core
    python benchmarks/calls.py --row "paper, 25 pools" --plates 50       # one row, to look at
    python benchmarks/calls.py --limits -o results/calls_limits.json     # below the threshold, with short time limits

Plates of each setting are simulated and decoded as `qgt decode` does. Every five plates make the files of a sheet, as
the page makes them: the calls as a matrix, a line for each sample, the report, the workbook, JSON, the HTML report, and
the page itself over HTTP. Each is read back by this script, and all calls are compared sample by sample.
"""

import argparse
import csv
import io
import json
import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

import qgt
from qgt.files import documents
from qgt.lab.answers.accounts import Account
from qgt.lab.answers.decoding import DecodedSheet, decode_sheet
from qgt.lab.answers.outputs import products, sheet_facts, verdict_counts
from qgt.lab.sheets.names import check_code, short_name
from qgt.lab.verdicts import Call
from setting import in_processes, paper_problem, provenance, write

TOGETHER = 5  # plates of one sheet of files: the HTML report lists every sample of so many
Calls = dict[tuple[str, str], str]  # by plate and sample: positive, negative, retest or none; "" for either of the last


class Row(NamedTuple):
    """A setting: how to simulate and decode its plates, and how many."""

    plates: int
    problem: Callable[[], qgt.Problem]
    decoder: qgt.Decoder
    missing: float = 0.0


def sparse(pools: int, prior: qgt.Prior, noise: qgt.Noise, weight: int = 6) -> qgt.Problem:
    g = torch.Generator().manual_seed(0)
    names = [f"S{j}" for j in range(1, 97)]
    drawn = qgt.Design.column_regular(pools=pools, items=96, weight=weight, generator=g)
    return qgt.Problem(qgt.Design.from_matrix(drawn.matrix, item_names=names), prior, noise)


def paper(pools: int) -> qgt.Problem:
    return paper_problem(pools=pools, noise=0.1, seed=0)


FAST = qgt.Certified(certificates=False, time_limit=5.0)
ROWS = {
    "paper, 25 pools": Row(600, lambda: paper(25), FAST),
    "paper, 20 pools, limit 0.3 s": Row(200, lambda: paper(20), replace(FAST, time_limit=0.3)),
    "96 in 17 pools, 2 %": Row(600, lambda: sparse(17, qgt.Bernoulli(0.02), qgt.SparseInteger(0.02, 1)), FAST),
    "households of 4, 96 in 16 pools": Row(
        500,
        lambda: sparse(16, qgt.Households(size=4, seed_rate=0.03, attack_rate=0.5), qgt.SparseInteger(0.05, 1)),
        FAST,
    ),
    "positive or negative, 96 in 30 pools": Row(
        300, lambda: sparse(30, qgt.Bernoulli(0.02), qgt.PositiveNegative(0.95, 0.99)), replace(FAST, time_limit=0.5)
    ),
    "unknown rate, 96 in 28 pools": Row(
        200, lambda: sparse(28, qgt.UnknownRate(0.005, 0.1), qgt.SparseInteger(0.05, 1)), replace(FAST, time_limit=1.0)
    ),
    "a tenth of the counts missing, 96 in 20 pools": Row(
        500, lambda: sparse(20, qgt.Bernoulli(0.02), qgt.SparseInteger(0.02, 1)), FAST, missing=0.1
    ),
    "readings, deviation 0.3, 96 in 20 pools": Row(
        500, lambda: sparse(20, qgt.Bernoulli(0.02), qgt.Gaussian(0.3)), FAST
    ),
    "readings, deviation 0.5, 96 in 18 pools": Row(
        250, lambda: sparse(18, qgt.Bernoulli(0.03), qgt.Gaussian(0.5)), replace(FAST, time_limit=0.5)
    ),
    "reads of depth 50, 96 in 24 pools": Row(
        250, lambda: sparse(24, qgt.Bernoulli(0.03), qgt.Reads(50)), replace(FAST, time_limit=0.5)
    ),
    "paper, 25 pools, GAMP": Row(700, lambda: paper(25), qgt.GAMP()),
    "paper, 25 pools, AMP": Row(600, lambda: paper(25), qgt.AMP()),
}
LIMITS = {
    f"paper, {pools} pools, limit {limit} s": Row(
        1000, lambda pools=pools: paper(pools), replace(FAST, time_limit=limit)
    )
    for pools in (14, 16, 18)
    for limit in (0.05, 0.1, 0.3)
}


def measured(name: str, row: Row, seed: int, page: "Page | None") -> dict[str, Any]:
    """One setting: verdicts and calls against the truth, and how many calls differ between files."""
    problem, start = row.problem(), time.perf_counter()
    g = torch.Generator().manual_seed(seed)
    x, y = problem.simulate(row.plates, generator=g)
    y[torch.rand(y.shape, generator=g) < row.missing] = torch.nan
    sheet = decode_sheet(problem, y, None, row.decoder)
    wrong = (sheet.result.x != x).any(1).tolist()
    words = {
        word: Counter(wrong[i] for i, one in enumerate(sheet.accounts) if one.verdict is word)
        for word in verdicts(sheet)
    }
    parts = (parted(sheet, list(range(i, min(i + TOGETHER, row.plates)))) for i in range(0, row.plates, TOGETHER))
    return {
        "setting": name,
        "plates": row.plates,
        "verdicts": {
            word.value: {"plates": sum(found.values()), "wrong": found[True]} for word, found in words.items()
        },
        "calls": against_truth(sheet.accounts, x),
        "positives_that_the_answer_has_as_0": int(((sheet.result.x == 0) & (x == 1)).sum()),
        "highest_probability_of_a_negative": max(
            (each.probability or 0.0 for one in sheet.accounts for each in one.calls if each.call is Call.NEGATIVE),
            default=0.0,
        ),
        "calls_compared": 0 if page is None else sum(len(one.calls) for one in sheet.accounts),
        "calls_that_differ": 0 if page is None else sum(differing(part, page) for part in parts),
        "seconds": round(time.perf_counter() - start, 1),
    }


def verdicts(sheet: DecodedSheet) -> Sequence[qgt.Verdict]:
    return list(verdict_counts(sheet.accounts))


def against_truth(made: Sequence[Account], x: Tensor) -> dict[str, dict[str, int]]:
    """For each call how many samples have it, and how many of them are positive."""
    pairs = [
        (each.call, truth)
        for one, row in zip(made, x.tolist(), strict=True)
        for each, truth in zip(one.calls, row, strict=True)
    ]
    numbers = Counter(pairs)
    return {word.value: {"samples": numbers[word, 0] + numbers[word, 1], "positive": numbers[word, 1]} for word in Call}


def parted(sheet: DecodedSheet, rows: list[int]) -> DecodedSheet:
    """Some plates of a sheet, as a sheet."""
    which = torch.tensor(rows)
    return replace(
        sheet,
        histories=[sheet.histories[i] for i in rows],
        names=[sheet.names[i] for i in rows],
        result=sheet.result.pick(which),
        accounts=[sheet.accounts[i] for i in rows],
    )


def differing(sheet: DecodedSheet, page: "Page") -> int:
    """How many calls of a sheet some file, or the page, shows otherwise."""
    samples = qgt.Samples.placed(sheet.problem.design.item_names)
    files = products(sheet, title="x", decoder="certified", facts={}, samples=samples)
    told = {(one.name, each.sample): each.call.value for one in sheet.accounts for each in one.calls}
    seen = [
        matrix(files["calls.csv"]),
        lines(files["calls_by_sample.csv"]),
        report(files["report.csv"], told),
        plain(files["results.json"]),
        *workbook(files["report.xlsx"]),
        html(files["report.html"].decode()),
        page.calls(sheet, files, samples),
    ]
    return sum(any(not same(each.get(key), call) for each in seen) for key, call in told.items())


def same(seen: str | None, call: str) -> bool:
    """Whether a file shows a call; a matrix has no more than an empty cell for two of them."""
    return seen == call or (seen == "" and call in ("retest", "none"))


CELLS = {"1": "positive", "0": "negative", "": ""}
WORDS = {"positive": "positive", "negative": "negative", "test again": "retest", "no call": "none"}


def matrix(content: bytes) -> Calls:
    head, *rows = csv.reader(io.StringIO(content.decode()))
    return {(row[0], sample): CELLS[cell] for row in rows for sample, cell in zip(head[1:], row[1:], strict=True)}


def lines(content: bytes) -> Calls:
    return {(row["counts"], row["sample"]): row["call"] for row in csv.DictReader(io.StringIO(content.decode()))}


def report(content: bytes, told: Calls) -> Calls:
    """The report names all samples but the negative ones."""
    found = dict.fromkeys(told, "negative")
    for row in csv.DictReader(io.StringIO(content.decode())):
        for column, call in (("positive", "positive"), ("retest", "retest"), ("no_call", "none")):
            found |= {(row["plate"], sample): call for sample in row[column].split("; ") if sample}
    return found


def plain(content: bytes) -> Calls:
    return {
        (one["instance"], sample): call
        for one in json.loads(content)["results"]
        for sample, call in one["calls"].items()
    }


def workbook(content: bytes) -> tuple[Calls, Calls]:
    from openpyxl import load_workbook

    book = load_workbook(io.BytesIO(content))
    head, *rows = book["samples"].iter_rows(values_only=True)
    by_sample = {(row[head.index("counts")], row[head.index("sample")]): row[head.index("call")] for row in rows}
    head, *rows = book["calls"].iter_rows(values_only=True)
    cells = {1: "positive", 0: "negative", None: ""}
    return by_sample, {(head[j], row[0]): cells[row[j]] for row in rows for j in range(1, len(head))}


def html(text: str) -> Calls:
    """The tables of wells in the HTML report, held against its list of samples: both must agree."""
    found: Calls = {}
    for plate, wells in re.findall(
        r'<table class="plate">\s*<caption>(?:(.*?): )?.*?</caption>(.*?)</table>', text, re.DOTALL
    ):
        for call, sample in re.findall(r'<td class="(\w+)" title="(\S+) in ', wells):
            found[plate or "", sample] = call
    listed = Counter(WORDS[word] for word in re.findall(r"<td>(positive|negative|test again|no call)</td>", text))
    return found if listed == Counter(found.values()) else {}


class Page:
    """The page of `qgt serve`, visited over HTTP."""

    def __init__(self, app_state: Any, client: Any) -> None:
        self.app_state, self.client, self.runs = app_state, client, {}

    def calls(self, sheet: DecodedSheet, files: Mapping[str, bytes], samples: qgt.Samples) -> Calls:
        """What the page shows of a sheet that was decoded."""
        store, run = self.app_state.store, self._run(sheet.problem, samples)
        pools, values = sheet.problem.design.pool_names, sheet.y.tolist()
        counts = [[None if value != value else value for value in row] for row in values]
        version = store.submit(
            run, "typed", "", b"", {"names": list(sheet.names), "pools": list(pools), "values": counts, "notes": []}
        )
        words = {word.value: number for word, number in verdict_counts(sheet.accounts).items()}
        facts = {
            **sheet_facts(sheet, "certified"),
            "verdicts": words,
            "file": [],
            "file_suspect": False,
            "seconds": 0.0,
        }
        store.add_result(run, version, facts, files)
        text = self.client.get(f"/runs/{run}/versions/{version}").text
        found: Calls = {}
        for name, article in re.findall(
            r'<article class="call".*?<h2>(\S+) .*?(<div class="columns">.*?)</article>', text, re.DOTALL
        ):
            for call, sample in re.findall(r'<td class="(\w+)" title="(\S+) in ', article):
                found[name, sample] = call
        return found

    def _run(self, problem: qgt.Problem, samples: qgt.Samples) -> str:
        if problem.fingerprint not in self.runs:
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                problem.design.write_csv(folder / "design.csv", form="lists")
                documents.save(folder / "problem.toml", {**problem.spec, "design": {"file": "design.csv"}})
                samples.write(folder / "samples.csv")
                code, fingerprint = check_code(problem.design), qgt.Problem.load(folder / "problem.toml").fingerprint
                plan = {"code": code, "volume": 10.0, "fingerprint": fingerprint}
                (folder / "plan.json").write_text(json.dumps(plan))
                files = {path.name: path.read_bytes() for path in folder.iterdir()}
            facts = {
                "samples": problem.items,
                "pools": problem.pools,
                "design": short_name(problem.design),
                "code": code,
            }
            self.runs[problem.fingerprint] = self.app_state.store.add_run("run", "plan", facts, files)
        return self.runs[problem.fingerprint]


@contextmanager
def served() -> Iterator[Page]:
    """A page in a folder that is thrown away."""
    import httpx

    from qgt.web.app import in_background
    from qgt.web.settings import Settings

    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(Path(folder), port=0)
        with (
            in_background(settings) as app_state,
            httpx.Client(base_url=app_state.settings.address, timeout=60) as client,
        ):
            yield Page(app_state, client)


class Task(NamedTuple):
    """A setting by its name, how many plates of it, and the seed."""

    name: str
    plates: int
    seed: int


def work(task: Task) -> dict[str, Any]:
    row = {**ROWS, **LIMITS}[task.name]._replace(plates=task.plates)
    if task.name in LIMITS:
        return measured(task.name, row, task.seed, None)
    with served() as page:
        return measured(task.name, row, task.seed, page)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", "-o", type=Path)
    parser.add_argument("--row", help="one setting only")
    parser.add_argument("--plates", type=int, help="of each setting")
    parser.add_argument("--limits", action="store_true", help="short time limits, verdicts and calls only")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=36_000.0, help="after which what is not done is given up")
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows, found = LIMITS if given.limits else ROWS, {}
    tasks = [
        Task(name, given.plates or row.plates, given.seed) for name, row in rows.items() if given.row in (None, name)
    ]
    for done in in_processes(work, tasks, processes=given.processes, seconds=given.seconds):
        found[done["setting"]] = done
        print(json.dumps(done), flush=True)
        if given.output is not None:
            ordered = [found[name] for name in rows if name in found]
            write(given.output, {**provenance("cpu"), "seed": given.seed, "rows": ordered})


if __name__ == "__main__":
    main()
