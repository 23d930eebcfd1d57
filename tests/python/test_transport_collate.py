"""`default_collate` writes straight into shared memory, and gives what torch's gives."""

import collections
import itertools
import sys

import numpy as np
import pytest
import torch
from transport_kinds import KINDS
from transport_lane import assert_same, cross

from feedline._transport import collate_into

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="process workers are for Linux")


Point = collections.namedtuple("Point", "x y")


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


def refused():
    yield [torch.zeros(2), torch.zeros(3)]
    yield [torch.zeros(3), torch.zeros(2)]
    yield [torch.zeros(20_000), torch.zeros(30_000)]
    yield [torch.zeros(30_000), torch.zeros(20_000)]
    yield [torch.zeros(3, requires_grad=True)] * 2
    yield [torch.zeros(3), 5]
    yield [torch.randn(3000, dtype=torch.complex64).conj()] * 2
    yield []
    for tensor in KINDS.values():
        if tensor.layout != torch.strided or tensor.is_nested or tensor.is_quantized:
            yield [tensor] * 2
            yield [torch.zeros(3), tensor]
    yield [torch.zeros(2, 3).to_mkldnn()] * 2
    yield [torch.nn.UninitializedParameter()] * 2


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("batch", list(refused()), ids=itertools.count())
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
