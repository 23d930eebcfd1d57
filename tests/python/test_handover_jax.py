"""Batches as JAX's arrays, in a process of its own.

JAX starts threads and from then on warns of every fork, and which test files share a process is a
matter of time.
"""

import subprocess
import sys
from pathlib import Path

from patience import PATIENCE

CASES = Path(__file__).with_name("jax_handover.py")


def test_jax_takes_batches_as_its_own_arrays():
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        CASES,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
