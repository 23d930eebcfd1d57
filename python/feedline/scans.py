"""Volumes of CT and MR, and what is done to each.

The operations have the meaning of MONAI's transforms. All of them run in native threads, on images
and masks alike; what is random depends on the loader's seed, the epoch and the sample alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, Self, cast

from feedline import _arguments, _choice, _planes
from feedline.gallery import Look
from feedline.pipeline import Pipeline
from feedline.recipes import Recipe
from feedline.scan_headers import VolumeHeaders
from feedline.volume_operations import VolumeOperations

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    import numpy.typing as npt

    from feedline._choice import Choice
    from feedline._columns import Fields
    from feedline.image_operations import Call
    from feedline.pictures import Images
    from feedline.scan_headers import VolumeHeader
    from feedline.scan_sources import OpenedVolumes
    from feedline.volume_operations import VolumeCall

__all__ = ["Volumes"]

# How many patches of a sample `show` draws.
_SHOWN_PATCHES = 4


# A pipeline whose operations are done to volumes: some have names of those on pictures, and other
# arguments.
class Volumes(VolumeOperations, Pipeline):  # type: ignore[misc]
    """Volumes and what is done to each of them; made by `feedline.volumes`.

    Samples are an image, float32 of shape (channels, z, y, x), and the mask where there is one,
    int16 of shape (z, y, x). Operations that move voxels do the same to both, with the same random
    numbers: images are interpolated linearly, masks take the nearest voxel.

    Besides the operations on volumes it has those of every pipeline; after `map`, `zip` and `cache`
    volumes are arrays like others. The operations on pictures are refused.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import nibabel, numpy as np
    >>> import feedline
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for kind in ("images", "masks"):
    ...     (folder / kind).mkdir()
    ...     voxels = np.zeros((64, 64, 32), np.int16)
    ...     image = nibabel.Nifti1Image(voxels, np.diag([0.8, 0.8, 2.5, 1]))
    ...     nibabel.save(image, folder / kind / "case.nii.gz")
    >>> cases = feedline.volumes(folder / "images", folder / "masks")
    >>> print(cases.reorient("RAS").resample((2.5, 1, 1)).window(40, 400).random_crop((24, 48, 48)))
    1 samples
      volumes('images')
      reorient("RAS")
      resample((2.5, 1, 1))
      window(40, 400, to=(0, 1))
      random_crop((24, 48, 48))
    delivers (float32 [1, 24, 48, 48], int16 [24, 48, 48])
    """

    def __init__(
        self,
        of: OpenedVolumes,
        *,
        stage: str,
        named: bool,
        calls: tuple[VolumeCall, ...] = (),
        chosen: tuple[Choice, ...] = (),
        padded: bool = False,
    ) -> None:
        self._of = of
        self._stage = stage
        self._calls = calls
        self._choices = chosen
        self._padded = padded
        self._all, words = of._source.volume_program(list(calls))
        source, stages = self._all, [stage]
        for choice in chosen:
            total = len(source)
            source = _choice.chosen(source, choice)
            stages.append(_choice.described(choice, total))
        stages += words
        if padded:
            stages.append("padded()")
        self._named = named
        recipe = Recipe(_volumes, (of, self._state()))
        super().__init__(source, named=named, stages=tuple(stages), recipe=recipe)

    @property
    def headers(self) -> Sequence[VolumeHeader]:
        """The headers of all volumes, with shapes, spacings, affines and paths.

        They were read when the volumes were opened; voxels are not read for them.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> import nibabel, numpy as np
        >>> import feedline
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "head.nii.gz"
        >>> nibabel.save(nibabel.Nifti1Image(np.zeros((60, 50, 40), np.int16), np.eye(4)), path)
        >>> [header.shape for header in feedline.volumes([path]).headers]
        [(40, 50, 60)]
        """
        total = len(self)
        places: Sequence[int] = range(total)
        if self._choices:
            places = [self._own(index) for index in range(total)]
        return VolumeHeaders(self._of._source, places)

    def drawn(
        self, index: int, *, seed: int = 0, epoch: int = 0
    ) -> list[list[tuple[str, dict[str, Any]]]]:
        """Tell what a loader does to a sample, with every random parameter drawn.

        Moves that follow each other are one: ``move``, whose ``linear`` and ``offset`` take the
        index of a new voxel to a place among the old ones. After `crop_foreground`, which must see
        voxels first, nothing is known, and the list is empty.

        Parameters
        ----------
        index
            Which sample.
        seed
            The loader's seed.
        epoch
            The loader's epoch.

        Returns
        -------
        list
            For each patch the actions in order, each as its name and its parameters.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> import nibabel, numpy as np
        >>> import feedline
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "head.nii.gz"
        >>> nibabel.save(nibabel.Nifti1Image(np.zeros((60, 50, 40), np.int16), np.eye(4)), path)
        >>> ((move,),) = feedline.volumes([path]).center_crop(32).drawn(0)
        >>> move[0], move[1]["offset"], move[1]["shape"]
        ('move', [4.0, 9.0, 14.0], [32, 32, 32])
        """
        index = _arguments.whole("index", index, 0, max(len(self) - 1, 0))
        seed = _arguments.whole("seed", seed, 0)
        epoch = _arguments.whole("epoch", epoch, 0)
        return self._all.drawn(self._own(index), index, seed, epoch)

    def padded(self) -> Volumes:
        """Let volumes of different sizes share a batch, padded with zeros to the largest.

        Returns
        -------
        Volumes
            The same; batches have the true sizes behind images and masks.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> import nibabel, numpy as np
        >>> import feedline
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> for name, side in [("a", 16), ("b", 20)]:
        ...     image = nibabel.Nifti1Image(np.zeros((side, 12, 10), np.int16), np.eye(4))
        ...     nibabel.save(image, folder / f"{name}.nii.gz")
        >>> for image, sizes in feedline.Loader(feedline.volumes(folder).padded(), batch_size=2):
        ...     print(image.shape, sizes.tolist())
        (2, 1, 10, 12, 20) [[10, 12, 16], [10, 12, 20]]
        """
        return self._with(padded=True)

    def images(self, *arguments: object, **settings: object) -> NoReturn:
        """Refuse: volumes are no pictures, and have operations of their own."""
        del arguments, settings
        self._refuse("images")

    def _then(self, name: str, **arguments: object) -> Volumes:
        call: VolumeCall = (name, arguments)
        return self._with(calls=(*self._calls, call))

    def _with(self, **changes: Any) -> Volumes:  # noqa: ANN401 - arguments of __init__
        return Volumes(self._of, **(self._state() | changes))

    def _state(self) -> dict[str, Any]:
        """All arguments of `__init__` but the first."""
        return {
            "stage": self._stage,
            "named": self._named,
            "calls": self._calls,
            "chosen": self._choices,
            "padded": self._padded,
        }

    # ---- which samples: what is done to each is apart from that

    def _chosen(self, stage: str, choice: Choice) -> Self:
        del stage  # told by how many were chosen of how many
        *before, last = self._choices or (None,)
        both = None if last is None else _choice.joined(last, choice)
        steps = (*self._choices, choice) if both is None else (*before, both)
        return cast("Self", self._with(chosen=steps))

    def _own(self, index: int) -> int:
        """Return which of the volumes that there are is at a place of the chosen ones."""
        totals = [len(self._of._source)]
        for choice in self._choices:
            totals.append(_choice.count(choice, totals[-1]))
        for choice, total in zip(reversed(self._choices), reversed(totals[:-1]), strict=True):
            index = _choice.number(choice, index, total)
        return index

    # ---- what batches can be made of

    def _varies(self) -> bool:
        return any(None in shape for _, _, shape, _ in self._source.fields())

    def _check_loadable(self) -> None:
        if self._varies() and not self._padded:
            msg = (
                "volumes have different sizes, so they cannot share a batch; call "
                "random_crop(size) or center_crop(size) last, or padded() to pad them to the "
                "largest of each batch"
            )
            raise ValueError(msg)

    def _made(self, places: list[int], *, threads: int) -> list[Any]:
        if len(places) > 1 or self._padded or not self._varies():
            return super()._made(places, threads=threads)
        # One volume is as large as it is.
        (row,) = self._rows(places, seed=None)
        return [dict(zip(self.fields, row, strict=True)) if self._named else tuple(row)]

    # ---- what volumes have not

    def _read_labels(self) -> npt.NDArray[np.integer[Any]]:
        msg = (
            "volumes have masks, not labels: which classes are in a volume is known when its mask "
            "is read; to choose patches by class, call random_crop(size, foreground=..., "
            "classes={...})"
        )
        raise ValueError(msg)

    def _refuse(self, operation: str) -> NoReturn:
        msg = (
            f"{operation} is done to pictures, and these are volumes; their own operations are "
            "those of feedline.Volumes, such as resample, random_crop and random_affine"
        )
        raise TypeError(msg)

    def _add(self, name: str, **arguments: object) -> Images:
        del arguments
        self._refuse(name)

    def _added(self, name: str, function: Callable[[Images], Images]) -> list[Call]:
        del function
        self._refuse(name)

    def _split(self, chains: Sequence[Sequence[Call]]) -> Images:
        self._refuse(chains[0][0][0])

    # ---- what `show` draws

    def _drawable(self) -> Pipeline:
        return self

    def _looks(self) -> list[Look]:
        pictures = 1 if self._flat() is not None else 3
        return [Look(place, None, None) for place in range(pictures * self._shown())]

    def _seen(self, places: list[int], seed: int | None) -> tuple[list[list[Any]], Fields]:
        rows = []
        headers = self.headers
        patches, flat = self._shown(), self._flat()
        for place, row in zip(places, self._rows(places, seed=seed), strict=True):
            placed = _planes.placed(headers[place], self._calls)
            rows.append(_planes.pictures(row, placed, flat, patches))
        return rows, _planes.fields(len(self._looks()), masks=len(self.fields) > 1)

    def _captions(self, places: list[int]) -> list[str]:
        headers = self.headers
        return [headers[place].name for place in places]

    def _flat(self) -> int | None:
        """Return the axis that samples do not have."""
        axes = [arguments["axis"] for name, arguments in self._calls if name == "random_slice"]
        return cast("int", axes[-1]) if axes else None

    def _shown(self) -> int:
        """Return how many patches of a sample are drawn; 1 where there are none."""
        counts = [cast("int", arguments.get("patches", 1)) for _, arguments in self._calls]
        return min(max(counts, default=1), _SHOWN_PATCHES)


def _volumes(of: OpenedVolumes, state: dict[str, Any]) -> Volumes:
    return Volumes(of, **state)
