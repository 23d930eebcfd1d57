"""Who makes the batches of a loader with `worker_mode="auto"`, epoch by epoch."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch.multiprocessing

from feedline._feedline import usable_cores
from feedline._torch_private import MapDataPipe, _DatasetKind, lost
from feedline.torch.iterators.choice import Choice, Scene, decide
from feedline.torch.iterators.probe import Facts, probe
from feedline.torch.states.layout import Stateful

if TYPE_CHECKING:
    from collections.abc import Iterator

    from feedline.torch.dataloader import DataLoader
    from feedline.torch.iterators.choice import ChosenMode

__all__ = ["AutoMode", "as_chosen"]

# Samples that take so many times as long, or as short, are looked at again.
_CHANGED = 2.0


class AutoMode:
    """Decides before each epoch, and remembers what samples were like.

    Parameters
    ----------
    any_number
        Whether it also decides how many workers there are.
    """

    def __init__(self, *, any_number: bool) -> None:
        self._any_number = any_number
        self._facts: Facts | None = None
        # What the loader had measured when samples were looked at last.
        self._seen = (0, 0)
        self.choice: Choice | None = None

    def choose(self, loader: DataLoader[Any]) -> Choice:
        """Return who makes the batches of the epoch that begins."""
        self.choice = self._chosen(loader)
        return self.choice

    def goes_on(self, loader: DataLoader[Any]) -> bool:
        """Whether workers that are there from the epoch before make this one, too."""
        before = self.choice
        return before is not None and before.workers > 0 and self.choose(loader)[:2] == before[:2]

    def _chosen(self, loader: DataLoader[Any]) -> Choice:
        workers = None if self._any_number else loader.num_workers
        if workers == 0:
            return Choice("inline", 0, "num_workers is 0")
        some = workers or usable_cores()
        if loader._dataset_kind == _DatasetKind.Iterable:
            return Choice("process", some, "samples of an iterable dataset cannot be tried out")
        if isinstance(loader.dataset, MapDataPipe):
            return Choice("process", some, "a DataPipe is split between copies of it")
        if isinstance(loader.dataset, Stateful):
            return Choice("process", some, "the dataset has a state of its own")
        if self._facts is None or self._is_other_work(loader):
            self._facts = probe(loader)
            self._seen = loader._diary.fetched()
        if self._facts is None:
            return Choice("process", some, "the dataset gave no sample to try out")
        return decide(self._facts, self._scene(loader, workers))

    def _is_other_work(self, loader: DataLoader[Any]) -> bool:
        """Whether samples take much longer, or much shorter, than those that were tried out."""
        (samples, ns), (seen, seen_ns) = loader._diary.fetched(), self._seen
        if self._facts is None or samples - seen < self._facts.samples:
            return False
        ratio = (ns - seen_ns) / (samples - seen) / 1e9 / self._facts.seconds
        return not 1 / _CHANGED < ratio < _CHANGED

    def _scene(self, loader: DataLoader[Any], workers: int | None) -> Scene:
        batch = loader.batch_size or 1
        try:
            samples = len(loader) * batch
        except TypeError:
            samples = 100 * batch
        context = loader.multiprocessing_context or torch.multiprocessing.get_context()
        barred: list[tuple[ChosenMode, str]] = []
        modes: tuple[ChosenMode, ...] = ("inline", "thread", "process")
        if loader.worker_mode != "auto":
            others = [mode for mode in modes if mode != loader.worker_mode]
            barred += [(mode, f'worker_mode is "{loader.worker_mode}"') for mode in others]
        for what, wanted in (
            ("sample_timeout", loader.sample_timeout is not None),
            ("timeout", loader.timeout > 0),
            ("worker_init_fn", loader.worker_init_fn is not None),
        ):
            if wanted:
                barred.append(("inline", f"{what} is for workers"))
        if loader.sample_timeout is not None and loader.dataset_lock:
            barred.append(("thread", "sample_timeout and dataset_lock exclude each other there"))
        without_processes = lost("process")
        if without_processes is not None:
            barred.append(("process", without_processes))
        return Scene(
            workers=workers,
            cores=usable_cores(),
            samples=samples,
            batch=batch,
            stays=loader.persistent_workers,
            forks=context.get_start_method() == "fork",
            step=loader._diary.step_seconds(),
            barred=tuple(barred),
        )


@contextmanager
def as_chosen(loader: DataLoader[Any], choice: Choice) -> Iterator[None]:
    """While an iterator is made: let the loader have the mode and the workers that were chosen."""
    before = loader.worker_mode, loader.num_workers
    loader.worker_mode = "thread" if choice.mode == "thread" else "process"
    loader.num_workers = choice.workers
    try:
        yield
    finally:
        loader.worker_mode, loader.num_workers = before
