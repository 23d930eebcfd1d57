"""What a sample is: sources, and the operations chained onto them."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, cast

import numpy as np

from feedline import _arguments, _choice, _columns, _ragged, gallery, randomness
from feedline._feedline import NativeLoader, Source
from feedline._samples import samples_of
from feedline.errors import BatchError
from feedline.gallery import Look
from feedline.image_operations import MOST_PIXELS, ImageOperations
from feedline.recipes import Portable, Recipe, again

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from feedline._choice import Choice
    from feedline.gallery import Gallery
    from feedline.image_operations import Call
    from feedline.pictures import Images

__all__ = ["MOST_PIXELS", "Pipeline", "check_pipeline"]


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
        # Read when they are first asked for.
        self._labels: npt.NDArray[np.integer[Any]] | None = None
        self._stages = stages
        self._recipe = recipe

    def __reduce__(self) -> tuple[Any, ...]:
        return again, (self._recipe, None if self._source.is_iterable else len(self))

    def __copy__(self) -> Pipeline:
        # It never changes, so a copy may share everything.
        copied = object.__new__(type(self))
        copied.__dict__.update(self.__dict__)
        return copied

    def __len__(self) -> int:
        if self._source.is_iterable:
            msg = (
                "an iterable pipeline has no length: its samples are not counted before they come; "
                "iterate over a loader of it until it ends"
            )
            raise TypeError(msg)
        return len(self._source)

    def __str__(self) -> str:
        fields = [_describe(field, named=self._named) for field in self._delivered()]
        if self._named:
            delivers = "{" + ", ".join(fields) + "}"
        else:
            delivers = "(" + ", ".join(fields) + ("," if len(fields) == 1 else "") + ")"
        stages = "\n".join(f"  {stage}" for stage in self._stages)
        return f"{self._count()}\n{stages}\ndelivers {delivers}"

    def __repr__(self) -> str:
        return f"<Pipeline of {self._count()}: {' | '.join(self._stages)}>"

    def _count(self) -> str:
        iterable = self._source.is_iterable
        return "samples of unknown number" if iterable else f"{len(self)} samples"

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
        behind = [1 + (rule in ("longest", "padded")) for *_, rule in fields]
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

    def _drawable(self) -> Pipeline:
        """Return the pipeline whose pictures `show` draws: of encoded ones, the decoded."""
        parts = self._source.encoded_parts()
        return self if parts is None else self.images()

    def _looks(self) -> list[Look]:
        """Return which fields are pictures, and how to look at them."""
        places = gallery.pictures_of(self._source.fields())
        return [Look(place, None, None) for place in places]

    def _batch_operations(self) -> tuple[str, ...]:
        """Return the names of the operations on whole batches."""
        return () if self._source.batch_fields() is None else ("map_batches",)

    def _refuse_remade(self, asked: str) -> None:
        """Refuse what needs samples where a function has made other batches of them."""
        if self._source.batch_fields() is not None:
            msg = (
                f"map_batches makes whole batches, and {asked} is asked for; ask before "
                "map_batches, or iterate by feedline.Loader or feedline.torch.DataLoader"
            )
            raise ValueError(msg)

    @property
    def fields(self) -> list[str]:
        """The names of the fields, in their order; numbers where they have none."""
        return [name for name, *_ in self._delivered()]

    @property
    def labels(self) -> npt.NDArray[np.integer[Any]]:
        """The label of every sample, in their order, as whole numbers, known without decoding.

        The label is the class of a picture's folder, or the first whole number that is called
        ``label``, ``labels``, ``target``, ``targets``, ``class``, ``cls`` or ``y``; of samples
        whose fields have no names it is the last field, where others are before it. Of tar shards
        just that part is read. Samples after `select`, `filter`, `concat`, `zip`, `cache` and the
        like have the labels that they had before; after `map` there are none, because a function
        may do anything to them.

        Raises
        ------
        ValueError
            If there are no labels, or they cannot be known without making the samples.

        Examples
        --------
        >>> import numpy as np
        >>> import feedline
        >>> pairs = feedline.arrays(image=np.zeros((4, 8, 8)), label=np.array([2, 0, 1, 2]))
        >>> pairs.select([3, 1]).labels
        array([2, 0])
        """
        if self._labels is None:
            self._labels = self._read_labels()
        return self._labels

    def _read_labels(self) -> npt.NDArray[np.integer[Any]]:
        self._refuse_iterable("labels")
        name = _columns.label_field(self._source.fields())
        if name is None:
            msg = (
                f"there are no labels: none of the fields {self.fields} is a whole number called "
                "label (or target, class, cls, y), or the last of several without names; name it, "
                "e.g. arrays(image=..., label=...)"
            )
            raise ValueError(msg)
        labels = _columns.column(self._source, name)
        if labels is None:
            msg = (
                f"the labels (field {name!r}) cannot be known without making every sample: "
                f"{self._stages[-1]} makes them; ask for .labels before it"
            )
            raise ValueError(msg)
        labels.flags.writeable = False
        return labels

    @property
    def targets(self) -> npt.NDArray[np.integer[Any]]:
        """The same as `labels`, as torchvision's datasets call it."""
        return self.labels

    @property
    def classes(self) -> list[str] | None:
        """The names of the classes in the order of their labels, where the data has such."""
        names = self._source.classes()
        return None if names is None else [str(name) for name in names]

    @property
    def class_to_idx(self) -> dict[str, int] | None:
        """The label of each class, as torchvision's ``ImageFolder`` has it."""
        names = self.classes
        return None if names is None else {name: label for label, name in enumerate(names)}

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
        before: Pipeline = self
        functions, fused = (Portable("map", function),), False
        # A field with a rule is changed by it, so nothing can be fused with what comes after.
        if self._recipe.make is _mapped:
            earlier, first, changed, _, _, structure = self._recipe.arguments
            if not changed and structure is None:
                before, functions, fused = earlier, (*first, *functions), True
        stages = self._stages_with(f"map({_name(function)})", fused=fused)
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
            msg = f"filter({_name(predicate)}) keeps none of {len(self)} samples"
            raise ValueError(msg)
        return self._chosen(f"filter({_name(predicate)})", indices)

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
            only = Pipeline(source, named=False, stages=self._stages, recipe=Recipe(Pipeline, ()))
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

    def zip(self, *others: Pipeline, named: bool | None = None) -> Pipeline:
        """Put the fields of equally long pipelines side by side.

        Parameters
        ----------
        *others
            Pipelines with as many samples as this one.
        named
            Whether samples are dicts rather than tuples. ``None``: as those of all pipelines. In a
            tuple, and where tuples become a dict, fields without a name are called by their place,
            and so is one that has the name of another before it.

        Returns
        -------
        Pipeline
            With the fields of all.

        Raises
        ------
        ValueError
            If lengths differ, names repeat, or tuples and dicts meet and `named` says nothing.

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
            if pipeline._named != self._named and named is None:
                msg = (
                    "zip cannot join named and unnamed fields; name them all, e.g. arrays(x=...), "
                    "or say what samples shall be: zip(..., named=True) for dicts"
                )
                raise ValueError(msg)
        named = self._named if named is None else _arguments.flag("named", named)
        inner = ", ".join(" | ".join(other._stages) for other in others)
        return _zipped((self, *others), (*self._stages, f"zip({inner})"), named)

    def images(
        self,
        part: str | int | None = None,
        *,
        layout: Literal["auto", "hwc", "chw", "hw"] = "auto",
        mask: str | int | None = None,
        boxes: str | int | None = None,
        keypoints: str | int | None = None,
        ragged: Literal["longest", "packed"] = "longest",
        named: bool | None = None,
        color: Literal["rgb", "gray"] = "rgb",
        exact: bool = False,
        orientation: bool = False,
        max_pixels: int = MOST_PIXELS,
        max_memory: int | str = "2GiB",
    ) -> Images:
        """Say which field is the image, for the image operations that follow.

        Image operations call it by themselves where it was not called before. There are two kinds
        of images: encoded ones, such as the files in the shards of `feedline.tar`, which are
        decoded; and arrays of uint8, such as those of `feedline.arrays` and `feedline.npy`, which
        are taken as they are.

        Parameters
        ----------
        part
            The image's part of a shard's sample, or the image's field (by its number where fields
            have no names). By default the first part whose name ends as names of images do, or the
            first field of uint8 with two or three axes.
        layout
            The axes of images in arrays: height, width, channels; channels, height, width; or
            height, width (one channel). ``"auto"`` takes the axis of length 1 or 3 as the channels;
            where both the first and the last have such a length, the layout must be given.
            What is delivered is chosen by `layout`.
        mask
            The part or field of a segmentation mask, which moves with the image: an image file of
            one channel, or uint8 of shape (height, width).
        boxes
            The part or field of bounding boxes, which move with the image: numbers of shape (n, 4),
            x0, y0, x1, y1 in pixels; in shards a ``.npy`` file.
        keypoints
            The same of points, of shape (n, 2): x, y.
        ragged
            How different numbers of boxes and keypoints of a shard share a batch: padded with zeros
            to the most of the batch, or one after the other.
        named
            Whether batches are dicts. By default as before.
        color
            What encoded images are decoded to.
        exact
            Whether large JPEGs must not be decoded at a fraction of their size.
        orientation
            Whether encoded images are turned upright by their EXIF data.
        max_pixels
            The most pixels of an image; more is an error of its sample.
        max_memory
            The most bytes of memory that decoding an image may take.

        Returns
        -------
        Images
            Encoded: of the image, the mask, boxes and keypoints, then all other parts. Arrays: of
            the same fields in the same order.

        Raises
        ------
        ValueError
            If there is no such part or field, or it is no image.

        Examples
        --------
        >>> import numpy as np
        >>> import feedline
        >>> pixels = np.zeros((100, 32, 32, 3), np.uint8)
        >>> labels = np.zeros(100, np.int64)
        >>> train = feedline.arrays(pixels, labels).random_crop(32, padding=4).flip().normalize()
        >>> print(train)
        100 samples
          arrays(2)
          random_crop(32, padding=4)
          random_horizontal_flip(p=0.5) + normalize, fused
        delivers (float32 [3, 32, 32], int64 [])
        """
        from feedline.pictures import decoded

        self._refuse_batched("images")
        return decoded(
            self,
            part,
            layout=layout,
            mask=mask,
            boxes=boxes,
            keypoints=keypoints,
            ragged=ragged,
            named=named,
            color=color,
            exact=exact,
            orientation=orientation,
            max_pixels=max_pixels,
            max_memory=max_memory,
        )

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
        stages = (*self._stages, f"map_batches({_name(function)})")
        return _remade(self, Portable("map_batches", function), stages)

    def show(
        self,
        which: int | Sequence[int] = 12,
        *,
        columns: int | None = None,
        size: int = 128,
        seed: int | None = None,
    ) -> Gallery:
        """Draw some samples: their pictures after all operations, with labels under them.

        Masks, boxes and keypoints are drawn over the pictures. What `normalize` did is undone;
        other numbers that are no bytes and not between 0 and 1 are stretched to what can be seen.

        Parameters
        ----------
        which
            How many, equally spaced over all of them; or the indices of some.
        columns
            Samples per row. ``None``: so that the whole is about a square.
        size
            How large each picture may be, in pixels.
        seed
            What random operations depend on. ``None``: they draw as they do for single samples.

        Returns
        -------
        Gallery
            Which notebooks show, and whose ``save("samples.png")`` writes a file.

        Raises
        ------
        ValueError
            If there is nothing to draw.

        Examples
        --------
        >>> import numpy as np
        >>> import feedline
        >>> digits = feedline.arrays(
        ...     image=np.zeros((50, 28, 28), np.uint8), label=np.arange(50) % 10
        ... )
        >>> digits.show(6)
        <Gallery of 6 samples, 408 x 298 pixels; .save('samples.png') writes it to a file>
        """
        size = _arguments.whole("size", size, 16, 4096)
        columns = None if columns is None else _arguments.whole("columns", columns, 1)
        self._refuse_remade("show")
        total = len(self)
        if isinstance(which, Sequence):
            places = self._places(which)
        else:
            count = min(_arguments.whole("which", which, 1, 1000), total)
            places = [i * total // count for i in range(count)]
        drawable = self._drawable()
        looks = drawable._looks()
        if not places or not looks:
            what = f"none of the fields {self.fields} is a picture" if places else "no samples"
            msg = (
                f"there is nothing to draw: {what}; a picture has the shape (channels, height, "
                "width), (height, width, channels) or (height, width)"
            )
            raise ValueError(msg)
        seed = None if seed is None else _arguments.whole("seed", seed, 0)
        return gallery.drawn(
            drawable._rows(places, seed=seed),
            drawable._source.fields(),
            looks,
            classes=self.classes,
            numbers=places,
            columns=columns,
            size=size,
        )

    def concat(self, *others: Pipeline) -> Pipeline:
        """Append other pipelines with the same fields; see `feedline.concat`."""
        from feedline.joining import concat

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

    def _chosen(self, stage: str, choice: Choice) -> Self:
        before: Pipeline = self
        fused = False
        if self._recipe.make is _chosen:
            # Another selection needs one table, not two.
            earlier, first, _ = self._recipe.arguments
            both = _choice.joined(first, choice)
            if both is not None:
                before, choice, fused = earlier, both, True
        return cast("Self", _chosen(before, choice, self._stages_with(stage, fused=fused)))

    def _stages_with(self, stage: str, *, fused: bool) -> tuple[str, ...]:
        if not fused:
            return (*self._stages, stage)
        before = self._stages[-1].removesuffix(", fused")
        return (*self._stages[:-1], f"{before} + {stage}, fused")

    def _add(self, name: str, **arguments: object) -> Images:
        return self.images()._add(name, **arguments)

    def _added(self, name: str, function: Callable[[Images], Images]) -> list[Call]:
        return self.images()._added(name, function)

    def _split(self, chains: Sequence[Sequence[Call]]) -> Images:
        return self.images()._split(chains)

    def _delivered(self) -> list[tuple[str, str, list[int | None], str]]:
        """Name, dtype, shape and rule of each field of a sample as batches have it."""
        made = self._source.batch_fields()
        return self._source.fields() if made is None else made[0]

    def _shape(self) -> tuple[Any, ...]:
        """Return what pipelines must have in common to be joined: names only where they count."""
        fields = self._source.fields()
        return self._named, [field if self._named else field[1:] for field in fields]

    def _check_loadable(self) -> None:
        """Refuse samples that no batch can be made of."""

    def _refuse_batched(self, operation: str) -> None:
        """Refuse an operation on samples where there are only batches any more."""
        if operations := self._batch_operations():
            name = operations[0]
            does = "works on" if name.startswith("map_batches") else "mixes"
            msg = (
                f"{operation} works on samples, and {name} {does} whole batches; call {operation} "
                f"before, or leave {name} out"
            )
            raise ValueError(msg)

    def _refuse_iterable(self, operation: str) -> None:
        if not self._source.is_iterable:
            return
        advice = (
            "look at samples by a loader: next(iter(feedline.Loader(pipeline)))"
            if operation == "an index"
            else "do it in the factory, before samples come out of it"
        )
        msg = (
            f"{operation} needs to know all samples, and those of an iterable pipeline come one "
            f"after the other; {advice}"
        )
        raise TypeError(msg)

    def _refuse_mixture(self, operation: str) -> None:
        self._refuse_iterable(operation)
        if operation not in ("select", "take", "skip", "shard", "repeat"):
            self._refuse_batched(operation)
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
    return Pipeline(source, named=named, stages=stages, recipe=recipe)


def _chosen(before: Pipeline, choice: Choice, stages: tuple[str, ...]) -> Pipeline:
    source = _choice.chosen(before._source, choice)
    recipe = Recipe(_chosen, (before, choice, stages))
    return Pipeline(source, named=before._named, stages=stages, recipe=recipe)


def _remade(
    before: Pipeline,
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
    return Pipeline(source, named=named, stages=stages, recipe=recipe)


def _zipped(pipelines: tuple[Pipeline, ...], stages: tuple[str, ...], named: bool) -> Pipeline:
    # Names that were given must be kept as they are; others may be changed.
    given = all(pipeline._named for pipeline in pipelines)
    source = Source.zip([pipeline._source for pipeline in pipelines], given)
    recipe = Recipe(_zipped, (pipelines, stages, named))
    return Pipeline(source, named=named, stages=stages, recipe=recipe)


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


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)
