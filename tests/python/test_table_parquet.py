"""Parquet files, as pyarrow writes and reads them."""

import datetime
import decimal
import io
import math
import os
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from table_rows import batches_of, rows_of, same

import feedline
from feedline.errors import SampleError


def written(folder, table, name="x.parquet", **settings):
    path = folder / name
    pq.write_table(table, path, **settings)
    return path


def numbers(rows=1000, seed=0):
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "i8": rng.integers(-128, 128, rows).astype(np.int8),
            "u16": rng.integers(0, 1 << 16, rows).astype(np.uint16),
            "i32": rng.integers(-(1 << 31), 1 << 31, rows).astype(np.int32),
            "u64": rng.integers(0, 1 << 63, rows).astype(np.uint64),
            "f16": rng.normal(size=rows).astype(np.float16),
            "f32": rng.normal(size=rows).astype(np.float32),
            "f64": rng.normal(size=rows),
            "flag": rng.integers(0, 2, rows).astype(bool),
        }
    )


def test_a_compression_that_is_not_read_is_refused_when_the_file_is_opened(tmp_path):
    path = written(tmp_path, numbers(), compression={"i8": "brotli", "f32": "snappy"})
    with pytest.raises(ValueError, match=r"is compressed by Brotli.*write it again with zstd"):
        feedline.parquet(path)
    assert len(rows_of(feedline.parquet(path, columns=["f32"]))) == 1000


@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "zstd", "lz4"])
def test_numbers_are_those_of_pyarrow_with_their_dtypes(tmp_path, compression):
    table = numbers()
    path = written(tmp_path, table, compression=compression, row_group_size=137)
    pipeline = feedline.parquet(path)
    (batch,) = batches_of(pipeline, batch_size=1000)
    for name in table.column_names:
        expected = table[name].to_numpy()
        assert batch[name].dtype == expected.dtype
        assert np.array_equal(batch[name], expected)


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_shuffled_rows_are_whole_and_do_not_depend_on_workers(tmp_path, workers):
    table = numbers(3000)
    path = written(tmp_path, table, row_group_size=500)
    loaders = [
        feedline.Loader(
            feedline.parquet(path), batch_size=64, shuffle=True, seed=7, num_workers=count
        )
        for count in (0, workers)
    ]
    first, second = ([dict(batch) for batch in loader] for loader in loaders)
    for a, b in zip(first, second, strict=True):
        assert all(np.array_equal(a[name], b[name]) for name in table.column_names)
    order = np.argsort(table["u64"].to_numpy())
    for name in table.column_names:
        seen = np.concatenate([batch[name] for batch in second])
        key = np.concatenate([batch["u64"] for batch in second])
        assert np.array_equal(seen[np.argsort(key)], table[name].to_numpy()[order])


def test_chosen_columns_come_in_the_order_asked_for(tmp_path):
    path = written(tmp_path, numbers(10))
    pipeline = feedline.parquet(path, columns=["f64", "i8"])
    assert pipeline.fields == ["f64", "i8"]
    with pytest.raises(ValueError, match=r"no column `f65`.*it has i8, u16"):
        feedline.parquet(path, columns=["f65"])
    with pytest.raises(TypeError, match=r"pass \['i8'\]"):
        feedline.parquet(path, columns="i8")


def test_every_kind_of_value_is_what_pyarrow_says(tmp_path):
    day = datetime.date(1970, 1, 11)
    moment = datetime.datetime(2001, 2, 3, 4, 5, 6, 789, tzinfo=datetime.UTC)
    table = pa.table(
        {
            "text": pa.array(["a", "", "ünïcode"]),
            "large": pa.array(["x" * 1000, "y", "z"], pa.large_string()),
            "blob": pa.array([b"\x00\xff", b"", b"abc"]),
            "four": pa.array([b"abcd", b"efgh", b"ijkl"], pa.binary(4)),
            "word": pa.array(["p", "q", "p"]).dictionary_encode(),
            "day": pa.array([day, day, day]),
            "moment": pa.array([moment, moment, moment], pa.timestamp("us", "UTC")),
            "price": pa.array([decimal.Decimal("1.10"), decimal.Decimal("-0.03"), 7]),
            "list": pa.array([[1, 2], [], [3]], pa.list_(pa.int32())),
            "pair": pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.float32(), 2)),
            "inner": pa.array([{"a": 1, "b": {"c": "x"}}] * 3),
        }
    )
    path = written(tmp_path, table)
    rows = rows_of(feedline.parquet(path))
    assert [row["text"] for row in rows] == ["a", "", "ünïcode"]
    assert [row["large"] for row in rows] == ["x" * 1000, "y", "z"]
    assert [row["blob"] for row in rows] == [b"\x00\xff", b"", b"abc"]
    assert [row["four"] for row in rows] == [b"abcd", b"efgh", b"ijkl"]
    assert [row["word"] for row in rows] == ["p", "q", "p"]
    assert [row["day"] for row in rows] == [10, 10, 10]
    assert rows[0]["moment"] == table["moment"].cast(pa.int64())[0].as_py()
    assert [row["price"] for row in rows] == [1.10, -0.03, 7.0]
    assert [row["list"] for row in rows] == [[1, 2], [], [3]]
    assert [row["pair"] for row in rows] == [[1, 2], [3, 4], [5, 6]]
    assert [row["inner.a"] for row in rows] == [1, 1, 1]
    assert [row["inner.b.c"] for row in rows] == ["x", "x", "x"]


def test_nulls_are_nan_in_floats_and_errors_elsewhere(tmp_path):
    table = pa.table(
        {
            "f": pa.array([1.0, None, 3.0], pa.float32()),
            "i": pa.array([1, None, 3]),
            "s": pa.array(["a", None, "c"]),
            "l": pa.array([[1, None], [2], None]),
        }
    )
    path = written(tmp_path, table)
    (batch,) = batches_of(feedline.parquet(path, columns=["f"]), batch_size=3)
    assert np.array_equal(batch["f"], np.float32([1, math.nan, 3]), equal_nan=True)
    for name in ("i", "s"):
        with pytest.raises(SampleError, match=rf"x\.parquet\[1\].*column `{name}` is null.*nulls="):
            batches_of(feedline.parquet(path, columns=[name]), batch_size=3)
    loader = feedline.Loader(
        feedline.parquet(path, columns=["i"]), batch_size=3, on_error="skip", num_workers=2
    )
    assert [batch["i"].tolist() for batch in loader] == [[1, 3]]
    filled = feedline.parquet(
        path, columns=["i", "s", "l"], nulls={"i": -1, "s": "?", "l": 9}, null_flags=["s"]
    )
    rows = rows_of(filled)
    assert [row["i"] for row in rows] == [1, -1, 3]
    assert [row["s"] for row in rows] == ["a", "?", "c"]
    assert [row["s_is_null"] for row in rows] == [False, True, False]
    assert [row["l"] for row in rows] == [[1, 9], [2], []]
    with pytest.raises(SampleError, match="has a null in its list"):
        rows_of(feedline.parquet(path, columns=["l"], nulls={"l": []}))


def test_null_flags_beside_numbers_are_those_of_pyarrow(tmp_path):
    rng = np.random.default_rng(1)
    values = [None if rng.random() < 0.3 else int(rng.integers(1, 100)) for _ in range(500)]
    path = written(tmp_path, pa.table({"i": pa.array(values, pa.int16())}), row_group_size=77)
    pipeline = feedline.parquet(path, null_flags=["i"])
    seen = [
        (int(value), bool(flag))
        for batch in batches_of(pipeline, batch_size=64, num_workers=2)
        for value, flag in zip(batch["i"], batch["i_is_null"], strict=True)
    ]
    assert seen == [(value or 0, value is None) for value in values]


def test_a_fill_that_the_column_cannot_hold_is_refused(tmp_path):
    path = written(tmp_path, pa.table({"i": pa.array([1, None], pa.int8()), "s": ["a", "b"]}))
    with pytest.raises(ValueError, match="300 is beyond int8"):
        feedline.parquet(path, nulls={"i": 300})
    with pytest.raises(ValueError, match="pass text or bytes"):
        feedline.parquet(path, nulls={"s": 1})
    with pytest.raises(ValueError, match="`j`: there is no such column"):
        feedline.parquet(path, nulls={"j": 1})


def test_types_without_a_form_are_refused_by_name(tmp_path):
    table = pa.table({"x": [1, 2], "words": [["a"], ["b", "c"]]})
    path = written(tmp_path, table)
    with pytest.raises(ValueError, match=r"column `words` of .* no form in a batch.*columns="):
        feedline.parquet(path)
    assert rows_of(feedline.parquet(path, columns=["x"])) == [{"x": 1}, {"x": 2}]


def test_several_files_are_one_table_and_a_schema_change_names_both_types(tmp_path):
    tables = [numbers(100, seed) for seed in range(3)]
    for i, table in enumerate(tables):
        written(tmp_path, table, f"part-{i}.parquet", row_group_size=40)
    pipeline = feedline.parquet(str(tmp_path / "part-*.parquet"), columns=["f64", "i32"])
    (batch,) = batches_of(pipeline, batch_size=300)
    assert np.array_equal(batch["f64"], pa.concat_tables(tables)["f64"].to_numpy())
    # The same columns in another order are no change.
    written(tmp_path, tables[0].select(["i32", "f64"]), "part-3.parquet")
    assert len(feedline.parquet(str(tmp_path / "part-*.parquet"), columns=["f64", "i32"])) == 400
    odd = tables[0].set_column(2, "i32", pa.array(np.zeros(100)))
    written(tmp_path, odd, "part-4.parquet")
    with pytest.raises(ValueError, match=r"`i32` has type Float64 in .*part-4.* but Int32 in .*-0"):
        feedline.parquet(str(tmp_path / "part-*.parquet"), columns=["f64", "i32"])


def test_a_table_larger_than_its_buffer_is_shuffled_by_window_within_it(tmp_path):
    table = numbers(20_000)
    path = written(tmp_path, table, row_group_size=1000)
    pipeline = feedline.parquet(path, buffer="128KiB")
    loader = feedline.Loader(pipeline, batch_size=100, shuffle=True, seed=3, num_workers=2)
    seen = np.concatenate([batch["u64"] for batch in loader])
    expected = table["u64"].to_numpy()
    assert np.array_equal(np.sort(seen), np.sort(expected))
    assert not np.array_equal(seen, expected)
    small = feedline.parquet(path, shuffle_window=50)
    first = next(iter(feedline.Loader(small, batch_size=50, shuffle=True, seed=3)))
    places = np.searchsorted(np.sort(expected), first["u64"])
    rows = np.argsort(expected)[places]
    assert rows.max() - rows.min() < 50


def test_a_row_larger_than_the_buffer_is_refused(tmp_path):
    path = written(tmp_path, pa.table({"s": ["x" * 100_000] * 4}), use_dictionary=False)
    with pytest.raises(ValueError, match=r"1 rows of .* take \d+ bytes.*buffer's 1000"):
        feedline.parquet(path, buffer=1000)
    assert len(rows_of(feedline.parquet(path, buffer="1MiB"))) == 4


def test_a_dictionary_of_long_texts_is_in_memory_once(tmp_path):
    # A thousand rows of a megabyte each: a gigabyte, were each a copy.
    table = pa.table({"s": pa.array(["x" * (1 << 20)] * 1000).dictionary_encode()})
    path = written(tmp_path, table)
    pipeline = feedline.parquet(path, buffer="16MiB")
    assert [len(pipeline[i]["s"]) for i in (0, 500, 999)] == [1 << 20] * 3


@pytest.mark.parametrize("kept", [0, 3, 8, 100, -1, -9])
def test_a_file_that_was_cut_off_is_refused(tmp_path, kept):
    path = written(tmp_path, numbers(100))
    content = path.read_bytes()
    path.write_bytes(content[:kept])
    with pytest.raises(ValueError, match=r"x\.parquet` is no Parquet file, or was damaged or cut"):
        feedline.parquet(path)


@given(st.data())
def test_damaged_files_give_errors_or_rows_and_nothing_else(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("damaged")
    table = pa.table(
        {"x": [1, 2, 3, 4], "s": ["a", "bc", "", "d"], "l": [[1.0], [], [2.0, 3.0], [4.0]]}
    )
    content = bytearray(written(folder, table).read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    (folder / "damaged.parquet").write_bytes(content)
    try:
        pipeline = feedline.parquet(folder / "damaged.parquet", buffer="64MiB")
        rows = [dict(batch) for batch in feedline.Loader(pipeline, batch_size=2)]
    except (ValueError, SampleError, MemoryError, feedline.errors.BatchError):
        return
    assert sum(len(batch["s"]) for batch in rows) == len(pipeline)


def test_a_file_that_changes_is_an_error_of_its_rows(tmp_path):
    path = written(tmp_path, numbers(1000))
    pipeline = feedline.parquet(path)
    with path.open("ab") as file:
        file.write(b"more")
    with pytest.raises(SampleError, match="has changed since it was opened"):
        batches_of(pipeline, batch_size=10)


def test_pictures_in_a_column_are_decoded(tmp_path):
    def png(shade):
        out = io.BytesIO()
        Image.new("RGB", (8, 6), (shade, 0, 0)).save(out, "png")
        return out.getvalue()

    table = pa.table(
        {
            "image": [png(shade) for shade in (1, 2, 3)],
            "label": [5, 6, 7],
            "tags": [[1, 2], [], [3]],
            "name": ["a", "b", "c"],
        }
    )
    rows = feedline.parquet(written(tmp_path, table), ragged="packed", null_flags=["label"])
    pipeline = rows.images("image").resize((6, 8))
    (batch,) = batches_of(pipeline, batch_size=3)
    assert batch["image"].shape == (3, 3, 6, 8)
    assert batch["image"][:, 0, 0, 0].tolist() == [1, 2, 3]
    assert batch["label"].tolist() == [5, 6, 7]
    assert batch["label_is_null"].tolist() == [False, False, False]
    assert (batch["tags"].tolist(), batch["tags_offsets"].tolist()) == ([1, 2, 3], [0, 2, 2, 3])
    assert batch["name"] == ["a", "b", "c"]


def test_states_ranks_and_pickles_go_on_with_the_same_rows(tmp_path):
    table = numbers(1000)
    path = written(tmp_path, table, row_group_size=100)
    pipeline = feedline.parquet(path)
    expected = table["u64"].to_numpy()
    shares = [
        np.concatenate(
            [
                batch["u64"]
                for batch in feedline.Loader(
                    pipeline, batch_size=50, shuffle=True, seed=1, rank=rank, world_size=2
                )
            ]
        )
        for rank in range(2)
    ]
    assert np.array_equal(np.sort(np.concatenate(shares)), np.sort(expected))
    again = pickle.loads(pickle.dumps(pipeline))
    whole = [batch["u64"].copy() for batch in _shuffled(pipeline)]
    assert all(np.array_equal(a, b["u64"]) for a, b in zip(whole, _shuffled(again), strict=True))
    loader = _shuffled(pipeline)
    epoch = iter(loader)
    for _ in range(3):
        next(epoch)
    state = loader.state_dict()
    resumed = _shuffled(pipeline)
    resumed.load_state_dict(state)
    rest = [batch["u64"].copy() for batch in resumed]
    assert all(np.array_equal(a, b) for a, b in zip(whole[3:], rest, strict=True))


def _shuffled(pipeline):
    return feedline.Loader(pipeline, batch_size=64, shuffle=True, seed=9, num_workers=2, epochs=1)


def test_the_drop_in_makes_the_same_batches(tmp_path):
    import torch

    import feedline.torch

    table = numbers(300)
    pipeline = feedline.parquet(written(tmp_path, table), columns=["f64", "i32"])
    loader = feedline.torch.DataLoader(pipeline, batch_size=32, num_workers=2)
    seen = torch.cat([batch["f64"] for batch in loader])
    assert np.array_equal(seen.numpy(), table["f64"].to_numpy())


@given(
    st.lists(
        st.tuples(
            st.one_of(st.none(), st.floats(width=32)),
            st.text(max_size=20),
            st.lists(st.integers(-(2**31), 2**31 - 1), max_size=5),
        ),
        min_size=1,
        max_size=50,
    ),
    st.integers(1, 10),
    st.booleans(),
)
def test_rows_are_what_was_written(tmp_path_factory, rows, group, dictionaries):
    folder = tmp_path_factory.mktemp("rows")
    floats, texts, lists = zip(*rows, strict=True)
    table = pa.table(
        {
            "f": pa.array(floats, pa.float32()),
            "s": pa.array(texts, pa.string()),
            "l": pa.array(lists, pa.list_(pa.int32())),
        }
    )
    path = written(folder, table, row_group_size=group, use_dictionary=dictionaries)
    seen = rows_of(feedline.parquet(path), batch_size=7, num_workers=2)
    expected = [{"f": math.nan if f is None else f, "s": s, "l": values} for f, s, values in rows]
    assert same(seen, expected)


def test_a_choice_in_the_order_of_the_rows_is_shuffled_by_window_too(tmp_path):
    path = written(tmp_path, pa.table({"n": np.arange(10_000)}), row_group_size=100)
    table = feedline.parquet(path, shuffle_window=200)
    even = np.arange(10_000) % 2 == 0
    for chosen, expected in [
        (table.select(slice(1000, 9000)), np.arange(1000, 9000)),
        (table.select(slice(8999, 999, -1)), np.arange(1000, 9000)),
        (table.select(even), np.arange(0, 10_000, 2)),
        (table.filter(lambda n: n % 3 == 0, fields="n"), np.arange(0, 10_000, 3)),
        (table.select(slice(0, 5000)).repeat(2), np.repeat(np.arange(5000), 2)),
    ]:
        loader = feedline.Loader(chosen, batch_size=50, shuffle=True, seed=1, num_workers=2)
        seen = np.concatenate([batch["n"] for batch in loader])
        assert np.array_equal(np.sort(seen), expected)
        assert not np.array_equal(seen, expected)
        # A window spans two row groups, or parts of three.
        assert len(np.unique(seen[:50] // 100)) <= 3


def test_a_choice_in_another_order_warns_where_its_rows_do_not_fit(tmp_path, recwarn):
    path = written(tmp_path, pa.table({"n": np.arange(10_000)}), row_group_size=100)
    table = feedline.parquet(path, shuffle_window=200)
    near = table.select([150, 3, 77])
    assert [row["n"] for row in rows_of(near)] == [150, 3, 77]
    assert not recwarn
    with pytest.warns(UserWarning, match="select them in ascending order") as warned:
        far = table.select([9999, 3, 5000])
    assert [row["n"] for row in rows_of(far)] == [9999, 3, 5000]
    assert warned[0].filename == __file__


def test_files_with_other_units_of_time_are_no_part_of_the_table(tmp_path):
    moment = datetime.datetime(2024, 1, 1)
    of_day = datetime.time(1, 2, 3)
    span = datetime.timedelta(seconds=5)
    for first, other in [
        (pa.array([moment], pa.timestamp("ms")), pa.array([moment], pa.timestamp("us"))),
        (pa.array([moment], pa.timestamp("us")), pa.array([moment], pa.timestamp("us", "UTC"))),
        (pa.array([of_day], pa.time64("us")), pa.array([of_day], pa.time64("ns"))),
        (pa.array([span], pa.duration("ms")), pa.array([span], pa.duration("us"))),
        (pa.array([moment.date()], pa.date32()), pa.array([7], pa.int32())),
        (
            pa.array([[moment]], pa.list_(pa.timestamp("ms"))),
            pa.array([[moment]], pa.list_(pa.timestamp("us"))),
        ),
    ]:
        paths = [
            written(tmp_path, pa.table({"t": array}), name)
            for name, array in [("a.parquet", first), ("b.parquet", other)]
        ]
        for pair in (paths, paths[::-1]):
            with pytest.raises(ValueError, match="files of one table need one schema"):
                feedline.parquet(pair)
    zones = [
        written(tmp_path, pa.table({"t": pa.array([moment], pa.timestamp("us", zone))}), zone[:3])
        for zone in ("UTC", "Europe/Berlin")
    ]
    assert len({row["t"] for row in rows_of(feedline.parquet(zones))}) == 1


def naming(folder, name):
    """Write a table whose row names a file."""
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    table = pa.table({"image": pa.array([{"bytes": None, "path": str(name)}], kind)})
    return written(folder, table)


def test_rows_name_files_of_their_own_folder_alone(tmp_path):
    inside, outside = tmp_path / "data", tmp_path / "elsewhere"
    inside.mkdir()
    outside.mkdir()
    (inside / "a.png").write_bytes(b"inside")
    (outside / "b.png").write_bytes(b"outside")
    (inside / "link.png").symlink_to(outside / "b.png")
    for name in ("a.png", inside / "a.png", "../data/a.png"):
        assert feedline.parquet(naming(inside, name))[0] == {"image": b"inside"}
    for name in (outside / "b.png", "../elsewhere/b.png", "link.png", "/etc/passwd"):
        table = feedline.parquet(naming(inside, name))
        with pytest.raises(SampleError, match=r"is not in .*data`; pass image_root="):
            table[0]
    table = feedline.parquet(naming(inside, "b.png"), image_root=outside)
    assert table[0] == {"image": b"outside"}
    table = feedline.parquet(naming(inside, outside / "b.png"), image_root="/")
    assert table[0] == {"image": b"outside"}


def test_rows_name_no_pipes_devices_or_enormous_files(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(1 << 40)
    for name, why in [
        (tmp_path / "pipe", "it is no regular file"),
        ("/dev/zero", "it is no regular file"),
        (tmp_path / "large", "it has 1099511627776 bytes, more than"),
        (tmp_path, "it is a folder"),
        (tmp_path / "none", "No such file"),
    ]:
        path = naming(tmp_path, name)
        for table in (feedline.parquet(path, image_root="/"), feedline.arrow(pq.read_table(path))):
            with pytest.raises(SampleError, match=why):
                table[0]
