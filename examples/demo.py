"""The demonstration: make data, load it with feedline and with torch's DataLoader, compare.

Run by `make demo`. The data is one packed ``.npy`` file of images in a temporary folder. Then the
published experiment on the number of workers runs at a small size, with its table and report.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

import feedline

SAMPLES, SHAPE, BATCH, WORKERS, EPOCHS = 1024, (3, 224, 224), 64, 2, 3

# Where the experiment leaves its report.
REPORT = "target/demo/workers"


class Rows(torch.utils.data.Dataset):
    """The same file for torch, as one would write it."""

    def __init__(self, path: Path) -> None:
        self.rows = np.load(path, mmap_mode="r")

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.from_numpy(self.rows[index].copy())


def make(path: Path) -> None:
    """Write the packed file, a stretch of rows at a time."""
    rows = np.lib.format.open_memmap(path, "w+", np.float32, (SAMPLES, *SHAPE))
    rng = np.random.default_rng(0)
    for start in range(0, SAMPLES, 128):
        rows[start : start + 128] = rng.random((128, *SHAPE), np.float32)
        done = min(start + 128, SAMPLES)
        sys.stderr.write(f"\rmaking {path.name}: {done}/{SAMPLES} samples")
    sys.stderr.write("\n")


def epochs(name: str, loader: object) -> tuple[list[float], set[bytes]]:
    """Go through a loader, printing samples/s of each epoch; return them and the first rows."""
    rates, seen = [], set()
    for epoch in range(EPOCHS):
        began, samples = time.perf_counter(), 0
        for batch in loader:
            rows = batch[0] if isinstance(batch, tuple) else batch
            samples += len(rows)
            if epoch == 0:
                seen |= {row[0, 0, :8].numpy().tobytes() for row in rows}
        rates.append(samples / (time.perf_counter() - began))
        print(f"  {name:<10} epoch {epoch}: {rates[-1]:8.0f} samples/s  {bar(rates[-1])}")
    return rates, seen


def bar(rate: float) -> str:
    """Draw a rate: one block per 250 samples/s."""
    return "█" * max(1, round(rate / 250))


def main() -> None:
    """Make the data, load it both ways, say what came out."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "images.npy"
        make(path)
        size = path.stat().st_size / 1e6
        print(f"{SAMPLES} float32 samples of {SHAPE} ({size:.0f} MB), shuffled,")
        print(f"batches of {BATCH}, {WORKERS} workers, {EPOCHS} epochs\n")
        ours = feedline.Loader(
            feedline.npy(path),
            batch_size=BATCH,
            shuffle=True,
            num_workers=WORKERS,
            output="torch",
            epochs=EPOCHS,
            progress=True,
        )
        fast, seen = epochs("feedline", ours)
        torchs = torch.utils.data.DataLoader(
            Rows(path), BATCH, shuffle=True, num_workers=WORKERS, persistent_workers=True
        )
        slow, expected = epochs("torch", torchs)
        if seen != expected:
            sys.exit("the two loaders delivered different samples")
        times = np.median(fast[1:]) / np.median(slow[1:])
        print(f"\nThe same {len(seen)} samples came from both. After the first epoch feedline was")
        print(f"{times:.1f} times as fast. In its own words:")
        print(f"\n  {ours.explain()}\n")
    sys.stdout.flush()
    experiment = ["bench", "workers", "--quick", "--rounds", "2", "--fresh", "--out", REPORT]
    feedline_command = [sys.executable, "-m", "feedline", *experiment]
    sys.exit(subprocess.run(feedline_command, check=False).returncode)  # noqa: S603 - our own


if __name__ == "__main__":
    main()
