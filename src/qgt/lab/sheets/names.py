"""Names: a design's short name and check code, those of follow-up rounds, and names that a spreadsheet has changed."""

import hashlib
import re
from collections.abc import Callable, Iterable

from qgt.model.design import Design

# A design's short name and check code, which every page and file of a plan repeats.
#
# People mix up sheets. The name (two words, as in `amber-otter`) is for talking; the code, six characters without those
# that look alike, is for checking: it changes with the pools, with the samples in them and with any name. Counts whose
# file shows another code are refused.

ALPHABET = "23456789ABCDEFGHJKMNPQRSTVWXYZ"
FIRST_WORDS = (
    "amber azure brisk calm clear coral crisp dawn early fern fresh frost gentle gold grand green happy hazel ivory "
    "jade kind lemon light lilac lunar maple mellow mint misty noble ocean olive opal pearl plain polar proud quick "
    "quiet rapid rosy royal ruby rustic sandy silver snowy solar steady stone sunny swift teal tidal topaz velvet "
    "vivid warm wild windy wise young zesty"
)
SECOND_WORDS = (
    "badger bear beaver bison camel crane deer dolphin dove eagle egret falcon finch fox gecko goose hare hawk heron "
    "horse ibex jay kiwi koala lark lemur lion lizard llama lynx magpie marten mole moose newt ocelot orca osprey "
    "otter owl panda parrot pelican penguin pony puffin quail rabbit raven robin salmon seal shrew sparrow squid "
    "stork swan tern tiger toad trout turtle walrus wolf wren yak zebra"
)
CODE_LENGTH, PROPOSAL_LENGTH = 6, 4  # characters of a design's code, and of a proposal's
_CODE = re.compile(rf"check code[: ]+([{ALPHABET}]{{{CODE_LENGTH}}})\b", re.IGNORECASE)
_BEFORE = re.compile(rf"([{ALPHABET}]{{{CODE_LENGTH}}})[-_ :./]+(.+)", re.IGNORECASE)  # 869FD3-P1
_AFTER = re.compile(rf"(.+?)[-_ :./]+([{ALPHABET}]{{{CODE_LENGTH}}})", re.IGNORECASE)  # P1-869FD3
_PROPOSED = re.compile(rf"(?:.*[-_ :./])?R[0-9]+-([{ALPHABET}]{{{PROPOSAL_LENGTH}}})-[0-9]+(?:[-_ :./].*)?")


def check_code(design: Design) -> str:
    """Six characters that stand for the pools, the samples in them and all names.

    Example:
        >>> check_code(Design.from_rows(["110", "011"]))
        '869FD3'
    """
    return code_of(_digest(design), CODE_LENGTH)


def code_of(digest: bytes, length: int) -> str:
    """So many characters of `ALPHABET` that stand for a digest.

    Example:
        >>> code_of(bytes(range(8)), 4)
        'FNGB'
    """
    number = int.from_bytes(digest[:8], "big")
    return "".join(ALPHABET[number // len(ALPHABET) ** place % len(ALPHABET)] for place in range(length))


def short_name(design: Design) -> str:
    """Two words for a design.

    Example:
        >>> short_name(Design.from_rows(["110", "011"]))
        'green-dove'
    """
    digest = _digest(design)
    words = (FIRST_WORDS.split(), SECOND_WORDS.split())
    return "-".join(some[digest[8 + place] % len(some)] for place, some in enumerate(words))


def label(design: Design) -> str:
    """What every page and file of a design says.

    Example:
        >>> label(Design.from_rows(["110", "011"]))
        'Design green-dove, check code 869FD3'
    """
    return f"Design {short_name(design)}, check code {check_code(design)}"


def code_in(text: str) -> str | None:
    """The check code that a line shows; None where it shows none.

    Example:
        >>> code_in("# Design green-dove, check code 869FD3"), code_in("# made on Monday")
        ('869FD3', None)
    """
    found = _CODE.search(text)
    return found[1].upper() if found else None


def coded(name: str, known: Callable[[str], bool]) -> tuple[str, str] | None:
    """The check code and the known name in a name that has both; None for other names.

    Example:
        >>> [coded(name, ["P1"].__contains__) for name in ("869fd3-P1", "P1 869FD3", "P1", "BATCH2-X")]
        [('869FD3', 'P1'), ('869FD3', 'P1'), None, None]
    """
    if known(name):
        return None
    before, after = _BEFORE.fullmatch(name), _AFTER.fullmatch(name)
    if before is not None and known(before[2]):
        return before[1].upper(), before[2]
    return (after[2].upper(), after[1]) if after is not None and known(after[1]) else None


# Pools of a follow-up round are called R2-K7F3-1: the round, the code of the proposal, and a number.


def proposed_name(number: int, code: str, place: int) -> str:
    """What a pool of a follow-up round is called: every proposal has a code of its own, and so has its pools' names.

    Example:
        >>> proposed_name(2, "K7F3", 1)
        'R2-K7F3-1'
    """
    return f"R{number}-{code}-{place}"


def proposal_in(name: str) -> str | None:
    """The code of the proposal that a pool's name is of; None for other names.

    Example:
        >>> proposal_in("R2-K7F3-1"), proposal_in("869FD3-R2-K7F3-12"), proposal_in("R2-1"), proposal_in("P1")
        ('K7F3', 'K7F3', None, None)
    """
    found = _PROPOSED.fullmatch(name)
    return None if found is None else found[1]


def _digest(design: Design) -> bytes:
    digest = hashlib.sha256(design.fingerprint.encode())
    for name in (*design.pool_names, *design.item_names):
        digest.update(f"\n{len(name)} {name}".encode())
    return digest.digest()


# Names that a spreadsheet has changed: dates made of 3-2, 1.23E+13 made of a barcode, zeros lost from 0012.

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
