"""Batches on a device.

On the CPU for real. There is no GPU here, so what is tested of the CUDA path is its protocol: the
order of calls on a stand-in for `torch.cuda`, with tensors that report where they are copied and
recorded.
"""

import gc
import weakref
from collections import OrderedDict, defaultdict, namedtuple
from contextlib import contextmanager
from types import MappingProxyType

import pytest

torch = pytest.importorskip("torch")

from torch.nn.utils.rnn import pack_sequence  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

from feedline.torch import to_device  # noqa: E402
from feedline.torch.device import _OneAhead  # noqa: E402

Pair = namedtuple("Pair", "x y")

# ---- on the CPU


def test_batches_of_a_data_loader_come_unchanged():
    data = TensorDataset(torch.arange(10.0), torch.arange(10))
    loader = DataLoader(data, batch_size=4)
    on_cpu = to_device(loader, "cpu")
    assert len(on_cpu) == len(loader) == 3
    for _ in range(2):
        got = list(on_cpu)
        assert [x.tolist() for x, _ in got] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
        assert all(torch.equal(x, y.float()) for x, y in got)


def test_a_batch_that_is_there_already_is_not_copied():
    batch = torch.zeros(3)
    assert next(iter(to_device([batch], torch.device("cpu")))).data_ptr() == batch.data_ptr()


def test_each_kind_of_nest_keeps_its_type():
    t = torch.ones(2)
    default = defaultdict(list, x=t)
    batches = [
        (t, t),
        [t, "name", 3, None],
        {"x": t, "more": {"y": [t, (t,)]}},
        Pair(t, "label"),
        OrderedDict(b=t, a=t),
        default,
        torch.Size([2, 3]),
        pack_sequence([torch.ones(3), torch.ones(2)]),
        "text",
    ]
    # "meta" is a device other than the tensors' own, and there on every machine.
    moved = list(to_device(batches, "meta"))
    assert [type(batch) for batch in moved] == [type(batch) for batch in batches]
    assert moved[1][1:] == ["name", 3, None]
    assert moved[3].y == "label"
    assert list(moved[4]) == ["b", "a"]
    assert moved[5]["missing"] == []
    assert moved[6] == torch.Size([2, 3])
    assert moved[8] == "text"
    leaves = [*moved[0], moved[1][0], moved[2]["x"], moved[2]["more"]["y"][0]]
    leaves += [moved[2]["more"]["y"][1][0], moved[3].x, moved[4]["a"], moved[5]["x"], moved[7].data]
    assert {leaf.device.type for leaf in leaves} == {"meta"}
    assert t.device.type == "cpu"
    assert default["x"] is t, "the loader's own batch is left as it is"


def test_a_mapping_that_cannot_be_changed_becomes_a_dict():
    (moved,) = to_device([MappingProxyType({"x": torch.ones(1)})], "meta")
    assert type(moved) is dict
    assert moved["x"].device.type == "meta"


def test_a_loader_without_a_length_has_none_here_either():
    on_cpu = to_device(iter([torch.ones(1)]), "cpu")
    with pytest.raises(TypeError):
        len(on_cpu)
    assert len(list(on_cpu)) == 1


def test_on_the_cpu_a_batch_is_taken_when_it_is_asked_for():
    taken = []

    def loader():
        for i in range(3):
            taken.append(i)
            yield torch.tensor(i)

    batches = iter(to_device(loader(), "cpu"))
    assert taken == []
    next(batches)
    assert taken == [0]


def test_on_the_cpu_iteration_goes_on_after_an_exception():
    batches = iter(to_device(failing(None, 1, 3), "meta"))
    next(batches)
    with pytest.raises(ValueError, match="batch 1 is bad"):
        next(batches)
    assert next(batches).device.type == "meta"
    assert next(batches, None) is None


def test_an_unknown_device_is_refused_at_once():
    with pytest.raises(RuntimeError, match="no_such_device"):
        to_device([], "no_such_device")


# ---- the protocol on streams


class Log(list):
    """What happened, in order."""

    def where(self, *event):
        return self.index(event)


class Event:
    def __init__(self, log, number, finished):
        self.log, self.number, self.finished = log, number, finished

    def query(self):
        return self.finished

    def synchronize(self):
        self.log.append(("synchronize", self.number))
        self.finished = True


class Stream:
    def __init__(self, cuda, name, device):
        self.cuda, self.name, self.device = cuda, name, device

    def record_event(self):
        event = Event(self.cuda.log, len(self.cuda.events), self.cuda.instant)
        self.cuda.events.append(event)
        self.cuda.log.append(("record_event", self.name, event.number))
        return event

    def wait_event(self, event):
        self.cuda.log.append(("wait_event", self.name, event.number))

    def wait_stream(self, stream):
        self.cuda.log.append(("wait_stream", self.name, stream.name))


class Cuda:
    """Stands in for `torch.cuda`."""

    def __init__(self, *, instant=True):
        self.log, self.events, self.instant = Log(), [], instant
        self.selected = self.main = Stream(self, "main", torch.device("cuda", 0))

    def Stream(self, *, device):  # noqa: N802 - torch's name
        return Stream(self, "side", device)

    def current_stream(self, device):
        assert device.type == "cuda"
        return self.selected

    @contextmanager
    def stream(self, stream):
        before, self.selected = self.selected, stream
        try:
            yield
        finally:
            self.selected = before


class Host(torch.Tensor):
    """A tensor in host memory that reports when it is copied."""

    def to(self, device, non_blocking):
        assert device.type == "cuda"
        assert non_blocking
        self.streams.log.append(("copy", self.label, self.streams.selected.name))
        return tensor(Device, self.streams, self.label)


class Device(torch.Tensor):
    """A tensor that says it is on a device."""

    is_cuda = True

    def to(self, device, non_blocking):
        return self

    def record_stream(self, stream):
        self.streams.log.append(("record_stream", self.label, stream.name))


def tensor(kind, cuda, label):
    made = torch.zeros(1).as_subclass(kind)
    made.streams, made.label = cuda, label
    return made


def hosts(cuda, count):
    return [tensor(Host, cuda, i) for i in range(count)]


def one_ahead(cuda, batches):
    return _OneAhead(batches, torch.device("cuda", 0), non_blocking=True, streams=cuda)


def test_the_next_batch_is_copied_before_the_step_on_the_current_one():
    cuda = Cuda()
    for batch in one_ahead(cuda, hosts(cuda, 4)):
        cuda.log.append(("step", batch.label))
    for i in range(3):
        assert cuda.log.where("copy", i + 1, "side") < cuda.log.where("step", i)
    for i in range(2):
        assert cuda.log.where("step", i) < cuda.log.where("copy", i + 2, "side"), (
            "one ahead, not two"
        )


def test_a_step_waits_for_its_own_batch_and_not_for_the_next():
    cuda = Cuda()
    for batch in one_ahead(cuda, hosts(cuda, 4)):
        cuda.log.append(("step", batch.label))
    for i in range(4):
        copied = cuda.log.where("copy", i, "side")
        assert cuda.log[copied + 1] == ("record_event", "side", i)
        assert copied < cuda.log.where("wait_event", "main", i) < cuda.log.where("step", i)
    assert not [event for event in cuda.log if event[0] == "wait_stream"]


def test_each_delivered_tensor_is_recorded_on_the_stream_that_uses_it():
    cuda = Cuda()
    a, b, c = hosts(cuda, 3)
    batches = one_ahead(cuda, [{"a": a, "rest": [(b,), "text"]}, Pair(c, 1)])
    next(batches)
    recorded = [event for event in cuda.log if event[0] == "record_stream"]
    assert recorded == [("record_stream", 0, "main"), ("record_stream", 1, "main")]
    # The user may step on another stream than before.
    cuda.selected = Stream(cuda, "other", torch.device("cuda", 0))
    assert next(batches).y == 1
    assert cuda.log[-1] == ("record_stream", 2, "other")


def test_what_the_loader_made_on_the_device_is_waited_for():
    cuda = Cuda()
    assert next(one_ahead(cuda, [tensor(Device, cuda, 0)])).label == 0
    assert cuda.log[0] == ("wait_stream", "side", "main")


def test_a_source_batch_lives_until_its_copy_is_done():
    cuda = Cuda(instant=False)
    sources = []

    def loader():
        for i in range(4):
            batch = tensor(Host, cuda, i)
            sources.append(weakref.ref(batch))
            yield batch
            del batch

    batches = one_ahead(cuda, loader())
    next(batches)
    next(batches)
    assert [source() is not None for source in sources] == [True, True, True]
    cuda.events[0].finished = True
    next(batches)
    assert [source() is not None for source in sources] == [False, True, True, True]
    next(batches)
    assert next(batches, None) is None
    assert [source() for source in sources] == [None] * 4
    assert all(event.finished for event in cuda.events)


def test_after_an_early_break_no_copy_runs_and_the_loader_is_closed():
    cuda = Cuda(instant=False)
    closed = []

    def loader():
        try:
            yield from hosts(cuda, 10)
        finally:
            closed.append(cuda.log.copy())

    gc.disable()
    try:
        for batch in one_ahead(cuda, loader()):
            if batch.label == 1:
                break
        assert len(closed) == 1, "no garbage collection is needed"
    finally:
        gc.enable()
    assert [event[1] for event in cuda.log if event[0] == "copy"] == [0, 1, 2]
    assert [event[1] for event in cuda.log if event[0] == "synchronize"] == [0, 1, 2]


def failing(cuda, at, count):
    """An iterator that fails once and goes on, as a feedline loader does."""

    class Batches:
        def __init__(self):
            self.at = -1

        def __iter__(self):
            return self

        def __next__(self):
            self.at += 1
            if self.at == count:
                raise StopIteration
            if self.at == at:
                raise ValueError(f"batch {at} is bad")
            return torch.ones(1) if cuda is None else tensor(Host, cuda, self.at)

    return Batches()


@pytest.mark.parametrize("at", range(4))
def test_an_exception_comes_where_its_batch_would_have_been(at):
    cuda = Cuda()
    batches = one_ahead(cuda, failing(cuda, at, 4))
    assert [next(batches).label for _ in range(at)] == list(range(at))
    with pytest.raises(ValueError, match=f"batch {at} is bad") as caught:
        next(batches)
    assert caught.traceback[-1].name == "__next__"
    assert "test_to_device" in str(caught.traceback[-1].path), "the loader's frame is shown"
    assert [batch.label for batch in batches] == list(range(at + 1, 4)), "and the rest follows"


def test_after_a_break_before_an_exception_nothing_is_kept():
    cuda = Cuda(instant=False)
    source = failing(cuda, 1, 4)
    alive = weakref.ref(source)
    for _ in one_ahead(cuda, source):
        break
    del source
    gc.collect()  # the waiting exception's traceback refers to the iterator
    assert alive() is None
    assert all(event.finished for event in cuda.events)


def test_a_copy_that_fails_half_way_keeps_its_source_and_fails_at_its_batch():
    cuda = Cuda(instant=False)

    class TooLarge(Host):
        def to(self, device, non_blocking):
            raise torch.OutOfMemoryError("no room")

    first, second = hosts(cuda, 2)
    alive = weakref.ref(second)
    batches = one_ahead(cuda, iter([first, (second, tensor(TooLarge, cuda, 2))]))
    del second
    assert next(batches).label == 0
    assert alive() is not None, "its copy may still run"
    with pytest.raises(torch.OutOfMemoryError, match="no room"):
        next(batches)
    assert next(batches, None) is None
    assert ("synchronize", 1) in cuda.log


def test_an_interrupt_loses_no_batch():
    cuda = Cuda()

    class Interrupted:
        def __init__(self):
            self.calls = 0

        def __iter__(self):
            return self

        def __next__(self):
            self.calls += 1
            if self.calls == 2:
                raise KeyboardInterrupt
            if self.calls > 4:
                raise StopIteration
            return tensor(Host, cuda, self.calls)

    batches = one_ahead(cuda, Interrupted())
    with pytest.raises(KeyboardInterrupt):
        next(batches)
    assert [batch.label for batch in batches] == [1, 3, 4]


def test_an_ended_iteration_stays_ended():
    cuda = Cuda()
    batches = one_ahead(cuda, hosts(cuda, 1))
    assert len(list(batches)) == 1
    assert next(batches, None) is None
    assert list(one_ahead(cuda, [])) == []


def test_the_real_torch_cuda_has_what_the_protocol_uses():
    for name in ["Stream", "current_stream", "stream"]:
        assert callable(getattr(torch.cuda, name))
    for name in ["record_event", "wait_event", "wait_stream", "device"]:
        assert hasattr(torch.cuda.Stream, name)
    for name in ["query", "synchronize"]:
        assert hasattr(torch.cuda.Event, name)
    assert hasattr(torch.Tensor, "record_stream")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_batches_arrive_on_a_real_device():
    data = [torch.full((1 << 20,), i, dtype=torch.float32).pin_memory() for i in range(8)]
    for i, batch in enumerate(to_device(data, "cuda")):
        assert batch.is_cuda
        assert (batch * 1.0).eq(i).all().item()
