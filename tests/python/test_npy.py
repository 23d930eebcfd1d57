"""`.npy` files, packed and one per sample, as NumPy writes them."""

import os
from pathlib import Path

import numpy as np
import pytest
from numpy.lib import format as npy_format

import feedline
from feedline.errors import SampleError

DTYPES = ["?", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", "c8", "c16"]
ODD = Path(__file__).parents[3] / "shared" / "data" / "odd" / "npy"


def values(dtype, shape):
    raw = np.random.default_rng(1).integers(0, 2, (*shape, np.dtype(dtype).itemsize), np.uint8)
    return raw.view(dtype).reshape(shape)


def delivered(pipeline, **settings):
    loader = feedline.Loader(pipeline, batch_size=2, epochs=1, **settings)
    return np.concatenate([np.array(batch[0]) for batch in loader])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("endian", "<>")
def test_a_packed_file_holds_one_sample_per_row(tmp_path, dtype, order, endian):
    array = np.asarray(values(dtype, (5, 3, 2)), order=order)
    np.save(tmp_path / "x.npy", array.astype(array.dtype.newbyteorder(endian)))
    got = delivered(feedline.npy(tmp_path / "x.npy"))
    assert got.dtype == np.dtype(dtype)
    assert got.tobytes() == array.tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_folder_holds_one_sample_per_file(tmp_path, dtype, order):
    array = values(dtype, (5, 3, 2))
    for i, sample in enumerate(array):
        np.save(tmp_path / f"{i}.npy", np.asarray(sample, order=order))
    got = delivered(feedline.npy(tmp_path))
    assert got.dtype == np.dtype(dtype)
    assert got.tobytes() == array.tobytes()


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_every_version_of_the_format_is_read(tmp_path, version):
    with (tmp_path / "x.npy").open("wb") as file:
        npy_format.write_array(file, np.arange(6.0).reshape(3, 2), version=version)
    assert delivered(feedline.npy(tmp_path / "x.npy")).tolist() == [[0, 1], [2, 3], [4, 5]]


def test_a_folder_of_single_numbers(tmp_path):
    for i in range(3):
        np.save(tmp_path / f"{i}.npy", np.float32(i))
    assert delivered(feedline.npy(str(tmp_path))).tolist() == [0, 1, 2]


def test_files_come_in_the_order_of_their_names_and_others_are_left_alone(tmp_path):
    for name in ["b", "a", "c"]:
        np.save(tmp_path / f"{name}.npy", np.int64(ord(name)))
    (tmp_path / "notes.txt").write_text("not a sample")
    (tmp_path / "more").mkdir()
    assert delivered(feedline.npy(tmp_path)).tolist() == [97, 98, 99]


def test_a_name_makes_dicts(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(3))
    (batch,) = feedline.Loader(feedline.npy(tmp_path / "x.npy", name="x"), batch_size=3, epochs=1)
    assert batch["x"].tolist() == [0, 1, 2]
    assert "x: int64 []" in str(feedline.npy(tmp_path / "x.npy", name="x"))


def test_threads_that_only_read_deliver_the_same(tmp_path):
    for i in range(20):
        np.save(tmp_path / f"{i:02}.npy", np.full(3, i))
    got = delivered(feedline.npy(tmp_path), io_workers=2, num_workers=2)
    np.testing.assert_array_equal(got, np.arange(20)[:, None].repeat(3, axis=1))


# ---- what is wrong with files


@pytest.mark.parametrize("name", ["missing.npy", "missing/"])
def test_a_path_with_nothing_there_is_file_not_found(tmp_path, name):
    with pytest.raises(FileNotFoundError, match="missing") as caught:
        feedline.npy(tmp_path / name)
    assert caught.value.errno == 2


def test_an_empty_folder_says_what_to_give(tmp_path):
    with pytest.raises(ValueError, match=r"no `\.npy` file directly in it; give the folder"):
        feedline.npy(tmp_path)


def test_a_file_that_may_not_be_read_is_a_permission_error(program):
    program("""
        import os, numpy as np, feedline
        np.save("x.npy", np.arange(3))
        os.chmod("x.npy", 0)
        if os.geteuid() == 0:
            os.chmod(".", 0o755)
            os.seteuid(65534)  # nobody: root may read everything
        try:
            feedline.npy("x.npy")
        except PermissionError as error:
            assert "x.npy" in str(error)
        else:
            raise AssertionError
    """)


@pytest.mark.parametrize("packed", [True, False])
def test_object_arrays_are_refused(tmp_path, packed):
    np.save(tmp_path / "x.npy", np.array([{}, []], object), allow_pickle=True)
    with pytest.raises(ValueError, match=r"x\.npy.*(object|pickle)"):
        feedline.npy(tmp_path / "x.npy" if packed else tmp_path)


@pytest.mark.parametrize("what", ["strings", "dates", "records"])
def test_what_is_no_array_of_numbers_is_refused(tmp_path, what):
    arrays = {
        "strings": np.array(["a", "b"]),
        "dates": np.array(["2024-01-01"], "M8[D]"),
        "records": np.zeros(2, [("x", "i4")]),
    }
    np.save(tmp_path / "x.npy", arrays[what])
    with pytest.raises(ValueError, match=r"x\.npy"):
        feedline.npy(tmp_path / "x.npy")


def test_a_scalar_has_no_rows(tmp_path):
    np.save(tmp_path / "x.npy", np.float64(1))
    with pytest.raises(ValueError, match=r"first axis.*reshape\(1\)"):
        feedline.npy(tmp_path / "x.npy")


def test_a_file_that_is_cut_off_is_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(100))
    os.truncate(tmp_path / "x.npy", 500)
    with pytest.raises(ValueError, match=r"500 bytes but its header asks for 928.*cut off"):
        feedline.npy(tmp_path / "x.npy")


def test_files_that_disagree_are_both_named(tmp_path):
    np.save(tmp_path / "0.npy", np.zeros(3, np.float32))
    np.save(tmp_path / "1.npy", np.zeros(4, np.float64))
    np.save(tmp_path / "2.npy", np.ones(3, np.float32))
    batches = iter(feedline.Loader(feedline.npy(tmp_path), batch_size=1, epochs=1))
    assert next(batches)[0].tolist() == [[0, 0, 0]]
    with pytest.raises(
        SampleError, match=r"1\.npy.*float64.*\[4\].*0\.npy.*float32.*\[3\]"
    ) as caught:
        next(batches)
    assert caught.value.index == 1
    assert caught.value.origin.endswith("1.npy")
    assert next(batches)[0].tolist() == [[1, 1, 1]], "the others go on"


@pytest.mark.parametrize("length", [128 + 6 * 80_000, 128 + 10 * 80_000])
def test_a_packed_file_that_shrinks_or_is_overwritten_is_an_error_of_every_sample(tmp_path, length):
    path = tmp_path / "x.npy"
    array = np.arange(10 * 10_000.0).reshape(10, 10_000)
    np.save(path, array)
    pipeline = feedline.npy(path)
    loader = feedline.Loader(pipeline, batch_size=5)
    np.testing.assert_array_equal(np.concatenate([x for (x,) in loader]), array)
    np.save(path, -array)
    os.truncate(path, length)
    batches = iter(feedline.Loader(pipeline, batch_size=1, epochs=1))
    for _ in range(10):
        with pytest.raises(SampleError, match=r"x\.npy` has changed.*open it again"):
            next(batches)
    assert next(batches, None) is None


def test_a_packed_file_may_shrink_while_it_is_read(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, np.ones((400, 5000)))
    loader = feedline.Loader(feedline.npy(path), batch_size=5, shuffle=True, on_error="skip")
    batches = iter(loader)
    next(batches)
    os.truncate(path, 1 << 20)
    assert all((x == 1).all() for (x,) in batches), "what is delivered is whole"
    list(loader)
    assert loader.errors
    assert all(str(path) in str(error) for error in loader.errors)


def test_a_packed_file_that_is_replaced_by_renaming_stays_the_old_one(tmp_path):
    path = tmp_path / "x.npy"
    array = np.arange(10 * 10_000.0).reshape(10, 10_000)
    np.save(path, array)
    pipeline = feedline.npy(path)
    np.save(tmp_path / "new.npy", -array)
    (tmp_path / "new.npy").rename(path)
    np.testing.assert_array_equal(delivered(pipeline), array)
    np.testing.assert_array_equal(delivered(feedline.npy(path)), -array)


def test_a_packed_file_of_small_rows_is_in_memory_once_it_is_open(tmp_path):
    path = tmp_path / "labels.npy"
    np.save(path, np.arange(1000))
    pipeline = feedline.npy(path)
    os.truncate(path, 200)
    assert delivered(pipeline).tolist() == list(range(1000))


def test_a_file_of_a_folder_that_shrinks_or_goes_is_an_error_of_its_sample(tmp_path):
    for i in range(4):
        np.save(tmp_path / f"{i}.npy", np.full(10, i))
    pipeline = feedline.npy(tmp_path)
    os.truncate(tmp_path / "1.npy", 150)
    (tmp_path / "2.npy").unlink()
    loader = feedline.Loader(pipeline, batch_size=4, on_error="skip", epochs=1)
    ((batch,),) = loader
    assert batch[:, 0].tolist() == [0, 3]
    assert [error.index for error in loader.errors] == [1, 2]
    assert "150 bytes" in str(loader.errors[0])
    assert "2.npy" in str(loader.errors[1])


@pytest.mark.skipif(not ODD.is_dir(), reason="needs the collection of odd files")
@pytest.mark.parametrize("name", sorted(path.name for path in ODD.glob("*.npy")))
def test_odd_files_are_read_as_numpy_reads_them_or_refused(name):
    path = ODD / name
    if name == "good_scalar.npy":
        with pytest.raises(ValueError, match=name):
            feedline.npy(path)
    elif name == "good_empty.npy":
        assert len(feedline.npy(path)) == len(np.load(path)) == 0
    elif name.startswith("good"):
        expected = np.load(path)
        got = delivered(feedline.npy(path))
        assert got.dtype == expected.dtype.newbyteorder("=")
        np.testing.assert_array_equal(got, expected)
    else:
        with pytest.raises(ValueError, match=name):
            feedline.npy(path)
