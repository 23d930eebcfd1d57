"""Tar shards, as Python's tarfile writes them and webdataset reads them."""

import gzip
import io
import os
import re
import tarfile
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from webdataset.tariterators import group_by_keys, tar_file_expander

import feedline
from feedline.errors import SampleError

ODD = Path(__file__).parents[3] / "shared" / "data" / "odd" / "tar"
FLOWERS = Path(__file__).parents[3] / "shared" / "data" / "tar"


@pytest.fixture(autouse=True)
def tables(tmp_path, monkeypatch):
    """Tables of shards go to a folder of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "feedline" / "tar"


def write(path, members, mode="w", form=tarfile.GNU_FORMAT):
    with tarfile.open(path, mode, format=form) as archive:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    long_ago = time.time() - 3600
    os.utime(path, (long_ago, long_ago))
    return path


def numbered(first, count):
    """Samples with a picture's bytes, a label and a text."""
    for i in range(first, first + count):
        rng = np.random.default_rng(i)
        yield f"train/{i:05}.jpg", rng.bytes(int(rng.integers(0, 5000)))
        yield f"train/{i:05}.cls", str(i).encode()
        yield f"train/{i:05}.txt", f"nümber {i}".encode()


def samples(pipeline, **settings):
    """All samples as dicts, in the order in which they come."""
    loader = feedline.Loader(pipeline, batch_size=7, epochs=1, **settings)
    batches = ({name: list(values) for name, values in batch.items()} for batch in loader)
    return [
        dict(zip(batch, row, strict=True))
        for batch in batches
        for row in zip(*batch.values(), strict=True)
    ]


def by_webdataset(*paths):
    """Read all samples with webdataset's own functions, but close the files."""
    found = []
    for path in paths:
        with path.open("rb") as file:
            members = tar_file_expander([{"url": str(path), "stream": file}])
            found += list(group_by_keys(members))
    return found


def test_samples_are_those_that_webdataset_reads(tmp_path):
    paths = [write(tmp_path / f"s-{i:03}.tar", numbered(10 * i, 10)) for i in range(3)]
    pipeline = feedline.tar(tmp_path / "s-{000..002}.tar", ["jpg", "cls", "txt", "__key__"])
    expected = by_webdataset(*paths)
    got = samples(pipeline)
    assert len(pipeline) == len(got) == len(expected) == 30
    for ours, theirs in zip(got, expected, strict=True):
        assert ours["jpg"] == theirs["jpg"]
        assert ours["cls"] == int(theirs["cls"])
        assert ours["txt"] == theirs["txt"].decode()
        assert ours["__key__"] == theirs["__key__"]


NAMES = st.text(st.sampled_from("ab.c/_é"), min_size=1, max_size=12).filter(
    lambda name: not name.endswith(("/", ".")) and "//" not in name
)


@given(
    st.lists(st.tuples(NAMES, st.binary(max_size=600)), max_size=12),
    st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT]),
)
def test_whatever_the_names_are_samples_are_those_that_webdataset_reads(
    tmp_path_factory, members, form
):
    folder = tmp_path_factory.mktemp("names")
    # Webdataset refuses a part that comes twice in a row of one key; here it begins a new sample.
    # And a hidden member is a part of its folder to webdataset, and nothing here.
    members = [(n, c) for n, c in members if not n.rsplit("/", 1)[-1].startswith(".")]
    path = write(folder / "a.tar", members, form=form)
    try:
        expected = by_webdataset(path)
    except ValueError:
        return
    if not expected:
        return
    parts = sorted({part for sample in expected for part in sample if part[:2] != "__"})
    pipeline = feedline.tar(path, ["__key__", *parts], cache_dir=folder)
    assert len(pipeline) == len(expected)
    for i, theirs in enumerate(expected):
        there = [part for part in parts if part in theirs]
        one = feedline.tar(path, ["__key__", *there], cache_dir=folder).select([i])
        if any(part.rsplit(".", 1)[-1] in {"cls", "npy"} for part in there):
            continue
        (ours,) = samples(one)
        assert ours["__key__"] == theirs["__key__"]
        assert all(ours[part] == theirs[part] for part in there)


@pytest.mark.parametrize("mode", ["w", "w:gz"])
@pytest.mark.parametrize("workers", [0, 1, 3])
def test_streaming_brings_every_sample_once_in_an_order_of_its_own(tmp_path, mode, workers):
    for i in range(4):
        write(tmp_path / f"{i}.tar", numbered(25 * i, 25), mode)
    pipeline = feedline.tar(tmp_path / "*.tar", ["cls", "jpg"], streaming=True, window=20)
    want = {
        i: content
        for (name, content) in numbered(0, 100)
        if name.endswith("jpg")
        for i in [int(name[6:11])]
    }
    orders = []
    loader = feedline.Loader(pipeline, batch_size=9, shuffle=True, seed=5, num_workers=workers)
    for _ in range(2):
        order = []
        for batch in loader:
            assert batch["jpg"] == [want[i] for i in batch["cls"]]
            order += batch["cls"].tolist()
        assert sorted(order) == list(range(100))
        orders.append(order)
    assert orders[0] != orders[1]
    # The window passes over one shard after the other.
    first = [i // 25 for i in orders[0][:20]]
    assert len(set(first)) == 1
    inline = feedline.Loader(pipeline, batch_size=9, shuffle=True, seed=5, num_workers=0)
    assert [i for batch in inline for i in batch["cls"].tolist()] == orders[0]


def test_streaming_survives_functions_and_caches_between_it_and_the_loader(tmp_path):
    write(tmp_path / "a.tar", numbered(0, 30), "w:gz")
    write(tmp_path / "b.tar", numbered(30, 30), "w:gz")
    pipeline = feedline.tar(tmp_path / "[ab].tar", ["cls"], streaming=True, window=10)
    mapped = pipeline.map(lambda sample: {"twice": 2 * sample["cls"]}).cache()
    loader = feedline.Loader(mapped, batch_size=10, shuffle=True, seed=1, epochs=1)
    first, *rest = [batch["twice"].tolist() for batch in loader]
    assert max(first) - min(first) < 2 * 10, "a window of ten, from one place"
    assert sorted(sum(rest, first)) == [2 * i for i in range(60)]


def test_compressed_shards_ask_to_be_streamed(tmp_path):
    path = write(tmp_path / "a.tar.gz", numbered(0, 3), "w:gz")
    with pytest.raises(ValueError, match=r"a\.tar\.gz.*gzip.*streaming"):
        feedline.tar(path)
    assert len(feedline.tar(path, streaming=True)) == 3


def test_without_streaming_all_samples_are_shuffled_with_each_other(tmp_path):
    for i in range(4):
        write(tmp_path / f"{i}.tar", numbered(25 * i, 25))
    loader = feedline.Loader(
        feedline.tar(tmp_path / "*.tar", ["cls"]), batch_size=100, shuffle=True, seed=0, epochs=1
    )
    (batch,) = loader
    assert sorted(batch["cls"]) == list(range(100))
    assert len({i // 25 for i in batch["cls"][:20]}) == 4


def test_arrays_are_arrays(tmp_path):
    def npy(array):
        file = io.BytesIO()
        np.save(file, array)
        return file.getvalue()

    arrays = [np.arange(6, dtype=np.float32).reshape(2, 3) + i for i in range(4)]
    arrays[2] = np.asfortranarray(arrays[2])
    arrays[3] = arrays[3].astype(">f4")
    members = [(f"{i}.left.npy", npy(array)) for i, array in enumerate(arrays)]
    pipeline = feedline.tar(write(tmp_path / "a.tar", members))
    assert [sample["left.npy"].tolist() for sample in samples(pipeline)] == [
        array.tolist() for array in arrays
    ]
    members.append(("4.left.npy", npy(np.zeros(7))))
    members.append(("5.left.npy", npy(arrays[0])[:-1]))
    pipeline = feedline.tar(write(tmp_path / "a.tar", members))
    loader = feedline.Loader(pipeline, batch_size=6, on_error="skip", epochs=1)
    (batch,) = loader
    assert batch["left.npy"].shape == (4, 2, 3)
    assert ["shape [7]" in str(error) for error in loader.errors] == [True, False]
    assert "cut off" in str(loader.errors[1])


@pytest.mark.parametrize("label", [b"seven", b"", b"1e3", b"99999999999999999999", b"\xff"])
def test_a_label_that_is_none_is_its_samples_error(tmp_path, label):
    path = write(tmp_path / "a.tar", [("0.cls", b"1"), ("1.cls", label), ("2.cls", b" -2\n")])
    loader = feedline.Loader(feedline.tar(path), batch_size=3, on_error="skip", epochs=1)
    (batch,) = loader
    assert batch["cls"].tolist() == [1, -2]
    (error,) = loader.errors
    assert (error.index, error.stage) == (1, "decode")
    assert error.origin == f"{path}[1]"


def test_a_sample_that_lacks_a_part_is_an_error_and_pairs_with_no_other(tmp_path):
    members = [("0.jpg", b"a"), ("0.cls", b"0"), ("1.jpg", b"b"), ("2.jpg", b"c"), ("2.cls", b"2")]
    pipeline = feedline.tar(write(tmp_path / "a.tar", members), ["jpg", "cls"])
    with pytest.raises(SampleError, match="no part `cls`"):
        samples(pipeline)
    assert [s["jpg"] for s in samples(pipeline, on_error="skip")] == [b"a", b"c"]


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_a_shard_that_was_cut_off_is_an_error_and_never_a_shorter_epoch(tmp_path, mode):
    whole = write(tmp_path / "a.tar", numbered(0, 5), mode).read_bytes()
    for cut in (len(whole) // 3 + 100, len(whole) // 2 + 1, 700):
        (tmp_path / "cut.tar").write_bytes(whole[:cut])
        with pytest.raises((ValueError, OSError), match=r"cut\.tar"):
            feedline.tar(tmp_path / "cut.tar", streaming=mode != "w")


def test_what_was_found_in_a_shard_is_kept_until_it_changes(tmp_path, tables):
    path = write(tmp_path / "a.tar", numbered(0, 5))
    assert len(feedline.tar(path)) == 5
    (table,) = tables.iterdir()
    before = table.stat().st_mtime_ns
    assert len(feedline.tar(path)) == 5
    assert table.stat().st_mtime_ns == before
    write(path, numbered(0, 6))
    assert len(feedline.tar(path)) == 6
    table.write_bytes(b"nonsense")
    assert len(feedline.tar(path)) == 6
    other = tmp_path / "elsewhere"
    assert len(feedline.tar(path, cache_dir=other)) == 6
    assert len(list(other.iterdir())) == 1


@pytest.mark.parametrize("streaming", [False, True])
def test_a_shard_rewritten_between_epochs_never_gives_other_samples(tmp_path, streaming):
    members = [(f"{i:04}.cls", str(i).encode()) for i in range(300)]
    path = write(tmp_path / "a.tar", members)
    pipeline = feedline.tar(path, ["__key__", "cls"], streaming=streaming)
    loader = feedline.Loader(pipeline, batch_size=10, num_workers=0, on_error="skip")

    def pairs():
        return [pair for b in loader for pair in zip(b["__key__"], b["cls"].tolist(), strict=True)]

    right = [(f"{i:04}", i) for i in range(300)]
    assert sorted(pairs()) == right
    with tarfile.open(path, "w") as archive:
        for i in range(400):
            member = tarfile.TarInfo(f"other/{i:04}.cls")
            member.size = 4
            archive.addfile(member, io.BytesIO(b"%4d" % (9000 - i)))
    assert set(pairs()) <= set(right), "what was read before the change, and nothing else"
    assert loader.errors
    for error in loader.errors:
        assert error.origin.startswith(str(path))
        assert re.search(
            "the shard has changed since it was opened: .*bytes.*open it again", str(error)
        )
    again = feedline.tar(path, ["__key__", "cls"], streaming=streaming)
    assert [s["cls"] for s in samples(again)] == [9000 - i for i in range(400)]


def test_a_tail_that_became_zeros_is_an_error_and_never_a_shorter_epoch(tmp_path):
    whole = bytearray(write(tmp_path / "a.tar", numbered(0, 200)).read_bytes())
    assert len(feedline.tar(tmp_path / "a.tar")) == 200
    whole[len(whole) * 4 // 5 :] = bytes(len(whole) - len(whole) * 4 // 5)
    (tmp_path / "zeros.tar").write_bytes(whole)
    (tmp_path / "zeros.tar.gz").write_bytes(gzip.compress(whole))
    for path, streaming in [("zeros.tar", False), ("zeros.tar", True), ("zeros.tar.gz", True)]:
        with pytest.raises(ValueError, match=r"zeros.*copy or make it again"):
            feedline.tar(tmp_path / path, streaming=streaming)


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT])
def test_archives_of_any_number_of_members_and_one_behind_the_other_are_whole(tmp_path, form):
    parts = []
    for count in range(1, 25):
        path = write(tmp_path / "a.tar", numbered(0, count), form=form)
        assert len(feedline.tar(path)) == count
        parts.append(path.read_bytes())
    both = tmp_path / "both.tar"
    both.write_bytes(b"".join(parts))
    assert len(feedline.tar(both, ["cls"])) == sum(range(1, 25))


def test_ctrl_c_ends_the_opening_of_a_shard(tmp_path, tables, program):
    folder = tarfile.TarInfo("folder/")
    folder.type = tarfile.DIRTYPE
    # A small file that unpacks to 4 GiB of headers, none of which is a sample's.
    packed = gzip.compress(folder.tobuf() * (1 << 17), 1)
    (tmp_path / "long.tar.gz").write_bytes(packed * 64)
    program(
        """
        import os, signal, threading
        import feedline
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            feedline.tar("long.tar.gz", streaming=True)
        except KeyboardInterrupt:
            pass
        else:
            raise AssertionError
        """,
        timeout=50,
    )
    assert not tables.exists(), "it was not looked through to its end"


def test_a_sparse_tebibyte_of_zeros_is_refused_at_once(tmp_path):
    with (tmp_path / "zeros.tar").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ValueError, match="zeros"):
        feedline.tar(tmp_path / "zeros.tar")


def test_frames_that_became_parts_of_one_sample_are_refused_with_advice(tmp_path):
    members = [(f"frame.{i:07}.bin", b"") for i in range(20_000)]
    path = write(tmp_path / "a.tar", members)
    with pytest.raises(ValueError, match=r"`frame`.* has 20000 parts.*more than the 1000"):
        feedline.tar(path)
    assert len(feedline.tar(path, ["0000007.bin"])) == 1


def test_two_processes_may_open_the_same_shards_at_once(tmp_path, program):
    for i in range(6):
        write(tmp_path / f"{i}.tar", numbered(20 * i, 20))
    program(
        """
        import subprocess, sys
        code = '''if True:
            import feedline
            assert len(feedline.tar("{0..5}.tar", ["cls"], cache_dir="tables")) == 120
        '''
        both = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(2)]
        assert [process.wait() for process in both] == [0, 0]
        """
    )
    assert len(list((tmp_path / "tables").iterdir())) == 6


def test_arguments_that_cannot_be_meant_are_refused(tmp_path):
    path = write(tmp_path / "a.tar", numbered(0, 3))
    with pytest.raises(TypeError, match=r"parts must be a list .* \['jpg'\]"):
        feedline.tar(path, "jpg")
    with pytest.raises(ValueError, match=r"no sample has a part `png`.*jpg, cls, txt"):
        feedline.tar(path, ["png"])
    with pytest.raises(ValueError, match="at least one extension"):
        feedline.tar(path, [])
    with pytest.raises(ValueError, match="streaming=True"):
        feedline.tar(path, window=3)
    with pytest.raises(ValueError, match="window of 3 samples"):
        feedline.tar(path, streaming=True, window=3, buffer=10)
    with pytest.raises(FileNotFoundError, match=r"b\.tar"):
        feedline.tar(tmp_path / "b.tar")
    with pytest.raises(FileNotFoundError, match="no file matches"):
        feedline.tar(tmp_path / "*.tgz")
    with pytest.raises(ValueError, match="more than 1000000 names"):
        feedline.tar("{0..99999999}.tar")
    with pytest.raises(TypeError, match="path must be"):
        feedline.tar(3)
    with pytest.raises(ValueError, match="at least one shard"):
        feedline.tar([])


def test_patterns_and_lists_name_shards_in_their_order(tmp_path):
    for i in (2, 10, 1):
        write(tmp_path / f"{i}.tar", numbered(i, 1))
    weird = write(tmp_path / "{1..2}.tar", numbered(77, 1))

    def labels(path):
        return [sample["cls"] for sample in samples(feedline.tar(path, ["cls"]))]

    assert labels([tmp_path / "10.tar", str(tmp_path / "{2,1}.tar")]) == [10, 2, 1]
    assert labels(tmp_path / "[0-9]*.tar") == [1, 10, 2]
    assert labels(weird) == [77], "what is there under that very name is no pattern"


def test_a_sample_beyond_the_limit_is_not_read(tmp_path):
    path = write(tmp_path / "a.tar", [("0.jpg", bytes(10)), ("1.jpg", bytes(11))])
    pipeline = feedline.tar(path, max_bytes=10)
    with pytest.raises(SampleError, match=r"a\.tar\[1\].*max_bytes"):
        samples(pipeline)


def test_a_gzip_bomb_fills_no_memory(tmp_path, program):
    with (
        gzip.open(tmp_path / "bomb.tar", "wb", 1) as file,
        tarfile.open(fileobj=file, mode="w|") as archive,
    ):
        member = tarfile.TarInfo("bomb.jpg")
        member.size = 1 << 30

        class Zeros:
            def read(self, size):
                return bytes(size)

        archive.addfile(member, Zeros())
    program(
        """
        import feedline, resource
        resource.setrlimit(resource.RLIMIT_AS, (6 << 28, 6 << 28))
        loader = feedline.Loader(feedline.tar("bomb.tar", streaming=True), batch_size=1)
        try:
            list(loader)
        except feedline.errors.SampleError as error:
            assert "max_bytes" in str(error), error
        else:
            raise AssertionError
        """
    )


@pytest.mark.skipif(not ODD.is_dir(), reason="there is no collection of odd files here")
def test_every_odd_shard_is_read_as_webdataset_reads_it_or_refused():
    for name in ("good", "good_pax", "good_gnu_longname", "links_and_devices", "no_end_blocks"):
        path = ODD / f"{name}.tar"
        got = samples(feedline.tar(path, ["__key__", "jpg", "cls"]))
        expected = by_webdataset(path)
        assert [s["jpg"] for s in got] == [s["jpg"] for s in expected], name
        assert [s["cls"] for s in got] == [int(s["cls"]) for s in expected], name
        assert [s["__key__"] for s in got] == [s["__key__"] for s in expected], name
    refused = ["truncated_in_member", "truncated_in_header", "zero_bytes", "bad_checksum"]
    for name in [*refused, "huge_size_field"]:
        for streaming in (False, True):
            with pytest.raises(ValueError, match=rf"{name}\.tar"):
                feedline.tar(ODD / f"{name}.tar", streaming=streaming)
    streamed = feedline.tar(ODD / "gzip_named.tar", ["jpg", "cls"], streaming=True)
    assert samples(streamed) == samples(feedline.tar(ODD / "good.tar", ["jpg", "cls"]))


@pytest.mark.skipif(not FLOWERS.is_dir(), reason="there are no shards of photographs here")
def test_real_shards_are_read_as_webdataset_reads_them():
    paths = sorted(FLOWERS.glob("*.tar"))
    got = samples(feedline.tar(FLOWERS / "flowers-{000000..000001}.tar", ["jpg", "cls"]))
    expected = by_webdataset(*paths)
    assert len(got) == 64
    assert [s["jpg"] for s in got] == [s["jpg"] for s in expected]
    assert [s["cls"] for s in got] == [int(s["cls"]) for s in expected]
