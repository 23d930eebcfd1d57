"""What a batch costs the training loop's own thread, in time on a processor.

Batches of 64 x float32 (3, 224, 224) from a packed file, each dropped at once: the loop waits for
every one of them, so sleeping and waking up are counted, too. With a step after each batch, the
next one is ready when the loop asks for it. How it is measured: `tables/processor_time.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from tables.apart import apart
from tables.bench import Bench, photographs
from tables.main_thread import BATCH

if TYPE_CHECKING:
    from pathlib import Path


def table(bench: Bench, path: Path, *, step: float) -> None:
    given = (str(path), str(step), str(bench.size(3 if step else 10, 1)))
    how = f"a step of {step * 1e3:.0f} ms after each" if step else "each dropped at once"
    bench.hold(
        f"CPU time of the main thread per batch of {BATCH} x float32 (3, 224, 224), {how}",
        {
            "torch DataLoader": apart("main_thread.py", "DataLoader", *given),
            "feedline, torch": apart("main_thread.py", "torch", *given),
            "feedline, numpy": apart("main_thread.py", "numpy", *given),
        },
        unit="batches",
        require=["main_thread_us:feedline, torch<=80", "main_thread_us:feedline, numpy<=80"],
    )


def main() -> None:
    bench = Bench("main_thread", "CPU time that a batch costs the training loop's own thread")
    with photographs(1024) as (pixels, folder):
        path = folder / "packed.npy"
        np.save(path, pixels)
        del pixels
        table(bench, path, step=0)
        table(bench, path, step=0.02)
    bench.close()


if __name__ == "__main__":
    main()
