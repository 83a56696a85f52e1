"""The verb follow-up: pools for a next round."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import qgt
from qgt.cli.shell import (
    Control,
    CountsFile,
    Json,
    Plugins,
    ProblemFile,
    Seed,
    Target,
    app,
    check_files,
    load_plugins,
    own_generator,
    planned_samples,
    problem_file,
    read_sheet,
    share_of,
    tell,
    write_files,
)

if TYPE_CHECKING:
    from qgt.lab.answers.decoding import DecodedSheet
    from qgt.lab.rounds import Proposed, Round
    from qgt.lab.sheets.counts import CountSheet

SHOWN_INSTANCES = 10  # instances on the screen; pools.csv has all


@app.command("follow-up")
def follow_up(
    counts: CountsFile,
    problem: ProblemFile,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="The new round's folder.")],
    rounds: Annotated[
        list[Path] | None, typer.Option("--round", metavar="FOLDER", help="A later round, counts filled in; in order.")
    ] = None,
    pools: Annotated[int, typer.Option(metavar="K", min=1, help="Pools for an instance, at most.")] = 4,
    at_most: Annotated[int | None, typer.Option(metavar="N", min=1, help="Items in a pool, at most.")] = None,
    each_at_most: Annotated[
        int | None, typer.Option(metavar="T", min=1, help="New pools that an item is in, at most.")
    ] = None,
    used_up: Annotated[
        list[str] | None, typer.Option("--used-up", metavar="ITEM", help="An item with nothing left; repeatable.")
    ] = None,
    confidence: Annotated[
        float, typer.Option(metavar="P", parser=share_of("confidence"), help="Stop where an answer is so sure.")
    ] = 0.99,
    time_limit: Annotated[float, typer.Option(metavar="S", help="Seconds per instance.")] = 10.0,
    target: Target = None,
    control: Control = None,
    plugin: Plugins = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Choose the pools of a next round, for every instance that is not certain yet.

    FOLDER gets pools.csv (what to put together), counts.csv (to fill in) and round.json (the record). Then:
    'qgt decode COUNTS --problem PROBLEM --round FOLDER', or 'qgt follow-up' again, with --round FOLDER.

    Exit code 1 says that some instance is left without pools that would help.

    \b
    Example:
      qgt follow-up counts.csv --problem problem.toml --pools 3 -o round2
    """
    problem = problem_file(problem)
    check_files([], inputs=[counts, problem, *(rounds or ()), *(plugin or ())])
    from qgt.lab.rounds import as_round, propose, refuse_occupied
    from qgt.lab.rounds import used_up as uses_of

    refuse_occupied(output)
    load_plugins(plugin)
    loaded = qgt.Problem.load(problem)
    samples, design = planned_samples(problem, loaded), loaded.design
    read = read_sheet(counts, loaded, samples, target, control)
    decoded, before, notes = decoded_rounds(counts, read, loaded, rounds or (), confidence, time_limit, seed)
    each = pools if each_at_most is None else each_at_most
    found = propose(
        decoded,
        confidence=confidence,
        pools=pools,
        at_most=at_most,
        each_at_most=uses_of(design.item_names, used_up or (), each),
        risk=(1 - confidence) / 2,
        generator=own_generator("follow-up", seed, "cpu"),
    )
    record = as_round(decoded, found, before, design.fingerprint)
    stuck = _stuck(decoded, found, confidence)
    if found:
        write_files(record.files(output))
    _tell(record, found, stuck, len(decoded.names), str(output), confidence, notes, as_json)
    raise typer.Exit(int(bool(stuck)))


def decoded_rounds(
    counts: Path,
    read: "CountSheet",
    loaded: "qgt.Problem",
    rounds: Sequence[Path],
    confidence: float,
    time_limit: float,
    seed: int = 0,
) -> "tuple[DecodedSheet, list[Round], list[str]]":
    """The instances of a file that was read, with all their rounds, decoded; the rounds' records; notes on the file."""
    from qgt.lab.answers.accounts import numbers
    from qgt.lab.answers.decoding import ByLongerLists, decode_history
    from qgt.lab.rounds import joined_rounds
    from qgt.rounds.history import History
    from qgt.rounds.stopping import Settle

    called = list(read.names or numbers(len(read.y)))
    histories, before = joined_rounds([History.start(loaded, row) for row in read.y], called, rounds)
    way = ByLongerLists(
        Settle(confidence=confidence, time_limit=time_limit), own_generator("decode-rounds", seed, "cpu")
    )
    decoded = decode_history(loaded, histories, called, way, rounds=1 + len(before))
    unfit = [decoded.fit.words] if decoded.fit is not None and decoded.fit.suspect else []
    notes = [f"{counts}: {' '.join(read.notes)}"] if read.notes else []
    return decoded, before, [*unfit, *notes]


def _many(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _stuck(decoded: "DecodedSheet", found: "Sequence[Proposed]", confidence: float) -> list[str]:
    """Instances that are not sure and for which no pool was found."""
    given = {one.account.name for one in found}
    open_ = [one for one in decoded.accounts if one.name not in given]
    return [
        one.name
        for one in open_
        if str(one.verdict) in ("impossible", "suspect") or (one.confidence or 0.0) < confidence
    ]


def _tell(
    record: "Round",
    found: "Sequence[Proposed]",
    stuck: Sequence[str],
    instances: int,
    folder: str,
    confidence: float,
    notes: Sequence[str],
    as_json: bool,
) -> None:
    from qgt.lab.rounds import proposal_in_words

    sure, tests = instances - len(found) - len(stuck), sum(len(one.pools.matrix) for one in found)
    remaining = sum(max(one.pools.remaining, len(one.pools.matrix)) for one in found)
    if as_json:
        facts = {
            "folder": folder if found else None,
            "round": record.number,
            "fingerprint": record.fingerprint,
            "instances": instances,
            "sure": sure,
            "pools": tests,
            "remaining": remaining,
            "stuck": list(stuck),
            "notes": list(notes),
            "proposed": {one.account.name: [list(pool) for pool in one.pools.members] for one in found},
        }
        return tell(facts, "", [])
    title = f"Sure ({100 * confidence:g} % or more): {sure} of {_many(instances, 'instance')}."
    if found:
        title += f" Wrote {folder}, round {record.number}: {_many(tests, 'pool')} for {_many(len(found), 'instance')}."
        title += f" Tests that remain in all, these counted: about {remaining}."
    if stuck:
        title += f" For {', '.join(stuck[:SHOWN_INSTANCES])} no pool would help: check the counts and the limits given."
    rows = [[one.account.name, str(one.account.verdict), proposal_in_words(one)] for one in found[:SHOWN_INSTANCES]]
    tell(None, title, ["instance", "verdict", "next"], *rows)
    if len(found) > SHOWN_INSTANCES:
        tell(None, f"{len(found) - SHOWN_INSTANCES} more in {folder}/pools.csv.", [])
    for note in notes:
        tell(None, f"\n{note}", [])
