"""JSON lines, as Python's json module reads them."""

import json
import math
import os
import re
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from table_rows import rows_of, same

import feedline
from feedline.errors import SampleError


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Tables of line starts go to a folder of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def written(folder, lines, name="x.jsonl"):
    path = folder / name
    texts = [line if isinstance(line, (str, bytes)) else json.dumps(line) for line in lines]
    path.write_bytes(
        b"".join((text.encode() if isinstance(text, str) else text) + b"\n" for text in texts)
    )
    long_ago = time.time() - 3600
    os.utime(path, (long_ago, long_ago))
    return path


def test_values_are_found_by_path(tmp_path):
    lines = [
        {"text": "one", "user": {"name": "Ann", "tags": [1, 2]}, "n": 1, "ok": True},
        {"n": 2.5, "user": {"tags": [], "name": "Bob"}, "text": "zwei", "ok": False},
    ]
    path = written(tmp_path, lines)
    rows = rows_of(feedline.jsonl(path))
    assert rows == [
        {"text": "one", "user.name": "Ann", "user.tags": [1, 2], "n": 1.0, "ok": True},
        {"text": "zwei", "user.name": "Bob", "user.tags": [], "n": 2.5, "ok": False},
    ]
    fields = ["user.name", "n"]
    assert rows_of(feedline.jsonl(path, fields=fields)) == [
        {"user.name": "Ann", "n": 1.0},
        {"user.name": "Bob", "n": 2.5},
    ]


def test_items_of_lists_have_a_path_too(tmp_path):
    path = written(tmp_path, [{"p": [{"x": 1}, {"x": 2}], "q": [5, 6]}, {"p": [], "q": [7, 8]}])
    pipeline = feedline.jsonl(
        path, fields=["q[1]", "q", "p.1.x"], types={"p.1.x": "int64"}, nulls={"p.1.x": -1}
    )
    assert rows_of(pipeline) == [
        {"q[1]": 6, "q": [5, 6], "p.1.x": 2},
        {"q[1]": 8, "q": [7, 8], "p.1.x": -1},
    ]


def test_keys_with_dots_are_keys(tmp_path):
    path = written(tmp_path, [{"a.b": 1, "c": {"d.e": 2}}])
    assert rows_of(feedline.jsonl(path)) == [{"a.b": 1, "c.d.e": 2}]


JSON_VALUES = {
    "i": st.integers(-(2**63), 2**63 - 1),
    "f": st.floats(allow_nan=False, allow_infinity=False),
    "s": st.text(max_size=10),
    "l": st.lists(st.integers(0, 9), max_size=4),
}


@given(st.lists(st.fixed_dictionaries(JSON_VALUES), min_size=1, max_size=20), st.booleans())
def test_whatever_the_json_module_writes_is_read_again(tmp_path_factory, lines, ascii_only):
    folder = tmp_path_factory.mktemp("jsonl")
    try:
        texts = [json.dumps(line, ensure_ascii=ascii_only).encode() for line in lines]
    except UnicodeEncodeError:  # half of a pair, which UTF-8 has not
        return
    path = written(folder, texts)
    types = {"i": "int64", "f": "float64", "s": "text", "l": "list[int64]"}
    rows = rows_of(feedline.jsonl(path, fields=list(types), types=types, cache=folder))
    assert rows == lines


def test_nulls_and_missing_values_follow_the_rule(tmp_path):
    path = written(tmp_path, [{"f": 1.5, "i": 1, "l": [1.0, None]}, {"f": None}])
    pipeline = feedline.jsonl(path, nulls={"i": 7, "l": []}, null_flags=["f"])
    nan = math.nan
    assert same(
        rows_of(pipeline),
        [
            {"f": 1.5, "i": 1, "l": [1.0, nan], "f_is_null": False},
            {"f": nan, "i": 7, "l": [], "f_is_null": True},
        ],
    )
    with pytest.raises(SampleError, match=r"x\.jsonl:2.*field `i` is null"):
        rows_of(feedline.jsonl(path, fields=["i"]))


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"a": 1', "the line is no JSON object, or was cut off"),
        ("[1, 2]", "the line is no JSON object"),
        ('{"a": 1} x', "trailing characters"),
        ('{"a": 1.5}', "field `a` holds 1.5, which is no int64"),
        ('{"a": 9223372036854775808}', "which is beyond int64"),
        ('{"a": 1e400}', "number out of range"),
        ('{"a": "x"}', 'field `a` holds "x", which is no int64'),
        ('{"a": [1]}', "field `a` holds a list, which is no int64"),
        ('{"a": {"b": 1}}', "field `a` holds an object"),
        ('{"a": true}', "holds true, which is no int64"),
        (b'{"a": "\xff"}', "the line is no JSON object"),
        ("[" * 10_000, "the line is no JSON object"),
        ('{"b": ' + "[" * 10_000, "the line is no JSON object, or was cut off"),
        ('{"a": ' + '{"a": ' * 10_000, "the line is no JSON object, or was cut off"),
    ],
)
def test_a_bad_line_is_its_own_error_with_path_and_number(tmp_path, line, why):
    path = written(tmp_path, [{"a": 1}, "", line, {"a": 3}])
    pipeline = feedline.jsonl(path, fields=["a"], types={"a": "int64"})
    with pytest.raises(SampleError, match=re.escape(f"{path}:3") + ".*" + why):
        rows_of(pipeline)
    loader = feedline.Loader(pipeline, batch_size=8, on_error="skip", num_workers=2)
    assert [batch["a"].tolist() for batch in loader] == [[1, 3]]


def test_duplicate_keys_give_the_last_as_the_json_module_does(tmp_path):
    path = written(tmp_path, ['{"a": 1, "a": 2}'])
    assert rows_of(feedline.jsonl(path)) == [json.loads('{"a": 1, "a": 2}')]


def test_a_mark_of_the_byte_order_and_both_line_ends_are_read_over(tmp_path):
    path = written(tmp_path, [b'\xef\xbb\xbf{"a": 1}\r', b"\r", b'{"a": 2}'])
    assert rows_of(feedline.jsonl(path)) == [{"a": 1}, {"a": 2}]


def test_fields_that_no_line_has_are_refused(tmp_path):
    path = written(tmp_path, [{"a": 1, "w": ["x"]}])
    with pytest.raises(ValueError, match=r"`b`: none of the first 1 lines has it"):
        feedline.jsonl(path, fields=["b"])
    with pytest.raises(ValueError, match=r"column `w` of .*a list of texts"):
        feedline.jsonl(path)
    assert rows_of(feedline.jsonl(path, fields=["w.0"])) == [{"w.0": "x"}]


def test_an_empty_file_has_no_fields(tmp_path):
    with pytest.raises(ValueError, match="has no column that a batch could hold"):
        feedline.jsonl(written(tmp_path, []))


@pytest.mark.parametrize(
    ("dtype", "number"),
    [("float32", "1e39"), ("float32", "-3.5e38"), ("float16", "70000"), ("float16", "1e5")],
)
def test_floats_beyond_their_dtype_are_errors_and_not_infinite(tmp_path, dtype, number):
    path = written(tmp_path, ['{"x": 1.5, "l": [1]}', f'{{"x": {number}, "l": [{number}]}}'])
    for field, kind in [("x", dtype), ("l", f"list[{dtype}]")]:
        rows = feedline.jsonl(path, fields=[field], types={field: kind})
        assert rows[0][field] in (1.5, [1])
        with pytest.raises(SampleError, match=f"which is beyond {dtype}"):
            rows[1]
    with pytest.raises(ValueError, match=f"is beyond {dtype}; pass a value of that dtype"):
        feedline.jsonl(path, fields=["x"], types={"x": dtype}, nulls={"x": float(number)})
    infinite = feedline.jsonl(
        written(tmp_path, ['{"x": null}']), types={"x": dtype}, nulls={"x": float("inf")}
    )
    assert infinite[0]["x"] == np.inf


def test_floats_are_those_of_the_json_module_to_the_last_bit(tmp_path):
    rng = np.random.default_rng(1)
    numbers = [*(rng.uniform(-1, 1, 5000) * 10.0 ** rng.integers(-300, 300, 5000)).tolist(), 5e-324]
    rows = feedline.jsonl(written(tmp_path, [{"x": number} for number in numbers]))
    assert [row["x"] for row in rows_of(rows)] == numbers
