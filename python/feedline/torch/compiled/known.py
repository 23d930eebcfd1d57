"""What is known of a dataset, and what of it stays in Python."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from feedline.pipeline import Pipeline
    from feedline.torch.compiled.form import Form

__all__ = ["Known", "Left"]


@dataclass(frozen=True)
class Left:
    """Something that stays in Python."""

    what: str
    why: str

    def __str__(self) -> str:
        return f"{self.what} ({self.why})"


@dataclass(frozen=True)
class Known:
    """A dataset, compiled.

    Attributes
    ----------
    name
        What people call it.
    pipeline
        Makes whole samples; None where Python has something to do.
    form
        How its fields are the dataset's; None as they are.
    mixed
        A dataset that has natively made what can be, and does the rest in Python; None where that
        would bring nothing.
    native
        What runs natively, in words; empty where nothing does.
    left
        What does not.
    draws
        Whether something natively made is random.
    """

    name: str
    pipeline: Pipeline | None = None
    form: Form | None = None
    mixed: Any = None
    native: tuple[str, ...] = ()
    left: tuple[Left, ...] = ()
    draws: bool = False
