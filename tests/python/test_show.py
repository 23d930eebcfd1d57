"""Pictures of samples to look at."""

import io
import tarfile

import numpy as np
import pytest
from PIL import Image, ImageDraw

import feedline
from feedline import _letters
from pictures import picture

GAP = 6


def tile(gallery, number=0, size=64, columns=100):
    """Return the place of a picture."""
    row, column = divmod(number, columns)
    top = GAP + row * (size + _letters.HEIGHT + 3 + GAP)
    left = GAP + column * (size + GAP)
    return gallery.pixels[top : top + size, left : left + size]


def folder(path, colours, size=(64, 64)):
    for label, colour in colours.items():
        (path / label).mkdir(parents=True)
        Image.new("RGB", size, colour).save(path / label / "1.png")
    return path


RED, BLUE = (200, 10, 20), (10, 20, 200)


@pytest.mark.parametrize(
    "operations",
    [
        lambda images: images,
        lambda images: images.layout("hwc"),
        lambda images: images.normalize(),
        lambda images: images.normalize(mean=[0.5] * 3, std=[0.25] * 3).layout("hwc"),
        lambda images: images.to_dtype("float16", scale=True),
        lambda images: images.to_dtype("float32", scale=False),
    ],
)
def test_pictures_are_shown_in_their_colours_whatever_was_done_to_the_numbers(tmp_path, operations):
    images = feedline.images(folder(tmp_path / "a", {"blue": BLUE, "red": RED}))
    gallery = operations(images).show(size=64, columns=2)
    for number, colour in enumerate([BLUE, RED]):
        shown = tile(gallery, number, columns=2).reshape(-1, 3).astype(int)
        assert np.abs(shown - colour).max() <= 1


def test_files_are_what_pillow_reads(tmp_path):
    rng = np.random.default_rng(0)
    gallery = feedline.arrays(rng.integers(0, 255, (4, 16, 16, 3), np.uint8)).show()
    gallery.save(tmp_path / "samples.png")
    with Image.open(tmp_path / "samples.png") as file:
        assert np.array_equal(np.asarray(file), gallery.pixels)
    with Image.open(io.BytesIO(gallery._repr_png_())) as file:
        assert file.size == gallery.pixels.shape[1::-1]


def test_pictures_of_different_sizes_are_fitted(tmp_path):
    for i, (width, height) in enumerate([(400, 100), (10, 10), (30, 64), (3, 999)]):
        Image.new("RGB", (width, height), RED).save(tmp_path / f"{i}.png")
    gallery = feedline.images(tmp_path).show(size=64, columns=4)
    shown = [(tile(gallery, i) == RED).all(-1) for i in range(4)]
    assert [mask.any(1).sum() for mask in shown] == [16, 60, 64, 64]
    assert [mask.any(0).sum() for mask in shown] == [64, 60, 30, 1]


def test_large_pictures_become_means_of_areas_as_pillow_has_them(tmp_path):
    large = Image.fromarray(picture(192, 256))
    large.save(tmp_path / "1.png")
    shown = tile(feedline.images(tmp_path).show(size=64))[8:56]
    assert np.abs(shown - np.asarray(large.reduce(4)).astype(int)).max() <= 1


@pytest.mark.parametrize(
    "pictures",
    [
        np.full((6, 28, 28), 200, np.uint8),
        np.full((6, 1, 28, 28), 200 / 255, np.float32),
        np.full((6, 28, 28, 1), 200, np.int64),
        np.full((6, 3, 28, 28), 200 / 255),
    ],
)
def test_arrays_of_pictures_are_shown(pictures):
    gallery = feedline.arrays(image=pictures, label=np.arange(6)).show(6, size=56, columns=3)
    assert abs(tile(gallery, 4, 56, 3).astype(int) - 200).max() <= 1


def test_numbers_of_no_known_range_are_stretched():
    ramp = np.linspace(-7, 13, 64 * 64).reshape(1, 64, 64)
    shown = tile(feedline.arrays(ramp).show(size=64))
    assert (shown[0, 0].tolist(), shown[-1, -1].tolist()) == ([0] * 3, [255] * 3)
    odd = np.array([[[np.nan, np.inf], [-np.inf, 0.5]]]).repeat(32, 1).repeat(32, 2)
    feedline.arrays(odd).show(size=64)
    assert (tile(feedline.arrays(np.full((1, 64, 64), -3.0)).show(size=64)) == 0).all()


def test_samples_are_spread_or_those_that_are_asked_for():
    levels = np.arange(100, dtype=np.uint8).repeat(64 * 64).reshape(100, 64, 64)
    pipeline = feedline.arrays(levels)
    spread = pipeline.show(4, size=64, columns=4)
    assert [tile(spread, i)[0, 0, 0] for i in range(4)] == [0, 25, 50, 75]
    asked = pipeline.show([7, -1, 7], size=64, columns=4)
    assert [tile(asked, i)[0, 0, 0] for i in range(3)] == [7, 99, 7]


def caption(gallery, columns, size=64):
    """Return the dots under the pictures."""
    return gallery.pixels[GAP + size + 3 : GAP + size + 3 + _letters.HEIGHT, :, 0] < 128


def test_captions_are_class_names_or_labels_or_numbers(tmp_path):
    images = feedline.images(folder(tmp_path / "a", {"cat": BLUE, "dög": RED}))
    dots = caption(images.show(size=64, columns=2), 2)
    for number, name in enumerate(["cat", "dog"]):
        left = GAP + number * (64 + GAP) + (64 - 18) // 2
        assert np.array_equal(dots[:, left : left + 18], _letters.drawn(name))
    digits = feedline.arrays(np.zeros((3, 64, 64)), np.array([7, 8, 9])).show(1, size=64)
    left = GAP + (64 - 6) // 2
    assert np.array_equal(caption(digits, 1)[:, left : left + 6], _letters.drawn("7"))


def test_masks_boxes_and_points_are_drawn_over_their_pictures(tmp_path):
    (tmp_path / "x").mkdir()
    (tmp_path / "masks").mkdir()
    Image.new("RGB", (64, 64), (0, 0, 0)).save(tmp_path / "x" / "1.png")
    mask = Image.new("L", (64, 64))
    ImageDraw.Draw(mask).rectangle((0, 0, 31, 9), fill=1)
    mask.save(tmp_path / "masks" / "1.png")
    images = feedline.images(
        tmp_path / "x",
        masks=tmp_path / "masks",
        boxes=[np.array([[20, 30, 50, 60]])],
        keypoints=[np.array([[5, 50], [90, 90]])],
    )
    shown = tile(images.views(1).show(size=64))
    drawn = shown.any(-1)
    expected = np.zeros((64, 64), bool)
    expected[:10, :32] = True
    expected[30:60, 20:50] = True
    expected[31:59, 21:49] = False
    expected[49:52, 4:7] = True
    assert np.array_equal(drawn, expected)


def test_views_stand_side_by_side(tmp_path):
    images = feedline.images(folder(tmp_path / "a", {"red": RED}))
    gallery = images.views([lambda v: v.center_crop(64), lambda v: v.center_crop(32)]).show(size=64)
    assert gallery.pixels.shape[1] == 2 * 64 + 3 * GAP


def test_shards_are_decoded_for_it_and_mixed_labels_told(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    content = io.BytesIO()
    Image.new("RGB", (64, 64), RED).save(content, "png")
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for name, data in [("0.png", content.getvalue()), ("0.cls", b"3")]:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    tar = feedline.tar(tmp_path / "a.tar")
    assert (tile(tar.show(size=64)) == RED).all()
    images = feedline.images(folder(tmp_path / "a", {"cat": BLUE, "dog": RED})).center_crop(64)
    assert images.normalize().mixup(1.0).show(size=64).samples == 2


def test_random_operations_repeat_by_the_seed(tmp_path):
    noise = np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)
    Image.fromarray(noise).save(tmp_path / "1.png")
    crops = feedline.images(tmp_path).random_crop(32)
    first, second = crops.show(seed=5), crops.show(seed=5)
    assert np.array_equal(first.pixels, second.pixels)
    assert not np.array_equal(first.pixels, crops.show(seed=6).pixels)


def test_where_there_is_nothing_to_draw_the_error_says_so():
    with pytest.raises(
        ValueError, match=r"nothing to draw: none of the fields \['0'\] is a picture"
    ):
        feedline.arrays(np.arange(5)).show()
    with pytest.raises(ValueError, match="nothing to draw: no samples"):
        feedline.arrays(np.zeros((5, 64, 64))).take(0).show()
    with pytest.raises(IndexError, match="index 9 is out of range"):
        feedline.arrays(np.zeros((5, 64, 64))).show([9])
    with pytest.raises(ValueError, match="size must be at least 16"):
        feedline.arrays(np.zeros((5, 64, 64))).show(size=1)
