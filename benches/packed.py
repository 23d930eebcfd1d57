"""A packed `.npy` file of 1024 samples, float32 (3, 224, 224), shuffled.

Against a bare memcpy of the same rows in the same order, by one thread into memory that is used
again and again, which is as fast as one thread can be; and against torch's DataLoader on the same
file. The file's pages are in the page cache.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import numpy as np
import torch
from tables.bench import Bench, photographs
from tables.epochs import SEED, WARM, Orders, digest, drain, feedline_side, torch_loader, torch_side

import feedline
from feedline.measure import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tables.epochs import GivenOrder

    from feedline.measure import Run

    Side = Callable[[Run], Outcome]


class Packed(torch.utils.data.Dataset):
    """Rows of the file as views; torch's collate copies them into the batch, once."""

    def __init__(self, path: Path) -> None:
        # Copy on write rather than read only: torch takes the views as they are, without a warning.
        self.rows = np.load(path, mmap_mode="c")

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.from_numpy(self.rows[index])


def memcpy(path: Path, orders: Orders) -> Side:
    """Rows in memory, copied by libc's memmove into two buffers in turn."""

    def epoch(
        rows: np.ndarray, buffers: list[np.ndarray], order: list[int]
    ) -> Iterator[np.ndarray]:
        size, source, copy = rows[0].nbytes, rows.ctypes.data, ctypes.memmove
        for number, start in enumerate(range(0, len(order), orders.batch_size)):
            buffer = buffers[number % len(buffers)]
            target = buffer.ctypes.data
            for index in order[start : start + orders.batch_size]:
                copy(target, source + index * size, size)
                target += size
            yield buffer

    def side(run: Run) -> Outcome:
        rows = np.load(path)
        buffers = [np.zeros((orders.batch_size, *rows.shape[1:]), rows.dtype) for _ in range(2)]
        for order in orders.epochs[:WARM]:
            drain(epoch(rows, buffers, order))
        run.start()
        for order in orders.epochs[WARM : WARM + orders.timed]:
            drain(epoch(rows, buffers, order))
        run.stop()
        samples = orders.timed * orders.samples
        checked = digest(epoch(rows, buffers, orders.checked))
        return Outcome(samples, checked, samples * rows[0].nbytes)

    return side


def table(bench: Bench, path: Path, samples: int, row_bytes: int, batch_size: int) -> None:
    orders = Orders.of(samples, batch_size, timed=bench.size(6, 1))

    def ours(workers: int) -> Side:
        def make() -> feedline.Loader:
            return feedline.Loader(
                feedline.npy(path),
                batch_size=batch_size,
                shuffle=True,
                seed=SEED,
                num_workers=workers,
                output="torch",
            )

        return feedline_side(make, orders, row_bytes)

    def theirs(prefetch: int) -> Side:
        def make(sampler: GivenOrder) -> torch.utils.data.DataLoader:
            return torch_loader(Packed(path), sampler, workers=2, prefetch=prefetch)

        return torch_side(make, orders, row_bytes)

    bench.hold(
        f"packed .npy of {samples} x float32 (3, 224, 224), batches of {batch_size}, shuffled, "
        "page cache warm",
        {
            "memcpy": memcpy(path, orders),
            "feedline, 1 worker": ours(1),
            "feedline, 2 workers": ours(2),
            "torch, 2 workers": theirs(2),
            "torch, 2 workers, prefetch 4": theirs(4),
        },
        require=["feedline, 1 worker/memcpy>=0.75", "feedline, 2 workers/memcpy>=1"],
    )


def main() -> None:
    bench = Bench("packed", "one packed .npy file against memcpy and torch's DataLoader")
    samples = 1024
    with photographs(samples) as (pixels, folder):
        path = folder / "packed.npy"
        np.save(path, pixels)
        row_bytes = pixels[0].nbytes
        # Only the file is left: each side reads it as it does.
        del pixels
        for batch_size in (64, 256):
            table(bench, path, samples, row_bytes, batch_size)
    bench.close()


if __name__ == "__main__":
    main()
