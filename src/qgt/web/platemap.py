"""A plate as a table of wells, each with what is called of its sample: in a colour, with a sign, and in words."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from qgt.lab.samples import Samples

SIGNS = {
    "positive": ("+", "positive"),
    "doubtful": ("?", "test again"),
    "uncalled": ("/", "no call"),
    "negative": ("\N{MIDDLE DOT}", "negative"),
}


@dataclass(frozen=True)
class Well:
    """One well."""

    place: str
    sample: str = ""  # empty where nothing stands in it
    state: str = "empty"

    @property
    def sign(self) -> str:
        """What is seen where colours are not."""
        return SIGNS.get(self.state, ("", ""))[0]

    @property
    def words(self) -> str:
        """What is read aloud."""
        return f"{self.sample} in {self.place}: {SIGNS[self.state][1]}" if self.sample else f"{self.place}: empty"


@dataclass(frozen=True)
class Plate:
    """One plate, by its rows."""

    name: str
    columns: tuple[int, ...]
    rows: tuple[tuple[str, tuple[Well, ...]], ...]


def states(account: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, str]:
    """What is called of each sample.

    A sample is negative only where the account stands behind it: where the counts do not fit, or the search ran out of
    time before it knew how sure it is, samples that are not called positive are not called at all.

    Example:
        >>> account = {"verdict": "unsure", "confidence": 0.6, "defective": ["a"], "undecided": []}
        >>> account["retests"] = ["a", "b"]
        >>> states(account, ("a", "b", "c"))
        {'a': 'doubtful', 'b': 'doubtful', 'c': 'negative'}
        >>> states({**account, "verdict": "suspect", "retests": []}, ("a", "b"))
        {'a': 'doubtful', 'b': 'uncalled'}
    """
    trusted = account["verdict"] in ("certain", "confident", "unsure") and account["confidence"] is not None
    called, retest, undecided = (set(account[key]) for key in ("defective", "retests", "undecided"))
    found = {}
    for name in names:
        if name in undecided:
            found[name] = "uncalled"
        elif name in retest or (name in called and not trusted):
            found[name] = "doubtful"
        elif name in called:
            found[name] = "positive"
        else:
            found[name] = "negative" if trusted else "uncalled"
    return found


def plate_maps(account: Mapping[str, Any], samples: Samples) -> list[Plate]:
    """Every plate of the samples, with what is called."""
    known = states(account, samples.names)
    found = []
    for plate in samples.plate_names:
        rows, columns = (8, 12) if samples.plate_size(plate) == 96 else (16, 24)
        at = {
            well: name
            for name, on, well in zip(samples.names, samples.plates, samples.wells, strict=True)
            if on == plate
        }
        lines = []
        for letter in "ABCDEFGHIJKLMNOP"[:rows]:
            places = [f"{letter}{number}" for number in range(1, columns + 1)]
            lines.append((letter, tuple(_well(place, at.get(place), known) for place in places)))
        found.append(Plate(plate, tuple(range(1, columns + 1)), tuple(lines)))
    return found


def _well(place: str, sample: str | None, known: Mapping[str, str]) -> Well:
    return Well(place) if sample is None else Well(place, sample, known[sample])
