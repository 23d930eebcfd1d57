"""Bad files: an error of that sample, with its path and the reason, and little memory."""

import gzip
import itertools
import json
import os
import struct

import numpy as np
import pytest

import feedline
import scans
from feedline.errors import SampleError

SHAPE = (6, 7, 8)
GOOD = scans.smooth(SHAPE)


def nrrd(fields=(), sizes=SHAPE[::-1], data=None, **how):
    """Return a file's bytes."""
    data = GOOD.tobytes() if data is None else data
    return scans.nrrd_header("int16", sizes, fields, **how).encode() + b"\n" + data


def nifti(**how):
    header = scans.nifti_header("int16", SHAPE[::-1], how.pop("affine", np.eye(4)), **how)
    return header + GOOD.tobytes()


def patched(offset, *values, form="<h"):
    data = bytearray(nifti())
    for i, value in enumerate(values):
        struct.pack_into(form, data, offset + i * struct.calcsize(form), value)
    return bytes(data)


def direction(vectors):
    return nrrd(["space: RAS", f"space directions: {vectors}"])


SINGULAR = np.array([[1.0, 0, 0, 0], [1.0, 0, 0, 0], [0, 0, 1.0, 0]])
PACKED = gzip.compress(nifti())

# What is wrong: the file's name and bytes, and words of the reason.
HOSTILE = {
    "nothing": ("a.nii", b"", "begins as no NRRD, NIfTI"),
    "no volume": ("a.nii", b"hello" * 100, "NIfTI|header|size"),
    "no gzip": ("a.nii.gz", b"hello" * 100, "begins as no NRRD, NIfTI"),
    "cut off": ("a.nii", nifti()[:-10], "end|short|bytes"),
    "cut off in gzip": ("a.nii.gz", PACKED[: len(PACKED) // 2], "gzip|end|cut|trunc"),
    "corrupt gzip": (
        "a.nii.gz",
        PACKED[:200] + b"\xff" * 40 + PACKED[240:],
        "damaged",
    ),
    "sizes that lie": ("a.nii", patched(40, 3, 300, 300, 300), "end|short|bytes"),
    "sizes beyond memory": ("a.nii", patched(40, 3, 32767, 32767, 32767), "bytes|large|end"),
    "no voxels": ("a.nii", patched(40, 3, 8, 0, 6), "0|none|voxel"),
    "negative sizes": ("a.nii", patched(40, 3, 8, -7, 6), "-7|size|voxel"),
    "too many axes": ("a.nii", patched(40, 9), "axes|dimension|9|end"),
    "unknown type": ("a.nii", patched(70, 9999), "9999|type"),
    "complex numbers": ("a.nii", patched(70, 32), "complex|32|type"),
    "a singular affine": ("a.nii", nifti(affine=SINGULAR), "singular"),
    "an affine that is no number": (
        "a.nii",
        nifti(affine=np.full((3, 4), np.nan)),
        "singular|finite",
    ),
    "unknown encoding": ("a.nrrd", nrrd(encoding="lzma"), "lzma"),
    "hex encoding": ("a.nrrd", nrrd(encoding="hex"), "hex"),
    "sizes that are no numbers": ("a.nrrd", nrrd(sizes=("eight", 7, 6)), "eight|sizes"),
    "sizes that overflow": ("a.nrrd", nrrd(sizes=(2**40, 2**40, 2**40)), "bytes|large|voxel"),
    "a header without end": ("a.nrrd", b"NRRD0004\n# " + b"x" * (1 << 20), "header|end"),
    "no sizes": ("a.nrrd", b"NRRD0004\ntype: short\ndimension: 3\nencoding: raw\n\n", "sizes"),
    "zero spacing": ("a.nrrd", nrrd(["spacings: 1 0 1"]), "spacing|singular"),
    "spacing that is no number": (
        "a.nrrd",
        direction("(nan,0,0) (0,1,0) (0,0,1)"),
        "nan|singular|finite",
    ),
    "parallel directions": ("a.nrrd", direction("(1,0,0) (1,0,0) (0,0,1)"), "singular"),
    "too little text": ("a.nrrd", nrrd(encoding="text", data=b"1 2 3"), "6 bytes of voxels"),
    "text that is no number": (
        "a.nrrd",
        nrrd(encoding="text", data=b"x " * 336),
        "text|number|x",
    ),
    "data outside": ("a.nhdr", nrrd(["data file: ../../outside.bin"], data=b""), "outside"),
    "data elsewhere": ("a.nhdr", nrrd(["data file: /etc/passwd"], data=b""), "passwd|outside"),
    "data that is missing": ("a.nhdr", nrrd(["data file: gone.bin"], data=b""), "gone"),
    "no dimensions": ("a.mha", b"ObjectType = Image\nElementDataFile = LOCAL\n", "NDims|DimSize"),
    "metaimage outside": (
        "a.mhd",
        b"ObjectType = Image\nNDims = 3\nDimSize = 8 7 6\nElementType = MET_SHORT\n"
        b"ElementDataFile = ../../outside.raw\n",
        "outside",
    ),
}


@pytest.fixture
def place(tmp_path):
    """A folder whose neighbours must not be read."""
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    for name in ("outside.bin", "outside.raw"):
        (tmp_path / name).write_bytes(GOOD.tobytes())
    return folder


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_bad_file_is_refused_with_its_path_and_the_reason(place, kind):
    name, data, words = HOSTILE[kind]
    path = place / name
    path.write_bytes(data)
    with pytest.raises((ValueError, OSError)) as refused:
        feedline.read_volume(path)
    assert str(path) in str(refused.value)
    with pytest.raises((ValueError, OSError), match=f"(?i){words}"):
        feedline.read_volume(path)


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_bad_file_is_an_error_of_its_sample_alone(place, kind):
    name, data, _ = HOSTILE[kind]
    bad = place / f"bad{name[1:]}"
    bad.write_bytes(data)
    good = scans.write_nifti(place / "good.nii", GOOD)
    volumes = feedline.volumes([good, bad, good], cache=place / "kept").center_crop(4)
    loader = feedline.Loader(volumes, batch_size=3, on_error="skip", num_workers=1, epochs=1)
    ((image,),) = loader
    np.testing.assert_array_equal(image[:, 0], [GOOD[1:5, 1:5, 2:6]] * 2)
    (error,) = loader.errors
    assert isinstance(error, SampleError)
    assert str(bad) in str(error)
    with pytest.raises(SampleError, match="bad"):
        list(feedline.Loader(volumes))


def test_a_mask_of_another_shape_is_an_error_of_its_sample(tmp_path):
    image = scans.write_nifti(tmp_path / "a.nii", GOOD)
    mask = scans.write_nifti(tmp_path / "m.nii", scans.organs((6, 7, 9)))
    volumes = feedline.volumes([(image, mask), (image, image)], cache=tmp_path / "kept")
    with pytest.raises(SampleError, match=r"m\.nii.*9"):
        volumes.center_crop(4)[0]
    assert volumes.center_crop(4)[1][0].shape == (1, 4, 4, 4)


def test_a_mask_without_whole_numbers_is_an_error_of_its_sample(tmp_path):
    image = scans.write_nifti(tmp_path / "a.nii", GOOD)
    mask = scans.write_nifti(tmp_path / "m.nii", GOOD.astype(np.float32) + 0.5)
    volumes = feedline.volumes([(image, mask)], cache=tmp_path / "kept")
    with pytest.raises(SampleError, match="labels are whole numbers"):
        volumes.center_crop(4)[0]


def test_a_file_that_changed_since_it_was_opened_is_an_error(tmp_path):
    path = scans.write_nifti(tmp_path / "a.nii.gz", scans.smooth((20, 20, 20)))
    volumes = feedline.volumes([path], cache=tmp_path / "kept").center_crop(8)
    assert volumes[0][0].shape == (1, 8, 8, 8)
    other = scans.smooth((20, 20, 20), seed=9)
    scans.write_nifti(path, other)
    os.utime(path, ns=(1, 1))
    # Never a mixture of both.
    with pytest.raises(SampleError, match=r"a\.nii\.gz.*has changed since it was opened"):
        volumes[0]
    again = feedline.volumes([path], cache=tmp_path / "kept").center_crop(8)
    np.testing.assert_array_equal(again[0][0][0], other[6:14, 6:14, 6:14])


def test_what_is_kept_of_another_file_is_not_used(tmp_path):
    shape = (40, 64, 64)
    paths = [
        scans.write_nifti(tmp_path / f"{i}.nii.gz", scans.smooth(shape, seed=i)) for i in range(2)
    ]
    wanted = [scans.smooth(shape, seed=i)[16:24, 28:36, 28:36] for i in range(2)]
    kept = tmp_path / "kept"

    def crops():
        volumes = feedline.volumes(paths, cache=kept).center_crop(8)
        return [volumes[i][0][0] for i in range(2)]

    np.testing.assert_array_equal(crops(), wanted)
    files = sorted(path for path in kept.rglob("*") if path.is_file())
    assert files
    contents = [path.read_bytes() for path in files]
    # Each file's content under another's name, then cut off, then with a byte changed.
    for damage in (
        lambda i: contents[(i + 1) % len(contents)],
        lambda i: contents[i][: len(contents[i]) // 2],
        lambda i: contents[i][:-9] + bytes([contents[i][-9] ^ 1]) + contents[i][-8:],
        lambda i: b"",
    ):
        for i, path in enumerate(files):
            path.write_bytes(damage(i))
        np.testing.assert_array_equal(crops(), wanted)


PROGRAM = """
    import json, resource, sys
    import feedline

    path = sys.argv[1]
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        feedline.read_volume(path, max_bytes="1GiB")
    except (ValueError, OSError) as error:
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        print(json.dumps({"error": str(error), "grown": grown << 10}))
"""


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("bomb.nii.gz", gzip.compress(nifti() + bytes(1 << 28))),
        ("header.nrrd", b"NRRD0004\n" + b"# comment\n" * (1 << 24)),
        ("header.nhdr.gz", gzip.compress(b"NRRD0004\n" + b"# comment\n" * (1 << 22))),
        ("lies.nii", patched(40, 3, 32767, 32767, 2)),
    ],
)
def test_memory_is_bounded_whatever_a_file_says(tmp_path, program, name, data):
    path = tmp_path / name
    path.write_bytes(data)
    done = program(PROGRAM, path)
    if name.startswith("bomb"):
        # More data than the header says is nobody's business.
        return
    answer = json.loads(done.stdout)
    assert str(path) in answer["error"]
    assert answer["grown"] < 64 << 20, answer


def test_more_than_the_limit_is_refused(tmp_path):
    path = scans.write_nifti(tmp_path / "a.nii", GOOD)
    with pytest.raises(ValueError, match=r"raise max_bytes"):
        feedline.read_volume(path, max_bytes=100)
    volumes = feedline.volumes([path], cache=tmp_path / "kept", max_bytes=100)
    with pytest.raises(SampleError, match=r"a\.nii"):
        volumes.center_crop(4)[0]


@pytest.mark.parametrize("depth", [5e7, 1e9])
@pytest.mark.parametrize("chain", ["whole", "blurred", "cropped to its foreground", "mask"])
def test_a_spacing_that_is_nonsense_asks_for_no_memory(tmp_path, depth, chain):
    """Two voxels so far apart that the millimetres between them would take gigabytes."""
    path = tmp_path / "a.nii"
    affine = np.hstack([np.diag([1.0, 1.0, depth]), np.zeros((3, 1))])
    header = scans.nifti_header("int16", (1, 1, 2), affine)
    path.write_bytes(header + np.ones(2, np.int16).tobytes())
    files = [(path, path)] if chain == "mask" else [path]
    volumes = feedline.volumes(files, cache=tmp_path / "cache", max_bytes="1MiB").resample(1.0)
    if chain == "blurred":
        volumes = volumes.random_blur(p=1.0).center_crop(1)
    elif chain == "cropped to its foreground":
        volumes = volumes.crop_foreground(0)
    if chain == "blurred":
        assert volumes[0][0].shape == (1, 1, 1, 1)
        return
    with pytest.raises(SampleError, match=r"bytes would have to be in memory .* more than 1048576"):
        volumes[0]


def test_places_of_classes_are_found_anew_when_any_file_or_the_header_changed(tmp_path):
    """A mask in slices, of which not the first is corrected, and then its header."""
    times = itertools.count(1_000_000_000)

    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content)
        # What was written moments ago could be written again without another time.
        os.utime(path, (next(times),) * 2)

    def header(data, skipped=0):
        fields = {"ObjectType": "Image", "NDims": 3, "DimSize": "20 20 8", "HeaderSize": skipped}
        fields |= {"ElementType": "MET_UCHAR", "ElementDataFile": data}
        return "".join(f"{key} = {value}\n" for key, value in fields.items()).encode()

    def write_slice(index, *classes_at):
        """Write two planes, of which a header chooses one; each may have the class."""
        planes = np.zeros((2, 20, 20), np.uint8)
        for plane, at in zip(planes, classes_at, strict=True):
            plane[17:, :3] = index == at
        write(f"mask{index}.raw", planes.tobytes())

    def hits():
        pair = (tmp_path / "image.mhd", tmp_path / "mask.mhd")
        crops = feedline.volumes([pair], cache=tmp_path / "cache")
        crops = crops.random_crop(3, foreground=1.0)
        loaders = [feedline.Loader(crops, batch_size=1, seed=seed) for seed in range(10)]
        return [bool((mask == 1).any()) for loader in loaders for _, mask in loader]

    write("image.raw", bytes(400 * 8))
    write("image.mhd", header("image.raw"))
    write("mask.mhd", header("mask%d.raw 0 7 1"))
    for index in range(8):
        write_slice(index, 1, 4)
    assert all(hits())
    write_slice(1, 6, 4)
    write_slice(6, 6, 4)
    assert all(hits())
    write("mask.mhd", header("mask%d.raw 0 7 1", skipped=400))
    assert all(hits())
