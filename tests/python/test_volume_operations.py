"""Operations on volumes do what MONAI's transforms of the same meaning do."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import feedline
import scans

SHAPE = (18, 24, 21)
# Axes are exchanged and mirrored, and voxels are no cubes.
AFFINE = np.array([[0, 0.9, 0, 3], [-0.7, 0, 0, 5], [0, 0, 2.4, -8], [0, 0, 0, 1.0]])

# As a share of the image's range: float32 in another order of operations.
CLOSE = 2e-6


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    """Volumes of one image and its mask, and the same as feedline reads them."""
    folder = tmp_path_factory.mktemp("volumes")
    paths = scans.pair(folder, shape=SHAPE, affine=AFFINE)
    volumes = feedline.volumes([paths], cache=folder / "kept")
    return volumes, *volumes[0]


def monai():
    return scans.quiet(__import__, "monai.transforms").transforms


def done(name, *arguments, to, **settings):
    """Return what a transform of MONAI's makes of an array with channels."""
    import torch

    transform = scans.quiet(getattr(monai(), name), *arguments, **settings)
    made = scans.quiet(transform, torch.from_numpy(np.array(to, np.float32)))
    return np.asarray(made)


def check(made, image, mask=None, close=CLOSE):
    """Compare a sample with what MONAI made of image and mask, both with channels."""
    assert made[0].shape == image.shape
    reach = float(np.abs(image).max()) or 1.0
    np.testing.assert_allclose(made[0], image, rtol=0, atol=close * reach)
    if mask is not None:
        np.testing.assert_array_equal(made[1], mask[0])


# ---- where voxels are


def placed(name, *arguments, case, mode, **settings):
    """Do a transform that goes by the affine: MONAI's axes are x, y and z."""
    import torch

    volumes, image, mask = case
    affine = torch.from_numpy(scans.backwards(volumes.headers[0].affine))
    array = image if mode == "bilinear" else mask[None].astype(np.float32)
    meta = scans.quiet(__import__, "monai.data").data.MetaTensor
    tensor = meta(torch.from_numpy(array.transpose(0, 3, 2, 1).copy()), affine=affine)
    if name == "Spacing":
        settings["mode"] = mode
    transform = scans.quiet(getattr(monai(), name), *arguments, **settings)
    return np.asarray(scans.quiet(transform, tensor)).transpose(0, 3, 2, 1)


@pytest.mark.parametrize("codes", ["RAS", "LPS", "PIR", "SAL", "ILA"])
def test_reorient_is_orientation(case, codes):
    image, mask = (placed("Orientation", codes, case=case, mode=m) for m in ("bilinear", "nearest"))
    check(case[0].reorient(codes)[0], image, mask, close=0)


@pytest.mark.parametrize("spacing", [1.0, (1.7, 0.63, 1.1), (2.4, 0.55, 0.5)])
def test_resample_is_spacing(case, spacing):
    pixdim = np.broadcast_to(spacing, 3)[::-1].tolist()
    how = {"pixdim": pixdim, "padding_mode": "border"}
    image = placed("Spacing", case=case, mode="bilinear", **how)
    mask = placed("Spacing", case=case, mode="nearest", **how)
    made = case[0].resample(spacing)[0]
    check(made, image, close=2e-5)
    assert made[1].shape == mask.shape[1:]
    # Where a place is half-way between two voxels, rounding decides.
    assert np.mean(made[1] != mask[0]) < 0.002


# ---- crops


@pytest.mark.parametrize("threshold", [0.0, 350.0])
@pytest.mark.parametrize("margin", [0, 2])
def test_crop_foreground_is_crop_foreground(case, threshold, margin):
    volumes, image, mask = case
    crop = scans.quiet(
        monai().CropForeground, lambda x: x > threshold, margin=margin, allow_smaller=True
    )
    start, end = crop.compute_bounding_box(image)
    box = tuple(slice(a, b) for a, b in zip(start, end, strict=True))
    made = volumes.crop_foreground(threshold, margin)[0]
    check(made, image[(slice(None), *box)], mask[None][(slice(None), *box)], close=0)


@pytest.mark.parametrize("size", [(20, 20, 30), (31, 40, 22)])
@pytest.mark.parametrize(("mode", "value"), [("constant", 0.0), ("constant", -7.5), ("edge", 0.0)])
def test_pad_is_spatial_pad(case, size, mode, value):
    volumes, image, mask = case
    how = {} if mode == "edge" else {"value": value}
    wanted = done("SpatialPad", size, mode=mode, to=image, **how)
    labels = done("SpatialPad", size, mode=mode, to=mask[None])
    check(volumes.pad(size, mode, value)[0], wanted, labels, close=0)


@pytest.mark.parametrize("size", [(7, 8, 9), (18, 5, 20)])
def test_center_crop_is_center_spatial_crop(case, size):
    volumes, image, mask = case
    made = volumes.center_crop(size)[0]
    check(made, *(done("CenterSpatialCrop", size, to=x) for x in (image, mask[None])), close=0)


@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 2), (0, 1, 2)])
def test_flip_is_flip(case, axes):
    volumes, image, mask = case
    made = volumes.flip(axes)[0]
    check(made, *(done("Flip", axes, to=x) for x in (image, mask[None])), close=0)


@pytest.mark.parametrize("k", [0, 1, 2, 3])
@pytest.mark.parametrize("axes", [(0, 1), (1, 2), (2, 0)])
def test_rot90_is_rotate90(case, k, axes):
    volumes, image, mask = case
    made = volumes.rot90(k, axes)[0]
    check(made, *(done("Rotate90", k, axes, to=x) for x in (image, mask[None])), close=0)


AFFINES = [
    {"degrees": (20, 0, 0)},
    {"degrees": (0, -35, 0)},
    {"degrees": (12, 25, -17)},
    {"scale": (1.3, 0.8, 1.1)},
    {"translate": (2.3, -3.25, 1)},
    {"degrees": (12, 25, -17), "scale": (1.2, 0.8, 0.9), "translate": (1.5, -2, 0.75)},
]


@pytest.mark.parametrize("how", AFFINES)
@pytest.mark.parametrize("mode", ["constant", "edge"])
def test_random_affine_with_one_choice_is_affine(case, how, mode):
    volumes, image, mask = case
    ranges = {name: [(value, value) for value in values] for name, values in how.items()}
    made = volumes.random_affine(1.0, mode=mode, **ranges)[0]
    settings = {
        "rotate_params": list(np.radians(how.get("degrees", (0, 0, 0)))),
        "scale_params": how.get("scale"),
        "translate_params": how.get("translate"),
        "image_only": True,
        "padding_mode": {"constant": "zeros", "edge": "border"}[mode],
    }
    wanted = done("Affine", **settings, to=image)
    labels = done("Affine", **settings, mode="nearest", to=mask[None])
    check(made, wanted, close=2e-5)
    assert np.mean(made[1] != labels[0]) < 0.002


# ---- numbers


@pytest.mark.parametrize("nonzero", [False, True])
def test_zscore_is_normalize_intensity(case, nonzero):
    volumes, image, mask = case
    wanted = done("NormalizeIntensity", nonzero=nonzero, channel_wise=True, to=image)
    check(volumes.zscore(nonzero)[0], wanted, mask[None])


def test_zscore_of_given_numbers_is_normalize_intensity(case):
    volumes, image, _ = case
    wanted = done("NormalizeIntensity", subtrahend=120.0, divisor=250.0, to=image)
    check(volumes.zscore(mean=120.0, std=250.0)[0], wanted)


@pytest.mark.parametrize("clip", [True, False])
@pytest.mark.parametrize("to", [(0.0, 1.0), (-1.0, 1.0)])
def test_window_is_scale_intensity_range(case, clip, to):
    volumes, image, mask = case
    wanted = done("ScaleIntensityRange", -110, 290, *to, clip=clip, to=image)
    check(volumes.window(90, 400, to, clip)[0], wanted, mask[None])


@pytest.mark.parametrize("clip", [True, False])
@pytest.mark.parametrize("ends", [(0, 100), (0.5, 99.5), (5, 70)])
def test_scale_percentiles_is_scale_intensity_range_percentiles(case, clip, ends):
    volumes, image, mask = case
    wanted = done("ScaleIntensityRangePercentiles", *ends, -1.0, 1.0, clip=clip, to=image)
    check(volumes.scale_percentiles(*ends, to=(-1, 1), clip=clip)[0], wanted, mask[None], 5e-6)


@pytest.mark.parametrize("sigma", [0.25, 0.5, 1.0, 2.5])
def test_random_blur_with_one_choice_is_gaussian_smooth(case, sigma):
    volumes, image, mask = case
    wanted = done("GaussianSmooth", sigma, to=image)
    check(volumes.random_blur(1.0, sigma)[0], wanted, mask[None])


@pytest.mark.parametrize("gamma", [0.5, 1.0, 1.7, 4.5])
@pytest.mark.parametrize("invert", [False, True])
@pytest.mark.parametrize("retain_stats", [False, True])
def test_random_gamma_with_one_choice_is_adjust_contrast(case, gamma, invert, retain_stats):
    volumes, image, mask = case
    how = {"invert_image": invert, "retain_stats": retain_stats}
    wanted = done("AdjustContrast", gamma, **how, to=image)
    made = volumes.random_gamma(1.0, gamma, invert, retain_stats)[0]
    check(made, wanted, mask[None], 1e-5)


@pytest.mark.parametrize("factor", [0.75, 1.3])
def test_random_brightness_with_one_choice_is_scale_intensity(case, factor):
    volumes, image, mask = case
    wanted = done("ScaleIntensity", minv=None, maxv=None, factor=factor - 1, to=image)
    check(volumes.random_brightness(1.0, factor)[0], wanted, mask[None])


@pytest.mark.parametrize("zoom", [0.5, 0.61, 0.9, 1.0])
def test_random_low_resolution_with_one_choice_is_that_of_monai(case, zoom):
    volumes, image, mask = case
    how = {"prob": 1.0, "zoom_range": (zoom, zoom)}
    wanted = done("RandSimulateLowResolution", **how, to=image)
    check(volumes.random_low_resolution(1.0, zoom)[0], wanted, mask[None], 1e-5)


@pytest.mark.parametrize("spacing", [(1.6, 1.0, 1.0), (0.8, 0.5, 0.45)])
@pytest.mark.parametrize("size", [(16, 20, 18), (40, 12, 50)])
def test_a_chain_is_its_parts_one_after_the_other(case, spacing, size):
    import torch

    volumes, image, _ = case
    made = volumes.reorient("RAS").resample(spacing).pad(size).center_crop(size)
    meta = scans.quiet(__import__, "monai.data").data.MetaTensor
    tensor = meta(
        torch.from_numpy(image.transpose(0, 3, 2, 1).copy()),
        affine=torch.from_numpy(scans.backwards(volumes.headers[0].affine)),
    )
    for transform in (
        scans.quiet(monai().Orientation, "RAS"),
        scans.quiet(monai().Spacing, pixdim=spacing[::-1], padding_mode="border"),
        scans.quiet(monai().SpatialPad, size[::-1]),
        scans.quiet(monai().CenterSpatialCrop, size[::-1]),
    ):
        tensor = scans.quiet(transform, tensor)
    check(made[0], np.asarray(tensor).transpose(0, 3, 2, 1), close=2e-5)


def test_moves_that_follow_each_other_are_one_resampling(case):
    moves = case[0].reorient("RAS").resample(1.0).random_crop(8).random_affine(1.0, 20)
    assert [name for name, _ in moves.random_flip(1.0).rot90(1).drawn(0)[0]] == ["move"]


# Each is exact, so that nothing may depend on what they are joined with.
EXACT = st.one_of(
    st.builds(lambda axes: ("flip", (axes,)), st.sampled_from([(0,), (1, 2), (0, 1, 2)])),
    st.builds(
        lambda k, axes: ("rot90", (k, axes)), st.integers(1, 3), st.sampled_from([(0, 1), (1, 2)])
    ),
    st.builds(
        lambda size, mode, value: ("pad", (size, mode, value)),
        st.tuples(*[st.integers(1, 30)] * 3),
        st.sampled_from(["constant", "edge"]),
        st.sampled_from([0.0, 5.0]),
    ),
    st.builds(lambda size: ("center_crop", (size,)), st.integers(1, 12)),
    st.builds(lambda codes: ("reorient", (codes,)), st.sampled_from(["RAS", "PIR", "LSA"])),
)


@given(st.lists(EXACT, min_size=2, max_size=5))
def test_joined_moves_do_what_they_do_one_by_one(case, calls):
    joined = apart = case[0]
    for name, arguments in calls:
        if name == "center_crop":
            # Larger than it at any rate, whatever came before.
            joined, apart = joined.pad(arguments[0]), apart.pad(arguments[0])
        joined = getattr(joined, name)(*arguments)
        # What changes numbers is done when it is its turn.
        apart = getattr(apart, name)(*arguments).random_brightness(1.0, 1.0)
    for one, other in zip(joined[0], apart[0], strict=True):
        np.testing.assert_array_equal(one, other)


# ---- what cannot be


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda v: v.reorient("RAR"), "axcodes must be three letters"),
        (lambda v: v.resample((1, 0, 1)), "spacing must be millimetres above 0"),
        (lambda v: v.resample((1, 1)), "spacing must be one number or"),
        (lambda v: v.center_crop((1, 2)), "size must be one number or"),
        (lambda v: v.center_crop(0), "size must be at least 1"),
        (lambda v: v.random_crop(8, foreground=1.5), "share from 0 to 1"),
        (lambda v: v.random_crop(8, classes={1: 1.0}), "pass its share"),
        (lambda v: v.random_crop(8, foreground=1.0, classes={1: -1.0}), "weights of at least 0"),
        (lambda v: v.random_crop(8, patches=2).random_crop(4, patches=2), "call one of them"),
        (lambda v: v.random_flip(1.5), "p must be a number from 0 to 1"),
        (lambda v: v.flip(3), "axes must be at most 2"),
        (lambda v: v.flip((0, 0)), "each axis once"),
        (lambda v: v.window(0, 0), "width above 0"),
        (lambda v: v.zscore(mean=1.0), "mean and std together"),
        (lambda v: v.zscore(mean=0.0, std=0.0), "above 0"),
        (lambda v: v.scale_percentiles(60, 40), "lower, upper must be"),
        (lambda v: v.random_noise(std=(-1, 1)), "std must be"),
        (lambda v: v.random_gamma(gamma=0), "gamma must be"),
        (lambda v: v.random_slice(0).random_slice(1), "call one of them, once"),
        (lambda v: v.random_slice(0).reorient("RAS"), "call it before random_slice"),
        (lambda v: v.center_crop(8).random_crop(9), "does not fit"),
        (lambda v: v.to_dtype("float64"), "dtype must be"),
        (lambda v: v.pad(30, mode="reflect"), "mode must be"),
        (lambda v: v.pad(30, value=float("nan")), "finite"),
    ],
)
def test_arguments_that_make_no_sense_are_refused_with_what_to_pass(case, build, words):
    with pytest.raises((ValueError, TypeError), match=words):
        build(case[0])


def test_operations_on_pictures_are_refused(case):
    for operate in (
        lambda v: v.resize(32),
        lambda v: v.five_crop(8),
        lambda v: v.random_apply(lambda images: images),
        lambda v: v.normalize(),
        lambda v: v.images(),
    ):
        with pytest.raises(TypeError, match="these are volumes"):
            operate(case[0])


def test_volumes_have_no_labels(case):
    with pytest.raises(ValueError, match="masks, not labels"):
        _ = case[0].labels
