"""States beside torchdata's StatefulDataLoader: the same story told to both, at every position."""

import itertools
import pickle

import pytest

torch = pytest.importorskip("torch")
from stateful_datasets import Itself, Numbers, values  # noqa: E402
from torch.utils.data import IterableDataset, get_worker_info  # noqa: E402
from torchdata.stateful_dataloader import StatefulDataLoader  # noqa: E402

from feedline.torch import DataLoader  # noqa: E402

# torchdata's own.
pytestmark = pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")


class Drawn(Numbers):
    """Counts what it has made, and draws from its worker's generator."""

    def __init__(self):
        super().__init__(8)
        self.made = 0

    def __getitem__(self, i):
        self.made += 1
        return torch.tensor([i, self.made, int(torch.randint(10**9, ()))])

    def state_dict(self):
        return {"made": self.made}

    def load_state_dict(self, state):
        self.made = state["made"]


class DrawnStream(IterableDataset):
    """The same as a stream, which counts its epochs."""

    def __init__(self):
        self.at = self.epochs = 0

    def __iter__(self):
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        items = range(first, 8, step)
        for place in range(self.at, len(items)):
            self.at = place + 1
            yield torch.tensor([items[place], self.epochs, int(torch.randint(10**9, ()))])
        self.at, self.epochs = 0, self.epochs + 1

    def state_dict(self):
        return {"at": self.at, "epochs": self.epochs}

    def load_state_dict(self, state):
        self.at, self.epochs = state["at"], state["epochs"]


# The epoch of the state, and after how many batches; "over": after the end was said; None: nothing
# was asked of the epoch yet.
BEFORE_ALL, BETWEEN = (0, None), (1, None)
PLACES = {
    0: [BEFORE_ALL, (0, 0), (0, 1), (0, 3), (0, 4), (0, "over"), BETWEEN, (1, 0), (1, 2)],
    1: [BEFORE_ALL, (0, 4), BETWEEN],
    2: [(0, 0), (0, 1), (0, "over"), (1, 3)],
}


def story(cls, dataset, workers, place, *, own_generator, **settings):
    """Return the state, what follows it in the loader, and in a new one that is seeded alike."""

    def make():
        torch.manual_seed(9)
        generator = torch.Generator().manual_seed(9) if own_generator else None
        return cls(dataset(), batch_size=2, num_workers=workers, generator=generator, **settings)

    epoch, at = place
    first = make()
    for _ in range(epoch):
        list(first)
    rest = []
    if at is None:
        state = pickle.loads(pickle.dumps(first.state_dict()))
    else:
        iterator = iter(first)
        list(itertools.islice(iterator, None if at == "over" else at))
        state = pickle.loads(pickle.dumps(first.state_dict()))
        if at != "over":
            rest.append(values(iterator))
        del iterator
    rest += [values(first) for _ in range(2 - len(rest))]
    del first
    second = make()
    second.load_state_dict(state)
    return state, rest, [values(second) for _ in range(2)]


def of_users(state):
    """Return what the user's own objects say of themselves in a state."""
    if "_snapshot" not in state:
        states = [state]
    else:
        snapshots = state["_snapshot"]["_worker_snapshots"]
        states = [snapshots[f"worker_{worker}"] for worker in range(len(snapshots))]
    fetchers = [one["fetcher_state"] or {} for one in states]
    return [
        (one["dataset_state"], fetcher.get("dataset_iter_state"))
        for one, fetcher in zip(states, fetchers, strict=True)
    ]


@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("dataset", [Drawn, DrawnStream, Itself], ids=lambda kind: kind.__name__)
def test_a_state_says_and_does_what_torchdatas_does(dataset, workers):
    for number, place in enumerate(PLACES[workers]):
        told = {"own_generator": number % 2 == 0}
        theirs = story(StatefulDataLoader, dataset, workers, place, **told)
        ours = story(DataLoader, dataset, workers, place, **told)
        finished = theirs[0]["_iterator_finished"]
        assert ours[0]["_iterator_finished"] == finished, place
        # At the end ours say where they ended, theirs where they were after the last batch.
        if not (finished and workers):
            assert of_users(ours[0]) == of_users(theirs[0]), place
        assert ours[1] == theirs[1], place
        # What repeats with theirs does so with ours.
        for epoch, (follows, repeated) in enumerate(zip(*theirs[1:], strict=True)):
            if follows == repeated:
                assert ours[2][epoch] == follows, (place, epoch)


@pytest.mark.parametrize(("dataset", "every"), [(Drawn, 3), (DrawnStream, None)])
def test_before_the_first_batch_a_state_has_what_workers_say_however_rarely_they_do(dataset, every):
    for place in (BEFORE_ALL, (1, 0)):
        settings = {"own_generator": False, "snapshot_every_n_steps": every or 0}
        theirs = story(StatefulDataLoader, dataset, 2, place, **settings)
        ours = story(DataLoader, dataset, 2, place, **settings)
        assert of_users(ours[0]) == of_users(theirs[0]) != [(None, None)] * 2, place
        assert ours[2] == ours[1] == theirs[1]


@pytest.mark.parametrize("settings", [{}, {"shuffle": True}, {"persistent_workers": True}], ids=str)
@pytest.mark.parametrize("mode", ["thread", "process"])
def test_seeded_alike_a_new_loader_repeats_all_epochs_that_follow(settings, mode):
    """torchdata's does so from the first epoch only."""

    def make():
        torch.manual_seed(4)
        return DataLoader(Seeds(), batch_size=2, num_workers=2, worker_mode=mode, **settings)

    for epochs in range(3):
        for at in (None, 0, 3) if mode == "thread" else (None,):
            first = make()
            for _ in range(epochs):
                list(first)
            iterator = None if at is None else iter(first)
            if iterator is not None:
                list(itertools.islice(iterator, at))
            state = first.state_dict()
            follows = [values(first if iterator is None else iterator)]
            follows += [values(first) for _ in range(2)]
            second = make()
            second.load_state_dict(state)
            assert [values(second) for _ in range(3)] == follows, (epochs, at)


class Seeds(Numbers):
    """Says which sample it is and its worker's seed."""

    def __init__(self):
        super().__init__(8)

    def __getitem__(self, i):
        return torch.tensor([i, get_worker_info().seed])
