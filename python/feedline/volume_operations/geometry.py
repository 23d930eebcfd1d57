"""Volumes turned, mirrored, scaled and resampled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from feedline import _arguments
from feedline.volume_operations.base import VolumeChain, axes_of, axis_of, ranges

if TYPE_CHECKING:
    from feedline.scans import Volumes


class VolumeMoving(VolumeChain):
    """Where voxels come from. Moves that follow each other are one resampling."""

    def reorient(self, axcodes: str = "RAS") -> Volumes:
        """Exchange and mirror axes so that they point the same way (``Orientation``).

        Parameters
        ----------
        axcodes
            Which way the axes of files point, x first, as nibabel and MONAI write it: R or L, A or
            P, S or I. The array's axes (z, y, x) are those of the letters backwards.

        Returns
        -------
        Volumes
            Whose axes all point the same way; along which they are as long as before.
        """
        given: object = axcodes
        if not isinstance(given, str):
            msg = f'axcodes must be letters such as "RAS", got {axcodes!r}'
            raise TypeError(msg)
        return self._then("reorient", axcodes=axcodes)

    def resample(self, spacing: float | Sequence[float | None]) -> Volumes:
        """Resample to a given distance from voxel to voxel (``Spacing``).

        Images are interpolated linearly, masks take the nearest voxel. The first voxel stays where
        it is.

        Parameters
        ----------
        spacing
            Millimetres along z, y and x; one number for all, ``None`` for an axis that stays as it
            is.

        Returns
        -------
        Volumes
            Of sizes that differ where those in millimetres do.
        """
        given = list(spacing) if isinstance(spacing, Sequence) else [spacing] * 3
        if len(given) != 3:
            msg = f"spacing must be one number or (z, y, x), got {spacing!r}"
            raise ValueError(msg)
        sides = [None if one is None else float(_arguments.real("spacing", one)) for one in given]
        return self._then("resample", spacing=tuple(sides))

    def flip(self, axes: int | Sequence[int]) -> Volumes:
        """Mirror every volume (``Flip``).

        Parameters
        ----------
        axes
            Along which axes: some of 0, 1 and 2 for z, y and x.

        Returns
        -------
        Volumes
            Of the same size.
        """
        return self._then("flip", axes=axes_of("axes", axes))

    def random_flip(self, p: float = 0.5, axes: int | Sequence[int] = (0, 1, 2)) -> Volumes:
        """Mirror along each of some axes with a probability (``RandFlip``, one for each axis).

        Parameters
        ----------
        p
            The probability for each axis, one independently of another.
        axes
            Which axes.

        Returns
        -------
        Volumes
            Of the same size.
        """
        return self._then(
            "random_flip", p=float(_arguments.real("p", p)), axes=axes_of("axes", axes)
        )

    def rot90(self, k: int = 1, axes: Sequence[int] = (1, 2)) -> Volumes:
        """Turn every volume by quarters, as NumPy's ``rot90`` (``Rotate90``).

        Parameters
        ----------
        k
            How many quarters, from 0 to 3.
        axes
            The two axes of the plane, from the first towards the second.

        Returns
        -------
        Volumes
            With these axes exchanged, where the number is odd.
        """
        k = _arguments.whole("k", k, 0, 3)
        return self._then("rot90", p=1.0, quarters=(k, k), axes=_plane(axes))

    def random_rot90(self, p: float = 0.1, max_k: int = 3, axes: Sequence[int] = (1, 2)) -> Volumes:
        """Turn some volumes by a random number of quarters (``RandRotate90``).

        Parameters
        ----------
        p
            The probability that a volume is turned.
        max_k
            The most quarters, from 1 to 3; at least one.
        axes
            The two axes of the plane, from the first towards the second.

        Returns
        -------
        Volumes
            Of the same size where these axes are equally long.
        """
        quarters = (1, _arguments.whole("max_k", max_k, 1, 3))
        return self._then(
            "random_rot90",
            p=float(_arguments.real("p", p)),
            quarters=quarters,
            axes=_plane(axes),
        )

    def random_affine(
        self,
        p: float = 0.1,
        degrees: float | Sequence[float] | Sequence[Sequence[float]] = 0.0,
        scale: float | Sequence[float] | Sequence[Sequence[float]] = 1.0,
        translate: float | Sequence[float] | Sequence[Sequence[float]] = 0.0,
        *,
        same_scale: bool = False,
        mode: Literal["constant", "edge"] = "constant",
        value: float = 0.0,
        mask_value: int = 0,
        labels: Literal["nearest", "most_weight"] = "nearest",
    ) -> Volumes:
        """Turn, scale and shift some volumes about their middle (``RandAffine``).

        Of a patch that was cut out before, and nothing but moved since, what comes into view from
        outside of it is the volume's own; only what lies outside the volume is filled.

        Parameters
        ----------
        p
            The probability that it is done to a volume.
        degrees
            Angles about z, y and x: one number for a range on both sides of 0, (min, max), or one
            of these for each axis.
        scale
            Factors that places are multiplied by, so that objects become smaller with larger
            numbers: one number, (min, max), or one of these for each axis.
        translate
            Voxels by which it is shifted: as `degrees`.
        same_scale
            Whether all axes are scaled by the factor that is drawn for the first.
        mode
            What lies outside the volume: one value, or its outermost voxels.
        value
            The value in the image.
        mask_value
            The label in the mask.
        labels
            How labels between voxels are found: that of the nearest, or the one with the most
            weight, as nnU-Net does it.

        Returns
        -------
        Volumes
            Of the same size.
        """
        return self._then(
            "random_affine",
            p=float(_arguments.real("p", p)),
            degrees=ranges("degrees", degrees, centred=True),
            scale=ranges("scale", scale, centred=False),
            translate=ranges("translate", translate, centred=True),
            same_scale=_arguments.flag("same_scale", same_scale),
            mode=_arguments.one_of("mode", mode, ("constant", "edge")),
            value=float(_arguments.real("value", value)),
            mask_value=_arguments.whole("mask_value", mask_value, -(2**15), 2**15 - 1),
            labels=_arguments.one_of("labels", labels, ("nearest", "most_weight")),
        )


def _plane(axes: Sequence[int]) -> tuple[int, int]:
    given: object = axes
    if not isinstance(given, Sequence) or len(given) != 2:
        msg = f"axes must be two of 0, 1 and 2, got {axes!r}"
        raise ValueError(msg)
    return axis_of("axes", axes[0]), axis_of("axes", axes[1])
