"""How the fields of a batch become what `default_collate` makes of the dataset's samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["Form", "InOrder", "Single", "Views"]


class Form(Protocol):
    """What the user sees of the engine's fields."""

    def batch(self, fields: Any) -> Any:  # noqa: ANN401 - the engine's batch
        """Return the batch as the user has it."""

    def sample(self, fields: Any) -> Any:  # noqa: ANN401 - one sample of it
        """Return a sample as the dataset has it."""


@dataclass(frozen=True)
class Single:
    """A dataset whose sample is one value: an array, a tensor."""

    def batch(self, fields: Any) -> Any:  # noqa: ANN401
        """Return the only field."""
        return fields[0]

    def sample(self, fields: Any) -> Any:  # noqa: ANN401
        """Return the only value."""
        return fields[0]


@dataclass(frozen=True)
class Views:
    """Several views of a picture, together, and what comes after them."""

    count: int

    def batch(self, fields: Any) -> Any:  # noqa: ANN401
        """Return a list of the views, then the rest."""
        return [list(fields[: self.count]), *fields[self.count :]]

    def sample(self, fields: Any) -> Any:  # noqa: ANN401
        """Return a tuple of the views, then the rest."""
        return (tuple(fields[: self.count]), *fields[self.count :])


@dataclass(frozen=True)
class InOrder:
    """Named fields in the dataset's order."""

    names: tuple[str, ...]

    def batch(self, fields: Any) -> Any:  # noqa: ANN401
        """Return the same fields, in order."""
        return {name: fields[name] for name in self.names}

    sample = batch
