"""`feedline doctor`: scripts with a bottleneck that is clear, and scripts that go wrong."""

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from pathlib import Path

import pytest

from feedline.doctor import NAMES, Run, diagnose
from feedline.doctor.costs import Costs
from feedline.doctor.course import Course
from feedline.doctor.probe import Probe
from feedline.doctor.ranks import agreed
from feedline.doctor.stages import place_of
from patience import PATIENCE

pytest.importorskip("torch")

HEAD = """
import os, sys, time, torch
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)

class Samples(Dataset):
    def __len__(self): return 100_000
    def __getitem__(self, i): return self.make(i)
    def make(self, i): return torch.zeros(8)

def collated(samples):
    return torch.stack(samples)

class Model(torch.nn.Module):
    def forward(self, x):
        time.sleep(0.002)  # as if waiting for an accelerator
        return x.sum()

model = Model()
"""

BESIDE = """
class Slow(Samples):
    def make(self, i):
        return self.{function}(i)
    def {function}(self, i):
        time.sleep(0.02)
        return torch.zeros(8)
for batch in DataLoader(Slow(), batch_size=4, num_workers=2):
    model(batch)
"""

COLLATED = """
def collated(samples):
    time.sleep(0.05)
    return torch.stack(samples)
for batch in DataLoader(Samples(), batch_size=4, num_workers=2, collate_fn=collated):
    model(batch)
"""

INLINE = """
class Slow(Samples):
    def make(self, i):
        time.sleep(0.005)
        return torch.zeros(8)
for batch in DataLoader(Slow(), batch_size=4):
    model(batch)
"""

LOOP = """
for batch in DataLoader(Samples(), batch_size=4, num_workers=1):
    model(batch)
    time.sleep(0.06)
"""


@pytest.fixture
def doctor(tmp_path):
    """Run the command in a session of its own, which ends with the test."""

    def run(source, *options, arguments=(), head=HEAD, before=()):
        script = tmp_path / "train.py"
        script.write_text(head + textwrap.dedent(source))
        command = [sys.executable, *before, "-m", "feedline", "doctor", *options, "train.py"]
        out, err = tmp_path / "stdout", tmp_path / "stderr"
        # Of a short path: names of sockets have 108 letters.
        temporary = Path(tempfile.mkdtemp(prefix="doctor-"))
        with out.open("wb") as stdout, err.open("wb") as stderr:
            process = subprocess.Popen(
                [*command, *arguments],
                cwd=tmp_path,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
                env={**os.environ, "TMPDIR": str(temporary)},
                # Two cores wherever the tests run: "too few workers" means fewer than cores.
                preexec_fn=lambda: os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2]),
            )
        try:
            code = process.wait(PATIENCE / 2)
        finally:
            # When the command has ended nothing of it may be left; of a failed test neither.
            left = remains(tmp_path)
            for pid in left:
                os.kill(pid, signal.SIGKILL)
        assert left == []
        # What frameworks leave there without the doctor is not the doctor's.
        mine = [it.name for it in temporary.iterdir() if it.name.startswith(("feedline", "pymp"))]
        shutil.rmtree(temporary)
        assert mine == []
        return code, out.read_text(), err.read_text()

    return run


def remains(folder):
    """Processes that still work in a folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            if state not in "ZX" and (entry / "cwd").readlink() == folder:
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def found(answer):
    code, out, err = answer
    assert (code, err) == (0, "")
    return json.loads(out)


@pytest.mark.parametrize(
    ("function", "name"),
    [("read", "storage"), ("decode", "decode"), ("augment", "transform")],
)
def test_a_slow_stage_is_named_with_its_line(doctor, function, name):
    told = found(doctor(BESIDE.format(function=function), "--json", "--seconds", "1"))
    assert told["bottleneck"] == name
    assert told["hotspots"][0]["source"] == "time.sleep(0.02)"
    assert told["hotspots"][0]["function"] == f"Slow.{function}"
    assert told["waiting_share"] > 0.5
    assert told["ceiling"] > 2
    # Samples that sleep need no core.
    assert told["change"]["settings"]["num_workers"] > 2


def test_a_slow_collate_function_is_named_with_its_line(doctor):
    told = found(doctor(COLLATED, "--json", "--seconds", "1"))
    assert told["bottleneck"] == "collate"
    assert told["hotspots"][0]["source"] == "time.sleep(0.05)"


def test_a_loop_that_loads_its_own_batches_needs_workers_and_trying_them_helps(doctor, tmp_path):
    page = tmp_path / "page.html"
    told = found(doctor(INLINE, "--json", "--try", "--page", str(page), "--seconds", "1"))
    assert told["bottleneck"] == "too few workers"
    assert told["change"]["settings"] == told["tried"]["settings"]
    assert told["change"]["expected_gain"] > 1.5
    assert told["tried"]["gain"] == told["tried"]["before"] / told["tried"]["after"]
    assert "too few workers" in page.read_text()


def test_code_beside_the_model_is_the_loop_itself(doctor):
    code, out, err = doctor(LOOP, "--seconds", "1")
    assert (code, err) == (0, "")
    assert "Bottleneck: the loop itself" in out
    line = (HEAD + LOOP).splitlines().index("    time.sleep(0.06)") + 1
    assert f"train.py:{line}  time.sleep(0.06)" in out


def test_a_model_that_is_waited_for_is_no_bottleneck(doctor):
    source = """
    class Large(torch.nn.Module):
        def forward(self, x):
            time.sleep(0.05)
            return x.sum()
    model = Large()
    for batch in DataLoader(Samples(), batch_size=4, num_workers=1):
        model(batch)
    """
    told = found(doctor(source, "--json", "--seconds", "1"))
    assert told["bottleneck"] == "none"
    assert told["change"] is None


def test_output_of_the_script_is_not_that_of_the_command(doctor):
    source = """
    print("out" * 1000); print("err", file=sys.stderr)
    if sys.argv[1:] != ["--lr", "0.1"]: sys.exit(9)
    """ + textwrap.indent(INLINE, "    ")
    told = found(doctor(source, "--json", "--seconds", "1", arguments=["--lr", "0.1"]))
    assert told["script"] == "train.py"


def test_batches_in_shared_memory_leave_nothing_there(doctor, tmp_path):
    # With this strategy each tensor is a file of a name until somebody tidies up.
    source = """
    torch.multiprocessing.set_sharing_strategy("file_system")
    class Large(Samples):
        def make(self, i):
            open(f"made-by-{os.getpid()}", "w").close()
            time.sleep(0.01)
            return torch.zeros(50_000)
    for batch in DataLoader(Large(), batch_size=4, num_workers=2):
        model(batch)
    """
    found(doctor(source, "--json", "--seconds", "1"))
    makers = [it.name.rpartition("-")[2] for it in tmp_path.glob("made-by-*")]
    assert len(makers) >= 2
    left = [it.name for pid in makers for it in Path("/", "dev", "shm").glob(f"torch_{pid}_*")]
    assert left == []


def test_a_script_that_does_not_let_go_is_ended_and_leaves_nothing(doctor, tmp_path):
    # Killed in the end, it can tidy up nothing itself: neither sockets nor memory with a name.
    source = """
    from multiprocessing import shared_memory
    held = shared_memory.SharedMemory(create=True, size=100)
    open(f"holds-{held.name.strip('/')}", "w").close()
    class Slow(Samples):
        def read(self, i):
            time.sleep(0.01)
            return torch.zeros(8)
        make = read
    while True:
        try:
            for batch in DataLoader(Slow(), batch_size=4, num_workers=2):
                model(batch)
        except BaseException:
            pass
    """
    told = found(doctor(source, "--json", "--seconds", "1"))
    assert told["bottleneck"] == "storage"
    [held] = [it.name.partition("-")[2] for it in tmp_path.glob("holds-*")]
    assert not Path("/", "dev", "shm", held).exists()


# ---- a change that is tried


class Numbered:
    def __len__(self):
        return 10_000

    def __getitem__(self, index):
        return index


def test_a_change_is_tried_beside_the_scripts_own_loader():
    from torch.utils.data import DataLoader

    loader = DataLoader(Numbered(), batch_size=2)
    probe = Probe(loader, {"num_workers": 2}, seconds=0.01, most=PATIENCE)
    try:
        batches = []
        while not probe.is_over:
            batches.append(probe.next(0.001).tolist())
        told = probe.told()
    finally:
        probe.end()
    assert batches[:2] == [[0, 1], [2, 3]]
    assert told["settings"] == {"num_workers": 2}
    assert told["period"] > 0.001, "the step is part of it"
    assert (loader.num_workers, loader.prefetch_factor, loader._iterator) == (0, None, None)


def test_the_drop_in_is_tried_with_the_same_samples():
    from torch.utils.data import DataLoader

    loader = DataLoader(Numbered(), batch_sampler=[[5, 6], [7, 8], [1, 2]], num_workers=1)
    probe = Probe(loader, {"loader": "feedline"}, seconds=1, most=1)
    try:
        assert [probe.next(None).tolist() for _ in range(3)] == [[5, 6], [7, 8], [1, 2]]
    finally:
        probe.end()
    assert probe.told()["problem"] == "it handed out too few batches"


def seen_run(workers, stages, probes=(), step=0.01, wait=0.05):
    """What a script leaves whose workers spend this many seconds on stages, on the processor."""
    count = 100
    line = ["train.py", 1, "make"]
    places = [
        ["make", stage, stage, line, False, on * count, on * count, 0.0]
        for stage, on in stages.items()
    ]
    process = {
        "pid": 1,
        "script": False,
        "seconds": count * (step + wait),
        "cpu": 1.0,
        "ticks": 1000,
        "late": 0,
        "running": ["make"],
        "made": count,
        "places": places,
        "made_seconds": count * sum(stages.values()),
        "made_cpu": 1.0,
    }
    loader = {
        "number": 1,
        "where": "train.py:1",
        "workers": workers,
        "prefetch": 2,
        "batch_size": 4,
        "batches_per_epoch": 1000,
        "persistent_workers": False,
        "mode": "process",
        "is_feedline": False,
        "is_steered": False,
        "batches": count,
        "start_seconds": [0.1],
        "stages": None,
        "waits": [wait] * count,
        "steps": [step] * count,
    }
    seen = {
        "ended": {"how": "enough"},
        "loaders": 1,
        "loader": loader,
        "lost": None,
        "replay_steps": [step] * count,
        "batch_bytes": 100,
        "batch_parts": 1,
        "tensor_share": 1.0,
        "has_feedline_loader": False,
        "died": "",
        "probes": list(probes),
    }
    return Run(seen, [process])


def test_on_many_cores_too_few_workers_are_named_and_the_largest_stage_is_told():
    found = diagnose(seen_run(2, {"decode": 0.1, "transform": 0.02}), cores=16)
    assert (found.bottleneck, found.stage) == ("too few workers", "decode")
    assert found.change.settings["num_workers"] > 2
    found = diagnose(seen_run(2, {"decode": 0.1, "transform": 0.02}), cores=2)
    assert (found.bottleneck, found.stage) == ("decode", "decode")


def test_readers_that_wait_are_held_up_by_storage_however_many_cores_there_are():
    run = seen_run(2, {"storage": 0.12})
    run.processes[0]["places"][0][6] = 0.0  # off the processor
    found = diagnose(run, cores=16)
    assert found.bottleneck == "storage"
    assert found.change.settings["num_workers"] > 2


def test_what_was_tried_counts_and_not_what_the_model_says():
    run = seen_run(2, {"decode": 0.1, "transform": 0.02})
    settings = diagnose(run, cores=16).change.settings
    good = {"settings": settings, "seconds": 1.0, "period": 0.03}
    found = diagnose(seen_run(2, {"decode": 0.1, "transform": 0.02}, [good]), cores=16)
    assert found.change.gain == pytest.approx(0.06 / 0.03)
    assert found.change.probed == 1.0
    # More workers that brought nothing are neither recommended nor missed.
    useless = {"settings": settings, "seconds": 1.0, "period": 0.06}
    found = diagnose(seen_run(2, {"decode": 0.1, "transform": 0.02}, [useless]), cores=16)
    assert found.bottleneck == "decode"
    assert found.change.settings == {}
    # Nor is one that failed.
    failed = {"settings": settings, "problem": "OSError()"}
    found = diagnose(seen_run(2, {"decode": 0.1, "transform": 0.02}, [failed]), cores=16)
    assert found.change.settings == {}


def test_a_loop_that_waits_a_little_and_does_much_beside_the_model_is_the_loop_itself():
    run = seen_run(2, {"decode": 0.002}, step=0.024, wait=0.004)
    place = ["step", "loop", "loop", ["train.py", 9, "main"], False, 1.8, 1.8, 0.0]
    run.processes.append({**run.processes[0], "script": True, "made": 0, "places": [place]})
    found = diagnose(run, cores=2)
    assert (found.waiting, found.ceiling) == pytest.approx((4 / 28, 28 / 24))
    assert found.bottleneck == "the loop itself"
    # 18 of 28 ms are the loop's own; taking a batch takes as long as before.
    assert found.change.gain == pytest.approx(28 / 10, rel=0.05)


def test_less_than_a_tenth_of_waiting_is_none():
    found = diagnose(seen_run(2, {"decode": 0.002}, step=0.0224, wait=0.0024), cores=2)
    assert found.waiting < 0.1 < found.ceiling - 1
    assert (found.bottleneck, found.change) == ("none", None)


def test_without_threads_that_take_turns_the_loop_waits_for_nothing_they_make():
    useless = {"settings": {"num_workers": 2}, "seconds": 1.0, "period": 0.06}
    run = seen_run(1, {"transform": 0.05}, [useless])
    run.processes[0] |= {"running": ["make", "other", "other"], "late": 900}
    found = diagnose(run, cores=2)
    assert found.bottleneck == "GIL"
    assert found.change.settings == {}
    assert found.change.gain == pytest.approx(0.06 / 0.01, rel=0.05)


# ---- scripts of which nothing can be said


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("print(6 * 7)", ["never iterated a DataLoader", "42"]),
        ("raise LookupError('no data')", ["died of LookupError: no data", "Traceback"]),
        ("name = input('which data? ')", ["reads its standard input", "which data?", "EOFError"]),
        ("import json, sys; json.load(sys.stdin)", ["reads its standard input", "JSONDecodeError"]),
        ("import sys\nfor line in sys.stdin: pass", ["reads its standard input", "and ended"]),
        ("import sys; sys.exit(4)", ["ended with exit code 4"]),
        ("import os; os._exit(0)", ["ended before anything was seen"]),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", ["killed by SIGSEGV"]),
        ("this is no Python", ["died of SyntaxError"]),
        ("import os; print('x', flush=True); os.abort()", ["killed by SIGABRT", "  x"]),
    ],
)
def test_a_script_without_batches_is_told_about(doctor, source, words):
    code, out, err = doctor(source, head="")
    assert (code, out) == (3, "")
    for word in words:
        assert word in err


def test_a_script_that_ends_early_is_told_about(doctor):
    code, out, err = doctor("for _ in zip(range(2), DataLoader(Samples())): pass")
    assert (code, out) == (3, "")
    assert "ended after 2 batches" in err


def test_a_script_that_dies_in_mid_run_is_told_about_with_both_its_streams(doctor):
    source = """
    for number, batch in enumerate(DataLoader(Samples(), num_workers=2)):
        if number == 2:
            print("to out"); print("to err", file=sys.stderr)
            raise LookupError("no such label")
    """
    code, out, err = doctor(source)
    assert (code, out) == (3, "")
    for words in ("died of LookupError: no such label after 3 batches", "to out", "to err"):
        assert words in err


def test_a_script_that_dies_later_is_diagnosed_and_its_death_told(doctor):
    source = """
    for number, batch in enumerate(DataLoader(Samples(), batch_size=4)):
        model(batch)
        time.sleep(0.05)
        if number == 20:
            raise MemoryError("out of memory")
    """
    told = found(doctor(source, "--json", "--seconds", "5"))
    assert told["died"].startswith("died of MemoryError: out of memory after 21 batches")
    assert told["bottleneck"] in NAMES
    code, out, _ = doctor(source, "--seconds", "5")
    assert code == 0
    assert "\nIt died of MemoryError" in out


def test_threads_that_come_and_go_are_no_end_of_looking(doctor):
    source = """
    from concurrent.futures import ThreadPoolExecutor
    class Pooled(Samples):
        def make(self, i):
            with ThreadPoolExecutor(1) as pool:
                pool.submit(time.sleep, 0.001).result()
            return self.read(i)
        def read(self, i):
            time.sleep(0.02)
            return torch.zeros(8)
    for batch in DataLoader(Pooled(), batch_size=4, num_workers=2):
        model(batch)
    """
    told = found(doctor(source, "--json", "--seconds", "1"))
    assert told["bottleneck"] == "storage"
    assert told["stages"]["storage"] > 0.06


def test_a_script_of_which_a_worker_dies_is_told_about(doctor):
    source = """
    class Deadly(Samples):
        def make(self, i):
            if i == 5: os._exit(7)
            return torch.zeros(8)
    for batch in DataLoader(Deadly(), batch_size=2, num_workers=1):
        model(batch)
    """
    code, out, err = doctor(source)
    assert (code, out) == (3, "")
    # Of what, depends on who notices first: torch's handler, or whoever reads from the worker.
    assert "error: train.py died of " in err


def test_a_loop_that_forks_is_watched_and_its_child_too_ends(doctor):
    source = """
    class Slow(Samples):
        def make(self, i):
            time.sleep(0.005)
            return torch.zeros(8)
    loader = DataLoader(Slow(), batch_size=4)
    if os.fork() == 0:
        for batch in loader: pass
        time.sleep(1000)
    for batch in loader:
        model(batch)
    """
    told = found(doctor(source, "--json", "--seconds", "1"))
    assert told["bottleneck"] == "too few workers"


def test_the_main_thread_of_a_process_that_was_forked_is_seen(tmp_path):
    program = """
    import json, os, sys, time
    from pathlib import Path
    from feedline.doctor.sampling import Sampler
    from feedline.doctor.signals import WATCH, Signal

    folder = Path(sys.argv[1])
    if os.fork():
        sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
    Sampler(folder, is_script=True).start()
    Signal(folder).phase = WATCH
    seen, written = [], folder / f"process-{os.getpid()}.json"
    while "step" not in seen:
        time.sleep(0.01)
        if written.exists():
            seen = [role for role, *_ in json.loads(written.read_text())["places"]]
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(tmp_path)]
    assert subprocess.run(command, timeout=PATIENCE).returncode == 0


def test_a_script_that_takes_too_long_is_ended(doctor):
    code, out, err = doctor("import time; time.sleep(1000)", "--limit", "0.5", head="")
    assert (code, out) == (3, "")
    assert "too few batches within 0.5 s" in err


def test_what_a_script_starts_ends_with_it(doctor, tmp_path):
    # A process of another session, with the script's streams open.
    source = """
    import os, time
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(1000)
        os._exit(0)
    print(os.wait())
    """
    code, _, err = doctor(source, head="")
    assert code == 3
    assert "never iterated" in err
    assert remains(tmp_path) == []


def test_a_script_that_is_not_there_is_told_about(doctor):
    done = subprocess.run(
        [sys.executable, "-m", "feedline", "doctor", "no_such.py"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == "error: there is no script no_such.py\n"


def test_arguments_that_cannot_be_are_refused():
    for options in (["--seconds", "0"], ["--limit", "soon"], []):
        done = subprocess.run(
            [sys.executable, "-m", "feedline", "doctor", *options],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert (done.returncode, done.stdout) == (2, "")


def test_ctrl_c_ends_the_script_too(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("import time; open('began', 'w').close(); time.sleep(1000)")
    process = subprocess.Popen(
        [sys.executable, "-m", "feedline", "doctor", "train.py"],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    end = time.monotonic() + PATIENCE / 2
    while not (tmp_path / "began").exists() and time.monotonic() < end:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE / 2) == 130
    assert remains(tmp_path) == []


# ---- frameworks

LIGHTNING = """
import warnings; warnings.simplefilter("ignore")
import lightning
class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__(); self.inner = torch.nn.Linear(8, 1)
    def training_step(self, batch, _): return self.inner(batch).mean()
    def configure_optimizers(self): return torch.optim.SGD(self.parameters(), 0.1)
class Slow(Samples):
    def read(self, i):
        time.sleep(0.02)
        return torch.zeros(8)
    make = read
quiet = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False)
trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", enable_model_summary=False, **quiet)
trainer.fit(Module(), DataLoader(Slow(), batch_size=4, num_workers=2))
"""

ACCELERATE = """
from accelerate import Accelerator
class Slow(Samples):
    def read(self, i):
        time.sleep(0.02)
        return torch.zeros(8)
    make = read
accelerator = Accelerator(cpu=True)
for batch in accelerator.prepare(DataLoader(Slow(), batch_size=4, num_workers=2)):
    model(batch)
"""

DISTRIBUTED = """
import torch.distributed
torch.distributed.init_process_group("gloo")
class Slow(Samples):
    def read(self, i):
        time.sleep(0.02)
        return torch.zeros(8)
    make = read
for batch in DataLoader(Slow(), batch_size=4, num_workers=2):
    total = model(batch)
    torch.distributed.all_reduce(total)
"""


@pytest.mark.parametrize(
    ("package", "source"), [("lightning", LIGHTNING), ("accelerate", ACCELERATE)]
)
def test_it_works_under_frameworks(doctor, package, source):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    told = found(doctor(source, "--json", "--seconds", "1"))
    assert told["bottleneck"] == "storage"
    assert told["hotspots"][0]["function"] == "Slow.read"


def test_it_works_under_torchrun_and_one_rank_speaks(doctor):
    ranks = ["--nproc-per-node", "2", "--rdzv-endpoint", "localhost:0", "--rdzv-backend", "c10d"]
    code, out, err = doctor(
        DISTRIBUTED, "--json", "--seconds", "1", before=["-m", "torch.distributed.run", *ranks]
    )
    assert code == 0, err
    assert json.loads(out)["bottleneck"] in NAMES


def test_ranks_try_the_same_change(doctor):
    ranks = ["--nproc-per-node", "2", "--rdzv-endpoint", "localhost:0", "--rdzv-backend", "c10d"]
    code, out, err = doctor(
        DISTRIBUTED.replace("num_workers=2", "num_workers=1"),
        *("--json", "--try", "--seconds", "1"),
        before=["-m", "torch.distributed.run", *ranks],
    )
    assert code == 0, err
    told = json.loads(out)
    assert told["change"]["settings"] == told["tried"]["settings"]
    assert told["tried"]["gain"] == told["tried"]["before"] / told["tried"]["after"]


def test_a_rank_that_is_left_by_the_others_has_at_least_half_of_what_it_saw(tmp_path, monkeypatch):
    from torch.utils.data import DataLoader

    monkeypatch.setenv("WORLD_SIZE", "2")
    course = Course(tmp_path, seconds=PATIENCE, watch_seconds=PATIENCE)
    loader = DataLoader(range(1 << 30), batch_size=None)
    iterator = iter(loader)
    course.begin(iterator, loader)
    while len(course._chosen.waits if course._chosen else ()) < 40:
        course.next(iterator, next)
    written = json.loads((tmp_path / "watched.json").read_text())
    assert len(written["loader"]["waits"]) == 24


def test_ranks_that_were_started_once_more_do_not_hear_what_was_said_before(monkeypatch):
    from torch.distributed import TCPStore

    store = TCPStore("localhost", 0, is_master=True, wait_for_workers=False)

    def said(rank, restart, settings, seconds=PATIENCE):
        # Ranks change the environment of what they run next.
        with monkeypatch.context() as environment:
            for name, value in (
                ("MASTER_ADDR", "localhost"),
                ("MASTER_PORT", store.port),
                ("TORCHELASTIC_USE_AGENT_STORE", "True"),
                ("WORLD_SIZE", 2),
                ("RANK", rank),
                ("TORCHELASTIC_RESTART_COUNT", restart),
            ):
                environment.setenv(name, str(value))
            return agreed(settings, seconds)

    assert said(0, 0, {"num_workers": 3}) == {"num_workers": 3}
    assert said(1, 0, {"num_workers": 4}) == {"num_workers": 3}
    with pytest.raises(RuntimeError):
        said(1, 1, {"num_workers": 4}, seconds=0.2)
    assert said(0, 1, {}) == said(1, 1, {"num_workers": 4}) == {}


# ---- what is made of what was seen


def costs(**given):
    known = dict.fromkeys(("on", "off", "lock", "send", "receive", "step_cpu"), 0.0)
    return Costs(**({"workers": 2, "prefetch": 2, "step": 0.01, "cores": 2, **known} | given))


def test_a_loader_without_workers_takes_step_and_making_after_each_other():
    assert costs(workers=0, on=0.02, off=0.03).period() == pytest.approx(0.06)


def test_costs_that_were_fitted_say_what_was_measured():
    for known in (costs(off=0.1), costs(on=0.08), costs(workers=0, on=0.05)):
        assert known.fitted(0.07).period() == pytest.approx(0.07)


def test_workers_with_less_to_do_hand_their_batches_over_sooner():
    # Of 6 ms that taking a batch of two tensors takes, 1.5 ms are the transport's own.
    known = costs(on=0.08, receive=0.006).with_held(2)
    assert (known.receive, known.held) == pytest.approx((0.0015, 0.0045))
    assert known.without(on=0.06).held == pytest.approx(0.0045 / 4)
    assert known.without(off=0.06).held == known.held


def test_where_workers_are_idle_taking_batches_is_what_takes_the_time():
    known = costs(on=0.002, receive=0.001).fitted(0.015)
    assert (known.receive, known.factor) == (pytest.approx(0.005), 1.0)
    assert known.period() == pytest.approx(0.015, rel=0.01)


def test_workers_that_wait_help_beyond_the_cores_and_those_that_compute_do_not():
    waiting, computing = costs(off=0.08).fitted(0.04), costs(on=0.08).fitted(0.04)
    assert waiting.best_workers(0.04)[0] > 4
    assert computing.best_workers(0.04) == (2, 1.0)


def seen_at(function):
    """Where a thread is that a function holds up."""
    frames, arrived, leave = [], threading.Event(), threading.Event()

    def hold(frame=None):
        frames.append(sys._getframe(1))
        arrived.set()
        leave.wait(PATIENCE)

    class Held:
        def __getitem__(self, index):
            return function(hold)

    from torch.utils.data._utils.fetch import _MapDatasetFetcher

    fetcher = _MapDatasetFetcher(Held(), True, function if function is collate else list, False)
    thread = threading.Thread(target=lambda: fetcher.fetch([0]))
    if function is collate:
        fetcher.dataset = [hold]
    thread.start()
    assert arrived.wait(PATIENCE)
    try:
        return place_of(frames[0], is_main=False)
    finally:
        leave.set()
        thread.join()


def read_rows(hold):
    hold()


def decodeJpeg(hold):  # noqa: N802 - names of other habits count, too
    hold()


def random_crop(hold):
    hold()


def prepare(hold):
    hold()


def collate(samples):
    samples[0]()


@pytest.mark.parametrize(
    ("function", "on", "off"),
    [
        (read_rows, "storage", "storage"),
        (decodeJpeg, "decode", "decode"),
        (random_crop, "transform", "transform"),
        (prepare, "transform", "storage"),
        (collate, "collate", "collate"),
    ],
)
def test_stages_are_told_by_names_and_by_the_processor(function, on, off):
    place = seen_at(function)
    assert (place.role, place.on, place.off) == ("make", on, off)
    assert place.line.function.endswith(function.__name__)


@pytest.mark.parametrize("folder", ["/usr/lib/python3/dist-packages", "/other/site-packages"])
def test_a_line_of_a_library_is_none_of_the_users_wherever_it_is_installed(folder):
    library = {}
    exec(compile("def load(hold): hold()", f"{folder}/library/io.py", "exec"), library)  # noqa: S102

    def prepare(hold):
        library["load"](hold)

    assert seen_at(prepare).line.file == __file__
