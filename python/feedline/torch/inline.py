"""Batches made by the caller itself: `num_workers=0`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch.utils.data._utils.pin_memory import pin_memory
from torch.utils.data.dataloader import _SingleProcessDataLoaderIter

from feedline.torch.fetching import Fetching

if TYPE_CHECKING:
    from feedline.torch.dataloader import DataLoader

__all__ = ["InlineIterator"]


class InlineIterator(_SingleProcessDataLoaderIter):
    """torch's iterator without workers, with a watch.

    Parameters
    ----------
    loader
        Whose batches.
    """

    def __init__(self, loader: DataLoader[Any]) -> None:
        super().__init__(loader)
        self._profile_name = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
        self._fetching = Fetching(self._dataset_fetcher)
        self._diary = loader._diary
        self._diary.begin("inline", 0)

    def _next_data(self) -> Any:  # noqa: ANN401 - the user's batch
        self._diary.asked()
        fetching = self._fetching
        data = fetching(self._next_index())
        self._diary.made(0, fetching.fetch_ns, fetching.collate_ns)
        if self._pin_memory:
            data = pin_memory(data, self._pin_memory_device)
        self._diary.delivered()
        return data
