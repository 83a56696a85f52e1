"""Moves: what goes from which well into which, in the order of the samples' plates, as every format writes it."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from qgt.arguments import positive
from qgt.lab import plates
from qgt.lab.naming import label
from qgt.lab.plates import POOL_PLATE
from qgt.lab.samples import Samples
from qgt.model.design import Design

LONGEST = 32  # characters of a label: what the strictest robot takes


@dataclass(frozen=True)
class Move:
    """One transfer."""

    sample: str
    source_plate: str
    source_well: str
    pool: str
    pool_plate: str
    pool_well: str
    volume: float  # in microlitres


@dataclass(frozen=True)
class Moves:
    """All transfers of a design, with what the formats need to know of the plates."""

    design: str  # its name and check code
    moves: tuple[Move, ...]
    sizes: dict[str, int]  # the wells of each plate: 96 or 384; source plates first
    labels: dict[str, str]  # what robots call each plate: letters, digits, blanks, - and _, all different

    @property
    def code(self) -> str:
        """The design's check code."""
        return self.design.rsplit(" ", 1)[-1]

    @property
    def rows(self) -> list[tuple[str, str, str, str, str]]:
        """Each transfer as most robots read it: label and well of both ends, and microlitres."""
        return [
            (
                self.labels[move.source_plate],
                move.source_well,
                self.labels[move.pool_plate],
                move.pool_well,
                microlitres(move.volume),
            )
            for move in self.moves
        ]

    @property
    def sources(self) -> list[str]:
        """The plates that samples come from."""
        return list(dict.fromkeys(move.source_plate for move in self.moves))

    @property
    def targets(self) -> list[str]:
        """The plates that pools are made on."""
        return list(dict.fromkeys(move.pool_plate for move in self.moves))


def pool_places(pools: int) -> list[tuple[str, str]]:
    """The plate and the well of each pool: down the columns of plates of 96 wells.

    Example:
        >>> pool_places(98)[8], pool_places(98)[96]
        (('Pools 1', 'A2'), ('Pools 2', 'A1'))
    """
    wells = plates.wells(POOL_PLATE)
    return [(f"Pools {number // POOL_PLATE + 1}", wells[number % POOL_PLATE]) for number in range(pools)]


def moves_of(design: Design, samples: Samples, volume: float) -> Moves:
    """The transfers of a design, sample by sample.

    Args:
        design: Its items are the samples, by name and order.
        samples: Where each sample stands.
        volume: Microlitres of each transfer.

    Example:
        >>> from qgt import Design
        >>> samples = Samples.numbered(3)
        >>> made = moves_of(Design.from_rows(["110", "011"], item_names=samples.names), samples, 10.0)
        >>> [(move.source_well, move.pool_well) for move in made.moves]
        [('A1', 'A1'), ('B1', 'A1'), ('B1', 'B1'), ('C1', 'B1')]
    """
    if design.item_names != samples.names:
        raise ValueError("samples does not list the design's items in their order: give the samples of this design.")
    volume = positive("volume", volume)
    places = pool_places(design.pools)
    made = [
        Move(samples.names[j], samples.plates[j], samples.wells[j], design.pool_names[i], *places[i], volume)
        for j, pools in enumerate(_pools_of(design))
        for i in pools
    ]
    order = {plate: number for number, plate in enumerate(samples.plate_names)}
    made.sort(key=lambda move: (order[move.source_plate], plates.position(move.source_well, 384)))
    sizes = {plate: samples.plate_size(plate) for plate in samples.plate_names}
    targets = dict.fromkeys(plate for plate, _ in places)
    taken = [plate for plate in targets if plate in sizes]
    if taken:
        raise ValueError(f"samples has a plate called {taken[0]!r}, as the plate of the pools is: rename it.")
    sizes.update(dict.fromkeys(targets, POOL_PLATE))
    return Moves(label(design), tuple(made), sizes, robot_labels(sizes))


def robot_labels(names: Iterable[str]) -> dict[str, str]:
    """Labels that every robot takes: plain characters, at most 32, all different.

    Example:
        >>> robot_labels(["Plate 1", "a;b", "a,b"])
        {'Plate 1': 'Plate 1', 'a;b': 'a_b', 'a,b': 'a_b 2'}
    """
    labels: dict[str, str] = {}
    for name in names:
        plain = re.sub(r"[^A-Za-z0-9 _-]", "_", name).strip(" -")[:LONGEST].strip() or "plate"
        made, number = plain, 1
        while made.lower() in {other.lower() for other in labels.values()}:
            number += 1
            made = f"{plain[: LONGEST - 1 - len(str(number))]} {number}"
        labels[name] = made
    return labels


def microlitres(volume: float) -> str:
    """A volume as robots read it: a decimal point, and no more digits than it has.

    Example:
        >>> microlitres(10.0), microlitres(2.5)
        ('10', '2.5')
    """
    return f"{volume:.6f}".rstrip("0").rstrip(".")


def nanolitres(volume: float, step: float) -> str:
    """A volume in nanolitres, which must be a multiple of the robot's smallest step.

    Example:
        >>> nanolitres(0.0275, 2.5)
        '27.5'
    """
    number = 1000 * volume
    if abs(number / step - round(number / step)) > 1e-6:
        raise ValueError(f"volume={volume:g} is not valid here: this robot doses multiples of {step:g} nanolitres.")
    return microlitres(number)


def csv_text(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A CSV text; the cells are labels, wells and numbers of ours, which need no quotes."""
    return "".join(",".join(map(str, row)) + "\n" for row in [header, *rows])


def _pools_of(design: Design) -> list[list[int]]:
    """The pools of each item."""
    found: list[list[int]] = [[] for _ in range(design.items)]
    for pool, members in enumerate(design.lists):
        for item in members:
            found[item].append(pool)
    return found
