"""How many loader actors there should be, by how long readers wait."""

from __future__ import annotations

__all__ = ["Scaling"]

#: Seconds that are looked at together. An actor takes one or two to start.
_WINDOW = 3.0
#: Readers wait: more than this share of their time. They have plenty: less than that one.
_SHORT, _PLENTY = 0.05, 0.01
#: One fewer would have been enough if the others would have been busy for at most this share.
_BUSY = 0.8


class Scaling:
    """Decides by what was seen; it starts and ends nothing itself.

    Parameters
    ----------
    least, most
        How many there may be.
    """

    def __init__(self, least: int, most: int) -> None:
        self.least, self.most = least, most
        #: How many there should be now.
        self.wanted = least
        self._waited = 0.0
        self._busy: list[float] = []
        self._begun: float | None = None

    def between(self, least: int, most: int) -> None:
        """Have at least and at most so many from now on."""
        self.least, self.most = least, most
        self.wanted = min(max(self.wanted, least), most)

    def waited(self, seconds: float) -> None:
        """Note how long a reader has waited for a batch."""
        self._waited += seconds

    def change(self, now: float, actors: int, busy: float, readers: int) -> int:
        """Return 1 to add an actor, -1 to take one away, mostly 0.

        Parameters
        ----------
        now
            Seconds of any clock.
        actors
            How many there are.
        busy
            How many of them are busy at this moment.
        readers
            How many readers there are.
        """
        if self._begun is None or not readers:
            self._begin(now)
            return 0
        self._busy.append(busy)
        if now - self._begun < _WINDOW:
            return 0
        share = self._waited / (now - self._begun) / readers
        mean = sum(self._busy) / len(self._busy)
        self._begin(now)
        change = 0
        if share > _SHORT and actors < self.most and mean > _BUSY * actors:
            change = 1
        elif share < _PLENTY and actors > self.least and mean < _BUSY * (actors - 1):
            change = -1
        self.wanted = min(max(actors + change, self.least), self.most)
        return change

    def _begin(self, now: float) -> None:
        self._begun, self._waited = now, 0.0
        self._busy.clear()
