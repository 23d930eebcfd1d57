"""Trains a small 3-D U-Net to find an organ and its lesions in scans.

Scans lie in gzip files with voxels of 2 x 1 x 1 mm. The loader's threads inflate what a patch
needs, resample it to 1.5 mm, cut it out around the foreground in half of the cases, and augment
it as nnU-Net does by default. After each epoch the scans of a test set are segmented.

    python examples/train_volumes.py [--quick] [--out FOLDER]

Needs: feedline, torch, matplotlib.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import drawing
import torch
from torch import nn
from torch.nn import functional

import feedline
import scans

if TYPE_CHECKING:
    from collections.abc import Iterable

CLASSES = ("background", "organ", "lesions")
PATCH, BATCH, WORKERS = 32, 4, 2
SPACING = 1.5  # mm


def loaders(folder: Path) -> tuple[Any, Any]:
    """Make the loaders for training and testing."""
    train, test = (
        feedline.volumes(folder / part / "images", folder / part / "masks", cache=folder / "cache")
        for part in ("train", "test")
    )
    patches = train.resample(SPACING).random_crop(PATCH, foreground=0.5).nnunet_augment().zscore()
    middles = test.resample(SPACING).center_crop(40).zscore()
    options: dict[str, Any] = {"batch_size": BATCH, "num_workers": WORKERS, "output": "torch"}
    batches = feedline.Loader(patches, shuffle=True, seed=0, **options)
    return batches, feedline.Loader(middles, **options)


def twice(inputs: int, outputs: int) -> nn.Sequential:
    """Make two convolutions, each with normalisation."""
    layers: list[nn.Module] = []
    for channels in (inputs, outputs):
        convolution = nn.Conv3d(channels, outputs, 3, padding=1, bias=False)
        layers += [convolution, nn.InstanceNorm3d(outputs, affine=True), nn.LeakyReLU(0.01)]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """Three levels: down by halves of the resolution, up again with what was seen there."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([twice(1, 8), twice(8, 16), twice(16, 32)])
        self.up = nn.ModuleList([twice(32 + 16, 16), twice(16 + 8, 8)])
        self.last = nn.Conv3d(8, len(CLASSES), 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        seen = []
        for level, down in enumerate(self.down):
            x = down(functional.max_pool3d(x, 2) if level else x)
            seen.append(x)
        for up, beside in zip(self.up, reversed(seen[:-1]), strict=True):
            x = functional.interpolate(x, scale_factor=2, mode="nearest")
            x = up(torch.cat([x, beside], 1))
        return self.last(x)


def loss_of(scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return cross-entropy and one minus soft Dice of the classes but the background."""
    right = functional.one_hot(mask, len(CLASSES)).movedim(-1, 1).float()
    shares = scores.softmax(1)
    axes = (0, 2, 3, 4)
    overlap, sizes = (shares * right).sum(axes), shares.sum(axes) + right.sum(axes)
    dice = ((2 * overlap + 1) / (sizes + 1))[1:].mean()
    return functional.cross_entropy(scores, mask) + 1 - dice


@dataclass
class History:
    """What happened: losses by step, Dice by epoch and class."""

    loss: list[float] = field(default_factory=list)
    dice: list[list[float]] = field(default_factory=list)
    seconds: float = 0.0
    waited: float = 0.0


def train(model: nn.Module, batches: Any, test: Any, epochs: int) -> History:  # noqa: ANN401 - loaders
    """Train, timing how long the loop waited for batches."""
    history = History()
    optimizer = torch.optim.Adam(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.01, epochs * len(batches))
    for epoch in range(epochs):
        model.train()
        began = asked = time.perf_counter()
        for image, mask in batches:
            history.waited += time.perf_counter() - asked
            optimizer.zero_grad()
            image = image.to(memory_format=torch.channels_last_3d)
            loss = loss_of(model(image), mask.long())
            loss.backward()
            optimizer.step()
            schedule.step()
            history.loss.append(loss.item())
            asked = time.perf_counter()
        history.seconds += asked - began
        history.dice.append(dice(model, test))
        organ, lesions = history.dice[-1]
        print(
            f"  epoch {epoch}: loss {history.loss[-1]:.3f}, Dice of the organ {organ:.1%}, "
            f"of lesions {lesions:.1%}"
        )
    return history


def dice(model: nn.Module, batches: Iterable[Any]) -> list[float]:
    """Return twice the overlap over the sum of sizes, for each class, of all test scans."""
    model.eval()
    overlap, sizes = torch.zeros(len(CLASSES)), torch.zeros(len(CLASSES))
    with torch.no_grad():
        for image, mask in batches:
            found = model(image).argmax(1)
            for label in range(len(CLASSES)):
                ours, theirs = found == label, mask == label
                overlap[label] += (ours & theirs).sum()
                sizes[label] += ours.sum() + theirs.sum()
    return (2 * overlap / sizes).tolist()[1:]


def draw(history: History, model: nn.Module, test: Any, path: Path) -> None:  # noqa: ANN401 - a loader
    """Draw losses, Dice, and a slice of a test scan with what is there and what was found."""
    figure, (left, middle, right) = drawing.figure(
        "A 3-D U-Net on scans that feedline reads, resamples and augments", 3, figsize=(11, 3.6)
    )
    left.plot(history.loss, color=drawing.GRAY, linewidth=0.8)
    width = max(len(history.loss) // 20, 1)
    means = [sum(history.loss[i : i + width]) / width for i in range(len(history.loss) - width + 1)]
    left.plot([i + width / 2 for i in range(len(means))], means, color=drawing.BLUE)
    left.set(title="Loss on training patches", xlabel="step", ylim=(0, None))
    epochs = range(1, len(history.dice) + 1)
    for values, name, colour in zip(
        zip(*history.dice, strict=True), CLASSES[1:], (drawing.BLUE, drawing.ORANGE), strict=True
    ):
        middle.plot(epochs, [100 * value for value in values], "o-", color=colour, label=name)
    middle.set(title="Dice on test scans", xlabel="epoch", ylabel="%", ylim=(0, 103))
    middle.legend(loc="lower right")
    image, mask = next(iter(test))
    with torch.no_grad():
        found = model(image[:1]).argmax(1)[0]
    plane = int((mask[0] == 2).sum((1, 2)).argmax())
    right.imshow(image[0, 0, plane], cmap="gray", vmin=-2, vmax=2)
    for label, colour in ((1, drawing.BLUE), (2, drawing.ORANGE)):
        for voxels, style in ((mask[0, plane], "solid"), (found[plane], "dotted")):
            if (voxels == label).any():
                lines = (voxels == label).float()
                right.contour(lines, [0.5], colors=colour, linestyles=style, linewidths=1.4)
    right.set(title="True and found (dotted)")
    right.set_axis_off()
    drawing.save(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a 3-D U-Net on scans.")
    parser.add_argument("--quick", action="store_true", help="fewer scans and epochs")
    parser.add_argument("--out", type=Path, default=Path("target/examples"), help="for pictures")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    torch.set_num_threads(1)  # or the network and the workers would fight for the cores
    count = scans.QUICK if arguments.quick else scans.FULL
    folder = scans.make(arguments.out, count)
    epochs = 8 if arguments.quick else 20
    batches, test = loaders(folder)
    print(f"{count} scans, patches of {PATCH}, batches of {BATCH}, {WORKERS} workers")
    # Channels last: torch's convolutions on a CPU are faster by a third that way.
    model = UNet().to(memory_format=torch.channels_last_3d)
    history = train(model, batches, test, epochs)
    share = history.waited / history.seconds
    print(f"trained in {history.seconds:.1f} s, {share:.0%} of it waiting for batches")
    draw(history, model, test, arguments.out / "train_volumes.png")


if __name__ == "__main__":
    main()
