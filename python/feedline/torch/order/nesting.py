"""Samplers inside of samplers: torch's batch samplers, and those of frameworks around them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["asked_by"]

# Where batch samplers, torch's and those of frameworks, keep what they ask.
_INSIDE = ("batch_sampler", "sampler")


def asked_by(sampler: Any) -> Iterator[Any]:  # noqa: ANN401 - any sampler
    """Yield a sampler, what that asks for indices, and so on."""
    waiting, seen = [sampler], set()
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        inside = vars(one) if hasattr(one, "__dict__") else {}
        waiting += [inside[name] for name in _INSIDE if name in inside]
