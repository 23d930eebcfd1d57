"""An S3 server on loopback, with 50 ms per request, against the same files on disk.

The server is `benches/src/s3_server`, in release; it shares the machine with the loader, and says
how much processor time its requests took. The pictures are those of `shards.py`.
"""

from __future__ import annotations

import contextlib
import io
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from shards import BATCH, PER_SHARD, for_training, picture, training
from tables.bench import Bench
from tables.epochs import Orders

import feedline

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
LATENCY_MS = 50
# So many are different; the rest are copies, under other names.
DIFFERENT = 512


@contextlib.contextmanager
def laid_out(samples: int) -> Iterator[Path]:
    """A bucket with the pictures as objects and as shards."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory(prefix="feedline-bench-") as name:
        bucket = Path(name) / "bucket"
        (bucket / "folder" / "only").mkdir(parents=True)
        contents = [picture(rng) for _ in range(min(samples, DIFFERENT))]
        for first in range(0, samples, PER_SHARD):
            with tarfile.open(bucket / f"shard-{first // PER_SHARD:03}.tar", "w") as shard:
                for i in range(first, min(first + PER_SHARD, samples)):
                    content = contents[i % len(contents)]
                    (bucket / "folder" / "only" / f"{i:05}.jpg").write_bytes(content)
                    for part, data in (("jpg", content), ("cls", b"0")):
                        member = tarfile.TarInfo(f"{i:05}.{part}")
                        member.size = len(data)
                        shard.addfile(member, io.BytesIO(data))
        yield bucket


@contextlib.contextmanager
def served(folder: Path) -> Iterator[dict[str, Any]]:
    """The options with which the folders in a folder are buckets."""
    command = ["cargo", "build", "--release", "--quiet", "--locked", "-p", "feedline-benches"]
    subprocess.run([*command, "--bin", "s3-server"], check=True, cwd=ROOT)  # noqa: S603 - ours
    command = [str(ROOT / "target/release/s3-server"), str(folder), f"--latency-ms={LATENCY_MS}"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as server:  # noqa: S603 - ours
        if server.stdin is None or server.stdout is None:
            msg = "the server has no pipes"
            raise RuntimeError(msg)
        endpoint = server.stdout.readline().decode().strip()
        yield {
            "endpoint": endpoint,
            "access_key_id": "any",
            "secret_access_key": "any",
            "region": "us-east-1",
        }
        server.stdin.close()
        print(f"the server: {server.stdout.read().decode().strip()}")


def main() -> None:
    bench = Bench("stores", f"an S3 server with {LATENCY_MS} ms per request, and the same on disk")
    samples = bench.size(20_000, 512)
    shard_samples = min(samples, 4096)
    with laid_out(samples) as bucket, served(bucket.parent) as options:
        settings = (
            f"RandomResizedCrop 224 + flip + normalise, batches of {BATCH}, shuffled, 2 workers"
        )
        tables, kept = bucket.parent / "tables", bucket.parent / "kept"
        cached = options | {"cache_dir": str(kept), "cache_size": "100GiB"}
        names = f"shard-{{000..{shard_samples // PER_SHARD - 1:03}}}.tar"

        def tar(where: str, options: dict[str, Any] | None = None) -> Any:  # noqa: ANN401
            opened = feedline.tar(where, ["jpg", "cls"], cache_dir=tables, storage_options=options)
            return for_training(opened.images(named=False))

        def images(where: str, options: dict[str, Any] | None = None) -> Any:  # noqa: ANN401
            return for_training(feedline.images(where, classes=True, storage_options=options))

        orders = Orders.of(shard_samples, BATCH, timed=bench.size(2, 1))
        bench.hold(
            f"{shard_samples} pictures in tar shards, {settings}",
            {
                "disk": training(lambda: tar(str(bucket / names)), orders),
                "store": training(lambda: tar(f"s3://bucket/{names}", options), orders),
            },
            require=["store/disk>=0.85"],
        )
        orders = Orders.of(samples, BATCH, timed=1)
        folder, url = str(bucket / "folder"), "s3://bucket/folder"
        bench.hold(
            f"{samples} objects, {settings}",
            {
                "folder": training(lambda: images(folder), orders),
                "store": training(lambda: images(url, options), orders),
                "cached": training(lambda: images(url, cached), orders),
            },
            require=[
                "store/folder>=0.75",
                "cached/folder>=0.95",
            ],
        )
        shutil.rmtree(kept, ignore_errors=True)
    bench.close()


if __name__ == "__main__":
    main()
