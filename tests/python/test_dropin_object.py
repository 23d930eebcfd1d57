"""The loader as an object: arguments, attributes, copies, and what frameworks read from it."""

import copy
import inspect
import pickle

import dropin_datasets as d
import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import (  # noqa: E402
    BatchSampler,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
)
from torch.utils.data import DataLoader as TorchLoader  # noqa: E402

from feedline.torch import DataLoader  # noqa: E402

TEN = list(range(10))


class Endless(IterableDataset):
    def __iter__(self):
        return iter(int, 1)

    def __repr__(self):
        return "Endless()"  # tests have the same name in every process


REFUSED = [
    {"num_workers": -1},
    {"timeout": -1},
    {"timeout": -1, "num_workers": -1},
    {"prefetch_factor": 2},
    {"prefetch_factor": -1, "num_workers": 1},
    {"persistent_workers": True},
    {"multiprocessing_context": "fork"},
    {"multiprocessing_context": "bad", "num_workers": 1},
    {"multiprocessing_context": 3, "num_workers": 1},
    {"sampler": [1], "shuffle": True},
    {"sampler": [1], "shuffle": True, "batch_sampler": [[1]]},
    {"batch_sampler": [[1]], "batch_size": 2},
    {"batch_sampler": [[1]], "batch_size": None},
    {"batch_sampler": [[1]], "drop_last": True},
    {"batch_sampler": [[1]], "sampler": [1]},
    {"batch_size": None, "drop_last": True},
    {"batch_size": 0},
    {"batch_size": True},
    {"batch_size": 2.0},
    {"drop_last": 1},
    {"dataset": [], "shuffle": True},
    {"dataset": Endless(), "shuffle": True},
    {"dataset": Endless(), "shuffle": 3},
    {"dataset": Endless(), "sampler": [1]},
    {"dataset": Endless(), "batch_sampler": [[1]]},
    {"no_such_argument": 1},
]


@pytest.mark.parametrize("arguments", REFUSED, ids=str)
def test_what_torch_refuses_is_refused_in_its_words(arguments):
    arguments = {"dataset": TEN, **arguments}
    with pytest.raises((TypeError, ValueError)) as torchs:
        TorchLoader(**arguments)
    with pytest.raises((TypeError, ValueError)) as ours:
        DataLoader(**arguments)
    assert ours.type is torchs.type
    # An endless sampler's text has its address.
    assert str(ours.value).split(" at 0x")[0] == str(torchs.value).split(" at 0x")[0]


@pytest.mark.parametrize(
    "arguments",
    [
        {"timeout": 3},
        {"num_workers": 1, "prefetch_factor": 0},
        {"num_workers": 1.5},
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # torch's own
def test_what_torch_refuses_late_is_refused_late(arguments):
    found = []
    for kind in (TorchLoader, DataLoader):
        loader = kind(TEN, **arguments)
        with pytest.raises((AssertionError, TypeError)) as refusal:
            iter(loader)
        found.append((refusal.type, str(refusal.value)))
    assert found[0][0] is found[1][0]
    # Older ones say nothing.
    assert found[0][1] in ("", found[1][1])


def test_the_signature_is_torchs_with_additions():
    torchs = list(inspect.signature(TorchLoader.__init__).parameters.values())
    ours = list(inspect.signature(DataLoader.__init__).parameters.values())
    assert [(p.name, p.default, p.kind) for p in ours[: len(torchs)]] == [
        (p.name, p.default, p.kind) for p in torchs
    ]
    assert all(p.kind is p.KEYWORD_ONLY for p in ours[len(torchs) :])


def test_every_argument_can_be_read_back():
    context = torch.multiprocessing.get_context("fork")
    loader = DataLoader(
        TEN, 2, num_workers=1, timeout=5, prefetch_factor=3, multiprocessing_context="fork"
    )
    assert type(loader.multiprocessing_context) is type(context)
    assert (loader.batch_size, loader.timeout, loader.prefetch_factor) == (2, 5, 3)
    assert isinstance(loader.sampler, SequentialSampler)
    assert isinstance(loader.batch_sampler, BatchSampler)
    assert (loader.worker_mode, loader.dataset_lock) == ("process", False)
    assert (loader._iterator, loader._dataset_kind, loader._auto_collation) == (None, 0, True)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"batch_size": 3, "shuffle": True, "drop_last": True},
        {"batch_size": None},
        {"batch_sampler": [[1, 2], [3]]},
        {"sampler": [3, 2], "collate_fn": sum, "pin_memory": False},
        {"num_workers": 1, "worker_init_fn": print, "persistent_workers": True, "in_order": False},
        {"dataset": Endless(), "batch_size": 4},
    ],
    ids=str,
)
def test_attributes_are_those_of_torchs(arguments):
    arguments = {"dataset": TEN, **arguments}
    torchs, ours = vars(TorchLoader(**arguments)), vars(DataLoader(**arguments))
    assert torchs.keys() <= ours.keys()
    for name, value in torchs.items():
        # Samplers are made anew.
        same = ours[name] == value or type(ours[name]) is type(value)
        assert same, name


@pytest.mark.parametrize(
    "name", ["batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"]
)
def test_what_torch_freezes_is_frozen(name):
    loader = DataLoader(TEN)
    with pytest.raises(ValueError, match=f"{name} attribute should not be set after DataLoader is"):
        setattr(loader, name, None)


def test_other_attributes_may_be_set_and_count_from_the_next_iterator_on():
    loader = DataLoader(TEN, batch_size=5)
    loader.collate_fn = sum
    assert list(loader) == [10, 35]
    loader.anything = 1
    with pytest.raises(ValueError, match="multiprocessing_context can only be used"):
        loader.multiprocessing_context = "fork"


def test_new_arguments_are_checked():
    modes = 'worker_mode must be "process", "thread", "native" or "auto", got'
    with pytest.raises(ValueError, match=modes):
        DataLoader(TEN, worker_mode="fiber")
    with pytest.raises(TypeError, match="dataset_lock must be True or False"):
        DataLoader(TEN, dataset_lock=1)
    with pytest.raises(ValueError, match="leave one of them out"):
        DataLoader(TEN, num_workers=1, worker_mode="thread", multiprocessing_context="fork")
    loader = DataLoader(TEN)
    with pytest.raises(ValueError, match="worker_mode must be"):
        loader.worker_mode = "?"


def test_it_is_generic_and_an_instance_of_torchs():
    assert DataLoader[list] is not None
    loader = DataLoader[list](TEN)
    assert isinstance(loader, TorchLoader)
    assert issubclass(DataLoader, TorchLoader)

    class Own(DataLoader[int]):
        def __init__(self, *arguments, **more):
            self.early = 1
            super().__init__(*arguments, **more)

    assert len(list(Own(TEN, batch_size=4))) == 3


@pytest.mark.parametrize("workers", [0, 1])
def test_copies_deliver_the_same(workers):
    loader = DataLoader(TEN, batch_size=3, num_workers=workers, worker_mode="thread")
    list(loader)
    for other in (copy.deepcopy(loader), pickle.loads(pickle.dumps(loader)), copy.copy(loader)):
        assert [b.tolist() for b in other] == [b.tolist() for b in loader]
        assert other.worker_mode == "thread"


def test_iterators_cannot_be_pickled():
    loader = DataLoader(TEN, num_workers=1, worker_mode="thread", persistent_workers=True)
    for source in (iter(DataLoader(TEN)), iter(loader), loader):
        with pytest.raises(NotImplementedError, match="cannot be pickled"):
            pickle.dumps(source)


def test_lengths_are_live():
    data = list(range(4))
    loader = DataLoader(data, batch_size=2)
    assert (len(loader), len(iter(loader))) == (2, 2)
    data.extend(range(3))
    assert len(loader) == len(list(loader)) == 4
    assert not DataLoader([])
    with pytest.raises(TypeError):
        len(DataLoader(Endless()))


def test_two_iterators_may_be_interleaved():
    loader = DataLoader(TEN, batch_size=4, num_workers=1, worker_mode="thread")
    assert [(a.tolist(), b.tolist()) for a, b in zip(loader, loader, strict=True)] == [
        (b.tolist(), b.tolist()) for b in DataLoader(TEN, batch_size=4)
    ]


def test_a_persistent_iterator_is_one_object():
    loader = DataLoader(
        TEN, batch_size=5, num_workers=1, worker_mode="thread", persistent_workers=True
    )
    first = iter(loader)
    next(first)
    second = iter(loader)
    assert first is second is loader._iterator
    assert [b.tolist() for b in first] == [TEN[:5], TEN[5:]]


# ---- frameworks; importing them takes its time on a busy machine


@pytest.mark.timeout(85)
def test_lightning_makes_a_new_one_with_another_sampler():
    data = pytest.importorskip("lightning.fabric.utilities.data")
    loader = DataLoader(TEN, batch_size=2, worker_mode="thread", num_workers=1, dataset_lock=True)
    sampler = DistributedSampler(TEN, num_replicas=2, rank=1, shuffle=False)
    other = data._update_dataloader(loader, sampler)
    assert type(other) is DataLoader
    assert (other.worker_mode, other.dataset_lock, other.num_workers) == ("thread", True, 1)
    assert [b.tolist() for b in other] == [[1, 3], [5, 7], [9]]


# Lightning's own, when it looks for loaders that have a state.
@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")
@pytest.mark.timeout(240)
def test_lightning_shuts_persistent_workers_down():
    combined = pytest.importorskip("lightning.pytorch.utilities.combined_loader")
    loader = DataLoader(TEN, num_workers=1, worker_mode="thread", persistent_workers=True)
    next(iter(loader))
    workers = list(loader._iterator._workers)
    combined._shutdown_workers_and_reset_iterator(loader)
    assert loader._iterator is None
    assert not any(worker.is_alive() for worker in workers)


@pytest.mark.timeout(85)
def test_accelerate_shards_it():
    accelerate = pytest.importorskip("accelerate.data_loader")
    loader = DataLoader(d.Made(d.a_number, 8), batch_size=2)
    shard = accelerate.prepare_data_loader(
        loader, num_processes=2, process_index=1, put_on_device=False
    )
    assert [b.tolist() for b in shard] == [[2, 3], [6, 7]]


def test_random_order_is_torchs_golden_one():
    def epochs(loader, count):
        return [[b.item() if hasattr(b, "item") else b for b in loader] for _ in range(count)]

    for workers in (0, 2):
        torch.manual_seed(0)
        loader = DataLoader(
            range(8), batch_size=None, shuffle=True, num_workers=workers, worker_mode="thread"
        )
        assert epochs(loader, 2) == [[2, 0, 5, 3, 1, 4, 7, 6], [0, 3, 7, 1, 6, 2, 5, 4]]
    torch.manual_seed(0)
    loader = DataLoader(
        range(8), batch_size=None, shuffle=True, num_workers=2, persistent_workers=True
    )
    assert epochs(loader, 2)[1] == [7, 2, 0, 5, 3, 4, 6, 1]
    generator = torch.Generator().manual_seed(5)
    loader = DataLoader(range(8), batch_size=None, shuffle=True, generator=generator)
    assert epochs(loader, 2) == [[7, 4, 1, 3, 2, 0, 6, 5], [7, 6, 5, 2, 4, 3, 1, 0]]
    assert isinstance(loader.sampler, RandomSampler)
