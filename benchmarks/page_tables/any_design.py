"""Tables of the network for any design."""

from pathlib import Path

from page_tables.cells import read
from qgt.files.documents import markdown_table
from qgt.trust.metrics import wilson

DECODERS = {"one pass": "one pass", "24 tries": "24 tries", "gamp": "GAMP", "belief": "belief propagation"}


def rows_table(root: Path) -> str:
    """Success on designs that training never saw."""
    lines = []
    for row in read(root, "any_design")["rows"]:
        cells = [_share(row["right"].get(name), row["instances"]) for name in DECODERS]
        mark = " (outside)" if row["outside"] else ""
        designs = 1 if row["group"] == "held out" else row["designs"]  # those held out are made by a rule
        lines.append([row["problem"] + mark, designs, f"{row['instances']:,}", *cells])
    return markdown_table(["problem", "designs", "instances", *DECODERS.values()], lines)


def limit_table(root: Path) -> str:
    """The exact decoder, and the network on the same instances."""
    lines = []
    for row in read(root, "any_design").get("limits", []):
        shares = [_share(row[name], row["instances"]) for name in ("limit", "network")]
        lines.append([row["problem"], row["instances"], *shares, f"{100 * row['proved'] / row['instances']:.0f} %"])
    return markdown_table(["problem", "instances", "exact decoder (limit)", "network, 24 tries", "proved"], lines)


def speed_table(root: Path) -> str:
    """Microseconds of a decode."""
    lines = []
    for row in read(root, "any_design").get("speeds", []):
        device = "two cores" if row["device"] == "cpu" else "H200"
        lines.append([row["problem"], device, row["setting"], f"{row['microseconds']:,}"])
    return markdown_table(["problem", "machine", "tries", "microseconds per decode"], lines)


def tuned_table(root: Path) -> str:
    """Networks for one design beside the pretrained one, on the same instances."""
    found = read(root, "any_design").get("one_design", [])
    cells = {(row["problem"], row["network"]): _share(row["right"], row["instances"]) for row in found}
    problems, networks = (list(dict.fromkeys(key[place] for key in cells)) for place in (0, 1))
    rows = [[problem, *(cells.get((problem, network), "-") for network in networks)] for problem in problems]
    return markdown_table(["problem", *networks], rows)


def _share(right: int | None, instances: int) -> str:
    if right is None:
        return "-"
    low, high = wilson(right, instances)
    return f"{right / instances:.3f} ({low:.3f} to {high:.3f})"


TABLES = {
    "any_design": rows_table,
    "any_design_limit": limit_table,
    "any_design_speed": speed_table,
    "any_design_tuned": tuned_table,
}
