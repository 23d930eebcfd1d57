"""What a loader measured, as numbers and in words.

Four things happen to a batch: the dataset makes its samples (*fetch*), they are put together
(*collate*), the batch comes from its worker to the training loop (*transport*), and the loop may
have to *wait* for it. Workers look at the watch and send the times along.
"""

from __future__ import annotations

import weakref
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from feedline.torch.iterators.native import NativeIterator

__all__ = ["Diary"]


class Diary:
    """Times of all batches since the loader was made.

    It is written by whoever iterates. Loaders are copied and pickled with it.
    """

    def __init__(self) -> None:
        self._mode = "inline"
        self._workers = 0
        self._batches = 0
        self._wait = _Span()
        self._step = _Span()
        self._fetch = _Span()
        self._collate = _Span()
        self._transport = _Span()
        self._bytes = 0
        # Of each worker: batches, and nanoseconds in which it was busy.
        self._made: dict[int, list[int]] = {}
        self._asked_at = 0
        self._left_at = 0
        # Of a pipeline: what the engine measured, and the iterator that can say more.
        self._engine: tuple[dict[str, Any], str] | None = None
        self._native: weakref.ref[NativeIterator] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_native": None}

    def begin_native(self, iterator: NativeIterator, workers: int) -> None:
        """Note that an iterator over a pipeline begins."""
        self.begin("native", workers)
        self._native = weakref.ref(iterator)

    def note_engine(self, measured: tuple[dict[str, Any], str] | None) -> None:
        """Note what the engine measured of a stretch that is over."""
        self._engine = measured

    def _of_engine(self) -> tuple[dict[str, Any], str] | None:
        iterator = self._native() if self._native is not None else None
        return (iterator.measured() if iterator is not None else None) or self._engine

    def begin(self, mode: str, workers: int) -> None:
        """Note that an iterator begins."""
        self._mode, self._workers = mode, workers
        # What is done between two epochs is no step.
        self._left_at = 0

    def asked(self) -> None:
        """Note that the loop wants a batch."""
        self._asked_at = now = perf_counter_ns()
        if self._left_at:
            self._step.add(now - self._left_at)

    def delivered(self) -> None:
        """Note that the loop gets it."""
        self._left_at = now = perf_counter_ns()
        self._wait.add(now - self._asked_at)
        self._batches += 1

    def made(
        self,
        worker: int,
        fetch_ns: int,
        collate_ns: int,
        send_ns: int = 0,
        receive_ns: int = 0,
        size: int = 0,
    ) -> None:
        """Note what one batch took its worker, and whoever received it."""
        if not fetch_ns:
            return  # no batch, but an exception or a message
        self._fetch.add(fetch_ns)
        self._collate.add(collate_ns)
        if self._mode == "process":
            self._transport.add(send_ns + receive_ns)
            self._bytes += size
        made = self._made.setdefault(worker, [0, 0])
        made[0] += 1
        made[1] += fetch_ns + collate_ns + send_ns

    def stats(self) -> dict[str, Any]:
        """Return everything as plain data; times in nanoseconds."""
        engine = self._of_engine() if self._mode == "native" else None
        return {
            **({"engine": engine[0]} if engine else {}),
            "mode": self._mode,
            "num_workers": self._workers,
            "batches": self._batches,
            "bytes": self._bytes,
            "fetch": self._fetch.stats(),
            "collate": self._collate.stats(),
            "transport": self._transport.stats(),
            "wait": self._wait.stats(),
            "step": self._step.stats(),
            "workers": [
                {"worker": worker, "batches": batches, "busy_ns": busy}
                for worker, (batches, busy) in sorted(self._made.items())
            ],
        }

    def explain(self) -> str:
        """Return in plain words where the time goes."""
        if not self._batches:
            return "No batch has been delivered yet: iterate first."
        if self._mode == "native":
            engine = self._of_engine()
            return engine[1] if engine else "Nothing was measured."
        wait, step = self._wait.total, self._step.total
        waiting = wait / max(wait + step, 1)
        lines = [
            f"{self._batches:,} batches from {self._who()}.",
            f"The training loop waited {_span(self._wait.mean)} per batch, "
            f"{waiting:.0%} of its time, and worked {_span(self._step.mean)}.",
            f"A batch took {_span(self._made_mean)} to make: {self._parts()}.",
            self._verdict(waiting),
        ]
        return "\n".join(lines)

    @property
    def _made_mean(self) -> float:
        return self._fetch.mean + self._collate.mean + self._transport.mean

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
            ("the dataset's samples", self._fetch.mean),
            ("collation", self._collate.mean),
            ("transport", self._transport.mean),
        ]
        return ", ".join(
            f"{_span(time)} ({time / whole:.0%}) {name}" for name, time in named if time
        )

    def _verdict(self, waiting: float) -> str:
        parts = {
            "in the dataset": self._fetch.mean,
            "in the collate function": self._collate.mean,
            "in handing batches over": self._transport.mean,
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
        busy = sum(busy for _, busy in self._made.values()) / elapsed / max(self._workers, 1)
        if busy > 0.8:
            more = self._workers + 1
            return (
                f"The workers are busy {min(busy, 1):.0%} of the time, mostly {dear}: they "
                f"bound the loop. {more} workers instead of {self._workers} would bring up to "
                f"{more / self._workers:.2f} x, if there are cores for them."
            )
        if self._fetch.most > 4 * max(self._fetch.mean, 1):
            return (
                f"The workers are busy only {busy:.0%} of the time, yet the loop waits: some "
                f"batches take {_span(self._fetch.most)}, and those behind them wait for their "
                "turn. A larger prefetch_factor evens that out."
            )
        return (
            f"The workers are busy only {busy:.0%} of the time, yet the loop waits: batches are so "
            "small that handing them over counts. A larger batch_size or prefetch_factor helps."
        )


class _Span:
    """Sum, number and largest of some times."""

    __slots__ = ("count", "most", "total")

    def __init__(self) -> None:
        self.total = self.count = self.most = 0

    def add(self, ns: int) -> None:
        self.total += ns
        self.count += 1
        if ns > self.most:
            self.most = ns

    @property
    def mean(self) -> float:
        return self.total / self.count if self.count else 0.0

    def stats(self) -> dict[str, float]:
        return {"total": self.total, "mean": self.mean, "max": self.most, "count": self.count}


def _span(ns: float) -> str:
    """Return a time as people write it."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns:.0f} ns"
