"""Arrow data: files, streams, and tables in memory."""

import pickle
import struct
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from table_rows import batches_of, rows_of

import feedline
from feedline.errors import SampleError


def example(rows=1000):
    rng = np.random.default_rng(0)
    return pa.table(
        {
            "x": rng.normal(size=rows),
            "n": rng.integers(0, 100, rows).astype(np.int16),
            "flag": rng.integers(0, 2, rows).astype(bool),
            "s": [f"row {i}" for i in range(rows)],
            "l": [list(range(i % 4)) for i in range(rows)],
            "word": pa.array([f"w{i % 7}" for i in range(rows)]).dictionary_encode(),
        }
    )


def written(path, table, kind, compression=None, batch=100):
    options = pa.ipc.IpcWriteOptions(compression=compression)
    make = {"file": pa.ipc.new_file, "stream": pa.ipc.new_stream}[kind]
    with make(path, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=batch)
    return path


def expected_rows(table):
    return table.to_pylist()


@pytest.mark.parametrize("kind", ["file", "stream"])
@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_rows_of_files_and_streams_are_those_of_pyarrow(tmp_path, kind, compression):
    table = example()
    path = written(tmp_path / "x.arrow", table, kind, compression)
    assert rows_of(feedline.arrow(path), num_workers=2) == expected_rows(table)
    assert rows_of(feedline.arrow(path, columns=["s", "n"], buffer=20_000)) == expected_rows(
        table.select(["s", "n"])
    )


def test_a_stream_whose_dictionaries_change_gives_each_batch_its_own(tmp_path):
    schema = pa.schema([("w", pa.dictionary(pa.int32(), pa.string()))])
    words = [["a", "b"], ["c", "a"], ["d"]]
    path = tmp_path / "x.arrows"
    with pa.ipc.new_stream(path, schema) as writer:
        for part in words:
            writer.write_batch(pa.record_batch([pa.array(part).dictionary_encode()], schema=schema))
    assert [row["w"] for row in rows_of(feedline.arrow(path))] == ["a", "b", "c", "a", "d"]


def test_tables_in_memory_are_read_where_they_are():
    table = pa.concat_tables([example(300), example(17), example(300).slice(5, 1)])
    pipeline = feedline.arrow(table)
    assert rows_of(pipeline, num_workers=2) == expected_rows(table)
    # Numbers that are not laid out row by row are the same.
    plain = table.select(["x", "n", "flag"])
    assert rows_of(feedline.arrow(plain, buffer=0), num_workers=2) == expected_rows(plain)
    sliced = table.slice(123, 100)
    assert rows_of(feedline.arrow(sliced)) == expected_rows(sliced)


def test_shuffled_rows_of_a_table_in_memory_stay_whole():
    table = example().select(["x", "n", "flag"])
    for buffer in ("1GiB", 0):
        loader = feedline.Loader(
            feedline.arrow(table, buffer=buffer), batch_size=32, shuffle=True, seed=2, num_workers=2
        )
        seen = [
            row
            for batch in loader
            for row in zip(*map(np.ndarray.tolist, batch.values()), strict=True)
        ]
        assert sorted(seen) == sorted(tuple(row.values()) for row in expected_rows(table))


def test_nulls_in_memory_follow_the_same_rule():
    table = pa.table({"i": pa.array([1, None, 3]), "f": pa.array([None, 2.0, 3.0])})
    for buffer in ("1GiB", 0):
        with pytest.raises(SampleError, match="column `i` is null"):
            rows_of(feedline.arrow(table, buffer=buffer))
        rows = rows_of(feedline.arrow(table, buffer=buffer, nulls={"i": 9, "f": 0.5}))
        assert rows == [{"i": 1, "f": 0.5}, {"i": 9, "f": 2.0}, {"i": 3, "f": 3.0}]


def test_nested_lists_are_arrays_and_uneven_ones_errors_of_their_row():
    table = pa.table(
        {
            "even": pa.array([[[1, 2], [3, 4]], [[5, 6]]], pa.list_(pa.list_(pa.int64()))),
            "odd": pa.array([[[1, 2], [3, 4]], [[5, 6], [7]]], pa.list_(pa.list_(pa.int64()))),
        }
    )
    rows = rows_of(feedline.arrow(table, columns=["even"]))
    assert [row["even"] for row in rows] == [[[1, 2], [3, 4]], [[5, 6]]]
    loader = feedline.Loader(feedline.arrow(table, columns=["odd"]), batch_size=2)
    with pytest.raises(SampleError, match="has lists of 2 and 1 items side by side"):
        list(loader)


def test_packed_lists_come_one_after_the_other():
    table = pa.table({"l": [[1, 2], [], [3]]})
    (batch,) = batches_of(feedline.arrow(table, ragged="packed"), batch_size=3)
    assert (batch["l"].tolist(), batch["l_offsets"].tolist()) == ([1, 2, 3], [0, 2, 2, 3])


def test_tables_in_memory_pickle_by_value():
    table = example(50)
    again = pickle.loads(pickle.dumps(feedline.arrow(table, columns=["s", "x"])))
    assert rows_of(again) == expected_rows(table.select(["s", "x"]))


def test_a_table_stays_alive_as_long_as_its_pipeline():
    pipeline = feedline.arrow(pa.table({"s": ["x" * 1000] * 100}))
    assert all(row["s"] == "x" * 1000 for row in rows_of(pipeline))


@pytest.mark.parametrize("kind", ["file", "stream"])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.95])
def test_what_was_cut_off_is_refused(tmp_path, kind, share):
    path = written(tmp_path / "x.arrow", example(500), kind)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(ValueError, match="is no Arrow IPC file, or was damaged or cut off"):
        feedline.arrow(path)


def test_other_sources_are_refused():
    with pytest.raises(TypeError, match="paths must be a file"):
        feedline.arrow(7)
    with pytest.raises(FileNotFoundError):
        feedline.arrow("/nowhere/x.arrow")


MAGIC = {"zstd": b"\x28\xb5\x2f\xfd", "lz4": b"\x04\x22\x4d\x18"}


def lying(path, compression, said):
    """Let each compressed buffer say that it has so many bytes."""
    content = bytearray(path.read_bytes())
    at = content.find(MAGIC[compression])
    assert at >= 0
    while at >= 0:
        content[at - 8 : at] = struct.pack("<q", said)
        at = content.find(MAGIC[compression], at + 1)
    path.write_bytes(content)


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
@pytest.mark.parametrize("said", [1 << 31, 1 << 46, (1 << 63) - 1])
def test_a_buffer_that_says_it_is_enormous_is_refused_before_there_is_memory(
    tmp_path, compression, said
):
    table = pa.table({"x": np.zeros(1000), "s": pa.array(["a"] * 1000)})
    path = written(tmp_path / "x.arrow", table, "file", compression)
    lying(path, compression, said)
    with pytest.raises(SampleError, match=r"take \d+ bytes in memory, more than the buffer's"):
        feedline.arrow(path)[0]
    words = pa.table({"w": pa.array(["long word"] * 1000).dictionary_encode()})
    path = written(tmp_path / "d.arrow", words, "file", compression)
    lying(path, compression, said)
    with pytest.raises(ValueError, match=r"take \d+ bytes in memory, more than the buffer's"):
        feedline.arrow(path)


def test_what_a_batch_decompresses_to_is_held_to_the_buffer(tmp_path):
    zeros = pa.array(np.zeros(1 << 20, np.int64))
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 1 << 20], pa.int32()), zeros)
    table = pa.table({"l": lists, "n": [1, 2]})
    path = written(tmp_path / "x.arrow", table, "file", "zstd")
    assert path.stat().st_size < 100_000
    with pytest.raises(SampleError, match=r"2 rows of .* more than the buffer's 1048576"):
        feedline.arrow(path, buffer="1MiB")[0]
    # Columns that are not read take nothing.
    assert rows_of(feedline.arrow(path, columns=["n"], buffer="1MiB")) == [{"n": 1}, {"n": 2}]
    assert len(feedline.arrow(path, buffer="16MiB")[1]["l"]) == (1 << 20) - 1


def test_a_row_too_wide_for_the_buffer_is_refused_by_its_type(tmp_path):
    for inner, outer in [(1 << 27, 1), (1 << 30, 1 << 30)]:
        kind = pa.list_(pa.list_(pa.float64(), inner), outer)
        path = tmp_path / "x.arrow"
        with pa.ipc.new_file(path, pa.schema([("x", kind)])):
            pass
        with pytest.raises(ValueError, match=r"1 rows of .* bytes in memory, more than the buffer"):
            feedline.arrow(path, buffer="512MiB")
    assert len(feedline.arrow(pa.table({"x": pa.array([[1.0, 2.0]], pa.list_(pa.float64(), 2))})))


def test_few_bytes_that_stand_for_many_wide_rows_are_refused(tmp_path):
    wide = pa.array([[0.5] * 10_000], pa.list_(pa.float64(), 10_000))
    keys = pa.array(np.zeros(1000, np.int8))
    table = pa.table({"x": pa.DictionaryArray.from_arrays(keys, wide)})
    path = written(tmp_path / "x.arrow", table, "file", batch=1000)
    with pytest.raises(SampleError, match=r"1000 rows of .* take 80000000 bytes"):
        feedline.arrow(path, buffer="16MiB")[0]


def test_null_lists_of_fixed_length_are_nan_in_every_place(tmp_path):
    table = pa.table({"x": pa.array([[1.0, 2.0, 3.0], None], pa.list_(pa.float32(), 3))})
    path = written(tmp_path / "x.arrow", table, "file")
    for source in (table, path):
        (batch,) = batches_of(feedline.arrow(source))
        assert batch["x"].shape == (2, 3)
        assert np.isnan(batch["x"][1]).all()
        (batch,) = batches_of(feedline.arrow(source, nulls={"x": 7}))
        assert batch["x"].tolist() == [[1, 2, 3], [7, 7, 7]]


SHORTENED = """
import os, sys
import pyarrow as pa
import feedline
path, buffer = sys.argv[1:]
table = pa.ipc.open_file(pa.memory_map(path)).read_all()
rows = feedline.arrow(table, buffer=buffer)
assert rows[0] == {"n": 0, "s": "0" * 1000}, rows[0]
os.truncate(path, 4096)
for row in (0, 19_999):
    try:
        rows[row]
        assert (row, buffer) == (0, "1GiB")
    except feedline.errors.SampleError as error:
        assert "has changed since it was opened" in str(error), error
try:
    list(feedline.Loader(rows, batch_size=1000, num_workers=2))
except feedline.errors.SampleError as error:
    print("refused")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="which files are mapped, Linux tells")
@pytest.mark.parametrize("buffer", ["1GiB", "1KiB"])
def test_a_mapped_file_that_is_shortened_is_an_error_and_kills_nobody(tmp_path, buffer):
    texts = [str(i % 10) * 1000 for i in range(20_000)]
    table = pa.table({"n": np.arange(20_000), "s": texts})
    path = written(tmp_path / "x.arrow", table, "file", batch=1000)
    command = [sys.executable, "-c", SHORTENED, str(path), buffer]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "refused\n"), done.stderr


@pytest.mark.parametrize("buffer", ["1GiB", "1KiB"])
def test_rows_of_mapped_files_are_those_of_pyarrow(tmp_path, buffer):
    table = example(3000)
    path = written(tmp_path / "x.arrow", table, "file", batch=700)
    mapped = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    for some in (mapped, mapped.slice(650, 900), mapped.select(["s", "l"])):
        rows = rows_of(feedline.arrow(some, buffer=buffer), num_workers=2)
        assert rows == expected_rows(some)
    assert len(feedline.arrow(mapped.slice(5, 0), buffer=buffer)) == 0
