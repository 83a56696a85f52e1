"""The verb plan: from what a person knows to a folder with everything that making the pools takes."""

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import qgt
from qgt.cli.decoding import learn_ahead
from qgt.cli.shell import Json, Seed, amount_option, app, check_files, share_done, share_option, tell

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
        share_option("allele", "F", "Instead: the frequency of an allele, of which samples have 0, 1 or 2 copies."),
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
        share_option(
            "attack-rate",
            "A",
            "With households: the chance that a member is positive where there is an outbreak; default 50%.",
        ),
    ] = None,
    background: Annotated[
        float | None,
        share_option(
            "background",
            "B",
            "With households: the chance of any other sample; default: a fifth of the expected share.",
        ),
    ] = None,
    sigma: Annotated[
        float | None, amount_option("sigma", "S", "ct: the standard error in cycles; default 0.25.")
    ] = None,
    limit: Annotated[
        float | None,
        amount_option(
            "limit",
            "L",
            "ct: the last cycle that counts as detected; default 38. amount: the least one reported; default 0.",
        ),
    ] = None,
    dilution: Annotated[
        float | None,
        amount_option(
            "dilution",
            "D",
            "ct, amount: 1 if a pool is equal parts of one volume, 0 if samples give full volumes; default 1.",
        ),
    ] = None,
    empty_ct: Annotated[
        float | None, amount_option("empty-ct", "CT", "ct: what pools without a positive read; default: nothing.")
    ] = None,
    relative: Annotated[
        float | None, share_option("relative", "R", "amount: standard error of large ones; default 10%.")
    ] = None,
    absolute: Annotated[
        float | None, amount_option("absolute", "A", "amount: standard error near 0; default 1.")
    ] = None,
    load_mean: Annotated[
        float | None,
        amount_option(
            "load-mean",
            "M",
            "ct: mean cycle of positives tested alone; default 27.3. amount: mean of the log10; default 2.92.",
        ),
    ] = None,
    load_sd: Annotated[
        float | None, amount_option("load-sd", "S", "Its standard deviation; default 6.2 cycles, or 1.87.")
    ] = None,
    loads: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Instead: a CSV or XLSX file with the cycles (or amounts) of your positives."
        ),
    ] = None,
    most_missed: Annotated[
        float | None,
        share_option(
            "most-missed",
            "M",
            "ct, amount: the share of positives that pools may dilute beyond detection; default 10%.",
        ),
    ] = None,
    certainty: Annotated[
        float, share_option("certainty", "C", "The share of plates to be decoded without an error.")
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
    volume: Annotated[float, amount_option("volume", "V", "Microlitres of each transfer.")] = 10.0,
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

    listed, volume = _samples(samples, file), positive("volume", volume)
    values = questions.parse_values(categories, allele, positives)
    if values is None:
        positives = positives or _asked("About how many of them are positive (such as 1-4)?", "--positives")
    if values is None and assay is None and errors is None and sys.stdin.isatty():
        assay, errors = _asked_assay()
    kind = assay or ("count" if depth is None else "reads")
    options = {"sigma": sigma, "limit": limit, "dilution": dilution, "empty_ct": empty_ct, "relative": relative}
    options |= {"absolute": absolute, "load_mean": load_mean, "load_sd": load_sd}
    noise, own_loads = _assay(kind, errors, depth, {**options, "loads": loads}, most_missed)
    question = questions.Question(
        listed,
        positives=(0.0, 0.0) if positives is None else questions.parse_positives(positives, len(listed)),
        assay=noise,
        certainty=certainty,
        most_pools=most_pools,
        largest_pool=largest_pool,
        most_transfers=most_transfers,
        follow_ups=questions.two_stages(kind) if follow_ups is None else follow_ups,
        attack_rate=attack_rate,
        background=background,
        loads=own_loads,
        most_missed=MOST_MISSED if most_missed is None else most_missed,
        values=values,
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


def _assay(
    kind: str,
    errors: str | None,
    depth: int | None,
    options: Mapping[str, float | Path | None],
    most_missed: float | None,
) -> "tuple[qgt.Noise, qgt.Loads | None]":
    """The noise of the assay and, where it measures amounts, the loads of positives; options of others are refused."""
    from qgt.lab.plan.question import MEASURED, parse_assay, parse_errors, parse_measured

    measured = parse_measured(kind, options)
    if measured is None:
        if most_missed is not None:
            raise ValueError(f"most_missed={most_missed:g} is not for the assay {kind}: leave it out.")
        return parse_assay(kind, parse_errors(errors or "", kind), depth), None
    if errors is not None:
        raise ValueError(f"errors={errors} is not for the assay {kind}: give {MEASURED[kind][0]} instead.")
    return measured


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
