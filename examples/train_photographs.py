"""Trains a small network on photographs, with feedline and with torch's DataLoader.

Both get the same files, transforms, network, batch size and number of workers. What differs is who
decodes: native threads that write into the batch, or processes with Pillow and torchvision.

    python examples/train_photographs.py [--quick] [--out FOLDER]

Needs: feedline, torch, torchvision, pillow, matplotlib.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import drawing
import photographs
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

import feedline

if TYPE_CHECKING:
    from collections.abc import Iterable

SIDE, BATCH, WORKERS = 64, 16, 2
SCALE = (0.35, 1.0)  # how much of a photograph a random crop takes
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # ImageNet's, feedline's default


def with_feedline(folder: Path) -> tuple[Any, Any]:
    """Make the loaders for training and testing."""
    crops = feedline.images(folder / "train").random_resized_crop(SIDE, scale=SCALE).flip()
    middles = feedline.images(folder / "test").resize(76).center_crop(SIDE)
    options: dict[str, Any] = {"batch_size": BATCH, "num_workers": WORKERS, "output": "torch"}
    train = feedline.Loader(crops.normalize(), shuffle=True, seed=0, **options)
    return train, feedline.Loader(middles.normalize(), **options)


def with_torch(folder: Path) -> tuple[Any, Any]:
    """Make the same loaders of torch's and torchvision's parts."""
    last = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)]
    crops = v2.Compose([v2.RandomResizedCrop(SIDE, SCALE), v2.RandomHorizontalFlip(), *last])
    middles = v2.Compose([v2.Resize(76), v2.CenterCrop(SIDE), *last])
    options: dict[str, Any] = {"num_workers": WORKERS, "persistent_workers": True}
    train = DataLoader(ImageFolder(folder / "train", crops), BATCH, shuffle=True, **options)
    return train, DataLoader(ImageFolder(folder / "test", middles), BATCH, **options)


def network() -> nn.Module:
    """Make a small convolutional network, with the same weights each time."""
    torch.manual_seed(0)

    def stage(inputs: int, outputs: int) -> list[nn.Module]:
        convolution = nn.Conv2d(inputs, outputs, 3, stride=2, padding=1, bias=False)
        return [convolution, nn.BatchNorm2d(outputs), nn.ReLU()]

    layers = [*stage(3, 16), *stage(16, 32), *stage(32, 64)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 4))


@dataclass
class History:
    """What happened, epoch by epoch."""

    accuracy: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    waited: list[float] = field(default_factory=list)


def train(name: str, loaders: tuple[Any, Any], epochs: int) -> History:
    """Train a network, timing each epoch and how long it waited for batches."""
    model, history = network(), History()
    batches, test = loaders
    optimizer = torch.optim.Adam(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.005, epochs * len(batches))
    for epoch in range(epochs):
        model.train()
        began, waited = time.perf_counter(), 0.0
        asked = began
        for x, y in batches:
            waited += time.perf_counter() - asked
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            schedule.step()
            asked = time.perf_counter()
        history.seconds.append(asked - began)
        history.waited.append(waited)
        history.accuracy.append(accuracy(model, test))
        print(
            f"  {name:<8} epoch {epoch}: {history.seconds[-1]:5.1f} s, "
            f"{waited / history.seconds[-1]:4.0%} of it waiting, "
            f"accuracy {history.accuracy[-1]:.1%}"
        )
    return history


def accuracy(model: nn.Module, batches: Iterable[tuple[torch.Tensor, torch.Tensor]]) -> float:
    """Say which share of the test photographs the network names rightly."""
    model.eval()
    with torch.no_grad():
        right = [(model(x).argmax(1) == y).float() for x, y in batches]
    return float(torch.cat(right).mean())


def draw(histories: dict[str, History], path: Path) -> None:
    """Draw accuracies over epochs, and where the time of an epoch went."""
    figure, (left, right) = drawing.figure("The same network on the same photographs")
    for (name, history), colour in zip(
        histories.items(), (drawing.BLUE, drawing.ORANGE), strict=True
    ):
        epochs = range(1, len(history.accuracy) + 1)
        left.plot(epochs, [100 * a for a in history.accuracy], "o-", color=colour, label=name)
        count = len(history.seconds)
        seconds, waited = sum(history.seconds) / count, sum(history.waited) / count
        right.barh(name, seconds - waited, color=colour, height=0.5)
        right.barh(name, waited, left=seconds - waited, color=colour, alpha=0.35, height=0.5)
        right.text(seconds, name, f" {seconds:.1f} s", va="center")
    left.set(title="Accuracy on test photographs", xlabel="epoch", ylabel="%", ylim=(0, 103))
    left.legend(loc="lower right")
    right.set(title="Time per epoch: training, waiting (pale)", xlabel="seconds")
    right.margins(x=0.15)
    right.invert_yaxis()
    drawing.save(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Train on photographs, with feedline and with torch."
    )
    parser.add_argument("--quick", action="store_true", help="fewer photographs and epochs")
    parser.add_argument("--out", type=Path, default=Path("target/examples"), help="for pictures")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)  # or the network and the workers would fight for the cores
    count = photographs.QUICK if arguments.quick else photographs.FULL
    folder = photographs.make(arguments.out, count)
    epochs = 5 if arguments.quick else 8
    print(f"{count} photographs, batches of {BATCH}, {WORKERS} workers, {epochs} epochs")
    histories = {
        "feedline": train("feedline", with_feedline(folder), epochs),
        "torch": train("torch", with_torch(folder), epochs),
    }
    ours, theirs = (sum(history.seconds) for history in histories.values())
    print(f"trained in {ours:.1f} s with feedline and in {theirs:.1f} s with torch's DataLoader")
    draw(histories, arguments.out / "train_photographs.png")


if __name__ == "__main__":
    main()
