"""Workers that die or are stuck: noticed, and replaced.

Whoever waits for batches looks after the workers, now and then; while nobody waits, nobody needs
to. torch's SIGCHLD handler, which raises, is told of no worker that may be replaced.

When a process is found dead, in this order:

1. All that it had sent as a whole is received. What it was about to send was never there.
2. Its cells tell which unit it had claimed; its notes, which sample it was at.
3. Memory of its own that a batch is being filled in is borrowed, so that it stays.
4. The unit is on offer again. But a sample that was too slow, or during which the third worker has
   died, is given up; it goes by ``on_error``. A unit outside of whose samples three have died (its
   collate function kills them) costs its batch.
5. Its successor starts, at another place of the hub if something of the dead one's is still in use,
   and is told all that is on offer, and what the dead one had not answered.

The races: a worker may be killed while it claims (2 sees the claim or an open unit), between
sending and ringing (1 looks at the ring), while it publishes memory (3 sees the place, or nobody
ever will), or while its successor is not started yet (it is dead, and found so at the next look). A
worker that is alive may finish a unit that was just given up for time: it is killed first, and what
it had sent then counts. Shutdown sets the flag first, and who shuts down waits for nothing else, so
that nobody is replaced any more.
"""

from __future__ import annotations

from time import monotonic, monotonic_ns
from typing import TYPE_CHECKING, Any

from feedline.torch.workers.board import note_nothing, noted

if TYPE_CHECKING:
    from feedline.torch.iterators.diary import Diary
    from feedline.torch.iterators.manner import Manner
    from feedline.torch.iterators.offering import Offers
    from feedline.torch.workers.offer import Made

__all__ = ["Supervision", "settle"]

# Seconds between two looks.
INTERVAL = 0.05

# A worker that dies so often before it has done anything will not do anything.
MOST_BARREN = 10


class Supervision:
    """Looks after worker processes.

    Parameters
    ----------
    crew
        The processes.
    offers
        What they work on; None: batches of an iterable dataset, worker by worker.
    manner
        Whether the dead are replaced, and how long a sample may take.
    diary
        Where replaced workers are counted.
    """

    def __init__(
        self,
        crew: Any,  # noqa: ANN401 - a ProcessCrew
        offers: Offers | None,
        manner: Manner,
        diary: Diary,
    ) -> None:
        self._crew = crew
        self._offers = offers
        self._manner = manner
        self._diary = diary
        self._next = 0.0

    def look(self, results: Any) -> None:  # noqa: ANN401 - where messages arrive
        """Replace whoever is dead or stuck."""
        now = monotonic()
        if now < self._next or self._crew.is_over():
            return
        self._next = now + INTERVAL
        with self._crew.lock:
            for worker, process in enumerate(self._crew.processes):
                if not process.is_alive():
                    if self._manner.restarts:
                        self._replace(worker, results, None)
                elif self._offers is not None and self._manner.sample_timeout is not None:
                    overdue = late(self._offers, worker, self._manner.sample_timeout)
                    if overdue is not None:
                        self._stop(worker, results, overdue)

    def _stop(self, worker: int, results: Any, overdue: tuple[Made, int]) -> None:  # noqa: ANN401
        key = self._crew.unregister()
        process = self._crew.processes[worker]
        stack = self._crew.stack_of(worker)
        process.kill()
        process.join()
        self._replace(worker, results, (*overdue, stack))
        if key is not None:
            self._crew.register(key)

    def _replace(self, worker: int, results: Any, stopped: tuple[Made, int, str] | None) -> None:  # noqa: ANN401
        crew, offers = self._crew, self._offers
        crew.processes[worker].join()
        results.take_all()
        if offers is None:
            if not crew.due[worker]:
                return  # its dataset is exhausted, or it is not wanted yet
            if not crew.can_go_on(worker):
                msg = (
                    f"DataLoader worker (pid(s) {crew.processes[worker].pid}) exited unexpectedly, "
                    "and its successor would not know where to go on: give the iterable dataset "
                    "state_dict and load_state_dict"
                )
                raise RuntimeError(msg)
            self._count_barren(worker)
        else:
            offers.board.secure(offers.all(), crew.place_of(worker))
            if not settle(offers, worker, offers.claimed(worker), stopped, self._manner):
                self._count_barren(worker)
        self._diary.replaced()
        crew.replace(worker)
        if offers is not None:
            for offer in offers.of_worker(worker):
                crew.send(worker, offer)

    def _count_barren(self, worker: int) -> None:
        self._crew.barren[worker] += 1
        if self._crew.barren[worker] >= MOST_BARREN:
            pid = self._crew.processes[worker].pid
            msg = (
                f"DataLoader worker (pid(s) {pid}) exited unexpectedly, the {MOST_BARREN}th in a "
                "row that did so before it had done anything"
            )
            raise RuntimeError(msg)


def late(offers: Offers, worker: int, limit: float) -> tuple[Made, int] | None:
    """Return unit and position of the sample that a worker is at for too long, if it is."""
    at = noted(offers.board, worker)
    if at is None or monotonic_ns() - at[2] < limit * 1e9:
        return None
    claimed = offers.claimed(worker)
    if claimed is None or claimed.serial != at[0]:
        return None
    return claimed, at[1]


def settle(
    offers: Offers,
    worker: int,
    claimed: Made | None,
    stopped: tuple[Made, int, str] | None,
    manner: Manner,
) -> bool:
    """Put what a worker had claimed on offer again, or give it up; whether it had anything.

    Parameters
    ----------
    offers
        What is on offer.
    worker
        Which worker is gone.
    claimed
        The unit that it has not done.
    stopped
        Unit, position and stack of the sample that it was stopped for; None: it has died.
    manner
        How long a sample may take.
    """
    at = noted(offers.board, worker)
    note_nothing(offers.board, worker)
    if claimed is None:
        return False
    position: int | None
    if stopped is not None and stopped[0] == claimed:
        _, position, stack = stopped
        what = (
            f"was not done after {manner.sample_timeout:g} s in worker {worker}, which was at:\n"
            f"{stack}\nRaise sample_timeout if it may take longer."
        )
        offers.give_up(claimed, offers.error_of(claimed, position, what, "timeout"), position)
        return True
    position = at[1] if at is not None and at[0] == claimed.serial else None
    if offers.died(claimed, position):
        what = f"was being made when a worker died, three times; the last was worker {worker}"
        if position is None:
            what = f"three workers have died of it, the last was worker {worker}"
        offers.give_up(claimed, offers.error_of(claimed, position, what, "death"), position)
    else:
        offers.reopen(claimed)
    return True
