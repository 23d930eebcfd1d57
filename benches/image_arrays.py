"""Small images in memory, as CIFAR-10 has them: feedline against torch and torchvision.

Each side draws its own crops and flips, so batches of different sides are not equal. What is
checked in every run: that the labels come in the same order, and that the images of a batch are
what torchvision makes of the same arrays with the same crops and flips.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import torch
from tables.bench import Bench
from tables.epochs import SEED, WARM, GivenOrder, Orders, digest, drain, time_epochs, torch_loader
from torch.utils.data import Dataset
from torchvision.transforms import v2

import feedline
from feedline.measure import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from feedline.measure import Run

    Side = Callable[[Run], Outcome]

BATCH = 128
MEAN, DEVIATION = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


class Transformed(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Tensors of bytes with torchvision's transforms, as its own tutorials have them."""

    def __init__(self, images: torch.Tensor, labels: torch.Tensor) -> None:
        self.images, self.labels = images, labels
        self.transform = v2.Compose(
            [
                v2.RandomCrop(32, padding=4),
                v2.RandomHorizontalFlip(),
                v2.ToDtype(torch.float32, scale=True),
                v2.Normalize(MEAN, DEVIATION),
            ]
        )

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.transform(self.images[index]), self.labels[index]


def torch_side(dataset: Transformed, orders: Orders) -> Side:
    def side(run: Run) -> Outcome:
        sampler = GivenOrder(orders)
        loader = torch_loader(dataset, sampler, workers=2)
        for epoch in orders.epochs[:WARM]:
            sampler.order = epoch[: orders.part]
            drain(loader)
        run.start()
        for epoch in orders.epochs[WARM : WARM + orders.timed]:
            sampler.order = epoch
            drain(loader)
        run.stop()
        sampler.order = orders.checked
        return Outcome(orders.timed * orders.samples, digest(batch[1] for batch in loader))

    return side


def feedline_side(pipeline: feedline.Images, images: torch.Tensor, orders: Orders) -> Side:
    def side(run: Run) -> Outcome:
        loader = feedline.Loader(
            pipeline, batch_size=BATCH, shuffle=True, seed=SEED, num_workers=2, output="torch"
        )
        time_epochs(run, loader, orders)
        batches = list(itertools.islice(loader, orders.part // BATCH))
        epoch = WARM + orders.timed + 1
        for image, index in zip(batches[0][0], orders.checked[:BATCH], strict=True):
            expected = redone(images[index], pipeline.drawn(index, seed=SEED, epoch=epoch)[0])
            torch.testing.assert_close(image, expected, rtol=1e-6, atol=1e-6)
        return Outcome(orders.timed * orders.samples, digest(batch[1] for batch in batches))

    return side


def redone(image: torch.Tensor, actions: list[tuple[str, dict[str, Any]]]) -> torch.Tensor:
    """Do by torchvision what feedline has drawn."""
    for name, drawn in actions:
        if name == "pad":
            image = v2.functional.pad(image, list(drawn["padding"]))
        elif name == "crop":
            image = v2.functional.crop(image, **drawn)
        else:
            image = v2.functional.horizontal_flip(image)
    scaled = v2.functional.to_dtype(image, torch.float32, scale=True)
    return v2.functional.normalize(scaled, list(MEAN), list(DEVIATION))


def main() -> None:
    bench = Bench("image_arrays", "small images in memory against torch and torchvision")
    samples = bench.size(50_000, 5_120)
    generator = torch.Generator().manual_seed(0)
    shape = (samples, 3, 32, 32)
    images = torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)
    labels = torch.randint(0, 10, (samples,), generator=generator)
    orders = Orders.of(samples, BATCH, timed=bench.size(2, 1), part=8 * BATCH)
    pipeline = feedline.arrays(images, labels).random_crop(32, padding=4).flip()
    bench.hold(
        f"{samples} images of 3x32x32 bytes in memory: random crop with padding 4, flip, "
        f"normalise, float32, batches of {BATCH}, 2 workers",
        {
            "torch, v2": torch_side(Transformed(images, labels), orders),
            "feedline": feedline_side(pipeline.normalize(MEAN, DEVIATION), images, orders),
        },
        unit="images",
        require=["feedline/torch, v2>=10"],
    )
    bench.close()


if __name__ == "__main__":
    main()
