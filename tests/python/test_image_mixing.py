"""Mixup and cutmix on batches, against their definition in NumPy."""

import numpy as np
import pytest
import torch
from torchvision.transforms import v2

import feedline
from feedline.errors import BatchError
from pictures import picture, saved


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("mixing")
    for label in ("ant", "bee", "cat"):
        saved(root / label, [picture(40, 48, seed=9 * ord(label[0]) + i) for i in range(4)])
    return root


def batches(pipeline, **settings):
    settings = {"batch_size": 5, "shuffle": True, "seed": 3, "epochs": 2} | settings
    loader = feedline.Loader(pipeline, **settings)
    return [tuple(np.array(x) for x in batch) for _ in range(2) for batch in loader]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("layout", ["chw", "hwc"])
@pytest.mark.parametrize("workers", [0, 3])
def test_mixup_is_a_weighted_mean_with_the_sample_before(folder, dtype, layout, workers):
    plain = feedline.images(folder).random_resized_crop(16).to_dtype(dtype).layout(layout)
    parts = []
    mixed = batches(plain.mixup(0.8), num_workers=workers)
    for (x, y), (image, label) in zip(mixed, batches(plain), strict=True):
        assert (y.dtype, y.shape) == (np.float32, (len(label), 3))
        # The part is what the labels say: of the first sample whose neighbour has another one.
        rolled = np.roll(label, 1)
        at = int(np.flatnonzero(label != rolled)[0])
        part = float(y[at, label[at]])
        parts.append(part)
        hot = np.eye(3)[label]
        np.testing.assert_allclose(y, part * hot + (1 - part) * np.roll(hot, 1, 0), atol=1e-6)
        image = image.astype(np.float64)
        expected = part * image + (1 - part) * np.roll(image, 1, 0)
        np.testing.assert_allclose(x, expected, atol=1e-6 if dtype == "float32" else 1e-3)
    assert len(set(parts)) == len(parts), "each batch draws its own"


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("layout", ["chw", "hwc"])
def test_cutmix_takes_a_rectangle_of_the_sample_before(folder, dtype, layout):
    plain = feedline.images(folder).random_resized_crop(16).to_dtype(dtype).layout(layout)
    areas = []
    for (x, y), (image, label) in zip(batches(plain.cutmix()), batches(plain), strict=True):
        if layout == "hwc":
            x, image = x.transpose(0, 3, 1, 2), image.transpose(0, 3, 1, 2)
        rolled = np.roll(image, 1, 0)
        taken = (x != image).any(axis=(0, 1))
        rows, columns = np.flatnonzero(taken.any(axis=1)), np.flatnonzero(taken.any(axis=0))
        expected = image.copy()
        if len(rows):
            place = np.s_[:, :, rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
            expected[place] = rolled[place]
        assert np.array_equal(x, expected)
        area = len(rows) * len(columns) / 256
        areas.append(area)
        hot = np.eye(3)[label]
        weights = (1 - area) * hot + area * np.roll(hot, 1, 0)
        np.testing.assert_allclose(y, weights, atol=1e-6)
    assert max(areas) > 0


def test_cutmix_and_mixup_draw_as_torchvision(tmp_path):
    for label in "abcd":
        saved(tmp_path / label, [picture(16, 16)])
    plain = feedline.images(tmp_path).center_crop(16).to_dtype("float32")
    pairs = {
        "mixup": (plain.mixup(0.4), v2.MixUp(alpha=0.4, num_classes=4)),
        "cutmix": (plain.cutmix(1.0), v2.CutMix(alpha=1.0, num_classes=4)),
    }
    torch.manual_seed(1)
    images, labels = torch.zeros(4, 3, 16, 16), torch.arange(4)
    for name, (pipeline, transform) in pairs.items():
        loader = feedline.Loader(pipeline, batch_size=4, seed=1, epochs=600, num_workers=1)
        # All labels differ, so the weight of a sample's own is the part that was drawn.
        ours = np.array([float(y[0, 0]) for _ in range(600) for _, y in loader])
        theirs = np.array([float(transform(images, labels)[1][0, 0]) for _ in range(600)])
        for value in (ours.mean() - theirs.mean(), ours.std() - theirs.std()):
            assert abs(value) < 0.06, name


def test_either_is_taken_where_both_are_asked_for(folder):
    plain = feedline.images(folder).center_crop(40).to_dtype("float32")
    both = plain.mixup(5.0).cutmix(1.0)
    assert "mixup(alpha=5) or cutmix(alpha=1)" in str(both)
    cut = []
    for seed in range(10):
        for (x, _), (image, _) in zip(
            batches(both, seed=seed), batches(plain, seed=seed), strict=True
        ):
            cut.append(bool(((x == image) | (x == np.roll(image, 1, 0))).all()))
    assert len(cut) == 60
    assert 20 <= sum(cut) <= 40


def test_labels_become_weights_in_words_too(folder):
    mixed = feedline.images(folder).center_crop(16).normalize().mixup()
    assert str(mixed).endswith("delivers (float32 [3, 16, 16], float32 [3])")


@pytest.mark.parametrize(
    ("chain", "words"),
    [
        (lambda x: x.center_crop(8).mixup(), "call normalize"),
        (lambda x: x.normalize().mixup(), "random_resized_crop"),
        (lambda x: x.center_crop(8).cutmix(0.0), "alpha must be a finite number above 0"),
        (lambda x: x.center_crop(8).cutmix().cutmix(), "cutmix was called twice"),
        (lambda x: x.center_crop(8).cutmix().map(lambda *x: x), "leave cutmix out"),
        (lambda x: x.center_crop(8).cutmix().cache(), "leave cutmix out"),
        (
            lambda x: x.center_crop(8).to_dtype("float32").mixup().cutmix(1.0, 5),
            "same num_classes",
        ),
    ],
)
def test_what_cannot_be_mixed_is_refused(folder, chain, words):
    with pytest.raises(ValueError, match=words):
        chain(feedline.images(folder))


def test_pictures_without_labels_are_refused(folder):
    flat = feedline.images(folder, classes=False).center_crop(8)
    with pytest.raises(ValueError, match="num_classes"):
        flat.cutmix()
    with pytest.raises(ValueError, match="without int64 labels"):
        flat.cutmix(num_classes=3)


def test_a_label_beyond_the_classes_is_the_batches_error(folder):
    few = feedline.images(folder).center_crop(8).cutmix(num_classes=2)
    with pytest.raises(BatchError, match="label 2 is none of 2 classes"):
        list(feedline.Loader(few, batch_size=12))
