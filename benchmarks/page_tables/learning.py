"""Tables of networks: trained, refined, and set beside the limit."""

from pathlib import Path
from typing import Any

import qgt
from page_tables.cells import read, score_of, sum_of, with_interval
from qgt.files.documents import markdown_table


def unseen_table(root: Path) -> str:
    """Level 5 on supports it met in training and on those it did not."""
    rows = read(root, "level5")["rows"]
    scores = {key: sum_of([score_of(row[key]) for row in rows]) for key in ("test_seen", "test_unseen")}
    total = sum(score.instances for score in scores.values())
    lines = []
    for name, key in (("met in training", "test_seen"), ("never met", "test_unseen")):
        lines.append([name, f"{100 * scores[key].instances / total:.1f} %", with_interval(scores[key])])
    return markdown_table(["supports", "share of test instances", "success rate, 95 % interval"], lines)


def residual_table(root: Path) -> str:
    """The residual network on fresh data."""
    lines = []
    for row in read(root, "residual")["rows"]:
        score = score_of(row["test"])
        errors = " / ".join(f"{value:.2f}" for value in row["error_percent"].values())
        size = f"{row['steps']:,} x {row['batch']:,}"
        lines.append([row["M"], row["architecture"], size, with_interval(score), f"{score.f1:.3f}", errors])
    errors = "error of A, %: least squares / mean Jacobian / regression"
    return markdown_table(["M", "network", "steps x batch", "success rate, 95 % interval", "F1", errors], lines)


def networks_table(root: Path) -> str:
    """Refining networks: success for the time of training, and the design read back."""
    lines = []
    for row in _networks(root, "train"):
        tests = {key: score_of(outcomes) for key, outcomes in row["tests"].items()}
        rates = [with_interval(score) for score in tests.values()]
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
            lines.append([row["name"], row["device"], rounds, with_interval(score), f"{microseconds:,.1f}"])
    header = ["network", "machine", "rounds", "success rate, 95 % interval", "microseconds per decode"]
    return markdown_table(header, lines)


def win_table(root: Path) -> str:
    """Success by M for each setting and decoder, on the same instances."""
    rows = _networks(root, "win")
    lines = []
    for setting, m in sorted({(row["setting"], row["M"]) for row in rows}):
        some = {row["decoder"]: row for row in rows if (row["setting"], row["M"]) == (setting, m)}
        names = ("exact MAP", "MAP, independent items", "paper's network", "refining network")
        cells = [with_interval(score_of(some[name]["outcomes"]), 2) if name in some else "-" for name in names]
        lines.append([setting, m, max(row["instances"] for row in some.values()), *cells])
    header = ["prior", "M", "instances", "exact MAP (limit)", "MAP, independent items", "paper's network"]
    return markdown_table([*header, "refining network"], lines)


def _networks(root: Path, part: str) -> list[dict[str, Any]]:
    """The rows of one part of results/networks.json."""
    return [row for row in read(root, "networks")["rows"] if row["part"] == part]


TABLES = {
    "unseen": unseen_table,
    "residual": residual_table,
    "networks": networks_table,
    "networks_rounds": rounds_table,
    "when_networks_win": win_table,
}
