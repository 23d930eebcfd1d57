"""Where a loader is: what its iterators note and its states say.

The loader and its latest iterator share one `Bookmark`. It outlives the iterator, so that a state
can be taken after a loop was left, and it knows neither of them, so that an iterator that is
dropped ends its workers.

The seeds of an epoch are drawn when and how torch draws them. A state taken between two epochs must
say what the next one will be, so they are drawn then, in torch's order, and used by this loader's
next epoch as well: as long as nobody else draws between the two, everything is as without it.

A loaded state says what was drawn, so its epoch draws nothing. Where the generator has these draws
still ahead of it, because it was seeded as the first one was, it is moved past them: so the epochs
that follow draw what they would have drawn.
"""

from __future__ import annotations

import logging
import weakref
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from feedline._torch_private import IterDataPipe, _BaseDataLoaderIter, apply_random_seed
from feedline.torch.order.sampling import Sampling, caught_up, draw_seed, rewound
from feedline.torch.states.layout import (
    COUNT,
    About,
    Start,
    Stateful,
    state_of,
    with_workers,
    without_workers,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from feedline.torch.dataloader import DataLoader
    from feedline.torch.order.planned import Planned

__all__ = ["Bookmark", "Counted"]

logger = logging.getLogger(__name__)


class Bookmark:
    """Where a loader is.

    Attributes
    ----------
    start
        Where the next iterator begins, if not at an epoch's start.
    every
        After how many steps the states of workers are taken; 0: never.
    """

    def __init__(self, every: int | None) -> None:
        self.start: Start | None = None
        self.every = every or 0
        self.planned: Planned | None = None
        self.epoch = 0
        self.latest: Latest | None = None
        # The state that `start` was read from, or that says the same.
        self.said: dict[str, Any] | None = None
        # Whether it was loaded, and not fitted to this loader yet.
        self.is_loaded = False

    def __getstate__(self) -> dict[str, Any]:
        # A copy of a loader has no iterator yet, only what was loaded into it.
        gone = {"latest": None, "planned": None}
        return self.__dict__ | gone

    def begin(self, iterator: Any, generator: torch.Generator | None) -> Latest:  # noqa: ANN401
        """Note that an iterator exists; put its generator where a state wants it."""
        start = self._take_start()
        if start.generator is not None and generator is not None:
            generator.set_state(start.generator)
        self.latest = Latest(self, start, int(iterator._base_seed), generator)
        return self.latest

    def _take_start(self) -> Start:
        start, self.start, self.said = self.start or Start(), None, None
        return start

    def again(self, iterator: Any) -> Latest:  # noqa: ANN401 - an iterator of ours
        """Note that an iterator begins another epoch."""
        start = self._take_start()
        before = self.latest
        generator = None if before is None else before.generator
        self.latest = Latest(self, start, int(iterator._base_seed), generator)
        return self.latest


class Latest:
    """One epoch of one iterator."""

    def __init__(
        self, book: Bookmark, start: Start, base_seed: int, generator: torch.Generator | None
    ) -> None:
        self.every = book.every
        self.planned = book.planned
        # What a finished epoch leaves for the one that is now: seeds, and states of datasets.
        self.start = (
            replace(
                Start(),
                base_seed=start.base_seed,
                shared_seed=start.shared_seed,
                sampler_iter_state=start.sampler_iter_state,
                workers=start.workers,
                is_loaded=start.is_loaded,
            )
            if start.finished
            else start
        )
        self.resumed_finished = start.finished
        if self.planned is not None:
            # The plan knows where it goes on; what came ahead of that is counted from there.
            ahead = (start.sampler_iter_state or {}).get("ahead", ())
            self.start = replace(
                self.start,
                sampler_yielded=0,
                sampler_iter_state={"ahead": ahead} if ahead else None,
            )
        self.base_seed = base_seed
        self.generator = generator
        self.sampling: Sampling | None = None
        self.num_workers = 0
        self.num_yielded = self.start.num_yielded
        self.finished = False
        self.last_worker = self.start.last_worker
        self.workers: list[dict[str, Any] | None] = list(self.start.workers)
        self.len_called: int | None = None
        self.shared_seed: int | None = None
        self.about = About()
        self.has_states = False
        # Whether workers are asked before their first batch; one that could not start says so.
        self.asks_first = False
        # How many batches each worker has delivered, where that must be known.
        self.counts: list[int] | None = None
        self.persistent = False
        # Who draws the seed of data pipes: the same for all ranks, so no rank can alone.
        self.draws_shared_seed = False
        # A pipeline's random operations depend on the base seed, with or without workers.
        self.is_native = False
        self.ends: dict[int, tuple[int, dict[str, Any]]] = {}
        self.passed: set[int] = set()
        self.live: Any = None
        # The dataset, if it is used here and not by workers.
        self.dataset: Any = None
        self.epoch = book.epoch
        # What each worker said of itself before its first batch.
        self._told: dict[int, dict[str, Any] | None] = {}
        self._stale: set[int] = set()
        self._snapshot: Start | None = None

    def sample(self, sampler: Any, iterator: Iterator[Any]) -> Sampling:  # noqa: ANN401
        """Return what counts the sampler's indices."""
        self.sampling = Sampling(sampler, iterator, self.start, self.planned)
        return self.sampling

    def delivered(self, worker: int = 0, task: int | None = None) -> None:
        """Note that a batch was taken from its worker to be delivered."""
        self.last_worker = worker
        if self.counts is not None:
            self.counts[worker] += 1
        if self.sampling is not None:
            self.sampling.delivered(task)

    def count_batches(self) -> None:
        """Count each worker's batches, and take the states of workers with every batch.

        Where batches come in no certain order, the number of all that were delivered does not say
        which ones.
        """
        self.every = 1
        before = [] if self.resumed_finished else self.start.workers
        counts = [(worker or {}).get(COUNT, 0) for worker in before]
        self.counts = counts + [0] * (self.num_workers - len(counts))

    def told(self, worker: int, state: dict[str, Any] | None) -> None:
        """Note what a worker's state is before its first batch."""
        self._told[worker] = state
        self._put(worker, state)

    def stamped(self, worker: int, state: dict[str, Any] | None) -> None:
        """Note what a worker's state is after the batch that is being delivered, if it said so."""
        if state is None:
            self._stale.add(worker)
        else:
            self._stale.discard(worker)
            self._put(worker, state)

    def _put(self, worker: int, state: dict[str, Any] | None) -> None:
        if len(self.workers) < self.num_workers:
            self.workers += [None] * (self.num_workers - len(self.workers))
        self.workers[worker] = state

    def is_waiting(self) -> bool:
        """Whether some worker has not said what its state is before its first batch."""
        return self.asks_first and len(self._told) < self.num_workers

    def yielded(self) -> None:
        """Note that the loop has it."""
        self.num_yielded += 1
        if self.has_states and self.every > 1 and not self._stale:
            then = self._snapshot.num_yielded if self._snapshot else 0
            if self.num_yielded % self.every == 0 or self.num_yielded - then >= self.every:
                self._snapshot = self._now()

    def wants_state(self, number: int) -> bool:
        """Whether a batch shall bring its worker's state along.

        With a snapshot every n steps, those whose batch may be the worker's last one before it.
        """
        if not self.has_states or self.every == 0:
            return False
        if self.every == 1 or self.ends:
            return True
        step = self._first_step() + number
        return step % self.every >= self.every - self.num_workers

    def state(self) -> dict[str, Any]:
        """Return the state, in the layout of torchdata."""
        if self.is_waiting() and self.await_states is not None:
            self.await_states()
        now = self._now()
        if self.has_states and self.every != 1 and not self.finished and self.num_workers:
            # What came after the snapshot is made again and thrown away.
            then = self._snapshot or self._at_start()
            now = replace(
                then,
                num_yielded=self.num_yielded,
                steps_since_snapshot=self.num_yielded - then.num_yielded,
            )
        return self.laid_out(now)

    def laid_out(self, now: Start) -> dict[str, Any]:
        """Return a state in the layout of torchdata."""
        if self.num_workers:
            return with_workers(now)
        return without_workers(now)

    def _first_step(self) -> int:
        """Return how many batches had been delivered when the snapshot was taken to begin at."""
        return self.start.num_yielded - self.start.steps_since_snapshot

    def _at_start(self) -> Start:
        about = self.about.in_epoch(self.epoch)
        first = self._first_step()
        workers = list(self.start.workers) or [None] * self.num_workers
        if first == 0:
            workers = [self._told.get(worker) for worker in range(self.num_workers)]
        at_start = replace(
            self.start,
            num_yielded=first,
            about=about,
            num_workers=self.num_workers,
            workers=workers,
            base_seed=self.base_seed,
            steps_since_snapshot=0,
        )
        if self.sampling is not None and first == 0:
            # The seed, if it was drawn meanwhile.
            self.sampling.tell(at_start)
            at_start.sampler_yielded = 0
            if isinstance(at_start.sampler_iter_state, dict) and self.planned is None:
                at_start.sampler_iter_state = rewound(at_start.sampler_iter_state)
        return at_start

    def _now(self) -> Start:
        now = Start(
            num_yielded=self.num_yielded,
            finished=self.finished,
            base_seed=self.base_seed,
            shared_seed=self.shared_seed,
            generator=self._generator_of_pipes(),
            len_called=self.len_called,
            num_workers=self.num_workers,
            last_worker=self.last_worker,
            about=self.about.in_epoch(self.epoch),
        )
        if self.sampling is not None:
            self.sampling.tell(now)
        # After whatever was drawn: a dataset's state may be that of the generator.
        now.workers = self._workers_now()
        return now

    def _generator_of_pipes(self) -> torch.Tensor | None:
        if self.generator is None or not self.draws_shared_seed:
            return None
        return self.generator.get_state()

    def _workers_now(self) -> list[dict[str, Any] | None]:
        if self.num_workers == 0:
            if self.live is not None:
                # While the iterator lives its objects are asked; then the last answer counts.
                inline = self.live()
                self.workers = [inline] if inline is not None else self.workers
            return [self._asked_again(worker) for worker in self.workers] or [None]
        workers: list[dict[str, Any] | None] = [None] * self.num_workers
        workers[: len(self.workers)] = self.workers
        for worker, (_, state) in self.ends.items():
            if self.finished or self.has_passed(worker):
                workers[worker] = state
        if self.counts is not None and not self.finished:
            workers = [self._counted(number, worker) for number, worker in enumerate(workers)]
        return workers

    def _asked_again(self, worker: dict[str, Any] | None) -> dict[str, Any] | None:
        """Ask a dataset once more after its epoch: drawing what comes may have changed it."""
        if not self.finished or self.live is not None or worker is None:
            return worker
        if worker["dataset_state"] is None:
            return worker
        return worker | {"dataset_state": state_of(self.dataset)}

    def _counted(self, number: int, worker: dict[str, Any] | None) -> dict[str, Any] | None:
        if self.counts is None or worker is None or Start(workers=[worker]).has_user_state():
            return worker
        return worker | {COUNT: self.counts[number]}

    def has_passed(self, worker: int) -> bool:
        """Whether everything that an exhausted worker has made was delivered."""
        return worker in self.passed or self.ends[worker][0] < self.reached

    # Set by iterators with workers: the number of the task whose batch is delivered next, and what
    # waits for the workers' first states.
    reached = 0
    await_states: Any = None

    def prepare_next(self) -> Start:
        """Draw the seeds of the next epoch, in torch's order, and return where that begins."""
        coming = self._now()
        coming.finished = True
        coming.about = self.about.in_epoch(self.epoch + 1)
        coming.shared_seed = draw_seed(self.generator) if self.draws_shared_seed else None
        if not self.persistent:
            coming.base_seed = draw_seed(self.generator)
            if self.draws_shared_seed and self.num_workers:
                draw_seed(self.generator)  # torch does, and uses it for nothing
        coming.generator = self._generator_of_pipes()
        if self.sampling is not None and self.planned is None:
            coming.sampler_iter_state = None
            self.sampling.prepare(coming)
        coming.workers = self._workers_now()
        return coming


class Counted:
    """For iterators: torch's own beginning of an epoch, with a bookmark in it.

    torch's iterator reads the loader's settings, makes the sampler's iterator and draws the seeds
    of data pipes and workers. It has done all of that when anything here looks at it, so that it
    makes no difference in which order.
    """

    _bookmark: Bookmark
    _latest: Latest
    # torch's.
    _dataset: Any
    _index_sampler: Any
    _sampler_iter: Any
    _base_seed: Any
    _shared_seed: int | None
    # Who else must get the same seed of data pipes, if anybody.
    _pg: Any = None
    # What a state says that the seed of data pipes was.
    _wanted_seed_of_pipes: int | None = None

    def _begin_epoch(self, loader: DataLoader[Any]) -> None:
        """Let torch read the loader's settings and draw its seeds; note that an epoch begins.

        What a state says already is not drawn: the generator is put back. The dataset must not be
        iterated over before that, because what that makes of the generator counts.
        """
        book = self._bookmark = loader._bookmark
        start = book.start
        if start is None:
            _BaseDataLoaderIter.__init__(self, loader)  # type: ignore[arg-type]
        else:
            with _undrawn(loader.generator) as generator:
                _BaseDataLoaderIter.__init__(self, loader)  # type: ignore[arg-type]
            if start.is_loaded and start.shared_seed is None:
                _keep_in_step(generator, start)
            if start.base_seed is not None:
                self._base_seed = start.base_seed
            self._wanted_seed_of_pipes = start.shared_seed
            self._seed_pipes()
        self._latest = book.begin(self, loader.generator)

    def _begin_again(self, loader: Any, first_iter: bool) -> None:  # noqa: ANN401 - a loader
        """Let torch begin an epoch of an iterator that exists, and count what its sampler draws."""
        if self._wanted_seed_of_pipes is None:
            _BaseDataLoaderIter._reset(self, loader, first_iter)  # type: ignore[arg-type]
        else:
            with _undrawn(loader.generator):
                _BaseDataLoaderIter._reset(self, loader, first_iter)  # type: ignore[arg-type]
            self._seed_pipes()
        self._count_samples()

    def _count_samples(self) -> None:
        """Put what counts in the place of the sampler's iterator."""
        self._sampler_iter = self._latest.sample(self._index_sampler, self._sampler_iter)

    def _seed_pipes(self) -> None:
        """Shuffle a data pipe as the state says, whatever torch has drawn for it."""
        seed = self._wanted_seed_of_pipes
        if seed is not None and isinstance(self._dataset, IterDataPipe):
            self._shared_seed = seed
            shared = torch.Generator()
            shared.manual_seed(seed)
            self._dataset = apply_random_seed(self._dataset, shared)

    def _note_pipes(self, dataset: Any) -> None:  # noqa: ANN401 - the user's
        latest = self._latest
        latest.shared_seed = self._shared_seed
        # Alone: a state is not taken by all ranks together.
        latest.draws_shared_seed = isinstance(dataset, IterDataPipe) and self._pg is None

    def __next__(self) -> Any:  # noqa: ANN401 - the user's batch
        try:
            data = super().__next__()  # type: ignore[misc]
        except StopIteration:
            self._latest.finished = True
            raise
        self._latest.yielded()
        return data


@contextmanager
def _undrawn(given: torch.Generator | None) -> Iterator[torch.Generator]:
    """Put a loader's generator back where it was."""
    generator = torch.default_generator if given is None else given
    before = generator.get_state()
    try:
        yield generator
    finally:
        generator.set_state(before)


def _keep_in_step(generator: torch.Generator, start: Start) -> None:
    """Move generators past what a state says was drawn, if that is what they are about to draw."""
    epoch = 0 if start.about is None else start.about.epoch
    # Two draws in each epoch, and some for whatever else has drawn.
    most = min(2 * epoch + 8, _MOST_DRAWS)
    if start.base_seed is not None and not caught_up(generator, start.base_seed, most):
        return
    said = start.sampler_iter_state
    if isinstance(said, dict) and isinstance(said.get("seed"), int):
        caught_up(torch.default_generator, said["seed"], most)


# A few milliseconds.
_MOST_DRAWS = 2000


def live_state(ask: Any, owner: Any) -> Any:  # noqa: ANN401 - functions and iterators
    """Return a function that asks `owner` as long as it lives."""
    reference = weakref.ref(owner)

    def answer() -> Any:  # noqa: ANN401 - a worker snapshot, or None
        alive = reference()
        return None if alive is None else ask(alive)

    return answer


def is_stateful(*things: object) -> bool:
    """Whether any of them has a state of its own."""
    return any(isinstance(thing, Stateful) for thing in things)
