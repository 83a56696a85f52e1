"""The main job end to end, in a few minutes: the paper's problem, its network trained, decoders compared up to the
limit on the same instances, the pooling matrix read back from the network, plates of cycle thresholds, and a report to
read and to forward.

    make demo
"""

import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import torch
from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

import qgt
from qgt.decoders.registry import make_decoder
from qgt.files.store import write_text
from qgt.lab.answers.accounts import Account, tally
from qgt.lab.answers.outputs import card
from qgt.lab.verdicts import Verdict
from qgt.pictures import pages
from qgt.pictures.pages import DecoderStanding
from qgt.study import network_path, networks_folder
from qgt.study.plan import Entry, Recipe
from qgt.version import provenance

REPORT = "out/demo/report.html"
SEED, HELD_OUT, MANY, HARDER, FEWER_POOLS, PLATES = 0, 10_000, 1000, 100, 22, 60
# To early stopping, as in the paper, it takes some 300 epochs; a cosine rate gets nearly as far in 40.
TRAINING = qgt.TrainConfig(epochs=40, batch=512, learning_rate=3e-3, patience=None, cosine=True)
PROBLEM = (
    "There are 100 items, and each is defective with a probability of 6 %. Testing them one by one takes 100 tests. "
    "Here 35 pools are measured instead; every item is in about half of them, and each pool reports how many of its "
    "items are defective. 6 % of the counts are noisy: such a count is right, one too high or one too low, by "
    "chance. A decoder is given the 35 counts and has to name the defective items; it succeeds only if all 100 calls "
    "are right."
)
DECODERS = {
    "limit": {"kind": "certified", "certificates": False, "label": "Certified", "limit": True},
    "gamp": {"kind": "gamp", "label": "GAMP"},
    "amp": {"kind": "amp", "label": "AMP, scanning K"},
    "amp_told": {"kind": "amp", "defectives": "true", "tune": True, "label": "AMP, told the true K"},
    "amp_nearly": {"kind": "amp", "defectives": "noisy", "tune": True, "label": "AMP, told K ± 1"},
    "amp_fixed": {"kind": "amp", "defectives": 6, "tune": True, "label": "AMP, told 6 for all"},
}
NOTES = {
    "limit": "exact MAP, proved",
    "amp_told": "the paper's Oracle-K",
    "amp_nearly": "K plus -1, 0 or 1: the paper's Noisy-K",
    "amp_fixed": "the paper's Fixed-K",
    "network": f"trained for {TRAINING.epochs} epochs, shortened",
}


def the_study() -> qgt.Study:
    """The paper's problem, and every decoder on the same held-out instances."""
    planned = qgt.Study.from_plain(
        {
            "instances": HELD_OUT,
            "batch": HELD_OUT // 4,
            "designs": [SEED],
            "problem": {
                "design": {"kind": "bernoulli", "pools": 35, "items": 100},
                "prior": {"kind": "bernoulli", "rate": 0.06},
                "noise": {"kind": "sparse_integer", "rate": 0.06, "bound": 1},
            },
            "decoders": DECODERS,
        }
    )
    network = Entry("network", "mlp", Recipe(qgt.MLP.level(5), TRAINING), label="Network, Level 5")
    return replace(planned, decoders=[*planned.decoders, network])


def with_bar(console: Console) -> Progress:
    """A bar with words and the time left."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True)


def compare(planned: qgt.Study, db: Path, progress: Progress) -> list[DecoderStanding]:
    """Train the network, and decode the same instances with every decoder."""
    task = progress.add_task("starting", total=None)

    def show(now: qgt.StudyProgress) -> None:
        progress.update(task, completed=now.done, total=now.total, description=now.doing)

    qgt.run_study(planned, db, on_progress=show)
    found = sorted(qgt.study_results(planned, db), key=lambda one: -one.score.success_rate)
    return [DecoderStanding(one.label, one.score, one.seconds, one.limit, NOTES.get(one.decoder, "")) for one in found]


def sheet(standings: list[DecoderStanding]) -> Table:
    """What the screen shows."""
    shown = Table("decoder", title=f"{HELD_OUT:,} held-out instances, the same for all; 95 % intervals", box=box.SIMPLE)
    for column in ("success", "from - to", "F1", "from - to", "µs each"):
        shown.add_column(column, justify="right", no_wrap=True)
    for one in standings:
        cells = []
        for metric in ("success_rate", "f1"):
            low, high = one.score.interval(metric)
            cells += [f"{one.score.mean(metric):.3f}", f"{low:.3f}-{high:.3f}"]
        shown.add_row(one.name + (" (the limit)" if one.limit else ""), *cells, f"{one.microseconds:,.0f}")
    return shown


def examples(problem: qgt.Problem, x: torch.Tensor, y: torch.Tensor) -> pages.Piece:
    """Three decodes as different as they come, and how verdicts fare over all.

    With 35 pools hardly any instance is in doubt, so the doubtful ones come from the first 22 pools alone.
    """
    few = qgt.Problem(qgt.Design.from_matrix(problem.design.matrix[:FEWER_POOLS].clone()), problem.prior, problem.noise)
    y_all, y_few = y[:MANY], y[:HARDER, :FEWER_POOLS].clone()
    found_all, found_few = qgt.Certified().bind(problem)(y_all), qgt.Certified().bind(few)(y_few)
    all_, harder = qgt.accounts(problem, y_all, None, found_all), qgt.accounts(few, y_few, None, found_few)
    some = found_all.pick(torch.arange(HARDER))
    held = int(qgt.check_certificate(problem, y[:HARDER], some).sum())
    held_few = int(qgt.check_certificate(few, y_few, found_few).sum())
    proofs = f"Proofs that a checker apart from the solver accepted: {held} of the first {HARDER} with 35 pools, "
    proofs += f"{held_few} of {HARDER} with {FEWER_POOLS}."
    most_off = f"All 35 pools; of {MANY:,} instances, the one with most counts off."
    fewer = f"The same kind of instance, but only the first {FEWER_POOLS} of its 35 pools were counted."
    chosen = [
        ("All pools", most_off, problem, y_all, _extreme(all_, Verdict.CERTAIN, lambda one: len(one.residuals))),
        ("Fewer pools", fewer, few, y_few, _extreme(harder, Verdict.CONFIDENT, lambda one: len(one.alternatives))),
        (
            "Fewer pools, in doubt",
            fewer,
            few,
            y_few,
            _extreme(harder, Verdict.UNSURE, lambda one: -(one.confidence or 0.0)),
        ),
    ]
    cards = [
        card(of, one, counts[i], title=title, note=note, truth=x[i])
        for title, note, of, counts, one in chosen
        if one is not None and (i := int(one.name) - 1) >= 0
    ]
    right_all = (found_all.x == x[:MANY]).all(1).tolist()
    right_few = (found_few.x == x[:HARDER]).all(1).tolist()
    tallies = {"35 pools": tally(all_, right_all), f"{FEWER_POOLS} pools": tally(harder, right_few)}
    meaning = "Certain: the answer has a probability of 99 % or more. Confident: of 90 % or more. Unsure: of less."
    return pages.section(
        "Three decodes, in words",
        pages.paragraph(
            "Certified names the most probable answer, proves it, and lists every other answer that is at least a "
            "hundredth as probable. So it knows when to doubt. With all 35 pools it hardly ever has to; the second and "
            f"third example use the first {FEWER_POOLS} pools only, which is a harder problem of the same design."
        ),
        *map(pages.decode_card, cards),
        _right(tallies, f"How verdicts fare against the truth. {meaning}"),
        pages.paragraph(proofs, quiet=True),
    )


def cycle_thresholds() -> pages.Piece:
    """A PCR machine's plates: who is positive, how much each has, and what the verdicts are worth."""
    g = torch.Generator().manual_seed(SEED)
    design = qgt.Design.column_regular(pools=27, items=96, weight=3, generator=g)
    noise = qgt.CycleThreshold(sigma=0.25, limit=38.0)
    problem = qgt.Problem(design, qgt.Loads(rate=0.02, mean=2.9, sd=1.9, low=0.0), noise)
    x, y = problem.simulate(PLATES, generator=g)
    found = qgt.LoadPosterior().bind(problem)(y)
    made = qgt.accounts(problem, y, None, found)
    right = (found.x == (x > 0)).all(1)
    peers = {name: (make_decoder(name).bind(problem)(y).x == (x > 0)).all(1) for name in ("comp_sbl", "comp")}
    rates = {"LoadPosterior": right, "COMP, then SBL": peers["comp_sbl"], "COMP": peers["comp"]}
    cells = [(name, f"{int(those.sum())} of {PLATES}") for name, those in rates.items()]
    most = max((one for one in made if one.verdict is Verdict.CERTAIN), key=lambda one: len(one.answer))
    verdicts = {"27 pools": tally(made, right.tolist())}
    return pages.section(
        "Cycle thresholds instead of counts",
        pages.paragraph(
            f"A PCR machine does not count. It reports at which cycle a pool's signal appears. Here {PLATES} plates of "
            "96 samples are simulated, 2 % of them positive, with loads as published for 1,632 positives; 27 pools are "
            "measured, and every sample is in three of them. A strong positive hides a weak one in the same pool, so "
            "a probability for each answer matters more than the answer alone."
        ),
        pages.table(("decoder", "plates with every call right"), cells, caption="The same plates for all."),
        _right(verdicts, "How verdicts of LoadPosterior fare against the truth."),
        pages.paragraph(f"The certain plate with most positives, in words. {most.words}"),
    )


def _right(tallies: Mapping[str, Mapping[str, tuple[int, int]]], caption: str) -> pages.Piece:
    """How many decodes of each problem have each verdict, and how many of them are right."""
    cells = [
        (f"{name}: {word}", f"{number:,}", f"{right:,}")
        for name, words in tallies.items()
        for word, (number, right) in words.items()
    ]
    return pages.table(("verdict", "instances", "of them right"), cells, caption=caption)


def _extreme(made: list[Account], word: Verdict, key: Callable[[Account], float]) -> Account | None:
    """Of the instances with a verdict, the one with the largest key; None where there is none."""
    return max((one for one in made if one.verdict is word), key=key, default=None)


def write(problem: qgt.Problem, standings: list[DecoderStanding], found: qgt.VerificationReport, decodes: pages.Piece,
          plates: pages.Piece, colophon: Mapping[str, object]) -> None:  # fmt: skip
    """The report, as one file."""
    caption = "Held out, and the same for all; 95 % intervals below the numbers. Times are for batches of "
    caption += f"{HELD_OUT // 4:,} instances on the machine named at the end."
    limit = (
        "The limit is the most probable answer, found and proved: no decoder that sees only the counts succeeds more "
        f"often. The network was trained for {TRAINING.epochs} epochs to keep the demo short; to early stopping it "
        "takes some 300 and reaches a success rate of 0.71, as in the paper."
    )
    bars = "Success rates with 95 % intervals; the dashed line is the limit."
    jacobian = (
        "The network was never shown the pooling matrix A. Its derivatives give it away: the closed form of the paper, "
        f"at {found.instances:,} instances, reads A back from the network alone."
    )
    text = pages.page(
        "Finding the defective items among 100 from 35 pooled counts",
        "Seven decoders on the same simulated instances, the limit that none can pass, and how far to trust an answer.",
        [
            pages.section("The problem", pages.paragraph(PROBLEM)),
            pages.section("Who finds them", pages.standings_chart(standings, caption=bars),
                           pages.standings_table(standings, caption=caption), pages.paragraph(limit)),
            decodes,
            pages.section("The pools, read back from the network", pages.paragraph(jacobian),
                           pages.verification(found)),
            plates,
        ],
        colophon=pages.facts(colophon),
    )  # fmt: skip
    write_text(REPORT, text)


def main() -> None:
    """Simulate, train, decode, score, verify, report."""
    console, start = Console(), time.perf_counter()
    planned = the_study()
    task = planned.tasks[-1]  # the network's
    problem = task.problem()
    console.print(f"{problem.items} items, 6 % defective, {problem.pools} pooled counts, 6 % of them noisy.")
    with tempfile.TemporaryDirectory() as folder, with_bar(console) as progress:
        db = Path(folder) / "demo.db"
        standings = compare(planned, db, progress)
        progress.add_task("explaining three decodes, reading the matrix back", total=None)
        decodes = examples(problem, *task.draw(problem, 0))
        network = qgt.load(network_path(networks_folder(db), task))
        found = qgt.verify(network, problem, generator=torch.Generator().manual_seed(SEED))
        progress.add_task("decoding cycle thresholds", total=None)
        plates = cycle_thresholds()
    console.print(sheet(standings))
    console.print(f"Read back from the network: {found.verdict}")
    took, made_on = time.perf_counter() - start, provenance("cpu")
    colophon = {
        "command": "make demo",
        "seed": f"{SEED}, for the design; all others are hashes of what they are for",
        "training": f"Level 5 (500-500), {TRAINING.instances:,} instances, {TRAINING.epochs} epochs, batch "
        f"{TRAINING.batch}, cosine learning rate from {TRAINING.learning_rate:g}, no early stopping",
        "problem": problem.fingerprint,
        "versions": f"qgt {made_on['qgt']}, torch {made_on['torch']}, Python {made_on['python']}",
        "machine": f"{made_on['device']}, threads: {made_on['threads']}; the whole demo took {took:.0f} s",
        "date": time.strftime("%Y-%m-%d"),
    }
    write(problem, standings, found, decodes, plates, colophon)
    console.print(f"The report, in {took:.0f} s: {REPORT}")


if __name__ == "__main__":
    main()
