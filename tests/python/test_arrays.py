"""Arrays in memory as samples: what NumPy and torch hold is what batches hold."""

import warnings

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import feedline

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
NAMES = ["?", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", "c8", "c16"]
DTYPES = [np.dtype(name) for name in NAMES]


def values(dtype, shape):
    """Random bits; bools are 0 or 1."""
    raw = np.random.default_rng(0).integers(0, 256, (*shape, dtype.itemsize), np.uint8)
    if dtype.kind == "b":
        raw &= 1
    return raw.view(dtype).reshape(shape)


def delivered(pipeline, batch_size=3, **settings):
    """All rows of the first field, in order."""
    loader = feedline.Loader(pipeline, batch_size=batch_size, epochs=1, **settings)
    return np.concatenate([np.array(batch[0]) for batch in loader])


def assert_same(got, expected):
    assert got.dtype == expected.dtype.newbyteorder("=")
    assert got.shape == expected.shape
    # Bit by bit: NaN is equal to itself here.
    assert got.tobytes() == expected.astype(got.dtype).tobytes()


# ---- dtypes and layouts


@pytest.mark.parametrize("dtype", [*DTYPES, BFLOAT16], ids=str)
@pytest.mark.parametrize("shape", [(7,), (7, 2), (7, 2, 3)], ids=str)
def test_every_dtype_comes_out_as_it_went_in(dtype, shape):
    array = values(dtype, shape)
    assert_same(delivered(feedline.arrays(array)), array)


def field_of_records(array):
    records = np.zeros(array.shape, [("x", "i1"), ("y", array.dtype)])
    records["y"] = array
    return records["y"]


LAYOUTS = {
    "Fortran order": lambda a: np.asfortranarray(a),
    "rows backwards": lambda a: a[::-1],
    "all axes backwards": lambda a: a[::-1, ::-1, ::-1],
    "last axis backwards": lambda a: a[..., ::-1],
    "every second row": lambda a: a[::2],
    "every second column": lambda a: a[:, :, ::2],
    "a window": lambda a: a[1:-1, 1:3, 1:4],
    "axes swapped": lambda a: a.transpose(1, 2, 0),
    "inner axes swapped": lambda a: a.transpose(0, 2, 1),
    "one column": lambda a: a[:, 1:2, :],
    "scalars far apart": lambda a: a[:, 1, 2],
    "rows broadcast": lambda a: np.broadcast_to(a[0], (9, *a.shape[1:])),
    "columns broadcast": lambda a: np.broadcast_to(a[:, :1], a.shape),
    "one number broadcast": lambda a: np.broadcast_to(a[:1, :1, :1], a.shape),
    "new axes": lambda a: a[:, None, :, None],
    "read-only": lambda a: np.frombuffer(a.tobytes(), a.dtype).reshape(a.shape),
    "big-endian": lambda a: a.astype(a.dtype.newbyteorder(">")),
    "unaligned": lambda a: np.frombuffer(b"." + a.tobytes(), np.uint8)[1:].view(a.dtype),
    "a field of records": lambda a: field_of_records(a),
    "a matrix": lambda a: np.asmatrix(a[0]),
}


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["u1", "i2", "f4", "c16"])
def test_every_layout_is_gathered_right(layout, dtype):
    array = LAYOUTS[layout](values(np.dtype(dtype), (8, 5, 6)))
    for batch_size in [1, 3, 64]:
        assert_same(delivered(feedline.arrays(array), batch_size), np.asarray(array))


@given(data=st.data())
def test_any_indexing_of_any_array_is_gathered_right(data):
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=4, max_side=5))
    array = np.arange(np.prod(shape), dtype=data.draw(st.sampled_from(["u1", "i4", "f8"])))
    array = array.reshape(shape, order=data.draw(st.sampled_from("CF")))
    array = array.transpose(data.draw(st.permutations(range(array.ndim))))
    view = array[data.draw(hnp.basic_indices(array.shape, allow_newaxis=True))]
    if not isinstance(view, np.ndarray) or view.ndim == 0 or len(view) == 0:
        return
    assert_same(delivered(feedline.arrays(view), num_workers=0), view)


@pytest.mark.parametrize("shape", [(4, 0), (4, 0, 3), (4, 3, 0), (4, 1, 0, 2)], ids=str)
def test_axes_of_length_zero_are_kept(shape):
    assert_same(
        delivered(feedline.arrays(np.zeros(shape, np.float32))), np.zeros(shape, np.float32)
    )
    loader = feedline.Loader(feedline.arrays(torch.zeros(shape)), batch_size=4, output="torch")
    assert next(iter(loader))[0].shape == shape


def test_shuffled_rows_of_several_arrays_stay_together():
    x = np.arange(1000)
    y = np.stack([x * 2, -x], axis=1)[:, ::-1]
    loader = feedline.Loader(feedline.arrays(x, y, x[::-1]), batch_size=64, shuffle=True, seed=3)
    seen = []
    for a, b, c in loader:
        np.testing.assert_array_equal(b, np.stack([-a, a * 2], axis=1))
        np.testing.assert_array_equal(c, 999 - a)
        seen.extend(a.tolist())
    assert sorted(seen) == x.tolist()
    assert seen != x.tolist()


def test_the_array_is_not_copied_and_the_batch_is():
    array = np.zeros(4)
    loader = feedline.Loader(feedline.arrays(array), batch_size=4, num_workers=0)
    array[:] = 7
    ((batch,),) = list(loader)
    assert (batch == 7).all(), "made when it is asked for"
    batch[:] = 1
    assert (array == 7).all()


def test_the_array_is_kept_alive():
    pipeline = feedline.arrays(np.arange(100_000), torch.arange(100_000))
    for x, y in feedline.Loader(pipeline, batch_size=1000, epochs=1):
        assert (x == y).all()


def test_anything_array_like_is_taken():
    assert delivered(feedline.arrays([[1, 2], [3, 4]])).tolist() == [[1, 2], [3, 4]]
    assert delivered(feedline.arrays(range(5))).tolist() == [0, 1, 2, 3, 4]
    assert delivered(feedline.arrays(memoryview(b"abc"))).tolist() == [97, 98, 99]


# ---- torch tensors

TENSORS = {
    "float32": torch.arange(24.0).reshape(6, 4),
    "bfloat16": torch.arange(24.0).reshape(6, 4).bfloat16(),
    "float16": torch.arange(24.0).reshape(6, 4).half(),
    "bool": torch.arange(24).reshape(6, 4) % 3 == 0,
    "complex64": torch.complex(torch.arange(6.0), -torch.arange(6.0)),
    "uint16": torch.arange(24).reshape(6, 4).to(torch.uint16),
    "one axis": torch.arange(6),
    "transposed": torch.arange(24.0).reshape(4, 6).T,
    "sliced": torch.arange(100.0).reshape(10, 10)[2:8, ::3],
    "expanded rows": torch.arange(4.0).expand(6, 4),
    "expanded columns": torch.arange(6.0)[:, None].expand(6, 4),
    "channels last": torch.arange(6 * 3 * 4 * 4.0)
    .reshape(6, 3, 4, 4)
    .contiguous(memory_format=torch.channels_last),
    "requires grad": torch.arange(24.0).reshape(6, 4).requires_grad_(),
    "a parameter": torch.nn.Parameter(torch.arange(24.0).reshape(6, 4)),
    "conjugate view": torch.complex(torch.arange(6.0), torch.ones(6)).conj(),
    "negative view": torch.complex(torch.arange(6.0), torch.ones(6)).conj().imag,
    "part of complex": torch.complex(torch.arange(6.0), torch.ones(6)).real,
}


@pytest.mark.parametrize("case", TENSORS)
def test_tensors_come_out_as_they_went_in(case):
    tensor = TENSORS[case]
    loader = feedline.Loader(feedline.arrays(tensor), batch_size=4, output="torch", epochs=1)
    batches = [batch for (batch,) in loader]
    assert [len(batch) for batch in batches] == [4, 2]
    joined = torch.cat(batches)
    assert joined.dtype == tensor.dtype
    assert not joined.requires_grad
    assert torch.equal(joined, tensor.detach().resolve_conj().resolve_neg())


def test_a_tensor_subclass_from_elsewhere_is_a_tensor():
    class Marked(torch.Tensor):
        pass

    tensor = torch.arange(4).bfloat16().as_subclass(Marked)
    ((batch,),) = feedline.Loader(feedline.arrays(tensor), batch_size=4, output="torch", epochs=1)
    assert torch.equal(batch, torch.arange(4).bfloat16())


def test_bfloat16_is_bfloat16_in_numpy_too():
    expected = np.arange(5).astype(BFLOAT16)
    assert_same(delivered(feedline.arrays(torch.arange(5).bfloat16())), expected)
    assert_same(delivered(feedline.arrays(expected)), expected)


# ---- names


def test_arrays_by_position_make_tuples_and_by_name_make_dicts():
    x, y = np.arange(3), np.ones((3, 2))
    (batch,) = feedline.Loader(feedline.arrays(x, y), batch_size=3, epochs=1)
    assert type(batch) is tuple
    assert [part.shape for part in batch] == [(3,), (3, 2)]
    (batch,) = feedline.Loader(feedline.arrays(y=y, x=x), batch_size=3, epochs=1)
    assert type(batch) is dict
    assert list(batch) == ["y", "x"]
    np.testing.assert_array_equal(batch["x"], x)


# ---- what is refused


def quantised():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)


def nested():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])


def sparse_rows():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.eye(3).to_sparse_csr()


REFUSED = {
    "objects": (lambda: np.array([1, "a", None], object), TypeError, "object.*numeric dtype"),
    "strings": (lambda: ["a", "b"], TypeError, "<U1.*numeric dtype"),
    "bytes": (lambda: [b"a", b"b"], TypeError, "numeric dtype"),
    "dates": (lambda: np.array(["2024-01-01"], "M8[D]"), TypeError, "datetime64.*numeric dtype"),
    "spans of time": (lambda: np.array([1], "m8[s]"), TypeError, "timedelta64.*numeric dtype"),
    "records": (lambda: np.zeros(3, [("x", "i4")]), TypeError, "numeric dtype"),
    "long doubles": (lambda: np.zeros(3, np.longdouble), TypeError, "float32, float64"),
    "tiny floats": (lambda: np.zeros(3, ml_dtypes.float8_e5m2), TypeError, "float8_e5m2"),
    "tiny floats in torch": (
        lambda: torch.zeros(3, dtype=torch.float8_e5m2),
        TypeError,
        "float8_e5m2.*convert it to one of.*float32",
    ),
    "masked": (lambda: np.ma.array([1, 2], mask=[0, 1]), TypeError, r"masked.*\.filled"),
    "a number": (lambda: 3, ValueError, "scalar.*first axis"),
    "a tensor of one number": (lambda: torch.tensor(3), ValueError, "scalar.*first axis"),
    "sparse": (lambda: torch.eye(3).to_sparse(), ValueError, r"sparse_coo.*to_dense\(\)"),
    "sparse rows": (sparse_rows, ValueError, r"sparse_csr.*to_dense\(\)"),
    "on no device": (lambda: torch.ones(3, device="meta"), ValueError, r"on meta.*\.cpu\(\)"),
    "quantised": (quantised, TypeError, r"quantised.*dequantize"),
    "nested": (nested, ValueError, "nested.*dense"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_has_no_rows_of_numbers_is_refused_with_advice(case):
    make, kind, message = REFUSED[case]
    with pytest.raises(kind, match=message):
        feedline.arrays(np.zeros(3), make())
    with pytest.raises(kind, match=f"pixels.*{message}"):
        feedline.arrays(pixels=make())


def test_arrays_of_different_length_are_refused_by_name():
    with pytest.raises(ValueError, match="same number of rows, got x: 3, y: 4"):
        feedline.arrays(x=np.zeros(3), y=np.zeros(4))


def test_no_array_or_both_kinds_is_refused():
    with pytest.raises(ValueError, match=r"at least one array, e.g. arrays\(images, labels\)"):
        feedline.arrays()
    with pytest.raises(ValueError, match=r"by position .* or by name"):
        feedline.arrays(np.zeros(3), y=np.zeros(3))


def test_an_array_without_rows_makes_no_loader():
    pipeline = feedline.arrays(np.zeros((0, 3)))
    assert len(pipeline) == 0
    with pytest.raises(ValueError, match="empty; pass a dataset with at least 1 sample"):
        feedline.Loader(pipeline)
