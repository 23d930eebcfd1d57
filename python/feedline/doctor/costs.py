"""What a batch costs, and how long one would take at another setting, by `feedline.model`."""

from __future__ import annotations

from typing import NamedTuple

from feedline.model import Calibration

__all__ = ["Costs"]

# Of what torch's transport takes, how much the drop-in's does: of a few large tensors, which are
# copied, and of many, of which torch makes a file each.
_LARGE, _MANY, _PARTS = 0.3, 0.02, 32

# Workers that need less than this part of the time are not what the loop waits for.
_IDLE = 0.5

# How sharp the edge between two bounds is.
_EDGE = 5

# What torch's transport takes about if nobody is busy: for a batch, a tensor, a byte.
_EACH_BATCH, _EACH_PART, _EACH_BYTE = 3e-4, 6e-4, 5e-10


class Costs(NamedTuple):
    """Seconds of a batch, and who makes it.

    Attributes
    ----------
    workers, prefetch
        Workers, and batches ahead for each.
    on, off
        Making it: on a core, and waiting for something else.
    lock
        The part of `on` that holds a lock which all workers share.
    send, receive
        Moving it: in the worker, and in the loop's process.
    step, step_cpu
        The loop with a perfect loader, and its processor time.
    cores
        Cores there are.
    held
        What taking a batch takes longer because its worker is busy with the next.
    shares_batches
        Whether workers make one batch together.
    factor
        By how much loading takes longer than the model says.
    """

    workers: int
    prefetch: int
    on: float
    off: float
    lock: float
    send: float
    receive: float
    step: float
    step_cpu: float
    cores: int
    held: float = 0.0
    shares_batches: bool = False
    factor: float = 1.0

    def period(self) -> float:
        """Return the seconds between two batches."""
        if not self.workers:
            return self.step + self.factor * (self.on + self.off)
        # The part under the lock is on a core, too.
        costs = {
            "wait": self.off,
            "cpu": max(self.on + self.send - self.lock, 1e-7),
            "lock": self.lock,
            "handover": self.receive + self.held,
        }
        known = Calibration.of_costs(
            costs, cores=self.cores, assignment="samples" if self.shares_batches else "batches"
        )
        rate = known.predict(workers=self.workers, batch_size=1, prefetch=self.prefetch)
        loading = 1 / rate["samples_per_second"] if rate["samples_per_second"] else 0.0
        # A step that computes on these cores takes them from the workers.
        busy = self.on + self.send + self.receive + self.step_cpu
        loop = self.step + self.receive + self.held
        bounds = (loop, self.factor * loading, self.factor * busy / self.cores)
        # Of bounds that are about equal now one holds, now the other.
        return float(sum(bound**_EDGE for bound in bounds) ** (1 / _EDGE))

    def fitted(self, period: float) -> Costs:
        """Return costs that say what was measured."""
        loop = self.step + self.receive + self.held
        if not self.workers:
            making = self.on + self.off
            return self._replace(factor=max((period - self.step) / making, 0.5) if making else 1.0)
        if period < 1.1 * loop:
            return self
        loading = self._replace(step=0.0, receive=0.0, held=0.0, step_cpu=self.step_cpu).period()
        if loading < _IDLE * period:
            # Batches lie ready, so it is taking them that takes longer.
            return self._replace(receive=period - self.step - self.held)
        wanted = (period**_EDGE - loop**_EDGE) ** (1 / _EDGE)
        return self._replace(factor=max(wanted / loading, 0.5)) if loading > 0 else self

    def without(self, *, on: float = 0.0, off: float = 0.0) -> Costs:
        """Return the costs with so much less to make."""
        left = max(self.on - on, 0.0)
        return self._replace(
            on=left,
            lock=min(self.lock, left),
            off=max(self.off - off, 0.0),
            # Workers that have less to do answer sooner.
            held=self.held * (left / self.on if self.on else 1.0),
        )

    def with_held(self, parts: int) -> Costs:
        """Return the costs of which is known what taking a batch of so many tensors takes alone."""
        alone = min(self.receive, _EACH_BATCH + parts * _EACH_PART)
        return self._replace(receive=alone, held=self.receive - alone)

    def without_transport(self) -> Costs:
        """Return the costs of batches that are moved at once."""
        return self._replace(send=0.0, receive=0.0, held=0.0)

    def with_step(self, step: float) -> Costs:
        """Return the costs with another step."""
        return self._replace(step=step, step_cpu=min(self.step_cpu, step))

    def with_workers(self, workers: int) -> Costs:
        """Return the costs with other workers."""
        return self._replace(workers=workers)

    def with_transport_if_none(self, parts: int, size: int) -> Costs:
        """Return the costs with those that worker processes would add, where there are none."""
        if self.workers:
            return self
        moved = _EACH_BATCH + parts * _EACH_PART
        return self._replace(send=moved + size * _EACH_BYTE, receive=moved)

    def unlocked(self) -> Costs:
        """Return the costs of workers that share no lock."""
        return self._replace(lock=0.0)

    def over_feedline(self, parts: int) -> Costs:
        """Return the costs over the drop-in's transport, of batches of so many tensors."""
        left = _MANY if parts >= _PARTS else _LARGE
        return self._replace(
            send=self.send * left, receive=self.receive * left, held=self.held * left
        )

    def best_workers(self, period: float) -> tuple[int, float]:
        """Return the fewest workers that do about as well as any, and the gain over a period."""
        most = max(4 * self.cores, self.workers, 8)
        gains = {
            workers: period / self.with_workers(workers).period() for workers in range(1, most + 1)
        }
        top = max(gains.values())
        best = min(workers for workers, gain in gains.items() if gain > 0.97 * top)
        if self.workers and gains[best] < 1.03:
            return self.workers, 1.0
        return best, gains[best]
