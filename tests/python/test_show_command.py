"""`feedline show`, as the package installs it."""

import base64
import io
import json
import re
import subprocess
import sys
import tarfile

import nibabel
import numpy as np
import pytest
from PIL import Image

import feedline
from patience import PATIENCE


def command(*arguments, **settings):
    return subprocess.run(
        [sys.executable, "-m", "feedline", "-q", "show", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        **settings,
    )


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def volumes(tmp_path):
    """Three volumes with a bright box that is marked in the mask."""
    affine = np.diag([-1.0, -1.0, 2.0, 1.0])
    folder = tmp_path / "data"
    for kind in ("images", "masks"):
        (folder / kind).mkdir(parents=True)
    for i in range(3):
        mask = np.zeros((32, 32, 16), np.uint8)
        mask[4 : 12 + i, 8:20, 4:10] = 1
        image = np.where(mask, 300, -1000).astype(np.int16)
        nibabel.save(nibabel.Nifti1Image(image, affine), folder / f"images/case_{i}.nii.gz")
        nibabel.save(nibabel.Nifti1Image(mask, affine), folder / f"masks/case_{i}.nii.gz")
    return folder


def pixels(path):
    with Image.open(path) as picture:
        return np.asarray(picture)


def test_volumes_are_shown_in_three_planes_as_the_pipeline_shows_them(volumes, tmp_path):
    done = command(volumes, "--size", 64, "--columns", 1)
    assert (done.returncode, done.stdout) == (0, "3 of 3 volumes in feedline-show.png\n")
    shown = pixels(tmp_path / "feedline-show.png")
    pipeline = feedline.volumes(volumes / "images", volumes / "masks")
    assert np.array_equal(shown, pipeline.show([0, 1, 2], size=64, columns=1).pixels)
    # Three squares side by side.
    assert shown.shape[1] == 3 * 64 + 4 * 6
    # Where the mask is, there is a colour.
    coloured = shown.max(-1).astype(int) - shown.min(-1) > 30
    assert coloured.any()


def test_masks_are_found_where_they_are_said_to_be(volumes, tmp_path):
    alone, marked = tmp_path / "alone.png", tmp_path / "marked.png"
    assert command(volumes / "images", "--out", alone).returncode == 0
    done = command(volumes / "images", "--mask", volumes / "masks", "--out", marked)
    assert done.returncode == 0, done.stderr
    grey = pixels(alone)
    assert (grey.max(-1) == grey.min(-1)).all()
    assert not (pixels(marked).max(-1) == pixels(marked).min(-1)).all()


def test_json_tells_what_was_shown(volumes, tmp_path):
    out = tmp_path / "some.png"
    done = command(volumes, "--which", "2,0", "--json", "--out", out)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["kind"], told["samples"], told["out"]) == ("volumes", 3, str(out))
    assert [it["index"] for it in told["shown"]] == [2, 0]
    first = told["shown"][0]
    assert (first["name"], first["shape"], first["spacing"]) == (
        "case_2",
        [16, 32, 32],
        [2.0, 1.0, 1.0],
    )
    assert first["mask"] is True
    assert pixels(out).shape == (told["height"], told["width"], 3)


def test_a_page_has_a_picture_of_each(volumes, tmp_path):
    done = command(volumes, "--count", 2, "--out", "look.html")
    assert (done.returncode, done.stdout) == (0, "2 of 3 volumes in look.html\n")
    page = (tmp_path / "look.html").read_text()
    pictures = re.findall(r'src="data:image/png;base64,([^"]+)"', page)
    assert len(pictures) == 2
    for picture in pictures:
        with Image.open(io.BytesIO(base64.b64decode(picture))) as opened:
            assert opened.size[0] > 3 * 192
    assert "case_0: 16 x 32 x 32 voxels (z, y, x), 2 x 1 x 1 mm, LPS" in page
    # It needs nothing else.
    assert "http" not in page


def test_a_window_says_what_is_black_and_white(volumes, tmp_path):
    one = volumes / "images/case_0.nii.gz"
    done = command(one, "--window=-1000,2000", "--out", "a.png")
    assert done.returncode == 0, done.stderr
    shown = pixels(tmp_path / "a.png")
    # 300 is 1300 of 3000 above the lower end.
    assert (np.abs(shown.astype(int) - round(255 * 1300 / 3000)).max(-1) <= 1).any()


def shard(path, files, mode="w"):
    with tarfile.open(path, mode) as archive:
        for name, data in files:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


def picture(colour):
    content = io.BytesIO()
    Image.new("RGB", (32, 32), colour).save(content, "png")
    return content.getvalue()


RED, BLUE = (200, 10, 20), (10, 20, 200)


@pytest.mark.parametrize("source", ["photos", "a.tar", "*.tar", "b.tar.gz"])
def test_pictures_and_shards_are_shown(source, tmp_path):
    (tmp_path / "photos/red").mkdir(parents=True)
    (tmp_path / "photos/red/1.png").write_bytes(picture(RED))
    shard(tmp_path / "a.tar", [("0.png", picture(RED)), ("0.cls", b"1")])
    shard(tmp_path / "b.tar.gz", [("0.png", picture(RED)), ("0.cls", b"1")], "w:gz")
    done = command(source, "--size", 32, "--out", "out.png")
    assert done.returncode == 0, done.stderr
    shown = pixels(tmp_path / "out.png")
    assert (shown[6:38, 6:38] == RED).all()


def test_a_folder_of_shards_or_arrays_is_shown(tmp_path):
    (tmp_path / "shards").mkdir()
    for name, colour in (("a", RED), ("b", BLUE)):
        shard(tmp_path / f"shards/{name}.tar", [(f"{name}.png", picture(colour))])
    done = command("shards")
    assert done.stdout == "2 of 2 samples of shards in feedline-show.png\n", done.stderr
    (tmp_path / "arrays").mkdir()
    np.save(tmp_path / "arrays/0.npy", np.zeros((3, 16, 16), np.float32))
    done = command("arrays")
    assert done.stdout == "1 of 1 arrays in feedline-show.png\n", done.stderr


WRONG = [
    (["nowhere"], "there is no nowhere"),
    (["notes.txt"], "notes.txt is no file that can be shown"),
    (["data", "--out", "a.jpg"], "a picture ends in .png, a page in .html"),
    (["data", "--which", "3"], "there is no sample 3: data has 3, from 0"),
    (["data", "--window", "5,1"], "the lower one first"),
    (["data", "--count", "0"], "--count"),
    (["photos/red.png"], "pass the folder of pictures, photos"),
    (["photos", "--window", "0,1"], "a window is for volumes"),
    (["data", "--out", "no/such/folder/a.png"], "no/such/folder/a.png"),
    (["data", "--python", "/no/such/python"], "cannot start `/no/such/python`"),
]


@pytest.mark.parametrize(("arguments", "said"), WRONG)
def test_what_cannot_be_shown_is_said(arguments, said, volumes, tmp_path):
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos/red.png").write_bytes(picture(RED))
    done = command(*arguments)
    assert done.returncode == 2, done.stdout
    assert done.stdout == ""
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert "panicked" not in done.stderr


def test_a_damaged_volume_is_named(volumes):
    path = volumes / "images/case_1.nii.gz"
    path.write_bytes(path.read_bytes()[:120])
    done = command(volumes)
    assert done.returncode == 2
    assert "case_1" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_interpreter_without_the_package_is_said(volumes, tmp_path):
    (tmp_path / "python").write_text(f'#!/bin/sh\nexec {sys.executable} -S -E -s "$@"\n')
    (tmp_path / "python").chmod(0o755)
    done = command(volumes, "--python", tmp_path / "python")
    assert done.returncode == 2, done.stderr
    assert "has no feedline package" in done.stderr
