"""The bytes that batches may take before they are delivered: `memory=`.

What a batch takes is known when it has arrived. Until the first one has, a single batch is open;
then as many as fit if all were as large as the largest that was seen, at least one.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from feedline._torch_private import ExceptionWrapper
from feedline.torch.states.worker_state import Stamped
from feedline.torch.workers.offer import Tolerated

__all__ = ["Budget", "bytes_of"]


class Budget:
    """How many batches fit.

    Parameters
    ----------
    memory
        The bytes of batches that are begun and not delivered; None: any number.

    Examples
    --------
    >>> budget = Budget(1000)
    >>> budget.batches()
    1
    >>> budget.seen(300)
    >>> budget.batches()
    3
    """

    def __init__(self, memory: int | None) -> None:
        self.memory = memory
        self._largest = 0

    def seen(self, size: int) -> None:
        """Note how many bytes a batch has."""
        self._largest = max(self._largest, size)

    def weigh(self, batch: Any) -> None:  # noqa: ANN401 - the user's, or what came instead
        """Note how many bytes a batch has that was not sent, so that nobody has counted them."""
        if self.memory is not None and not isinstance(batch, ExceptionWrapper | BaseException):
            self.seen(bytes_of(batch))

    @property
    def is_known(self) -> bool:
        """Whether it is known how large batches are."""
        return self._largest > 0

    def batches(self) -> int | None:
        """Return how many may be open; None: any number."""
        if self.memory is None:
            return None
        return max(1, self.memory // self._largest) if self._largest else 1


def bytes_of(value: Any, depth: int = 8) -> int:  # noqa: ANN401 - the user's batch
    """Return about how many bytes a batch takes; at least one.

    Examples
    --------
    >>> bytes_of([torch.zeros(10), {"x": np.zeros(5)}])
    80
    """
    if isinstance(value, Tolerated | Stamped):
        return bytes_of(value.data, depth)
    if isinstance(value, torch.Tensor | np.ndarray):
        try:
            return max(1, int(value.nbytes))
        except (NotImplementedError, RuntimeError):
            return sys.getsizeof(value)  # nested, sparse: it does not say
    if isinstance(value, str | bytes | bytearray):
        return max(1, len(value))
    if depth:
        inside: Any = None
        if isinstance(value, Mapping):
            inside = value.values()
        elif isinstance(value, list | tuple | set | frozenset):
            inside = value
        elif hasattr(value, "__dict__"):
            inside = vars(value).values()
        if inside is not None:
            return max(1, sum(bytes_of(part, depth - 1) for part in inside))
    return sys.getsizeof(value)
