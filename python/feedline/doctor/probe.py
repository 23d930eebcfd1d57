"""A change that is tried for a moment in the script's own run, before it is recommended.

What a model cannot know, such as whether a disk serves more readers, a second of the real loop
says. A loader with the changed settings is made beside the script's, and the loop gets its batches.
"""

from __future__ import annotations

import copy
import time
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["START", "TRIED", "Probe", "kept", "rebuilt"]

# Settings that can be tried so.
TRIED = frozenset({"num_workers", "worker_mode", "loader"})
# How long its workers may take to start, in seconds; and how many batches are enough.
START, _BATCHES = 3.0, 20
# What is seen in the first moment does not count: seconds.
_SETTLED = 0.4


class Probe:
    """One change under way.

    Parameters
    ----------
    loader
        The script's loader.
    settings
        What the other one has instead.
    seconds, most
        For how long to look at least, and at most.
    """

    def __init__(
        self,
        loader: Any,  # noqa: ANN401 - torch's
        settings: Mapping[str, Any],
        *,
        seconds: float,
        most: float,
    ) -> None:
        self.settings = dict(settings)
        self._seconds, self._most = seconds, most
        with warnings.catch_warnings():
            # That workers are more than cores is known here.
            warnings.simplefilter("ignore")
            changed = _changed(loader, settings)
            self._iterator = changed._get_iterator()
        self._workers = max(changed.num_workers, 1)
        self._ready = changed.num_workers * (changed.prefetch_factor or 2) + 3
        self._began = time.perf_counter()
        self._first_at = self._counts_from = 0.0
        self._count = 0
        self._periods: list[float] = []

    def next(self, step: float | None) -> Any:  # noqa: ANN401 - a batch
        """Return a batch, and note how long it and the step before it took."""
        asked = time.perf_counter()
        batch = next(self._iterator)
        now = time.perf_counter()
        self._count += 1
        if self._counts_from:
            if step is not None:
                self._periods.append(step + now - asked)
        elif not self._first_at:
            self._first_at = now
        # What lay ready is gone by then, and workers have touched the memory that they share.
        elif self._count >= self._ready and now - self._first_at > _SETTLED:
            self._counts_from = now
        return batch

    @property
    def is_over(self) -> bool:
        """Whether enough was seen, or it takes too long."""
        now = time.perf_counter()
        if now - self._began > self._most + START:
            return True
        if not self._counts_from:
            return False
        took, count = now - self._counts_from, len(self._periods)
        # Batches come in bursts, one of each worker.
        is_whole = count >= _BATCHES and count % self._workers == 0
        return took > self._seconds and (is_whole or took > self._most)

    def told(self) -> dict[str, Any]:
        """Return what came of it."""
        if len(self._periods) < 3:
            return {"settings": self.settings, "problem": "it handed out too few batches"}
        return {
            "settings": self.settings,
            "seconds": sum(self._periods),
            "period": sum(self._periods) / len(self._periods),
        }

    def end(self) -> None:
        """End its workers, if it has any."""
        end = getattr(self._iterator, "_shutdown_workers", None)
        self._iterator = iter(())
        if end is not None:
            end()


def _changed(loader: Any, settings: Mapping[str, Any]) -> Any:  # noqa: ANN401 - torch's
    """Return a loader like this one, with other settings."""
    others = {name: value for name, value in settings.items() if name != "loader"}
    if "loader" in settings:
        workers = others.pop("num_workers", loader.num_workers)
        ahead = {"prefetch_factor": loader.prefetch_factor} if workers else {}
        return rebuilt(loader, num_workers=workers, **ahead, **others)
    changed = copy.copy(loader)
    # torch refuses some of them once a loader is made.
    for name, value in others.items():
        object.__setattr__(changed, name, value)
    if changed.num_workers and changed.prefetch_factor is None:
        object.__setattr__(changed, "prefetch_factor", 2)
    changed._iterator = None
    return changed


def rebuilt(loader: Any, *, batch_size: int | None = None, **settings: Any) -> Any:  # noqa: ANN401
    """Return a loader of the drop-in with the same data and other settings.

    Parameters
    ----------
    loader
        A DataLoader, torch's or the drop-in's.
    batch_size
        Samples of a batch (default: as many as it has).
    settings
        The drop-in's arguments.

    Returns
    -------
    DataLoader
        The drop-in's.
    """
    from feedline.torch import DataLoader

    given = {name: getattr(loader, name) for name in kept(loader, **settings)}
    if loader.batch_size is not None:
        given["batch_size"] = batch_size or loader.batch_size
    elif loader.batch_sampler is None:
        given["batch_size"] = None
    return DataLoader(loader.dataset, **given, **settings)


def _kept_of_drop_in(loader: Any, workers: int, settings: Mapping[str, Any]) -> list[str]:  # noqa: ANN401
    """Return what only the drop-in has, where it is not what it is by default."""
    from feedline.torch import DataLoader

    names = ["on_error", "max_errors", "memory", "dataset_lock", "assignment", "on_worker_death"]
    # Both are not to be had of threads.
    if workers and not (loader.dataset_lock and settings.get("worker_mode") == "thread"):
        names.append("sample_timeout")
    found = [name for name in names if getattr(loader, name) != getattr(DataLoader, name)]
    return found if loader.seed is None else [*found, "seed"]


def kept(loader: Any, *, num_workers: int, **settings: Any) -> list[str]:  # noqa: ANN401
    """Return what a loader made again has as the one before, beside its data and batch size.

    Parameters
    ----------
    loader
        A DataLoader.
    num_workers, settings
        What the other one has.

    Returns
    -------
    list[str]
        Names of arguments, which are attributes, too. Those that have torch's default are left out.
    """
    from torch.utils.data import IterableDataset

    names = ["drop_last", "pin_memory", "worker_init_fn", "generator"]
    if num_workers:
        names += ["timeout", "persistent_workers"]
        if settings.get("worker_mode", "process") == "process":
            names.append("multiprocessing_context")
    names = [name for name in names if getattr(loader, name)]
    if num_workers and not getattr(loader, "in_order", True):
        names.append("in_order")
    if getattr(loader.collate_fn, "__module__", "") != "torch.utils.data._utils.collate":
        names.append("collate_fn")
    if hasattr(loader, "_diary"):
        names += _kept_of_drop_in(loader, num_workers, settings)
    if loader.batch_size is None and loader.batch_sampler is not None:
        # It says itself which samples a batch has, and whether the last one is dropped.
        return ["batch_sampler", *(name for name in names if name != "drop_last")]
    # An iterable dataset has the order of its samples itself.
    return names if isinstance(loader.dataset, IterableDataset) else ["sampler", *names]
