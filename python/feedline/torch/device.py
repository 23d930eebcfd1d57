"""Batches on a device, each copied while the one before it is used."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sized
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar, cast

import torch
from torch.nn.utils.rnn import PackedSequence

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

__all__ = ["OnDevice", "to_device"]

T = TypeVar("T")


def to_device(
    loader: Iterable[T], device: torch.device | str | int, *, non_blocking: bool = True
) -> OnDevice[T]:
    """Deliver a loader's batches on a device, each copied while the one before it is used.

    For a CUDA device the copy of the next batch is issued on a stream of its own before the current
    batch is handed out, so it runs beside the current step. It needs page-locked batches
    (``pin_memory=True``) to do so; from ordinary memory the batches are the same, but later. For
    any other device each batch is moved when it is asked for.

    Parameters
    ----------
    loader
        Anything that yields batches: tensors, or tuples, lists, dicts and named tuples of them,
        nested as you like. What is not a tensor is passed on as it is.
    device
        Where the batches shall be.
    non_blocking
        Whether the host may go on while a batch is copied to a CUDA device.

    Returns
    -------
    OnDevice
        An iterable of the same batches. It may be iterated as often as the loader may, and has its
        length.

    Notes
    -----
    An exception of the loader is raised where the batch would have been, after all batches before
    it, and iteration can go on after it if the loader's can. On a CUDA device there is one batch
    more than is being used, and the loader is asked for a batch one step before it is used.

    Examples
    --------
    >>> import torch
    >>> batches = [
    ...     {"x": torch.ones(2, 3), "name": ["a", "b"]},
    ...     {"x": torch.zeros(1, 3), "name": ["c"]},
    ... ]
    >>> for batch in to_device(batches, "cpu"):
    ...     print(batch["x"].sum().item(), batch["name"])
    6.0 ['a', 'b']
    0.0 ['c']
    """
    return OnDevice(loader, torch.device(device), non_blocking=non_blocking)


class OnDevice(Generic[T]):
    """A loader's batches on a device; what `to_device` returns.

    Parameters
    ----------
    loader
        Whose batches.
    device
        Where they shall be.
    non_blocking
        As in `to_device`.

    Attributes
    ----------
    loader
        The loader, with all that it offers besides batches.
    device
        Where the batches shall be.
    """

    def __init__(
        self, loader: Iterable[T], device: torch.device, *, non_blocking: bool = True
    ) -> None:
        self.loader = loader
        self.device = device
        self._non_blocking = non_blocking

    def __iter__(self) -> Iterator[T]:
        if self.device.type == "cuda":
            return _OneAhead(self.loader, self.device, non_blocking=self._non_blocking)
        # To the CPU never without waiting: nobody would know when the values are there.
        non_blocking = self._non_blocking and self.device.type != "cpu"
        move = partial(_moved, device=self.device, non_blocking=non_blocking)
        # Not a generator: that would end with the first exception, and the loader may go on.
        return map(move, self.loader)

    def __len__(self) -> int:
        return len(cast(Sized, self.loader))

    def __repr__(self) -> str:
        return f"to_device({self.loader!r}, {str(self.device)!r})"


class _Event(Protocol):
    """The part of `torch.cuda.Event` that is used here."""

    def query(self) -> bool: ...
    def synchronize(self) -> None: ...


class _Stream(Protocol):
    """The part of `torch.cuda.Stream` that is used here."""

    @property
    def device(self) -> torch.device: ...
    def record_event(self) -> _Event: ...
    def wait_event(self, event: Any) -> None: ...  # noqa: ANN401 - of the same module
    def wait_stream(self, stream: Any) -> None: ...  # noqa: ANN401 - as above


class _Streams(Protocol):
    """The part of the module `torch.cuda` that is used here."""

    def Stream(self, *, device: torch.device) -> _Stream: ...  # noqa: N802 - torch's name
    def current_stream(self, device: torch.device) -> _Stream: ...
    def stream(self, stream: Any) -> AbstractContextManager[Any]: ...  # noqa: ANN401 - as above


class _Copy(NamedTuple):
    """A batch on its way."""

    batch: Any
    done: _Event


class _End:
    """Stands where the batch after the last would be."""


class _OneAhead(Iterator[T]):
    """Batches, of which the next is always being copied on a side stream.

    What makes it safe:

    * The stream that uses a batch waits for the event recorded after that batch's copy, not for the
      side stream, where the next copy already runs.
    * Each tensor is recorded on the stream that uses it. It was allocated on the side stream, and
      the caching allocator would otherwise give its memory to a later copy while it is being read.
    * The batch in host memory is kept until its copy is done. Its memory is the loader's, and would
      be filled anew while the device still reads it.
    """

    def __init__(
        self,
        batches: Iterable[T],
        device: torch.device,
        *,
        non_blocking: bool,
        streams: _Streams | None = None,
    ) -> None:
        self._copying: deque[tuple[_Event, object]] = deque()
        self._streams = streams if streams is not None else cast(_Streams, torch.cuda)
        self._device = device
        self._non_blocking = non_blocking
        self._side = self._streams.Stream(device=device)
        self._batches = iter(batches)
        self._ahead: _Copy | Exception | _End | None = None

    def __next__(self) -> T:
        if self._ahead is None:
            self._ahead = self._take()
        current = self._ahead
        if isinstance(current, _Copy):
            # Before the caller's step, so that the two run side by side. If this is interrupted,
            # the current batch is still there for the next call.
            self._ahead = self._take()
            return self._handed_over(current)
        if isinstance(current, Exception):
            # The loader is asked again only when the caller has seen this and goes on.
            self._ahead = None
            raise current
        self.close()
        raise StopIteration

    def close(self) -> None:
        """End the iteration: the loader's iterator is let go, and no copy is left running."""
        self._ahead = _End()
        self._batches = iter(())
        while self._copying:
            self._copying[0][0].synchronize()
            self._copying.popleft()

    def __del__(self) -> None:
        self.close()

    def _take(self) -> _Copy | Exception | _End:
        while self._copying and self._copying[0][0].query():
            self._copying.popleft()
        try:
            return self._copied(next(self._batches))
        except StopIteration:
            return _End()
        except Exception as error:
            return error  # raised where its batch would have been

    def _copied(self, source: T) -> _Copy:
        if any(tensor.is_cuda for tensor in _tensors(source)):
            # It was made on the device, by work that may still be queued.
            self._side.wait_stream(self._streams.current_stream(self._side.device))
        try:
            with self._streams.stream(self._side):
                batch = _moved(source, self._device, self._non_blocking)
        finally:
            # Even if only some of its tensors could be copied.
            done = self._side.record_event()
            self._copying.append((done, source))
        return _Copy(batch, done)

    def _handed_over(self, copied: _Copy) -> T:
        user = self._streams.current_stream(self._side.device)
        user.wait_event(copied.done)
        for tensor in _tensors(copied.batch):
            if tensor.is_cuda:
                tensor.record_stream(cast(torch.Stream, user))
        return cast(T, copied.batch)


def _moved(batch: Any, device: torch.device, non_blocking: bool) -> Any:  # noqa: ANN401 - a nest
    """Return the same nest with its tensors on the device."""
    if isinstance(batch, torch.Tensor):
        return batch.to(device, non_blocking=non_blocking)
    if isinstance(batch, PackedSequence):
        # A named tuple, but its batch sizes must stay on the CPU, and it knows that. Its signature
        # mentions types only; it passes all arguments on to its tensors.
        return cast(Any, batch).to(device, non_blocking=non_blocking)
    if isinstance(batch, Mapping):
        items = {key: _moved(value, device, non_blocking) for key, value in batch.items()}
        if type(batch) is dict or not isinstance(batch, MutableMapping):
            return items
        # A copy keeps what else it has, such as the factory of a `defaultdict`.
        other = copy.copy(batch)
        other.update(items)
        return other
    if isinstance(batch, (tuple, list)):
        values = [_moved(value, device, non_blocking) for value in batch]
        make = getattr(batch, "_make", type(batch))
        return make(values)
    return batch


def _tensors(batch: Any) -> Iterator[torch.Tensor]:  # noqa: ANN401 - a nest
    """Yield all tensors of a nest."""
    if isinstance(batch, torch.Tensor):
        yield batch
    elif isinstance(batch, Mapping):
        for value in batch.values():
            yield from _tensors(value)
    elif isinstance(batch, (tuple, list)):
        for value in batch:
            yield from _tensors(value)
