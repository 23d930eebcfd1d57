"""What samples are labelled with, known without making them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from feedline import _columns
from feedline.pipeline.base import PipelineBase

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["Labelled"]


class Labelled(PipelineBase):
    """Knows labels and classes."""

    @property
    def labels(self) -> npt.NDArray[np.integer[Any]]:
        """The label of every sample, in their order, as whole numbers, known without decoding.

        The label is the class of a picture's folder, or the first whole number that is called
        ``label``, ``labels``, ``target``, ``targets``, ``class``, ``cls`` or ``y``; of samples
        whose fields have no names it is the last field, where others are before it. Of tar shards
        just that part is read. Samples after `select`, `filter`, `concat`, `zip`, `cache` and the
        like have the labels that they had before; after `map` there are none, because a function
        may do anything to them.

        Raises
        ------
        ValueError
            If there are no labels, or they cannot be known without making the samples.

        Examples
        --------
        >>> import numpy as np
        >>> import feedline
        >>> pairs = feedline.arrays(image=np.zeros((4, 8, 8)), label=np.array([2, 0, 1, 2]))
        >>> pairs.select([3, 1]).labels
        array([2, 0])
        """
        if self._labels is None:
            self._labels = self._read_labels()
        return self._labels

    def _read_labels(self) -> npt.NDArray[np.integer[Any]]:
        self._refuse_iterable("labels")
        name = _columns.label_field(self._source.fields())
        if name is None:
            msg = (
                f"there are no labels: none of the fields {self.fields} is a whole number called "
                "label (or target, class, cls, y), or the last of several without names; name it, "
                "e.g. arrays(image=..., label=...)"
            )
            raise ValueError(msg)
        labels = _columns.column(self._source, name)
        if labels is None:
            msg = (
                f"the labels (field {name!r}) cannot be known without making every sample: "
                f"{self._stages[-1]} makes them; ask for .labels before it"
            )
            raise ValueError(msg)
        labels.flags.writeable = False
        return labels

    @property
    def targets(self) -> npt.NDArray[np.integer[Any]]:
        """The same as `labels`, as torchvision's datasets call it."""
        return self.labels

    @property
    def classes(self) -> list[str] | None:
        """The names of the classes in the order of their labels, where the data has such."""
        names = self._source.classes()
        return None if names is None else [str(name) for name in names]

    @property
    def class_to_idx(self) -> dict[str, int] | None:
        """The label of each class, as torchvision's ``ImageFolder`` has it."""
        names = self.classes
        return None if names is None else {name: label for label, name in enumerate(names)}
