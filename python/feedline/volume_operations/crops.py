"""Parts of volumes, and volumes made large enough for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from feedline import _arguments
from feedline.volume_operations.base import VolumeChain, axis_of, size_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from feedline.scans import Volumes

# The range of labels.
_LEAST, _MOST = -(2**15), 2**15 - 1


class VolumeCropping(VolumeChain):
    """Crops, padding and slices."""

    def crop_foreground(self, threshold: float = 0.0, margin: int = 0) -> Volumes:
        """Keep the smallest box that has all voxels above a threshold (``CropForeground``).

        The whole volume must be read for it.

        Parameters
        ----------
        threshold
            What is above this in any channel is kept.
        margin
            So many voxels more on each side, as far as there are any.

        Returns
        -------
        Volumes
            Of different sizes. A volume without foreground is an error of its sample.
        """
        return self._then(
            "crop_foreground",
            threshold=float(_arguments.real("threshold", threshold)),
            margin=_arguments.whole("margin", margin, 0),
        )

    def pad(
        self,
        size: int | Sequence[int],
        mode: Literal["constant", "edge"] = "constant",
        value: float = 0.0,
        mask_value: int = 0,
    ) -> Volumes:
        """Add voxels on both sides until a volume is at least this large (``SpatialPad``).

        Parameters
        ----------
        size
            The least voxels along z, y and x; one number for all.
        mode
            What is added: one value, or the outermost voxels again.
        value
            The value in the image.
        mask_value
            The label in the mask.

        Returns
        -------
        Volumes
            Of at least this size.
        """
        modes = ("constant", "edge")
        return self._then(
            "pad",
            size=size_of("size", size),
            mode=_arguments.one_of("mode", mode, modes),
            value=float(_arguments.real("value", value)),
            mask_value=_arguments.whole("mask_value", mask_value, _LEAST, _MOST),
        )

    def center_crop(self, size: int | Sequence[int]) -> Volumes:
        """Cut out the middle (``CenterSpatialCrop``).

        Parameters
        ----------
        size
            Voxels along z, y and x; one number for all. A volume that is smaller is an error of
            its sample: call `pad` before.

        Returns
        -------
        Volumes
            Of this size.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> import nibabel, numpy as np
        >>> import feedline
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "head.nii.gz"
        >>> nibabel.save(nibabel.Nifti1Image(np.zeros((60, 50, 40), np.int16), np.eye(4)), path)
        >>> print(feedline.volumes([path]).pad(48).center_crop(48))
        1 samples
          volumes(1 case)
          pad(48)
          center_crop(48)
        delivers (float32 [1, 48, 48, 48],)
        """
        return self._then("center_crop", size=size_of("size", size))

    def random_crop(
        self,
        size: int | Sequence[int],
        foreground: float | None = None,
        classes: Mapping[int, float] | None = None,
        elsewhere: Literal["background", "anywhere"] = "background",
        patches: int = 1,
    ) -> Volumes:
        """Cut out patches at random places, anywhere or by the mask.

        Only the voxels that the patch needs are read. What MONAI calls ``RandSpatialCrop``,
        ``RandCropByPosNegLabel`` (with `foreground`) and ``RandCropByLabelClasses`` (with
        `classes`). Where the classes are is found when a mask is first read, and kept.

        Parameters
        ----------
        size
            Voxels along z, y and x; one number for all. A volume that is smaller is an error of
            its sample: call `pad` before.
        foreground
            The share of patches that are centred on a voxel of the foreground, as far as the
            volume reaches. ``None``: patches are anywhere, whatever the mask.
        classes
            How likely each class is the one that a patch of the foreground is centred on, as
            weights. By default every voxel other than 0 is as likely.
        elsewhere
            Where the other patches are: centred on the background as MONAI does it, or anywhere
            as nnU-Net does it.
        patches
            How many patches are made of one volume, which is read once. With more than one,
            samples have an axis for them in front.

        Returns
        -------
        Volumes
            Of this size.

        Raises
        ------
        ValueError
            If there are several patches already, or a share is no share.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> import nibabel, numpy as np
        >>> import feedline
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> organ = np.zeros((60, 50, 40), np.int16)
        >>> organ[10:20, 10:20, 10:20] = 1
        >>> for name in ("image", "mask"):
        ...     nibabel.save(nibabel.Nifti1Image(organ, np.eye(4)), folder / f"{name}.nii.gz")
        >>> cases = feedline.volumes([(folder / "image.nii.gz", folder / "mask.nii.gz")])
        >>> patches = cases.random_crop(16, foreground=1.0, patches=2)
        >>> for image, mask in feedline.Loader(patches):
        ...     print(image.shape, mask.shape, bool(mask.any()))
        (1, 2, 1, 16, 16, 16) (1, 2, 16, 16, 16) True
        """
        place = _place(foreground, classes, elsewhere, patches)
        return self._then("random_crop", size=size_of("size", size), **place)

    def random_slice(
        self,
        axis: int = 0,
        foreground: float | None = None,
        classes: Mapping[int, float] | None = None,
        elsewhere: Literal["background", "anywhere"] = "background",
        patches: int = 1,
    ) -> Volumes:
        """Take a random slice: samples are pictures then, of shape (channels, height, width).

        Parameters
        ----------
        axis
            Across which axis: 0, 1 or 2 for z, y or x.
        foreground
            The share of slices through a voxel of the foreground; ``None``: any slice.
        classes
            How likely each class is the one that a slice goes through, as weights.
        elsewhere
            Where the other slices are: through the background, or anywhere.
        patches
            How many slices of one volume.

        Returns
        -------
        Volumes
            Whose samples have no such axis. Operations on whole volumes must come before.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> import nibabel, numpy as np
        >>> import feedline
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "head.nii.gz"
        >>> nibabel.save(nibabel.Nifti1Image(np.zeros((60, 50, 40), np.int16), np.eye(4)), path)
        >>> slices = feedline.volumes([path]).center_crop(32).random_slice(0)
        >>> slices[0][0].shape
        (1, 32, 32)
        """
        place = _place(foreground, classes, elsewhere, patches)
        return self._then("random_slice", axis=axis_of("axis", axis), **place)


def _place(
    foreground: float | None,
    classes: Mapping[int, float] | None,
    elsewhere: str,
    patches: int,
) -> dict[str, object]:
    """Return where patches are, as the engine takes it."""
    if foreground is None and classes is not None:
        msg = "classes are those of the foreground; pass its share, such as foreground=1.0"
        raise ValueError(msg)
    share = None if foreground is None else float(_arguments.real("foreground", foreground))
    return {
        "foreground": share,
        "classes": None if classes is None else _weights(classes),
        "elsewhere": _arguments.one_of("elsewhere", elsewhere, ("background", "anywhere")),
        "patches": _arguments.whole("patches", patches, 1),
    }


def _weights(classes: Mapping[int, float]) -> list[tuple[int, float]]:
    given: Any = classes
    if not isinstance(given, Mapping):
        msg = f"classes must be a dict of labels and their weights, got {classes!r}"
        raise TypeError(msg)
    return [
        (
            _arguments.whole("a class", label, _LEAST, _MOST),
            float(_arguments.real("a class's weight", weight)),
        )
        for label, weight in classes.items()
    ]
