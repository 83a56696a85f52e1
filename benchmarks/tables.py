"""The tables of README and docs, made from the committed counts.

python benchmarks/tables.py                     # print them
python benchmarks/tables.py --check             # exit with 1 and name the pages that are not what the counts give
python benchmarks/tables.py --write             # put them into the pages, between their markers
python benchmarks/tables.py --paper out/paper   # first take the counts and figures of that 'qgt reproduce'
"""

import argparse
import json
import math
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import qgt
from qgt import paper
from qgt.files.text import markdown_table
from qgt.paper.drawing import draw
from qgt.study import StudyCounts, StudyResult
from setting import Bins, calibration_error, scatter

ROOT = Path(__file__).resolve().parents[1]
WORDS = ("certain", "confident", "unsure", "suspect", "impossible")
FIGURES = ("success_vs_pools.png", "vs_noise.png", "vs_pools.png")  # of a reproduction, shown in the pages


def unseen_table(root: Path) -> str:
    """Level 5 on supports it met in training and on those it did not."""
    rows = _read(root, "level5")["rows"]
    scores = {key: _sum([_score(row[key]) for row in rows]) for key in ("test_seen", "test_unseen")}
    total = sum(score.instances for score in scores.values())
    lines = []
    for name, key in (("met in training", "test_seen"), ("never met", "test_unseen")):
        lines.append([name, f"{100 * scores[key].instances / total:.1f} %", _with_interval(scores[key])])
    return markdown_table(["supports", "share of test instances", "success rate, 95 % interval"], lines)


def tamper_table(root: Path) -> str:
    """Flipped entries of a claimed matrix found by Level 5, five networks, ten repeats each."""
    repeats = [repeat for row in _read(root, "level5")["rows"] for repeat in row["tamper"]]
    found, missed, false = (sum(repeat[key] for repeat in repeats) for key in ("found", "missed", "false"))
    shares = [f"{found / (found + missed):.3f}", f"{found / (found + false):.3f}"]
    return markdown_table(
        ["flipped entries", "found", "missed", "listed falsely", "recall", "precision"],
        [[f"{found + missed:,} in {len(repeats)} repeats", found, missed, false, *shares]],
    )


def residual_table(root: Path) -> str:
    """The residual network on fresh data."""
    lines = []
    for row in _read(root, "residual")["rows"]:
        score = _score(row["test"])
        errors = " / ".join(f"{value:.2f}" for value in row["error_percent"].values())
        size = f"{row['steps']:,} x {row['batch']:,}"
        lines.append([row["M"], row["architecture"], size, _with_interval(score), f"{score.f1:.3f}", errors])
    errors = "error of A, %: least squares / mean Jacobian / regression"
    return markdown_table(["M", "network", "steps x batch", "success rate, 95 % interval", "F1", errors], lines)


def decoders_table(root: Path) -> str:
    """Success rates over numbers of pools and noise rates, the limit last."""
    found = StudyCounts.load(root / "results/decoders.json").results
    labels = {one.decoder: one.label + (": the limit" if one.limit else "") for one in found}
    shown = [name for name in labels if name != "linear_program"]
    lines = []
    for point in dict.fromkeys(tuple(one.point.values()) for one in found):
        here: dict[str, StudyResult] = {one.decoder: one for one in found if tuple(one.point.values()) == point}
        shares = [f"{100 * here[name].proved:.1f} %" for name in ("limit", "linear_program")]
        lines.append([*point, *(_with_interval(here[name].score) for name in shown), *shares])
    header = ["M", "S/N", *(labels[name] for name in shown), "of it proved", "proved by the relaxation alone"]
    return markdown_table(header, lines)


def pairs_table(root: Path) -> str:
    """Two decoders on the same instances: how many each alone decodes, and the exact McNemar test's p."""
    pairs = StudyCounts.load(root / "results/decoders.json").pairs
    wanted = {("amp_oracle", "amp"): "Oracle-K alone / scanning alone", ("amp", "gamp"): "scanning alone / GAMP alone"}
    cells = {(tuple(one.point.values()), one.first, one.second): one.paired for one in pairs}
    lines = []
    for point in dict.fromkeys(tuple(one.point.values()) for one in pairs):
        both = [cells[point, *names] for names in wanted]
        lines.append([*point, *(cell for one in both for cell in (f"{one.first} / {one.second}", _p(one.p_value)))])
    return markdown_table(["M", "S/N", *(head for words in wanted.values() for head in (words, "p"))], lines)


def agreement_table(root: Path) -> str:
    """Optimal costs against HiGHS's, and certificates through the checker."""
    keys = ("instances", "proved by both", "disagreements", "certificates accepted")
    lines = [[row["setting"], *(row[key] for key in keys)] for row in _read(root, "certified")["agreement"]]
    return markdown_table(["problems", *keys], lines)


def certified_success_table(root: Path) -> str:
    """The limit, how much of it is proved, and how well the confidence is calibrated."""
    rows, lines = _read(root, "certified")["success"], []
    for pools, odds in sorted({(row["M"], row["odds"]) for row in rows}, key=lambda cell: (-cell[0], cell[1])):
        some = [row for row in rows if (row["M"], row["odds"]) == (pools, odds)]
        score = _sum([_score(row["outcomes"]) for row in some])
        shares = [f"{100 * sum(row[key] for row in some) / score.instances:.2f} %" for key in ("proved", "complete")]
        bins = confidence_bins(some)
        errors = [f"{calibration_error(bins):.4f}", f"{scatter(bins):.4f}"]
        lines.append([pools, f"{odds:g}", f"{score.instances:,}", _with_interval(score, 4), *shares, *errors])
    header = ["M", "odds", "instances", "success rate, 95 % interval", "proved", "list complete"]
    return markdown_table([*header, "calibration error", "of perfect calibration"], lines)


def confidence_bins(rows: list[dict[str, Any]]) -> Bins:
    """Ten bins of confidence."""
    fine = [[sum(row["confidence"][i][j] for row in rows) for j in range(3)] for i in range(20)]
    pairs = zip(fine[::2], fine[1::2], strict=True)
    return [(int(a[0] + b[0]), a[1] + b[1], int(a[2] + b[2])) for a, b in pairs]


def certified_speed_table(root: Path) -> str:
    """Milliseconds per instance against SciPy's milp on the same cores, and decodes per second on a GPU."""
    data = _read(root, "certified")
    gpu, lines = {row["M"]: row for row in data["speed on cuda"]}, []
    for row in data["speed"]:
        milp, both = row["milp"], (row["odds 1"], row["odds 100"])
        mean = f"{1e3 * milp['seconds'] / milp['instances']:.1f} ({milp['median_ms']:.1f})"
        ours = [(f"{1e3 * one['seconds'] / row['instances']:.2f}", f"{one['times_faster']:.0f}") for one in both]
        rates = [f"{gpu[row['M']][odds]['proved_per_second']:,}" for odds in ("odds 1", "odds 100")]
        lines.append([row["M"], mean, *ours[0], *ours[1], *rates])
    header = ["M", "milp, ms: mean (median)", "odds 1, ms", "times faster", "odds 100, ms", "times faster"]
    return markdown_table([*header, "H200, odds 1: proved per second", "odds 100"], lines)


def certified_split_table(root: Path) -> str:
    """Where the time goes."""
    data, lines = _read(root, "certified"), []
    for part, machine in (("speed", "2 cores"), ("speed on cuda", "H200")):
        for row in data[part]:
            for odds in ("1", "100"):
                seconds = [f"{seconds:.2f}" for seconds in row[f"odds {odds}"]["split"].values()]
                lines.append([row["M"], odds, machine, f"{row['instances']:,}", *seconds])
    return markdown_table(["M", "odds", "machine", "instances", "roots, s", "branching, s", "stragglers, s"], lines)


def growth_table(root: Path) -> str:
    """What is proved within a budget as problems grow."""
    data, lines = _read(root, "certified"), []
    for part, machine in (("growth", "2 cores"), ("growth on cuda", "H200")):
        for row in data[part]:
            for name in ("certified", "certified, AMP proposals", "HiGHS"):
                if name in row:
                    one = row[name]
                    told = [f"{one['proved']} of {row['instances']}", one["right"], one["seconds"]]
                    lines.append([row["N"], row["M"], machine, row["budget"], name, *told])
    header = ["N", "M", "machine", "budget, s each", "decoder", "proved", "right", "time used, s"]
    return markdown_table(header, lines)


def misfit_table(setting: str, root: Path) -> str:
    """What plates were told with something wrong in the file, in per cent; and wrong answers that were trusted."""
    lines = []
    for row in _read(root, "misfit")["rows"]:
        if row["setting"] != setting:
            continue
        share = [f"{100 * row[word] / row['plates']:.1f}" for word in WORDS]
        wrong = 100 * (row["wrong_certain"] + row["wrong_confident"]) / row["plates"]
        files = f"{row['alarms']:,} of {row['files']:,}"
        first = f"{row['true_cause_first']} of {row['alarms']}" if row["names_a_cause"] and row["alarms"] else ""
        lines.append([row["misuse"], f"{row['plates']:,}", *share, f"{wrong:.2f}", files, first])
    header = ["what is wrong", "plates", *(f"{word}, %" for word in WORDS), "trusted but wrong, %"]
    return markdown_table([*header, "files that do not fit", "its cause named first"], lines)


def calibration_table(root: Path) -> str:
    """How far confidence is from the share of right answers, beyond scatter."""
    lines = []
    for row in _read(root, "calibration")["rows"]:
        beyond = [_beyond(row["error"], row["scatter"]), _beyond(row["complete_error"], row["complete_scatter"])]
        right = f"{row['right'] / row['instances']:.3f}"
        complete = f"{100 * row['complete'] / row['instances']:.0f} %"
        lines.append([row["problem"], row["decoder"], f"{row['instances']:,}", right, complete, *beyond])
    header = ["problem", "decoder", "instances", "right", "list complete"]
    return markdown_table([*header, "calibration error beyond scatter", "of complete lists"], lines)


def calibration_figure(root: Path) -> str:
    """The figure that `benchmarks/calibration.py --draw` makes of the same results."""
    _read(root, "calibration")
    return "![Share of right answers against confidence](images/calibration.png)"


def best_table(root: Path) -> str:
    """What the best detector there is would see of wrong counts, beside what is seen."""
    lines = []
    for row in _read(root, "misfit_best")["rows"]:
        share = f"{100 * row['seen_at_best']:.1f} %"
        lines.append([row["setting"], f"+ {row['by']}", f"{row['plates']:,}", share, f"{row['false_alarms']:.1g}"])
    return markdown_table(["setting", "one count", "plates", "seen at best", "false alarms"], lines)


def forgery_table(root: Path) -> str:
    """Forged certificates by kind, and how many were accepted; honest ones, and how many were refused."""
    found = _read(root, "forgery")
    lines = [[row["kind"], f"{row['forged']:,}", row["accepted"]] for row in found["kinds"]]
    forged, accepted = (sum(row[key] for row in found["kinds"]) for key in ("forged", "accepted"))
    honest, refused = (sum(row[key] for row in found["honest"]) for key in ("honest", "refused"))
    lines += [["all of these", f"{forged:,}", accepted]]
    lines += [["honest", f"{honest:,}", f"{honest - refused:,}"]]
    return markdown_table(["what was forged", "certificates", "accepted"], lines)


def _beyond(error: float | None, chance: float | None) -> str:
    return "" if error is None or chance is None else f"{max(0.0, error - chance):.4f}"


def networks_table(root: Path) -> str:
    """Refining networks: success for the time of training, and the design read back."""
    lines = []
    for row in _networks(root, "train"):
        tests = {key: _score(outcomes) for key, outcomes in row["tests"].items()}
        rates = [_with_interval(score) for score in tests.values()]
        longer = f"{rates[1]}, {list(tests)[1]}" if len(rates) > 1 else "-"
        errors = " / ".join(f"{value:.2f}" for value in row["error_percent"].values())
        where = f"{row['seconds']:.0f} s, {row['device']}"
        lines.append([row["M"], row["prior"], row["network"], where, rates[0], longer, errors])
    header = ["M", "items", "network", "trained", "success rate, 95 % interval", "with more rounds"]
    return markdown_table([*header, "error of A, %: least squares / mean Jacobian / regression"], lines)


def rounds_table(root: Path) -> str:
    """Refining networks by rounds at decoding time."""
    lines = []
    for row in _networks(root, "rounds"):
        for rounds, right, microseconds in row["rounds_right_microseconds"]:
            score = qgt.Score(100, {(1, 0, 0): right, (0, 1, 1): row["instances"] - right})
            lines.append([row["name"], row["device"], rounds, _with_interval(score), f"{microseconds:,.1f}"])
    header = ["network", "machine", "rounds", "success rate, 95 % interval", "microseconds per decode"]
    return markdown_table(header, lines)


def proposals_table(root: Path) -> str:
    """Certified's time with and without proposals, in one run."""
    lines = []
    for row in _networks(root, "proposals"):
        for key, name in (("alone", "none"), ("network", "refining network"), ("gamp", "GAMP")):
            one, n = row[key], row["instances"]
            each = f"{1e3 * one['seconds'] / n:,.0f}"
            lines.append([row["M"], n, name, each, f"{row['alone']['seconds'] / one['seconds']:.2f}", one["proved"]])
    return markdown_table(["M", "instances", "proposals", "ms per instance", "times as fast", "proved"], lines)


def win_table(root: Path) -> str:
    """Success by M for each setting and decoder, on the same instances."""
    rows = _networks(root, "win")
    lines = []
    for setting, m in sorted({(row["setting"], row["M"]) for row in rows}):
        some = {row["decoder"]: row for row in rows if (row["setting"], row["M"]) == (setting, m)}
        names = ("exact MAP", "MAP, independent items", "paper's network", "refining network")
        cells = [_with_interval(_score(some[name]["outcomes"]), 2) if name in some else "-" for name in names]
        lines.append([setting, m, max(row["instances"] for row in some.values()), *cells])
    header = ["prior", "M", "instances", "exact MAP (limit)", "MAP, independent items", "paper's network"]
    return markdown_table([*header, "refining network"], lines)


def _networks(root: Path, part: str) -> list[dict[str, Any]]:
    """The rows of one part of results/networks.json; none before the first measurement."""
    if not (root / "results/networks.json").exists():
        return []
    return [row for row in _read(root, "networks")["rows"] if row["part"] == part]


def follow_up_table(root: Path) -> str:
    """Tests of each policy by prevalence and noise, with the success rate; no rows before anything is measured."""
    path, lines = root / "results/follow_up.json", []
    found = json.loads(path.read_text(encoding="utf-8"))["cases"] if path.exists() else {}
    for key, case in sorted(found.items()):
        part, policy, rate, noise, *_ = key.split(" / ")
        if part != "table":
            continue
        n = sum(case["tests"].values())
        tests, rounds = (sum(int(k) * number for k, number in case[name].items()) / n for name in ("tests", "rounds"))
        spread = sum((int(k) - tests) ** 2 * number for k, number in case["tests"].items()) / n
        low, high = (tests + sign * 1.96 * math.sqrt(spread / n) for sign in (-1, 1))
        right = f"{1 - case['wrong'] / n:.4f}"
        cells = [f"{tests:.1f} ({low:.1f} to {high:.1f})", f"{rounds:.2f}", f"{case['transfers'] / n:.0f}", right]
        lines.append([f"{100 * float(rate):g} %", noise, policy.replace("_", " "), *cells, f"{n:,}"])
    header = ["prevalence", "S/N", "policy", "tests, 95 % interval", "rounds", "transfers", "success rate", "instances"]
    return markdown_table(header, lines)


def map_table(root: Path) -> str:
    """Settings of all kinds: how many are proved within a budget, and how long that takes."""
    lines = []
    for row in _read(root, "map")["rows"]:
        cells = []
        for solver in ("certified", "highs", "cpsat"):
            one = row.get(solver)
            share = "-" if one is None else f"{100 * one['proved'] / row['instances']:.0f} %"
            if one is not None and "by highs" in one:
                share += f" ({one['by highs']} by HiGHS)"
            cells += [share, "-" if one is None else f"{one['ms']:.1f}"]
        lines.append([row["setting"], row["instances"], f"{row['budget']:g}", *cells, row.get("disagreements", "-")])
    header = ["setting", "instances", "budget, s", "certified: proved", "ms", "HiGHS: proved", "ms"]
    return markdown_table([*header, "CP-SAT: proved", "ms", "disagreements"], lines)


def classical_table(root: Path) -> str:
    """How often all defectives are found from positives and negatives."""
    rows, lines = _read(root, "classical")["rows"], []
    for row in rows:
        shares = []
        for right in row["right"].values():
            score = qgt.Score(1, {(1, 0, 0): right, (0, 1, 1): row["instances"] - right})
            shares.append(_with_interval(score, 2))
        proved = f"{100 * (1 - row['undecided'] / row['instances']):.1f} %"
        lines.append([row["setting"], row["M"], *shares, proved])
    return markdown_table(["setting", "M", *rows[0]["right"], "of it proved"], lines)


def scale_table(root: Path) -> str:
    """One instance of each size: time, memory and wrong items."""
    lines = []
    for row in _read(root, "scale"):
        where = f"{row['device']}, threads: {row['threads']}"
        cells = [f"{row['seconds']:.2f}", f"{row['gigabytes']:.2f}", f"{row['wrong']:,}", row["status"]]
        lines.append([row["decoder"], f"{row['items']:,}", f"{row['pools']:,}", where, *cells])
    return markdown_table(["decoder", "items", "pools", "machine", "seconds", "GB", "wrong items", "status"], lines)


def thresholds_table(root: Path) -> str:
    """Of how many instances belief propagation names nearly all items, by M/N and design."""
    rows = _read(root, "thresholds")
    names = list(dict.fromkeys((row["design"], row["items"]) for row in rows))
    found = {(row["design"], row["items"], row["ratio"]): f"{row['solved']} of {row['instances']}" for row in rows}
    ratios = sorted({row["ratio"] for row in rows})
    lines = [[f"{ratio:g}", *(found.get((*name, ratio), "-") for name in names)] for ratio in ratios]
    return markdown_table(["M/N", *(f"{design}, N = {items:,}" for design, items in names)], lines)


def paper_table(name: str, root: Path) -> str:
    """A table of the reproduction."""
    return paper.TABLES[name](paper.Counts.load(root / "results/paper/counts.json"))


TABLES = {
    "agreement": agreement_table,
    "calibration": calibration_table,
    "calibration_figure": calibration_figure,
    "classical": classical_table,
    "certified_speed": certified_speed_table,
    "certified_split": certified_split_table,
    "certified_success": certified_success_table,
    "decoders": decoders_table,
    "decoders_pairs": pairs_table,
    "forgery": forgery_table,
    "follow_up": follow_up_table,
    "growth": growth_table,
    "misfit_best": best_table,
    "misfit_lab": partial(misfit_table, "lab"),
    "misfit_readme": partial(misfit_table, "readme"),
    "networks": networks_table,
    "networks_proposals": proposals_table,
    "networks_rounds": rounds_table,
    "map": map_table,
    "residual": residual_table,
    "scale": scale_table,
    "thresholds": thresholds_table,
    "tamper": tamper_table,
    "unseen": unseen_table,
    "when_networks_win": win_table,
    **{f"paper_{name}": partial(paper_table, name) for name in paper.TABLES},
}


def filled(page: str, root: Path) -> str:
    """A page with each marked table replaced by what the counts give."""
    for name, make in TABLES.items():
        start, end = f"<!-- table: {name} -->\n", "<!-- end -->"
        before, *parts = page.split(start)
        try:
            page = start.join([before, *(make(root) + "\n" + end + part.split(end, 1)[1] for part in parts)])
        except FileNotFoundError:
            continue  # not measured yet: the place stays as it is
    return page


def adopt(folder: Path, root: Path) -> None:
    """Take a reproduction's counts for the committed ones, and the figures drawn from them."""
    counts = paper.Counts.load(folder / "counts.json")
    counts.save(root / "results/paper/counts.json")
    with tempfile.TemporaryDirectory() as drawn:
        draw(counts, Path(drawn))
        for name in FIGURES:
            (root / "docs/images" / f"paper_{name}").write_bytes((Path(drawn) / name).read_bytes())


def stale(root: Path, *, write: bool) -> list[Path]:
    """The pages whose tables are not what the counts give, mended where asked."""
    found = []
    for page in [root / "README.md", *sorted((root / "docs").glob("*.md"))]:
        text = page.read_text(encoding="utf-8")
        if (now := filled(text, root)) != text:
            found.append(page)
            if write:
                page.write_text(now, encoding="utf-8")
    return found


def _read(root: Path, name: str) -> Any:
    return json.loads((root / f"results/{name}.json").read_text(encoding="utf-8"))


def _score(outcomes: list[Any]) -> qgt.Score:
    return qgt.Score.from_plain({"items": 100, "outcomes": outcomes})


def _sum(scores: list[qgt.Score]) -> qgt.Score:
    total = scores[0]
    for score in scores[1:]:
        total = total + score
    return total


def _with_interval(score: qgt.Score, digits: int = 3) -> str:
    low, high = score.interval()
    return f"{score.success_rate:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="only say which pages are out of date")
    parser.add_argument("--write", action="store_true", help="update README.md and docs/")
    parser.add_argument("--paper", type=Path, metavar="FOLDER", help="take its counts and figures, then --write")
    parser.add_argument("--root", type=Path, default=ROOT, help="of the repository whose pages and results these are")
    arguments = parser.parse_args()
    root = arguments.root
    if arguments.paper is not None:
        adopt(arguments.paper, root)
    if arguments.check:
        found = stale(root, write=False)
        for page in found:
            print(f"{page}: its tables are not what the counts give; run 'python benchmarks/tables.py --write'.")
        return 1 if found else 0
    if arguments.write or arguments.paper is not None:
        stale(root, write=True)
        return 0
    for name, make in TABLES.items():
        try:
            print(f"{name}\n{make(root)}\n")
        except FileNotFoundError as error:  # not measured yet
            print(f"{name}\n{error.filename} is not there\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
