"""Augmentation policies: which changes, how often and how strong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from feedline import _arguments
from feedline.image_operations.base import Chain, fill_if, interpolation_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from feedline.pictures import Images


class Augmenting(Chain):
    """Policies that choose among many changes; tables and strengths are torchvision's."""

    def auto_augment(
        self,
        policy: Literal["imagenet", "cifar10", "svhn"] = "imagenet",
        interpolation: Literal["nearest", "bilinear"] = "nearest",
        fill: float | Sequence[float] | None = None,
    ) -> Images:
        """AutoAugment: one of 25 pairs of changes that were learned on a dataset.

        Parameters
        ----------
        policy
            The dataset whose pairs are taken.
        interpolation
            How pixels are computed where images are rotated, sheared or shifted.
        fill
            The color of pixels from outside the image: one value, or one per channel; ``None`` is
            black.

        Returns
        -------
        Images
            Of the same size.

        Examples
        --------
        >>> import numpy as np
        >>> import feedline
        >>> cifar = feedline.arrays(np.zeros((10, 32, 32, 3), np.uint8))
        >>> print(cifar.random_crop(32, padding=4).flip().auto_augment("cifar10").normalize())
        10 samples
          arrays(1)
          random_crop(32, padding=4)
          random_horizontal_flip(p=0.5)
          auto_augment("cifar10")
          normalize
        delivers (float32 [3, 32, 32],)
        """
        policies = ("imagenet", "cifar10", "svhn")
        return self._add(
            "auto_augment",
            policy=_arguments.one_of("policy", policy, policies),
            interpolation=interpolation_of(interpolation),
            fill=fill_if("fill", fill),
        )

    def rand_augment(
        self,
        num_ops: int = 2,
        magnitude: int = 9,
        num_magnitude_bins: int = 31,
        interpolation: Literal["nearest", "bilinear"] = "nearest",
        fill: float | Sequence[float] | None = None,
        *,
        operations: Sequence[str] = (),
    ) -> Images:
        """RandAugment: some randomly chosen changes, all of one strength.

        Parameters
        ----------
        num_ops
            How many changes are done to each image, at most 100.
        magnitude
            Their strength, from 0 to below `num_magnitude_bins`.
        num_magnitude_bins
            How many strengths there are, at least 2.
        interpolation
            How pixels are computed where images are rotated, sheared or shifted.
        fill
            The color of pixels from outside the image: one value, or one per channel; ``None`` is
            black.
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
            interpolation=interpolation_of(interpolation),
            fill=fill_if("fill", fill),
            operations=[str(operation) for operation in operations],
        )

    def trivial_augment_wide(
        self,
        num_magnitude_bins: int = 31,
        interpolation: Literal["nearest", "bilinear"] = "nearest",
        fill: float | Sequence[float] | None = None,
    ) -> Images:
        """TrivialAugment: one randomly chosen change of random strength, out of wide ranges.

        Parameters
        ----------
        num_magnitude_bins
            How many strengths there are, at least 2.
        interpolation
            How pixels are computed where images are rotated, sheared or shifted.
        fill
            The color of pixels from outside the image: one value, or one per channel; ``None`` is
            black.

        Returns
        -------
        Images
            Of the same size.
        """
        return self._add(
            "trivial_augment_wide",
            num_magnitude_bins=_arguments.whole("num_magnitude_bins", num_magnitude_bins, 2),
            interpolation=interpolation_of(interpolation),
            fill=fill_if("fill", fill),
        )

    def aug_mix(
        self,
        severity: int = 3,
        mixture_width: int = 3,
        chain_depth: int = -1,
        alpha: float = 1.0,
        all_ops: bool = True,
        interpolation: Literal["nearest", "bilinear"] = "bilinear",
        fill: float | Sequence[float] | None = None,
    ) -> Images:
        """AugMix: blend images with augmented copies of themselves.

        The copies are rotated, sheared and shifted apart, so nothing that lies on an image can
        follow: with masks, boxes or keypoints it is refused.

        Parameters
        ----------
        severity
            The largest strength of the changes, from 1 to 10.
        mixture_width
            How many copies, from 1 to 100.
        chain_depth
            How many changes are done to each copy, at most 100; 0 or less for one to three, drawn
            for each.
        alpha
            The parameter of the Beta and Dirichlet distributions that the weights of the copies
            are drawn from, above 0.
        all_ops
            Whether brightness, color, contrast and sharpness are among the changes.
        interpolation
            How pixels are computed where images are rotated, sheared or shifted.
        fill
            The color of pixels from outside the image: one value, or one per channel; ``None`` is
            black.

        Returns
        -------
        Images
            Of the same size.
        """
        depth = _arguments.whole("chain_depth", chain_depth, -(2**31), 100)
        return self._add(
            "aug_mix",
            severity=_arguments.whole("severity", severity, 1, 10),
            mixture_width=_arguments.whole("mixture_width", mixture_width, 1, 100),
            chain_depth=depth if depth > 0 else None,
            alpha=float(_arguments.real("alpha", alpha)),
            all_ops=_arguments.flag("all_ops", all_ops),
            interpolation=interpolation_of(interpolation),
            fill=fill_if("fill", fill),
        )
