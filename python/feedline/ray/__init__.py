"""Loading on a Ray cluster: actors make the batches, trainers get them by Ray's object store.

`Loader` is `feedline.Loader` with its work done elsewhere: the same batches for the same seed, in
the same order, whatever the number of actors, and whichever of them die. `read` gives samples as a
Ray ``Dataset``.
"""

try:
    import ray as _ray  # noqa: F401 - only to say what is missing
except ModuleNotFoundError as error:
    if error.name != "ray":
        raise
    msg = "feedline.ray needs Ray, which is not installed; pip install 'feedline[ray]'"
    raise ModuleNotFoundError(msg, name="ray") from None

from feedline.ray.dataset import read
from feedline.ray.loader import Loader
from feedline.ray.report import ActorStats, RayStats

__all__ = ["ActorStats", "Loader", "RayStats", "read"]
