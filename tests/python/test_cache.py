"""Samples kept in memory and on disk."""

import json
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import feedline
from patience import PATIENCE

N = 50


def counted(calls):
    """Samples that cost something, and a note of each call."""

    def work(x):
        calls.append(int(x))
        return {"square": np.full(100, x * x), "name": f"n{x}", "raw": b"." * int(x)}

    pipeline = feedline.arrays(np.arange(N)).map(work)
    calls.clear()
    return pipeline


def epoch(pipeline, **settings):
    loader = feedline.Loader(pipeline, batch_size=8, epochs=1, **settings)
    batches = list(loader)
    squares = np.concatenate([batch["square"] for batch in batches])
    names = [name for batch in batches for name in batch["name"]]
    raw = [data for batch in batches for data in batch["raw"]]
    return squares.tolist(), names, raw


def entries(folder):
    return sorted(folder.glob("??/*.sample"), key=lambda path: path.name)


def size(folder):
    return sum(path.stat().st_size for path in entries(folder))


# ---- in memory


@pytest.mark.parametrize("workers", [0, 2])
def test_samples_are_made_once(workers):
    calls = []
    pipeline = counted(calls)
    cached = pipeline.cache()
    expected = epoch(cached, num_workers=workers)
    assert sorted(calls) == list(range(N))
    for _ in range(2):
        assert epoch(cached, num_workers=workers, shuffle=False) == expected
    assert len(calls) == N
    assert epoch(pipeline) == expected


def test_what_comes_after_the_cache_is_done_every_time():
    calls = []
    after = []
    cached = counted(calls).cache().map(lambda sample: after.append(0) or sample)
    calls.clear()
    after.clear()
    epoch(cached)
    epoch(cached)
    assert (len(calls), len(after)) == (N - 1, 2 * N), "the first was made to look at it"


def test_ram_is_used_up_to_the_limit():
    calls = []
    cached = counted(calls).cache("ram", limit=20_000)
    expected = epoch(cached)
    assert len(calls) == N
    assert epoch(cached) == expected
    again = len(calls) - N
    # 800 bytes of numbers and a little more for each sample.
    assert N - 20_000 // 800 <= again <= N - 20


def test_a_limit_of_nothing_keeps_nothing():
    calls = []
    cached = counted(calls).cache(limit=0)
    epoch(cached)
    epoch(cached)
    assert len(calls) == 2 * N


def test_failures_are_not_kept():
    attempts = []

    def work(x):
        attempts.append(x)
        if x == 3 and attempts.count(3) < 2:
            raise OSError("not yet")
        return {"square": np.zeros(1), "name": "", "raw": b""}

    cached = feedline.arrays(np.arange(5)).map(work).cache()
    with pytest.raises(feedline.errors.SampleError, match="not yet"):
        epoch(cached)
    assert len(epoch(cached)[1]) == 5


# ---- on disk


def test_what_is_on_disk_is_there_for_the_next_process(tmp_path):
    calls = []
    expected = epoch(counted(calls).cache(tmp_path / "cache"))
    assert len(calls) == N
    assert len(entries(tmp_path / "cache")) == N
    calls.clear()
    assert epoch(counted(calls).cache(str(tmp_path / "cache"))) == expected
    assert calls == []


PROCESS = """
    import json, sys
    import numpy as np
    import feedline

    calls = []

    def work(x):
        calls.append(int(x))
        return {"square": np.full(100, x * x), "name": f"n{x}", "raw": b"." * int(x)}

    pipeline = feedline.arrays(np.arange(50)).map(work)
    calls.clear()
    cached = pipeline.cache(sys.argv[1], limit=sys.argv[2])
    loader = feedline.Loader(cached, batch_size=8, num_workers=2, epochs=2)
    print("ready", flush=True)
    sys.stdin.readline()
    total = [int(batch["square"].sum()) for _ in range(2) for batch in loader]
    print(json.dumps({"calls": sorted(calls), "total": sum(total)}))
"""


def in_processes(folder, count, limit="1GiB"):
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(PROCESS), str(folder), limit]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    running = [subprocess.Popen(command, text=True, **pipes) for _ in range(count)]
    assert [process.stdout.readline() for process in running] == ["ready\n"] * count
    for process in running:
        process.stdin.write("\n")
        process.stdin.flush()
    answers = [process.communicate(timeout=PATIENCE) for process in running]
    assert [stderr for _, stderr in answers] == [""] * count
    return [json.loads(stdout) for stdout, _ in answers]


def test_two_processes_share_a_folder(tmp_path):
    truth = 2 * 100 * sum(x * x for x in range(N))
    both = in_processes(tmp_path / "cache", 2)
    assert [answer["total"] for answer in both] == [truth, truth]
    made = {x for answer in both for x in answer["calls"]}
    assert made == set(range(N))
    assert all(len(answer["calls"]) <= N for answer in both), "nothing is made twice by one"
    assert len(entries(tmp_path / "cache")) == N
    assert not list((tmp_path / "cache").rglob("*.tmp"))
    (later,) = in_processes(tmp_path / "cache", 1)
    assert later == {"calls": [], "total": truth}


def test_two_processes_keep_to_one_limit(tmp_path):
    both = in_processes(tmp_path / "cache", 2, limit="20kB")
    assert both[0]["total"] == both[1]["total"]
    assert 10_000 < size(tmp_path / "cache") <= 20_000


def test_damaged_entries_are_made_anew(tmp_path):
    calls = []
    expected = epoch(counted(calls).cache(tmp_path))
    files = entries(tmp_path)
    files[0].write_bytes(b"")
    files[1].write_bytes(os.urandom(files[1].stat().st_size))
    content = bytearray(files[2].read_bytes())
    content[len(content) // 2] ^= 1
    files[2].write_bytes(content)
    os.truncate(files[3], 40)
    calls.clear()
    assert epoch(counted(calls).cache(tmp_path)) == expected
    assert sorted(calls) == [0, 1, 2, 3]
    calls.clear()
    assert epoch(counted(calls).cache(tmp_path)) == expected
    assert calls == [], "and healed"


def test_an_entry_is_taken_for_no_other_sample(tmp_path):
    calls = []
    expected = epoch(counted(calls).cache(tmp_path))
    files = entries(tmp_path)
    three, five = files[3].read_bytes(), files[5].read_bytes()
    files[3].write_bytes(five)
    files[5].write_bytes(three)
    calls.clear()
    assert epoch(counted(calls).cache(tmp_path)) == expected
    assert sorted(calls) == [3, 5]


def test_entries_and_counts_that_are_none_do_no_harm(tmp_path):
    calls = []
    expected = epoch(counted(calls).cache(tmp_path))
    files = entries(tmp_path)
    files[0].unlink()
    os.mkfifo(files[0])
    os.truncate(files[1], 3 << 30)
    cached = counted(calls).cache(tmp_path)
    os.truncate(tmp_path / "used", 0)
    calls.clear()
    assert epoch(cached) == expected
    assert sorted(calls) == [0, 1]
    (tmp_path / "used").unlink()
    os.mkfifo(tmp_path / "used")
    assert epoch(cached) == expected
    assert epoch(counted(calls).cache(tmp_path)) == expected, "and beside others"


def test_the_folder_keeps_to_its_limit(tmp_path):
    calls = []
    expected = epoch(counted(calls).cache(tmp_path, limit=10_000))
    assert 8_000 < size(tmp_path) <= 10_000
    assert epoch(counted(calls).cache(tmp_path, limit=10_000)) == expected
    assert size(tmp_path) <= 10_000


def test_the_folder_of_another_pipeline_is_refused(tmp_path):
    numbers = feedline.arrays(np.arange(10))
    epoch_of = feedline.Loader(numbers.map(np.square).cache(tmp_path), batch_size=10)
    list(epoch_of)
    others = [
        numbers.map(np.negative),
        numbers.map(np.square).select(range(5)),
        numbers.map(lambda x: float(x)),
        feedline.arrays(x=np.arange(10)),
    ]
    for other in others:
        with pytest.raises(ValueError, match="holds other samples; use another folder or empty it"):
            other.cache(tmp_path)
    assert len(numbers.map(np.square).cache(tmp_path)) == 10


def test_a_filled_folder_that_may_not_be_written_to_is_read(program):
    program("""
        import os, pathlib
        import numpy as np, feedline

        def sums(pipeline):
            return sum(int(x.sum()) for x, in feedline.Loader(pipeline, batch_size=4, epochs=1))

        calls = []
        def work(x):
            calls.append(x)
            return x * x

        samples = feedline.arrays(np.arange(20)).map(work)
        folder = pathlib.Path("cache")
        half = samples.cache(folder, limit=10 * 40)
        expected = sums(half)
        del half
        for path in [*folder.rglob("*"), folder]:
            path.chmod(0o555 if path.is_dir() else 0o444)
        os.chmod(".", 0o755)
        kept = len(list(folder.rglob("*.sample")))
        assert 0 < kept < 20
        if os.geteuid() == 0:
            os.seteuid(65534)  # nobody: root may write everywhere
        calls.clear()
        assert sums(samples.cache(folder)) == expected
        assert len(calls) == 20 - kept
        assert len(list(folder.rglob("*.sample"))) == kept
        try:
            samples.cache(folder / "new")
        except PermissionError as error:
            assert "new" in str(error)
        else:
            raise AssertionError
        if os.geteuid() == 65534:
            os.seteuid(0)
        for path in [folder, *folder.rglob("*")]:
            path.chmod(0o755)
    """)


def test_a_full_disk_costs_nothing_but_time(program):
    # A limit on the size of files stands in for a full disk: writing fails, reading goes on.
    program("""
        import resource, signal
        import numpy as np, feedline
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        samples = feedline.arrays(np.arange(20 * 1000.0).reshape(20, 1000)).map(np.sqrt)
        cached = samples.cache("cache")
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        for _ in range(2):
            (batch,), = feedline.Loader(cached, batch_size=20, epochs=1)
            np.testing.assert_array_equal(batch.ravel(), np.sqrt(np.arange(20_000.0)))
    """)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 256 KiB of its own."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("a file system can be mounted by root only")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_disk_that_is_full_is_read_and_kills_nobody(small_disk, program):
    program(
        """
        import os, pathlib, sys
        import numpy as np, feedline

        samples = feedline.arrays(np.arange(40 * 1000.0).reshape(40, 1000)).map(np.sqrt)
        folder = pathlib.Path(sys.argv[1], "cache")

        def right(cached):
            (batch,), = feedline.Loader(cached, batch_size=40, epochs=1)
            return np.array_equal(batch.ravel(), np.sqrt(np.arange(40_000.0)))

        # 40 samples of 8 kB do not fit.
        cached = samples.cache(folder)
        assert right(cached)
        kept = len(list(folder.rglob("*.sample")))
        assert 0 < kept < 40

        def fill():
            with open(folder.parent / "rest", "ab", 0) as file:
                try:
                    while True:
                        file.write(bytes(4096))
                except OSError:
                    pass

        fill()
        assert right(cached)
        # Nobody could make the count anew: the room that it had is taken.
        os.truncate(folder / "used", 0)
        fill()
        assert right(cached)
        del cached
        again = samples.cache(folder)
        assert right(again) and right(again)
        assert len(list(folder.rglob("*.sample"))) == kept
        """,
        str(small_disk),
    )


# ---- arguments


@pytest.mark.parametrize(
    ("limit", "kind"),
    [("lots", ValueError), (-1, ValueError), ("5 XB", ValueError), (None, TypeError)],
)
def test_a_limit_must_be_a_size(limit, kind):
    with pytest.raises(kind, match="limit must be"):
        feedline.arrays(np.arange(3)).cache(limit=limit)


def test_a_place_must_be_one(tmp_path):
    pipeline = feedline.arrays(np.arange(3))
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r'where must be "ram" or a folder'):
        pipeline.cache("")
    with pytest.raises(TypeError):
        pipeline.cache(3)
    with pytest.raises(FileExistsError, match="file"):
        pipeline.cache(tmp_path / "file")
