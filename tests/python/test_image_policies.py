"""Augmentation policies against torchvision's tables, and their pixels against its functions."""

from collections import Counter

import numpy as np
import pytest
import torch
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as F  # noqa: N812 - its usual name
from torchvision.transforms.v2.functional import _geometry

import feedline
from pictures import delivered, picture

COUNT = 6
HEIGHT, WIDTH = 40, 56


@pytest.fixture(scope="module")
def photos():
    return np.stack([picture(HEIGHT, WIDTH, seed=i) for i in range(COUNT)])


@pytest.fixture(scope="module")
def tensors(photos):
    return [torch.from_numpy(photo).permute(2, 0, 1) for photo in photos]


def redone(image, actions, mode, fill):
    """Do what was drawn to a tensor, by torchvision."""
    for name, drawn in actions:
        if name == "warp":
            matrix = torch.tensor(drawn["inverse"], dtype=torch.float32).reshape(1, 2, 3)
            (height, width), (new_height, new_width) = image.shape[1:], drawn["size"]
            sizes = {"w": width, "h": height, "ow": new_width, "oh": new_height}
            grid = _geometry._affine_grid(matrix, **sizes)
            image = _geometry._apply_grid_transform(image, grid, mode, fill=fill)
        elif name == "turn":
            image = torch.rot90(image, drawn["quarters"], (1, 2))
        elif name == "mix":
            image = mixed(image, drawn, mode, fill)
        elif "factor" in drawn:
            image = getattr(F, f"adjust_{name}")(image, drawn["factor"])
        elif name == "posterize":
            image = F.posterize(image, int(drawn["bits"]))
        elif name == "solarize":
            image = F.solarize(image, drawn["threshold"])
        else:
            image = getattr(F, name)(image)
    return image


def mixed(image, drawn, mode, fill):
    """Blend an image with changed copies of itself, as AugMix does."""
    total = np.float32(drawn["original"]) * image
    for weight, chain in zip(drawn["weights"], drawn["chains"], strict=True):
        total.add_(np.float32(weight) * redone(image, chain, mode, fill))
    return total.to(torch.uint8)


POLICIES = {
    "imagenet": lambda x, **how: x.auto_augment(**how),
    "cifar10": lambda x, **how: x.auto_augment("cifar10", **how),
    "svhn": lambda x, **how: x.auto_augment("svhn", **how),
    "rand": lambda x, **how: x.rand_augment(**how),
    "trivial": lambda x, **how: x.trivial_augment_wide(**how),
    "mix": lambda x, **how: x.aug_mix(**how),
}


@pytest.mark.parametrize("policy", list(POLICIES))
@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
@pytest.mark.parametrize("fill", [None, 77])
def test_pixels_are_those_of_torchvisions_functions(photos, tensors, policy, interpolation, fill):
    chain = POLICIES[policy](feedline.arrays(photos), interpolation=interpolation, fill=fill)
    # One that an equalization or a threshold tells apart, and what follows of it.
    differences = []
    for seed in range(12):
        for i, ours in enumerate(delivered(chain, seed=seed)):
            theirs = redone(tensors[i], chain.drawn(i, seed=seed)[0], interpolation, fill)
            difference = np.abs(ours.astype(int) - theirs.numpy().astype(int))
            differences.append((difference > 1).mean())
    assert np.mean(differences) <= 0.002, differences
    assert max(differences) <= 0.03, differences


# What torchvision's changes are called once they are drawn.
DRAWN = {
    "Identity": None,
    "ShearX": "warp",
    "ShearY": "warp",
    "TranslateX": "warp",
    "TranslateY": "warp",
    "Rotate": "warp",
    "Color": "saturation",
}


def drawn_name(change):
    return DRAWN.get(change, change.lower())


def expected_of(policy):
    """Return how often an image gets each change of a policy, on average."""
    expected = Counter()
    pairs = v2.AutoAugment(v2.AutoAugmentPolicy(policy))._policies
    for pair in pairs:
        for change, probability, magnitude in pair:
            if change == "Rotate" and magnitude == 0:
                continue
            expected[drawn_name(change)] += probability / len(pairs)
    return expected


@pytest.mark.parametrize("policy", ["imagenet", "cifar10", "svhn"])
def test_auto_augment_does_each_change_as_often_as_torchvisions_table_says(photos, policy):
    chain = feedline.arrays(photos).auto_augment(policy)
    counts = Counter(name for epoch in range(4000) for name, _ in chain.drawn(0, epoch=epoch)[0])
    expected = expected_of(policy)
    assert set(counts) == {name for name, often in expected.items() if often > 0}
    for name, often in expected.items():
        assert counts[name] / 4000 == pytest.approx(often, abs=0.04), name


def strengths(space, name, bins, size):
    """Return every strength that torchvision may draw, both signs."""
    magnitudes, signed = space[name]
    values = magnitudes(bins, *size)
    if values is None:
        return np.zeros(1)
    numbers = values.numpy().astype(float)
    return np.concatenate([numbers, -numbers]) if signed else numbers


def parameter(name, drawn):
    """Return torchvision's strength of a change of color."""
    if "factor" in drawn:
        return drawn["factor"] - 1
    if name == "solarize":
        return drawn["threshold"] / 255
    return drawn.get("bits", 0)


@pytest.mark.parametrize(
    ("make", "space", "bins", "severity"),
    [
        (lambda x: x.trivial_augment_wide(), v2.TrivialAugmentWide, 31, 31),
        (lambda x: x.aug_mix(severity=4, mixture_width=1, chain_depth=1), v2.AugMix, 10, 4),
    ],
)
def test_strengths_are_all_of_torchvisions_and_no_others(photos, make, space, bins, severity):
    chain = make(feedline.arrays(photos))
    changes = {drawn_name(name): name for name in space._AUGMENTATION_SPACE}
    seen = {}
    total = Counter()
    for epoch in range(6000):
        drawn = chain.drawn(0, epoch=epoch)[0]
        if drawn and drawn[0][0] == "mix":
            drawn = drawn[0][1]["chains"][0]
        for name, values in drawn:
            name = "warp" if name == "turn" else name
            total[name] += 1
            if name != "warp":
                seen.setdefault(name, set()).add(round(parameter(name, values), 4))
    count = len(space._AUGMENTATION_SPACE)
    for name, values in seen.items():
        assert total[name] / 6000 == pytest.approx(1 / count, abs=0.02), name
        magnitudes, signed = space._AUGMENTATION_SPACE[changes[name]]
        table = magnitudes(bins, HEIGHT, WIDTH)
        table = np.zeros(1) if table is None else table.numpy().astype(float)[:severity]
        expected = {round(x, 4) for x in (*table, *(-table if signed else ()))}
        assert {x + 0.0 for x in values} == {x + 0.0 for x in expected}, name
    assert set(seen) | {"warp"} == set(changes) - {None}
    # Rotations by nothing are not seen: one of the strengths.
    warps = 5 / count - 1 / count / severity
    assert total["warp"] / 6000 == pytest.approx(warps, abs=0.03)


def test_aug_mix_leaves_colors_alone_where_it_should(photos):
    chain = feedline.arrays(photos).aug_mix(all_ops=False)
    names = {
        name
        for epoch in range(300)
        for actions in chain.drawn(0, epoch=epoch)[0][0][1]["chains"]
        for name, _ in actions
    }
    assert names == {"warp", "posterize", "solarize", "autocontrast", "equalize"}


def test_the_weights_of_aug_mix_are_drawn_as_torchvisions(photos):
    chain = feedline.arrays(photos).aug_mix(alpha=0.5)
    drawn = [chain.drawn(0, epoch=epoch)[0][0][1] for epoch in range(2000)]
    torch.manual_seed(5)
    parts = torch._sample_dirichlet(torch.full((2000, 2), 0.5)).numpy()
    weights = torch._sample_dirichlet(torch.full((2000, 3), 0.5)).numpy() * parts[:, 1:]
    for ours, theirs in [
        (np.array([one["original"] for one in drawn]), parts[:, 0]),
        (np.array([one["weights"][0] for one in drawn]), weights[:, 0]),
    ]:
        both = np.sort(np.concatenate([ours, theirs]))
        steps = [np.searchsorted(np.sort(x), both, side="right") / 2000 for x in (ours, theirs)]
        assert np.abs(steps[0] - steps[1]).max() < 1.95 * np.sqrt(2 / 2000)
    depths = Counter(len(actions) for one in drawn for actions in one["chains"])
    assert max(depths) == 3


def test_masks_do_not_follow_a_blend(photos):
    scenes = feedline.arrays(image=photos, mask=photos[..., 0]).images("image", mask="mask")
    with pytest.raises(ValueError, match="masks, boxes and keypoints cannot move with it"):
        scenes.aug_mix()
    with pytest.raises(ValueError, match="cannot move with it"):
        scenes.random_apply(lambda x: x.aug_mix())
    assert scenes.trivial_augment_wide().fields == ["image", "mask"]
