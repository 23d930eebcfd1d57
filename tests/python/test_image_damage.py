"""Damaged pictures: an error of their sample, never pixels that are not those of the file."""

import io
import random
import re

import numpy as np
import pytest
from odd_tiff import directory_first
from PIL import Image

import feedline
from pictures import picture


def encoded(image, kind, **settings):
    file = io.BytesIO()
    image.save(file, kind, **settings)
    return file.getvalue()


def pillow(content):
    """Return what Pillow makes of a file's content, or None if it refuses."""
    try:
        with Image.open(io.BytesIO(content)) as file:
            return np.asarray(file.convert("RGB"))
    except (OSError, SyntaxError, ValueError, TypeError, IndexError):
        return None


def ours(folder, contents, size, chain=lambda pictures: pictures, **settings):
    """Return what is delivered of each file's content, or None where it is an error."""
    folder.mkdir()
    for i, content in enumerate(contents):
        (folder / f"{i:06}.png").write_bytes(content)
    pictures = chain(feedline.images(folder, **settings).center_crop(size)).layout("hwc")
    loader = feedline.Loader(pictures, batch_size=16, num_workers=0, on_error="skip", epochs=1)
    # A batch is what is left of its samples.
    delivered = [pixels for batch in loader for pixels in np.array(batch[0])]
    refused = {error.index for error in loader.errors}
    assert len(delivered) + len(refused) == len(contents)
    rest = iter(delivered)
    return [None if i in refused else next(rest) for i in range(len(contents))]


def half_flat(height, width, seed):
    """Return a picture whose lower half takes next to no bytes."""
    pixels = picture(height, width, seed)
    pixels[height // 2 :] = pixels[height // 2, :1]
    return Image.fromarray(pixels)


def run_length_bitmap(image):
    """Return a BMP file in runs of one number, which Pillow reads but does not write."""
    pixels = np.asarray(image.convert("P", palette=Image.Palette.ADAPTIVE, colors=256))
    palette = image.convert("P", palette=Image.Palette.ADAPTIVE, colors=256).getpalette()
    height, width = pixels.shape
    rows = b"".join(
        b"".join(bytes([1, number]) for number in row) + b"\0\0" for row in pixels[::-1]
    )
    colours = b"".join(
        bytes([*palette[3 * i : 3 * i + 3][::-1], 0]) if 3 * i < len(palette) else b"\0\0\0\0"
        for i in range(256)
    )
    start = 14 + 40 + 1024
    data = rows + b"\0\1"
    head = [40, width, height, 1 | 8 << 16, 1, len(data), 0, 0, 256, 0]
    words = b"".join(word.to_bytes(4, "little") for word in head)
    size = (start + len(data)).to_bytes(4, "little")
    return b"BM" + size + b"\0\0\0\0" + start.to_bytes(4, "little") + words + colours + data


def strip(image, compression, missing=0):
    content = encoded(image, "TIFF", compression=compression)
    with Image.open(io.BytesIO(content)) as file:
        return directory_first(file, content, missing)


def files():
    image = Image.fromarray(picture(21, 18))
    gray, few = image.convert("L"), image.quantize(32)
    clear = image.copy()
    clear.putalpha(gray)
    frames = [Image.fromarray(picture(21, 18, seed=seed)) for seed in range(3)]
    film = {"save_all": True, "append_images": frames[1:]}
    exif = Image.Exif()
    exif[274] = 1
    lossy = {
        f"webp-lossy-{seed}": encoded(half_flat(83, 18, seed), "WEBP", quality=10 * seed + 5)
        for seed in range(9)
    }
    return lossy | {
        "webp-lossless": encoded(image, "WEBP", lossless=True),
        "webp-alpha": encoded(clear, "WEBP", quality=60),
        "webp-alpha-lossless": encoded(clear, "WEBP", lossless=True),
        "webp-animated": encoded(frames[0], "WEBP", quality=40, **film),
        "webp-exif": encoded(image, "WEBP", exif=exif, icc_profile=b"profile" * 9),
        "png": encoded(image, "PNG"),
        "png-1": encoded(image.convert("1"), "PNG"),
        "png-palette": encoded(few, "PNG"),
        "png-alpha": encoded(clear, "PNG"),
        "gif": encoded(few, "GIF"),
        "gif-interlaced": encoded(few, "GIF", interlace=1),
        "gif-animated": encoded(frames[0], "GIF", **film),
        "bmp": encoded(image, "BMP"),
        "bmp-palette": encoded(few, "BMP"),
        "bmp-runs": run_length_bitmap(image),
        "tiff-plain": strip(image, None),
        "tiff-lzw": strip(image, "tiff_lzw"),
        "tiff-deflate": strip(image, "tiff_adobe_deflate"),
        "tiff-packbits": strip(image, "packbits"),
        "tiff-jpeg": strip(gray, "jpeg"),
        "tiff-fax": strip(image.convert("1"), "group4"),
        "jpeg": encoded(image, "JPEG"),
        "jpeg-progressive": encoded(image, "JPEG", progressive=True),
        "jpeg-restarts": encoded(image, "JPEG", restart_marker_blocks=1),
        "jpeg-flat": encoded(half_flat(64, 64, 1), "JPEG", quality=30),
    }


FILES = files()


@pytest.mark.parametrize("name", FILES)
def test_a_file_cut_anywhere_is_refused_or_whole(tmp_path, name):
    whole = FILES[name]
    expected = pillow(whole)
    # All of the end, where little is missing, and steps before.
    lengths = [*range(9, len(whole) - 80, 17), *range(max(9, len(whole) - 80), len(whole))]
    cut = [whole[:length] for length in lengths]
    uncut, *delivered = ours(tmp_path / "cut", [whole, *cut], expected.shape[:2])
    # Pillow has another JPEG decoder inside TIFF.
    assert np.abs(uncut.astype(int) - expected).max() <= (1 if name == "tiff-jpeg" else 0)
    for length, content, pixels in zip(lengths, cut, delivered, strict=True):
        missing = f"{len(whole) - length} of {len(whole)} bytes missing"
        if pixels is not None:
            assert np.array_equal(pixels, uncut), missing
        if name.startswith("webp"):
            assert (pixels is None) == (pillow(content) is None), missing


@pytest.mark.parametrize(
    "compression", [None, "tiff_lzw", "tiff_adobe_deflate", "packbits", "jpeg"]
)
def test_a_strip_that_is_too_short_is_refused_however_it_is_counted(tmp_path, compression):
    gray = Image.fromarray(picture(60, 50)).convert("L")
    short = [strip(gray, compression, missing) for missing in range(8, 200, 9)]
    assert ours(tmp_path / "short", short, (60, 50)) == [None] * len(short)


def damaged(content, seed, count):
    """Return copies of a JPEG file with some bytes of its scan changed.

    In every other one they are bits that are set, which no Huffman code is made of alone.
    """
    draw = random.Random(seed)
    scan = content.rindex(b"\xff\xda") + 14
    for number in range(count):
        copy = bytearray(content)
        for _ in range(draw.randint(1, 3)):
            at = draw.randrange(scan, len(content) - 8)
            if number % 2:
                copy[at] = draw.randrange(256)
            else:
                copy[at : at + 6] = b"\xff\0\xff\0\xff\0"
        yield bytes(copy)


def turned(content, orientation):
    """Return a JPEG file whose EXIF data tells an orientation."""
    exif = Image.Exif()
    exif[274] = orientation
    block = exif.tobytes()
    segment = b"\xff\xe1" + (len(block) + 2).to_bytes(2, "big") + block
    return content[:2] + segment + content[2:]


@pytest.mark.parametrize(
    "settings", [{}, {"progressive": True}, {"restart_marker_blocks": 2}], ids=str
)
def test_a_damaged_jpeg_is_refused_on_every_path_or_on_none(tmp_path, settings):
    height, width = 80, 96
    # Large enough for libjpeg's quick decoder, which looks at less than its careful one.
    good = encoded(Image.fromarray(picture(height, width)), "JPEG", quality=95, **settings)
    contents = [turned(content, 6) for content in damaged(good, seed=4, count=100)]
    stored, upright = (height, width), (width, height)
    whole = ours(tmp_path / "whole", contents, stored)
    refused = [pixels is None for pixels in whole]
    assert 0 < sum(refused) < len(refused), "some of each kind"

    lying = ours(tmp_path / "lying", contents, upright, orientation=True)
    assert [pixels is None for pixels in lying] == refused
    for one, other in zip(whole, lying, strict=True):
        assert one is None or np.array_equal(np.rot90(one, -1), other)

    ways = {
        "gray": {"color": "gray"},
        "cropped": {"chain": lambda p: p.center_crop((height, 2))},
        "scaled": {"chain": lambda p: p.resize((2, 2))},
        "turned and scaled": {"chain": lambda p: p.resize((2, 2)), "orientation": True},
        "exact": {"chain": lambda p: p.resize((9, 9)), "exact": True},
        "changed": {"chain": lambda p: p.gaussian_blur(3)},
    }
    for way, settings in ways.items():
        size = upright if settings.get("orientation") else stored
        got = ours(tmp_path / way, contents, size, **settings)
        assert [pixels is None for pixels in got] == refused, way

    # A mask and a second view are decoded apart.
    masks = tmp_path / "masks"
    masks.mkdir()
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    blank = encoded(Image.new("RGB", (width, height)), "PNG")
    for i, content in enumerate(contents):
        (masks / f"{i:06}.png").write_bytes(content)
        (pictures / f"{i:06}.png").write_bytes(blank)
    both = feedline.images(pictures, masks=masks).center_crop(stored)
    loader = feedline.Loader(both, num_workers=0, on_error="skip", epochs=1)
    for _ in loader:
        pass
    assert [i in {e.index for e in loader.errors} for i in range(len(contents))] == refused


def test_errors_of_cut_files_say_that_they_are_cut(tmp_path):
    (tmp_path / "cut.webp").write_bytes(FILES["webp-lossy-1"][:-4])
    with pytest.raises(feedline.errors.SampleError, match=re.escape("cut.webp")) as error:
        feedline.images(tmp_path).center_crop(8)[0]
    assert "the file ends before the picture does" in str(error.value)
