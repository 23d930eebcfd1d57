"""Making one batch: torch's own fetcher, with a watch and, on request, a lock on the dataset."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, NamedTuple

from feedline._torch_private import _DatasetKind
from feedline.torch.order.seeding import Seeded

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from feedline._torch_private import _BaseDatasetFetcher

__all__ = ["NOTHING", "Fetching", "Terms", "locked"]

# What making no batch took.
NOTHING = (0, 0, 0)


class Terms(NamedTuple):
    """What a worker must know to make batches."""

    dataset: Any
    dataset_kind: int
    auto_collation: bool
    collate_fn: Callable[[Any], Any]
    drop_last: bool
    base_seed: int
    init_fn: Callable[[int], None] | None
    num_workers: int
    shared_seed: int | None
    # Where each worker begins, if not at the start, and whether iterators go on as well.
    states: tuple[dict[str, Any] | None, ...] = ()
    goes_on: bool = True
    # The seed of samples, and whether to seed all global generators.
    seed: int | None = None
    seed_everything: bool = True
    # Of offered batches: what a sample that fails costs, whether arrays go straight into the batch,
    # and whether somebody watches the samples.
    on_error: str = "raise"
    uses_slots: bool = False
    is_watched: bool = False

    def fetcher(self) -> _BaseDatasetFetcher:
        """Return torch's fetcher; for an iterable dataset this calls its `__iter__`."""
        fetcher: _BaseDatasetFetcher = _DatasetKind.create_fetcher(
            self.dataset_kind, self.dataset, self.auto_collation, self.collate_fn, self.drop_last
        )
        if self.seed is not None and self.dataset_kind == _DatasetKind.Map:
            fetcher.dataset = Seeded(self.dataset, self.seed, everything=self.seed_everything)
        return fetcher

    def state(self, worker_id: int) -> dict[str, Any] | None:
        """Return where a worker begins."""
        return self.states[worker_id] if worker_id < len(self.states) else None


class Fetching:
    """Makes batches, and knows how long each took.

    The fetcher is torch's own, so what is called, in which order and with what, is torch's. It gets
    a collate function that looks at the watch before it calls the user's: what came before is the
    dataset's time, what comes after is collation.

    Parameters
    ----------
    fetcher
        What makes the batches.
    lock
        Held while the dataset is used, not while samples are collated.

    Attributes
    ----------
    took
        How many samples the last batch has, and the nanoseconds that its samples and their
        collation took.
    """

    def __init__(self, fetcher: _BaseDatasetFetcher, lock: threading.Lock | None = None) -> None:
        self.took = NOTHING
        self.fetcher: Any = fetcher
        self._fetcher = fetcher
        self._watch = fetcher.collate_fn = _Watch(
            fetcher.collate_fn, lock, counts=fetcher.auto_collation
        )

    def begin_epoch(self, epoch: int) -> None:
        """Tell the dataset which epoch the next samples are for, if it wants to know."""
        if isinstance(self.fetcher.dataset, Seeded):
            self.fetcher.dataset.epoch = epoch

    def __call__(self, index: Any) -> Any:  # noqa: ANN401 - whatever the sampler yields
        """Return the batch of one item of the sampler."""
        watch = self._watch
        watch.lock()
        watch.fetched = 0
        began = perf_counter_ns()
        try:
            return self._fetcher.fetch(index)
        finally:
            ended = perf_counter_ns()
            # 0: the dataset raised before there was anything to collate.
            fetched = watch.fetched or ended
            self.took = (watch.samples, fetched - began, ended - fetched)
            watch.unlock()


class _Watch:
    """The user's collate function, with the time at which it was called, and of how many samples.

    It knows nothing of the fetcher: no cycle may keep a dataset's iterator alive when the loader's
    is dropped.
    """

    __slots__ = ("_collate", "_counts", "_held", "_lock", "fetched", "samples")

    def __init__(
        self, collate: Callable[[Any], Any], lock: threading.Lock | None, *, counts: bool
    ) -> None:
        self.fetched = 0
        self.samples = 0
        # Whether it is called with a list of samples, not with a single one.
        self._counts = counts
        self._collate = collate
        self._lock = lock
        self._held = False

    def __call__(self, samples: Any) -> Any:  # noqa: ANN401 - the user's samples
        self.fetched = perf_counter_ns()
        self.samples = len(samples) if self._counts and isinstance(samples, list) else 1
        self.unlock()
        return self._collate(samples)

    def lock(self) -> None:
        if self._lock is not None:
            self._lock.acquire()
            self._held = True

    def unlock(self) -> None:
        if self._held and self._lock is not None:
            self._held = False
            self._lock.release()


def locked(lock: threading.Lock | None) -> AbstractContextManager[Any]:
    """Hold the lock, if there is one."""
    return nullcontext() if lock is None else lock
