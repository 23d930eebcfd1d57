"""When workers sleep, told where the main process sees it: in two cells of each worker's own.

The first says since when it sleeps (0: it does not), the second how long it has slept before. Each
has one writer, the worker, and whoever looks adds the two. It may look between two writes, and then
misses the sleep that was just over until the next look: nobody decides by one look.
"""

from __future__ import annotations

from time import monotonic_ns
from typing import TYPE_CHECKING, Any, TypeVar

from feedline.torch.workers.board import NOTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["Rest", "is_up", "slept_ns"]

T = TypeVar("T")

# Behind what a worker notes of its samples.
_SINCE, _BEFORE = 3, 4


class Rest:
    """A worker's sleep.

    Parameters
    ----------
    board
        Where it is told.
    worker
        Whose.
    """

    def __init__(self, board: Any, worker: int) -> None:  # noqa: ANN401 - a board
        self._store = board.store
        self._since, self._before = NOTES * worker + _SINCE, NOTES * worker + _BEFORE
        # Not 0, which says that there is no worker yet.
        self._slept = 1
        self._store(self._since, 0)
        self._store(self._before, 1)

    def during(self, receive: Callable[[], T]) -> T:
        """Wait for something, and count the time."""
        began = monotonic_ns()
        self._store(self._since, began)
        try:
            return receive()
        finally:
            self._slept += monotonic_ns() - began
            self._store(self._since, 0)
            self._store(self._before, self._slept)


def slept_ns(board: Any, workers: Iterable[int]) -> int:  # noqa: ANN401 - a board
    """Return how long some workers have slept, all together."""
    slept = 0
    for worker in workers:
        since = board.load(NOTES * worker + _SINCE)
        slept += board.load(NOTES * worker + _BEFORE)
        if since:
            slept += max(monotonic_ns() - since, 0)
    return slept


def is_up(board: Any, worker: int) -> bool:  # noqa: ANN401 - a board
    """Whether a worker has begun to look for work."""
    return bool(board.load(NOTES * worker + _BEFORE))
