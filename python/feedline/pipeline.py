"""What a sample is: sources, and the operations chained onto them."""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Mapping
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from feedline import _arguments, randomness
from feedline._feedline import NativeLoader, Source
from feedline._samples import samples_of
from feedline.image_operations import ImageOperations
from feedline.recipes import Portable, Recipe, again

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from feedline.pictures import Images

__all__ = ["Pipeline", "concat", "mix"]


class Pipeline(ImageOperations):
    """Samples, and what is done to each of them.

    Pipelines are made by sources (`feedline.arrays`, `feedline.npy`) and never change: each
    operation returns a new one. Nothing is loaded before a `feedline.Loader` iterates over it,
    except where an operation says so.

    They pickle by what made them: paths, operations with their arguments, arrays by value (those
    that are mapped from files, too; `feedline.npy` goes by its path). Functions that cannot be
    imported, such as lambdas, need cloudpickle installed.

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

    def __init__(
        self,
        source: Source,
        *,
        named: bool,
        stages: tuple[str, ...],
        recipe: Recipe,
    ) -> None:
        self._source = source
        self._named = named
        self._stages = stages
        self._recipe = recipe

    def __reduce__(self) -> tuple[Any, ...]:
        return again, (self._recipe, len(self))

    def __copy__(self) -> Pipeline:
        # It never changes, so a copy may share everything.
        copied = object.__new__(type(self))
        copied.__dict__.update(self.__dict__)
        return copied

    def __len__(self) -> int:
        return len(self._source)

    def __str__(self) -> str:
        fields = [_describe(field, named=self._named) for field in self._delivered()]
        if self._named:
            delivers = "{" + ", ".join(fields) + "}"
        else:
            delivers = "(" + ", ".join(fields) + ("," if len(fields) == 1 else "") + ")"
        stages = "\n".join(f"  {stage}" for stage in self._stages)
        return f"{len(self)} samples\n{stages}\ndelivers {delivers}"

    def __repr__(self) -> str:
        return f"<Pipeline of {len(self)} samples: {' | '.join(self._stages)}>"

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
        total = len(self)
        places = [operator.index(index) for index in indices]
        for place in places:
            if not -total <= place < total:
                msg = f"index {place} is out of range for {total} samples"
                raise IndexError(msg)
        return [place % total for place in places]

    def _made(self, places: list[int], *, threads: int) -> list[Any]:
        self._check_loadable()
        source = self._source
        settings: dict[str, object] = {
            "batch_size": len(places),
            "indices": places,
            "seed": randomness.drawn_seed(),
            "num_workers": threads,
            "epochs": 1,
        }
        if len(set(places)) < len(places):
            # Random numbers go by index, and one that is asked for twice shall draw twice.
            source = source.select(places)
            del settings["indices"]
        (batch,) = NativeLoader(source, self._named, "numpy", settings).epoch()
        return samples_of(batch, source.fields())

    def _batch_operations(self) -> tuple[str, ...]:
        """Return the names of the operations on whole batches."""
        return ()

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

        Workers hold the GIL inside the function and nowhere else, so other stages go on meanwhile.
        It is called once, on the first sample, when the pipeline is made: what it returns then says
        which fields there are, with which dtype and shape. Consecutive functions are fused into one
        call.

        Parameters
        ----------
        function
            Takes the fields as arguments (or one dict, where fields are named): arrays of its own
            memory, scalars, str or bytes. Returns an array (or scalar, str, bytes), a tuple, or a
            dict of them.
        ragged
            Rules for returned fields whose shape differs from sample to sample, by name or place:
            ``"longest"`` pads each batch to its longest sample, a shape pads to that shape,
            ``"packed"`` concatenates along the first axis. Batches then have ``<name>_lengths``
            (one number per sample, or one per axis) or ``<name>_offsets`` behind the field.
        fill
            What is padded with; a value of the field's dtype.

        Returns
        -------
        Pipeline
            Of the returned fields.

        Raises
        ------
        TypeError
            If the function returns nothing, or what is no array of numbers, str or bytes.
        ValueError
            If a rule does not fit what the function returns, or the pipeline is empty.

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
        _arguments.function("function", function)
        rules = _rules(ragged, fill)
        before, functions, fused = self, (Portable("map", function),), False
        # A field with a rule is changed by it, so nothing can be fused with what comes after.
        if self._recipe.make is _mapped and not self._recipe.arguments[2]:
            before, earlier, *_ = self._recipe.arguments
            functions, fused = (*earlier, *functions), True
        stages = self._stages_with(f"map({_name(function)})", fused=fused)
        pipeline = _mapped(before, functions, rules, stages)
        made = {name: dtype for name, dtype, *_ in pipeline._source.fields()}
        unknown = sorted(rules.keys() - made.keys())
        if unknown:
            msg = f"ragged names {unknown}, but the function returns the fields {list(made)}"
            raise ValueError(msg)
        for name, (rule, *_) in rules.items():
            if rule != "packed":
                _check_fill(name, made[name], fill)
        return pipeline

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
        _arguments.function("predicate", predicate)
        from feedline.loader import Loader

        asked = self.map(lambda *sample: np.bool_(bool(predicate(*sample))))
        # Every process needs to know of all samples, however many there are.
        alone = Loader(asked, batch_size=256, epochs=1, rank=0, world_size=1)
        kept = np.concatenate([batch[0] for batch in alone])
        indices = np.flatnonzero(kept)
        if len(indices) == 0:
            msg = f"filter({_name(predicate)}) keeps none of {len(self)} samples"
            raise ValueError(msg)
        return self._selected(f"filter({_name(predicate)})", indices)

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
        indices = np.arange(total)[which] if isinstance(which, slice) else _indices(which, total)
        return self._selected(f"select({len(indices)} of {total})", indices)

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
            check_pipeline("zip", pipeline)
            pipeline._refuse_mixture("zip")
            if pipeline._named != self._named:
                msg = "zip cannot join named and unnamed fields; name them all, e.g. arrays(x=...)"
                raise ValueError(msg)
        inner = ", ".join(" | ".join(other._stages) for other in others)
        return _zipped((self, *others), (*self._stages, f"zip({inner})"))

    def images(self, part: str | None = None, **settings: Any) -> Images:  # noqa: ANN401 - checked
        """Decode the pictures among encoded samples, such as those of `feedline.tar`.

        Operations on pictures call it by themselves where it was not called before.

        Parameters
        ----------
        part
            Which part is the picture. ``None``: the first one whose name ends as pictures' names
            do.
        **settings
            ``mask``, ``boxes`` and ``keypoints`` name parts that move with the picture: a mask is a
            picture, the others are ``.npy`` files of shape (n, 4) and (n, 2). ``ragged``,
            ``named``, ``color``, ``exact``, ``orientation``, ``max_pixels`` and ``max_memory`` are
            as for `feedline.images`.

        Returns
        -------
        Images
            Of the picture, the mask, boxes and keypoints, then all other parts.

        Raises
        ------
        ValueError
            If samples are not encoded any more, or have no such part.
        """
        from feedline.pictures import decoded

        return decoded(self, part, **settings)

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
            checked, and a damaged entry is made anew. A folder that was filled by another pipeline
            is refused; pipelines are told apart by their stages' names and what they deliver, so
            empty the folder when the data or a function changes.
        limit
            How many bytes may be kept, as a number or such as ``"500MiB"``. What does not fit is
            made each time.

        Returns
        -------
        Pipeline
            Of the same samples.

        Raises
        ------
        ValueError
            If the limit is not a size, or the folder holds other samples.
        OSError
            If the folder cannot be made or read.

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
        most = _arguments.size("limit", limit)
        if where == "ram":
            return _kept_in_ram(self, most, (*self._stages, f"cache(ram, {limit})"))
        if where == "":
            msg = 'where must be "ram" or a folder, got an empty path; pass "." for this folder'
            raise ValueError(msg)
        return _kept_on_disk(self, Path(where), most, (*self._stages, f"cache(disk, {limit})"))

    def _selected(self, stage: str, indices: np.ndarray) -> Pipeline:
        before, fused = self, False
        if self._recipe.make is _selected:
            # Another selection needs one table, not two.
            before, chosen, _ = self._recipe.arguments
            indices, fused = chosen[indices], True
        return _selected(before, indices, self._stages_with(stage, fused=fused))

    def _stages_with(self, stage: str, *, fused: bool) -> tuple[str, ...]:
        if not fused:
            return (*self._stages, stage)
        before = self._stages[-1].removesuffix(", fused")
        return (*self._stages[:-1], f"{before} + {stage}, fused")

    def _add(self, name: str, **arguments: object) -> Images:
        return self.images()._add(name, **arguments)

    def _delivered(self) -> list[tuple[str, str, list[int | None], str]]:
        """Name, dtype, shape and rule of each field of a sample as batches have it."""
        return self._source.fields()

    def _check_loadable(self) -> None:
        """Refuse samples that no batch can be made of."""

    def _refuse_mixture(self, operation: str) -> None:
        if self._source.is_mixture:
            msg = (
                f"{operation} cannot follow mix, which decides how often each sample comes; "
                f"call {operation} on the pipelines before they are mixed"
            )
            raise ValueError(msg)


# ---- what recipes call: each makes its pipeline, the first time and again


def _mapped(
    before: Pipeline,
    functions: tuple[Portable, ...],
    rules: dict[str, tuple[str, list[int] | None, float]],
    stages: tuple[str, ...],
    known: tuple[list[tuple[str, str, list[int | None], str]], bool] | None = None,
) -> Pipeline:
    """Call functions in turn, at once, so that the GIL is taken once.

    `known` is what they make. Without it, they are called on the first sample to learn it.
    """
    called = reduce(_in_turn, [portable.function for portable in functions])
    source, named = before._source.map(called, before._named, rules, known)
    recipe = Recipe(_mapped, (before, functions, rules, stages, (source.fields(), named)))
    return Pipeline(source, named=named, stages=stages, recipe=recipe)


def _selected(before: Pipeline, indices: np.ndarray, stages: tuple[str, ...]) -> Pipeline:
    source = before._source.select(indices.tolist())
    recipe = Recipe(_selected, (before, indices, stages))
    return Pipeline(source, named=before._named, stages=stages, recipe=recipe)


def _zipped(pipelines: tuple[Pipeline, ...], stages: tuple[str, ...]) -> Pipeline:
    named = pipelines[0]._named
    source = Source.zip([pipeline._source for pipeline in pipelines], named)
    return Pipeline(source, named=named, stages=stages, recipe=Recipe(_zipped, (pipelines, stages)))


def _kept_in_ram(before: Pipeline, most: int, stages: tuple[str, ...]) -> Pipeline:
    source = before._source.cache_ram(most)
    recipe = Recipe(_kept_in_ram, (before, most, stages))
    return Pipeline(source, named=before._named, stages=stages, recipe=recipe)


def _kept_on_disk(before: Pipeline, folder: Path, most: int, stages: tuple[str, ...]) -> Pipeline:
    source = before._source.cache_disk(folder, " | ".join(before._stages), most)
    # Copies share it, whatever folder their process is in.
    recipe = Recipe(_kept_on_disk, (before, folder.absolute(), most, stages))
    return Pipeline(source, named=before._named, stages=stages, recipe=recipe)


def _in_turn(first: Callable[..., Any], second: Callable[..., Any]) -> Callable[..., Any]:
    def both(*sample: Any) -> Any:  # noqa: ANN401 - whatever the functions take and return
        made = first(*sample)
        if isinstance(made, Mapping):
            return second({name: _own(value) for name, value in made.items()})
        return second(*map(_own, made if isinstance(made, tuple) else (made,)))

    return both


def _own(value: Any) -> Any:  # noqa: ANN401 - whatever a function returns
    """Make what one function returned what the next is promised: arrays of its own memory."""
    if isinstance(value, str | bytes):
        return value
    if value is None or np.ma.isMaskedArray(value):
        kind = type(value).__name__
        msg = f"a function returned {kind}; return numbers, arrays of them, str or bytes"
        raise TypeError(msg)
    array = np.array(value)
    if array.dtype.hasobject:
        msg = f"a function returned {type(value).__name__}, which is no array of numbers"
        raise TypeError(msg)
    return array if array.ndim else array[()]


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


def _describe(field: tuple[str, str, list[int | None], str], *, named: bool) -> str:
    name, dtype, shape, rule = field
    axes = ", ".join("*" if axis is None else str(axis) for axis in shape)
    text = dtype if rule in ("fixed", "longest", "padded", "packed") else rule
    text = f"{text} [{axes}]"
    if rule in ("longest", "padded", "packed"):
        text += f" {rule}"
    return f"{name}: {text}" if named else text


def check_pipeline(operation: str, pipeline: object) -> None:
    """Refuse what is no pipeline."""
    if not isinstance(pipeline, Pipeline):
        got = type(pipeline).__name__
        msg = f"{operation} takes pipelines, got {got}; make one, e.g. feedline.arrays(x)"
        raise TypeError(msg)


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
    return Source.concat([pipeline._source for pipeline in pipelines]), pipelines[0]._named


def _indices(which: Sequence[int] | Sequence[bool] | np.ndarray, total: int) -> np.ndarray:
    given = np.asarray(which)
    if given.dtype == bool:
        if given.shape != (total,):
            msg = f"a mask needs one value per sample, {total}, got shape {given.shape}"
            raise IndexError(msg)
        return np.flatnonzero(given)
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        what = f"{given.dtype} of shape {given.shape}"
        msg = f"select takes a list of integers, a list of truth values or a slice, got {what}"
        raise TypeError(msg)
    outside = given[(given < -total) | (given >= total)]
    if outside.size:
        msg = f"index {outside[0]} is out of range for {total} samples"
        raise IndexError(msg)
    indices = given.astype(np.int64)
    return np.where(indices < 0, indices + total, indices)


def _rules(
    ragged: Any,  # noqa: ANN401 - checked
    fill: float,
) -> dict[str, tuple[str, list[int] | None, float]]:
    if ragged is None:
        return {}
    if not isinstance(ragged, Mapping):
        msg = f'ragged must be a dict of rules by field, such as {{0: "longest"}}, got {ragged!r}'
        raise TypeError(msg)
    fill = float(_arguments.real("fill", fill))
    return {str(name): (*_rule(name, rule), fill) for name, rule in ragged.items()}


def _rule(name: str | int, rule: object) -> tuple[str, list[int] | None]:
    if rule in ("longest", "packed"):
        return str(rule), None
    if isinstance(rule, (tuple, list)):
        return "padded", [_arguments.whole(f"ragged[{name!r}]", axis, 0) for axis in rule]
    msg = f'ragged[{name!r}] must be "longest", "packed" or a shape to pad to, got {rule!r}'
    raise ValueError(msg) if isinstance(rule, str) else TypeError(msg)


def _check_fill(name: str, dtype: str, fill: float) -> None:
    if dtype == "bool":
        fits = fill in (0, 1)
    elif dtype.lstrip("u").startswith("int"):
        bounds = np.iinfo(dtype)
        # The engine takes it as a float64, which has not every large integer.
        fits = math.isfinite(fill) and int(fill) == fill == int(float(fill))
        fits = fits and bounds.min <= fill <= bounds.max
    else:
        return
    if not fits:
        msg = f"fill must be a value of {dtype}, the dtype of field {name!r}, got {fill!r}"
        raise ValueError(msg)


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)
