"""Samples: what is to be tested, where each stands, and what is known of it before any test."""

from collections.abc import Sequence
from dataclasses import dataclass

from qgt.arguments import whole
from qgt.lab import plates as wells_of

NAMES = ("sample", "name", "sample name", "sample id", "sample_id", "id", "item", "barcode")
PLATES = ("plate", "plate name", "source plate")
WELLS = ("well", "position", "source well")
HOUSEHOLDS = ("household", "family", "group", "batch")
RISKS = ("risk", "rate", "probability")


@dataclass(frozen=True)
class Samples:
    """Samples with their places and, where known, their households or risks.

    Example:
        >>> samples = Samples.numbered(96)
        >>> samples.names[8], samples.plates[8], samples.wells[8], len(samples)
        ('S9', 'Plate 1', 'A2', 96)
    """

    names: tuple[str, ...]
    plates: tuple[str, ...]  # of each sample, the plate that it stands on
    wells: tuple[str, ...]  # and its well
    households: tuple[str, ...] | None = None  # samples of one label belong together
    risks: tuple[float, ...] | None = None  # each sample's probability of being positive, before any test

    def __post_init__(self) -> None:
        number = len(self.names)
        if not number:
            raise ValueError("names is empty: give at least one sample.")
        for field in ("plates", "wells", "households", "risks"):
            given = getattr(self, field)
            if given is not None and len(given) != number:
                raise ValueError(f"{field} holds {len(given)} entries for {number} samples: give one for each.")
        _refuse_repeats("names", self.names)
        _refuse_repeats("wells", [f"{p}, {w}" for p, w in zip(self.plates, self.wells, strict=True)])
        for name in self.names:
            if not name or name != name.strip() or any(ord(character) < 32 for character in name):
                raise ValueError(f"names holds {name!r}: give names without line breaks or blanks at their ends.")
        for name in self.wells:
            if wells_of.well(name) != name:
                raise ValueError(f"wells holds {name!r}: give wells such as A1 or H12.")
        for risk in self.risks or ():
            if not 0 < risk < 1:
                raise ValueError(f"risks holds {risk!r}: give probabilities between 0 and 1.")

    def __len__(self) -> int:
        return len(self.names)

    @property
    def plate_names(self) -> tuple[str, ...]:
        """The plates, in the order of their first samples."""
        return tuple(dict.fromkeys(self.plates))

    def plate_size(self, plate: str) -> int:
        """How many wells a plate must have for its samples: 96 or 384."""
        return wells_of.smallest([w for p, w in zip(self.plates, self.wells, strict=True) if p == plate])

    @classmethod
    def numbered(cls, count: int, *, plate: int = 96) -> "Samples":
        """Samples S1, S2, ... that fill plates of 96 or 384 wells down their columns."""
        count, wells = whole("count", count, least=1), wells_of.wells(plate)
        return cls.placed([f"S{number}" for number in range(1, count + 1)], plate=len(wells))

    @classmethod
    def placed(
        cls,
        names: Sequence[str],
        *,
        plate: int = 96,
        households: Sequence[str] | None = None,
        risks: Sequence[float] | None = None,
    ) -> "Samples":
        """Samples that fill plates down their columns, in the order given.

        Example:
            >>> Samples.placed(["Ann", "Bob"]).wells
            ('A1', 'B1')
        """
        wells = wells_of.wells(plate)
        return cls(
            tuple(names),
            tuple(f"Plate {number // len(wells) + 1}" for number in range(len(names))),
            tuple(wells[number % len(wells)] for number in range(len(names))),
            None if households is None else tuple(households),
            None if risks is None else tuple(risks),
        )


def _refuse_repeats(field: str, values: Sequence[str]) -> None:
    seen: set[str] = set()
    for value in values:
        if value in seen:
            raise ValueError(f"{field} holds {value!r} twice: give each sample its own.")
        seen.add(value)
