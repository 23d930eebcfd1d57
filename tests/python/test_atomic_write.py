"""`feedline.atomic_write`: the whole file or the old one."""

import pytest

import feedline


def test_it_replaces_a_file_at_once_and_keeps_its_permissions(tmp_path):
    path = tmp_path / "last"
    path.write_bytes(b"old")
    path.chmod(0o640)
    with feedline.atomic_write(path) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o640
    assert [p.name for p in tmp_path.iterdir()] == ["last"]


def test_a_block_that_raises_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "last"
    path.write_bytes(b"old")

    def stopped():
        with feedline.atomic_write(path) as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["last"]


def test_it_writes_text_and_new_files(tmp_path):
    with feedline.atomic_write(str(tmp_path / "a.json"), "w") as file:
        file.write("ä")
    assert (tmp_path / "a.json").read_text(encoding="utf-8") == "ä"


def test_what_a_link_points_at_is_replaced(tmp_path):
    (tmp_path / "run-7").write_bytes(b"old")
    (tmp_path / "last").symlink_to("run-7")
    with feedline.atomic_write(tmp_path / "last") as file:
        file.write(b"new")
    assert (tmp_path / "last").is_symlink()
    assert (tmp_path / "run-7").read_bytes() == b"new"


def test_other_modes_and_missing_folders_are_refused(tmp_path):
    with (
        pytest.raises(ValueError, match="mode must be"),
        feedline.atomic_write(tmp_path / "a", "ab"),
    ):
        pass
    with pytest.raises(FileNotFoundError), feedline.atomic_write(tmp_path / "no" / "a"):
        pass
