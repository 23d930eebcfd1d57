"""What a loader measured, as numbers and in words.

Four things happen to a batch: the dataset makes its samples (*fetch*), they are put together
(*collate*), the batch comes from its worker to the training loop (*transport*), and the loop may
have to *wait* for it. Workers look at the watch and send the times along. Batches of a pipeline are
measured by the engine, all but the loop's own times.
"""

from __future__ import annotations

import json
import weakref
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Literal

from feedline import _stores
from feedline.torch.iterators.tally import Durations, Tally

if TYPE_CHECKING:
    from feedline._feedline import Measures
    from feedline.stats import ConsumerStats, Stats
    from feedline.torch.iterators.native import NativeIterator
    from feedline.torch.iterators.steering import Steering

__all__ = ["Diary", "Mode"]

Mode = Literal["native", "inline", "thread", "process"]

# A step that takes longer than this, and than eight others, is none: the loop was elsewhere.
_ABSENCE_NS = 1_000_000_000


class Diary:
    """Times of all batches since the loader was made.

    It is written by whoever iterates. Loaders are copied and pickled with it; what the engine
    measured stays behind in a pickle.

    Parameters
    ----------
    mode
        Who makes the batches.
    workers
        How many they are.
    """

    def __init__(self, mode: Mode, workers: int) -> None:
        self._mode = mode
        self._workers = workers
        self._prefetch = 0
        self._batches = 0
        self._errors = 0
        self._replaced = 0
        # Whether workers send parts of batches.
        self._is_shared = False
        self._wait = Durations()
        self._step = Durations()
        self._all = Tally()
        self._made: dict[int, Tally] = {}
        # Who makes the batches, and why, where that was decided by itself.
        self._chosen = ""
        # Who moves workers and read-ahead while this is written, and why not all of that.
        self._steering: Steering | None = None
        self._fixed = ""
        self._began_at = 0
        self._asked_at = 0
        self._left_at = 0
        # How often the loop was elsewhere, and when it last had a batch.
        self._absences = 0
        self._delivered_at = 0
        # Of a pipeline: what the engine measured, and the iterator that can say more.
        self._engine: Measures | None = None
        self._native: weakref.ref[NativeIterator] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_native": None, "_engine": None, "_steering": None}

    def begin_native(self, iterator: NativeIterator, workers: int) -> None:
        """Note that an iterator over a pipeline begins."""
        self.begin("native", workers)
        self._native = weakref.ref(iterator)

    def note_workers(self, workers: int) -> None:
        """Note how many threads the engine has taken."""
        self._workers = workers

    def note_engine(self, measured: Measures | None) -> None:
        """Note what the engine measured of a stretch that is over."""
        if measured is not None:
            self._engine = measured if self._engine is None else self._engine.plus(measured)

    def _of_engine(self) -> Measures | None:
        iterator = self._native() if self._native is not None else None
        running = iterator.measured() if iterator is not None else None
        if running is None or self._engine is None:
            return running or self._engine
        return self._engine.plus(running)

    def begin(self, mode: Mode, workers: int, prefetch: int = 0) -> None:
        """Note that an iterator begins."""
        self._mode, self._workers, self._prefetch = mode, workers, prefetch
        self._steering, self._fixed = None, ""
        self._began_at = self._began_at or perf_counter_ns()
        # What is done between two epochs is no step.
        self._left_at = 0
        self._absences += 1

    def steered(self, steering: Steering | None, fixed: str) -> None:
        """Note who moves workers and read-ahead, and why the number of workers stays."""
        self._steering, self._fixed = steering, fixed

    def moved(self, workers: int, prefetch: int) -> None:
        """Note how many workers there are from now on, and how far they read ahead."""
        self._workers, self._prefetch = workers, prefetch

    def asked(self) -> None:
        """Note that the loop wants a batch."""
        self._asked_at = now = perf_counter_ns()
        if self._left_at:
            step = now - self._left_at
            self._absences += step > max(_ABSENCE_NS, 8 * self._step.mean)
            self._step.add(step)

    def delivered(self) -> None:
        """Note that the loop gets it."""
        self._left_at = self._delivered_at = now = perf_counter_ns()
        self._wait.add(now - self._asked_at)
        self._batches += 1

    def chosen(self, told: str) -> None:
        """Note who makes the batches, and why, in words."""
        self._chosen = told

    def fetched(self) -> tuple[int, int]:
        """Return how many samples were made, and what that took, collation included."""
        return self._all.samples, self._all.fetch.total + self._all.collate.total

    def spent(self) -> tuple[int, int, int]:
        """Return how many batches were delivered, and what the loop waited and worked."""
        return self._batches, self._wait.total, self._step.total

    def looked(self, now: int) -> dict[str, int]:
        """Return what a controller wants to know, with times of this clock."""
        waits = self._asked_at > self._delivered_at
        return {
            "samples": self._all.samples,
            "batches": self._batches,
            "delivered_ns": self._delivered_at,
            "wait_ns": self._wait.total + (now - self._asked_at if waits else 0),
            "absences": self._absences,
        }

    def step_seconds(self) -> float:
        """Return what the loop's step takes; 0 if nobody knows yet."""
        return self._step.mean / 1e9

    def replaced(self) -> None:
        """Note that a worker was replaced."""
        self._replaced += 1

    def failed(self, error: Exception) -> None:
        """Note that it gets an exception instead."""
        if not isinstance(error, StopIteration):
            self._errors += 1

    def made(
        self,
        worker: int,
        samples: int,
        fetch_ns: int,
        collate_ns: int,
        send_ns: int = 0,
        receive_ns: int = 0,
        size: int = 0,
    ) -> None:
        """Note what one batch took its worker, and whoever received it."""
        if not fetch_ns:
            return  # no batch, but an exception or a message
        own = self._made.get(worker)
        if own is None:
            own = self._made[worker] = Tally()
        for tally in (own, self._all):
            tally.samples += samples
            tally.batches += 1
            tally.busy_ns += fetch_ns + collate_ns + send_ns
            tally.fetch.add(fetch_ns)
            tally.collate.add(collate_ns)
            if self._mode == "process":
                tally.transport.add(send_ns + receive_ns)
                tally.bytes += size

    def filled(self, size: int) -> None:
        """Note a batch that several workers have filled."""
        self._is_shared = True
        if self._mode == "process":
            self._all.bytes += size

    def stats(self) -> Stats:
        """Return everything as plain data, as `feedline.stats.Stats` says."""
        consumer: ConsumerStats = {
            "step_ns": self._step.total,
            "wait_ns": self._wait.total,
            "handover_ns": 0,
            "waits": self._wait.times(),
        }
        measured = self._of_engine() if self._mode == "native" else None
        stats: Stats = self._of_python() if measured is None else json.loads(measured.json())
        # A batch with a collate function of the user's is several of the engine's.
        stats["batches"] = self._batches
        consumer["handover_ns"] = stats["consumer"]["handover_ns"]
        stats["consumer"] = consumer
        stats["mode"], stats["num_workers"] = self._mode, int(self._workers)
        stats["elapsed_ns"] = perf_counter_ns() - self._began_at if self._began_at else 0
        stats["stores"] = _stores.stats()
        return stats

    def _of_python(self) -> Stats:
        """Return what was measured without the engine; there is nothing of what only it has."""
        busy = [tally.busy_ns for tally in self._made.values()]
        # As the engine has it: the largest over the mean.
        imbalance = max(busy) * len(busy) / sum(busy) if any(busy) else 1.0
        return {
            "mode": self._mode,
            "num_workers": int(self._workers),
            "elapsed_ns": 0,
            "batches": self._batches,
            "samples": self._all.samples,
            "bytes": self._all.bytes,
            "errors": self._errors,
            "lost_workers": self._replaced,
            "consumer": {
                "step_ns": 0,
                "wait_ns": 0,
                "handover_ns": 0,
                "waits": Durations().times(),
            },
            "workers": [self._made[worker].stats(worker) for worker in sorted(self._made)],
            "stages": self._all.stages(),
            "batch_parts": {
                "queued_ns": 0,
                "building_ns": self._all.fetch.total,
                "collating_ns": self._all.collate.total,
                "shelved_ns": 0,
            },
            "recent_batches": [],
            "occupancy": [],
            "imbalance": imbalance,
            "efficiency": 1 / imbalance,
            "steals": {"tried": 0, "won": 0, "jobs": 0, "cost_ns": 0},
            "memory": {
                "undelivered": 0,
                "idle": 0,
                "held_by_user": 0,
                "peak": 0,
                "allocated_blocks": 0,
                "reused_blocks": 0,
            },
            "padded": {"values": 0, "places": 0},
            "prefetch": self._prefetch,
            "control": None if self._steering is None else self._steering.stats(),
            "ready": 0,
            "stores": [],
        }

    def explain(self) -> str:
        """Return in plain words where the time goes."""
        if not self._batches:
            return "No batch has been delivered yet: iterate first."
        if self._mode == "native":
            engine = self._of_engine()
            return engine.explain() if engine is not None else "Nothing was measured."
        wait, step = self._wait.total, self._step.total
        waiting = wait / max(wait + step, 1)
        lines = [
            f"{self._batches:,} batches from {self._who()}.",
            f"The training loop waited {_span(self._wait.mean)} per batch, "
            f"{waiting:.0%} of its time, and worked {_span(self._step.mean)}.",
            f"A {'part of a batch' if self._is_shared else 'batch'} took "
            f"{_span(self._made_mean)} to make: {self._parts()}.",
            self._verdict(waiting),
        ]
        if self._chosen:
            lines.append(self._chosen)
        if self._steering is not None:
            lines.append(self._steering.explain())
        if self._fixed:
            lines.append(f"The number of workers stays as it is: {self._fixed}.")
        return "\n".join(lines)

    @property
    def _made_mean(self) -> float:
        return self._all.fetch.mean + self._all.collate.mean + self._all.transport.mean

    def _who(self) -> str:
        if self._mode == "inline":
            return "the training loop itself (num_workers=0)"
        if self._workers == 1:
            return f"1 worker {self._mode}"
        several = {"process": "processes", "thread": "threads"}[self._mode]
        return f"{self._workers} worker {several}"

    def _parts(self) -> str:
        whole = max(self._made_mean, 1)
        named = [
            ("the dataset's samples", self._all.fetch.mean),
            ("collation", self._all.collate.mean),
            ("transport", self._all.transport.mean),
        ]
        return ", ".join(
            f"{_span(time)} ({time / whole:.0%}) {name}" for name, time in named if time
        )

    def _verdict(self, waiting: float) -> str:
        parts = {
            "in the dataset": self._all.fetch.mean,
            "in the collate function": self._all.collate.mean,
            "in handing batches over": self._all.transport.mean,
        }
        dear = max(parts, key=parts.__getitem__)
        if self._mode == "inline":
            if waiting < 0.1:
                return "Making batches costs the loop little; workers would bring little."
            return (
                f"Most of that is spent {dear}. With num_workers above 0 batches are made while "
                "the loop works."
            )
        if waiting < 0.05:
            return "The loop hardly waits: loading is not what bounds it."
        elapsed = max(self._wait.total + self._step.total, 1)
        busy = self._all.busy_ns / elapsed / max(self._workers, 1)
        if busy > 0.8 and self._steering is not None:
            return f"The workers are busy {min(busy, 1):.0%} of the time, mostly {dear}."
        if busy > 0.8:
            more = self._workers + 1
            return (
                f"The workers are busy {min(busy, 1):.0%} of the time, mostly {dear}: they "
                f"bound the loop. {more} workers instead of {self._workers} would bring up to "
                f"{more / self._workers:.2f} x, if there are cores for them."
            )
        if self._all.fetch.most > 4 * max(self._all.fetch.mean, 1):
            return (
                f"The workers are busy only {busy:.0%} of the time, yet the loop waits: some "
                f"batches take {_span(self._all.fetch.most)}, and those behind them wait for their "
                "turn. A larger prefetch_factor evens that out."
            )
        return (
            f"The workers are busy only {busy:.0%} of the time, yet the loop waits: batches are so "
            "small that handing them over counts. A larger batch_size or prefetch_factor helps."
        )


def _span(ns: float) -> str:
    """Return a time as people write it."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns:.0f} ns"
