"""Makes scans to learn from: NRRD files in gzip, with masks.

A scan shows an organ in a body, brighter than what is around it, and in the organ one to three
lesions, darker than it. Its voxels are 2 mm apart between slices and 1 mm within. Noise and an
uneven field hide them from a threshold.

    python examples/scans.py [--out FOLDER] [--count N]

Needs: numpy.
"""

from __future__ import annotations

import argparse
import gzip
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

SHAPE, SPACING = (32, 64, 64), (2.0, 1.0, 1.0)  # z, y, x; millimetres
# How many scans are for training; as many as a third of them are for testing.
FULL, QUICK = 48, 24


def make(out: Path, count: int = FULL) -> Path:
    """Make `count` scans to train with and a third of that to test with, once.

    Returns the folder, with ``train/images``, ``train/masks``, ``test/images`` and ``test/masks``.
    """
    folder = out / f"scans-{count}"
    if folder.exists():
        return folder
    # Under another name until all are there: a run that was interrupted leaves nothing behind.
    unfinished = out / f".scans-{count}-{os.getpid()}"
    jobs = [("train", i) for i in range(count)] + [("test", count + i) for i in range(count // 3)]
    for part in ("train", "test"):
        (unfinished / part / "images").mkdir(parents=True)
        (unfinished / part / "masks").mkdir()

    def write(job: tuple[str, int]) -> None:
        part, number = job
        image, mask = scan(number)
        write_nrrd(unfinished / part / "images" / f"case{number:03}.nrrd", image)
        write_nrrd(unfinished / part / "masks" / f"case{number:03}.nrrd", mask)

    try:
        with ThreadPoolExecutor() as pool:
            list(pool.map(write, jobs))
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return folder


def scan(seed: int) -> tuple[Any, Any]:
    """Make one scan, int16, and its mask, uint8: 1 is the organ, 2 its lesions."""
    rng = np.random.default_rng(seed)
    mask = np.zeros(SHAPE, np.uint8)
    size = np.multiply(SHAPE, SPACING)
    middle, radii = size * rng.uniform(0.4, 0.6, 3), size * rng.uniform(0.22, 0.34, 3)
    organ = ellipsoid(middle, radii)
    mask[organ] = 1
    for _ in range(rng.integers(1, 4)):
        at = middle + radii * rng.uniform(-0.5, 0.5, 3)
        mask[ellipsoid(at, rng.uniform(5, 9, 3)) & organ] = 2
    body = ellipsoid(size / 2, size * 0.47)
    image = np.where(body, 0.0, -600.0) + np.array([0.0, 90.0, 20.0])[mask]
    # Brighter on one side than on the other, as coils of MR are, and noise.
    z, y, x = grid()
    image += rng.uniform(-40, 40) * z / size[0] + rng.uniform(-40, 40) * (x + y) / size[1]
    image += rng.normal(0, 45, SHAPE)
    return image.astype(np.int16), mask


def grid() -> list[Any]:
    """Where the voxels are, in millimetres."""
    return [
        axis * spacing
        for axis, spacing in zip(np.ogrid[tuple(map(slice, SHAPE))], SPACING, strict=True)
    ]


def ellipsoid(middle: Any, radii: Any) -> Any:  # noqa: ANN401 - three numbers each
    """Say which voxels are inside."""
    inside = [((x - m) / r) ** 2 for x, m, r in zip(grid(), middle, radii, strict=True)]
    return inside[0] + inside[1] + inside[2] < 1


def write_nrrd(path: Path, array: Any) -> None:  # noqa: ANN401 - an array
    """Write a volume: a few lines of text, then the voxels, the first of the sizes fastest."""
    kind = {"int16": "short", "uint8": "uchar"}[array.dtype.name]
    z, y, x = array.shape
    header = (
        f"NRRD0004\ntype: {kind}\ndimension: 3\nsizes: {x} {y} {z}\n"
        "space: left-posterior-superior\n"
        f"space directions: ({SPACING[2]},0,0) (0,{SPACING[1]},0) (0,0,{SPACING[0]})\n"
        "endian: little\nencoding: gzip\n\n"
    )
    path.write_bytes(header.encode() + gzip.compress(array.tobytes(), 6))


def main() -> None:
    parser = argparse.ArgumentParser(description="Make scans to learn from.")
    parser.add_argument("--out", type=Path, default=Path("target/examples"), help="where to")
    parser.add_argument("--count", type=int, default=FULL, help="how many to train with")
    arguments = parser.parse_args()
    if arguments.count < 3:
        parser.error(f"--count must be at least 3, got {arguments.count}")
    arguments.out.mkdir(parents=True, exist_ok=True)
    print(make(arguments.out, arguments.count))


if __name__ == "__main__":
    main()
