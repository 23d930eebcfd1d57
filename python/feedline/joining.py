"""Several pipelines with the same fields as one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from feedline import _arguments
from feedline._feedline import Source
from feedline.pipeline import Pipeline, check_pipeline
from feedline.recipes import Recipe

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["concat", "mix"]


def concat(*pipelines: Pipeline) -> Pipeline:
    """Several pipelines with the same fields, one after the other.

    Parameters
    ----------
    *pipelines
        At least one.

    Returns
    -------
    Pipeline
        With the samples of all.

    Raises
    ------
    ValueError
        If their fields differ.

    Examples
    --------
    >>> import numpy as np
    >>> import feedline
    >>> len(feedline.concat(feedline.arrays(np.arange(3)), feedline.arrays(np.arange(4))))
    7
    """
    source, named = _appended("concat", pipelines)
    inner = ", ".join(" | ".join(pipeline._stages) for pipeline in pipelines)
    recipe = Recipe(concat, pipelines)
    return Pipeline(source, named=named, stages=(f"concat({inner})",), recipe=recipe)


def mix(pipelines: Sequence[Pipeline], weights: Sequence[float]) -> Pipeline:
    """Several pipelines with the same fields, shuffled together in given proportions.

    An epoch has as many samples as all pipelines together, of each exactly its share. One whose
    share exceeds its length starts over in a new order; one whose share is smaller goes on in the
    next epoch where it stopped.

    Parameters
    ----------
    pipelines
        What to mix.
    weights
        One number per pipeline, at least 0.

    Returns
    -------
    Pipeline
        Always shuffled by the loader, whatever its `shuffle` says.

    Raises
    ------
    ValueError
        If fields differ, or the weights are not one finite number per pipeline.

    Examples
    --------
    >>> import numpy as np
    >>> import feedline
    >>> zeros, ones = feedline.arrays(np.zeros(50)), feedline.arrays(np.ones(50))
    >>> mixed = feedline.mix([zeros, ones], weights=[3, 1])
    >>> sum(float(x.sum()) for (x,) in feedline.Loader(mixed, batch_size=10, epochs=1))
    25.0
    """
    pipelines, weights = list(pipelines), list(weights)
    joint, named = _appended("mix", pipelines)
    if len(pipelines) != len(weights):
        msg = f"mix needs one weight per pipeline, got {len(pipelines)} and {len(weights)}"
        raise ValueError(msg)
    for pipeline, weight in zip(pipelines, weights, strict=True):
        if not math.isfinite(_arguments.real("weights", weight)) or weight < 0:
            msg = f"weights must be finite numbers of at least 0, got {weight!r}"
            raise ValueError(msg)
        if weight > 0 and len(pipeline) == 0:
            msg = f"weights has {weight!r} for an empty pipeline; pass 0 or leave it out"
            raise ValueError(msg)
    if not any(weights):
        msg = "weights are all 0, so nothing can be drawn; pass at least one above 0"
        raise ValueError(msg)
    lengths = [len(pipeline) for pipeline in pipelines]
    source = joint.mixture(lengths, [float(weight) for weight in weights])
    inner = ", ".join(
        f"{weight:g} x ({' | '.join(pipeline._stages)})"
        for pipeline, weight in zip(pipelines, weights, strict=True)
    )
    recipe = Recipe(mix, (pipelines, weights))
    return Pipeline(source, named=named, stages=(f"mix({inner})",), recipe=recipe)


def _appended(operation: str, pipelines: Sequence[Pipeline]) -> tuple[Source, bool]:
    if not pipelines:
        msg = f"{operation} needs at least one pipeline"
        raise ValueError(msg)
    for pipeline in pipelines:
        check_pipeline(operation, pipeline)
        pipeline._refuse_mixture(operation)
        if pipeline._named != pipelines[0]._named:
            advice = "name them all, e.g. arrays(x=...)"
            msg = f"{operation} cannot join named and unnamed fields; {advice}"
            raise ValueError(msg)
    named = pipelines[0]._named
    return Source.concat([pipeline._source for pipeline in pipelines], named), named
