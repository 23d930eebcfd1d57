"""An ordinary training script: a Dataset, torch's DataLoader, a small network.

It knows nothing of feedline; `dropin.py` runs it as it is, and with one import changed.

    python examples/plain_script.py PIXELS.npy LABELS.npy [--epochs N] [--log FILE]

Needs: torch, numpy.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader


class Photographs(torch.utils.data.Dataset[tuple[torch.Tensor, int]]):
    """Pictures in one packed file, mirrored at random and with some noise."""

    def __init__(self, pixels: Path, labels: Path) -> None:
        self.pixels = np.load(pixels, mmap_mode="r")
        self.labels = np.load(labels)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        picture = torch.from_numpy(self.pixels[index].copy()).float() / 127.5 - 1
        if torch.rand(()) < 0.5:
            picture = picture.flip(-1)
        return picture, int(self.labels[index])


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a small network on packed pictures.")
    parser.add_argument("pixels", type=Path, help="uint8 of shape (samples, 3, height, width)")
    parser.add_argument("labels", type=Path, help="int64 of shape (samples,)")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--log", type=Path, help="write losses and times here, as JSON")
    arguments = parser.parse_args()

    torch.set_num_threads(1)  # or the network and the workers would fight for the cores
    torch.manual_seed(0)
    dataset = Photographs(arguments.pixels, arguments.labels)
    loader = DataLoader(
        dataset, batch_size=64, shuffle=True, num_workers=2, persistent_workers=True
    )
    model = nn.Sequential(
        nn.Conv2d(3, 8, 7, stride=4),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Linear(256, 4),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    losses, seconds = [], []
    for epoch in range(arguments.epochs):
        began = time.perf_counter()
        for pictures, labels in loader:
            loss = nn.functional.cross_entropy(model(pictures), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        seconds.append(time.perf_counter() - began)
        print(f"  epoch {epoch}: loss {losses[-1]:.4f}, {seconds[-1]:.2f} s", flush=True)
    if arguments.log:
        arguments.log.write_text(json.dumps({"losses": losses, "seconds": seconds}))


if __name__ == "__main__":
    main()
