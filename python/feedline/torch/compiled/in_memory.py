"""Datasets that are rows of arrays: `TensorDataset`, NumPy arrays, tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils.data import TensorDataset

from feedline.sources import arrays
from feedline.torch.compiled.form import Single
from feedline.torch.compiled.known import Known
from feedline.torch.compiled.unknown import Unknown

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["DATASETS"]


def _tensors(dataset: TensorDataset) -> Known:
    for tensor in dataset.tensors:
        _check(tensor)
    return _gathered("TensorDataset", dataset.tensors)


def _tensor(dataset: torch.Tensor) -> Known:
    _check(dataset)
    return _gathered("Tensor", (dataset,), Single())


def _ndarray(dataset: np.ndarray) -> Known:
    if dataset.dtype.kind not in "biufc" or not dataset.dtype.isnative:
        msg = f"its dtype is {dataset.dtype}"
        raise Unknown(msg)
    if not dataset.flags.writeable:
        msg = "it is read-only, of which torch warns"
        raise Unknown(msg)
    if not dataset.size or dataset.ndim == 0:
        msg = "it is empty or a scalar"
        raise Unknown(msg)
    if torch.as_tensor(dataset[:1]).dtype != torch.utils.data.default_collate([dataset[0]]).dtype:
        msg = f"torch makes numbers of another dtype of its {dataset.dtype}"
        raise Unknown(msg)
    return _gathered("ndarray", (dataset,), Single())


def _check(tensor: torch.Tensor) -> None:
    if type(tensor) is not torch.Tensor:
        msg = f"it has a {type(tensor).__qualname__}, a subclass of Tensor"
        raise Unknown(msg)
    if tensor.requires_grad:
        msg = "it has a tensor that requires gradients"
        raise Unknown(msg)
    if tensor.device.type != "cpu" or tensor.layout != torch.strided or tensor.is_quantized:
        msg = f"it has a tensor on {tensor.device} with layout {tensor.layout}"
        raise Unknown(msg)
    named = any(name is not None for name in getattr(tensor, "names", ()))
    if tensor.is_conj() or tensor.is_neg() or named:
        msg = "it has a tensor that is conjugated, negated or named"
        raise Unknown(msg)
    if not tensor.dim() or not len(tensor):
        msg = "it is empty or a scalar"
        raise Unknown(msg)
    if not tensor[0].is_contiguous():
        msg = "its rows are not contiguous, and torch keeps their strides"
        raise Unknown(msg)


def _gathered(name: str, fields: Any, form: Single | None = None) -> Known:  # noqa: ANN401
    try:
        pipeline = arrays(*fields)
    except (TypeError, ValueError) as error:
        raise Unknown(str(error)) from None
    said = f"{name} | {len(fields)} array{'s' if len(fields) > 1 else ''} gathered"
    return Known(name=name, pipeline=pipeline, form=form, native=(said,))


DATASETS: dict[type, Callable[[Any], Known]] = {
    TensorDataset: _tensors,
    torch.Tensor: _tensor,
    np.ndarray: _ndarray,
}
