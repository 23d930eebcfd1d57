"""Images, and what is done to each.

The operations have the names, defaults and meaning of `torchvision.transforms.v2`. All of them run
in native threads; what is random depends on the loader's seed, the epoch and the sample alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self, cast

from feedline import _arguments, _choice
from feedline.gallery import Look, Normalization
from feedline.pipeline import Pipeline
from feedline.recipes import Recipe

if TYPE_CHECKING:
    from feedline._choice import Choice
    from feedline._feedline import Source
    from feedline.image_operations import Call
    from feedline.picture_sources import OpenedFolder

__all__ = ["Images"]


class Images(Pipeline):
    """Images and what is done to each of them; made by `feedline.images` and `Pipeline.images`.

    Besides the operations on images it has those of every pipeline. After `map`, `zip` and `cache`
    images are arrays like others: image operations go on from there as long as they are bytes.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from PIL import Image
    >>> import feedline
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> Image.new("L", (60, 40)).save(folder / "one.png")
    >>> pipeline = feedline.images(folder).resize(36).color_jitter(0.2).center_crop(32)
    >>> print(pipeline.to_dtype("float16").layout("hwc"))  # doctest: +ELLIPSIS
    1 samples
      images(...)
      decode + resize(36), fused
      color_jitter(brightness=(0.8, 1.2))
      center_crop(32)
      to_dtype("float16") + layout("hwc"), fused
    delivers (float16 [32, 32, 3],)
    """

    def __init__(
        self,
        of: OpenedFolder | Pipeline,
        *,
        stage: str,
        settings: dict[str, Any],
        views: tuple[tuple[Call, ...], ...] = ((),),
        chosen: tuple[Choice, ...] = (),
        padded: bool = False,
        mixtures: tuple[tuple[str, float, int], ...] = (),
    ) -> None:
        self._of = of
        self._encoded = encoded = of._source
        self._stage = stage
        self._settings = settings
        self._views = views
        self._choices = chosen
        self._padded = padded
        self._mixtures = mixtures
        native = {name: value for name, value in settings.items() if name != "named"}
        if settings.get("masks") is not None:
            native["masks"] = settings["masks"]._source
        made = encoded.pictures([list(calls) for calls in views], native)
        self._pictures, words, self._first = made
        source, stages = self._pictures, [stage]
        for choice in chosen:
            total = len(source)
            source = _choice.chosen(source, choice)
            stages.append(_choice.described(choice, total))
        if len(views) == 1:
            stages += words[0]
        else:
            once = "read" if encoded.encoded_parts() is None else "decode"
            stages.append(f"{once} once for {len(views)} views")
            stages += [f"view {i}: {_seen(lines)}" for i, lines in enumerate(words)]
        if mixtures:
            stages.append(" or ".join(f"{name}(alpha={alpha:g})" for name, alpha, _ in mixtures))
            source = self._mixed(source)
        recipe = Recipe(_images, (of, self._state()))
        super().__init__(source, named=settings["named"], stages=tuple(stages), recipe=recipe)

    def drawn(
        self, index: int, *, seed: int = 0, epoch: int = 0
    ) -> list[list[tuple[str, dict[str, Any]]]]:
        """Tell what a loader does to a sample, with every random parameter drawn.

        Parameters
        ----------
        index
            Which sample.
        seed
            The loader's seed.
        epoch
            The loader's epoch.

        Returns
        -------
        list
            For each view the actions in order, each as its name and its parameters.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> from PIL import Image
        >>> import feedline
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> Image.new("RGB", (64, 48)).save(folder / "one.png")
        >>> feedline.images(folder).center_crop(32).flip(1.0).drawn(0)
        [[('crop', {'top': 8, 'left': 16, 'height': 32, 'width': 32}), ('horizontal_flip', {})]]
        """
        index = _arguments.whole("index", index, 0, max(len(self) - 1, 0))
        seed = _arguments.whole("seed", seed, 0)
        epoch = _arguments.whole("epoch", epoch, 0)
        return self._pictures.drawn(self._own(index), index, seed, epoch)

    def views(self, views: int | Sequence[Callable[[Images], Images]]) -> Images:
        """Deliver each image several times, each time with random parameters of its own.

        The image is decoded once. Operations after this call are done to every view.

        Parameters
        ----------
        views
            How many views, from 1 to 64, all by the operations so far; or for each a function that
            adds operations of its own to the images it is given.

        Returns
        -------
        Images
            With the fields image_0, image_1…, then label; masks, boxes and keypoints for each view.

        Raises
        ------
        TypeError, ValueError
            If there are several views already, or a function returns something else than it got
            with operations added.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> from PIL import Image
        >>> import feedline
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> Image.new("RGB", (64, 48)).save(folder / "one.png")
        >>> pair = feedline.images(folder).views(
        ...     [lambda v: v.random_resized_crop(32), lambda v: v.random_resized_crop(16)]
        ... )
        >>> for large, small in feedline.Loader(pair.flip().normalize()):
        ...     print(large.shape, small.shape)
        (1, 3, 32, 32) (1, 3, 16, 16)
        """
        self._refuse_views("views")
        if not isinstance(views, Sequence):
            return self._with(views=self._views * _arguments.whole("views", views, 1, 64))
        if not views:
            msg = "views needs at least one function"
            raise ValueError(msg)
        return self._split([self._added("views", function) for function in views])

    def padded(self) -> Images:
        """Let images of different sizes share a batch, padded with zeros to the largest.

        Returns
        -------
        Images
            The same; batches have the true heights and widths behind each field of images.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> from PIL import Image
        >>> import feedline
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> Image.new("RGB", (64, 48)).save(folder / "one.png")
        >>> Image.new("RGB", (32, 80)).save(folder / "two.png")
        >>> for x, sizes in feedline.Loader(feedline.images(folder).padded(), batch_size=2):
        ...     print(x.shape, sizes.tolist())
        (2, 3, 80, 64) [[48, 64], [80, 32]]
        """
        return self._with(padded=True)

    def mixup(self, alpha: float = 1.0, num_classes: int | None = None) -> Images:
        """Blend each image of a batch with the one before it, and their labels likewise.

        How much of each is taken is drawn for every batch from a Beta distribution. Called together
        with `cutmix`, each batch is mixed in one of the two ways.

        Parameters
        ----------
        alpha
            Both parameters of the Beta distribution, above 0.
        num_classes
            How many classes there are. By default those of the folder; without class folders it
            must be given.

        Returns
        -------
        Images
            Whose labels are float32 weights of shape (batch, classes).

        Raises
        ------
        ValueError
            If there are no int64 labels, or images are no floats of one size.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> from PIL import Image
        >>> import feedline
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> for label in ("a", "b"):
        ...     (folder / label).mkdir()
        ...     Image.new("RGB", (64, 48)).save(folder / label / "one.png")
        >>> mixed = feedline.images(folder).center_crop(32).normalize().mixup(0.2)
        >>> for x, y in feedline.Loader(mixed, batch_size=2):
        ...     print(x.shape, y.shape, y.sum(axis=1))
        (2, 3, 32, 32) (2, 2) [1. 1.]
        """
        return self._mix("mixup", alpha, num_classes)

    def cutmix(self, alpha: float = 1.0, num_classes: int | None = None) -> Images:
        """Paste an area of the image before it into each image of a batch, and mix the labels.

        Parameters
        ----------
        alpha
            Both parameters of the Beta distribution that the area's share is drawn from, above 0.
        num_classes
            How many classes there are. By default those of the folder; without class folders it
            must be given.

        Returns
        -------
        Images
            Whose labels are float32 weights of shape (batch, classes).

        Raises
        ------
        ValueError
            If there are no int64 labels, or images differ in size.
        """
        return self._mix("cutmix", alpha, num_classes)

    def _mix(self, name: str, alpha: float, num_classes: int | None) -> Images:
        if name in {mixture for mixture, *_ in self._mixtures}:
            msg = f"{name} was called twice; call it once"
            raise ValueError(msg)
        names = self.classes
        if num_classes is None:
            if names is None:
                msg = f"{name} needs to know how many classes there are; pass num_classes=..."
                raise ValueError(msg)
            num_classes = len(names)
        classes = _arguments.whole("num_classes", num_classes, 1)
        mixture = (name, float(_arguments.real("alpha", alpha)), classes)
        return self._with(mixtures=(*self._mixtures, mixture))

    def _mixed(self, source: Source) -> Source:
        fields = source.fields()
        pictures = list(self._places_of_views())
        label = self._label(fields)
        if label is None:
            msg = "images without int64 labels cannot be mixed; leave mixup and cutmix out"
            raise ValueError(msg)
        for name, _, classes in self._mixtures:
            if classes != self._mixtures[0][2]:
                msg = "mixup and cutmix must have the same num_classes"
                raise ValueError(msg)
            if name == "mixup" and any(fields[i][1] == "uint8" for i in pictures):
                msg = "mixup needs floats; call normalize() or to_dtype(...) before it"
                raise ValueError(msg)
        if any(fields[i][3] != "fixed" for i in pictures):
            msg = (
                "images of different sizes cannot be mixed; call random_resized_crop(size) or "
                "center_crop(size) before"
            )
            raise ValueError(msg)
        layouts = {_last_layout(calls) for calls in self._views}
        if len(layouts) > 1:
            msg = "views of different layouts cannot be mixed; call layout(...) after views"
            raise ValueError(msg)
        ways = [(name, alpha) for name, alpha, _ in self._mixtures]
        return source.mixed(ways, self._mixtures[0][2], (pictures, layouts.pop()), label)

    def _label(self, fields: list[tuple[str, str, list[int | None], str]]) -> int | None:
        """Return which field is the label: the first whole number."""
        for place, (_, dtype, shape, _) in enumerate(fields):
            if dtype == "int64" and not shape:
                return place
        return None

    def _places_of_views(self) -> range:
        return range(self._first, self._first + len(self._views))

    def _batch_operations(self) -> tuple[str, ...]:
        return tuple(name for name, *_ in self._mixtures)

    def _drawable(self) -> Pipeline:
        return self

    def _looks(self) -> list[Look]:
        return [
            Look(place, _last_layout(calls), _last_scale(calls))
            for place, calls in zip(self._places_of_views(), self._views, strict=True)
        ]

    def _delivered(self) -> list[tuple[str, str, list[int | None], str]]:
        fields = super()._delivered()
        label = self._label(fields)
        if self._mixtures and label is not None:
            fields[label] = (fields[label][0], "float32", [self._mixtures[0][2]], "fixed")
        return fields

    def _add(self, name: str, **arguments: object) -> Images:
        call: Call = (name, arguments)
        return self._with(views=tuple((*calls, call) for calls in self._views))

    def _added(self, name: str, function: Callable[[Images], Images]) -> list[Call]:
        _arguments.function(name, function)
        before = self._views[0]
        start = self._with(views=(before,), mixtures=())
        made: object = function(start)
        if not isinstance(made, Images) or not made._only_adds(start):
            msg = (
                f"{name} takes functions that add image operations to what they are given and "
                f"return it, got {made!r}"
            )
            raise TypeError(msg)
        return list(made._views[0][len(before) :])

    def _only_adds(self, start: Images) -> bool:
        """Whether these are the images of `start` with operations added, and nothing else."""
        before = start._views[0]
        return (
            self._of is start._of
            and self._settings is start._settings
            and self._choices is start._choices
            and (self._padded, self._mixtures) == (start._padded, start._mixtures)
            and len(self._views) == 1
            and self._views[0][: len(before)] == before
        )

    def _split(self, chains: Sequence[Sequence[Call]]) -> Images:
        self._refuse_views("five_crop and ten_crop")
        return self._with(views=tuple((*self._views[0], *chain) for chain in chains))

    def _refuse_views(self, operation: str) -> None:
        if len(self._views) > 1:
            msg = (
                f"there are {len(self._views)} views already; call {operation} once, before others"
            )
            raise ValueError(msg)

    def _with(self, **changes: Any) -> Images:  # noqa: ANN401 - arguments of __init__
        return Images(self._of, **(self._state() | changes))

    def _state(self) -> dict[str, Any]:
        """All arguments of `__init__` but the first."""
        return {
            "stage": self._stage,
            "settings": self._settings,
            "views": self._views,
            "chosen": self._choices,
            "padded": self._padded,
            "mixtures": self._mixtures,
        }

    def _iterated(self, change: Literal["take", "skip", "shuffle"], count: int) -> Self:
        # What is done to each sample and which samples come are apart.
        of = cast("Pipeline", self._of)._iterated(change, count)
        return cast("Self", Images(of, **(self._state() | {"stage": " | ".join(of._stages)})))

    def _chosen(self, stage: str, choice: Choice) -> Self:
        del stage  # told by how many were chosen of how many
        *before, last = self._choices or (None,)
        both = None if last is None else _choice.joined(last, choice)
        steps = (*self._choices, choice) if both is None else (*before, both)
        return cast("Self", self._with(chosen=steps))

    def _own(self, index: int) -> int:
        """Return which of the pictures that there are is at a place of the chosen ones."""
        totals = [len(self._encoded)]
        for choice in self._choices:
            totals.append(_choice.count(choice, totals[-1]))
        for choice, total in zip(reversed(self._choices), reversed(totals[:-1]), strict=True):
            index = _choice.number(choice, index, total)
        return index

    def _check_loadable(self) -> None:
        varying = [name for name, _, shape, _ in self._source.fields() if shape.count(None) == 2]
        if varying and not self._padded:
            msg = (
                "images have different sizes, so they cannot share a batch; call "
                "random_resized_crop(size), resize((height, width)) or center_crop(size) last, or "
                "padded() to pad them to the largest of each batch"
            )
            raise ValueError(msg)


def _last_layout(calls: tuple[Call, ...]) -> str:
    layouts = [str(arguments["layout"]) for name, arguments in calls if name == "layout"]
    return layouts[-1] if layouts else "chw"


def _last_scale(calls: tuple[Call, ...]) -> Normalization | None:
    scales = [arguments for name, arguments in calls if name == "normalize"]
    if not scales:
        return None
    mean, std = (cast("Sequence[float]", scales[-1][name]) for name in ("mean", "std"))
    return Normalization(mean, std)


def _seen(lines: list[str]) -> str:
    parts = [line.removesuffix(", fused") for line in lines]
    parts[:1] = [part.removeprefix("decode").removeprefix(" + ") for part in parts[:1]]
    return " + ".join(part for part in parts if part) or "as it is"


def _images(of: OpenedFolder | Pipeline, state: dict[str, Any]) -> Images:
    return Images(of, **state)
