"""A plate as a table of wells, each with what is called of its sample: in a colour, with a sign, and in words."""

from collections.abc import Mapping
from dataclasses import dataclass

from qgt.lab.samples import Samples
from qgt.lab.verdicts import Call


@dataclass(frozen=True)
class Well:
    """One well."""

    place: str
    sample: str = ""  # empty where nothing stands in it
    call: Call | None = None

    @property
    def state(self) -> str:
        """What the style calls it."""
        return "empty" if self.call is None else self.call.value

    @property
    def sign(self) -> str:
        """What is seen where colours are not."""
        return "" if self.call is None else self.call.sign

    @property
    def words(self) -> str:
        """What is read aloud."""
        return f"{self.place}: empty" if self.call is None else f"{self.sample} in {self.place}: {self.call.words}"


@dataclass(frozen=True)
class Plate:
    """One plate, by its rows."""

    name: str
    columns: tuple[int, ...]
    rows: tuple[tuple[str, tuple[Well, ...]], ...]


def plate_maps(calls: Mapping[str, Call], samples: Samples) -> list[Plate]:
    """Every plate of the samples, with each sample's call.

    Example:
        >>> (plate,) = plate_maps({"S1": Call.POSITIVE, "S2": Call.RETEST}, Samples.numbered(2))
        >>> [wells[0].words for letter, wells in plate.rows[:3]]
        ['S1 in A1: positive', 'S2 in B1: test again', 'C1: empty']
    """
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
            lines.append((letter, tuple(_well(place, at.get(place), calls) for place in places)))
        found.append(Plate(plate, tuple(range(1, columns + 1)), tuple(lines)))
    return found


def _well(place: str, sample: str | None, calls: Mapping[str, Call]) -> Well:
    return Well(place) if sample is None else Well(place, sample, calls[sample])
