"""What Python has to do after the native part of a sample."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from torch.utils.data import Dataset

from feedline import randomness
from feedline._feedline import NativeLoader
from feedline._samples import samples_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch

    from feedline.pictures import Images
    from feedline.pipeline import Pipeline
    from feedline.torch.compiled.chain import Kind

__all__ = ["Pictures", "Rows"]


class _Made(Dataset[Any]):
    """Samples that the thread makes that asks for them, natively and so without the GIL.

    Random operations draw as those of ``pipeline[i]`` do: from the generator of the worker, or by
    `seed=`.
    """

    def __init__(self, pipeline: Pipeline, output: Literal["numpy", "torch"]) -> None:
        self._pipeline = pipeline
        self._output = output

    def __len__(self) -> int:
        return len(self._pipeline)

    def _made(self, index: int) -> tuple[int, Any]:
        """Return which sample it is, and what is natively made of it."""
        (place,) = self._pipeline._places([index])
        settings: dict[str, object] = {
            "batch_size": 1,
            "indices": [place],
            "seed": randomness.drawn_seed(),
            "num_workers": 0,
            "epochs": 1,
        }
        source, named = self._pipeline._source, self._pipeline._named
        (batch,) = NativeLoader(source, named, self._output, settings).epoch()
        (sample,) = samples_of(batch, source.fields())
        return place, sample


class Pictures(_Made):
    """Pictures and targets, up to where Python goes on.

    Parameters
    ----------
    images
        The pictures after all that is known.
    kind
        What torchvision would have in hand then.
    views
        How many pictures there are of each.
    steps
        The transforms that are left.
    targets
        What belongs to each picture.
    target_steps
        The target transforms that are left.
    """

    def __init__(
        self,
        images: Images,
        kind: Kind,
        views: int,
        steps: Sequence[Callable[[Any], Any]],
        targets: Sequence[Any],
        target_steps: Sequence[Callable[[Any], Any]],
    ) -> None:
        # Pictures of any size: whether they share a batch, the collate function decides.
        padded = (images.layout("hwc") if kind == "pil" else images).padded()
        super().__init__(padded, "numpy" if kind == "pil" else "torch")
        self._kind = kind
        self._views = views
        self._steps = tuple(steps)
        self._targets = targets
        self._target_steps = tuple(target_steps)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        place, sample = self._made(index)
        # Behind each picture that was padded are its height and width.
        apart = len(sample) // self._views
        pictures = tuple(self._restored(values) for values in sample[::apart])
        picture: Any = pictures[0] if self._views == 1 else pictures
        target = self._targets[place]
        for step in self._steps:
            picture = step(picture)
        for step in self._target_steps:
            target = step(target)
        return picture, target

    def _restored(self, values: Any) -> Any:  # noqa: ANN401 - as torchvision has it
        if self._kind == "tensor":
            return values
        if self._kind == "image":
            from torchvision.tv_tensors import Image as TensorImage

            return TensorImage(values)
        from PIL import Image

        return Image.fromarray(values[..., 0] if values.shape[-1] == 1 else values)


class Rows(_Made):
    """Rows of columns, as dicts.

    Parameters
    ----------
    pipeline
        The rows; of pictures of any size, padded ones.
    names
        The columns, in order.
    picture
        Which of them is the picture.
    is_image
        Whether that is torchvision's ``Image`` rather than a tensor.
    is_plain
        Whether the others are Python's numbers rather than tensors.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        names: list[str],
        picture: str,
        *,
        is_image: bool,
        is_plain: bool,
    ) -> None:
        super().__init__(pipeline, "torch")
        self._names = names
        self._picture = picture
        self._is_image = is_image
        self._is_plain = is_plain

    def __getitem__(self, index: int) -> dict[str, Any]:
        _, sample = self._made(index)
        return {name: self._value(name, sample[name]) for name in self._names}

    def _value(self, name: str, value: torch.Tensor) -> Any:  # noqa: ANN401
        if name != self._picture:
            return value.item() if self._is_plain else value
        if self._is_image:
            from torchvision.tv_tensors import Image as TensorImage

            return TensorImage(value)
        return value
