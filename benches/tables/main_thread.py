"""CPU time that batches cost the thread that takes them.

A program of its own: the measuring tool looks around from threads of the process it measures.
Prints its figures as JSON.
"""

from __future__ import annotations

import json
import sys
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from packed import Packed

import feedline
from tables.epochs import SEED, WARM, GivenOrder, Orders, torch_loader
from tables.processor_time import ProcessorTime

if TYPE_CHECKING:
    from collections.abc import Iterable

BATCH = 64


def dropped(batches: Iterable[Any], watch: ProcessorTime) -> int:
    """Take all batches, drop each at once; how many there were."""
    count = 0
    watch.start()
    for batch in batches:
        del batch
        count += 1
    watch.stop()
    return count


def stepped(batches: Iterable[Any], watch: ProcessorTime, step: float) -> int:
    """The same with a step after each batch, which is not counted."""
    count = 0
    watch.start()
    left = iter(batches)
    watch.stop()
    while True:
        watch.start()
        batch = next(left, None)
        if batch is None:
            watch.stop()
            return count
        del batch
        watch.stop()
        count += 1
        time.sleep(step)


def main() -> None:
    kind, path, step, timed = sys.argv[1], Path(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
    samples = len(np.load(path, mmap_mode="r"))
    orders = Orders.of(samples, BATCH, timed=timed)
    loader: Any
    if kind == "DataLoader":
        sampler = GivenOrder(orders)
        loader = torch_loader(Packed(path), sampler, workers=2)
    else:
        loader = feedline.Loader(
            feedline.npy(path),
            batch_size=BATCH,
            shuffle=True,
            seed=SEED,
            num_workers=2,
            output=kind,  # type: ignore[arg-type]
        )

    def epoch(watch: ProcessorTime) -> int:
        return stepped(loader, watch, step) if step else dropped(loader, watch)

    for _ in range(WARM):
        epoch(ProcessorTime())
    watch, count = ProcessorTime(), 0
    for _ in range(timed):
        count += epoch(watch)
    if kind == "DataLoader":
        sampler.order = orders.epochs[WARM + timed]
    checked = 0
    for (pixels,) in (batch if isinstance(batch, tuple) else (batch,) for batch in loader):
        checked = zlib.crc32(np.asarray(pixels).data, checked)
    figures = {"main_thread_us": watch.seconds / count * 1e6}
    print(json.dumps({"items": count, "checked": str(checked), "figures": figures}))


if __name__ == "__main__":
    main()
