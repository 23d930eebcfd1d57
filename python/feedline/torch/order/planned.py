"""The order of samples by a seed: `DataLoader(seed=)`.

The plan of `feedline.Loader` takes the place of torch's sampler: the order follows from the seed
and the epoch alone, is dealt out to ranks, and what is left of an epoch can be dealt out anew to
other ranks and in other batches.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from feedline._feedline import NativeBatchSampler, merge_states
from feedline.errors import StateError
from feedline.torch.states.layout import read, with_workers, without_workers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from feedline.torch.order.seeded_sampler import SeededSampler

__all__ = ["Planned", "merged_states"]

# Batches that are planned at a time: enough to make the call cheap, little memory.
_STRETCH = 256


class Planned:
    """The epochs of one loader with a seed.

    Parameters
    ----------
    samples, batch_size, shuffle, drop_last, seed
        As the loader has them; a `batch_size` of None yields single indices.
    share
        Which rank of how many.
    """

    def __init__(
        self,
        samples: int,
        *,
        batch_size: int | None,
        shuffle: bool,
        drop_last: bool,
        seed: int,
        share: tuple[int, int],
    ) -> None:
        self.share = share
        self.single = batch_size is None
        self.size = batch_size or 1
        self.epoch = 0
        self.begun = False
        # Set where nothing is left of the epoch that a state was taken in, but its end was not
        # said: a loop without batches comes before this epoch.
        self._only_end = False
        self._batches = NativeBatchSampler(
            samples,
            shuffle=shuffle,
            seed=seed,
            batch_size=self.size,
            drop_last=drop_last,
            rank=share[0],
            world_size=share[1],
            recipe="",
        )
        self._first = 0

    def __len__(self) -> int:
        return self._batches.batches(2**63)

    @property
    def is_new(self) -> bool:
        """Whether nothing was delivered of it and nothing loaded into it."""
        return not self.begun and self.epoch == self._first == 0 and not self._only_end

    def next_epoch(self, sampler: SeededSampler | None) -> None:
        """Move on to the epoch that the sampler was told, or to the next if this one was begun."""
        told = None if sampler is None else sampler.told()
        if told is not None:
            self.epoch, self._first, self.begun = told, 0, False
        elif self.begun:
            self.epoch, self._first, self.begun = self.epoch + 1, 0, False

    @property
    def looping(self) -> int:
        """The epoch whose batches the next loop delivers, or whose end it says."""
        return self.epoch - self._only_end

    def begin(self) -> Iterator[Any]:
        """Return the batches of this epoch from where it goes on."""
        if self._only_end:
            self._only_end = False
            return iter(())
        self.begun = True
        return self._from(self.epoch, self._first)

    def _from(self, epoch: int, first: int) -> Iterator[Any]:
        for start in range(first, self._batches.batches(epoch), _STRETCH):
            packed = self._batches.samples(epoch, start, start + _STRETCH)
            samples = np.frombuffer(packed, dtype=np.int64).tolist()
            if self.single:
                yield from samples
            else:
                for at in range(0, len(samples), self.size):
                    yield samples[at : at + self.size]

    def state(self, yielded: int) -> dict[str, Any]:
        """Return where it is when so many batches of the epoch have been delivered."""
        return {"at": self._batches.state(self.epoch, self._first + yielded)}

    def resume(self, said: dict[str, Any], *, within: int | None, force: bool) -> None:
        """Go on where a state was taken.

        Parameters
        ----------
        said
            What `state` returned.
        within
            The epoch whose batches were being delivered then; None if it was said to be over, or
            was not begun.
        force
            Do so even if seed or dataset are others.
        """
        if "at" not in said:
            msg = "this state was taken without seed=; make the loader as it was then"
            raise StateError(msg)
        self.epoch, self._first = self._batches.resume(json.dumps(said["at"]), force)
        self.begun = False
        self._only_end = within is not None and within < self.epoch


def merged_states(states: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Join the states of all ranks of one run with ``seed=``; see `feedline.merge_states`."""
    starts = [read(dict(state)) for state in states]
    if not all("at" in (start.sampler_iter_state or ()) for start in starts):
        msg = (
            "only states of loaders with seed= can be merged: without it the order, and with it "
            "the share of each rank, is the sampler's"
        )
        raise StateError(msg)
    first = starts[0]
    natives = [json.dumps(start.sampler_iter_state["at"]) for start in starts]
    first.sampler_iter_state = {"at": merge_states(natives)}
    first.sampler_yielded = first.num_yielded = 0
    first.finished = False
    return with_workers(first) if first.num_workers else without_workers(first)
