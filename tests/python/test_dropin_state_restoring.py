"""How a dataset and its iterator are put back: in which order, and what they draw afterwards."""

import itertools
import pickle

import pytest

torch = pytest.importorskip("torch")
from stateful_datasets import Numbers, values  # noqa: E402
from torch.utils.data import IterableDataset  # noqa: E402
from torchdata.stateful_dataloader import StatefulDataLoader  # noqa: E402

from feedline.torch import DataLoader  # noqa: E402

# torchdata's own.
pytestmark = pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")


class Recorded(IterableDataset):
    """Its samples say what was done to it and its iterator."""

    def __init__(self):
        self.calls = []

    def __iter__(self):
        self.calls.append("iter")
        return RecordedIterator(self.calls)

    def state_dict(self):
        return {"calls": len(self.calls)}

    def load_state_dict(self, state):
        self.calls.append(f"dataset loads {state['calls']}")


class RecordedIterator:
    def __init__(self, calls):
        self.calls, self.at = calls, 0

    def __next__(self):
        if self.at == 6:
            raise StopIteration
        self.at += 1
        return ", ".join([*self.calls, str(self.at)])

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.calls.append(f"iterator loads {state['at']}")
        self.at = state["at"]


@pytest.mark.parametrize("workers", [0, 2])
def test_first_the_dataset_then_its_iterator_which_is_made_once(workers):
    seen = []
    for cls in (StatefulDataLoader, DataLoader):
        first = cls(Recorded(), num_workers=workers, batch_size=None)
        iterator = iter(first)
        next(iterator), next(iterator)
        second = cls(Recorded(), num_workers=workers, batch_size=None)
        second.load_state_dict(first.state_dict())
        del iterator
        seen.append(list(second))
    assert seen[0] == seen[1]
    told = 1 if workers else 2
    assert seen[1][0] == f"dataset loads 1, iter, iterator loads {told}, {told + 1}"


class Drawing(Numbers):
    """Draws from torch's global generator, and knows where that is."""

    def __getitem__(self, i):
        return torch.rand(2)

    def state_dict(self):
        return {"generator": torch.get_rng_state()}

    def load_state_dict(self, state):
        torch.set_rng_state(state["generator"])


class DrawingStream(IterableDataset):
    def __init__(self):
        self.at = 0

    def __iter__(self):
        while self.at < 12:
            self.at += 1
            yield torch.rand(2)
        self.at = 0

    def state_dict(self):
        return {"generator": torch.get_rng_state(), "at": self.at}

    def load_state_dict(self, state):
        torch.set_rng_state(state["generator"])
        self.at = state["at"]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    ("dataset", "shuffle"), [(Drawing, False), (Drawing, True), (DrawingStream, None)]
)
def test_a_dataset_that_saves_the_generator_draws_what_it_would_have_drawn(
    workers, dataset, shuffle
):
    def make():
        return DataLoader(dataset(), batch_size=2, shuffle=shuffle, num_workers=workers)

    for at in (0, 1, 4):
        torch.manual_seed(1)
        first = make()
        iterator = iter(first)
        list(itertools.islice(iterator, at))
        state = pickle.loads(pickle.dumps(first.state_dict()))
        rest = values(iterator)
        # Another process has drawn other things.
        torch.manual_seed(77)
        second = make()
        second.load_state_dict(state)
        assert values(second) == rest, at


@pytest.mark.parametrize("dataset", [Drawing, DrawingStream])
def test_so_it_does_in_the_following_epoch(dataset):
    torch.manual_seed(1)
    first = DataLoader(dataset(), batch_size=2)
    list(first)
    state = pickle.loads(pickle.dumps(first.state_dict()))
    epoch = values(first)
    torch.manual_seed(77)
    second = DataLoader(dataset(), batch_size=2)
    second.load_state_dict(state)
    assert values(second) == epoch
