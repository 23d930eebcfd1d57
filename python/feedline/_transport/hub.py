"""The main process's hub, and the end of it that a worker has."""

from __future__ import annotations

import queue
from multiprocessing import reduction
from typing import TYPE_CHECKING, Any, Protocol

from feedline import _feedline
from feedline._transport import codec

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Hub", "WorkerEnd"]


class _Fd(Protocol):
    """A descriptor on its way to another process."""

    def detach(self) -> int:
        """Return the descriptor, which is the caller's from now on."""


class Hub:
    """The main process's side: sends tasks to workers, receives their results.

    Any thread may call any method. In a forked child every method raises
    `feedline.errors.ForkError`; dropping the hub or received tensors there changes nothing here.

    Parameters
    ----------
    workers
        How many workers there will be. Each is one process with `worker_end` of its number.
    spares
        How many workers may be replaced while something of theirs is still in use.

    Attributes
    ----------
    receive_packed
        Waits as `receive` does, but returns the worker with the payload and the buffers for
        `codec.decode`, or None when the time is over. It is the native function itself: a signal
        handler cannot raise between the arrival of a message and its being returned.

    Examples
    --------
    >>> import torch
    >>> hub = Hub(workers=1)
    >>> end = hub.worker_end(0)  # for another process, usually
    >>> hub.send(0, [3, 1, 4])
    >>> end.receive()
    [3, 1, 4]
    >>> end.send({"x": torch.arange(3.0)})
    >>> hub.receive(timeout=1)
    (0, {'x': tensor([0., 1., 2.])})
    >>> hub.close()
    """

    receive_packed: Callable[[float | None], tuple[int, bytes, list[Any]] | None]

    def __init__(self, workers: int, spares: int = 0) -> None:
        if not hasattr(_feedline, "TransportHub"):
            raise OSError("worker processes need Linux; pass worker_mode='thread'")
        self.native = _feedline.TransportHub(workers, spares)
        self.receive_packed = self.native.receive

    def worker_end(self, worker: int) -> WorkerEnd:
        """Return what worker number `worker` needs.

        Pass it to the process as an argument: with fork it is inherited, with spawn and forkserver
        it is pickled while the process starts (and only then).
        """
        return WorkerEnd(self.native.worker_end(worker))

    def send(self, worker: int, message: object) -> None:
        """Send a message to a worker.

        Never waits: what does not fit into the worker's ring is kept, and follows at the next call
        of `send` or `receive`. A worker that is gone makes no difference.

        Parameters
        ----------
        worker
            The worker's number.
        message
            Any object that can be pickled. Pickled before this returns.
        """
        self.native.send(worker, codec.encode_task(message))

    def receive(self, timeout: float | None = None) -> tuple[int, Any]:
        """Wait for the next message of any worker and return ``(worker, message)``.

        Messages of one worker arrive in the order in which it sent them. The wait runs without the
        GIL; a signal ends it at once, so that its handler runs (and may raise). A worker that is
        killed at any instant either has sent a message as a whole or not at all.

        Parameters
        ----------
        timeout
            Seconds to wait; None waits until a message comes or a signal handler raises. Nobody
            wakes the wait when a worker dies: pass a timeout and look.

        Raises
        ------
        queue.Empty
            The time is over.
        Exception
            Whatever unpickling raises; the message is gone then.
        """
        packed = self.receive_packed(timeout)
        if packed is None:
            raise queue.Empty
        worker, payload, buffers = packed
        return worker, codec.decode(payload, buffers)

    def replace(self, worker: int) -> int:
        """Return a number for the successor of a worker whose process has ended.

        It is the same number, unless something that worker sent is still in use. What it had sent
        and was not received yet is lost: receive it first.
        """
        return self.native.replace(worker)

    def close(self) -> None:
        """Let go of the shared memory: everything but what received tensors still view.

        Call it when the workers have ended. Never waits. Afterwards `send` does nothing and
        `receive` raises `queue.Empty` at once. Dropping the hub does the same.
        """
        self.native.close()


class WorkerEnd:
    """A worker's side: receives tasks, sends results.

    Made by `Hub.worker_end`. It belongs to the first process that uses it.
    """

    def __init__(self, native: _feedline.TransportEnd) -> None:
        self.native = native

    def __reduce__(self) -> tuple[Any, ...]:
        return _open_end, (reduction.DupFd(self.native.fileno()), self.native.worker)

    @property
    def worker(self) -> int:
        """The worker's number."""
        return self.native.worker

    def receive(self, timeout: float | None = None) -> Any:  # noqa: ANN401
        """Wait for the next message of the main process and return it.

        Parameters
        ----------
        timeout
            Seconds to wait; None waits for ever.

        Raises
        ------
        queue.Empty
            The time is over.
        EOFError
            The main process is gone. It is noticed within a second.
        """
        payload = self.native.receive(timeout)
        if payload is None:
            raise queue.Empty
        return codec.decode(payload, ())

    def send(self, message: object) -> None:
        """Send a message to the main process.

        Tensors and arrays are read before this returns, and may be changed afterwards; tensors that
        `default_collate` made inside `collate_into` are not copied and shared with the main
        process, as those of torch's workers are.

        Waits while the ring is full, as long as the main process lives.

        Raises
        ------
        EOFError
            The main process is gone.
        Exception
            Whatever pickling raises (`pickle.PicklingError`, `AttributeError`, `TypeError`, …).
            Nothing was sent then, and the next message can be.
        """
        payload, buffers = codec.encode(message)
        self.native.send(payload, buffers)


def _open_end(fd: _Fd, worker: int) -> WorkerEnd:
    return WorkerEnd(_feedline.TransportEnd.open(fd.detach(), worker))
