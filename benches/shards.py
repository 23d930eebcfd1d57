"""Tar shards against a folder of the same 1024 pictures, shuffled: read only, and as for training.

The pictures are JPEG files of 500x375 pixels and some 110 KB; their pages are in the page cache.
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
from tables.bench import Bench
from tables.epochs import SEED, Orders, feedline_side, time_epochs

import feedline
from feedline._feedline import Source
from feedline.measure import Digest, Outcome
from feedline.pipeline import Pipeline
from feedline.recipes import Recipe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from feedline.measure import Run

BATCH = 64
PER_SHARD = 128


def picture(rng: np.random.Generator) -> bytes:
    """Clouds with some grain: as hard to compress as a photograph."""
    clouds = rng.integers(0, 256, (24, 32, 3), np.uint8)
    smooth = Image.fromarray(clouds).resize((500, 375), Image.Resampling.BICUBIC)
    grain = rng.normal(0, 12, (375, 500, 3))
    pixels = np.clip(np.asarray(smooth) + grain, 0, 255).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=94)
    return file.getvalue()


@contextlib.contextmanager
def laid_out(samples: int) -> Iterator[tuple[Path, int]]:
    """The same pictures as files of a class folder and as shards; and their bytes."""
    rng = np.random.default_rng(0)
    total = 0
    with tempfile.TemporaryDirectory(prefix="feedline-bench-") as name:
        root = Path(name)
        (root / "folder" / "only").mkdir(parents=True)
        for first in range(0, samples, PER_SHARD):
            with tarfile.open(root / f"shard-{first // PER_SHARD:03}.tar", "w") as shard:
                for i in range(first, min(first + PER_SHARD, samples)):
                    content = picture(rng)
                    total += len(content)
                    (root / "folder" / "only" / f"{i:05}.jpg").write_bytes(content)
                    for part, data in (("jpg", content), ("cls", b"0")):
                        member = tarfile.TarInfo(f"{i:05}.{part}")
                        member.size = len(data)
                        shard.addfile(member, io.BytesIO(data))
        yield root, total


def folder(root: Path) -> Pipeline:
    source = Source.files(root / "folder", [".jpg"], True, False, 1 << 28, False)
    return Pipeline(source, named=True, stages=("files",), recipe=Recipe(folder, (root,)))


def for_training(pictures: feedline.Images) -> Pipeline:
    return pictures.random_resized_crop(224).flip().normalize()


def reading(
    make: Callable[[], Pipeline], part: str, orders: Orders, epoch_bytes: int
) -> Callable[[Run], Outcome]:
    """Timed epochs, and the content of one, sorted: streamed shards have an order of their own."""

    def side(run: Run) -> Outcome:
        loader = feedline.Loader(make(), batch_size=BATCH, shuffle=True, seed=SEED, num_workers=2)
        time_epochs(run, loader, orders)
        found = Digest()
        for sample in sorted(sample for batch in loader for sample in batch[part]):
            found.update(np.frombuffer(sample, np.uint8))
        return Outcome(orders.timed * orders.samples, found.finish(), orders.timed * epoch_bytes)

    return side


def training(make: Callable[[], Pipeline], orders: Orders) -> Callable[[Run], Outcome]:
    """Timed epochs of pictures as a network takes them."""

    def loader() -> feedline.Loader:
        return feedline.Loader(
            make(), batch_size=BATCH, shuffle=True, seed=SEED, num_workers=2, output="torch"
        )

    return feedline_side(loader, orders)


def main() -> None:
    bench = Bench("shards", "tar shards against a folder of the same files")
    samples = bench.size(1024, 256)
    with laid_out(samples) as (root, epoch_bytes):
        shards, tables = str(root / "shard-*.tar"), root / "tables"
        size = f"{samples} pictures of {epoch_bytes // samples // 1000} KB"
        settings = f"batches of {BATCH}, shuffled, 2 workers, page cache warm"

        def tar(*, streaming: bool = False) -> Pipeline:
            return feedline.tar(shards, ["jpg", "cls"], streaming=streaming, cache_dir=tables)

        orders = Orders.of(samples, BATCH, timed=bench.size(12, 1))
        bench.hold(
            f"{size}, read but not decoded, {settings}",
            {
                "folder": reading(lambda: folder(root), "image", orders, epoch_bytes),
                "tar": reading(tar, "jpg", orders, epoch_bytes),
                "tar, streamed": reading(lambda: tar(streaming=True), "jpg", orders, epoch_bytes),
            },
        )
        orders = Orders.of(samples, BATCH, timed=bench.size(3, 1))
        bench.hold(
            f"{size}, RandomResizedCrop 224 + flip + normalise, {settings}",
            {
                "folder": training(lambda: for_training(feedline.images(root / "folder")), orders),
                "tar": training(lambda: for_training(tar().images(named=False)), orders),
            },
            require=["tar/folder>=0.97"],
        )
    bench.close()


if __name__ == "__main__":
    main()
