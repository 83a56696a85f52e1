"""A design's short name and check code, which every page and file of a plan repeats.

People mix up sheets. The name (two words, as in `amber-otter`) is for talking; the code, six characters without those
that look alike, is for checking: it changes with the pools, with the samples in them and with any name. Counts whose
file shows another code are refused.
"""

import hashlib
import re

from qgt.model.design import Design

ALPHABET = "23456789ABCDEFGHJKMNPQRSTVWXYZ"
FIRST = (
    "amber azure brisk calm clear coral crisp dawn early fern fresh frost gentle gold grand green happy hazel ivory "
    "jade kind lemon light lilac lunar maple mellow mint misty noble ocean olive opal pearl plain polar proud quick "
    "quiet rapid rosy royal ruby rustic sandy silver snowy solar steady stone sunny swift teal tidal topaz velvet "
    "vivid warm wild windy wise young zesty"
)
SECOND = (
    "badger bear beaver bison camel crane deer dolphin dove eagle egret falcon finch fox gecko goose hare hawk heron "
    "horse ibex jay kiwi koala lark lemur lion lizard llama lynx magpie marten mole moose newt ocelot orca osprey "
    "otter owl panda parrot pelican penguin pony puffin quail rabbit raven robin salmon seal shrew sparrow squid "
    "stork swan tern tiger toad trout turtle walrus wolf wren yak zebra"
)
_CODE = re.compile(rf"check code[: ]+([{ALPHABET}]{{6}})\b", re.IGNORECASE)


def check_code(design: Design) -> str:
    """Six characters that stand for the pools, the samples in them and all names.

    Example:
        >>> check_code(Design.from_rows(["110", "011"]))
        'HXFC85'
    """
    number = int.from_bytes(_digest(design)[:8], "big")
    return "".join(ALPHABET[number // len(ALPHABET) ** place % len(ALPHABET)] for place in range(6))


def short_name(design: Design) -> str:
    """Two words for a design.

    Example:
        >>> short_name(Design.from_rows(["110", "011"]))
        'topaz-tern'
    """
    digest = _digest(design)
    words = (FIRST.split(), SECOND.split())
    return "-".join(some[digest[8 + place] % len(some)] for place, some in enumerate(words))


def label(design: Design) -> str:
    """What every page and file of a design says.

    Example:
        >>> label(Design.from_rows(["110", "011"]))
        'Design topaz-tern, check code HXFC85'
    """
    return f"Design {short_name(design)}, check code {check_code(design)}"


def code_in(text: str) -> str | None:
    """The check code that a line shows; None where it shows none.

    Example:
        >>> code_in("# Design topaz-tern, check code HXFC85"), code_in("# made on Monday")
        ('HXFC85', None)
    """
    found = _CODE.search(text)
    return found[1].upper() if found else None


def _digest(design: Design) -> bytes:
    digest = hashlib.sha256(design.fingerprint.encode())
    for name in (*design.pool_names, *design.item_names):
        digest.update(f"\n{len(name)} {name}".encode())
    return digest.digest()
