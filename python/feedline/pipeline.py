"""What a sample is: sources, and the operations chained onto them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from feedline._feedline import Source

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

__all__ = ["Pipeline", "concat", "mix"]


class Pipeline:
    """Samples, and what is done to each of them.

    Pipelines are made by sources (`feedline.arrays`, `feedline.npy`) and never change: each operation
    returns a new one. Nothing is loaded before a `feedline.Loader` iterates over it, except where an
    operation says so.

    Examples
    --------
    >>> import numpy as np
    >>> import feedline
    >>> pairs = feedline.arrays(np.arange(10), np.arange(10) % 2)
    >>> even = pairs.filter(lambda x, y: y == 0).map(lambda x, y: np.float32([x, -x]))
    >>> print(even)
    5 samples
      arrays(2)
      filter(<lambda>)
      map(<lambda>)
    delivers (float32 [2],)
    """

    def __init__(self, source: Source, *, named: bool, stages: tuple[str, ...]) -> None:
        self._source = source
        self._named = named
        self._stages = stages

    def __len__(self) -> int:
        return len(self._source)

    def __str__(self) -> str:
        fields = [_describe(field, named=self._named) for field in self._source.fields()]
        if self._named:
            delivers = "{" + ", ".join(fields) + "}"
        else:
            delivers = "(" + ", ".join(fields) + ("," if len(fields) == 1 else "") + ")"
        stages = "\n".join(f"  {stage}" for stage in self._stages)
        return f"{len(self)} samples\n{stages}\ndelivers {delivers}"

    def __repr__(self) -> str:
        return f"<Pipeline of {len(self)} samples: {' | '.join(self._stages)}>"

    @property
    def fields(self) -> list[str]:
        """The names of the fields, in their order."""
        return [name for name, *_ in self._source.fields()]

    def map(
        self,
        function: Callable[..., Any],
        *,
        ragged: Mapping[str | int, str | Sequence[int]] | None = None,
        fill: float = 0,
    ) -> Pipeline:
        """Apply a Python function to each sample.

        Workers hold the GIL inside the function and nowhere else, so other stages go on meanwhile. It is
        called once, on the first sample, when the pipeline is made: what it returns then says which
        fields there are, with which dtype and shape.

        Parameters
        ----------
        function
            Takes the fields as arguments (or one dict, where fields are named): arrays of its own
            memory, scalars, str or bytes. Returns an array (or scalar, str, bytes), a tuple, or a
            dict of them.
        ragged
            Rules for returned fields whose shape differs from sample to sample, by name or place:
            ``"longest"`` pads each batch to its longest sample, a shape pads to that shape,
            ``"packed"`` concatenates along the first axis. Batches then have ``<name>_lengths`` or
            ``<name>_offsets`` behind the field.
        fill
            What is padded with.

        Returns
        -------
        Pipeline
            Of the returned fields.

        Raises
        ------
        ValueError
            If a rule names a field that the function does not return, or the pipeline is empty.

        Examples
        --------
        >>> import numpy as np
        >>> import feedline
        >>> words = feedline.arrays(np.arange(1, 4)).map(
        ...     lambda n: np.full(n, n), ragged={0: "longest"}, fill=-1
        ... )
        >>> for tokens, lengths in feedline.Loader(words, batch_size=3):
        ...     print(tokens, lengths)
        [[ 1 -1 -1]
         [ 2  2 -1]
         [ 3  3  3]] [1 2 3]
        """
        rules = {str(name): _rule(rule, fill) for name, rule in (ragged or {}).items()}
        source, named = self._source.map(function, self._named, rules)
        made = [name for name, *_ in source.fields()]
        unknown = sorted(rules.keys() - set(made))
        if unknown:
            msg = f"ragged names {unknown}, but the function returns the fields {made}"
            raise ValueError(msg)
        return self._then(f"map({_name(function)})", source, named=named)

    def filter(self, predicate: Callable[..., Any]) -> Pipeline:
        """Keep the samples for which `predicate` is true.

        Every sample is made once, now: a loader must know how many there are.

        Parameters
        ----------
        predicate
            Takes the fields as `map`'s function does.

        Returns
        -------
        Pipeline
            Of the samples that are kept.

        Raises
        ------
        ValueError
            If none is kept.

        Examples
        --------
        >>> import numpy as np
        >>> import feedline
        >>> len(feedline.arrays(np.arange(10)).filter(lambda x: x % 3 == 0))
        4
        """
        self._refuse_mixture("filter")
        from feedline.loader import Loader

        asked = self.map(lambda *sample: np.bool_(predicate(*sample)))
        kept = np.concatenate([batch[0] for batch in Loader(asked, batch_size=256, epochs=1)])
        indices = np.flatnonzero(kept)
        if len(indices) == 0:
            msg = f"filter({_name(predicate)}) keeps none of {len(self)} samples"
            raise ValueError(msg)
        return self._then(f"filter({_name(predicate)})", self._source.select(indices.tolist()))

    def select(self, which: slice | Sequence[int] | Sequence[bool] | np.ndarray) -> Pipeline:
        """Take some samples: by index, by mask, or by slice.

        Parameters
        ----------
        which
            Indices (negative ones count from the end; one given twice comes twice), one truth value
            per sample, or a slice.

        Returns
        -------
        Pipeline
            Of the selected samples, in the given order.

        Raises
        ------
        IndexError
            If an index is out of range, or a mask has another length than the pipeline.

        Examples
        --------
        >>> import numpy as np
        >>> import feedline
        >>> print(feedline.arrays(np.arange(10)).select(slice(0, None, 3)))
        4 samples
          arrays(1)
          select(4 of 10)
        delivers (int64 [],)
        """
        self._refuse_mixture("select")
        total = len(self)
        if isinstance(which, slice):
            indices = np.arange(total)[which]
        else:
            indices = np.asarray(which)
            if indices.dtype == bool:
                if indices.shape != (total,):
                    msg = f"a mask needs one value per sample, {total}, got shape {indices.shape}"
                    raise IndexError(msg)
                indices = np.flatnonzero(indices)
            elif indices.size and indices.dtype.kind not in "iu":
                msg = f"select takes integers, truth values or a slice, got {indices.dtype}"
                raise TypeError(msg)
        indices = indices.astype(np.int64)
        outside = np.flatnonzero((indices < -total) | (indices >= total))
        if outside.size:
            msg = f"index {indices[outside[0]]} is out of range for {total} samples"
            raise IndexError(msg)
        indices = np.where(indices < 0, indices + total, indices)
        stage = f"select({len(indices)} of {total})"
        return self._then(stage, self._source.select(indices.tolist()))

    def zip(self, *others: Pipeline) -> Pipeline:
        """Put the fields of equally long pipelines side by side.

        Parameters
        ----------
        *others
            Pipelines with as many samples as this one.

        Returns
        -------
        Pipeline
            With the fields of all.

        Raises
        ------
        ValueError
            If lengths differ, names repeat, or named and unnamed fields meet.

        Examples
        --------
        >>> import numpy as np
        >>> import feedline
        >>> x, y = feedline.arrays(x=np.zeros((4, 2))), feedline.arrays(y=np.arange(4))
        >>> x.zip(y).fields
        ['x', 'y']
        """
        for pipeline in (self, *others):
            pipeline._refuse_mixture("zip")
            if pipeline._named != self._named:
                msg = "zip cannot join named and unnamed fields; name them all, e.g. arrays(x=...)"
                raise ValueError(msg)
        inner = ", ".join(" | ".join(other._stages) for other in others)
        stages = (*self._stages, f"zip({inner})")
        sources = [self._source, *(other._source for other in others)]
        return joined(sources, named=self._named, stages=stages)

    def concat(self, *others: Pipeline) -> Pipeline:
        """Append other pipelines with the same fields; see `feedline.concat`."""
        return concat(self, *others)

    def cache(
        self,
        where: str | os.PathLike[str] = "ram",
        *,
        limit: int | str = "1GiB",
    ) -> Pipeline:
        """Keep finished samples, so that later epochs need not make them again.

        Everything before this call is done once per sample, everything after it every time: put
        random operations after it.

        Parameters
        ----------
        where
            ``"ram"``, or a folder on disk. Several processes may share a folder; what they read is
            checked, and a damaged entry is made anew.
        limit
            How many bytes may be kept, as a number or such as ``"500MiB"``. What does not fit is made
            each time.

        Returns
        -------
        Pipeline
            Of the same samples.

        Raises
        ------
        ValueError
            If the limit is not a size.

        Examples
        --------
        >>> import numpy as np
        >>> import feedline
        >>> calls = []
        >>> slow = feedline.arrays(np.arange(4)).map(lambda x: calls.append(x) or x)
        >>> loader = feedline.Loader(slow.cache(), batch_size=4, num_workers=0)
        >>> for _ in range(3):
        ...     [batch for batch in loader]  # doctest: +ELLIPSIS
        [...]
        [...]
        [...]
        >>> len(calls)  # four samples, and one call to learn what the function makes
        5
        """
        self._refuse_mixture("cache")
        size = _bytes(limit)
        if where == "ram":
            return self._then(f"cache(ram, {limit})", self._source.cache_ram(size))
        recipe = " | ".join(self._stages)
        return self._then(f"cache(disk, {limit})", self._source.cache_disk(where, recipe, size))

    def _then(self, stage: str, source: Source, *, named: bool | None = None) -> Pipeline:
        named = self._named if named is None else named
        return Pipeline(source, named=named, stages=(*self._stages, stage))

    def _refuse_mixture(self, operation: str) -> None:
        if self._source.is_mixture:
            msg = (
                f"{operation} cannot follow mix, which decides how often each sample comes; "
                f"call {operation} on the pipelines before they are mixed"
            )
            raise ValueError(msg)


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
    for pipeline in pipelines:
        pipeline._refuse_mixture("concat")
    source = Source.concat([pipeline._source for pipeline in pipelines])
    inner = ", ".join(" | ".join(pipeline._stages) for pipeline in pipelines)
    return Pipeline(source, named=pipelines[0]._named, stages=(f"concat({inner})",))


def mix(pipelines: Sequence[Pipeline], weights: Sequence[float]) -> Pipeline:
    """Several pipelines with the same fields, shuffled together in given proportions.

    An epoch has as many samples as all pipelines together, of each exactly its share. One whose share
    exceeds its length starts over in a new order; one whose share is smaller goes on in the next
    epoch where it stopped.

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
    if len(pipelines) != len(weights):
        msg = f"mix needs one weight per pipeline, got {len(pipelines)} and {len(weights)}"
        raise ValueError(msg)
    joint = concat(*pipelines)
    lengths = [len(pipeline) for pipeline in pipelines]
    source = joint._source.mixture(lengths, [float(weight) for weight in weights])
    inner = ", ".join(
        f"{weight:g} x ({' | '.join(pipeline._stages)})"
        for pipeline, weight in zip(pipelines, weights, strict=True)
    )
    return Pipeline(source, named=joint._named, stages=(f"mix({inner})",))


def joined(sources: list[Source], *, named: bool, stages: tuple[str, ...]) -> Pipeline:
    """Put the fields of sources side by side, renumbering those without names."""
    return Pipeline(Source.zip(sources, named), named=named, stages=stages)


def _describe(field: tuple[str, str, list[int | None], str], *, named: bool) -> str:
    name, dtype, shape, rule = field
    axes = ", ".join("*" if axis is None else str(axis) for axis in shape)
    text = dtype if rule in ("fixed", "longest", "padded", "packed") else rule
    text = f"{text} [{axes}]"
    if rule in ("longest", "padded", "packed"):
        text += f" {rule}"
    return f"{name}: {text}" if named else text


def _rule(
    rule: str | Sequence[int], fill: float
) -> tuple[str, list[int] | None, float]:
    if isinstance(rule, str):
        if rule not in ("longest", "packed"):
            msg = f'a ragged rule is "longest", "packed" or a shape to pad to, got {rule!r}'
            raise ValueError(msg)
        return rule, None, float(fill)
    return "padded", [int(axis) for axis in rule], float(fill)


def _bytes(size: int | str) -> int:
    units = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
    units |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
    text = str(size).strip().upper()
    number = text.rstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    unit = text[len(number) :]
    try:
        value = float(number) * units[unit]
    except (ValueError, KeyError):
        value = -1.0
    if not 0 <= value < 2**63:
        msg = f'a size is a number of bytes or such as "500MiB", got {size!r}'
        raise ValueError(msg)
    return int(value)


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)
