"""Workers that are started rather than forked: what travels to them, and how often."""

import multiprocessing
import threading
from pathlib import Path

import dropin_datasets as d
import pytest
from recorded import recorded_warnings

torch = pytest.importorskip("torch")

from dropin_started import Counted, Meeting, Shared, first_of  # noqa: E402

from feedline.torch import DataLoader  # noqa: E402
from feedline.torch.workers.payload import Payload  # noqa: E402

# Two interpreters import torch.
pytestmark = pytest.mark.timeout(85)


def open_descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_the_dataset_is_pickled_once_for_all_workers(method):
    Counted.pickled = 0
    before = open_descriptors()
    loader = DataLoader(
        Shared(Counted(40), multiprocessing.get_context(method)),
        batch_size=4,
        num_workers=2,
        multiprocessing_context=method,
        collate_fn=first_of,
        persistent_workers=True,
    )
    for _ in range(2):
        assert [number for number, *_ in loader] == list(range(0, 40, 4))
    assert Counted.pickled == 1
    # What is shared is shared: memory, locks and pipes reached every worker.
    assert all(tensor == 3.5 for _, tensor, _ in loader)
    assert loader.dataset.counter.value == 3 * 40
    assert {pid for *_, pid in loader} == {worker.pid for worker in loader._iterator._workers}
    del loader
    assert open_descriptors() <= before + 3  # the fork server's own


def test_workers_start_side_by_side():
    # A pipe holds 64 KiB: whoever is sent more than that must have read it before the next starts.
    # Here the first worker does not go on reading before the second one reads, too.
    barrier = multiprocessing.get_context("spawn").Barrier(2)
    loader = DataLoader(
        [Meeting(barrier), bytes(10_000_000), "end"],
        sampler=[2, 2],
        num_workers=2,
        multiprocessing_context="spawn",
        collate_fn=first_of,
    )
    assert list(loader) == ["end", "end"]


def test_what_cannot_be_pickled_is_warned_of_and_raised():
    loader = DataLoader(
        range(3), num_workers=2, collate_fn=lambda batch: batch, multiprocessing_context="spawn"
    )
    refused = pytest.raises((AttributeError, TypeError), match="pickle")
    with recorded_warnings() as caught, refused:
        iter(loader)
    found = [str(warning.message) for warning in caught]
    assert any(
        text.startswith("Got pickle error when attempting to start a worker Process.")
        for text in found
    )


def test_a_payload_carries_descriptors():
    content = {"tensor": torch.arange(5.0).share_memory_(), "rows": d.Made(d.a_number, 3)}
    payload = Payload(content)
    arrived = payload.content()
    assert arrived["rows"][2] == 2
    arrived["tensor"][0] = 7
    assert content["tensor"][0] == 7, "shared, not copied"
    payload.close()
    with pytest.raises(TypeError, match="pickle"):
        Payload(threading.Lock())
