"""How images are delivered: their numbers, and the order of their axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from feedline import _arguments
from feedline.image_operations.base import Chain, numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import torch

    from feedline.pictures import Images

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


class Finishing(Chain):
    """The last operations of a chain."""

    def normalize(
        self,
        mean: float | Sequence[float] = IMAGENET_MEAN,
        std: float | Sequence[float] = IMAGENET_STD,
    ) -> Images:
        """Subtract the mean and divide by the standard deviation, by channel.

        Bytes become float32 from 0 to 1 before, unless `to_dtype` said otherwise.

        Parameters
        ----------
        mean
            One number per channel, or one for all; ImageNet's by default.
        std
            One number per channel, or one for all, above 0; ImageNet's by default.

        Returns
        -------
        Images
            Of float32, or of the dtype that `to_dtype` says.
        """
        return self._add("normalize", mean=numbers("mean", mean), std=numbers("std", std))

    def to_dtype(
        self,
        dtype: Literal["uint8", "float16", "bfloat16", "float32"]
        | np.dtype[Any]
        | type[np.generic]
        | torch.dtype,
        scale: bool = True,
    ) -> Images:
        """Deliver another dtype.

        Parameters
        ----------
        dtype
            The dtype of the delivered images.
        scale
            Whether bytes become numbers from 0 to 1, rather than from 0 to 255.

        Returns
        -------
        Images
            Of this dtype.
        """
        named = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", str(dtype))
        known = ("uint8", "float16", "bfloat16", "float32")
        name = _arguments.one_of("dtype", named.removeprefix("torch."), known)
        return self._add("to_dtype", dtype=name, scale=_arguments.flag("scale", scale))

    def layout(self, layout: Literal["chw", "hwc"]) -> Images:
        """Deliver the axes in another order.

        Parameters
        ----------
        layout
            Channels, height, width, which is the default; or height, width, channels.

        Returns
        -------
        Images
            With these axes.
        """
        return self._add("layout", layout=_arguments.one_of("layout", layout, ("chw", "hwc")))
