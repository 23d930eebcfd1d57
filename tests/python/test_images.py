"""Folders of pictures through a loader: what is delivered, refused, and repeatable."""

import re
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

import feedline
from feedline.errors import SampleError
from feedline.torch import DataLoader
from pictures import delivered, hwc, opened, picture, saved

SHARED = Path(__file__).parents[3] / "shared" / "data"
ODD = SHARED / "odd" / "image"
PHOTOS = SHARED / "photos"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("classes")
    for label in ("ant", "bee", "cat"):
        pictures = [picture(48 + 8 * i, 64 + 4 * i, seed=i) for i in range(4)]
        saved(root / label, pictures)
    return root


def test_classes_and_labels_are_those_of_image_folder(folder):
    ours, theirs = feedline.images(folder), ImageFolder(folder)
    assert ours.classes == theirs.classes
    assert ours.class_to_idx == theirs.class_to_idx
    labels = np.concatenate([y for _, y in feedline.Loader(ours.center_crop(8), batch_size=5)])
    assert labels.dtype == np.int64
    assert labels.tolist() == theirs.targets


def test_pixels_are_those_of_pillow(folder):
    sizes = [opened(path).size for path, _ in ImageFolder(folder).samples]
    width, height = max(w for w, _ in sizes), max(h for _, h in sizes)
    got = hwc(feedline.images(folder).center_crop((height, width)))
    for pixels, (path, _) in zip(got, ImageFolder(folder).samples, strict=True):
        expected = v2.functional.center_crop(opened(path), [height, width])
        assert np.array_equal(pixels, np.asarray(expected))


def test_the_usual_training_pipeline_delivers_normalised_floats(folder):
    train = feedline.images(folder).random_resized_crop(32).flip().normalize()
    loader = feedline.Loader(train, batch_size=6, shuffle=True, seed=3, output="torch")
    for x, y in loader:
        assert x.shape == (6, 3, 32, 32)
        assert (x.dtype, y.dtype) == (torch.float32, torch.int64)
        assert -2.2 < float(x.min()) < float(x.max()) < 2.7


@pytest.mark.parametrize("workers", [1, 2, 8])
@pytest.mark.parametrize(
    "chain",
    [
        lambda x: x.random_resized_crop(24).flip().normalize(),
        lambda x: (
            x.random_resized_crop(24).rand_augment().normalize().random_erasing(value="random")
        ),
        lambda x: x.random_crop(24, padding=4).color_jitter(0.4, 0.4, 0.4, 0.1).views(2),
    ],
)
def test_every_number_of_workers_delivers_the_same_bytes(folder, workers, chain):
    def epochs(count):
        loader = feedline.Loader(
            chain(feedline.images(folder)),
            batch_size=5,
            shuffle=True,
            seed=9,
            num_workers=count,
            epochs=2,
        )
        return [[array.tobytes() for array in batch] for _ in range(2) for batch in loader]

    alone = epochs(0)
    assert alone == epochs(workers)
    assert alone[:3] != alone[3:], "another epoch draws anew"


def test_selecting_keeps_image_operations(folder):
    some = feedline.images(folder).select([7, 2]).center_crop(16)
    everything = hwc(feedline.images(folder).center_crop(16))
    assert all(np.array_equal(a, everything[i]) for a, i in zip(hwc(some), [7, 2], strict=True))
    assert len(some.select([1])) == 1


def test_a_function_gets_pictures_of_any_size(folder):
    means = feedline.images(folder).map(lambda image, label: (image.mean(), image.shape[1], label))
    heights = delivered(means, 1)
    assert heights == [opened(path).size[1] for path, _ in ImageFolder(folder).samples]


def test_torchs_loader_delivers_the_same_pictures(folder):
    pipeline = feedline.images(folder).resize((20, 24)).normalize()
    ours = feedline.Loader(pipeline, batch_size=5, output="torch", epochs=1)
    theirs = DataLoader(pipeline, batch_size=5, num_workers=1)
    for (x, y), (image, label) in zip(theirs, ours, strict=True):
        assert torch.equal(x, image)
        assert torch.equal(y, label)
    with pytest.raises(ValueError, match="different sizes"):
        next(iter(DataLoader(feedline.images(folder), batch_size=5)))


def test_folders_that_are_not_there_say_so(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        feedline.images(tmp_path / "nowhere")
    with pytest.raises((FileNotFoundError, ValueError), match="empty"):
        feedline.images(saved(tmp_path / "empty", []))


def test_named_fields_make_dicts(folder):
    (batch,) = feedline.Loader(feedline.images(folder, named=True).center_crop(8), batch_size=12)
    assert list(batch) == ["image", "label"]
    assert batch["image"].shape == (12, 3, 8, 8)


def test_printing_shows_what_is_fused_and_what_is_delivered(folder):
    fused = feedline.images(folder).resize(40).center_crop(32).flip().normalize()
    assert str(fused).splitlines() == [
        "12 samples",
        f"  images({folder.name!r})",
        "  decode + resize(40) + center_crop(32) + random_horizontal_flip(p=0.5) + normalize"
        ", fused",
        "delivers (float32 [3, 32, 32], int64 [])",
    ]
    apart = feedline.images(folder).random_resized_crop(32).rand_augment().normalize()
    assert str(apart).splitlines()[2:] == [
        "  decode + random_resized_crop(32), fused",
        "  rand_augment(num_ops=2, magnitude=9)",
        "  normalize",
        "delivers (float32 [3, 32, 32], int64 [])",
    ]


@pytest.mark.parametrize(
    ("chain", "words"),
    [
        (lambda x: x.normalize().flip(), "random_horizontal_flip(p=0.5) works on pixels"),
        (lambda x: x.normalize().flip(), "call it before normalize"),
        (lambda x: x.to_dtype("float32").resize(8), "call it before to_dtype"),
        (lambda x: x.normalize().normalize(), "normalize was called twice"),
        (lambda x: x.normalize().to_dtype("uint8"), 'pass "float16"'),
        (lambda x: x.grayscale().normalize(), "mean=[0.449]"),
        (lambda x: x.random_erasing(value="random"), "call normalize(...)"),
        (lambda x: x.center_crop(8).random_crop(9), "pad_if_needed=True"),
        (lambda x: x.center_crop(0), "size must be at least 1"),
        (lambda x: x.resize((4, 4), max_size=8), "without max_size"),
        (lambda x: x.resize(8, max_size=8), "more than the shorter side's 8"),
        (lambda x: x.resize(8, "cubic"), '"nearest", "bilinear" or "bicubic"'),
        (lambda x: x.random_resized_crop(8, scale=(0.5, 0.1)), "scale must be two finite numbers"),
        (lambda x: x.flip(1.5), "p must be a probability from 0 to 1"),
        (lambda x: x.color_jitter(hue=0.7), "hue"),
        (lambda x: x.gaussian_blur(4), "odd numbers"),
        (lambda x: x.rand_augment(magnitude=31), "below num_magnitude_bins"),
        (lambda x: x.rand_augment(operations=["Invert"]), "some of Identity"),
        (lambda x: x.random_affine(0, translate=(2, 0)), "parts of the width"),
        (lambda x: x.to_dtype("int8"), '"float16"'),
        (lambda x: x.views(2).views(2), "call views once"),
        (lambda x: x.normalize(std=0.0), "finite number above 0"),
    ],
)
def test_what_cannot_work_is_refused_with_the_way_out(folder, chain, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        chain(feedline.images(folder))


def test_a_batch_of_different_sizes_is_refused_until_they_are_padded(folder):
    varying = feedline.images(folder).resize(40)
    with pytest.raises(ValueError, match=r"center_crop\(size\).*padded\(\)"):
        feedline.Loader(varying, batch_size=2)
    x, sizes, _ = next(iter(feedline.Loader(varying.padded(), batch_size=12)))
    assert x.shape[1:] == (3, 40, max(width for _, width in sizes.tolist()))


def test_operations_after_a_function_that_makes_floats_are_refused(folder):
    mapped = feedline.images(folder).center_crop(8).map(lambda image, label: image / 255)
    with pytest.raises(ValueError, match="call image operations before what makes floats"):
        mapped.images()


@pytest.mark.parametrize("dtype", ["uint8", "float16", "bfloat16", "float32"])
@pytest.mark.parametrize("layout", ["chw", "hwc"])
def test_number_types_and_layouts_hold_the_same_picture(folder, dtype, layout):
    chain = feedline.images(folder).center_crop(16).to_dtype(dtype).layout(layout)
    (x, _) = next(iter(feedline.Loader(chain, batch_size=12, output="torch")))
    assert x.dtype == getattr(torch, dtype)
    pixels = torch.from_numpy(np.stack(hwc(feedline.images(folder).center_crop(16))))
    expected = v2.functional.to_dtype(pixels, torch.float32, scale=True)
    if dtype == "uint8":
        expected = pixels
    if layout == "chw":
        expected = expected.permute(0, 3, 1, 2)
    torch.testing.assert_close(x, expected.to(x.dtype), rtol=0, atol=0)


def test_normalising_is_torchvisions(folder):
    chain = feedline.images(folder).center_crop(16).normalize([0.4, 0.5, 0.6], [0.2, 0.25, 0.3])
    (x, _) = next(iter(feedline.Loader(chain, batch_size=12, output="torch")))
    pixels = torch.from_numpy(np.stack(delivered(feedline.images(folder).center_crop(16))))
    scaled = v2.functional.to_dtype(pixels, torch.float32, scale=True)
    expected = v2.functional.normalize(scaled, [0.4, 0.5, 0.6], [0.2, 0.25, 0.3])
    torch.testing.assert_close(x, expected, rtol=0, atol=1e-6)


def test_gray_and_orientation_are_chosen_when_opened(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(picture(20, 30)).save(tmp_path / "turned.jpg", exif=exif)
    upright = feedline.images(tmp_path, orientation=True).padded()
    assert next(iter(feedline.Loader(upright)))[0].shape == (1, 3, 30, 20)
    gray = feedline.images(tmp_path, color="gray").padded()
    assert next(iter(feedline.Loader(gray)))[0].shape == (1, 1, 20, 30)


def sixteen_bits(samples):
    """Return a PNG file of these samples; Pillow writes no colours of 16 bits."""

    def chunk(kind, data):
        checksum = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + checksum

    height, width = samples.shape[:2]
    header = struct.pack(">IIBBBBB", width, height, 16, 2 if samples.ndim == 3 else 0, 0, 0, 0)
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in samples)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def test_of_sixteen_bits_the_high_byte_stays(tmp_path):
    gray = np.arange(0, 65536, 64, dtype=np.uint16).reshape(32, 32)
    colours = np.stack([gray, gray[::-1], gray.T], axis=-1)
    (tmp_path / "0.png").write_bytes(sixteen_bits(gray))
    (tmp_path / "1.png").write_bytes(sixteen_bits(colours))
    Image.fromarray(gray).save(tmp_path / "2.tiff")
    with Image.open(tmp_path / "0.png") as file:
        assert np.array_equal(np.asarray(file), gray), "Pillow reads the samples"
    shades, in_colours, tiff = hwc(feedline.images(tmp_path).center_crop(32))
    assert np.array_equal(shades, np.repeat(gray[..., None] >> 8, 3, axis=-1))
    assert np.array_equal(tiff, shades)
    assert np.array_equal(in_colours, np.asarray(opened(tmp_path / "1.png"))), "as Pillow's"
    assert np.array_equal(in_colours, colours >> 8)


def test_masks_of_sixteen_bits_are_their_numbers_or_an_error(tmp_path):
    numbers = np.arange(64, dtype=np.uint16).reshape(8, 8) * 4
    saved(tmp_path / "images", [picture(8, 8)] * 2)
    saved(tmp_path / "masks", [numbers, numbers + 4])
    pipeline = feedline.images(tmp_path / "images", masks=tmp_path / "masks").center_crop(8)
    assert np.array_equal(pipeline[0][1], numbers)
    with pytest.raises(SampleError, match=r"001\.png.*the number 256; masks hold numbers from 0"):
        pipeline[1]


def test_masks_are_turned_upright_as_pictures_are(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 3
    pixels = picture(8, 8)
    numbers = (np.arange(64, dtype=np.uint8) % 7).reshape(8, 8)
    palette = Image.fromarray(numbers)
    palette.putpalette(bytes(range(21)))
    for name, mask in [("gray", Image.fromarray(numbers)), ("palette", palette)]:
        root = tmp_path / name
        for kind in ("images", "masks"):
            (root / kind).mkdir(parents=True)
        Image.fromarray(pixels).save(root / "images" / "0.png", exif=exif)
        mask.save(root / "masks" / "0.png", exif=exif)
        both = feedline.images(root / "images", masks=root / "masks", orientation=True)
        image, mask = both.center_crop(8).layout("hwc")[0]
        assert np.array_equal(image, pixels[::-1, ::-1]), name
        assert np.array_equal(mask, numbers[::-1, ::-1]), name


@pytest.mark.parametrize("kind", ["jpeg", "png", "webp", "tiff"])
def test_every_format_tells_its_orientation(tmp_path, kind):
    exif = Image.Exif()
    for number in range(1, 9):
        exif[0x0112] = number
        settings = {"lossless": True} if kind == "webp" else {}
        Image.fromarray(picture(16, 16)).save(tmp_path / f"{number}.{kind}", exif=exif, **settings)
    got = hwc(feedline.images(tmp_path, orientation=True).center_crop(16))
    for number, pixels in enumerate(got, 1):
        with Image.open(tmp_path / f"{number}.{kind}") as file:
            expected = np.asarray(ImageOps.exif_transpose(file).convert("RGB"))
        assert np.array_equal(pixels, expected), number


def test_a_bad_picture_is_its_samples_error(tmp_path):
    saved(tmp_path, [picture(20, 20), picture(20, 20)])
    (tmp_path / "001.png").write_bytes(b"not a picture")
    pipeline = feedline.images(tmp_path).center_crop(8)
    with pytest.raises(SampleError, match=r"001\.png.*not a picture in a known format"):
        list(feedline.Loader(pipeline, batch_size=2))
    (batch,) = feedline.Loader(pipeline, batch_size=2, on_error="skip")
    assert batch[0].shape[0] == 1
    loader = feedline.Loader(pipeline, batch_size=2, on_error="replace", epochs=1)
    assert [batch[0].shape[0] for batch in loader] == [2]
    assert [error.origin for error in loader.errors] == [str(tmp_path / "001.png")]


def test_limits_are_errors_that_name_the_limit(tmp_path):
    saved(tmp_path, [picture(20, 20)])
    for limits, words in [
        ({"max_pixels": 399}, "more than the limit of 399"),
        ({"max_bytes": 10}, "raise max_bytes"),
        ({"max_memory": 100}, "more than the limit of 100"),
    ]:
        with pytest.raises(SampleError, match=words):
            list(feedline.Loader(feedline.images(tmp_path, **limits).center_crop(8)))


def test_a_crop_that_does_not_fit_is_its_samples_error(tmp_path):
    saved(tmp_path, [picture(20, 20)])
    with pytest.raises(SampleError, match=r"random_crop\(30\).*20x20.*pad_if_needed=True"):
        list(feedline.Loader(feedline.images(tmp_path).random_crop(30)))


@pytest.mark.skipif(not ODD.exists(), reason="needs the shared data")
@pytest.mark.parametrize(
    "chain",
    [
        lambda x: x.random_resized_crop(16).flip().normalize(),
        lambda x: x.resize((20, 20)).rand_augment().random_crop(16),
    ],
)
def test_odd_files_are_pictures_or_errors(chain):
    pipeline = chain(feedline.images(ODD))
    loader = feedline.Loader(pipeline, batch_size=4, on_error="skip", num_workers=2, epochs=1)
    made = sum(len(batch[0]) for batch in loader)
    assert made + len(loader.errors) == len(pipeline)
    assert made > 25
    for error in loader.errors:
        assert str(ODD) in error.origin
        assert error.failure == "error", error
    replaced = feedline.Loader(pipeline, batch_size=4, on_error="replace", num_workers=2, epochs=1)
    assert sum(len(batch[0]) for batch in replaced) == len(pipeline)
    assert len(replaced.errors) == len(loader.errors)


@pytest.mark.skipif(not PHOTOS.exists(), reason="needs the shared data")
def test_photographs_agree_with_torchvision_within_one_value_in_255():
    some = list(range(0, 50, 5))
    exact = feedline.images(PHOTOS, exact=True).select(some)
    for chain, expected in [
        (
            exact.resize(256).center_crop(224),
            lambda x: v2.functional.center_crop(v2.functional.resize(x, [256]), [224, 224]),
        ),
        (exact.resize((160, 200)), lambda x: v2.functional.resize(x, [160, 200])),
    ]:
        paths = [ImageFolder(PHOTOS).samples[i][0] for i in some]
        for ours, path in zip(delivered(chain), paths, strict=True):
            theirs = expected(v2.functional.pil_to_tensor(opened(path)))
            difference = np.abs(ours.astype(int) - theirs.numpy())
            assert difference.mean() <= 1, path
            assert difference.max() <= 3, path


def test_one_sample_is_the_one_that_a_loader_makes(tmp_path):
    """Also the name it has in an error; what is random is drawn anew."""
    saved(tmp_path / "class", [picture(40, 50, seed=i) for i in range(5)])
    (tmp_path / "class" / "z.png").write_bytes(b"no picture")
    pipeline = feedline.images(tmp_path).resize((20, 30)).center_crop(16)
    whole = feedline.Loader(pipeline.select(range(5)), batch_size=5, num_workers=0)
    ((pictures, labels),) = whole
    for i in range(5):
        one, label = pipeline[i]
        np.testing.assert_array_equal(one, pictures[i])
        assert label == labels[i]
    with pytest.raises(SampleError, match=r"sample 5 .*z\.png"):
        pipeline[-1]
