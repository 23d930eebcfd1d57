"""Messages between processes: what arrives is what was sent, whatever it is."""

import copyreg
import multiprocessing
import pickle
import sys
import threading

import numpy as np
import pytest
import torch
from torch._subclasses import FakeTensorMode
from transport_kinds import KINDS, Labelled, OfKinds
from transport_lane import assert_same, cross, storage

from feedline._transport import codec
from feedline.torch import DataLoader

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="process workers are for Linux")


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


@pytest.mark.parametrize(
    ("tensor", "error"),
    [
        (torch.zeros(3).to_mkldnn(), NotImplementedError),
        (FakeTensorMode().from_tensor(torch.zeros(3)), (AttributeError, pickle.PicklingError)),
    ],
    ids=["mkldnn", "fake"],
)
def test_a_tensor_without_memory_to_share_is_refused_where_torch_hangs(lane, tensor, error):
    with pytest.raises(error):
        cross(lane, tensor)
    assert cross(lane, "still works") == "still works"


# torch's own transport forgets these: that a view is a conjugate or a negative, and quantisers.
FORGOTTEN = {"conjugate", "conjugate, large", "negative bit", "quantised", "quantised by channel"}


# A process that is started imports torch first, which takes long on a busy machine.
@pytest.mark.timeout(300)
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
def test_every_kind_of_tensor_arrives_as_from_torchs_loader(context):
    def batches(loader):
        return list(
            loader(
                OfKinds(),
                batch_size=None,
                num_workers=1,
                multiprocessing_context=context,
                timeout=250,
            )
        )

    theirs, ours = batches(torch.utils.data.DataLoader), batches(DataLoader)
    for kind, expected, found in zip(KINDS, theirs, ours, strict=True):
        assert_same(KINDS[kind] if kind in FORGOTTEN else expected, found)
        assert getattr(found, "label", None) == getattr(expected, "label", None)


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
