"""Messages between processes: what arrived may be kept, changed and passed on; memory goes back."""

import gc
import io
import os
import pickle
import queue
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from transport_lane import cross, start, storage
from transport_workers import echo

from feedline._transport import Hub, collate_into
from feedline.errors import ForkError
from feedline.torch import DataLoader

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="process workers are for Linux")


def test_what_arrived_can_be_changed_saved_pickled_and_sent_on(lane):
    x = torch.arange(50_000.0)
    arrived = cross(lane, x)
    arrived += 1
    assert torch.equal(arrived, x + 1)
    file = io.BytesIO()
    torch.save(arrived, file)
    assert file.tell() < arrived.nbytes + 3000
    file.seek(0)
    assert torch.equal(torch.load(file), arrived)
    assert len(pickle.dumps(arrived)) < arrived.nbytes + 3000
    assert torch.equal(pickle.loads(pickle.dumps(arrived)), arrived)
    assert torch.equal(cross(lane, arrived), arrived)
    mailbox = torch.multiprocessing.get_context("fork").SimpleQueue()
    mailbox.put(arrived)
    assert torch.equal(mailbox.get(), x + 1)


def test_what_arrived_outlives_the_hub(lane):
    hub, end = lane
    sent = [torch.full((30_000,), float(i)) for i in range(20)]
    arrived = cross(lane, sent)
    array = cross(lane, np.arange(40_000))
    hub.close()
    del hub, end
    for i, tensor in enumerate(arrived):
        assert torch.equal(tensor, torch.full((30_000,), float(i)))
    del arrived[::2]
    gc.collect()
    for tensor, i in zip(arrived, range(1, 20, 2), strict=True):
        assert torch.equal(tensor, torch.full((30_000,), float(i)))
    assert np.array_equal(array, np.arange(40_000))


def test_kept_memory_is_never_written_again(lane):
    kept = []
    for i in range(300):
        arrived = cross(lane, torch.full((5000,), i))
        if i % 3 == 0:
            kept.append((i, arrived))
    for i, tensor in kept:
        assert torch.equal(tensor, torch.full((5000,), i))


def test_memory_is_reused(lane):
    seen = set()
    for i in range(100):
        arrived = cross(lane, torch.full((100_000,), i))
        seen.add(arrived.data_ptr())
        del arrived
    assert len(seen) <= 3


def test_memory_goes_back_when_it_is_not_needed_any_more(lane):
    _, end = lane

    def used():
        return os.fstat(end.native.fileno()).st_blocks * 512

    kept = [cross(lane, torch.ones(5_000_000)) for _ in range(20)]
    assert used() >= 400_000_000
    del kept
    deadline = time.monotonic() + 30
    while used() > 80_000_000 and time.monotonic() < deadline:
        # An idle worker gives back what it does not need.
        with pytest.raises(queue.Empty):
            end.receive(timeout=0.01)
    assert used() <= 80_000_000


def test_when_the_hub_closes_only_what_is_held_keeps_memory(lane):
    hub, end = lane
    probe = os.dup(end.native.fileno())
    try:
        kept = [cross(lane, torch.ones(1_000_000)) for _ in range(20)]
        first, tiny = kept[0], cross(lane, torch.ones(3000))
        del kept
        hub.close()
        assert 4_000_000 <= os.fstat(probe).st_blocks * 512 <= 5_000_000
        del first
        assert os.fstat(probe).st_blocks * 512 <= 1_000_000
        assert torch.equal(tiny, torch.ones(3000))
    finally:
        os.close(probe)


MIB = 1 << 20


def sparse(end, mib):
    """Return a tensor in shared memory of which only one page in each MiB is touched."""
    tensor = torch.frombuffer(end.native.allocate(mib * MIB), dtype=torch.uint8)
    tensor[::MIB] = 7
    return tensor


@pytest.mark.parametrize("sizes", [(260, 260, 520), (500, 500, 768), (260, 520, 300, 800)], ids=str)
def test_what_is_held_when_the_hub_closes_is_whole_whatever_was_there_before(lane, sizes):
    hub, end = lane
    # Messages themselves have got their place, so those of the batches are side by side.
    cross(lane, "hello")
    kept = [cross(lane, sparse(end, size)) for size in sizes[:-1]]
    del kept
    kept = cross(lane, sparse(end, sizes[-1]))
    hub.close()
    assert kept[::MIB].tolist() == [7] * sizes[-1]


class OfSizes(torch.utils.data.Dataset):
    def __init__(self, *sizes):
        self.sizes = sizes

    def __len__(self):
        return len(self.sizes)

    def __getitem__(self, index):
        return torch.full((self.sizes[index] * MIB,), index + 1, dtype=torch.uint8)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_batch_that_is_kept_when_its_loader_goes_is_whole():
    batches = iter(DataLoader(OfSizes(260, 260, 520), batch_size=None, num_workers=1))
    kept = [next(batches), next(batches)]
    del kept
    kept = next(batches)
    del batches
    gc.collect()
    assert kept.min() == kept.max() == 3


def test_huge_batches_that_were_dropped_leave_no_memory_behind(lane):
    _, end = lane

    def used():
        return os.fstat(end.native.fileno()).st_blocks * 512

    # Messages themselves have got their place, so the batches are side by side: one free stretch.
    cross(lane, "hello")
    before = used()
    kept = [cross(lane, sparse(end, 500)) for _ in range(2)]
    assert used() >= before + 1000 * 4096
    del kept
    # An idle worker gives back what it does not need.
    with pytest.raises(queue.Empty):
        end.receive(timeout=0.01)
    # Messages keep the page that they were in.
    assert used() <= before + 64 * 1024


def test_what_nobody_received_leaves_no_memory_behind_when_the_hub_closes(lane):
    hub, end = lane
    probe = os.dup(end.native.fileno())
    try:
        kept = cross(lane, torch.ones(3000))
        end.send(sparse(end, 300))
        assert os.fstat(probe).st_blocks * 512 > 300 * 4096
        hub.close()
        assert os.fstat(probe).st_blocks * 512 < 50 * 4096
        assert torch.equal(kept, torch.ones(3000))
    finally:
        os.close(probe)


def test_a_worker_that_keeps_what_it_sent_may_send_it_again(lane):
    hub, end = lane
    with collate_into(end):
        batch = torch.utils.data.default_collate([torch.full((4000,), float(i)) for i in range(4)])
    for _ in range(50):
        end.send(batch)
        _, arrived = hub.receive(timeout=30)
        assert torch.equal(arrived, batch)
        del arrived
    end.send([batch, batch[1:]])
    del batch
    _, (whole, part) = hub.receive(timeout=30)
    assert torch.equal(whole[1:], part)
    assert storage(whole) == storage(part)


def test_a_forked_child_changes_nothing(lane):
    hub, _ = lane
    arrived = cross(lane, torch.arange(50_000))
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with pytest.raises(ForkError):
                hub.receive(timeout=0)
            # Not by torch: its threads are not there after a fork.
            good = np.array_equal(arrived.numpy(), np.arange(50_000))
            del arrived
            hub.close()
            code = 0 if good else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    for i in range(20):
        other = cross(lane, torch.full((50_000,), i))
        assert other.data_ptr() != arrived.data_ptr()
    assert torch.equal(arrived, torch.arange(50_000))


def test_a_child_may_look_at_what_its_parent_held_and_has_dropped(lane):
    arrived = cross(lane, torch.arange(50_000))
    go, ready = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.read(go, 1)
            code = 0 if np.array_equal(arrived.numpy(), np.arange(50_000)) else 2
        finally:
            os._exit(code)
    del arrived
    for i in range(20):
        cross(lane, torch.full((50_000,), i))
    lane[0].close()
    os.write(ready, b"!")
    os.close(ready)
    os.close(go)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_what_a_child_could_see_is_reused_when_it_has_ended(lane):
    arrived = cross(lane, torch.arange(50_000))
    address = arrived.data_ptr()
    child = os.fork()
    if child == 0:
        os._exit(0)
    del arrived
    os.waitpid(child, 0)
    kept = [cross(lane, torch.full((50_000,), i)) for i in range(20)]
    assert address in {tensor.data_ptr() for tensor in kept}


def test_hubs_leave_no_descriptors_and_no_mappings_behind():
    def count():
        gc.collect()
        maps = Path("/proc/self/maps").read_text().count("memfd:feedline")
        return len(list(Path("/proc/self/fd").iterdir())), maps

    before = count()
    for _ in range(6):
        hub = Hub(3)
        processes = start(hub, echo, workers=3)
        kept = []
        for i in range(6):
            hub.send(i % 3, [i])
        kept = [hub.receive(timeout=60) for _ in range(6)]
        for i in range(3):
            hub.send(i, None)
        for process in processes:
            process.join(30)
            process.close()
        hub.close()
        # Kept tensors need mappings, but no descriptors.
        assert count()[0] == before[0]
        assert kept
        del kept, hub, processes, process
    assert count() == before


KEEP_TEN_THOUSAND = """
    import multiprocessing, os, resource
    import torch
    from feedline._transport import Hub

    resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))

    def work(end):
        while (n := end.receive()) is not None:
            end.send(torch.full((3000,), n))

    hub = Hub(2)
    pids = [str(os.getpid())]
    for i in range(2):
        end = hub.worker_end(i)
        worker = multiprocessing.get_context("fork").Process(target=work, args=(end,), daemon=True)
        worker.start()
        pids.append(str(worker.pid))
    kept = []
    for i in range(10_000):
        hub.send(i % 2, i)
        if i >= 20:
            kept.append(hub.receive(60)[1])
    with open("/proc/self/maps") as maps:
        assert sum(1 for _ in maps) < 2000
    # Other programs may have files there.
    assert not [name for name in os.listdir("/dev/shm") if any(pid in name for pid in pids)]
    assert len(set(int(x[0]) for x in kept)) == len(kept) == 9_980
    assert all(x[0] == x[-1] for x in kept)
    print("kept")
"""


@pytest.mark.timeout(80)
def test_ten_thousand_batches_are_kept_with_forty_descriptors_and_nothing_in_dev_shm(program):
    assert program(KEEP_TEN_THOUSAND, timeout=75).stdout == "kept\n"


@pytest.mark.timeout(80)
def test_a_limit_on_file_sizes_is_respected(program):
    done = program(
        """
        import resource, torch
        from feedline._transport import Hub

        resource.setrlimit(resource.RLIMIT_FSIZE, (2 << 30, 2 << 30))
        hub = Hub(1)
        end = hub.worker_end(0)
        end.send(torch.ones(1000_000))
        print(hub.receive(1)[1].sum().item())
        try:
            end.send(torch.empty(3 << 30, dtype=torch.uint8))
        except MemoryError as error:
            print(error)
        """,
        timeout=75,
    )
    assert done.stdout.startswith("1000000.0\nno room for an extent of 3221225472 bytes")
