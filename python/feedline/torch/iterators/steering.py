"""How many workers of Python code work, and how far they read ahead, decided while they do.

The decisions are the engine's (`crates/feedline-core/src/control` has the state machine, and why it
does not go to and fro). Here is what is counted for it, and remembered from one epoch to the next.
No thread looks: whoever iterates does, when it asks for a batch and every tenth of a second while
it waits for one. While it is elsewhere nobody wants anything, and there is nothing to decide.

What must not be taken for an effect of a change: the time until workers that were started look for
work. So there is no look until all have.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path
from time import perf_counter_ns, process_time_ns
from typing import TYPE_CHECKING, Any, cast

from feedline._feedline import Controller, usable_cores, usable_memory
from feedline.torch.iterators.left_open import auto_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from feedline.stats import ControlStats
    from feedline.torch.dataloader import DataLoader
    from feedline.torch.iterators.diary import Diary
    from feedline.torch.iterators.manner import Manner

__all__ = ["LOOK", "MOST", "Steering", "fitting", "most_workers", "processor_time"]

# Seconds between two looks of a loop that waits.
LOOK = 0.1

# More workers than these are started only if the user says so: a process has memory of its own.
MOST = {"thread": 64, "process": 32}
# Batches that are begun ahead at most, and for each worker that may work.
_AHEAD, _AHEAD_EACH = 64, 2


class Steering:
    """A loader's controller of workers that run Python.

    A copy of a loader has none yet, so it begins with what the model says.
    """

    def __init__(self) -> None:
        self._native: Controller | None = None
        self._bounds: tuple[Any, ...] = ()
        self._origin = perf_counter_ns()
        self._batch = 1
        #: How many work, and how many batches are read ahead.
        self.workers = self.prefetch = 0
        #: How many batches may be read ahead at most.
        self.furthest = 0
        #: Whether the latter is moved; else it is given for each worker.
        self.moves_prefetch = False

    def __reduce__(self) -> tuple[Any, ...]:
        return Steering, ()

    def reached(self, mode: str) -> int | None:
        """Return how many workers of a mode worked last; None if none did."""
        moves = self._bounds and self._bounds[0] == mode and self._bounds[1] is not None
        return self.workers if moves else None

    def begin(self, loader: DataLoader[Any], mode: str, workers: int, manner: Manner) -> bool:
        """Begin an epoch, or go on as in the one before; whether there is anything to decide.

        Parameters
        ----------
        loader
            Whose settings count.
        mode
            What the workers are.
        workers
            How many there are to begin with.
        manner
            Whether they may be added and parked, and whether several make one batch.
        """
        ahead = auto_of(loader.prefetch_factor)
        factor = loader.prefetch_factor or 1
        most = most_workers(loader, mode, workers) if manner.is_moving else None
        if most is None and ahead is None:
            self._bounds = ()
            return False
        furthest = None
        if ahead is not None:
            furthest = max(_AHEAD, _AHEAD_EACH * (most or workers))
            if ahead.most is not None:
                furthest = ahead.most * (most or workers)
            furthest = max(furthest, factor * (most or workers))
        self._batch = loader.batch_size or getattr(loader.batch_sampler, "batch_size", None) or 1
        bounds = (mode, most, furthest, workers if most is None else None)
        if self._native is None or bounds != self._bounds or self.workers != workers:
            self._bounds = bounds
            self._native = Controller(
                cores=usable_cores(),
                # What is work for several: a batch, or a sample of one.
                batch_size=self._batch if manner.is_shared else 1,
                workers=workers,
                prefetch=factor * workers,
                most_workers=most,
                most_prefetch=furthest,
            )
            self._note()
        self.moves_prefetch = furthest is not None
        return True

    @property
    def _controller(self) -> Controller:
        return cast("Controller", self._native)

    def _note(self) -> None:
        stats = self.stats()
        self.workers, self.prefetch = stats["setting"]["workers"], stats["setting"]["prefetch"]
        self.furthest = stats["most_prefetch"]

    def is_due(self) -> bool:
        """Whether it wants to be told what was counted."""
        return perf_counter_ns() - self._origin >= self._controller.due_ns

    def look(
        self, diary: Diary, slept_ns: int, processor: tuple[int, int, int, int] | None
    ) -> bool:
        """Tell what was counted; whether there are to be other workers, or batches ahead.

        Parameters
        ----------
        diary
            What the loader measured.
        slept_ns
            How long those who work have slept, for whatever reason.
        processor
            What `processor_time` says of them.
        """
        now = perf_counter_ns()
        counted = diary.looked(now)
        counted["delivered_ns"] = max(counted["delivered_ns"] - self._origin, 0)
        to = self._controller.look(
            now_ns=now - self._origin,
            delivered=counted["batches"] * self._batch,
            full_ns=slept_ns,
            starved_ns=0,
            processor=processor,
            **counted,
        )
        if to is None:
            return False
        self.workers, self.prefetch = to
        return True

    def at_most(self, *, workers: int | None = None, prefetch: int | None = None) -> None:
        """Say that no more are to be had, or fit."""
        self._controller.at_most(workers=workers, prefetch=prefetch)
        self._note()

    def stats(self) -> ControlStats:
        """Return what it has done, as `feedline.Loader.stats` has it."""
        return cast("ControlStats", json.loads(self._controller.json()))

    def explain(self) -> str:
        """Return in plain words where it is, and why."""
        control = self.stats()
        setting, changes = control["setting"], control["changes"]
        told = (
            f"The controller is at {setting['workers']} workers and a read-ahead of "
            f"{setting['prefetch']} batches, after {control['changed']} changes: "
            f"{control['stays']}."
        )
        if changes:
            last = changes[-1]
            before, after = last["from"], last["to"]
            told += (
                f" The last one, {last['at_ns'] / 1e9:.3g} s after the start, went from "
                f"{before['workers']} workers and {before['prefetch']} batches to "
                f"{after['workers']} and {after['prefetch']}: {last['why']}."
            )
        return told


def most_workers(loader: DataLoader[Any], mode: str, workers: int) -> int:
    """Return how many workers there may be."""
    auto = auto_of(loader.num_workers)
    most = MOST[mode] if auto is None or auto.most is None else auto.most
    return max(most, workers)


def fitting(processes: Sequence[int]) -> int:
    """Return how many worker processes fit into half of the memory that this one may use.

    By what the largest of those that are there has to itself: any number, where the kernel does not
    tell.

    Parameters
    ----------
    processes
        Those that are there, as the kernel numbers them.
    """
    largest = 0
    for process in processes:
        with suppress(OSError, ValueError):
            told = Path(f"/proc/{process}/smaps_rollup").read_text()
            lines = (line.split() for line in told.splitlines())
            own = sum(int(line[1]) for line in lines if line[0] == "Private_Dirty:")
            largest = max(largest, own * 1024)
    memory = usable_memory()
    return sys.maxsize if memory is None or not largest else memory // 2 // largest


def processor_time(
    threads: Sequence[int], active: int, *, are_processes: bool
) -> tuple[int, int, int, int] | None:
    """Return what the kernel has counted of processor time; None where it does not tell.

    Parameters
    ----------
    threads
        All workers, as the kernel numbers them.
    active
        How many of them work.
    are_processes
        Whether they are processes, whose time is not this one's.
    """
    root = "/proc" if are_processes else "/proc/self/task"
    process, on_core, queued = process_time_ns(), 0, 0
    for number, thread in enumerate(threads):
        if number >= active and not are_processes:
            break
        try:
            had, waited = map(int, Path(f"{root}/{thread}/schedstat").read_text().split()[:2])
        except (OSError, ValueError):
            if number < active:
                return None
            continue
        if are_processes:
            process += had
        if number < active:
            on_core += had
            queued += waited
    return process, active, on_core, queued
