"""Samples that come one after the other, of which nobody knows how many there are."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Literal, cast

from feedline import _ragged
from feedline._feedline import Source
from feedline.pipeline import Pipeline
from feedline.recipes import Portable, Recipe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from feedline.pipeline.base import PipelineBase

__all__ = ["changed", "check_order", "iterable"]

# What a factory may take, by keyword.
_FIGURES = ("seed", "epoch", "rank", "world_size")


def iterable(
    factory: Callable[..., Iterable[Any]],
    *,
    ragged: Mapping[str | int, Literal["longest", "packed"] | Sequence[int]] | None = None,
    fill: float = 0,
    example: Any = None,  # noqa: ANN401 - a sample
) -> Pipeline:
    """Make samples of iterators: a generator, a stream, a query, anything that ends when it ends.

    The factory is called at the start of each epoch and returns an iterator over that epoch's
    samples; the epoch is over when the iterator is. One thread at a time asks it for the next
    sample, in order; all that comes after it (`Pipeline.map`, image operations) is done by all
    workers. Batches are the same whatever the number of workers.

    The number of samples is not known, so the pipeline has no ``len``, no index and no `select`;
    `Pipeline.take`, `Pipeline.skip` and `Pipeline.shuffle` (in a buffer) go along with the
    iterator.

    Parameters
    ----------
    factory
        A function that returns an iterator of samples, or anything that can be iterated over. A
        sample is an array, a scalar, str or bytes, a tuple of such, or a dict (then batches are
        dicts). It may take ``epoch`` and ``seed`` by keyword, and ``rank`` together with
        ``world_size`` (see Notes).
    ragged, fill
        Rules for fields whose shape differs from sample to sample; see `Pipeline.map`.
    example
        A sample like those to come: its dtypes and shapes are the fields'. ``None``: the factory
        is called once now, and its first sample says what there is.

    Returns
    -------
    Pipeline
        Of unknown length.

    Raises
    ------
    TypeError
        If the factory is no function, or returns nothing that can be iterated over.
    ValueError
        If there is no sample to learn from, or a rule does not fit.

    Notes
    -----
    **Several processes.** A factory without ``rank`` and ``world_size`` gives every process the
    same samples, and each takes every `world_size`-th; the epoch ends after the last round that has
    one for each, so all have equally many batches, and up to ``world_size - 1`` samples are left
    out. A factory that takes them gives each process samples of its own; how many is up to it.

    **Errors.** An exception of the iterator is raised as the cause of a
    `feedline.errors.SampleError`, with the batch that the sample belongs to; the iterator is not
    asked again, so the epoch ends there, and the next one can be begun.

    **Checkpoints.** Where the iterator has ``state_dict`` and ``load_state_dict``, they are used:
    the loader's state has what ``state_dict`` returned after the last delivered batch, which must
    be plain data. Otherwise a resumed epoch is begun anew, and what was delivered is skipped.

    Examples
    --------
    >>> import feedline
    >>> def countdown(epoch):
    ...     yield from range(7 + epoch, 0, -1)
    >>> loader = feedline.Loader(feedline.iterable(countdown), batch_size=4)
    >>> for _ in range(2):
    ...     print([numbers.tolist() for (numbers,) in loader])
    [[7, 6, 5, 4], [3, 2, 1]]
    [[8, 7, 6, 5], [4, 3, 2, 1]]
    """
    if not callable(cast(object, factory)):
        given = type(factory).__name__
        msg = (
            f"factory must be a function that returns an iterator, got {given}; it is called for "
            "each epoch: pass a generator function, or lambda: samples"
        )
        raise TypeError(msg)
    stage = f"iterable({getattr(factory, '__name__', type(factory).__name__)})"
    keywords = _keywords(factory)
    rules = _ragged.rules(ragged, fill)
    return _iterable(Portable("iterable", factory), keywords, rules, stage, example)


def _keywords(factory: Callable[..., Any]) -> list[str]:
    """Return what of a pass the factory takes."""
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):
        # Functions in C may not tell; they get nothing.
        return []
    by_keyword = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    names = [given.name for given in parameters if given.kind in by_keyword]
    if ("rank" in names) != ("world_size" in names):
        msg = (
            "a factory takes both rank and world_size, or neither: one is no use without the other"
        )
        raise TypeError(msg)
    return [name for name in _FIGURES if name in names]


def _iterable(
    factory: Portable,
    keywords: list[str],
    rules: dict[str, tuple[str, list[int] | None, float]],
    stage: str,
    example: Any = None,  # noqa: ANN401 - a sample
    known: tuple[list[tuple[str, str, list[int | None], str]], bool, bytes] | None = None,
) -> Pipeline:
    source, named, first = Source.iterable(factory.function, keywords, rules, example, known)
    known = (source.fields(), named, first)
    unknown = sorted(rules.keys() - {name for name, *_ in known[0]})
    if unknown:
        msg = f"ragged names {unknown}, but samples have the fields {[f[0] for f in known[0]]}"
        raise ValueError(msg)
    recipe = Recipe(_iterable, (factory, keywords, rules, stage, None, known))
    return Pipeline(source, named=named, stages=(stage,), recipe=recipe)


def changed(
    before: PipelineBase,
    change: Literal["take", "skip", "shuffle"],
    count: int,
    stages: tuple[str, ...],
) -> Pipeline:
    """Make the pipeline whose iterators give the first so many, the others, or shuffled ones."""
    source = before._source.iterated(change, count)
    recipe = Recipe(changed, (before, change, count, stages))
    return Pipeline(source, named=before._named, stages=stages, recipe=recipe)


def check_order(pipeline: Pipeline, **asked: object) -> None:
    """Refuse an order that nobody can give samples of unknown number.

    Parameters
    ----------
    pipeline
        What is to be loaded.
    **asked
        Settings of the loader by name, false where they were not given.
    """
    if not pipeline._source.is_iterable:
        return
    instead = {
        "shuffle": "shuffle in a buffer: pipeline.shuffle(1000)",
        "pad_last": "the samples of the epoch's start are gone by then; pass drop_last=True or not",
        "ready": 'leave out order="ready"',
        "replace": 'there is no other sample to take; pass on_error="skip"',
    }
    for name, given in asked.items():
        if given:
            advice = instead.get(name, "choose and order samples in the factory")
            msg = f"{name} is not for an iterable pipeline, whose samples come in turn; {advice}"
            raise ValueError(msg)
