"""Which samples there are: some of them, some more than once, in another order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self, cast

import numpy as np

from feedline import _arguments, _choice
from feedline.pipeline.base import pipeline_of
from feedline.pipeline.functions import Applying, name_of
from feedline.recipes import Recipe

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from feedline._choice import Choice
    from feedline.pipeline import Pipeline
    from feedline.pipeline.base import PipelineBase

__all__ = ["Choosing"]


class Choosing(Applying):
    """Chooses among the samples."""

    def filter(
        self,
        predicate: Callable[..., object],
        *,
        fields: str | Sequence[str] | None = None,
    ) -> Self:
        """Keep the samples for which `predicate` is true.

        It is asked about every sample once, now: a loader must know how many there are. Say which
        `fields` it needs, and only those are made, where the source can: labels without decoding
        pictures, one part of a shard without reading the others, one array of several.

        Parameters
        ----------
        predicate
            Takes the fields as `map`'s function does.
        fields
            Its name, or their names, if the predicate needs one or some fields only: it takes them
            as arguments then, in this order, whether samples are tuples or dicts. The names are
            those of `Pipeline.fields`.

        Returns
        -------
        Pipeline
            Of the samples that are kept.

        Raises
        ------
        ValueError
            If none is kept, or there is no such field.

        Examples
        --------
        >>> import numpy as np
        >>> import feedline
        >>> len(feedline.arrays(np.arange(10)).filter(lambda x: x % 3 == 0))
        4
        >>> pairs = feedline.arrays(image=np.zeros((4, 8, 8)), label=np.array([2, 0, 1, 2]))
        >>> len(pairs.filter(lambda label: label == 2, fields="label"))
        2
        """
        self._refuse_mixture("filter")
        _arguments.function("predicate", predicate)
        from feedline.loader import Loader

        asked = self._asking(predicate, None if fields is None else self._field_names(fields))
        # Every process needs to know of all samples, however many there are.
        alone = Loader(asked, batch_size=256, epochs=1, rank=0, world_size=1)
        kept = np.concatenate([batch[0] for batch in alone])
        indices = np.flatnonzero(kept)
        if len(indices) == 0:
            msg = f"filter({name_of(predicate)}) keeps none of {len(self)} samples"
            raise ValueError(msg)
        return self._chosen(f"filter({name_of(predicate)})", indices)

    def _field_names(self, fields: str | Sequence[str]) -> list[str]:
        names = [fields] if isinstance(fields, str) else list(fields)
        there = self.fields
        for name in names:
            if name not in there:
                msg = f"there is no field {name!r}; the fields are {there}"
                raise ValueError(msg)
        if not names or len(set(names)) < len(names):
            msg = f"fields must name each field that is needed once, got {fields!r}"
            raise ValueError(msg)
        return names

    def _asking(self, predicate: Callable[..., object], names: list[str] | None) -> Pipeline:
        """Return the pipeline of the predicate's answers."""
        if names is None:
            return self.map(lambda *sample: np.bool_(bool(predicate(*sample))))
        source = self._source.only(names)
        if source is not None:
            # Gone as soon as it has answered, so it needs no recipe.
            recipe = Recipe(pipeline_of, ())
            only = pipeline_of(source, named=False, stages=self._stages, recipe=recipe)
            return only.map(lambda *values: np.bool_(bool(predicate(*values))))
        if self._named:
            return self.map(lambda sample: np.bool_(bool(predicate(*(sample[n] for n in names)))))
        places = [self.fields.index(name) for name in names]
        return self.map(lambda *sample: np.bool_(bool(predicate(*(sample[i] for i in places)))))

    def select(self, which: slice | Sequence[int] | Sequence[bool] | npt.NDArray[Any]) -> Self:
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
        indices = _choice.indices_of(which, total)
        return self._chosen(f"select({len(indices)} of {total})", indices)

    def take(self, n: int) -> Self:
        """Take the first `n` samples, or all if there are fewer.

        Parameters
        ----------
        n
            How many.

        Returns
        -------
        Pipeline
            Of the same fields.

        Examples
        --------
        >>> import numpy as np
        >>> import feedline
        >>> len(feedline.arrays(np.arange(10)).take(3))
        3
        """
        n = _arguments.whole("n", n, 0)
        if self._source.is_iterable:
            return self._iterated("take", n)
        return self._sliced("take", f"take({n})", slice(n))

    def skip(self, n: int) -> Self:
        """Leave out the first `n` samples, or all if there are fewer.

        Parameters
        ----------
        n
            How many.

        Returns
        -------
        Pipeline
            Of the same fields.

        Examples
        --------
        >>> import numpy as np
        >>> import feedline
        >>> [x.item() for (x,) in feedline.Loader(feedline.arrays(np.arange(5)).skip(3))]
        [3, 4]
        """
        n = _arguments.whole("n", n, 0)
        if self._source.is_iterable:
            return self._iterated("skip", n)
        return self._sliced("skip", f"skip({n})", slice(n, None))

    def shard(self, index: int, count: int) -> Self:
        """Take every `count`-th sample, from the one at `index` on.

        The shards of a pipeline have every sample once, and as many each, give or take one. A
        loader that is one of several processes needs none of this: it takes its share by itself
        (``rank`` and ``world_size`` of `feedline.Loader`).

        Parameters
        ----------
        index
            Which shard, from 0.
        count
            How many shards there are.

        Returns
        -------
        Pipeline
            Of the same fields.

        Examples
        --------
        >>> import numpy as np
        >>> import feedline
        >>> [x.item() for (x,) in feedline.Loader(feedline.arrays(np.arange(10)).shard(1, 4))]
        [1, 5, 9]
        """
        count = _arguments.whole("count", count, 1)
        index = _arguments.whole("index", index, 0, count - 1)
        return self._sliced("shard", f"shard({index}, {count})", slice(index, None, count))

    def repeat(self, n: int) -> Self:
        """Go through all samples `n` times within one epoch.

        Each time a sample comes it draws random numbers of its own, as another sample would. To
        train for several epochs, iterate over the loader several times instead.

        Parameters
        ----------
        n
            How often each sample comes.

        Returns
        -------
        Pipeline
            With `n` times as many samples: all of them in their order, then all again.

        Examples
        --------
        >>> import numpy as np
        >>> import feedline
        >>> [x.item() for (x,) in feedline.Loader(feedline.arrays(np.arange(3)).repeat(2))]
        [0, 1, 2, 0, 1, 2]
        """
        self._refuse_mixture("repeat")
        times = _arguments.whole("n", n, 1)
        return self._chosen(f"repeat({times})", times)

    def shuffle(self, buffer_size: int) -> Self:
        """Shuffle the samples of an iterable pipeline on their way, in a buffer.

        Each sample is drawn from the next `buffer_size` that are left, which wait in memory, beside
        the loader's ``memory``. The order depends on the loader's seed and the epoch alone. A
        resumed epoch is gone through from its start again.

        Parameters
        ----------
        buffer_size
            How many samples wait. 1 shuffles nothing.

        Returns
        -------
        Pipeline
            Of the same samples.

        Raises
        ------
        ValueError
            If the number of samples is known: then the loader shuffles all of them.

        Examples
        --------
        >>> import feedline
        >>> numbers = feedline.iterable(lambda: range(8)).shuffle(4)
        >>> for (x,) in feedline.Loader(numbers, batch_size=8, seed=1):
        ...     print(sorted(x.tolist()))
        [0, 1, 2, 3, 4, 5, 6, 7]
        """
        size = _arguments.whole("buffer_size", buffer_size, 1)
        if not self._source.is_iterable:
            msg = (
                "a buffer is for samples whose number is not known; pass shuffle=True to "
                "feedline.Loader, which shuffles all of these without one"
            )
            raise ValueError(msg)
        return self._iterated("shuffle", size)

    def _iterated(self, change: Literal["take", "skip", "shuffle"], count: int) -> Self:
        """Change which samples of an iterable pipeline come, or their order."""
        from feedline.iterables import changed

        stages = (*self._stages, f"{change}({count})")
        return cast("Self", changed(self, change, count, stages))

    def _sliced(self, operation: str, stage: str, which: slice) -> Self:
        self._refuse_mixture(operation)
        return self._chosen(stage, range(len(self))[which])

    def _chosen(self, stage: str, choice: Choice) -> Self:
        before: PipelineBase = self
        fused = False
        if self._recipe.make is _chosen:
            # Another selection needs one table, not two.
            earlier, first, _ = self._recipe.arguments
            both = _choice.joined(first, choice)
            if both is not None:
                before, choice, fused = earlier, both, True
        return cast("Self", _chosen(before, choice, self._stages_with(stage, fused=fused)))


def _chosen(before: PipelineBase, choice: Choice, stages: tuple[str, ...]) -> Pipeline:
    source = _choice.chosen(before._source, choice)
    recipe = Recipe(_chosen, (before, choice, stages))
    return pipeline_of(source, named=before._named, stages=stages, recipe=recipe)
