"""One `.npy` file per sample, 1024 of float32 (3, 224, 224), shuffled: feedline against torch.

The files' pages are in the page cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from tables.bench import Bench, photographs
from tables.epochs import SEED, Orders, feedline_side, torch_loader, torch_side

import feedline

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tables.epochs import GivenOrder

    from feedline.measure import Outcome, Run

BATCH = 64


class Folder(torch.utils.data.Dataset):
    """The files of a folder in the order of their names."""

    def __init__(self, folder: Path) -> None:
        self.paths = sorted(str(path) for path in folder.iterdir())

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.from_numpy(np.load(self.paths[index]))


def main() -> None:
    bench = Bench("folder", "one .npy file per sample against torch's DataLoader")
    samples = 1024
    with photographs(samples) as (pixels, folder):
        for number, sample in enumerate(pixels):
            np.save(folder / f"{number:05}.npy", sample)
        row_bytes = pixels[0].nbytes
        del pixels
        orders = Orders.of(samples, BATCH, timed=bench.size(6, 1))

        def ours() -> feedline.Loader:
            return feedline.Loader(
                feedline.npy(folder),
                batch_size=BATCH,
                shuffle=True,
                seed=SEED,
                num_workers=2,
                output="torch",
            )

        def theirs(prefetch: int) -> Callable[[Run], Outcome]:
            def make(sampler: GivenOrder) -> torch.utils.data.DataLoader:
                return torch_loader(Folder(folder), sampler, workers=2, prefetch=prefetch)

            return torch_side(make, orders, row_bytes)

        bench.hold(
            f"{samples} .npy files of float32 (3, 224, 224), batches of {BATCH}, shuffled, "
            "2 workers, page cache warm",
            {
                "torch": theirs(2),
                "torch, prefetch 4": theirs(4),
                "feedline": feedline_side(ours, orders, row_bytes),
            },
            require=["feedline/torch>=4", "feedline/torch, prefetch 4>=4"],
        )
    bench.close()


if __name__ == "__main__":
    main()
