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

import io
import json
import math
import secrets
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from qgt.files import codec, documents
from qgt.files.grids import csv_bytes, has_workbooks, workbook_bytes
from qgt.lab.plan.classical import ClassicalScheme
from qgt.lab.plan.loads import CT_MEAN, CT_SD, last_detected, usual_loads
from qgt.lab.plan.planning import Candidate, Plan
from qgt.lab.plan.question import Question, Range
from qgt.lab.plan.robots import Move, Moves, microlitres, moves_of, pool_places, worklist_files
from qgt.lab.plan.simulation import decoder_name
from qgt.lab.sheets import plates
from qgt.lab.sheets.names import check_code, label, short_name
from qgt.lab.sheets.plates import POOL_PLATE
from qgt.lab.sheets.samples import Samples
from qgt.model.categories import Categories, Copies
from qgt.model.design import Design
from qgt.model.loads import Amount, CycleThreshold, Loads
from qgt.model.noise import Noise, Reads
from qgt.model.problem import Problem, problem_files
from qgt.pictures.pages import Piece, PlateMap, Tick, Ticks, printed_page
from qgt.version import __version__

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# A plan in words, as rows of a table and as a figure, for the command and the page alike.

PLAN_COLUMNS = (
    "pools",
    "transfers",
    "each",
    "largest pool",
    "plates",
    "right",
    "interval",
    "follow-ups",
    "saved",
    "bound",
)
PLAN_COLUMN_MEANING = (
    "pools: tests of the first round. transfers: pipetting steps. each: transfers per sample. largest pool: samples in "
    "it. plates: simulated. right: share of them without a single error, with its 99 % interval. follow-ups: samples "
    "tested alone afterwards, per plate. saved: fewer tests than one for each sample. bound: the smallest number of "
    "pools that any design with pools of this size needs. Below the designs: what laboratories do today, with the same "
    "positives and the same assay."
)


LOAD_COLUMNS = ("sensitivity", "too weak")  # after the others, where the assay measures amounts
LOAD_COLUMN_MEANING = (
    "sensitivity: the share found of all positives that a single test detects. too weak: the share of positives that a "
    "pool of this size dilutes beyond detection; the column right does not count them."
)


def plan_header(plan: Plan) -> tuple[list[str], str]:
    """The columns of `plan_rows`, and what they mean."""
    if plan.question.loads is None:
        return [*PLAN_COLUMNS, ""], PLAN_COLUMN_MEANING
    return [*PLAN_COLUMNS, *load_columns(plan), ""], f"{PLAN_COLUMN_MEANING} {LOAD_COLUMN_MEANING}"


def plan_rows(plan: Plan) -> list[list[str]]:
    """The candidates as rows under `PLAN_COLUMNS`, with a mark at the recommended one; then the schemes of today."""
    designs = [
        [*_row(one), *load_cells(plan, one), "<- recommended" if one is plan.recommended else ""]
        for one in plan.candidates
    ]
    samples = len(plan.question.samples)
    return [*designs, *([*_scheme_row(one, samples), *load_cells(plan, one), one.name] for one in plan.classical)]


def load_columns(plan: Plan) -> tuple[str, ...]:
    """The columns that a table of designs has more where samples have loads; none for other plans."""
    return () if plan.question.loads is None else LOAD_COLUMNS


def load_cells(plan: Plan, one: Candidate | ClassicalScheme) -> list[str]:
    """The cells of a design or a scheme under `load_columns`: the command and the page show the same.

    A cell is empty where nothing is known: no simulated plate had a positive, or the scheme has pools of several sizes.
    """
    return stored_load_cells(_found_facts(one)) if load_columns(plan) else []


def stored_load_cells(facts: Mapping[str, object]) -> list[str]:
    """The same cells of a design as `candidate_facts` has it.

    Example:
        >>> stored_load_cells({"pools": 24, "sensitivity": 0.925, "too_weak": 0.07})
        ['92.5 %', '7.0 %']
        >>> stored_load_cells({"pools": 24, "too_weak": 0.07})
        ['', '7.0 %']
    """
    shares = (facts.get(name) for name in ("sensitivity", "too_weak"))
    return [f"{100 * share:.1f} %" if isinstance(share, float | int) else "" for share in shares]


def _found_facts(one: Candidate | ClassicalScheme) -> dict[str, object]:
    """What a design or a scheme is stored with where samples have loads."""
    found: dict[str, object] = {} if one.sensitivity is None else {"sensitivity": round(one.sensitivity, 6)}
    return found | ({"too_weak": round(one.missed, 6)} if isinstance(one, Candidate) else {})


def plan_words(plan: Plan) -> list[str]:
    """What to do and what to expect, in sentences.

    Example:
        >>> import torch
        >>> from qgt.lab.plan.question import Question
        >>> from qgt.lab.plan.planning import plan
        >>> from qgt.lab.sheets.samples import Samples
        >>> question = Question(Samples.numbered(12), positives=(0, 1), certainty=0.8)
        >>> made = plan(question, generator=torch.Generator().manual_seed(0), seconds=0.5)
        >>> plan_words(made)[1].startswith("Make ")
        True
    """
    one, question = plan.recommended, plan.question
    words = [f"{label(one.design)}."]
    pools = f"{one.pools} pool{'s' if one.pools > 1 else ''}"
    words.append(
        f"Make {pools}. Each of the {len(question.samples)} samples goes into {one.weight} of them: "
        f"{one.transfers:,} transfers; the largest pool holds {one.largest_pool} samples."
    )
    words.append(_share_decoded(one, question))
    if question.follow_ups:
        words.append(f"On average {one.follow_ups:.2f} samples of a plate have to be tested again, alone.")
    if one.tests_saved > 0:
        words.append(f"This saves {one.tests_saved:.1f} of {len(question.samples)} tests.")
    else:
        words.append("This saves nothing: test each sample alone instead.")
    words += [*_compared(plan), *_caution(plan)]
    words += [*_dilution_words(plan), *assay_words(question), *household_words(question), *value_words(question)]
    expected = "samples are as expected"
    if question.values is None:
        expected = f"as many samples are positive as expected ({_range(question.positives)})"
    words.append(f"All of this holds if {expected} and the assay errs as stated (seed {plan.seed}).")
    if question.samples.notes:
        words.append(f"The list of samples: {' '.join(question.samples.notes)}")
    return words


def _share_decoded(one: Candidate, question: Question) -> str:
    low, high = (f"{100 * end:.1f} %" for end in one.interval)
    rounds = " after follow-ups" if question.follow_ups else ""
    weak = "" if question.loads is None else " (except positives that are too weak for pools of this size)"
    return (
        f"Of {one.plates:,} simulated plates, {100 * one.success:.1f} % were decoded without a single "
        f"error{rounds}{weak}; the true share is between {low} and {high}, with a certainty of 99 %."
    )


def household_words(question: Question) -> list[str]:
    """What the plan takes for granted about households, where samples have them.

    Example:
        >>> from qgt.lab.sheets.samples import Samples
        >>> samples = Samples.placed(["a", "b", "c", "d"], households=["x", "x", "y", "y"])
        >>> household_words(Question(samples, (0.1, 0.1)))[0].split("; ")[1]
        'every other sample with 0.5 % (background, the usual value).'
    """
    rates = question.household_rates
    if rates is None:
        return []
    given = (question.attack_rate, question.background)
    attack, others = (
        f"{100 * rate:.3g} % ({name}{', the usual value' if own is None else ''})"
        for rate, own, name in zip(rates, given, ("attack rate", "background"), strict=True)
    )
    return [
        f"Households: where there is an outbreak, each member is positive with probability {attack}; every other "
        f"sample with {others}."
    ]


def value_words(question: Question) -> list[str]:
    """What the plan takes for granted about copies and categories.

    Example:
        >>> from qgt.lab.sheets.samples import Samples
        >>> values = Categories((0.03, 0.01), names=["variant A", "variant B"])
        >>> value_words(Question(Samples.numbered(96), (1, 1), values=values))
        ['Samples: 3 % are variant A, 1 % are variant B, the others negative. The assay counts each of them in every pool.']
    """  # noqa: E501 - an example's line
    values, noise = question.values, question.assay
    if values is None:
        return []
    verb = "have" if isinstance(values, Copies) else "are"
    shares = zip(values.distribution[1:], values.labels[1:], strict=True)
    named = ", ".join(f"{100 * share:.3g} % {verb} {label}" for share, label in shares)
    if isinstance(values, Copies):
        reads = f"; each pool has {noise.depth:,} reads" if isinstance(noise, Reads) else ""
        words = f"Samples: {named}. The assay reports the copies of all samples of a pool together{reads}."
    else:
        words = f"Samples: {named}, the others negative. The assay counts each of them in every pool."
    return [words, *_risk_words(question)]


def _risk_words(question: Question) -> list[str]:
    """What becomes of the samples' risks, where there are any."""
    if question.samples.risks is None:
        return []
    return ["These are shares of all samples; each sample has its own, by the odds of its risk."]


def assay_words(question: Question) -> list[str]:
    """What the plan takes for granted about an assay that measures amounts.

    Example:
        >>> from qgt.lab.sheets.samples import Samples
        >>> words = assay_words(Question(Samples.numbered(96), (1, 4), CycleThreshold(sigma=0.25, limit=38.0)))
        >>> words[0]
        'Assay: cycle thresholds with a standard error of 0.25 cycles, detected up to cycle 38.'
        >>> words[1]
        'Pools: each sample gives its full volume, and a pool contains the sum of its samples.'
        >>> words[2].split(" (")[0]
        'Positives alone: cycle 27.3 on average, with a standard deviation of 6.2'
    """
    noise, loads = question.assay, question.loads
    if loads is None:
        return []
    assert isinstance(noise, CycleThreshold | Amount)  # as `Question` has checked
    alone = _positives_alone(noise, loads)
    return [f"Assay: {_errors_and_limit(noise)}.", f"Pools: {_volumes(noise)}.", f"Positives alone: {alone}."]


def _errors_and_limit(noise: CycleThreshold | Amount) -> str:
    last = last_detected(noise)
    if isinstance(noise, Amount):
        errors = f"a standard error of {100 * noise.relative:g} % and, near 0, of {noise.absolute:g}"
        return f"amounts with {errors}, detected from {last:g}"
    words = f"cycle thresholds with a standard error of {noise.sigma:g} cycles, detected up to cycle {last:g}"
    if not noise.background:
        return words
    empty = noise.intercept + noise.slope * math.log10(noise.background)
    return f"{words} (pools without a positive read {empty:g})"


def _positives_alone(noise: CycleThreshold | Amount, loads: Loads) -> str:
    """What positives report that are tested alone: as those of a list do, or a mean and a standard deviation."""
    if loads.values is not None:
        return f"as the {len(loads.values):,} of your list"
    assert loads.mean is not None and loads.sd is not None
    usual = usual_loads(noise)
    own = (usual.mean, usual.sd) == (loads.mean, loads.sd)
    if isinstance(noise, CycleThreshold):
        source = " (the usual value, published for 1,632 positives)" if own else ""
        mean, sd = noise.intercept + noise.slope * loads.mean, -noise.slope * loads.sd
        return f"cycle {mean:.4g} on average, with a standard deviation of {sd:.3g}{source}"
    source = f" (the usual value: cycles of {CT_MEAN} and {CT_SD} as copies)" if own else ""
    return f"log10 of the amount {loads.mean:.3g} on average, with a standard deviation of {loads.sd:.3g}{source}"


def _volumes(noise: CycleThreshold | Amount) -> str:
    if not noise.dilution:
        return "each sample gives its full volume, and a pool contains the sum of its samples"
    if noise.dilution == 1 and isinstance(noise, CycleThreshold):
        return "equal parts of one volume, so a positive in a pool of n samples reads log2(n) cycles later than alone"
    if noise.dilution == 1:
        return "equal parts of one volume, so a pool contains the mean of its samples"
    return f"the amount of a positive in a pool of n samples is divided by n to the power of {noise.dilution:g}"


def _dilution_words(plan: Plan) -> list[str]:
    """What pooling loses, where samples have loads."""
    one = plan.recommended
    if plan.question.loads is None or one.sensitivity is None:
        return []
    share = f"{100 * one.sensitivity:.1f} %"
    found = f"On the simulated plates {share} of all positives that a single test detects were found."
    if not one.missed:
        return [found]
    return [
        f"Too weak: {100 * one.missed:.1f} % of these positives are diluted beyond detection in pools of "
        f"{one.largest_pool} samples: no decoder can find them in the pools. The calls and the confidence of "
        f"qgt decode are about the positives that pools can detect. {found}"
    ]


def _found(scheme: ClassicalScheme) -> str:
    return "" if scheme.sensitivity is None else f", {100 * scheme.sensitivity:.1f} % of positives found"


def _compared(plan: Plan) -> list[str]:
    """How the plan compares with what laboratories do today."""
    told = [
        f"{scheme.name} ({scheme.tests:.1f} tests, {100 * scheme.success:.1f} % of plates without an error"
        f"{_found(scheme)})"
        for scheme in plan.classical
    ]
    if not told:
        return []
    words = [f"For comparison, with the same assay: {'; '.join(told)}."]
    better = plan.better_classical
    if better is not None:
        certainty = plan.question.certainty
        enough = better.interval.low >= certainty
        often = f"also right on {100 * certainty:g} % of plates" if enough else "right as often"
        fewer = plan.recommended.tests - better.tests
        words.append(f"Consider the following instead: {better.name}. It takes {fewer:.1f} fewer tests and is {often}.")
    return words


def _caution(plan: Plan) -> list[str]:
    """What was not shown, where the certainty asked for was not."""
    question, one = plan.question, plan.recommended
    if plan.reached:
        return []
    words = f"Caution: no design within these limits was shown right on {100 * question.certainty:g} % of plates"
    best = max((scheme.success for scheme in plan.classical), default=0.0)
    if one.interval.low > best:
        words += "; this one is right more often than what laboratories do today"
    return [f"{words}. Allow more pools, transfers or follow-ups, give it more time (--seconds), or ask for less."]


def plan_picture(plan: Plan) -> "Figure":
    """The candidates as a figure."""
    from qgt.pictures.figures import PlanPoint, plan_figure  # decoding reads the folder too, and draws nothing

    points = [
        PlanPoint(one.pools, one.weight, one.success, *one.interval, recommended=one is plan.recommended)
        for one in plan.candidates
    ]
    question = plan.question
    bound = min(one.entropy_bound for one in plan.candidates)
    return plan_figure(points, certainty=question.certainty, bound=bound, items=len(question.samples))


def _row(one: Candidate) -> list[str]:
    low, high = one.interval
    return [
        str(one.pools),
        f"{one.transfers:,}",
        str(one.weight) + (" (households together)" if one.together else " (triples)" if one.by_triples else ""),
        str(one.largest_pool),
        f"{one.plates:,}",
        f"{100 * one.success:.1f} %",
        f"{100 * low:.1f} to {100 * high:.1f} %",
        f"{one.follow_ups:.2f}",
        f"{one.tests_saved:.1f}",
        f"{one.entropy_bound:.1f}",
    ]


def _scheme_row(one: ClassicalScheme, samples: int) -> list[str]:
    low, high = one.interval
    return [
        str(one.pools),
        f"{one.transfers:,}",
        f"{one.transfers / samples:g}",
        str(one.largest_pool),
        f"{one.plates:,}",
        f"{100 * one.success:.1f} %",
        f"{100 * low:.1f} to {100 * high:.1f} %",
        f"{one.follow_ups:.2f}",
        f"{samples - one.tests:.1f}",
        "",
    ]


def _range(positives: Range) -> str:
    low, high = positives
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


# Pooling sheets to print: by sample, by pool, and maps of the plates, with numbers to check by.
#
# Pipetting by hand goes wrong where nobody notices. So every sample shows how many pools it goes into, and every pool
# how many samples it must hold and the volume that must be in it at the end.


def pooling_sheet(design: Design, samples: Samples, volume: float, *, notes: Sequence[str] = ()) -> Piece:
    """A page to print: what goes where, by sample and by pool, and the plates.

    Args:
        design: Its items are the samples.
        samples: Where each sample stands.
        volume: Microlitres of each transfer.
        notes: What else the plan takes for granted, in sentences.

    Example:
        >>> from qgt import Design
        >>> samples = Samples.placed(["<Ann>", "Bob", "Cy"])
        >>> page = pooling_sheet(Design.from_rows(["110", "011"], item_names=samples.names), samples, 10.0)
        >>> "&lt;Ann&gt;" in page, "<Ann>" in page
        (True, False)
    """
    made = moves_of(design, samples, volume)
    facts = [
        ("samples", str(design.items)),
        ("pools", str(design.pools)),
        ("transfers", f"{design.transfers:,}"),
        ("each transfer", f"{microlitres(volume)} µL"),
        ("largest pool", f"{int(design.pool_sizes.max())} samples"),
        ("done by, on", "____________________"),
    ]
    maps = [*_sample_maps(samples), *_pool_maps(design, made)]
    lists = [_by_sample(made), _by_pool(design, made)]
    return printed_page("Pooling sheet", label(design), facts, lists, maps, notes=notes)


def _by_sample(made: Moves) -> Ticks:
    groups: dict[str, list[Move]] = {}
    for move in made.moves:
        groups.setdefault(move.sample, []).append(move)
    several = len(made.targets) > 1
    rows = [
        Tick(
            sample,
            f"{moves[0].source_plate}, {moves[0].source_well}",
            [(move.pool, f"{move.pool_plate}, {move.pool_well}" if several else move.pool_well) for move in moves],
            f"{len(moves)} pools, {microlitres(sum(move.volume for move in moves))} µL",
        )
        for sample, moves in groups.items()
    ]
    lead = "Put each sample into the pools on its line. Tick each box. The last column says how many there are."
    return Ticks("By sample", lead, ("sample", "stands in", "goes into", "check"), rows)


def _by_pool(design: Design, made: Moves) -> Ticks:
    groups: dict[str, list[Move]] = {name: [] for name in design.pool_names}
    for move in made.moves:
        groups[move.pool].append(move)
    several = len(made.sources) > 1
    rows = [
        Tick(
            pool,
            f"{moves[0].pool_plate}, {moves[0].pool_well}" if moves else "",
            [
                (move.sample, f"{move.source_plate}, {move.source_well}" if several else move.source_well)
                for move in moves
            ],
            f"{len(moves)} samples, {microlitres(sum(move.volume for move in moves))} µL",
        )
        for pool, moves in groups.items()
    ]
    lead = "Each pool holds the samples on its line, and in the end the volume in the last column."
    return Ticks("By pool", lead, ("pool", "stands in", "holds", "check"), rows)


def _sample_maps(samples: Samples) -> list[PlateMap]:
    maps = []
    for plate in samples.plate_names:
        here = {well: (name, "") for well, name in samples.on_plate(plate).items()}
        maps.append(_map(f"Plate of samples: {plate}", samples.plate_size(plate), here))
    return maps


def _pool_maps(design: Design, made: Moves) -> list[PlateMap]:
    maps = []
    for plate in made.targets:
        here = {move.pool_well: move.pool for move in made.moves if move.pool_plate == plate}
        sizes = dict(zip(design.pool_names, design.pool_sizes.tolist(), strict=True))
        texts = {well: (pool, f"{sizes[pool]} samples") for well, pool in here.items()}
        maps.append(_map(f"Plate of pools: {plate}", POOL_PLATE, texts))
    return maps


def _map(title: str, size: int, texts: dict[str, tuple[str, str]]) -> PlateMap:
    rows, columns = plates.shape(size)
    nothing = ("", "")
    letters = map(plates.row_letter, range(rows))
    wells = [[texts.get(f"{letter}{column + 1}", nothing) for column in range(columns)] for letter in letters]
    return PlateMap(title, wells)


# The folder.

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
    files = plan_files(plan, volume=volume)
    found = read_plan(target, files)  # a plan that cannot be read back is not written
    try:
        part.mkdir(parents=True)
        for name, content in files.items():
            (part / name).parent.mkdir(exist_ok=True)
            (part / name).write_bytes(content)
        if target.exists():
            target.rmdir()
        part.rename(target)
    except OSError as error:
        raise ValueError(f"{target}: cannot be written ({error.strerror}); give another folder.") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return found


def read_plan(folder: str | Path, files: Mapping[str, bytes] | None = None) -> PlanFolder:
    """Read what `write_plan` wrote; raise a ValueError where the design, the prior or the noise has changed since.

    Args:
        folder: The folder, or what to call it where `files` are given.
        files: The contents of its files by their names, see `plan_files`; None reads them in the folder.

    Example:
        >>> read_plan("nowhere")
        Traceback (most recent call last):
        ValueError: nowhere/problem.toml: cannot be read (No such file or directory); check the path.
    """
    return plan_of_problem(folder, Problem.load(Path(folder) / "problem.toml", files), files)


def plan_of_problem(folder: str | Path, problem: Problem, files: Mapping[str, bytes] | None = None) -> PlanFolder:
    """Read the rest of a plan folder whose problem was read already; see `read_plan`."""
    path = Path(folder)
    samples_csv, plan_json = (documents.content_in(files, name) for name in ("samples.csv", "plan.json"))
    samples = Samples.read(path / "samples.csv", data=samples_csv)
    stored = documents.load(path / "plan.json", "plan", lambda plain: codec.as_table("plan", plain), plan_json)
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


def blank_counts(
    design: Design, noise: Noise | None = None, categories: Sequence[str] = ()
) -> list[list[str | int | None]]:
    """The rows of a sheet of counts to fill in: a remark, a header, and a line for each pool.

    Where pools report categories, each category has a column.

    Example:
        >>> from qgt import Design
        >>> blank_counts(Design.from_rows(["110", "011"]))[1:3]
        [['pool', 'pool plate', 'well', 'samples', 'count'], ['P1', 'Pools 1', 'A1', 2, None]]
    """
    columns = categories or [_report_column(noise)]
    rows: list[list[str | int | None]] = [[f"# {label(design)}"], [*BLANK[:-1], *columns]]
    places = pool_places(design.pools)
    for name, (plate, well), size in zip(design.pool_names, places, design.pool_sizes.tolist(), strict=True):
        rows.append([name, plate, well, size, *[None for _ in columns]])
    return rows


def _report_column(noise: Noise | None) -> str:
    """What the column of reports is called in a sheet to fill in."""
    if isinstance(noise, CycleThreshold):
        return "Ct"
    if isinstance(noise, Reads):
        return "reads"
    return "result" if isinstance(noise, Amount) else BLANK[-1]


def plan_files(plan: Plan, *, volume: float = 10.0) -> dict[str, bytes]:
    """The files of a plan's folder by their names, those in `worklists` with a slash.

    Args:
        plan: The plan.
        volume: Microlitres of each transfer.

    Example:
        >>> import torch, qgt
        >>> question = qgt.Question(qgt.Samples.numbered(12), (0, 1), certainty=0.8)
        >>> made = qgt.plan(question, generator=torch.Generator().manual_seed(0), seconds=0.5)
        >>> files = plan_files(made)
        >>> read_plan("plan", files).samples.wells[:2], sorted(files)[:2]
        (('A1', 'B1'), ['README.txt', 'candidates.svg'])
    """
    samples, design, picture = plan.question.samples, plan.problem.design, io.BytesIO()
    notes = [*assay_words(plan.question), *household_words(plan.question), *value_words(plan.question)]
    sheet = pooling_sheet(design, samples, volume, notes=notes)
    plan_picture(plan).savefig(picture, format="svg")
    rows = blank_counts(design, plan.question.assay, plan.problem.reported_categories)
    width = max(map(len, rows))
    files = {
        **problem_files(plan.problem),
        "samples.csv": samples.csv_bytes(remark=label(design)),
        "pooling_sheet.html": sheet.encode(),
        "counts.csv": csv_bytes([*row, *[None] * (width - len(row))] for row in rows),
        "candidates.svg": picture.getvalue(),
        "plan.json": (json.dumps(plan_facts(plan, volume), indent=1) + "\n").encode(),
        "README.txt": _readme(plan).encode(),
    }
    if has_workbooks():  # counts.csv does as well; the README names what is there
        files["counts.xlsx"] = workbook_bytes({"counts": rows})
    worklists = worklist_files(moves_of(design, samples, volume))
    return files | {f"worklists/{name}": text.encode() for name, text in worklists.items()}  # line ends are the robot's


def plan_facts(plan: Plan, volume: float) -> dict[str, object]:
    """A plan as plain data: the content of `plan.json`.

    Args:
        plan: The plan.
        volume: Microlitres of each transfer.
    """
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
            **({} if question.loads is None else _load_facts(question)),
            **({} if question.values is None else {"values": problem.spec["prior"]}),
        },
        "candidates": candidate_facts(plan),
        "today": scheme_facts(plan),
        "fingerprint": problem.fingerprint,
        "version": f"qgt {__version__}",
    }


def _load_facts(question: Question) -> dict[str, object]:
    """What positives have, in log10 of amounts, and the share that pools may miss."""
    loads = question.loads
    assert loads is not None
    law = {name: getattr(loads, name) for name in ("mean", "sd", "low", "high") if getattr(loads, name) is not None}
    values = {} if loads.values is None else {"values": list(loads.values)}
    return {"loads": {**law, **values}, "most_missed": question.most_missed}


def candidate_facts(plan: Plan) -> list[dict[str, object]]:
    """The candidates as plain data, for `plan.json` and for the page."""
    return [
        {
            "pools": one.pools,
            "weight": one.weight,
            "households_together": one.together,
            "transfers": one.transfers,
            "largest_pool": one.largest_pool,
            **_performance(one),
            "tests_saved": round(one.tests_saved, 6),
            "entropy_bound": round(one.entropy_bound, 6),
            **(_found_facts(one) | {"triples": one.by_triples} if load_columns(plan) else {}),
            "recommended": one is plan.recommended,
        }
        for one in plan.candidates
    ]


def scheme_facts(plan: Plan) -> list[dict[str, object]]:
    """What laboratories do today, with the same assay, as plain data."""
    return [
        {
            "scheme": one.name,
            "pools": one.pools,
            "largest_pool": one.largest_pool,
            **_performance(one),
            **(_found_facts(one) if load_columns(plan) else {}),
            "tests_saved": round(len(plan.question.samples) - one.tests, 6),
        }
        for one in plan.classical
    ]


def _performance(one: Candidate | ClassicalScheme) -> dict[str, object]:
    return {
        "plates": one.plates,
        "successes": one.successes,
        "interval": [round(end, 6) for end in one.interval],
        "follow_ups": round(one.follow_ups, 6),
    }


def _to_fill_in(question: Question) -> str:
    """What to write into the sheet."""
    noise, values = question.assay, question.values
    if isinstance(values, Categories):
        return (
            "Write each pool's count of each category into its column of counts.csv or counts.xlsx. Leave the cells of "
            "a failed pool empty; do not write 0."
        )
    if isinstance(noise, Reads):
        return (
            "Write how many of each pool's reads show the allele into counts.csv or counts.xlsx, scaled to "
            f"{noise.depth:,} reads. Leave the cell of a failed pool empty; do not write 0."
        )
    if isinstance(values, Copies):
        return (
            "Write how many copies each pool has into counts.csv or counts.xlsx. Leave the cell of a failed pool "
            "empty; do not write 0."
        )
    if isinstance(noise, CycleThreshold):
        return (
            "Write each pool's Ct into counts.csv or counts.xlsx, and 'not detected' where nothing amplified. Leave "
            "the cell of a failed pool empty. Or decode the table that the machine exports, if its sample names are "
            "those of the pools:\n   qgt decode run.csv --problem . --target NAME --control NAME"
        )
    if isinstance(noise, Amount):
        return (
            "Write each pool's amount into counts.csv or counts.xlsx, and 0 where nothing was detected. Leave the cell "
            "of a failed pool empty."
        )
    return (
        "Write each pool's count into counts.csv or counts.xlsx. Leave the cell of a failed pool empty; do not write 0."
    )


def _readme(plan: Plan) -> str:
    name = decoder_name(plan.problem)
    decoder = f" --decoder {name}" if name == "exact" else ""  # the others are the usual ones of their problems
    steps = [
        "1. Print pooling_sheet.html (A4, landscape), or give your robot its file from the folder worklists.",
        "2. Make the pools. Check each pool's number of samples and its volume against the sheet.",
        f"3. {_to_fill_in(plan.question)}",
        f"4. Decode in this folder:  qgt decode counts.csv --problem .{decoder}",
        "   Add  -o calls.csv --report report.csv --html report.html  for files to keep.",
    ]
    if plan.question.follow_ups:
        steps.append("5. Where a plate is unsure, test the samples that it names again, alone.")
    words = plan_words(plan)
    return "\n".join([words[0], "", *words[1:], "", *steps, ""])
