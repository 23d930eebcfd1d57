"""What runs where: a dataset of known parts, compiled.

A dataset is gone through down to its leaves: `Subset` and `ConcatDataset` of torch's, whose exact
types are known, and below them datasets of torch, torchvision and Hugging Face, and arrays. Where
all of it can be said as one pipeline, the engine makes the batches. Where only a part can, the same
tree is made again with leaves that have natively made what can be, and workers of the drop-in's run
it. Where nothing can, nothing changes.
"""

from __future__ import annotations

import itertools
import logging
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import ConcatDataset, IterableDataset, Subset, default_collate

from feedline._torch_private import collate_tensor_fn, default_collate_fn_map
from feedline.pipeline import Pipeline
from feedline.torch.compiled.in_memory import DATASETS
from feedline.torch.compiled.known import Known, Left
from feedline.torch.compiled.torchvision import Listings, torchvision_datasets
from feedline.torch.compiled.unknown import Unknown, name_of, refuse_altered, why_not
from feedline.torch.iterators.wrapped import joined, selected

if TYPE_CHECKING:
    from collections.abc import Callable

    from feedline.torch.compiled.form import Form
    from feedline.torch.dataloader import DataLoader

__all__ = ["Instead", "Plan", "Planner"]

logger = logging.getLogger("feedline.torch")


@dataclass(frozen=True)
class Plan:
    """Who makes what of a loader's batches.

    Attributes
    ----------
    pipeline
        What the engine makes whole batches of, if it does.
    form
        How its fields are what `default_collate` makes; None as they are.
    dataset
        What runs in Python instead of the user's dataset; None where that itself does.
    native
        What runs natively, in words.
    left
        What does not.
    draws
        Whether something natively made is random.
    """

    pipeline: Pipeline | None = None
    form: Form | None = None
    dataset: Any = None
    native: tuple[str, ...] = ()
    left: tuple[Left, ...] = ()
    draws: bool = False

    def words(self, workers: str) -> str:
        """Return what runs where, in one line.

        Parameters
        ----------
        workers
            Where Python runs, in words.
        """
        parts = ["Natively: " + ("; ".join(self.native) if self.native else "nothing")]
        if self.left:
            parts.append(f"In Python, in {workers}: " + "; ".join(map(str, self.left)))
        if self.draws:
            parts.append("Random operations draw from feedline's streams, not from torch's")
        return ". ".join(parts) + "."


class Instead:
    """A loader, but for its dataset and where Python runs.

    Parameters
    ----------
    loader
        What has everything else.
    dataset
        What is in the place of its dataset.
    worker_mode
        Where that runs.
    """

    def __init__(self, loader: DataLoader[Any], dataset: Any, worker_mode: str) -> None:  # noqa: ANN401
        self._loader = loader
        self.dataset = dataset
        self.worker_mode = worker_mode

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - an attribute of the loader's
        return getattr(self._loader, name)


class Planner:
    """Plans, and keeps what is dear to find out again.

    It is copied and pickled with its loader, but what it keeps is not.
    """

    def __init__(self) -> None:
        self._listings = Listings()
        self._told = ""

    def __reduce__(self) -> tuple[Any, ...]:
        return Planner, ()

    def plan(self, loader: DataLoader[Any]) -> Plan:
        """Return what runs where, as loader and dataset are now."""
        try:
            if loader.worker_init_fn is not None:
                msg = "worker_init_fn may change the dataset in each worker; leave it out"
                raise Unknown(msg)
            known = self._known(loader.dataset)
        except Unknown as why:
            return Plan(left=(Left(name_of(loader.dataset), str(why)),))
        in_loader = _in_python(loader)
        if known.pipeline is not None and not in_loader:
            return Plan(known.pipeline, known.form, native=known.native, draws=known.draws)
        left = (*known.left, *in_loader)
        if known.mixed is None:
            return Plan(left=(Left(known.name, "; ".join(map(str, left))),))
        return Plan(dataset=known.mixed, native=known.native, left=left, draws=known.draws)

    def tell(self, plan: Plan, workers: str) -> None:
        """Say what runs where, once."""
        words = plan.words(workers)
        if words != self._told:
            self._told = words
            logger.log(logging.WARNING if plan.left else logging.INFO, "%s", words)

    def _known(self, dataset: Any) -> Known:  # noqa: ANN401 - the user's
        if isinstance(dataset, Pipeline):
            said = (" | ".join(dataset._stages),)
            return Known(name="Pipeline", pipeline=dataset, mixed=dataset, native=said)
        known = self._all_known()
        compiled = known.get(type(dataset))
        if compiled is not None:
            if hasattr(dataset, "__dict__"):
                refuse_altered(dataset)
            return compiled(dataset)
        if isinstance(dataset, IterableDataset):
            msg = "its samples come one after the other, from Python code"
            raise Unknown(msg)
        raise why_not(dataset, tuple(known))

    def _all_known(self) -> dict[type, Callable[[Any], Known]]:
        known: dict[type, Callable[[Any], Known]] = {}
        known |= {Subset: self._selected, ConcatDataset: self._joined, **DATASETS}
        # Whoever has such a dataset has imported where it comes from.
        if "torchvision.datasets" in sys.modules:
            known |= torchvision_datasets(self._listings)
        rows = sys.modules.get("datasets.arrow_dataset")
        if rows is not None:
            from feedline.torch.compiled.hugging_face import known_rows

            known[rows.Dataset] = known_rows
        return known

    def _selected(self, subset: Subset[Any]) -> Known:
        whole = self._known(subset.dataset)
        pipeline, left = None, whole.left
        if whole.pipeline is not None:
            pipeline = selected(whole.pipeline, subset.indices)
            if pipeline is None:
                left = (Left("Subset", "its indices are no numbers of samples"),)
        return replace(
            whole,
            name=f"Subset of {whole.name}",
            pipeline=pipeline,
            mixed=None if whole.mixed is None else Subset(whole.mixed, subset.indices),
            left=left,
        )

    def _joined(self, joint: ConcatDataset[Any]) -> Known:
        parts: list[Known] = []
        for dataset in joint.datasets:
            try:
                parts.append(self._known(dataset))
            except Unknown as why:
                parts.append(Known(name_of(dataset), left=(Left(name_of(dataset), str(why)),)))
        left = [each for part in parts for each in part.left]
        if not any(part.native for part in parts):
            raise Unknown("; ".join(map(str, left)))
        pipelines = [part.pipeline for part in parts if part.pipeline is not None]
        pipeline = None
        if len(pipelines) == len(parts):
            # torch counts when it joins; a part may have become longer or shorter since.
            counts = list(itertools.accumulate(map(len, pipelines)))
            if counts == joint.cumulative_sizes and len({part.form for part in parts}) == 1:
                pipeline = joined(pipelines)
            if pipeline is None:
                left.append(Left("ConcatDataset", "its parts deliver different fields"))
        inside = zip(parts, joint.datasets, strict=True)
        mixed = [dataset if part.mixed is None else part.mixed for part, dataset in inside]
        return Known(
            name=" and ".join(part.name for part in parts),
            pipeline=pipeline,
            form=parts[0].form,
            mixed=ConcatDataset(mixed) if any(part.mixed is not None for part in parts) else None,
            native=tuple(dict.fromkeys(said for part in parts for said in part.native)),
            left=tuple(dict.fromkeys(left)),
            draws=any(part.draws for part in parts),
        )


def _in_python(loader: DataLoader[Any]) -> tuple[Left, ...]:
    """Return what of the loader's own settings needs samples in Python."""
    if not loader._auto_collation:
        return (Left("samples", "batch_size=None delivers them one by one"),)
    if loader.collate_fn is not default_collate:
        return (Left(f"collate_fn {name_of(loader.collate_fn)}", "it takes samples"),)
    if default_collate_fn_map.get(torch.Tensor) is not collate_tensor_fn:
        return (Left("default_collate", "its functions were replaced"),)
    return ()
