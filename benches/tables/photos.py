"""Photographs of about 500x375 and 110 KB in class folders.

Real ones where they are at hand (``../shared/data/photos``), else pictures made to cost a decoder
the same.
"""

from __future__ import annotations

import contextlib
import io
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

if TYPE_CHECKING:
    from collections.abc import Iterator

REAL = Path("../shared/data/photos")
CLASSES = 5


@contextlib.contextmanager
def class_folders(samples: int) -> Iterator[tuple[Path, str]]:
    """A folder of `samples` photographs in five class folders, and what they are."""
    originals, kind = real(), "real"
    if len(originals) < 16:
        originals, kind = [made(number) for number in range(32)], "made"
    with tempfile.TemporaryDirectory(prefix="feedline-bench-") as name:
        root = Path(name) / "train"
        for number in range(samples):
            folder = root / f"class{number % CLASSES}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{number:05}.jpg").write_bytes(originals[number % len(originals)])
        mean = sum(len(file) for file in originals) // len(originals) // 1000
        yield root, f"{kind} photographs of {mean} KB"


def real() -> list[bytes]:
    """Photographs of about the wanted size, in the order of their names."""
    found = []
    for path in sorted(REAL.glob("*/*.jpg")):
        file = path.read_bytes()
        with Image.open(io.BytesIO(file)) as image:
            pixels = image.width * image.height
        if 150_000 <= pixels < 220_000 and 70_000 <= len(file) < 160_000:
            found.append(file)
    return found


def made(number: int) -> bytes:
    """Smooth shades, edges and grain, as a codec sees a photograph."""
    rng = np.random.default_rng(number)
    y, x = np.mgrid[0:375, 0:500].astype(np.float32)
    phase = np.arange(3, dtype=np.float32) * 0.6 + number * 0.37
    waves = np.sin(x[..., None] / 41 + phase) * 45 + np.cos(y[..., None] / 23 - phase) * 40
    edges = ((x * 7 + y * 3 + number * 11) // 97 % 4 == 0)[..., None] * 45
    grain = rng.normal(0, 9, (375, 500, 1)) + rng.normal(0, 3, (375, 500, 3))
    pixels = np.clip(105 + waves + edges + grain, 0, 255).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=92)
    return file.getvalue()


def shards(root: Path, count: int) -> list[Path]:
    """The same samples in the same order as tar shards beside the folder."""
    names = sorted(folder.name for folder in root.iterdir())
    samples = [(path, names.index(path.parent.name)) for path in sorted(root.glob("*/*.jpg"))]
    each = -(-len(samples) // count)
    made = []
    for number in range(count):
        shard = root.parent / f"shard-{number:03}.tar"
        with tarfile.open(shard, "w") as tar:
            for at, (path, label) in enumerate(samples[number * each : (number + 1) * each]):
                key = f"{number * each + at:06}"
                for extension, content in (
                    ("jpg", path.read_bytes()),
                    ("cls", str(label).encode()),
                ):
                    member = tarfile.TarInfo(f"{key}.{extension}")
                    member.size = len(content)
                    tar.addfile(member, io.BytesIO(content))
        made.append(shard)
    return made
