"""The order by ``seed=`` as torch's samplers are: what `loader.sampler` is then.

A loader with a seed does not ask its sampler, it has a plan. Frameworks do: they look at
`loader.sampler` to learn whether samples are dealt out to ranks already (a `DistributedSampler`
says yes), tell it the epoch, and put it into batch samplers of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from torch.utils.data import DistributedSampler, IterableDataset, RandomSampler

from feedline._feedline import NativeBatchSampler
from feedline._torch_private import MapDataPipe, _get_distributed_settings
from feedline.torch.order.nesting import asked_by

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["SeededSampler", "by_seed", "seeded_sampler"]

# Samples that are planned at a time.
_STRETCH = 1 << 14


class SeededSampler(DistributedSampler[Any]):
    """The samples of one rank, in the order that follows from seed and epoch.

    Parameters
    ----------
    dataset
        Whose samples.
    seed, shuffle
        As the loader has them.
    rank, world_size
        Whose share; None: as `torch.distributed` says when it is asked.
    """

    def __init__(
        self,
        dataset: Any,  # noqa: ANN401 - the user's
        *,
        seed: int,
        shuffle: bool,
        rank: int | None = None,
        world_size: int | None = None,
    ) -> None:
        # Not torch's own: it wants to know the ranks now.
        self.dataset = dataset
        self.seed = seed
        self.shuffle = shuffle
        self.drop_last = False
        self.epoch = 0
        self._rank = rank
        self._world_size = world_size
        # Whether the epoch was begun, so that the next one comes next.
        self._begun = False
        # Whether somebody has said which epoch comes next, and was not answered yet.
        self._told = False
        # What was said last, and how far the epoch was ahead of it when a state was loaded.
        self._said: int | None = None
        self._ahead = 0

    # torch keeps these; here they are as the ranks are now.

    @property
    def num_replicas(self) -> int:  # type: ignore[override]
        """How many ranks there are."""
        return _get_distributed_settings()[0] if self._world_size is None else self._world_size

    @property
    def rank(self) -> int:  # type: ignore[override]
        """Which of them this is."""
        return _get_distributed_settings()[1] if self._rank is None else self._rank

    @property
    def num_samples(self) -> int:  # type: ignore[override]
        """How many samples each rank gets."""
        return -(-self._samples() // self.num_replicas)

    @property
    def total_size(self) -> int:  # type: ignore[override]
        """How many all ranks get; a few come twice if they do not divide."""
        return self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[Any]:
        self.epoch = self.coming
        self._begun, self._told = True, False
        plan = NativeBatchSampler(
            self._samples(),
            shuffle=self.shuffle,
            seed=self.seed,
            batch_size=1,
            drop_last=False,
            rank=self.rank,
            world_size=self.num_replicas,
            recipe="",
        )
        epoch = self.epoch
        for first in range(0, plan.batches(epoch), _STRETCH):
            packed = plan.samples(epoch, first, first + _STRETCH)
            yield from np.frombuffer(packed, dtype=np.int64).tolist()

    def _samples(self) -> int:
        dataset: Any = self.dataset
        return len(dataset)

    @property
    def coming(self) -> int:
        """The epoch that the next loop over it has."""
        return self.epoch + self._begun

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch comes next; without it they are counted.

        Parameters
        ----------
        epoch
            As the framework counts them. Where a state was loaded and the framework began to count
            anew, the state's counts.
        """
        self._said = epoch
        self.epoch = epoch + self._ahead
        self._begun, self._told = False, True

    def begun(self, epoch: int) -> None:
        """Note that the loader has begun an epoch without asking for samples."""
        self.epoch, self._begun = epoch, True

    def told(self) -> int | None:
        """Return the epoch that was set since it was last asked, if any."""
        told, self._told = self._told, False
        return self.epoch if told else None

    def resume(self, epoch: int) -> None:
        """Go on in the epoch of a state."""
        self._ahead = 0 if self._said is None else epoch - self._said
        self.epoch = epoch
        self._begun = self._told = False

    def whole(self) -> SeededSampler:
        """Return one of all samples, for those that deal out batches to ranks themselves."""
        other = SeededSampler(
            self.dataset, seed=self.seed, shuffle=self.shuffle, rank=0, world_size=1
        )
        other.epoch = self.coming
        return other

    @property
    def has_own_ranks(self) -> bool:
        """Whether it was said whose share it is, and it is not everything."""
        return (self._rank, self._world_size) not in ((None, None), (0, 1))


def by_seed(
    dataset: Any,  # noqa: ANN401 - the user's
    *,
    seed: int,
    shuffle: bool,
    rank: int | None,
    world_size: int | None,
) -> SeededSampler | None:
    """Return the sampler of a loader with a seed; None for datasets that no sampler asks."""
    if isinstance(dataset, IterableDataset | MapDataPipe):
        return None
    if shuffle:
        # For its refusals: a dataset without a length, or without samples.
        RandomSampler(dataset)
    return SeededSampler(dataset, seed=seed, shuffle=shuffle, rank=rank, world_size=world_size)


def seeded_sampler(sampler: Any) -> SeededSampler | None:  # noqa: ANN401 - any sampler
    """Return the one that a sampler is, or asks.

    Parameters
    ----------
    sampler
        Of a loader: a sampler, a batch sampler, or one of a framework's around those.
    """
    return next((one for one in asked_by(sampler) if isinstance(one, SeededSampler)), None)
