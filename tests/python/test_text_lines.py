"""Lines of files and files in label folders: what Python's own splitting says they are."""

import gzip
import os
import pickle
import struct
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import feedline
from feedline.errors import SampleError


def plain(content, *, skip_empty=False):
    """Split bytes as the documentation says."""
    if content.startswith(b"\xef\xbb\xbf"):
        content = content[3:]
    lines = content.split(b"\n")
    if not lines[-1]:
        lines.pop()
        ended = [True] * len(lines)
    else:
        ended = [True] * (len(lines) - 1) + [False]
    lines = [
        line[:-1] if end and line.endswith(b"\r") else line
        for line, end in zip(lines, ended, strict=True)
    ]
    return [line.decode() for line in lines if line or not skip_empty]


def texts_of(pipeline, **options):
    options = {"batch_size": 7, "num_workers": 2} | options
    return [text for (batch,) in feedline.Loader(pipeline, **options) for text in batch]


CONTENTS = {
    "plain": b"one\ntwo\n\nthree\n",
    "no end": b"one\ntwo",
    "crlf": b"one\r\ntwo\r\n\r\nthree\r\n",
    "mixed": b"a\r\nb\nc\rd\n\r\n\n",
    "mark": b"\xef\xbb\xbfone\ntwo\n",
    "letters": "über\nstraße\n中文\n".encode(),
    "cr at the end": b"one\r",
}


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


class TestLines:
    @pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS.keys())
    @pytest.mark.parametrize("skip_empty", [False, True])
    def test_lines_are_those_of_python(self, tmp_path, cache, content, skip_empty):
        (tmp_path / "a.txt").write_bytes(content)
        lines = feedline.text(tmp_path / "a.txt", cache=cache, skip_empty=skip_empty)
        assert texts_of(lines) == plain(content, skip_empty=skip_empty)

    def test_files_come_in_the_order_of_their_names_and_of_the_list(self, tmp_path, cache):
        for name in "cab":
            (tmp_path / f"{name}.txt").write_text(f"{name}1\n{name}2\n")
        by_pattern = feedline.text(tmp_path / "*.txt", cache=cache)
        assert texts_of(by_pattern) == ["a1", "a2", "b1", "b2", "c1", "c2"]
        listed = feedline.text([tmp_path / "c.txt", tmp_path / "{a,b}.txt"], cache=cache)
        assert texts_of(listed)[:2] == ["c1", "c2"]

    def test_a_second_opening_finds_the_table_and_a_changed_file_makes_it_anew(
        self, tmp_path, cache
    ):
        path = tmp_path / "a.txt"
        path.write_text("one\ntwo\n")
        long_ago = time.time() - 100
        os.utime(path, (long_ago, long_ago))
        assert len(feedline.text(path, cache=cache)) == 2
        (table,) = cache.glob("*.lines")
        kept = table.read_bytes()
        assert len(feedline.text(path, cache=cache)) == 2
        assert table.read_bytes() == kept
        path.write_text("one\ntwo\nthree\n")
        assert texts_of(feedline.text(path, cache=cache)) == ["one", "two", "three"]

    @pytest.mark.parametrize("damage", ["empty", "cut", "flipped", "of another file"])
    def test_a_damaged_table_is_made_again(self, tmp_path, cache, damage):
        long_ago = time.time() - 100
        for name, content in {"a": "one\ntwo\n", "b": "1\n2\n3\n4\n"}.items():
            (tmp_path / name).write_text(content)
            os.utime(tmp_path / name, (long_ago, long_ago))
        feedline.text(tmp_path / "a", cache=cache)
        (table,) = cache.glob("*.lines")
        kept = bytearray(table.read_bytes())
        if damage == "empty":
            kept = b""
        elif damage == "cut":
            kept = kept[:-1]
        elif damage == "flipped":
            kept[-1] ^= 1
        else:
            feedline.text(tmp_path / "b", cache=cache)
            (other,) = set(cache.glob("*.lines")) - {table}
            kept = other.read_bytes()
        table.write_bytes(kept)
        assert texts_of(feedline.text(tmp_path / "a", cache=cache)) == ["one", "two"]

    def test_a_large_file_of_many_lines_is_shuffled_line_by_line(self, tmp_path, cache):
        rng = np.random.default_rng(0)
        lines = [f"{i} " + "x" * int(n) for i, n in enumerate(rng.integers(0, 5000, 60_000))]
        path = tmp_path / "large.txt"
        path.write_text("\n".join(lines))
        assert path.stat().st_size > 128 << 20
        text = feedline.text(path, cache=cache)
        assert len(text) == len(lines)
        for place in (0, 1, 63, 64, 65, 31_234, -1):
            assert text[place] == (lines[place],)
        first = [
            text
            for (batch,) in feedline.Loader(text, batch_size=512, shuffle=True, seed=3)
            for text in batch
        ]
        assert first != lines
        assert sorted(first) == sorted(lines)
        # Two bytes a line, and an anchor for each 64.
        (table,) = cache.glob("*.lines")
        assert table.stat().st_size < 3 * len(lines)
        path.write_bytes(path.read_bytes()[:-10])
        with pytest.raises(SampleError, match="changed since it was opened"):
            text[5]

    def test_order_does_not_depend_on_workers_and_a_state_goes_on(self, tmp_path, cache):
        (tmp_path / "a.txt").write_text("".join(f"{i}\n" for i in range(100)))
        lines = feedline.text(tmp_path / "a.txt", cache=cache)
        runs = [texts_of(lines, shuffle=True, seed=5, num_workers=n) for n in (0, 1, 3)]
        assert runs[0] == runs[1] == runs[2]
        loader = feedline.Loader(lines, batch_size=7, shuffle=True, seed=5)
        batches = iter(loader)
        seen = [text for _ in range(4) for text in next(batches)[0]]
        state = loader.state_dict()
        other = feedline.Loader(lines, batch_size=7, shuffle=True, seed=5)
        other.load_state_dict(state)
        assert seen + [text for (batch,) in other for text in batch] == runs[0]

    def test_ranks_share_the_lines(self, tmp_path, cache):
        (tmp_path / "a.txt").write_text("".join(f"{i}\n" for i in range(40)))
        lines = feedline.text(tmp_path / "a.txt", cache=cache)
        shares = [texts_of(lines, shuffle=True, rank=rank, world_size=2) for rank in (0, 1)]
        assert sorted(int(i) for share in shares for i in share) == list(range(40))

    def test_a_pipeline_pickles_by_its_paths(self, tmp_path, cache, monkeypatch):
        (tmp_path / "a.txt").write_text("one\ntwo\n")
        monkeypatch.chdir(tmp_path)
        lines = feedline.text("a.txt", cache="cache", named=True)
        monkeypatch.chdir("/")
        again = pickle.loads(pickle.dumps(lines))
        assert again[1] == {"text": "two"}
        assert str(again) == str(lines)


class TestBadText:
    def test_what_is_not_utf8_is_an_error_of_its_line_with_path_and_line(self, tmp_path, cache):
        path = tmp_path / "a.txt"
        path.write_bytes(b"one\nt\xffo\nthree\n")
        lines = feedline.text(path, cache=cache)
        with pytest.raises(SampleError, match=r"a\.txt:2.*byte 1 of it is 0xff"):
            texts_of(lines)
        loader = feedline.Loader(lines, batch_size=3, on_error="skip")
        assert [text for (batch,) in loader for text in batch] == ["one", "three"]
        (error,) = loader.errors
        assert error.origin == f"{path}:2"

    def test_it_can_be_replaced_or_read_as_latin_1(self, tmp_path, cache):
        content = b"t\xffo \xf0\x9f\x98\n\xe9t\xe9\n"
        (tmp_path / "a.txt").write_bytes(content)
        replaced = feedline.text(tmp_path / "a.txt", cache=cache, errors="replace")
        assert texts_of(replaced) == content.decode(errors="replace").splitlines()
        latin = feedline.text(tmp_path / "a.txt", cache=cache, encoding="latin-1")
        assert texts_of(latin) == [line.decode("latin-1") for line in content.split(b"\n")[:-1]]

    @pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
    def test_other_encodings_are_refused_when_a_file_is_opened(self, tmp_path, cache, encoding):
        (tmp_path / "a.txt").write_text("one\ntwo\n", encoding=encoding)
        with pytest.raises(ValueError, match="convert it"):
            feedline.text(tmp_path / "a.txt", cache=cache)
        with pytest.raises(ValueError, match="convert the files to UTF-8"):
            feedline.text(tmp_path / "a.txt", cache=cache, encoding=encoding)

    def test_a_line_beyond_max_bytes_is_an_error_and_not_read(self, tmp_path, cache):
        (tmp_path / "a.txt").write_bytes(b"one\n" + b"x" * 100_000_000 + b"\nthree\n")
        lines = feedline.text(tmp_path / "a.txt", cache=cache, max_bytes="1MB")
        assert lines[2] == ("three",)
        with pytest.raises(SampleError, match="100000000 bytes, more than the 1000000"):
            lines[1]

    def test_missing_files_and_wrong_arguments_are_named(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="no file matches"):
            feedline.text(tmp_path / "*.txt")
        with pytest.raises(FileNotFoundError):
            feedline.text(tmp_path / "none.txt")
        with pytest.raises(TypeError, match="takes a file"):
            feedline.text(5)
        (tmp_path / "a.txt").write_text("x\n")
        with pytest.raises(ValueError, match="is no folder"):
            feedline.text(tmp_path / "a.txt", labels=True)


class TestCompressed:
    def test_gzip_is_unpacked_into_memory(self, tmp_path, cache):
        content = b"".join(b"line %d\r\n" % i for i in range(1000))
        (tmp_path / "a.txt.gz").write_bytes(
            gzip.compress(content[:5000]) + gzip.compress(content[5000:])
        )
        assert texts_of(feedline.text(tmp_path / "a.txt.gz", cache=cache)) == plain(content)
        assert not list(cache.glob("*"))

    def test_zstd_is_unpacked_into_memory(self, tmp_path, cache):
        # A frame of one raw block, as RFC 8878 has it: no compressor is needed to write one.
        content = b"one\ntwo\n"
        block = struct.pack("<I", len(content) << 3 | 1)[:3]
        frame = b"\x28\xb5\x2f\xfd" + b"\x20" + bytes([len(content)]) + block + content
        (tmp_path / "a.txt.zst").write_bytes(frame)
        assert texts_of(feedline.text(tmp_path / "a.txt.zst", cache=cache)) == ["one", "two"]

    def test_a_large_one_is_unpacked_once_into_the_cache_folder(self, tmp_path, cache):
        lines = [b"%07d " % i + b"y" * 1000 for i in range(140_000)]
        path = tmp_path / "a.txt.gz"
        path.write_bytes(gzip.compress(b"\n".join(lines), 1))
        long_ago = time.time() - 100
        os.utime(path, (long_ago, long_ago))
        text = feedline.text(path, cache=cache)
        assert text[139_999] == (lines[-1].decode(),)
        (unpacked,) = cache.glob("*.unpacked")
        before = unpacked.stat().st_ino
        again = feedline.text(path, cache=cache)
        assert again[12_345] == (lines[12_345].decode(),)
        assert unpacked.stat().st_ino == before
        unpacked.write_bytes(b"other")
        assert feedline.text(path, cache=cache)[7] == (lines[7].decode(),)

    @pytest.mark.parametrize("age", [0, 3600])
    def test_two_who_unpack_the_same_files_read_on(self, tmp_path, cache, age):
        # So many files that they are not kept open, and more than is held in memory. Young ones are
        # unpacked by everybody anew.
        line = b"x" * (1 << 16)
        packed = gzip.compress((line + b"\n") * 20, 1)
        for i in range(140):
            (tmp_path / f"{i:03}.gz").write_bytes(packed)
            then = time.time() - age
            os.utime(tmp_path / f"{i:03}.gz", (then, then))
        paths = sorted(tmp_path.glob("*.gz"))
        with ThreadPoolExecutor(2) as pool:
            opened = list(pool.map(lambda _: feedline.text(paths, cache=cache), range(2)))
        opened.append(feedline.text(paths, cache=cache))
        assert list(cache.glob("*.unpacked"))
        for lines in opened:
            assert len(lines) == 2800
            assert {lines[i][0] for i in range(0, 2800, 20)} == {line.decode()}
        for unpacked in cache.glob("*.unpacked"):
            other = unpacked.with_suffix(".other")
            other.write_bytes(b"y" * unpacked.stat().st_size)
            other.rename(unpacked)
        with pytest.raises(SampleError, match=r"what was unpacked into .* has changed"):
            opened[0][2799]

    def test_bombs_and_damage_are_refused(self, tmp_path, cache):
        packed = gzip.compress(b"x" * 10_000_000)
        (tmp_path / "bomb.gz").write_bytes(packed)
        with pytest.raises(ValueError, match="unpacks to more than the 1000000"):
            feedline.text(tmp_path / "bomb.gz", cache=cache, max_unpacked="1MB")
        (tmp_path / "cut.gz").write_bytes(packed[:-20])
        with pytest.raises(ValueError, match="cannot unpack"):
            feedline.text(tmp_path / "cut.gz", cache=cache)


@pytest.fixture
def reviews(tmp_path):
    for label in ("pos", "neg", "unsup"):
        (tmp_path / label).mkdir()
        for i in range(3):
            (tmp_path / label / f"{i}.txt").write_text(f"{label} {i}\nsecond line\n")
    return tmp_path


class TestLabelFolders:
    def test_files_are_samples_and_folders_labels(self, reviews):
        files = feedline.text(reviews)
        assert files.classes == ["neg", "pos", "unsup"]
        samples = [files[i] for i in range(len(files))]
        assert [(text.split()[0], int(label)) for text, label in samples] == [
            *[("neg", 0)] * 3,
            *[("pos", 1)] * 3,
            *[("unsup", 2)] * 3,
        ]
        assert samples[4][0] == "pos 1\nsecond line\n"

    def test_some_folders_can_be_chosen_in_an_order(self, reviews):
        files = feedline.text(reviews, labels=["pos", "neg"], named=True)
        assert files.classes == ["pos", "neg"]
        assert files.labels.tolist() == [0, 0, 0, 1, 1, 1]
        assert files[3]["text"].startswith("neg 0")
        with pytest.raises(ValueError, match="no folder other"):
            feedline.text(reviews, labels=["pos", "other"])

    def test_without_labels_all_files_below_are_samples(self, reviews):
        files = feedline.text(reviews, labels=False)
        assert len(files) == 9
        assert files.fields == ["text"]

    def test_labels_are_known_without_reading(self, reviews):
        files = feedline.text(reviews)
        for path in reviews.glob("*/*.txt"):
            path.unlink()
        assert files.labels.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]

    def test_marks_bad_text_and_compression_are_handled_file_by_file(self, tmp_path):
        folder = tmp_path / "only"
        folder.mkdir()
        (folder / "a.txt").write_bytes(b"\xef\xbb\xbfone")
        (folder / "b.txt").write_bytes(b"t\xff")
        (folder / "c.txt.gz").write_bytes(gzip.compress(b"three"))
        (folder / "d.txt").write_bytes(b"")
        (folder / "e.txt.gz").write_bytes(gzip.compress(b"x" * 2_000_000))
        (folder / "f.txt").write_text("x", encoding="utf-16")
        files = feedline.text(tmp_path, max_bytes=1_000_000)
        loader = feedline.Loader(files, batch_size=6, on_error="skip")
        assert [text for texts, _ in loader for text in texts] == ["one", "three", ""]
        told = {error.origin: str(error) for error in loader.errors}
        assert "byte 1 of it is 0xff" in told[str(folder / "b.txt")]
        assert "unpacks to more" in told[str(folder / "e.txt.gz")]
        assert "UTF-16" in told[str(folder / "f.txt")]
