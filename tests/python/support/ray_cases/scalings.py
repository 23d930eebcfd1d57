"""How many actors there should be, and which one is slow: decided by numbers alone."""


def seen(scaling, readers, share, busy, actors, seconds=3.5):
    """Let some seconds pass in which readers waited for a share of the time; return the changes."""
    changes, now = [], 0.0
    while now <= seconds:
        scaling.waited(share * 0.25 * readers)
        changes.append(scaling.change(now, actors, busy, readers))
        now += 0.25
    return sum(changes)


def test_an_actor_is_added_where_readers_wait_and_all_are_busy():
    from feedline.ray.scaling import Scaling

    assert seen(Scaling(1, 4), 2, share=0.3, busy=2.0, actors=2) == 1
    # Readers wait for something else than actors then.
    assert seen(Scaling(1, 4), 2, share=0.3, busy=0.5, actors=2) == 0
    assert seen(Scaling(1, 2), 2, share=0.3, busy=2.0, actors=2) == 0


def test_an_actor_is_taken_away_where_the_others_are_enough():
    from feedline.ray.scaling import Scaling

    assert seen(Scaling(1, 4), 1, share=0.0, busy=1.0, actors=3) == -1
    assert seen(Scaling(1, 4), 1, share=0.0, busy=2.5, actors=3) == 0
    assert seen(Scaling(3, 4), 1, share=0.0, busy=1.0, actors=3) == 0


def test_without_readers_nothing_changes():
    from feedline.ray.scaling import Scaling

    assert seen(Scaling(1, 4), 0, share=0.0, busy=0.0, actors=3) == 0


def stats(*seconds, waited=5.0):
    actors = [
        {"name": f"loader-{n}", "state": "ready", "batches": 10, "seconds_per_batch": one, "pid": n}
        for n, one in enumerate(seconds)
    ]
    counts = dict.fromkeys(
        ("deaths", "replaced", "added", "removed", "made_again", "made_twice", "bytes_under_way"), 0
    )
    return {
        "batches": 10, "seconds_waited": waited, "seconds": 10.0, "actors": actors, "memory": 1,
        "readers": 1, **counts,
    }  # fmt: skip


def test_the_verdict_names_the_slow_actor_and_who_waits():
    from feedline.ray.report import verdict

    told = verdict(stats(0.1, 0.31, 0.1))
    assert "waited 50%" in told
    assert "loader-1 (process 1" in told
    assert "3.1 times" in told
    assert "loader-" not in verdict(stats(0.1, 0.12, 0.1))
    assert "not held up" in verdict(stats(0.1, 0.1, waited=0.01))
