"""Batches made by the caller itself: `num_workers=0`."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any

from torch.utils.data._utils.pin_memory import pin_memory
from torch.utils.data.dataloader import _DatasetKind, _SingleProcessDataLoaderIter

from feedline.torch.order.seeding import Seeded, kept
from feedline.torch.states.bookmark import Counted, is_stateful, live_state
from feedline.torch.states.layout import Stateful
from feedline.torch.states.worker_state import state_of_worker
from feedline.torch.workers.fetching import Fetching

if TYPE_CHECKING:
    from feedline.torch.dataloader import DataLoader

__all__ = ["InlineIterator"]


class InlineIterator(Counted, _SingleProcessDataLoaderIter):
    """torch's iterator without workers, with a watch and a bookmark.

    Parameters
    ----------
    loader
        Whose batches.
    """

    def __init__(self, loader: DataLoader[Any]) -> None:
        self._bookmark = loader._bookmark
        begins = self._bookmark.start
        said = (begins.workers[0] or {}) if begins is not None and begins.workers else {}
        # The dataset first, then its iterator, which torch makes, then that.
        of_dataset = said.get("dataset_state")
        if of_dataset is not None and isinstance(loader.dataset, Stateful):
            loader.dataset.load_state_dict(of_dataset)
        self._expect_epoch(loader.generator)
        super().__init__(loader)
        self._profile_name = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
        self._latest = self._bookmark.begin(self, loader.generator)
        self._restore(said)
        self._seed = loader.seed
        if self._seed is not None and self._dataset_kind == _DatasetKind.Map:
            seeded = Seeded(self._dataset, self._seed, everything=True)
            self._dataset_fetcher.dataset = seeded
        self._fetching = Fetching(self._dataset_fetcher)
        self._note(loader)
        # Now, so that a state taken before the first batch knows of it.
        self._latest.sample(self._index_sampler, self._raw_sampler_iter)
        self._sampling = self._latest.sampling
        self._diary = loader._diary
        self._diary.begin("inline", 0)

    def _restore(self, said: dict[str, Any]) -> None:
        fetcher: Any = self._dataset_fetcher
        of_fetcher = said.get("fetcher_state")
        if of_fetcher is None or self._dataset_kind != _DatasetKind.Iterable:
            return
        iterator, of_iterator = fetcher.dataset_iter, of_fetcher.get("dataset_iter_state")
        own = iterator is fetcher.dataset
        goes_on = not self._latest.resumed_finished
        if of_iterator is not None and isinstance(iterator, Stateful) and (goes_on or own):
            iterator.load_state_dict(of_iterator)
            if not goes_on:
                # It is where its epoch ended, and begins the next one.
                fetcher.dataset_iter = iter(fetcher.dataset)
        if is_stateful(self._dataset, iterator) and goes_on:
            fetcher.ended = of_fetcher.get("fetcher_ended", False)

    def _note(self, loader: DataLoader[Any]) -> None:
        latest = self._latest
        latest.len_called = self._IterableDataset_len_called
        self._note_pipes(self._dataset)
        latest.about = loader._about()
        self._num_yielded = latest.num_yielded
        if self._dataset_kind == _DatasetKind.Iterable or isinstance(self._dataset, Stateful):
            latest.live = live_state(InlineIterator._own_state, self)
            latest.dataset = self._dataset

    def _own_state(self) -> dict[str, Any]:
        terms: Any = self._terms_for_state
        return state_of_worker(0, terms, self._dataset_fetcher)

    @property
    def _terms_for_state(self) -> Any:  # noqa: ANN401 - what `state_of_worker` looks at
        return self._OwnTerms(self._dataset, self._dataset_kind)

    class _OwnTerms:
        def __init__(self, dataset: Any, dataset_kind: int) -> None:  # noqa: ANN401
            self.dataset = dataset
            self.dataset_kind = dataset_kind

    def __del__(self) -> None:
        # The bookmark stays; what the dataset says of itself is asked for the last time.
        latest = getattr(self, "_latest", None)
        if latest is None or latest.live is None:
            return
        with suppress(Exception):  # nobody could catch it here
            latest.workers = [self._own_state()]
        latest.live = None

    def _next_data(self) -> Any:  # noqa: ANN401 - the user's batch
        self._diary.asked()
        fetching = self._fetching
        index = self._next_index()
        # Also if it cannot be made: an error costs its batch.
        self._latest.delivered()
        try:
            if self._seed is None:
                data = fetching(index)
            else:
                fetching.begin_epoch(self._latest.epoch)
                with kept() if self._dataset_kind == _DatasetKind.Map else nullcontext():
                    data = fetching(index)
        except Exception as error:
            self._diary.failed(error)
            raise
        self._diary.made(0, *fetching.took)
        if self._pin_memory:
            data = pin_memory(data, self._pin_memory_device)
        self._diary.delivered()
        return data
