"""`DataLoader(seed=)`: order and random numbers by sample, with any workers, resumed or not."""

import hashlib
import itertools
import json
import random
import warnings
from collections import Counter

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from torch.utils.data import IterableDataset  # noqa: E402

import feedline  # noqa: E402
from feedline.errors import StateError  # noqa: E402
from feedline.torch import DataLoader  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")

MODES = [
    (0, "process"),
    (1, "process"),
    (2, "process"),
    (4, "process"),
    (1, "thread"),
    (2, "thread"),
    (4, "thread"),
]


class Augmented:
    """Samples that draw from every generator there is."""

    def __init__(self, n=13, everything=True):
        self.n, self.everything = n, everything

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        drawn = [float(i), feedline.rng().random()]
        if self.everything:
            drawn += [random.random(), np.random.random(), torch.rand(()).item()]  # noqa: NPY002
        return torch.tensor(drawn, dtype=torch.float64)


def make(mode, dataset=None, **settings):
    workers, kind = mode
    dataset = dataset or Augmented(everything=kind == "process")
    settings = {"batch_size": 4, "shuffle": True, "seed": 6} | settings
    return DataLoader(dataset, num_workers=workers, worker_mode=kind, **settings)


def digest(batches):
    out = hashlib.sha256()
    for batch in batches:
        out.update(f"{batch.dtype}{tuple(batch.shape)}".encode())
        out.update(batch.numpy().tobytes())
    return out.hexdigest()


def epochs(loader, count=2):
    return [digest(loader) for _ in range(count)]


def test_one_hash_per_epoch_whatever_the_workers_and_wherever_it_is_cut():
    for everything in (True, False):
        modes = MODES if not everything else [mode for mode in MODES if mode[1] == "process"]
        reference = epochs(make((0, "process"), Augmented(everything=everything)))
        assert reference[0] != reference[1]
        for mode, other in zip(modes, modes[1:] + modes[:1], strict=True):
            assert epochs(make(mode, Augmented(everything=everything))) == reference, mode
            for cut in range(5):
                first = make(mode, Augmented(everything=everything))
                iterator = iter(first)
                taken = list(itertools.islice(iterator, cut))
                state = json.loads(json.dumps(first.state_dict()))
                del iterator
                second = make(other, Augmented(everything=everything))
                second.load_state_dict(state)
                assert second.state_dict() == state
                hashes = [digest(taken + list(second)), digest(second)]
                assert hashes == reference, (mode, other, cut)


def test_the_training_loops_own_generators_are_left_alone():
    def seeded():
        random.seed(1)
        np.random.seed(1)  # noqa: NPY002
        torch.manual_seed(1)

    def drawn():
        return random.random(), np.random.random(), torch.rand(()).item()  # noqa: NPY002

    seeded()
    # What torch draws for each iterator, with or without a seed of ours.
    torch.empty((), dtype=torch.int64).random_()
    expected = drawn()
    seeded()
    assert len(list(make((0, "process")))) == 4
    assert drawn() == expected


def test_the_order_depends_on_the_seed_and_the_epoch():
    one, two = (make((0, "process"), seed=seed) for seed in (1, 2))
    first = [[int(row[0]) for batch in one for row in batch] for _ in range(2)]
    assert first[0] != first[1]
    assert sorted(first[0]) == list(range(13))
    assert [int(row[0]) for batch in two for row in batch] != first[0]
    plain = make((0, "process"), shuffle=False)
    assert [int(row[0]) for batch in plain for row in batch] == list(range(13))


def test_an_epoch_that_is_left_is_followed_by_the_next():
    reference = epochs(make((0, "process")), 3)
    one = make((0, "process"))
    for _ in one:
        break
    assert epochs(one) == reference[1:]


@pytest.mark.parametrize("drop_last", [False, True])
def test_other_ranks_and_batch_sizes_share_what_is_left(drop_last):
    n, ledger, state = 100, Counter(), None
    left = n
    for world, batch_size, steps in [(3, 4, 2), (2, 3, 5), (4, 2, 100)]:
        # What the first loop after resuming must have: its share of what is left, no less.
        whole, share = left // (world * batch_size), -(-left // world)
        expected = min(steps, whole if drop_last else -(-share // batch_size))
        counts, states = set(), []
        for rank in range(world):
            one = make(
                (0, "process"),
                Augmented(n),
                batch_size=batch_size,
                rank=rank,
                world_size=world,
                drop_last=drop_last,
            )
            if state is not None:
                one.load_state_dict(state)
            iterator = iter(one)
            batches = list(itertools.islice(iterator, steps))
            counts.add(len(batches))
            ledger.update(int(row[0]) for batch in batches for row in batch)
            states.append(one.state_dict())
        assert counts == {expected}
        left -= expected * world * batch_size
        state = states[-1]
    repeated, missing = ledger.total() - len(ledger), n - len(ledger)
    assert repeated <= (0 if drop_last else 3)
    assert missing <= (7 if drop_last else 0)


# Workers, their kind, and whether they persist.
KEPT = [(0, "process", False), (1, "process", True), (2, "thread", False), (2, "thread", True)]


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize(("workers", "kind", "persistent"), KEPT)
def test_the_first_loop_after_resuming_has_the_rest_and_the_others_are_whole(
    workers, kind, persistent, drop_last
):
    def make(batch_size, rank=0, world=1):
        return make_plain(
            (workers, kind),
            batch_size=batch_size,
            persistent_workers=persistent,
            drop_last=drop_last,
            rank=rank,
            world_size=world,
        )

    def loops(loader):
        return [[i for batch in loader for i in batch.tolist()] for _ in range(3)]

    for cut, batch_size, world in [
        (1, 3, 1),
        (1, 5, 1),
        (7, 3, 1),
        (4, 4, 2),
        (8, 3, 1),
        (8, 5, 2),
    ]:
        first = make(5)
        iterator = iter(first)
        taken = [i for batch in itertools.islice(iterator, cut) for i in batch.tolist()]
        state = json.loads(json.dumps(first.state_dict()))
        del iterator
        ranks = []
        for rank in range(world):
            second = make(batch_size, rank, world)
            second.load_state_dict(state)
            ranks.append(loops(second))
        rest, *wholes = ([i for loop in same for i in loop] for same in zip(*ranks, strict=True))
        lost = 40 - len(taken) - len(rest)
        assert 0 <= lost < (world * batch_size if drop_last else 1), (cut, batch_size, world)
        assert len({*taken, *rest}) == 40 - lost
        for whole in wholes:
            most = 40 // (world * batch_size) * world * batch_size
            assert len(set(whole)) == (most if drop_last else 40)


def make_plain(mode, **settings):
    return make(mode, range(40), **settings)


@pytest.mark.parametrize("workers", [0, 2])
def test_an_end_that_was_not_said_is_said_once_however_often_it_is_resumed(workers):
    def make():
        return make_plain((workers, "thread"), batch_size=5)

    reference = make()
    epochs = [[batch.tolist() for batch in reference] for _ in range(3)]
    first = make()
    iterator = iter(first)
    assert [next(iterator).tolist() for _ in range(8)] == epochs[0]
    state = first.state_dict()
    for _ in range(2):
        again = make()
        again.load_state_dict(state)
        iterator = iter(again)
        state = again.state_dict()
    assert list(iterator) == []
    last = make()
    last.load_state_dict(again.state_dict())
    for loader in (again, last):
        assert [[batch.tolist() for batch in loader] for _ in range(2)] == epochs[1:]


def test_an_epoch_counts_when_it_is_begun_whether_or_not_a_batch_was_taken():
    found = []
    for workers in (0, 2):
        loader = make((workers, "thread"), Augmented(everything=False))
        iter(loader)
        found.append(epochs(loader))
    assert found[0] == found[1] == epochs(make((0, "thread"), Augmented(everything=False)), 3)[1:]


@given(st.data())
def test_merged_states_of_ranks_at_unequal_steps_lose_and_repeat_nothing(data):
    n, ledger, states = 96, Counter(), []

    def of_rank(rank, world, batch_size, workers=0):
        return make(
            (workers, "thread"),
            Augmented(n, everything=False),
            batch_size=batch_size,
            rank=rank,
            world_size=world,
        )

    for rank in range(3):
        one = of_rank(rank, 3, 4)
        iterator = iter(one)
        for batch in itertools.islice(iterator, data.draw(st.integers(0, 8))):
            ledger.update(int(row[0]) for row in batch)
        states.append(json.loads(json.dumps(one.state_dict())))
    data.draw(st.randoms()).shuffle(states)
    merged = json.loads(json.dumps(feedline.merge_states(states)))
    left, counts = n - ledger.total(), set()
    for rank in range(2):
        one = of_rank(rank, 2, 3)
        one.load_state_dict(merged)
        batches = list(one)
        counts.add(len(batches))
        ledger.update(int(row[0]) for batch in batches for row in batch)
    # When nothing is left, what comes is the whole epoch after it.
    epochs = 1 if left else 2
    assert len(counts) == 1
    assert set(ledger) == set(range(n))
    assert ledger.total() == epochs * n + left % 2


def test_states_without_a_seed_are_not_merged():
    one = DataLoader(range(8))
    iterator = iter(one)
    next(iterator)
    with pytest.raises(StateError, match="only states of loaders with seed="):
        feedline.merge_states([one.state_dict()])
    two = make((0, "process"), rank=0, world_size=2)
    iter(two)
    with pytest.raises(StateError, match="1 states of 2 ranks"):
        feedline.merge_states([two.state_dict()])


def test_len_is_the_share_of_the_rank():
    assert len(make((0, "process"), Augmented(100), rank=1, world_size=3)) == 9
    assert len(make((0, "process"), Augmented(100))) == 25


def test_another_seed_is_refused_and_can_be_forced():
    one, two = make((0, "process")), make((0, "process"), seed=7)
    iterator = iter(one)
    next(iterator)
    two.load_state_dict(one.state_dict())
    with pytest.raises(StateError, match="the sampler was seed=6 and is seed=7"):
        iter(two)
    two.load_state_dict(one.state_dict(), force=True)
    assert len(list(two)) == 3
    without = DataLoader(Augmented(), batch_size=4, shuffle=True)
    without.load_state_dict(one.state_dict())
    with pytest.raises(StateError, match="sampler was seed=6 and is Random"):
        iter(without)


def test_threads_warn_of_a_dataset_that_moves_global_generators():
    one = make((1, "thread"), Augmented(everything=True))
    with pytest.warns(UserWarning, match=r"random and numpy.random and torch.*feedline.rng"):
        list(one)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(make((1, "thread"), Augmented(everything=False)))


def test_a_sampler_of_the_users_decides_the_order_and_samples_keep_their_numbers():
    order = list(range(12, -1, -1))
    one = make((2, "process"), sampler=order, shuffle=None)
    rows = {int(row[0]): row.tolist() for batch in one for row in batch}
    assert list(rows) == order
    other = make((0, "process"), sampler=list(range(13)), shuffle=None, batch_size=5)
    assert {int(row[0]): row.tolist() for batch in other for row in batch} == rows


def test_datasets_that_make_whole_batches_are_seeded_once():
    class Whole(Augmented):
        def __getitems__(self, indices):
            return [torch.tensor([i, random.random()]) for i in indices]

    one, two = (digest(make((workers, "process"), Whole())) for workers in (0, 2))
    assert one == two


def test_what_makes_no_sense_is_refused():
    class Endless(IterableDataset):
        def __iter__(self):
            yield from range(3)

    with pytest.raises(ValueError, match="rank and world_size deal out the order"):
        DataLoader(range(3), rank=0, world_size=2)
    with pytest.raises(ValueError, match="seed must be at least 0"):
        DataLoader(range(3), seed=-1)
    with pytest.raises(TypeError, match="seed must be an integer"):
        DataLoader(range(3), seed="a")
    assert list(DataLoader(Endless(), seed=1)) == [0, 1, 2]


# ---- what others see of the order


def test_single_samples_come_in_the_order_of_the_seed():
    singles = list(DataLoader(range(20), batch_size=None, shuffle=True, seed=3))
    assert singles == torch.cat(list(DataLoader(range(20), shuffle=True, seed=3))).tolist()
    assert sorted(singles) == list(range(20)) != singles


@pytest.mark.parametrize("world", [1, 2, 3])
def test_the_sampler_says_what_the_loader_delivers(world):
    shares = []
    for rank in range(world):
        settings = {"shuffle": True, "seed": 3, "rank": rank, "world_size": world}
        loader = DataLoader(range(20), batch_size=4, **settings)
        epochs = [torch.cat(list(loader)).tolist() for _ in range(2)]
        sampler = DataLoader(range(20), batch_size=4, **settings).sampler
        assert [list(sampler) for _ in range(2)] == epochs
        assert len(sampler) == len(epochs[0])
        shares += epochs[0]
    assert set(shares) == set(range(20))
    assert len(shares) < 20 + world


def test_an_epoch_can_be_set_as_with_torchs_samplers():
    loader, other = (DataLoader(range(20), batch_size=4, shuffle=True, seed=3) for _ in range(2))
    epochs = [torch.cat(list(loader)).tolist() for _ in range(4)]
    other.sampler.set_epoch(2)
    assert [torch.cat(list(other)).tolist() for _ in range(2)] == epochs[2:]
    # A state counts more than who counts from 0.
    loop = iter(other)
    next(loop)
    loader.load_state_dict(other.state_dict())
    loader.sampler.set_epoch(0)
    fifth = torch.cat(list(loader)).tolist()
    assert len(fifth) == 16
    loader.sampler.set_epoch(1)
    sixth = torch.cat(list(loader)).tolist()
    other.sampler.set_epoch(5)
    assert torch.cat(list(other)).tolist() == sixth


def test_a_loader_made_anew_with_its_sampler_has_its_order():
    loader = DataLoader(range(20), batch_size=4, shuffle=True, seed=3)
    other = DataLoader(range(20), batch_size=4, sampler=loader.sampler, seed=3)
    assert torch.cat(list(other)).tolist() == torch.cat(list(loader)).tolist()
