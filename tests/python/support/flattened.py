"""Lists of lists, one after the other."""

from itertools import chain


def flat(lists):
    """Return what is in them as one list."""
    return list(chain.from_iterable(lists))
