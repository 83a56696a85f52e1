"""Tables of scale: large problems, and studies on many machines."""

from pathlib import Path

from page_tables.cells import read
from qgt.files.text import markdown_table


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


def cluster_table(root: Path) -> str:
    """Studies on a cluster beside the local pool."""
    found, lines = read(root, "cluster")["speed"], []
    total = found["runs"][0]["same"]
    for run in found["runs"]:
        cells = [f"{run['seconds']:.1f}", f"{run['rows_per_second']:.0f}", f"{run['same']:,} of {total:,}"]
        lines.append([run["where"], run["workers"], *cells])
    return markdown_table(["where", "workers", "seconds in all", "rows a second", "rows as in one process"], lines)


def kills_table(root: Path) -> str:
    """What survives kills of workers and schedulers."""
    found = read(root, "cluster")["kills"]
    header = ["kills of workers", "of schedulers", "runs of the command", "rows acknowledged", "lost or doubled"]
    numbers = [found[key] for key in ("worker_kills", "scheduler_kills", "runs", "acknowledged", "lost", "differ")]
    return markdown_table([*header, "not as in one process"], [[f"{number:,}" for number in numbers]])


TABLES = {
    "cluster": cluster_table,
    "cluster_kills": kills_table,
    "scale": scale_table,
    "thresholds": thresholds_table,
}
