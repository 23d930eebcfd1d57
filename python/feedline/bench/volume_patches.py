"""Patches of volumes with their masks, by the readers that people use with torch."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from feedline.bench.requests import LoadRequest

__all__ = ["MonaiPatches", "PlainPatches", "check_volumes"]

Place = Literal["random", "center"]


class PlainPatches:
    """Volumes read by nibabel or pynrrd, cut and z-scored by NumPy.

    Parameters
    ----------
    cases
        Pairs of files: a volume and its mask.
    patch
        Voxels of a patch along z, y and x.
    place
        ``"random"``, or ``"center"`` for what is the same whoever makes it.
    seed
        What random places depend on, with the index.
    tables
        Where feedline keeps what it learns of files; not used here.
    """

    def __init__(
        self,
        cases: Sequence[Sequence[str]],
        patch: Sequence[int],
        place: Place = "random",
        seed: int = 0,
        tables: str | None = None,
    ) -> None:
        self.cases = [(image, mask) for image, mask in cases]
        self.patch = tuple(patch)
        self.place = place
        self.seed = seed
        self.tables = tables
        # Every sample has a place of its own, also when a volume comes again.
        self.size: int | None = None if self.cases else 0

    def ready(self) -> None:
        """Import the reader, before workers are forked."""
        for image, _ in self.cases[:1]:
            importlib.import_module("nrrd" if _is_nrrd(image) else "nibabel")

    def sample(self, index: int) -> tuple[Any, Any]:
        """Read a volume and its mask, cut out a patch and z-score it."""
        image, mask = (_read(path) for path in self.cases[index % len(self.cases)])
        cut = self._cut(image.shape, index)
        values = np.asarray(image[cut], np.float32).T
        labels = np.asarray(mask[cut]).T
        # As MONAI's NormalizeIntensity: by the patch's own mean and deviation.
        deviation = values.std() or 1.0
        values = (values - values.mean()) / deviation
        return np.ascontiguousarray(values[None]), np.ascontiguousarray(labels, np.int16)

    def _cut(self, shape: tuple[int, ...], index: int) -> tuple[slice, ...]:
        """Return where the patch is along x, y and z, the file's own order."""
        rng = np.random.default_rng((self.seed, index))
        cut = []
        for side, wanted in zip(shape, reversed(self.patch), strict=True):
            if wanted > side:
                msg = f"a patch of {self.patch} (z, y, x) does not fit into {shape} (x, y, z)"
                raise ValueError(msg)
            middle = self.place == "center"
            start = side // 2 - wanted // 2 if middle else int(rng.integers(side - wanted + 1))
            cut.append(slice(start, start + wanted))
        return tuple(cut)


class MonaiPatches(PlainPatches):
    """The same by MONAI's transforms, as its tutorials chain them."""

    def ready(self) -> None:
        """Import MONAI and make the transforms."""
        monai: Any = importlib.import_module("monai.transforms")
        keys = ["image", "mask"]
        size = self.patch[::-1]
        if self.place == "center":
            crop = monai.CenterSpatialCropd(keys, size)
        else:
            crop = monai.RandSpatialCropd(keys, size, random_size=False)
        self._transform = monai.Compose(
            [
                monai.LoadImaged(keys),
                monai.EnsureChannelFirstd(keys),
                crop,
                monai.NormalizeIntensityd("image"),
            ]
        )

    def sample(self, index: int) -> tuple[Any, Any]:
        """Let MONAI do it; its axes are x, y, z, and become ours without a copy."""
        image, mask = self.cases[index % len(self.cases)]
        made: Any = self._transform({"image": image, "mask": mask})
        values, labels = made["image"].as_tensor(), made["mask"].as_tensor()
        return values.permute(0, 3, 2, 1), labels[0].permute(2, 1, 0).short()


def check_volumes(request: LoadRequest) -> None:
    """Refuse what is no request for volumes."""
    kind = request.described["kind"]
    if kind != "volumes":
        msg = f"it loads volumes, not {kind!r}; name it in `feedline bench volumes` only"
        raise ValueError(msg)


def _is_nrrd(path: str) -> bool:
    return path.endswith((".nrrd", ".nhdr"))


def _read(path: str) -> Any:  # noqa: ANN401 - an array, or what is sliced like one
    """Return what can be cut along x, y and z."""
    if _is_nrrd(path):
        return importlib.import_module("nrrd").read(path)[0]
    proxy = importlib.import_module("nibabel").load(path).dataobj
    # Of a file as it is the patch alone is read. In gzip each jump is a read through Python, and
    # all that lies before is inflated anyway.
    return np.asanyarray(proxy) if path.endswith(".gz") else proxy
