"""Pipelines inside torch's own wrappers, `Subset` and `ConcatDataset`, as one pipeline.

Such a wrapper asks for samples one by one, in Python. What it says can be said natively: a
selection, a concatenation. So the engine makes the batches, and random operations draw what they
draw for the same selection made by hand.
"""

from __future__ import annotations

import itertools
import operator
from typing import Any

import numpy as np
import torch
from torch.utils.data import ConcatDataset, Subset

from feedline.joining import concat
from feedline.pipeline import Pipeline

__all__ = ["as_pipeline", "is_of_pipelines", "joined", "refuse_iterable", "selected"]


def is_of_pipelines(dataset: object) -> bool:
    """Whether a dataset is a pipeline, or nothing but pipelines in torch's wrappers.

    Subclasses of the wrappers may do anything in Python, and are left to.
    """
    if type(dataset) is Subset:
        return is_of_pipelines(dataset.dataset)
    if type(dataset) is ConcatDataset:
        return all(map(is_of_pipelines, dataset.datasets))
    return isinstance(dataset, Pipeline)


def refuse_iterable(dataset: object) -> None:
    """Refuse a pipeline of iterators, of which no sampler can ask for a sample."""
    if isinstance(dataset, Pipeline) and dataset._source.is_iterable:
        msg = (
            "torch's samplers ask for samples by index, and those of an iterable pipeline come in "
            'turn; iterate over feedline.Loader(pipeline, output="torch") instead, or give the '
            "factory's samples to DataLoader as a torch IterableDataset"
        )
        raise TypeError(msg)


def as_pipeline(dataset: Any) -> Pipeline | None:  # noqa: ANN401 - the user's
    """Return the pipeline with the samples of such a dataset, as it is now.

    Returns
    -------
    Pipeline or None
        None for other datasets, and where only Python can do what is asked: pipelines with
        different fields one after the other, or indices that are no numbers of samples.

    Raises
    ------
    ValueError
        If a pipeline has an operation that no part or joint of it can have.
    """
    if not is_of_pipelines(dataset):
        return None
    if type(dataset) is Subset:
        whole = as_pipeline(dataset.dataset)
        return None if whole is None else selected(whole, dataset.indices)
    if type(dataset) is ConcatDataset:
        parts = [part for part in map(as_pipeline, dataset.datasets) if part is not None]
        # torch counts when it joins; a part may have become longer or shorter since.
        counts = list(itertools.accumulate(map(len, parts)))
        return joined(parts) if counts == dataset.cumulative_sizes else None
    pipeline: Pipeline = dataset
    return pipeline


def selected(whole: Pipeline, indices: Any) -> Pipeline | None:  # noqa: ANN401 - a sequence
    """Return the listed samples of a pipeline; None where the list has no numbers of samples."""
    given = indices.tolist() if isinstance(indices, torch.Tensor | np.ndarray) else indices
    try:
        # Not NumPy's own way: truth values are numbers here, as they are for a list.
        numbers = np.fromiter(map(operator.index, given), dtype=np.int64, count=len(given))
    except (TypeError, OverflowError):
        return None
    total = len(whole)
    if ((numbers < -total) | (numbers >= total)).any():
        return None
    return whole.select(numbers)


def joined(parts: list[Pipeline]) -> Pipeline | None:
    """Return pipelines one after the other; None where their fields are not the same."""
    for part in parts:
        part._refuse_mixture("concat")
    if any(part._shape() != parts[0]._shape() for part in parts):
        return None
    return concat(*parts)
