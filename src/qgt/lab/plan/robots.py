"""Worklists for pipetting robots: the transfers of a design, in the format of each robot.

Every format turns the same list of moves into texts of files; `FORMATS` names them all. What a format cannot hold (a
label that is too long, a volume that the robot cannot dose) is changed in a way that is said, or refused.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from qgt.arguments import positive
from qgt.files.grids import csv_bytes
from qgt.lab.sheets import plates
from qgt.lab.sheets.names import label
from qgt.lab.sheets.plates import POOL_PLATE
from qgt.lab.sheets.samples import Samples
from qgt.model.design import Design

# Moves: what goes from which well into which, in the order of the samples' plates, as every format writes it.

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


# Plain CSV: for robots that are told which column is which, and for people.

GENERIC_HEADER = ("sample", "source plate", "source well", "pool", "pool plate", "pool well", "volume in uL", "design")


def generic_files(made: Moves) -> dict[str, str]:
    """One line for each transfer, with the samples' own names."""
    rows = [
        (*(move.sample, move.source_plate, move.source_well), *(move.pool, move.pool_plate, move.pool_well),
         microlitres(move.volume), made.design)
        for move in made.moves
    ]  # fmt: skip
    return {"transfers.csv": csv_bytes([GENERIC_HEADER, *rows]).decode()}


# Tecan Freedom EVO and Fluent: a .gwl worklist.
#
#     A;RackLabel;RackID;RackType;Position;TubeID;Volume;LiquidClass;;TipMask;   aspirate
#     D;...                                                                      dispense, the same fields
#     W;                                                                         wash, or a new tip
#     C;...                                                                      a remark
#
# Positions count down the columns from 1; labels have at most 32 characters.


def tecan_files(made: Moves) -> dict[str, str]:
    """Three lines for each transfer."""
    lines = [f"C;{made.design}"]
    for move in made.moves:
        volume = microlitres(move.volume)
        lines.append(f"A;{_tecan_place(made, move.source_plate, move.source_well)};;{volume};;;;")
        lines.append(f"D;{_tecan_place(made, move.pool_plate, move.pool_well)};;{volume};;;;")
        lines.append("W;")
    return {"tecan.gwl": "".join(f"{line}\r\n" for line in lines)}


def _tecan_place(made: Moves, plate: str, well: str) -> str:
    size = made.sizes[plate]
    return f"{made.labels[plate]};;{size} Well Microplate;{plates.position(well, size)}"


# Opentrons Flex and OT-2: a CSV file for a run-time parameter, and the protocol that reads it.
#
# The protocol is the same text for every design but for its title: people can read what it does before they run it. It
# asks for the CSV file when a run is set up (API level 2.20).

OPENTRONS_HEADER = ("source_plate", "source_well", "destination_plate", "destination_well", "volume")
OPENTRONS_LABWARE = {96: "nest_96_wellplate_200ul_flat", 384: "corning_384_wellplate_112ul_flat"}
OPENTRONS_PROTOCOL = '''"""Pool samples: every line of the CSV file is one transfer, with a new tip."""

metadata = {"protocolName": TITLE}
requirements = {"robotType": "OT-2", "apiLevel": "2.20"}
LABWARE = PLATES  # what each plate is
SLOTS = ["1", "2", "3", "4", "5", "6"]
TIPS = ["7", "8", "9", "10"]


def add_parameters(parameters):
    parameters.add_csv_file(variable_name="transfers", display_name="Transfers", description="opentrons.csv")


def run(protocol):
    rows = protocol.params.transfers.parse_as_csv()
    if len(LABWARE) > len(SLOTS):
        raise RuntimeError("There are more plates than slots: run fewer plates at a time.")
    plates = {
        name: protocol.load_labware(kind, slot, label=name)
        for (name, kind), slot in zip(LABWARE.items(), SLOTS)
    }
    racks = [protocol.load_labware("opentrons_96_tiprack_20ul", slot) for slot in TIPS]
    pipette = protocol.load_instrument("p20_single_gen2", "left", tip_racks=racks)
    used = 0
    for source_plate, source_well, destination_plate, destination_well, volume in rows[1:]:
        if used and used % (96 * len(TIPS)) == 0:
            protocol.pause("Put in new tip racks.")
            pipette.reset_tipracks()
        used += 1
        pipette.transfer(
            float(volume),
            plates[source_plate][source_well],
            plates[destination_plate][destination_well],
            new_tip="always",
        )
'''


def opentrons_files(made: Moves) -> dict[str, str]:
    """The CSV file and the protocol."""
    kinds = {made.labels[plate]: OPENTRONS_LABWARE[made.sizes[plate]] for plate in [*made.sources, *made.targets]}
    protocol = OPENTRONS_PROTOCOL.replace("TITLE", json.dumps(made.design)).replace(
        "PLATES", json.dumps(kinds, indent=4)
    )
    return {"opentrons.csv": csv_text(OPENTRONS_HEADER, made.rows), "opentrons.py": protocol}


# Hamilton (Venus): CSV with labware and positions, wells as A1.

HAMILTON_HEADER = ("SourceLabware", "SourcePosition", "TargetLabware", "TargetPosition", "Volume", "Design")


def hamilton_files(made: Moves) -> dict[str, str]:
    """One line for each transfer."""
    rows = [(*row, made.code) for row in made.rows]
    return {"hamilton.csv": csv_text(HAMILTON_HEADER, rows)}


# Beckman Biomek: CSV for 'Transfer From File', wells as A1.

BIOMEK_HEADER = ("SourcePlate", "SourceWell", "DestinationPlate", "DestinationWell", "Volume", "Design")


def biomek_files(made: Moves) -> dict[str, str]:
    """One line for each transfer."""
    rows = [(*row, made.code) for row in made.rows]
    return {"biomek.csv": csv_text(BIOMEK_HEADER, rows)}


# Eppendorf epMotion: CSV with rack numbers and wells, at most 500 transfers in a file.
#
# Source racks and pool racks are numbered apart, each from 1. Lines that begin with # are remarks; the values follow
# their header without gaps, so the remarks come last.

EPMOTION_TRANSFERS = 500  # transfers in a file
EPMOTION_TOOLS = ((10.0, "TS_10"), (50.0, "TS_50"), (300.0, "TS_300"), (1000.0, "TS_1000"))  # up to so many microlitres


def epmotion_files(made: Moves) -> dict[str, str]:
    """As many files as the transfers need, numbered from 1."""
    parts = [made.moves[start : start + EPMOTION_TRANSFERS] for start in range(0, len(made.moves), EPMOTION_TRANSFERS)]
    return {
        f"epmotion-{number}.csv": _epmotion_text(made, part, number, len(parts)) for number, part in enumerate(parts, 1)
    }


def _epmotion_text(made: Moves, part: tuple[Move, ...], number: int, of: int) -> str:
    head = [f"# {made.design}; file {number} of {of}".replace(",", ";")]
    for kind, racks in (("source", made.sources), ("pool", made.targets)):
        head += [f"# {kind} rack {rack}: {made.labels[plate]}" for rack, plate in enumerate(racks, 1)]
    lines = ["Rack,Src.Well,Rack,Dest.Well,Volume,Tool"]
    for move in part:
        source, target = made.sources.index(move.source_plate) + 1, made.targets.index(move.pool_plate) + 1
        volume = microlitres(move.volume)
        lines.append(f"{source},{move.source_well},{target},{move.pool_well},{volume},{_epmotion_tool(move.volume)}")
    return "".join(f"{line}\r\n" for line in [lines[0], *lines[1:], *head])


def _epmotion_tool(volume: float) -> str:
    for most, name in EPMOTION_TOOLS:
        if volume <= most:
            return name
    raise ValueError(
        f"volume={volume:g} is not valid here: an epMotion tool takes at most {EPMOTION_TOOLS[-1][0]:g} microlitres."
    )


# Beckman (Labcyte) Echo: CSV in nanolitres, multiples of 2.5. Its source plates are those of 384 wells.

ECHO_HEADER = (
    "Source Plate Name",
    "Source Plate Type",
    "Source Well",
    "Destination Plate Name",
    "Destination Plate Type",
    "Destination Well",
    "Transfer Volume",
    "Design",
)
ECHO_TYPES = {96: "96-well plate", 384: "384PP_AQ_BP"}
ECHO_STEP = 2.5


def echo_files(made: Moves) -> dict[str, str]:
    """One line for each transfer."""
    rows = [
        (
            made.labels[move.source_plate],
            ECHO_TYPES[made.sizes[move.source_plate]],
            move.source_well,
            made.labels[move.pool_plate],
            ECHO_TYPES[made.sizes[move.pool_plate]],
            move.pool_well,
            nanolitres(move.volume, ECHO_STEP),
            made.code,
        )
        for move in made.moves
    ]
    return {"echo.csv": csv_text(ECHO_HEADER, rows)}


# SPT mosquito: a line `Worklist`, then position, column, row of source and destination, and nanolitres.
#
# Deck positions count from 1: first the plates of samples, then the plates of pools. The format has no room for
# remarks: the name of the file carries the check code.

MOSQUITO_STEP = 0.1


def mosquito_files(made: Moves) -> dict[str, str]:
    """One line for each transfer."""
    deck = {plate: number for number, plate in enumerate([*made.sources, *made.targets], 1)}
    lines = ["Worklist"]
    for move in made.moves:
        ends = ((move.source_plate, move.source_well), (move.pool_plate, move.pool_well))
        places = [
            f"{deck[plate]},{plates.place_of(well)[1] + 1},{plates.place_of(well)[0] + 1}" for plate, well in ends
        ]
        lines.append(",".join([*places, nanolitres(move.volume, MOSQUITO_STEP)]))
    return {"mosquito.csv": "".join(f"{line}\r\n" for line in lines)}


# All formats of worklists by name, and all their files at once.

Write = Callable[[Moves], dict[str, str]]  # names of files and their texts
FORMATS: Mapping[str, Write] = {
    "generic": generic_files,
    "tecan": tecan_files,
    "opentrons": opentrons_files,
    "hamilton": hamilton_files,
    "biomek": biomek_files,
    "epmotion": epmotion_files,
    "echo": echo_files,
    "mosquito": mosquito_files,
}


def worklist_files(made: Moves, formats: Sequence[str] | None = None) -> dict[str, str]:
    """The files of some formats, or of all, each with the design's check code in its name.

    Example:
        >>> from qgt import Design
        >>> from qgt.lab.sheets.samples import Samples
        >>> from qgt.lab.plan.robots import moves_of
        >>> samples = Samples.numbered(3)
        >>> made = moves_of(Design.from_rows(["110", "011"], item_names=samples.names), samples, 10.0)
        >>> list(worklist_files(made, ["tecan", "echo"]))
        ['tecan-ND3B38.gwl', 'echo-ND3B38.csv']
    """
    texts: dict[str, str] = {}
    for name in FORMATS if formats is None else formats:
        if name not in FORMATS:
            raise ValueError(f"worklist={name!r} is not known: give one of {', '.join(FORMATS)}.")
        for file, text in FORMATS[name](made).items():
            stem, dot, ending = file.rpartition(".")
            texts[f"{stem}-{made.code}{dot}{ending}"] = text
    return texts
