"""Random operations on volumes do what was drawn, which is drawn as often as it should be."""

import numpy as np
import pytest

import feedline
import scans
from scans import sample
from volume_replay import replayed

SHAPE = (18, 24, 21)


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    """Volumes of one image and its mask, and the same as feedline reads them."""
    folder = tmp_path_factory.mktemp("volumes")
    volumes = feedline.volumes([scans.pair(folder, shape=SHAPE)], cache=folder / "kept")
    return volumes, *volumes[0]


def check(volumes, image, mask, seed, close=1e-5, labels=0.0):
    made = sample(volumes, seed)
    (actions,) = volumes.drawn(0, seed=seed)
    wanted, wanted_mask = replayed(image, mask, actions)
    reach = max(float(np.abs(wanted).max()), 1.0)
    np.testing.assert_allclose(made[0], wanted, rtol=0, atol=close * reach)
    assert np.mean(made[1] != wanted_mask) <= labels
    return actions


MOVES = {
    "random_crop": lambda v: v.random_crop((9, 12, 7)),
    "random_crop by foreground": lambda v: v.random_crop((9, 12, 7), foreground=0.5),
    "random_flip": lambda v: v.random_flip(0.5),
    "random_rot90": lambda v: v.random_rot90(0.7, 3, (1, 2)),
    "affine": lambda v: v.random_affine(1.0, 30, (0.7, 1.4), 3),
    "affine by weight": lambda v: v.random_affine(1.0, 30, (0.7, 1.4), labels="most_weight"),
    "affine at the edge": lambda v: v.random_affine(1.0, 20, (1.2, 1.4), mode="edge"),
    "crop then affine": lambda v: v.random_crop((10, 12, 10)).random_affine(1.0, 25),
    "all in one": lambda v: (
        v.resample(1.3).random_crop((10, 12, 10)).random_affine(1.0, 20).random_flip()
    ),
    "padded": lambda v: v.pad((30, 20, 30), value=-5, mask_value=7).random_crop((20, 20, 20)),
}


@pytest.mark.parametrize("name", MOVES)
def test_a_move_is_what_scipy_makes_of_what_was_drawn(case, name):
    volumes, image, mask = case
    volumes = MOVES[name](volumes)
    for seed in range(6):
        # A label at the same distance from two voxels is rounded one way or the other.
        actions = check(volumes, image, mask, seed, labels=0.003)
        assert [action for action, _ in actions] in ([], ["move"])


CHANGES = {
    "blur": lambda v: v.random_blur(1.0, (0.3, 2.0)),
    "brightness": lambda v: v.random_brightness(1.0),
    "contrast": lambda v: v.random_contrast(1.0),
    "contrast without limits": lambda v: v.random_contrast(1.0, (0.5, 2.0), preserve_range=False),
    "gamma": lambda v: v.random_gamma(1.0),
    "gamma of the negative": lambda v: v.random_gamma(1.0, invert=True, retain_stats=True),
    "low resolution": lambda v: v.random_low_resolution(1.0),
    "several": lambda v: v.zscore().random_contrast(1.0).random_blur(1.0).random_gamma(1.0),
    "before a crop": lambda v: v.random_blur(1.0).zscore().random_crop((8, 9, 10)),
    "around a crop": lambda v: v.random_blur(1.0).random_crop((8, 9, 10)).random_contrast(1.0),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_what_numpy_makes_of_what_was_drawn(case, name):
    volumes, image, mask = case
    volumes = CHANGES[name](volumes)
    for seed in range(4):
        check(volumes, image, mask, seed, close=2e-5)


def test_noise_is_normal_of_the_drawn_deviation_and_differs_by_seed_and_epoch(case):
    volumes, image, _ = case
    noisy = volumes.random_noise(1.0, std=(5.0, 50.0), mean=3.0)
    seen = []
    for seed, epoch in ((0, 0), (1, 0), (0, 1)):
        (((name, drawn),),) = noisy.drawn(0, seed=seed, epoch=epoch)
        rest = sample(noisy, seed, epoch)[0] - image
        assert name == "noise"
        assert 5.0 <= drawn["std"] <= 50.0
        count = rest.size
        assert abs(rest.mean() - 3.0) < 5 * drawn["std"] / np.sqrt(count)
        assert abs(rest.std() / drawn["std"] - 1) < 5 / np.sqrt(2 * count)
        within = np.mean(np.abs(rest - 3.0) < drawn["std"])
        assert abs(within - 0.6827) < 5 * np.sqrt(0.6827 * 0.3173 / count)
        seen.append(rest)
    assert not np.allclose(seen[0], seen[1])
    assert not np.allclose(seen[0], seen[2])


# ---- how often


def share(volumes, name, draws=2000, where=lambda how: True):
    """Return in how many of so many draws there is an action."""
    found = 0
    for seed in range(draws):
        (actions,) = volumes.drawn(0, seed=seed)
        found += any(action == name and where(how) for action, how in actions)
    return found / draws


@pytest.mark.parametrize(
    ("build", "action", "p"),
    [
        (lambda v: v.random_noise(0.1), "noise", 0.1),
        (lambda v: v.random_blur(0.2), "blur", 0.2),
        (lambda v: v.random_gamma(0.3), "gamma", 0.3),
        (lambda v: v.random_low_resolution(0.25), "low_resolution", 0.25),
        (lambda v: v.random_contrast(0.15), "contrast", 0.15),
        (lambda v: v.random_brightness(0.15), "scale", 0.15),
        (lambda v: v.random_affine(0.4, 10), "move", 0.4),
        (lambda v: v.random_rot90(0.6), "move", 0.6),
        (lambda v: v.random_flip(0.5, axes=1), "move", 0.5),
        (lambda v: v.random_flip(0.5), "move", 1 - 0.5**3),
    ],
)
def test_operations_are_done_as_often_as_their_probability_says(case, build, action, p):
    deviation = np.sqrt(p * (1 - p) / 2000)
    assert abs(share(build(case[0]), action) - p) < 4.5 * deviation


def drawn_numbers(volumes, name, key, draws=1000):
    return [
        how[key]
        for seed in range(draws)
        for action, how in volumes.drawn(0, seed=seed)[0]
        if action == name
    ]


def test_numbers_are_drawn_evenly_from_their_range(case):
    from scipy import stats

    for volumes, name, key, (low, high) in (
        (case[0].random_noise(1.0, (2.0, 6.0)), "noise", "std", (2, 6)),
        (case[0].random_gamma(1.0, (0.5, 4.5)), "gamma", "gamma", (0.5, 4.5)),
        (case[0].random_contrast(1.0, (0.75, 1.25)), "contrast", "factor", (0.75, 1.25)),
        (case[0].random_brightness(1.0, (0.75, 1.25)), "scale", "factor", (0.75, 1.25)),
    ):
        numbers = drawn_numbers(volumes, name, key)
        assert stats.kstest(numbers, "uniform", (low, high - low)).pvalue > 1e-4


def test_places_of_crops_are_drawn_evenly(case):
    starts = np.array(drawn_numbers(case[0].random_crop((9, 12, 7)), "move", "offset", 3000))
    for axis, (side, size) in enumerate(zip(SHAPE, (9, 12, 7), strict=True)):
        counts = np.bincount(starts[:, axis].astype(int), minlength=side - size + 1)
        assert len(counts) == side - size + 1, "never outside"
        wanted = 3000 / len(counts)
        assert ((counts - wanted) ** 2 / wanted).sum() < len(counts) + 6 * np.sqrt(2 * len(counts))


# ---- by the mask


def centres(volumes, size, draws=1500):
    """Return the labels of the voxels that crops of an odd size are centred on."""
    offsets = np.array(drawn_numbers(volumes, "move", "offset", draws), int)
    return offsets + np.array(size) // 2


def test_a_share_of_crops_is_centred_on_the_foreground(case):
    volumes, _, mask = case
    # As small as a voxel: no crop is pushed back by the edge.
    at = centres(volumes.random_crop(1, foreground=0.33), (1, 1, 1))
    found = np.mean(mask[tuple(at.T)] > 0)
    assert abs(found - 0.33) < 4.5 * np.sqrt(0.33 * 0.67 / len(at))
    anywhere = volumes.random_crop(1, foreground=0.33, elsewhere="anywhere")
    at = centres(anywhere, (1, 1, 1))
    wanted = 0.33 + 0.67 * np.mean(mask > 0)
    found = np.mean(mask[tuple(at.T)] > 0)
    assert abs(found - wanted) < 4.5 * np.sqrt(wanted * (1 - wanted) / len(at))


def test_voxels_of_the_foreground_are_equally_likely_and_classes_go_by_weight(case):
    volumes, _, mask = case
    at = centres(volumes.random_crop(1, foreground=1.0), (1, 1, 1))
    labels = mask[tuple(at.T)]
    for label in (1, 2, 3):
        p = np.mean(mask[mask > 0] == label)
        assert abs(np.mean(labels == label) - p) < 4.5 * np.sqrt(p * (1 - p) / len(at))
    weights = {0: 1.0, 1: 1.0, 3: 2.0}
    at = centres(volumes.random_crop(1, foreground=1.0, classes=weights), (1, 1, 1))
    labels = mask[tuple(at.T)]
    for label, p in ((0, 0.25), (1, 0.25), (2, 0.0), (3, 0.5)):
        assert abs(np.mean(labels == label) - p) <= 4.5 * np.sqrt(p * (1 - p) / len(at))


def test_crops_that_would_leave_the_volume_are_pushed_back(case):
    volumes, image, mask = case
    for seed in range(20):
        check(volumes.random_crop((16, 20, 20), foreground=1.0), image, mask, seed, close=0)


def test_without_a_mask_there_is_no_foreground(tmp_path):
    path, _ = scans.pair(tmp_path)
    with pytest.raises((ValueError, feedline.errors.SampleError), match="needs a mask"):
        feedline.volumes([path], cache=tmp_path / "kept").random_crop(8, foreground=1.0)[0]


# ---- several patches, slices


def test_patches_of_one_volume_are_drawn_each_for_itself(case):
    volumes, image, mask = case
    patches = volumes.random_crop((8, 9, 10), foreground=0.5, patches=3).random_flip()
    patches = patches.random_contrast(0.5)
    made = sample(patches, 7)
    assert (made[0].shape, made[1].shape) == ((3, 1, 8, 9, 10), (3, 8, 9, 10))
    drawn = patches.drawn(0, seed=7)
    assert len({str(actions) for actions in drawn}) == 3
    for i, actions in enumerate(drawn):
        wanted, labels = replayed(image, mask, actions)
        np.testing.assert_allclose(made[0][i], wanted, rtol=0, atol=1e-2)
        np.testing.assert_array_equal(made[1][i], labels)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_slice_is_a_plane_of_the_volume(case, axis):
    volumes, image, mask = case
    slices = volumes.random_slice(axis, foreground=1.0)
    for seed in range(4):
        made = sample(slices, seed)
        ((_, how),) = slices.drawn(0, seed=seed)[0]
        at = int(how["offset"][axis])
        np.testing.assert_array_equal(made[0], image.take(at, axis + 1))
        np.testing.assert_array_equal(made[1], mask.take(at, axis))
        assert made[1].any()


def test_slices_are_turned_within_their_plane(case):
    volumes, image, mask = case
    slices = volumes.random_slice(0).random_affine(1.0, 180).random_flip().random_blur(1.0)
    made = sample(slices, 3)
    (actions,) = slices.drawn(0, seed=3)
    wanted, labels = replayed(image, mask, actions)
    np.testing.assert_allclose(made[0], wanted[:, 0], rtol=0, atol=2e-2)
    assert np.mean(made[1] != labels[0]) < 0.003
