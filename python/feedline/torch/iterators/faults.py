"""Samples that could not be made: what they cost, and what is kept of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from feedline._torch_private import ExceptionWrapper
from feedline.errors import BatchError, SampleError, TooManyErrors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from feedline.torch.workers.offer import Failed

__all__ = ["Faults", "Raised", "check", "sample_error"]

# As the engine keeps them.
_MOST_KEPT = 10_000


class Faults:
    """The errors of one loader, since it was made."""

    def __init__(self) -> None:
        self._errors: list[SampleError] = []
        self._count = 0
        # Of a pipeline: returns the errors that the engine has noted.
        self.of_engine: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"of_engine": None}

    def all(self) -> list[SampleError]:
        """Return them, the first 10,000."""
        running = [] if self.of_engine is None else self.of_engine() or []
        return [*self._errors, *running][:_MOST_KEPT]

    def keep(self, errors: Sequence[SampleError]) -> None:
        """Note errors."""
        self._count += len(errors)
        self._errors += errors[: max(0, _MOST_KEPT - len(self._errors))]

    def delivered(self, errors: Sequence[SampleError], most: int | None) -> None:
        """Note what a batch that is being delivered lacks; raise if that is too much."""
        self.keep(errors)
        if most is not None and self._count > most:
            msg = (
                f"{self._count} samples could not be made, and max_errors is {most}; the last "
                f"one: {errors[-1]}"
            )
            raise TooManyErrors(msg) from errors[-1]


def check(
    on_error: str, failed: Sequence[Failed], made: int, errors: Sequence[SampleError]
) -> None:
    """Raise if a batch cannot be put together without the samples that failed."""
    for one, error in zip(failed, errors, strict=True):
        if on_error == "replace" and one.replaced_by is None:
            raise error
    if not made:
        msg = f"none of the {len(failed)} samples of this batch could be made: {errors[0]}"
        raise BatchError(msg) from errors[0]


class Raised(ExceptionWrapper):
    """An exception of the main process's, raised where its batch would be delivered."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def reraise(self) -> None:
        """Raise it."""
        raise self._error


def sample_error(failed: Failed, epoch: int, first: int) -> SampleError:
    """Return the error of a sample, with what the dataset raised as its cause.

    Parameters
    ----------
    failed
        What a worker said.
    epoch
        The epoch it was wanted for.
    first
        The place of its batch's first sample in the epoch.
    """
    cause: BaseException | None = None
    why = "unknown"
    if failed.why is not None:
        lines = str(failed.why.exc_msg).strip().splitlines()
        why = lines[-1] if lines else why
        try:
            failed.why.reraise()
        except Exception as raised:
            cause = raised
    error = SampleError(
        f"sample {failed.index} failed in stage load (epoch {epoch}): {why}",
        index=failed.index if isinstance(failed.index, int) else -1,
        position=first + failed.position,
        epoch=epoch,
        stage="load",
        replaced_by=failed.replaced_by,
    )
    error.__cause__ = cause
    return error
