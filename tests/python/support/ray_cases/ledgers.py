"""The ledger alone, without Ray: what is made next, what is kept, what is made again."""

import numpy as np
import pytest

import feedline


def course(world_size=1):
    from feedline.ray.course import Course

    loader = feedline.Loader(feedline.arrays(np.arange(40)), batch_size=4, rank=0, world_size=1)
    return Course.of(loader.state_dict()).for_world(world_size)


def ledger(memory=1000, ahead=4, **settings):
    from feedline.ray.ledger import Ledger

    return Ledger(memory, ahead, **settings)


def work(book, actor="a", nbytes=100, now=0.0):
    """Make all that may be made; return which batches those were."""
    done = []
    while (name := book.next(now)) is not None:
        book.assign(name, actor, now)
        assert book.finish(name, actor, name, nbytes, now)
        done.append((name.epoch, name.rank, name.number))
    return done


def test_the_next_batches_of_all_ranks_come_before_later_ones():
    book = ledger()
    for rank in range(2):
        book.join(f"r{rank}", course(2), rank, 0, 0, 0.0)
    assert work(book)[:4] == [(0, 0, 0), (0, 1, 0), (0, 0, 1), (0, 1, 1)]


def test_bytes_that_nobody_has_hold_back_all_but_what_a_reader_waits_for():
    book = ledger(memory=250)
    book.join("r", course(), 0, 0, 0, 0.0)
    assert work(book) == [(0, 0, 0), (0, 0, 1)]
    assert book.booked == 200
    assert book.ask("r", 0, 0, (0, 0), 0.0).number == 0
    assert work(book) == []
    assert book.ask("r", 0, 1, (0, 1), 0.0).number == 1
    assert work(book) == [(0, 0, 2)]
    small = ledger(memory=10)
    small.join("r", course(), 0, 0, 0, 0.0)
    assert work(small) == [(0, 0, 0)]


def test_the_next_epoch_follows_unless_there_is_none():
    for epochs, expected in (
        (None, [(0, 0, 9), (1, 0, 0), (1, 0, 1), (1, 0, 2)]),
        (1, [(0, 0, 9)]),
    ):
        book = ledger(epochs=epochs)
        book.join("r", course(), 0, 0, 9, 0.0)
        assert work(book) == expected


def test_what_a_dead_actor_was_at_is_planned_again_first():
    book = ledger()
    book.join("r", course(), 0, 0, 0, 0.0)
    names = [book.next(0.0)]
    book.assign(names[0], "a", 0.0)
    names.append(book.next(0.0))
    book.assign(names[1], "b", 0.0)
    assert book.died("a") == 1
    assert book.next(0.0) == names[0]
    assert not book.finish(names[0], "a", "late", 1, 0.0)


def test_an_overdue_batch_is_made_by_two_and_counts_once():
    book = ledger()
    book.join("r", course(), 0, 0, 0, 0.0)
    name = book.next(0.0)
    book.assign(name, "a", 0.0)
    assert list(book.overdue(0.5)) == []
    assert list(book.overdue(1.5)) == [(name, {"a"})]
    book.assign(name, "b", 1.5)
    assert list(book.overdue(3.0)) == []
    assert book.finish(name, "b", "second", 1, 3.0)
    assert not book.finish(name, "a", "first", 1, 4.0)
    assert book.ask("r", 0, 0, (0, 0), 4.0) == "second"


def test_a_lost_batch_is_made_again():
    book = ledger()
    book.join("r", course(), 0, 0, 0, 0.0)
    work(book)
    book.lost("r", 0, 0)
    assert book.ask("r", 0, 0, (0, 0), 0.0) is None
    assert work(book) == [(0, 0, 0)]
    assert book.made_again == 1


def test_a_reader_that_joins_again_gets_no_batch_that_it_may_have_written_into():
    book = ledger()
    book.join("r", course(), 0, 0, 0, 0.0)
    work(book)
    book.ask("r", 0, 0, (0, 0), 0.0)
    book.join("r", course(), 0, 0, 0, 0.0)
    assert work(book) == [(0, 0, 0)]


def test_calls_that_overtake_each_other_turn_nothing_back():
    book = ledger()
    book.join("r", course(), 0, 0, 0, 0.0)
    work(book)
    book.ask("r", 0, 3, (0, 2), 0.0)
    book.ask("r", 0, 2, (0, 1), 0.0)
    assert (0, 0, 1) not in work(book)


@pytest.mark.parametrize("first", ["fast", "slow"])
def test_two_jobs_get_each_batch_from_one_making_and_the_fast_one_waits(first):
    from feedline.ray.ledger import PATIENCE

    book = ledger(memory=300, ahead=8)
    for reader in sorted(("fast", "slow"), reverse=first == "slow"):
        book.join(reader, course(), 0, 0, 0, 0.0)
    assert work(book) == [(0, 0, 0), (0, 0, 1), (0, 0, 2)]
    for number in range(3):
        assert book.ask("fast", 0, number, (0, number), 0.0).number == number
    assert book.ask("fast", 0, 3, (0, 3), 0.0) is None
    assert work(book) == []
    assert book.ask("slow", 0, 1, (0, 1), 0.0).number == 1
    assert work(book) == [(0, 0, 3)]
    # One that asks for nothing for long is not waited for.
    later = PATIENCE + 1
    assert book.knows("slow", later)
    assert book.ask("fast", 0, 4, (0, 4), later) is None
    book.forget(later)
    assert (0, 0, 4) in work(book, now=later)
    assert book.ask("slow", 0, 1, (0, 1), later) is None
    assert (0, 0, 1) in work(book, now=later)


def test_two_that_are_far_apart_do_not_wait_for_each_other_and_near_ones_do():
    book = ledger(ahead=3, shared=True)
    book.join("far", course(), 0, 0, 0, 0.0)
    book.join("front", course(), 0, 0, 6, 0.0)
    assert work(book) == [(0, 0, 0), (0, 0, 6), (0, 0, 1), (0, 0, 7), (0, 0, 2), (0, 0, 8)]
    # What the one in front has had is not kept for one that comes there much later.
    book.ask("front", 0, 7, (0, 7), 0.0)
    assert (0, 0, 6) not in [(name.epoch, name.rank, name.number) for name in book.batches]
    assert work(book) == [(0, 0, 9)]
    # The far one comes within three batches: from now on each is made once.
    book.ask("far", 0, 4, (0, 4), 0.0)
    assert work(book) == [(0, 0, 4), (0, 0, 5), (0, 0, 6)]


def test_what_is_shared_is_as_it_was_made_and_one_that_joins_again_gets_it():
    book = ledger(shared=True)
    book.join("r", course(), 0, 0, 0, 0.0)
    work(book)
    book.ask("r", 0, 0, (0, 0), 0.0)
    book.join("r", course(), 0, 0, 0, 0.0)
    assert work(book) == []


def test_a_reader_without_a_sign_of_life_is_gone_and_has_to_join_again():
    from feedline.ray.ledger import GONE

    book = ledger()
    book.join("dead", course(), 0, 0, 0, 0.0)
    work(book)
    book.join("other", course(), 0, 0, 2, GONE + 1)
    assert not book.knows("dead", GONE + 1)
    assert min(name.number for name in book.batches) == 2
