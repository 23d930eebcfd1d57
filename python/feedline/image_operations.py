"""The operations on pictures, by the names of `torchvision.transforms.v2`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from feedline import _arguments

if TYPE_CHECKING:
    from feedline.pictures import Images

__all__ = ["Call", "ImageOperations"]

# A call: its name and its arguments, completed.
Call: TypeAlias = "tuple[str, dict[str, object]]"

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
_DTYPES = ("uint8", "float16", "bfloat16", "float32")


class ImageOperations:
    """What can be done to pictures. Each operation returns new `Images`."""

    def _add(self, name: str, **arguments: object) -> Images:
        """Append a call to the chain."""
        raise NotImplementedError

    def random_resized_crop(
        self,
        size: int | Sequence[int],
        scale: Sequence[float] = (0.08, 1.0),
        ratio: Sequence[float] = (3 / 4, 4 / 3),
        interpolation: str = "bilinear",
        antialias: bool = True,
    ) -> Images:
        """Cut out an area of random size and shape and resize it.

        Parameters
        ----------
        size
            Height and width of the result; one number for a square.
        scale
            Least and largest part of the picture's area.
        ratio
            Least and largest width in terms of the height.
        interpolation
            ``"nearest"``, ``"bilinear"`` or ``"bicubic"``.
        antialias
            Whether each pixel is made of all those it covers.

        Returns
        -------
        Images
            Of this size.
        """
        return self._add(
            "random_resized_crop",
            size=_size("size", size),
            scale=_pair("scale", scale),
            ratio=_pair("ratio", ratio),
            **_resizing(interpolation, antialias),
        )

    def resize(
        self,
        size: int | Sequence[int] | None,
        interpolation: str = "bilinear",
        max_size: int | None = None,
        antialias: bool = True,
    ) -> Images:
        """Make pictures another size.

        Parameters
        ----------
        size
            The length of the shorter side, the longer one in proportion; or height and width; or
            ``None`` with `max_size`, the length of the longer side.
        interpolation
            ``"nearest"``, ``"bilinear"`` or ``"bicubic"``.
        max_size
            The most the longer side may have.
        antialias
            Whether each pixel is made of all those it covers.

        Returns
        -------
        Images
            Of this size, or of sizes that still differ.
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
        how = _resizing(interpolation, antialias)
        return self._add("resize", size=sides, max_size=longest, **how)

    def center_crop(self, size: int | Sequence[int]) -> Images:
        """Cut out the middle; pictures that are too small get a black border.

        Parameters
        ----------
        size
            Height and width; one number for a square.

        Returns
        -------
        Images
            Of this size.
        """
        return self._add("center_crop", size=_size("size", size))

    def random_crop(
        self,
        size: int | Sequence[int],
        padding: int | Sequence[int] | None = None,
        pad_if_needed: bool = False,
        fill: float | Sequence[float] = 0,
        padding_mode: str = "constant",
    ) -> Images:
        """Cut out an area at a random place, after an optional border.

        Parameters
        ----------
        size
            Height and width; one number for a square.
        padding
            The border: one width, or (left and right, top and bottom), or (left, top, right,
            bottom).
        pad_if_needed
            Whether pictures that are too small get a border; else they are errors of their samples.
        fill
            The border's colour: one value, or one per channel.
        padding_mode
            ``"constant"``, ``"edge"``, ``"reflect"`` or ``"symmetric"``.

        Returns
        -------
        Images
            Of this size.
        """
        given = [0] if padding is None else padding if isinstance(padding, Sequence) else [padding]
        sides = [_arguments.whole("padding", side, 0) for side in given]
        if len(sides) not in (1, 2, 4):
            msg = f"padding must be 1, 2 or 4 numbers, got {padding!r}"
            raise ValueError(msg)
        modes = ("constant", "edge", "reflect", "symmetric")
        return self._add(
            "random_crop",
            size=_size("size", size),
            padding=sides * (4 // len(sides)),
            pad_if_needed=_arguments.flag("pad_if_needed", pad_if_needed),
            fill=_fill("fill", fill),
            padding_mode=_arguments.one_of("padding_mode", padding_mode, modes),
        )

    def random_horizontal_flip(self, p: float = 0.5) -> Images:
        """Swap left and right of some pictures.

        Parameters
        ----------
        p
            Of how many.

        Returns
        -------
        Images
            Of the same size.
        """
        return self._add("random_horizontal_flip", p=float(_arguments.real("p", p)))

    def flip(self, p: float = 0.5) -> Images:
        """Swap left and right of some pictures: `random_horizontal_flip`."""
        return self.random_horizontal_flip(p)

    def random_vertical_flip(self, p: float = 0.5) -> Images:
        """Swap top and bottom of some pictures.

        Parameters
        ----------
        p
            Of how many.

        Returns
        -------
        Images
            Of the same size.
        """
        return self._add("random_vertical_flip", p=float(_arguments.real("p", p)))

    def color_jitter(
        self,
        brightness: float | Sequence[float] | None = None,
        contrast: float | Sequence[float] | None = None,
        saturation: float | Sequence[float] | None = None,
        hue: float | Sequence[float] | None = None,
    ) -> Images:
        """Change brightness, contrast, saturation and hue at random, in random order.

        Parameters
        ----------
        brightness, contrast, saturation
            Least and largest factor; one number x stands for (max(0, 1 - x), 1 + x).
        hue
            Least and largest shift, within -0.5 to 0.5; one number x stands for (-x, x).

        Returns
        -------
        Images
            Of the same size.
        """
        return self._add(
            "color_jitter",
            brightness=_around("brightness", brightness, 1.0),
            contrast=_around("contrast", contrast, 1.0),
            saturation=_around("saturation", saturation, 1.0),
            hue=_around("hue", hue, 0.0),
        )

    def grayscale(self, num_output_channels: int = 1) -> Images:
        """Make pictures gray.

        Parameters
        ----------
        num_output_channels
            1, or 3 equal ones.

        Returns
        -------
        Images
            Of the same size.
        """
        channels = _arguments.whole("num_output_channels", num_output_channels, 1)
        return self._add("grayscale", num_output_channels=channels)

    def random_grayscale(self, p: float = 0.1) -> Images:
        """Make some pictures gray; they keep their channels.

        Parameters
        ----------
        p
            How many.

        Returns
        -------
        Images
            Of the same size.
        """
        return self._add("random_grayscale", p=float(_arguments.real("p", p)))

    def random_rotation(
        self,
        degrees: float | Sequence[float],
        interpolation: str = "nearest",
        expand: bool = False,
        center: Sequence[float] | None = None,
        fill: float | Sequence[float] | None = 0,
    ) -> Images:
        """Turn pictures counter-clockwise by a random angle.

        Parameters
        ----------
        degrees
            Least and largest angle; one number x stands for (-x, x).
        interpolation
            ``"nearest"`` or ``"bilinear"``.
        expand
            Whether pictures become large enough to hold all of the turned one. Their sizes differ
            then.
        center
            The point (x, y) to turn about; the middle if there is none.
        fill
            The colour of what was outside: one value, or one per channel.

        Returns
        -------
        Images
            Of the same size, unless `expand`.
        """
        return self._add(
            "random_rotation",
            degrees=_angles("degrees", degrees),
            interpolation=_arguments.one_of(
                "interpolation", interpolation, ("nearest", "bilinear")
            ),
            expand=_arguments.flag("expand", expand),
            center=None if center is None else _pair("center", center),
            fill=None if fill is None else _fill("fill", fill),
        )

    def rotate(
        self,
        degrees: float | Sequence[float],
        interpolation: str = "nearest",
        expand: bool = False,
        center: Sequence[float] | None = None,
        fill: float | Sequence[float] | None = 0,
    ) -> Images:
        """Turn pictures by a random angle: `random_rotation`."""
        return self.random_rotation(degrees, interpolation, expand, center, fill)

    def random_affine(
        self,
        degrees: float | Sequence[float],
        translate: Sequence[float] | None = None,
        scale: Sequence[float] | None = None,
        shear: float | Sequence[float] | None = None,
        interpolation: str = "nearest",
        fill: float | Sequence[float] | None = 0,
        center: Sequence[float] | None = None,
    ) -> Images:
        """Rotate, shift, scale and shear pictures at random.

        Parameters
        ----------
        degrees
            Least and largest angle (clockwise); one number x stands for (-x, x).
        translate
            The largest shift, as parts of the width and height.
        scale
            Least and largest factor.
        shear
            Least and largest angle along x, and as a third and fourth number along y; one number x
            stands for (-x, x).
        interpolation
            ``"nearest"`` or ``"bilinear"``.
        fill
            The colour of what was outside: one value, or one per channel.
        center
            The point (x, y) to turn about; the middle if there is none.

        Returns
        -------
        Images
            Of the same size.
        """
        angles: list[float] | None = None
        if isinstance(shear, Sequence):
            angles = [float(_arguments.real("shear", angle)) for angle in shear]
            if len(angles) not in (2, 4):
                msg = f"shear must be 1, 2 or 4 numbers, got {shear!r}"
                raise ValueError(msg)
        elif shear is not None:
            angles = list(_angles("shear", shear))
        return self._add(
            "random_affine",
            degrees=_angles("degrees", degrees),
            translate=None if translate is None else _pair("translate", translate),
            scale=None if scale is None else _pair("scale", scale),
            shear=angles,
            interpolation=_arguments.one_of(
                "interpolation", interpolation, ("nearest", "bilinear")
            ),
            fill=None if fill is None else _fill("fill", fill),
            center=None if center is None else _pair("center", center),
        )

    def gaussian_blur(
        self, kernel_size: int | Sequence[int], sigma: float | Sequence[float] = (0.1, 2.0)
    ) -> Images:
        """Blur by a Gaussian bell of random width.

        Parameters
        ----------
        kernel_size
            Pixels that are blurred together: one odd number, or (across, down).
        sigma
            Least and largest deviation, in pixels; one number for always the same.

        Returns
        -------
        Images
            Of the same size.
        """
        sides = kernel_size if isinstance(kernel_size, Sequence) else (kernel_size, kernel_size)
        kernel = tuple(_arguments.whole("kernel_size", side, 1) for side in sides)
        if len(kernel) != 2:
            msg = f"kernel_size must be one number or (across, down), got {kernel_size!r}"
            raise ValueError(msg)
        width = sigma if isinstance(sigma, Sequence) else (sigma, sigma)
        return self._add("gaussian_blur", kernel_size=kernel, sigma=_pair("sigma", width))

    def rand_augment(
        self,
        num_ops: int = 2,
        magnitude: int = 9,
        num_magnitude_bins: int = 31,
        interpolation: str = "nearest",
        fill: float | Sequence[float] | None = None,
        *,
        operations: Sequence[str] = (),
    ) -> Images:
        """RandAugment: some randomly chosen changes, all of one strength.

        Parameters
        ----------
        num_ops
            How many changes.
        magnitude
            Their strength, below `num_magnitude_bins`.
        num_magnitude_bins
            How many strengths there are.
        interpolation
            ``"nearest"`` or ``"bilinear"``.
        fill
            The colour of what was outside: one value, or one per channel; ``None`` is black.
        operations
            Choose among these only: some of Identity, ShearX, ShearY, TranslateX, TranslateY,
            Rotate, Brightness, Color, Contrast, Sharpness, Posterize, Solarize, AutoContrast and
            Equalize.

        Returns
        -------
        Images
            Of the same size.
        """
        return self._add(
            "rand_augment",
            num_ops=_arguments.whole("num_ops", num_ops, 0),
            magnitude=_arguments.whole("magnitude", magnitude, 0),
            num_magnitude_bins=_arguments.whole("num_magnitude_bins", num_magnitude_bins, 2),
            interpolation=_arguments.one_of(
                "interpolation", interpolation, ("nearest", "bilinear")
            ),
            fill=None if fill is None else _fill("fill", fill),
            operations=[str(operation) for operation in operations],
        )

    def random_erasing(
        self,
        p: float = 0.5,
        scale: Sequence[float] = (0.02, 0.33),
        ratio: Sequence[float] = (0.3, 3.3),
        value: float | Sequence[float] | str = 0,
    ) -> Images:
        """Paint a random area of some pictures over.

        Parameters
        ----------
        p
            Of how many.
        scale
            Least and largest part of the picture's area.
        ratio
            Least and largest height in terms of the width.
        value
            What is painted: one number, one per channel, or ``"random"`` for normal noise. After
            `normalize` it is a normalised number.

        Returns
        -------
        Images
            Of the same size.
        """
        if isinstance(value, str):
            _arguments.one_of("value", value, ("random", "random"))
            painted = None
        else:
            painted = _fill("value", value)
        return self._add(
            "random_erasing",
            p=float(_arguments.real("p", p)),
            scale=_pair("scale", scale),
            ratio=_pair("ratio", ratio),
            value=painted,
        )

    def normalize(
        self,
        mean: float | Sequence[float] = IMAGENET_MEAN,
        std: float | Sequence[float] = IMAGENET_STD,
    ) -> Images:
        """Subtract the mean and divide by the deviation, by channel.

        Bytes become float32 from 0 to 1 before, unless `to_dtype` said otherwise.

        Parameters
        ----------
        mean, std
            One number per channel, or one for all; ImageNet's by default.

        Returns
        -------
        Images
            Of float32, or what `to_dtype` says.
        """
        means, deviations = _numbers("mean", mean), _numbers("std", std)
        return self._add("normalize", mean=means, std=deviations)

    def to_dtype(self, dtype: object, scale: bool = True) -> Images:
        """Deliver another number type.

        Parameters
        ----------
        dtype
            ``"uint8"``, ``"float16"``, ``"bfloat16"`` or ``"float32"``, or NumPy's or torch's
            dtype of that name.
        scale
            Whether bytes become numbers from 0 to 1.

        Returns
        -------
        Images
            Of this type.
        """
        named = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", str(dtype))
        name = _arguments.one_of("dtype", named.removeprefix("torch."), _DTYPES)
        return self._add("to_dtype", dtype=name, scale=_arguments.flag("scale", scale))

    def layout(self, layout: str) -> Images:
        """Deliver the axes in another order.

        Parameters
        ----------
        layout
            ``"chw"`` (channels, height, width; the default) or ``"hwc"``.

        Returns
        -------
        Images
            With these axes.
        """
        return self._add("layout", layout=_arguments.one_of("layout", layout, ("chw", "hwc")))


def _size(name: str, size: int | Sequence[int]) -> tuple[int, int]:
    sides = list(size) if isinstance(size, Sequence) else [size]
    if len(sides) not in (1, 2):
        msg = f"{name} must be one number or (height, width), got {size!r}"
        raise ValueError(msg)
    return _arguments.whole(name, sides[0], 1), _arguments.whole(name, sides[-1], 1)


def _pair(name: str, values: Sequence[float]) -> tuple[float, float]:
    given: object = values
    if not isinstance(given, Sequence) or len(given) != 2:
        msg = f"{name} must be two numbers, got {values!r}"
        raise TypeError(msg)
    return float(_arguments.real(name, values[0])), float(_arguments.real(name, values[1]))


def _numbers(name: str, values: float | Sequence[float]) -> list[float]:
    given = values if isinstance(values, Sequence) else [values]
    return [float(_arguments.real(name, value)) for value in given]


def _fill(name: str, values: float | Sequence[float]) -> list[float]:
    numbers = _numbers(name, values)
    if len(numbers) not in (1, 3) or not all(math.isfinite(number) for number in numbers):
        msg = f"{name} must be one finite number or one per channel, got {values!r}"
        raise ValueError(msg)
    return numbers


def _around(
    name: str, value: float | Sequence[float] | None, center: float
) -> tuple[float, float] | None:
    if value is None:
        return None
    if isinstance(value, Sequence):
        low, high = _pair(name, value)
    else:
        reach = float(_arguments.real(name, value))
        if reach < 0:
            msg = f"{name} must be at least 0, got {value!r}"
            raise ValueError(msg)
        low, high = center - reach, center + reach
        if center:
            low = max(low, 0.0)
    return None if low == high == center else (low, high)


def _angles(name: str, value: float | Sequence[float]) -> tuple[float, float]:
    if isinstance(value, Sequence):
        return _pair(name, value)
    reach = float(_arguments.real(name, value))
    if reach < 0:
        msg = f"{name} must be at least 0, or two numbers, got {value!r}"
        raise ValueError(msg)
    return -reach, reach


def _resizing(interpolation: str, antialias: bool) -> dict[str, Any]:
    ways = ("nearest", "bilinear", "bicubic")
    return {
        "interpolation": _arguments.one_of("interpolation", interpolation, ways),
        "antialias": _arguments.flag("antialias", antialias),
    }
