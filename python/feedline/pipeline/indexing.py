"""Samples by index: for looking at them, and for datasets that are made of a pipeline."""

from __future__ import annotations

import operator
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from feedline import randomness
from feedline._feedline import NativeLoader
from feedline._samples import samples_of
from feedline.pipeline.base import PipelineBase

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Indexing"]


class Indexing(PipelineBase):
    """Makes some samples at once."""

    def __getitem__(self, index: int) -> Any:  # noqa: ANN401 - a tuple or a dict of fields
        """Make one sample: for looking at it, and for datasets that are made of this one.

        A loader is made for it, so this is no way to go through many samples. Random operations
        draw anew with each call: from torch's generator if torch is loaded, so that they repeat
        after ``torch.manual_seed`` and differ between the workers and epochs of torch's
        DataLoader, else from NumPy's (``numpy.random.seed``). Inside a function or a dataset that
        has a `feedline.rng` they follow from that.

        Raises
        ------
        ValueError
            If the pipeline has an operation on whole batches, such as mixup.

        Examples
        --------
        >>> import numpy as np
        >>> import feedline
        >>> number, square = feedline.arrays(np.arange(10), np.arange(10) ** 2)[-1]
        >>> int(number), int(square)
        (9, 81)
        """
        (place,) = self._places([index])
        self._refuse_remade("a single sample")
        if operations := self._batch_operations():
            name = operations[0]
            msg = (
                f"{name} mixes whole batches, and here a single sample is asked for; iterate over "
                "the pipeline (or torch's Subset of it) by feedline.torch.DataLoader, or leave "
                f"{name} out and mix batches in the training loop"
            )
            raise ValueError(msg)
        (sample,) = self._made([place], threads=0)
        return sample

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """Make the samples of a batch together; torch's DataLoader calls it where there is one.

        Operations on whole batches, such as mixup, are done to this one. Random numbers are drawn
        as for single samples, once for the batch.

        Parameters
        ----------
        indices
            Which samples; one given twice comes twice, with random numbers of its own.

        Returns
        -------
        list
            The samples: tuples, or dicts where fields are named.

        Examples
        --------
        >>> import numpy as np
        >>> import feedline
        >>> [int(number) for (number,) in feedline.arrays(np.arange(10)).__getitems__([3, -1])]
        [3, 9]
        """
        places = self._places(indices)
        if not places:
            return []
        # A worker is one of several already, and functions take turns whatever the threads.
        alone = not self._source.calls_python and not randomness.is_worker()
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
        return self._made(places, threads=min(cores, len(places) // 4) if alone else 0)

    def _places(self, indices: Sequence[int]) -> list[int]:
        self._refuse_iterable("an index")
        total = len(self)
        places = [operator.index(index) for index in indices]
        for place in places:
            if not -total <= place < total:
                msg = f"index {place} is out of range for {total} samples"
                raise IndexError(msg)
        return [place % total for place in places]

    def _made(self, places: list[int], *, threads: int) -> list[Any]:
        self._check_loadable()
        self._refuse_remade("a single sample")
        batch = self._batch(places, named=self._named, threads=threads)
        return samples_of(batch, self._source.fields())

    def _rows(self, places: list[int], *, seed: int | None) -> list[list[Any]]:
        """Return the values of samples of any size, field by field, without lengths."""
        fields = self._source.fields()
        samples = samples_of(self._batch(places, named=False, threads=0, seed=seed), fields)
        behind = [1 + (rule not in ("fixed", "packed", "text", "bytes")) for *_, rule in fields]
        starts = np.cumsum([0, *behind[:-1]]).tolist()
        return [[sample[at] for at in starts] for sample in samples]

    def _batch(
        self, places: list[int], *, named: bool, threads: int, seed: int | None = None
    ) -> Any:  # noqa: ANN401 - the engine's batch
        source = self._source
        settings: dict[str, object] = {
            "batch_size": len(places),
            "indices": places,
            "seed": randomness.drawn_seed() if seed is None else seed,
            "num_workers": threads,
            "epochs": 1,
        }
        if len(set(places)) < len(places):
            # Random numbers go by index, and one that is asked for twice shall draw twice.
            source = source.select(np.asarray(places, np.uint64))
            del settings["indices"]
        (batch,) = NativeLoader(source, named, "numpy", settings).epoch()
        return batch
