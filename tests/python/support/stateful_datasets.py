"""Datasets with and without states, and interruptions, for tests of the drop-in's states."""

import itertools
import pickle

import torch
from torch.utils.data import IterableDataset

from feedline.torch import DataLoader


class Numbers:
    """A map-style dataset without a state."""

    def __init__(self, n=20):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return i


class Counting(Numbers):
    """A map-style dataset that counts what it has made."""

    def __init__(self, n=20):
        super().__init__(n)
        self.made = 0

    def __getitem__(self, i):
        self.made += 1
        return torch.tensor([i, self.made])

    def state_dict(self):
        return {"made": self.made}

    def load_state_dict(self, state):
        self.made = state["made"]


class Stream(IterableDataset):
    """An iterable dataset whose iterator knows where it is; sharded by worker."""

    def __init__(self, n=21):
        self.n = n

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        return StreamIterator(list(range(first, self.n, step)))


class StreamIterator:
    def __init__(self, items):
        self.items = items
        self.at = 0

    def __iter__(self):
        return self

    def __next__(self):
        if self.at >= len(self.items):
            raise StopIteration
        self.at += 1
        return self.items[self.at - 1]

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]


class Plain(IterableDataset):
    """An iterable dataset without any state."""

    def __init__(self, n=21):
        self.n = n

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        yield from range(first, self.n, step)


class Itself(IterableDataset):
    """An iterable dataset that is its own iterator."""

    def __init__(self, n=12):
        self.n, self.at = n, 0

    def __iter__(self):
        self.at = 0
        return self

    def __next__(self):
        if self.at >= self.n:
            raise StopIteration
        self.at += 1
        return self.at - 1

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]


class Resets(IterableDataset):
    """Knows where it is; is back at its start once it is exhausted. Later workers have less."""

    def __init__(self, n=21):
        self.n, self.at = n, 0

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        items = range(first, self.n, step)[: self.n // (first + 1)]
        for i in range(self.at, len(items)):
            self.at = i + 1
            yield items[i]
        self.at = 0

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]


class Uneven(IterableDataset):
    """Without a state; some workers have much, some nothing."""

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        worker = 0 if info is None else info.id
        return iter(range(100 * worker, 100 * worker + (3, 14, 0)[worker]))


def values(batches):
    return [batch.tolist() if hasattr(batch, "tolist") else batch for batch in batches]


def loader(dataset, mode, cls=DataLoader, **settings):
    workers, kind = mode
    extra = {"worker_mode": kind} if cls is DataLoader else {}
    return cls(dataset, num_workers=workers, **{"batch_size": 3} | settings, **extra)


def interrupted(make, at):
    """The batches after a state taken `at` batches into an epoch, and the state."""
    first = make()
    iterator = iter(first)
    before = values(itertools.islice(iterator, at))
    state = pickle.loads(pickle.dumps(first.state_dict()))
    del iterator
    second = make()
    second.load_state_dict(state)
    return before, values(second), state
