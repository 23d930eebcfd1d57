"""Delimited text, as Python's csv module reads it."""

import csv
import gzip
import io
import os
import pickle
import re
import time

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from table_rows import rows_of, same

import feedline
from feedline.errors import SampleError


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Tables of row starts go to a folder of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "feedline" / "tables"


def written(folder, text, name="x.csv"):
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    long_ago = time.time() - 3600
    os.utime(path, (long_ago, long_ago))
    return path


def test_types_are_those_of_the_first_rows(tmp_path):
    path = written(tmp_path, "i,f,b,s,m\n1,1.5,true,x,1\n-2,2,False,,2.5\n3,,TRUE,z,-1e3\n")
    rows = rows_of(feedline.csv(path))
    assert same(
        rows,
        [
            {"i": 1, "f": 1.5, "b": True, "s": "x", "m": 1.0},
            {"i": -2, "f": 2.0, "b": False, "s": "", "m": 2.5},
            {"i": 3, "f": float("nan"), "b": True, "s": "z", "m": -1000.0},
        ],
    )


def test_types_that_are_given_count(tmp_path):
    path = written(tmp_path, "a,b,c\n1,2,3\n4,5,6\n")
    pipeline = feedline.csv(path, types={"a": np.float32, "b": "text", "c": "uint8"})
    assert str(pipeline).endswith("{a: float32 [], b: text [*], c: uint8 []}")
    assert rows_of(pipeline) == [{"a": 1.0, "b": "2", "c": 3}, {"a": 4.0, "b": "5", "c": 6}]
    with pytest.raises(ValueError, match="`a`: there is no type `complex64`"):
        feedline.csv(path, types={"a": "complex64"})


# No `\r`: the csv module takes it for the end of a line where we do not.
CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\r\x00"), max_size=12)


@given(
    st.lists(st.lists(CELLS, min_size=2, max_size=2), min_size=1, max_size=30),
    st.sampled_from([",", ";", "\t"]),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
)
def test_whatever_the_csv_module_writes_is_read_again(
    tmp_path_factory, rows, delimiter, ending, quoting
):
    folder = tmp_path_factory.mktemp("csv")
    out = io.StringIO(newline="")
    writer = csv.writer(out, delimiter=delimiter, lineterminator=ending, quoting=quoting)
    writer.writerow(["a", "b"])
    writer.writerows(rows)
    path = written(folder, out.getvalue())
    types = {"a": "text", "b": "text"}
    pipeline = feedline.csv(path, types=types, delimiter=delimiter, cache=folder)
    assert [[row["a"], row["b"]] for row in rows_of(pipeline)] == rows


@given(st.text(st.sampled_from('ab",\n'), max_size=40))
def test_whatever_the_csv_module_reads_is_the_same(tmp_path_factory, text):
    folder = tmp_path_factory.mktemp("csv")
    expected = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
    expected = [row for row in expected if len(row) == 2]
    path = written(folder, text)
    settings = {"header": ["p", "q"], "types": {"p": str, "q": str}, "cache": folder}
    pipeline = feedline.csv(path, **settings)
    seen = []
    if len(pipeline) > 0:
        loader = feedline.Loader(pipeline, batch_size=1, on_error="skip")
        seen = [list(row) for batch in loader for row in zip(batch["p"], batch["q"], strict=True)]
    # An open quote at the end is an error here, and silently closed there.
    if text.count('"') % 2 == 0:
        assert seen == expected


def test_marks_of_the_byte_order_and_both_line_ends_are_no_part_of_cells(tmp_path):
    path = written(tmp_path, b"\xef\xbb\xbfa,b\r\n1,x\r\n\r\n2,y\n")
    assert rows_of(feedline.csv(path)) == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]


def test_names_may_be_given_or_missing(tmp_path):
    path = written(tmp_path, "1,x\n2,y\n")
    assert rows_of(feedline.csv(path, header=False)) == [{"0": 1, "1": "x"}, {"0": 2, "1": "y"}]
    assert rows_of(feedline.csv(path, header=["n", "s"], columns=["s"])) == [{"s": "x"}, {"s": "y"}]
    with pytest.raises(ValueError, match="header must be"):
        feedline.csv(path, header=["n", "n"])


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ("7", "the row has 1 cells, but there are 2 columns"),
        ("7,x,8", "the row has 3 cells, but there are 2 columns"),
        ("seven,x", r'column `a` holds "seven", which is no int64'),
        ("99999999999999999999,x", "which is beyond int64"),
        (",x", "column `a` is null"),
        ('7,"x', "the quote that opens cell 1 is never closed"),
        (b"7,x\xff", "column `b` is not UTF-8: byte 1 of its cell is 0xff"),
    ],
)
def test_a_bad_row_is_its_own_error_with_path_and_line(tmp_path, row, why):
    row = row.encode() if isinstance(row, str) else row
    path = written(tmp_path, b'a,b\n1,"two\nlines"\n' + row + b"\n3,z\n")
    pipeline = feedline.csv(path, types={"a": "int64", "b": "text"})
    with pytest.raises(SampleError, match=re.escape(f"{path}:4") + ".*" + why):
        rows_of(pipeline)
    loader = feedline.Loader(pipeline, batch_size=8, on_error="skip", num_workers=2)
    assert [batch["a"].tolist() for batch in loader] == [[1, 3]]


def test_a_row_that_is_too_long_is_its_own_error(tmp_path):
    path = written(tmp_path, "s\n" + "x" * 5000 + "\nshort\n")
    loader = feedline.Loader(feedline.csv(path, max_bytes=1000), batch_size=2, on_error="skip")
    assert [batch["s"] for batch in loader] == [["short"]]
    with pytest.raises(SampleError, match=r"x\.csv:2.*the row has 5001 bytes, more than max_bytes"):
        rows_of(feedline.csv(path, max_bytes=1000))


def test_empty_cells_are_filled_and_flagged(tmp_path):
    path = written(tmp_path, "i,s\n1,a\n,\n3,c\n")
    pipeline = feedline.csv(path, nulls={"i": -1, "s": "none"}, null_flags=["i"])
    assert rows_of(pipeline) == [
        {"i": 1, "s": "a", "i_is_null": False},
        {"i": -1, "s": "none", "i_is_null": True},
        {"i": 3, "s": "c", "i_is_null": False},
    ]


def test_several_files_may_have_their_columns_in_another_order(tmp_path):
    written(tmp_path, "a,b\n1,x\n", "0.csv")
    written(tmp_path, "b,a\ny,2\n", "1.csv")
    pipeline = feedline.csv(str(tmp_path / "*.csv"))
    assert rows_of(pipeline) == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
    written(tmp_path, "b,c\ny,2\n", "2.csv")
    with pytest.raises(ValueError, match=r"2\.csv` has no column `a`; it has b, c"):
        feedline.csv(str(tmp_path / "*.csv"))


def test_what_was_found_is_kept_until_the_file_changes(tmp_path, cache):
    path = written(tmp_path, "a\n" + "".join(f"{i}\n" for i in range(5000)))
    rows = rows_of(feedline.csv(path))
    (kept,) = cache.iterdir()
    before = kept.stat().st_mtime_ns
    assert rows_of(feedline.csv(path)) == rows == [{"a": i} for i in range(5000)]
    assert kept.stat().st_mtime_ns == before
    # Damage is found, and the table made again.
    content = bytearray(kept.read_bytes())
    content[200] ^= 1
    kept.write_bytes(content)
    assert rows_of(feedline.csv(path)) == rows
    path.write_text("a\n7\n")
    assert rows_of(feedline.csv(path)) == [{"a": 7}]


def test_a_file_that_changes_is_an_error_of_its_rows(tmp_path):
    path = written(tmp_path, "a\n1\n2\n")
    pipeline = feedline.csv(path)
    path.write_text("a\n1\n")
    with pytest.raises(SampleError, match="has changed since it was opened"):
        rows_of(pipeline)


@pytest.mark.parametrize("workers", [0, 3])
def test_shuffles_states_and_pickles_work_as_elsewhere(tmp_path, workers):
    path = written(tmp_path, "a,s\n" + "".join(f"{i},t{i}\n" for i in range(1000)))
    pipeline = feedline.csv(path)

    def loader(source):
        return feedline.Loader(
            source, batch_size=64, shuffle=True, seed=5, num_workers=workers, epochs=1
        )

    whole = [batch["a"].tolist() for batch in loader(pipeline)]
    assert sorted(row for rows in whole for row in rows) == list(range(1000))
    again = pickle.loads(pickle.dumps(pipeline))
    assert [batch["a"].tolist() for batch in loader(again)] == whole
    begun = loader(pipeline)
    epoch = iter(begun)
    next(epoch)
    resumed = loader(pipeline)
    resumed.load_state_dict(begun.state_dict())
    assert [batch["a"].tolist() for batch in resumed] == whole[1:]


@pytest.mark.parametrize("opened", [feedline.csv, feedline.jsonl])
@pytest.mark.parametrize("how", ["gzip", "zstd"])
def test_compressed_files_are_refused_with_what_to_do(tmp_path, opened, how):
    text = b"a,b\n1,2\n"
    packed = gzip.compress(text) if how == "gzip" else pa.compress(text, codec=how, asbytes=True)
    path = written(tmp_path, packed)
    with pytest.raises(
        ValueError, match=f"`{re.escape(str(path))}` is compressed by {how}.*unpack"
    ):
        opened(path)


def test_files_without_rows_and_odd_headers_are_told_apart(tmp_path):
    assert len(feedline.csv(written(tmp_path, "a,b\n"), types={"a": "int64"})) == 0
    with pytest.raises(ValueError, match="neither a header nor rows"):
        feedline.csv(written(tmp_path, ""))
    with pytest.raises(ValueError, match="columns 0 and 2 are both called `a`"):
        feedline.csv(written(tmp_path, "a,b,a\n1,2,3\n"))
    with pytest.raises(ValueError, match="quote in cell 1 of its header"):
        feedline.csv(written(tmp_path, 'a,"b\n1,2\n'))


def test_lines_that_end_in_a_carriage_return_alone_are_refused(tmp_path):
    for text in ("a,b\r1,2\r3,4\r", '"a","b"\r1,2\n'):
        with pytest.raises(ValueError, match=r"behind `b` in its header .*; convert them to"):
            feedline.csv(written(tmp_path, text))
    quoted = feedline.csv(written(tmp_path, '"a\r\nb",c\r\n1,2\r\n'))
    assert rows_of(quoted) == [{"a\r\nb": 1, "c": 2}]
