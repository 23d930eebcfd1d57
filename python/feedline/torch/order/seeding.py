"""Random numbers of user code by sample: `DataLoader(seed=)`.

Before each call of ``dataset[i]`` the global generators of `random`, NumPy and torch are seeded
from the loader's seed, the epoch and ``i``. So a sample's augmentation is the same whoever makes it
and whatever was made before. In a worker process the generators are the worker's own; in the main
process they are the training loop's, and are put back after each batch. Global generators cannot be
had by several threads at once, so with threads only `feedline.rng()` is seeded.
"""

from __future__ import annotations

import itertools
import random
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from feedline.randomness import Making, thread

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Seeded", "generator_states", "kept", "moves_global_generators", "sample_seed"]

_MASK = 2**64 - 1

# Numbers of calls; the engine's are positive, so that no two calls are taken for one.
_calls = itertools.count(-1, -1)


def sample_seed(seed: int, epoch: int, index: int) -> int:
    """Mix three numbers into one of 64 bits.

    The finaliser of SplitMix64 (G. Steele, D. Lea, C. Flood, OOPSLA 2014), once per number.
    """
    x = seed
    for number in (epoch, index):
        x = (x + 0x9E3779B97F4A7C15 * (number + 1)) & _MASK
        x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & _MASK
        x = ((x ^ x >> 27) * 0x94D049BB133111EB) & _MASK
        x ^= x >> 31
    return x


class Seeded:
    """A map-style dataset that seeds before each sample.

    Parameters
    ----------
    dataset
        The user's.
    seed
        The loader's.
    everything
        Whether to seed the global generators too, not only `feedline.rng()`.
    """

    def __init__(self, dataset: Any, seed: int, *, everything: bool) -> None:  # noqa: ANN401
        self._dataset = dataset
        self._seed = seed
        self._everything = everything
        self.epoch = 0
        if getattr(dataset, "__getitems__", None):
            # One call makes the whole batch, so its first sample names it.
            self.__getitems__ = self._getitems

    def __getitem__(self, index: Any) -> Any:  # noqa: ANN401 - the user's sample
        self._begin(index)
        try:
            return self._dataset[index]
        finally:
            thread.making = None

    def _getitems(self, indices: Any) -> Any:  # noqa: ANN401 - the user's samples
        self._begin(indices[0] if len(indices) else 0)
        try:
            return self._dataset.__getitems__(indices)
        finally:
            thread.making = None

    def _begin(self, index: Any) -> None:  # noqa: ANN401 - an index
        number = index if isinstance(index, int) else hash_of(index)
        thread.making = Making(self._seed, self.epoch, number, 0, next(_calls))
        if self._everything:
            mixed = sample_seed(self._seed, self.epoch, number)
            random.seed(mixed)
            np.random.seed(mixed & 0xFFFFFFFF)  # noqa: NPY002 - what user code draws from
            torch.default_generator.manual_seed(mixed)


def hash_of(index: Any) -> int:  # noqa: ANN401 - whatever a sampler yields
    """Return a number for an index that is none, the same in every run."""
    import zlib

    return zlib.crc32(repr(index).encode())


@contextmanager
def kept() -> Iterator[None]:
    """Put the global generators back where they were."""
    before = random.getstate(), np.random.get_state(), torch.default_generator.get_state()  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])  # noqa: NPY002
        torch.default_generator.set_state(before[2])


def generator_states() -> dict[str, Any]:
    """Return where each global generator is, by name, to be compared."""
    numpy = np.random.get_state(legacy=False)["state"]  # noqa: NPY002
    return {
        "random": random.getstate(),
        "numpy.random": (numpy["key"].tobytes(), numpy["pos"]),
        "torch": torch.default_generator.get_state().numpy().tobytes(),
    }


def moves_global_generators(dataset: Any, index: Any) -> list[str]:  # noqa: ANN401 - the user's
    """Make one sample and return which global generators that has moved; they are put back."""
    with kept():
        before = generator_states()
        dataset[index]
        after = generator_states()
    return [name for name in before if before[name] != after[name]]
