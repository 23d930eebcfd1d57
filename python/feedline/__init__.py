"""feedline feeds accelerators: parallel loading, finished batches, in time."""

from feedline._feedline import __version__

__all__ = ["__version__"]
