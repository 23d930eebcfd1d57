"""What a batch costs the training loop's own thread, in CPU time.

Batches of 64 x float32 (3, 224, 224) from a packed file, each dropped at once: the loop waits for
every one of them, so sleeping and waking up are counted, too. With a step after each batch, the
next one is ready when the loop asks for it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal

import numpy as np
from packed import Packed
from tables.bench import Bench, photographs
from tables.epochs import SEED, WARM, GivenOrder, Orders, digest, drain, torch_loader

import feedline
from feedline.measure import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from feedline.measure import Run

    Batches = Iterable[object]

BATCH = 64


def drained(batches: Batches, step: float) -> tuple[int, float]:
    """Take all batches; returns how many, and the CPU seconds of this thread outside the steps."""
    count, stepped = 0, 0.0
    began = time.thread_time()
    for batch in batches:
        del batch
        count += 1
        if step:
            before = time.thread_time()
            time.sleep(step)
            stepped += time.thread_time() - before
    return count, time.thread_time() - began - stepped


def side(
    make: Callable[[], tuple[Batches, GivenOrder | None]], orders: Orders, step: float
) -> Callable[[Run], Outcome]:
    """Epochs with this thread's CPU time per batch as a figure."""

    def measured(run: Run) -> Outcome:
        batches, sampler = make()
        for _ in range(WARM):
            drain(batches)
        count, seconds = 0, 0.0
        run.start()
        for _ in range(orders.timed):
            more, spent = drained(batches, step)
            count, seconds = count + more, seconds + spent
        run.stop()
        if sampler is not None:
            sampler.order = orders.epochs[WARM + orders.timed]
        return Outcome(count, digest(batches), figures={"main_thread_us": seconds / count * 1e6})

    return measured


def table(bench: Bench, path: Path, samples: int, *, step: float) -> None:
    orders = Orders.of(samples, BATCH, timed=bench.size(2 if step else 6, 1))

    def ours(output: Literal["torch", "numpy"]) -> Callable[[Run], Outcome]:
        def make() -> tuple[Batches, None]:
            loader = feedline.Loader(
                feedline.npy(path),
                batch_size=BATCH,
                shuffle=True,
                seed=SEED,
                num_workers=2,
                output=output,
            )
            return loader, None

        return side(make, orders, step)

    def theirs() -> tuple[Batches, GivenOrder]:
        sampler = GivenOrder(orders)
        return torch_loader(Packed(path), sampler, workers=2), sampler

    how = f"a step of {step * 1e3:.0f} ms after each" if step else "each dropped at once"
    bench.hold(
        f"CPU time of the main thread per batch of {BATCH} x float32 (3, 224, 224), {how}",
        {
            "torch DataLoader": side(theirs, orders, step),
            "feedline, torch": ours("torch"),
            "feedline, numpy": ours("numpy"),
        },
        unit="batches",
        require=["main_thread_us:feedline, torch<=50", "main_thread_us:feedline, numpy<=50"],
    )


def main() -> None:
    bench = Bench("main_thread", "CPU time that a batch costs the training loop's own thread")
    samples = 1024
    with photographs(samples) as (pixels, folder):
        path = folder / "packed.npy"
        np.save(path, pixels)
        del pixels
        table(bench, path, samples, step=0)
        table(bench, path, samples, step=0.02)
    bench.close()


if __name__ == "__main__":
    main()
