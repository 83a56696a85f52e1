"""Files that appear whole or not at all."""

import os
import stat

import pytest

from qgt.files.atomic import replacing, write_text


def test_replacing_takes_the_place_of_the_file_on_success_only(tmp_path):
    target = tmp_path / "new" / "result.csv"
    with replacing(target) as temporary:
        temporary.write_text("first")
        assert not target.exists()
    assert target.read_text() == "first"
    with pytest.raises(RuntimeError, match="half way"), replacing(target) as temporary:
        temporary.write_text("half")
        raise RuntimeError("half way")
    assert target.read_text() == "first"
    assert list(target.parent.iterdir()) == [target]  # no temporary file stays


def test_a_written_file_has_ordinary_permissions(tmp_path):
    path = tmp_path / "sheet.csv"
    mask = os.umask(0o027)
    try:
        write_text(path, "a")
        assert os.umask(0o027) == 0o027  # and the mask is as it was
    finally:
        os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_link_stays_and_what_it_points_to_is_replaced(tmp_path):
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "new"
