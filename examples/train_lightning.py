"""Trains with Lightning: a feedline.Loader goes where a DataLoader goes.

Lightning saves the loader's position in its checkpoints. So training stops in the middle of an
epoch here, and a second trainer goes on with exactly the photographs that were left.

    python examples/train_lightning.py [--quick] [--out FOLDER]

Needs: feedline, torch, lightning, pillow, matplotlib.
"""

from __future__ import annotations

import argparse
import logging
import warnings
from pathlib import Path
from typing import Any

import drawing
import lightning.pytorch as pl
import numpy as np
import photographs
import torch
from torch import nn

import feedline

SIDE, BATCH = 64, 16


class Network(pl.LightningModule):
    """A small convolutional network that counts what it confuses."""

    def __init__(self) -> None:
        super().__init__()

        def stage(inputs: int, outputs: int) -> list[nn.Module]:
            convolution = nn.Conv2d(inputs, outputs, 3, stride=2, padding=1, bias=False)
            return [convolution, nn.BatchNorm2d(outputs), nn.ReLU()]

        layers = [*stage(3, 16), *stage(16, 32), *stage(32, 64)]
        self.layers = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.last = nn.Linear(64, len(photographs.CLASSES))
        self.losses: list[float] = []
        self.confusion = np.zeros((len(photographs.CLASSES),) * 2, int)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.last(self.layers(x))
        return scores

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], _: int) -> torch.Tensor:
        x, y = batch
        loss = nn.functional.cross_entropy(self(x), y)
        self.losses.append(loss.item())
        return loss

    def on_validation_epoch_start(self) -> None:
        self.confusion[:] = 0

    def validation_step(self, batch: tuple[torch.Tensor, torch.Tensor], _: int) -> None:
        x, y = batch
        np.add.at(self.confusion, (y.numpy(), self(x).argmax(1).numpy()), 1)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.003)


def loader(folder: Path, *, training: bool) -> feedline.Loader:
    """Make the loader of a folder of photographs: random crops to train, middles to test."""
    pictures = feedline.images(folder)
    if training:
        pictures = pictures.random_resized_crop(SIDE, scale=(0.35, 1.0)).flip()
    else:
        pictures = pictures.resize(76).center_crop(SIDE)
    return feedline.Loader(pictures.normalize(), batch_size=BATCH, shuffle=training, output="torch")


def trainer(out: Path, **settings: Any) -> pl.Trainer:  # noqa: ANN401 - Lightning's own
    """Make a trainer that prints little."""
    return pl.Trainer(
        accelerator="cpu",
        default_root_dir=out,
        enable_checkpointing=False,
        enable_model_summary=False,
        enable_progress_bar=False,
        logger=False,
        **settings,
    )


def draw(network: Network, stopped: int, path: Path) -> None:
    """Draw the loss across the interruption, and what was taken for what."""
    figure, (left, right) = drawing.figure("Trained with Lightning")
    left.plot(network.losses, color=drawing.BLUE)
    left.axvline(stopped, color=drawing.GRAY, linestyle="--")
    left.text(stopped, max(network.losses), " stopped, resumed", va="top", color="#6b7280")
    left.set(title="Loss", xlabel="step", ylabel="cross-entropy")
    names = photographs.CLASSES
    right.imshow(network.confusion, cmap="Blues")
    right.grid(visible=False)
    right.set(title="Test photographs", ylabel="is", xlabel="taken for")
    right.set_xticks(range(len(names)), names)
    right.set_yticks(range(len(names)), names)
    most = network.confusion.max()
    for (row, column), count in np.ndenumerate(network.confusion):
        colour = "white" if count > most / 2 else "black"
        right.text(column, row, str(count), ha="center", va="center", color=colour)
    drawing.save(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a network on photographs with Lightning.")
    parser.add_argument("--quick", action="store_true", help="fewer photographs and epochs")
    parser.add_argument("--out", type=Path, default=Path("target/examples"), help="for pictures")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)  # or the network and the workers would fight for the cores
    # Advice for larger machines.
    warnings.filterwarnings("ignore", module="lightning")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

    folder = photographs.make(
        arguments.out, photographs.QUICK if arguments.quick else photographs.FULL
    )
    checkpoint = arguments.out / "lightning.ckpt"
    pl.seed_everything(0)
    epochs = 5 if arguments.quick else 10
    train = loader(folder / "train", training=True)
    stopped = len(train) * 5 // 2  # in the middle of the third epoch

    network = Network()
    first = trainer(arguments.out, max_steps=stopped, limit_val_batches=0)
    first.fit(network, train)
    first.save_checkpoint(checkpoint)
    print(f"stopped after step {stopped}; resuming with new objects, from {checkpoint}")

    resumed = Network()
    resumed.losses = network.losses
    second = trainer(arguments.out, max_steps=epochs * len(train))
    second.fit(
        resumed,
        loader(folder / "train", training=True),
        loader(folder / "test", training=False),
        ckpt_path=checkpoint,
    )
    print(f"{len(resumed.losses)} steps in all, {epochs * len(train)} planned")
    accuracy = np.trace(resumed.confusion) / resumed.confusion.sum()
    print(f"accuracy on test photographs: {accuracy:.1%}")
    draw(resumed, stopped, arguments.out / "train_lightning.png")


if __name__ == "__main__":
    main()
