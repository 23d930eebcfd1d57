"""A pipeline as the dataset of the drop-in: made natively, in the sampler's order."""

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import BatchSampler, Dataset, RandomSampler, Subset  # noqa: E402
from torch.utils.data import DataLoader as TorchLoader  # noqa: E402

import feedline  # noqa: E402
from feedline.errors import SampleError  # noqa: E402
from feedline.torch import DataLoader  # noqa: E402

X = np.arange(60.0, dtype=np.float32).reshape(20, 3)
Y = np.arange(20)


class Pairs(Dataset):
    """The same samples, for torch."""

    def __init__(self, *, named):
        self.named = named

    def __len__(self):
        return 20

    def __getitem__(self, index):
        x, y = torch.from_numpy(X[index]), torch.tensor(Y[index])
        return {"x": x, "y": y} if self.named else (x, y)


def pipeline(*, named=False):
    return feedline.arrays(x=X, y=Y) if named else feedline.arrays(X, Y)


def seen(loader, epochs=2):
    torch.manual_seed(3)
    return [
        [
            (type(batch).__name__, list(batch), [v.tolist() for v in batch.values()])
            if isinstance(batch, dict)
            else (type(batch).__name__, [(v.dtype, v.shape, v.tolist()) for v in batch])
            for batch in loader
        ]
        for _ in range(epochs)
    ]


SETTINGS = [
    {},
    {"batch_size": 6},
    {"batch_size": 6, "shuffle": True},
    {"batch_size": 6, "drop_last": True, "shuffle": True},
    {"batch_size": 4, "sampler": [3, 3, -1, 0, 7]},
    {"batch_size": None, "shuffle": True},
    {"batch_sampler": [[1, 2], [3], [4, 5, 6], [0]]},
    {"batch_sampler": BatchSampler(RandomSampler(range(20), replacement=True), 7, False)},
    {"batch_size": 5, "generator": 5, "shuffle": True},
]


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("settings", SETTINGS, ids=" ".join)
def test_batches_are_those_of_torch_and_an_equal_dataset(settings, workers, named):
    found = []
    for kind, data in ((TorchLoader, Pairs(named=named)), (DataLoader, pipeline(named=named))):
        given = dict(settings)
        if "generator" in given:
            given["generator"] = torch.Generator().manual_seed(given["generator"])
        # Torch needs no workers to say what the batches are; persistent ones change the seeds.
        more = {"num_workers": workers} if kind is DataLoader else {}
        found.append(seen(kind(data, **given, **more)))
    assert found[0] == found[1]


def test_persistent_workers_draw_the_base_seed_once():
    settings = {"batch_size": 4, "shuffle": True, "num_workers": 1, "persistent_workers": True}
    assert seen(DataLoader(pipeline(), **settings)) == seen(
        TorchLoader(Pairs(named=False), **settings)
    )


def test_a_collate_function_gets_samples():
    def collate(samples):
        return [(float(x.sum()), int(y)) for x, y in samples]

    for workers in (0, 2):
        loader = DataLoader(pipeline(), batch_size=8, collate_fn=collate, num_workers=workers)
        theirs = TorchLoader(Pairs(named=False), batch_size=8, collate_fn=collate)
        assert list(loader) == list(theirs)


def test_text_comes_as_lists():
    words = pipeline().map(lambda x, y: f"number {y}")
    (first,) = next(iter(DataLoader(words, batch_size=3)))
    assert first == ["number 0", "number 1", "number 2"]


def bad(x, y):
    if y % 6 == 4:
        msg = f"no {y}"
        raise ValueError(msg)
    return x


@pytest.mark.parametrize("collate", [None, len])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_bad_sample_costs_one_batch(collate, workers):
    batches = iter(
        DataLoader(pipeline().map(bad), batch_size=5, num_workers=workers, collate_fn=collate)
    )
    got = []
    for _ in range(4):
        try:
            batch = next(batches)
            got.append(batch if collate else len(batch[0]))
        except SampleError:
            got.append("lost")
    assert got == ["lost", 5, "lost", "lost"]
    with pytest.raises(StopIteration):
        next(batches)


def test_a_sampler_that_fails_does_so_after_what_it_gave():
    def indices():
        yield from range(5)
        msg = "no more"
        raise LookupError(msg)

    class Sampler:
        def __iter__(self):
            return indices()

    batches = iter(DataLoader(pipeline(), batch_size=2, sampler=Sampler(), num_workers=1))
    assert [next(batches)[1].tolist(), next(batches)[1].tolist()] == [[0, 1], [2, 3]]
    with pytest.raises(LookupError, match="no more"):
        next(batches)


def test_an_endless_sampler_is_not_read_to_its_end():
    class Sampler:
        def __iter__(self):
            while True:
                yield from range(20)

    batches = iter(DataLoader(pipeline(), batch_size=4096, sampler=Sampler(), num_workers=1))
    for _ in range(300):  # more than is read ahead
        assert len(next(batches)[1]) == 4096


def test_indices_are_checked():
    for sampler, kind in (([20], IndexError), ([-21], IndexError), (["a"], TypeError)):
        with pytest.raises(kind, match="the sampler gave"):
            next(iter(DataLoader(pipeline(), sampler=sampler)))


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match=r"use feedline\.Loader"):
        DataLoader(feedline.mix([pipeline(), pipeline()], [1, 2]))


def test_a_worker_init_fn_is_not_called_and_one_warning_says_so():
    def never(number):
        raise AssertionError

    with pytest.warns(UserWarning, match="native threads: it is not called"):
        loader = DataLoader(pipeline(), num_workers=1, worker_init_fn=never)
    assert len(list(loader)) == 20
    # Without workers nobody calls it, in torch either.
    assert len(list(DataLoader(pipeline(), worker_init_fn=never))) == 20


def test_random_functions_differ_from_epoch_to_epoch_and_repeat_with_the_seed():
    loader = DataLoader(pipeline(), batch_size=4, shuffle=True, num_workers=1)
    first, second = seen(loader)
    assert first != second
    assert seen(loader) == [first, second]


def test_no_samples_are_no_batches():
    assert list(DataLoader(pipeline(), sampler=[], num_workers=1)) == []


def test_a_time_limit_holds():
    import threading

    hold = threading.Event()
    slow = pipeline().map(lambda x, y: x).map(lambda x: hold.wait(20) and x if x[0] else x)
    batches = iter(DataLoader(slow, num_workers=1, timeout=0.2, prefetch_factor=1))
    next(batches)
    with pytest.raises(RuntimeError, match=r"DataLoader timed out after 0.2 seconds"):
        next(batches)
    hold.set()


def test_it_is_measured():
    loader = DataLoader(pipeline(), batch_size=5, num_workers=1)
    list(loader)
    stats = loader.stats()
    assert (stats["mode"], stats["batches"], stats["samples"]) == ("native", 4, 20)
    assert loader.explain()
    assert copy.copy(loader).stats()["samples"] == 20


def test_samples_can_be_asked_for_one_by_one():
    assert [int(y) for _, y in (pipeline()[2], pipeline()[-1])] == [2, 19]
    assert pipeline(named=True)[3]["x"].tolist() == X[3].tolist()
    with pytest.raises(IndexError):
        pipeline()[20]
    some = DataLoader(Subset(pipeline(), [5, 1]), batch_size=2, num_workers=0)
    assert next(iter(some))[1].tolist() == [5, 1]
