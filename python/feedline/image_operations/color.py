"""Colors, sharpness, and parts painted over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from feedline import _arguments
from feedline.image_operations.base import Chain, fill_of, one_or_two, pair, probability

if TYPE_CHECKING:
    from feedline.pictures import Images


class Coloring(Chain):
    """Operations that change values of pixels and leave them in their place."""

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
            The least and the largest factor; one number x stands for (max(0, 1 - x), 1 + x). Not
            changed by default.
        hue
            The least and the largest shift around the color circle, within -0.5 to 0.5; one number
            x stands for (-x, x). Not changed by default.

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

    def grayscale(self, num_output_channels: Literal[1, 3] = 1) -> Images:
        """Convert images to grayscale.

        Parameters
        ----------
        num_output_channels
            Channels of the result; three are equal.

        Returns
        -------
        Images
            Of the same size.
        """
        channels = _arguments.whole("num_output_channels", num_output_channels, 1)
        return self._add("grayscale", num_output_channels=channels)

    def random_grayscale(self, p: float = 0.1) -> Images:
        """Convert some images to grayscale; they keep their number of channels.

        Parameters
        ----------
        p
            The probability that an image is converted.

        Returns
        -------
        Images
            Of the same size.
        """
        return self._add("random_grayscale", p=probability("p", p))

    def gaussian_blur(
        self, kernel_size: int | Sequence[int], sigma: float | Sequence[float] = (0.1, 2.0)
    ) -> Images:
        """Blur by a Gaussian kernel of random width.

        Parameters
        ----------
        kernel_size
            The kernel's size in pixels, odd and below 1000: one number, or (across, down).
        sigma
            The least and the largest standard deviation, in pixels; one number for always the
            same.

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
        return self._add("gaussian_blur", kernel_size=kernel, sigma=one_or_two("sigma", sigma))

    def random_invert(self, p: float = 0.5) -> Images:
        """Make negatives of some images.

        Parameters
        ----------
        p
            The probability that an image is inverted.

        Returns
        -------
        Images
            Of the same size.
        """
        return self._add("random_invert", p=probability("p", p))

    def random_posterize(self, bits: int, p: float = 0.5) -> Images:
        """Leave fewer different values to the channels of some images.

        Parameters
        ----------
        bits
            How many bits of each value are kept, from 0 to 8.
        p
            The probability that an image is posterized.

        Returns
        -------
        Images
            Of the same size.
        """
        kept = _arguments.whole("bits", bits, 0, 8)
        return self._add("random_posterize", bits=kept, p=probability("p", p))

    def random_solarize(self, threshold: float, p: float = 0.5) -> Images:
        """Invert the bright values of some images.

        Parameters
        ----------
        threshold
            Values of at least this much are inverted; from 0 to 255.
        p
            The probability that an image is solarized.

        Returns
        -------
        Images
            Of the same size.
        """
        least = float(_arguments.real("threshold", threshold))
        return self._add("random_solarize", threshold=least, p=probability("p", p))

    def random_equalize(self, p: float = 0.5) -> Images:
        """Equalize the histogram of each channel of some images.

        Parameters
        ----------
        p
            The probability that an image is equalized.

        Returns
        -------
        Images
            Of the same size.
        """
        return self._add("random_equalize", p=probability("p", p))

    def random_autocontrast(self, p: float = 0.5) -> Images:
        """Stretch each channel of some images to the whole range from 0 to 255.

        Parameters
        ----------
        p
            The probability that an image is stretched.

        Returns
        -------
        Images
            Of the same size.
        """
        return self._add("random_autocontrast", p=probability("p", p))

    def random_adjust_sharpness(self, sharpness_factor: float, p: float = 0.5) -> Images:
        """Sharpen or soften some images.

        Parameters
        ----------
        sharpness_factor
            0 is blurred, 1 the image as it is, 2 twice as sharp; at least 0.
        p
            The probability that an image is changed.

        Returns
        -------
        Images
            Of the same size.
        """
        factor = float(_arguments.real("sharpness_factor", sharpness_factor))
        return self._add("random_adjust_sharpness", sharpness_factor=factor, p=probability("p", p))

    def random_erasing(
        self,
        p: float = 0.5,
        scale: Sequence[float] = (0.02, 0.33),
        ratio: Sequence[float] = (0.3, 3.3),
        value: float | Sequence[float] | Literal["random"] = 0,
    ) -> Images:
        """Erase a random area of some images.

        It may be called after `normalize` too, as torchvision's examples do.

        Parameters
        ----------
        p
            The probability that an area of an image is erased.
        scale
            The least and the largest area, as parts of the image's.
        ratio
            The least and the largest aspect ratio of the area, height by width.
        value
            What is painted: one value, one per channel, or normal noise. After `normalize` it is a
            normalized number.

        Returns
        -------
        Images
            Of the same size.
        """
        given: object = value
        if isinstance(given, str) and given != "random":
            msg = f'value must be a number, one per channel, or "random", got {value!r}'
            raise ValueError(msg)
        painted = None if isinstance(value, str) else fill_of("value", value)
        return self._add(
            "random_erasing",
            p=probability("p", p),
            scale=pair("scale", scale),
            ratio=pair("ratio", ratio),
            value=painted,
        )


def _around(
    name: str, value: float | Sequence[float] | None, center: float
) -> tuple[float, float] | None:
    if value is None:
        return None
    if isinstance(value, Sequence):
        low, high = pair(name, value)
    else:
        reach = float(_arguments.real(name, value))
        if reach < 0:
            msg = f"{name} must be at least 0, got {value!r}"
            raise ValueError(msg)
        low, high = center - reach, center + reach
        if center:
            low = max(low, 0.0)
    return None if low == high == center else (low, high)
