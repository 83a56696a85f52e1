"""Numbers that people type: every way to write one is read alike, and what may mean two things is asked back."""

import pytest

from qgt.files.numbers import read_amount, read_number, read_range, read_share, read_shares


@pytest.mark.parametrize("text", ["0.02", "0,02", "2%", "2 %", ".02", ",02", " 2,0 % ", "2e-2"])
def test_one_share_in_every_way_to_write_it(text):
    assert read_share("rate", text) == pytest.approx(0.02)


@pytest.mark.parametrize(
    "text",
    ["0.95,0.99", "0,95;0,99", "0,95 0,99", "0,95,0,99", "95%,99%", "95 % 99 %", "95 %; 99 %", "95/99 %", "95,99 %"],
)
def test_two_shares_in_every_way_to_write_them(text):
    assert read_shares("errors", text, wanted={2}) == pytest.approx([0.95, 0.99])


@pytest.mark.parametrize(
    ("text", "ends", "percent"),
    [
        ("2", (2, 2), False),
        ("1-3", (1, 3), False),
        ("1\u20133 %", (1, 3), True),
        ("1,5-3", (1.5, 3), False),
        ("1,5 - 3,5 %", (1.5, 3.5), True),
        ("1 to 4", (1, 4), False),
        ("0,5 % bis 2 %", (0.5, 2), True),
        ("1.5,3", (1.5, 3), False),
        ("0,02", (0.02, 0.02), False),
    ],
)
def test_ranges(text, ends, percent):
    found = read_range("positives", text)
    assert tuple(number.value for number in found) == pytest.approx(ends)
    assert {number.percent for number in found} == {percent}


@pytest.mark.parametrize(
    ("text", "ways"),
    [
        ("1,5", ["1.5 for one number", "1-5 for 1 to 5"]),
        ("1,5 %", ["1.5% for one number", "1%-5% for 1% to 5%"]),
        ("1,5,3", ["1.5-3 for", "1-5.3 for"]),
        ("1,000", ["1 for", "1000 for"]),
    ],
)
def test_what_may_mean_two_things_is_asked_back_with_both(text, ways):
    with pytest.raises(ValueError, match="may mean two things") as error:
        read_range("positives", text)
    for way in ways:
        assert way in str(error.value)
        written = way.split(" for")[0]  # what it says to write can be written
        assert read_range("positives", written)


@pytest.mark.parametrize(
    ("read", "text", "said"),
    [
        (read_share, "2", "write 2% or 0.02 for 2 per cent"),
        (read_share, "-0.1", "write 0.02 or 2%"),
        (read_share, "101 %", "write 0.02 or 2%"),
        (read_share, "", "write 0.02 or 2%"),
        (read_amount, "5 %", "without the sign of per cent"),
        (read_amount, "nan", "write a number"),
        (read_amount, "1e999", "write a number"),
        (read_number, "1 2", "write a number"),
        (read_range, "4-1", "give the lower end first, 1-4"),
        (read_range, "1%-3", "give a number or a range"),
        (read_range, "few", "give a number or a range"),
    ],
)
def test_what_is_no_number_is_refused_with_what_to_write(read, text, said):
    with pytest.raises(ValueError, match="is not valid") as error:
        read("value", text)
    assert said in str(error.value)
    assert repr(text) in str(error.value)


def test_long_texts_are_read_at_once():
    for text in ("1," * 90 + "1", "1" * 200, "%" * 200, "1 " * 99):
        with pytest.raises(ValueError, match="is not valid"):
            read_range("positives", text if text != "1" * 200 else text + "-")
