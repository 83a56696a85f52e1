"""Tables of scale: large problems, and studies on many machines."""

from pathlib import Path

from page_tables.cells import read
from qgt.files.documents import markdown_table


def scale_table(root: Path) -> str:
    """One instance of each size: time, memory and wrong items."""
    lines = []
    for row in read(root, "scale"):
        where = f"{row['device']}, threads: {row['threads']}"
        cells = [f"{row['seconds']:.2f}", f"{row['gigabytes']:.2f}", f"{row['wrong']:,}", row["status"]]
        lines.append([row["decoder"], f"{row['items']:,}", f"{row['pools']:,}", where, *cells])
    return markdown_table(["decoder", "items", "pools", "machine", "seconds", "GB", "wrong items", "status"], lines)


def thresholds_table(root: Path) -> str:
    """Of how many instances belief propagation names nearly all items, by M/N and design."""
    rows = read(root, "thresholds")
    names = list(dict.fromkeys((row["design"], row["items"]) for row in rows))
    found = {(row["design"], row["items"], row["ratio"]): f"{row['solved']} of {row['instances']}" for row in rows}
    ratios = sorted({row["ratio"] for row in rows})
    lines = [[f"{ratio:g}", *(found.get((*name, ratio), "-") for name in names)] for ratio in ratios]
    return markdown_table(["M/N", *(f"{design}, N = {items:,}" for design, items in names)], lines)


def codes_table(root: Path) -> str:
    """Sparse-graph codes: pools beside the paper's formula, and how many instances peeling solves."""
    lines = []
    for row in read(root, "codes"):
        above = f"{row['pools']:,} ({100 * (row['pools'] / row['formula'] - 1):+.0f} %)"
        seconds = [f"{row[key]:.1f}" for key in ("design_seconds", "bind_seconds", "decode_seconds")]
        numbers = [f"{row[key]:,}" for key in ("items", "defectives")]
        solved = f"{row['solved']} of {row['instances']}"
        lines.append([*numbers, row["corrected"], f"{row['spare']:g}", f"{row['formula']:,}", above, solved, *seconds])
    header = ["N", "K", "corrected", "spare", "pools by the formula", "pools used", "solved and proved"]
    return markdown_table([*header, "design, s", "bind, s", "decode, s"], lines)


def evolution_table(root: Path) -> str:
    """Between which M/N infinitely many items begin to be solved."""
    lines = []
    for row in read(root, "evolution")["threshold"]:
        near = [one for one in row["tried"] if one["ratio"] in (row["low"], row["high"])]
        told = [f"{one['ratio']:g}: {one['wrong']:.2g}, {one['sweeps']} sweeps" for one in near]
        lines.append([row["weight"], f"{row['population']:,}", f"{row['low']:g} to {row['high']:g}", "; ".join(told)])
    return markdown_table(
        ["weight", "pools in the population", "threshold, M/N", "share of items wrong, at both ends"], lines
    )


def schedules_table(root: Path) -> str:
    """The same instances in several orders of messages."""
    lines = []
    for row in read(root, "evolution")["schedules"]:
        n = row["instances"]
        shares = [f"{row[key]} of {n}" for key in ("solved", "settled", "same_outcome")]
        means = [f"{row[key] / n:,.0f}" for key in ("wrong", "sweeps")]
        lines.append([f"{row['ratio']:g}", row["schedule"], *shares[:2], *means, shares[2]])
    header = ["M/N", "order of messages", "solved", "settled", "wrong items, mean", "sweeps, mean"]
    return markdown_table([*header, "same outcome in all orders"], lines)


def busy_table(root: Path) -> str:
    """Batches beside busy neighbours: threads by instances, and torch's threads, beside one thread."""
    lines = []
    for row in read(root, "busy")["rows"]:
        ratios = [f"{row[f'{way}_to_one']:.2f}" for way in ("shared", "processes", "split")]
        lines.append([f"{row['batch']:,}", row["neighbours"], f"{1000 * row['one']:,.0f}", *ratios])
    header = ["plates", "busy neighbours", "one thread, ms", "threads of qgt, times as long", "two processes"]
    return markdown_table([*header, "torch's threads"], lines)


def first_plate_table(root: Path) -> str:
    """One plate from a cold start and later: seconds of processes, of this version and of one before."""
    found = read(root, "first_plate")["timings"]["seconds"]
    lines = []
    for what in found["now"]:
        cells = [f"{found[which][what][clock]:.2f}" for which in ("before", "now") for clock in ("cpu", "wall")]
        lines.append([what, *cells])
    header = ["what", "before: CPU seconds", "seconds", "now: CPU seconds", "seconds"]
    return markdown_table(header, lines)


def second_look_table(root: Path) -> str:
    """Sheets of many plates: CPU seconds of decoding and of the second look."""
    lines = []
    for name, row in read(root, "first_plate")["timings"]["sheets"].items():
        cells = [f"{row[which][what]:.2f}" for which in ("before", "now") for what in ("decode", "second look")]
        lines.append([name, f"{row['now']['plates']:,}", *cells])
    header = ["problem", "plates", "before: decoding, CPU s", "second look", "now: decoding, CPU s", "second look"]
    return markdown_table(header, lines)


def cluster_table(root: Path) -> str:
    """Studies on a cluster beside the local pool."""
    found, lines = read(root, "cluster")["speed"], []
    total = found["runs"][0]["same"]
    for run in found["runs"]:
        cells = [f"{run['seconds']:.1f}", f"{run['rows_per_second']:.0f}", f"{run['same']:,} of {total:,}"]
        lines.append([run["where"], run["workers"], found["cores"], *cells])
    header = ["where", "workers", "cores of the machine", "seconds in all", "rows a second", "rows as in one process"]
    return markdown_table(header, lines)


def kills_table(root: Path) -> str:
    """What survives kills of workers and schedulers."""
    found = read(root, "cluster")["kills"]
    header = ["kills of workers", "of schedulers", "runs of the command", "rows acknowledged", "lost or doubled"]
    numbers = [found[key] for key in ("worker_kills", "scheduler_kills", "runs", "acknowledged", "lost", "differ")]
    return markdown_table([*header, "not as in one process"], [[f"{number:,}" for number in numbers]])


TABLES = {
    "busy": busy_table,
    "cluster": cluster_table,
    "cluster_kills": kills_table,
    "codes": codes_table,
    "evolution": evolution_table,
    "first_plate": first_plate_table,
    "schedules": schedules_table,
    "scale": scale_table,
    "second_look": second_look_table,
    "thresholds": thresholds_table,
}
