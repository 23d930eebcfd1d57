"""What a dataset's samples are like: a few of them, made and looked at before workers start.

Nothing is delivered of them, and the global generators are put back. The interpreter's lock is
watched by a thread that does nothing but let go of it and ask for it again: how often it gets
round while samples are made, against how often while nobody wants the lock, is the share of time
in which others could have run. The dataset itself is used by one thread alone.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from feedline._torch_private import _MapDatasetFetcher
from feedline.torch.order.seeding import generator_states, kept

if TYPE_CHECKING:
    from collections.abc import Sized

    from feedline.torch.dataloader import DataLoader

__all__ = ["Facts", "probe"]

# Seconds: how long samples are made, and how long the lock is watched while nobody wants it.
_LONG_ENOUGH = 0.1
_WATCHED = 0.005


class Facts(NamedTuple):
    """What one sample takes, with its share of what is done for its batch."""

    # How many were made.
    samples: int
    # Of the wall, and of a processor.
    seconds: float
    processor: float
    # The share of the time in which nobody else could have the interpreter's lock.
    locked: float
    # Global generators that it moves.
    moves: tuple[str, ...] = ()


class _Watch(threading.Thread):
    """Counts how often it gets the interpreter's lock."""

    def __init__(self) -> None:
        super().__init__(name="feedline-probe", daemon=True)
        self.count = 0
        self._over = False

    def run(self) -> None:
        while not self._over:
            time.sleep(0)
            self.count += 1

    def end(self) -> None:
        self._over = True
        self.join()


def probe(loader: DataLoader[Any]) -> Facts | None:
    """Make some samples of a loader's dataset, for a tenth of a second or so.

    Returns
    -------
    Facts or None
        None if it cannot be asked for samples by number.
    """
    dataset = loader.dataset
    sized: Sized = dataset  # type: ignore[assignment]
    try:
        count = len(sized)
    except TypeError:
        return None
    fetcher = _MapDatasetFetcher(dataset, loader._auto_collation, loader.collate_fn, False)
    batch = loader.batch_size or 1 if loader._auto_collation else 1

    def fetch(number: int, first: int) -> None:
        indices = [(first + place) % count for place in range(number)]
        fetcher.fetch(indices if loader._auto_collation else indices[0])

    with kept():
        before = generator_states()
        try:
            began = time.perf_counter()
            fetch(1, 0)  # what is opened only once does not count
            once = time.perf_counter() - began
            found = _watched(fetch, once, batch, count)
        except Exception:
            # Whoever loads it in earnest meets it there.
            return None
        after = generator_states()
    moves = tuple(name for name in before if before[name] != after[name])
    return found._replace(moves=moves)


def _watched(fetch: Any, once: float, batch: int, count: int) -> Facts:  # noqa: ANN401 - inner
    watch = _Watch()
    watch.start()
    try:
        time.sleep(_WATCHED / 5)
        free, began = watch.count, time.perf_counter()
        time.sleep(_WATCHED)
        rate = max(watch.count - free, 1) / (time.perf_counter() - began)
        if once >= _LONG_ENOUGH:
            number = 1
        else:
            number = max(1, min(batch, int(_LONG_ENOUGH / 4 / max(once, 1e-7))))
        made, ticks = 0, watch.count
        began, processor = time.perf_counter(), time.thread_time()
        while True:
            fetch(number, made + 1)
            made += number
            seconds = time.perf_counter() - began
            if seconds >= _LONG_ENOUGH or made >= 4 * max(batch, count):
                break
        processor = time.thread_time() - processor
        unlocked = (watch.count - ticks) / (rate * seconds)
    finally:
        watch.end()
    locked = min(max(1 - unlocked, 0.0), 1.0)
    return Facts(made, seconds / made, processor / made, locked)
