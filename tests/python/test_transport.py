"""Messages between processes: what arrives is what was sent, and nothing is left behind."""

import collections
import copyreg
import gc
import io
import multiprocessing
import os
import pickle
import queue
import signal
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from transport_workers import echo, flood

from feedline._transport import Hub, codec, collate_into
from feedline.errors import ForkError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="process workers are for Linux")


@pytest.fixture
def lane():
    """A hub and the end of its only worker, both in this process."""
    hub = Hub(1)
    yield hub, hub.worker_end(0)
    hub.close()


def cross(lane, message):
    hub, end = lane
    end.send(message)
    worker, arrived = hub.receive(timeout=30)
    assert worker == 0
    return arrived


def assert_same(sent, arrived):
    """Compare tensors by all that a user can see of them."""
    assert type(arrived) is type(sent)
    assert arrived.dtype == sent.dtype
    assert arrived.layout == sent.layout
    assert arrived.is_nested == sent.is_nested
    assert sent.is_nested or arrived.shape == sent.shape
    assert arrived.requires_grad == sent.requires_grad
    if sent.layout == torch.strided and not sent.is_nested:
        assert arrived.stride() == sent.stride()
        assert arrived.is_conj() == sent.is_conj()
        assert arrived.is_neg() == sent.is_neg()
    if sent.is_quantized:
        assert arrived.qscheme() == sent.qscheme()
        assert torch.equal(arrived.int_repr(), sent.int_repr())
        assert torch.equal(arrived.dequantize(), sent.dequantize())
    elif sent.is_nested:
        for ours, theirs in zip(arrived.unbind(), sent.unbind(), strict=True):
            assert torch.equal(ours, theirs)
    elif sent.layout == torch.sparse_coo:
        assert arrived.is_coalesced() == sent.is_coalesced()
        assert torch.equal(arrived.to_dense(), sent.to_dense())
    else:
        torch.testing.assert_close(
            arrived.detach().to_dense(), sent.detach().to_dense(), rtol=0, atol=0, equal_nan=True
        )


DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.complex64,
    torch.complex128,
    torch.uint8,
    torch.uint16,
    torch.uint32,
    torch.uint64,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.bool,
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("n", [0, 1, 100, 40_000])
def test_every_dtype_crosses(lane, dtype, n):
    sent = torch.randint(0, 2, (n,)).to(torch.float32).to(dtype)
    arrived = cross(lane, sent)
    assert arrived.dtype == dtype
    assert arrived.shape == (n,)
    assert torch.equal(arrived.view(torch.uint8), sent.view(torch.uint8))


def kinds():
    x = torch.arange(24_000.0).reshape(20, 30, 40)
    dense = torch.eye(60).to(torch.float32)
    blocks = torch.eye(60).reshape(60, 60)
    yield "scalar", torch.tensor(3.5)
    yield "no elements", torch.empty(0, 3)
    yield "no axis", torch.empty(())
    yield "transposed", x.transpose(0, 2)
    yield "permuted", x.permute(1, 2, 0)
    yield "steps", x[::3, 1:7:2, 5:]
    yield "a row of a large one", x[7]
    yield "a tiny piece", x[3, 4, 5:9]
    yield "expanded", torch.arange(5.0).reshape(5, 1).expand(5, 4000)
    yield "channels last", torch.randn(4, 3, 32, 32).to(memory_format=torch.channels_last)
    yield "conjugate", torch.randn(100, dtype=torch.complex64).conj()
    yield "conjugate, large", torch.randn(9000, dtype=torch.complex64).conj()
    yield "negative bit", torch.randn(2000, dtype=torch.complex64).conj().imag
    yield "not a number", torch.full((3000,), float("nan"))
    yield "leaf with gradient", torch.randn(3000, requires_grad=True)
    yield "parameter", torch.nn.Parameter(torch.randn(3000))
    yield "frozen parameter", torch.nn.Parameter(torch.randn(30), requires_grad=False)
    yield "sparse coo", dense.to_sparse_coo()
    yield "uncoalesced", torch.sparse_coo_tensor([[1, 1], [2, 2]], [3.0, 4.0], (5, 5))
    yield "sparse csr", dense.to_sparse_csr()
    yield "sparse csc", dense.to_sparse_csc()
    yield "sparse bsr", blocks.to_sparse_bsr((2, 3))
    yield "sparse bsc", blocks.to_sparse_bsc((3, 2))
    yield "large sparse", torch.eye(3000).to_sparse_csr()
    yield "quantised", torch.quantize_per_tensor(torch.randn(30_000), 0.1, 3, torch.quint8)
    yield (
        "quantised by channel",
        torch.quantize_per_channel(
            torch.randn(4, 30),
            torch.rand(4) + 0.1,
            torch.zeros(4, dtype=torch.int64),
            0,
            torch.qint8,
        ),
    )
    yield "nested", torch.nested.nested_tensor([torch.randn(2, 5), torch.randn(3, 5)])


# Some of these layouts are prototypes in torch, which says so once.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    KINDS = dict(kinds())


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_tensor_crosses(lane, kind):
    assert_same(KINDS[kind], cross(lane, KINDS[kind]))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_all_kinds_cross_together_at_any_depth(lane):
    sent = {"list": [KINDS, (KINDS,)], "again": list(KINDS.values())}
    arrived = cross(lane, sent)
    for name, tensor in KINDS.items():
        assert_same(tensor, arrived["list"][0][name])
        # What was one object is one object.
        assert arrived["list"][1][0] is arrived["list"][0]
    assert arrived["again"][0] is arrived["list"][0]["scalar"]


def storage(tensor):
    return tensor.untyped_storage().data_ptr()


@pytest.mark.parametrize("n", [10, 100_000])
def test_views_of_one_storage_arrive_as_views_of_one_storage(lane, n):
    x = torch.arange(float(n))
    whole, half, last = cross(lane, (x, x[: n // 2], x[-1:]))
    assert storage(whole) == storage(half) == storage(last)
    whole[0] = -1
    whole[-1] = -2
    assert half[0] == -1
    assert last[0] == -2


def test_views_that_overlap_share_their_memory_though_most_of_the_storage_stays_behind(lane):
    x = torch.arange(10_000_000)
    a, b, c = cross(lane, (x[1000:9000], x[8000:20_000], x[5_000_000:5_000_100]))
    assert torch.equal(a, x[1000:9000])
    assert torch.equal(b, x[8000:20_000])
    assert torch.equal(c, x[5_000_000:5_000_100])
    b[0] = -1
    assert a[7000] == -1
    assert storage(a) == storage(b) != storage(c)
    assert a.untyped_storage().nbytes() < 200_000
    assert c.untyped_storage().nbytes() < 2000


def test_views_of_other_dtypes_stay_aligned(lane):
    x = torch.zeros(1_000_000, dtype=torch.uint8)
    x[100:164] = torch.arange(64, dtype=torch.uint8)
    sent = (x[103:300], x[104:120].view(torch.float64), x[100:400].view(torch.int32))
    for ours, theirs in zip(cross(lane, sent), sent, strict=True):
        assert torch.equal(ours.view(torch.uint8), theirs.view(torch.uint8))


def test_a_tensor_with_a_graph_is_refused_in_torchs_words(lane):
    with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor"):
        cross(lane, torch.randn(3, requires_grad=True) * 2)
    assert cross(lane, "still works") == "still works"


class Labelled(torch.Tensor):
    pass


Point = collections.namedtuple("Point", "x y")


def test_subclasses_cross(lane):
    sent = torch.arange(30_000.0).as_subclass(Labelled)
    sent.label = "cat"
    arrived = cross(lane, sent)
    assert type(arrived) is Labelled
    assert arrived.label == "cat"
    assert torch.equal(arrived.as_subclass(torch.Tensor), sent.as_subclass(torch.Tensor))


def test_tensors_that_the_user_shares_stay_shared(lane):
    sent = torch.zeros(10).share_memory_()
    arrived = cross(lane, sent)
    arrived[3] = 7
    assert sent[3] == 7


def arrays():
    x = np.arange(60_000, dtype=np.float32).reshape(100, 20, 30)
    readonly = x.copy()
    readonly.flags.writeable = False
    yield "c order", x
    yield "fortran order", np.asfortranarray(x)
    yield "transposed", x.transpose(2, 0, 1)
    yield "transposed steps", x.transpose(2, 0, 1)[::2]
    yield "steps", x[::2, ::-1]
    yield "read-only", readonly
    yield "small", np.arange(3)
    yield "no elements", np.empty((0, 4))
    yield "no axis", np.array(5)
    yield "objects", np.array([None, "a", {"b": 1}], dtype=object)
    yield "strings", np.array(["a", "bc"] * 5000)
    yield "bytes", np.array([b"a", b"bc"])
    yield "times", np.array(["2026-01-01"] * 4000, dtype="datetime64[s]")
    yield "records", np.zeros(5000, dtype=[("x", "f4"), ("y", "i8", 3)])
    yield "big-endian", np.arange(9000, dtype=">i4")
    yield "masked", np.ma.array(np.arange(5000), mask=np.arange(5000) % 2)


@pytest.mark.parametrize("kind", [name for name, _ in arrays()])
def test_every_kind_of_array_crosses(lane, kind):
    sent = dict(arrays())[kind]
    arrived = cross(lane, sent)
    oracle = pickle.loads(pickle.dumps(sent, protocol=5))
    assert type(arrived) is type(oracle)
    assert arrived.dtype == oracle.dtype
    assert arrived.shape == oracle.shape
    assert arrived.flags.c_contiguous == oracle.flags.c_contiguous
    assert arrived.flags.f_contiguous == oracle.flags.f_contiguous
    if kind != "read-only":
        assert arrived.flags.writeable == oracle.flags.writeable
    assert np.ma.allequal(arrived, oracle) if kind == "masked" else np.array_equal(arrived, oracle)


def test_a_memory_mapped_array_crosses(lane, tmp_path):
    sent = np.memmap(tmp_path / "x", dtype=np.int32, mode="w+", shape=(100, 100))
    sent[:] = np.arange(10_000).reshape(100, 100)
    arrived = cross(lane, sent)
    assert isinstance(arrived, np.memmap)
    assert np.array_equal(arrived, sent)


def test_what_multiprocessing_can_pickle_crosses(lane):
    reader, writer = multiprocessing.Pipe(duplex=False)
    arrived = cross(lane, {"pipe": writer, "method": [3, 1].count, "partial": print})
    arrived["pipe"].send("through")
    assert reader.recv() == "through"
    assert arrived["method"](3) == 1


class Registered:
    def __init__(self, value):
        self.value = value


def test_types_registered_at_run_time_cross(lane, monkeypatch):
    monkeypatch.setitem(
        copyreg.dispatch_table, Registered, lambda it: (Registered, (it.value + 1,))
    )
    assert cross(lane, Registered(1)).value == 2


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (lambda: None, (AttributeError, pickle.PicklingError)),
        (threading.Lock(), TypeError),
        ((n for n in range(3)), TypeError),
    ],
)
def test_what_cannot_be_pickled_raises_at_the_sender_who_can_go_on(lane, message, error):
    with pytest.raises(error):
        cross(lane, [torch.zeros(100_000), message])
    assert cross(lane, "next") == "next"


class Broken:
    def __reduce__(self):
        return int, ("not a number",)


def test_what_cannot_be_unpickled_raises_at_the_receiver_who_can_go_on(lane):
    hub, end = lane
    end.send(Broken())
    end.send("next")
    with pytest.raises(ValueError, match="invalid literal"):
        hub.receive(timeout=30)
    assert hub.receive(timeout=30) == (0, "next")


class Nested:
    """Unpickles another message while it is being unpickled."""

    def __init__(self, message):
        payload, buffers = codec.encode(message)
        self.state = bytes(payload), [bytearray(memoryview(buffer)) for buffer in buffers]

    def __setstate__(self, state):
        self.message = codec.decode(*state["state"])


def test_a_message_inside_a_message_keeps_its_own_tensors(lane):
    inner, outer = torch.arange(10_000), torch.arange(5.0)
    first, nested, last = cross(lane, (outer, Nested(inner), outer * 2))
    assert torch.equal(first, outer)
    assert torch.equal(nested.message, inner)
    assert torch.equal(last, outer * 2)


# ---- what may be done with what arrived


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


def test_kept_blocks_are_never_written_again(lane):
    kept = []
    for i in range(300):
        arrived = cross(lane, torch.full((5000,), i))
        if i % 3 == 0:
            kept.append((i, arrived))
    for i, tensor in kept:
        assert torch.equal(tensor, torch.full((5000,), i))


def test_blocks_are_reused(lane):
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


# ---- collate


def samples():
    yield "tensors", [torch.randn(3, 40, 40) for _ in range(8)]
    yield "small tensors", [torch.randn(3) for _ in range(8)]
    yield "scalars", [torch.tensor(i) for i in range(8)]
    yield "pairs", [(torch.randn(3, 40, 40), i) for i in range(8)]
    yield "dicts", [{"x": torch.randn(5000), "n": "name"} for _ in range(4)]
    yield "named tuples", [Point(torch.randn(5000), 2.5) for _ in range(4)]
    yield "arrays", [np.random.default_rng(i).random((30, 50)) for i in range(4)]
    yield "mixed dtypes", [torch.ones(5000), torch.ones(5000, dtype=torch.float64)]
    yield "views", [torch.randn(40, 50).t() for _ in range(4)]
    yield "no elements", [torch.empty(0, 3) for _ in range(4)]
    yield "complex", [torch.randn(3000, dtype=torch.complex64) for _ in range(4)]
    yield "bools", [torch.randn(9000) > 0 for _ in range(4)]


@pytest.mark.parametrize("kind", [name for name, _ in samples()])
def test_default_collate_gives_the_same_inside(lane, kind, monkeypatch):
    batch = dict(samples())[kind]
    in_worker = torch.utils.data._utils.worker.WorkerInfo(id=0, num_workers=1, seed=0, dataset=None)
    monkeypatch.setattr(torch.utils.data._utils.worker, "_worker_info", in_worker)
    theirs = torch.utils.data.default_collate(batch)
    with collate_into(lane[1]):
        ours = torch.utils.data.default_collate(batch)
    arrived = cross(lane, ours)

    def compare(a, b):
        assert type(a) is type(b)
        if isinstance(a, torch.Tensor):
            assert_same(a, b)
        elif isinstance(a, dict):
            assert list(a) == list(b)
            compare(list(a.values()), list(b.values()))
        elif isinstance(a, list | tuple):
            assert len(a) == len(b)
            for x, y in zip(a, b, strict=True):
                compare(x, y)
        else:
            assert a == b

    compare(theirs, ours)
    compare(theirs, arrived)


@pytest.mark.parametrize(
    "batch",
    [
        [torch.zeros(2), torch.zeros(3)],
        [torch.zeros(3), torch.zeros(2)],
        [torch.zeros(20_000), torch.zeros(30_000)],
        [torch.zeros(30_000), torch.zeros(20_000)],
        [torch.zeros(3).to_sparse()] * 2,
        [torch.zeros(3, requires_grad=True)] * 2,
        [torch.zeros(3), 5],
        [torch.randn(3000, dtype=torch.complex64).conj()] * 2,
        [],
    ],
)
def test_default_collate_refuses_in_torchs_words(lane, batch, monkeypatch):
    in_worker = torch.utils.data._utils.worker.WorkerInfo(id=0, num_workers=1, seed=0, dataset=None)
    monkeypatch.setattr(torch.utils.data._utils.worker, "_worker_info", in_worker)

    def outcome():
        try:
            return torch.utils.data.default_collate(batch)
        except Exception as error:
            return type(error), str(error).split("\n")[0]

    theirs = outcome()
    with collate_into(lane[1]):
        ours = outcome()
    assert ours == theirs


def test_a_users_own_function_for_tensors_is_left_alone(lane, monkeypatch):
    table = torch.utils.data._utils.collate.default_collate_fn_map
    monkeypatch.setitem(table, torch.Tensor, lambda batch, *, collate_fn_map=None: "mine")
    with collate_into(lane[1]):
        assert torch.utils.data.default_collate([torch.zeros(2)]) == "mine"


def test_the_table_is_as_before_afterwards(lane):
    table = torch.utils.data._utils.collate.default_collate_fn_map
    before = dict(table)
    with collate_into(lane[1]):
        assert table != before
    assert table == before


# ---- between processes


def start(hub, target, context="fork", workers=1, args=()):
    context = multiprocessing.get_context(context)
    processes = [
        context.Process(target=target, args=(hub.worker_end(i), *args), daemon=True)
        for i in range(workers)
    ]
    for process in processes:
        process.start()
    return processes


# A process that is started imports torch first, which takes long on a busy machine.
@pytest.mark.timeout(80)
@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
def test_messages_cross_between_processes(context):
    hub = Hub(2)
    processes = start(hub, echo, context, workers=2)
    for i in range(40):
        hub.send(i % 2, [i, "task"])
    for _ in range(40):
        worker, (own, pid, task, tensor) = hub.receive(timeout=75)
        assert worker == own == task[0] % 2
        assert pid == processes[worker].pid
        assert torch.equal(tensor, torch.full((20_000,), task[0]))
    for i in range(2):
        hub.send(i, None)
    for process in processes:
        process.join(30)
        assert process.exitcode == 0
    hub.close()


def test_tasks_of_any_size_and_number_never_wait():
    hub = Hub(1)
    sent = [list(range(n)) for n in (0, 1, 40_960, 1_000_000)] + [[i] for i in range(3000)]
    for task in sent:
        hub.send(0, task)
    end = hub.worker_end(0)
    received = []
    thread = threading.Thread(target=lambda: received.extend(end.receive() for _ in sent))
    thread.start()
    while thread.is_alive():
        # More than the ring holds follows while the hub is used.
        with pytest.raises(queue.Empty):
            hub.receive(timeout=0.01)
    assert received == sent
    hub.close()


def test_a_worker_waits_when_the_main_process_does_not_look():
    hub = Hub(1)
    (process,) = start(hub, flood, args=(2000,))
    for i in range(2000):
        _, (number, tensor) = hub.receive(timeout=60)
        assert number == i
        assert torch.equal(tensor, torch.full((3000,), i))
    hub.send(0, None)
    process.join(30)
    assert process.exitcode == 0
    hub.close()


def test_a_worker_killed_at_any_instant_leaves_whole_messages_only():
    for round_ in range(12):
        hub = Hub(2)
        processes = start(hub, flood, workers=2, args=(10**9,))
        for _ in range(round_ * 3):
            hub.receive(timeout=60)
        for process in processes:
            os.kill(process.pid, signal.SIGKILL)
        for process in processes:
            process.join(30)
            assert process.exitcode == -signal.SIGKILL
        last = [-1, -1]
        while True:
            try:
                worker, (number, tensor) = hub.receive(timeout=0)
            except queue.Empty:
                break
            assert number > last[worker]
            last[worker] = number
            assert torch.equal(tensor, torch.full((3000,), number))
        hub.close()


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


def test_the_time_is_over_when_nothing_comes(lane):
    hub, end = lane
    for timeout in (0, 0.01, 0.25):
        begun = time.monotonic()
        with pytest.raises(queue.Empty):
            hub.receive(timeout=timeout)
        with pytest.raises(queue.Empty):
            end.receive(timeout=timeout)
        assert time.monotonic() - begun >= 2 * timeout


def test_a_signal_ends_the_wait(lane):
    hub, _ = lane

    class AlarmError(Exception):
        pass

    def handler(*_):
        raise AlarmError

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        with pytest.raises(AlarmError):
            hub.receive()
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_closing_wakes_who_waits(lane):
    hub, _ = lane
    threading.Timer(0.2, hub.close).start()
    with pytest.raises(queue.Empty):
        hub.receive()
    hub.send(0, "nobody gets it")


def test_many_threads_may_receive():
    hub = Hub(2)
    processes = start(hub, echo, workers=2)
    received = []

    def take():
        received.extend(hub.receive(timeout=60)[1][2][0] for _ in range(50))

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for i in range(200):
        hub.send(i % 2, [i])
    for thread in threads:
        thread.join(60)
    assert sorted(received) == list(range(200))
    for process in processes:
        process.kill()
        process.join()
    hub.close()


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


def orphan(end, pipe):
    try:
        end.receive()
    except EOFError:
        pipe.send("gone")


def test_a_worker_notices_that_its_parent_is_gone():
    reader, writer = multiprocessing.Pipe(duplex=False)
    child = os.fork()
    if child == 0:
        end = Hub(1).worker_end(0)
        if os.fork() == 0:
            try:
                orphan(end, writer)
            finally:
                os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    writer.close()
    assert reader.poll(30)
    assert reader.recv() == "gone"


KEEP_TEN_THOUSAND = """
    import multiprocessing, os, resource
    import torch
    from feedline._transport import Hub

    resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))

    def work(end):
        while (n := end.receive()) is not None:
            end.send(torch.full((3000,), n))

    before = os.listdir("/dev/shm")
    hub = Hub(2)
    for i in range(2):
        end = hub.worker_end(i)
        multiprocessing.get_context("fork").Process(target=work, args=(end,), daemon=True).start()
    kept = []
    for i in range(10_000):
        hub.send(i % 2, i)
        if i >= 20:
            kept.append(hub.receive(60)[1])
    with open("/proc/self/maps") as maps:
        assert sum(1 for _ in maps) < 2000
    assert os.listdir("/dev/shm") == before
    assert len(set(int(x[0]) for x in kept)) == len(kept) == 9_980
    assert all(x[0] == x[-1] for x in kept)
    print("kept")
"""


@pytest.mark.timeout(80)
def test_ten_thousand_batches_are_kept_with_forty_descriptors_and_nothing_in_dev_shm(program):
    assert program(KEEP_TEN_THOUSAND, timeout=75).stdout == "kept\n"


@pytest.mark.timeout(80)
def test_an_interpreter_that_exits_with_everything_alive_exits_cleanly(program):
    done = program(
        """
        import multiprocessing, torch
        from feedline._transport import Hub

        def work(end):
            while end.receive() is not None:
                end.send(torch.ones(10_000))

        hub = Hub(1)
        end = hub.worker_end(0)
        multiprocessing.get_context("fork").Process(target=work, args=(end,), daemon=True).start()
        hub.send(0, 1)
        hub.send(0, 2)
        kept = hub.receive(60)
        end.native.allocate(100)
        print(kept[1].sum().item())
        """,
        timeout=75,
    )
    assert done.stdout == "10000.0\n"


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
    assert done.stdout.startswith("1000000.0\nno room for a block of 3221225472 bytes")
