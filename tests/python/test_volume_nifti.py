"""NIfTI files: values, affine and spacing are those that nibabel finds."""

import numpy as np
import pytest

import feedline
import scans

SHAPE = (5, 6, 7)


def check(path):
    """Compare with nibabel, and return what was read."""
    import nibabel

    image = nibabel.load(path)
    volume = feedline.read_volume(path)
    np.testing.assert_allclose(volume.affine, scans.backwards(image.affine), rtol=1e-6, atol=1e-6)
    values = np.asanyarray(image.dataobj)
    np.testing.assert_allclose(volume.array, values.T, rtol=1e-12)
    codes = "".join(nibabel.aff2axcodes(image.affine))
    assert volume.orientation == codes
    spacing = nibabel.affines.voxel_sizes(image.affine)[::-1]
    np.testing.assert_allclose(volume.spacing, spacing, rtol=1e-6)
    return volume


@pytest.mark.parametrize("dtype", scans.DTYPES)
@pytest.mark.parametrize("endian", ["little", "big"])
@pytest.mark.parametrize("version", [1, 2])
def test_every_type_and_order_has_the_values_that_nibabel_reads(tmp_path, dtype, endian, version):
    array = scans.numbers(dtype, SHAPE)
    path = scans.write_nifti(
        tmp_path / "a.nii", array, scans.OBLIQUE, endian=endian, version=version
    )
    volume = check(path)
    assert volume.array.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(volume.array, array)


@pytest.mark.parametrize("version", [1, 2])
def test_files_in_gzip_are_the_same(tmp_path, version):
    array = scans.numbers("int16", SHAPE)
    check(scans.write_nifti(tmp_path / "a.nii.gz", array, scans.OBLIQUE, version=version))


@pytest.mark.parametrize("name", ["a.hdr", "a.img"])
@pytest.mark.parametrize("packed", ["", ".gz"])
def test_a_pair_of_header_and_image_is_one_volume(tmp_path, name, packed):
    array = scans.numbers("int16", SHAPE)
    header = scans.nifti_header("int16", SHAPE[::-1], scans.OBLIQUE, offset=0, magic=b"ni1\0")
    for path, data in ((tmp_path / "a.hdr", header), (tmp_path / "a.img", array.tobytes())):
        encoding = "gzip" if packed else "raw"
        path.with_name(path.name + packed).write_bytes(scans.compressed(data, encoding))
    check(tmp_path / (name + packed))


@pytest.mark.parametrize("scale", [(2.5, -1024.0), (0.01, 0.0), (1.0, 5.0), (-1.0, 0.0)])
@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32"])
def test_slope_and_intercept_scale_the_values(tmp_path, scale, dtype):
    array = scans.numbers(dtype, SHAPE)
    path = scans.write_nifti(tmp_path / "a.nii", array, scale=scale)
    volume = check(path)
    assert volume.array.dtype == np.float64
    (image,) = feedline.volumes([path], cache=tmp_path / "kept")[0]
    np.testing.assert_allclose(image[0], volume.array, rtol=1e-6, atol=1e-4)


@pytest.mark.parametrize("scale", [(0.0, 7.0), (1.0, 0.0), (np.nan, 3.0)])
def test_a_slope_of_zero_one_or_nothing_scales_nothing(tmp_path, scale):
    array = scans.numbers("int16", SHAPE)
    path = scans.write_nifti(tmp_path / "a.nii", array, scale=scale)
    np.testing.assert_array_equal(check(path).array, array)


QUATERNIONS = [
    (1.0, (0.0, 0.0, 0.0), (1.0, 2.0, 3.0)),
    (-1.0, (0.5, 0.5, 0.5), (-90.0, 126.0, -72.0)),
    (1.0, (0.1, -0.2, 0.3), (0.0, 0.0, 0.0)),
    (0.0, (0.0, 1.0, 0.0), (5.0, 5.0, 5.0)),
    (-1.0, (0.0, 0.0, 1.0), (5.0, 5.0, 5.0)),
]


@pytest.mark.parametrize("qform", QUATERNIONS)
@pytest.mark.parametrize("version", [1, 2])
def test_a_quaternion_is_the_affine_where_there_is_no_other(tmp_path, qform, version):
    array = scans.numbers("int16", SHAPE)
    path = scans.write_nifti(
        tmp_path / "a.nii", array, qform=qform, pixdim=[0.5, 0.75, 2.0], version=version
    )
    check(path)


def test_the_sform_comes_before_the_qform(tmp_path):
    array = scans.numbers("int16", SHAPE)
    path = scans.write_nifti(
        tmp_path / "a.nii", array, scans.OBLIQUE, qform=QUATERNIONS[1], pixdim=[3.0, 2.0, 1.0]
    )
    check(path)


def test_without_either_the_affine_is_that_of_nibabel(tmp_path):
    array = scans.numbers("int16", SHAPE)
    header = scans.nifti_header("int16", SHAPE[::-1], None, pixdim=[0.5, 0.75, 2.0])
    path = tmp_path / "a.nii"
    path.write_bytes(header + array.tobytes())
    check(path)


@pytest.mark.parametrize("suffix", [".nii", ".nii.gz"])
def test_a_fourth_axis_is_that_of_channels(tmp_path, suffix):
    array = scans.numbers("int16", (3, *SHAPE))
    path = scans.write_nifti(tmp_path / f"a{suffix}", array, scans.OBLIQUE)
    assert check(path).array.shape == (3, *SHAPE)
    (image,) = feedline.volumes([path], cache=tmp_path / "kept")[0]
    np.testing.assert_array_equal(image, array.astype(np.float32))


def test_data_may_begin_later_than_it_must(tmp_path):
    array = scans.numbers("int16", SHAPE)
    check(scans.write_nifti(tmp_path / "a.nii", array, scans.OBLIQUE, offset=1024))


def test_axes_of_one_voxel_at_the_end_do_not_count(tmp_path):
    array = scans.numbers("int16", (1, *SHAPE))
    path = scans.write_nifti(tmp_path / "a.nii", array)
    np.testing.assert_array_equal(feedline.read_volume(path).array, array[0])


def test_a_slice_is_a_volume_of_one(tmp_path):
    array = scans.numbers("int16", SHAPE[1:])
    path = scans.write_nifti(tmp_path / "a.nii", array)
    np.testing.assert_array_equal(feedline.read_volume(path).array, array[None])


def test_headers_are_those_of_nibabel_and_know_the_paths(tmp_path):
    image, mask = scans.pair(tmp_path, affine=scans.OBLIQUE)
    (header,) = feedline.volumes([(image, mask)], cache=tmp_path / "kept").headers
    assert (header.name, header.images, header.mask) == ("case", (image,), mask)
    assert (header.shape, header.channels, header.dtype) == ((20, 24, 28), 1, "int16")
    np.testing.assert_allclose(
        header.affine[:3], scans.backwards(scans.OBLIQUE), rtol=1e-6, atol=1e-6
    )
