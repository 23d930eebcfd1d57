"""Measuring a loader at one setting."""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from feedline.model.calibration import _bytes, _length

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from feedline.tune.settings import Setting
    from feedline.tune.targets import Target

__all__ = ["Trial", "measured"]


class Trial(NamedTuple):
    """What was measured at one setting.

    Attributes
    ----------
    setting
        Which.
    rate
        Samples per second.
    period
        Seconds of a batch.
    cpu
        Processor seconds of a batch, without those of worker processes.
    batch_bytes
        Bytes of a batch.
    memory
        Bytes that the loader took beside what there was.
    seconds
        How long the measurement took, with starting and ending.
    problem
        Why there is no rate, if there is none.
    """

    setting: Setting
    rate: float
    period: float
    cpu: float
    batch_bytes: int
    memory: int
    seconds: float
    problem: str = ""


def measured(target: Target, setting: Setting, *, seconds: float, step: float = 0.0) -> Trial:
    """Run a loader for a while.

    Parameters
    ----------
    target
        What makes it.
    setting
        Its settings.
    seconds
        For how long to measure.
    step
        Seconds that the training step takes, which sleeps here.

    Returns
    -------
    Trial
        What was seen; a setting that fails is a trial with a problem.
    """
    began, before = time.perf_counter(), _memory()
    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(warnings.catch_warnings())
            # Whether more workers than cores are of use is what is asked here.
            warnings.filterwarnings("ignore", "This DataLoader will create")
            batches = _endless(target.make(setting))
            stack.callback(batches.close)  # type: ignore[attr-defined]
            # What is made while workers start lies ready then.
            ahead = setting.prefetch * max(setting.workers, 1) + 1
            _taken(batches, ahead, seconds / 2, step)
            cpu, at = _cpu(), time.perf_counter()
            count, samples, size = _taken(batches, 1 << 60, seconds, step)
            took, cpu = time.perf_counter() - at, _cpu() - cpu
            memory = max(_memory() - before, 0)
    except Exception as error:  # a setting that the loader refuses is no end of the search
        return Trial(setting, 0.0, 0.0, 0.0, 0, 0, time.perf_counter() - began, repr(error))
    finally:
        gc.collect()
    return Trial(
        setting,
        samples / took,
        took / count,
        cpu / count,
        size // count,
        memory,
        time.perf_counter() - began,
    )


def _endless(loader: Iterable[Any]) -> Iterator[Any]:
    while True:
        some = False
        for batch in loader:
            some = True
            yield batch
        if not some:
            raise ValueError("the loader has no batches")


def _taken(batches: Iterator[Any], most: int, seconds: float, step: float) -> tuple[int, int, int]:
    """Take batches for a while; return how many, their samples and their bytes."""
    end = time.perf_counter() + seconds
    count = samples = size = 0
    for batch in batches:
        count += 1
        samples += _length(batch)
        size += _bytes(batch)
        del batch
        if step > 0:
            time.sleep(step)
        if count >= most or (time.perf_counter() >= end and count >= 3):
            break
    return count, samples, size


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _memory() -> int:
    """Return the proportional share of memory of this process and what it started, in bytes."""
    pids = [os.getpid()]
    for pid in pids:  # which grows: workers of forkserver are children of a child
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                pids += [int(it) for it in (task / "children").read_text().split()]
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError, ValueError):
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1]) * 1024
    return total
