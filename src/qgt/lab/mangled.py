"""Names that a spreadsheet has changed: dates made of 3-2, 1.23E+13 made of a barcode, zeros lost from 0012."""

import re
from collections.abc import Iterable

_DATE = re.compile(r"date .*|\d{4}-\d{2}-\d{2}.*|\d{1,2}[-./][A-Za-z]{3}([-./]\d{2,4})?|[A-Za-z]{3}[-./]\d{1,2}")
_POWER = re.compile(r"\d([.,]\d+)?[eE]\+\d+")


def looks_mangled(name: str) -> str | None:
    """Why a name looks like the work of a spreadsheet; None where it does not.

    Example:
        >>> looks_mangled("1.23E+13"), looks_mangled("02-Mar"), looks_mangled("S12")
        ('a long number that a spreadsheet has shortened', 'a date that a spreadsheet has made', None)
    """
    if _POWER.fullmatch(name):
        return "a long number that a spreadsheet has shortened"
    return "a date that a spreadsheet has made" if _DATE.fullmatch(name) else None


def mangled(found: str, known: Iterable[str]) -> str | None:
    """Which known name a spreadsheet may have made the found one of, as a sentence; None where there is none.

    Example:
        >>> mangled("12", ["0012", "0013"])
        "a spreadsheet may have dropped the zeros of '0012': format the cells as text and write it again"
        >>> mangled("PX", ["P1"]) is None
        True
    """
    reason = looks_mangled(found)
    if reason is not None:
        return f"this is {reason}: format the cells as text and write the name again"
    digits = found.lstrip("0") or "0"
    for name in known:
        if found.isdigit() and name != found and name.isdigit() and (name.lstrip("0") or "0") == digits:
            return f"a spreadsheet may have dropped the zeros of {name!r}: format the cells as text and write it again"
        if name != found and name.lower().replace(" ", "") == found.lower().replace(" ", ""):
            return f"write {name!r}, with the same capitals and blanks"
    return None
