"""Image operations on arrays of bytes: the pixels of torchvision, without files."""

import pickle

import numpy as np
import pytest
import torch
from torchvision import tv_tensors
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as F  # noqa: N812 - its usual name

import feedline
from feedline.torch import DataLoader
from pictures import delivered, picture, saved

COUNT = 6


@pytest.fixture(scope="module")
def photos():
    return np.stack([picture(32, 40, seed=i) for i in range(COUNT)])


def batches(pipeline, epochs=1, **settings):
    loader = feedline.Loader(pipeline, **{"batch_size": 4, "num_workers": 1} | settings)
    return [tuple(np.array(field) for field in batch) for _ in range(epochs) for batch in loader]


def redone(image, actions):
    """Do what was drawn to a tensor, by torchvision."""
    for name, parameters in actions:
        if name == "pad":
            image = F.pad(image, list(parameters["padding"]))
        elif name == "crop":
            place = [parameters[key] for key in ("top", "left", "height", "width")]
            image = F.crop(image, *place)
        elif name == "horizontal_flip":
            image = F.horizontal_flip(image)
        else:
            pytest.fail(f"{name} was not expected")
    return image


def as_stored(photos, layout):
    if layout == "hwc":
        return photos
    if layout == "chw":
        return np.ascontiguousarray(photos.transpose(0, 3, 1, 2))
    if layout == "strided":
        return np.repeat(photos, 2, axis=2)[:, ::1, ::2]
    return torch.from_numpy(photos)


@pytest.mark.parametrize("layout", ["hwc", "chw", "strided", "tensor"])
def test_cifars_augmentation_is_torchvisions(photos, layout):
    labels = np.arange(COUNT)
    train = feedline.arrays(as_stored(photos, layout), labels)
    train = train.random_crop(32, padding=4).flip().normalize()
    assert not train._source.calls_python
    seen = 0
    for epoch, (images, numbers) in enumerate(batches(train, batch_size=COUNT, epochs=3, seed=7)):
        assert images.shape == (COUNT, 3, 32, 32)
        assert images.dtype == np.float32
        for image, index in zip(images, numbers, strict=True):
            tensor = torch.from_numpy(photos[index]).permute(2, 0, 1)
            changed = redone(tensor, train.drawn(int(index), seed=7, epoch=epoch)[0])
            expected = F.normalize(
                F.to_dtype(changed, torch.float32, scale=True),
                [0.485, 0.456, 0.406],
                [0.229, 0.224, 0.225],
            )
            np.testing.assert_allclose(image, expected.numpy(), rtol=1e-6, atol=1e-6)
            seen += 1
    assert seen == 3 * COUNT


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric"])
def test_crops_out_of_a_border_are_torchvisions(photos, mode):
    cropped = feedline.arrays(photos).random_crop((30, 44), padding=(5, 3), padding_mode=mode)
    for i, (image,) in enumerate(batches(cropped, batch_size=1, seed=3)):
        drawn = dict(cropped.drawn(i, seed=3)[0])
        tensor = torch.from_numpy(photos[i]).permute(2, 0, 1)
        padded = F.pad(tensor, list(drawn["pad"]["padding"]), padding_mode=mode)
        crop = [drawn["crop"][key] for key in ("top", "left", "height", "width")]
        assert np.array_equal(image[0], F.crop(padded, *crop).numpy())


def chains():
    return {
        "crop": lambda x: x.random_resized_crop(24).flip().normalize(),
        "strong": lambda x: x.random_crop(24).rand_augment().color_jitter(0.4, 0.4, 0.4, 0.1),
        "turned": lambda x: (
            x.center_crop((32, 40)).random_rotation(30, "bilinear").random_vertical_flip().flip()
        ),
        "erased": lambda x: x.resize((20, 30)).normalize().random_erasing(1.0),
        "gray": lambda x: (
            x.center_crop(30).grayscale(1).gaussian_blur(3).to_dtype("float16").layout("hwc")
        ),
        "nothing": lambda x: x.center_crop((32, 40)),
    }


@pytest.mark.parametrize("name", list(chains()))
def test_arrays_and_files_give_the_same_batches(tmp_path, photos, name):
    chain = chains()[name]
    files = chain(feedline.images(saved(tmp_path, photos), exact=True))
    arrays = chain(feedline.arrays(photos))
    settings = {"shuffle": True, "seed": 5, "epochs": 2}
    for (ours,), (theirs,) in zip(
        batches(arrays, **settings), batches(files, **settings), strict=True
    ):
        assert ours.dtype == theirs.dtype
        # A window of a resized image is rounded apart from the whole.
        most = 2 / 255 / 0.22 if ours.dtype == np.float32 else 2 if name == "crop" else 0
        assert np.abs(ours.astype(float) - theirs.astype(float)).max() <= most


def test_gray_images_of_two_axes_have_one_channel(photos):
    gray = photos[..., 0]
    (images,) = batches(feedline.arrays(gray).center_crop((30, 38)), batch_size=COUNT)[0]
    assert images.shape == (COUNT, 1, 30, 38)
    assert np.array_equal(images[:, 0], gray[:, 1:31, 1:39])
    (images,) = batches(feedline.arrays(gray[..., None]).flip(1.0), batch_size=COUNT)[0]
    assert np.array_equal(images[:, 0], gray[:, :, ::-1])
    (images,) = batches(feedline.arrays(gray).grayscale(3).layout("hwc"), batch_size=COUNT)[0]
    assert np.array_equal(images, np.repeat(gray[..., None], 3, axis=3))


@pytest.mark.parametrize("packed", [True, False])
def test_npy_files_of_bytes_are_images(tmp_path, photos, packed):
    if packed:
        path = tmp_path / "photos.npy"
        np.save(path, photos)
    else:
        path = tmp_path
        for i, photo in enumerate(photos):
            np.save(path / f"{i}.npy", photo)
    flipped = feedline.npy(path, name="image").flip(1.0).layout("hwc")
    batch = next(iter(feedline.Loader(flipped, batch_size=COUNT)))
    assert np.array_equal(batch["image"], photos[:, :, ::-1])


def test_other_fields_stay_as_they_are_and_where_they_are(photos):
    scores = np.linspace(0, 1, COUNT)
    train = feedline.arrays(label=np.arange(COUNT), photo=photos, score=scores).center_crop(20)
    assert train.fields == ["label", "photo", "score"]
    batch = next(iter(feedline.Loader(train, batch_size=COUNT, shuffle=True)))
    assert batch["photo"].shape == (COUNT, 3, 20, 20)
    assert np.array_equal(batch["score"], scores[batch["label"]])
    words = feedline.arrays(np.arange(COUNT), photos).map(
        lambda n, x: (str(n), x, np.arange(n)), ragged={2: "longest"}
    )
    names, images, numbers, lengths = next(iter(feedline.Loader(words.flip(1.0), batch_size=3)))
    assert names == ["0", "1", "2"]
    assert np.array_equal(images.transpose(0, 2, 3, 1), photos[:3, :, ::-1])
    assert numbers.tolist() == [[0, 0], [0, 0], [0, 1]]
    assert lengths.tolist() == [0, 1, 2]


def test_operations_go_on_after_a_cache(tmp_path, photos):
    sizes = [picture(40 + 3 * i, 60 - 2 * i, seed=i) for i in range(COUNT)]
    kept = feedline.images(saved(tmp_path, sizes)).cache()
    cropped = kept.random_crop(32).layout("hwc")
    for epoch in range(2):
        images = delivered(cropped, seed=epoch)
        for i, image in enumerate(images):
            ((_, crop),) = cropped.drawn(i, seed=epoch)[0]
            top, left = crop["top"], crop["left"]
            assert np.array_equal(image, sizes[i][top : top + 32, left : left + 32])


def test_selected_joined_and_mixed_arrays_are_images(photos):
    labels = np.arange(COUNT)
    arrays = feedline.arrays(photos, labels)
    chosen = arrays.select([4, 2]).flip(1.0).layout("hwc")
    (images, numbers) = batches(chosen)[0]
    assert numbers.tolist() == [4, 2]
    assert np.array_equal(images, photos[[4, 2], :, ::-1])
    assert np.array_equal(batches(arrays.flip(1.0).layout("hwc").select([4, 2]))[0][0], images)
    joined = feedline.concat(arrays, arrays).flip(1.0)
    assert len(joined) == 2 * COUNT
    zipped = feedline.arrays(photos).zip(feedline.arrays(labels)).flip(1.0).layout("hwc")
    assert np.array_equal(batches(zipped)[0][0], photos[:4, :, ::-1])
    mixed = feedline.mix([arrays, arrays.select([0])], weights=[0, 1]).flip(0.0)
    assert {int(n) for _, numbers in batches(mixed) for n in numbers} == {0}


def test_what_draws_behind_something_that_draws_is_independent_of_it(tmp_path):
    folder = saved(tmp_path, [picture(64, 64)])
    first = feedline.images(folder).random_crop(32)
    second = first.zip(feedline.arrays(np.arange(1))).random_crop(16)
    one = np.array([first.drawn(0, epoch=e)[0][0][1]["top"] for e in range(400)])
    two = np.array([second.drawn(0, epoch=e)[0][0][1]["top"] for e in range(400)])
    assert abs(np.corrcoef(one, two)[0, 1]) < 0.2


def test_masks_boxes_and_keypoints_move_with_arrays(photos):
    masks = photos[..., 0] // 64
    boxes = np.array([[[2, 3, 20, 30], [10, 0, 39, 31]]] * COUNT, np.float32)
    points = np.array([[[5, 6], [30, 20], [0, 0]]] * COUNT, np.float64)
    scenes = feedline.arrays(image=photos, seg=masks, boxes=boxes, points=points).images(
        "image", mask="seg", boxes="boxes", keypoints="points"
    )
    moved = scenes.random_resized_crop(24).flip(1.0)
    for i, batch in enumerate(feedline.Loader(moved, epochs=1, seed=2)):
        ((_, crop), _, _) = moved.drawn(i, seed=2)[0]
        place = [crop[key] for key in ("top", "left", "height", "width")]

        def both(value, place=place):
            return F.horizontal_flip(F.resized_crop(value, *place, [24, 24]))

        mask = both(tv_tensors.Mask(torch.from_numpy(masks[i])))
        assert np.array_equal(batch["seg"][0], mask.numpy())
        canvas = {"canvas_size": (32, 40)}
        box = both(tv_tensors.BoundingBoxes(torch.from_numpy(boxes[i]), format="XYXY", **canvas))
        np.testing.assert_allclose(batch["boxes"][0], box.numpy(), atol=1e-4)
        point = both(tv_tensors.KeyPoints(torch.from_numpy(points[i]).float(), **canvas))
        np.testing.assert_allclose(batch["points"][0], point.numpy(), atol=1e-4)


def test_views_of_arrays_come_where_the_image_was(photos):
    labels = np.arange(COUNT)
    pair = feedline.arrays(labels, photos).random_crop(16).views(2).layout("hwc")
    numbers, first, second = batches(pair, batch_size=COUNT)[0]
    assert numbers.tolist() == labels.tolist()
    assert first.shape == second.shape == (COUNT, 16, 16, 3)
    assert not np.array_equal(first, second)
    assert "read once for 2 views" in str(pair)
    mixed = feedline.arrays(labels, photos).normalize().views(2).mixup(num_classes=COUNT)
    weights, first, _ = batches(mixed, batch_size=COUNT)[0]
    assert weights.shape == (COUNT, COUNT)
    assert first.shape == (COUNT, 3, 32, 40)


def test_batches_do_not_depend_on_workers_copies_or_where_they_go_on(photos):
    train = feedline.arrays(photos, np.arange(COUNT)).random_crop(32, padding=4).rand_augment()
    settings = {"batch_size": 2, "shuffle": True, "seed": 9}
    expected = batches(train, **settings)
    for workers in (0, 4):
        again = batches(train, **settings | {"num_workers": workers})
        assert all(np.array_equal(a[0], b[0]) for a, b in zip(again, expected, strict=True))
    copied = batches(pickle.loads(pickle.dumps(train)), **settings)
    assert all(np.array_equal(a[0], b[0]) for a, b in zip(copied, expected, strict=True))
    loader = feedline.Loader(train, **settings)
    next(iter(loader))
    other = feedline.Loader(train, **settings)
    other.load_state_dict(loader.state_dict())
    rest = [np.array(images) for images, _ in other]
    assert all(np.array_equal(a, b[0]) for a, b in zip(rest, expected[1:], strict=True))


def test_torchs_dataloader_takes_them_natively(photos):
    train = feedline.arrays(photos, np.arange(COUNT)).flip(1.0).normalize()
    transform = v2.Compose(
        [
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ]
    )
    for images, numbers in DataLoader(train, batch_size=3, num_workers=2):
        expected = transform(torch.from_numpy(photos[numbers, :, ::-1].copy()).permute(0, 3, 1, 2))
        torch.testing.assert_close(images, expected, rtol=1e-6, atol=1e-6)


def test_print_says_what_is_done_and_in_how_many_passes(photos):
    train = feedline.arrays(photos, np.arange(COUNT)).random_crop(32, padding=4).flip().normalize()
    assert str(train).splitlines()[1:] == [
        "  arrays(2)",
        "  random_crop(32, padding=4)",
        "  random_horizontal_flip(p=0.5) + normalize, fused",
        "delivers (float32 [3, 32, 32], int64 [])",
    ]
    assert "decode" not in str(feedline.arrays(photos).random_resized_crop(8).flip())


BYTES = np.zeros((4, 8, 9, 3), np.uint8)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: feedline.arrays(BYTES / 255).flip(), "uint8 arrays of shape .* `0` of float64"),
        (lambda: feedline.arrays(np.arange(4)).flip(), "none of the fields is an image"),
        (lambda: feedline.arrays(x=BYTES / 255).images("x"), "`x` has dtype float64.*astype"),
        (lambda: feedline.arrays(x=BYTES).images("y"), "no field `y`; there are x"),
        (lambda: feedline.arrays(BYTES[..., [0, 1, 2, 0]]).flip(), r"\(8, 9, 4\).*1 or 3 channels"),
        (lambda: feedline.arrays(BYTES[:, :3]).flip(), r'\(3, 9, 3\).*layout="chw"'),
        (lambda: feedline.arrays(BYTES).images(layout="chw"), r"no image with axes \(channels"),
        (lambda: feedline.arrays(BYTES).images(layout="cwh"), 'layout must be "auto"'),
        (lambda: feedline.arrays(BYTES[:, :0]).flip(), "at least one pixel"),
        (lambda: feedline.arrays(BYTES).images(color="gray"), "color is for encoded images"),
        (lambda: feedline.arrays(BYTES).images(orientation=True), "orientation is for encoded"),
        (lambda: feedline.arrays(BYTES, BYTES).images(0, mask=1), "`1` is no mask"),
        (lambda: feedline.arrays(BYTES).images(0, mask=0), "is the image already"),
        (lambda: feedline.arrays(BYTES, BYTES).images(0, boxes=1), r"boxes must be .*\(n, 4\)"),
        (lambda: feedline.arrays(BYTES).random_crop(10), "does not fit"),
        (lambda: feedline.arrays(BYTES).normalize([0.5] * 2), "3 channels"),
        (lambda: feedline.arrays(BYTES).normalize().flip(), "call it before normalize"),
        (lambda: feedline.arrays(BYTES).normalize().map(lambda x: x).flip(), "of float32"),
        (lambda: feedline.arrays(BYTES).normalize().mixup(num_classes=2), "without int64 labels"),
        (lambda: feedline.arrays(BYTES).resize((1 << 20, 1 << 20)), "max_pixels"),
    ],
)
def test_what_is_no_image_is_refused_when_it_is_written(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_sizes_beyond_all_memory_are_errors_of_their_samples(tmp_path):
    padded = feedline.arrays(BYTES).random_crop(8, padding=1 << 20)
    enlarged = feedline.images(saved(tmp_path, BYTES)).resize(1 << 20, "nearest").center_crop(8)
    for huge in (padded, enlarged):
        with pytest.raises(feedline.errors.SampleError, match="max_pixels"):
            next(iter(feedline.Loader(huge)))


def test_an_ambiguous_layout_can_be_told():
    image = np.arange(4 * 3 * 9 * 3, dtype=np.uint8).reshape(4, 3, 9, 3)
    (hwc,) = batches(feedline.arrays(image).images(layout="hwc").layout("hwc"))[0]
    (chw,) = batches(feedline.arrays(image).images(layout="chw").center_crop((9, 3)))[0]
    assert np.array_equal(hwc, image)
    assert np.array_equal(chw, image)
