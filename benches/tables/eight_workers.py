"""One epoch of photographs with eight workers and defaults otherwise; prints the labels' digest.

A program of its own, whose memory is measured. Each side imports what its users need: torch and
torchvision, or torch and feedline.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import feedline
from tables.epochs import SEED, GivenOrder, Orders, digest

if TYPE_CHECKING:
    from collections.abc import Iterable

BATCH = 64
WORKERS = 8


def ours(root: str) -> Iterable[Any]:
    pipeline = feedline.images(root).random_resized_crop(224).flip().normalize()
    return feedline.Loader(
        pipeline, batch_size=BATCH, shuffle=True, seed=SEED, num_workers=WORKERS, output="torch"
    )


def theirs(root: str, way: str) -> Iterable[Any]:
    from images import torch_folder
    from torch.utils.data import DataLoader

    folder = torch_folder(Path(root), way)
    order = GivenOrder(Orders.of(len(folder), BATCH, timed=0))
    return DataLoader(folder, BATCH, sampler=order, num_workers=WORKERS)


if __name__ == "__main__":
    which, root = sys.argv[1:]
    batches = ours(root) if which == "feedline" else theirs(root, which)
    print(json.dumps(digest(labels for _, labels in batches)))
