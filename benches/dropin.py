"""The drop-in against torch's DataLoader, on the user's own Python datasets.

Same datasets, same settings, same number of workers; what both deliver is compared byte by byte.
torch's sampler gives the order on both sides, and worker seeds are the same, so random
augmentations are the same as well.
"""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from PIL import Image
from tables.apart import apart
from tables.bench import Bench
from tables.epochs import digest, drain
from tables.main_process import Pictures
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import Dataset
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

from feedline.measure import Outcome
from feedline.torch import DataLoader

if TYPE_CHECKING:
    from collections.abc import Callable

    from feedline.measure import Run

PICTURE_BYTES = 3 * 224 * 224 * 4


class Rows(Dataset):
    """Tiny samples: eight numbers and a label."""

    def __init__(self, length: int) -> None:
        self.values = torch.arange(length * 8, dtype=torch.float32).view(length, 8)
        self.labels = [row % 10 for row in range(length)]

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.values[index], self.labels[index]


def side(
    kind: type[TorchLoader[Any]],
    dataset: Any,  # noqa: ANN401 - torch asks for two methods
    *,
    timed: int,
    checked: int,
    sample_bytes: int | None = None,
    **settings: Any,  # noqa: ANN401 - torch's own
) -> Callable[[Run], Outcome]:
    """Timed epochs of one loader, the first of which warms it up."""

    def measured(run: Run) -> Outcome:
        torch.manual_seed(1)
        loader = kind(dataset, persistent_workers=True, **settings)
        drain(loader)
        run.start()
        for _ in range(timed):
            drain(loader)
        run.stop()
        found = digest(itertools.islice(loader, checked))
        samples = timed * len(dataset)
        return Outcome(samples, found, sample_bytes and sample_bytes * samples)

    return measured


def pair(dataset: Any, **settings: Any) -> dict[str, Callable[[Run], Outcome]]:  # noqa: ANN401
    """Both loaders with the same settings."""
    return {
        "torch": side(TorchLoader, dataset, **settings),
        "feedline": side(DataLoader, dataset, **settings),
    }


def folder_of_pictures(folder: Path, count: int) -> None:
    """JPEG files of two classes, with the size and the detail of small photographs."""
    random = np.random.default_rng(0)
    for number in range(count):
        small = random.integers(0, 256, (12, 16, 3), dtype=np.uint8)
        picture = Image.fromarray(small).resize((400, 300), Image.Resampling.BICUBIC)
        place = folder / str(number % 2)
        place.mkdir(exist_ok=True)
        picture.save(place / f"{number:05}.jpg", quality=90)


def main() -> None:
    bench = Bench("dropin", "the drop-in against torch's DataLoader, on Python datasets")
    with tempfile.TemporaryDirectory(prefix="feedline-bench-") as folder:
        folder_of_pictures(Path(folder), bench.size(1024, 64))
        transforms = v2.Compose(
            [
                v2.RandomResizedCrop(224),
                v2.RandomHorizontalFlip(),
                v2.PILToTensor(),
                v2.ToDtype(torch.float32, scale=True),
                v2.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
            ]
        )
        bench.hold(
            "ImageFolder with torchvision's transforms, batches of 64, shuffled, 2 workers",
            pair(
                ImageFolder(folder, transforms),
                timed=1,
                checked=4,
                batch_size=64,
                shuffle=True,
                num_workers=2,
            ),
            require=["feedline/torch>=0.98"],
        )
    pictures = Pictures(128, bench.size(4096, 512))
    bench.hold(
        "samples of float32 (3, 224, 224) in memory, batches of 64, 2 workers",
        pair(
            pictures,
            timed=2,
            checked=4,
            sample_bytes=PICTURE_BYTES,
            batch_size=64,
            num_workers=2,
        ),
        require=["feedline/torch>=3"],
    )
    del pictures
    batches = str(bench.size(64, 8))
    bench.hold(
        "CPU time of the main process per batch of 64 x float32 (3, 224, 224), 2 workers",
        {
            "torch": apart("main_process.py", "torch", batches),
            "feedline": apart("main_process.py", "feedline", batches),
        },
        unit="batches",
        require=["main_cpu_us:feedline/torch<=0.5"],
    )
    bench.hold(
        "rows of 8 x float32 and a label, batches of 256, shuffled, 2 workers",
        pair(
            Rows(bench.size(256 * 1024, 16 * 1024)),
            timed=1,
            checked=16,
            batch_size=256,
            shuffle=True,
            num_workers=2,
        ),
        require=["feedline/torch>=1.8"],
    )
    strings = str(bench.size(1_000_000, 50_000))
    bench.hold(
        f"memory of a dataset of {int(strings):,} strings, 4 workers, 3 epochs",
        {
            "torch": apart("strings.py", "torch", strings),
            "feedline, processes": apart("strings.py", "process", strings),
            "feedline, threads": apart("strings.py", "thread", strings),
        },
        rounds=3,
        require=["pss_mib:feedline, threads/torch<=0.7", "growth:feedline, threads<=1.02"],
    )
    size = str(bench.size(200, 20))
    bench.hold(
        f"from iter() to the first batch: {size} MB of Python objects, 4 workers, spawn",
        {
            "torch": apart("start_up.py", "torch", size),
            "feedline": apart("start_up.py", "process", size),
        },
        rounds=3,
        require=["first_batch_s:feedline/torch<=0.833"],
    )
    bench.close()


if __name__ == "__main__":
    main()
