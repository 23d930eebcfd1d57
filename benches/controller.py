"""`num_workers="auto"`, `prefetch="auto"`: against the best of a grid, and against torch's best.

The controller begins at its worst, one worker and one batch read ahead, and has 15 seconds; then
its loader, the best point of a grid of fixed settings and torch's best number of workers run in
turn. The loop does nothing but take batches. `still`: what the controller costs where nothing needs
changing. `changes`: samples, or the loop, become four times as slow or as fast in mid-run, and the
controller has ten seconds.
"""

from __future__ import annotations

import contextlib
import itertools
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from tables.bench import Bench
from tables.photos import class_folders
from tables.review_texts import Looked, as_it_is, frequent_words, review_lines
from tables.scans import scan, write_nifti
from tables.streams import Stream
from torch.utils.data import ConcatDataset, DataLoader, Dataset
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

import feedline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Maker = Callable[..., Iterable[Any]]

KINDS = ("images", "arrays", "sleep", "volumes", "text")
BUDGET = 512 << 20
PATIENCE, AGAIN = 15.0, 10.0
ENDLESS = "loaders go on from run to run, so each is at another place; tests compare batches"
GRID = tuple(itertools.product((1, 2, 4, 8, 16, 32), (2, 8)))
WORST = {"num_workers": feedline.Auto(start=1), "prefetch": feedline.Auto(start=1)}


class Kind(NamedTuple):
    """Something to load: by feedline, and as people do it with torch."""

    title: str
    batch: int
    pipeline: feedline.Pipeline
    dataset: Dataset[Any]
    # Whether the dataset makes whole batches.
    whole: bool = False

    def ours(self, **settings: Any) -> feedline.Loader:  # noqa: ANN401 - the loader's own
        return feedline.Loader(
            self.pipeline,
            batch_size=self.batch,
            shuffle=True,
            memory=BUDGET,
            output="torch",
            **settings,
        )

    def theirs(self, workers: int) -> DataLoader[Any]:
        settings: dict[str, Any] = {"collate_fn": as_it_is} if self.whole else {}
        if workers:
            settings |= {"persistent_workers": True, "prefetch_factor": 4}
        return DataLoader(self.dataset, self.batch, shuffle=True, num_workers=workers, **settings)


# What there is to load


class Sleepy(Dataset[int]):
    """Samples that take ten milliseconds of nobody's time."""

    seconds = 0.010

    def __len__(self) -> int:
        return 1 << 20

    def __getitem__(self, index: int) -> int:
        time.sleep(self.seconds)
        return index


class Crops(Dataset[torch.Tensor]):
    """Patches at random places of volumes in files, by nibabel."""

    def __init__(self, files: list[Path], size: int) -> None:
        self._files, self._size = files, size

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, index: int) -> torch.Tensor:
        import nibabel

        scan: Any = nibabel.load(self._files[index])
        voxels = np.asarray(scan.dataobj).transpose()
        places = [np.random.randint(side - self._size + 1) for side in voxels.shape]  # noqa: NPY002
        patch = voxels[tuple(slice(place, place + self._size) for place in places)]
        return torch.from_numpy(patch.astype(np.float32))


@contextlib.contextmanager
def images() -> Iterator[Kind]:
    with class_folders(1024) as (root, about):
        chain = feedline.images(root).random_resized_crop(224).flip().normalize()
        transform = v2.Compose(
            [
                v2.PILToTensor(),
                v2.RandomResizedCrop(224, antialias=True),
                v2.RandomHorizontalFlip(),
                v2.ToDtype(torch.float32, scale=True),
                v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
            ]
        )

        def read(path: str) -> Image.Image:
            with Image.open(path) as image:
                return image.convert("RGB")

        yield Kind(about, 64, chain, ImageFolder(str(root), transform, loader=read))


@contextlib.contextmanager
def arrays() -> Iterator[Kind]:
    pixels = np.random.default_rng(0).random((2048, 3, 128, 128), dtype=np.float32)
    labels = np.arange(2048)
    rows = torch.utils.data.TensorDataset(torch.from_numpy(pixels), torch.from_numpy(labels))
    yield Kind("arrays (3, 128, 128) in memory", 64, feedline.arrays(pixels, labels), rows)


def nap(number: Any) -> Any:  # noqa: ANN401 - as it comes
    time.sleep(Sleepy.seconds)
    return number


@contextlib.contextmanager
def sleep() -> Iterator[Kind]:
    numbers = feedline.arrays(np.arange(1 << 20)).map(nap)
    yield Kind("10 ms of sleep in a function", 64, numbers, Sleepy())


@contextlib.contextmanager
def volumes() -> Iterator[Kind]:
    with tempfile.TemporaryDirectory(prefix="feedline-bench-") as folder:
        files = [Path(folder) / f"scan{number}.nii.gz" for number in range(8)]
        for number, file in enumerate(files):
            write_nifti(file, scan((96, 160, 160), number)[0], (1.0, 1.0, 1.0))
        chain = feedline.volumes(folder).random_crop((64, 64, 64)).repeat(64)
        crops: ConcatDataset[torch.Tensor] = ConcatDataset([Crops(files, 64)] * 64)
        yield Kind("patches of 64 voxels a side, .nii.gz", 4, chain, crops)


@contextlib.contextmanager
def text() -> Iterator[Kind]:
    with review_lines(20_000) as (folder, texts):
        words = frequent_words(texts, 20_000)
        lines = feedline.text([folder / "train.txt", folder / "test.txt"], cache=folder / "tables")
        numbers = lines.vocabulary(feedline.Vocabulary(words)).truncate(256).pad(256)
        yield Kind("reviews by a vocabulary", 128, numbers, Looked(texts, words, 256), whole=True)


# Tables


def best(points: Iterable[Any], make: Maker, batch: int, seconds: float) -> tuple[Any, float]:
    """The fastest of some settings, and its samples per second."""
    rates = {}
    for point in points:
        loader = make(point)
        stream = Stream(loader, batch)
        stream.take(seconds / 3)
        rates[point] = stream.take(seconds)
        if isinstance(loader, feedline.Loader):
            loader.close()
        del stream, loader
    found = max(rates, key=rates.__getitem__)
    return found, rates[found]


def against(bench: Bench, kind: Kind) -> None:
    """From the worst start, against the grid's best and torch's."""
    seconds = 0.1 if bench.quick else 0.7

    def fixed(point: tuple[int, int]) -> feedline.Loader:
        return kind.ours(num_workers=point[0], prefetch=point[1])

    point, rate = best(GRID[:: 6 if bench.quick else 1], fixed, kind.batch, seconds)
    workers = (0, 2) if bench.quick else (0, 2, 4, 16)
    theirs, _ = best(workers, kind.theirs, kind.batch, 3 * seconds)
    loader = kind.ours(**WORST)
    auto = Stream(loader, kind.batch)
    auto.take(1.0 if bench.quick else PATIENCE)
    batches = max(4, round(2.0 * rate / kind.batch)) if not bench.quick else 2
    bench.hold(
        f"{kind.title}, batches of {kind.batch}: grid's best {point[0]} workers, prefetch "
        f"{point[1]}; torch's best {theirs} workers",
        {
            "grid": Stream(fixed(point), kind.batch).side(batches),
            "torch": Stream(kind.theirs(theirs), kind.batch).side(max(2, batches // 4)),
            "controller": auto.side(batches),
        },
        rounds=5,
        unchecked=ENDLESS,
        require=["controller/grid>=0.95", "controller/torch>=0.95"],
    )
    stats = loader.stats()
    print(loader.explain())
    peak = stats["memory"]["peak"] / BUDGET
    bench.require("peak of what is not delivered, of the budget", peak, at_most=1.05)


def still(bench: Bench) -> None:
    """What the controller costs where it has nothing to do."""
    with images() as kind:
        sides: dict[str, dict[str, Any]] = {
            "fixed": {"num_workers": 2, "prefetch": 4},
            "controller": {
                "num_workers": feedline.Auto(start=2),
                "prefetch": feedline.Auto(start=4),
            },
        }
        streams = {name: Stream(kind.ours(**given), kind.batch) for name, given in sides.items()}
        for stream in streams.values():
            stream.take(2.0)
        batches = bench.size(40, 2)
        bench.hold(
            f"{kind.title}: nothing to change",
            {name: stream.side(batches) for name, stream in streams.items()},
            rounds=11,
            unchecked=ENDLESS,
            require=["controller/fixed>=0.99"],
        )


def changes(bench: Bench) -> None:
    """Samples or steps become four times as slow or as fast."""
    seconds = 0.3 if bench.quick else 1.0
    # Seconds of a sample, and of a step of 64; both at first and later.
    cases = {
        "samples 4 x as slow": ((0.010, 0.08), (0.040, 0.08)),
        "samples 4 x as fast": ((0.040, 0.08), (0.010, 0.08)),
        "loop 4 x as fast": ((0.020, 0.16), (0.020, 0.04)),
        "loop 4 x as slow": ((0.020, 0.04), (0.020, 0.16)),
    }
    with sleep() as kind:
        for name, (first, later) in cases.items():
            loader = kind.ours(**WORST)
            auto = Stream(loader, kind.batch)
            Sleepy.seconds, auto.step = first
            auto.take(seconds if bench.quick else PATIENCE)
            Sleepy.seconds, auto.step = later
            auto.take(seconds if bench.quick else AGAIN)
            rate = auto.take(3 * seconds)
            ideal = min(kind.batch / later[1], 64 / later[0])
            print(f"{name}: {rate:.0f} samples/s, {loader.num_workers} workers")
            what = f"{name}, after {AGAIN:.0f} s, of what the loop or 64 workers allow"
            bench.require(what, rate / ideal, at_least=0.95)
            loader.close()
            Sleepy.seconds = 0.010


def main() -> None:
    bench = Bench(
        "controller", "the controller against fixed settings", [*KINDS, "still", "changes"]
    )
    makers = {"images": images, "arrays": arrays, "sleep": sleep, "volumes": volumes, "text": text}
    for table in bench.tables:
        if table == "still":
            still(bench)
        elif table == "changes":
            changes(bench)
        else:
            with makers[table]() as kind:
                against(bench, kind)
    bench.close()


if __name__ == "__main__":
    main()
