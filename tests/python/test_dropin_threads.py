"""Workers that are threads."""

import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader as TorchLoader  # noqa: E402
from torch.utils.data import Dataset, IterableDataset, get_worker_info  # noqa: E402
from torch.utils.data._utils.worker import _generate_state  # noqa: E402
from torch.utils.data.datapipes.iter import IterableWrapper  # noqa: E402

from feedline.torch import DataLoader  # noqa: E402


def as_it_is(samples):
    return samples


class Told(Dataset):
    """What a worker is told of itself."""

    def __len__(self):
        return 12

    def __getitem__(self, index):
        return get_worker_info(), threading.current_thread(), torch.get_num_threads()


def threads_of(data, **more):
    arguments = {"batch_size": 2, "num_workers": 3, "collate_fn": as_it_is} | more
    return DataLoader(data, worker_mode="thread", **arguments)


def test_every_thread_is_told_who_it_is_and_the_main_thread_is_told_nothing():
    data = Told()
    loader = threads_of(data, generator=torch.Generator().manual_seed(3))
    batches = iter(loader)
    base = batches._base_seed
    for number, samples in enumerate(batches):
        assert get_worker_info() is None
        for info, thread, _ in samples:
            assert (info.id, info.num_workers) == (number % 3, 3)
            assert info.seed == base + info.id
            assert info.dataset is data
            assert info.worker_method == "thread"
            assert thread is batches._workers[info.id]
    assert get_worker_info() is None


def test_threads_of_the_users_are_no_workers():
    loader = threads_of(Told(), num_workers=1)
    batches = iter(loader)
    next(batches)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(get_worker_info).result() is None


def test_torchs_own_workers_answer_as_before():
    list(threads_of(Told()))
    told = list(TorchLoader(range(4), num_workers=2, collate_fn=lambda _: get_worker_info().id))
    assert told == [0, 1, 0, 1]


def test_processes_started_by_a_worker_thread_answer_for_themselves():
    def method(_):
        # Older ones have no other workers than processes.
        return getattr(get_worker_info(), "worker_method", "multiprocessing")

    class Nested(Told):
        def __getitem__(self, index):
            return list(TorchLoader(range(2), num_workers=2, collate_fn=method)), method(None)

    batch = next(iter(threads_of(Nested(), num_workers=1, batch_size=1)))
    assert batch == [(["multiprocessing"] * 2, "thread")]


def test_a_thread_has_generators_seeded_as_a_process_would_be():
    loader = threads_of(Told(), num_workers=2)
    batches = iter(loader)
    base = batches._base_seed
    for samples in batches:
        info = samples[0][0]
        assert info.rng.torch_generator.initial_seed() == info.seed
        expected = np.random.default_rng(_generate_state(base, info.id)).random()
        again = np.random.Generator(type(info.rng.numpy_generator.bit_generator)())
        again.bit_generator.state = info.rng.numpy_generator.bit_generator.state
        assert again.random() == expected


def test_torch_uses_one_thread_in_a_worker_and_as_many_as_before_elsewhere():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        assert all(n == 1 for samples in threads_of(Told()) for *_, n in samples)
        assert torch.get_num_threads() == 3
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(torch.get_num_threads).result() == 3
    finally:
        torch.set_num_threads(before)


def test_nothing_is_copied():
    data = [object() for _ in range(5)]
    assert [sample for batch in threads_of(data) for sample in batch] == data


def test_batches_are_in_ordinary_memory():
    rows = [torch.zeros(3) for _ in range(4)]
    for batch in threads_of(rows, collate_fn=None):
        assert not batch.is_shared()


def test_each_thread_is_prepared_once():
    prepared = []

    def prepare(worker_id):
        prepared.append((worker_id, get_worker_info().id))

    loader = threads_of(range(10), worker_init_fn=prepare, persistent_workers=True)
    for _ in range(3):
        list(loader)
    assert sorted(prepared) == [(0, 0), (1, 1), (2, 2)]


class Crossing(Dataset):
    """Notices when two threads are in it."""

    def __init__(self):
        self.inside = 0
        self.met = False
        self.collating = 0

    def __len__(self):
        return 60

    def __getitem__(self, index):
        self.inside += 1
        self.met |= self.inside > 1
        for _ in range(50):
            threading.Event().wait(0)  # lets another thread run
        self.met |= self.inside > 1
        self.inside -= 1
        return index


def test_a_lock_keeps_threads_out_of_a_dataset():
    data = Crossing()
    list(threads_of(data, dataset_lock=True))
    assert not data.met


def test_a_lock_is_open_again_after_an_exception():
    class Bad(Crossing):
        def __getitem__(self, index):
            if index % 5 == 0:
                raise ValueError(index)
            return index

    batches = iter(threads_of(Bad(), dataset_lock=True))
    failed, made = 0, 0
    while True:
        try:
            next(batches)
            made += 1
        except ValueError:
            failed += 1
        except StopIteration:
            break
    assert (made, failed) == (18, 12)


def test_without_a_lock_threads_are_in_it_together():
    both = threading.Barrier(2, timeout=30)

    class Meeting(Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, index):
            both.wait()  # breaks unless two are here
            return index

    assert len(list(threads_of(Meeting(), num_workers=2, batch_size=1))) == 4


def test_threads_end_with_their_iterator():
    loader = threads_of(range(100))
    batches = iter(loader)
    next(batches)
    workers = list(batches._workers)
    assert all(worker.is_alive() for worker in workers)
    del batches
    gc.collect()
    assert not any(worker.is_alive() for worker in workers)


def test_a_dropped_loader_lets_its_dataset_go():
    data = Told()
    gone = weakref.ref(data)
    loader = threads_of(data, persistent_workers=True)
    next(iter(loader))
    del data, loader
    gc.collect()
    assert gone() is None


def test_a_thread_that_leaves_is_missed():
    class Leaving(Told):
        def __getitem__(self, index):
            raise SystemExit(0)

    with pytest.raises(RuntimeError, match=r"DataLoader worker \(pid\(s\) .*exited unexpectedly"):
        list(threads_of(Leaving()))


def test_a_time_limit_holds():
    hold = threading.Event()

    class Slow(Told):
        def __getitem__(self, index):
            hold.wait(30)

    batches = iter(threads_of(Slow(), timeout=0.2))
    with pytest.raises(RuntimeError, match=r"DataLoader timed out after 0.2 seconds"):
        next(batches)
    hold.set()


def test_data_pipes_are_refused():
    with pytest.raises(TypeError, match='use worker_mode="process"'):
        iter(threads_of(IterableWrapper(range(3)).sharding_filter()))


def test_an_iterable_dataset_is_iterated_once_per_thread():
    class Shards(IterableDataset):
        def __iter__(self):
            info = get_worker_info()
            return iter(range(info.id, 12, info.num_workers))

    for persistent in (False, True):
        loader = threads_of(Shards(), persistent_workers=persistent)
        for _ in range(2):
            assert list(loader) == [[0, 3], [1, 4], [2, 5], [6, 9], [7, 10], [8, 11]]


def test_the_interpreter_ends_in_the_middle_of_an_epoch(program):
    program(
        """
        import torch
        from feedline.torch import DataLoader
        class Rows(torch.utils.data.Dataset):
            def __len__(self): return 10_000
            def __getitem__(self, i): return torch.ones(100) @ torch.ones(100)
        loader = DataLoader(Rows(), 8, num_workers=3, worker_mode="thread", persistent_workers=True)
        batches = iter(loader)
        for _ in range(5):
            next(batches)
        """
    )


@pytest.mark.parametrize("assignment", ["static", "dynamic"])
@pytest.mark.parametrize("dtype", ["bfloat16", "bool", "complex64", "float32", "uint8"])
def test_batches_that_fill_huge_pages_are_torchs(assignment, dtype):
    numbers = torch.randint(0, 200, (6, 3, 1 << 20), generator=torch.Generator().manual_seed(0))
    samples = list(numbers.to(getattr(torch, dtype)))
    expected = list(TorchLoader(samples, batch_size=4))
    settings = {"batch_size": 4, "num_workers": 2, "worker_mode": "thread"}
    found = list(DataLoader(samples, assignment=assignment, **settings))
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)
        assert one.is_contiguous()
        assert one.data_ptr() % 64 == 0
