"""Small files that claim to be large: bounded memory, whatever is in their metadata.

Each is decoded in a process whose address space may grow by 200 MiB, so that memory taken on a
file's word is an abort, which fails the test.
"""

import io
import json
import struct
import zlib

import numpy as np
import pytest
from odd_tiff import tiff
from PIL import Image

from pictures import picture

PIXELS = picture(6, 8)
# Unfolds to 1 GiB.
UNFOLDED = 1 << 30

PROGRAM = """
import json, resource, sys
import feedline

folder, settings = sys.argv[1], json.loads(sys.argv[2])
pipeline = feedline.images(folder, max_memory="64MiB", **settings).center_crop((6, 8)).layout("hwc")
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
limit = used + (200 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    sample = pipeline[0]
    fields = sample if isinstance(sample, tuple) else (sample,)
    print(json.dumps([field.tolist() for field in fields]))
except feedline.errors.SampleError as error:
    print(json.dumps(str(error)))
"""


@pytest.fixture(scope="module")
def folded():
    """A zlib stream of zeros, small and long: one block, again and again."""
    squeeze = zlib.compressobj(9)
    block = squeeze.compress(bytes(1 << 20)) + squeeze.flush(zlib.Z_FULL_FLUSH)
    # Adler-32 of zeros: the sum of the bytes is 1, the sum of the sums their number.
    end = struct.pack(">HH", UNFOLDED % 65521, 1)
    stream = block[:2] + block[2:] * (UNFOLDED >> 20) + b"\x03\0" + end
    assert zlib.decompressobj().decompress(stream, 1 << 21) == bytes(1 << 21)
    return stream


def saved(kind, pixels=PIXELS, **settings):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind, **settings)
    return file.getvalue()


def chunk(kind, data):
    sum_of_all = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", sum_of_all)


def with_chunk(kind, data, pixels=PIXELS, **settings):
    """Return a PNG file with one chunk more, behind its header."""
    plain = saved("PNG", pixels, **settings)
    return plain[:33] + chunk(kind, data) + plain[33:]


def webp(*chunks):
    body = b"WEBP" + b"".join(
        kind + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)
        for kind, data in chunks
    )
    return b"RIFF" + struct.pack("<I", len(body)) + body


def decoded(program, tmp_path, content, **settings):
    """Return the sample, or the error's text, of one file."""
    folder = tmp_path / "pictures"
    folder.mkdir()
    (folder / "one.png").write_bytes(content)
    if "masks" in settings:
        masks = tmp_path / "masks"
        masks.mkdir()
        (masks / "one.png").write_bytes(settings["masks"])
        settings["masks"] = str(masks)
    done = program(PROGRAM, str(folder), json.dumps(settings), timeout=None)
    return json.loads(done.stdout)


@pytest.mark.parametrize("kind", ["iCCP", "zTXt", "iTXt"])
def test_compressed_metadata_of_a_png_stays_compressed(program, tmp_path, folded, kind):
    before = {"iCCP": b"name\0\0", "zTXt": b"name\0\0", "iTXt": b"name\0\1\0\0\0"}[kind]
    content = with_chunk(kind.encode(), before + folded)
    assert len(content) < 8 << 20
    assert decoded(program, tmp_path, content, orientation=True) == [PIXELS.tolist()]


def test_compressed_metadata_of_a_mask_stays_compressed(program, tmp_path, folded):
    numbers = np.arange(48, dtype=np.uint8).reshape(6, 8) % 4
    mask = Image.fromarray(numbers)
    mask.putpalette(bytes(range(12)))
    file = io.BytesIO()
    mask.save(file, "PNG")
    plain = file.getvalue()
    content = plain[:33] + chunk(b"iCCP", b"name\0\0" + folded) + plain[33:]
    sample = decoded(program, tmp_path, saved("PNG"), masks=content)
    assert sample == [PIXELS.tolist(), numbers.tolist()]


# The tags of a TIFF file of one strip, 8 pixels by 6, of three bytes each.
TIFF = {
    256: (4, [8]),
    257: (4, [6]),
    258: (3, [8, 8, 8]),
    259: (3, [1]),
    262: (3, [2]),
    273: (4, ["data"]),
    277: (3, [3]),
    278: (4, [6]),
    279: (4, [144]),
}
TILES = {tag: values for tag, values in TIFF.items() if tag not in {273, 278, 279}} | {
    324: (4, ["data"]),
    325: (4, [144]),
}
DATA = PIXELS.tobytes()
MANY = 7_000_000  # values: below the decoder's own limit


def huge_jpeg():
    content = bytearray(saved("JPEG", subsampling=0))
    frame = content.index(b"\xff\xc0")
    content[frame + 5 : frame + 9] = struct.pack(">HH", 16000, 16000)
    return bytes(content)


def lossy(width, height):
    """Return the data of a lossy WebP picture that claims this size."""
    content = bytearray(saved("WEBP"))
    content[26:30] = struct.pack("<HH", width, height)
    return bytes(content[20:])


def frame(width, height, data):
    sizes = (struct.pack("<I", n)[:3] for n in (0, 0, width - 1, height - 1, 100))
    return b"".join(sizes) + b"\0" + b"VP8 " + struct.pack("<I", len(data)) + data


def canvas(flags):
    return b"VP8X", bytes([flags, 0, 0, 0, 7, 0, 0, 5, 0, 0])


def exif(entries, offset=8):
    return b"II*\0" + struct.pack("<IH", offset, entries)


LIES = {
    "tiff with millions of strips": tiff(TIFF | {273: (4, (MANY, b"12345678"))}, DATA),
    "tiff with millions of bit depths": tiff(TIFF | {258: (3, (MANY, b"12345678"))}, DATA),
    "tiff with millions of sample formats": tiff(TIFF | {339: (3, (MANY, b"12345678"))}, DATA),
    "tiff with tables of 250 MB": tiff(
        TIFF | {259: (3, [7]), 347: (7, (250_000_000, b"12345678"))}, DATA
    ),
    "tiff with tiles as wide as can be": tiff(TILES | {322: (4, [1 << 31]), 323: (4, [16])}, DATA),
    "tiff with a large jpeg inside": tiff(
        TIFF | {259: (3, [7]), 262: (3, [6]), 279: (4, [len(huge_jpeg())])}, huge_jpeg()
    ),
    "tiff with more entries than bytes": b"II*\0\x08\0\0\0\xff\xff",
    "big tiff with more entries than bytes": b"II+\0\x08\0\0\0" + struct.pack("<QQ", 16, 1 << 60),
    "webp with a large picture on a small canvas": webp(canvas(0), (b"VP8 ", lossy(16383, 16383))),
    "webp with a large picture in a small frame": webp(
        canvas(2), (b"ANIM", bytes(6)), (b"ANMF", frame(8, 6, lossy(16383, 16383)))
    ),
    "webp with a frame larger than its canvas": webp(
        canvas(2), (b"ANIM", bytes(6)), (b"ANMF", frame(16383, 16383, lossy(16383, 16383)))
    ),
    "webp with metadata of gigabytes": webp(
        canvas(8), (b"VP8 ", lossy(8, 6)), (b"EXIF", bytes(8))
    ).replace(b"EXIF\x08\0\0\0", b"EXIF\xf0\xff\xff\xff"),
    "gif with a frame larger than its screen": b"GIF89a\x08\0\x06\0\0\0\0,\0\0\0\0"
    + struct.pack("<HH", 65535, 65535)
    + b"\0\x02\x02\x4c\x01\0;",
    "bmp of a gigapixel": b"BM"
    + struct.pack("<IIIIiiHHIIiiII", 60, 0, 54, 40, 30000, 30000, 1, 24, 0, 0, 0, 0, 0, 0),
    "bmp with a palette of billions": b"BM"
    + struct.pack("<IIIIiiHHIIiiII", 60, 0, 54, 40, 8, 6, 1, 8, 0, 0, 0, 0, 0xFFFFFFFF, 0)
    + bytes(64),
    "jpeg of a gigapixel": huge_jpeg(),
}


@pytest.mark.parametrize("lie", LIES)
def test_what_a_file_claims_is_not_believed(program, tmp_path, lie):
    error = decoded(program, tmp_path, LIES[lie], orientation=True)
    assert isinstance(error, str), error
    assert "cannot decode" in error or "more than the limit" in error


def test_what_lies_behind_a_webp_is_not_part_of_it(program, tmp_path):
    content = saved("WEBP", lossless=True)
    plain = webp(canvas(0), (b"VP8L", content[20:]))
    sample = decoded(program, tmp_path, plain + b"EXIF\xf0\xff\xff\xff", orientation=True)
    assert sample == [PIXELS.tolist()]


# More than half of what a process may take: who copies it cannot decode the picture.
LARGE = bytes(120 << 20)


def large_jpeg(marker, begins):
    """Return a JPEG file, and one with segments of one kind, as long as they may be."""
    plain = saved("JPEG", subsampling=0)
    parts = len(LARGE) // 65000
    segments = (begins(number, parts).ljust(65000, b"\0") for number in range(parts))
    sized = b"".join(marker + struct.pack(">H", 65002) + segment for segment in segments)
    return plain, plain[:2] + sized + plain[2:]


def large_profile(number, parts):
    return b"ICC_PROFILE\0" + bytes([number % 255 + 1, min(parts, 255)])


def large_webp(kind, flags):
    plain = saved("WEBP", lossless=True)
    chunks = [(b"VP8L", plain[20:]), (kind, LARGE)]
    if kind == b"ICCP":
        chunks.reverse()
    return plain, webp(canvas(flags), *chunks)


def large_tiff(tag):
    return tiff(TIFF, DATA), tiff(TIFF | {tag: (7, (len(LARGE), LARGE))}, DATA)


def large_gif(label, begins=b""):
    """Return a GIF file, and one with an extension before its picture, in pieces of 255 bytes."""
    plain = saved("GIF", palette())
    # Behind the header and its table of colours.
    at = 13 + 3 * (2 << (plain[10] & 7))
    pieces = (b"\xff" + bytes(255)) * (len(LARGE) // 255)
    return plain, plain[:at] + b"!" + label + begins + pieces + b"\0" + plain[at:]


def many_frames():
    """Return a GIF file, and one whose picture is followed by a million frames."""
    plain = saved("GIF", palette())
    frame = b",\0\0\0\0\x08\0\x06\0\0\x02\x02\x4c\x01\0"
    return plain, plain[:-1] + frame * 1_000_000 + b";"


def palette():
    return np.arange(48, dtype=np.uint8).reshape(6, 8) * 5


def large_bmp(between):
    """Return a BMP file, and one of version 5 with a profile behind the pixels or before them."""
    plain = saved("BMP")
    rows = plain[54:]
    profile = 124 + (0 if between else len(rows))
    begin = 14 + 124 + (len(LARGE) if between else 0)
    head = struct.pack("<IiiHHIIiiII", 124, 8, 6, 1, 24, 0, len(rows), 0, 0, 0, 0)
    head += bytes(16) + b"DEBM" + bytes(48) + struct.pack("<IIII", 4, profile, len(LARGE), 0)
    parts = [LARGE, rows] if between else [rows, LARGE]
    size = begin + len(rows) + len(LARGE)
    return plain, b"BM" + struct.pack("<IHHI", size, 0, 0, begin) + head + b"".join(parts)


METADATA = {
    "jpeg with a colour profile in pieces": lambda: large_jpeg(b"\xff\xe2", large_profile),
    "jpeg with exif data": lambda: large_jpeg(b"\xff\xe1", lambda *_: b"Exif\0\0II*\0\x08\0\0\0"),
    "jpeg with comments": lambda: large_jpeg(b"\xff\xfe", lambda *_: b""),
    "webp with a colour profile": lambda: large_webp(b"ICCP", 0x20),
    "webp with exif data": lambda: large_webp(b"EXIF", 0x08),
    "webp with xmp data": lambda: large_webp(b"XMP ", 0x04),
    "tiff with a colour profile": lambda: large_tiff(34675),
    "tiff with xmp data": lambda: large_tiff(700),
    "gif with a comment": lambda: large_gif(b"\xfe"),
    "gif with an application's data": lambda: large_gif(b"\xff", b"\x0bNETSCAPE2.0"),
    "gif with many frames": many_frames,
    "bmp with a colour profile": lambda: large_bmp(between=False),
    "bmp with a colour profile before the pixels": lambda: large_bmp(between=True),
}


@pytest.mark.parametrize("kind", METADATA)
def test_large_metadata_is_passed_over(program, tmp_path, kind):
    plain, content = METADATA[kind]()
    with Image.open(io.BytesIO(plain)) as image:
        expected = np.asarray(image.convert("RGB")).astype(int)
        # Decoders of JPEG round in their own way.
        most = 2 if image.format == "JPEG" else 0
    sample = decoded(program, tmp_path, content, orientation=True)
    assert isinstance(sample, list), sample
    assert np.abs(np.array(sample[0]) - expected).max() <= most


def test_a_colour_profile_of_a_gif_counts_towards_the_limit(program, tmp_path):
    _, content = large_gif(b"\xff", b"\x0bICCRGBG1012")
    error = decoded(program, tmp_path, content, orientation=True)
    assert isinstance(error, str), error
    assert "cannot decode the GIF" in error
    assert "Memory limit reached" in error


EXIF = {
    "no entries": exif(0),
    "more entries than bytes": exif(65535),
    "a directory behind the end": exif(1, 0xFFFFFFF0),
    "a directory that is the header": exif(1, 0),
    "an orientation of billions of values": exif(1)
    + struct.pack("<HHII", 274, 3, 0xFFFFFFFF, 0xFFFFFFF0),
}


@pytest.mark.parametrize("lie", EXIF)
def test_broken_exif_data_means_upright(program, tmp_path, lie):
    content = with_chunk(b"eXIf", EXIF[lie])
    assert decoded(program, tmp_path, content, orientation=True) == [PIXELS.tolist()]
