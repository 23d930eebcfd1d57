"""Tar shards against a folder: 2048 files of 110 KB, shuffled, read and not decoded.

The files' pages are in the page cache. With decoding, which costs a hundred times more, the
difference between the two disappears.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from tables.bench import Bench
from tables.epochs import SEED, WARM, drain

import feedline
from feedline._feedline import Source
from feedline.measure import Digest, Outcome
from feedline.pipeline import Pipeline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from feedline.measure import Run

BATCH = 64
BYTES = 110_000
PER_SHARD = 256


@contextlib.contextmanager
def laid_out(samples: int) -> Iterator[Path]:
    """The same content as files of a class folder and as shards."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory(prefix="feedline-bench-") as name:
        root = Path(name)
        (root / "folder" / "only").mkdir(parents=True)
        for first in range(0, samples, PER_SHARD):
            with tarfile.open(root / f"shard-{first // PER_SHARD:03}.tar", "w") as shard:
                for i in range(first, min(first + PER_SHARD, samples)):
                    content = rng.bytes(BYTES)
                    (root / "folder" / "only" / f"{i:05}.jpg").write_bytes(content)
                    for part, data in (("jpg", content), ("cls", b"0")):
                        member = tarfile.TarInfo(f"{i:05}.{part}")
                        member.size = len(data)
                        shard.addfile(member, io.BytesIO(data))
        yield root


def folder(root: Path) -> Pipeline:
    source = Source.files(root / "folder", [".jpg"], True, False, 1 << 28, False)
    return Pipeline(source, named=True, stages=("files",))


def side(
    make: Callable[[], Pipeline], part: str, samples: int, timed: int
) -> Callable[[Run], Outcome]:
    """Timed epochs, and the checked content of one; the order differs where shards are streamed."""

    def run_side(run: Run) -> Outcome:
        loader = feedline.Loader(make(), batch_size=BATCH, shuffle=True, seed=SEED, num_workers=2)
        for _ in range(WARM):
            drain(loader)
        ahead = loader.stats()["prefetch"]
        run.start()
        for _ in range(timed):
            drain(loader)
        drain(itertools.islice(loader, ahead))
        run.stop()
        content = sorted(sample for batch in loader for sample in batch[part])
        found = Digest()
        for sample in content:
            found.update(np.frombuffer(sample, np.uint8))
        return Outcome(timed * samples, found.finish(), timed * samples * BYTES)

    return run_side


def main() -> None:
    bench = Bench("shards", "tar shards against a folder of the same files")
    samples, timed = 2048, bench.size(6, 1)
    with laid_out(samples) as root:
        shards, tables = str(root / "shard-*.tar"), root / "tables"

        def tar(*, streaming: bool) -> Pipeline:
            return feedline.tar(shards, ["jpg", "cls"], streaming=streaming, cache_dir=tables)

        bench.hold(
            f"{samples} files of {BYTES // 1000} KB, batches of {BATCH}, shuffled, 2 workers, "
            "page cache warm, not decoded",
            {
                "folder": side(lambda: folder(root), "image", samples, timed),
                "tar": side(lambda: tar(streaming=False), "jpg", samples, timed),
                "tar, streamed": side(lambda: tar(streaming=True), "jpg", samples, timed),
            },
            require=["tar/folder>=0.97"],
        )
    bench.close()


if __name__ == "__main__":
    main()
