"""Token shards: brute force is NumPy on the concatenated files."""

import pickle
import struct

import numpy as np
import pytest

import feedline
from feedline.errors import SampleError

RNG = np.random.default_rng(3)


@pytest.fixture
def shards(tmp_path):
    """Three shards, and all of their tokens."""
    parts = [RNG.integers(0, 60_000, n).astype(np.uint16) for n in (1000, 3, 777)]
    for number, part in enumerate(parts):
        part.tofile(tmp_path / f"shard_{number}.bin")
    return tmp_path / "shard_*.bin", np.concatenate(parts).astype(np.int64)


@pytest.mark.parametrize("length", [1, 7, 64, 1500])
@pytest.mark.parametrize("targets", [False, True])
def test_sequential_windows_cut_the_stream(shards, length, targets):
    pattern, stream = shards
    windows = feedline.tokens(pattern, length=length, windows="sequential", targets=targets)
    count = (len(stream) - targets) // length
    assert len(windows) == count
    arrays = zip(*feedline.Loader(windows, batch_size=16, num_workers=2), strict=True)
    x, *y = [np.concatenate(each) for each in arrays]
    assert x.dtype == np.int64
    assert (x == stream[: count * length].reshape(count, length)).all()
    if targets:
        assert (y[0] == stream[1 : count * length + 1].reshape(count, length)).all()


def test_random_windows_are_windows_and_differ_from_epoch_to_epoch(shards):
    pattern, stream = shards
    windows = feedline.tokens(pattern, length=50, samples=300)
    every = np.lib.stride_tricks.sliding_window_view(stream, 51)
    places = {window.tobytes(): place for place, window in enumerate(every)}
    loader = feedline.Loader(windows, batch_size=32, seed=9, num_workers=2)
    epochs = []
    for _ in range(2):
        starts = []
        for x, y in loader:
            assert (x[:, 1:] == y[:, :-1]).all()
            whole = np.concatenate([x, y[:, -1:]], axis=1)
            starts += [places[row.tobytes()] for row in whole]
        epochs.append(starts)
    assert len(epochs[0]) == 300
    assert epochs[0] != epochs[1]
    assert len(set(epochs[0])) > 200
    assert max(epochs[0]) > 1500
    assert min(epochs[0]) < 200


def test_windows_depend_on_seed_and_epoch_alone_and_a_state_goes_on(shards):
    pattern, _ = shards
    windows = feedline.tokens(pattern, length=10)

    def run(**options):
        loader = feedline.Loader(windows, batch_size=8, **({"seed": 1} | options))
        return np.concatenate([x for x, _ in loader])

    assert (run(num_workers=0) == run(num_workers=3)).all()
    assert not (run() == run(seed=2)).all()
    loader = feedline.Loader(windows, batch_size=8, seed=1)
    iterator = iter(loader)
    first = [next(iterator)[0] for _ in range(5)]
    other = feedline.Loader(pickle.loads(pickle.dumps(windows)), batch_size=8, seed=1)
    other.load_state_dict(loader.state_dict())
    assert (np.concatenate([*first, *[x for x, _ in other]]) == run()).all()


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "int32", "int64"])
def test_every_dtype_becomes_int64(tmp_path, dtype):
    info = np.iinfo(dtype)
    values = np.array([info.min, info.max, 0, 1, 2], dtype)
    values.tofile(tmp_path / "a.bin")
    windows = feedline.tokens(
        tmp_path / "a.bin", dtype, 5, windows="sequential", targets=False, named=True
    )
    assert windows[0]["tokens"].tolist() == values.tolist()


@pytest.mark.parametrize("workers", [0, 2])
def test_windows_that_end_in_another_block_than_they_begin_in_are_whole(tmp_path, workers):
    # Held in blocks of 2 MiB, which are 524,288 of these; windows of 1,000 lie across their ends.
    stream = RNG.integers(0, 1 << 31, 600_000).astype(np.uint32)
    stream.tofile(tmp_path / "x.bin")
    path = tmp_path / "x.bin"
    for length in (1_000, 300_000):
        options = {"dtype": "uint32", "length": length, "windows": "sequential"}
        windows = feedline.tokens(path, targets=False, **options)
        loader = feedline.Loader(windows, batch_size=7, num_workers=workers)
        found = np.concatenate([batch for (batch,) in loader])
        assert (found == stream.reshape(-1, length)).all()


def test_a_held_file_that_changes_before_it_was_read_is_an_error_of_its_windows(tmp_path):
    path = tmp_path / "x.bin"
    np.arange(60_000, dtype=np.uint16).tofile(path)
    windows = feedline.tokens(path, length=100, windows="sequential")
    with path.open("r+b") as file:
        file.truncate(1000)
    with pytest.raises(SampleError, match="has changed since it was opened"):
        next(iter(feedline.Loader(windows, batch_size=4)))


def test_a_file_too_large_to_be_held_is_read_window_by_window(tmp_path):
    path = tmp_path / "large.bin"
    stream = np.arange(140_000_000, dtype=np.uint32).astype(np.uint16)
    stream.tofile(path)
    windows = feedline.tokens(path, length=1024, windows="sequential")
    loader = feedline.Loader(windows, batch_size=32, shuffle=True, num_workers=2)
    for number, (x, y) in enumerate(loader):
        starts = x[:, :1]
        assert (x == (starts + np.arange(1024)) % 65536).all()
        assert (y == (x + 1) % 65536).all()
        if number == 20:
            break
    with path.open("r+b") as file:
        file.truncate(1_000_000)
    with pytest.raises(SampleError, match="has changed"):
        windows[100_000]


class TestHeaders:
    def test_llmc(self, tmp_path):
        tokens = np.arange(100, dtype=np.uint16)
        header = np.zeros(256, np.int32)
        header[:3] = 20240520, 1, len(tokens)
        (tmp_path / "a.bin").write_bytes(header.tobytes() + tokens.tobytes())
        windows = feedline.tokens(
            tmp_path / "a.bin", length=10, windows="sequential", header="llm.c"
        )
        assert windows[3][0].tolist() == list(range(30, 40))
        skipped = feedline.tokens(tmp_path / "a.bin", length=10, windows="sequential", header=1024)
        assert skipped[3][0].tolist() == list(range(30, 40))
        header[2] = 101
        (tmp_path / "b.bin").write_bytes(header.tobytes() + tokens.tobytes())
        with pytest.raises(ValueError, match="says 101 tokens"):
            feedline.tokens(tmp_path / "b.bin", length=10, header="llm.c")
        (tmp_path / "c.bin").write_bytes(bytes(2000))
        with pytest.raises(ValueError, match="magic numbers"):
            feedline.tokens(tmp_path / "c.bin", length=10, header="llm.c")


def megatron(path, documents, dtype=np.uint16, **lies):
    """Write documents as Megatron's IndexedDatasetBuilder does, sequence by sequence."""
    codes = {np.uint8: 1, np.int32: 4, np.int64: 5, np.uint16: 8}
    sequences = [np.array(sequence, dtype) for document in documents for sequence in document]
    path.with_suffix(".bin").write_bytes(b"".join(each.tobytes() for each in sequences))
    lengths = np.array([len(each) for each in sequences], np.int32)
    sizes = lengths.astype(np.int64) * np.dtype(dtype).itemsize
    pointers = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
    firsts = np.cumsum([0, *map(len, documents)]).astype(np.int64)
    lengths, pointers = lies.get("lengths", lengths), lies.get("pointers", pointers)
    firsts = lies.get("firsts", firsts)
    path.with_suffix(".idx").write_bytes(
        b"MMIDIDX\x00\x00"
        + struct.pack(
            "<QBQQ",
            1,
            lies.get("code", codes[dtype]),
            lies.get("count", len(sequences)),
            len(firsts),
        )
        + lengths.tobytes()
        + pointers.tobytes()
        + firsts.tobytes()
    )
    return path.with_suffix(".bin")


DOCUMENTS = [[[1, 2, 3]], [[4], [5, 6]], [[]], [[7, 8, 9, 10, 11]]]
FLAT = [[1, 2, 3], [4, 5, 6], [], [7, 8, 9, 10, 11]]


class TestMegatron:
    @pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int32, np.int64])
    def test_documents(self, tmp_path, dtype):
        paths = [megatron(tmp_path / name, DOCUMENTS, dtype) for name in "ab"]
        documents = feedline.tokens(paths, windows="documents")
        assert [documents[i][0].tolist() for i in range(len(documents))] == FLAT * 2
        rows = documents.pack(8)
        (batch,) = feedline.Loader(rows, batch_size=10)
        assert sorted(batch[0][batch[1] > 0]) == sorted([*range(1, 12)] * 2)

    @pytest.mark.parametrize("method", ["best_fit", "concatenate"])
    @pytest.mark.parametrize("end", [None, 99])
    def test_rows_of_parts_are_those_of_whole_documents(self, tmp_path, method, end):
        rng = np.random.default_rng(5)
        documents = [
            [rng.integers(1, 90, count).tolist() for count in rng.integers(0, 30, sequences)]
            for sequences in rng.integers(1, 4, 60)
        ]
        flat = [[token for sequence in document for token in sequence] for document in documents]
        whole = feedline.arrays(np.arange(60)).map(
            lambda i: np.array(flat[i], np.int64), ragged={0: "packed"}
        )
        paths = [
            megatron(tmp_path / name, some)
            for name, some in (("a", documents[:25]), ("b", documents[25:]))
        ]
        parts = feedline.tokens(paths[0], windows="documents").concat(
            feedline.tokens(paths[1], windows="documents")
        )
        chosen = [*range(0, 60, 2), 59, 7]

        def rows(pipeline):
            packed = pipeline.select(chosen).pack(16, method=method, end=end)
            return [[*map(np.ndarray.tolist, row)] for row in packed]

        assert rows(parts) == rows(whole)

    def test_windows_take_the_dtype_of_the_index(self, tmp_path):
        path = megatron(tmp_path / "a", DOCUMENTS, np.int32)
        windows = feedline.tokens(path, length=5, windows="sequential")
        assert [x.tolist() for x, _ in (windows[0], windows[1])] == [
            [1, 2, 3, 4, 5],
            [6, 7, 8, 9, 10],
        ]
        with pytest.raises(ValueError, match="holds int32, not uint16"):
            feedline.tokens(path, "uint16", 5)

    @pytest.mark.parametrize(
        "lie",
        [
            {"count": 2**60},
            {"count": 10_000},
            {"code": 7},
            {"lengths": np.array([3, 1, 2, 0, 500], np.int32)},
            {"lengths": np.array([3, -1, 2, 0, 5], np.int32)},
            {"pointers": np.array([0, 6, 8, 12, 2**62], np.int64)},
            {"pointers": np.array([0, -6, 8, 12, 12], np.int64)},
        ],
    )
    def test_an_index_that_lies_is_refused(self, tmp_path, lie):
        path = megatron(tmp_path / "a", DOCUMENTS, **lie)
        with pytest.raises(ValueError, match=r"a\.idx"):
            feedline.tokens(path, length=4)

    def test_a_document_larger_than_its_shard_is_refused(self, tmp_path):
        # A megabyte of index that claims petabytes: each sequence is the whole file.
        count = 80_000
        lies = {
            "count": count,
            "lengths": np.full(count, 11, np.int32),
            "pointers": np.zeros(count, np.int64),
            "firsts": np.array([0, count], np.int64),
        }
        path = megatron(tmp_path / "a", DOCUMENTS, **lies)
        assert feedline.tokens(path, length=4, windows="sequential")[0][0].tolist() == [1, 2, 3, 4]
        with pytest.raises(ValueError, match=r"a\.idx.*said to have 880000 tokens.*has 11: "):
            feedline.tokens(path, windows="documents")

    @pytest.mark.parametrize(
        ("firsts", "why"),
        [([1, 2, 5], "begins with sequence 1, not with 0"), ([], "it lists no documents")],
    )
    def test_documents_stay_within_their_shard(self, tmp_path, firsts, why):
        one = megatron(tmp_path / "a", DOCUMENTS)
        other = megatron(tmp_path / "b", DOCUMENTS, firsts=np.array(firsts, np.int64))
        with pytest.raises(ValueError, match=rf"b\.idx.*{why}"):
            feedline.tokens([one, other], windows="documents")

    def test_sequences_behind_the_last_document_are_in_none(self, tmp_path):
        firsts = np.array([0, 1, 3], np.int64)
        paths = [megatron(tmp_path / name, DOCUMENTS, firsts=firsts) for name in "ab"]
        documents = feedline.tokens(paths, windows="documents")
        assert [documents[i][0].tolist() for i in range(len(documents))] == FLAT[:2] * 2

    def test_shards_of_different_dtypes_are_named(self, tmp_path):
        np.arange(10, dtype=np.uint16).tofile(tmp_path / "plain.bin")
        path = megatron(tmp_path / "a", DOCUMENTS, np.int32)
        with pytest.raises(ValueError, match=r"holds int32, and .*plain\.bin` before it uint16"):
            feedline.tokens([tmp_path / "plain.bin", path], length=4)

    def test_documents_need_an_index(self, shards):
        with pytest.raises(ValueError, match=r"no \.idx beside it"):
            feedline.tokens(shards[0], windows="documents")


def test_what_cannot_be_is_refused(tmp_path):
    (tmp_path / "odd.bin").write_bytes(b"123")
    with pytest.raises(ValueError, match="no whole number of uint16"):
        feedline.tokens(tmp_path / "odd.bin")
    (tmp_path / "short.bin").write_bytes(bytes(20))
    with pytest.raises(ValueError, match="needs 11, at least 1, and there are 10"):
        feedline.tokens(tmp_path / "short.bin", length=10)
    with pytest.raises(ValueError, match="fewer than its header"):
        feedline.tokens(tmp_path / "short.bin", header=100)
    with pytest.raises(FileNotFoundError):
        feedline.tokens(tmp_path / "none.bin")
    with pytest.raises(ValueError, match="dtype must be"):
        feedline.tokens(tmp_path / "short.bin", "float32")
    with pytest.raises(ValueError, match="samples says how many random"):
        feedline.tokens(tmp_path / "short.bin", length=2, windows="sequential", samples=4)
