"""Transforms that `worker_mode="native"` compiles, against torchvision's own on the same files."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torchvision")

from PIL import Image  # noqa: E402
from torch.utils.data import DataLoader as TorchLoader  # noqa: E402
from torchvision import transforms as v1  # noqa: E402
from torchvision.datasets import CIFAR10, MNIST, ImageFolder  # noqa: E402
from torchvision.transforms import v2  # noqa: E402

from feedline.torch import DataLoader  # noqa: E402
from pictures import picture  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:Anti-alias")

BILINEAR, BICUBIC, NEAREST = (
    v1.InterpolationMode.BILINEAR,
    v1.InterpolationMode.BICUBIC,
    v1.InterpolationMode.NEAREST,
)
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("photos")
    for i in range(4):
        (path / "ab"[i % 2]).mkdir(exist_ok=True)
        Image.fromarray(picture(60, 80, seed=i)).save(path / "ab"[i % 2] / f"{i}.png")
    return path


def loaded(dataset, **settings):
    """Return the batch of all samples, natively and by torch, and what was left to Python."""
    settings = {"batch_size": 4} | settings
    loader = DataLoader(dataset, worker_mode="native", **settings)
    ours, theirs = next(iter(loader)), next(iter(TorchLoader(dataset, **settings)))
    assert type(ours) is type(theirs)
    return ours, theirs, loader._plan()


def compare(folder, transform, *, most=0.0, wrong=0.0, mean=None, left=()):
    """Compare the pictures: all but a share `wrong` of their values differ by at most `most`."""
    (ours, y), (theirs, expected), plan = loaded(ImageFolder(folder, transform))
    assert [each.what for each in plan.left if "sizes" not in each.why] == list(left)
    assert torch.equal(y, expected)
    assert y.dtype == expected.dtype
    assert (ours.shape, ours.dtype, type(ours)) == (theirs.shape, theirs.dtype, type(theirs))
    difference = (ours.double() - theirs.double()).abs()
    assert (difference > most).double().mean() <= wrong, difference.max()
    if mean is not None:
        assert difference.mean() <= mean


# What torchvision makes of PIL images and of tensors, and how far ours may be from each.
EQUAL, BYTE = {"most": 0}, {"most": 1}
OPERATIONS = {
    "resize": (lambda m: m.Resize((40, 50)), {"most": 2, "mean": 0.5}, {"most": 2, "mean": 0.5}),
    "resize_up": (lambda m: m.Resize((90, 99)), {"most": 2, "mean": 0.5}, {"most": 2, "mean": 0.5}),
    "resize_shorter": (lambda m: m.Resize(40, max_size=50), {"most": 2}, {"most": 2}),
    "resize_bicubic": (
        lambda m: m.Resize((40, 50), BICUBIC),
        {"most": 2, "wrong": 0.03},
        {"most": 2, "wrong": 0.03},
    ),
    "resize_plain": (lambda m: m.Resize((40, 50), antialias=False), {"most": 2}, {"most": 2}),
    "resized_crop": (
        lambda m: m.RandomResizedCrop(32, scale=(1, 1), ratio=(4 / 3, 4 / 3)),
        {"most": 2, "mean": 0.5},
        {"most": 2, "mean": 0.5},
    ),
    "center_crop": (lambda m: m.CenterCrop((32, 41)), EQUAL, EQUAL),
    "center_crop_padded": (lambda m: m.CenterCrop(100), EQUAL, EQUAL),
    "crop": (lambda m: m.RandomCrop((60, 80)), EQUAL, EQUAL),
    "crop_padded": (lambda m: m.RandomCrop((66, 84), (2, 3), fill=7), EQUAL, EQUAL),
    "crop_padded_by_side": (lambda m: m.RandomCrop((66, 84), (1, 2, 3, 4)), EQUAL, EQUAL),
    "crop_mirrored": (
        lambda m: m.RandomCrop((64, 84), 2, padding_mode="reflect"),
        EQUAL,
        EQUAL,
    ),
    "flip": (lambda m: m.RandomHorizontalFlip(1.0), EQUAL, EQUAL),
    "upside_down": (lambda m: m.RandomVerticalFlip(1.0), EQUAL, EQUAL),
    "rotation": (lambda m: m.RandomRotation((30, 30), expand=True, fill=9), BYTE, BYTE),
    # Pillow does not blend the edge with what is outside of it.
    "rotation_smooth": (
        lambda m: m.RandomRotation((30, 30), BILINEAR),
        {"most": 1, "wrong": 0.03},
        {"most": 1, "wrong": 0.002},
    ),
    "affine": (
        lambda m: m.RandomAffine((20, 20), None, (0.8, 0.8), (10, 10, 5, 5)),
        {"most": 1, "wrong": 0.002},
        {"most": 1, "wrong": 0.002},
    ),
    "perspective": (lambda m: m.RandomPerspective(0.0, 1.0), BYTE, BYTE),
    "elastic": (lambda m: m.ElasticTransform(alpha=0.0), BYTE, BYTE),
    "brightness": (lambda m: m.ColorJitter(brightness=(1.3, 1.3)), BYTE, BYTE),
    "contrast": (lambda m: m.ColorJitter(contrast=(0.7, 0.7)), BYTE, BYTE),
    "saturation": (lambda m: m.ColorJitter(saturation=(1.3, 1.3)), BYTE, BYTE),
    # Pillow's hues are bytes.
    "hue": (lambda m: m.ColorJitter(hue=(0.2, 0.2)), {"most": 12, "mean": 1.0}, BYTE),
    "no_jitter": (lambda m: m.ColorJitter(), EQUAL, EQUAL),
    # Pillow rounds where torch cuts off.
    "gray": (lambda m: m.Grayscale(), BYTE, BYTE),
    "gray_colors": (lambda m: m.RandomGrayscale(1.0), BYTE, BYTE),
    "blur": (lambda m: m.GaussianBlur((3, 7), 1.5), BYTE, BYTE),
    "invert": (lambda m: m.RandomInvert(1.0), EQUAL, EQUAL),
    "posterize": (lambda m: m.RandomPosterize(3, 1.0), EQUAL, EQUAL),
    "solarize": (lambda m: m.RandomSolarize(100, 1.0), EQUAL, EQUAL),
    "sharpness": (lambda m: m.RandomAdjustSharpness(2.0, 1.0), BYTE, BYTE),
    "autocontrast": (lambda m: m.RandomAutocontrast(1.0), BYTE, BYTE),
    "equalize": (lambda m: m.RandomEqualize(1.0), BYTE, BYTE),
    "no_rand_augment": (lambda m: m.RandAugment(num_ops=0), EQUAL, EQUAL),
    "apply": (lambda m: m.RandomApply([m.RandomInvert(1.0)], 1.0), EQUAL, EQUAL),
    "choice": (
        lambda m: m.RandomChoice([m.RandomInvert(1.0), m.RandomVerticalFlip(1.0)], p=[0, 1]),
        EQUAL,
        EQUAL,
    ),
    "order": (
        lambda m: m.RandomOrder([m.RandomHorizontalFlip(1.0), m.RandomInvert(1.0)]),
        EQUAL,
        EQUAL,
    ),
}


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("module", [v1, v2], ids=["v1", "v2"])
def test_a_transform_of_pil_images_agrees(folder, module, name):
    make, of_pil, _ = OPERATIONS[name]
    compare(folder, module.Compose([make(module), module.PILToTensor()]), **of_pil)


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_transform_of_tensors_agrees(folder, name):
    make, _, of_tensors = OPERATIONS[name]
    compare(folder, v2.Compose([v2.ToImage(), make(v2)]), **of_tensors)


# An ulp or two of a float32 around 1: torchvision divides by 255 in v1, and multiplies in v2.
LAST_BITS = {"most": 1e-6}
FINISHED = {
    "v1": (v1.Compose([v1.CenterCrop(40), v1.ToTensor(), v1.Normalize(MEAN, STD)]), LAST_BITS),
    "v1_converted": (
        v1.Compose([v1.PILToTensor(), v1.ConvertImageDtype(torch.float32)]),
        LAST_BITS,
    ),
    "v1_resized": (
        v1.Compose([v1.Resize(50), v1.CenterCrop(40), v1.ToTensor(), v1.Normalize(MEAN, STD)]),
        {"most": 2 / 255 / 0.22},
    ),
    "v1_gray": (
        v1.Compose([v1.Grayscale(), v1.ToTensor(), v1.Normalize([0.5], [0.25])]),
        {"most": 1.001 / 255 / 0.25},
    ),
    "v2": (
        v2.Compose(
            [
                v2.ToImage(),
                v2.ToDtype(torch.uint8, scale=True),
                v2.CenterCrop(40),
                v2.ToDtype(torch.float32, scale=True),
                v2.Normalize(MEAN, STD),
                v2.ToPureTensor(),
            ]
        ),
        EQUAL,
    ),
    "v2_unscaled": (
        v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32), v2.Normalize([3.0], [2.0])]),
        EQUAL,
    ),
    "v2_half": (v2.Compose([v2.ToImage(), v2.ToDtype(torch.float16, scale=True)]), EQUAL),
    "v2_bfloat": (v2.Compose([v2.ToImage(), v2.ToDtype(torch.bfloat16, scale=True)]), EQUAL),
    "flips_of_floats": (
        v1.Compose(
            [
                v1.ToTensor(),
                v1.RandomHorizontalFlip(1.0),
                v1.Normalize(MEAN, STD),
                v1.RandomVerticalFlip(1.0),
            ]
        ),
        LAST_BITS,
    ),
    "crops_of_floats": (v1.Compose([v1.ToTensor(), v1.CenterCrop(100)]), LAST_BITS),
    "nothing_erased": (
        v1.Compose([v1.ToTensor(), v1.RandomErasing(0.0), v1.Normalize(MEAN, STD)]),
        LAST_BITS,
    ),
    "sequential": (torch.nn.Sequential(v2.CenterCrop(40), v2.ToImage()), EQUAL),
}


@pytest.mark.parametrize("name", FINISHED)
def test_a_chain_that_ends_in_a_tensor_agrees(folder, name):
    transform, limits = FINISHED[name]
    compare(folder, transform, **limits)


def test_the_deprecated_to_tensor_of_v2_agrees(folder):
    with pytest.warns(UserWarning, match="ToTensor"):
        transform = v2.Compose([v2.Identity(), v2.ToTensor()])
    compare(folder, transform, **LAST_BITS)


class Doubled:
    """A transform of the user's."""

    def __call__(self, image):
        return image * 2


class OtherCrop(v1.CenterCrop):
    """May do anything."""


STAYS = {
    "unknown": ([v1.CenterCrop(40), v1.ToTensor(), Doubled()], ["Doubled"], "not known here"),
    "of_pil": (
        [v1.CenterCrop(40), v1.Lambda(lambda image: image.rotate(90)), v1.ToTensor()],
        ["Lambda, ToTensor"],
        "a Python function",
    ),
    "subclass": (
        [v1.RandomHorizontalFlip(1.0), OtherCrop(40), v1.PILToTensor()],
        ["OtherCrop, PILToTensor"],
        "subclass of CenterCrop",
    ),
    "way": (
        [v1.CenterCrop(40), v1.Resize(30, v1.InterpolationMode.LANCZOS), v1.PILToTensor()],
        ["Resize, PILToTensor"],
        "lanczos",
    ),
    "nearest_of_pil": (
        [v1.CenterCrop(40), v1.Resize(30, NEAREST), v1.PILToTensor()],
        ["Resize, PILToTensor"],
        "Pillow takes other pixels",
    ),
    "floats": (
        [v1.CenterCrop(40), v1.ToTensor(), v1.Resize(30)],
        ["Resize"],
        "put it before what makes floats",
    ),
    "border_of_floats": (
        [v1.ToTensor(), v1.Normalize(MEAN, STD), v1.CenterCrop(100)],
        ["CenterCrop"],
        "put it before Normalize",
    ),
    "double": (
        [v1.CenterCrop(40), v1.PILToTensor(), v1.ConvertImageDtype(torch.float64)],
        ["ConvertImageDtype"],
        "float64",
    ),
    "fill_by_type": (
        [v2.CenterCrop(40), v2.RandomCrop(50, 5, fill={Image.Image: 3}), v2.ToImage()],
        ["RandomCrop, ToImage"],
        "depends on types",
    ),
    "twice": (
        [v1.CenterCrop(40), v1.ToTensor(), v1.Normalize(MEAN, STD), v1.Normalize(MEAN, STD)],
        ["Normalize"],
        "twice",
    ),
    "inside": (
        [v1.CenterCrop(40), v1.RandomApply([Doubled()], 0.0), v1.PILToTensor()],
        ["RandomApply, PILToTensor"],
        "not known here",
    ),
}


@pytest.mark.parametrize("name", STAYS)
def test_what_is_not_known_runs_in_python_on_what_was_natively_made(folder, name):
    steps, left, why = STAYS[name]
    transform = v1.Compose(steps)
    compare(folder, transform, left=left, most=1e-5)
    plan = DataLoader(ImageFolder(folder, transform), worker_mode="native")._plan()
    assert why in str(plan.left[0])
    assert plan.native


def test_a_transform_with_a_hook_or_a_method_of_its_own_is_not_compiled(folder):
    hooked = v2.CenterCrop(40)
    hooked.register_forward_hook(lambda *_: torch.zeros(3, 2, 2))
    compare(folder, v2.Compose([v2.RandomInvert(1.0), hooked]), left=["CenterCrop"])
    own = v1.CenterCrop(40)
    own.forward = lambda _: torch.zeros(3, 2, 2)
    compare(folder, v1.Compose([v1.RandomInvert(1.0), own]), left=["CenterCrop"])


def test_a_transform_that_torchvision_refuses_raises_its_error(folder):
    dataset = ImageFolder(folder, v1.Compose([v1.CenterCrop(40), v1.Normalize(MEAN, STD)]))
    with pytest.raises(TypeError, match="img should be Tensor Image"):
        next(iter(DataLoader(dataset, worker_mode="native")))


@pytest.mark.parametrize("crop", [v2.FiveCrop((20, 30)), v2.TenCrop(20, vertical_flip=True)])
def test_several_crops_have_the_structure_that_collation_gives_them(folder, crop):
    steps = [crop, v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]
    ours, theirs, plan = loaded(ImageFolder(folder, v2.Compose(steps)))
    assert plan.pipeline is not None
    assert type(ours[0]) is type(theirs[0]) is list
    assert all(map(torch.equal, ours[0], theirs[0]))
    assert torch.equal(ours[1], theirs[1])
    # v1 goes on in Python, with a tuple of PIL images.
    stacked = v1.Lambda(lambda views: torch.stack([v1.PILToTensor()(view) for view in views]))
    compare(folder, v1.Compose([v1.TenCrop(20), stacked]), left=["Lambda"])


@pytest.mark.parametrize(
    "random",
    [
        v1.RandomResizedCrop(24),
        v1.RandomCrop(24),
        v1.AutoAugment(),
        v1.TrivialAugmentWide(),
        v1.AugMix(),
        v1.RandomErasing(1.0, value="random"),
        v1.ColorJitter(0.5, 0.5, 0.5, 0.2),
    ],
    ids=lambda t: type(t).__name__,
)
def test_random_transforms_draw_from_our_streams_and_say_so(folder, random):
    steps = [v1.CenterCrop(48), v1.ToTensor()]
    steps.insert(2 if isinstance(random, v1.RandomErasing) else 1, random)
    dataset = ImageFolder(folder, v1.Compose(steps))
    loader = DataLoader(dataset, batch_size=4, worker_mode="native", seed=3)
    assert "Random operations draw from feedline's streams" in loader.explain()
    assert loader._plan().pipeline is not None
    twice = [next(iter(DataLoader(dataset, 4, worker_mode="native", seed=3)))[0] for _ in range(2)]
    assert torch.equal(*twice)
    other = next(iter(DataLoader(dataset, 4, worker_mode="native", seed=4)))[0]
    assert not torch.equal(twice[0], other)


def mnist(transform, target_transform=None):
    """MNIST without its files."""
    dataset = MNIST.__new__(MNIST)
    rng = np.random.default_rng(0)
    dataset.data = torch.from_numpy(rng.integers(0, 256, (6, 28, 28), np.uint8))
    dataset.targets = torch.arange(6) % 4
    dataset.transform, dataset.target_transform = transform, target_transform
    return dataset


def cifar(transform):
    """CIFAR-10 without its files."""
    dataset = CIFAR10.__new__(CIFAR10)
    dataset.data = np.random.default_rng(1).integers(0, 256, (6, 32, 32, 3), np.uint8)
    dataset.targets = [3, 1, 4, 1, 5, 9]
    dataset.transform, dataset.target_transform = transform, None
    return dataset


@pytest.mark.parametrize(
    "dataset",
    [
        mnist(v1.Compose([v1.ToTensor(), v1.Normalize((0.1307,), (0.3081,))])),
        mnist(v1.Compose([v1.RandomCrop(28), v1.PILToTensor()])),
        mnist(v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])),
        mnist(v1.ToTensor(), {0: 1.5, 1: 2.5, 2: 0.0, 3: 1.0}.__getitem__),
        mnist(v1.ToTensor(), v1.Compose([[7, 8, 9, 10].__getitem__, int])),
        cifar(v1.Compose([v1.RandomCrop(32), v1.ToTensor(), v1.Normalize(MEAN, STD)])),
        cifar(v2.Compose([v2.RandomVerticalFlip(1.0), v2.ToImage()])),
    ],
)
def test_datasets_that_are_arrays_agree(dataset):
    ours, theirs, plan = loaded(dataset, batch_size=6)
    assert plan.pipeline is not None
    assert not plan.left
    assert torch.allclose(ours[0].double(), theirs[0].double(), rtol=0, atol=1e-6)
    assert ours[0].dtype == theirs[0].dtype
    assert torch.equal(ours[1], theirs[1])
    assert ours[1].dtype == theirs[1].dtype
    # What is changed in place is seen.
    dataset.data[2] = 0
    again = next(iter(DataLoader(dataset, 6, worker_mode="native")))[0]
    assert torch.allclose(
        again.double(), next(iter(TorchLoader(dataset, 6)))[0].double(), atol=1e-6
    )


def test_an_unknown_target_transform_runs_in_python():
    dataset = mnist(v1.Compose([v1.RandomCrop(28), v1.ToTensor()]), lambda label: f"{label}!")
    ours, theirs, plan = loaded(dataset, batch_size=6)
    (left,) = plan.left
    assert "target_transform" in left.what
    assert left.why == "not known here"
    assert ours[1] == theirs[1]
    assert torch.allclose(ours[0], theirs[0], rtol=0, atol=1e-6)
