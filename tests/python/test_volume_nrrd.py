"""NRRD files: values, affine and spacing are those that pynrrd and SimpleITK find."""

import numpy as np
import pytest

import feedline
import scans

SHAPE = (5, 6, 7)


def nrrd(path):
    """Return what pynrrd reads, axes as feedline has them."""
    import nrrd as pynrrd

    array, header = scans.quiet(pynrrd.read, str(path), index_order="C")
    return array, header


def itk(path):
    import SimpleITK as sitk  # noqa: N813

    return scans.of_itk(sitk.ReadImage(str(path)))


def check_with_itk(path):
    array, affine, spacing = itk(path)
    volume = feedline.read_volume(path)
    assert volume.array.dtype == array.dtype
    np.testing.assert_array_equal(volume.array, array)
    np.testing.assert_allclose(volume.affine, affine, rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(volume.spacing, spacing, rtol=1e-12)


@pytest.mark.parametrize("dtype", scans.DTYPES)
@pytest.mark.parametrize("endian", ["little", "big"])
@pytest.mark.parametrize("encoding", ["raw", "gzip", "bzip2", "text"])
def test_every_type_order_and_encoding_has_the_values_that_pynrrd_reads(
    tmp_path, dtype, endian, encoding
):
    array = scans.numbers(dtype, SHAPE)
    path = scans.write_nrrd(tmp_path / "a.nrrd", array, encoding=encoding, endian=endian)
    read = feedline.read_volume(path).array
    assert read.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(read, nrrd(path)[0])
    np.testing.assert_array_equal(read, array)


@pytest.mark.parametrize("space", ["right-anterior-superior", "left-posterior-superior", "LPS"])
def test_directions_and_origin_are_where_simpleitk_sees_them(tmp_path, space):
    fields = scans.directions(scans.OBLIQUE)
    fields[0] = f"space: {space}"
    path = scans.write_nrrd(tmp_path / "a.nrrd", scans.numbers("int16", SHAPE), fields)
    check_with_itk(path)


def test_spacings_without_a_space_are_along_the_axes(tmp_path):
    array = scans.numbers("int16", SHAPE)
    path = scans.write_nrrd(tmp_path / "a.nrrd", array, ["spacings: 0.5 0.75 3"])
    volume = feedline.read_volume(path)
    assert volume.spacing == (3.0, 0.75, 0.5)
    assert list(nrrd(path)[1]["spacings"]) == [0.5, 0.75, 3.0]
    np.testing.assert_allclose(np.linalg.norm(volume.affine[:3, :3], axis=0), (3.0, 0.75, 0.5))


@pytest.mark.parametrize("encoding", ["raw", "gzip", "bzip2"])
def test_a_detached_header_finds_its_data(tmp_path, encoding):
    array = scans.numbers("int16", SHAPE)
    (tmp_path / "a.bin").write_bytes(scans.compressed(array.tobytes(), encoding))
    fields = [*scans.directions(scans.OBLIQUE), "data file: a.bin"]
    header = scans.nrrd_header("int16", SHAPE[::-1], fields, encoding=encoding)
    path = tmp_path / "a.nhdr"
    path.write_text(header)
    volume = feedline.read_volume(path)
    np.testing.assert_array_equal(volume.array, nrrd(path)[0])
    np.testing.assert_array_equal(volume.array, array)
    np.testing.assert_allclose(volume.affine[:3], scans.backwards(scans.OBLIQUE), rtol=1e-12)


def slices(folder, array, encoding="raw"):
    for i, one in enumerate(array):
        (folder / f"s{i:03}.bin").write_bytes(scans.compressed(one.tobytes(), encoding))


def test_data_files_by_a_pattern_are_slices(tmp_path):
    array = scans.numbers("int16", SHAPE)
    slices(tmp_path, array)
    fields = [f"data file: s%03d.bin 0 {SHAPE[0] - 1} 1"]
    path = tmp_path / "a.nhdr"
    path.write_text(scans.nrrd_header("int16", SHAPE[::-1], fields))
    read = feedline.read_volume(path).array
    np.testing.assert_array_equal(read, itk(path)[0])
    np.testing.assert_array_equal(read, array)


def test_data_files_in_a_list_are_slices(tmp_path):
    array = scans.numbers("uint8", SHAPE)
    slices(tmp_path, array)
    names = [f"s{i:03}.bin" for i in range(SHAPE[0])]
    path = tmp_path / "a.nhdr"
    path.write_text(scans.nrrd_header("uint8", SHAPE[::-1], ["data file: LIST", *names]))
    read = feedline.read_volume(path).array
    np.testing.assert_array_equal(read, itk(path)[0])
    np.testing.assert_array_equal(read, array)


def test_skips_of_bytes_and_lines_are_skipped(tmp_path):
    array = scans.numbers("int16", SHAPE)
    (tmp_path / "a.bin").write_bytes(b"one\ntwo\n12345" + array.tobytes())
    fields = ["line skip: 2", "byte skip: 5", "data file: a.bin"]
    path = tmp_path / "a.nhdr"
    path.write_text(scans.nrrd_header("int16", SHAPE[::-1], fields))
    read = feedline.read_volume(path).array
    np.testing.assert_array_equal(read, nrrd(path)[0])
    np.testing.assert_array_equal(read, array)


@pytest.mark.parametrize("first", [True, False], ids=["fastest", "slowest"])
def test_an_axis_that_is_no_direction_is_that_of_channels(tmp_path, first):
    # Files have channels next to each other, or one volume after the other.
    array = scans.numbers("int16", (2, *SHAPE))
    stored = np.moveaxis(array, 0, -1) if first else array
    sizes = stored.shape[::-1]
    vectors = ["(0.5,0,0)", "(0,0.5,0)", "(0,0,2)"]
    kinds = ["domain"] * 3
    where = 0 if first else 3
    vectors.insert(where, "none")
    kinds.insert(where, "list")
    fields = [
        "space: right-anterior-superior",
        f"space directions: {' '.join(vectors)}",
        f"kinds: {' '.join(kinds)}",
    ]
    path = tmp_path / "a.nrrd"
    header = scans.nrrd_header("int16", sizes, fields)
    path.write_bytes(header.encode() + b"\n" + np.ascontiguousarray(stored).tobytes())
    volume = feedline.read_volume(path)
    np.testing.assert_array_equal(nrrd(path)[0], stored)
    np.testing.assert_array_equal(volume.array, array)
    assert volume.spacing == (2.0, 0.5, 0.5)


def test_real_files_are_what_pynrrd_and_simpleitk_read(tmp_path):
    made = scans.write_nrrd(
        tmp_path / "a.nrrd", scans.smooth(SHAPE), scans.directions(scans.OBLIQUE), encoding="gzip"
    )
    # Those of a scanner lie beside the repository, where they are at all.
    for path in [made, *sorted(scans.SHARED.glob("*.nrrd"))]:
        np.testing.assert_array_equal(feedline.read_volume(path).array, nrrd(path)[0])
        check_with_itk(path)


def test_a_loader_delivers_what_the_file_has(tmp_path):
    array = scans.numbers("uint16", SHAPE)
    path = scans.write_nrrd(tmp_path / "a.nrrd", array, encoding="gzip")
    (image,) = feedline.volumes([path], cache=tmp_path / "kept")[0]
    assert image.dtype == np.float32
    np.testing.assert_array_equal(image[0], array.astype(np.float32))


@pytest.mark.parametrize("encoding", ["raw", "gzip", "bzip2", "text"])
@pytest.mark.parametrize("endian", ["little", "big"])
def test_a_part_of_a_file_is_that_part(tmp_path, encoding, endian):
    array = scans.numbers("int16", (20, 30, 40))
    path = scans.write_nrrd(tmp_path / "a.nrrd", array, encoding=encoding, endian=endian)
    volumes = feedline.volumes([path], cache=tmp_path / "kept")
    for size in ((8, 10, 12), (1, 1, 1), (20, 30, 3), (3, 30, 40)):
        start = [side // 2 - part // 2 for side, part in zip(array.shape, size, strict=True)]
        box = tuple(slice(at, at + part) for at, part in zip(start, size, strict=True))
        for _ in range(2):
            np.testing.assert_array_equal(volumes.center_crop(size)[0][0][0], array[box])
