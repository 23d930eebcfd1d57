"""The demonstration: load photographs and packed arrays with feedline and with torch, compare.

Run by `make demo`. Makes its data itself, in a folder that is gone afterwards; then runs the
published experiment on the number of workers at a small size. Pictures and report are in
``target/demo``.

Needs: feedline, torch, torchvision, pillow, matplotlib.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import drawing
import numpy as np
import photographs
import torch
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

import feedline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

BATCH, WORKERS, EPOCHS = 64, 2, 3
SHAPE = (3, 224, 224)
Rates = dict[str, float]


class Rows(torch.utils.data.Dataset[tuple[torch.Tensor]]):
    """A packed file for torch, as one would write it."""

    def __init__(self, path: Path) -> None:
        self.rows = np.load(path, mmap_mode="r")

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[torch.Tensor]:
        return (torch.from_numpy(self.rows[index].copy()),)


def of_feedline(pipeline: feedline.Pipeline) -> feedline.Loader:
    """Make feedline's loader with the settings of both."""
    settings: dict[str, Any] = {"batch_size": BATCH, "num_workers": WORKERS, "epochs": EPOCHS}
    return feedline.Loader(pipeline, shuffle=True, output="torch", progress=True, **settings)


def of_torch(dataset: torch.utils.data.Dataset[Any]) -> DataLoader[Any]:
    """Make torch's loader with the settings of both."""
    return DataLoader(dataset, BATCH, shuffle=True, num_workers=WORKERS, persistent_workers=True)


def epochs(
    name: str, loader: Iterable[Any], key: Callable[[Any], Iterable[Any]]
) -> tuple[float, Counter[Any]]:
    """Go through a loader; returns the median samples/s after the first epoch, and its keys."""
    rates, seen = [], Counter[Any]()
    for epoch in range(EPOCHS):
        began, samples = time.perf_counter(), 0
        for batch in loader:
            keys = list(key(batch))
            samples += len(keys)
            if epoch == 0:
                seen.update(keys)
        rates.append(samples / (time.perf_counter() - began))
        print(f"  {name:<9} epoch {epoch}: {rates[-1]:7.0f} samples/s")
    return float(np.median(rates[1:])), seen


def compare(
    ours: feedline.Loader, torchs: DataLoader[Any], key: Callable[[Any], Iterable[Any]]
) -> Rates:
    """Time both loaders, and end the program if they did not deliver the same samples."""
    fast, seen = epochs("feedline", ours, key)
    slow, expected = epochs("torch", torchs, key)
    if seen != expected:
        sys.exit("the two loaders delivered different samples")
    print(f"  {ours.explain()}\n")
    return {"feedline": fast, "torch": slow}


def load_photographs(out: Path, count: int) -> tuple[Rates, list[np.ndarray]]:
    """Compare on JPEG files, with crops as for training; returns some pictures, too."""
    folder = photographs.make(out, count) / "train"
    print(f"{count} photographs of 500 x 375: crop at random to 224 x 224, mirror, normalise")
    crops = feedline.images(folder).random_resized_crop(224).flip()
    last = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize((0.5,), (0.25,))]
    transform = v2.Compose([v2.RandomResizedCrop(224), v2.RandomHorizontalFlip(), *last])
    ours = of_feedline(crops.normalize(0.5, 0.25))
    rates = compare(ours, of_torch(ImageFolder(folder, transform)), lambda xy: xy[1].tolist())
    shown = [pixels for pixels, _ in (crops.layout("hwc")[i * count // 4] for i in range(4))]
    return rates, shown


def load_packed(out: Path, count: int) -> Rates:
    """Compare on one packed ``.npy`` file, where nothing is to be decoded."""
    path = out / "rows.npy"
    rows = np.lib.format.open_memmap(path, "w+", np.float32, (count, *SHAPE))
    for start in range(0, count, 128):  # a stretch at a time, so that it needs little memory
        part = rows[start : start + 128]
        part[:] = np.random.default_rng(start).random(part.shape, np.float32)
    print(f"{count} packed float32 samples of {SHAPE}, {path.stat().st_size / 1e6:.0f} MB")

    ours, torchs = of_feedline(feedline.npy(path)), of_torch(Rows(path))
    # Eight numbers tell a row from all others.
    return compare(ours, torchs, lambda rows: (row[0, 0, :8].numpy().tobytes() for row in rows[0]))


def draw(results: dict[str, Rates], shown: list[np.ndarray], path: Path) -> None:
    """Draw what a network gets, and how fast."""
    figure, axes = drawing.figure("make demo", 1 + len(results), figsize=(11, 3.4))
    axes[0].set_axis_off()
    axes[0].set_title("Photographs, as a network gets them")
    for i, pixels in enumerate(shown):
        place = axes[0].inset_axes((i % 2 / 2, 0.5 - i // 2 / 2, 0.48, 0.48))
        place.imshow(pixels)
        place.set_axis_off()
    for axis, (name, rates) in zip(axes[1:], results.items(), strict=True):
        bars = axis.bar(rates.keys(), rates.values(), color=(drawing.BLUE, drawing.ORANGE))
        axis.bar_label(bars, fmt="{:.0f}")
        axis.grid(visible=False)
        axis.set(title=name, ylabel="samples/s")
        axis.margins(y=0.12)
    drawing.save(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description="Load data with feedline and torch, compare.")
    parser.add_argument("--quick", action="store_true", help="less data, and no experiment")
    parser.add_argument("--out", type=Path, default=Path("target/demo"), help="for the pictures")
    arguments = parser.parse_args()
    photos, rows = (64, 128) if arguments.quick else (480, 1024)
    print(f"shuffled, batches of {BATCH}, {WORKERS} workers, {EPOCHS} epochs\n")
    with tempfile.TemporaryDirectory() as folder:
        photo_rates, shown = load_photographs(Path(folder), photos)
        results = {"Photographs": photo_rates, "Packed arrays": load_packed(Path(folder), rows)}
    report, status = arguments.out / "workers", 0
    if not arguments.quick:
        sys.stdout.flush()
        command = [sys.executable, "-m", "feedline", "bench", "workers", "--quick", "--fresh"]
        command += ["--rounds", "2", "--out", str(report)]
        status = subprocess.run(command, check=False).returncode  # noqa: S603 - our own

    print("\nIn short: the same samples from both, and per second after the first epoch")
    for name, rates in results.items():
        ours, torchs = rates["feedline"], rates["torch"]
        times = f"{ours / torchs:.1f} times as many"
        print(f"  {name:<14} feedline {ours:6.0f}   torch {torchs:6.0f}   {times}")
    draw(results, shown, arguments.out / "demo.png")
    if report.exists():
        print(f"report on the number of workers: {report / 'report.html'}")
    sys.exit(status)


if __name__ == "__main__":
    main()
