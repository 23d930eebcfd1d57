"""Samples that cannot be made: raised, skipped or replaced, by all kinds of workers."""

import pickle
import time

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader as TorchLoader  # noqa: E402
from torch.utils.data import Dataset, IterableDataset  # noqa: E402

import feedline  # noqa: E402
from feedline.errors import BatchError, SampleError, TooManyErrors  # noqa: E402
from feedline.torch import DataLoader  # noqa: E402

HOW = {
    "inline": {},
    "processes": {"num_workers": 2},
    "threads": {"num_workers": 2, "worker_mode": "thread"},
    "dynamic processes": {"num_workers": 3, "assignment": "dynamic"},
    "dynamic threads": {"num_workers": 3, "assignment": "dynamic", "worker_mode": "thread"},
}

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")

how = pytest.mark.parametrize("settings", HOW.values(), ids=HOW.keys())


class Picky(Dataset):
    """Some samples cannot be made."""

    def __init__(self, bad=(3, 4, 11), length=20):
        self.bad, self.length = set(bad), length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if index in self.bad:
            raise ValueError(f"{index} is not welcome")
        return torch.full((200,), index), index


class Together(Picky):
    """All samples of a batch at once."""

    def __getitems__(self, indices):
        return [self[index] for index in indices]


def numbers(batches):
    found = []
    for rows, labels in batches:
        assert rows.shape == (len(labels), 200)
        assert torch.equal(rows[:, 0], labels)
        assert torch.equal(rows[:, 199], labels)
        found.append(labels.tolist())
    return found


@how
@pytest.mark.parametrize("kind", [Picky, Together])
def test_a_skipped_sample_shortens_its_batch_and_is_listed(settings, kind):
    loader = DataLoader(kind(), batch_size=5, on_error="skip", **settings)
    assert numbers(loader) == [[0, 1, 2], [5, 6, 7, 8, 9], [10, 12, 13, 14], [15, 16, 17, 18, 19]]
    assert [error.index for error in loader.errors] == [3, 4, 11]
    error = loader.errors[2]
    assert isinstance(error, SampleError)
    assert (error.position, error.epoch, error.stage, error.failure) == (11, 0, "load", "error")
    assert "sample 11 failed in stage load (epoch 0): ValueError: 11 is not welcome" in str(error)
    assert isinstance(error.__cause__, ValueError)
    assert pickle.loads(pickle.dumps(error)).index == 11


@how
def test_a_replaced_sample_keeps_its_batch_full_with_its_neighbour(settings):
    loader = DataLoader(Picky(), batch_size=5, on_error="replace", **settings)
    expected = [[0, 1, 2, 0, 0], [5, 6, 7, 8, 9], [10, 12, 12, 13, 14], [15, 16, 17, 18, 19]]
    assert numbers(loader) == expected
    assert [(error.index, error.replaced_by) for error in loader.errors] == [
        (3, 0),
        (4, 0),
        (11, 12),
    ]
    assert numbers(loader) == expected


@how
def test_errors_are_raised_as_torch_does_by_default(settings):
    def outcomes(loader):
        batches, found = iter(loader), []
        while True:
            try:
                found.append(next(batches)[1].tolist())
            except StopIteration:
                return found
            except ValueError as error:
                said = str(error).rstrip().splitlines()[-1].removeprefix("ValueError: ")
                found.append((said, str(error).count("Caught ValueError in DataLoader worker")))

    theirs = {key: value for key, value in settings.items() if key == "num_workers"}
    expected = outcomes(TorchLoader(Picky(), batch_size=5, **theirs))
    loader = DataLoader(Picky(), batch_size=5, **settings)
    assert outcomes(loader) == expected
    assert loader.errors == []


@how
def test_a_batch_without_a_single_sample_is_an_error_and_costs_nothing_else(settings):
    loader = DataLoader(Picky(bad=range(5, 10)), batch_size=5, on_error="skip", **settings)
    batches = iter(loader)
    next(batches)
    with pytest.raises(BatchError, match="none of the 5 samples of this batch could be made"):
        next(batches)
    assert numbers(batches) == [[10, 11, 12, 13, 14], [15, 16, 17, 18, 19]]
    loader = DataLoader(Picky(bad=range(5, 10)), batch_size=5, on_error="replace", **settings)
    batches = iter(loader)
    next(batches)
    with pytest.raises(SampleError, match="sample 5 failed"):
        next(batches)


@how
def test_more_errors_than_allowed_are_raised(settings):
    loader = DataLoader(Picky(), batch_size=5, on_error="skip", max_errors=2, **settings)
    batches = iter(loader)
    next(batches)
    next(batches)
    with pytest.raises(TooManyErrors, match="3 samples could not be made, and max_errors is 2"):
        next(batches)


class Ragged(Picky):
    def __getitem__(self, index):
        return torch.zeros(200 + (index == 7))


@how
def test_errors_of_collation_are_raised_in_any_case(settings):
    loader = DataLoader(Ragged(), batch_size=5, on_error="skip", **settings)
    batches = iter(loader)
    next(batches)
    with pytest.raises(RuntimeError, match="stack expects each tensor to be equal size"):
        next(batches)
    assert len(list(batches)) == 2


def test_a_pipeline_goes_by_the_same_words():
    def picky(x):
        if x == 3:
            raise ValueError("threes are not welcome")
        return x

    pipeline = feedline.arrays(np.arange(10)).map(picky)
    loader = DataLoader(pipeline, batch_size=5, on_error="skip", num_workers=2)
    assert [batch[0].tolist() for batch in loader] == [[0, 1, 2, 4], [5, 6, 7, 8, 9]]
    assert [error.index for error in loader.errors] == [3]


class Stuck(Dataset):
    """One sample never ends."""

    def __len__(self):
        return 24

    def __getitem__(self, index):
        if index == 9:
            self.wait_for_ever()
        return torch.full((200,), index), index

    def wait_for_ever(self):
        time.sleep(300)


@pytest.mark.parametrize("settings", list(HOW.values())[1:], ids=list(HOW)[1:])
def test_a_stuck_sample_is_reported_with_its_stack_and_costs_its_batch(settings):
    loader = DataLoader(Stuck(), batch_size=4, sample_timeout=0.3, **settings)
    batches, found = iter(loader), []
    while True:
        try:
            found.append(next(batches)[1].tolist())
        except StopIteration:
            break
        except SampleError as error:
            found.append(error)
    error = found.pop(2)
    assert found == [[0, 1, 2, 3], [4, 5, 6, 7], *[[i, i + 1, i + 2, i + 3] for i in (12, 16, 20)]]
    assert (error.index, error.position, error.failure) == (9, 9, "timeout")
    assert "sample 9 was not done after 0.3 s in worker" in str(error)
    assert "wait_for_ever" in str(error)
    assert loader.stats()["lost_workers"] == 1


@pytest.mark.parametrize("settings", list(HOW.values())[1:], ids=list(HOW)[1:])
@pytest.mark.parametrize("policy", ["skip", "replace"])
def test_a_stuck_sample_goes_by_the_policy(settings, policy):
    settings = {"batch_size": 4, "sample_timeout": 0.3, "on_error": policy} | settings
    loader = DataLoader(Stuck(), **settings)
    third = [8, 10, 11] if policy == "skip" else [8, 10, 10, 11]
    assert numbers(loader)[2] == third
    (error,) = loader.errors
    assert (error.index, error.failure) == (9, "timeout")
    assert error.replaced_by == (None if policy == "skip" else 10)


class Endless(IterableDataset):
    def __iter__(self):
        return iter(range(4))


class Counting(Picky):
    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


@pytest.mark.parametrize("dataset", [Endless(), Counting()], ids=["iterable", "with a state"])
@pytest.mark.parametrize(
    "settings", [{"assignment": "dynamic"}, {"on_error": "skip"}, {"sample_timeout": 1}]
)
def test_what_needs_samples_that_anybody_can_make_is_refused(dataset, settings):
    with pytest.raises(ValueError, match="needs samples that any worker can make"):
        DataLoader(dataset, num_workers=2, **settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"assignment": "fair"}, "assignment must be"),
        ({"on_worker_death": "retry"}, "on_worker_death must be"),
        ({"on_error": "ignore"}, "on_error must be"),
        ({"max_errors": -1}, "max_errors must be"),
        ({"sample_timeout": 0}, "sample_timeout must be a number of seconds above 0, got 0"),
        ({"sample_timeout": 1}, "sample_timeout needs workers"),
        (
            {"sample_timeout": 1, "num_workers": 1, "worker_mode": "thread", "dataset_lock": True},
            "has the lock for ever",
        ),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, message):
    with pytest.raises((ValueError, TypeError), match=message):
        DataLoader(Picky(), **settings)
