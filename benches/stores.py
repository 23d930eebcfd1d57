"""An S3 server on loopback, with 50 ms per request: the same files on disk, and peers.

The server is `tests/s3-server`; it shares the machine with whoever reads, and says how much
processor time its requests took. The pictures are those of `shards.py`; peers get eight workers,
which wait for answers most of the time. Random crops are each side's own, so of peers the labels
are checked; that the same bytes arrive is checked where both sides are ours.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import io
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import webdataset
from shards import BATCH, PER_SHARD, for_training, picture, training
from tables.bench import Bench
from tables.epochs import SEED, WARM, Orders
from torch.utils.data import DataLoader
from torchvision.io import ImageReadMode, decode_image
from torchvision.transforms import v2

import feedline
from feedline.measure import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from feedline.measure import Run
    from feedline.pipeline import Pipeline

ROOT = Path(__file__).parents[1]
LATENCY_MS = 50
CLASSES = 8
# So many are different; the rest are copies, under other names.
DIFFERENT = 512
PEERS_WORKERS = 8


@contextlib.contextmanager
def laid_out(samples: int) -> Iterator[Path]:
    """A bucket with the pictures as objects and as shards."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory(prefix="feedline-bench-") as name:
        bucket = Path(name) / "bucket"
        for number in range(CLASSES):
            (bucket / "folder" / str(number)).mkdir(parents=True)
        contents = [picture(rng) for _ in range(min(samples, DIFFERENT))]
        for first in range(0, samples, PER_SHARD):
            with tarfile.open(bucket / f"shard-{first // PER_SHARD:03}.tar", "w") as shard:
                for i in range(first, min(first + PER_SHARD, samples)):
                    content, label = contents[i % len(contents)], str(i % CLASSES)
                    (bucket / "folder" / label / f"{i:05}.jpg").write_bytes(content)
                    for part, data in (("jpg", content), ("cls", label.encode())):
                        member = tarfile.TarInfo(f"{i:05}.{part}")
                        member.size = len(data)
                        shard.addfile(member, io.BytesIO(data))
        yield bucket


@contextlib.contextmanager
def served(folder: Path) -> Iterator[dict[str, Any]]:
    """The options with which the folders in a folder are buckets."""
    build = ["cargo", "build", "--release", "--quiet", "--locked", "-p", "feedline-s3-server"]
    subprocess.run(build, check=True, cwd=ROOT)  # noqa: S603 - ours
    command = [str(ROOT / "target/release/s3-server"), str(folder), "--public"]
    command.append(f"--latency-ms={LATENCY_MS}")
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as server:  # noqa: S603 - ours
        if server.stdin is None or server.stdout is None:
            msg = "the server has no pipes"
            raise RuntimeError(msg)
        endpoint = server.stdout.readline().decode().strip()
        yield {
            "endpoint": endpoint,
            "access_key_id": "reader",
            "secret_access_key": "secret",
            "region": "us-east-1",
        }
        server.stdin.close()
        print(f"the server: {server.stdout.read().decode().strip()}")


# Peers

for_torch = v2.Compose(
    [
        v2.RandomResizedCrop(224, antialias=True),
        v2.RandomHorizontalFlip(),
        v2.ToDtype(torch.float32, scale=True),
        v2.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    ]
)


def decoded(content: bytes) -> torch.Tensor:
    """What torchvision makes of a file, the quickest way it has."""
    data = torch.frombuffer(bytearray(content), dtype=torch.uint8)
    pixels: torch.Tensor = for_torch(decode_image(data, ImageReadMode.RGB))
    return pixels


class S3fsPictures(torch.utils.data.Dataset[tuple[torch.Tensor, int]]):
    """Objects by s3fs, with a file system for each worker, as its documentation asks."""

    def __init__(self, options: dict[str, Any], keys: list[str]) -> None:
        self.options, self.keys = options, keys
        self.files: Any = None

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if self.files is None:
            import s3fs  # not everybody who runs tables has it

            self.files = s3fs.S3FileSystem(
                key=self.options["access_key_id"],
                secret=self.options["secret_access_key"],
                endpoint_url=self.options["endpoint"],
                client_kwargs={"region_name": self.options["region"]},
                skip_instance_cache=True,
            )
        key = self.keys[index]
        return decoded(self.files.cat_file(f"bucket/{key}")), int(key.split("/")[-2])


def labelled(sample: dict[str, bytes]) -> tuple[torch.Tensor, int]:
    """A sample of a shard."""
    return decoded(sample["jpg"]), int(sample["cls"])


def counted(batches: Iterable[Any]) -> list[int]:
    """How often each label comes in an epoch."""
    found = np.zeros(CLASSES, np.int64)
    for pictures, labels in batches:
        if tuple(pictures.shape[1:]) != (3, 224, 224):
            msg = f"a batch of shape {tuple(pictures.shape)}"
            raise ValueError(msg)
        found += np.bincount(np.asarray(labels), minlength=CLASSES)
    return found.tolist()


def epochs(make: Callable[[], Iterable[Any]], samples: int) -> Callable[[Run], Outcome]:
    """An epoch after one to warm up, all batches looked at. What was ready is not counted."""

    def side(run: Run) -> Outcome:
        batches = make()
        for _ in range(WARM):
            counted(batches)
        ahead = batches.stats()["ready"] if isinstance(batches, feedline.Loader) else 0
        run.start()
        found = counted(batches)
        run.stop()
        return Outcome(samples - ahead * BATCH, repr(found))

    return side


def by_s3fs(bucket: Path, options: dict[str, Any], samples: int) -> Callable[[], Iterable[Any]]:
    """torch's loader over objects."""

    def make() -> Iterable[Any]:
        found = sorted((bucket / "folder").rglob("*.jpg"), key=lambda path: path.name)[:samples]
        keys = [str(path.relative_to(bucket)) for path in found]
        return DataLoader(
            S3fsPictures(options, keys),
            BATCH,
            shuffle=True,
            num_workers=PEERS_WORKERS,
            persistent_workers=True,
            multiprocessing_context="forkserver",
        )

    return make


def by_webdataset(options: dict[str, Any], names: str) -> Callable[[], Iterable[Any]]:
    """WebDataset over the shards' URLs, which it reads with curl."""

    def make() -> Iterable[Any]:
        shards = f"pipe:curl -s -f {options['endpoint']}/bucket/{names}"
        data = webdataset.WebDataset(shards, shardshuffle=100, seed=SEED, empty_check=False)
        data = data.shuffle(2 * PER_SHARD).map(labelled).batched(BATCH)
        loader: Iterable[Any] = webdataset.WebLoader(
            data, batch_size=None, num_workers=PEERS_WORKERS, persistent_workers=True
        )
        return loader

    return make


def main() -> None:
    tables = ["shards", "objects", "s3fs", "webdataset"]
    about = f"an S3 server with {LATENCY_MS} ms per request, the same on disk, and peers"
    bench = Bench("stores", about, tables)
    shard_samples = bench.size(8192, 512)
    many = not {"objects", "s3fs"}.isdisjoint(bench.tables)
    samples = bench.size(20_000, 512) if many else shard_samples
    with laid_out(samples) as bucket, served(bucket.parent) as options:
        chain = f"RandomResizedCrop 224 + flip + normalise, batches of {BATCH}, shuffled"
        settings = f"{chain}, 2 workers"
        kept_tables, kept = bucket.parent / "tables", bucket.parent / "kept"
        cached = options | {"cache_dir": str(kept), "cache_size": "100GiB"}
        names = f"shard-{{000..{shard_samples // PER_SHARD - 1:03}}}.tar"

        def tar(
            where: str,
            options: dict[str, Any] | None = None,
            *,
            streaming: bool = True,
        ) -> Pipeline:
            opened = feedline.tar(
                where,
                ["jpg", "cls"],
                streaming=streaming,
                cache_dir=kept_tables,
                storage_options=options,
            )
            return for_training(opened.images(named=False))

        def images(where: str, options: dict[str, Any] | None = None) -> Pipeline:
            return for_training(feedline.images(where, classes=True, storage_options=options))

        def ours(make: Callable[[], Any]) -> Callable[[], Iterable[Any]]:
            return lambda: feedline.Loader(
                make(), batch_size=BATCH, shuffle=True, seed=SEED, num_workers=2, output="torch"
            )

        if "shards" in bench.tables:
            orders = Orders.of(shard_samples, BATCH, timed=1)
            for streaming in (True, False):
                way = "streamed" if streaming else "each picture a request"
                near = functools.partial(tar, str(bucket / names), streaming=streaming)
                far = functools.partial(tar, f"s3://bucket/{names}", options, streaming=streaming)
                bench.hold(
                    f"{shard_samples} pictures in tar shards, {way}, {settings}",
                    {"disk": training(near, orders), "store": training(far, orders)},
                    # One by one, the requests themselves take a part of the two cores.
                    require=["store/disk>=0.85"] if streaming else [],
                )
        if "objects" in bench.tables:
            orders = Orders.of(samples, BATCH, timed=1)
            folder, url = str(bucket / "folder"), "s3://bucket/folder"
            bench.hold(
                f"{samples} objects, {settings}",
                {
                    "folder": training(lambda: images(folder), orders),
                    "store": training(lambda: images(url, options), orders),
                    "cached": training(lambda: images(url, cached), orders),
                },
                require=["store/folder>=0.75", "cached/folder>=0.95"],
            )
            shutil.rmtree(kept, ignore_errors=True)
        few = bench.size(2048, 512)
        if "s3fs" in bench.tables and importlib.util.find_spec("s3fs"):
            part = bucket / "some"
            for label in range(CLASSES):
                (part / str(label)).mkdir(parents=True, exist_ok=True)
            for path in sorted((bucket / "folder").rglob("*.jpg"), key=lambda it: it.name)[:few]:
                (part / path.parent.name / path.name).hardlink_to(path)
            bench.hold(
                f"{few} objects, {chain}; torch with {PEERS_WORKERS} workers",
                {
                    "torch + s3fs": epochs(by_s3fs(bucket, options, few), few),
                    "feedline": epochs(ours(lambda: images("s3://bucket/some", options)), few),
                },
                require=["feedline/torch + s3fs>=3"],
            )
        if "webdataset" in bench.tables:
            bench.hold(
                f"{shard_samples} pictures in tar shards, {chain}; "
                f"WebDataset with {PEERS_WORKERS} workers",
                {
                    "webdataset": epochs(by_webdataset(options, names), shard_samples),
                    "feedline": epochs(
                        ours(lambda: tar(f"{options['endpoint']}/bucket/{names}")), shard_samples
                    ),
                },
                require=["feedline/webdataset>=3"],
            )
    bench.close()


if __name__ == "__main__":
    main()
