"""What every pipeline is: samples, how they were made, and what cannot be done to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from feedline.recipes import Recipe, again

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from feedline._feedline import Source
    from feedline.pipeline import Pipeline

__all__ = ["PipelineBase", "pipeline_of"]


class PipelineBase:
    """A source with its history; operations are added by the classes that derive from it."""

    def __init__(
        self,
        source: Source,
        *,
        named: bool,
        stages: tuple[str, ...],
        recipe: Recipe,
    ) -> None:
        self._source = source
        self._named = named
        # Read when they are first asked for.
        self._labels: npt.NDArray[np.integer[Any]] | None = None
        self._stages = stages
        self._recipe = recipe

    def __reduce__(self) -> tuple[Any, ...]:
        return again, (self._recipe, None if self._source.is_iterable else len(self))

    def __copy__(self) -> Self:
        # It never changes, so a copy may share everything.
        copied = object.__new__(type(self))
        copied.__dict__.update(self.__dict__)
        return copied

    def __len__(self) -> int:
        if self._source.is_iterable:
            msg = (
                "an iterable pipeline has no length: its samples are not counted before they come; "
                "iterate over a loader of it until it ends"
            )
            raise TypeError(msg)
        return len(self._source)

    @property
    def fields(self) -> list[str]:
        """The names of the fields, in their order; numbers where they have none."""
        return [name for name, *_ in self._delivered()]

    def _count(self) -> str:
        iterable = self._source.is_iterable
        return "samples of unknown number" if iterable else f"{len(self)} samples"

    def _stages_with(self, stage: str, *, fused: bool) -> tuple[str, ...]:
        if not fused:
            return (*self._stages, stage)
        before = self._stages[-1].removesuffix(", fused")
        return (*self._stages[:-1], f"{before} + {stage}, fused")

    def _batch_operations(self) -> tuple[str, ...]:
        """Return the names of the operations on whole batches."""
        return () if self._source.batch_fields() is None else ("map_batches",)

    def _refuse_remade(self, asked: str) -> None:
        """Refuse what needs samples where a function has made other batches of them."""
        if self._source.batch_fields() is not None:
            msg = (
                f"map_batches makes whole batches, and {asked} is asked for; ask before "
                "map_batches, or iterate by feedline.Loader or feedline.torch.DataLoader"
            )
            raise ValueError(msg)

    def _delivered(self) -> list[tuple[str, str, list[int | None], str]]:
        """Name, dtype, shape and rule of each field of a sample as batches have it."""
        made = self._source.batch_fields()
        return self._source.fields() if made is None else made[0]

    def _shape(self) -> tuple[Any, ...]:
        """Return what pipelines must have in common to be joined: names only where they count."""
        fields = self._source.fields()
        return self._named, [field if self._named else field[1:] for field in fields]

    def _check_loadable(self) -> None:
        """Refuse samples that no batch can be made of."""

    def _refuse_batched(self, operation: str) -> None:
        """Refuse an operation on samples where there are only batches any more."""
        if operations := self._batch_operations():
            name = operations[0]
            does = "works on" if name.startswith("map_batches") else "mixes"
            msg = (
                f"{operation} works on samples, and {name} {does} whole batches; call {operation} "
                f"before, or leave {name} out"
            )
            raise ValueError(msg)

    def _refuse_iterable(self, operation: str) -> None:
        if not self._source.is_iterable:
            return
        advice = (
            "look at samples by a loader: next(iter(feedline.Loader(pipeline)))"
            if operation == "an index"
            else "do it in the factory, before samples come out of it"
        )
        msg = (
            f"{operation} needs to know all samples, and those of an iterable pipeline come one "
            f"after the other; {advice}"
        )
        raise TypeError(msg)

    def _refuse_mixture(self, operation: str) -> None:
        self._refuse_iterable(operation)
        if operation not in ("select", "take", "skip", "shard", "repeat"):
            self._refuse_batched(operation)
        if self._source.is_mixture:
            msg = (
                f"{operation} cannot follow mix, which decides how often each sample comes; "
                f"call {operation} on the pipelines before they are mixed"
            )
            raise ValueError(msg)


def pipeline_of(
    source: Source, *, named: bool, stages: tuple[str, ...], recipe: Recipe
) -> Pipeline:
    """Make a pipeline: for operations, which are there before the class that has them all."""
    from feedline.pipeline import Pipeline

    return Pipeline(source, named=named, stages=stages, recipe=recipe)
