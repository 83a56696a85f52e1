"""The verbs that turn counts into calls: decode; and follow-up, which chooses the pools of a next round."""

import dataclasses
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

import qgt
from qgt.cli.shell import (
    Control,
    CountsFile,
    Json,
    Plugins,
    ProblemFile,
    Rounds,
    Seed,
    Target,
    app,
    check_files,
    chosen_device,
    exit_code,
    load_plugins,
    own_generator,
    planned_samples,
    problem_file,
    read_sheet,
    share_done,
    share_option,
    tell,
    tell_verdicts,
    write_files,
)
from qgt.decoders import DECODER_CLASSES

if TYPE_CHECKING:
    from qgt.lab.answers.accounts import Account
    from qgt.lab.answers.decoding import DecodedSheet
    from qgt.lab.rounds import FilledRound, Proposed, Round
    from qgt.lab.sheets.counts import CountSheet
    from qgt.lab.sheets.samples import Samples

DECODER_HELP = (
    f"{', '.join(DECODER_CLASSES)} or a plugin's file:Class; "
    "default certified, load_posterior for amounts, or belief for more than 5000 items in small pools."
)
PRETRAINED = "pretrained"
USUAL_CALIBRATION = 10.0  # seconds of simulation, of all sheets of a problem together
AHEAD = 2.0  # seconds of them, while a plan is made
MORE_LATER = "The next sheet of this problem continues the simulations; --calibrate 10 runs them all now."
MORE_NOW = "--calibrate 10 simulates more; a cache would keep the simulations for the next sheet."
ROUNDS_LIMIT, SURE_ENOUGH = 10.0, 0.99  # of later rounds: seconds for each plate, and where an answer is sure
UNMEASURED = (
    "Nothing was simulated (--calibrate 0, or --defectives): whether the counts fit the model is not known, and the "
    "confidence is the decoder's own."
)


@app.command()
def decode(
    counts: CountsFile,
    problem: Annotated[
        Path | None,
        typer.Option(metavar="PROBLEM", help="Design, prior and noise: TOML or JSON, or a folder of 'qgt plan'."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="CSV of calls, a column per sample; else printed."),
    ] = None,
    by_sample: Annotated[
        Path | None, typer.Option(metavar="FILE", help="CSV of calls, a line per sample, for laboratory systems.")
    ] = None,
    answers: Annotated[
        Path | None, typer.Option(metavar="FILE", help="CSV of best answers, sure or not: for 'qgt score' only.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="CSV: each plate's verdict, calls, answers and words.")
    ] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="A page about all of it, to forward.")] = None,
    certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the proofs, for 'qgt check'.")
    ] = None,
    decoder: Annotated[str | None, typer.Option(metavar="NAME", help=DECODER_HELP)] = None,
    model: Annotated[Path | None, typer.Option(metavar="RUN", help="Instead: a network from 'qgt train'.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="OPTION=VALUE", help="An option of the decoder; repeatable.")
    ] = None,
    odds: Annotated[
        float | None, typer.Option(metavar="R", help="List answers at least 1/R as probable; default 100.")
    ] = None,
    time_limit: Annotated[
        float | None,
        typer.Option(metavar="S", help="Seconds per plate, for certified and exact; default 5. 0: no limit."),
    ] = None,
    defectives: Annotated[
        int | None, typer.Option(metavar="K", help="Defectives per instance, if known (amp, maximum_neighborhood).")
    ] = None,
    calibrate: Annotated[
        float | None,
        typer.Option(
            metavar="S",
            min=0,
            help="Seconds of simulation now, to measure confidence and fit; 0: none. Default: half a second for each "
            "sheet, until enough is known.",
        ),
    ] = None,
    cache: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Keeps simulations for the next sheet; 'off': nowhere.")
    ] = None,
    attack_rate: Annotated[
        float | None, share_option("attack-rate", "A", "Of households, instead of the problem's: 10% or 0.1.")
    ] = None,
    target: Target = None,
    control: Control = None,
    device: Annotated[str, typer.Option(metavar="D", help="cpu, cuda or auto.")] = "cpu",
    rounds: Rounds = None,
    plugin: Plugins = None,
    as_json: Json = False,
) -> None:
    """Decode counts: call each sample of each plate, and say how far to trust it.

    \b
    certain     the most probable answer, with a probability of 99 % or more
    confident   the same, with 90 % or more
    unsure      the answer may be wrong: retest the samples that are named, or give more time
    suspect     the counts do not fit the model: check the counts, the design and the noise
    impossible  no answer explains the counts: nothing is called

    A sample is positive (1), negative (0), to be tested again, or not called at all: the cells of the last two are
    empty in -o FILE. Exit code 1 says that some plate is suspect or impossible.

    \b
    Examples:
      qgt decode counts.csv --problem problem.toml
      qgt decode counts.csv --problem problem.toml -o calls.csv --report report.csv --html report.html
      qgt decode counts.csv --problem problem.toml --decoder gamp --set damping=0.5 -o calls.csv
      qgt decode counts.csv --problem problem.toml --decoder pretrained -o calls.csv
      qgt decode counts.csv --model runs/mlp -o calls.csv
      qgt decode run.xlsx --problem problem.toml --target N1 --control RP
      qgt decode counts.csv --problem problem.toml --round round2 --round round3 -o calls.csv
      qgt decode run.xlsx --problem plan --target N1 --control RP --round round2=run2.xlsx
    """
    if model is None and problem is None:
        raise ValueError("give --problem, or --model; see 'qgt decode --help'.")
    if model is not None and decoder is not None:
        raise ValueError("decoder and model were both given: give one of them.")
    problem = None if problem is None else problem_file(problem)
    outputs = Outputs(output, by_sample, answers, report, html, certificate)
    later = round_files(rounds or ())
    check_files([*outputs], inputs=[counts, problem, model, *flat(later), *(plugin or ())])
    load_plugins(plugin)
    if rounds:
        others: dict[str, object] = {"model": model, "set": settings, "odds": odds, "attack_rate": attack_rate}
        refuse_with_rounds({**others, "defectives": defectives})
        assert problem is not None  # a model was refused
        done = _all_rounds(counts, problem, later, time_limit or ROUNDS_LIMIT, decoder, target, control)
    else:
        given = {"odds": odds, "time_limit": time_limit or None}
        texts = [*(settings or ()), *(f"{key}={value}" for key, value in given.items() if value is not None)]
        chosen = _chosen(
            problem, decoder, model, texts, keep_proofs=certificate is not None, limited=time_limit is None
        )
        samples = planned_samples(problem, chosen.problem)  # the plan's own problem: before the attack rate changes it
        if attack_rate is not None:
            chosen = chosen.with_attack_rate(attack_rate)
        read = read_sheet(counts, chosen.problem, samples, target, control)
        done = _one_round(counts, read, samples, chosen, defectives, calibrate, cache, device)
    facts = {"counts": counts, "problem": problem or model, **done.how, **_versions(done.sheet.problem)}
    write_files(_files(done, outputs, facts, time_limit or ROUNDS_LIMIT))
    if as_json:
        from qgt.lab.answers.outputs import sheet_facts

        tell({**outputs.written, **sheet_facts(done.sheet, done.decoder), "notes": done.notes}, "", [])
    else:
        _tell(done.sheet, outputs.written)
        for line in done.said:
            tell(None, f"\n{line}", [])
    raise typer.Exit(exit_code(done.sheet.accounts))


class Outputs(NamedTuple):
    """The files that decoding may write; None for those that were not asked for."""

    calls: Path | None
    by_sample: Path | None
    answers: Path | None
    report: Path | None
    page: Path | None
    certificate: Path | None

    @property
    def written(self) -> dict[str, str]:
        """The files that were asked for, by what they hold."""
        return {name: str(path) for name, path in self._asdict().items() if path is not None}


class Done(NamedTuple):
    """A sheet that was decoded, and what to say about how that was done."""

    sheet: "DecodedSheet"
    samples: "Samples | None"
    decoder: str
    how: Mapping[str, object]  # for the foot of the page
    notes: Sequence[str]  # for JSON
    said: Sequence[str]  # the same as lines on the screen


def refuse_with_rounds(given: Mapping[str, object]) -> None:
    """Refuse options that decoding of rounds does not have."""
    for name, value in given.items():
        if value is not None:
            raise ValueError(f"{name} has no meaning together with --round: leave it out.")


class Chosen(NamedTuple):
    """The decoder asked for, with its options, the problem to bind it to, and why another than the usual one."""

    name: str
    decoder: "qgt.Decoder"
    problem: "qgt.Problem"
    why: Sequence[str]

    def with_attack_rate(self, rate: float) -> "Chosen":
        """The same for households with another attack rate."""
        from qgt.model.prior import with_attack_rate

        prior = with_attack_rate(self.problem.prior, rate)
        return self._replace(problem=dataclasses.replace(self.problem, prior=prior))


def _chosen(
    problem: Path | None,
    name: str | None,
    model: Path | None,
    settings: list[str],
    *,
    keep_proofs: bool,
    limited: bool,
) -> Chosen:
    """The decoder that the options name."""
    from qgt.decoders.registry import make_decoder
    from qgt.lab.answers import decoding

    if model is not None:
        net = decoding.with_settings(qgt.load(model), decoding.parse_settings("neural", settings))
        if keep_proofs:
            raise ValueError("certificate has no meaning for a network: leave it out.")
        return Chosen("neural", net, net.problem if problem is None else qgt.Problem.load(problem), ())
    assert problem is not None  # one of the two was given
    loaded, why = qgt.Problem.load(problem), ""
    if name is None:  # whoever sets an option or wants a proof means the usual one
        meant = (settings or keep_proofs) and loaded.loads is None
        name, why = decoding.DecoderChoice("certified") if meant else decoding.usual_decoder(loaded)
    if keep_proofs and name != "certified":
        raise ValueError(f"certificate has no meaning for {name}: it is for --decoder certified.")
    options = decoding.parse_settings(name, settings)
    if name == "certified":
        options.setdefault("certificates", str(keep_proofs).lower())
    if name in decoding.LIMITED_DECODERS and limited:
        options.setdefault("time_limit", str(decoding.SECONDS_PER_PLATE))
    made = make_decoder(name, options)
    outside = _outside(made, loaded) if name == PRETRAINED else []  # the check imports networks
    return Chosen(name, made, loaded, [*([why] if why else ()), *outside])


def learn_ahead(problem: Path) -> None:
    """Simulate plates of a problem and keep what they teach, so that its first sheet is decoded by more of them.

    The cache has to be on; the next sheets continue these simulations.
    """
    from qgt.trust.cache import cache_folder
    from qgt.trust.confidence import Calibrated

    folder = cache_folder()
    if folder is not None:
        chosen = _chosen(problem, None, None, [], keep_proofs=False, limited=True)
        decoder = Calibrated(chosen.decoder, USUAL_CALIBRATION, cache=folder, at_once=AHEAD)
        decoder.bind(chosen.problem).learned()


def _outside(decoder: "qgt.Decoder", problem: "qgt.Problem") -> list[str]:
    """What a pretrained network was not trained for, in sentences."""
    if not isinstance(decoder, qgt.Pretrained) or decoder.supports(problem) is not None:
        return []
    return [f"The pretrained network may decode this problem poorly: {one}" for one in decoder.outside(problem)]


def _one_round(
    counts: Path,
    read: "CountSheet",
    samples: "Samples | None",
    chosen: Chosen,
    defectives: int | None,
    calibrate: float | None,
    cache: Path | None,
    device: str,
) -> Done:
    """A sheet of one round, decoded by the decoder that was chosen."""
    from qgt.lab.answers.decoding import decode_sheet
    from qgt.trust.cache import cache_folder
    from qgt.trust.confidence import AT_ONCE

    folder, seconds = cache_folder(cache), USUAL_CALIBRATION if calibrate is None else calibrate or None

    with share_done("decoding") as show, warnings.catch_warnings():
        if chosen.name == PRETRAINED:
            from qgt.decoders.neural.any_design import OutsideTraining

            warnings.simplefilter("ignore", OutsideTraining)  # `Chosen.why` has the same sentences
        sheet = decode_sheet(
            chosen.problem,
            read.y,
            read.names,
            chosen.decoder,
            defectives=defectives,
            calibrate=seconds,
            at_once=AT_ONCE if calibrate is None else None,
            cache=folder,
            device=chosen_device(device),
            on_progress=show,
        )
    why = [*chosen.why, *([UNMEASURED] if seconds is None or defectives is not None else ())]
    if sheet.checked is not None:
        why.append(f"{sheet.checked.words} {MORE_NOW if folder is None else MORE_LATER}")
    said = [*why, *([f"{counts}: {' '.join(read.notes)}"] if read.notes else ())]
    sheet = dataclasses.replace(sheet, notes=read.notes)
    return Done(sheet, samples, chosen.name, {"decoder": chosen.name}, [*why, *read.notes], said)


def _all_rounds(
    counts: Path,
    problem: Path,
    rounds: Sequence["RoundFiles"],
    seconds: float,
    decoder: str | None,
    target: str | None,
    control: str | None,
) -> Done:
    """A sheet with its later rounds, decoded together."""
    loaded = qgt.Problem.load(problem)
    usual = "certified" if loaded.loads is None else "load_posterior"
    refuse_with_rounds({"decoder": None if decoder == usual else decoder})
    samples = planned_samples(problem, loaded)
    read, filled = _read_rounds(counts, loaded, samples, rounds, target, control)
    sheet, _, notes = decoded_rounds(counts, read, loaded, filled, SURE_ENOUGH, seconds)
    return Done(sheet, samples, usual, {"rounds": sheet.rounds}, notes, notes)


def _files(
    done: Done, outputs: Outputs, facts: Mapping[str, object], seconds: float
) -> dict[Path, Callable[[Path], object]]:
    """What writes each file that was asked for; `seconds` are for the proofs of later rounds."""
    from qgt.lab.answers import outputs as files
    from qgt.lab.sheets.names import check_code

    sheet, samples, design = done.sheet, done.samples, done.sheet.problem.design
    items, title = design.item_names, f"Decoded: {Path(str(facts['counts'])).name}"
    values = sheet.problem.values
    places = None if samples is None else samples.places
    lines = files.sample_rows(sheet.accounts, check_code(design), places, values)
    cells = None if values is None else values.cells

    def write_page(path: Path) -> None:
        page = files.sheet_page(sheet, title=title, facts=facts, samples=samples)
        path.write_text(page, encoding="utf-8")

    writers: dict[str, Callable[[Path], object]] = {
        "calls": partial(files.write_calls, made=sheet.accounts, items=items),
        "by_sample": partial(files.write_samples, rows=lines, values=values),
        "answers": partial(files.write_answers, result=sheet.result, names=sheet.names, items=items, cells=cells),
        "report": partial(files.write_report, made=sheet.accounts),
        "page": write_page,
        "certificate": partial(files.write_proofs, sheet=sheet, seconds=seconds),
    }
    return {path: writers[name] for name, path in outputs._asdict().items() if path is not None}


def _versions(problem: "qgt.Problem") -> dict[str, object]:
    """What the foot of a page says, so that the page can be traced."""
    import time

    return {"fingerprint": problem.fingerprint, "version": f"qgt {qgt.__version__}", "date": time.strftime("%Y-%m-%d")}


def _number_called(made: "Sequence[Account]") -> str:
    """How many samples have each call."""
    from qgt.lab.verdicts import Call

    numbers = {word: sum(len(one.called(word)) for one in made) for word in Call}
    told = [f"{number:,} {word.words}" for word, number in numbers.items() if number]
    return f"{sum(numbers.values()):,} samples: {', '.join(told)}."


def _tell(sheet: "DecodedSheet", written: dict[str, str]) -> None:
    """The calls where no file has them, how many of each verdict or status, and the first instances in words."""
    from qgt.lab.answers.outputs import about_file, calls_line

    if "calls" not in written:
        tell(None, "\n".join(map(calls_line, sheet.accounts)) + "\n", [])
    files = f"Wrote {', '.join(written.values())}: " if written else ""
    title = f"{files}{_number_called(sheet.accounts)}"
    if sheet.rounds > 1:
        tests = sum(one.problem.pools for one in sheet.histories) / len(sheet.histories)
        return tell_verdicts(f"{title} {sheet.rounds} rounds: {tests:.1f} tests per plate.", sheet.accounts)
    for line in about_file(sheet) if sheet.fit is not None and sheet.fit.suspect else ():
        tell(None, line, [])
    if sheet.result.evidence.confidence is None:  # such a decoder says no more than its status
        numbers = {status: int((sheet.result.status == status).sum()) for status in qgt.Status}
        rows = [[status.name, number, status.meaning] for status, number in numbers.items() if number]
        return tell(None, title, ["status", "instances", "meaning"], *rows)
    tell_verdicts(title, sheet.accounts)


# The files of later rounds.


class RoundFiles(NamedTuple):
    """A round's folder and, where the reports are not in its counts.csv, their file."""

    folder: Path
    counts: Path | None


def round_files(texts: Sequence[str]) -> list[RoundFiles]:
    """What `--round` gives: FOLDER, or FOLDER=FILE.

    Example:
        >>> round_files(["round2=run2.csv", "round3"])[0].counts.name
        'run2.csv'
    """
    found = []
    for text in texts:
        folder, equals, file = text.partition("=")
        whole = not equals or Path(text).is_dir()  # the name of a folder may have = in it
        found.append(RoundFiles(Path(text), None) if whole else RoundFiles(Path(folder), Path(file)))
    return found


def flat(rounds: Sequence[RoundFiles]) -> list[Path | None]:
    """All folders and files of rounds."""
    return [path for one in rounds for path in one]


def _read_rounds(
    counts: Path,
    loaded: "qgt.Problem",
    samples: "Samples | None",
    rounds: Sequence[RoundFiles],
    target: str | None,
    control: str | None,
) -> "tuple[CountSheet, list[FilledRound]]":
    """The first round and the later ones; a target and a control are for those whose file names targets."""
    from qgt.files.grids import read_grids
    from qgt.lab.rounds import read_round
    from qgt.lab.sheets.counts import names_targets

    filled = [read_round(one.folder, loaded, one.counts, target=target, control=control) for one in rounds]
    if any(one.targets for one in filled) and not names_targets(read_grids(counts), loaded.noise):
        target = control = None
    return read_sheet(counts, loaded, samples, target, control), filled


# The verb follow-up: pools for a next round.

SHOWN_INSTANCES = 10  # instances on the screen; pools.csv has all


@app.command("follow-up")
def follow_up(
    counts: CountsFile,
    problem: ProblemFile,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="The new round's folder.")],
    rounds: Rounds = None,
    pools: Annotated[int, typer.Option(metavar="K", min=1, help="Pools for an instance, at most.")] = 4,
    at_most: Annotated[int | None, typer.Option(metavar="N", min=1, help="Items in a pool, at most.")] = None,
    each_at_most: Annotated[
        int | None, typer.Option(metavar="T", min=1, help="New pools that an item is in, at most.")
    ] = None,
    used_up: Annotated[
        list[str] | None, typer.Option("--used-up", metavar="ITEM", help="An item with nothing left; repeatable.")
    ] = None,
    confidence: Annotated[float, share_option("confidence", "P", "Stop where an answer is so sure.")] = 0.99,
    time_limit: Annotated[float, typer.Option(metavar="S", help="Seconds per instance.")] = 10.0,
    target: Target = None,
    control: Control = None,
    plugin: Plugins = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Choose the pools of a next round, for every instance that is not certain yet.

    FOLDER gets pools.csv (what to put together), counts.csv (to fill in) and round.json (the record). Then:
    'qgt decode COUNTS --problem PROBLEM --round FOLDER', or 'qgt follow-up' again, with --round FOLDER. Where the pools
    are run on a PCR machine under their names, give its table: --round FOLDER=TABLE.

    Exit code 1 says that some instance is left without pools that would help.

    \b
    Example:
      qgt follow-up counts.csv --problem problem.toml --pools 3 -o round2
    """
    problem = problem_file(problem)
    later = round_files(rounds or ())
    check_files([], inputs=[counts, problem, *flat(later), *(plugin or ())])
    from qgt.lab.rounds import as_round, propose, refuse_occupied
    from qgt.lab.rounds import used_up as uses_of

    refuse_occupied(output)
    load_plugins(plugin)
    loaded = qgt.Problem.load(problem)
    samples, design = planned_samples(problem, loaded), loaded.design
    read, filled = _read_rounds(counts, loaded, samples, later, target, control)
    decoded, before, notes = decoded_rounds(counts, read, loaded, filled, confidence, time_limit, seed)
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
    _tell_proposed(record, found, stuck, len(decoded.names), str(output), confidence, notes, as_json)
    raise typer.Exit(int(bool(stuck)))


def decoded_rounds(
    counts: Path,
    read: "CountSheet",
    loaded: "qgt.Problem",
    rounds: "Sequence[FilledRound]",
    confidence: float,
    time_limit: float,
    seed: int = 0,
) -> "tuple[DecodedSheet, list[Round], list[str]]":
    """The instances of a file that was read, with all their rounds, decoded; the records; notes on the files."""
    from qgt.lab.answers.accounts import numbers
    from qgt.lab.answers.decoding import ByLongerLists, decode_history
    from qgt.lab.rounds import after_rounds
    from qgt.rounds.history import History
    from qgt.rounds.stopping import Settle

    called = list(read.names or numbers(len(read.y)))
    histories, before = after_rounds([History.start(loaded, row) for row in read.y], called, rounds)
    way = ByLongerLists(
        Settle(confidence=confidence, time_limit=time_limit), own_generator("decode-rounds", seed, "cpu")
    )
    decoded = decode_history(loaded, histories, called, way, rounds=1 + len(before))
    later = [f"{one.where}: {' '.join(one.notes)}" for one in rounds if one.notes]
    decoded = dataclasses.replace(decoded, notes=(*read.notes, *later))
    unfit = [decoded.fit.words] if decoded.fit is not None and decoded.fit.suspect else []
    notes = [f"{counts}: {' '.join(read.notes)}"] if read.notes else []
    return decoded, before, [*unfit, *notes, *later]


def _stuck(decoded: "DecodedSheet", found: "Sequence[Proposed]", confidence: float) -> list[str]:
    """Instances that are not sure and for which no pool was found."""
    given = {one.account.name for one in found}
    open_ = [one for one in decoded.accounts if one.name not in given]
    return [
        one.name
        for one in open_
        if str(one.verdict) in ("impossible", "suspect") or (one.confidence or 0.0) < confidence
    ]


def _tell_proposed(
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
    from qgt.lab.wording import many

    sure, tests = instances - len(found) - len(stuck), sum(len(one.pools.matrix) for one in found)
    remaining = sum(max(one.pools.remaining, len(one.pools.matrix)) for one in found)
    if as_json:
        numbers = {"instances": instances, "sure": sure, "pools": tests, "remaining": remaining}
        facts = {
            "folder": folder if found else None,
            "round": record.number,
            "code": record.code,
            "fingerprint": record.fingerprint,
            **numbers,
            "stuck": list(stuck),
            "notes": list(notes),
            "proposed": {one.account.name: [list(pool) for pool in one.pools.members] for one in found},
        }
        return tell(facts, "", [])
    title = f"Sure ({100 * confidence:g} % or more): {sure} of {many(instances, 'instance')}."
    if found:
        title += f" Wrote {folder}, round {record.number}: {many(tests, 'pool')} for {many(len(found), 'instance')} "
        title += f"(proposal {record.code})."
        title += f" Tests that remain in all, these counted: about {remaining}."
    if stuck:
        title += f" For {', '.join(stuck[:SHOWN_INSTANCES])} no pool would help: check the counts and the limits given."
    rows = [[one.account.name, str(one.account.verdict), proposal_in_words(one)] for one in found[:SHOWN_INSTANCES]]
    tell(None, title, ["instance", "verdict", "next"], *rows)
    if len(found) > SHOWN_INSTANCES:
        tell(None, f"{len(found) - SHOWN_INSTANCES} more in {folder}/pools.csv.", [])
    for note in notes:
        tell(None, f"\n{note}", [])
