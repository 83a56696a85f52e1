"""The verb plan: from what a person knows to a folder with everything that making the pools takes."""

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from qgt.cli.decoding import learn_ahead
from qgt.cli.shell import Json, Seed, amount_of, app, check_files, share_done, share_of, tell

if TYPE_CHECKING:
    from qgt.lab.plan.folder import PlanFolder
    from qgt.lab.plan.planning import Plan
    from qgt.lab.sheets.samples import Samples

_NUMBER = re.compile(r"[+-]?[\d.,_]+([eE]\d+)?")  # meant as how many samples there are


@app.command()
def plan(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="The folder to make.")],
    samples: Annotated[
        str | None, typer.Option(metavar="N|FILE", help="How many samples, or a CSV or XLSX file that lists them.")
    ] = None,
    positives: Annotated[
        str | None, typer.Option(metavar="RANGE", help="About how many are positive: 2, 1-4, or in per cent 1-3%.")
    ] = None,
    categories: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="Instead of --positives: variants that pools report one by one, with their shares of the samples.",
        ),
    ] = None,
    allele: Annotated[
        float | None,
        typer.Option(
            metavar="F",
            parser=share_of("allele"),
            help="Instead: the frequency of an allele, of which samples have 0, 1 or 2 copies.",
        ),
    ] = None,
    assay: Annotated[
        str | None, typer.Option(metavar="KIND", help="What it reports: count, reading, positive, reads, ct, amount.")
    ] = None,
    depth: Annotated[int | None, typer.Option(metavar="D", min=1, help="reads: the reads of each pool.")] = None,
    errors: Annotated[
        str | None,
        typer.Option(metavar="E", help="How it errs: share of counts off by one; deviation; sensitivity,specificity."),
    ] = None,
    attack_rate: Annotated[
        float | None,
        typer.Option(
            metavar="A",
            parser=share_of("attack-rate"),
            help="With households: the chance that a member is positive where there is an outbreak; default 50%.",
        ),
    ] = None,
    background: Annotated[
        float | None,
        typer.Option(
            metavar="B",
            parser=share_of("background"),
            help="With households: the chance of any other sample; default: a fifth of the expected share.",
        ),
    ] = None,
    sigma: Annotated[
        float | None,
        typer.Option(metavar="S", parser=amount_of("sigma"), help="ct: the standard error in cycles; default 0.25."),
    ] = None,
    limit: Annotated[
        float | None,
        typer.Option(
            metavar="L",
            parser=amount_of("limit"),
            help="ct: the last cycle that counts as detected; default 38. amount: the least one reported; default 0.",
        ),
    ] = None,
    dilution: Annotated[
        float | None,
        typer.Option(
            metavar="D",
            parser=amount_of("dilution"),
            help="ct, amount: 1 if a pool is equal parts of one volume, 0 if samples give full volumes; default 1.",
        ),
    ] = None,
    empty_ct: Annotated[
        float | None,
        typer.Option(
            metavar="CT", parser=amount_of("empty-ct"), help="ct: what pools without a positive read; default: nothing."
        ),
    ] = None,
    relative: Annotated[
        float | None,
        typer.Option(
            metavar="R", parser=share_of("relative"), help="amount: standard error of large ones; default 10%."
        ),
    ] = None,
    absolute: Annotated[
        float | None,
        typer.Option(metavar="A", parser=amount_of("absolute"), help="amount: standard error near 0; default 1."),
    ] = None,
    load_mean: Annotated[
        float | None,
        typer.Option(
            metavar="M",
            parser=amount_of("load-mean"),
            help="ct: mean cycle of positives tested alone; default 27.3. amount: mean of the log10; default 2.92.",
        ),
    ] = None,
    load_sd: Annotated[
        float | None,
        typer.Option(
            metavar="S", parser=amount_of("load-sd"), help="Its standard deviation; default 6.2 cycles, or 1.87."
        ),
    ] = None,
    loads: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Instead: a CSV or XLSX file with the cycles (or amounts) of your positives."
        ),
    ] = None,
    most_missed: Annotated[
        float | None,
        typer.Option(
            metavar="M",
            parser=share_of("most-missed"),
            help="ct, amount: the share of positives that pools may dilute beyond detection; default 10%.",
        ),
    ] = None,
    certainty: Annotated[
        float,
        typer.Option(
            metavar="C", parser=share_of("certainty"), help="The share of plates to be decoded without an error."
        ),
    ] = 0.95,
    most_pools: Annotated[int | None, typer.Option(metavar="M", min=1, help="At most so many pools.")] = None,
    largest_pool: Annotated[
        int | None, typer.Option(metavar="L", min=1, help="At most so many samples a pool.")
    ] = None,
    most_transfers: Annotated[
        int | None, typer.Option(metavar="W", min=1, help="At most so many pools for each sample.")
    ] = None,
    follow_ups: Annotated[
        bool | None,
        typer.Option(
            "--follow-ups/--one-stage",
            help="Doubtful samples may be tested alone afterwards; default: yes for positive, ct and amount.",
        ),
    ] = None,
    volume: Annotated[
        float, typer.Option(metavar="V", parser=amount_of("volume"), help="Microlitres of each transfer.")
    ] = 10.0,
    seconds: Annotated[float, typer.Option(metavar="S", min=1, help="About the longest to simulate.")] = 45.0,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Plan pools: simulate designs for what you know, recommend one, and write all that making it takes.

    What is not given is asked for, if this is a terminal. The folder has the sheets to print, worklists for robots, a
    blank sheet for the counts, and a README.txt that says what to do next.

    \b
    Examples:
      qgt plan --samples 96 --positives 1-4 -o plan
      qgt plan --samples samples.xlsx --positives 1-3% --assay count --errors 2% --follow-ups -o plan
      qgt plan --samples 96 --positives 2 --assay positive --errors 98%,99% --largest-pool 16 -o plan
      qgt plan --samples 96 --positives 1-4 --assay ct --sigma 0.25 --limit 38 -o plan
      qgt plan --samples families.csv --positives 1-3% --attack-rate 40% -o plan
      qgt plan --samples 96 --categories "variant A=3%, variant B=1%" --errors 2% -o plan
      qgt plan --samples 96 --allele 2% --assay reads --depth 2000 --errors 0.1% -o plan
    """
    samples = samples or _asked("How many samples, or which file lists them?", "--samples")
    file = None if _NUMBER.fullmatch(samples) else Path(samples)
    check_files([], inputs=[file, loads])
    _refuse_folder(output)
    import torch

    from qgt.arguments import positive
    from qgt.lab.plan import question as questions
    from qgt.lab.plan.folder import write_plan
    from qgt.lab.plan.loads import MOST_MISSED
    from qgt.lab.plan.planning import plan as make_plan
    from qgt.lab.plan.question import Question

    listed, volume = _samples(samples, file), positive("volume", volume)
    values = questions.parse_values(categories, allele, positives)
    if values is None:
        positives = positives or _asked("About how many of them are positive (such as 1-4)?", "--positives")
    if values is None and assay is None and errors is None and sys.stdin.isatty():
        assay, errors = _asked_assay()
    kind = assay or ("count" if depth is None else "reads")
    options = {"sigma": sigma, "limit": limit, "dilution": dilution, "empty_ct": empty_ct, "relative": relative}
    options |= {"absolute": absolute, "load_mean": load_mean, "load_sd": load_sd}
    measured = questions.parse_measured(kind, {**options, "loads": loads})
    if measured is not None and errors is not None:
        raise ValueError(f"errors={errors} is not for the assay {kind}: give {questions.MEASURED[kind][0]} instead.")
    if measured is None and most_missed is not None:
        raise ValueError(f"most_missed={most_missed:g} is not for the assay {kind}: leave it out.")
    question = Question(
        listed,
        (0.0, 0.0) if positives is None else questions.parse_positives(positives, len(listed)),
        measured[0] if measured else questions.parse_assay(kind, questions.parse_errors(errors or "", kind), depth),
        certainty,
        most_pools,
        largest_pool,
        most_transfers,
        questions.two_stages(kind) if follow_ups is None else follow_ups,
        attack_rate,
        background,
        measured[1] if measured else None,
        MOST_MISSED if most_missed is None else most_missed,
        values,
    )
    generator = torch.Generator().manual_seed(seed)  # the plan hashes it with its own name
    with share_done("simulating designs") as show:
        made = make_plan(question, generator=generator, progress=show, seconds=seconds)
    written = write_plan(made, output, volume=volume)
    learn_ahead(written.path / "problem.toml")  # while somebody waits anyway, and the first plate is days away
    _tell(made, written, as_json)


def _refuse_folder(output: Path) -> None:
    """Refuse a folder that cannot be made, before the simulation and not after it."""
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise ValueError(f"{output}: is there already, and its pools may have been made; give another folder.")
    above = next(folder for folder in output.absolute().parents if folder.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        raise ValueError(f"{output}: cannot be written, as {above} does not let you; give another folder.")


def _asked_assay() -> tuple[str, str | None]:
    """The kind of assay and, unless it measures amounts, its errors, from the terminal."""
    from qgt.lab.plan.question import ASSAY_NUMBERS, MEASURED

    kind: str = typer.prompt("What does the assay report: count, reading, positive, ct or amount?", default="count")
    if kind in MEASURED:
        return kind, None
    usual = "0" if kind == "count" else None
    return kind, typer.prompt(f"It reports {ASSAY_NUMBERS.get(kind, '...')}", default=usual)


def _asked(words: str, option: str) -> str:
    """An answer from the terminal; where there is none, the option is missing."""
    if not sys.stdin.isatty():
        raise ValueError(f"{option} is missing: give it; see 'qgt plan --help'.")
    return str(typer.prompt(words))


def _samples(given: str, file: Path | None) -> "Samples":
    from qgt.lab.plan.question import MOST_SAMPLES
    from qgt.lab.sheets.samples import Samples

    if file is not None:
        return Samples.read(file)
    if not (given.isascii() and given.isdecimal()) or not 2 <= int(given[:9]) <= MOST_SAMPLES:
        remedy = f"give a whole number from 2 to {MOST_SAMPLES}, or a file"
        raise ValueError(f"samples={given} is not valid: {remedy}.")
    return Samples.numbered(int(given))


def _tell(made: "Plan", written: "PlanFolder", as_json: bool) -> None:
    from qgt.lab.plan.folder import plan_facts, plan_header, plan_rows, plan_words

    if as_json:
        facts = plan_facts(made, written.volume)
        return tell({"folder": str(written.path), **facts, "words": plan_words(made)}, "", [])
    tell(None, f"Wrote the folder {written.path}. Read its README.txt first.\n", [])
    tell(None, "\n".join(plan_words(made)) + "\n", [])
    columns, meaning = plan_header(made)
    tell(None, meaning + "\n", columns, *plan_rows(made))
