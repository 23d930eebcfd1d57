"""What a loader takes where a container leaves it less than the machine has.

The container is a mount namespace in which control groups are files of the test, so the limits are
what the process reads, by whatever code reads them.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from patience import PATIENCE

ENTER = """
set -e
mount --bind "$1/own" /proc/$$/cgroup
mount --bind "$1/groups" /sys/fs/cgroup
exec "$2" -c "$3"
"""

DROP_IN = """
import itertools
import json
import time
import torch
from feedline.torch import DataLoader

rows = [torch.zeros(1 << 20) for _ in range(4)] * 100
loader = DataLoader(rows, num_workers=1, prefetch_factor="auto", worker_mode="thread")
batches = itertools.chain.from_iterable(itertools.repeat(loader))
next(batches)
while loader.stats()["control"]["most_prefetch"] > 16:
    next(batches)
    time.sleep(0.01)  # a controller looks now and then
print(json.dumps(loader.stats()["control"]["most_prefetch"]))
"""

FIRST = """
import json
import torch
from feedline.torch import DataLoader

rows = [torch.zeros(1 << 20) for _ in range(4)]
loader = DataLoader(rows, batch_size=2, num_workers="auto", worker_mode="thread")
batches = iter(loader)
print(json.dumps(loader.stats()["control"]["setting"]["prefetch"]))
"""

HIRED = """
import itertools
import json
import time
import feedline
from feedline.torch import DataLoader

class Sleeping(list):
    def __getitem__(self, index):
        time.sleep(0.01)
        return index

loader = DataLoader(
    Sleeping(range(100_000)),
    batch_size=8,
    num_workers=feedline.Auto(start=1, most=4),
    prefetch_factor=feedline.Auto(start=1),
)
batches = iter(loader)
while loader.stats()["control"]["most_workers"] == 4:
    next(batches)
print(json.dumps([loader.stats()["control"]["most_workers"], len(batches._workers)]))
"""

LOADER = """
import json
import numpy as np
import feedline

rows = feedline.arrays(np.zeros((4, 1 << 20), np.uint8))
loader = feedline.Loader(rows, epochs=1)
list(loader)
try:
    feedline.Loader(rows, batch_size=4)
    refused = ""
except ValueError as error:
    refused = str(error)
print(json.dumps([feedline.Loader(rows).stats()["control"]["cores"], loader.num_workers, refused]))
"""


def inside(folder: Path, own: str, files: dict[str, str], program: str = LOADER) -> object:
    """Run a program in groups with these files, and in the group that this line names."""
    (folder / "own").write_text(own)
    for name, text in files.items():
        path = folder / "groups" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    command = ["unshare", "--mount", "sh", "-c", ENTER, "sh", str(folder), sys.executable, program]
    run = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.fixture(autouse=True)
def a_namespace_can_be_had() -> None:
    try:
        probe = ["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"]
        subprocess.run(probe, check=True, capture_output=True, timeout=PATIENCE)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no mount namespace here: {error}")


def test_a_quota_of_version_2_counts_as_cores_and_memory_as_memory(tmp_path):
    files = {
        "box/cgroup.controllers": "cpu memory\n",
        "box/cpu.max": "100000 100000\n",
        "box/memory.max": "2000000\n",
    }
    cores, workers, refused = inside(tmp_path, "0::/box\n", files)
    assert (cores, workers) == (1, 1)
    assert "2000000" in refused or "1.9 MiB" in refused


def test_a_quota_of_version_1_counts_as_cores_and_memory_as_memory(tmp_path):
    files = {
        "cpu/box/cpu.cfs_quota_us": "150000\n",
        "cpu/box/cpu.cfs_period_us": "100000\n",
        "memory/box/memory.limit_in_bytes": "2000000\n",
    }
    cores, workers, refused = inside(tmp_path, "4:memory:/box\n1:cpu:/box\n", files)
    assert (cores, workers) == (1, 1)
    assert "2000000" in refused or "1.9 MiB" in refused


def test_a_controller_of_the_drop_in_reads_no_further_ahead_than_memory_allows(tmp_path):
    pytest.importorskip("torch")
    # Batches of 4 MiB; a quarter is 64 MiB.
    files = {"box/memory.max": f"{256 << 20}\n"}
    assert inside(tmp_path, "0::/box\n", files, DROP_IN) == 16


def test_the_first_read_ahead_too_is_bounded_by_what_samples_take(tmp_path):
    pytest.importorskip("torch")
    # Batches of 8 MiB; a quarter is one of them.
    files = {"box/memory.max": f"{32 << 20}\n"}
    assert inside(tmp_path, "0::/box\n", files, FIRST) == 1


def test_no_more_processes_are_started_than_memory_allows(tmp_path):
    pytest.importorskip("torch")
    # Less than what any process of Python's has to itself.
    files = {"box/memory.max": f"{1 << 20}\n"}
    assert inside(tmp_path, "0::/box\n", files, HIRED) == [1, 1]


def test_groups_without_a_limit_leave_all(tmp_path):
    files = {
        "box/cgroup.controllers": "cpu memory\n",
        "box/cpu.max": "max 100000\n",
        "box/memory.max": "max\n",
    }
    cores, _, refused = inside(tmp_path, "0::/box\n", files)
    # Those of the group that the test itself is in are not seen from inside.
    assert cores == len(os.sched_getaffinity(0))
    assert refused == ""
