"""What a sample is: sources, and the operations chained onto them.

Each module has the operations of one kind; `Pipeline` has all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from feedline import _arguments, gallery
from feedline._feedline import Source
from feedline.gallery import Look
from feedline.image_operations import MOST_PIXELS, ImageOperations
from feedline.pipeline.choosing import Choosing
from feedline.pipeline.indexing import Indexing
from feedline.pipeline.labels import Labelled
from feedline.recipes import Recipe
from feedline.text_operations import TextOperations

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from feedline._columns import Fields
    from feedline.gallery import Gallery
    from feedline.image_operations import Call
    from feedline.pictures import Images

__all__ = ["MOST_PIXELS", "Pipeline", "check_pipeline"]


class Pipeline(Choosing, Indexing, Labelled, TextOperations, ImageOperations):
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

    def _drawable(self) -> Pipeline:
        """Return the pipeline whose pictures `show` draws: of encoded ones, the decoded."""
        parts = self._source.encoded_parts()
        return self if parts is None else self.images()

    def _looks(self) -> list[Look]:
        """Return which fields are pictures, and how to look at them."""
        places = gallery.pictures_of(self._source.fields())
        return [Look(place, None, None) for place in places]

    def _seen(self, places: list[int], seed: int | None) -> tuple[list[list[Any]], Fields]:
        """Return what `show` draws of samples: the values of their fields, and the fields."""
        return self._rows(places, seed=seed), self._source.fields()

    def _captions(self, places: list[int]) -> list[str]:
        """Return what stands under samples that have no label."""
        return [str(place) for place in places]

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
        from feedline.picture_sources import decoded

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
        rows, fields = drawable._seen(places, seed)
        return gallery.drawn(
            rows,
            fields,
            looks,
            classes=self.classes,
            captions=drawable._captions(places),
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

    def _add(self, name: str, **arguments: object) -> Images:
        return self.images()._add(name, **arguments)

    def _added(self, name: str, function: Callable[[Images], Images]) -> list[Call]:
        return self.images()._added(name, function)

    def _split(self, chains: Sequence[Sequence[Call]]) -> Images:
        return self.images()._split(chains)


# ---- what recipes call: each makes its pipeline, the first time and again


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


def _describe(field: tuple[str, str, list[int | None], str], *, named: bool) -> str:
    name, dtype, shape, rule = field
    axes = ", ".join("*" if axis is None else str(axis) for axis in shape)
    text = rule if rule in ("text", "bytes") else dtype
    text = f"{text} [{axes}]"
    if rule not in ("text", "bytes", "fixed"):
        text += f" {rule}"
    return f"{name}: {text}" if named else text


def check_pipeline(operation: str, pipeline: object) -> None:
    """Refuse what is no pipeline."""
    if not isinstance(pipeline, Pipeline):
        got = type(pipeline).__name__
        msg = f"{operation} takes pipelines, got {got}; make one, e.g. feedline.arrays(x)"
        raise TypeError(msg)
