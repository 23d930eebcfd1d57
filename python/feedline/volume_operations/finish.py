"""How volumes are delivered: their numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from feedline import _arguments
from feedline.volume_operations.base import VolumeChain

if TYPE_CHECKING:
    import numpy as np
    import torch

    from feedline.scans import Volumes


class VolumeFinishing(VolumeChain):
    """The last operation of a chain, wherever it is called."""

    def to_dtype(
        self,
        dtype: Literal["float32", "float16", "bfloat16"]
        | np.dtype[Any]
        | type[np.generic]
        | torch.dtype
        | None = None,
        mask: Literal["uint8", "int16", "int32", "int64"]
        | np.dtype[Any]
        | type[np.generic]
        | torch.dtype
        | None = None,
    ) -> Volumes:
        """Deliver other dtypes. All operations compute in float32.

        Parameters
        ----------
        dtype
            That of images; ``None``: as before, float32 at first.
        mask
            That of masks; ``None``: as before, int16 at first. Labels that uint8 does not hold are
            errors of their samples.

        Returns
        -------
        Volumes
            Of these dtypes.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> import nibabel, numpy as np
        >>> import feedline
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "head.nii.gz"
        >>> nibabel.save(nibabel.Nifti1Image(np.zeros((60, 50, 40), np.int16), np.eye(4)), path)
        >>> cases = feedline.volumes([(path, path)]).center_crop(32)
        >>> [value.dtype.name for value in cases.to_dtype("float16", mask="uint8")[0]]
        ['float16', 'uint8']
        """
        images = ("float32", "float16", "bfloat16")
        masks = ("uint8", "int16", "int32", "int64")
        return self._then(
            "to_dtype",
            dtype=None if dtype is None else _arguments.one_of("dtype", _name(dtype), images),
            mask=None if mask is None else _arguments.one_of("mask", _name(mask), masks),
        )


def _name(dtype: object) -> object:
    """Return what NumPy and torch call a dtype."""
    if isinstance(dtype, str):
        return dtype
    return str(getattr(dtype, "__name__", dtype)).removeprefix("torch.")
