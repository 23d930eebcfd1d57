"""Who makes the batches of a loader with `worker_mode="auto"`, epoch by epoch."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import torch.multiprocessing

from feedline._feedline import usable_cores
from feedline._torch_private import MapDataPipe, _DatasetKind, lost
from feedline.torch.iterators.choice import NAMES, Choice, Scene, decide, estimate
from feedline.torch.iterators.left_open import LeftOpen, auto_of
from feedline.torch.iterators.probe import Facts, probe
from feedline.torch.iterators.steering import MOST
from feedline.torch.states.layout import Stateful

if TYPE_CHECKING:
    from collections.abc import Iterator

    from feedline.torch.dataloader import DataLoader
    from feedline.torch.iterators.choice import ChosenMode

__all__ = ["AutoMode", "as_chosen"]

# Samples that take so many times as long, or as short, are looked at again.
_CHANGED = 2.0
# What another mode must promise to be taken in place of the one there is; each change doubles it.
_BETTER = 0.1
# An epoch of so many batches and seconds says what its mode takes, within these bounds.
_BATCHES, _SECONDS = 8, 0.5
_LEAST, _MOST = 0.25, 4.0


class AutoMode:
    """Decides before each epoch, and remembers what samples were like and what epochs took.

    An epoch that took longer than was estimated corrects the estimate of its mode, so a mode that
    promised too much is left. Each change doubles what the next must promise, until samples
    themselves change: so it does not go to and fro. How many workers there are, where that is left
    open, is decided here at first, and by the controller from then on.
    """

    def __init__(self) -> None:
        self._facts: Facts | None = None
        # What the loader had measured when it was decided last: samples, batches.
        self._seen = ((0, 0), (0, 0, 0))
        # Nanoseconds that a worker takes for a sample in earnest, if that is not what it seemed.
        self._usual: float | None = None
        # By what epochs of a mode took longer than was estimated.
        self._was_off: dict[str, float] = {}
        self._changes = 0
        self.choice: Choice | None = None

    def choose(self, loader: DataLoader[Any]) -> Choice:
        """Return who makes the batches of the epoch that begins."""
        before = self.choice
        chosen = self._chosen(loader)
        auto = auto_of(loader.num_workers)
        if auto is not None and chosen.workers:
            workers = loader._steering.reached(chosen.mode) or auto.start or chosen.workers
            chosen = chosen._replace(workers=min(workers, auto.most or workers), is_first=True)
        self.choice = chosen
        if before is not None and before.mode != self.choice.mode:
            self._changes += 1
        return self.choice

    def goes_on(self, loader: DataLoader[Any]) -> bool:
        """Whether workers that are there from the epoch before make this one, too."""
        before = self.choice
        if before is None or before.workers == 0:
            return False
        now = self.choose(loader)
        return now.mode == before.mode and (now.is_first or now.workers == before.workers)

    def _chosen(self, loader: DataLoader[Any]) -> Choice:
        auto = auto_of(loader.num_workers)
        workers = None if auto is not None else loader.num_workers
        if workers == 0:
            return Choice("inline", 0, "num_workers is 0")
        some, mode = int(loader.num_workers), _untried(loader)
        if loader._dataset_kind == _DatasetKind.Iterable:
            return Choice(mode, some, "samples of an iterable dataset cannot be tried out")
        if isinstance(loader.dataset, MapDataPipe):
            return Choice(mode, some, "a DataPipe is split between copies of it")
        if isinstance(loader.dataset, Stateful):
            return Choice(mode, some, "the dataset has a state of its own")
        scene = self._scene(loader, workers)
        self._look_back(loader, scene)
        if self._facts is None:
            self._facts = self._tried_out(loader, scene)
        if self._facts is None:
            some = some if auto is None else min(some, MOST[mode])
            return Choice(mode, some, "the dataset gave no sample to try out")
        loader._budget.expect(self._facts.size * scene.batch)
        if self.choice is None:
            return decide(self._facts, scene)
        return decide(
            self._facts,
            scene,
            was_off=self._was_off,
            now=self.choice.mode,
            worth_it=1 + _BETTER * 2**self._changes,
        )

    def _tried_out(self, loader: DataLoader[Any], scene: Scene) -> Facts | None:
        barred = dict(scene.barred)
        threads = min(scene.workers or scene.cores, scene.cores)
        return probe(
            loader,
            threads=0 if "thread" in barred else threads,
            processes="process" not in barred,
            forks=scene.forks,
        )

    def _look_back(self, loader: DataLoader[Any], scene: Scene) -> None:
        """Learn from the epoch that is over: whether samples are others, what its mode took."""
        seen, choice, facts = self._seen, self.choice, self._facts
        now = self._seen = loader._diary.fetched(), loader._diary.spent()
        if choice is None or facts is None:
            return
        samples, ns = (new - old for new, old in zip(now[0], seen[0], strict=True))
        if samples >= facts.samples or samples >= scene.samples / 2:
            each = ns / max(samples, 1)
            usual = self._usual or choice.sample * 1e9
            if not 1 / _CHANGED < each / max(usual, 1) < _CHANGED:
                again = self._tried_out(loader, scene)
                if again is None or not 1 / _CHANGED < again.seconds / facts.seconds < _CHANGED:
                    self._facts, self._usual, self._changes = again, None, 0
                    self._was_off.clear()
                    return
                # They are what they were: it is the workers who take longer, or shorter.
                self._usual = each
        batches, wait, step = (new - old for new, old in zip(now[1], seen[1], strict=True))
        if batches >= _BATCHES and wait + step >= _SECONDS * 1e9:
            of_epoch = scene._replace(
                step=step / batches / 1e9, samples=batches * scene.batch, stays=True
            )
            workers = loader._steering.reached(choice.mode) or choice.workers
            _, expected = estimate(choice.mode, workers, facts, of_epoch)
            off = (wait + step) / 1e9 / expected
            self._was_off[choice.mode] = min(max(off, _LEAST), _MOST)

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
            why = f"Python is to run in {NAMES[loader.worker_mode]}"
            barred += [(mode, why) for mode in others]
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
            # With a seed, or where nobody was promised workers, each sample has its own numbers.
            draws_alike=loader.seed is not None or workers is None,
            barred=tuple(barred),
        )


def _untried(loader: DataLoader[Any]) -> Literal["thread", "process"]:
    """Return who makes the batches of a dataset that cannot be tried out."""
    return "thread" if loader.worker_mode == "thread" else "process"


@contextmanager
def as_chosen(loader: DataLoader[Any], choice: Choice) -> Iterator[None]:
    """While an iterator is made: let the loader have the mode and the workers that were chosen."""
    before = loader.worker_mode, loader.num_workers
    loader.worker_mode = "thread" if choice.mode == "thread" else "process"
    auto = auto_of(loader.num_workers)
    # Still left open, if it was.
    loader.num_workers = choice.workers if auto is None else LeftOpen.at(choice.workers, auto)
    try:
        yield
    finally:
        loader.worker_mode, loader.num_workers = before
