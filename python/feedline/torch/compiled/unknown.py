"""What stays in Python, and why."""

from __future__ import annotations

from typing import Any

__all__ = ["Unknown", "name_of", "refuse_altered", "why_not"]


class Unknown(Exception):  # noqa: N818 - no error: it runs as the Python code it is
    """Something that is not compiled; its words say why."""


def name_of(thing: object) -> str:
    """Return what people call a dataset, a transform or a function."""
    own = getattr(thing, "__qualname__", None)
    return own if isinstance(own, str) else type(thing).__qualname__


def why_not(thing: object, known: tuple[type, ...]) -> Unknown:
    """Return why something is not compiled whose type is none of the known ones."""
    kind = type(thing)
    for parent in kind.__mro__[1:]:
        if parent in known:
            return Unknown(f"a subclass of {parent.__qualname__}, which may do anything")
    if kind.__qualname__ == "Lambda" or hasattr(thing, "__code__"):
        return Unknown("a Python function")
    return Unknown("not known here")


def refuse_altered(thing: Any) -> None:  # noqa: ANN401 - the user's dataset or transform
    """Refuse an object of a known type that does something else than its type says.

    Raises
    ------
    Unknown
        If it has a method of its own, or a hook.
    """
    own = vars(thing)
    for name in own:
        if callable(getattr(type(thing), name, None)):
            msg = f"it has a {name} of its own"
            raise Unknown(msg)
    for hooks in ("_forward_hooks", "_forward_pre_hooks"):
        if own.get(hooks):
            msg = "it has hooks"
            raise Unknown(msg)
