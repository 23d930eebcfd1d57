"""Volumes to look at: a slice across each axis, the mask over it."""

import numpy as np
import pytest

import feedline
import scans
from feedline import _letters

GAP = 6
ORANGE = np.array((230, 159, 0))


def tiles(gallery, count, size=64, row=0):
    """Return the pictures of one sample, side by side."""
    top = GAP + row * (size + _letters.HEIGHT + 3 + GAP)
    places = [GAP + i * (size + GAP) for i in range(count)]
    return [gallery.pixels[top : top + size, left : left + size].astype(int) for left in places]


def volumes(tmp_path, voxels, mask=None, affine=None):
    image = scans.write_nifti(tmp_path / "head.nii", voxels, affine)
    case = image
    if mask is not None:
        case = (image, scans.write_nifti(tmp_path / "mask.nii", mask, affine))
    return feedline.volumes([case], cache=tmp_path / "kept")


def test_each_axis_has_a_slice_with_the_mask_over_it(tmp_path):
    voxels = np.zeros((64, 64, 64), np.int16)
    mask = np.zeros_like(voxels, np.uint8)
    mask[10:20, 30:34, 40:64] = 7  # the eighth colour is the first again
    gallery = volumes(tmp_path, voxels, mask).show(size=64)
    assert gallery.samples == 1
    # Where the most of it is: the first slice that has any. Head up, right to the left.
    axial, coronal, sagittal = (tile[..., 0] > 50 for tile in tiles(gallery, 3))
    np.testing.assert_array_equal(axial, mask[10, ::-1, ::-1] > 0)
    np.testing.assert_array_equal(coronal, mask[::-1, 30, ::-1] > 0)
    np.testing.assert_array_equal(sagittal, mask[::-1, ::-1, 40] > 0)
    coloured = tiles(gallery, 3)[0][axial]
    assert np.abs(coloured - ORANGE // 2).max() <= 1


def test_proportions_are_those_of_millimetres(tmp_path):
    affine = np.diag([1.0, 1.0, 4.0, 1.0])
    voxels = scans.smooth((16, 64, 64))
    _, coronal, _ = tiles(volumes(tmp_path, voxels, affine=affine).show(size=64), 3)
    assert (coronal < 250).all(axis=2).any(axis=1).sum() == 64, "16 slices of 4 mm"
    resampled = volumes(tmp_path, voxels, affine=affine).resample((2.0, 2.0, 2.0))
    _, coronal, _ = tiles(resampled.show(size=64), 3)
    rows = (coronal < 250).all(axis=2).any(axis=1).sum()
    assert rows >= 60, "31 slices of 2 mm, as many columns"


@pytest.mark.parametrize(("codes", "flips"), [("RAS", (1, 1)), ("LPS", (0, 0)), ("LAS", (1, 0))])
def test_the_front_is_up_and_the_right_to_the_left(tmp_path, codes, flips):
    voxels = scans.smooth((64, 64, 64))
    shown = volumes(tmp_path, voxels).reorient(codes)
    axial = tiles(shown.show(size=64), 1)[0][..., 0]
    made = shown[0][0][0][32]
    for axis, flipped in enumerate(flips):
        made = np.flip(made, axis) if flipped else made
    correlation = np.corrcoef(axial.ravel(), made.ravel())[0, 1]
    assert correlation > 0.99


def test_patches_and_slices_are_shown(tmp_path):
    shown = volumes(tmp_path, scans.smooth((40, 40, 40)), scans.organs((40, 40, 40)))
    patches = shown.random_crop(32, foreground=1.0, patches=2)
    width = patches.show(size=64).pixels.shape[1]
    assert width == 6 * 64 + 5 * GAP + 2 * GAP
    slices = shown.random_slice(0)
    assert slices.show(size=64).pixels.shape[1] == 64 + 2 * GAP
    assert tiles(slices.show(size=64), 1)[0].std() > 5


def test_the_name_of_a_case_stands_under_it(tmp_path):
    pixels = volumes(tmp_path, scans.smooth((40, 40, 40))).show(size=64).pixels
    under = pixels[GAP + 64 + 3 : GAP + 64 + 3 + _letters.HEIGHT, GAP:-GAP]
    dots = _letters.drawn("head")
    left = (3 * 64 + 2 * GAP - dots.shape[1]) // 2
    shown = under[:, left : left + dots.shape[1], 0] < 128
    np.testing.assert_array_equal(shown[: dots.shape[0]], dots)
