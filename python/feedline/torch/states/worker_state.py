"""The states of a worker's own objects: taken with each batch, and put back when it starts.

A worker has its own copy of the dataset, and of an iterable one its own iterator. What they say of
themselves travels with the batch it belongs to, so that the main process has for each worker the
state after the last batch that was *delivered*, whatever the worker has made since.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from feedline._torch_private import _DatasetKind, _IterableDatasetStopIteration, pin_memory
from feedline.torch.states.layout import Stateful, state_of

if TYPE_CHECKING:
    from feedline._torch_private import _BaseDatasetFetcher
    from feedline.torch.workers.fetching import Terms

__all__ = ["AskState", "Asked", "Ended", "Stamped", "has_states", "restored", "state_of_worker"]


class Asked:
    """An index for a worker, with what else it must know."""

    __slots__ = ("epoch", "index", "with_state")

    def __init__(self, index: Any, epoch: int, with_state: bool) -> None:  # noqa: ANN401
        self.index = index
        self.epoch = epoch
        self.with_state = with_state

    def __reduce__(self) -> tuple[Any, ...]:
        return Asked, (self.index, self.epoch, self.with_state)


class AskState:
    """A task: say what your state is before the first batch."""

    __slots__ = ("worker",)

    def __init__(self, worker: int) -> None:
        self.worker = worker

    def __reduce__(self) -> tuple[Any, ...]:
        return AskState, (self.worker,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AskState) and other.worker == self.worker

    def __hash__(self) -> int:
        return hash(self.worker)


class Stamped:
    """A batch and the state of its worker after it."""

    __slots__ = ("data", "state")

    def __init__(self, data: Any, state: dict[str, Any]) -> None:  # noqa: ANN401 - the user's batch
        self.data = data
        self.state = state

    def __reduce__(self) -> tuple[Any, ...]:
        return Stamped, (self.data, self.state)

    def pin_memory(self, device: Any = None) -> Stamped:  # noqa: ANN401 - as torch has it
        """Pin the batch; torch's thread asks what it does not know."""
        return Stamped(pin_memory(self.data, device), self.state)


class Ended(_IterableDatasetStopIteration):
    """A worker's dataset is exhausted; its state then."""

    def __init__(self, worker_id: int, state: dict[str, Any]) -> None:
        super().__init__(worker_id)
        object.__setattr__(self, "state", state)

    def __reduce__(self) -> tuple[Any, ...]:
        return Ended, (self.worker_id, self.state)  # type: ignore[attr-defined]


def has_states(dataset: object, dataset_kind: int) -> bool:
    """Whether workers of this dataset may have something to say."""
    return dataset_kind == _DatasetKind.Iterable or isinstance(dataset, Stateful)


def state_of_worker(worker_id: int, terms: Terms, fetcher: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return what torchdata calls a worker snapshot.

    If the iterator is the dataset itself, its state is there once.
    """
    if terms.dataset_kind != _DatasetKind.Iterable:
        return {
            "worker_id": worker_id,
            "dataset_state": state_of(terms.dataset),
            "fetcher_state": None,
        }
    iterator = fetcher.dataset_iter
    return {
        "worker_id": worker_id,
        "dataset_state": None if iterator is fetcher.dataset else state_of(fetcher.dataset),
        "fetcher_state": {
            "dataset_iter_state": state_of(iterator),
            "fetcher_ended": fetcher.ended,
        },
    }


def restored(
    terms: Terms, state: dict[str, Any] | None, *, goes_on: bool = True
) -> _BaseDatasetFetcher:
    """Return a fetcher at the place of a state: dataset first, then its iterator, made once.

    Parameters
    ----------
    terms
        What to make batches of.
    state
        A worker snapshot; None begins at the start.
    goes_on
        Whether the iterator goes on too; else it begins anew, as at an epoch's start.
    """
    if state is None:
        return terms.fetcher()
    of_dataset = state.get("dataset_state")
    if of_dataset is not None and isinstance(terms.dataset, Stateful):
        terms.dataset.load_state_dict(of_dataset)
    fetcher: Any = terms.fetcher()
    of_fetcher = state.get("fetcher_state")
    if of_fetcher is None or terms.dataset_kind != _DatasetKind.Iterable:
        return fetcher  # type: ignore[no-any-return]
    of_iterator = of_fetcher.get("dataset_iter_state")
    own = fetcher.dataset_iter is fetcher.dataset
    if of_iterator is not None and isinstance(fetcher.dataset_iter, Stateful) and (goes_on or own):
        fetcher.dataset_iter.load_state_dict(of_iterator)
    if not goes_on:
        # A dataset that is its own iterator is where its epoch ended, and begins the next one.
        return terms.fetcher() if own else fetcher
    if of_dataset is not None or of_iterator is not None:
        # Some datasets are back at their start by then.
        fetcher.ended = of_fetcher.get("fetcher_ended", False)
    return fetcher  # type: ignore[no-any-return]
