"""What the drop-in measures, and its thread that pins."""

import time

import pytest

torch = pytest.importorskip("torch")

from recorded import recorded_warnings  # noqa: E402
from torch.utils.data import DataLoader as TorchLoader  # noqa: E402
from torch.utils.data import Dataset  # noqa: E402

from feedline.torch import DataLoader  # noqa: E402


class Sleepy(Dataset):
    """Takes some time per sample, and none to collate."""

    def __len__(self):
        return 8

    def __getitem__(self, index):
        time.sleep(0.002)
        return torch.zeros(5000)


MODES = {
    "inline": {},
    "process": {"num_workers": 2, "persistent_workers": True},
    "thread": {"num_workers": 2, "worker_mode": "thread"},
}


@pytest.mark.parametrize("mode", MODES)
def test_every_batch_is_measured(mode):
    loader = DataLoader(Sleepy(), batch_size=2, **MODES[mode])
    for _ in range(2):
        assert len(list(loader)) == 4
    stats = loader.stats()
    assert (stats["mode"], stats["batches"]) == (mode, 8)
    assert stats["num_workers"] == MODES[mode].get("num_workers", 0)
    # A batch is two samples of at least 2 ms each.
    fetch, collate, transport = stats["stages"]
    assert fetch["times"]["count"] == collate["times"]["count"] == 8
    assert fetch["total_ns"] >= 8 * 4_000_000
    assert fetch["times"]["max_ns"] >= fetch["times"]["mean_ns"] >= 4_000_000
    assert collate["total_ns"] > 0
    assert stats["consumer"]["waits"]["count"] == 8
    assert sum(worker["jobs"] for worker in stats["workers"]) == 8
    assert sum(worker["samples"] for worker in stats["workers"]) == stats["samples"] == 16
    if mode == "process":
        assert transport["times"]["count"] == 8
        assert transport["bytes"] == stats["bytes"] >= 8 * 2 * 5000 * 4
    else:
        assert transport["times"]["count"] == stats["bytes"] == 0


@pytest.mark.parametrize("mode", MODES)
def test_it_is_told_in_words(mode):
    loader = DataLoader(Sleepy(), batch_size=2, **MODES[mode])
    assert "iterate first" in loader.explain()
    list(loader)
    words = loader.explain()
    who = {"inline": "the training loop itself", "process": "2 worker processes"}
    assert f"4 batches from {who.get(mode, '2 worker threads')}" in words
    assert "the dataset's samples" in words
    assert ("transport" in words) == (mode == "process")


def test_a_loop_that_does_not_wait_is_told_so():
    loader = DataLoader(Sleepy(), batch_size=2, num_workers=1, worker_mode="thread")
    for _ in loader:
        time.sleep(0.2)
    assert "hardly waits" in loader.explain()


def test_exceptions_are_no_batches():
    class Bad(Sleepy):
        def __getitem__(self, index):
            raise ValueError(index)

    batches = iter(loader := DataLoader(Bad(), num_workers=1, worker_mode="thread"))
    for _ in range(8):
        with pytest.raises(ValueError, match="Caught ValueError"):
            next(batches)
    stats = loader.stats()
    assert stats["batches"] == stats["samples"] == stats["stages"][0]["times"]["count"] == 0
    assert stats["errors"] == 8


# ---- pinning, without an accelerator: the thread is torch's, and so is the protocol


class Pinned:
    """A batch that can be pinned, says where it was, and may refuse."""

    def __init__(self, samples):
        self.samples = samples
        self.pinned_by = None

    def pin_memory(self):
        import threading

        if 4 in self.samples:
            msg = "cannot pin four"
            raise RuntimeError(msg)
        self.pinned_by = threading.current_thread().daemon
        return self


@pytest.mark.parametrize("kind", [TorchLoader, DataLoader])
@pytest.mark.parametrize("persistent", [False, True])
def test_batches_are_pinned_by_a_thread(kind, persistent, monkeypatch):
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))
    if hasattr(torch.accelerator, "current_device_index"):
        monkeypatch.setattr(torch.accelerator, "current_device_index", lambda: 0)
        monkeypatch.setattr(torch.accelerator, "set_device_index", lambda index: None)
    # Older ones ask CUDA.
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    loader = kind(
        range(6),
        2,
        collate_fn=Pinned,
        num_workers=2,
        pin_memory=True,
        persistent_workers=persistent,
    )
    for _ in range(2):
        batches = iter(loader)
        assert [next(batches).samples, next(batches).pinned_by] == [[0, 1], True]
        with pytest.raises(
            RuntimeError, match="Caught RuntimeError in pin memory thread for device"
        ):
            next(batches)
        with pytest.raises(StopIteration):
            next(batches)
    thread, workers = batches._pin_memory_thread, batches._workers
    # Exceptions that were caught here may know the iterator.
    batches._shutdown_workers()
    assert not thread.is_alive()
    assert [worker.exitcode for worker in workers] == [0, 0]


def test_without_an_accelerator_pinning_is_warned_of_where_torch_does():
    said = []
    for kind, how in ((TorchLoader, {}), (DataLoader, {"worker_mode": "thread"})):
        with recorded_warnings() as caught:
            list(kind(range(3), pin_memory=True, num_workers=1, **how))
        said.append([str(one.message) for one in caught])
    assert said[0] == said[1]
