"""`map`: what a Python function gets and returns, and what its samples must have in common."""

import threading
from functools import partial

import numpy as np
import pytest
import torch

import feedline
from feedline.errors import SampleError
from patience import PATIENCE
from tiny import first_failure, numbers, whole

# ---- map: what a function gets and returns


def test_a_function_gets_fields_as_arguments_and_as_its_own():
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    seen = []

    def look(row, label):
        seen.append((type(row), row.dtype, row.shape, type(label)))
        row *= 2  # its own memory: nobody else sees this
        return row

    (doubled,) = whole(feedline.arrays(x, np.arange(3)).map(look))
    np.testing.assert_array_equal(doubled, x * 2)
    assert set(seen) == {(np.ndarray, np.dtype("f4"), (4,), np.int64)}
    assert x[0, 1] == 1


def test_a_function_on_named_fields_gets_a_dict():
    pipeline = feedline.arrays(x=np.arange(3), y=np.ones(3))
    mapped = pipeline.map(lambda sample: {**sample, "z": sample["x"] + sample["y"]})
    assert mapped.fields == ["x", "y", "z"]
    assert whole(mapped)["z"].tolist() == [1, 2, 3]


RESULTS = {
    "scalar": (lambda x: x * 2, [0, 2, 4], "int64"),
    "Python int": (lambda x: int(x), [0, 1, 2], "int64"),
    "Python float": (lambda x: float(x) / 2, [0, 0.5, 1], "float64"),
    "Python bool": (lambda x: bool(x), [False, True, True], "bool"),
    "complex": (lambda x: complex(0, x), [0, 1j, 2j], "complex128"),
    "array": (lambda x: np.full((2, 1), x, np.int8), [[[0], [0]], [[1], [1]], [[2], [2]]], "int8"),
    "list": (lambda x: [x, x + 1], [[0, 1], [1, 2], [2, 3]], "int64"),
    "tensor": (lambda x: torch.tensor([x, 1.5]), [[0, 1.5], [1, 1.5], [2, 1.5]], "float32"),
    "Fortran order": (
        lambda x: np.asfortranarray([[x, 1], [2, 3]]),
        [[[0, 1], [2, 3]], [[1, 1], [2, 3]], [[2, 1], [2, 3]]],
        "int64",
    ),
    "backwards": (lambda x: np.array([x, 5], "i2")[::-1], [[5, 0], [5, 1], [5, 2]], "int16"),
    "big-endian": (lambda x: np.array(x, ">i4"), [0, 1, 2], "int32"),
    "no elements": (lambda x: np.zeros((2, 0)), [[[], []]] * 3, "float64"),
}


@pytest.mark.parametrize("case", RESULTS)
@pytest.mark.parametrize("workers", [0, 2])
def test_what_a_function_returns_is_one_field(case, workers):
    function, expected, dtype = RESULTS[case]
    (got,) = whole(numbers(3).map(function), num_workers=workers)
    assert got.dtype == dtype
    assert got.tolist() == expected


def test_a_tuple_is_fields_by_place_and_a_dict_is_fields_by_name():
    assert [part.tolist() for part in whole(numbers(2).map(lambda x: (x, -x)))] == [[0, 1], [0, -1]]
    batch = whole(numbers(2).map(lambda x: {"b": x, "a": str(x)}))
    assert list(batch) == ["b", "a"]
    assert batch["a"] == ["0", "1"]


def test_the_order_of_a_dict_does_not_matter():
    def turning(x):
        return {"a": x, "b": -x} if x % 2 == 0 else {"b": -x, "a": x}

    batch = whole(numbers(4).map(turning))
    assert batch["a"].tolist() == [0, 1, 2, 3]
    assert batch["b"].tolist() == [0, -1, -2, -3]


def test_text_and_bytes_of_any_length():
    texts, raw = whole(numbers(4).map(lambda x: ("ä€😀" * x, b"\0\xff" * x)))
    assert texts == ["", "ä€😀", "ä€😀" * 2, "ä€😀" * 3]
    assert raw == [b"", b"\0\xff", b"\0\xff" * 2, b"\0\xff" * 3]


def test_text_and_bytes_reach_the_next_function():
    pipeline = numbers(3).map(lambda x: ("ab" * x, b"c" * x)).map(lambda t, b: (len(t), len(b), t))
    n, m, text = whole(pipeline)
    assert (n.tolist(), m.tolist(), text) == ([0, 2, 4], [0, 1, 2], ["", "ab", "abab"])


def test_maps_follow_each_other_and_may_be_any_callable():
    class Adder:
        def __call__(self, x):
            return x + 1

    pipeline = numbers(3).map(Adder()).map(partial(np.multiply, 2)).map(np.sqrt)
    np.testing.assert_allclose(whole(pipeline)[0], np.sqrt([2, 4, 6]))
    assert all(stage in repr(pipeline) for stage in ["map(Adder)", "map(partial)", "map(sqrt)"])


# ---- map: shapes that vary


def ragged(rule, fill=0, dtype="i8", **settings):
    pipeline = feedline.arrays(np.arange(1, 4)).map(
        lambda n: np.full(n, n, dtype), ragged={0: rule}, fill=fill
    )
    return [part.tolist() for part in whole(pipeline, **settings)]


def test_longest_pads_each_batch_to_its_longest():
    expected = [[[1, -1, -1], [2, 2, -1], [3, 3, 3]], [1, 2, 3]]
    assert ragged("longest", fill=-1) == expected
    pipeline = feedline.arrays(np.arange(4)).map(lambda n: np.ones(n), ragged={0: "longest"})
    shapes = [x.shape for x, _ in feedline.Loader(pipeline, batch_size=2, epochs=1)]
    assert shapes == [(2, 1), (2, 3)]


def test_a_shape_pads_to_that_shape():
    assert ragged((5,), fill=7) == [
        [[1, 7, 7, 7, 7], [2, 2, 7, 7, 7], [3, 3, 3, 7, 7]],
        [1, 2, 3],
    ]


def test_packed_concatenates():
    assert ragged("packed") == [[1, 2, 2, 3, 3, 3], [0, 1, 3, 6]]


def test_several_axes_may_vary():
    pipeline = feedline.arrays(np.arange(1, 3)).map(
        lambda n: {"x": np.full((n, 3 - n), n)}, ragged={"x": "longest"}
    )
    batch = whole(pipeline)
    assert batch["x"].tolist() == [[[1, 1], [0, 0]], [[2, 0], [2, 0]]]
    assert batch["x_lengths"].tolist() == [[1, 2], [2, 1]]


def test_packed_values_keep_their_other_axes():
    pipeline = feedline.arrays(np.arange(1, 4)).map(
        lambda n: {"boxes": np.full((n, 4), n, "f4"), "n": n}, ragged={"boxes": "packed"}
    )
    batch = whole(pipeline)
    assert batch["boxes"].shape == (6, 4)
    assert batch["boxes_offsets"].tolist() == [0, 1, 3, 6]
    assert batch["n"].tolist() == [1, 2, 3]


def test_samples_of_length_zero_are_padded_and_packed():
    for rule, expected in [("longest", [[0, 0], [0, 0]]), ("packed", [0, 0])]:
        pipeline = numbers(2).map(lambda n: np.zeros(2 * n, "i8"), ragged={0: rule})
        assert whole(pipeline)[0].tolist() == expected


@pytest.mark.parametrize(
    ("dtype", "fill"),
    [("u1", 255), ("i1", -128), ("?", True), ("f4", float("nan")), ("f2", -1.5), ("i8", -(2**40))],
)
def test_the_fill_is_a_value_of_the_dtype(dtype, fill):
    padded, _ = ragged("longest", fill=fill, dtype=dtype)
    np.testing.assert_equal(padded[0][1:], [fill, fill])


@pytest.mark.parametrize(
    ("dtype", "fill"),
    [("u1", -1), ("u1", 256), ("i4", 0.5), ("i4", float("nan")), ("?", 2), ("i8", 2**53 + 1)],
)
def test_a_fill_that_is_none_is_refused(dtype, fill):
    with pytest.raises(ValueError, match="fill must be a value of"):
        ragged("longest", fill=fill, dtype=dtype)


BAD_RULES = [
    ({"y": "longest"}, ValueError, r"ragged names \['y'\].*returns the fields \['0'\]"),
    ({0: "shortest"}, ValueError, r'ragged\[0\] must be "longest", "packed" or a shape'),
    ({0: 5}, TypeError, r"ragged\[0\] must be"),
    ({0: (5, 5)}, ValueError, "has 1 axes.*give 1 lengths"),
    ({0: (-5,)}, ValueError, r"ragged\[0\] must be at least 0"),
    ({0: ("a",)}, TypeError, r"ragged\[0\] must be an integer"),
    ({0: (1,)}, ValueError, r"has shape \[2\] in the first sample.*larger shape"),
    ({0: (2**62,)}, ValueError, "too large"),
    (["longest"], TypeError, "ragged must be a dict of rules by field"),
]


@pytest.mark.parametrize(("rules", "kind", "message"), BAD_RULES)
def test_a_rule_that_cannot_be_is_refused_at_once(rules, kind, message):
    with pytest.raises(kind, match=message):
        numbers().map(lambda x: np.ones(2 + x), ragged=rules)


def test_what_cannot_vary_needs_no_rule():
    with pytest.raises(ValueError, match=r"is a scalar.*take it out of `ragged`"):
        numbers().map(lambda x: x, ragged={0: "longest"})
    with pytest.raises(ValueError, match=r"is text or bytes.*take it out of `ragged`"):
        numbers().map(lambda x: str(x), ragged={0: "packed"})
    with pytest.raises(TypeError, match="fill must be a real number"):
        numbers().map(lambda x: np.ones(x), ragged={0: "longest"}, fill="x")


def test_a_field_may_not_be_called_like_the_lengths_of_another():
    with pytest.raises(ValueError, match=r"`x` brings an array `x_lengths` along.*rename"):
        numbers().map(
            lambda x: {"x": np.ones(x), "x_lengths": 1},
            ragged={"x": "longest"},
        )


# ---- map: samples that differ

DIFFERING = {
    "dtype": (lambda x: x if x < 3 else float(x), r'int64.*float64 here.*\.astype\("int64"\)'),
    "shape": (
        lambda x: np.ones(2 if x < 3 else 4),
        r'shape \[2\] in the first sample, but \[4\] here.*map\(\.\.\., ragged=\{0: "longest"\}\)',
    ),
    "named shape": (
        lambda x: {"t": np.ones(2 if x < 3 else 4)},
        r'map\(\.\.\., ragged=\{"t": "longest"\}\)',
    ),
    "axes": (lambda x: np.ones(2 if x < 3 else (2, 1)), r"\[2, 1\] here"),
    "one instead of two": (lambda x: (x, x) if x < 3 else x, "one value, but a tuple of 2"),
    "three instead of two": (lambda x: (x, x) if x < 3 else (x, x, x), "a tuple of 3, but a tuple"),
    "another name": (lambda x: {"a" if x < 3 else "b": x}, "a dict of b, but a dict of a"),
    "a name missing": (
        lambda x: {"a": x, "b": x} if x < 3 else {"a": x},
        "a dict of a, but a dict of a, b",
    ),
    "a dict instead of a tuple": (lambda x: x if x < 3 else {"0": x}, "a dict of 0, but one value"),
    "a tuple instead of a dict": (lambda x: {"a": x} if x < 3 else x, "one value, but a dict of a"),
    "nothing": (lambda x: x if x < 3 else None, "returned None; return an array, a tuple"),
    "a number instead of text": (lambda x: "a" if x < 3 else x, "is str in the first.*numpy.int64"),
    "text instead of bytes": (lambda x: b"a" if x < 3 else "a", "is bytes in the first.*'str'"),
    "text instead of a number": (lambda x: x if x < 3 else "a", "convert it to a numeric dtype"),
    "an object": (lambda x: x if x < 3 else object(), "Python objects.*return numbers"),
    "half a character": (lambda x: "a" if x < 3 else "\ud800", "surrogates not allowed"),
}


@pytest.mark.parametrize("case", DIFFERING)
def test_a_sample_unlike_the_first_is_an_error_that_says_what_to_do(case):
    function, message = DIFFERING[case]
    error = first_failure(numbers(5).map(function))
    assert error.index == 3
    with pytest.raises(SampleError, match=message):
        raise error


def test_samples_that_do_not_fit_their_rule_say_so():
    def growing(x):
        return np.ones(2 + x)

    error = first_failure(numbers().map(growing, ragged={0: (4,)}))
    assert error.index == 3
    assert "does not fit into [4]; pad to a larger shape" in str(error)
    error = first_failure(numbers().map(lambda x: np.ones((1, 1 + x)), ragged={0: "packed"}))
    assert "packed values must be [*, 1]" in str(error)
    error = first_failure(numbers().map(lambda x: np.ones((1,) * (1 + x)), ragged={0: "longest"}))
    assert "has 1 axes in the first sample, but shape [1, 1]" in str(error)


FIRST = {
    "nothing": (lambda x: None, TypeError, "returned None; return an array, a tuple"),
    "an empty tuple": (lambda x: (), TypeError, "returned an empty tuple"),
    "an empty dict": (lambda x: {}, TypeError, "returned an empty dict"),
    "a nameless field": (lambda x: {1: x}, TypeError, "the key 1; names of fields are str"),
    "objects": (lambda x: object(), TypeError, "Python objects"),
    "dates": (lambda x: np.datetime64("2024"), TypeError, "datetime64.*numeric dtype"),
    "a huge integer": (lambda x: 10**30, TypeError, "Python objects"),
    "an exception": (lambda x: {}["key"], KeyError, "key"),
    "too many arguments": (lambda x, y: x, TypeError, "missing 1 required positional"),
}


@pytest.mark.parametrize("case", FIRST)
def test_a_function_that_fails_on_the_first_sample_is_refused_at_once(case):
    function, kind, message = FIRST[case]
    with pytest.raises(kind, match=message):
        numbers().map(function)


def test_a_ctrl_c_while_a_pipeline_is_built_is_raised_there_and_nowhere_else():
    calls = iter([None, KeyboardInterrupt()])

    def interrupted(x):
        if (interrupt := next(calls)) is not None:
            raise interrupt
        return x

    plain = feedline.arrays(np.arange(4))
    pairs = plain.map(interrupted).zip(plain)
    with pytest.raises(KeyboardInterrupt):
        pairs.map(lambda x, y: x + y)
    loader = feedline.Loader(plain, batch_size=4, num_workers=0, epochs=1)
    assert [batch.tolist() for (batch,) in loader] == [[0, 1, 2, 3]]


def test_only_functions_are_mapped_and_only_over_samples():
    with pytest.raises(TypeError, match="function must be a function, got 3"):
        numbers().map(3)
    with pytest.raises(TypeError, match="predicate must be a function, got None"):
        numbers().filter(None)
    with pytest.raises(ValueError, match="map needs at least one sample"):
        numbers().select([]).map(lambda x: x)


# ---- map: the GIL


def test_several_workers_are_in_the_function_at_once():
    meet = threading.Barrier(2, timeout=PATIENCE)

    def together(x):
        if x > 0:
            meet.wait()  # releases the GIL, and breaks if nobody else comes
        return x

    pipeline = feedline.arrays(np.repeat([0, 1], [1, 8])).map(together).select(range(1, 9))
    loader = feedline.Loader(pipeline, batch_size=4, num_workers=2, epochs=1)
    assert sum(len(batch) for (batch,) in loader) == 8


def test_other_work_goes_on_while_a_function_waits():
    entered, go_on = threading.Event(), threading.Event()

    def wait(x):
        if x == 1:
            entered.set()
            assert go_on.wait(PATIENCE)
        return x

    loader = feedline.Loader(numbers(4).map(wait), batch_size=4, num_workers=1, epochs=1)
    batches = iter(loader)
    waiting = threading.Thread(target=lambda: got.append(next(batches)))
    got = []
    waiting.start()
    assert entered.wait(PATIENCE)
    # The consumer waits for the worker, the worker for us: neither keeps the GIL.
    assert len(list(feedline.Loader(numbers(100), batch_size=10, epochs=1))) == 10
    go_on.set()
    waiting.join()
    assert got[0][0].tolist() == [0, 1, 2, 3]
