"""Random changes of numbers, and nnU-Net's set of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from feedline import _arguments
from feedline.volume_operations.base import VolumeChain, around, axes_of, span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from feedline.scans import Volumes


class VolumeAugmenting(VolumeChain):
    """What is done to the numbers of some volumes."""

    def random_noise(
        self, p: float = 0.1, std: float | Sequence[float] = (0.0, 0.1), mean: float = 0.0
    ) -> Volumes:
        """Add Gaussian noise to some volumes (``RandGaussianNoise``).

        Parameters
        ----------
        p
            The probability for a volume.
        std
            The noise's deviation, or the ends of the range that it is drawn from.
        mean
            The noise's mean.

        Returns
        -------
        Volumes
            Of the same size.
        """
        return self._then(
            "random_noise",
            p=float(_arguments.real("p", p)),
            std=span("std", std),
            mean=float(_arguments.real("mean", mean)),
        )

    def random_blur(self, p: float = 0.1, sigma: float | Sequence[float] = (0.25, 1.5)) -> Volumes:
        """Blur some volumes with a Gaussian (``RandGaussianSmooth``).

        Parameters
        ----------
        p
            The probability for a volume.
        sigma
            The Gaussian's deviation in voxels, or the ends of the range from which one is drawn
            for each axis.

        Returns
        -------
        Volumes
            Of the same size.
        """
        return self._then(
            "random_blur", p=float(_arguments.real("p", p)), sigma=span("sigma", sigma)
        )

    def random_brightness(
        self, p: float = 0.1, factor: float | Sequence[float] = (0.75, 1.25)
    ) -> Volumes:
        """Multiply the numbers of some volumes (``RandScaleIntensity``).

        Parameters
        ----------
        p
            The probability for a volume.
        factor
            The factor, or the ends of the range that it is drawn from. MONAI's are less by one.

        Returns
        -------
        Volumes
            Of the same size.
        """
        return self._then(
            "random_brightness", p=float(_arguments.real("p", p)), factor=span("factor", factor)
        )

    def random_contrast(
        self,
        p: float = 0.1,
        factor: float | Sequence[float] = (0.75, 1.25),
        preserve_range: bool = True,
    ) -> Volumes:
        """Stretch distances from the mean in some volumes, as batchgeneratorsv2 does it.

        Parameters
        ----------
        p
            The probability for a volume.
        factor
            By how much, or the ends of the range that it is drawn from.
        preserve_range
            Whether numbers stay between the least and the largest before.

        Returns
        -------
        Volumes
            Of the same size.
        """
        return self._then(
            "random_contrast",
            p=float(_arguments.real("p", p)),
            factor=span("factor", factor),
            preserve_range=_arguments.flag("preserve_range", preserve_range),
        )

    def random_gamma(
        self,
        p: float = 0.1,
        gamma: float | Sequence[float] = (0.5, 4.5),
        invert: bool = False,
        retain_stats: bool = False,
    ) -> Volumes:
        """Raise numbers to a power, between the least and the largest (``RandAdjustContrast``).

        Parameters
        ----------
        p
            The probability for a volume.
        gamma
            The power, or the ends of the range that it is drawn from.
        invert
            Whether it is done to the negative.
        retain_stats
            Whether mean and deviation become what they were.

        Returns
        -------
        Volumes
            Of the same size.
        """
        return self._then(
            "random_gamma",
            p=float(_arguments.real("p", p)),
            gamma=span("gamma", gamma),
            invert=_arguments.flag("invert", invert),
            retain_stats=_arguments.flag("retain_stats", retain_stats),
        )

    def random_low_resolution(
        self, p: float = 0.1, zoom: float | Sequence[float] = (0.5, 1.0)
    ) -> Volumes:
        """Make some volumes coarser, as large as before (``RandSimulateLowResolution``).

        Parameters
        ----------
        p
            The probability for a volume.
        zoom
            By which factor sides become shorter meanwhile, or the ends of its range.

        Returns
        -------
        Volumes
            Of the same size.
        """
        return self._then(
            "random_low_resolution", p=float(_arguments.real("p", p)), zoom=span("zoom", zoom)
        )

    def nnunet_augment(
        self,
        degrees: float | Sequence[float] | None = None,
        scale: Sequence[float] = (0.7, 1.4),
        mirror: int | Sequence[int] = (0, 1, 2),
        dummy_2d: bool | None = None,
    ) -> Volumes:
        """nnU-Net's training transforms, with its probabilities and ranges.

        In its order: turned (0.2) and scaled (0.2), noise (0.1), blur (0.2), brightness (0.15),
        contrast (0.15), low resolution (0.25), gamma of the negative (0.1), gamma (0.3), mirrored
        along each axis (0.5). Labels of turned masks are those with the most weight, not the
        nearest. Turning, scaling, mirroring and a `random_crop` just before it are one
        resampling, which sees the volume around the patch.

        Parameters
        ----------
        degrees
            The range of angles: one number for both sides of 0, or (min, max). By default that of
            nnU-Net: 30 degrees, 180 within the slices of flat patches.
        scale
            The range of factors.
        mirror
            Along which axes patches may be mirrored; ``()`` for none.
        dummy_2d
            Whether patches are turned and scaled slice by slice. By default where the longest
            side has more than three times as many voxels as the first.

        Returns
        -------
        Volumes
            Of the same size.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> import nibabel, numpy as np
        >>> import feedline
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "head.nii.gz"
        >>> nibabel.save(nibabel.Nifti1Image(np.zeros((60, 50, 40), np.int16), np.eye(4)), path)
        >>> print(feedline.volumes([path]).zscore().random_crop(32).nnunet_augment())
        1 samples
          volumes(1 case)
          zscore()
          random_crop(32)
          nnunet_augment()
        delivers (float32 [1, 32, 32, 32],)
        """
        return self._then(
            "nnunet_augment",
            degrees=None if degrees is None else around("degrees", degrees),
            scale=span("scale", scale),
            mirror=axes_of("mirror", mirror),
            dummy_2d=None if dummy_2d is None else _arguments.flag("dummy_2d", dummy_2d),
        )
