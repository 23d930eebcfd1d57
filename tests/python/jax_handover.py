"""Batches as JAX's arrays; `test_handover_jax.py` runs this file in a process of its own."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from handover import BATCH_BYTES, DTYPES, array_of, held, made

import feedline


def test_the_block_returns_when_the_last_of_jax_s_views_dies():
    loader, data = made("dlpack")
    batches = iter(loader)
    (array,) = next(batches)
    view = jnp.from_dlpack(array)
    del array
    assert held(loader) == BATCH_BYTES
    assert sum(1 for _ in batches) == 7
    assert sum(1 for _ in loader) == 8
    assert held(loader) == BATCH_BYTES
    np.testing.assert_array_equal(view, data[:8], err_msg="and nobody wrote to it meanwhile")
    del view
    assert held(loader) == 0


@pytest.mark.parametrize("dtype", [*DTYPES, ml_dtypes.bfloat16])
def test_every_dtype_goes_to_jax(dtype):
    array, values = array_of(dtype)
    with jax.enable_x64(True):
        got = jnp.from_dlpack(array)
        assert got.dtype == values.dtype
        np.testing.assert_array_equal(np.asarray(got), values)


def test_jax_takes_batches_without_a_copy():
    loader, data = made("dlpack")
    for i, (array,) in enumerate(loader):
        on_jax = jax.dlpack.from_dlpack(array)
        assert on_jax.unsafe_buffer_pointer() == np.asarray(array).ctypes.data
        total = jax.jit(lambda x: x.sum(axis=1))(on_jax)
        np.testing.assert_allclose(total, data[8 * i :][:8].sum(axis=1), rtol=1e-5)
    del array, on_jax
    assert held(loader) == 0


def test_jax_trains_on_batches():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(256, 4)).astype(np.float32)
    truth = np.array([1.0, -2.0, 3.0, 0.5], np.float32)
    pipeline = feedline.arrays(x=x, y=x @ truth)
    loader = feedline.Loader(pipeline, batch_size=32, shuffle=True, output="dlpack")

    @jax.jit
    def step(weights, x, y):
        return weights - 0.1 * jax.grad(lambda w: ((x @ w - y) ** 2).mean())(weights)

    weights = jnp.zeros(4)
    for _ in range(20):
        for batch in loader:
            weights = step(weights, jnp.from_dlpack(batch["x"]), jnp.from_dlpack(batch["y"]))
    np.testing.assert_allclose(weights, truth, atol=1e-2)


def test_a_batch_without_elements_goes_to_jax():
    array = np.zeros((4, 2, 0), np.float32)
    loader = feedline.Loader(feedline.arrays(array), batch_size=4, output="dlpack", num_workers=0)
    ((batch,),) = loader
    assert jnp.from_dlpack(batch).shape == (4, 2, 0)
