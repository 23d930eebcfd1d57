"""Parts of images, and other sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from feedline import _arguments
from feedline.image_operations.base import Chain, fill_of, pair, resampling, size_of

if TYPE_CHECKING:
    from feedline.image_operations.base import Call
    from feedline.pictures import Images


class Cropping(Chain):
    """Crops and resizes."""

    def random_resized_crop(
        self,
        size: int | Sequence[int],
        scale: Sequence[float] = (0.08, 1.0),
        ratio: Sequence[float] = (3 / 4, 4 / 3),
        interpolation: Literal["nearest", "bilinear", "bicubic"] = "bilinear",
        antialias: bool = True,
    ) -> Images:
        """Crop a random area of random shape, and resize it.

        Parameters
        ----------
        size
            Height and width of the result, in pixels; one number for a square.
        scale
            The least and the largest area of the crop, as parts of the image's area.
        ratio
            The least and the largest aspect ratio of the crop, width by height.
        interpolation
            How pixels of the result are computed.
        antialias
            Whether each pixel of the result is made of all those it covers, rather than of its
            nearest neighbors. ``"nearest"`` has none.

        Returns
        -------
        Images
            Of this size.

        Examples
        --------
        >>> import numpy as np
        >>> import feedline
        >>> photos = feedline.arrays(np.zeros((10, 60, 80, 3), np.uint8))
        >>> photos.random_resized_crop(32)[0][0].shape
        (3, 32, 32)
        """
        return self._add(
            "random_resized_crop",
            size=size_of("size", size),
            scale=pair("scale", scale),
            ratio=pair("ratio", ratio),
            **resampling(interpolation, antialias),
        )

    def resize(
        self,
        size: int | Sequence[int] | None,
        interpolation: Literal["nearest", "bilinear", "bicubic"] = "bilinear",
        max_size: int | None = None,
        antialias: bool = True,
    ) -> Images:
        """Resize images.

        Parameters
        ----------
        size
            The length of the shorter side, the longer one in proportion; or height and width; or
            ``None`` with `max_size`: the longer side gets that length.
        interpolation
            How pixels of the result are computed.
        max_size
            The most pixels of the longer side; the shorter one is made smaller to fit.
        antialias
            Whether each pixel of the result is made of all those it covers.

        Returns
        -------
        Images
            Of this size; with one number, of sizes that still differ where shapes do.
        """
        sides: list[int] | None
        if size is None:
            sides = None
            if max_size is None:
                msg = "resize needs a size, or max_size; got neither"
                raise ValueError(msg)
        elif isinstance(size, Sequence):
            sides = [_arguments.whole("size", side, 1) for side in size]
            if len(sides) not in (1, 2) or (len(sides) == 2 and max_size is not None):
                msg = f"size must be one number or (height, width) without max_size, got {size!r}"
                raise ValueError(msg)
        else:
            sides = [_arguments.whole("size", size, 1)]
        longest = None if max_size is None else _arguments.whole("max_size", max_size, 1)
        how = resampling(interpolation, antialias)
        return self._add("resize", size=sides, max_size=longest, **how)

    def center_crop(self, size: int | Sequence[int]) -> Images:
        """Crop the middle; images that are too small get a black border.

        Parameters
        ----------
        size
            Height and width of the crop, in pixels; one number for a square.

        Returns
        -------
        Images
            Of this size.
        """
        return self._add("center_crop", size=size_of("size", size))

    def random_crop(
        self,
        size: int | Sequence[int],
        padding: int | Sequence[int] | None = None,
        pad_if_needed: bool = False,
        fill: float | Sequence[float] = 0,
        padding_mode: Literal["constant", "edge", "reflect", "symmetric"] = "constant",
    ) -> Images:
        """Crop at a random place, after optional padding.

        Parameters
        ----------
        size
            Height and width of the crop, in pixels; one number for a square.
        padding
            Pixels that are added before: on all sides; left and right, top and bottom; or left,
            top, right, bottom. None by default.
        pad_if_needed
            Whether images smaller than the crop are padded to its size. Otherwise they are errors
            of their samples.
        fill
            The color of the padding where `padding_mode` is ``"constant"``: one value, or one per
            channel.
        padding_mode
            What the padding is made of: one color, the outermost pixel, or the image mirrored
            without or with its outermost pixel.

        Returns
        -------
        Images
            Of this size.

        Examples
        --------
        >>> import numpy as np
        >>> import feedline
        >>> cifar = feedline.arrays(np.zeros((10, 32, 32, 3), np.uint8))
        >>> cifar.random_crop(32, padding=4)[0][0].shape
        (3, 32, 32)
        """
        given = [0] if padding is None else padding if isinstance(padding, Sequence) else [padding]
        sides = [_arguments.whole("padding", side, 0) for side in given]
        if len(sides) not in (1, 2, 4):
            msg = f"padding must be 1, 2 or 4 numbers, got {padding!r}"
            raise ValueError(msg)
        modes = ("constant", "edge", "reflect", "symmetric")
        return self._add(
            "random_crop",
            size=size_of("size", size),
            padding=sides * (4 // len(sides)),
            pad_if_needed=_arguments.flag("pad_if_needed", pad_if_needed),
            fill=fill_of("fill", fill),
            padding_mode=_arguments.one_of("padding_mode", padding_mode, modes),
        )

    def five_crop(self, size: int | Sequence[int]) -> Images:
        """Crop the four corners and the middle: five views of each image.

        Operations after it are done to every view.

        Parameters
        ----------
        size
            Height and width of the crops, in pixels; one number for squares. Smaller images are
            errors of their samples.

        Returns
        -------
        Images
            With the fields image_0 to image_4: upper left, upper right, lower left, lower right,
            middle.

        Raises
        ------
        ValueError
            If there are several views already.

        Examples
        --------
        >>> import numpy as np
        >>> import feedline
        >>> crops = feedline.arrays(image=np.zeros((10, 60, 80, 3), np.uint8)).five_crop(32)
        >>> crops.fields
        ['image_0', 'image_1', 'image_2', 'image_3', 'image_4']
        """
        return self._split([[crop] for crop in _corners(size)])

    def ten_crop(self, size: int | Sequence[int], vertical_flip: bool = False) -> Images:
        """Crop the four corners and the middle of each image and of its mirror image: ten views.

        Parameters
        ----------
        size
            Height and width of the crops, in pixels; one number for squares. Smaller images are
            errors of their samples.
        vertical_flip
            Whether the mirror image is upside down, rather than left to right.

        Returns
        -------
        Images
            With the fields image_0 to image_9: those of `five_crop`, then the same of the mirror
            image.

        Raises
        ------
        ValueError
            If there are several views already.
        """
        vertical = _arguments.flag("vertical_flip", vertical_flip)
        flip: Call = (f"random_{'vertical' if vertical else 'horizontal'}_flip", {"p": 1.0})
        crops = _corners(size)
        return self._split([*([crop] for crop in crops), *([flip, crop] for crop in crops)])


def _corners(size: int | Sequence[int]) -> list[Call]:
    sides = size_of("size", size)
    return [("corner_crop", {"size": sides, "place": place}) for place in range(5)]
