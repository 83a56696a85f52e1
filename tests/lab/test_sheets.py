"""Sheets of statuses: matched by name, whatever stands in the top left cell."""

import pytest

from qgt.lab.sheets import read_pair


def test_calls_under_any_corner_are_matched_to_the_truth(tmp_path):
    (tmp_path / "truth.csv").write_text("instance,1,2\na,0,1\nb,1,1\n")
    (tmp_path / "calls.csv").write_text("who,2,1\nb,0,1\na,1,0\n")
    true, called = read_pair(tmp_path / "truth.csv", tmp_path / "calls.csv")
    assert true.tolist() == [[0, 1], [1, 1]]
    assert called.tolist() == [[0, 1], [1, 0]]


def test_statuses_are_never_missing(tmp_path):
    path = tmp_path / "calls.csv"
    path.write_text("instance,a,b\none,1,\n")
    with pytest.raises(ValueError, match="row 2, column 3"):
        read_pair(path, path)
