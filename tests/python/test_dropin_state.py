"""`feedline.torch.DataLoader`: states as torchdata's StatefulDataLoader has them."""

import itertools
import json
import logging
import pickle

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from stateful_datasets import (  # noqa: E402
    Counting,
    Itself,
    Numbers,
    Plain,
    Stream,
    interrupted,
    loader,
    values,
)
from torch.utils.data import BatchSampler, RandomSampler  # noqa: E402
from torchdata.stateful_dataloader import StatefulDataLoader  # noqa: E402

import feedline  # noqa: E402
from feedline.errors import StateError  # noqa: E402
from feedline.torch import DataLoader  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    # torchdata's own.
    pytest.mark.filterwarnings("ignore:'set_vital' is deprecated"),
]

MODES = [(0, "process"), (2, "thread"), (2, "process"), (3, "process")]
FEW = [(0, "process"), (2, "thread"), (2, "process")]


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("dataset", [Numbers, Counting, Stream, Plain], ids=lambda d: d.__name__)
@pytest.mark.parametrize("batch_size", [3, None])
def test_what_follows_a_state_is_what_was_not_delivered(mode, dataset, batch_size, caplog):
    if mode[1] == "thread" and dataset is Counting:
        pytest.skip("threads share one dataset, and with it one count")
    caplog.set_level(logging.ERROR)

    def make():
        return loader(dataset(), mode, batch_size=batch_size)

    whole = values(make())
    for at in (0, 1, 2, 5, len(whole)):
        before, after, state = interrupted(make, at)
        assert before == whole[:at]
        assert after == whole[at:], (at, state)


@pytest.mark.parametrize("workers", [0, 1, 2, 4])
@pytest.mark.parametrize("dataset", [Stream, Plain], ids=lambda d: d.__name__)
def test_iterables_can_be_cut_anywhere_and_go_on_in_another_kind_of_worker(
    workers, dataset, caplog
):
    caplog.set_level(logging.ERROR)

    def make(kind):
        return loader(dataset(13), (workers, kind), batch_size=2)

    whole = values(torch.utils.data.DataLoader(dataset(13), batch_size=2, num_workers=workers))
    kinds = ["process", "thread"] if workers else ["process"]
    assert [values(make(kind)) for kind in kinds] == [whole] * len(kinds)
    for at in range(len(whole) + 1):
        first = make(kinds[at % len(kinds)])
        iterator = iter(first)
        taken = values(itertools.islice(iterator, at))
        second = make(kinds[at % len(kinds) - 1])
        second.load_state_dict(json.loads(json.dumps(first.state_dict())))
        del iterator
        assert taken + values(second) == whole, at


@pytest.mark.parametrize("mode", FEW, ids=str)
@pytest.mark.parametrize("every", [1, 2, 3, 7, None])
@pytest.mark.parametrize("dataset", [Counting, Stream], ids=lambda d: d.__name__)
def test_snapshots_now_and_then_give_the_same(mode, every, dataset):
    if mode[1] == "thread" and dataset is Counting:
        pytest.skip("threads share one dataset, and with it one count")

    def make():
        return loader(dataset(), mode, batch_size=2, snapshot_every_n_steps=every)

    whole = values(make())
    for at in (1, 3, 4, 9):
        assert interrupted(make, at)[1] == whole[at:], at


@pytest.mark.parametrize("mode", FEW, ids=str)
def test_resume_after_resume_with_fewer_batches_than_workers(mode):
    for dataset in (Numbers, Stream):
        whole = values(loader(dataset(), mode))
        taken, state = [], None
        while len(taken) < len(whole):
            one = loader(dataset(), mode)
            if state is not None:
                one.load_state_dict(state)
                assert one.state_dict() == state
            taken += values(itertools.islice(one, 1))
            state = json.loads(json.dumps(one.state_dict()))
        assert taken == whole


@pytest.mark.parametrize("mode", FEW, ids=str)
def test_the_layout_is_torchdatas(mode):
    def shape(state):
        if isinstance(state, dict):
            return {key: shape(value) for key, value in state.items() if key not in EXTRA}
        return None

    for dataset in (Numbers, Counting, Stream):
        ours, theirs = (
            loader(dataset(), mode, cls=cls) for cls in (DataLoader, StatefulDataLoader)
        )
        if mode[1] == "thread" and dataset is Counting:
            continue
        for one in (ours, theirs):
            iterator = iter(one)
            for _ in range(3):
                next(iterator)
            one.kept = iterator
        a, b = ours.state_dict(), theirs.state_dict()
        assert shape(a) == shape(b)
        if dataset is Counting:
            assert "made" in str(a)
        numbers = ("_num_yielded", "_sampler_iter_yielded", "_iterator_finished")
        if mode[0] == 0:
            assert {k: a[k] for k in numbers} == {k: b[k] for k in numbers}
            assert (a["fetcher_state"], a["dataset_state"]) == (
                b["fetcher_state"],
                b["dataset_state"],
            )
        else:
            assert a["_snapshot"]["_snapshot_step"] == b["_snapshot"]["_snapshot_step"] == 3
            assert a["_snapshot"]["_worker_snapshots"] == b["_snapshot"]["_worker_snapshots"]
            last = "_last_yielded_worker_id"
            assert a["_snapshot"][last] == b["_snapshot"][last]


# What is in our states only.
EXTRA = ("_feedline", "_base_seed")


def test_states_of_stateless_datasets_are_small():
    for workers in (0, 1, 2, 4):
        for settings in ({"shuffle": True}, {"shuffle": True, "seed": 1234}, {}):
            one = loader(Numbers(10**6), (workers, "thread"), **settings)
            iterator = iter(one)
            next(iterator)
            state = one.state_dict()
            # torchdata wants the generator of a shuffled order, as torch has it; else it is text.
            by_torch = settings == {"shuffle": True}
            text = json.dumps(state, default=lambda generator: f"{len(generator)} bytes")
            assert (f'"{len(torch.get_rng_state())} bytes"' in text) == by_torch
            assert (json.loads(text) == state) == (not by_torch)
            # Far into a long epoch numbers are longer.
            text = text.replace('yielded": 1', 'yielded": 300000')
            text = text.replace('"batch": 1,', '"batch": 300000,')
            state = json.loads(text.replace('step": 1', 'step": 300000'))
            assert len(pickle.dumps(state)) <= 1000, (workers, settings)


@pytest.mark.parametrize("mode", FEW, ids=str)
@pytest.mark.parametrize("persistent", [False, True])
def test_shuffled_epochs_go_on_in_the_same_permutation(mode, persistent):
    if persistent and mode[0] == 0:
        pytest.skip("needs workers")

    def make():
        return loader(Numbers(), mode, shuffle=True, persistent_workers=persistent)

    torch.manual_seed(3)
    one = make()
    whole = [values(one) for _ in range(4)]
    del one
    for epoch in range(3):
        for at in (0, 2, 7):
            torch.manual_seed(3)
            first = make()
            seen = [values(first) for _ in range(epoch)]
            iterator = iter(first)
            part = values(itertools.islice(iterator, at))
            state = first.state_dict()
            del iterator, first
            second = make()
            second.load_state_dict(state)
            part += values(second)
            seen.append(part)
            seen += [values(second) for _ in range(3 - epoch)]
            assert seen == whole, (epoch, at)


@pytest.mark.parametrize("mode", FEW, ids=str)
def test_the_end_of_an_epoch_before_and_after_it_was_said(mode):
    def make():
        return loader(Numbers(), mode, shuffle=True)

    torch.manual_seed(5)
    one = make()
    whole = [values(one) for _ in range(4)]
    for said in (False, True):
        torch.manual_seed(5)
        first = make()
        seen = [values(first)]
        iterator = iter(first)
        seen.append([next(iterator).tolist() for _ in range(7)])
        if said:
            assert next(iterator, None) is None
        state = first.state_dict()
        assert state["_iterator_finished"] is said
        second = make()
        second.load_state_dict(state)
        if not said:
            assert values(second) == []
        seen += [values(second) for _ in range(2)]
        assert seen == whole


@pytest.mark.parametrize("mode", FEW, ids=str)
def test_a_generator_of_the_users_is_put_where_it_was(mode):
    def make():
        generator = torch.Generator().manual_seed(9)
        return loader(Numbers(), mode, shuffle=True, generator=generator)

    one = make()
    whole = [values(one) for _ in range(3)]
    before, after, state = interrupted(make, 3)
    assert before + after == whole[0]
    one = make()
    values(one)
    state = one.state_dict()
    two = make()
    two.load_state_dict(state)
    assert [values(two), values(two)] == whole[1:]
    assert len(pickle.dumps(state)) < 8000


def test_a_state_before_all_is_where_the_first_epoch_begins():
    for mode in FEW:
        for dataset in (Numbers, Stream):
            settings = {"shuffle": True} if dataset is Numbers else {}
            one = loader(dataset(), mode, **settings)
            state = one.state_dict()
            two = loader(dataset(), mode, **settings)
            two.load_state_dict(state)
            assert values(two) == values(one)


@pytest.mark.parametrize("mode", FEW, ids=str)
def test_another_batch_size_goes_on_after_the_samples_taken(mode):
    first = loader(Numbers(), mode, batch_size=4)
    iterator = iter(first)
    next(iterator), next(iterator)
    second = loader(Numbers(), mode, batch_size=5)
    second.load_state_dict(first.state_dict())
    assert values(second) == [[8, 9, 10, 11, 12], [13, 14, 15, 16, 17], [18, 19]]


@pytest.mark.parametrize(("one", "other"), list(itertools.permutations(MODES, 2)), ids=str)
def test_another_number_or_kind_of_workers_goes_on_with_the_rest(one, other):
    torch.manual_seed(1)
    whole = values(loader(Numbers(), (0, "process"), shuffle=True))
    torch.manual_seed(1)
    first = loader(Numbers(), one, shuffle=True)
    iterator = iter(first)
    part = values(itertools.islice(iterator, 3))
    second = loader(Numbers(), other, shuffle=True)
    second.load_state_dict(first.state_dict())
    assert part + values(second) == whole


@pytest.mark.parametrize("dataset", [Counting, Stream], ids=lambda d: d.__name__)
def test_states_of_workers_need_as_many_workers(dataset):
    def state(workers):
        one = loader(dataset(), (workers, "process"))
        iterator = iter(one)
        next(iterator)
        return one.state_dict()

    zero = loader(dataset(), (0, "process"))
    zero.load_state_dict(state(2))
    with pytest.raises(AssertionError, match="'_num_yielded' expected for single process"):
        iter(zero)
    two = loader(dataset(), (2, "process"))
    two.load_state_dict(state(0))
    with pytest.raises(AssertionError, match="'_snapshot' expected for multiprocess"):
        iter(two)
    two.load_state_dict(state(3))
    with pytest.raises(AssertionError, match="3 workers"):
        iter(two)


def test_an_iterable_without_a_state_is_fast_forwarded_with_a_warning(caplog):
    for mode in FEW:
        caplog.clear()
        before, after, _ = interrupted(lambda mode=mode: loader(Plain(), mode), 3)
        assert before + after == values(loader(Plain(), mode))
        assert "naively fast-forwarding your dataset by 3 steps" in caplog.text


@pytest.mark.parametrize("mode", [(0, "process"), (2, "process")], ids=str)
def test_a_dataset_that_is_its_own_iterator_is_saved_once(mode):
    def make():
        return loader(Itself(), mode)

    before, after, state = interrupted(make, 3)
    assert before + after == values(make())
    worker = state if mode[0] == 0 else state["_snapshot"]["_worker_snapshots"]["worker_0"]
    assert worker["dataset_state"] is None
    assert worker["fetcher_state"]["dataset_iter_state"]["at"] > 0


class Sampler:
    """A sampler that knows where it is."""

    def __init__(self, n=20):
        self.n, self.at = n, 0

    def __len__(self):
        return self.n

    def __iter__(self):
        begin, self.at = self.at, 0
        for i in range(begin, self.n):
            self.at = i + 1
            yield self.n - 1 - i
        self.at = 0

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]


@pytest.mark.parametrize("mode", FEW, ids=str)
@pytest.mark.parametrize("kind", ["sampler", "batch_sampler", "single", "plain batches"])
def test_samplers_with_and_without_a_state_go_on(mode, kind):
    def make():
        settings = {
            "sampler": {"sampler": Sampler(), "batch_size": 3},
            "batch_sampler": {"batch_sampler": Batches()},
            "single": {"sampler": Sampler(), "batch_size": None},
            "plain batches": {"batch_sampler": [[1, 2], [3], [4, 5, 6], [7]], "batch_size": 1},
        }[kind]
        if kind == "batch_sampler":
            settings["batch_size"] = 1
        workers, mode_ = mode
        return DataLoader(Numbers(), num_workers=workers, worker_mode=mode_, **settings)

    whole = values(make())
    for at in (0, 1, 3):
        before, after, _ = interrupted(make, at)
        assert before == whole[:at]
        assert after == whole[at:], at


class Batches(Sampler):
    def __len__(self):
        return self.n // 2

    def __iter__(self):
        begin, self.at = self.at, 0
        for i in range(begin, self.n // 2):
            self.at = i + 1
            yield [2 * i, 2 * i + 1]
        self.at = 0


def test_a_state_does_not_change_when_iteration_goes_on():
    for mode in FEW:
        one = loader(Stream(), mode)
        iterator = iter(one)
        next(iterator)
        state = one.state_dict()
        copy = pickle.loads(pickle.dumps(state))
        next(iterator)
        assert state == copy


def test_what_does_not_fit_is_named_and_can_be_forced():
    one = loader(Numbers(20), (0, "process"))
    iterator = iter(one)
    next(iterator)
    two = loader(Numbers(30), (0, "process"))
    two.load_state_dict(one.state_dict())
    with pytest.raises(StateError, match=r"had 20 samples and has 30.*force=True"):
        iter(two)
    two.load_state_dict(one.state_dict(), force=True)
    assert values(two)[0] == [3, 4, 5]
    random = loader(Numbers(20), (0, "process"), shuffle=True)
    random.load_state_dict(one.state_dict())
    with pytest.raises(StateError, match="sampler was Sequential and is Random"):
        iter(random)
    random.load_state_dict({})
    assert len(values(random)) == 7


def test_an_error_costs_its_batch_before_and_after_resuming():
    class Bad(Numbers):
        def __getitem__(self, i):
            if i == 4:
                raise ValueError("four")
            return i

    for mode in FEW:
        one = loader(Bad(12), mode)
        iterator = iter(one)
        assert next(iterator).tolist() == [0, 1, 2]
        with pytest.raises(ValueError, match="four"):
            next(iterator)
        two = loader(Bad(12), mode)
        two.load_state_dict(one.state_dict())
        assert values(two) == [[6, 7, 8], [9, 10, 11]]


def test_a_users_own_batch_sampler_over_a_random_one_goes_on():
    def make():
        return DataLoader(Numbers(), batch_sampler=BatchSampler(RandomSampler(Numbers()), 3, False))

    torch.manual_seed(2)
    whole = values(make())
    torch.manual_seed(2)
    before, after, _ = interrupted(make, 2)
    assert before + after == whole


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("settings", [{}, {"seed": 3}], ids=["torch's order", "by seed"])
def test_native_pipelines_go_on_with_the_same_bytes(workers, settings):
    def make(workers=workers):
        pixels = np.arange(40, dtype=np.float32).reshape(20, 2)
        noisy = feedline.arrays(pixels).map(lambda x: x + feedline.rng().normal(size=2))
        return DataLoader(noisy, batch_size=3, shuffle=True, num_workers=workers, **settings)

    def seen(batches):
        return [batch[0].tolist() for batch in batches]

    torch.manual_seed(4)
    one = make()
    whole = [seen(one) for _ in range(3)]
    for at in (0, 1, 5, 7):
        torch.manual_seed(4)
        first = make()
        before = seen(first)
        iterator = iter(first)
        before += seen(itertools.islice(iterator, at))
        state = pickle.loads(pickle.dumps(first.state_dict()))
        del iterator
        second = make(2 - workers)
        second.load_state_dict(state)
        after = seen(second)
        assert before + after == whole[0] + whole[1], at
        assert seen(second) == whole[2]
