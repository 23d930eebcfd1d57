"""Samplers, weights, balance and buckets: which samples come, in which order."""

import copy
import json
import pickle
import random
import threading
from collections import Counter

import numpy as np
import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

import feedline
from feedline.errors import StateError
from pictures import picture, saved

N = 40
LENGTHS = np.random.default_rng(5).integers(1, 100, N)
WEIGHTS = np.random.default_rng(6).random(N)


class Shuffling:
    """A sampler of the user's own, which draws from a global generator."""

    def __iter__(self):
        indices = list(range(N))
        random.shuffle(indices)
        return iter(indices)


class Counting(Sampler):
    """Fewer samples each epoch; it notes when it is asked, and by whom."""

    def __init__(self):
        self.epoch = None
        self.told = []
        self.threads = set()

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        self.told.append(self.epoch)
        self.threads.add(threading.get_ident())
        return iter(range(self.epoch, 10))


def loader(n=N, **settings):
    settings = {"batch_size": 4, "num_workers": 2, "seed": 3} | settings
    return feedline.Loader(feedline.arrays(np.arange(n)), **settings)


def epochs(loader, count=3):
    return [[x.tolist() for (x,) in loader] for _ in range(count)]


def flat(batches):
    return [sample for batch in batches for sample in batch]


def take(loader, count):
    """The next `count` batches, over as many epochs as it takes."""
    batches = []
    while len(batches) < count:
        for (x,) in loader:
            batches.append(x.tolist())
            if len(batches) == count:
                break
    return batches


ORDERS = {
    "list": lambda: {"sampler": [5, 3, 3, -1, 8, 0, 17]},
    "random": lambda: {"sampler": RandomSampler(range(N))},
    "subset": lambda: {"sampler": SubsetRandomSampler([1, 2, 3, 5, 8, 13, 21])},
    "own": lambda: {"sampler": Shuffling()},
    "counting": lambda: {"sampler": Counting()},
    "weights": lambda: {"weights": WEIGHTS},
    "without replacement": lambda: {"weights": WEIGHTS, "replacement": False, "num_samples": 25},
    "buckets": lambda: {"buckets": LENGTHS},
}

each_order = pytest.mark.parametrize("order", ORDERS)


# ---- sequences and samplers


@pytest.mark.parametrize(
    "made",
    [
        list,
        tuple,
        np.array,
        torch.tensor,
        iter,
        lambda indices: (i for i in indices),
        lambda indices: [np.int32(i) for i in indices],
        lambda indices: [torch.tensor(i) for i in indices],
    ],
)
def test_a_list_of_indices_is_delivered_as_it_stands_in_every_epoch(made):
    indices = [7, 3, 3, 39, 0, 12]
    delivered = epochs(loader(sampler=made(indices)))
    assert delivered == [[[7, 3, 3, 39], [0, 12]]] * 3


def test_negative_indices_count_from_the_end():
    assert epochs(loader(sampler=[-1, 0, -N]), 1) == [[[N - 1, 0, 0]]]


@pytest.mark.parametrize(
    "sampler",
    [
        lambda generator: SequentialSampler(range(N)),
        lambda generator: RandomSampler(range(N), generator=generator),
        lambda generator: SubsetRandomSampler(range(5, 30), generator=generator),
        lambda generator: WeightedRandomSampler(WEIGHTS, 50, generator=generator),
    ],
)
def test_torchs_samplers_give_the_batches_that_they_give_torch(sampler):
    def generator():
        return torch.Generator().manual_seed(11)

    expected = torch.utils.data.DataLoader(range(N), batch_size=4, sampler=sampler(generator()))
    delivered = loader(sampler=sampler(generator()))
    assert len(delivered) == len(expected)
    for _ in range(3):
        assert epochs(delivered, 1) == [[batch.tolist() for batch in expected]]


@pytest.mark.parametrize("order", ["random", "subset", "own"])
def test_a_sampler_without_a_generator_follows_from_seed_and_epoch(order):
    first = epochs(loader(**ORDERS[order]()))
    assert len({tuple(flat(epoch)) for epoch in first}) == 3
    torch.manual_seed(1)
    random.seed(1)
    assert epochs(loader(num_workers=0, **ORDERS[order]())) == first
    assert epochs(loader(seed=4, **ORDERS[order]())) != first


def test_global_generators_are_where_they_were_after_a_sampler_was_asked():
    def drawn():
        return random.random(), np.random.rand(), torch.rand(()).item()  # noqa: NPY002

    def seed():
        random.seed(8)
        np.random.seed(8)  # noqa: NPY002
        torch.manual_seed(8)

    seed()
    expected = drawn()
    seed()
    epochs(loader(sampler=Shuffling()))
    epochs(loader(sampler=RandomSampler(range(N))))
    assert drawn() == expected


def test_a_sampler_is_told_the_epoch_and_asked_once_for_each_when_it_begins():
    sampler = Counting()
    asked = loader(sampler=sampler)
    assert len(asked) == 3
    assert sampler.told == [0]
    assert epochs(asked, 1) == [[[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]]
    assert sampler.told == [0]
    iterator = iter(asked)
    assert sampler.told == [0, 1]
    assert next(iterator)[0].tolist() == [1, 2, 3, 4]
    assert epochs(asked, 1) == [[[2, 3, 4, 5], [6, 7, 8, 9]]], "left half-way: the next epoch"
    assert sampler.told == [0, 1, 2]
    assert len(asked) == 2
    assert sampler.threads == {threading.get_ident()}


def test_no_sample_of_the_next_epoch_is_made_before_its_sampler_was_asked():
    made = Counter()

    def note(x):
        made[int(x)] += 1
        return x

    pipeline = feedline.arrays(np.arange(10)).map(note)
    made.clear()
    with feedline.Loader(pipeline, sampler=Counting(), num_workers=2, prefetch=8) as asked:
        for _ in asked:
            pass
    assert made == Counter(range(10))


# ---- ranks


@each_order
def test_ranks_share_what_one_alone_gets(order):
    def ranks(rank, world_size):
        # Alone with the same step, since batches of similar length depend on it.
        batch_size = 12 // world_size
        return loader(batch_size=batch_size, rank=rank, world_size=world_size, **ORDERS[order]())

    alone = epochs(ranks(0, 1))
    shared = [epochs(ranks(rank, 3)) for rank in range(3)]
    for number in range(3):
        expected = flat(alone[number])
        steps = zip(*(flat(epoch[number]) for epoch in shared), strict=True)
        assert flat(steps)[: len(expected)] == expected


def test_a_sampler_that_deals_out_itself_is_refused_where_the_loader_does_so():
    sampler = DistributedSampler(range(N), num_replicas=2, rank=1, seed=3)
    with pytest.raises(ValueError, match=r"DistributedSampler deals out .* pass rank=0 and"):
        loader(sampler=sampler, rank=1, world_size=2)
    expected = []
    for epoch in range(3):
        sampler.set_epoch(epoch)
        expected.append(list(BatchSampler(sampler, 4, False)))
    assert epochs(loader(sampler=sampler, rank=0, world_size=1)) == expected


# ---- states and copies


@each_order
@pytest.mark.parametrize("workers", [0, 2])
def test_a_state_taken_anywhere_goes_on_with_what_was_not_delivered(order, workers):
    whole = take(loader(**ORDERS[order]()), 12)
    first = loader(num_workers=workers, **ORDERS[order]())
    for delivered in range(12):
        state = json.loads(json.dumps(first.state_dict()))
        second = loader(num_workers=0, **ORDERS[order]())
        second.load_state_dict(state)
        assert take(second, 12 - delivered) == whole[delivered:], delivered
        first = loader(num_workers=workers, **ORDERS[order]())
        assert take(first, delivered + 1) == whole[: delivered + 1]


@each_order
def test_what_is_left_of_an_epoch_is_dealt_out_to_other_ranks(order):
    settings = ORDERS[order]
    first = loader(batch_size=1, **settings())
    taken = flat(take(first, 3))
    state = first.state_dict()
    whole = flat(epochs(loader(batch_size=1, **settings()), 1)[0])
    rest = []
    for rank in range(2):
        one = loader(batch_size=1, rank=rank, world_size=2, **settings())
        one.load_state_dict(state)
        rest.append(flat(epochs(one, 1)[0]))
    left = flat(zip(*rest, strict=True))
    assert taken + left[: len(whole) - 3] == whole


@pytest.mark.parametrize(
    ("then", "now", "said"),
    [
        ({"sampler": [1, 2, 3, 4, 5]}, {"sampler": [1, 2, 3, 4, 6]}, "the order's indices differ"),
        ({"weights": WEIGHTS}, {"weights": WEIGHTS + 1}, "the order's weights, or how many"),
        ({"weights": WEIGHTS}, {"weights": WEIGHTS, "num_samples": 9}, "or how many samples"),
        ({"buckets": LENGTHS}, {"buckets": LENGTHS + LENGTHS[::-1]}, "the order's lengths"),
        ({"buckets": LENGTHS}, {"weights": WEIGHTS}, "the order was bucketed by length and is wei"),
        ({"sampler": Shuffling()}, {"sampler": SequentialSampler(range(N))}, "indices differ"),
        (
            {"weights": WEIGHTS},
            {"weights": WEIGHTS, "replacement": False},
            "was weighted with replacement and is weighted without replacement",
        ),
    ],
)
def test_a_state_of_another_order_says_what_differs_and_changes_nothing(then, now, said):
    first = loader(**then)
    take(first, 1)
    second, untouched = loader(**now), loader(**now)
    with pytest.raises(StateError, match=said):
        second.load_state_dict(first.state_dict())
    assert epochs(second) == epochs(untouched)
    second.load_state_dict(first.state_dict(), force=True)
    assert second.epoch == 0


def test_a_state_between_epochs_fits_whatever_the_sampler_says_next():
    first = loader(sampler=Counting())
    take(first, 3)
    state = first.state_dict()
    assert (state["epoch"], state["batch"]) == (1, 0)
    second = loader(sampler=Counting())
    second.load_state_dict(state)
    assert take(second, 1) == [[1, 2, 3, 4]]


@each_order
@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda loader: pickle.loads(pickle.dumps(loader))]
)
def test_a_copy_goes_on_where_the_loader_is(order, copied):
    original = loader(**ORDERS[order]())
    whole = take(loader(**ORDERS[order]()), 14)
    for delivered in (0, 1, 7):
        original = loader(**ORDERS[order]())
        take(original, delivered)
        other = copied(original)
        assert take(other, 14 - delivered) == whole[delivered:]


# ---- weights and balance


@pytest.mark.parametrize("replacement", [True, False])
def test_samples_without_weight_never_come(replacement):
    weights = np.where(np.arange(N) % 3, WEIGHTS, 0.0)
    drawn = [flat(epoch) for epoch in epochs(loader(weights=weights, replacement=replacement), 20)]
    assert all(sample % 3 for epoch in drawn for sample in epoch)
    if replacement:
        assert {len(epoch) for epoch in drawn} == {N}
    else:
        assert all(sorted(epoch) == [i for i in range(N) if i % 3] for epoch in drawn)


def test_samples_come_in_proportion_to_their_weights():
    weights = [1, 2, 3, 0, 10]
    drawn = flat(epochs(loader(5, weights=weights, num_samples=16_000), 1)[0])
    counts = np.bincount(drawn, minlength=5)
    expected = np.array(weights) * 1000
    # Four standard deviations, of a draw that is the same in every run.
    assert (np.abs(counts - expected) <= 4 * np.sqrt(expected)).all(), counts


@pytest.mark.parametrize("made", [list, np.float32, torch.tensor, tuple])
def test_weights_may_be_any_array(made):
    expected = epochs(loader(weights=np.float64(np.float32(WEIGHTS))))
    assert epochs(loader(weights=made(np.float32(WEIGHTS).tolist()))) == expected


@pytest.fixture
def labelled(tmp_path):
    """Pictures of three classes, of which one is rare."""
    counts = [20, 9, 1]
    for label, count in enumerate(counts):
        saved(tmp_path / f"class{label}", [picture(8, 8)] * count)
    return feedline.images(tmp_path).resize((4, 4)), np.repeat([0, 1, 2], counts)


def test_balance_draws_each_class_equally_often(labelled):
    pipeline, labels = labelled
    settings = {"batch_size": 64, "seed": 5, "num_samples": 9000}
    balanced = feedline.Loader(pipeline, balance=True, epochs=1, **settings)
    counts = sum(np.bincount(drawn, minlength=3) for _, drawn in balanced)
    assert (np.abs(counts - 3000) <= 4 * np.sqrt(3000)).all(), counts
    weights = (1 / np.bincount(labels))[labels]
    by_hand = feedline.Loader(pipeline, weights=weights, **settings)
    balanced = feedline.Loader(pipeline, balance=True, **settings)
    for one, other in zip(by_hand, balanced, strict=True):
        assert one[1].tolist() == other[1].tolist()


# ---- buckets


def test_buckets_put_samples_of_similar_length_together_each_once():
    lengths = np.random.default_rng(1).integers(1, 1000, 400)
    one = loader(400, buckets=lengths, batch_size=10, bucket_batches=1)
    for epoch in epochs(one):
        assert sorted(flat(epoch)) == list(range(400))
        spread = [np.ptp(lengths[batch]) for batch in epoch]
        at_random = [np.ptp(lengths[i : i + 10]) for i in range(0, 400, 10)]
        assert np.mean(spread) < np.mean(at_random) / 10


def test_more_batches_per_bucket_are_more_random_and_less_similar():
    lengths = np.arange(400)

    def spread(bucket_batches):
        (epoch,) = epochs(loader(400, buckets=lengths, bucket_batches=bucket_batches), 1)
        return np.mean([np.ptp(batch) for batch in epoch])

    assert spread(1) == 3
    assert spread(1) < spread(4) < spread(100)


WORDS = ["a" * int(length) for length in LENGTHS]


@pytest.mark.parametrize(
    ("pipeline", "field"),
    [
        (feedline.arrays(n=np.arange(N), tokens=LENGTHS), "tokens"),
        (feedline.arrays(np.arange(N), LENGTHS), "1"),
        (feedline.arrays(n=np.arange(N)).map(lambda s: {**s, "text": WORDS[s["n"]]}), "text"),
        (
            feedline.arrays(np.arange(N)).map(
                lambda n: (np.zeros(2 * n), n, np.zeros(LENGTHS[n])),
                ragged={0: "longest", 2: "packed"},
            ),
            "2",
        ),
    ],
)
def test_buckets_by_a_field_are_buckets_by_its_lengths(pipeline, field):
    settings = {"batch_size": 4, "seed": 1}
    by_name = feedline.Loader(pipeline, buckets=field, **settings)
    by_length = feedline.Loader(pipeline, buckets=LENGTHS, **settings)
    assert by_name.state_dict() == by_length.state_dict()


# ---- what cannot be


@pytest.mark.parametrize(
    ("settings", "error", "said"),
    [
        ({"sampler": [1], "shuffle": True}, ValueError, r"shuffle and sampler both .*select"),
        ({"weights": WEIGHTS, "shuffle": True}, ValueError, "leave out shuffle, weights is random"),
        ({"weights": WEIGHTS, "sampler": [1]}, ValueError, "sampler and weights both say"),
        ({"weights": WEIGHTS, "buckets": LENGTHS}, ValueError, "weights and buckets both say"),
        ({"balance": True, "weights": WEIGHTS}, ValueError, "weights and balance both say"),
        ({"num_samples": 5}, ValueError, "num_samples says how many are drawn by weights="),
        ({"sampler": 5}, TypeError, "sampler must be a torch Sampler, .* got int"),
        ({"sampler": []}, ValueError, "sampler gave no index"),
        ({"sampler": [0, N]}, IndexError, f"sampler gave index {N}, and the pipeline has {N} sam"),
        ({"sampler": [-N - 1]}, IndexError, f"sampler gave index -{N + 1}"),
        ({"sampler": [2**70]}, IndexError, "beyond 64 bits"),
        ({"sampler": [[1, 2], [3]]}, TypeError, "whole numbers, .* see batch_size"),
        ({"sampler": [0.5]}, TypeError, "sampler must give whole numbers"),
        ({"sampler": "12"}, TypeError, "sampler must give whole numbers"),
        ({"sampler": np.ones(N, bool)}, TypeError, r"truth values; pipeline.select\(mask\)"),
        ({"sampler": BatchSampler(range(N), 4, False)}, TypeError, "see batch_size"),
        ({"sampler": Counting(), "replay": [{}]}, ValueError, "leave out sampler"),
        ({"weights": WEIGHTS[:-1]}, ValueError, "weights has 39 entries, but the dataset has 40"),
        ({"weights": np.full(N, np.nan)}, ValueError, "weight 0 is NaN; pass a finite number"),
        ({"weights": [*WEIGHTS[:-1], np.inf]}, ValueError, "weight 39 is inf"),
        ({"weights": [*WEIGHTS[:-1], -1]}, ValueError, "weight 39 is -1"),
        ({"weights": np.zeros(N)}, ValueError, "all 40 weights are 0"),
        ({"weights": np.zeros(N), "replacement": False}, ValueError, "all 40 weights are 0"),
        ({"weights": "abc"}, TypeError, "weights must be one number per sample"),
        ({"weights": WEIGHTS.reshape(-1, 2)}, TypeError, r"got an array of shape \(20, 2\)"),
        ({"weights": WEIGHTS + 1j}, TypeError, "weights must be one number per sample"),
        ({"weights": WEIGHTS, "num_samples": 0}, ValueError, "num_samples must be at least 1"),
        ({"weights": WEIGHTS, "num_samples": 2.5}, TypeError, "num_samples must be an integer"),
        (
            {"weights": WEIGHTS, "num_samples": N + 1, "replacement": False},
            ValueError,
            "cannot draw 41 samples without replacement from 40",
        ),
        ({"replacement": 3}, TypeError, "replacement must be True or False"),
        ({"buckets": LENGTHS[1:]}, ValueError, "lengths has 39 entries, but the dataset has 40"),
        ({"buckets": LENGTHS / 2}, TypeError, "one whole number per sample, got float64"),
        ({"buckets": -LENGTHS}, ValueError, "buckets must be lengths from 0 to"),
        ({"buckets": LENGTHS.astype(np.int64) * 2**40}, ValueError, "buckets must be lengths from"),
        ({"buckets": "tokens"}, ValueError, r"names the field 'tokens', and the pipeline has"),
        ({"buckets": LENGTHS, "bucket_batches": 0}, ValueError, "bucket_batches must be at least"),
        ({"balance": 1}, TypeError, "balance must be True or False"),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_do(settings, error, said):
    with pytest.raises(error, match=said):
        loader(**settings)


def test_balance_needs_labels():
    with pytest.raises(ValueError, match=r"balance=True needs a label .*pass weights="):
        feedline.Loader(feedline.arrays(np.zeros((4, 2))), balance=True)


def test_buckets_need_a_field_that_has_lengths():
    pipeline = feedline.arrays(x=np.zeros((4, 7)), y=np.zeros(4))
    with pytest.raises(ValueError, match="'x', which is 7 long in every sample"):
        feedline.Loader(pipeline, buckets="x")
    with pytest.raises(ValueError, match="'y', which holds no length but float64"):
        feedline.Loader(pipeline, buckets="y")


@pytest.mark.parametrize("order", [{"sampler": [1]}, {"weights": np.ones(8)}, {"buckets": [1] * 8}])
def test_a_mixture_has_its_own_order(order):
    half = feedline.arrays(np.arange(4))
    mixed = feedline.mix([half, half], weights=[1, 2])
    with pytest.raises(ValueError, match="a mixture decides itself how often each sample comes"):
        feedline.Loader(mixed, **order)


def test_an_error_of_the_sampler_is_the_users_own():
    class Broken:
        def __iter__(self):
            yield 1
            raise LookupError("no more")

    with pytest.raises(LookupError, match="no more"):
        loader(sampler=Broken())
