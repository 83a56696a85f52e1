"""Random designs on random plates, and whether each format's files give them back."""

from random import Random

import torch

import worklist_readers
from qgt import Design
from qgt.lab.plan.robots import FORMATS, Moves, moves_of
from qgt.lab.sheets.plates import wells
from qgt.lab.sheets.samples import Samples

LETTERS = "abcXYZ019 _-;,\"'=+@<>&|/\\äß漢"


def random_name(random: Random) -> str:
    return "".join(random.choice(LETTERS) for _ in range(random.randint(1, 40))).strip() or "x"


def random_case(seed: int) -> tuple[Design, Samples, float]:
    """A design with samples of any name, on one to four plates, in any wells."""
    random = Random(seed)
    items, pools = random.randint(1, 60), random.randint(1, 120 if random.random() < 0.2 else 30)
    g = torch.Generator().manual_seed(seed)
    matrix = (torch.rand(pools, items, generator=g) < random.choice([0.05, 0.2, 0.5])).to(torch.uint8)
    matrix[random.randrange(pools), random.randrange(items)] = 1
    names: dict[str, None] = {}
    while len(names) < items:
        names[random_name(random)] = None
    plates = list(dict.fromkeys(random_name(random) for _ in range(random.randint(1, 4))))
    sizes = {plate: random.choice([96, 384]) for plate in plates}
    spots = random.sample([(plate, well) for plate in plates for well in wells(sizes[plate])], items)
    samples = Samples(tuple(names), tuple(plate for plate, _ in spots), tuple(well for _, well in spots))
    volume = random.choice([0.1, 0.25, 1.0, 2.5, 5.0, 10.0, 20.0])
    return Design.from_matrix(matrix, (), samples.names), samples, volume


def rebuilt(made: Moves, name: str, design: Design, samples: Samples) -> torch.Tensor:
    """The matrix that a format's files describe, read back by the independent reader."""
    files = FORMATS[name](made)
    if name in worklist_readers.BY_POSITION:
        deck = [made.labels[plate] for plate in [*made.sources, *made.targets]]
        found = worklist_readers.BY_POSITION[name](files, deck)
    else:
        found = worklist_readers.READERS[name](files)
    labels = {plate: plate for plate in made.labels} if name == "generic" else made.labels
    plates = {label: plate for plate, label in labels.items()}
    item = {(plate, well): j for j, (plate, well) in enumerate(zip(samples.plates, samples.wells, strict=True))}
    matrix = torch.zeros(design.pools, design.items, dtype=torch.uint8)
    for source, source_well, target, target_well, volume in found:
        source = plates[source]
        number = int(plates[target].removeprefix("Pools ")) - 1
        row, column = ord(target_well[0]) - 65, int(target_well[1:]) - 1
        pool = 96 * number + 8 * column + row
        j = item[source, source_well]
        assert matrix[pool, j] == 0, "a transfer is made twice"
        assert abs(volume - made.moves[0].volume) < 1e-9
        matrix[pool, j] = 1
    return matrix


def faults(seed: int) -> list[str]:
    """The formats that do not give a random design back."""
    design, samples, volume = random_case(seed)
    made = moves_of(design, samples, volume)
    return [name for name in FORMATS if not torch.equal(rebuilt(made, name, design, samples), design.matrix)]
