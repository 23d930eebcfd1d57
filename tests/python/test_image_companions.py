"""Masks, boxes and keypoints beside pictures, against torchvision's tv_tensors."""

import io
import re
import tarfile

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision import tv_tensors
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as F  # noqa: N812 - its usual name

import feedline
from feedline.errors import SampleError
from pictures import picture, saved

SIZES = [(60, 80), (80, 60), (64, 64)]
BOXES = [
    np.array([[5, 10, 40, 50], [0, 0, 60, 60], [30.5, 20.25, 31, 58]], np.float32),
    np.zeros((0, 4), np.float32),
    np.array([[1, 2, 3, 4]], np.float32),
]
POINTS = np.array([[[10, 20], [59, 59], [0, 0], [33.5, 7.25]]] * 3, np.float32)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("companions")
    saved(root / "images", [picture(*size, seed=i) for i, size in enumerate(SIZES)], "png")
    masks = [
        np.random.default_rng(i).integers(0, 21, size, np.uint8) for i, size in enumerate(SIZES)
    ]
    saved(root / "masks", masks)
    return root


@pytest.fixture(scope="module")
def samples(folders):
    made = []
    for i, size in enumerate(SIZES):
        with Image.open(folders / "masks" / f"{i:03}.png") as mask:
            mask_tensor = tv_tensors.Mask(np.asarray(mask).copy())
        made.append(
            (
                mask_tensor,
                tv_tensors.BoundingBoxes(BOXES[i], format="XYXY", canvas_size=size),
                tv_tensors.KeyPoints(POINTS[i], canvas_size=size),
            )
        )
    return made


def opened(folders, **settings):
    return feedline.images(
        folders / "images",
        masks=folders / "masks",
        boxes=BOXES,
        keypoints=POINTS,
        named=True,
        **settings,
    )


CHAINS = {
    "flips": (
        lambda x: x.flip(1.0).random_vertical_flip(1.0),
        lambda x: F.vertical_flip(F.horizontal_flip(x)),
    ),
    "crop": (lambda x: x.center_crop((40, 50)), lambda x: F.center_crop(x, [40, 50])),
    "resize": (lambda x: x.resize((90, 33)), lambda x: F.resize(x, [90, 33])),
    "shorter": (lambda x: x.resize(100), lambda x: F.resize(x, [100])),
    "rotate": (lambda x: x.rotate((30, 30)), lambda x: F.rotate(x, 30, fill=0)),
    "rotate with bilinear pictures": (
        lambda x: x.rotate((-20, -20), "bilinear", fill=7),
        lambda x: F.rotate(x, -20, fill=7),
    ),
    "quarter": (
        lambda x: x.rotate((90, 90), expand=True),
        lambda x: F.rotate(x, 90, expand=True, fill=0),
    ),
    "expand": (
        lambda x: x.rotate((37, 37), expand=True),
        lambda x: F.rotate(x, 37, expand=True, fill=0),
    ),
    "affine": (
        lambda x: x.random_affine((12, 12), scale=(1.2, 1.2), shear=(5, 5, -8, -8)),
        lambda x: F.affine(x, 12, [0, 0], 1.2, [5, -8], fill=0),
    ),
    "chain": (
        lambda x: x.resize((70, 70)).rotate((15, 15)).center_crop(48).flip(1.0),
        lambda x: F.horizontal_flip(
            F.center_crop(F.rotate(F.resize(x, [70, 70]), 15, fill=0), [48, 48])
        ),
    ),
    "colours move nothing": (lambda x: x.color_jitter(0.5).gaussian_blur(3), lambda x: x),
}


@pytest.mark.parametrize("name", CHAINS)
def test_companions_move_as_tv_tensors(folders, samples, name):
    ours, theirs = CHAINS[name]
    loader = feedline.Loader(ours(opened(folders)).padded(), batch_size=1, epochs=1)
    for i, batch in enumerate(loader):
        mask, boxes, points = (theirs(x) for x in samples[i])
        expected = mask.squeeze().numpy()
        assert batch["mask"][0].shape == expected.shape
        assert (batch["mask"][0] != expected).mean() <= 0.002
        count = int(batch["boxes_lengths"][0])
        assert count == len(BOXES[i])
        # Where a turned picture grows, torchvision cuts boxes at a size that may be a pixel off.
        atol = 1.01 if name == "expand" else 1e-3
        np.testing.assert_allclose(batch["boxes"][0, :count], boxes.numpy(), atol=atol)
        np.testing.assert_allclose(batch["keypoints"][0], points.numpy(), atol=1e-3)


def test_companions_follow_random_crops(folders, samples):
    pipeline = opened(folders).random_resized_crop((24, 32))
    for seed in range(5):
        loader = feedline.Loader(pipeline, batch_size=1, seed=seed, epochs=1)
        for i, batch in enumerate(loader):
            _, crop = pipeline.drawn(i, seed=seed)[0][0]
            place = (crop["top"], crop["left"], crop["height"], crop["width"])
            mask, boxes, points = (F.resized_crop(x, *place, size=[24, 32]) for x in samples[i])
            assert np.array_equal(batch["mask"][0], mask.squeeze().numpy())
            count = int(batch["boxes_lengths"][0])
            np.testing.assert_allclose(batch["boxes"][0, :count], boxes.numpy(), atol=1e-3)
            np.testing.assert_allclose(batch["keypoints"][0], points.numpy(), atol=1e-3)


def test_companions_follow_padded_crops(folders, samples):
    pipeline = opened(folders).random_crop((85, 81), padding=(5, 15), pad_if_needed=True, fill=3)
    loader = feedline.Loader(pipeline, batch_size=1, seed=4, epochs=1)
    for i, batch in enumerate(loader):
        (_, pad), (_, crop) = pipeline.drawn(i, seed=4)[0]
        place = (crop["top"], crop["left"], crop["height"], crop["width"])
        mask, boxes, points = (
            F.crop(F.pad(x, list(pad["padding"]), fill=3), *place) for x in samples[i]
        )
        assert np.array_equal(batch["mask"][0], mask.squeeze().numpy())
        count = int(batch["boxes_lengths"][0])
        np.testing.assert_allclose(batch["boxes"][0, :count], boxes.numpy(), atol=1e-3)
        np.testing.assert_allclose(batch["keypoints"][0], points.numpy(), atol=1e-3)


def test_lists_are_padded_or_packed_and_arrays_are_fixed(folders):
    chain = feedline.images(folders / "images", boxes=BOXES, keypoints=POINTS).center_crop(32)
    (batch,) = feedline.Loader(chain, batch_size=3)
    _, boxes, lengths, points = batch
    assert boxes.shape == (3, 3, 4)
    assert lengths.tolist() == [3, 0, 1]
    assert points.shape == (3, 4, 2)
    packed = feedline.images(folders / "images", boxes=BOXES, ragged="packed").center_crop(32)
    _, boxes, offsets = next(iter(feedline.Loader(packed, batch_size=3)))
    assert boxes.shape == (4, 4)
    assert offsets.tolist() == [0, 3, 3, 4]


def test_palette_masks_keep_their_numbers(tmp_path):
    numbers = np.random.default_rng(1).integers(0, 4, (20, 31), np.uint8)
    for bits in (2, 4, 8):
        folder = tmp_path / str(bits)
        saved(folder / "images", [picture(20, 31)])
        (folder / "masks").mkdir()
        mask = Image.fromarray(numbers)
        mask.putpalette([255, 0, 0, 0, 255, 0, 0, 0, 255, 9, 9, 9])
        mask.save(folder / "masks" / "000.png", bits=bits)
        pipeline = feedline.images(folder / "images", masks=folder / "masks").center_crop((20, 31))
        _, mask = next(iter(feedline.Loader(pipeline)))
        assert np.array_equal(mask[0], numbers)


def test_each_view_has_companions_of_its_own(folders):
    pipeline = opened(folders).random_resized_crop(16).views(2)
    assert pipeline.fields == [
        "image_0",
        "image_1",
        "mask_0",
        "mask_1",
        "boxes_0",
        "boxes_1",
        "keypoints_0",
        "keypoints_1",
    ]
    batch = next(iter(feedline.Loader(pipeline, batch_size=3, seed=1)))
    assert not np.array_equal(batch["image_0"], batch["image_1"])
    assert not np.array_equal(batch["keypoints_0"], batch["keypoints_1"])
    one = feedline.Loader(opened(folders).random_resized_crop(16), batch_size=3, seed=1)
    alone = next(iter(one))
    assert np.array_equal(batch["mask_0"], alone["mask"]), "the first view draws first"


def test_what_does_not_fit_the_pictures_is_refused(folders, tmp_path):
    with pytest.raises(ValueError, match="boxes has 2 entries for 3 pictures"):
        feedline.images(folders / "images", boxes=BOXES[:2])
    with pytest.raises(ValueError, match=re.escape("keypoints[0] must have shape (n, 2)")):
        feedline.images(folders / "images", keypoints=BOXES)
    saved(tmp_path / "few", [picture(4, 4)])
    with pytest.raises(ValueError, match="masks has 1 entries for 3 pictures"):
        feedline.images(folders / "images", masks=tmp_path / "few")
    masks = saved(tmp_path / "other", [picture(4, 4)] * 3)
    (masks / "002.png").rename(masks / "003.png")
    with pytest.raises(ValueError, match=r"002\.png.*003\.png.*up to the ending"):
        feedline.images(folders / "images", masks=masks)
    small = saved(tmp_path / "small", [picture(4, 4)] * 3)
    pipeline = feedline.images(folders / "images", masks=small).center_crop(8)
    with pytest.raises(SampleError, match="mask is 4x4 and the picture 60x80"):
        list(feedline.Loader(pipeline))


def test_parts_of_shards_are_masks_boxes_and_labels(tmp_path, folders):
    shard = tmp_path / "one.tar"
    with tarfile.open(shard, "w") as tar:
        for i in range(3):
            boxes = io.BytesIO()
            np.save(boxes, BOXES[i].astype(np.float64))
            parts = {
                "png": (folders / "images" / f"{i:03}.png").read_bytes(),
                "seg.png": (folders / "masks" / f"{i:03}.png").read_bytes(),
                "boxes.npy": boxes.getvalue(),
                "cls": str(i).encode(),
            }
            for part, content in parts.items():
                member = tarfile.TarInfo(f"{i}.{part}")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    parts = ["png", "seg.png", "boxes.npy", "cls"]
    encoded = feedline.tar(shard, parts, cache_dir=tmp_path)
    pipeline = encoded.images("png", mask="seg.png", boxes="boxes.npy").resize((40, 40)).flip(1.0)
    (batch,) = feedline.Loader(pipeline, batch_size=3)
    assert list(batch) == ["image", "mask", "boxes", "boxes_lengths", "cls"]
    assert batch["cls"].tolist() == [0, 1, 2]
    folder = opened(folders).resize((40, 40)).flip(1.0)
    (expected,) = feedline.Loader(folder, batch_size=3)
    for name in ("image", "mask", "boxes", "boxes_lengths"):
        assert np.array_equal(batch[name], expected[name]), name
    pairs = feedline.tar(shard, ["png", "cls"], cache_dir=tmp_path).images(named=False)
    x, y = next(iter(feedline.Loader(pairs.center_crop(8), batch_size=3)))
    assert (x.shape, y.tolist()) == ((3, 3, 8, 8), [0, 1, 2])
    direct = feedline.tar(shard, ["png", "cls"], cache_dir=tmp_path).center_crop(8)
    assert direct.fields == ["image", "cls"]


def test_random_transforms_agree_with_torchvision_on_average(folders, samples):
    """The mean of many random crops of a box is torchvision's, up to chance."""
    pipeline = opened(folders).random_resized_crop(32)
    ours = [
        batch["boxes"][0, 1]
        for seed in range(300)
        for batch in feedline.Loader(
            pipeline.select([0]), batch_size=1, seed=seed, num_workers=0, epochs=1
        )
    ]
    torch.manual_seed(0)
    transform = v2.RandomResizedCrop(32)
    theirs = [transform(samples[0][1])[1].numpy() for _ in range(300)]
    assert np.abs(np.mean(ours, axis=0) - np.mean(theirs, axis=0)).max() < 3
