"""Photographs of about 500x375 and 110 KB: feedline against torch and torchvision.

Each side draws its own random crops, so batches of different sides are not equal. What is checked
in every run: that the labels come in the same order, and that the pictures of a batch are what
torchvision makes of the same files with the same crops, to a mean difference of 1/255.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torchvision
from tables.bench import Bench
from tables.epochs import (
    SEED,
    WARM,
    GivenOrder,
    Orders,
    digest,
    drain,
    time_epochs,
    torch_loader,
)
from tables.epochs import feedline_side as epochs_side
from tables.memory import peak_pss
from tables.photos import class_folders, shards
from torchvision.io import ImageReadMode, decode_image, read_file
from torchvision.transforms import v2

import feedline
from feedline.measure import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from feedline.measure import Run

    Side = Callable[[Run], Outcome]

BATCH = 64
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
EIGHT_WORKERS = Path(__file__).with_name("tables") / "eight_workers.py"


# What is measured


def cropped(pipeline: feedline.Images) -> feedline.Images:
    """The augmentation of most training runs on photographs."""
    return pipeline.random_resized_crop(224).flip().normalize(MEAN, DEVIATION)


def centered(pipeline: feedline.Images) -> feedline.Images:
    """What validation does."""
    return pipeline.resize(256).center_crop(224).normalize(MEAN, DEVIATION)


def by_pillow(path: str) -> Any:  # noqa: ANN401 - a picture of Pillow's
    return torchvision.datasets.folder.pil_loader(path)


def by_decode_jpeg(path: str) -> torch.Tensor:
    return decode_image(read_file(path), ImageReadMode.RGB)


def torch_folder(root: Path, way: str) -> torchvision.datasets.ImageFolder:
    """torchvision's folder with the transforms that its own references use."""
    floats = [v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, DEVIATION)]
    if way == "centered":
        transform = v2.Compose([v2.Resize(256), v2.CenterCrop(224), *floats])
    elif way == "pil":
        crop = [v2.RandomResizedCrop(224), v2.RandomHorizontalFlip(), v2.PILToTensor()]
        transform = v2.Compose([*crop, *floats])
    else:
        transform = v2.Compose([v2.RandomResizedCrop(224), v2.RandomHorizontalFlip(), *floats])
    loader = by_pillow if way == "pil" else by_decode_jpeg
    return torchvision.datasets.ImageFolder(str(root), transform, loader=loader)


# Sides


def ours(pipeline: feedline.Pipeline, workers: int = 2) -> feedline.Loader:
    return feedline.Loader(
        pipeline, batch_size=BATCH, shuffle=True, seed=SEED, num_workers=workers, output="torch"
    )


def labels(batches: Iterable[Any]) -> str:
    """Digest of the labels alone."""
    return digest(batch[1] for batch in batches)


def feedline_side(
    pipeline: feedline.Images, orders: Orders, reference: Callable[[list[int], int], torch.Tensor]
) -> Side:
    """Timed epochs, then one whose labels are compared and some of whose pictures are."""

    def side(run: Run) -> Outcome:
        loader = ours(pipeline)
        time_epochs(run, loader, orders)
        batches = list(itertools.islice(loader, orders.part // BATCH))
        check(batches[0][0], reference(orders.checked[:BATCH], WARM + orders.timed + 1))
        return Outcome(orders.timed * orders.samples, labels(batches))

    return side


def check(pictures: torch.Tensor, expected: torch.Tensor) -> None:
    """Stop if pictures are not what torchvision makes of the same crops."""
    scale = torch.tensor(DEVIATION).reshape(3, 1, 1)
    off = ((pictures - expected) * scale).abs().mean().item()
    if not off <= 1 / 255:
        msg = f"pictures differ from torchvision's by {off * 255:.2f}/255 in the mean"
        raise RuntimeError(msg)


def torch_side(root: Path, way: str, orders: Orders) -> Side:
    def side(run: Run) -> Outcome:
        sampler = GivenOrder(orders)
        loader = torch_loader(torch_folder(root, way), sampler, workers=2)
        for epoch in orders.epochs[:WARM]:
            sampler.order = epoch[: orders.part]
            drain(loader)
        run.start()
        for epoch in orders.epochs[WARM : WARM + orders.timed]:
            sampler.order = epoch
            drain(loader)
        run.stop()
        sampler.order = orders.checked
        return Outcome(orders.timed * orders.samples, labels(loader))

    return side


def first_batch(make: Callable[[], Iterable[Any]]) -> Side:
    """From `iter()` to the first batch of a loader that has not run before."""

    def side(run: Run) -> Outcome:
        loader = make()
        run.start()
        batches = iter(loader)
        batch = next(batches)
        run.stop()
        found = labels([batch])
        del batches, batch
        return Outcome(1, found)

    return side


# What torchvision makes of the same


def pictures_of(root: Path) -> list[str]:
    return [path for path, _ in torchvision.datasets.ImageFolder(str(root)).samples]


def finished(picture: torch.Tensor) -> torch.Tensor:
    scaled = v2.functional.to_dtype(picture, torch.float32, scale=True)
    return v2.functional.normalize(scaled, list(MEAN), list(DEVIATION))


def crops_reference(
    root: Path, pipeline: feedline.Images
) -> Callable[[list[int], int], torch.Tensor]:
    """The crops and flips that feedline draws, done by torchvision."""
    paths = pictures_of(root)

    def reference(indices: list[int], epoch: int) -> torch.Tensor:
        made = []
        for index in indices:
            picture = by_decode_jpeg(paths[index])
            (actions,) = pipeline.drawn(index, seed=SEED, epoch=epoch)
            for name, settings in actions:
                if name == "crop":
                    picture = v2.functional.crop(picture, **settings)
                elif name == "resize":
                    picture = v2.functional.resize(picture, list(settings["size"]), antialias=True)
                elif name == "horizontal_flip":
                    picture = v2.functional.horizontal_flip(picture)
            made.append(finished(picture))
        return torch.stack(made)

    return reference


def centered_reference(root: Path) -> Callable[[list[int], int], torch.Tensor]:
    folder = torch_folder(root, "centered")
    return lambda indices, _: torch.stack([folder[index][0] for index in indices])


# Memory, in a program of its own. (Pages of torch's libraries are this process's as well: they
# count by half for a program of one process, nearly whole for one of nine.)


def memory_side(which: str, root: Path) -> Side:
    def side(_run: Run) -> Outcome:
        peak, found = peak_pss([str(EIGHT_WORKERS), which, str(root)])
        return Outcome(1, json.loads(found), figures={"peak_pss": float(peak)})

    return side


# Tables


def crops_table(bench: Bench, root: Path, kind: str, orders: Orders) -> None:
    pipeline = cropped(feedline.images(root))
    bench.hold(
        f"{orders.samples} {kind} from class folders: random resized crop 224, flip, normalise, "
        f"float32 CHW, batches of {BATCH}, 2 workers",
        {
            "torch, PIL": torch_side(root, "pil", orders),
            "torch, v2": torch_side(root, "v2", orders),
            "feedline": feedline_side(pipeline, orders, crops_reference(root, pipeline)),
        },
        unit="photographs",
        require=[
            "feedline/torch, PIL>=3.2",
            "cpu_per_item:torch, PIL/feedline>=3.2",
            "feedline/torch, v2>=2.5",
        ],
    )


def centered_table(bench: Bench, root: Path, kind: str, orders: Orders) -> None:
    pipeline = centered(feedline.images(root))
    bench.hold(
        f"{orders.samples} {kind} from class folders: resize 256, center crop 224, normalise, "
        f"batches of {BATCH}, 2 workers",
        {
            "torch, v2": torch_side(root, "centered", orders),
            "feedline": feedline_side(pipeline, orders, centered_reference(root)),
        },
        unit="photographs",
        require=["feedline/torch, v2>=2.0"],
    )


def shards_table(bench: Bench, root: Path, kind: str, orders: Orders) -> None:
    """The same samples in the same order: batches must be equal byte by byte."""

    def side(pipeline: feedline.Images) -> Side:
        return epochs_side(lambda: ours(pipeline), orders)

    tar = feedline.tar([str(shard) for shard in shards(root, 4)], cache_dir=root.parent / "cache")
    bench.hold(
        f"{orders.samples} {kind}, random resized crops of 224: from tar shards and from folders, "
        "shuffled globally, 2 workers",
        {
            "folder": side(cropped(feedline.images(root))),
            "tar": side(cropped(tar.images(named=False))),
        },
        unit="photographs",
        require=["tar/folder>=0.97"],
    )


def memory_table(bench: Bench, root: Path, kind: str) -> None:
    bench.hold(
        f"peak PSS of the process tree, {kind}, random resized crops of 224, 8 workers, defaults",
        {
            "torch, PIL": memory_side("pil", root),
            "torch, v2": memory_side("v2", root),
            "feedline": memory_side("feedline", root),
        },
        unit="epochs",
        rounds=3,
        require=[
            "peak_pss:feedline/torch, PIL<=0.5",
            "peak_pss:feedline/torch, v2<=0.5",
        ],
    )


def first_batch_table(bench: Bench, root: Path, kind: str, orders: Orders) -> None:
    pipeline = cropped(feedline.images(root))

    def theirs(way: str) -> Callable[[], Iterable[Any]]:
        folder = torch_folder(root, way)
        return lambda: torch_loader(folder, GivenOrder(orders), workers=2)

    bench.hold(
        f"from iter() to the first batch of {BATCH}, {kind}, random resized crops, 2 workers",
        {
            "torch, PIL": first_batch(theirs("pil")),
            "torch, v2": first_batch(theirs("v2")),
            "feedline": first_batch(lambda: ours(pipeline)),
        },
        unit="batches",
        require=["seconds:feedline/torch, PIL<=0.3", "seconds:feedline/torch, v2<=0.3"],
    )


def main() -> None:
    bench = Bench("images", "photographs from folders and shards against torch and torchvision")
    samples = bench.size(1024, 256)
    orders = Orders.of(samples, BATCH, timed=bench.size(2, 1), part=2 * BATCH)
    with class_folders(samples) as (root, kind):
        crops_table(bench, root, kind, orders)
        centered_table(bench, root, kind, orders)
        shards_table(bench, root, kind, orders)
        first_batch_table(bench, root, kind, orders)
    # So many batches that all workers of all sides have as many in flight as they may.
    with class_folders(bench.size(3072, 256)) as (root, kind):
        memory_table(bench, root, kind)
    bench.close()


if __name__ == "__main__":
    main()
