"""The bytes that batches may take before they are delivered: `memory=`.

What a batch takes is known when it has arrived. Until the first one has, a single batch is open;
then as many as fit if all were as large as the largest that was seen, at least one. Where nobody
says, a controller keeps what it reads ahead below a quarter of what the process may use.
"""

from __future__ import annotations

import itertools
import sys
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from feedline._feedline import usable_memory
from feedline._torch_private import ExceptionWrapper
from feedline.torch.states.worker_state import Stamped
from feedline.torch.workers.offer import Tolerated

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["Budget", "bytes_of"]

# Parts of a batch that are looked at to weigh it: two milliseconds.
_LOOKED_AT = 1000


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
        self._expected = 0

    def expect(self, size: int) -> None:
        """Note how many bytes batches are likely to have; it counts until one was seen."""
        self._expected = size

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
        largest = self._largest or self._expected
        return None if most is None or not largest else max(1, most // largest)

    def batches(self) -> int | None:
        """Return how many may be open; None: any number."""
        if self.memory is None:
            return None
        return max(1, self.memory // self._largest) if self._largest else 1


def bytes_of(batch: Any) -> int:  # noqa: ANN401 - the user's
    """Return about how many bytes a batch takes; at least one.

    What is in it several times counts once. Where it has very many parts, as many as are looked at
    stand for all. It never raises: what says nothing of itself weighs nothing.

    Examples
    --------
    >>> bytes_of([torch.zeros(10), {"x": np.zeros(5)}])
    80
    """
    scales = _Scales()
    left: list[Any] = [batch]
    looked = unseen = 0
    while left and looked < _LOOKED_AT:
        part = left.pop()
        looked += 1
        with suppress(Exception):
            inside = scales.put(part)
            left.extend(itertools.islice(inside, _LOOKED_AT))
            unseen += max(len(inside) - _LOOKED_AT, 0)
    unseen += len(left)
    return max(1, round(scales.total * (1 + unseen / looked)))


class _Scales:
    """What has been weighed of a batch."""

    def __init__(self) -> None:
        self.total = 0
        # By identity; kept, so that no other thing has the same meanwhile.
        self._known: dict[int, Any] = {}
        # By where memory begins: how much of it was counted.
        self._counted: defaultdict[int, int] = defaultdict(int)

    def put(self, part: Any) -> Collection[Any]:  # noqa: ANN401 - the user's
        """Add what a part itself weighs, and return what is in it."""
        if id(part) in self._known:
            return ()
        self._known[id(part)] = part
        if isinstance(part, Tolerated | Stamped):
            return (part.data,)
        if isinstance(part, Mapping):
            return part.values()
        if isinstance(part, list | tuple | set | frozenset):
            return part
        if isinstance(part, str | bytes | bytearray):
            self.total += len(part)
        elif isinstance(part, torch.Tensor | np.ndarray):
            self._put_memory(part)
        elif hasattr(part, "__dict__"):
            own: dict[str, Any] = vars(part)
            return own.values()
        else:
            self.total += sys.getsizeof(part)
        return ()

    def _put_memory(self, part: torch.Tensor | np.ndarray[Any, Any]) -> None:
        """Add what an array has of its memory, of which other arrays may have a part too."""
        try:
            if isinstance(part, torch.Tensor):
                storage = part.untyped_storage()
                place, whole = storage.data_ptr(), storage.nbytes()
            else:
                root = part
                while isinstance(root.base, np.ndarray):
                    root = root.base
                place, whole = root.ctypes.data, root.nbytes
            own = min(int(part.nbytes), whole - self._counted[place])
        except (NotImplementedError, RuntimeError):
            self.total += sys.getsizeof(part)  # nested, sparse: it does not say
            return
        self._counted[place] += max(own, 0)
        self.total += max(own, 0)
