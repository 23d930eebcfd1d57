"""`worker_mode="auto"` and `num_workers="auto"` of the drop-in."""

import copy
import random
import time

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset, IterableDataset

import feedline
from feedline.torch import DataLoader
from feedline.torch.iterators.choice import Scene, decide
from feedline.torch.iterators.probe import Facts, probe
from feedline.torch.order.seeding import generator_states

# A machine of four cores, four workers wanted, an epoch of ten thousand samples.
SCENE = Scene(workers=4, cores=4, samples=10_000, batch=64)


class Squares(Dataset):
    """Sample i is i * i, after a pause."""

    pause = 0.0

    def __len__(self):
        return 48

    def __getitem__(self, index):
        time.sleep(self.pause)
        return torch.tensor(index * index)


class Drawing(Squares):
    """Moves two global generators."""

    def __getitem__(self, index):
        random.random()
        torch.rand(1)
        return index


class Streamed(IterableDataset):
    def __iter__(self):
        return iter(range(8))


@pytest.mark.parametrize(
    ("facts", "mode"),
    [
        (Facts(100, 1e-6, 1e-6, 1.0), "inline"),
        (Facts(100, 10e-3, 10e-3, 0.05), "thread"),
        (Facts(100, 10e-3, 10e-3, 0.98), "process"),
        (Facts(100, 10e-3, 1e-5, 0.01), "thread"),
        (Facts(100, 10e-3, 10e-3, 0.05, ("torch",)), "process"),
        (Facts(100, 1e-6, 1e-6, 1.0, ("torch",)), "inline"),
    ],
)
def test_who_makes_batches_follows_from_what_samples_take(facts, mode):
    assert decide(facts, SCENE).mode == mode


def test_processes_that_take_longer_to_start_than_they_save_are_not_started():
    locked = Facts(100, 1e-3, 1e-3, 1.0)
    assert decide(locked, SCENE._replace(samples=100)).mode == "inline"
    assert decide(locked, SCENE._replace(samples=100, stays=True)).mode == "process"
    assert decide(locked, SCENE._replace(samples=2000)).mode == "process"
    assert decide(locked, SCENE._replace(samples=2000, forks=False)).mode == "inline"


def test_what_is_out_of_the_question_is_not_taken_and_is_told():
    barred = SCENE._replace(barred=(("inline", "timeout is for workers"),))
    choice = decide(Facts(100, 1e-6, 1e-6, 1.0), barred)
    assert choice.mode != "inline"
    assert "timeout is for workers" in choice.told()


def test_workers_of_unsaid_number_are_as_many_as_the_cores_serve():
    any_number = SCENE._replace(workers=None)
    assert decide(Facts(100, 10e-3, 10e-3, 0.0), any_number).workers == 4
    assert decide(Facts(100, 10e-3, 5e-3, 0.0), any_number).workers == 8
    assert decide(Facts(100, 10e-3, 0.0, 0.0), any_number).workers == 64
    assert decide(Facts(100, 10e-3, 10e-3, 1.0), any_number) == decide(
        Facts(100, 10e-3, 10e-3, 1.0), SCENE
    )


def test_trying_samples_out_leaves_global_generators_where_they_are():
    loader = DataLoader(Drawing(), batch_size=4)
    before = generator_states()
    facts = probe(loader)
    assert generator_states() == before
    assert facts is not None
    assert facts.moves == ("random", "torch")


def test_samples_that_wait_are_told_from_those_that_compute():
    waiting = Squares()
    waiting.pause = 0.02
    facts = probe(DataLoader(waiting, batch_size=4))
    assert facts is not None
    assert facts.moves == ()
    assert facts.seconds >= 0.02
    assert facts.processor < 0.5 * facts.seconds


def test_a_dataset_that_gives_no_sample_is_not_tried_out():
    class Failing(Squares):
        def __getitem__(self, index):
            raise KeyError(index)

    loader = DataLoader(Failing(), batch_size=4, num_workers=1, worker_mode="auto")
    assert probe(loader) is None
    with pytest.raises(KeyError):
        list(loader)


@pytest.mark.parametrize("pause", [0.0, 0.01])
@pytest.mark.parametrize("workers", [0, 2, "auto"])
def test_batches_are_torchs_whoever_makes_them(pause, workers):
    squares = Squares()
    squares.pause = pause
    settings = {"batch_size": 8, "shuffle": True}
    wanted = torch.utils.data.DataLoader(
        squares, generator=torch.Generator().manual_seed(3), **settings
    )
    auto = DataLoader(
        squares,
        num_workers=workers,
        worker_mode="auto",
        generator=torch.Generator().manual_seed(3),
        **settings,
    )
    for _ in range(2):
        assert [x.tolist() for x in auto] == [x.tolist() for x in wanted]
    assert auto.worker_mode == "auto"
    assert auto.stats()["mode"] in {"inline", "thread", "process"}
    assert "Batches are made by" in auto.explain()


def test_it_changes_its_mind_when_samples_change():
    squares = Squares()
    loader = DataLoader(
        squares, batch_size=4, num_workers=2, worker_mode="auto", persistent_workers=True
    )
    wanted = [[i * i for i in range(first, first + 4)] for first in range(0, 48, 4)]
    modes = []
    for pause in (0.0, 0.0, 0.02, 0.02):
        squares.pause = pause
        assert [x.tolist() for x in loader] == wanted
        modes.append(loader.stats()["mode"])
    # That they sleep is seen in the third epoch, and the fourth is made by workers.
    assert modes[3] != "inline"


def test_zero_workers_are_none_and_iterables_are_not_tried_out():
    inline = DataLoader(Squares(), batch_size=8, num_workers=0, worker_mode="auto")
    list(inline)
    assert inline.stats()["mode"] == "inline"
    streamed = DataLoader(Streamed(), batch_size=4, num_workers=1, worker_mode="auto")
    assert [x.tolist() for x in streamed] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert streamed.stats()["mode"] == "process"


def test_a_mode_that_is_given_is_kept_where_only_the_number_is_left_open():
    loader = DataLoader(Squares(), batch_size=8, num_workers="auto", worker_mode="thread")
    list(loader)
    stats = loader.stats()
    assert stats["mode"] == "thread"
    assert stats["num_workers"] >= 1


def test_a_pipeline_with_workers_left_open_has_a_controller():
    numbers = feedline.arrays(np.arange(32))
    loader = DataLoader(numbers, batch_size=8, num_workers="auto")
    for _ in range(2):
        assert [x.tolist() for (x,) in loader] == np.arange(32).reshape(4, 8).tolist()
    assert loader.stats()["control"]["most_workers"] >= 64


def test_states_go_on_whoever_makes_the_batches():
    first = DataLoader(Squares(), batch_size=8, num_workers=2, worker_mode="auto")
    iterator = iter(first)
    next(iterator)
    state = copy.deepcopy(first.state_dict())
    second = DataLoader(Squares(), batch_size=8, num_workers=1, worker_mode="process")
    second.load_state_dict(state)
    assert [x.tolist() for x in second] == [x.tolist() for x in iterator]


def test_other_words_are_refused():
    with pytest.raises(ValueError, match='"auto"'):
        DataLoader(Squares(), worker_mode="best")
    with pytest.raises(TypeError):
        DataLoader(Squares(), num_workers="many")
