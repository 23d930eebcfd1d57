"""`worker_mode="auto"` and `num_workers="auto"` of the drop-in."""

import copy
import ctypes
import io
import itertools
import random
import threading
import time

import numpy as np
import pytest
import torch
from torch.utils.data import ConcatDataset, Dataset, IterableDataset, Subset

import feedline
from feedline.torch import DataLoader
from feedline.torch.iterators.auto_mode import AutoMode
from feedline.torch.iterators.choice import Scene, decide, estimate
from feedline.torch.iterators.probe import Facts, probe
from feedline.torch.iterators.trials import Sending, Together
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


class Drawn(Squares):
    """Numbers of two global generators."""

    def __getitem__(self, index):
        return torch.rand(3) + random.random()


class Holding(Squares):
    """Sleeps for a millisecond with the interpreter's lock, or without."""

    def __init__(self, *, holds):
        libc = (ctypes.PyDLL if holds else ctypes.CDLL)(None)
        self.usleep = libc.usleep

    def __getitem__(self, index):
        self.usleep(1000)
        return index


class MainOnly(Squares):
    """Refuses other threads, as a connection of sqlite3 does."""

    pause = 0.001

    def __getitem__(self, index):
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("made in another thread")
        return super().__getitem__(index)


class Diary:
    """What a loader measured, dictated."""

    def __init__(self):
        self.samples, self.fetch_ns, self.batches, self.wait_ns = 0, 0, 0, 0

    def fetched(self):
        return self.samples, self.fetch_ns

    def spent(self):
        return self.batches, self.wait_ns, 0

    def step_seconds(self):
        return 0.0


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
        # With torch's seeds of workers they are made by those, whatever it takes.
        (Facts(100, 1e-6, 1e-6, 1.0, ("torch",)), "process"),
    ],
)
def test_who_makes_batches_follows_from_what_samples_take(facts, mode):
    assert decide(facts, SCENE).mode == mode


def test_samples_that_draw_their_own_numbers_may_be_made_by_the_loop_itself():
    drawing = Facts(100, 1e-6, 1e-6, 1.0, ("torch",))
    assert decide(drawing, SCENE._replace(draws_alike=True)).mode == "inline"
    no_processes = SCENE._replace(barred=(("process", "this torch has none"),))
    assert decide(drawing, no_processes).mode == "inline"


def test_threads_that_cost_each_other_more_than_they_bring_are_not_taken():
    rows = Facts(100, 1e-3, 1e-3, 0.2)
    assert decide(rows, SCENE).mode == "thread"
    assert decide(rows._replace(together=Together(4, 0.5e-3)), SCENE).mode == "process"
    # So many as were tried out bring what they brought; of more, each a share of it.
    waits = Facts(100, 1e-2, 1e-5, 0.0, together=Together(4, 1e-2 / 4))
    for workers in (4, 8):
        scene = SCENE._replace(workers=workers)
        assert estimate("thread", workers, waits, scene)[0] == pytest.approx(1e-2 / workers)


def test_what_sending_takes_counts_for_processes():
    facts = Facts(100, 1e-4, 1e-4, 1.0)
    dear = facts._replace(sending=Sending(1e-3, 1e-3, 1e6))
    assert decide(facts, SCENE).mode == "process"
    assert decide(dear, SCENE).mode == "inline"
    # Memory that is there already makes samples cheaper than in the loop itself.
    shared = Facts(100, 1e-2, 1e-2, 0.05, sending=Sending(3e-3, 1e-4, 1e7))
    assert decide(shared, SCENE).mode == "process"


def test_an_epoch_that_took_longer_than_estimated_speaks_against_its_mode():
    facts = Facts(100, 10e-3, 10e-3, 0.05)
    assert decide(facts, SCENE, now="thread").mode == "thread"
    assert decide(facts, SCENE, now="thread", was_off={"thread": 2.0}).mode == "process"
    # What it is left for must be so much better.
    slower = {"thread": 1.15}
    assert decide(facts, SCENE, now="thread", was_off=slower, worth_it=1.4).mode == "thread"


@pytest.mark.parametrize("seed", range(5))
def test_epochs_of_any_length_make_it_change_its_mind_a_few_times_at_most(seed):
    loader = DataLoader(Squares(), batch_size=4, num_workers=2, worker_mode="auto")
    diary = loader._diary = Diary()
    auto = AutoMode()
    auto._facts = Facts(10**9, 1e-3, 1e-3, 0.4)
    dice, modes = random.Random(seed), []
    for _ in range(200):
        modes.append(auto.choose(loader).mode)
        diary.batches += 100
        diary.wait_ns += int(dice.uniform(0.5e9, 4e9))
    assert sum(one != other for one, other in itertools.pairwise(modes)) <= 6


def test_the_lock_is_seen_where_samples_hold_it():
    # Others may take the processor from the thread that watches: then it is looked at again.
    held = (probe(DataLoader(Holding(holds=True), batch_size=4)) for _ in range(50))
    assert any(facts.locked > 0.8 for facts in held)
    free = (probe(DataLoader(Holding(holds=False), batch_size=4)) for _ in range(50))
    assert any(facts.locked < 0.5 for facts in free)


def test_bytes_of_samples_are_counted():
    tensors = [torch.zeros(10_000) for _ in range(8)]
    facts = probe(DataLoader(tensors, batch_size=4), processes=True)
    assert 40_000 <= facts.sending.size < 50_000


def test_batches_that_cannot_be_pickled_are_not_made_by_processes():
    loader = DataLoader(
        Squares(),
        batch_size=8,
        num_workers=2,
        worker_mode="auto",
        collate_fn=lambda samples: lambda: samples,
    )
    facts = probe(loader, processes=True)
    assert "pickled" in facts.sending
    held = facts._replace(seconds=1.0, processor=1.0, locked=1.0)
    choice = decide(held, SCENE)
    assert choice.mode != "process"
    assert "cannot be pickled" in choice.told()
    assert len([batch() for batch in loader]) == 6


def test_datasets_that_cannot_be_pickled_are_not_sent_to_processes_that_spawn():
    squares = Squares()
    squares.function = lambda: None
    loader = DataLoader(squares, batch_size=8)
    assert isinstance(probe(loader, processes=True).sending, Sending)
    why = probe(loader, processes=True, forks=False).sending
    assert "dataset cannot be pickled" in why


def test_a_dataset_that_refuses_threads_gets_none_and_that_is_told():
    loader = DataLoader(MainOnly(), batch_size=8, num_workers=2, worker_mode="auto")
    assert [x.tolist() for x in loader] == [
        [i * i for i in range(first, first + 8)] for first in range(0, 48, 8)
    ]
    assert loader.stats()["mode"] != "thread"
    facts = probe(loader, threads=2, processes=True)
    assert isinstance(facts.sending, Sending)
    if facts.together is not None:  # else the lock seemed to leave threads no chance
        assert "made in another thread" in facts.together


def test_threads_and_sending_are_tried_out_as_in_earnest():
    waiting = Squares()
    waiting.pause = 0.005
    threads = torch.get_num_threads()
    facts = probe(DataLoader(waiting, batch_size=4), threads=2, processes=True)
    assert facts.sending.seconds >= 0.005
    if facts.together is not None:
        assert facts.together.threads == 2
        assert facts.together.seconds >= 0.0025
    assert torch.get_num_threads() == threads


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


@pytest.mark.parametrize("mode", ["thread", "process", "inline"])
def test_a_mode_that_is_given_makes_batches_whatever_samples_are_like(mode):
    others = [(one, "Python runs elsewhere") for one in ("inline", "thread", "process")]
    scene = SCENE._replace(barred=tuple(it for it in others if it[0] != mode))
    unfit = Facts(100, 1e-3, 1e-3, 1.0, ("torch",), together="it raised", sending="not pickled")
    for facts in (unfit, unfit._replace(moves=())):
        assert decide(facts, scene).mode == mode


def test_threads_that_were_asked_for_make_samples_that_move_global_generators():
    loader = DataLoader(Drawn(), batch_size=8, num_workers="auto", worker_mode="thread")
    assert len(list(loader)) == 6
    assert loader.stats()["mode"] == "thread"


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


class Opening(Squares):
    """Opens files with its first sample."""

    def __init__(self):
        self.file, self.files = None, {}

    def __getitem__(self, index):
        if self.file is None:
            self.file = self.files["one"] = io.BytesIO()
        return len(self.file.readline())


class Wrapping(Squares):
    def __init__(self, inner):
        self.inner = inner

    def __getitem__(self, index):
        return self.inner[index]


class OpeningApart(Opening):
    def __reduce_ex__(self, _):
        raise TypeError("there is only one")


class OpeningAndClosing(Opening):
    def __del__(self):
        if self.file is not None:
            self.file.close()


def test_what_is_opened_to_try_samples_out_is_not_left_open_in_the_dataset():
    opening = Opening()
    datasets = (
        opening,
        Subset(opening, [3, 1]),
        ConcatDataset([Opening(), opening]),
        Wrapping(Subset(opening, range(48))),
    )
    for dataset in datasets:
        assert probe(DataLoader(dataset, batch_size=4), threads=2, processes=True) is not None
        assert (opening.file, opening.files) == (None, {})


@pytest.mark.parametrize("dataset", [OpeningApart, OpeningAndClosing])
def test_a_dataset_that_must_not_be_copied_is_tried_out_itself(dataset):
    opening = dataset()
    assert probe(DataLoader(opening, batch_size=4)) is not None
    assert not opening.file.closed


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


@pytest.mark.parametrize("settings", [{}, {"seed": 5}])
def test_random_numbers_do_not_tell_who_makes_the_batches(settings):
    def batches(mode):
        torch.manual_seed(7)
        random.seed(7)
        loader = DataLoader(
            Drawn(), batch_size=8, num_workers=2, shuffle=True, worker_mode=mode, **settings
        )
        epochs = [[x.tolist() for x in loader] for _ in range(2)]
        # What the loop draws itself is not moved by its samples.
        return epochs, torch.rand(2).tolist(), random.random()

    assert batches("auto") == batches("process")


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
