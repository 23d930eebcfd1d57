"""What crosses into the engine by name: nothing that only one side knows is passed over."""

import numpy as np
import pytest

import feedline
from feedline._feedline import NativeLoader
from pictures import picture, saved


def native(**settings):
    pipeline = feedline.arrays(np.arange(4))
    return NativeLoader(pipeline._source, pipeline._named, "numpy", settings)


def test_a_loader_refuses_a_setting_that_it_does_not_have():
    with pytest.raises(TypeError, match=r"a loader has no setting 'prefech'; there are .*prefetch"):
        native(batch_size=2, prefech=3)
    with pytest.raises(TypeError, match="a loader has no setting 'rank_'"):
        native(rank_=None)  # not even one that says nothing
    with pytest.raises(TypeError, match="a loader has no setting 3"):
        NativeLoader(feedline.arrays(np.arange(4))._source, False, "numpy", {3: 4})
    assert len(native(batch_size=2)) == 2


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("boundary", '"keep", "drop", "pad"'),
        ("on_error", '"raise", "skip", "replace"'),
        ("policy", "steal"),
    ],
)
def test_a_loader_refuses_a_word_that_it_does_not_know(name, words):
    with pytest.raises(ValueError, match=f'{name} must be one of .*{words}.*, got "kep"'):
        native(**{name: "kep"})


@pytest.fixture
def images(tmp_path):
    return feedline.images(saved(tmp_path, [picture(20, 30)]))


def test_pictures_refuse_a_setting_that_they_do_not_have(images):
    given = {name: value for name, value in images._settings.items() if name != "named"}
    with pytest.raises(TypeError, match=r"images has no setting 'exactly'; there are .*exact"):
        images._encoded.pictures([[]], given | {"exactly": True})
    without = {name: value for name, value in given.items() if name != "exact"}
    with pytest.raises(TypeError, match='images needs the setting "exact"'):
        images._encoded.pictures([[]], without)
    with pytest.raises(ValueError, match='color must be one of "rgb", "gray", got "red"'):
        images._encoded.pictures([[]], given | {"color": "red"})
    with pytest.raises(ValueError, match=r'boxes_rows must be .* got "short"'):
        images._encoded.pictures([[]], given | {"boxes_rows": "short"})


def test_arrays_of_images_refuse_a_setting_that_they_do_not_have():
    images = feedline.arrays(np.zeros((4, 8, 8, 3), np.uint8)).images()
    given = {name: value for name, value in images._settings.items() if name != "named"}
    with pytest.raises(TypeError, match=r"images has no setting 'color'; there are .*layout"):
        images._encoded.pictures([[]], given | {"color": "rgb"})
    for missing in given:
        rest = {name: value for name, value in given.items() if name != missing}
        with pytest.raises(TypeError, match=f'images needs the setting "{missing}"'):
            images._encoded.pictures([[]], rest)


CALLS = [
    lambda x: x.random_resized_crop(8),
    lambda x: x.resize((8, 8)),
    lambda x: x.resize(8),
    lambda x: x.resize(None, max_size=8),
    lambda x: x.center_crop(8),
    lambda x: x.random_crop(8),
    lambda x: x.random_horizontal_flip(),
    lambda x: x.random_vertical_flip(),
    lambda x: x.color_jitter(0.1),
    lambda x: x.grayscale(),
    lambda x: x.random_grayscale(),
    lambda x: x.random_rotation(3),
    lambda x: x.random_affine(3),
    lambda x: x.gaussian_blur(3),
    lambda x: x.rand_augment(),
    lambda x: x.auto_augment(),
    lambda x: x.trivial_augment_wide(),
    lambda x: x.aug_mix(),
    lambda x: x.random_perspective(),
    lambda x: x.elastic(),
    lambda x: x.random_invert(),
    lambda x: x.random_posterize(4),
    lambda x: x.random_solarize(128),
    lambda x: x.random_adjust_sharpness(2),
    lambda x: x.random_autocontrast(),
    lambda x: x.random_equalize(),
    lambda x: x.random_apply(lambda y: y.flip()),
    lambda x: x.random_choice(lambda y: y.flip(), lambda y: y.random_grayscale()),
    lambda x: x.random_order(lambda y: y.flip(), lambda y: y.random_grayscale()),
    lambda x: x.random_erasing(),
    lambda x: x.to_dtype("float32"),
    lambda x: x.normalize(),
    lambda x: x.layout("hwc"),
]


@pytest.mark.parametrize("call", CALLS)
def test_every_operation_refuses_a_setting_that_it_does_not_have(images, call):
    ((*_, (name, arguments)),) = call(images)._views
    with pytest.raises(TypeError, match=f"{name} has no setting 'sise'"):
        images._add(name, **arguments, sise=1)
    for missing in arguments:
        rest = {other: value for other, value in arguments.items() if other != missing}
        with pytest.raises(TypeError, match=f'{name} needs the setting "{missing}"'):
            images._add(name, **rest)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda x: x.resize(8), "interpolation"),
        (lambda x: x.random_crop(8), "padding_mode"),
        (lambda x: x.to_dtype("float32"), "dtype"),
        (lambda x: x.layout("hwc"), "layout"),
    ],
)
def test_an_operation_refuses_a_word_that_it_does_not_know(images, call, name):
    ((*_, (operation, arguments)),) = call(images)._views
    with pytest.raises(ValueError, match=f'{name} must be one of .*, got "lanczos"'):
        images._add(operation, **(arguments | {name: "lanczos"}))


def test_batches_are_mixed_in_no_unknown_way(images):
    source = images.center_crop(8).normalize()._source
    with pytest.raises(ValueError, match='way must be one of "mixup", "cutmix", got "mixdown"'):
        source.mixed([("mixdown", 1.0)], 2, ([0], "chw"), 1)
    with pytest.raises(ValueError, match='layout must be one of "chw", "hwc", got "cwh"'):
        source.mixed([("mixup", 1.0)], 2, ([0], "cwh"), 1)
