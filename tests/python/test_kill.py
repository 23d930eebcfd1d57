"""A training process killed at any moment goes on from its last checkpoint as if it was not."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from patience import PATIENCE

TRAINER = Path(__file__).with_name("trainer_killed.py")


def killed(folder, seed, trials, timeout=PATIENCE):
    done = subprocess.run(
        [sys.executable, TRAINER, folder, str(seed), str(trials)],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = re.fullmatch(r"(\d+) trials, (\d+) kills, \d+ checkpoints cut short\n", done.stdout)
    assert said, done.stdout
    return int(said[1]), int(said[2])


def test_twenty_killed_trainings_end_as_if_nothing_had_happened(tmp_path):
    trials, kills = killed(tmp_path, 1, 20)
    assert trials == 20
    assert kills >= 20, "each was killed once at least, on average"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_hundred_killed_trainings_end_as_if_nothing_had_happened(tmp_path):
    trials, kills = killed(tmp_path, 2, 200, timeout=800)
    assert trials == 200
    assert kills >= 200
