"""What the sampler draws in one epoch, counted, so that it can be gone on with.

torch's draws are made exactly when and how torch makes them: the base seed when an iterator is
made, the sampler's seed when its first index is asked for. What is added is that the seed (or the
state of the user's generator) is known, so that the same permutation can be made again elsewhere.
"""

from __future__ import annotations

import copy
import functools
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler

from feedline._torch_private import _InfiniteConstantSampler
from feedline.torch.order.nesting import asked_by
from feedline.torch.order.seeded_sampler import SeededSampler
from feedline.torch.states.layout import Start, Stateful, state_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from feedline.torch.order.planned import Planned

__all__ = ["Sampling", "caught_up", "draw_seed", "generator_in", "rewound"]


def _generator_of(sampler: Any) -> torch.Generator | None:  # noqa: ANN401 - any sampler
    """Return the generator that decides its order, if it has one of its own."""
    found = (getattr(one, "generator", None) for one in asked_by(sampler))
    return next((one for one in found if isinstance(one, torch.Generator)), None)


def _counts_epochs(sampler: Any) -> Any:  # noqa: ANN401 - any sampler
    """Return who is told the epoch that decides the order, as a `DistributedSampler` is."""
    for one in asked_by(sampler):
        # The loader itself tells this one.
        is_told = hasattr(one, "set_epoch") and not isinstance(one, SeededSampler)
        if is_told and isinstance(getattr(one, "epoch", None), int):
            return one
    return None


def draw_seed(generator: torch.Generator | None = None) -> int:
    """Draw a seed as torch does."""
    return int(torch.empty((), dtype=torch.int64).random_(generator=generator).item())


@functools.lru_cache(maxsize=16)
def _seeded(seed: int) -> torch.Tensor:
    """Return what a seed makes of a generator: torchdata's states have that in a seed's place."""
    return torch.Generator().manual_seed(seed).get_state()


def caught_up(generator: torch.Generator, seed: int, most: int) -> bool:
    """Draw until `seed` was drawn, at most so often; put the generator back if it does not come."""
    before = generator.get_state()
    if any(draw_seed(generator) == seed for _ in range(most)):
        return True
    generator.set_state(before)
    return False


class Sampling:
    """The indices of one epoch.

    Parameters
    ----------
    sampler
        torch's or the user's: yields batches of indices, or indices.
    iterator
        ``iter(sampler)``, not asked yet.
    start
        Where to begin.
    planned
        Where a seed decides the order: who does so instead of the sampler.
    """

    def __init__(
        self,
        sampler: Any,  # noqa: ANN401 - any iterable
        iterator: Iterator[Any],
        start: Start,
        planned: Planned | None = None,
    ) -> None:
        self._sampler = sampler
        self._iterator = iterator
        self._start = start
        self._planned = planned
        # A plan has begun its epoch even if nobody asks for an index, as it has with workers.
        self._source: Iterator[Any] | None = None if planned is None else planned.begin()
        self._inner: Any = sampler.sampler if type(sampler) is BatchSampler else sampler
        self._items: Any = None
        said = start.sampler_iter_state if isinstance(start.sampler_iter_state, dict) else {}
        self._said: dict[str, Any] = said
        self._seed: int | None = said.get("seed")
        self._generator: torch.Tensor | None = generator_in(said)
        self._epoch: int | None = said.get("epoch")
        # What was delivered: in order up to `_yielded`, and some ahead of it.
        self._yielded = start.sampler_yielded
        self._samples = int(said.get("samples_yielded", 0))
        self._ahead: set[int] = {self._yielded + number for number in said.get("ahead", ())}
        self._drop = set(self._ahead)
        self._states = (start.sampler_state, start.sampler_iter_state)
        # What was drawn and is not delivered: number, samples, and states of user's samplers.
        self._pending: deque[tuple[int, int, Any]] = deque()
        self._number = self._yielded
        # Numbers by task: those delivered ahead are no tasks any more.
        self._tasks: dict[int, int] = {}
        self._task = 0

    def __iter__(self) -> Sampling:
        return self

    def __next__(self) -> Any:  # noqa: ANN401 - whatever the sampler yields
        if self._source is None:
            self._source = self._begin()
        while True:
            index = next(self._source)
            number = self._number
            self._number += 1
            if number not in self._drop:
                break
            self._drop.discard(number)
            self._pending.append((number, self._size(index), self._user_states()))
            self._settle()
        self._pending.append((number, self._size(index), self._user_states()))
        self._tasks[self._task] = number
        self._task += 1
        return index

    def prepare(self, start: Start) -> None:
        """Draw the seed of an epoch that is yet to come, now; it is used when that begins."""
        seed = state = None
        if type(self._inner) is RandomSampler and self._inner.generator is None:
            seed = draw_seed()
        elif (generator := _generator_of(self._inner)) is not None:
            state = generator.get_state()
        else:
            return
        start.sampler_iter_state = self._told(0, seed, state)

    def delivered(self, task: int | None = None) -> None:
        """Note that a batch was delivered: the next one, or that of the index drawn then."""
        if task is None:
            task = next(iter(self._tasks), None)
        number = self._tasks.pop(task, None) if task is not None else None
        if number is not None:
            self._ahead.add(number)
            self._settle()

    def _settle(self) -> None:
        """Count what is delivered without gaps."""
        while self._pending and self._pending[0][0] in self._ahead:
            number, samples, states = self._pending.popleft()
            self._ahead.discard(number)
            self._yielded = number + 1
            self._samples += samples
            if states is not None:
                self._states = states

    def tell(self, start: Start) -> None:
        """Write into a state what was delivered."""
        start.sampler_yielded = self._yielded
        if self._planned is not None:
            said = self._planned.state(self._yielded)
            if self._ahead:
                said["ahead"] = self._ahead_now()
            start.sampler_iter_state = said
            return
        if self._source is None:
            self._decide()
        sampler_state, iter_state = self._states
        start.sampler_state = sampler_state
        if iter_state is None or self._is_ours(iter_state):
            iter_state = self._position()
        start.sampler_iter_state = iter_state

    def _decide(self) -> None:
        """Draw the seed before the first index is asked for: a state must say what comes."""
        inner = self._inner
        if type(inner) is RandomSampler and inner.generator is None:
            if self._seed is None and self._generator is None:
                self._seed = draw_seed()
        elif self._generator is None and isinstance(inner, (*_KNOWN, BatchSampler)):
            generator = _generator_of(inner)
            if generator is not None:
                self._generator = generator.get_state()

    def _is_ours(self, said: Any) -> bool:  # noqa: ANN401 - what a state says
        return said is self._said

    def _position(self) -> dict[str, Any] | None:
        if isinstance(self._inner, _InfiniteConstantSampler):
            batches = type(self._sampler) is BatchSampler
            return {"samples_yielded": self._samples} if batches else None
        decided = (self._seed, self._generator, self._epoch)
        if all(one is None for one in decided) and not self._counts_samples():
            return {"ahead": self._ahead_now()} if self._ahead else None
        said = self._told(self._samples, self._seed, self._generator)
        if self._epoch is not None:
            said["epoch"] = self._epoch
        if self._ahead:
            said["ahead"] = self._ahead_now()
        return said

    def _told(
        self, samples: int, seed: int | None, generator: torch.Tensor | None
    ) -> dict[str, Any]:
        """Return where the sampler is, in our names and in torchdata's."""
        said: dict[str, Any] = {"samples_yielded": samples}
        if seed is not None:
            said["seed"] = seed
            generator = _seeded(seed)
        elif generator is not None:
            said["generator"] = generator
        if type(self._inner) is not RandomSampler:
            return said
        theirs: dict[str, Any] = {"yielded": samples}
        if generator is not None:
            theirs["generator"] = generator
        return said | (
            {"sampler_iter_state": theirs} if type(self._sampler) is BatchSampler else theirs
        )

    def _ahead_now(self) -> list[int]:
        """Return which batches were delivered ahead, counted from the first that was not."""
        return sorted(number - self._yielded for number in self._ahead)

    def _counts_samples(self) -> bool:
        return type(self._sampler) is BatchSampler or type(self._sampler) in _KNOWN

    def _size(self, index: Any) -> int:  # noqa: ANN401 - whatever the sampler yields
        if self._planned is not None:
            return 1 if self._planned.single else len(index)
        return len(index) if type(self._sampler) is BatchSampler else 1

    def _user_states(self) -> Any:  # noqa: ANN401 - the user's
        """Return the states of samplers that have one, as of the index just drawn."""
        if self._items is None:
            return None
        if type(self._sampler) is not BatchSampler:
            states = state_of(self._sampler), state_of(self._items)
            return states if states != (None, None) else None
        of_sampler, of_items = state_of(self._inner), state_of(self._items)
        if of_sampler is None and of_items is None:
            return None
        drawn = sum(samples for _, samples, _ in self._pending)
        said: dict[str, Any] = {"samples_yielded": self._samples + drawn}
        if of_sampler is not None:
            said["sampler_state"] = of_sampler
        if of_items is not None:
            said["sampler_iter_state"] = of_items
        return None, said

    def _begin(self) -> Iterator[Any]:
        if isinstance(self._inner, _InfiniteConstantSampler):
            return self._iterator
        self._put_epoch()
        if type(self._sampler) is not BatchSampler and type(self._sampler) not in _KNOWN:
            return self._begin_unknown()
        items = self._begin_items()
        if type(self._sampler) is not BatchSampler:
            return items
        batches = self._sampler
        return iter(BatchSampler(items, batches.batch_size, batches.drop_last))

    def _begin_items(self) -> Iterator[Any]:
        """Return single indices from the first that was not delivered on."""
        inner, skip = self._inner, self._samples
        if "samples_yielded" not in self._said and self._yielded:
            # A state that counts batches only: they were full ones.
            skip = self._samples = self._yielded * getattr(self._sampler, "batch_size", 1)
        if type(inner) is SequentialSampler:
            return iter(range(skip, len(inner.data_source)))
        if type(inner) is RandomSampler and inner.generator is None:
            inner = copy.copy(inner)
            inner.generator = torch.Generator()
            if self._seed is None and self._generator is not None:
                # torchdata's loader has a generator where the sampler has none.
                inner.generator.set_state(self._generator)
            else:
                self._seed = draw_seed() if self._seed is None else self._seed
                inner.generator.manual_seed(self._seed)
        elif isinstance(inner, Stateful):
            if "sampler_state" in self._said:
                inner.load_state_dict(self._said["sampler_state"])
                skip = 0
        elif isinstance(getattr(inner, "generator", None), torch.Generator):
            self._put_generator(inner.generator)
        self._items = items = iter(inner)
        if isinstance(items, Stateful) and "sampler_iter_state" in self._said:
            items.load_state_dict(self._said["sampler_iter_state"])
            skip = 0
        return islice(items, skip, None) if skip else items

    def _put_epoch(self) -> None:
        """Have the sampler in the epoch of the state, whatever it was told before."""
        counts = _counts_epochs(self._sampler)
        if counts is None:
            return
        if self._epoch is not None and counts.epoch != self._epoch:
            counts.set_epoch(self._epoch)
        self._epoch = counts.epoch

    def _put_generator(self, generator: torch.Generator) -> None:
        if self._generator is not None:
            generator.set_state(self._generator)
        self._generator = generator.get_state()

    def _begin_unknown(self) -> Iterator[Any]:
        """Return the user's own iterator, put where it was or advanced to there."""
        sampler: Any = self._sampler
        items: Any = self._iterator
        generator = _generator_of(sampler)
        if generator is not None:
            self._put_generator(generator)
        if isinstance(sampler, Stateful) or isinstance(items, Stateful):
            if isinstance(sampler, Stateful) and self._start.sampler_state is not None:
                sampler.load_state_dict(self._start.sampler_state)
                items = iter(self._sampler)
            if isinstance(items, Stateful) and self._start.sampler_iter_state is not None:
                items.load_state_dict(self._start.sampler_iter_state)
            self._items = items
        elif self._yielded:
            items = islice(items, self._yielded, None)
        resumed: Iterator[Any] = items
        return resumed


_KNOWN = (RandomSampler, SequentialSampler)


def generator_in(said: Mapping[str, Any]) -> torch.Tensor | None:
    """Return where a sampler's generator was, as ours or torchdata's states have it."""
    own = said.get("generator")
    inner = said.get("sampler_iter_state")
    return inner.get("generator") if own is None and isinstance(inner, dict) else own


def rewound(said: dict[str, Any]) -> dict[str, Any]:
    """Return what a state says of a sampler, at the beginning of the same epoch."""
    counts: dict[str, Any] = dict.fromkeys(said.keys() & {"samples_yielded", "yielded"}, 0)
    inner = said.get("sampler_iter_state")
    if isinstance(inner, dict) and "yielded" in inner:
        counts["sampler_iter_state"] = inner | {"yielded": 0}
    return said | counts
