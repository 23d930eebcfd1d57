"""Batches as arrays: views of the loader's memory, which returns when the last of them dies."""

import gc
import json
import weakref

import ml_dtypes
import numpy as np
import pytest
import torch
from handover import BATCH_BYTES, DTYPES, address, array_of, held, made, memory

import feedline

# ---- nothing is copied, and memory is used again


@pytest.mark.parametrize("output", ["numpy", "torch"])
@pytest.mark.parametrize("workers", [0, 2])
def test_batches_that_are_dropped_are_used_again(output, workers):
    loader, _ = made(output, rows=800, num_workers=workers)
    addresses = {address(batch) for _ in range(5) for (batch,) in loader}
    counts = memory(loader)
    assert len(addresses) < 10, "500 batches"
    assert counts["allocated_blocks"] < 10
    assert counts["reused_blocks"] > 450
    assert counts["held_by_user"] == 0


def test_all_fields_of_a_batch_share_one_block():
    pipeline = feedline.arrays(np.zeros((4, 3)), np.ones(4), np.arange(4, dtype=np.int8))
    loader = feedline.Loader(pipeline, batch_size=4, num_workers=0)
    x, y, z = next(iter(loader))
    starts = [address(array) for array in (x, y, z)]
    assert starts == sorted(starts)
    assert starts[-1] - starts[0] < 1024
    assert all(start % 64 == 0 for start in starts)
    assert memory(loader)["allocated_blocks"] == 1


def test_numpy_and_torch_see_the_same_memory():
    loader, data = made("dlpack")
    (array,) = next(iter(loader))
    views = [np.asarray(array), np.from_dlpack(array), torch.from_dlpack(array)]
    assert len({address(view) for view in views}) == 1
    assert np.shares_memory(views[0], views[1])
    views[0][0, 0] = -1
    assert views[2][0, 0] == -1
    np.testing.assert_array_equal(views[1][1:], data[1:8])


@pytest.mark.parametrize("output", ["numpy", "torch"])
def test_batches_may_be_written_to(output):
    loader, data = made(output)
    for (batch,) in loader:
        batch += 1
        batch[0] = 0
    ((first,), *_) = list(loader)
    np.testing.assert_array_equal(
        np.asarray(first), data[:8], err_msg="the next epoch is untouched"
    )


@pytest.mark.parametrize("output", ["numpy", "torch", "dlpack"])
def test_a_list_of_all_batches_keeps_each_intact(output):
    loader, data = made(output, memory=4 * BATCH_BYTES)
    batches = list(loader)
    arrays = [np.from_dlpack(batch) for (batch,) in batches]
    assert len({address(array) for array in arrays}) == 8
    np.testing.assert_array_equal(np.concatenate(arrays), data)
    del arrays
    assert held(loader) == 8 * BATCH_BYTES
    del batches
    assert held(loader) == 0


# ---- who holds a batch

HOLDERS = {
    "numpy slice": lambda a: np.asarray(a)[2:3, ::7],
    "numpy reshape": lambda a: np.asarray(a).reshape(-1),
    "numpy other dtype": lambda a: np.asarray(a).view(np.int32).T,
    "numpy from_dlpack": lambda a: np.from_dlpack(a)[0],
    "one element's view": lambda a: np.asarray(a)[0, :1],
    "memoryview": lambda a: memoryview(a),
    "slice of a memoryview": lambda a: memoryview(a).cast("B")[100:200],
    "torch from_dlpack": lambda a: torch.from_dlpack(a)[1],
    "torch from_numpy": lambda a: torch.from_numpy(np.asarray(a)).flatten(),
    "torch view": lambda a: torch.from_dlpack(a).view(-1)[::2].unsqueeze(0),
    "torch through numpy": lambda a: torch.from_dlpack(a).numpy()[1:],
    "torch frombuffer": lambda a: torch.frombuffer(a, dtype=torch.uint8)[3:],
    "torch storage": lambda a: torch.from_dlpack(a).untyped_storage(),
    "capsule": lambda a: a.__dlpack__(),
    "versioned capsule": lambda a: a.__dlpack__(max_version=(1, 0)),
    "the array itself": lambda a: a,
}


@pytest.mark.parametrize("case", HOLDERS)
def test_the_block_returns_when_the_last_view_dies(case):
    loader, data = made("dlpack")
    batches = iter(loader)
    (array,) = next(batches)
    view = HOLDERS[case](array)
    del array
    assert held(loader) == BATCH_BYTES
    before = bytes(view) if isinstance(view, memoryview) else None
    assert sum(1 for _ in batches) == 7
    assert sum(1 for _ in loader) == 8
    assert held(loader) == BATCH_BYTES, "and nobody writes to it meanwhile"
    if before is not None:
        assert bytes(view) == before
    elif isinstance(view, np.ndarray) and view.dtype == np.float32:
        assert np.isin(view, data[:8]).all()
    del view
    assert held(loader) == 0


@pytest.mark.parametrize("output", ["numpy", "torch"])
def test_a_view_of_one_field_holds_the_block_of_all(output):
    pipeline = feedline.arrays(x=np.zeros((16, 100)), y=np.arange(16))
    loader = feedline.Loader(pipeline, batch_size=4, output=output)
    batch = next(iter(loader))
    everything = held(loader)
    assert everything >= 4 * 808
    label = batch["y"][1:2]
    del batch
    assert held(loader) == everything
    del label
    assert held(loader) == 0


def test_what_torch_computes_with_a_batch_holds_nothing():
    loader, _ = made("torch")
    (x,) = next(iter(loader))
    doubled = x * 2
    del x
    assert held(loader) == 0
    assert doubled[0, 1] == 2


def test_a_batch_in_a_cycle_is_freed_by_the_garbage_collector():
    loader, _ = made()
    cycle = [next(iter(loader))]
    cycle.append(cycle)
    gc.disable()
    try:
        del cycle
        assert loader.stats()["memory"]["held_by_user"] == BATCH_BYTES
    finally:
        gc.enable()
    gc.collect()
    assert held(loader) == 0


def test_delivery_does_not_wait_for_the_user():
    loader, data = made(memory=BATCH_BYTES, prefetch=1)
    kept = [batch for _ in range(3) for batch in loader]
    assert held(loader) == len(kept) * BATCH_BYTES
    for i, (batch,) in enumerate(kept):
        np.testing.assert_array_equal(batch, data[8 * (i % 8) :][:8])


@pytest.mark.parametrize("output", ["numpy", "torch", "dlpack"])
def test_batches_outlive_their_loader(output):
    loader, data = made(output)
    batches = list(loader)
    gone = weakref.ref(loader)
    del loader
    gc.collect()
    assert gone() is None
    whole = np.concatenate([np.from_dlpack(batch) for (batch,) in batches])
    np.testing.assert_array_equal(whole, data)


# ---- DLPack


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_goes_to_numpy_and_torch(dtype):
    array, values = array_of(dtype)
    assert (array.dtype, array.shape, array.nbytes) == (dtype, (5, 3), values.nbytes)
    for got in [np.asarray(array), np.from_dlpack(array), torch.from_dlpack(array).numpy()]:
        assert got.dtype == values.dtype
        np.testing.assert_array_equal(got, values)


def test_bfloat16_goes_to_torch():
    array, values = array_of(ml_dtypes.bfloat16)
    assert array.dtype == "bfloat16"
    assert torch.equal(torch.from_dlpack(array).float(), torch.arange(15.0).reshape(5, 3))
    bits = np.asarray(array)
    np.testing.assert_array_equal(bits.view(ml_dtypes.bfloat16), values)


@pytest.mark.parametrize(
    ("version", "name"),
    [
        (None, "dltensor"),
        ((0, 8), "dltensor"),
        ((1, 0), "dltensor_versioned"),
        ((1, 3), "dltensor_versioned"),
        ((2, 0), "dltensor_versioned"),
    ],
)
def test_a_capsule_is_of_the_version_that_is_understood(version, name):
    array, _ = array_of("float32")
    assert f'"{name}"' in repr(array.__dlpack__(max_version=version))


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_capsules_that_nobody_takes_free_what_they_hold(version):
    loader, _ = made("dlpack")
    (array,) = next(iter(loader))
    capsules = [array.__dlpack__(max_version=version) for _ in range(10)]
    del array
    assert held(loader) == BATCH_BYTES
    del capsules[1:]
    assert held(loader) == BATCH_BYTES
    del capsules
    assert held(loader) == 0


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_a_capsule_can_be_taken_once(version):
    loader, data = made("dlpack")
    (array,) = next(iter(loader))
    capsule = array.__dlpack__(max_version=version)
    tensor = torch.utils.dlpack.from_dlpack(capsule)
    with pytest.raises(RuntimeError):
        torch.utils.dlpack.from_dlpack(capsule)
    del array, capsule
    np.testing.assert_array_equal(tensor.numpy(), data[:8])
    assert held(loader) == BATCH_BYTES
    del tensor
    assert held(loader) == 0


def test_only_host_memory_without_a_copy_is_offered():
    array, values = array_of("float32")
    assert array.__dlpack_device__() == (1, 0)
    assert array.__dlpack__(dl_device=(1, 0), copy=False, stream=None) is not None
    np.testing.assert_array_equal(np.from_dlpack(array, device="cpu", copy=False), values)
    with pytest.raises(BufferError, match="stream=None"):
        array.__dlpack__(stream=1)
    with pytest.raises(BufferError, match="host memory"):
        array.__dlpack__(dl_device=(2, 0))
    with pytest.raises(BufferError, match="without a copy"):
        array.__dlpack__(copy=True)


def test_the_array_describes_itself():
    array, _ = array_of("int16", rows=4)
    assert repr(array) == "Array(0, shape=[4, 3], dtype=int16)"
    assert (len(array), array.name) == (4, "0")
    view = memoryview(array)
    assert (view.format, view.itemsize, view.shape, view.strides) == ("h", 2, (4, 3), (6, 2))
    assert view.c_contiguous
    assert not view.readonly
    assert view.tolist() == np.arange(12).reshape(4, 3).tolist()


def test_views_without_elements_and_batches_without_rows():
    def failing(x):
        if x > 3:
            raise ValueError
        return np.full((2, 0), x)

    pipeline = feedline.arrays(np.arange(8)).map(failing)
    for output in ["numpy", "torch", "dlpack"]:
        loader = feedline.Loader(pipeline, batch_size=4, on_error="skip", output=output, epochs=1)
        full, empty = list(loader)
        assert [tuple(batch[0].shape) for batch in (full, empty)] == [(4, 2, 0), (0, 2, 0)]
        for (batch,) in (full, empty):
            assert np.asarray(batch).size == 0
            assert torch.from_dlpack(batch).numel() == 0


# ---- outputs


def test_each_output_has_its_type():
    kinds = {"numpy": np.ndarray, "torch": torch.Tensor, "dlpack": feedline.Array}
    for output, kind in kinds.items():
        loader, _ = made(output)
        assert type(next(iter(loader))[0]) is kind


def test_text_is_a_list_whatever_the_output():
    pipeline = feedline.arrays(np.arange(3)).map(lambda x: (str(x), bytes([x]), x))
    for output in ["numpy", "torch", "dlpack"]:
        (batch,) = feedline.Loader(pipeline, batch_size=3, output=output, epochs=1)
        assert batch[0] == ["0", "1", "2"]
        assert batch[1] == [b"\0", b"\1", b"\2"]
        assert np.asarray(batch[2]).tolist() == [0, 1, 2]


def test_what_is_counted_adds_up():
    loader, _ = made(rows=128)
    batches = iter(loader)
    kept = [next(batches) for _ in range(3)]
    counts = memory(loader)
    assert counts["held_by_user"] == 3 * BATCH_BYTES
    assert counts["peak"] <= 2 << 30
    assert json.loads(json.dumps(counts)) == counts
    del kept, batches
    assert held(loader) == 0
