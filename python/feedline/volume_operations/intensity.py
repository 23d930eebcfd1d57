"""Numbers brought to a range."""

from __future__ import annotations

from typing import TYPE_CHECKING

from feedline import _arguments
from feedline.volume_operations.base import VolumeChain, span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from feedline.scans import Volumes


class VolumeScaling(VolumeChain):
    """What is done to the numbers of every volume, channel by channel."""

    def window(
        self,
        level: float,
        width: float,
        to: Sequence[float] = (0.0, 1.0),
        clip: bool = True,
    ) -> Volumes:
        """Take a window of Hounsfield units to a range (``ScaleIntensityRange``).

        Parameters
        ----------
        level
            The middle of the window.
        width
            How wide it is, above 0.
        to
            What its two ends become.
        clip
            Whether numbers outside become those two.

        Returns
        -------
        Volumes
            Of such numbers.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> import nibabel, numpy as np
        >>> import feedline
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "liver.nii.gz"
        >>> values = np.array([-1000, -110, 40, 190, 3000], np.int16).reshape(5, 1, 1)
        >>> nibabel.save(nibabel.Nifti1Image(values, np.eye(4)), path)
        >>> (image,) = feedline.volumes([path]).window(40, 300)[0]
        >>> image.ravel().tolist()
        [0.0, 0.0, 0.5, 1.0, 1.0]
        """
        middle = float(_arguments.real("level", level))
        half = float(_arguments.real("width", width)) / 2
        return self._then(
            "window",
            low=middle - half,
            high=middle + half,
            to=span("to", to),
            clip=_arguments.flag("clip", clip),
        )

    def zscore(
        self, nonzero: bool = False, mean: float | None = None, std: float | None = None
    ) -> Volumes:
        """Subtract the mean and divide by the standard deviation (``NormalizeIntensity``).

        Parameters
        ----------
        nonzero
            Whether only voxels that are not 0 are counted, and changed.
        mean
            Take this mean, such as that of the whole training set, and not the channel's own.
        std
            The same of the deviation; both are given, or none.

        Returns
        -------
        Volumes
            Of such numbers.
        """
        if (mean is None) != (std is None) or (mean is not None and nonzero):
            msg = "zscore takes mean and std together, and without nonzero; leave one out"
            raise ValueError(msg)
        return self._then(
            "zscore",
            nonzero=_arguments.flag("nonzero", nonzero),
            mean=None if mean is None else float(_arguments.real("mean", mean)),
            std=None if std is None else float(_arguments.real("std", std)),
        )

    def scale_percentiles(
        self,
        lower: float,
        upper: float,
        to: Sequence[float] = (0.0, 1.0),
        clip: bool = False,
    ) -> Volumes:
        """Take two percentiles of each channel to a range (``ScaleIntensityRangePercentiles``).

        Parameters
        ----------
        lower
            From 0 to 100.
        upper
            From `lower` to 100.
        to
            What they become.
        clip
            Whether numbers outside become those two.

        Returns
        -------
        Volumes
            Of such numbers.
        """
        return self._then(
            "scale_percentiles",
            lower=float(_arguments.real("lower", lower)),
            upper=float(_arguments.real("upper", upper)),
            to=span("to", to),
            clip=_arguments.flag("clip", clip),
        )
