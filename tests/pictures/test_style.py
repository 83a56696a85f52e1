"""One look for each decoder in all figures, different from those beside it, also to eyes that see fewer colours."""

from itertools import combinations

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from qgt.decoders import DECODER_CLASSES
from qgt.pictures.style import DECODER_LOOKS, LIMIT, LIMIT_COLOUR, SCHEME_LOOKS, LineStyle, look_of, looks, shades

# The decoders that figures of the pages draw in one panel.
TOGETHER = (
    ("network", "residual", "amp_told", "amp_nearly", "amp_fixed", "amp", "gamp"),
    ("maximum_neighborhood", "amp_fixed", "amp_noisy", "amp_oracle", "amp", "gamp", "linear_program"),
    ("COMP", "DD", "SCOMP", "LinearProgram"),
    ("LoadPosterior", "COMP, SBL", "COMP, NNOMP", "COMP, LASSO", "GAMP", "COMP, NNLS", "COMP"),
    ("pretrained network", "GAMP", "belief propagation", "Refining, for one design", "the paper's MLP"),
    ("MAP, independent items", "paper's network", "refining network"),
    ("amp", "linear_program", "iht"),
    ("belief", "amp", "gamp", "linear_program"),
    ("follow-up", "grouped_halving", "non-adaptive"),
)
# What is left of the primary colours (linear RGB) without one of the three kinds of cones: Machado et al. (2009).
EYES = {
    "usual": np.eye(3),
    "deuteranopia": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "protanopia": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "tritanopia": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
JUST_SEEN = 2.3  # a difference in CIELAB that a person can see beside each other


def lab(colour: str, eye: str) -> np.ndarray:
    """A colour in CIELAB, as an eye sees it."""
    part = np.array(to_rgb(colour))
    linear = np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)
    xyz = TO_XYZ @ np.clip(np.array(EYES[eye]) @ linear, 0, 1) / np.array([0.9505, 1.0, 1.089])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("eye", EYES)
@pytest.mark.parametrize("names", TOGETHER, ids=lambda names: names[0])
def test_decoders_that_are_drawn_together_differ_in_colour_for_every_eye(names: tuple[str, ...], eye: str) -> None:
    colours = {"the limit": LIMIT_COLOUR} | {
        name: look.color for name, look in looks({name: name for name in names}).items()
    }
    for (one, first), (other, second) in combinations(colours.items(), 2):
        apart = float(np.linalg.norm(lab(first, eye) - lab(second, eye)))
        assert apart > 4 * JUST_SEEN, f"{one} and {other} are {apart:.1f} apart"


@pytest.mark.parametrize("names", TOGETHER, ids=lambda names: names[0])
def test_decoders_that_are_drawn_together_differ_without_colours(names: tuple[str, ...]) -> None:
    styles = [look_of(name) for name in names]
    assert None not in styles
    seen = {(style.marker, style.linestyle, style.hollow) for style in styles if style is not None}
    assert len(seen) == len(names)


def test_every_name_has_one_look_and_no_two_decoders_the_same() -> None:
    names = [name for names, _ in (*DECODER_LOOKS, *SCHEME_LOOKS) for name in names]
    assert len(names) == len({name.lower().replace("_", " ") for name in names})
    for table in (DECODER_LOOKS, SCHEME_LOOKS):
        assert [(a, b) for (a, one), (b, other) in combinations(table, 2) if one == other] == []


def test_every_built_in_decoder_that_figures_compare_has_a_look() -> None:
    rare = {"exhaustive", "peeling"}  # a figure of them would give them a spare look
    without = {name for name in DECODER_CLASSES if look_of(name) is None} - rare
    assert without == set(), "add a line to DECODER_LOOKS of qgt/pictures/style.py"


def test_a_decoder_looks_the_same_beside_others_and_under_its_other_names() -> None:
    alone, beside = looks({"a": "GAMP"})["a"], looks({"mine": "mine", "b": "gamp", "amp": "AMP"})["b"]
    assert alone == beside == look_of("load_gamp") == look_of("GAMP, 20 pools")
    assert look_of("AMP, told K") != look_of("AMP") == look_of("AMP, scanning K")
    assert look_of("mine") is None and look_of("") is None


def test_lines_of_one_figure_never_look_the_same() -> None:
    names = {f"mine {number}": f"mine {number}" for number in range(14)}
    found = looks({"amp": "AMP", "AMP, by hand": "AMP, by hand", "b": "AMP", **names})
    assert len(set(found.values())) == len(found) == 17
    assert found["amp"] == look_of("amp") and list(found)[:3] == ["amp", "AMP, by hand", "b"]
    assert LIMIT_COLOUR not in {look.color for look in found.values()} and LIMIT not in found.values()
    assert looks({}) == {}


def test_a_hollow_marker_is_white_inside() -> None:
    assert LineStyle("#000000", hollow=True).words()["markerfacecolor"] == "white"
    assert set(LineStyle("#000000").words()) == {"color", "linewidth", "linestyle", "marker", "zorder"}


def test_shades_have_the_colour_in_their_middle() -> None:
    assert shades("#0072b2", 1) == ["#0072b2"] == shades("#0072b2", 3)[1:2]
    light = [lab(colour, "usual")[0] for colour in shades("#0072b2", 3)]
    assert light == sorted(light)
