"""The bytes that batches may take before they are delivered: `memory=`.

What a batch takes is known when it has arrived. Until the first one has, a single batch is open;
then as many as fit if all were as large as the largest that was seen, at least one. Where nobody
says, a controller keeps what it reads ahead below a quarter of what the process may use.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from feedline._feedline import usable_memory
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
        self._usual: int | None = None
        self._largest = 0

    def is_steered(self) -> None:
        """Let a controller's read-ahead be bounded, too, where nobody has said anything."""
        if self._usual is None:
            self._usual = (usable_memory() or sys.maxsize) // 4

    def seen(self, size: int) -> None:
        """Note how many bytes a batch has."""
        self._largest = max(self._largest, size)

    def weigh(self, batch: Any) -> None:  # noqa: ANN401 - the user's, or what came instead
        """Note how many bytes a batch has that was not sent, so that nobody has counted them."""
        is_bounded = self.memory is not None or self._usual is not None
        if is_bounded and not isinstance(batch, ExceptionWrapper | BaseException):
            self.seen(bytes_of(batch))

    def furthest(self) -> int | None:
        """Return how many a controller may read ahead; None: any number, as far as is known."""
        most = self._usual if self.memory is None else self.memory
        return None if most is None or not self._largest else max(1, most // self._largest)

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
