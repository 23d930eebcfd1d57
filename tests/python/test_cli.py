"""The command, as the package installs it."""

import contextlib
import json
import os
import signal
import subprocess
import sys

import pytest

import feedline
from patience import PATIENCE


def command(*arguments, **settings):
    return subprocess.run(
        [sys.executable, "-m", "feedline", *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        **settings,
    )


ECHO = f"{sys.executable} -c 'print(1)'"
OTHER = f"{sys.executable} -c 'print(2)'"
FAIL = f"{sys.executable} -c 'raise SystemExit(9)'"
ONCE = ["measure", "--rounds", "1", "--warmup", "0"]


def test_it_knows_its_version():
    done = command("--version")
    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        f"feedline {feedline.__version__}\n",
        "",
    )


def test_help_shows_the_subcommands():
    done = command("--help")
    assert done.returncode == 0
    assert "measure" in done.stdout


def test_measure_prints_a_table():
    done = command(*ONCE, "--title", "Two", f"a={ECHO}", f"b={ECHO}")
    assert (done.returncode, done.stderr) == (0, "")
    for word in ["Two", "a", "b", "|"]:
        assert word in done.stdout


def test_measure_prints_json():
    done = command(*ONCE, "--json", f"a={ECHO}", f"b={ECHO}")
    assert done.returncode == 0
    assert isinstance(json.loads(done.stdout), dict)


def test_the_exit_code_says_how_it_went(tmp_path):
    out = ["--out", str(tmp_path / "runs.jsonl")]
    assert command(*ONCE, *out, f"a={ECHO}", f"b={ECHO}").returncode == 0
    assert command("measure", "--from", str(tmp_path / "runs.jsonl")).returncode == 0
    assert command(*ONCE, f"a={ECHO}", f"b={OTHER}").returncode == 1
    assert command(*ONCE, "--unchecked", f"a={ECHO}", f"b={OTHER}").returncode == 0
    strict = ["--strict", "--require", "a/b>=1000"]
    assert command(*ONCE, *strict, f"a={ECHO}", f"b={ECHO}").returncode == 1
    assert command(*ONCE, f"a={FAIL}").returncode == 3


WRONG = [
    ([], "Usage"),
    (["nonsense"], "unrecognized subcommand"),
    (["measure"], "NAME=COMMAND"),
    (["measure", "no-name"], "write it as NAME=COMMAND"),
    (["measure", "--rounds", "0", "a=true"], "--rounds"),
    (["measure", "--require", "x", "a=true"], "--require"),
    (["measure", "--from", "missing.jsonl"], "missing.jsonl"),
]


@pytest.mark.parametrize(("arguments", "hint"), WRONG)
def test_broken_usage_says_what_to_write(arguments, hint):
    done = command(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert hint in done.stderr
    assert "Traceback" not in done.stderr


def test_a_program_that_is_not_there_comes_with_a_hint():
    done = command(*ONCE, "a=no-such-program-anywhere")
    assert done.returncode == 3
    assert "no-such-program-anywhere" in done.stderr
    assert "without a shell" in done.stderr


def test_a_reader_that_leaves_early_is_no_error():
    both = f"{sys.executable} -m feedline --help"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {both} | true"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_ctrl_c_ends_it_at_once():
    arguments = ["measure", f"a={sys.executable} -c 'import time; print(1); time.sleep(3600)'"]
    process = subprocess.Popen(
        [sys.executable, "-m", "feedline", *arguments, "--out", "/dev/stdout"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout.readline() != "", "the header is written when it begins"
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE)
        assert process.returncode == -signal.SIGINT
    finally:
        # Its own child is not the terminal's here, so it has not got the signal.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
