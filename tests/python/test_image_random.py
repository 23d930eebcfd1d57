"""Operations by chance, and those that bend images, against `torchvision.transforms.v2`."""

import pickle

import numpy as np
import pytest
import torch
from torchvision import tv_tensors
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as F  # noqa: N812 - its usual name

import feedline
from pictures import delivered, picture

COUNT = 6
HEIGHT, WIDTH = 48, 60


@pytest.fixture(scope="module")
def photos():
    return np.stack([picture(HEIGHT, WIDTH, seed=i) for i in range(COUNT)])


@pytest.fixture(scope="module")
def tensors(photos):
    return [torch.from_numpy(photo).permute(2, 0, 1) for photo in photos]


def wrong(ours, theirs, most=1):
    """Return the part of the values that differ by more than `most`."""
    return (np.abs(ours.astype(int) - theirs.numpy().astype(int)) > most).mean()


@pytest.mark.parametrize(
    ("operation", "oracle"),
    [
        (lambda x, p: x.random_invert(p), F.invert),
        (lambda x, p: x.random_posterize(3, p), lambda x: F.posterize(x, 3)),
        (lambda x, p: x.random_posterize(0, p), lambda x: F.posterize(x, 0)),
        (lambda x, p: x.random_posterize(8, p), lambda x: F.posterize(x, 8)),
        (lambda x, p: x.random_solarize(100.5, p), lambda x: F.solarize(x, 100.5)),
        (lambda x, p: x.random_equalize(p), F.equalize),
        (lambda x, p: x.random_autocontrast(p), F.autocontrast),
        (lambda x, p: x.random_adjust_sharpness(2, p), lambda x: F.adjust_sharpness(x, 2)),
        (lambda x, p: x.random_adjust_sharpness(0, p), lambda x: F.adjust_sharpness(x, 0)),
    ],
)
def test_colors_of_some_images(photos, tensors, operation, oracle):
    images = feedline.arrays(photos)
    for ours, x in zip(delivered(operation(images, 1.0)), tensors, strict=True):
        difference = np.abs(ours.astype(int) - oracle(x).numpy().astype(int))
        assert difference.max() <= 1
        assert difference.mean() <= 0.01
    for ours, x in zip(delivered(operation(images, 0.0)), tensors, strict=True):
        assert np.array_equal(ours, x.numpy())
    drawn = [len(operation(images, 0.3).drawn(0, epoch=epoch)[0]) for epoch in range(1000)]
    assert abs(np.mean(drawn) - 0.3) < 0.06


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
@pytest.mark.parametrize("fill", [0, (10, 200, 30), None])
def test_perspective(photos, tensors, interpolation, fill):
    bent = feedline.arrays(photos).random_perspective(0.6, 1.0, interpolation, fill)
    for i, ours in enumerate(delivered(bent, seed=3)):
        ((name, drawn),) = bent.drawn(i, seed=3)[0]
        assert name == "perspective"
        theirs = F.perspective(
            tensors[i],
            None,
            None,
            interpolation=v2.InterpolationMode(interpolation),
            fill=list(fill) if isinstance(fill, tuple) else fill,
            coefficients=list(drawn["coefficients"]),
        )
        # A coordinate half-way between two pixels may go to either.
        assert wrong(ours, theirs) <= 0.004


def test_perspective_draws_corners_as_torchvision(photos, tensors):
    bent = feedline.arrays(photos).random_perspective(0.5, 1.0)
    ours = np.array([bent.drawn(0, epoch=e)[0][0][1]["coefficients"] for e in range(2000)])
    torch.manual_seed(1)
    transform = v2.RandomPerspective(0.5, 1.0)
    theirs = [transform.make_params([tensors[0]])["coefficients"] for _ in range(2000)]
    for column in range(8):
        # What is nearly nothing has any sign.
        both = (drawn[:, column].round(6) + 0.0 for drawn in (ours, np.array(theirs)))
        same_distribution(*both)


def same_distribution(ours, theirs):
    """Compare two sets of numbers by the largest distance of their cumulative distributions."""
    both = np.sort(np.concatenate([ours, theirs]))
    steps = [np.searchsorted(np.sort(x), both, side="right") / len(x) for x in (ours, theirs)]
    distance = np.abs(steps[0] - steps[1]).max()
    # Kolmogorov and Smirnov's bound at one in a thousand; both sides are fixed by their seeds.
    assert distance < 1.95 * np.sqrt(1 / len(ours) + 1 / len(theirs)), distance


def displacement_of(drawn):
    shape = (1, *drawn["size"], 2)
    return torch.from_numpy(np.frombuffer(drawn["displacement"], np.float32).reshape(shape).copy())


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
@pytest.mark.parametrize("fill", [0, (10, 200, 30)])
def test_elastic(photos, tensors, interpolation, fill):
    bent = feedline.arrays(photos).elastic(150.0, 4.0, interpolation, fill)
    for i, ours in enumerate(delivered(bent, seed=3)):
        ((_, drawn),) = bent.drawn(i, seed=3)[0]
        theirs = F.elastic(
            tensors[i],
            displacement_of(drawn),
            v2.InterpolationMode(interpolation),
            list(fill) if isinstance(fill, tuple) else fill,
        )
        assert wrong(ours, theirs) <= 0.004
        assert not np.array_equal(ours, tensors[i].numpy())


@pytest.mark.parametrize(("alpha", "sigma"), [(50.0, 5.0), ((30.0, 90.0), (2.0, 3.5)), (2.0, 0)])
def test_elastic_shifts_are_drawn_as_torchvisions(photos, tensors, alpha, sigma):
    bent = feedline.arrays(photos).elastic(alpha, sigma)
    ours = [displacement_of(bent.drawn(0, epoch=e)[0][0][1])[0] for e in range(40)]
    torch.manual_seed(4)
    transform = v2.ElasticTransform(alpha, sigma)
    theirs = [transform.make_params([tensors[0]])["displacement"][0] for _ in range(40)]
    for axis in range(2):
        # Neighbors go together, so few pixels far apart are compared; and how much they do.
        one, two = (
            np.stack([shift[::16, ::16, axis].numpy() for shift in all_]) for all_ in (ours, theirs)
        )
        assert one.std() == pytest.approx(two.std(), rel=0.2)
        steps = [
            np.stack([np.diff(shift[..., axis].numpy()) for shift in all_]).std()
            for all_ in (ours, theirs)
        ]
        assert steps[0] == pytest.approx(steps[1], rel=0.1)


@pytest.mark.parametrize("bend", ["random_perspective", "elastic"])
def test_masks_boxes_and_keypoints_are_bent_along(photos, bend):
    masks = photos[..., 0] // 64
    boxes = np.array([[[2, 3, 20, 30], [10.5, 0, 59, 47]]] * COUNT, np.float32)
    points = np.array([[[5, 6], [30.4, 20.7], [59, 47]]] * COUNT, np.float32)
    scenes = feedline.arrays(image=photos, mask=masks, boxes=boxes, points=points)
    scenes = scenes.images(mask="mask", boxes="boxes", keypoints="points")
    bent = scenes.elastic(200.0) if bend == "elastic" else scenes.random_perspective(0.5, 1.0)
    for i, batch in enumerate(feedline.Loader(bent, epochs=1, seed=2)):
        ((_, drawn),) = bent.drawn(i, seed=2)[0]

        def redone(value, drawn=drawn):
            if bend == "elastic":
                return F.elastic(value, displacement_of(drawn), fill=0)
            coefficients = list(drawn["coefficients"])
            return F.perspective(value, None, None, coefficients=coefficients, fill=0)

        mask = redone(tv_tensors.Mask(torch.from_numpy(masks[i])))
        assert wrong(batch["mask"][0], mask, 0) <= 0.004
        canvas = {"canvas_size": (HEIGHT, WIDTH)}
        box = redone(tv_tensors.BoundingBoxes(torch.from_numpy(boxes[i]), format="XYXY", **canvas))
        box = F.clamp_bounding_boxes(box)
        np.testing.assert_allclose(batch["boxes"][0], box.numpy(), atol=2e-3)
        point = redone(tv_tensors.KeyPoints(torch.from_numpy(points[i]), **canvas))
        np.testing.assert_allclose(batch["points"][0], point.numpy(), atol=2e-3)


@pytest.mark.parametrize("size", [20, (31, 44), (48, 60)])
def test_five_and_ten_crops(photos, tensors, size):
    sides = [size, size] if isinstance(size, int) else list(size)
    images = feedline.arrays(photos, np.arange(COUNT))
    for pipeline, oracle in [
        (images.five_crop(size), lambda x: F.five_crop(x, sides)),
        (images.ten_crop(size), lambda x: F.ten_crop(x, sides)),
        (images.ten_crop(size, vertical_flip=True), lambda x: F.ten_crop(x, sides, True)),
    ]:
        for i, (*crops, label) in enumerate(feedline.Loader(pipeline, epochs=1)):
            assert label == i
            for ours, theirs in zip(crops, oracle(tensors[i]), strict=True):
                assert np.array_equal(ours[0], theirs.numpy())


def test_five_crops_are_views_like_others(photos):
    crops = feedline.arrays(image=photos).five_crop(20).normalize()
    assert crops.fields == [f"image_{i}" for i in range(5)]
    with pytest.raises(ValueError, match="5 views already"):
        crops.ten_crop(10)
    with pytest.raises(ValueError, match="does not fit"):
        feedline.arrays(photos).five_crop(50)


def test_random_apply_does_all_operations_or_none(photos, tensors):
    some = feedline.arrays(photos).random_apply(
        lambda x: x.flip(1.0).random_invert(1.0).center_crop((HEIGHT, WIDTH)), p=0.4
    )
    done = 0
    for epoch in range(40):
        for i, ours in enumerate(delivered(some, seed=epoch)):
            drawn = some.drawn(i, seed=epoch)[0]
            assert [name for name, _ in drawn] in ([], ["horizontal_flip", "invert"])
            theirs = F.invert(F.horizontal_flip(tensors[i])) if drawn else tensors[i]
            assert np.array_equal(ours, theirs.numpy())
            done += bool(drawn)
    assert abs(done / (40 * COUNT) - 0.4) < 0.12


def test_random_choice_chooses_in_proportion(photos):
    choice = feedline.arrays(photos).random_choice(
        lambda x: x.random_invert(1.0),
        lambda x: x.flip(1.0).random_vertical_flip(1.0),
        lambda x: x,
        p=[1, 2, 1],
    )
    counts = {0: 0, 1: 0, 2: 0}
    for epoch in range(2000):
        counts[len(choice.drawn(0, epoch=epoch)[0])] += 1
    assert counts[1] / 2000 == pytest.approx(0.25, abs=0.04)
    assert counts[2] / 2000 == pytest.approx(0.5, abs=0.04)


def test_random_order_keeps_everything_and_what_belongs_together(photos):
    mixed = feedline.arrays(photos).random_order(
        lambda x: x.random_invert(1.0),
        lambda x: x.random_posterize(2, 1.0).random_solarize(9, 1.0),
    )
    orders = {tuple(name for name, _ in mixed.drawn(0, epoch=e)[0]) for e in range(100)}
    assert orders == {("invert", "posterize", "solarize"), ("posterize", "solarize", "invert")}


def test_choices_lie_within_choices_and_pickle(photos):
    def nested(images):
        return images.random_apply(
            lambda x: x.random_choice(
                lambda y: y.color_jitter(0.4).random_erasing(1.0), lambda y: y.auto_augment()
            ),
            p=0.9,
        )

    one = nested(feedline.arrays(photos).random_crop(32))
    two = pickle.loads(pickle.dumps(one))
    for ours, theirs in zip(delivered(one, seed=4), delivered(two, seed=4), strict=True):
        assert np.array_equal(ours, theirs)
    for ours, theirs in zip(
        delivered(one, seed=4), delivered(one, seed=4, num_workers=4), strict=True
    ):
        assert np.array_equal(ours, theirs)


def test_sizes_by_chance_are_padded_or_refused(photos):
    some = feedline.arrays(photos).random_apply(lambda x: x.center_crop(20))
    with pytest.raises(ValueError, match="different sizes"):
        next(iter(feedline.Loader(some)))
    loader = feedline.Loader(some.padded())
    sizes = {tuple(sizes[0]) for _ in range(8) for _, sizes in loader}
    assert sizes == {(20, 20), (HEIGHT, WIDTH)}


IMAGES = feedline.arrays(np.zeros((2, 16, 16, 3), np.uint8))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: IMAGES.random_invert(1.5), "p must be a probability from 0 to 1, got 1.5"),
        (lambda: IMAGES.flip(-0.1), "p must be a probability"),
        (lambda: IMAGES.flip(float("nan")), "p must be a probability"),
        (lambda: IMAGES.random_posterize(9), "bits must be at most 8"),
        (lambda: IMAGES.random_solarize(300), "threshold must be a number from 0 to 255"),
        (lambda: IMAGES.random_adjust_sharpness(-1), "sharpness_factor must be"),
        (lambda: IMAGES.random_perspective(2), "distortion_scale must be a number from 0 to 1"),
        (lambda: IMAGES.elastic(sigma=1000), "sigma must be one or two numbers from 0 to 100"),
        (lambda: IMAGES.elastic(alpha=float("inf")), "alpha must be"),
        (lambda: IMAGES.auto_augment("mnist"), 'policy must be "imagenet", "cifar10" or "svhn"'),
        (lambda: IMAGES.trivial_augment_wide(1), "num_magnitude_bins must be at least 2"),
        (lambda: IMAGES.trivial_augment_wide(1 << 40), "num_magnitude_bins must be"),
        (lambda: IMAGES.aug_mix(11), "severity must be at most 10"),
        (lambda: IMAGES.aug_mix(mixture_width=1000), "mixture_width must be at most 100"),
        (lambda: IMAGES.aug_mix(chain_depth=101), "chain_depth must be at most 100"),
        (lambda: IMAGES.aug_mix(alpha=0), "alpha must be"),
        (lambda: IMAGES.random_apply(lambda x: x), "at least one operation"),
        (lambda: IMAGES.random_apply(lambda x: x.normalize()), "not normalize; call it after"),
        (lambda: IMAGES.random_apply(lambda x: x.grayscale(1)), "3 or 1 channels, by chance"),
        (lambda: IMAGES.random_apply(lambda x: x.flip(), p=2), "p must be a probability"),
        (lambda: IMAGES.random_choice(), "at least one function"),
        (lambda: IMAGES.random_choice(lambda x: x, p=[1, 2]), "1 numbers of at least 0"),
        (lambda: IMAGES.random_choice(lambda x: x, p=[0]), "not all 0"),
        (lambda: IMAGES.random_erasing(value="noise"), 'or "random"'),
        (lambda: nest(IMAGES, 20), "more than 16 deep"),
    ],
)
def test_arguments_that_cannot_be_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def nest(images, depth):
    if depth == 0:
        return images.flip()
    return images.random_apply(lambda x: nest(x, depth - 1))


def test_functions_that_do_something_else_are_refused():
    for function in (
        lambda x: None,
        lambda x: IMAGES.flip(),
        lambda x: x.select([0]),
        lambda x: x.views(2),
        lambda x: x.map(lambda y: y),
        5,
    ):
        with pytest.raises(TypeError):
            IMAGES.random_apply(function)
