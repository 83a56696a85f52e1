"""Screens that several verbs show."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from qgt.cli.shell import tell

if TYPE_CHECKING:
    from qgt.lab.accounts import Account

SHOWN = 5  # instances in words on the screen; the report has all


def tell_verdicts(title: str, made: "Sequence[Account]") -> None:
    """How many instances have each verdict, and the first ones in words."""
    from qgt.lab.reports import by_urgency, verdict_counts
    from qgt.lab.wording import quoted

    rows = [[word.value, number, word.meaning] for word, number in verdict_counts(made).items()]
    tell(None, title, ["verdict", "instances", "meaning"], *rows)
    for one in by_urgency(made)[:SHOWN]:
        tell(None, f"\n{quoted(one.name)}, {one.verdict}: {one.words}", [])
    if len(made) > SHOWN:
        left = len(made) - SHOWN
        tell(None, f"\n{left} more not shown here: see --report, --html or --json.", [])
