"""A `feedline.Pipeline` as the dataset: made by native threads, in the sampler's order.

torch's sampler says which samples, in which order; the engine makes them and puts them together in
their batch's memory, without Python. The sampler is read a stretch ahead: an epoch, unless that is
very long.

The structure is what `default_collate` makes of a dataset of such samples: a list of fields, or a
dict where fields have names. A `collate_fn` of the user's gets the samples of a batch, which are
made natively all the same; it runs in the thread of the loop. So it is with batches of different
sizes, as a batch sampler may ask for; except where a pipeline mixes whole batches: then each run of
equally large ones is a stretch of its own.
"""

from __future__ import annotations

import itertools
import operator
import warnings
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from torch.utils.data import default_collate

from feedline._feedline import NativeLoader
from feedline._samples import samples_of
from feedline._torch_private import _BaseDataLoaderIter
from feedline.auto import Auto
from feedline.errors import ForkError, SampleError
from feedline.torch.iterators.left_open import auto_of
from feedline.torch.order.seeding import sample_seed
from feedline.torch.states.bookmark import Counted, live_state

if TYPE_CHECKING:
    from collections.abc import Iterable

    from feedline._feedline import Measures, NativeEpoch
    from feedline.pipeline import Pipeline
    from feedline.torch.compiled.form import Form
    from feedline.torch.dataloader import DataLoader

__all__ = ["LEFT", "NativeIterator", "WorkersLeft", "check_settings"]

# How many samples are read ahead from the sampler: 8 MB of indices.
STRETCH = 1 << 20

# How many batches the engine begins ahead if nobody says so.
_PREFETCH = 4

# How many batches of the user's a controller reads ahead at most, if nobody says so.
_FURTHEST = 64

# Odd, so that no two of 2**64 epochs have the same seed.
_NEXT_SEED = 0x9E3779B97F4A7C15


class WorkersLeft(int):
    """Torch's default of `num_workers`, 0, which nobody has asked for.

    Where Python runs it is 0; the engine takes as many threads as `feedline.Loader` would. It is
    kept by whatever makes a loader like another, with all its attributes.
    """


LEFT = WorkersLeft(0)


def check_settings(loader: DataLoader[Any], pipeline: Pipeline) -> None:
    """Refuse what a loader of a pipeline cannot do.

    Parameters
    ----------
    loader
        A loader of a pipeline.
    pipeline
        Which one.

    Raises
    ------
    ValueError
        With what to do instead.
    """
    if loader.worker_init_fn is not None and loader.num_workers and not loader._has_warned_of_init:
        # Frameworks pass one of their own, to seed workers, whatever the dataset is.
        loader._has_warned_of_init = True
        warnings.warn(
            "worker_init_fn prepares workers that run Python, and a pipeline is made by native "
            "threads: it is not called",
            stacklevel=5,
        )
    if loader.collate_fn is default_collate:
        pipeline._check_loadable()
    elif loader._auto_collation and pipeline._source.batch_fields() is not None:
        msg = (
            "collate_fn puts samples together, and map_batches makes whole batches; do in "
            "map_batches what collate_fn does, and leave that out"
        )
        raise ValueError(msg)
    if not loader._auto_collation and (operations := pipeline._batch_operations()):
        name = operations[0]
        msg = (
            f"{name} mixes whole batches, and batch_size=None delivers single samples; pass a "
            f"batch_size, or leave {name} out"
        )
        raise ValueError(msg)
    if pipeline._source.is_mixture:
        msg = (
            "a mixture decides itself how often each sample comes, and here the sampler does; use "
            "feedline.Loader"
        )
        raise ValueError(msg)


class NativeIterator(Counted, _BaseDataLoaderIter):
    """Batches of a pipeline.

    Parameters
    ----------
    loader
        Whose batches.
    pipeline
        What they are made of.
    form
        How its fields become batches; None as they are.
    """

    def __init__(
        self, loader: DataLoader[Any], pipeline: Pipeline, form: Form | None = None
    ) -> None:
        self._begin_epoch(loader)
        self._seed = loader.seed
        self._about = loader._about()
        if self._num_workers == 0 and self._timeout != 0:
            msg = "_SingleProcessDataLoaderIter requires timeout == 0"
            raise AssertionError(msg)
        self._profile_name = "enumerate(DataLoader)#NativeIterator.__next__"
        self._pipeline = pipeline
        self._form = form
        self._mixes = bool(pipeline._batch_operations())
        self._leaves_workers = isinstance(loader.num_workers, WorkersLeft)
        self._prefetch = (loader.prefetch_factor or 1) * max(self._num_workers, 1)
        # Where a controller decides: what, how far it may go, and what it has come to, for the
        # stretches after this one.
        self._workers_open = Auto() if self._leaves_workers else auto_of(loader.num_workers)
        self._prefetch_open = auto_of(loader.prefetch_factor)
        self._reached = loader._reached
        self._memory = loader.memory
        self._plain = self._collate_fn is default_collate
        self._native: NativeLoader | None = None
        self._diary = loader._diary
        self._on_error, self._max_errors = loader.on_error, loader.max_errors
        self._sample_timeout = loader.sample_timeout
        self._faults = loader._faults
        self._faults.of_engine = live_state(NativeIterator._errors_now, self)
        self._begin()

    def _reset(self, loader: DataLoader[Any], first_iter: bool = False) -> None:
        self._latest = self._bookmark.again(self)
        _BaseDataLoaderIter._reset(self, loader, first_iter)
        self._begin()

    def _begin(self) -> None:
        self._diary.begin_native(self, self._num_workers)
        self._latest.num_workers = self._num_workers
        self._latest.persistent = self._persistent_workers
        self._latest.about = self._about
        self._latest.is_native = True
        self._num_yielded = self._latest.num_yielded
        # Now, so that a state taken before the first batch knows of it.
        self._count_samples()
        self._sizes: deque[int] = deque()
        self._samples: list[Any] = []
        # What was read from the sampler and belongs to the next stretch.
        self._held: list[Any] | None = None
        self._running: NativeEpoch | None = None
        self._over: Exception | None = None
        if self._num_workers > 0:
            # As with workers of any kind: the sampler is asked now; without, at the first batch.
            self._read()

    def _next_data(self) -> Any:  # noqa: ANN401 - the user's batch
        self._diary.asked()
        while not self._sizes:
            over, self._over = self._over, StopIteration()
            if over is not None:
                self._let_go()
                raise over
            self._over = None
            self._read()
        left = len(self._sizes)
        try:
            batch = self._whole_batch() if self._whole else self._collated_batch()
        finally:
            # An error costs its batch; a time limit that is over does not.
            if len(self._sizes) < left:
                self._latest.delivered()
        self._diary.delivered()
        return batch

    def _whole_batch(self) -> Any:  # noqa: ANN401 - the engine's batch
        batch = self._take()
        if not self._plain:
            return self._collate_fn(samples_of(batch, self._pipeline._source.fields()))
        if self._form is not None:
            return self._form.batch(batch)
        return batch if self._pipeline._named else list(batch)

    def _collated_batch(self) -> Any:  # noqa: ANN401 - what the collate function makes
        failure: SampleError | None = None
        for _ in range(self._sizes[0] - len(self._samples)):
            try:
                batch = self._take(last=False)
            except SampleError as error:
                # The batch is lost, but its other samples must not end up in the next one.
                failure = failure or error
                self._samples.append(None)
            else:
                samples = samples_of(batch, self._pipeline._source.fields())
                self._samples += samples if self._form is None else map(self._form.sample, samples)
        self._sizes.popleft()
        samples, self._samples = self._samples, []
        if failure is not None:
            raise failure
        return self._collate_fn(samples if self._auto_collation else samples[0])

    def _take(self, *, last: bool = True) -> Any:  # noqa: ANN401 - the engine's batch
        """Return the engine's next batch; `last` says that it is all of the user's."""
        if self._running is None:
            msg = "a batch is taken only where sizes are known, and those come with an epoch"
            raise AssertionError(msg)
        try:
            batch = self._running.take(self._timeout or None)
        except TimeoutError:
            msg = f"DataLoader timed out after {self._timeout} seconds"
            raise RuntimeError(msg) from None
        except SampleError:
            if last:
                self._sizes.popleft()
            raise
        if last:
            self._sizes.popleft()
        return batch

    def _read(self) -> None:
        """Take the next stretch of the sampler's, and start to make it."""
        batches: list[list[Any]] = []
        samples = 0
        try:
            while samples < STRETCH:
                batch = self._next_indices()
                if self._mixes and batches and not _goes_with(batches, batch):
                    self._held = batch
                    break
                batches.append(batch)
                samples += len(batch)
        except Exception as over:
            # The end, or an error of the sampler's, which comes after what it gave before.
            self._over = over
        if not batches:
            return
        sizes = [len(batch) for batch in batches]
        # The engine makes the user's batches if all but the last are equally large.
        alike = sizes[0] > 0 and set(sizes[:-1]) <= {sizes[0]} and 0 < sizes[-1] <= sizes[0]
        self._whole = (self._plain or self._mixes) and self._auto_collation and alike
        self._sizes.extend(sizes)
        if samples:
            indices = _indices(itertools.chain.from_iterable(batches), samples, len(self._pipeline))
            self._start(indices, sizes[0] if self._whole else 1, max(sizes))

    def _next_indices(self) -> list[Any]:
        if self._held is not None:
            held, self._held = self._held, None
            return held
        item = next(self._sampler_iter)
        return list(item) if self._auto_collation else [item]

    def _start(self, indices: list[int], batch_size: int, largest: int) -> None:
        self._let_go()
        # By epoch and not by stretch: after resuming, stretches are others.
        seed = (int(self._base_seed) + self._latest.epoch * _NEXT_SEED) % 2**64
        if self._seed is not None:
            seed = sample_seed(self._seed, self._latest.epoch, 0)
        settings: dict[str, object] = {
            "batch_size": batch_size,
            "indices": indices,
            "seed": seed,
            "boundary": "keep",
            "epochs": 1,
            "pin_memory": self._pin_memory,
            "on_error": self._on_error,
        }
        if not self._leaves_workers:
            settings["num_workers"] = int(self._num_workers)
            settings["prefetch"] = self._prefetch * (largest // batch_size)
        elif batch_size < largest:
            # The engine's own number, of the user's batches.
            settings["prefetch"] = _PREFETCH * (largest // batch_size)
        if self._memory is not None:
            settings["memory"] = self._memory
        settings |= self._left_open(largest // batch_size)
        if self._max_errors is not None:
            settings["max_errors"] = self._max_errors
        if self._sample_timeout is not None:
            settings["sample_timeout"] = self._sample_timeout
        pipeline = self._pipeline
        self._native = NativeLoader(pipeline._source, pipeline._named, "torch", settings)
        self._running = self._native.epoch()
        self._diary.note_workers(self._native.workers)

    def _left_open(self, batches: int) -> dict[str, object]:
        """Return what a controller decides, where so many batches of the engine's are one."""
        settings: dict[str, object] = {}
        if self._workers_open is not None:
            settings["auto_num_workers"] = self._workers_open.most or 0
            if "num_workers" in self._reached:
                settings["num_workers"] = self._reached["num_workers"]
        if self._prefetch_open is not None:
            most = self._prefetch_open.most
            furthest = _FURTHEST if most is None else most * max(self._num_workers, 1)
            # 0: as far as the engine thinks, which counts batches of its own.
            by_engine = most is None and batches == 1
            settings["auto_prefetch"] = 0 if by_engine else furthest * batches
        return settings

    def _errors_now(self) -> list[SampleError]:
        return [] if self._native is None else self._native.errors()

    def measured(self) -> Measures | None:
        """Return what the engine measured of the current stretch."""
        return None if self._native is None else self._native.measures()

    def _let_go(self) -> None:
        if self._native is not None:
            self._faults.keep(self._native.errors())
            if self._workers_open is not None:
                self._reached["num_workers"] = self._native.workers
            self._diary.note_engine(self.measured())
            self._running = self._native = None

    def __del__(self) -> None:
        if getattr(self, "_native", None) is not None:
            # A copy in a forked process has nothing to tell.
            with suppress(ForkError):
                self._let_go()


def _goes_with(batches: list[list[Any]], batch: list[Any]) -> bool:
    """Whether the engine can make a batch after others: all alike, the last perhaps smaller."""
    return len(batches[-1]) == len(batches[0]) >= len(batch) > 0


def _indices(given: Iterable[Any], count: int, total: int) -> list[int]:
    try:
        indices = np.fromiter(map(operator.index, given), dtype=np.int64, count=count)
    except (TypeError, OverflowError) as error:
        msg = (
            f"the samples of a pipeline are numbered, and the sampler gave something else: {error}"
        )
        raise TypeError(msg) from None
    indices[indices < 0] += total
    outside = indices[(indices < 0) | (indices >= total)]
    if outside.size:
        msg = f"the sampler gave index {outside[0]}, and the pipeline has {total} samples"
        raise IndexError(msg)
    listed: list[int] = indices.tolist()
    return listed
