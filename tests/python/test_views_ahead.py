"""Views of blocks that are used again are made before they are needed: nobody can tell."""

import gc
import random
import threading

import numpy as np
import pytest
import torch

import feedline

ROWS, WIDTH, BATCH = 52, 40_000, 8  # batches over 1 MiB; the last one has 4 rows


def rows():
    return np.arange(ROWS * WIDTH, dtype=np.float32).reshape(ROWS, WIDTH)


def made(output, **settings):
    pipeline = feedline.arrays(rows(), np.arange(ROWS))
    settings = {"batch_size": BATCH, "num_workers": 1, "prefetch": 2} | settings
    return feedline.Loader(pipeline, output=output, **settings)


@pytest.mark.parametrize("output", ["numpy", "torch"])
@pytest.mark.parametrize("seed", range(3))
def test_whatever_is_kept_each_batch_shows_its_own_rows(output, seed):
    data, chance = rows(), random.Random(seed)
    loader = made(output, shuffle=True, seed=seed)
    kept = []
    for _ in range(20):
        for x, y in loader:
            np.testing.assert_array_equal(np.asarray(x), data[np.asarray(y)])
            if chance.random() < 0.2:
                kept.append(
                    (chance.choice([x, x[1:], x.reshape(-1)]), x.shape, np.asarray(y).copy())
                )
            if len(kept) > 4:
                del kept[chance.randrange(len(kept))]
        for view, shape, labels in kept:
            whole = data[labels]
            expected = {(shape[0] - 1, WIDTH): whole[1:], (whole.size,): whole.reshape(-1)}
            seen = np.asarray(view)
            np.testing.assert_array_equal(seen, expected.get(seen.shape, whole))
    del x, y, view, seen
    kept.clear()
    assert loader.stats()["memory"]["held_by_user"] == 0


def tracked(kind):
    gc.collect()
    return sum(1 for thing in gc.get_objects() if type(thing) is kind)


@pytest.mark.parametrize(("output", "kind"), [("torch", torch.Tensor), ("numpy", memoryview)])
def test_views_that_wait_are_not_to_be_found(output, kind):
    before = tracked(kind)
    loader = made(output)
    for _ in range(6):
        for batch in loader:
            del batch
    assert tracked(kind) == before
    x, y = next(iter(loader))
    assert tracked(kind) == before + 2, "those that were delivered are ordinary ones"
    del loader, x, y
    assert tracked(kind) == before


def test_a_loader_that_goes_takes_the_views_that_wait_along():
    for output in ["torch", "numpy"]:
        loader = made(output)
        held = [batch for _ in range(4) for batch in loader][-1]
        expected = rows()[48:]
        for _ in range(4):
            for batch in loader:
                del batch
        del loader
        gc.collect()
        np.testing.assert_array_equal(np.asarray(held[0]), expected)


def test_batches_after_inference_can_be_trained_on():
    loader = made("torch")
    with torch.inference_mode():
        for _ in range(6):
            for x, _ in loader:
                assert not x.requires_grad
    weight = torch.ones(WIDTH, requires_grad=True)
    for _ in range(6):
        for x, _ in loader:
            assert not x.is_inference()
            (x @ weight).sum().backward()
    assert torch.allclose(weight.grad, torch.from_numpy(6 * rows().sum(axis=0)), rtol=1e-4)


@pytest.mark.parametrize("output", ["numpy", "torch"])
def test_threads_that_share_a_loader_get_whole_batches(output):
    data, loader = rows(), made(output, num_workers=2)
    wrong = []
    for _ in range(8):
        batches, seen = iter(loader), []

        def take(batches=batches, seen=seen):
            for x, y in batches:
                if not np.array_equal(np.asarray(x), data[np.asarray(y)]):
                    wrong.append(np.asarray(y).copy())
                seen.extend(np.asarray(y).tolist())

        threads = [threading.Thread(target=take) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(seen) == list(range(ROWS))
    assert not wrong


def test_batches_of_many_forms_are_delivered():
    lengths = np.random.default_rng(0).integers(1, 9, size=64)
    pipeline = feedline.arrays(np.arange(64)).map(
        lambda i: np.full(20_000 * lengths[i], i, np.int64), ragged={0: "longest"}, fill=-1
    )
    loader = feedline.Loader(pipeline, batch_size=4, num_workers=2, output="torch")
    for _ in range(6):
        for number, (values, _) in enumerate(loader):
            for row, index in zip(values, range(4 * number, 4 * number + 4), strict=True):
                end = 20_000 * lengths[index]
                assert (row[:end] == index).all()
                assert (row[end:] == -1).all()
