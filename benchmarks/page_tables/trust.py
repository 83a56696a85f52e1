"""Tables of trust: wrong counts, confidence, and changed designs."""

from functools import partial
from pathlib import Path

from page_tables.cells import read
from qgt.files.documents import markdown_table

WORDS = ("certain", "confident", "unsure", "suspect", "impossible")


def tamper_table(root: Path) -> str:
    """Flipped entries of a claimed matrix found by Level 5, five networks, ten repeats each."""
    repeats = [repeat for row in read(root, "level5")["rows"] for repeat in row["tamper"]]
    found, missed, false = (sum(repeat[key] for repeat in repeats) for key in ("found", "missed", "false"))
    shares = [f"{found / (found + missed):.3f}", f"{found / (found + false):.3f}"]
    return markdown_table(
        ["flipped entries", "found", "missed", "listed falsely", "recall", "precision"],
        [[f"{found + missed:,} in {len(repeats)} repeats", found, missed, false, *shares]],
    )


def misfit_table(setting: str, root: Path) -> str:
    """What plates were told with something wrong in the file, in per cent; and wrong answers that were trusted."""
    lines = []
    for row in read(root, "misfit")["rows"]:
        if row["setting"] != setting:
            continue
        share = [f"{100 * row[word] / row['plates']:.1f}" for word in WORDS]
        wrong = 100 * (row["wrong_certain"] + row["wrong_confident"]) / row["plates"]
        files = f"{row['alarms']:,} of {row['files']:,}"
        first = f"{row['true_cause_first']} of {row['alarms']}" if row["names_a_cause"] and row["alarms"] else ""
        lines.append([row["misuse"], f"{row['plates']:,}", *share, f"{wrong:.2f}", files, first])
    header = ["what is wrong", "plates", *(f"{word}, %" for word in WORDS), "trusted but wrong, %"]
    return markdown_table([*header, "files that do not fit", "its cause named first"], lines)


def best_table(root: Path) -> str:
    """What the best detector there is would see of wrong counts, beside what is seen."""
    lines = []
    for row in read(root, "misfit_best")["rows"]:
        share = f"{100 * row['seen_at_best']:.1f} %"
        lines.append([row["setting"], f"+ {row['by']}", f"{row['plates']:,}", share, f"{row['false_alarms']:.1g}"])
    return markdown_table(["setting", "one count", "plates", "seen at best", "false alarms"], lines)


def calibration_table(root: Path) -> str:
    """How far confidence is from the share of right answers, beyond scatter."""
    lines = []
    for row in read(root, "calibration")["rows"]:
        beyond = [_beyond(row["error"], row["scatter"]), f"{row['scatter']:.4f}"]
        beyond += [_beyond(row["complete_error"], row["complete_scatter"])]
        right = f"{row['right'] / row['instances']:.3f}"
        complete = f"{100 * row['complete'] / row['instances']:.0f} %"
        lines.append([row["problem"], row["decoder"], f"{row['instances']:,}", right, complete, *beyond])
    header = ["problem", "decoder", "instances", "right", "list complete"]
    return markdown_table([*header, "calibration error beyond scatter", "scatter", "of complete lists"], lines)


def calls_table(name: str, root: Path) -> str:
    """Verdicts and calls of simulated plates against the truth, and calls that differ between files."""
    lines = []
    for row in read(root, name)["rows"]:
        sure = [_wrong(row["verdicts"].get(word)) for word in ("certain", "confident")]
        calls = row["calls"]
        negative, positive = calls["negative"], calls["positive"]
        cells = [
            f"{positive['samples'] - positive['positive']:,} of {positive['samples']:,}",
            f"{negative['positive']:,} of {negative['samples']:,}",
            f"{calls['retest']['samples']:,}",
            f"{calls['none']['samples']:,}",
            f"{row['positives_that_the_answer_has_as_0']:,}",
        ]
        files = [f"{row['calls_that_differ']:,} of {row['calls_compared']:,}"] if row["calls_compared"] else []
        lines.append([row["setting"], f"{row['plates']:,}", *sure, *cells, *files])
    header = ["setting", "plates", "certain but wrong", "confident but wrong", "called positive but negative"]
    header += ["called negative but positive", "retest", "no call", "positives that the best answer has as 0"]
    return markdown_table([*header, "calls that differ between files"][: len(lines[0])], lines)


def _wrong(found: dict[str, int] | None) -> str:
    return "" if found is None else f"{found['wrong']:,} of {found['plates']:,}"


def calibration_figure(root: Path) -> str:
    """The figure that `benchmarks/calibration.py --draw` makes of the same results."""
    read(root, "calibration")
    return "![Share of right answers against confidence](images/calibration.png)"


def promises_table(root: Path) -> str:
    """What is said of first plates, with next to no simulations, and what of it is wrong."""
    lines = []
    for name, row in read(root, "first_plate")["promises"]["rows"].items():
        simulated = f"{min(row['simulated']):,} to {max(row['simulated']):,}"
        certain = f"{row['certain wrong']} of {row['certain']:,}" if row["certain"] else ""
        confident = f"{row['confident wrong']} of {row['confident']:,}" if row["confident"] else ""
        promised = f"{row['promised wrong']:.1f}" if row["certain"] else ""
        lines.append([name, simulated, f"{row['right']:,} of {row['plates']:,}", certain, promised, confident])
    header = ["setting", "simulated", "right", "certain but wrong", "promised wrong", "confident but wrong"]
    return markdown_table(header, lines)


def _beyond(error: float | None, chance: float | None) -> str:
    return "" if error is None or chance is None else f"{max(0.0, error - chance):.4f}"


TABLES = {
    "tamper": tamper_table,
    "misfit_lab": partial(misfit_table, "lab"),
    "misfit_readme": partial(misfit_table, "readme"),
    "misfit_best": best_table,
    "calls": partial(calls_table, "calls"),
    "first_plate_promises": promises_table,
    "calls_limits": partial(calls_table, "calls_limits"),
    "calibration": calibration_table,
    "calibration_figure": calibration_figure,
}
