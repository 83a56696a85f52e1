"""Pooling sheets to print: by sample, by pool, and maps of the plates, with numbers to check by.

Pipetting by hand goes wrong where nobody notices. So every sample shows how many pools it goes into, and every pool how
many samples it must hold and the volume that must be in it at the end.
"""

from collections.abc import Sequence

from qgt.lab import plates
from qgt.lab.naming import label
from qgt.lab.plates import POOL_PLATE
from qgt.lab.samples import Samples
from qgt.lab.worklists.moves import Move, Moves, microlitres, moves_of
from qgt.model.design import Design
from qgt.pictures.pages import Piece
from qgt.pictures.printed_sheets import PlateMap, Tick, Ticks, printed_page


def pooling_sheet(design: Design, samples: Samples, volume: float, *, notes: Sequence[str] = ()) -> Piece:
    """A page to print: what goes where, by sample and by pool, and the plates.

    Args:
        design: Its items are the samples.
        samples: Where each sample stands.
        volume: Microlitres of each transfer.
        notes: What else the plan takes for granted, in sentences.

    Example:
        >>> from qgt import Design
        >>> samples = Samples.placed(["<Ann>", "Bob", "Cy"])
        >>> page = pooling_sheet(Design.from_rows(["110", "011"], item_names=samples.names), samples, 10.0)
        >>> "&lt;Ann&gt;" in page, "<Ann>" in page
        (True, False)
    """
    made = moves_of(design, samples, volume)
    facts = [
        ("samples", str(design.items)),
        ("pools", str(design.pools)),
        ("transfers", f"{design.transfers:,}"),
        ("each transfer", f"{microlitres(volume)} µL"),
        ("largest pool", f"{int(design.pool_sizes.max())} samples"),
        ("done by, on", "____________________"),
    ]
    maps = [*_sample_maps(samples), *_pool_maps(design, made)]
    lists = [_by_sample(made), _by_pool(design, made)]
    return printed_page("Pooling sheet", label(design), facts, lists, maps, notes=notes)


def _by_sample(made: Moves) -> Ticks:
    groups: dict[str, list[Move]] = {}
    for move in made.moves:
        groups.setdefault(move.sample, []).append(move)
    several = len(made.targets) > 1
    rows = [
        Tick(
            sample,
            f"{moves[0].source_plate}, {moves[0].source_well}",
            [(move.pool, f"{move.pool_plate}, {move.pool_well}" if several else move.pool_well) for move in moves],
            f"{len(moves)} pools, {microlitres(sum(move.volume for move in moves))} µL",
        )
        for sample, moves in groups.items()
    ]
    lead = "Put each sample into the pools on its line. Tick each box. The last column says how many there are."
    return Ticks("By sample", lead, ("sample", "stands in", "goes into", "check"), rows)


def _by_pool(design: Design, made: Moves) -> Ticks:
    groups: dict[str, list[Move]] = {name: [] for name in design.pool_names}
    for move in made.moves:
        groups[move.pool].append(move)
    several = len(made.sources) > 1
    rows = [
        Tick(
            pool,
            f"{moves[0].pool_plate}, {moves[0].pool_well}" if moves else "",
            [
                (move.sample, f"{move.source_plate}, {move.source_well}" if several else move.source_well)
                for move in moves
            ],
            f"{len(moves)} samples, {microlitres(sum(move.volume for move in moves))} µL",
        )
        for pool, moves in groups.items()
    ]
    lead = "Each pool holds the samples on its line, and in the end the volume in the last column."
    return Ticks("By pool", lead, ("pool", "stands in", "holds", "check"), rows)


def _sample_maps(samples: Samples) -> list[PlateMap]:
    maps = []
    for plate in samples.plate_names:
        here = {
            well: (name, "")
            for name, own, well in zip(samples.names, samples.plates, samples.wells, strict=True)
            if own == plate
        }
        maps.append(_map(f"Plate of samples: {plate}", samples.plate_size(plate), here))
    return maps


def _pool_maps(design: Design, made: Moves) -> list[PlateMap]:
    maps = []
    for plate in made.targets:
        here = {move.pool_well: move.pool for move in made.moves if move.pool_plate == plate}
        sizes = dict(zip(design.pool_names, design.pool_sizes.tolist(), strict=True))
        texts = {well: (pool, f"{sizes[pool]} samples") for well, pool in here.items()}
        maps.append(_map(f"Plate of pools: {plate}", POOL_PLATE, texts))
    return maps


def _map(title: str, size: int, texts: dict[str, tuple[str, str]]) -> PlateMap:
    rows, columns = plates.shape(size)
    nothing = ("", "")
    wells = [[texts.get(f"{chr(65 + row)}{column + 1}", nothing) for column in range(columns)] for row in range(rows)]
    return PlateMap(title, wells)
