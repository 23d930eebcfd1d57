"""Images moved: mirrored, turned, bent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from feedline import _arguments
from feedline.image_operations.base import (
    Chain,
    angles,
    fill_if,
    interpolation_of,
    one_or_two,
    pair,
    probability,
)

if TYPE_CHECKING:
    from feedline.pictures import Images


class Moving(Chain):
    """Operations that move pixels, and with them masks, boxes and keypoints."""

    def random_horizontal_flip(self, p: float = 0.5) -> Images:
        """Mirror some images left to right.

        Parameters
        ----------
        p
            The probability that an image is flipped.

        Returns
        -------
        Images
            Of the same size.
        """
        return self._add("random_horizontal_flip", p=probability("p", p))

    def flip(self, p: float = 0.5) -> Images:
        """Mirror some images left to right: short for `random_horizontal_flip`.

        Parameters
        ----------
        p
            The probability that an image is flipped.

        Returns
        -------
        Images
            Of the same size.
        """
        return self.random_horizontal_flip(p)

    def random_vertical_flip(self, p: float = 0.5) -> Images:
        """Turn some images upside down, mirrored.

        Parameters
        ----------
        p
            The probability that an image is flipped.

        Returns
        -------
        Images
            Of the same size.
        """
        return self._add("random_vertical_flip", p=probability("p", p))

    def random_rotation(
        self,
        degrees: float | Sequence[float],
        interpolation: Literal["nearest", "bilinear"] = "nearest",
        expand: bool = False,
        center: Sequence[float] | None = None,
        fill: float | Sequence[float] | None = 0,
    ) -> Images:
        """Rotate images counter-clockwise by a random angle.

        Parameters
        ----------
        degrees
            The least and the largest angle; one number x stands for (-x, x).
        interpolation
            How pixels of the result are computed.
        expand
            Whether images become large enough to hold all of the rotated one. Their sizes differ
            then.
        center
            The point (x, y) to rotate about, in pixels from the upper left corner; by default the
            middle.
        fill
            The color of pixels from outside the image: one value, or one per channel. ``None`` is
            black whose edge is not blended.

        Returns
        -------
        Images
            Of the same size, unless `expand`.
        """
        return self._add(
            "random_rotation",
            degrees=angles("degrees", degrees),
            interpolation=interpolation_of(interpolation),
            expand=_arguments.flag("expand", expand),
            center=None if center is None else pair("center", center),
            fill=fill_if("fill", fill),
        )

    def rotate(
        self,
        degrees: float | Sequence[float],
        interpolation: Literal["nearest", "bilinear"] = "nearest",
        expand: bool = False,
        center: Sequence[float] | None = None,
        fill: float | Sequence[float] | None = 0,
    ) -> Images:
        """Rotate images by a random angle: short for `random_rotation`, with its parameters."""
        return self.random_rotation(degrees, interpolation, expand, center, fill)

    def random_affine(
        self,
        degrees: float | Sequence[float],
        translate: Sequence[float] | None = None,
        scale: Sequence[float] | None = None,
        shear: float | Sequence[float] | None = None,
        interpolation: Literal["nearest", "bilinear"] = "nearest",
        fill: float | Sequence[float] | None = 0,
        center: Sequence[float] | None = None,
    ) -> Images:
        """Rotate, translate, scale and shear images at random.

        Parameters
        ----------
        degrees
            The least and the largest angle of rotation, clockwise; one number x stands for (-x, x).
        translate
            The largest shift in either direction, as parts of the width and the height, from 0 to
            1. None by default.
        scale
            The least and the largest factor. 1 by default.
        shear
            The least and the largest angle of shear along x, then along y, in degrees; one number x
            stands for (-x, x) along x. None by default.
        interpolation
            How pixels of the result are computed.
        fill
            The color of pixels from outside the image: one value, or one per channel.
        center
            The point (x, y) that stays, in pixels from the upper left corner; by default the
            middle.

        Returns
        -------
        Images
            Of the same size.
        """
        sheared: list[float] | None = None
        if isinstance(shear, Sequence):
            sheared = [float(_arguments.real("shear", angle)) for angle in shear]
            if len(sheared) not in (2, 4):
                msg = f"shear must be 1, 2 or 4 numbers, got {shear!r}"
                raise ValueError(msg)
        elif shear is not None:
            sheared = list(angles("shear", shear))
        return self._add(
            "random_affine",
            degrees=angles("degrees", degrees),
            translate=None if translate is None else pair("translate", translate),
            scale=None if scale is None else pair("scale", scale),
            shear=sheared,
            interpolation=interpolation_of(interpolation),
            fill=fill_if("fill", fill),
            center=None if center is None else pair("center", center),
        )

    def random_perspective(
        self,
        distortion_scale: float = 0.5,
        p: float = 0.5,
        interpolation: Literal["nearest", "bilinear"] = "bilinear",
        fill: float | Sequence[float] | None = 0,
    ) -> Images:
        """Show some images as if seen from another place: each corner moves inwards at random.

        Parameters
        ----------
        distortion_scale
            How far corners move at most, from 0 to 1: as a part of half the width and height.
        p
            The probability that an image is transformed.
        interpolation
            How pixels of the result are computed.
        fill
            The color of pixels from outside the image: one value, or one per channel.

        Returns
        -------
        Images
            Of the same size.
        """
        return self._add(
            "random_perspective",
            distortion_scale=float(_arguments.real("distortion_scale", distortion_scale)),
            p=probability("p", p),
            interpolation=interpolation_of(interpolation),
            fill=fill_if("fill", fill),
        )

    def elastic(
        self,
        alpha: float | Sequence[float] = 50.0,
        sigma: float | Sequence[float] = 5.0,
        interpolation: Literal["nearest", "bilinear"] = "bilinear",
        fill: float | Sequence[float] | None = 0,
    ) -> Images:
        """Deform images elastically, as if seen through water: torchvision's ``ElasticTransform``.

        Every pixel is shifted by random numbers that are smoothed over the image. It is drawn and
        smoothed for each image, so it costs more than other operations; crop or resize before.

        Parameters
        ----------
        alpha
            How strongly pixels are shifted, across and down.
        sigma
            How smooth the shifts are: the standard deviation of the Gaussian kernel, in pixels, at
            most 100; 0 does not smooth.
        interpolation
            How pixels of the result are computed.
        fill
            The color of pixels from outside the image: one value, or one per channel.

        Returns
        -------
        Images
            Of the same size. Boxes and keypoints move by the shift at their place, taken back,
            which is near but not exact; torchvision does the same.
        """
        return self._add(
            "elastic",
            alpha=one_or_two("alpha", alpha),
            sigma=one_or_two("sigma", sigma),
            interpolation=interpolation_of(interpolation),
            fill=fill_if("fill", fill),
        )
