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
import time
from pathlib import Path

import pytest

from feedline.doctor import NAMES
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
