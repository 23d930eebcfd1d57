"""Where samples come from."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from feedline import _arguments, _stores
from feedline._feedline import Source
from feedline.pipeline import Pipeline
from feedline.recipes import Held, Recipe

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

__all__ = ["arrays", "npy"]


def arrays(*fields: npt.ArrayLike, named: bool | None = None, **by_name: npt.ArrayLike) -> Pipeline:
    """Make samples of arrays in memory: sample i is row i of each.

    Rows are gathered natively, without the GIL, from any strides; nothing is copied when the
    pipeline is made. (Arrays in foreign byte order are converted once.)

    Parameters
    ----------
    *fields
        NumPy arrays, torch tensors on the CPU, or what `numpy.asarray` takes. Samples are tuples.
    named
        Whether samples and batches are dicts rather than tuples. ``None``: if names are given.
    **by_name
        The same by name. Samples are dicts. (None of them can be called ``named``.)

    Returns
    -------
    Pipeline
        With as many samples as the arrays have rows.

    Raises
    ------
    TypeError
        For arrays of Python objects, strings or dates, and masked arrays.
    ValueError
        If lengths differ, a tensor is not dense in host memory, or there is no array at all.

    Examples
    --------
    >>> import numpy as np
    >>> print(arrays(image=np.zeros((10, 3, 4), np.float32), label=np.arange(10)))
    10 samples
      arrays(2)
    delivers {image: float32 [3, 4], label: int64 []}
    """
    if fields and by_name:
        msg = "pass arrays either by position (batches are tuples) or by name (batches are dicts)"
        raise ValueError(msg)
    given = by_name or {str(place): array for place, array in enumerate(fields)}
    if not given:
        msg = "arrays() needs at least one array, e.g. arrays(images, labels)"
        raise ValueError(msg)
    held = {name: Held(_checked(name, array)) for name, array in given.items()}
    return _arrays(held, bool(by_name) if named is None else _arguments.flag("named", named))


def _arrays(held: dict[str, Held], named: bool) -> Pipeline:
    sources = {name: _memory(name, entry.array) for name, entry in held.items()}
    lengths = {name: len(source) for name, source in sources.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name}: {length}" for name, length in lengths.items())
        msg = f"all arrays must have the same number of rows, got {listed}"
        raise ValueError(msg)
    source = Source.zip(list(sources.values()), named)
    stages = (f"arrays({len(sources)})",)
    return Pipeline(source, named=named, stages=stages, recipe=Recipe(_arrays, (held, named)))


def npy(
    path: str | os.PathLike[str],
    *,
    name: str | None = None,
    named: bool | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Pipeline:
    """Read samples from ``.npy`` files.

    Parameters
    ----------
    path
        One packed file, whose first axis is the sample's, or a folder with one file per sample
        (all of one dtype and shape, taken in the order of their names). A URL of an object store
        that ends in ``.npy`` is a file, any other a folder.
    name
        The field's name.
    named
        Whether samples and batches are dicts rather than tuples. ``None``: if a name is given.
    storage_options
        For URLs: credentials, endpoint, what is kept on disk; see the page on object stores.
        Without, what the environment says.

    Returns
    -------
    Pipeline
        Of one field.

    Raises
    ------
    FileNotFoundError
        If there is nothing at `path`.
    ValueError
        If it is not a numeric ``.npy`` file, or shorter than its header says.

    Examples
    --------
    >>> import numpy as np, tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "x.npy"
    >>> np.save(file, np.arange(6, dtype=np.float32).reshape(3, 2))
    >>> len(npy(file))
    3
    """
    named = name is not None if named is None else _arguments.flag("named", named)
    options = _stores.plain_options(storage_options)
    where = _stores.place(path, options)
    stages = (f"npy({_stores.base_name(where)!r})",)
    return _npy(where, "0" if name is None else name, named, stages, options)


def _npy(
    path: str,
    field: str,
    named: bool,
    stages: tuple[str, ...],
    options: dict[str, str] | None = None,
) -> Pipeline:
    # Another process knows nothing of the store yet.
    path = _stores.place(path, options)
    far = _stores.is_url(path)
    is_folder = not path.endswith(".npy") if far else os.path.isdir(path)  # noqa: PTH112
    source = Source.npy_folder(field, path) if is_folder else Source.npy_packed(field, path)
    recipe = Recipe(_npy, (path, field, named, stages, options))
    return Pipeline(source, named=named, stages=stages, recipe=recipe)


def _checked(name: str, array: Any) -> Any:  # noqa: ANN401 - anything array-like
    """Return it as an array or a tensor whose memory can be read."""
    return _tensor(name, array) if _is_tensor(array) else _ndarray(name, array)


def _is_tensor(array: object) -> bool:
    # By name: torch need not be installed, and whoever has a tensor has imported it.
    kinds = {f"{kind.__module__}.{kind.__name__}" for kind in type(array).__mro__}
    return "torch.Tensor" in kinds


def _memory(name: str, array: Any) -> Source:  # noqa: ANN401 - an array or a tensor
    if _is_tensor(array):
        size = array.element_size()
        strides = [stride * size for stride in array.stride()]
        dtype = str(array.dtype).removeprefix("torch.")
        return Source.memory(name, array, array.data_ptr(), list(array.shape), strides, dtype)
    address = array.__array_interface__["data"][0]
    shape, strides = list(array.shape), list(array.strides)
    return Source.memory(name, array, address, shape, strides, array.dtype.name)


def _ndarray(name: str, values: Any) -> np.ndarray:  # noqa: ANN401 - anything array-like
    if isinstance(values, np.ma.MaskedArray):
        msg = f"array {name} is masked, and batches have no masks; pass its .filled(value)"
        raise TypeError(msg)
    array = np.asarray(values)
    if array.dtype.kind not in "biufc" and array.dtype.name != "bfloat16":
        msg = (
            f"array {name} has dtype {array.dtype}, which cannot be loaded; "
            "convert it to a numeric dtype, e.g. with .astype(numpy.float32)"
        )
        raise TypeError(msg)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if array.ndim == 0:
        msg = f"array {name} is a scalar; its first axis must be the sample's"
        raise ValueError(msg)
    return array


def _tensor(name: str, tensor: Any) -> Any:  # noqa: ANN401 - torch need not be installed
    dense = str(tensor.layout) == "torch.strided" and not tensor.is_nested
    if tensor.device.type != "cpu" or not dense:
        msg = (
            f"tensor {name} is on {tensor.device} with layout {tensor.layout}"
            f"{' (nested)' if tensor.is_nested else ''}; "
            "pass a dense tensor in host memory, e.g. tensor.cpu().to_dense()"
        )
        raise ValueError(msg)
    if tensor.is_quantized:
        msg = f"tensor {name} is quantised; pass its .int_repr() or .dequantize()"
        raise TypeError(msg)
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if tensor.dim() == 0:
        msg = f"tensor {name} is a scalar; its first axis must be the sample's"
        raise ValueError(msg)
    return tensor
