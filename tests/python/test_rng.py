"""`feedline.rng()`: random numbers that depend on the sample and on nothing else."""

import threading

import numpy as np
import pytest

import feedline


def noisy(n=40):
    return feedline.arrays(np.arange(n)).map(
        lambda i: np.array([i, feedline.rng().integers(2**40), feedline.rng().integers(2**40)])
    )


def drawn(pipeline, epochs=1, **settings):
    loader = feedline.Loader(pipeline, **settings)
    return [{int(row[0]): tuple(row[1:]) for (x,) in loader for row in x} for _ in range(epochs)]


@pytest.mark.parametrize("workers", [0, 1, 2, 4])
def test_numbers_depend_on_seed_epoch_and_sample_only(workers):
    reference = drawn(noisy(), 2, seed=7, num_workers=0)
    settings = {"seed": 7, "num_workers": workers}
    assert drawn(noisy(), 2, batch_size=8, **settings) == reference
    shuffled = drawn(noisy(), 2, batch_size=3, shuffle=True, **settings)
    assert shuffled == reference
    assert reference[0] != reference[1]
    assert drawn(noisy(), 1, seed=8, num_workers=workers)[0] != reference[0]


def test_one_call_has_one_generator_and_each_sample_its_own():
    values = drawn(noisy(), num_workers=0)[0]
    flat = [number for pair in values.values() for number in pair]
    assert len(set(flat)) == len(flat)


def test_functions_of_one_pipeline_draw_different_numbers():
    first = feedline.arrays(np.arange(4)).map(lambda _: feedline.rng().integers(2**40))
    # A selection in between keeps the two from being fused into one call.
    both = first.select([0, 1, 2, 3]).map(lambda a: np.array([a, feedline.rng().integers(2**40)]))
    for (x,) in feedline.Loader(both, num_workers=0):
        assert x[0][0] != x[0][1]


def test_it_answers_only_while_a_sample_is_made():
    with pytest.raises(RuntimeError, match="functions that make a sample"):
        feedline.rng()
    _ = drawn(noisy(), num_workers=0)
    with pytest.raises(RuntimeError, match="functions that make a sample"):
        feedline.rng()


def test_a_thread_of_the_function_has_no_sample():
    def make(x):
        caught = []

        def ask():
            try:
                feedline.rng()
            except RuntimeError as error:
                caught.append(error)

        other = threading.Thread(target=ask)
        other.start()
        other.join()
        assert caught
        return x

    assert len(list(feedline.Loader(feedline.arrays(np.arange(3)).map(make), num_workers=1))) == 3
