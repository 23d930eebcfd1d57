"""Checks of what people pass, and what is taken where they pass nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import ray

from feedline._arguments import real, whole
from feedline.ray.actor import LoaderActor

if TYPE_CHECKING:
    import feedline
    from feedline.pipeline import Pipeline

__all__ = ["check", "default_memory", "loaders", "options", "shared_name"]

#: The share of a node's object store that batches may take which no trainer has.
_SHARE = 0.3
#: How far apart the places of one state may be, which is what an order is.
_MOST_PLACES = 2**24


def check(caller: str, pipeline: Pipeline, plan: feedline.Loader) -> None:
    """Refuse what cannot be divided among actors."""
    if pipeline._source.is_iterable:
        msg = (
            f"{caller} loads pipelines whose samples are counted, and those of an iterable are "
            "not; use feedline.Loader in the trainer, or a source with a length"
        )
        raise TypeError(msg)
    if plan._sampler is not None:
        kind = type(plan._sampler._sampler).__name__
        msg = (
            f"sampler must be a sequence of indices here, got {kind}, which may decide anew each "
            "epoch; pass list(sampler), or shuffle=True or weights="
        )
        raise TypeError(msg)
    places = plan.state_dict()["places"]
    if places > _MOST_PLACES:
        msg = (
            f"an epoch has {places} samples, and feedline.ray deals out at most {_MOST_PLACES}; "
            "make an epoch shorter by pipeline.select(...) or num_samples=, or use feedline.Loader"
        )
        raise ValueError(msg)


def loaders(num_loaders: int, autoscale: tuple[int, int] | None) -> tuple[int, int]:
    """Return the least and the most actors."""
    number = whole("num_loaders", num_loaders, 1)
    if autoscale is None:
        return number, number
    if number != 1:
        msg = "num_loaders and autoscale both say how many actors there are; pass one of them"
        raise ValueError(msg)
    if not isinstance(cast(object, autoscale), (tuple, list)) or len(autoscale) != 2:
        msg = f"autoscale must be the least and the most actors, such as (1, 8), got {autoscale!r}"
        raise TypeError(msg)
    least, most = whole("autoscale[0]", autoscale[0], 1), whole("autoscale[1]", autoscale[1], 1)
    if least > most:
        msg = f"autoscale must be the least and the most actors, got {autoscale!r}"
        raise ValueError(msg)
    return least, most


def options(num_cpus: float, actor_options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return Ray's options for an actor, which Ray has looked at."""
    cpus = real("num_cpus", num_cpus)
    if not 0 <= cpus < 2**16:
        msg = f"num_cpus must be a number from 0 on, got {num_cpus!r}"
        raise ValueError(msg)
    if actor_options is not None and not isinstance(cast(object, actor_options), Mapping):
        msg = f"actor_options must be a dict of Ray's options, got {actor_options!r}"
        raise TypeError(msg)
    found = {"num_cpus": cpus, **(actor_options or {})}
    for ours in ("lifetime", "max_concurrency", "name"):
        if ours in found:
            msg = f"actor_options cannot have {ours!r}, which feedline says itself; leave it out"
            raise ValueError(msg)
    try:
        ray.remote(LoaderActor).options(**found)
    except (TypeError, ValueError) as error:
        msg = f"actor_options are refused by Ray: {error}"
        raise type(error)(msg) from error
    return found


def default_memory(actors: int) -> int:
    """Return how many bytes of batches may be under way, where nobody says so, for so many actors.

    Actors are spread over the nodes, so they fill as many object stores.
    """
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    stores = [node["object_store_memory"] for node in nodes if "object_store_memory" in node]
    return int(_SHARE * min(stores, default=1e9) * max(1, min(len(stores), actors)))


def shared_name(name: object) -> str | None:
    """Return the name by which jobs share actors."""
    if name is None:
        return None
    if not isinstance(name, str) or not name:
        msg = f"name must be a text that jobs agree on, such as 'imagenet', got {name!r}"
        raise TypeError(msg)
    return name
