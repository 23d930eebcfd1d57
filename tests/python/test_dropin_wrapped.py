"""Random pipelines inside torch's wrappers, and asked for samples by Python code."""

import itertools
import pickle

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from PIL import Image  # noqa: E402
from portable_functions import noise  # noqa: E402
from torch.utils.data import ConcatDataset, Dataset, Subset, random_split  # noqa: E402
from torch.utils.data import DataLoader as TorchLoader  # noqa: E402

import feedline  # noqa: E402
from feedline.torch import DataLoader  # noqa: E402
from pictures import picture  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


def noisy(n=12, first=0):
    """Samples whose first number tells which one it is, and whose second is random."""
    return feedline.arrays(np.arange(first, first + n)).map(noise)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("classes")
    for i in range(8):
        (path / "ab"[i % 2]).mkdir(exist_ok=True)
        Image.fromarray(picture(40, 48, seed=i)).save(path / "ab"[i % 2] / f"{i}.png")
    return path


def crops(folder):
    return feedline.images(folder).random_resized_crop(16).normalize()


# Neighbours of both classes: those of the first are the first half.
MIXED = [0, 4, 1, 5, 2, 6, 3, 7]


def epochs(loader, count=2, seed=5):
    torch.manual_seed(seed)
    return [[[field.tolist() for field in batch] for batch in loader] for _ in range(count)]


def numbers(epoch):
    return [int(row[0]) for batch in epoch for row in batch[0]]


def draws(epoch):
    return {int(row[0]): row[1] for batch in epoch for row in batch[0]}


class OtherSubset(Subset):
    """May do anything, so it stays Python."""


# ---- natively

SPLIT = [7, 2, 2, 11, 0]


def wrapped():
    part = Subset(noisy(), torch.tensor(SPLIT))
    return ConcatDataset([part, Subset(noisy(6, first=100), range(5, -1, -1))])


def by_hand():
    return feedline.concat(noisy().select(SPLIT), noisy(6, first=100).select([5, 4, 3, 2, 1, 0]))


LIKE = {
    "subset": (lambda: Subset(noisy(), SPLIT), lambda: noisy().select(SPLIT)),
    "negative": (
        lambda: Subset(noisy(), [-1, True, np.int32(3)]),
        lambda: noisy().select([11, 1, 3]),
    ),
    "nested": (lambda: Subset(wrapped(), [9, 1, 4]), lambda: by_hand().select([9, 1, 4])),
    "concatenation": (wrapped, by_hand),
    "none": (lambda: Subset(noisy(), []), lambda: noisy().select([])),
}


@pytest.mark.parametrize("settings", [{}, {"shuffle": True}, {"seed": 3, "shuffle": True}], ids=str)
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", LIKE)
def test_wrappers_of_pipelines_make_the_batches_of_the_selection_made_by_hand(
    kind, workers, settings
):
    if kind == "none" and settings:
        pytest.skip("torch refuses to shuffle nothing")
    found = []
    for make in LIKE[kind]:
        loader = DataLoader(make(), batch_size=4, num_workers=workers, **settings)
        found.append(epochs(loader))
        if kind != "none":
            assert loader.stats()["mode"] == "native"
    assert found[0] == found[1]
    assert kind == "none" or draws(found[0][0]) != draws(found[0][1])


def test_a_split_of_mixed_pictures_is_cropped_and_mixed_anew_each_epoch(folder):
    mixed = crops(folder).mixup(0.4)
    train, rest = random_split(mixed, [6, 2], generator=torch.Generator().manual_seed(1))
    assert len(rest) == 2
    ours = epochs(DataLoader(train, batch_size=3, num_workers=2))
    assert ours == epochs(DataLoader(mixed.select(train.indices), batch_size=3, num_workers=2))
    assert ours[0] != ours[1]
    labels = np.array([batch[1] for batch in ours[0]])
    assert ((labels > 0) & (labels < 1)).any()


def test_a_subset_is_taken_as_it_is_when_an_epoch_begins():
    some = Subset(noisy(), [1, 2])
    loader = DataLoader(some)
    assert numbers(epochs(loader, 1)[0]) == [1, 2]
    some.indices = [5, 4]
    assert numbers(epochs(loader, 1)[0]) == [5, 4]


def test_states_of_wrapped_pipelines_go_on():
    def make():
        return DataLoader(Subset(noisy(), SPLIT * 2), batch_size=3, shuffle=True)

    torch.manual_seed(2)
    whole = [batch[0].tolist() for batch in make()]
    torch.manual_seed(2)
    first = make()
    iterator = iter(first)
    taken = [batch[0].tolist() for batch in itertools.islice(iterator, 2)]
    second = make()
    second.load_state_dict(pickle.loads(pickle.dumps(first.state_dict())))
    assert taken + [batch[0].tolist() for batch in second] == whole


def test_what_only_python_can_do_is_left_to_python():
    class Doubled(Dataset):
        def __init__(self):
            self.inside = noisy()

        def __len__(self):
            return 12

        def __getitem__(self, i):
            return (2 * self.inside[i][0],)

    wide = feedline.arrays(np.arange(4)).map(lambda x: np.float64([x, 0, 0]))
    for dataset in (
        OtherSubset(noisy(), SPLIT),
        ConcatDataset([noisy(), Doubled()]),
        ConcatDataset([noisy(), wide]),
        Doubled(),
    ):
        loader = DataLoader(dataset)
        first, second = epochs(loader)
        assert loader.stats()["mode"] == "inline"
        assert numbers(first) == numbers(second)
        assert draws(first) != draws(second)
        assert epochs(loader) == [first, second]


def test_an_index_that_is_none_is_told_of_where_torch_tells_of_it():
    for index, kind in ((12, IndexError), ("a", TypeError)):
        iterator = iter(DataLoader(Subset(noisy(), [0, index])))
        assert next(iterator)[0][0][0] == 0
        with pytest.raises(kind):
            next(iterator)


# ---- by Python code


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", ["itself", "subset", "concatenation"])
def test_under_torchs_own_loader_each_epoch_and_worker_draws_anew(workers, kind):
    dataset = {
        "itself": noisy(8),
        "subset": Subset(noisy(), range(8)),
        "concatenation": ConcatDataset([noisy(4), noisy(4, first=4)]),
    }[kind]

    def loader(**more):
        return TorchLoader(dataset, batch_size=4, num_workers=workers, **more)

    first, second = epochs(loader())
    assert numbers(first) == numbers(second) == list(range(8))
    drawn = [*draws(first).values(), *draws(second).values()]
    # Sixteen samples, of which no two have drawn the same: not in a batch, nor in two workers.
    assert len(set(drawn)) == 16
    assert epochs(loader()) == [first, second]
    assert epochs(loader(), seed=6)[0] != first
    if workers:
        one, two = epochs(loader(persistent_workers=True))
        assert len({*draws(one).values(), *draws(two).values()}) == 16


def test_workers_that_are_started_draw_what_forked_ones_draw():
    settings = {"batch_size": 4, "num_workers": 2, "persistent_workers": True}
    fork, spawn = (
        epochs(TorchLoader(Subset(noisy(), SPLIT), multiprocessing_context=method, **settings))
        for method in ("fork", "spawn")
    )
    assert fork == spawn
    assert draws(fork[0]) != draws(fork[1])


def test_accelerates_loader_draws_anew_each_epoch():
    accelerate = pytest.importorskip("accelerate")
    for dataset in (noisy(), Subset(noisy(), SPLIT), ConcatDataset([noisy(), noisy()])):
        prepared, again = (
            accelerate.Accelerator(cpu=True).prepare(DataLoader(dataset, batch_size=4))
            for _ in range(2)
        )
        first, second = epochs(prepared)
        assert numbers(first) == numbers(second)
        assert draws(first) != draws(second)
        assert epochs(again) == [first, second]


def test_a_batch_for_torchs_loader_is_mixed_as_a_batch(folder):
    mixed = crops(folder).mixup(0.4)
    for dataset in (mixed, Subset(mixed, range(8))):
        first, second = epochs(TorchLoader(dataset, batch_size=4, sampler=MIXED))
        assert first != second
        labels = np.array([batch[1] for batch in first])
        assert labels.shape == (2, 4, 2)
        assert ((labels > 0) & (labels < 1)).any()
        assert np.allclose(labels.sum(axis=-1), 1)


@pytest.mark.parametrize("operation", ["mixup", "cutmix"])
def test_what_mixes_batches_is_refused_where_there_is_no_batch(folder, operation):
    mixed = getattr(crops(folder), operation)(1.0)
    for ask in (
        lambda: mixed[0],
        lambda: next(iter(TorchLoader(ConcatDataset([mixed, mixed])))),
        lambda: DataLoader(ConcatDataset([mixed, mixed])),
        lambda: DataLoader(mixed, batch_size=None),
    ):
        with pytest.raises(
            ValueError, match=f"{operation} mixes whole batches.*leave {operation} out"
        ):
            ask()


@pytest.mark.parametrize("workers", [0, 2])
def test_collate_functions_and_batch_samplers_get_mixed_batches(folder, workers):
    mixed = crops(folder).mixup(0.4)
    sizes = [[0, 4, 1], [5, 2], [6, 3, 7], [1, 5, 0, 4], [4]]
    loader = DataLoader(mixed, batch_sampler=sizes, num_workers=workers)
    first, second = epochs(loader)
    assert [len(batch[0]) for batch in first] == [3, 2, 3, 4, 1]
    assert first != second
    for batch in (*first[:4], *second[:4]):
        labels = np.array(batch[1])
        assert ((labels > 0) & (labels < 1)).any()

    def collate(samples):
        return [torch.stack(field) for field in zip(*samples, strict=True)]

    again = DataLoader(mixed, batch_sampler=sizes, num_workers=workers, collate_fn=collate)
    assert epochs(again) == [first, second]


def test_one_sample_asked_for_twice_in_a_batch_draws_twice():
    pair = noisy().__getitems__([3, 3])
    assert [int(x[0]) for (x,) in pair] == [3, 3]
    assert pair[0][0][1] != pair[1][0][1]
    assert noisy().__getitems__([]) == []
    with pytest.raises(IndexError, match="index 12 is out of range for 12 samples"):
        noisy().__getitems__([0, 12])


def test_samples_of_varying_size_are_whole_and_no_larger():
    rows = feedline.arrays(np.arange(1, 5))
    expected = [[n] * n for n in (1, 2, 3, 4)]
    for rule, fields in (("longest", 2), ("packed", 1)):
        pipeline = rows.map(lambda n: np.full(n, n), ragged={0: rule})
        samples = pipeline.__getitems__(range(4))
        assert [sample[0].tolist() for sample in samples] == expected
        assert [pipeline[i][0].tolist() for i in range(4)] == expected
        assert {len(sample) for sample in samples} == {fields}
        loader = DataLoader(pipeline, batch_size=4, collate_fn=lambda batch: batch)
        assert [[sample[0].tolist() for sample in batch] for batch in loader] == [expected]
    fixed = rows.map(lambda n: np.full(n, n), ragged={0: (4,)})
    assert fixed[1][0].tolist() == [2, 2, 0, 0]
    assert int(fixed[1][1]) == 2
    both = rows.map(lambda n: {"n": n, "box": np.full((n, n + 1), n)}, ragged={"box": "longest"})
    assert [sample["box"].shape for sample in both.__getitems__([0, 3])] == [(1, 2), (4, 5)]


# ---- where the numbers come from


def test_without_torch_numpys_generator_decides(program):
    program("""
        import sys
        import numpy as np
        import feedline
        noisy = feedline.arrays(np.arange(4)).map(lambda x: np.float64(feedline.rng().random()))
        np.random.seed(1)
        first = [noisy[0][0], noisy[0][0], [x for (x,) in noisy.__getitems__([0, 1])]]
        assert first[0] != first[1]
        np.random.seed(1)
        assert first == [noisy[0][0], noisy[0][0], [x for (x,) in noisy.__getitems__([0, 1])]]
        assert "torch" not in sys.modules
    """)


class Inside(Dataset):
    def __init__(self):
        self.inside = noisy()

    def __len__(self):
        return 12

    def __getitem__(self, i):
        return self.inside[i]


def test_with_a_seed_a_sample_is_the_same_whoever_makes_it():
    def rows(workers, mode):
        loader = DataLoader(Inside(), batch_size=3, seed=4, num_workers=workers, worker_mode=mode)
        return epochs(loader, seed=workers)

    first = rows(0, "process")
    assert draws(first[0]) != draws(first[1])
    for mode in ("process", "thread"):
        assert rows(2, mode) == first


def test_worker_threads_draw_from_their_own_generators():
    loader = DataLoader(Inside(), batch_size=3, num_workers=2, worker_mode="thread")
    first, second = epochs(loader)
    assert len({*draws(first).values(), *draws(second).values()}) == 24
    assert epochs(loader) == [first, second]


def test_a_function_that_looks_into_another_pipeline_draws_by_its_sample():
    inside = noisy()
    outside = feedline.arrays(np.arange(12)).map(lambda i: inside[i][0])
    one, two = (
        np.concatenate([x for (x,) in feedline.Loader(outside, seed=1, epochs=1, num_workers=n)])
        for n in (0, 2)
    )
    assert (one == two).all()
    assert len(set(one[:, 1])) == 12
