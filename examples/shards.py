"""Writes photographs into tar shards and reads them back: with random access, and streamed.

Random access shuffles all samples with each other. Streaming reads compressed shards from front to
back, one after the other in random order, and shuffles within a window.

    python examples/shards.py [--quick] [--out FOLDER]

Needs: feedline, numpy, pillow, matplotlib. No torch.
"""

from __future__ import annotations

import argparse
import gzip
import io
import sys
import tarfile
import time
from pathlib import Path

import drawing
import numpy as np
import photographs

import feedline

SHARDS, BATCH = 8, 16


def write(photos: Path, out: Path) -> list[Path]:
    """Write the photographs into shards in WebDataset's layout, mixed: picture, label, number."""
    files = sorted(photos.glob("*/*.jpg"))
    np.random.default_rng(0).shuffle(files)
    shards = []
    for i, part in enumerate(np.array_split(np.arange(len(files)), SHARDS)):
        shards.append(out / f"photographs-{i:03}.tar")
        with tarfile.open(shards[-1], "w") as shard:
            for number in part:
                label = photographs.CLASSES.index(files[number].parent.name)
                # Neighbours with the same name up to the first dot are one sample.
                for extension, content in (
                    ("jpg", files[number].read_bytes()),
                    ("cls", str(label).encode()),
                    ("id", str(number).encode()),
                ):
                    member = tarfile.TarInfo(f"{number:05}.{extension}")
                    member.size = len(content)
                    shard.addfile(member, io.BytesIO(content))
    return shards


def compress(shards: list[Path]) -> list[Path]:
    """Write compressed copies, which can only be read from front to back."""
    for shard in shards:
        shard.with_suffix(".tar.gz").write_bytes(gzip.compress(shard.read_bytes(), 1))
    return [shard.with_suffix(".tar.gz") for shard in shards]


def epoch(name: str, pipeline: feedline.Pipeline) -> dict[int, bytes]:
    """Read an epoch in shuffled order; returns the pixels by sample, in the order they came."""
    pictures = pipeline.images("jpg").resize((48, 64))
    loader = feedline.Loader(pictures, batch_size=BATCH, shuffle=True, seed=1)
    began = time.perf_counter()
    came: dict[int, bytes] = {}
    for batch in loader:
        pixels = (picture.tobytes() for picture in batch["image"])
        came.update(zip(batch["id"].tolist(), pixels, strict=True))
    rate = len(came) / (time.perf_counter() - began)
    print(f"  {name}: {len(came)} photographs, {rate:.0f} per second")
    return came


def draw(orders: dict[str, list[int]], path: Path) -> None:
    """Draw when each sample came."""
    figure, axes = drawing.figure("One epoch of shards, shuffled", len(orders), sharey=True)
    for axis, (name, order) in zip(axes, orders.items(), strict=True):
        axis.scatter(range(len(order)), order, s=5, color=drawing.BLUE)
        for edge in np.arange(1, SHARDS) * len(order) / SHARDS:
            axis.axhline(edge, color=drawing.GRAY, linewidth=0.6)
        axis.grid(visible=False)
        axis.set(title=name, xlabel="place in the epoch")
    axes[0].set_ylabel("place in the shards (lines: their edges)")
    drawing.save(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description="Write shards of photographs and read them.")
    parser.add_argument("--quick", action="store_true", help="fewer photographs")
    parser.add_argument("--out", type=Path, default=Path("target/examples"), help="for pictures")
    arguments = parser.parse_args()
    folder = arguments.out / "shards"
    folder.mkdir(parents=True, exist_ok=True)
    count = photographs.QUICK if arguments.quick else photographs.FULL
    shards = write(photographs.make(arguments.out, count) / "train", folder)
    compressed = compress(shards)
    sizes = [sum(shard.stat().st_size for shard in files) for files in (shards, compressed)]
    print(f"{count} photographs in {SHARDS} shards: {sizes[0] / 1e6:.0f} MB as .tar, ", end="")
    print(f"{sizes[1] / 1e6:.0f} MB as .tar.gz")

    cache = folder / "tables"  # what feedline has found in the shards
    picked = epoch("random access", feedline.tar(shards, cache_dir=cache))
    streamed = epoch(
        "streamed     ",
        feedline.tar(compressed, streaming=True, window=count // 16, cache_dir=cache),
    )
    if picked != streamed or sorted(picked) != list(range(count)):
        sys.exit("the two ways delivered different photographs")
    print("the same photographs both ways, each once, pixel by pixel")
    orders = {"Random access (.tar)": list(picked), "Streamed (.tar.gz)": list(streamed)}
    draw(orders, arguments.out / "shards.png")


if __name__ == "__main__":
    main()
