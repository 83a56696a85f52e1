"""The checks of types and shapes that every test runs under can fail."""

import dataclasses
from collections.abc import Callable

import pytest
import torch
from beartype.roar import BeartypeCallHintParamViolation, BeartypeCallHintReturnViolation
from jaxtyping import Float64
from torch import Tensor

import qgt
import type_checks


@type_checks.checked
def longer(a: Float64[Tensor, "rows"], b: Float64[Tensor, "rows"]) -> Float64[Tensor, "rows"]:
    return a + 1 if len(a) > 2 else torch.cat([a, b])


@type_checks.checked
def both(first: list[Float64[Tensor, "rows"]] | None, second: dict[str, Float64[Tensor, "rows"]]) -> int:
    return 0 if first is None else len(first) + len(second)


@type_checks.checked
@dataclasses.dataclass(frozen=True)
class Box:
    size: int
    later: "OnlyForTypeCheckers | None" = None

    @classmethod
    @type_checks.checked
    def named(cls, name: str) -> "Box":
        return cls(len(name))


def test_axes_of_one_name_have_one_size_in_arguments_and_result() -> None:
    three, two = torch.zeros(3).double(), torch.zeros(2).double()
    assert len(longer(three, three)) == 3
    with pytest.raises(BeartypeCallHintParamViolation):
        longer(three, two)
    with pytest.raises(BeartypeCallHintReturnViolation):
        longer(two, two)
    assert len(longer(three, three)) == 3  # sizes of an earlier call are forgotten


def test_axes_inside_other_annotations_count_too() -> None:
    three, two = torch.zeros(3).double(), torch.zeros(2).double()
    assert both([three], {"a": three}) == 2
    with pytest.raises(BeartypeCallHintParamViolation):
        both([three], {"a": two})


def test_constructors_and_methods_are_checked() -> None:
    assert Box.named("abc") == Box(3)
    with pytest.raises(BeartypeCallHintParamViolation):
        Box("3")
    with pytest.raises(BeartypeCallHintParamViolation):
        Box.named(3)


def test_the_library_is_checked() -> None:
    with pytest.raises(BeartypeCallHintParamViolation):
        qgt.score(torch.zeros(2, 3, dtype=torch.uint8), torch.zeros(2, 4, dtype=torch.uint8))
    with pytest.raises(BeartypeCallHintParamViolation):
        qgt.Bernoulli("0.1")


def test_the_checks_can_be_left_out(unchecked: None) -> None:
    assert Box("3").size == "3"


def test_functions_inside_functions_are_checked_each_time() -> None:
    def adding(number: int) -> Callable[[object], object]:
        @type_checks.checked
        def add(other: int) -> int:
            return number + other if number < 9 else "9"

        return add

    assert [adding(number)(1) for number in (1, 2, 3)] == [2, 3, 4]
    for number in (1, 2):
        with pytest.raises(BeartypeCallHintParamViolation):
            adding(number)("1")
    with pytest.raises(BeartypeCallHintReturnViolation):
        adding(9)(1)


def test_annotations_of_an_inner_function_may_depend_on_the_outer_one() -> None:
    def taking(kind: object) -> Callable[[object], object]:
        @type_checks.checked
        def take(one: kind) -> object:
            return one

        return take

    two, three = (Float64[Tensor, str(size)] | None for size in (2, 3))
    assert taking(int)(1) == 1 and taking(str)("1") == "1"
    assert len(taking(two)(torch.zeros(2).double())) == 2 and taking(three)(None) is None
    for kind, one in ((int, "1"), (str, 1), (two, torch.zeros(3).double()), (three, torch.zeros(2).double())):
        with pytest.raises(BeartypeCallHintParamViolation):
            taking(kind)(one)
