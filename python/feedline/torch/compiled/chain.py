"""A chain of torchvision's transforms, as far as it can be said in operations of a pipeline.

What torchvision's transforms work on is followed step by step: a PIL image, a tensor or
torchvision's own ``Image``, of bytes or of floats. For what a transform does depends on it: of a
PIL image Pillow makes the pixels, and `v2.ToDtype` leaves it as it is.

Operations of a pipeline work on bytes; those that make floats come last. A flip after them does the
same before them, and is put there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, Literal

from feedline.torch.compiled.unknown import Unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from feedline.pictures import Images

    Operation = Callable[[Images], Images]

__all__ = ["Chain", "Kind", "follow"]

Kind = Literal["pil", "tensor", "image"]


@dataclass(frozen=True)
class Chain:
    """Operations, and what torchvision would have in hand after them.

    Parameters
    ----------
    images
        The pictures, with the operations on bytes so far.
    kind
        A PIL image, a tensor, or torchvision's ``Image``.
    """

    images: Images
    kind: Kind
    dtype: str = "uint8"
    # What comes after the last operation on bytes.
    last: tuple[Operation, ...] = ()
    # Whether what comes last does the same to every pixel, and leaves zeros alone.
    is_pixelwise: bool = True
    keeps_zeros: bool = True
    draws: bool = False
    # How many pictures there are of each: after a FiveCrop five.
    views: int = 1

    @property
    def made(self) -> Images:
        """The pictures with all operations."""
        return reduce(lambda images, operation: operation(images), self.last, self.images)

    def on_bytes(self, operation: Operation, *, draws: bool = False) -> Chain:
        """Add an operation on the pixels of bytes."""
        if self.dtype != "uint8":
            msg = "it works on floats here, and natively on bytes; put it before what makes floats"
            raise Unknown(msg)
        return self._with(operation, draws=draws)

    def moving(self, operation: Operation, *, zeros: bool = False) -> Chain:
        """Add a random operation that does the same before floats are made.

        `zeros` says that it paints zeros, which must still be zeros then.
        """
        if not self.is_pixelwise or (zeros and not self.keeps_zeros):
            msg = "natively it works on bytes; put it before what makes floats"
            raise Unknown(msg)
        return self._with(operation, draws=True)

    def _with(self, operation: Operation, *, draws: bool) -> Chain:
        if draws and self.views > 1:
            msg = "torchvision draws once for all views, and a pipeline for each"
            raise Unknown(msg)
        return replace(self, images=operation(self.images), draws=self.draws or draws)

    def finishing(self, operation: Operation, **changes: Any) -> Chain:  # noqa: ANN401 - fields
        """Add an operation that stays behind all those on bytes."""
        chain = replace(self, last=(*self.last, operation), **changes)
        _ = chain.made  # refused now, if it is
        return chain


def follow(
    chain: Chain, transforms: Sequence[Any], known: Callable[[Chain, Any], Chain]
) -> tuple[Chain, int, str]:
    """Add transforms up to the first that stays in Python.

    Parameters
    ----------
    chain
        What there is.
    transforms
        torchvision's, and others.
    known
        Adds one of them, or raises `Unknown`, or what an operation refuses its arguments with.

    Returns
    -------
    tuple
        The chain, how many were added, and why no more.
    """
    for count, transform in enumerate(transforms):
        try:
            chain = known(chain, transform)
        except (Unknown, ValueError, TypeError, OverflowError) as reason:
            return chain, count, str(reason)
    return chain, len(transforms), ""
