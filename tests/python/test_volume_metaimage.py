"""MetaImage files: values, affine and spacing are those that SimpleITK finds."""

import numpy as np
import pytest

import feedline
import scans

SHAPE = (5, 6, 7)


def check(path):
    import SimpleITK as sitk  # noqa: N813

    array, affine, spacing = scans.of_itk(sitk.ReadImage(str(path)))
    volume = feedline.read_volume(path)
    assert volume.array.dtype == array.dtype
    np.testing.assert_array_equal(volume.array, array)
    np.testing.assert_allclose(volume.affine, affine, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(volume.spacing, spacing, rtol=1e-9)
    return volume


def oblique(array):
    """Return an image of SimpleITK's that is turned."""
    import SimpleITK as sitk  # noqa: N813

    image = sitk.GetImageFromArray(array)
    image.SetDirection((0.6, -0.48, 0.64, 0.8, 0.36, -0.48, 0.0, 0.8, 0.6))
    image.SetSpacing((0.7, 0.9, 2.5))
    image.SetOrigin((-12.5, 7.0, 31.25))
    return image


@pytest.mark.parametrize("dtype", scans.DTYPES)
@pytest.mark.parametrize("name", ["a.mha", "a.mhd"])
@pytest.mark.parametrize("compress", [False, True])
def test_what_simpleitk_writes_is_read_as_it_reads_it(tmp_path, dtype, name, compress):
    import SimpleITK as sitk  # noqa: N813

    path = tmp_path / name
    sitk.WriteImage(oblique(scans.numbers(dtype, SHAPE)), str(path), compress)
    check(path)


@pytest.mark.parametrize("msb", ["True", "False"])
def test_both_orders_of_bytes_are_read(tmp_path, msb):
    array = scans.numbers("int16", SHAPE)
    order = ">i2" if msb == "True" else "<i2"
    header = (
        "ObjectType = Image\nNDims = 3\nBinaryData = True\n"
        f"BinaryDataByteOrderMSB = {msb}\nElementSpacing = 0.5 0.75 2\nOffset = 1 2 3\n"
        "DimSize = 7 6 5\nElementType = MET_SHORT\nElementDataFile = LOCAL\n"
    )
    path = tmp_path / "a.mha"
    path.write_bytes(header.encode() + array.astype(order).tobytes())
    np.testing.assert_array_equal(check(path).array, array)


def test_channels_next_to_each_other_become_the_first_axis(tmp_path):
    import SimpleITK as sitk  # noqa: N813

    array = scans.numbers("int16", (*SHAPE, 3))
    image = sitk.GetImageFromArray(array, isVector=True)
    path = tmp_path / "a.mha"
    sitk.WriteImage(image, str(path))
    np.testing.assert_array_equal(feedline.read_volume(path).array, np.moveaxis(array, -1, 0))
