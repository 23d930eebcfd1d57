"""Truncating, padding, masks and packing: brute force is lists in Python."""

import pickle
from itertools import chain

import numpy as np
import pytest

import feedline
from feedline import Vocabulary
from feedline.errors import SampleError

RNG = np.random.default_rng(7)
LENGTHS = [0, 1, 5, 3, 17, 2, 9, 40, 4, 4, 11, 6, 1, 0, 23, 8]
DOCUMENTS = [RNG.integers(1, 1000, n).tolist() for n in LENGTHS]
TOKENS = sorted(chain(*DOCUMENTS))


def documents(lists=DOCUMENTS, dtype=np.int64):
    """Sequences in a field, of which nobody knows how long they are."""
    return feedline.arrays(np.arange(len(lists))).map(
        lambda i: np.array(lists[i], dtype), ragged={0: "packed"}
    )


def batches(pipeline, **options):
    return list(feedline.Loader(pipeline, **({"batch_size": 4, "num_workers": 2} | options)))


def padded(rows, to, *, left=False, value=0):
    out = np.full((len(rows), to), value, np.int64)
    for place, row in zip(out, rows, strict=True):
        if row:
            place[to - len(row) if left else 0 : to if left else len(row)] = row
    return out


@pytest.mark.parametrize("multiple", [None, 1, 8])
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("mask", [False, True])
def test_padding_to_the_longest_of_a_batch(multiple, side, mask):
    pipeline = documents().pad(multiple=multiple, side=side, value=-1, mask=mask)
    for number, (ids, behind) in enumerate(batches(pipeline)):
        rows = DOCUMENTS[4 * number : 4 * number + 4]
        longest = max(map(len, rows))
        to = -(-longest // (multiple or 1)) * (multiple or 1)
        assert (ids == padded(rows, to, left=side == "left", value=-1)).all()
        if mask:
            ones = [[1] * len(row) for row in rows]
            assert behind.dtype == bool
            assert (behind == padded(ones, to, left=side == "left")).all()
        else:
            assert behind.tolist() == list(map(len, rows))


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint16])
def test_padding_to_a_length(side, mask, dtype):
    pipeline = documents(dtype=dtype).pad(40, side=side, value=3, mask=mask)
    rows = np.concatenate([batch[0] for batch in batches(pipeline)])
    assert rows.dtype == dtype
    assert (rows == padded(DOCUMENTS, 40, left=side == "left", value=3)).all()
    if mask:
        masks = np.concatenate([batch[1] for batch in batches(pipeline)])
        ones = [[1] * len(row) for row in DOCUMENTS]
        assert (masks == padded(ones, 40, left=side == "left")).all()


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("length", [0, 3, 100])
def test_truncating(side, length):
    pipeline = documents().truncate(length, side=side)
    got = [row for values, offsets in batches(pipeline) for row in np.split(values, offsets[1:-1])]
    cut = [
        row[:length] if side == "right" else row[max(len(row) - length, 0) :] for row in DOCUMENTS
    ]
    assert [row.tolist() for row in got] == cut


def test_truncating_and_padding_are_one_stage():
    vocabulary = Vocabulary.build(["a b c"])
    texts = feedline.arrays(np.arange(2)).map(lambda i: ["a b c", "b"][i])
    ids = texts.vocabulary(vocabulary, field="0").truncate(2).pad(2)
    assert str(ids).splitlines()[-2].strip() == (
        "vocabulary(5 tokens) + truncate(2) + pad(2), fused"
    )
    assert batches(ids)[0][0].tolist() == [[2, 3], [3, 0]]
    twice = texts.vocabulary(vocabulary, field="0").truncate(2).truncate(1, side="left")
    values, offsets = batches(twice)[0]
    assert (values.tolist(), offsets.tolist()) == ([3, 3], [0, 1, 2])


def test_a_longer_sequence_than_it_is_padded_to_is_an_error_of_its_sample():
    loader = feedline.Loader(documents().pad(20), batch_size=16, on_error="skip")
    (rows,) = next(iter(loader))
    assert len(rows) == 14
    assert "more than the 20 that it is padded to; call truncate(20)" in str(loader.errors[0])
    with pytest.raises(SampleError, match="has 40 tokens"):
        documents().pad(20)[7]


def test_the_share_of_padding_is_reported():
    for pipeline, places in (
        (documents().pad(40), 40 * len(LENGTHS)),
        (documents().pad(), 4 * sum(max(LENGTHS[i : i + 4]) for i in range(0, 16, 4))),
    ):
        # Without workers nothing of the next epoch is made ahead.
        loader = feedline.Loader(pipeline, batch_size=4, num_workers=0)
        list(loader)
        assert loader.stats()["padded"] == {"values": sum(LENGTHS), "places": places}
        share = 100 * (1 - sum(LENGTHS) / places)
        assert f"{share:.0f} % of what padded fields deliver is padding" in loader.explain()


def test_buckets_by_length_have_less_padding():
    lengths = np.random.default_rng(0).integers(0, 100, 400)
    pipeline = documents([[1] * n for n in lengths.tolist()]).pad()
    shares = []
    for buckets in (None, "0"):
        loader = feedline.Loader(pipeline, batch_size=8, buckets=buckets, shuffle=buckets is None)
        assert sum(int(behind.sum()) for _, behind in loader) == lengths.sum()
        stats = loader.stats()["padded"]
        shares.append(1 - stats["values"] / stats["places"])
    assert shares[1] < shares[0] / 3


def test_samples_are_as_long_as_they_were():
    pipeline = documents().pad(multiple=8, mask=True)
    ids, mask = pipeline[2]
    assert (ids.tolist(), mask.tolist()) == (DOCUMENTS[2], [True] * 5)
    ids, length = documents().pad(multiple=8, side="left")[2]
    assert (ids.tolist(), int(length)) == (DOCUMENTS[2], 5)


def test_wrong_arguments_are_named():
    pipeline = documents()
    with pytest.raises(ValueError, match='"longest" or a length'):
        pipeline.pad("shortest")
    with pytest.raises(ValueError, match="at least 1"):
        pipeline.pad(0)
    with pytest.raises(ValueError, match="multiple is for"):
        pipeline.pad(4, multiple=2)
    with pytest.raises(ValueError, match="names the field"):
        pipeline.pad(4, field="other")
    with pytest.raises(ValueError, match="call tokenize before"):
        feedline.arrays(np.arange(3)).pad(4)
    with pytest.raises(ValueError, match="holds no sequences"):
        feedline.arrays(np.arange(3)).pad(4, field="0")


# ---- packing


def split(lists, length):
    """Cut documents that are longer than a row; whole rows first."""
    whole, rests = [], []
    for number, row in enumerate(lists):
        parts = [row[i : i + length] for i in range(0, len(row), length)]
        for part in parts:
            (whole if len(part) == length else rests).append((number, part))
    return whole, rests


def best_fit(lists, length):
    """Best fit, decreasing, by looking at the room of every row."""
    whole, rests = split(lists, length)
    rows = [[part] for _, part in whole]
    room = [0] * len(rows)
    last = list(range(len(rows)))
    rests.sort(key=lambda each: -len(each[1]))
    for turn, (_, part) in enumerate(rests):
        fitting = [i for i in range(len(rows)) if room[i] >= len(part)]
        if fitting:
            best = min(fitting, key=lambda i: (room[i], -last[i]))
            rows[best].append(part)
            room[best] -= len(part)
        else:
            best = len(rows)
            rows.append([part])
            room.append(length - len(part))
            last.append(0)
        last[best] = len(lists) * length + turn
    return rows


def concatenated(lists, length):
    rows, row, left = [], [], length
    for document in lists:
        while document:
            row.append(document[:left])
            document, left = document[left:], left - len(document[:left])
            if left == 0:
                rows.append(row)
                row, left = [], length
    return [*rows, row] if row else rows


def arrays_of(rows, length, value=0):
    tokens = padded([list(chain(*row)) for row in rows], length, value=value)
    segments = padded([[i + 1 for i, part in enumerate(row) for _ in part] for row in rows], length)
    positions = padded([[i for part in row for i in range(len(part))] for row in rows], length)
    mask = padded(
        [[i + 1 < len(part) for part in row for i in range(len(part))] for row in rows], length
    )
    return tokens, segments, positions, mask.astype(bool)


@pytest.mark.parametrize("length", [1, 4, 10, 16, 64])
@pytest.mark.parametrize("method", ["best_fit", "concatenate"])
@pytest.mark.parametrize("workers", [0, 2])
def test_packed_rows_are_those_of_brute_force(length, method, workers):
    pack = best_fit if method == "best_fit" else concatenated
    expected = arrays_of(pack(DOCUMENTS, length), length, value=5)
    rows = documents().pack(length, method=method, value=5)
    assert len(rows) == len(expected[0])
    assert rows.fields == ["0", "segment_ids", "position_ids", "loss_mask"]
    got = [np.concatenate(each) for each in zip(*batches(rows, num_workers=workers), strict=True)]
    for ours, theirs in zip(got, expected, strict=True):
        assert ours.dtype == theirs.dtype
        assert (ours == theirs).all()


def test_an_end_is_put_behind_each_document():
    ended = [[*row, 999] for row in DOCUMENTS]
    expected = arrays_of(best_fit(ended, 16), 16)
    got = batches(documents().pack(16, end=999), batch_size=100)
    assert (got[0][0] == expected[0]).all()
    assert (got[0][3] == expected[3]).all()


@pytest.mark.parametrize("method", ["best_fit", "concatenate"])
def test_each_epoch_can_have_its_own_packing(method):
    rows = documents().pack(16, method=method, reshuffle=True)
    loader = feedline.Loader(rows, batch_size=100, seed=3)
    epochs = [next(iter(loader))[0] for _ in range(2)]
    again = feedline.Loader(rows, batch_size=100, seed=3, num_workers=2)
    assert (next(iter(again))[0] == epochs[0]).all()
    assert len(epochs[0]) == len(epochs[1]) == len(documents().pack(16, method=method))
    for epoch in epochs:
        assert sorted(epoch[epoch > 0]) == TOKENS
    if method == "concatenate":
        assert not (epochs[0] == epochs[1]).all()


def test_packed_rows_have_states_ranks_and_pickles():
    rows = documents().pack(8)
    whole = [batch[0] for batch in batches(rows, shuffle=True, seed=1, batch_size=2)]
    loader = feedline.Loader(rows, batch_size=2, shuffle=True, seed=1)
    iterator = iter(loader)
    first = [next(iterator)[0] for _ in range(3)]
    other = feedline.Loader(pickle.loads(pickle.dumps(rows)), batch_size=2, shuffle=True, seed=1)
    other.load_state_dict(loader.state_dict())
    assert np.array_equal(np.concatenate([*first, *[b[0] for b in other]]), np.concatenate(whole))
    shares = [
        np.concatenate([b[0] for b in batches(rows, rank=rank, world_size=2)]) for rank in (0, 1)
    ]
    # Where rows do not divide by ranks, some come twice.
    assert {token for share in shares for token in share[share > 0].tolist()} == set(TOKENS)


def test_a_document_that_changes_is_an_error_of_its_row():
    lists = [list(row) for row in DOCUMENTS]
    rows = documents(lists).pack(64)
    lists[7].append(1)
    with pytest.raises(SampleError, match="had 40 tokens when rows were packed and has 41 now"):
        batches(rows)


def test_padding_of_the_packing_is_told():
    rows = documents().pack(16)
    share = 1 - sum(LENGTHS) / (16 * len(rows))
    assert f"pack(16, best_fit) [{share:.1%} padding]" in str(rows)
    loader = feedline.Loader(rows, batch_size=3, num_workers=0)
    list(loader)
    assert loader.stats()["padded"] == {"values": sum(LENGTHS), "places": 16 * len(rows)}


def test_the_drop_in_delivers_the_same():
    from feedline.torch import DataLoader

    pipeline = documents().pad(40, mask=True)
    expected = batches(pipeline, shuffle=False)
    got = list(DataLoader(pipeline, batch_size=4, num_workers=2))
    for theirs, ours in zip(got, expected, strict=True):
        assert all((a.numpy() == b).all() for a, b in zip(theirs, ours, strict=True))
