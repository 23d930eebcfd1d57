"""`nnunet_augment` is what nnU-Net v2 does to training patches, by batchgeneratorsv2."""

import numpy as np
import pytest

import feedline
import scans
from scans import sample
from volume_replay import replayed

SHAPE = (32, 32, 32)


def v2(module, name):
    """Return something of batchgeneratorsv2."""
    found = scans.quiet(__import__, f"batchgeneratorsv2.{module}", fromlist=[name])
    return getattr(found, name)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("nnunet")


@pytest.fixture(scope="module")
def case(folder):
    """Normalised volumes of two channels and a mask, and the same as they are read."""
    image, mask = scans.pair(folder, shape=SHAPE)
    other = scans.write_nifti(folder / "other.nii.gz", scans.smooth(SHAPE, seed=5))
    cases = [{"image": [image, other], "mask": mask}]
    volumes = feedline.volumes(cases, cache=folder / "kept").zscore()
    return volumes, *volumes[0]


def actions(volumes, seed):
    (drawn,) = volumes.drawn(0, seed=seed)
    return [action for action in drawn if action[0] != "zscore"]


def applied(name, how, image):
    """Do one drawn change by batchgeneratorsv2's transform of the same meaning."""
    import torch

    channel = torch.tensor([how["channel"]])
    if name == "blur":
        transform = v2("transforms.noise.gaussian_blur", "GaussianBlurTransform")
        made = transform(blur_sigma=(0.5, 1.0), synchronize_channels=False, p_per_channel=0.5)
        chosen = torch.arange(image.shape[0]) == how["channel"]
        params = {"apply_to_channel": chosen, "sigmas": [[sigma(k) for k in how["kernels"]]]}
    elif name == "scale":
        transform = v2("transforms.intensity.brightness", "MultiplicativeBrightnessTransform")
        made = transform((0.75, 1.25), False, 1)
        params = {"apply_to_channel": channel, "multipliers": torch.tensor([how["factor"]])}
    elif name == "contrast":
        transform = v2("transforms.intensity.contrast", "ContrastTransform")
        made = transform((0.75, 1.25), how["preserve_range"], False, 1)
        params = {"apply_to_channel": channel, "multipliers": torch.tensor([how["factor"]])}
    elif name == "low_resolution":
        transform = v2("transforms.spatial.low_resolution", "SimulateLowResolutionTransform")
        made = transform((0.5, 1), False, True, None, None, 0.5)
        scales = [small / side for small, side in zip(how["shape"], image.shape[1:], strict=True)]
        params = {"apply_to_channel": channel, "scales": torch.tensor([scales])}
    elif name == "gamma":
        transform = v2("transforms.intensity.gamma", "GammaTransform")
        made = transform((0.7, 1.5), 0.0, False, 1, 1)
        params = {
            "apply_to_channel": channel,
            "retain_stats": torch.tensor([how["retain_stats"]]),
            "invert_image": torch.tensor([how["invert"]]),
            "gamma": torch.tensor([how["gamma"]]),
        }
    return scans.quiet(made._apply_to_image, image, **params)


def sigma(kernel):
    """Return the deviation that a kernel was made of."""
    middle = len(kernel) // 2
    return float(np.sqrt(0.5 / np.log(kernel[middle] / kernel[middle + 1])))


def spatial(how, image, mask):
    """Do a drawn move by batchgeneratorsv2's `SpatialTransform`."""
    import torch

    transform = v2("transforms.spatial.spatial", "SpatialTransform")(
        list(how["shape"]), 0, False, bg_style_seg_sampling=False
    )
    # As its `get_parameters` makes it of a matrix: about the middle, in voxels.
    convert = v2("transforms.spatial.spatial", "_convert_my_grid_to_grid_sample_grid")
    matrix = torch.tensor(how["linear"]).T.float()
    grid = convert(transform._get_base_grid_clone() @ matrix, image.shape[1:])
    middle = [side / 2 for side in image.shape[1:]]
    params = {"grid": grid, "center_location_in_pixels": middle}
    made = scans.quiet(transform._apply_to_image, image, **params)
    labels = scans.quiet(
        transform._apply_to_segmentation, torch.from_numpy(mask.astype(np.int16))[None], **params
    )
    return made, labels[0].numpy()


def test_what_was_drawn_is_what_batchgenerators_makes_of_it(case):
    import torch

    volumes, image, mask = case
    augmented = volumes.nnunet_augment()
    seen = set()
    for seed in range(60):
        made = sample(augmented, seed)
        steps = actions(augmented, seed)
        if any(name == "noise" for name, _ in steps):
            continue
        wanted, labels = torch.from_numpy(np.array(image)), mask
        for name, how in steps:
            if name == "move":
                wanted, labels = spatial(how, wanted, labels)
            else:
                wanted = applied(name, how, wanted.clone())
            seen.add(name)
        reach = float(wanted.abs().max())
        np.testing.assert_allclose(made[0], wanted.numpy(), rtol=0, atol=3e-4 * reach)
        # As halves of a thousandth two labels may weigh the same.
        assert np.mean(made[1] != labels) < 0.002
    assert seen == {"move", "blur", "scale", "contrast", "low_resolution", "gamma"}


def test_masks_take_the_label_with_the_most_weight_not_the_nearest(case):
    volumes, image, mask = case
    turned = volumes.random_affine(1.0, 30, (0.7, 1.4), labels="most_weight")
    differs = 0
    for seed in range(5):
        made = sample(turned, seed)
        steps = actions(turned, seed)
        _, labels = replayed(image, mask, steps)
        assert np.mean(made[1] != labels) < 0.002
        nearest = [(name, how | {"labels": "nearest"}) for name, how in steps]
        differs += np.sum(replayed(image, mask, nearest)[1] != labels)
    assert differs > 0


def rates(volumes, draws):
    """Return how often each step is drawn, and the numbers that are drawn for it."""
    counts, numbers = {}, {}
    for seed in range(draws):
        names = set()
        for name, how in actions(volumes, seed):
            key = f"{name} of the negative" if how.get("invert") else name
            names.add(key)
            for number in ("factor", "gamma", "std"):
                if number in how:
                    numbers.setdefault(key, []).append(how[number])
            if name == "blur":
                numbers.setdefault(key, []).extend(map(sigma, how["kernels"]))
            if name == "low_resolution":
                numbers.setdefault(key, []).append(how["shape"][0] / SHAPE[0])
        for name in names:
            counts[name] = counts.get(name, 0) + 1
    return {name: count / draws for name, count in counts.items()}, numbers


def test_probabilities_and_ranges_are_those_of_the_default_trainer(case):
    # nnUNetTrainer.get_training_transforms, in its order.
    draws = 4000
    found, numbers = rates(case[0].nnunet_augment(), draws)
    one_of_two = 1 - 0.5 * 0.5  # of two channels, each with one half
    wanted = {
        "move": 1 - 0.8 * 0.8 * 0.5**3,
        "noise": 0.1,
        "blur": 0.2 * one_of_two,
        "scale": 0.15,
        "contrast": 0.15,
        "low_resolution": 0.25 * one_of_two,
        "gamma of the negative": 0.1,
        "gamma": 0.3,
    }
    assert found.keys() == wanted.keys()
    for name, p in wanted.items():
        assert abs(found[name] - p) < 4.5 * np.sqrt(p * (1 - p) / draws), name
    ranges = {
        "noise": (0.0, 0.1),
        "blur": (0.5, 1.0),
        "scale": (0.75, 1.25),
        "contrast": (0.75, 1.25),
        "low_resolution": (0.5, 1.0),
        "gamma of the negative": (0.7, 1.5),
        "gamma": (0.7, 1.5),
    }
    for name, (low, high) in ranges.items():
        values = np.array(numbers[name])
        assert low - 1e-3 <= values.min() < low + 0.1 * (high - low), name
        assert high - 0.1 * (high - low) < values.max() <= high + 1e-3, name
    # Below and above 1 are equally likely, however far they reach.
    for name in ("scale", "contrast", "gamma"):
        values = np.array(numbers[name])
        assert abs(np.mean(values < 1) - 0.5) < 4.5 * 0.5 / np.sqrt(len(values)), name


def test_channels_get_noise_of_one_deviation_each_drawn_for_itself(case):
    seen = 0
    for seed in range(200):
        steps = actions(case[0].nnunet_augment(), seed)
        noise = [how for name, how in steps if name == "noise"]
        if noise:
            seen += 1
            assert [how["channel"] for how in noise] == [0, 1]
            assert len({how["std"] for how in noise}) == 1
            assert len({how["seed"] for how in noise}) == 2
    assert seen > 5


def angles(volumes, draws=1500):
    """Return factors and angles of turned patches, of which none is mirrored."""
    scales, turns = [], []
    for seed in range(draws):
        for name, how in actions(volumes, seed):
            if name == "move":
                linear = np.asarray(how["linear"])
                scale = np.cbrt(np.linalg.det(linear))
                scales.append(scale)
                turned = linear / scale
                turns.append(np.degrees(np.arcsin(np.clip(turned[2, 0], -1, 1))))
    return np.array(scales), np.array(turns)


def test_patches_are_turned_by_thirty_degrees_and_scaled_from_0_7_to_1_4(case):
    scales, turns = angles(case[0].nnunet_augment(mirror=()))
    assert scales.min() == pytest.approx(0.7, abs=0.03)
    assert scales.max() == pytest.approx(1.4, abs=0.03)
    assert np.abs(turns).max() == pytest.approx(30, abs=1)
    # A fifth of them is scaled, a fifth is turned.
    assert np.mean(np.abs(scales - 1) > 1e-9) == pytest.approx(0.2 / 0.36, abs=0.08)
    assert np.mean(np.abs(turns) > 1e-9) == pytest.approx(0.2 / 0.36, abs=0.08)


def test_flat_patches_are_turned_within_their_slices(case):
    flat = case[0].center_crop((8, 32, 32)).nnunet_augment(mirror=())
    largest = 0.0
    for seed in range(300):
        for name, how in actions(flat, seed):
            if name == "move":
                linear = np.asarray(how["linear"])
                np.testing.assert_allclose(linear[0], (1, 0, 0), atol=1e-12)
                np.testing.assert_allclose(linear[:, 0], (1, 0, 0), atol=1e-12)
                largest = max(largest, abs(np.degrees(np.arctan2(linear[1, 2], linear[1, 1]))))
            if name == "low_resolution":
                assert how["shape"][0] == 8
    assert largest > 150, "up to half a turn"
    whole = case[0].center_crop((8, 32, 32)).nnunet_augment(mirror=(), dummy_2d=False)
    moves = [how for seed in range(100) for name, how in actions(whole, seed) if name == "move"]
    assert any(abs(how["linear"][0][1]) > 0.1 for how in moves)


def test_a_patch_is_turned_in_the_volume_around_it(case):
    volumes, image, mask = case
    patches = volumes.random_crop(16).nnunet_augment()
    for seed in range(30):
        steps = actions(patches, seed)
        assert [name for name, _ in steps].count("move") == 1
        if len(steps) == 1:
            wanted, labels = replayed(image, mask, steps)
            made = sample(patches, seed)
            np.testing.assert_allclose(made[0], wanted, rtol=0, atol=1e-4)
            assert np.mean(made[1] != labels) < 0.003
