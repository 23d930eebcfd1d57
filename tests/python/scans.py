"""Volumes to test with, written byte by byte, and what others make of them."""

import bz2
import gzip
import struct
import warnings
import zlib
from pathlib import Path

import numpy as np

import feedline

SHARED = Path(__file__).parents[3] / "shared" / "data" / "nrrd"

NRRD_TYPES = {
    "int8": "signed char",
    "uint8": "uchar",
    "int16": "short",
    "uint16": "unsigned short",
    "int32": "int",
    "uint32": "uint",
    "int64": "longlong",
    "uint64": "unsigned long long",
    "float32": "float",
    "float64": "double",
}
NIFTI_TYPES = {
    "uint8": 2,
    "int16": 4,
    "int32": 8,
    "float32": 16,
    "float64": 64,
    "int8": 256,
    "uint16": 512,
    "uint32": 768,
    "int64": 1024,
    "uint64": 1280,
}
DTYPES = list(NIFTI_TYPES)

# Turned and stretched: columns are those of the axes x, y and z.
OBLIQUE = np.array([[0.6, -0.48, 0.64, -12.5], [0.8, 0.36, -0.48, 7.0], [0.0, 0.8, 0.6, 31.25]])
OBLIQUE[:, :3] *= [0.7, 0.9, 2.5]


def numbers(dtype, shape, seed=0):
    """Return numbers over much of a type's range."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        return (rng.normal(size=shape) * 500).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def smooth(shape, seed=0):
    """Return a smooth image with some noise, int16, as scanners make them."""
    rng = np.random.default_rng(seed)
    z, y, x = np.meshgrid(*(np.linspace(-1, 1, side) for side in shape), indexing="ij")
    ball = 900 * np.exp(-3 * (z**2 + y**2 + x**2)) + 150 * np.sin(5 * x + 3 * y) - 200
    return (ball + rng.normal(0, 20, shape)).astype(np.int16)


def organs(shape):
    """Return a mask with a few classes: balls in a background."""
    z, y, x = np.meshgrid(*(np.arange(side) / side for side in shape), indexing="ij")
    mask = np.zeros(shape, np.uint8)
    for label, (cz, cy, cx, r) in enumerate(
        [(0.35, 0.4, 0.4, 0.25), (0.7, 0.65, 0.6, 0.2), (0.3, 0.7, 0.75, 0.12)], 1
    ):
        mask[(z - cz) ** 2 + (y - cy) ** 2 + (x - cx) ** 2 < r * r] = label
    return mask


def pair(folder, name="case", shape=(20, 24, 28), affine=None, seed=0, suffix=".nii.gz"):
    """Write an image and its mask; return both paths."""
    image = write_nifti(folder / f"{name}{suffix}", smooth(shape, seed), affine)
    mask = write_nifti(folder / f"{name}_mask{suffix}", organs(shape), affine)
    return image, mask


def cases(folder, count=4, **how):
    """Write some images and masks; return their pairs."""
    folder.mkdir(parents=True, exist_ok=True)
    return [pair(folder, f"case{i:02}", seed=i, **how) for i in range(count)]


def compressed(data, encoding):
    """Return bytes as an encoding has them."""
    if encoding in ("gzip", "gz"):
        return gzip.compress(data, 1, mtime=0)
    if encoding in ("bzip2", "bz2"):
        return bz2.compress(data, 1)
    if encoding == "zlib":
        return zlib.compress(data, 1)
    return data


# ---- NRRD


def nrrd_header(dtype, sizes, fields=(), *, encoding="raw", endian="little", version=4):
    """Return the lines of a header; sizes are those of files, the fastest axis first."""
    lines = [
        f"NRRD000{version}",
        f"type: {NRRD_TYPES[np.dtype(dtype).name]}",
        f"dimension: {len(sizes)}",
        f"sizes: {' '.join(map(str, sizes))}",
        f"encoding: {encoding}",
    ]
    if np.dtype(dtype).itemsize > 1 and encoding not in ("ascii", "text", "txt"):
        lines.append(f"endian: {endian}")
    return "\n".join([*lines, *fields]) + "\n"


def directions(affine):
    """Return fields that say where voxels are: `affine` is to right, front and head."""
    columns = affine[:3, :3].T
    vectors = " ".join(f"({','.join(f'{float(n)!r}' for n in column)})" for column in columns)
    origin = ",".join(f"{float(n)!r}" for n in affine[:3, 3])
    return [
        "space: right-anterior-superior",
        f"space directions: {vectors}",
        f"space origin: ({origin})",
    ]


def write_nrrd(path, array, fields=(), *, encoding="raw", endian="little"):
    """Write an array of shape (z, y, x)."""
    header = nrrd_header(array.dtype, array.shape[::-1], fields, encoding=encoding, endian=endian)
    if encoding in ("ascii", "text", "txt"):
        data = "\n".join(str(number) for number in array.ravel().tolist()).encode()
    else:
        order = {"little": "<", "big": ">"}[endian]
        data = compressed(array.astype(array.dtype.newbyteorder(order)).tobytes(), encoding)
    path.write_bytes(header.encode() + b"\n" + data)
    return path


# ---- NIfTI


def nifti_header(
    dtype,
    sizes,
    affine=None,
    *,
    qform=None,
    pixdim=None,
    scale=(0.0, 0.0),
    endian="little",
    version=1,
    offset=None,
    magic=None,
):
    """Return a header's bytes; sizes are those of files, the fastest axis first."""
    order = {"little": "<", "big": ">"}[endian]
    dims = [len(sizes), *sizes, *[1] * (7 - len(sizes))]
    dtype = np.dtype(dtype)
    steps = [1.0, *(pixdim or [1.0] * len(sizes))]
    steps += [1.0] * (8 - len(steps))
    codes = (0 if qform is None else 1, 0 if affine is None else 2)
    quaternion = (0.0, 0.0, 0.0)
    shift = (0.0, 0.0, 0.0)
    if qform is not None:
        steps[0], quaternion, shift = qform
    rows = np.zeros((3, 4)) if affine is None else affine[:3]
    rows = [tuple(float(n) for n in row) for row in rows]
    if version == 1:
        start = 352 if offset is None else offset
        header = struct.pack(order + "i", 348) + bytes(36)
        header += struct.pack(order + "8h", *dims) + bytes(14)
        header += struct.pack(order + "hhh", NIFTI_TYPES[dtype.name], dtype.itemsize * 8, 0)
        header += struct.pack(order + "8f", *steps)
        header += struct.pack(order + "fff", start, *scale)
        header += bytes(252 - len(header))
        header += struct.pack(order + "hh", *codes)
        header += struct.pack(order + "6f", *quaternion, *shift)
        for row in rows:
            header += struct.pack(order + "4f", *row)
        header += bytes(344 - len(header)) + (magic or b"n+1\0")
        return header + bytes(max(start, 348) - 348)
    start = 544 if offset is None else offset
    header = struct.pack(order + "i", 540) + (magic or b"n+2\0\r\n\x1a\n")
    header += struct.pack(order + "hh", NIFTI_TYPES[dtype.name], dtype.itemsize * 8)
    header += struct.pack(order + "8q", *dims) + bytes(24)
    header += struct.pack(order + "8d", *steps)
    header += struct.pack(order + "qdd", start, *scale)
    header += bytes(344 - len(header))
    header += struct.pack(order + "ii", *codes)
    header += struct.pack(order + "6d", *quaternion, *shift)
    for row in rows:
        header += struct.pack(order + "4d", *row)
    header += bytes(540 - len(header))
    return header + bytes(max(start, 540) - 540)


def write_nifti(path, array, affine=None, **how):
    """Write an array of shape (z, y, x) or (t, z, y, x); gzip by the path's name."""
    affine = np.eye(4) if affine is None and "qform" not in how else affine
    order = {"little": "<", "big": ">"}[how.get("endian", "little")]
    header = nifti_header(array.dtype, array.shape[::-1], affine, **how)
    data = header + array.astype(array.dtype.newbyteorder(order)).tobytes()
    path.write_bytes(gzip.compress(data, 1, mtime=0) if path.name.endswith(".gz") else data)
    return path


def sample(volumes, seed=0, epoch=0):
    """Return the only sample as a loader delivers it, without its size."""
    loader = feedline.Loader(volumes.padded(), seed=seed, num_workers=0)
    for _ in range(epoch + 1):
        (batch,) = loader
    return [field[0] for field in batch if field.ndim > 2]


# ---- what others say


def quiet(call, *arguments, **settings):
    """Call something of another package, whatever it warns of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call(*arguments, **settings)


def backwards(affine):
    """Return an affine of (x, y, z) as one of (z, y, x), or the other way round."""
    return np.asarray(affine, np.float64)[:, [2, 1, 0, 3]]


def of_itk(image):
    """Return array, affine and spacing of an image of SimpleITK's, as feedline has them."""
    import SimpleITK as sitk  # noqa: N813

    direction = np.array(image.GetDirection()).reshape(3, 3)
    affine = np.eye(4)
    affine[:3, :3] = direction * image.GetSpacing()
    affine[:3, 3] = image.GetOrigin()
    # To the left and the back there, to the right and the front here.
    affine[:2] *= -1
    array = sitk.GetArrayFromImage(image)
    return array, backwards(affine), image.GetSpacing()[::-1]
