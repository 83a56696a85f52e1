"""The codec: every type there and back, and every way in which data can be wrong."""

import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Protocol, runtime_checkable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import qgt
from qgt.arguments import fraction
from qgt.decoders.registry import DECODERS, KINDS, make_decoder
from qgt.files import codec
from qgt.files.documents import to_toml

pytestmark = pytest.mark.usefixtures("unchecked")


@runtime_checkable
class Animal(Protocol):
    def call(self) -> str: ...


@dataclass(frozen=True)
class Cat:
    lives: int = 9
    friend: Animal | None = None

    def call(self) -> str:
        return "miaow"


@dataclass(frozen=True)
class Dog:
    name: str
    weight: float

    def __post_init__(self):
        object.__setattr__(self, "weight", fraction("weight", self.weight))

    def call(self) -> str:
        return "woof"


@dataclass(frozen=True)
class Everything:
    flag: bool
    whole: int
    real: float
    text: str
    choice: Literal["a", "b"] | int
    several: tuple[float, ...]
    pair: tuple[int, str]
    listed: list[int]
    rate: float | Sequence[float] | torch.Tensor
    nested: Cat
    animal: Animal
    table: Mapping[str, float | str]
    rows: Mapping[tuple[int, int], float]
    anything: Any
    maybe: int | None  # no default: leaving it out means None
    unless: int | None = 7
    made: dict[str, int] = field(default_factory=dict)
    after: int = field(init=False, default=3)


ANIMALS = {Animal: {"cat": Cat, "dog": Dog}}

finite = st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(st.characters(exclude_categories=["Cs"]))
small = st.integers(-(2**63), 2**63 - 1)
dogs = st.builds(Dog, texts, st.floats(0, 1))
cats = st.recursive(st.builds(Cat, small), lambda inner: st.builds(Cat, small, inner | dogs), max_leaves=4)
plain = st.recursive(
    st.booleans() | small | finite | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
everything = st.builds(
    Everything,
    flag=st.booleans(),
    whole=small,
    real=finite,
    text=texts,
    choice=st.sampled_from(["a", "b"]) | small,
    several=st.lists(finite).map(tuple),
    pair=st.tuples(small, texts),
    listed=st.lists(small),
    rate=finite | st.lists(finite).map(tuple),
    nested=cats,
    animal=cats | dogs,
    table=st.dictionaries(texts, finite | texts),
    rows=st.dictionaries(st.tuples(small, small), finite),
    anything=plain,
    maybe=st.none() | small,
    unless=small,
    made=st.dictionaries(texts, small),
)


@settings(max_examples=200, deadline=None)
@given(everything)
def test_what_goes_through_json_and_toml_comes_back_equal(value):
    data = codec.encode("it", value, Everything, ANIMALS)
    for again in (data, json.loads(json.dumps(data, allow_nan=False)), tomllib.loads(to_toml(data))):
        assert codec.decode("it", again, Everything, ANIMALS) == value
        # Equal numbers of another type, 1 for 1.0, would change a fingerprint.
        anew = codec.encode("it", codec.decode("it", again, Everything, ANIMALS), Everything, ANIMALS)
        assert json.dumps(anew, sort_keys=True) == json.dumps(data, sort_keys=True)


def test_plain_data_looks_as_the_page_says():
    value = Dog("rex", 1)
    assert codec.encode("it", value, Dog) == {"name": "rex", "weight": 1.0}
    assert codec.encode("it", value, Animal, ANIMALS) == {"kind": "dog", "name": "rex", "weight": 1.0}
    nested = codec.encode("it", Cat(friend=Cat(3)), Animal, ANIMALS)
    assert nested == {"kind": "cat", "lives": 9, "friend": {"kind": "cat", "lives": 3}}
    assert codec.encode("it", {(2, 1): 0.5, (1, 3): 1}, Mapping[tuple[int, int], float]) == [[1, 3, 1.0], [2, 1, 0.5]]


@dataclass(frozen=True)
class Waiting:
    patience: int | None = 15


def test_none_is_left_out_only_where_that_means_none():
    assert codec.encode("it", Cat(), Cat, ANIMALS) == {"lives": 9}
    assert codec.encode("it", Waiting(None), Waiting) == {"patience": None}
    assert codec.decode("it", {"patience": None}, Waiting) == Waiting(None)
    assert codec.decode("it", {}, Waiting) == Waiting(15)
    with pytest.raises(ValueError, match=r"^patience is None, which TOML cannot express: give a name .* \.json\.$"):
        to_toml(codec.encode("it", Waiting(None), Waiting))


def test_numbers_of_other_libraries_become_plain():
    data = codec.encode("it", [np.int64(3), np.float32(0.5)], list[int | float])
    assert data == [3, 0.5]
    assert [type(value) for value in data] == [int, float]


GOOD = {"kind": "dog", "name": "rex", "weight": 0.5}


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (3, "it=3 is not valid: give a table with a kind."),
        ([], "it=[] is not valid: give a table with a kind."),
        ({1: 2}, "it={1: 2} is not valid: give a table with a kind."),
        ({}, "it.kind=None is not known: give one of cat, dog, or a plugin's file:Class."),
        ({"kind": "cow"}, "it.kind='cow' is not known: give one of cat, dog, or a plugin's file:Class."),
        ({"kind": "my:Cow"}, "it.kind='my:Cow' is not loaded: give --plugin my.py, or call qgt.load_plugin."),
        ({"kind": "os:system; ls"}, "it.kind='os:system; ls' is not known: give one of cat, dog, or"),
        ({"kind": "cat", "legs": 4}, "it.legs is not a known key: use friend, kind, lives."),
        ({"kind": "dog"}, "it.name is missing: add it; the keys are kind, name, weight."),
        ({"kind": "cat", "lives": 1.0}, "it.lives=1.0 is not valid: give a whole number."),
        ({"kind": "cat", "lives": True}, "it.lives=True is not valid: give a whole number."),
        ({"kind": "cat", "lives": None}, "it.lives=None is not valid: give a whole number."),
        ({"kind": "cat", "friend": 3}, "it.friend=3 is not valid: give a table with a kind."),
        ({"kind": "cat", "friend": {"kind": "cat", "lives": "x"}}, "it.friend.lives='x' is not valid: give a whole"),
        ({**GOOD, "name": 3}, "it.name=3 is not valid: give a text."),
        # the class's own sentence, which knows the range, with the path in front
        ({**GOOD, "weight": 2.0}, "it.weight=2.0 is not valid: give a number from 0 to 1."),
        ({**GOOD, "weight": "x"}, "it.weight='x' is not valid: give a number from 0 to 1."),
        ({**GOOD, "weight": math.nan}, "it.weight=nan is not valid: give a number from 0 to 1."),
        ({**GOOD, "weight": math.inf}, "it.weight=inf is not valid: give a number from 0 to 1."),
        ({"kind": "cat", "friend": {**GOOD, "weight": -1}}, "it.friend.weight=-1.0 is not valid: give a number from"),
        ({**GOOD, "name": "x" * 500, "weight": "y" * 500}, "it.weight="),
    ],
)
def test_what_is_wrong_with_a_part_is_named_with_its_path(data, said):
    with pytest.raises(ValueError) as caught:
        codec.decode("it", data, Animal, ANIMALS)
    assert str(caught.value).startswith(said)
    assert type(caught.value) is ValueError
    assert len(str(caught.value)) < 700


@pytest.mark.parametrize(
    ("hint", "data", "said"),
    [
        (bool, 1, "it=1 is not valid: give true or false."),
        (bool, "true", "it='true' is not valid: give true or false."),
        (float, True, "it=True is not valid: give a finite number."),
        (float, math.nan, "it=nan is not valid: give a finite number."),
        (float, -math.inf, "it=-inf is not valid: give a finite number."),
        (float, 10**400, "it=1000"),
        (float | None, "x", "it='x' is not valid: give a finite number."),
        (int | str, 1.5, "it=1.5 is not valid: give a whole number or a text."),
        (Literal["a", 2] | bool, "c", "it='c' is not valid: give \"a\" or 2 or true or false."),
        (Literal[1], True, "it=True is not valid: give 1."),
        (tuple[float, ...], "ab", "it='ab' is not valid: give a list."),
        (tuple[float, ...], [1, [2]], "it[1]=[2] is not valid: give a finite number."),
        (tuple[int, str], [1], "it=[1] is not valid: give a list of 2."),
        (tuple[int, str], [1, 2], "it[1]=2 is not valid: give a text."),
        (Mapping[str, int], [1], "it=[1] is not valid: give a table."),
        (Mapping[str, int], {"a": {}}, "it.a={} is not valid: give a whole number."),
        (Mapping[tuple[int, int], int], [[1, 2, 3], [1, 2]], "it[1]=[1, 2] is not valid: give a list of 3."),
        (Any, {"a": [1, math.nan]}, "it.a[1]=nan is not plain data: use finite numbers, texts, lists and tables."),
        (object, torch.ones(1), "it=tensor([1.]) is not plain data: use finite"),
        (torch.Tensor, [1], "it is annotated Tensor, which no file can hold: use numbers,"),
        (list[torch.Tensor], [1], "it is annotated list, which no file can hold: use numbers,"),
        (set[int], [1], "it is annotated set, which no file can hold: use numbers,"),
    ],
)
def test_what_does_not_fit_a_type_is_named(hint, data, said):
    with pytest.raises(ValueError) as caught:
        codec.decode("it", data, hint)
    assert str(caught.value).startswith(said)


def test_a_union_takes_the_first_that_fits():
    assert repr(codec.decode("it", 3, float | int)) == "3"
    assert repr(codec.decode("it", 3, float | str)) == "3.0"
    assert codec.decode("it", [1, 2], float | Sequence[float] | torch.Tensor) == (1.0, 2.0)
    assert codec.decode("it", "a", str | Literal["a"]) == "a"


@dataclass(frozen=True)
class Careless:
    """Its constructor trips over what it did not expect."""

    size: int
    name: str = ""

    def __post_init__(self):
        if self.size > 3:
            raise TypeError("too large")
        self.name.strip()


def test_errors_of_a_constructor_never_hide_the_fault():
    with pytest.raises(ValueError, match=r"^it\.size='x' is not valid: give a whole number\.$"):
        codec.decode("it", {"size": "x"}, Careless)
    with pytest.raises(ValueError, match=r"^it\.name=3 is not valid: give a text\.$"):
        codec.decode("it", {"size": 1, "name": 3}, Careless)
    with pytest.raises(ValueError, match=r"^it: too large$"):
        codec.decode("it", {"size": 4}, Careless)


def test_a_value_that_is_not_what_its_annotation_says_is_not_written():
    with pytest.raises(ValueError, match=r"^it\.lives='nine' is not valid: give a whole number\.$"):
        codec.encode("it", Cat("nine"), Cat, ANIMALS)
    with pytest.raises(ValueError, match=r"^it=3 is not valid: give a table with a kind\.$"):
        codec.encode("it", 3, Animal, ANIMALS)


def test_a_class_that_is_no_dataclass_is_refused():
    class Cow:
        def call(self):
            return "moo"

    with pytest.raises(ValueError, match=r"^Cow has no fields that can be read: make it a frozen dataclass\.$"):
        codec.encode("it", Cow(), Animal, ANIMALS)


def test_annotations_that_cannot_be_read_are_named():
    @dataclass(frozen=True)
    class Vague:
        what: "Unheard"

    with pytest.raises(ValueError, match=r"^Vague: its annotations cannot be read .*Unheard.*: import what they name"):
        codec.decode("it", {"what": 1}, Vague)


# --- options as texts


@dataclass(frozen=True)
class Options:
    flag: bool = False
    whole: int = 1
    real: float | None = 0.5
    text: str = ""
    choice: Literal["true", "noisy"] | int | None = None
    rate: float | Sequence[float] = 0.1
    pair: tuple[int, str] = (0, "")
    animal: Animal | None = None


@pytest.mark.parametrize(
    ("texts", "made"),
    [
        ({}, Options()),
        ({"flag": "true"}, Options(flag=True)),
        ({"whole": "12"}, Options(whole=12)),
        ({"real": "1e-3"}, Options(real=0.001)),
        ({"real": "none"}, Options(real=None)),
        ({"text": "12"}, Options(text="12")),
        ({"text": "a, b"}, Options(text="a, b")),
        ({"choice": "true"}, Options(choice="true")),
        ({"choice": "6"}, Options(choice=6)),
        ({"rate": "0.2"}, Options(rate=0.2)),
        ({"rate": "0.2, 0.3"}, Options(rate=(0.2, 0.3))),
        ({"pair": "1,x"}, Options(pair=(1, "x"))),
        ({"animal": "cat"}, Options(animal=Cat())),
    ],
)
def test_texts_become_what_the_fields_are(texts, made):
    assert codec.decode_options("it", Options, texts, ANIMALS) == made
    assert codec.decode_options("it", Options(), texts, ANIMALS) == made


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ({"flag": "yes"}, "it.flag='yes' is not valid: give true or false."),
        ({"whole": "1.5"}, "it.whole='1.5' is not valid: give a whole number."),
        ({"real": "nan"}, "it.real='nan' is not valid: give a finite number."),
        ({"real": ""}, "it.real='' is not valid: give a finite number."),
        ({"pair": "1"}, "it.pair=[1] is not valid: give a list of 2."),
        ({"animal": "cow"}, "it.animal.kind='cow' is not known: give one of cat, dog"),
        ({"animal": "dog"}, "it.animal.name is missing: add it"),
        ({"speed": "1"}, "speed=1 has no meaning for it: it has flag, whole"),
    ],
)
def test_texts_that_do_not_fit_are_named(texts, said):
    with pytest.raises(ValueError) as caught:
        codec.decode_options("it", Options, texts, ANIMALS)
    assert str(caught.value).startswith(said)


def test_options_change_an_instance_and_leave_the_rest():
    assert codec.decode_options("it", Dog("rex", 0.5), {"weight": "0.25"}) == Dog("rex", 0.25)
    with pytest.raises(ValueError, match=r"^it\.name is missing"):
        codec.decode_options("it", Dog, {"weight": "0.25"})


# --- our own


@pytest.mark.parametrize(
    "decoder",
    [
        *(cls() for cls in DECODERS.values()),
        qgt.Certified(odds=1.0, time_limit=3.0, certificates=False),
        qgt.ExactMAP(workers=2),
    ],
    ids=repr,
)
def test_our_decoders_come_back(decoder):
    data = codec.encode("it", decoder, qgt.Decoder, KINDS)
    assert codec.decode("it", json.loads(json.dumps(data)), qgt.Decoder, KINDS) == decoder
    assert codec.decode("it", tomllib.loads(to_toml(data)), qgt.Decoder, KINDS) == decoder


def test_a_decoder_is_made_by_its_name_and_options():
    assert make_decoder("gamp") == qgt.GAMP()
    assert make_decoder("gamp", {"damping": "0.5"}) == qgt.GAMP(damping=0.5)
    for kind, options, said in [
        ("oracle", {}, r"^decoder='oracle' is not known: give one of amp, "),
        ("gamp", {"damping": "2"}, r"^gamp\.damping=2\.0 is not valid: give a number from 0 to 1\.$"),
        ("gamp", {"dampin": "2"}, r"^dampin=2 has no meaning for gamp: it has damping, iterations\.$"),
    ]:
        with pytest.raises(ValueError, match=said):
            make_decoder(kind, options)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"outcomes": []}, r"score\.items is missing"),
        ({"items": 3, "outcomes": [[1, 0, 2]]}, r"score\.outcomes\[0\]=\[1, 0, 2\] is not valid: give a list of 4"),
        ({"items": 3, "outcomes": [[1, 0, 2, 0.5]]}, r"score\.outcomes\[0\]\[3\]=0\.5 is not valid: give a whole"),
        ([], r"score=\[\] is not valid: give a table"),
    ],
)
def test_a_score_of_a_wrong_shape_is_refused(data, said):
    with pytest.raises(ValueError, match=f"^{said}"):
        qgt.Score.from_plain(data)


@dataclass(frozen=True)
class Measurement:
    """A record with a loss that may be NaN, a note, and scratch that no file holds."""

    loss: codec.Diverging
    note: Annotated[str, "any words"] = ""
    scratch: bytes = field(default=b"", metadata=codec.UNSTORED)


def test_a_number_that_is_not_finite_is_none_in_a_file():
    for loss in (math.nan, math.inf):
        plain = codec.encode_table("one", Measurement(loss), Measurement)
        assert plain == {"loss": None, "note": ""}
        assert math.isnan(codec.decode("one", plain, Measurement).loss)
    assert codec.decode("one", {"loss": 1}, Measurement) == Measurement(1.0)
    for wrong in (math.nan, True, "low"):
        with pytest.raises(ValueError, match=r"^one\.loss=.* is not valid: give a finite number or null\.$"):
            codec.decode("one", {"loss": wrong}, Measurement)


def test_a_field_that_is_not_stored_is_in_no_file_and_keeps_its_value_among_options():
    one = Measurement(0.5, scratch=b"kept")
    assert codec.decode("one", codec.encode_table("one", one, Measurement), Measurement) == Measurement(0.5)
    with pytest.raises(ValueError, match=r"^one\.scratch is not a known key: use loss, note\.$"):
        codec.decode("one", {"loss": 0.5, "scratch": ""}, Measurement)
    assert codec.decode_options("one", one, {"note": "hm"}) == Measurement(0.5, "hm", b"kept")
