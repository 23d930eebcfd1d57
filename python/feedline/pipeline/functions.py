"""Python functions, applied to samples and to batches."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from feedline import _arguments, _ragged
from feedline._feedline import NativeLoader
from feedline.errors import BatchError
from feedline.pipeline.base import PipelineBase, pipeline_of
from feedline.recipes import Portable, Recipe

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from feedline.pipeline import Pipeline

__all__ = ["Applying", "name_of"]


class Applying(PipelineBase):
    """Applies functions."""

    def map(
        self,
        function: Callable[..., Any],
        *,
        ragged: Mapping[str | int, Literal["longest", "packed"] | Sequence[int]] | None = None,
        fill: float = 0,
        named: bool | None = None,
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
        named
            Whether samples are dicts from here on rather than tuples. ``None``: if the function
            returns a dict. Values that it returns without a name are called ``"0"``, ``"1"``…

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
        self._refuse_batched("map")
        _arguments.function("function", function)
        if named is not None:
            named = _arguments.flag("named", named)
        rules = _ragged.rules(ragged, fill)
        before: PipelineBase = self
        functions, fused = (Portable("map", function),), False
        # A field with a rule is changed by it, so nothing can be fused with what comes after.
        if self._recipe.make is _mapped:
            earlier, first, changed, _, _, structure = self._recipe.arguments
            if not changed and structure is None:
                before, functions, fused = earlier, (*first, *functions), True
        stages = self._stages_with(f"map({name_of(function)})", fused=fused)
        pipeline = _mapped(before, functions, rules, stages, None, named)
        made = {name: dtype for name, dtype, *_ in pipeline._source.fields()}
        unknown = sorted(rules.keys() - made.keys())
        if unknown:
            msg = f"ragged names {unknown}, but the function returns the fields {list(made)}"
            raise ValueError(msg)
        for name, (rule, *_) in rules.items():
            if rule != "packed":
                _ragged.check_fill(name, made[name], fill)
        return pipeline

    def map_batches(self, function: Callable[..., Any]) -> Pipeline:
        """Apply a Python function to each batch.

        It ends the part of a pipeline that works on samples: what follows may choose samples
        (`select`, `take`, …) or be another `map_batches`. The worker that has put a batch together
        calls it, holding the GIL inside the function and nowhere else; batches keep their order.
        What it returns is copied into the loader's memory. It is called once when the pipeline is
        made, on a batch of the first sample, to learn which fields there are. An error in it is
        `feedline.errors.BatchError`, with the function's own as the cause; it costs its batch.

        Inside it `feedline.rng` returns the batch's generator, which depends on the loader's seed,
        the epoch and the batch's first sample.

        Parameters
        ----------
        function
            Takes the fields of a batch as arguments (or one dict, where they are named): NumPy
            arrays, which it may change, and lists of str or bytes. Returns an array (or a list of
            str or bytes), a tuple, or a dict of them, of any dtype and shape: each time the same
            fields. It is called for batches without samples, too, of which a loader with
            ``on_error="skip"`` has left out all.

        Returns
        -------
        Pipeline
            Of the returned fields.

        Raises
        ------
        TypeError
            If the function returns nothing, or what is no array of numbers and no list of str or
            bytes.
        ValueError
            If the pipeline is empty.

        Examples
        --------
        >>> import numpy as np
        >>> import feedline
        >>> centred = feedline.arrays(np.arange(6.0)).map_batches(lambda x: x - x.mean())
        >>> for (x,) in feedline.Loader(centred, batch_size=3):
        ...     print(x)
        [-1.  0.  1.]
        [-1.  0.  1.]
        """
        self._check_loadable()
        _arguments.function("function", function)
        if not self._source.is_iterable and len(self) == 0:
            msg = "map_batches needs at least one sample to learn what the function makes"
            raise ValueError(msg)
        stages = (*self._stages, f"map_batches({name_of(function)})")
        return _remade(self, Portable("map_batches", function), stages)


def _mapped(
    before: PipelineBase,
    functions: tuple[Portable, ...],
    rules: dict[str, tuple[str, list[int] | None, float]],
    stages: tuple[str, ...],
    known: tuple[list[tuple[str, str, list[int | None], str]], bool] | None = None,
    named: bool | None = None,
) -> Pipeline:
    """Call functions in turn, at once, so that the GIL is taken once.

    `known` is what they make. Without it, they are called on the first sample to learn it.
    """
    called = reduce(_in_turn, [portable.function for portable in functions])
    source, returned = before._source.map(called, before._named, rules, known)
    known = (source.fields(), returned)
    recipe = Recipe(_mapped, (before, functions, rules, stages, known, named))
    named = returned if named is None else named
    return pipeline_of(source, named=named, stages=stages, recipe=recipe)


def _remade(
    before: PipelineBase,
    portable: Portable,
    stages: tuple[str, ...],
    known: tuple[list[tuple[str, str, list[int | None], str]], bool] | None = None,
) -> Pipeline:
    """Call a function on batches. `known` is what it makes; else it is called to learn that."""
    source = before._source.map_batches(portable.function, before._named, known)
    if known is None:
        settings: dict[str, object] = {"batch_size": 1, "num_workers": 0, "epochs": 1}
        if not source.is_iterable:
            settings["indices"] = [0]
        try:
            NativeLoader(source, False, "numpy", settings).epoch().take(None)
        except BatchError as error:
            # Raised here: no loader has to answer for it.
            raise (error.__cause__ or error) from None
    fields, named = known or source.batch_fields() or ([], False)
    recipe = Recipe(_remade, (before, portable, stages, (fields, named)))
    return pipeline_of(source, named=named, stages=stages, recipe=recipe)


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


def name_of(function: Callable[..., Any]) -> str:
    """Return what a function is called, for people."""
    return getattr(function, "__name__", type(function).__name__)
