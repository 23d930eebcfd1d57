"""A known dataset of pictures and targets: natively as far as it goes.

The picture is made natively up to the first transform that is not known; from there on Python goes
on with what torchvision would have had in hand at that point. Targets are numbers that are known
beforehand, unless Python makes something else of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from feedline.sources import arrays
from feedline.torch.compiled.chain import Chain, follow
from feedline.torch.compiled.form import Views
from feedline.torch.compiled.known import Known, Left
from feedline.torch.compiled.rest import Pictures
from feedline.torch.compiled.targets import numbers, transformed
from feedline.torch.compiled.transforms import add, flat
from feedline.torch.compiled.unknown import Unknown, name_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from feedline.pictures import Images
    from feedline.pipeline import Pipeline

__all__ = ["is_fixed", "known_pictures"]


def known_pictures(name: str, images: Images, targets: Sequence[Any], dataset: Any) -> Known:  # noqa: ANN401
    """Return what is known of pictures with targets.

    Parameters
    ----------
    name
        What people call the dataset.
    images
        Its pictures, as PIL has them.
    targets
        What belongs to each.
    dataset
        Whose ``transform`` and ``target_transform`` are taken.

    Raises
    ------
    Unknown
        If no more than decoding could run natively.
    """
    steps = flat(dataset.transform)
    chain, count, why = follow(Chain(images, "pil"), steps, add)
    targets, target_steps, target_why = transformed(targets, dataset.target_transform)
    left = []
    if count < len(steps):
        names = [name_of(step) for step in steps[count:]]
        left.append(Left(", ".join(names), why if len(names) == 1 else f"{names[0]}: {why}"))
    elif chain.kind == "pil":
        left.append(Left("what takes its pictures", "they are PIL images"))
    if target_steps:
        left.append(Left(f"target_transform {name_of(target_steps[0])}", target_why))
    if count == 0:
        raise Unknown("; ".join(map(str, left)))
    made = chain.made
    pipeline = None
    if not left:
        try:
            labels = numbers(targets)
        except Unknown as unknown:
            left.append(Left("targets", str(unknown)))
        else:
            pipeline = made.zip(arrays(labels)) if is_fixed(made) else None
            if pipeline is None:
                left.append(Left("putting pictures together", "their sizes may differ"))
    return Known(
        name=name,
        pipeline=pipeline,
        form=None if chain.views == 1 else Views(chain.views),
        mixed=Pictures(made, chain.kind, chain.views, steps[count:], targets, target_steps),
        native=(" | ".join(made._stages),),
        left=tuple(left),
        draws=chain.draws,
    )


def is_fixed(pipeline: Pipeline) -> bool:
    """Whether all samples have fields of the same shape, so that batches are made of them."""
    return all(rule == "fixed" for *_, rule in pipeline._source.fields())
