"""`on_worker_death="restart"`: workers that die are replaced, and nothing is lost."""

import gc
import os
import random
import signal
import time
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from deadly import WAYS, Deadly  # noqa: E402
from torch.utils.data import Dataset, IterableDataset, get_worker_info  # noqa: E402

from feedline.errors import BatchError, SampleError  # noqa: E402
from feedline.torch import DataLoader  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")

# How torch names shared memory of this process.
MINE = f"torch_{os.getpid()}_"

assigned = pytest.mark.parametrize("assignment", ["static", "dynamic"])


def numbers(batches):
    found = []
    for rows, labels in batches:
        assert torch.equal(rows[:, 0], labels)
        assert torch.equal(rows[:, 299], labels)
        found.append(labels.tolist())
    return found


def in_order(length=40, size=4):
    return [list(range(first, first + size)) for first in range(0, length, size)]


@assigned
@pytest.mark.parametrize("way", WAYS)
def test_however_a_worker_dies_the_epoch_is_complete_and_in_order(tmp_path, assignment, way):
    data = Deadly(tmp_path, {0, 13, 14, 39}, way, times=2)
    settings = {"batch_size": 4, "num_workers": 3, "on_worker_death": "restart"}
    loader = DataLoader(data, assignment=assignment, persistent_workers=True, **settings)
    assert numbers(loader) == in_order()
    assert len(list(tmp_path.iterdir())) == 8
    assert loader.stats()["lost_workers"] == 8
    assert numbers(loader) == in_order()


@assigned
def test_threads_that_exit_are_replaced(tmp_path, assignment):
    data = Deadly(tmp_path, {5, 22}, "exit", times=2)
    settings = {"batch_size": 4, "num_workers": 3, "on_worker_death": "restart"}
    loader = DataLoader(data, assignment=assignment, worker_mode="thread", **settings)
    assert numbers(loader) == in_order()


@assigned
def test_the_third_death_is_an_error_of_the_sample(tmp_path, assignment):
    data = Deadly(tmp_path, {13}, times=99)
    settings = {"batch_size": 4, "num_workers": 2, "on_worker_death": "restart"}
    loader = DataLoader(data, assignment=assignment, **settings)
    batches, found = iter(loader), []
    while True:
        try:
            found.append(next(batches)[1].tolist())
        except StopIteration:
            break
        except SampleError as error:
            found.append((error.index, error.failure, str(error)[:64]))
    expected = in_order()
    expected[3] = (13, "death", "sample 13 was being made when a worker died, three times; the la")
    assert found == expected
    assert len(list(tmp_path.iterdir())) == 3


@assigned
@pytest.mark.parametrize("policy", ["skip", "replace"])
def test_a_deadly_sample_goes_by_the_policy(tmp_path, assignment, policy):
    data = Deadly(tmp_path, {13}, times=99)
    settings = {"batch_size": 4, "num_workers": 2, "on_worker_death": "restart"}
    loader = DataLoader(data, assignment=assignment, on_error=policy, **settings)
    expected = in_order()
    expected[3] = [12, 14, 15] if policy == "skip" else [12, 14, 14, 15]
    assert numbers(loader) == expected
    assert [error.index for error in loader.errors] == [13]


def deadly_collate(samples):
    if samples[0][1] == 8:
        os._exit(1)
    return torch.tensor([label for _, label in samples])


def test_a_batch_whose_collation_kills_its_worker_is_an_error_of_the_batch(tmp_path):
    data = Deadly(tmp_path, ())
    settings = {"batch_size": 4, "num_workers": 2, "on_worker_death": "restart"}
    batches = iter(DataLoader(data, collate_fn=deadly_collate, **settings))
    assert next(batches).tolist() == [0, 1, 2, 3]
    assert next(batches).tolist() == [4, 5, 6, 7]
    with pytest.raises(
        BatchError, match=r"\(samples 8, 9, 10, 11\): three workers have died of it"
    ):
        next(batches)
    assert next(batches).tolist() == [12, 13, 14, 15]


def never(worker_id):
    os._exit(1)


def test_workers_that_never_start_are_given_up():
    settings = {"batch_size": 4, "num_workers": 1, "on_worker_death": "restart"}
    loader = DataLoader(range(8), worker_init_fn=never, **settings)
    with pytest.raises(RuntimeError, match="exited unexpectedly, the 10th in a row"):
        next(iter(loader))


# torch's handler raises wherever the main thread is, so also where nobody can catch it.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_by_default_a_death_is_torchs_error(tmp_path):
    loader = DataLoader(Deadly(tmp_path, {5}), batch_size=4, num_workers=2, assignment="dynamic")
    with pytest.raises(RuntimeError, match=r"exited unexpectedly|is killed by signal"):
        numbers(loader)


class Noisy(Deadly):
    def __getitem__(self, index):
        before = torch.rand(200)
        super().__getitem__(index)
        return torch.cat([before, torch.rand(100)]), np.random.rand(), random.random(), index  # noqa: NPY002 - as users draw


def test_with_a_seed_the_random_numbers_are_those_of_a_run_without_deaths(tmp_path):
    (tmp_path / "calm").mkdir()
    (tmp_path / "wild").mkdir()
    settings = {"batch_size": 5, "shuffle": True, "seed": 11, "num_workers": 3}
    calm = list(DataLoader(Noisy(tmp_path / "calm", ()), **settings))
    data = Noisy(tmp_path / "wild", {3, 17, 30}, times=2)
    wild = list(DataLoader(data, on_worker_death="restart", **settings))
    assert len(list((tmp_path / "wild").iterdir())) == 6
    for one, other in zip(calm, wild, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("start", ["spawn", "forkserver"])
def test_successors_start_as_their_predecessors_did(tmp_path, start):
    settings = {"batch_size": 4, "num_workers": 2, "on_worker_death": "restart"}
    data = Deadly(tmp_path, {6}, "left", length=16)
    loader = DataLoader(data, multiprocessing_context=start, **settings)
    assert numbers(loader) == in_order(16)


class Stream(IterableDataset):
    """Every worker has its own numbers; one of them dies on the way."""

    def __init__(self, marks, has_state):
        self.marks, self.at = Path(marks), 0
        if has_state:
            self.state_dict = lambda: {"at": self.at}
            self.load_state_dict = lambda state: setattr(self, "at", state["at"])

    def __iter__(self):
        worker = get_worker_info().id
        while self.at < 12:
            if worker == 1 and self.at in (5, 9) and not (self.marks / str(self.at)).exists():
                (self.marks / str(self.at)).touch()
                os.kill(os.getpid(), signal.SIGKILL)
            self.at += 1
            yield 100 * worker + self.at - 1
        self.at = 0


class Stateful(Stream):
    def __init__(self, marks):
        super().__init__(marks, has_state=False)

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]


def test_an_iterable_dataset_with_a_state_goes_on_where_it_was(tmp_path):
    settings = {"batch_size": 2, "num_workers": 2, "on_worker_death": "restart"}
    loader = DataLoader(Stateful(tmp_path), **settings)
    first = [[100 * worker + i, 100 * worker + i + 1] for i in range(0, 12, 2) for worker in (0, 1)]
    assert [batch.tolist() for batch in loader] == first
    assert len(list(tmp_path.iterdir())) == 2


def test_an_iterable_dataset_without_one_cannot(tmp_path):
    settings = {"batch_size": 2, "num_workers": 2, "on_worker_death": "restart"}
    loader = DataLoader(Stream(tmp_path, has_state=False), **settings)
    with pytest.raises(RuntimeError, match="exited unexpectedly, and its successor would not know"):
        list(loader)


class Slow(Dataset):
    def __init__(self, length):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        time.sleep(0.001)
        return torch.full((500,), index), index


def resources():
    gc.collect()
    # Whatever else runs on the machine has names of its own there.
    names = [path.name for path in Path("/dev", "shm").iterdir()]
    shared = [name for name in names if "feedline" in name or MINE in name]
    return shared, sum(1 for _ in Path("/proc/self/fd").iterdir()), children()


def children():
    pid, found = os.getpid(), 0
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            found += int(entry.read_text().rsplit(")", 1)[1].split()[1]) == pid
        except OSError:
            continue
    return found


def killed_at_random(assignment, length, kills, seed):
    """An epoch during which random workers are killed, as often for each stretch of samples."""
    draws, done, found = random.Random(seed), 0, []
    loader = DataLoader(
        Slow(length),
        batch_size=16,
        num_workers=4,
        assignment=assignment,
        on_worker_death="restart",
    )
    batches = iter(loader)
    for rows, labels in batches:
        assert bool((rows[:, 9] == labels).all())
        found += labels.tolist()
        while done < kills * len(found) // length and done < kills:
            time.sleep(draws.uniform(0, 0.002))
            alive = [worker for worker in batches._workers if worker.is_alive()]
            if not alive:
                break
            os.kill(draws.choice(alive).pid, signal.SIGKILL)
            done += 1
    assert found == list(range(length))
    return done


@assigned
def test_workers_killed_at_random_cost_no_sample_and_leave_nothing(assignment):
    killed_at_random(assignment, 64, 2, seed=0)
    before = resources()
    assert killed_at_random(assignment, 1600, 30, seed=1) == 30
    assert resources() == before


@pytest.mark.slow
@pytest.mark.timeout(3600)
@assigned
def test_five_hundred_kills_over_fifty_thousand_samples(assignment):
    killed_at_random(assignment, 64, 2, seed=0)
    before = resources()
    assert killed_at_random(assignment, 50_000, 500, seed=2) == 500
    assert resources() == before
