"""Batches made by the caller itself: `num_workers=0`."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any

from feedline._torch_private import (
    IterDataPipe,
    MapDataPipe,
    _DatasetKind,
    _SingleProcessDataLoaderIter,
    apply_sharding,
    pin_memory,
)
from feedline.torch.iterators.faults import check, sample_error
from feedline.torch.iterators.left_open import LeftOpen, why_fixed
from feedline.torch.order.seeding import Seeded, kept
from feedline.torch.states.bookmark import Counted, is_stateful, live_state
from feedline.torch.states.layout import Stateful
from feedline.torch.states.worker_state import state_of_worker
from feedline.torch.workers.claiming import Maker
from feedline.torch.workers.fetching import Fetching, Terms
from feedline.torch.workers.offer import Claim, Offer, Tolerated

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
        begins = loader._bookmark.start
        said = (begins.workers[0] or {}) if begins is not None and begins.workers else {}
        # The dataset first, then its iterator, which the fetcher makes, then that.
        of_dataset = said.get("dataset_state")
        if of_dataset is not None and isinstance(loader.dataset, Stateful):
            loader.dataset.load_state_dict(of_dataset)
        self._begin_epoch(loader)
        self._profile_name = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
        self._make_fetcher()
        self._restore(said)
        self._seed = loader.seed
        if self._seed is None and isinstance(loader.num_workers, LeftOpen):
            # As workers would have it: which of them make the batches must not show.
            self._seed = int(self._base_seed) if why_fixed(loader) is None else None
        if self._seed is not None and self._dataset_kind == _DatasetKind.Map:
            seeded = Seeded(self._dataset, self._seed, everything=True)
            self._dataset_fetcher.dataset = seeded
        self._fetching = Fetching(self._dataset_fetcher)
        self._note(loader)
        # Now, so that a state taken before the first batch knows of it.
        self._count_samples()
        self._faults = loader._faults
        self._tolerance: _Tolerance | None = None
        if loader.on_error != "raise" and self._dataset_kind == _DatasetKind.Map:
            self._tolerance = _Tolerance(self, loader)
        self._diary = loader._diary
        self._diary.begin("inline", 0)

    def _make_fetcher(self) -> None:
        """Do what torch's iterator does with a dataset, in its words."""
        if self._timeout != 0:
            raise AssertionError("_SingleProcessDataLoaderIter requires timeout == 0")
        if self._num_workers != 0:
            raise AssertionError("_SingleProcessDataLoaderIter requires num_workers == 0")
        if isinstance(self._dataset, IterDataPipe | MapDataPipe):
            apply_sharding(self._dataset, self._world_size, self._rank)
        self._dataset_fetcher = _DatasetKind.create_fetcher(
            self._dataset_kind,
            self._dataset,
            self._auto_collation,
            self._collate_fn,
            self._drop_last,
        )

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
            make: Any = fetching if self._tolerance is None else self._tolerance
            if self._seed is None:
                data = make(index)
            else:
                fetching.begin_epoch(self._latest.epoch)
                with kept() if self._dataset_kind == _DatasetKind.Map else nullcontext():
                    data = make(index)
        except Exception as error:
            self._diary.failed(error)
            raise
        self._diary.made(0, *make.took)
        if self._pin_memory:
            data = pin_memory(data, self._pin_memory_device)
        self._diary.delivered()
        return data


class _Tolerance:
    """Makes batches without the samples that fail, or with others instead."""

    def __init__(self, iterator: InlineIterator, loader: DataLoader[Any]) -> None:
        terms = Terms(
            dataset=loader.dataset,
            dataset_kind=iterator._dataset_kind,
            auto_collation=iterator._auto_collation,
            collate_fn=iterator._collate_fn,
            drop_last=iterator._drop_last,
            base_seed=0,
            init_fn=None,
            num_workers=0,
            shared_seed=None,
            on_error=loader.on_error,
        )
        self._maker = Maker(terms, 0, "in the main process", None, None)
        self._dataset = iterator._dataset_fetcher.dataset
        self._latest = iterator._latest
        self._is_batched = iterator._auto_collation
        self._policy, self._most = loader.on_error, loader.max_errors
        self._faults = loader._faults
        self._samples = iterator._latest.start.sampler_yielded * (loader.batch_size or 1)

    @property
    def took(self) -> tuple[int, int, int]:
        """Samples, and nanoseconds of fetching and collating them."""
        return self._maker.took

    def __call__(self, index: Any) -> Any:  # noqa: ANN401 - the user's batch
        rows = 0
        if self._is_batched:
            index = list(index)
            rows = len(index)
        offer = Offer(0, index, rows, self._latest.epoch, 0, 0)
        first = self._samples
        self._samples += len(offer.span(0))
        data = self._maker(Claim(offer, 0), self._dataset)
        if not isinstance(data, Tolerated):
            return data
        failed = data.failed
        errors = [sample_error(fault, offer.epoch, first) for fault in failed]
        made = len(offer.span(0)) - sum(fault.replaced_by is None for fault in failed)
        check(self._policy, failed, made, errors)
        self._faults.delivered(errors, self._most)
        return data.data
