"""States of datasets that torch and torchdata ship: data pipes, chained datasets, nodes."""

import itertools
import logging
import pickle

import pytest

torch = pytest.importorskip("torch")
from stateful_datasets import Numbers, Plain, Stream, interrupted, values  # noqa: E402
from torch.utils.data import (  # noqa: E402
    ChainDataset,
    ConcatDataset,
    IterableDataset,
    Subset,
    get_worker_info,
)
from torch.utils.data.datapipes.iter import IterableWrapper  # noqa: E402
from torch.utils.data.datapipes.map import SequenceWrapper  # noqa: E402

from feedline.torch import DataLoader  # noqa: E402

nodes = pytest.importorskip("torchdata.nodes")

DATASETS = {
    "pipe": lambda: IterableWrapper(range(21)).sharding_filter(),
    "shuffled pipe": lambda: IterableWrapper(range(21)).shuffle().sharding_filter(),
    "map pipe": lambda: SequenceWrapper(range(21)),
    "chain": lambda: ChainDataset([Stream(6), Plain(9)]),
    "concat": lambda: ConcatDataset([Numbers(6), Subset(Numbers(30), range(20, 29))]),
}


@pytest.mark.parametrize("workers", [0, 2, -2], ids=["inline", "workers", "persistent"])
@pytest.mark.parametrize(
    ("dataset", "own"), [*((dataset, False) for dataset in DATASETS), ("shuffled pipe", True)]
)
def test_they_go_on_and_later_epochs_are_those_of_torch(workers, dataset, own, caplog):
    caplog.set_level(logging.ERROR)

    def make(cls=DataLoader):
        return cls(
            DATASETS[dataset](),
            batch_size=3,
            num_workers=abs(workers),
            persistent_workers=workers < 0,
            generator=torch.Generator().manual_seed(3) if own else None,
        )

    torch.manual_seed(5)
    uninterrupted = make(torch.utils.data.DataLoader)
    whole = [values(uninterrupted) for _ in range(3)]
    del uninterrupted
    for epoch, at in [(0, None), (1, 0), (1, 4), (1, None)]:
        torch.manual_seed(5)
        first = make()
        seen = [values(first) for _ in range(epoch)]
        iterator = iter(first)
        part = values(itertools.islice(iterator, at))
        state = pickle.loads(pickle.dumps(first.state_dict()))
        del iterator, first
        second = make()
        second.load_state_dict(state)
        assert state["_iterator_finished"] is (at is None)
        if at is not None:
            part += values(second)
        seen += [part, *(values(second) for _ in range(2 - epoch))]
        assert seen == whole, (epoch, at)


def test_a_state_between_two_epochs_does_not_change_the_shuffle_to_come():
    for workers, persistent in [(0, False), (2, False), (2, True)]:
        settings = {"num_workers": workers, "persistent_workers": persistent}
        torch.manual_seed(2)
        plain = torch.utils.data.DataLoader(DATASETS["shuffled pipe"](), **settings)
        whole = [values(plain) for _ in range(3)]
        del plain
        torch.manual_seed(2)
        asked, seen = DataLoader(DATASETS["shuffled pipe"](), **settings), []
        for _ in range(3):
            seen.append(values(asked))
            asked.state_dict()
        assert seen == whole


class OfNodes(IterableDataset):
    """A graph of torchdata's nodes as a dataset: its loader has the state."""

    def __init__(self, n=18):
        self.n = n
        self.loader = None
        self.loaded = None

    def __iter__(self):
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        graph = nodes.Mapper(nodes.IterableWrapper(range(first, self.n, step)), abs)
        self.loader = nodes.Loader(graph)
        if self.loaded is not None:
            self.loader.load_state_dict(self.loaded)
            self.loaded = None
        return iter(self.loader)

    def state_dict(self):
        return {} if self.loader is None else self.loader.state_dict()

    def load_state_dict(self, state):
        self.loaded = state or None


@pytest.mark.parametrize("workers", [0, 2])
def test_graphs_of_nodes_go_on_by_their_own_state(workers, caplog):
    def make():
        return DataLoader(OfNodes(), batch_size=2, num_workers=workers)

    whole = values(make())
    for at in (0, 1, 4):
        before, after, _ = interrupted(make, at)
        assert before + after == whole
    assert "fast-forwarding" not in caplog.text
