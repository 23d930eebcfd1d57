"""Whole programs: how they end, what they leave behind, how little they need."""

import os
import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("torch")

# Each program imports torch, which takes its time on a busy machine. Still below the watchdog's.
pytestmark = pytest.mark.timeout(85)

ENDS = """
import os, sys, signal, threading, torch
from feedline.torch import DataLoader
class Rows(torch.utils.data.Dataset):
    def __len__(self): return 10_000
    def __getitem__(self, i): return torch.full((3000,), i)
def main(how):
    persistent = how != "plain"
    loader = DataLoader(Rows(), 8, num_workers=2, persistent_workers=persistent)
    batches = iter(loader)
    kept = [next(batches) for _ in range(5)]
    if how == "exception":
        raise LookupError("the loop failed")
    if how == "exit":
        sys.exit(7)
    if how == "thread":
        def use():
            for _ in batches: pass
        threading.Thread(target=use, daemon=True).start()
    globals().update(locals())  # everything is alive when the interpreter goes
main(sys.argv[1])
"""


@pytest.mark.parametrize(
    ("how", "code", "words"),
    [
        ("plain", 0, ""),
        ("persistent", 0, ""),
        ("thread", 0, ""),
        ("exit", 7, ""),
        ("exception", 1, "LookupError: the loop failed\n"),
    ],
)
def test_a_program_ends_in_the_middle_of_an_epoch(program, how, code, words):
    done = program(ENDS, how, timeout=80, check=False)
    assert done.returncode == code, done
    assert done.stderr.endswith(words)
    assert "ignored" not in done.stderr
    if not words:
        assert done.stderr == ""


LIMITS = """
import gc, os, resource, torch
resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
from feedline.torch import DataLoader
def left(): return sorted(n for n in os.listdir("/dev/shm") if str(os.getpid()) in n)
class Rows(torch.utils.data.Dataset):
    def __len__(self): return 40_000
    def __getitem__(self, i): return torch.full((600,), i, dtype=torch.float32)
loader = DataLoader(Rows(), 4, num_workers=2)
kept = list(loader)
assert len(kept) == 10_000
assert all(int(b[0, 0]) == 4 * k and b.shape == (4, 600) for k, b in enumerate(kept))
del loader
kept[17] += 1  # received tensors are the user's
assert int(kept[17][0, 0]) == 69 and int(kept[18][0, 0]) == 72
assert left() == [], left()
with open(f"/proc/self/task/{os.getpid()}/children") as file:
    assert file.read() == "", "a worker is left, or was not collected"
print(len(os.listdir("/proc/self/fd")) < 100)
"""


def test_ten_thousand_batches_are_kept_with_128_descriptors_and_a_tiny_dev_shm(tmp_path):
    command = [sys.executable, "-W", "error", "-c", LIMITS]
    # In a name space of its own where that is allowed; as it is elsewhere.
    alone = [
        "unshare",
        "--mount",
        "sh",
        "-c",
        'mount -t tmpfs -o size=64k none /dev/shm && "$@"',
        "-",
    ]
    if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode == 0:
        command = alone + command
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=80, cwd=tmp_path, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


ORPHANS = """
import sys, time, torch
from feedline.torch import DataLoader
class Rows(torch.utils.data.Dataset):
    def __len__(self): return 1000
    def __getitem__(self, i): return i
loader = DataLoader(Rows(), num_workers=2, persistent_workers=True)
batches = iter(loader)
next(batches)
print(*[worker.pid for worker in batches._workers], flush=True)
time.sleep(600)
"""


def test_workers_leave_when_the_main_process_is_killed(tmp_path):
    main = subprocess.Popen(
        [sys.executable, "-c", ORPHANS], stdout=subprocess.PIPE, text=True, cwd=tmp_path
    )
    pids = [int(pid) for pid in main.stdout.readline().split()]
    assert len(pids) == 2
    main.send_signal(signal.SIGKILL)
    main.wait()
    main.stdout.close()
    deadline = time.monotonic() + 60
    while any(_runs(pid) for pid in pids):
        assert time.monotonic() < deadline, "workers outlive their parent"
        time.sleep(0.05)


def _runs(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # Nobody may have collected it yet.
    with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123 - no file of the file system
        return file.read().rsplit(")", 1)[1].split()[0] != "Z"
