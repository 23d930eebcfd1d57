"""Known datasets in the drop-in, `worker_mode="native"`, against torch with the same code.

The script is the same on both sides but for the loader. Random transforms draw other numbers on
each side, so of them labels are compared. Of what is not random, all that is delivered is: of a
`TensorDataset` byte by byte, of photographs to 2 of 255.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import torch
from tables.bench import Bench
from tables.epochs import digest, drain
from tables.photos import class_folders
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import TensorDataset
from torchvision import transforms as v1
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

from feedline.measure import Outcome
from feedline.torch import DataLoader

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from feedline.measure import Run

BATCH, WORKERS = 64, 2
MEAN, DEVIATION = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


class Contrast:
    """A transform that nobody knows: it draws nothing, as threads share torch's generator."""

    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        """Return an image of more contrast."""
        return (image - image.mean()) * 1.1


def trained() -> list[Any]:
    """What most training scripts do."""
    return [
        v1.RandomResizedCrop(224),
        v1.RandomHorizontalFlip(),
        v1.ToTensor(),
        v1.Normalize(MEAN, DEVIATION),
    ]


def trained_v2() -> list[Any]:
    """The same by the newer transforms."""
    return [
        v2.RandomResizedCrop(224),
        v2.RandomHorizontalFlip(),
        v2.ToImage(),
        v2.ToDtype(torch.float32, scale=True),
        v2.Normalize(MEAN, DEVIATION),
    ]


def side(
    kind: type[TorchLoader[Any]],
    dataset: Any,  # noqa: ANN401 - torch asks for two methods
    *,
    timed: int,
    whole: bool,
    **settings: Any,  # noqa: ANN401 - torch's own
) -> Callable[[Run], Outcome]:
    """Timed epochs of one loader; `whole`: all fields are compared, not labels alone."""

    def measured(run: Run) -> Outcome:
        torch.manual_seed(1)
        loader = kind(
            dataset, shuffle=True, num_workers=WORKERS, persistent_workers=True, **settings
        )
        drain(loader)
        run.start()
        for _ in range(timed):
            drain(loader)
        run.stop()
        batches = itertools.islice(loader, 4)
        found = digest(batches if whole else (batch[-1:] for batch in batches))
        return Outcome(timed * len(dataset), found)

    return measured


def check(folder: Path) -> None:
    """Refuse photographs that are not what torchvision makes of them, where nothing is random."""
    steps = [v1.Resize(256), v1.CenterCrop(224), v1.ToTensor()]
    dataset = ImageFolder(folder, v1.Compose(steps))
    ours = next(iter(DataLoader(dataset, batch_size=BATCH, worker_mode="native")))
    theirs = next(iter(TorchLoader(dataset, batch_size=BATCH)))
    difference = float((ours[0] - theirs[0]).abs().max()) * 255
    if difference > 2.01 or not torch.equal(ours[1], theirs[1]):
        msg = f"photographs differ by {difference:.2f} of 255"
        raise AssertionError(msg)


def photographs(bench: Bench, folder: Path) -> None:
    """Hold the contests on photographs."""
    check(folder)
    for title, compose, required in (
        ("transforms", v1.Compose(trained()), 3),
        ("transforms.v2", v2.Compose(trained_v2()), 2.5),
        ("transforms and one that nobody knows", v1.Compose([*trained(), Contrast()]), 1.8),
    ):
        dataset = ImageFolder(folder, compose)
        settings: dict[str, Any] = {"timed": 1, "whole": False, "batch_size": BATCH}
        bench.hold(
            f"ImageFolder, crop, flip, normalise: {title}, batches of {BATCH}, {WORKERS} workers",
            {
                "torch": side(TorchLoader, dataset, **settings),
                "feedline": side(DataLoader, dataset, worker_mode="native", **settings),
            },
            rounds=5,
            require=[f"feedline/torch>={required}"],
        )


def rows(bench: Bench) -> None:
    """Hold the contest on tensors in memory."""
    count = bench.size(100_000, 2_000)
    values = torch.arange(count * 32, dtype=torch.float32).view(count, 32)
    dataset = TensorDataset(values, torch.arange(count))
    settings: dict[str, Any] = {"timed": 1, "whole": True, "batch_size": 256}
    bench.hold(
        f"TensorDataset of 32 numbers and a label, batches of 256, {WORKERS} workers",
        {
            "torch": side(TorchLoader, dataset, **settings),
            "feedline": side(DataLoader, dataset, worker_mode="native", **settings),
        },
        rounds=5,
        require=["feedline/torch>=10"],
    )


def main() -> None:
    bench = Bench("dropin_native", "known datasets in the drop-in against torch's DataLoader")
    with class_folders(bench.size(1024, 64)) as (folder, _):
        photographs(bench, folder)
    rows(bench)
    bench.close()


if __name__ == "__main__":
    main()
