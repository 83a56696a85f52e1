"""Tables of the certified decoder: its limit, its speed, and what it proves beside other solvers."""

from pathlib import Path
from typing import Any

from page_tables.cells import read, score_of, sum_of, with_interval
from qgt.files.documents import markdown_table
from setting import Bins, calibration_error, scatter


def agreement_table(root: Path) -> str:
    """Optimal costs against HiGHS's, and certificates through the checker."""
    keys = ("instances", "proved by both", "disagreements", "certificates accepted")
    lines = [[row["setting"], *(row[key] for key in keys)] for row in read(root, "certified")["agreement"]]
    return markdown_table(["problems", *keys], lines)


def certified_success_table(root: Path) -> str:
    """The limit, how much of it is proved, and how well the confidence is calibrated."""
    rows, lines = read(root, "certified")["success"], []
    for pools, odds in sorted({(row["M"], row["odds"]) for row in rows}, key=lambda cell: (-cell[0], cell[1])):
        some = [row for row in rows if (row["M"], row["odds"]) == (pools, odds)]
        score = sum_of([score_of(row["outcomes"]) for row in some])
        shares = [f"{100 * sum(row[key] for row in some) / score.instances:.2f} %" for key in ("proved", "complete")]
        bins = confidence_bins(some)
        errors = [f"{calibration_error(bins):.4f}", f"{scatter(bins):.4f}"]
        lines.append([pools, f"{odds:g}", f"{score.instances:,}", with_interval(score, 4), *shares, *errors])
    header = ["M", "odds", "instances", "success rate, 95 % interval", "proved", "list complete"]
    return markdown_table([*header, "calibration error", "of perfect calibration"], lines)


def confidence_bins(rows: list[dict[str, Any]]) -> Bins:
    """Ten bins of confidence."""
    fine = [[sum(row["confidence"][i][j] for row in rows) for j in range(3)] for i in range(20)]
    pairs = zip(fine[::2], fine[1::2], strict=True)
    return [(int(a[0] + b[0]), a[1] + b[1], int(a[2] + b[2])) for a, b in pairs]


def certified_speed_table(root: Path) -> str:
    """Milliseconds per instance against SciPy's milp on the same cores, and decodes per second on a GPU."""
    data = read(root, "certified")
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
    data, lines = read(root, "certified"), []
    for part, machine in (("speed", "2 cores"), ("speed on cuda", "H200")):
        for row in data[part]:
            for odds in ("1", "100"):
                seconds = [f"{seconds:.2f}" for seconds in row[f"odds {odds}"]["split"].values()]
                lines.append([row["M"], odds, machine, f"{row['instances']:,}", *seconds])
    return markdown_table(["M", "odds", "machine", "instances", "roots, s", "branching, s", "stragglers, s"], lines)


def recordings_table(root: Path) -> str:
    """What made the search faster on a GPU, one change after another."""
    lines = []
    for row in read(root, "certified").get("recordings on cuda", []):
        seconds = [f"{row[name]['seconds']:.2f}" for name in ("plain", "few moves", "recorded")]
        lines.append([row["M"], f"{row['instances']:,}", f"{row['iterations']} ({row['looks']})", *seconds])
    header = ["M", "instances", "iterations (between looks at bounds)", "30 moves, s", "3 moves, s", "and replayed, s"]
    return markdown_table(header, lines)


def growth_table(root: Path) -> str:
    """What is proved within a budget as problems grow."""
    data, lines = read(root, "certified"), []
    for part, machine in (("growth", "2 cores"), ("growth on cuda", "H200")):
        for row in data[part]:
            for name in ("certified", "HiGHS"):
                if name in row:
                    one = row[name]
                    told = [f"{one['proved']} of {row['instances']}", one["right"], one["seconds"]]
                    lines.append([row["N"], row["M"], machine, row["budget"], name, *told])
    header = ["N", "M", "machine", "budget, s each", "decoder", "proved", "right", "time used, s"]
    return markdown_table(header, lines)


def map_table(root: Path) -> str:
    """Settings of all kinds: how many are proved within a budget, and how long that takes."""
    lines = []
    for row in read(root, "map")["rows"]:
        cells = []
        for solver in ("certified", "highs", "cpsat"):
            one = row.get(solver)
            share = "-" if one is None else f"{100 * one['proved'] / one.get('instances', row['instances']):.0f} %"
            cells += [share, "-" if one is None else f"{one['ms']:.1f}"]
        as_many = row["certified"].get("as many as highs, ms")
        cells.insert(2, "-" if as_many is None else f"{as_many:.1f}")
        lines.append([row["setting"], row["instances"], f"{row['budget']:g}", *cells, row.get("disagreements", "-")])
    header = ["setting", "instances", "budget, s", "certified: proved", "ms", "ms for as many as HiGHS"]
    return markdown_table([*header, "HiGHS: proved", "ms", "CP-SAT: proved", "ms", "disagreements"], lines)


def models_table(root: Path) -> str:
    """Other models than the paper's, beside plain problems of the same information."""
    lines = []
    for row in read(root, "models")["rows"]:
        model, twin = row["of the model"], row["of the twin"]
        machine = "1 core" if row["device"] == "cpu" else "H200"
        cells = [f"{model['proved a second']:,.0f}", f"{100 * model['proved']:.1f} %", f"{model['nodes each']:.0f}"]
        others = [f"{twin['proved a second']:,.0f}", f"{twin['nodes each']:.0f}", f"{row['ratio']:.1f}"]
        lines.append([row["model"], machine, f"{row['instances']:,}", *cells, *others])
    header = ["model", "machine", "instances", "proved a second", "share proved", "nodes each"]
    return markdown_table([*header, "twin: proved a second", "nodes each", "ratio"], lines)


def forgery_table(root: Path) -> str:
    """Forged certificates by kind, and how many were accepted; honest ones, and how many were refused."""
    found = read(root, "forgery")
    lines = [[row["kind"], f"{row['forged']:,}", row["accepted"]] for row in found["kinds"]]
    forged, accepted = (sum(row[key] for row in found["kinds"]) for key in ("forged", "accepted"))
    honest, refused = (sum(row[key] for row in found["honest"]) for key in ("honest", "refused"))
    lines += [["all of these", f"{forged:,}", accepted]]
    lines += [["honest", f"{honest:,}", f"{honest - refused:,}"]]
    return markdown_table(["what was forged", "certificates", "accepted"], lines)


def false_proofs_table(root: Path) -> str:
    """What was claimed under each prior and each noise, and how much of it is false."""
    rows, names = read(root, "false_proofs")["rows"], ("instances", "proved", "infeasible", "open", "false")
    lines = []
    for part in ("prior", "noise"):
        for kind in dict.fromkeys(row[part] for row in rows):
            own = [row for row in rows if row[part] == kind]
            lines.append([f"{part}: {kind}", *(f"{sum(row[name] for row in own):,}" for name in names)])
    lines.append(["all of these", *(f"{sum(row[name] for row in rows):,}" for name in names)])
    heads = ["of these problems", "instances", "called proved", "called impossible", "nothing claimed", "false claims"]
    return markdown_table(heads, lines)


def many_items_table(root: Path) -> str:
    """Decoders on ever more items in small pools."""
    lines = []
    for row in read(root, "many_items")["rows"]:
        proved = f"{row['proved']} of {row['instances']}"
        lines.append([f"{row['items']:,}", row["decoder"], proved, f"{row['median']:.2f}", f"{row['mean']:.2f}"])
    return markdown_table(["N", "decoder", "proved", "median, s", "mean, s"], lines)


def many_hard_table(root: Path) -> str:
    """What is proved within a minute where items are in many pools."""
    lines = []
    for row in read(root, "many_items")["hard"]:
        shares = [f"{row[name]} of {row['instances']}" for name in ("proved", "right")]
        gaps = sorted(row["gaps"])
        spread = f"{gaps[0]:.1f} to {gaps[-1]:.1f}" if gaps else "-"
        lines.append([f"{row['items']:,}", *shares, f"{row['median']:.1f}", f"{row['most']:.1f}", spread])
    return markdown_table(
        ["N", "proved", "all items right", "median, s", "most, s", "gaps without a proof, nats"], lines
    )


def models_before_table(root: Path) -> str:
    """Proofs a second before every model had the engine's speed, and now."""
    lines = [
        [row["model"], f"{row['before']:,.0f}", f"{row['now']:,.0f}", f"{row['now'] / row['before']:.1f}"]
        for row in read(root, "models_before")["rows"]
    ]
    return markdown_table(["model", "before: proved a second", "now", "times as many"], lines)


TABLES = {
    "many_items": many_items_table,
    "many_hard": many_hard_table,
    "models_before": models_before_table,
    "false_proofs": false_proofs_table,
    "agreement": agreement_table,
    "certified_success": certified_success_table,
    "certified_speed": certified_speed_table,
    "certified_split": certified_split_table,
    "recordings": recordings_table,
    "growth": growth_table,
    "map": map_table,
    "models": models_table,
    "forgery": forgery_table,
}
