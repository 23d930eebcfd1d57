"""Epochs as sides of a contest: some to warm up, some that are timed, one that is checked.

All sides deliver the same samples in the same order, feedline's: torch gets it through its sampler,
so that the checked epoch must be equal byte by byte.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
from torch.utils.data import DataLoader, Sampler

import feedline
from feedline.measure import Digest, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from feedline.measure import Run

SEED = 1
WARM = 1


@dataclasses.dataclass
class Orders:
    """The order of each epoch, as feedline shuffles it.

    `part` is how many samples torch takes to warm up and how many are compared: fewer than all
    where torch takes long.
    """

    batch_size: int
    timed: int
    part: int
    epochs: list[list[int]]

    @classmethod
    def of(cls, samples: int, batch_size: int, *, timed: int, part: int | None = None) -> Orders:
        """The orders of all epochs of a loader with these settings."""
        places = feedline.arrays(np.arange(samples))
        loader = feedline.Loader(places, batch_size=batch_size, shuffle=True, seed=SEED)
        epochs = [
            [index for (batch,) in loader for index in batch.tolist()]
            for _ in range(WARM + timed + 2)
        ]
        return cls(batch_size, timed, part or samples, epochs)

    def shortened(self) -> Orders:
        """One timed epoch, and that of a part only."""
        return dataclasses.replace(
            self, timed=1, epochs=[epoch[: self.part] for epoch in self.epochs]
        )

    @property
    def samples(self) -> int:
        """How many samples an epoch has."""
        return len(self.epochs[0])

    @property
    def checked(self) -> list[int]:
        """The samples that are compared."""
        return self.epochs[-1][: self.part]


class GivenOrder(Sampler[int]):
    """A sampler that goes by the order it was given last.

    It only walks through a list made before, so it costs torch less than its own shuffle would.
    """

    def __init__(self, orders: Orders) -> None:
        self.batch_size = orders.batch_size
        self.order = orders.epochs[0]

    def __iter__(self) -> Iterator[int]:
        return iter(self.order)

    def __len__(self) -> int:
        return len(self.order)


def drain(batches: Iterable[Any]) -> None:
    """Take all batches and drop each at once."""
    for batch in batches:
        del batch


def digest(batches: Iterable[Any]) -> str:
    """Digest of all arrays of all batches."""
    found = Digest()
    for batch in batches:
        for array in batch if isinstance(batch, (tuple, list)) else (batch,):
            found.update(array)
    return found.finish()


def time_epochs(run: Run, loader: feedline.Loader, orders: Orders) -> None:
    """Let a loader run the epochs that are timed, after those that warm up.

    A loader fills the next epoch while this one drains, so some batches are ready when the clock
    starts. As many of the following epoch are taken before it stops, and not counted. That epoch is
    always begun and left, so that the one after it is checked.
    """
    for _ in range(WARM):
        drain(loader)
    ahead = loader.stats()["ready"]
    run.start()
    for _ in range(orders.timed):
        drain(loader)
    left = iter(loader)
    drain(itertools.islice(left, ahead))
    run.stop()
    if ahead == 0:
        next(left)


def feedline_side(
    make: Callable[[], feedline.Loader],
    orders: Orders,
    row_bytes: int | None = None,
) -> Callable[[Run], Outcome]:
    """Timed epochs of a loader, then one that is checked."""

    def side(run: Run) -> Outcome:
        loader = make()
        time_epochs(run, loader, orders)
        samples = orders.timed * orders.samples
        checked = digest(itertools.islice(loader, orders.part // orders.batch_size))
        return Outcome(samples, checked, row_bytes and row_bytes * samples)

    return side


def torch_side(
    make: Callable[[GivenOrder], DataLoader[Any]],
    orders: Orders,
    row_bytes: int | None = None,
) -> Callable[[Run], Outcome]:
    """Timed epochs of torch's loader. It begins an epoch when asked for it, so nothing is ready."""

    def side(run: Run) -> Outcome:
        sampler = GivenOrder(orders)
        loader = make(sampler)
        for epoch in orders.epochs[:WARM]:
            sampler.order = epoch[: orders.part]
            drain(loader)
        run.start()
        for epoch in orders.epochs[WARM : WARM + orders.timed]:
            sampler.order = epoch
            drain(loader)
        run.stop()
        samples = orders.timed * orders.samples
        sampler.order = orders.checked
        return Outcome(samples, digest(loader), row_bytes and row_bytes * samples)

    return side


def torch_loader(
    dataset: Any,  # noqa: ANN401 - torch asks for nothing but two methods
    sampler: GivenOrder,
    *,
    workers: int,
    prefetch: int = 2,
    **settings: Any,  # noqa: ANN401 - torch's own
) -> DataLoader[Any]:
    """torch's loader as it is fastest: its workers stay from one epoch to the next."""
    if workers:
        settings |= {"persistent_workers": True, "prefetch_factor": prefetch}
    return DataLoader(dataset, sampler.batch_size, sampler=sampler, num_workers=workers, **settings)
