"""Trains with Hugging Face's Accelerate: `prepare` keeps feedline's DataLoader, and its place.

Training stops in the middle of an epoch, and a second run goes on from what `save_state` has saved,
with exactly the photographs that were left.

    python examples/train_accelerate.py [--quick] [--out FOLDER]

Needs: feedline, torch, accelerate, pillow, matplotlib.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import drawing
import photographs
import torch
from accelerate import Accelerator, DataLoaderConfiguration
from torch import nn

import feedline
from feedline.torch import DataLoader

SIDE, BATCH = 64, 16


class Run:
    """What `prepare` returns for a network, an optimiser and a loader, all of them new."""

    def __init__(self, folder: Path) -> None:
        settings = DataLoaderConfiguration(use_stateful_dataloader=True)
        self.accelerator = Accelerator(cpu=True, dataloader_config=settings)
        torch.manual_seed(0)

        def stage(inputs: int, outputs: int) -> list[nn.Module]:
            convolution = nn.Conv2d(inputs, outputs, 3, stride=2, padding=1, bias=False)
            return [convolution, nn.BatchNorm2d(outputs), nn.ReLU()]

        network = nn.Sequential(
            *stage(3, 16),
            *stage(16, 32),
            *stage(32, 64),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(64, len(photographs.CLASSES)),
        )
        pictures = feedline.images(folder).random_resized_crop(SIDE, scale=(0.35, 1.0)).flip()
        loader: Any = DataLoader(
            pictures.normalize(), batch_size=BATCH, shuffle=True, num_workers=2, seed=0
        )
        self.network, self.optimizer, self.loader = self.accelerator.prepare(
            network, torch.optim.Adam(network.parameters(), lr=0.003), loader
        )

    def train(self, epochs: int, *, stop: int, checkpoint: Path) -> list[float]:
        """Train until so many steps are done, then save; return the losses."""
        losses = []
        for _ in range(epochs):
            for x, y in self.loader:
                loss = nn.functional.cross_entropy(self.network(x), y)
                self.accelerator.backward(loss)
                self.optimizer.step()
                self.optimizer.zero_grad()
                losses.append(loss.item())
                if len(losses) == stop:
                    self.accelerator.save_state(str(checkpoint))
                    return losses
        return losses


def accuracy(network: nn.Module, folder: Path) -> float:
    """Return which share of test photographs is named rightly."""
    pictures = feedline.images(folder).resize(76).center_crop(SIDE).normalize()
    network.eval()
    right = total = 0
    with torch.no_grad():
        for x, y in DataLoader(pictures, batch_size=BATCH, num_workers=2):
            right += int((network(x).argmax(1) == y).sum())
            total += len(y)
    return right / total


def draw(whole: list[float], first: list[float], rest: list[float], path: Path) -> None:
    """Draw the losses of one run, and of two that share them."""
    figure, (left, right) = drawing.figure("Trained with Accelerate")
    left.plot(whole, color=drawing.BLUE)
    left.set(title="In one go", xlabel="step", ylabel="cross-entropy")
    right.plot(range(len(first)), first, color=drawing.BLUE)
    right.plot(range(len(first), len(first) + len(rest)), rest, color=drawing.BLUE)
    right.axvline(len(first), color=drawing.GRAY, linestyle="--")
    right.text(len(first), max(first), " stopped, resumed", va="top", color="#6b7280")
    right.set(title="In two", xlabel="step")
    drawing.save(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a network on photographs with Accelerate.")
    parser.add_argument("--quick", action="store_true", help="fewer photographs and epochs")
    parser.add_argument("--out", type=Path, default=Path("target/examples"), help="for pictures")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)  # or the network and the workers would fight for the cores

    folder = photographs.make(
        arguments.out, photographs.QUICK if arguments.quick else photographs.FULL
    )
    epochs = 3 if arguments.quick else 8
    checkpoint = arguments.out / "accelerate"
    run = Run(folder / "train")
    print(f"prepare keeps {type(run.loader.base_dataloader).__module__}")
    steps = epochs * len(run.loader)
    whole = run.train(epochs, stop=0, checkpoint=checkpoint)
    print(f"accuracy on test photographs: {accuracy(run.network, folder / 'test'):.1%}")

    stop = steps // 2 + len(run.loader) // 3  # in the middle of an epoch
    first = Run(folder / "train").train(epochs, stop=stop, checkpoint=checkpoint)
    resumed = Run(folder / "train")
    resumed.accelerator.load_state(str(checkpoint))
    left = epochs - stop // len(resumed.loader)
    rest = resumed.train(left, stop=0, checkpoint=checkpoint)
    print(f"stopped after step {stop} of {steps}, {len(rest)} more after resuming")
    if first + rest == whole:
        print("the losses of a run in one go, bit by bit")
    draw(whole, first, rest, arguments.out / "train_accelerate.png")


if __name__ == "__main__":
    main()
