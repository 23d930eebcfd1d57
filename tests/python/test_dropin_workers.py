"""Workers of the drop-in at work: what they wait for, what they see, what their batches can do."""

import copy
import gc
import io
import os
import threading

import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader as TorchLoader  # noqa: E402
from torch.utils.data import Dataset, get_worker_info  # noqa: E402

from feedline.torch import DataLoader  # noqa: E402

MODES = ["process", "thread"]


def as_it_is(samples):
    return samples


def loader_of(data, **more):
    return DataLoader(data, **{"num_workers": 2, "batch_size": 1, "collate_fn": as_it_is} | more)


# ---- between two epochs


class Permitted(Dataset):
    """A sample takes a permit of its worker's; those that are made are counted."""

    def __init__(self, length, workers):
        self.length = length
        self.permits = [torch.multiprocessing.Semaphore(0) for _ in range(workers)]
        self.made = torch.multiprocessing.Value("i", 0)

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        self.permits[get_worker_info().id].acquire()
        with self.made.get_lock():
            self.made.value += 1
        return index

    def permit(self, worker, count):
        for _ in range(count):
            self.permits[worker].release()


@pytest.mark.parametrize("mode", MODES)
def test_between_epochs_of_persistent_workers_one_batch_is_waited_for_and_no_more(mode):
    data = Permitted(6, workers=2)
    loader = loader_of(data, persistent_workers=True, worker_mode=mode, prefetch_factor=2)
    for epoch in range(3):
        # Nothing can be made yet, so this waits for nothing of it.
        batches = iter(loader)
        assert data.made.value == 6 * epoch
        # All of it that is ever needed for the first batch: that batch.
        data.permit(worker=0, count=1)
        assert next(batches) == [0]
        assert data.made.value == 6 * epoch + 1
        data.permit(worker=0, count=2)
        data.permit(worker=1, count=3)
        assert list(batches) == [[1], [2], [3], [4], [5]]


class Named(Dataset):
    def __init__(self, name):
        self.name = name

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return self.name


@pytest.mark.parametrize("persistent", [False, True])
def test_workers_see_the_dataset_as_of_the_iter_that_started_them(persistent):
    seen = []
    for kind in (TorchLoader, DataLoader):
        data = Named("made")
        loader = kind(data, num_workers=1, persistent_workers=persistent, collate_fn=as_it_is)
        data.name = "first"
        batches = iter(loader)
        data.name = "second"
        names = [[name for (name,) in batches], [name for (name,) in loader]]
        seen.append((names, data.name))
    assert seen[0] == seen[1]
    assert seen[1][0][1] == ["first" if persistent else "second"] * 4


# ---- signals


def test_a_worker_killed_while_the_loop_works_is_told_of_there():
    batches = iter(loader_of(range(1000)))
    next(batches)
    worker = batches._workers[0]
    told = rf"worker \(pid {worker.pid}\) is killed by signal: Killed"
    # The handler may run as soon as the signal is sent.
    with pytest.raises(RuntimeError, match=told):  # noqa: PT012
        worker.kill()
        threading.Event().wait(50)
    with pytest.raises(RuntimeError, match="exited unexpectedly"):
        list(batches)


HANDLER = """
    import signal, time
    called = []
    signal.signal(signal.SIGCHLD, lambda *arguments: called.append(arguments[0]))
    from feedline.torch import DataLoader
    assert len(list(DataLoader(range(4), num_workers=1))) == 4
    deadline = time.monotonic() + 30
    while not called and time.monotonic() < deadline:
        time.sleep(0.01)
    print(called[0] == signal.SIGCHLD)
"""


@pytest.mark.timeout(85)
def test_a_handler_of_the_users_is_called_as_before(program):
    assert program(HANDLER, timeout=80).stdout == "True\n"


# ---- how they start


@pytest.mark.parametrize("context", ["fork", torch.multiprocessing.get_context("fork")])
def test_a_context_may_be_a_name_or_an_object(context):
    loader = loader_of(range(4), multiprocessing_context=context, num_workers=1)
    assert list(loader) == [[0], [1], [2], [3]]
    assert list(copy.deepcopy(loader)) == [[0], [1], [2], [3]]


START_METHOD = """
    import torch
    from feedline.torch import DataLoader
    if __name__ == "__main__":
        torch.multiprocessing.set_start_method("spawn")
        batches = iter(DataLoader(range(4), batch_size=2, num_workers=1))
        print(batches._workers[0]._popen.method, [batch.tolist() for batch in batches])
"""


@pytest.mark.timeout(85)
def test_the_start_method_of_the_process_is_the_default(program):
    assert program(START_METHOD, timeout=80).stdout == "spawn [[0, 1], [2, 3]]\n"


CONVOLUTIONS = """
    import torch
    from feedline.torch import DataLoader

    class Convolving(torch.utils.data.Dataset):
        def __len__(self):
            return 2

        def __getitem__(self, index):
            image = torch.full((1, 3, 80, 80), float(index + 1))
            return torch.nn.functional.conv2d(image, torch.ones(8, 3, 3, 3))[0, :, 0, 0]

    # The threads of the pool that this makes are not there in a fork.
    torch.set_num_threads(4)
    expected = torch.stack([Convolving()[0], Convolving()[1]])
    torch.nn.functional.conv2d(torch.ones(8, 3, 80, 80), torch.ones(8, 3, 3, 3))
    (batch,) = DataLoader(Convolving(), batch_size=2, num_workers=1)
    print(torch.equal(batch, expected))
"""


@pytest.mark.timeout(85)
def test_convolutions_in_workers_after_one_in_the_main_process(program):
    assert program(CONVOLUTIONS, timeout=80).stdout == "True\n"


# ---- how they end


@pytest.mark.parametrize("mode", MODES)
def test_an_exception_in_the_loop_ends_the_workers(mode):
    workers = []

    def loop():
        batches = iter(loader_of(range(1000), worker_mode=mode))
        workers.extend(batches._workers)
        for _ in batches:
            msg = "the loop's own"
            raise LookupError(msg)

    with pytest.raises(LookupError, match="own"):
        loop()
    gc.collect()
    for worker in workers:
        worker.join(40)
    assert not any(worker.is_alive() for worker in workers)


def test_a_forked_child_may_have_loaders_of_its_own():
    batches = iter(loader_of(range(100)))
    first = next(batches)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            own = [batch[0] for batch in loader_of(range(10))]
            status = 0 if own == list(range(10)) else 2
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert [batch[0] for batch in [first, *batches]] == list(range(100))


class Inner(Dataset):
    def __len__(self):
        return 3

    def __getitem__(self, index):
        inner = DataLoader(range(index + 1), num_workers=1, batch_size=10)
        return [batch.tolist() for batch in inner]


def test_inside_worker_threads_loaders_may_have_processes():
    loader = loader_of(Inner(), worker_mode="thread")
    assert list(loader) == [[[[0]]], [[[0, 1]]], [[[0, 1, 2]]]]


# ---- what their batches can do


def first_column(tensor, results):
    results.put(tensor[:, 0].tolist())


def test_a_received_tensor_can_be_shared_saved_changed_and_passed_on():
    rows = [torch.full((1000,), float(i)) for i in range(64)]
    (batch,) = DataLoader(rows, batch_size=64, num_workers=1)
    row = batch[3]
    saved = io.BytesIO()
    torch.save(row.clone(), saved)
    row += 1
    assert torch.equal(batch[3], torch.full((1000,), 4.0))
    assert saved.tell() < 8000
    column = [0.0, 1.0, 2.0, 4.0, *map(float, range(4, 64))]
    results = torch.multiprocessing.SimpleQueue()
    process = torch.multiprocessing.Process(target=first_column, args=(batch, results), daemon=True)
    process.start()
    assert results.get() == column
    process.join()
    batch.share_memory_()
    assert batch.is_shared()
    assert batch[:, 0].tolist() == column


class Pair:
    def __init__(self, x):
        self.x = x


class Pairs(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return {"pair": Pair(index)}


def collate_pairs(batch, *, collate_fn_map=None):
    return torch.tensor([pair.x for pair in batch]) * 10


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("workers", [0, 1])
def test_types_registered_for_collation_at_run_time_are_collated(mode, workers, monkeypatch):
    table = torch.utils.data._utils.collate.default_collate_fn_map
    monkeypatch.setitem(table, Pair, collate_pairs)
    (batch,) = DataLoader(Pairs(), batch_size=4, num_workers=workers, worker_mode=mode)
    assert batch["pair"].tolist() == [0, 10, 20, 30]


@pytest.mark.parametrize("workers", [0, 1])
def test_a_profile_names_the_loader_as_torchs_does(workers):
    names = []
    for kind in (TorchLoader, DataLoader):
        loader = kind(range(4), num_workers=workers)
        with torch.autograd.profiler.profile() as profile:
            list(loader)
        names.append({event.name for event in profile.function_events if "Loader" in event.name})
    assert names[0] == names[1]
    assert len(names[0]) == 1
