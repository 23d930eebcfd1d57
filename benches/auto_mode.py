"""`worker_mode="auto"` of the drop-in against the best of inline, threads and processes.

Five kinds of dataset: tiny rows, torchvision's pictures, Python that holds the interpreter's lock,
samples that sleep, large arrays. The loop does nothing but take batches, each kind for as long as
an epoch of a few seconds; workers stay from one epoch to the next.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from tables.bench import Bench
from tables.photos import class_folders
from torch.utils.data import Dataset
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

from feedline.measure import Outcome
from feedline.torch import DataLoader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from feedline.measure import Run

KINDS = ("rows", "pictures", "python", "sleep", "arrays")
WORKERS = 2


class Kind(NamedTuple):
    """A dataset, and how many samples a batch has."""

    title: str
    batch: int
    dataset: Dataset[Any]


class Rows(Dataset[tuple[torch.Tensor, int]]):
    """Views of a table in memory."""

    def __init__(self) -> None:
        self._rows = torch.arange(200_000 * 8, dtype=torch.float32).view(-1, 8)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self._rows[index], index


class Counting(Dataset[int]):
    """A millisecond of Python that never lets go of the interpreter's lock."""

    def __len__(self) -> int:
        return 2048

    def __getitem__(self, index: int) -> int:
        total = 0
        for number in range(20_000):
            total += number ^ index
        return total


class Sleeping(Dataset[int]):
    """Ten milliseconds that are nobody's."""

    def __len__(self) -> int:
        return 512

    def __getitem__(self, index: int) -> int:
        time.sleep(0.010)
        return index


class Large(Dataset[torch.Tensor]):
    """Arrays of 12 MB, made by NumPy, which lets go of the lock for some of it."""

    def __len__(self) -> int:
        return 128

    def __getitem__(self, index: int) -> torch.Tensor:
        values = np.arange(3 << 20, dtype=np.float32)
        np.sqrt(values, out=values)
        values += index
        return torch.from_numpy(values)


@contextlib.contextmanager
def pictures() -> Iterator[Kind]:
    with class_folders(512) as (root, about):
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

        yield Kind(f"torchvision, {about}", 64, ImageFolder(str(root), transform, loader=read))


@contextlib.contextmanager
def made(name: str) -> Iterator[Kind]:
    yield {
        "rows": Kind("tiny rows", 256, Rows()),
        "python": Kind("Python that holds the lock", 32, Counting()),
        "sleep": Kind("10 ms of sleep", 32, Sleeping()),
        "arrays": Kind("arrays of 12 MB", 4, Large()),
    }[name]


def side(kind: Kind, **settings: Any) -> Callable[[Run], Outcome]:  # noqa: ANN401 - the loader's
    """An epoch, after one that warms up; the loader stays."""
    loader = DataLoader(kind.dataset, kind.batch, shuffle=True, **settings)

    def epoch(run: Run) -> Outcome:
        run.start()
        batches = sum(1 for _ in loader)
        run.stop()
        return Outcome(batches * kind.batch)

    return epoch


def seconds_to_choose(kind: Kind) -> float:
    """How long it takes a fresh loader until it has chosen, and has workers."""
    loader = DataLoader(kind.dataset, kind.batch, num_workers=WORKERS, worker_mode="auto")
    began = time.perf_counter()
    iter(loader)
    return time.perf_counter() - began


def main() -> None:
    bench = Bench("auto_mode", "worker_mode=auto against each of the modes", KINDS)
    workers = {"num_workers": WORKERS, "persistent_workers": True}
    for name in bench.tables:
        with pictures() if name == "pictures" else made(name) as kind:
            sides = {
                "inline": side(kind),
                "threads": side(kind, worker_mode="thread", **workers),
                "processes": side(kind, worker_mode="process", **workers),
                "auto": side(kind, worker_mode="auto", **workers),
            }
            bench.require("seconds until it has chosen", seconds_to_choose(kind), at_most=2.0)
            bench.hold(
                f"{kind.title}, batches of {kind.batch}, {WORKERS} workers",
                sides,
                rounds=3,
                unchecked="orders are random; tests compare batches",
                require=[f"auto/{mode}>=0.95" for mode in ("inline", "threads", "processes")],
            )
    bench.close()


if __name__ == "__main__":
    main()
