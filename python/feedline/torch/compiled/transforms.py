"""Which of torchvision's transforms are operations of a pipeline, with which arguments.

`torchvision.transforms` and `transforms.v2` have the same names and, but for a few, the same
attributes. What an operation cannot do, it refuses itself, with the reason.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import nn

from feedline.torch.compiled.chain import Chain, follow
from feedline.torch.compiled.unknown import Unknown, refuse_altered, why_not

if TYPE_CHECKING:
    from collections.abc import Callable

    from feedline.pictures import Images

    Way = Literal["nearest", "bilinear", "bicubic"]

__all__ = ["add", "flat"]


def add(chain: Chain, transform: Any) -> Chain:  # noqa: ANN401 - the user's
    """Add a transform to a chain.

    Raises
    ------
    Unknown
        If there is no operation for it.
    TypeError, ValueError
        If there is, and it refuses the arguments.
    """
    known = _known()
    function = known.get(type(transform))
    if function is None:
        raise why_not(transform, tuple(known))
    refuse_altered(transform)
    if chain.views > 1 and not _is_v2(transform):
        msg = "it takes one picture, and after FiveCrop and TenCrop there are several"
        raise Unknown(msg)
    return function(chain, transform)


def flat(transform: Any) -> list[Any]:  # noqa: ANN401 - the user's
    """Return the steps of a transform: those of a ``Compose``, and of those within it."""
    if transform is None:
        return []
    if type(transform) not in _composes():
        return [transform]
    try:
        refuse_altered(transform)
    except Unknown:
        return [transform]
    inner = transform if isinstance(transform, nn.Sequential) else transform.transforms
    return [step for part in inner for step in flat(part)]


def _is_v2(transform: object) -> bool:
    return type(transform).__module__.startswith("torchvision.transforms.v2")


@functools.cache
def _composes() -> tuple[type, ...]:
    from torchvision import transforms
    from torchvision.transforms import v2

    return (transforms.Compose, v2.Compose, nn.Sequential)


@functools.cache
def _known() -> dict[type, Callable[[Chain, Any], Chain]]:
    from torchvision import transforms
    from torchvision.transforms import v2

    found = {}
    for module in (transforms, v2):
        for name, function in _FUNCTIONS.items():
            kind = getattr(module, name, None)
            if kind is not None:
                found[kind] = function
    return found | {nn.Identity: _identity}


# ---- arguments


def _way(t: Any, chain: Chain | None = None) -> Way:  # noqa: ANN401
    """Return how pixels are made; `chain` where they are made by resizing."""
    given = getattr(t.interpolation, "value", t.interpolation)
    named = {0: "nearest", 2: "bilinear", 3: "bicubic"}.get(given, given)
    if chain is not None and chain.kind == "pil" and named == "nearest":
        msg = "Pillow takes other pixels for the nearest than tensors do; put ToImage() before it"
        raise Unknown(msg)
    return named  # type: ignore[no-any-return]


def _antialias(t: Any, chain: Chain) -> bool:  # noqa: ANN401
    # Pillow always does.
    return True if chain.kind == "pil" else t.antialias


def _fill(t: Any) -> Any:  # noqa: ANN401
    if isinstance(t.fill, dict):
        msg = "its fill depends on types"
        raise Unknown(msg)
    return t.fill


def _sequence(values: Any) -> Any:  # noqa: ANN401
    return [float(value) for value in values]


# ---- crops and sizes


def _random_resized_crop(chain: Chain, t: Any) -> Chain:  # noqa: ANN401
    way, antialias = _way(t, chain), _antialias(t, chain)
    return chain.on_bytes(
        lambda x: x.random_resized_crop(
            t.size, _sequence(t.scale), _sequence(t.ratio), way, antialias
        ),
        draws=True,
    )


def _resize(chain: Chain, t: Any) -> Chain:  # noqa: ANN401
    way, antialias = _way(t, chain), _antialias(t, chain)
    return chain.on_bytes(lambda x: x.resize(t.size, way, t.max_size, antialias))


def _center_crop(chain: Chain, t: Any) -> Chain:  # noqa: ANN401
    # A picture that is too small gets a border of zeros.
    if not chain.is_pixelwise or not chain.keeps_zeros:
        msg = "natively it works on bytes; put it before Normalize"
        raise Unknown(msg)
    return replace(chain, images=chain.images.center_crop(t.size))


def _random_crop(chain: Chain, t: Any) -> Chain:  # noqa: ANN401
    fill = 0 if _fill(t) is None else t.fill
    padding = t.padding
    if padding is not None and _is_v2(t):
        left, right, top, bottom = padding
        padding = [left, top, right, bottom]

    def crop(images: Images) -> Images:
        return images.random_crop(t.size, padding, t.pad_if_needed, fill, t.padding_mode)

    return chain.moving(crop, zeros=True) if fill == 0 else chain.on_bytes(crop, draws=True)


def _five_crop(chain: Chain, t: Any) -> Chain:  # noqa: ANN401
    if chain.draws:
        msg = "its views are of one picture, and natively each would draw for itself"
        raise Unknown(msg)
    return replace(chain.on_bytes(lambda x: x.five_crop(t.size)), views=5)


def _ten_crop(chain: Chain, t: Any) -> Chain:  # noqa: ANN401
    if chain.draws:
        msg = "its views are of one picture, and natively each would draw for itself"
        raise Unknown(msg)
    return replace(chain.on_bytes(lambda x: x.ten_crop(t.size, t.vertical_flip)), views=10)


# ---- moved pixels


def _horizontal_flip(chain: Chain, t: Any) -> Chain:  # noqa: ANN401
    return chain.moving(lambda x: x.random_horizontal_flip(t.p))


def _vertical_flip(chain: Chain, t: Any) -> Chain:  # noqa: ANN401
    return chain.moving(lambda x: x.random_vertical_flip(t.p))


def _rotation(chain: Chain, t: Any) -> Chain:  # noqa: ANN401
    way: Any = _way(t)
    fill = _fill(t)
    return chain.on_bytes(
        lambda x: x.random_rotation(_sequence(t.degrees), way, t.expand, t.center, fill), draws=True
    )


def _affine(chain: Chain, t: Any) -> Chain:  # noqa: ANN401
    way: Any = _way(t)
    fill = _fill(t)
    shear = None if t.shear is None else _sequence(t.shear)
    return chain.on_bytes(
        lambda x: x.random_affine(
            _sequence(t.degrees), t.translate, t.scale, shear, way, fill, t.center
        ),
        draws=True,
    )


def _perspective(chain: Chain, t: Any) -> Chain:  # noqa: ANN401
    way: Any = _way(t)
    fill = _fill(t)
    return chain.on_bytes(
        lambda x: x.random_perspective(t.distortion_scale, t.p, way, fill), draws=True
    )


def _elastic(chain: Chain, t: Any) -> Chain:  # noqa: ANN401
    way: Any = _way(t)
    fill = _fill(t)
    return chain.on_bytes(lambda x: x.elastic(t.alpha, t.sigma, way, fill), draws=True)


# ---- colors


def _color_jitter(chain: Chain, t: Any) -> Chain:  # noqa: ANN401
    if t.brightness is t.contrast is t.saturation is t.hue is None:
        return chain
    return chain.on_bytes(
        lambda x: x.color_jitter(t.brightness, t.contrast, t.saturation, t.hue), draws=True
    )


def _grayscale(chain: Chain, t: Any) -> Chain:  # noqa: ANN401
    return chain.on_bytes(lambda x: x.grayscale(t.num_output_channels))


def _gaussian_blur(chain: Chain, t: Any) -> Chain:  # noqa: ANN401
    return chain.on_bytes(
        lambda x: x.gaussian_blur([int(side) for side in t.kernel_size], _sequence(t.sigma)),
        draws=True,
    )


def _by_chance(name: str, *arguments: str) -> Callable[[Chain, Any], Chain]:
    """Return what adds an operation whose arguments are attributes of the transform."""

    def function(chain: Chain, t: Any) -> Chain:  # noqa: ANN401
        given = [getattr(t, argument) for argument in arguments]
        return chain.on_bytes(lambda x: getattr(x, name)(*given), draws=True)

    return function


def _random_erasing(chain: Chain, t: Any) -> Chain:  # noqa: ANN401
    if chain.kind == "pil":
        msg = "torchvision erases tensors only"
        raise Unknown(msg)
    if chain.views > 1:
        msg = "torchvision draws once for all views, and a pipeline for each"
        raise Unknown(msg)
    # v2 has None for noise, v1 the word.
    value: Any = "random" if t.value is None else t.value
    return chain.finishing(
        lambda x: x.random_erasing(t.p, _sequence(t.scale), _sequence(t.ratio), value),
        is_pixelwise=False,
        draws=True,
    )


# ---- policies


def _auto_augment(chain: Chain, t: Any) -> Chain:  # noqa: ANN401
    policies = t._policies if _is_v2(t) else t.policies
    if policies != t._get_policies(t.policy):
        msg = "its policies are not those of its name"
        raise Unknown(msg)
    way: Any = _way(t)
    fill = _fill(t)
    return chain.on_bytes(lambda x: x.auto_augment(t.policy.value, way, fill), draws=True)


def _rand_augment(chain: Chain, t: Any) -> Chain:  # noqa: ANN401
    way: Any = _way(t)
    fill = _fill(t)
    return chain.on_bytes(
        lambda x: x.rand_augment(t.num_ops, t.magnitude, t.num_magnitude_bins, way, fill),
        draws=True,
    )


def _trivial_augment(chain: Chain, t: Any) -> Chain:  # noqa: ANN401
    way: Any = _way(t)
    fill = _fill(t)
    return chain.on_bytes(
        lambda x: x.trivial_augment_wide(t.num_magnitude_bins, way, fill), draws=True
    )


def _aug_mix(chain: Chain, t: Any) -> Chain:  # noqa: ANN401
    way: Any = _way(t)
    fill = _fill(t)
    return chain.on_bytes(
        lambda x: x.aug_mix(
            t.severity, t.mixture_width, t.chain_depth, t.alpha, t.all_ops, way, fill
        ),
        draws=True,
    )


# ---- operations by chance


def _inner(chain: Chain, transforms: Any) -> Callable[[Images], Images]:  # noqa: ANN401
    """Return what adds the operations of inner transforms, all of which must have some."""
    steps = [step for transform in transforms for step in flat(transform)]

    def added(images: Images) -> Images:
        inner, count, why = follow(replace(chain, images=images), steps, add)
        if count < len(steps):
            raise Unknown(why)
        if (inner.kind, inner.dtype, inner.views) != (chain.kind, chain.dtype, chain.views):
            msg = "what is in it changes more than pixels"
            raise Unknown(msg)
        return inner.images

    return added


def _random_apply(chain: Chain, t: Any) -> Chain:  # noqa: ANN401
    return chain.on_bytes(
        lambda x: x.random_apply(_inner(chain, t.transforms), float(t.p)), draws=True
    )


def _random_choice(chain: Chain, t: Any) -> Chain:  # noqa: ANN401
    functions = [_inner(chain, [transform]) for transform in t.transforms]
    return chain.on_bytes(lambda x: x.random_choice(*functions, p=t.p), draws=True)


def _random_order(chain: Chain, t: Any) -> Chain:  # noqa: ANN401
    functions = [_inner(chain, [transform]) for transform in t.transforms]
    return chain.on_bytes(lambda x: x.random_order(*functions), draws=True)


# ---- what pictures are, and how numbers are delivered


def _identity(chain: Chain, _: Any) -> Chain:  # noqa: ANN401
    return chain


def _to_tensor(chain: Chain, _: Any) -> Chain:  # noqa: ANN401
    _refuse_tensor(chain)
    if torch.get_default_dtype() != torch.float32:
        msg = f"torch's default dtype is {torch.get_default_dtype()}"
        raise Unknown(msg)
    return _floats(replace(chain, kind="tensor"), "float32", scale=True)


def _pil_to_tensor(chain: Chain, _: Any) -> Chain:  # noqa: ANN401
    _refuse_tensor(chain)
    return replace(chain, kind="tensor")


def _refuse_tensor(chain: Chain) -> None:
    if chain.kind != "pil":
        msg = "it takes PIL images, and this is a tensor by now"
        raise Unknown(msg)


def _to_image(chain: Chain, _: Any) -> Chain:  # noqa: ANN401
    return replace(chain, kind="image")


def _to_pure_tensor(chain: Chain, _: Any) -> Chain:  # noqa: ANN401
    return chain if chain.kind == "pil" else replace(chain, kind="tensor")


def _to_dtype(chain: Chain, t: Any) -> Chain:  # noqa: ANN401
    if not isinstance(t.dtype, torch.dtype):
        msg = "its dtype depends on types"
        raise Unknown(msg)
    return _converted(chain, t.dtype, scale=t.scale)


def _convert_image_dtype(chain: Chain, t: Any) -> Chain:  # noqa: ANN401
    return _converted(chain, t.dtype, scale=True)


def _converted(chain: Chain, dtype: torch.dtype, *, scale: bool) -> Chain:
    if chain.kind == "pil":
        msg = "it leaves PIL images as they are; put ToImage() before it"
        raise Unknown(msg)
    name = str(dtype).removeprefix("torch.")
    if name == chain.dtype:
        return chain
    if chain.dtype != "uint8":
        msg = f"natively numbers are converted once, and these are {chain.dtype} by now"
        raise Unknown(msg)
    return _floats(chain, name, scale=scale)


def _floats(chain: Chain, dtype: Any, *, scale: bool) -> Chain:  # noqa: ANN401
    return chain.finishing(lambda x: x.to_dtype(dtype, scale), dtype=dtype)


def _normalize(chain: Chain, t: Any) -> Chain:  # noqa: ANN401
    if chain.dtype != "float32":
        msg = f"natively float32 is normalised, and this is {chain.dtype}"
        raise Unknown(msg)
    mean, std = _sequence(t.mean), _sequence(t.std)
    return chain.finishing(lambda x: x.normalize(mean, std), keeps_zeros=False)


_FUNCTIONS: dict[str, Callable[[Chain, Any], Chain]] = {
    "RandomResizedCrop": _random_resized_crop,
    "Resize": _resize,
    "CenterCrop": _center_crop,
    "RandomCrop": _random_crop,
    "FiveCrop": _five_crop,
    "TenCrop": _ten_crop,
    "RandomHorizontalFlip": _horizontal_flip,
    "RandomVerticalFlip": _vertical_flip,
    "RandomRotation": _rotation,
    "RandomAffine": _affine,
    "RandomPerspective": _perspective,
    "ElasticTransform": _elastic,
    "ColorJitter": _color_jitter,
    "Grayscale": _grayscale,
    "RandomGrayscale": _by_chance("random_grayscale", "p"),
    "GaussianBlur": _gaussian_blur,
    "RandomInvert": _by_chance("random_invert", "p"),
    "RandomPosterize": _by_chance("random_posterize", "bits", "p"),
    "RandomSolarize": _by_chance("random_solarize", "threshold", "p"),
    "RandomAdjustSharpness": _by_chance("random_adjust_sharpness", "sharpness_factor", "p"),
    "RandomAutocontrast": _by_chance("random_autocontrast", "p"),
    "RandomEqualize": _by_chance("random_equalize", "p"),
    "RandomErasing": _random_erasing,
    "AutoAugment": _auto_augment,
    "RandAugment": _rand_augment,
    "TrivialAugmentWide": _trivial_augment,
    "AugMix": _aug_mix,
    "RandomApply": _random_apply,
    "RandomChoice": _random_choice,
    "RandomOrder": _random_order,
    "Identity": _identity,
    "ToTensor": _to_tensor,
    "PILToTensor": _pil_to_tensor,
    "ToImage": _to_image,
    "ToPureTensor": _to_pure_tensor,
    "ToDtype": _to_dtype,
    "ConvertImageDtype": _convert_image_dtype,
    "Normalize": _normalize,
}
