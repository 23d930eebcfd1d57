"""Datasets of Hugging Face's `datasets` with a column of pictures.

Two ways of having tensors of them are known: ``with_format("torch")``, and ``with_transform`` of
one of `torchvision.transforms.v2`, which takes rows as they are. Anything else that is given to
``with_transform`` is a Python function.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from feedline.huggingface import huggingface
from feedline.torch.compiled.chain import Chain, follow
from feedline.torch.compiled.form import InOrder
from feedline.torch.compiled.known import Known, Left
from feedline.torch.compiled.pictures import is_fixed
from feedline.torch.compiled.rest import Rows
from feedline.torch.compiled.transforms import add, flat
from feedline.torch.compiled.unknown import Unknown, name_of

if TYPE_CHECKING:
    from feedline.pictures import Images

__all__ = ["known_rows"]

_COLORS = {"RGB": "rgb", "L": "gray"}

# Of which columns `default_collate` makes what the engine makes: tensors, or plain numbers.
_TENSORS = frozenset({"int64", "float32", "bool"})
_PLAIN = frozenset({"int64", "float64", "bool"})


@dataclass(frozen=True)
class _Table:
    """The rows, and which of their columns is the picture."""

    rows: Images
    columns: list[str]
    picture: str


def known_rows(dataset: Any) -> Known:  # noqa: ANN401 - a datasets.Dataset
    """Return what is known of a dataset of rows.

    Raises
    ------
    Unknown
        If it delivers something else than tensors, or has no picture.
    """
    way, settings = dataset.format["type"], dataset.format["format_kwargs"]
    if dataset._output_all_columns or not len(dataset):
        msg = "it delivers columns that are not formatted, or has no rows"
        raise Unknown(msg)
    if way == "torch" and not settings:
        table = _table(dataset, _TENSORS)
        chain = Chain(table.rows, "tensor")
    elif way == "custom":
        table = _table(dataset, _PLAIN)
        chain = _transformed(table, settings["transform"])
    else:
        said = "plain objects" if way is None else f"the format {way!r} with {settings}"
        msg = f'it delivers {said}; natively it delivers tensors: with_format("torch")'
        raise Unknown(msg)
    made, fixed = chain.made, is_fixed(chain.made)
    return Known(
        name=f"Dataset of {len(dataset)} rows",
        pipeline=made if fixed else None,
        form=InOrder(tuple(table.columns)),
        mixed=Rows(
            made if fixed else made.padded(),
            table.columns,
            table.picture,
            is_image=chain.kind == "image",
            is_plain=way == "custom",
        ),
        native=(" | ".join(made._stages),),
        left=() if fixed else (Left("putting pictures together", "their sizes may differ"),),
        draws=chain.draws,
    )


def _table(dataset: Any, numbers: frozenset[str]) -> _Table:  # noqa: ANN401
    import datasets

    columns: list[str] = list(dataset.format["columns"])
    pictures = [name for name in columns if type(dataset.features[name]) is datasets.Image]
    if len(pictures) != 1:
        msg = f"it has {len(pictures)} columns of pictures, not one"
        raise Unknown(msg)
    picture = pictures[0]
    feature = dataset.features[picture]
    if not feature.decode or feature.mode not in _COLORS:
        msg = (
            f"its pictures may have any mode; cast_column({picture!r}, "
            'datasets.Image(mode="RGB")) says which'
        )
        raise Unknown(msg)
    color: Any = _COLORS[feature.mode]
    try:
        whole = huggingface(dataset, columns=columns)
        rows = whole.images(picture, color=color, exact=True, orientation=True)
    except (TypeError, ValueError) as error:
        raise Unknown(str(error)) from None
    for name, dtype, axes, _ in rows._source.fields():
        if name != picture and (dtype not in numbers or axes):
            shape = f" {axes}" if axes else ""
            msg = f"its column {name!r} is {dtype}{shape}, not {', '.join(sorted(numbers))}"
            raise Unknown(msg)
    return _Table(rows, columns, picture)


def _transformed(table: _Table, transform: Any) -> Chain:  # noqa: ANN401
    steps = flat(transform)

    def added(chain: Chain, step: Any) -> Chain:  # noqa: ANN401
        if not type(step).__module__.startswith("torchvision.transforms.v2"):
            msg = f"{name_of(step)} is none of torchvision.transforms.v2, and so Python code"
            raise Unknown(msg)
        if chain.kind == "tensor":
            msg = f"{name_of(step)} transforms the first tensor of a batch only; put it earlier"
            raise Unknown(msg)
        return add(chain, step)

    chain, count, why = follow(Chain(table.rows, "pil"), steps, added)
    if count < len(steps):
        msg = f"{name_of(steps[count])} ({why})"
        raise Unknown(msg)
    if chain.kind == "pil" or chain.views > 1:
        msg = "its transform delivers no tensor"
        raise Unknown(msg)
    return chain
