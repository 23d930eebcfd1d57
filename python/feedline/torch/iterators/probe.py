"""What a dataset's samples are like: some of them, made and looked at before workers start.

Nothing is delivered of them, and the global generators are put back. They are a copy's: what a
dataset opens for its first sample, processes that are forked from here would share. First the
calling thread makes some alone. The interpreter's lock is watched meanwhile by a thread that does
nothing but let go of it and ask for it again: how often it gets round, against how often while
nobody wants the lock, is the share of time in which others could have run. What else a mode costs
is found by `trials`.
"""

from __future__ import annotations

import copy
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import Dataset

from feedline._torch_private import _MapDatasetFetcher
from feedline.torch.iterators.budget import bytes_of
from feedline.torch.iterators.left_open import LeftOpen
from feedline.torch.iterators.trials import (
    Sending,
    Together,
    made_together,
    sent,
    why_not_pickled,
)
from feedline.torch.order.seeding import Seeded, generator_states, kept

if TYPE_CHECKING:
    from collections.abc import Callable, Sized

    from feedline.torch.dataloader import DataLoader

__all__ = ["Facts", "probe"]

# Seconds: how long samples are made, and how long the lock is watched while nobody wants it.
_LONG_ENOUGH = 0.1
_WATCHED = 0.005
_IN_MEMORY = (list, tuple, dict, str, range, np.ndarray, torch.Tensor)
# Where the lock is held longer than this share of the time, threads are not tried out.
_HOPELESS = 0.9


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
    # What threads took for them, and what a batch takes from a process to the loop, if that was
    # tried out; or why it cannot be.
    together: Together | str | None = None
    sending: Sending | str | None = None
    # Bytes, as it is in this process.
    size: int = 0


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


def probe(
    loader: DataLoader[Any],
    *,
    threads: int = 0,
    processes: bool = False,
    forks: bool = True,
) -> Facts | None:
    """Make some samples of a loader's dataset, for some tenths of a second.

    Parameters
    ----------
    loader
        Whose dataset.
    threads
        How many threads to try out together, where the lock leaves them a chance; 0: none.
    processes
        Whether to try out what sending batches between processes takes.
    forks
        Whether processes start by fork, so that the dataset need not be pickled.

    Returns
    -------
    Facts or None
        None if it cannot be asked for samples by number.
    """
    dataset = _apart(loader.dataset)
    sized: Sized = dataset
    try:
        count = len(sized)
    except TypeError:
        return None
    batch = loader.batch_size or 1 if loader._auto_collation else 1
    if loader.seed is not None or isinstance(loader.num_workers, LeftOpen):
        # In earnest there is a `feedline.rng()`; global generators are watched, not seeded.
        dataset = Seeded(dataset, 0, everything=False)

    def fetching(collate_fn: Callable[[Any], Any]) -> Callable[[int, int], Any]:
        fetcher = _MapDatasetFetcher(dataset, loader._auto_collation, collate_fn, False)

        def fetch(number: int, first: int) -> Any:  # noqa: ANN401 - the user's batch
            indices = [(first + place) % count for place in range(number)]
            return fetcher.fetch(indices if loader._auto_collation else indices[0])

        return fetch

    with kept():
        before = generator_states()
        fetch = fetching(loader.collate_fn)
        try:
            began = time.perf_counter()
            first = fetch(1, 0)  # what is opened only once does not count
            once = time.perf_counter() - began
            number = max(1, min(batch, int(_LONG_ENOUGH / 4 / max(once, 1e-7))))
            is_long = once >= _LONG_ENOUGH
            found = _alone(fetch, number, max(batch, count))
            # The watch itself slows samples down, so these are others, and fewer.
            watched = 0.0 if is_long else _LONG_ENOUGH / 2
            found = found._replace(locked=_locked(fetch, number, watched))
        except Exception:
            # Whoever loads it in earnest meets it there.
            return None
        after = generator_states()
        moves = tuple(name for name in before if before[name] != after[name])
        found = found._replace(moves=moves, size=bytes_of(first))
        if processes:
            refused = None if forks else why_not_pickled(loader)
            sending = refused or sent(
                None if is_long else fetching,
                loader.collate_fn,
                number,
                first,
                seconds=_LONG_ENOUGH / 2,
            )
            found = found._replace(sending=sending)
        if threads and not moves and not is_long and found.locked < _HOPELESS:
            together = made_together(
                fetching,
                loader.collate_fn,
                number,
                threads,
                one_at_a_time=loader.dataset_lock,
                seconds=_LONG_ENOUGH,
            )
            found = found._replace(together=together)
    return found


def _apart(dataset: Any, depth: int = 8) -> Any:  # noqa: ANN401 - the user's
    """Return a shallow copy of a dataset and of those inside it, or what cannot be copied itself.

    What holds samples in memory opens nothing, and copying it would take as much again. What cleans
    up when it goes would take away what the dataset still needs.
    """
    in_memory = isinstance(dataset, _IN_MEMORY) or hasattr(type(dataset), "__copy__")
    if in_memory or hasattr(type(dataset), "__del__") or not depth:
        return dataset
    try:
        copied = copy.copy(dataset)
        own = vars(copied)
        for name, value in list(own.items()):
            if isinstance(value, Dataset):
                own[name] = _apart(value, depth - 1)
            elif isinstance(value, dict | list | set) and not value:
                own[name] = copy.copy(value)  # where opened files may come to lie
            elif isinstance(value, list) and isinstance(value[0], Dataset):
                own[name] = [_apart(each, depth - 1) for each in value]
    except Exception:
        return dataset
    return copied


def _alone(fetch: Callable[[int, int], Any], number: int, most: int) -> Facts:
    """Return what samples take where nothing else goes on; of the lock nothing is known yet."""
    made, seconds = 0, 0.0
    began, processor = time.perf_counter(), time.thread_time()
    while seconds < _LONG_ENOUGH and made < 4 * most:
        fetch(number, made + 1)
        made += number
        seconds = time.perf_counter() - began
    return Facts(made, seconds / made, (time.thread_time() - processor) / made, 0.0)


def _locked(fetch: Callable[[int, int], Any], number: int, seconds: float) -> float:
    """Return the share of the time in which nobody else could have the interpreter's lock."""
    watch = _Watch()
    watch.start()
    try:
        time.sleep(_WATCHED / 5)
        free, began = watch.count, time.perf_counter()
        time.sleep(_WATCHED)
        rate = max(watch.count - free, 1) / (time.perf_counter() - began)
        made, ticks, took = 0, watch.count, 0.0
        began = time.perf_counter()
        while took <= seconds:
            fetch(number, made + 1)
            made += number
            took = time.perf_counter() - began
        unlocked = (watch.count - ticks) / (rate * took)
    finally:
        watch.end()
    return min(max(1 - unlocked, 0.0), 1.0)
