"""States with `in_order=False`: batches come as they are ready, and none is lost or repeated."""

import itertools
import logging
import pickle
import random
import threading
from collections import Counter

import pytest

torch = pytest.importorskip("torch")
from stateful_datasets import (  # noqa: E402
    Counting,
    Numbers,
    Plain,
    Resets,
    Stream,
    Uneven,
    values,
)
from torch.utils.data import IterableDataset, get_worker_info  # noqa: E402

from feedline.torch import DataLoader  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")

# Threads share one dataset, and with it one state.
KINDS = [
    (Numbers, "process"),
    (Numbers, "thread"),
    (Counting, "process"),
    (Stream, "process"),
    (Stream, "thread"),
    (Resets, "process"),
    (Plain, "process"),
    (Plain, "thread"),
    (Uneven, "process"),
    (Uneven, "thread"),
]


def hold_up(batch):
    """Let some batches of some workers come late."""
    number = int(torch.as_tensor(batch[0]).flatten()[0])
    threading.Event().wait(0.004 * (number % 3 == 0) * (get_worker_info().id + 1))
    return batch


def numbers(batch):
    return [int(torch.as_tensor(sample).flatten()[0]) for sample in batch]


@pytest.mark.parametrize(
    ("dataset", "mode"), KINDS, ids=lambda kind: getattr(kind, "__name__", kind)
)
def test_over_chains_of_resumes_nothing_is_lost_or_repeated(dataset, mode):
    dice = random.Random(f"{dataset.__name__}{mode}")
    for _ in range(2):
        workers, size = dice.choice([2, 3]), dice.choice([1, 2, 3])
        every = dice.choice([1, 3, None])
        plain = DataLoader(dataset(), batch_size=size, num_workers=workers, collate_fn=list)
        expected = Counter(number for batch in plain for number in numbers(batch))
        ledger, state, ended = Counter(), None, False
        while not ended:
            one = DataLoader(
                dataset(),
                batch_size=size,
                num_workers=workers,
                worker_mode=mode,
                collate_fn=hold_up,
                # Now and then in order: states of one are for the other, too.
                in_order=dice.random() < 0.3,
                prefetch_factor=dice.choice([1, 3]),
                snapshot_every_n_steps=every,
            )
            if state is not None:
                one.load_state_dict(state)
                assert one.state_dict() == state
            steps = dice.choice([0, 1, 3, 5])
            iterator = iter(one)
            batches = list(itertools.islice(iterator, steps))
            ledger.update(number for batch in batches for number in numbers(batch))
            state = pickle.loads(pickle.dumps(one.state_dict()))
            ended = state["_iterator_finished"]
            del iterator
        assert ledger == expected


class Gated(IterableDataset):
    """Worker 0 waits for a sign; the others have three samples each."""

    def __init__(self):
        self.sign = torch.multiprocessing.Event()

    def __iter__(self):
        worker = get_worker_info().id
        if worker == 0:
            self.sign.wait()
        return GatedIterator(worker)


class GatedIterator:
    def __init__(self, worker):
        self.worker, self.at = worker, 0

    def __next__(self):
        if self.at == 3:
            raise StopIteration
        self.at += 1
        return 10 * self.worker + self.at

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]


@pytest.mark.parametrize("mode", ["process", "thread"])
def test_who_is_exhausted_is_said(mode):
    gated = Gated()
    gated.sign.set()
    loader = DataLoader(
        gated, batch_size=1, num_workers=2, in_order=False, worker_mode=mode, collate_fn=list
    )
    iterator = iter(loader)

    def fetchers():
        said = loader.state_dict()["_snapshot"]["_worker_snapshots"]
        return [said[f"worker_{worker}"]["fetcher_state"] for worker in (0, 1)]

    for _ in range(6):
        next(iterator)
        for fetcher in fetchers():
            assert not fetcher["fetcher_ended"] or fetcher["dataset_iter_state"] == {"at": 3}
    assert next(iterator, None) is None
    assert [fetcher["fetcher_ended"] for fetcher in fetchers()] == [True, True]


def test_a_worker_that_ends_while_the_first_one_hangs_is_said_to_have_ended():
    gated = Gated()
    loader = DataLoader(gated, batch_size=1, num_workers=2, in_order=False, collate_fn=list)
    iterator = iter(loader)
    # Worker 0 says nothing, not even what its state is, so no batch of it is there.
    assert [next(iterator) for _ in range(3)] == [[11], [12], [13]]
    gated.sign.set()
    assert next(iterator) == [1]
    state = loader.state_dict()
    said = state["_snapshot"]["_worker_snapshots"]
    # To get at worker 0's batch, the end of worker 1 had to be taken in, if it came before.
    assert said["worker_0"]["fetcher_state"] == {
        "dataset_iter_state": {"at": 1},
        "fetcher_ended": False,
    }
    assert said["worker_1"]["fetcher_state"]["dataset_iter_state"] == {"at": 3}
    again = Gated()
    again.sign.set()
    second = DataLoader(again, batch_size=1, num_workers=2, in_order=False, collate_fn=list)
    second.load_state_dict(state)
    assert sorted(second) == [[2], [3]]


class Slow(Numbers):
    """Index 0 waits for a sign."""

    def __init__(self):
        super().__init__()
        self.sign = torch.multiprocessing.Event()

    def __getitem__(self, i):
        if i == 0:
            self.sign.wait()
        return i


def test_a_state_says_which_batches_came_early_again_and_again():
    state, ledger = None, []
    for round_ in range(5):
        one = DataLoader(Slow(), batch_size=1, num_workers=2, in_order=False, prefetch_factor=3)
        if state is not None:
            one.load_state_dict(state)
        if round_ == 4:
            one.dataset.sign.set()
        iterator = iter(one)
        ledger += values(itertools.islice(iterator, 2 if round_ < 4 else None))
        state = one.state_dict()
        one.dataset.sign.set()
        del iterator
    assert [0] not in ledger[:8]
    assert sorted(itertools.chain(*ledger)) == list(range(20))


def test_a_log_says_once_that_the_order_is_no_certain_one(caplog):
    caplog.set_level(logging.WARNING)
    one = DataLoader(Numbers(), num_workers=1, in_order=False, worker_mode="thread")
    iterator = iter(one)
    next(iterator)
    for _ in range(2):
        one.state_dict()
    assert caplog.text.count("using in_order=False with multiple workers") == 1
