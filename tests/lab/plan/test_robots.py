"""Worklists: an independent reader of each format rebuilds the design, and no robot's limit is broken."""

import pytest
import torch

from qgt import Design
from qgt.lab.plan.robots import FORMATS, moves_of, robot_labels, worklist_files
from qgt.lab.sheets.names import check_code
from qgt.lab.sheets.samples import Samples
from random_worklists import faults, random_case, rebuilt
from worklist_readers import WITHOUT_CODE


@pytest.mark.parametrize("seed", range(20))
def test_every_format_gives_a_random_design_back(seed):
    assert faults(seed) == []


@pytest.mark.parametrize("name", FORMATS)
def test_a_design_that_lost_a_transfer_is_noticed(name):
    design, samples, _ = random_case(3)
    fewer = design.matrix.clone()
    pool, item = fewer.nonzero()[0].tolist()
    fewer[pool, item] = 0
    made = moves_of(Design.from_matrix(fewer, (), samples.names), samples, 1.0)
    assert not torch.equal(rebuilt(made, name, design, samples), design.matrix)


def test_large_plans_are_split_for_epmotion():
    samples = Samples.numbered(200)
    design = Design.from_matrix(torch.ones(6, 200, dtype=torch.uint8), (), samples.names)
    made = moves_of(design, samples, 10.0)
    assert len(FORMATS["epmotion"](made)) == 3
    assert torch.equal(rebuilt(made, "epmotion", design, samples), design.matrix)


def test_every_file_shows_the_check_code():
    samples = Samples.numbered(8)
    design = Design.from_matrix(torch.ones(2, 8, dtype=torch.uint8), (), samples.names)
    for name, text in worklist_files(moves_of(design, samples, 10.0)).items():
        assert check_code(design) in name
        assert check_code(design) in text or name.startswith(WITHOUT_CODE), name


def test_labels_are_plain_short_and_different():
    names = ["a" * 40, "a" * 41, "=1+1", "+1+1", "", "x\u202e", "Plate", "plate"]
    labels = robot_labels(names)
    assert len({label.lower() for label in labels.values()}) == len(names)
    for label in labels.values():
        assert 0 < len(label) <= 32
        assert all(character.isascii() and (character.isalnum() or character in " _-") for character in label)
        assert label[0] not in "=+-@"


@pytest.mark.parametrize(
    ("volume", "name", "said"),
    [
        (0.0001, "echo", "multiples of 2.5 nanolitres"),
        (0.00001, "mosquito", "multiples of 0.1 nanolitres"),
        (2000.0, "epmotion", "at most 1000 microlitres"),
        (0.0, "generic", "volume=0.0 is not valid"),
    ],
)
def test_volumes_that_a_robot_cannot_dose_are_refused(volume, name, said):
    samples = Samples.numbered(2)
    design = Design.from_rows(["11"], item_names=samples.names)
    with pytest.raises(ValueError, match=said):
        worklist_files(moves_of(design, samples, volume), [name])


def test_samples_of_another_design_are_refused():
    design = Design.from_rows(["11"])
    with pytest.raises(ValueError, match="does not list the design's items"):
        moves_of(design, Samples.numbered(2), 10.0)
    with pytest.raises(ValueError, match="worklist='pipette' is not known"):
        worklist_files(
            moves_of(Design.from_rows(["11"], item_names=["S1", "S2"]), Samples.numbered(2), 1.0), ["pipette"]
        )
