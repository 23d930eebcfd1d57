"""How torch's loaders are watched: some of its functions are replaced once it is imported.

torch is not imported by the doctor: a script may set what torch reads when it is imported.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import os
import sys
import time
from multiprocessing import util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from feedline.doctor.sampling import Sampler
from feedline.doctor.signals import FOLDER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import ModuleType

    from feedline.doctor.course import Course

__all__ = ["install", "watched_worker"]


class _Process:
    """The sampler of this process; a forked worker begins its own."""

    def __init__(self, folder: Path, pid: int) -> None:
        self.folder = folder
        self.pid = pid
        self.sampler: Sampler | None = None

    def here(self) -> Sampler | None:
        """Return the sampler of this process, which begins if it is a worker."""
        if os.getpid() != self.pid:
            self.pid, self.sampler = os.getpid(), None
            if sys.modules["torch.utils.data"].get_worker_info() is not None:
                self.begin(is_script=False)
        return self.sampler

    def begin(self, *, is_script: bool) -> None:
        """Begin to look."""
        self.sampler = Sampler(self.folder, is_script=is_script)
        self.sampler.start()
        # A worker process ends without what `atexit` has.
        util.Finalize(None, self.sampler.write, exitpriority=100)


class _Patches(importlib.abc.MetaPathFinder):
    """Changes modules right after they were imported."""

    def __init__(self, changes: dict[str, Callable[[Any], None]]) -> None:
        self._changes = changes

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        change = self._changes.get(fullname)
        if change is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None:
            return None
        loader: Any = spec.loader
        run = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            run(module)
            change(module)

        loader.exec_module = exec_module
        return spec


def install(course: Course, folder: Path, settings: Mapping[str, Any]) -> None:
    """Watch every loader that this process will make.

    Parameters
    ----------
    course
        What to do with batches.
    folder
        The run's folder.
    settings
        What loaders have instead of what the script says: ``num_workers`` and others; with
        ``loader="feedline"`` they are the drop-in's.
    """
    process = _Process(folder, os.getpid())
    process.begin(is_script=True)
    settings = dict(settings)
    uses_drop_in = settings.pop("loader", None) == "feedline"

    def torch(module: Any) -> None:  # noqa: ANN401 - torch, as a whole
        from feedline import _torch_private as private

        course.lost = private.lost("watch")
        if course.lost is not None:
            return
        if uses_drop_in:
            from feedline.torch import install as use_drop_in

            use_drop_in()
        _watch_iterators(private._BaseDataLoaderIter, course)
        _change_settings(module.utils.data.dataloader.DataLoader, settings)
        watched_worker.original = private.worker_loop  # type: ignore[attr-defined]
        private.set_worker_loop(watched_worker)
        _watch_fetchers(process)

    def claiming(module: Any) -> None:  # noqa: ANN401 - the drop-in's
        module.Maker.__call__ = _watched(module.Maker.__call__, process)

    def native(module: Any) -> None:  # noqa: ANN401 - the native loader's
        _note_made(module)

    changes: dict[str, Callable[[Any], None]] = {
        "torch": torch,
        "feedline.torch.workers.claiming": claiming,
        "feedline.loader": native,
    }
    for name, change in list(changes.items()):
        if name in sys.modules:
            change(sys.modules[name])
            del changes[name]
    sys.meta_path.insert(0, _Patches(changes))


def _note_made(module: Any) -> None:  # noqa: ANN401 - the native loader's
    made = module.Loader.__init__

    @functools.wraps(made)
    def init(self: Any, *arguments: Any, **named: Any) -> None:  # noqa: ANN401
        module._feedline_doctor_made = True
        made(self, *arguments, **named)

    module.Loader.__init__ = init


def _watch_iterators(base: Any, course: Course) -> None:  # noqa: ANN401 - torch's
    init, following, reset = base.__init__, base.__next__, base._reset

    @functools.wraps(init)
    def watched_init(self: Any, loader: Any) -> None:  # noqa: ANN401
        init(self, loader)
        course.begin(self, loader)

    @functools.wraps(reset)
    def watched_reset(self: Any, loader: Any, first_iter: bool = False) -> None:  # noqa: ANN401
        reset(self, loader, first_iter)
        course.again(self)

    # stages.py knows it by its name.
    def watched_next(self: Any) -> Any:  # noqa: ANN401
        return course.next(self, following)

    base.__init__, base._reset, base.__next__ = watched_init, watched_reset, watched_next


def _change_settings(kind: Any, settings: Mapping[str, Any]) -> None:  # noqa: ANN401 - torch's
    if not settings:
        return
    init = kind.__init__

    @functools.wraps(init)
    def changed(self: Any, *arguments: Any, **named: Any) -> None:  # noqa: ANN401
        init(self, *arguments, **named)
        for name, value in settings.items():
            # torch refuses some of them after its own `__init__`.
            object.__setattr__(self, name, value)
        if self.num_workers and self.prefetch_factor is None:
            object.__setattr__(self, "prefetch_factor", 2)

    kind.__init__ = changed


def _watch_fetchers(process: _Process) -> None:
    from feedline._torch_private import _IterableDatasetFetcher, _MapDatasetFetcher

    for kind in (_MapDatasetFetcher, _IterableDatasetFetcher):
        kind.fetch = _watched(kind.fetch, process)  # type: ignore[method-assign]


def _watched(make: Callable[..., Any], process: _Process) -> Callable[..., Any]:
    """Return a function that makes a batch and notes how long that took."""

    @functools.wraps(make)
    def watched_make(*arguments: Any) -> Any:  # noqa: ANN401 - a batch
        sampler = process.here()
        if sampler is None or not sampler.is_watching:
            return make(*arguments)
        began, cpu = time.perf_counter(), time.thread_time()
        try:
            return make(*arguments)
        finally:
            sampler.made += 1
            sampler.made_seconds += time.perf_counter() - began
            sampler.made_cpu += time.thread_time() - cpu

    return watched_make


def watched_worker(*arguments: Any) -> None:  # noqa: ANN401 - torch's
    """Run torch's worker loop; in a started, not forked, process begin to watch first."""
    original = getattr(watched_worker, "original", None)
    if original is None:
        from feedline._torch_private import worker_loop

        original = worker_loop
        folder = os.environ.get(FOLDER)
        if folder:
            process = _Process(Path(folder), os.getpid())
            process.begin(is_script=False)
            _watch_fetchers(process)
    original(*arguments)
