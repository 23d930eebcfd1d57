"""`feedline tune`: the search against a loader whose every point is known, and the command."""

import io
import json
import subprocess
import sys
import tarfile
import textwrap

import numpy as np
import pytest
from PIL import Image

from feedline.tune import Setting, Target, TargetError, Trial, opened, search, tune
from patience import PATIENCE

CORES = 2


def grid(mode):
    modes = ("native",) if mode == "native" else ("process", "thread")
    axes = {
        "workers": (0, 1, 2, 3, 4, 6, 8),
        "mode": modes,
        "prefetch": (1, 2, 4, 8) if mode == "native" else (1, 2, 4),
        "order": ("planned", "ready") if mode == "native" else ("planned",),
        "batch_size": (32,),
    }
    return Target(lambda _: [], Setting(1, modes[0], 2, "planned", 32), axes, str)


def waiting(setting, cpu):
    """32 samples that wait 2 ms each: workers do so side by side."""
    workers, period = setting.workers or 1, 0.064
    return period / workers, 0.001


def computing(setting, cpu):
    """They compute 2 ms each: as many at once as there are cores."""
    return 0.064 / min(setting.workers or 1, CORES), 0.064


def under_the_lock(setting, cpu):
    """The same in Python code: threads take turns."""
    if setting.mode == "thread":
        return 0.066, 0.064
    return computing(setting, cpu)


def with_gaps(setting, cpu):
    """Threads that wait for the lock leave cores idle, which others then use."""
    period, used = computing(setting, cpu)
    if setting.mode == "thread":
        return 0.032 / min(0.5 + 0.15 * setting.workers, 1.0), used
    return period * (1.3 if setting.mode == "process" else 1.0), used


def crowded(setting, cpu):
    """More workers than cores are a burden."""
    period, used = computing(setting, cpu)
    return period * (1 + 0.1 * max(setting.workers - CORES, 0)), used


def uneven(setting, cpu):
    """Batches of which some take long: those ready first, or more ahead, help."""
    period, used = waiting(setting, cpu)
    return period * (0.8 if setting.order == "ready" else 1.0) * (1 - 0.02 * setting.prefetch), used


@pytest.fixture
def known(monkeypatch):
    """Let points be known instead of measured."""

    def by(function):
        def trial(target, setting, *, seconds, step=0.0):
            period, cpu = function(setting, 0.0)
            period = max(period, step) if setting.workers else period + step
            size, memory = 1 << 20, (1 << 20) * setting.prefetch * max(setting.workers, 1)
            return Trial(setting, 32 / period, period, cpu, size, memory, seconds)

        monkeypatch.setattr(search, "measured", trial)
        monkeypatch.setattr(search, "usable_cores", lambda: CORES)
        return trial

    return by


@pytest.mark.parametrize("mode", ["process", "native"])
@pytest.mark.parametrize(
    "function", [waiting, computing, under_the_lock, with_gaps, crowded, uneven]
)
def test_the_choice_is_as_good_as_the_best_of_the_grid_with_a_quarter_of_its_points(
    known, function, mode
):
    measured, target = known(function), grid(mode)
    found = tune(target)
    best = max(measured(target, it, seconds=1).rate for it in target.grid())
    assert found.best.rate >= 0.95 * best
    assert len(found.trials) <= 0.25 * len(target.grid())


def test_workers_that_a_step_does_not_need_are_not_chosen(known):
    known(waiting)
    found = tune(grid("process"), step=0.04)
    assert found.best.setting.workers == 2


def test_points_that_take_more_memory_than_allowed_are_not_chosen(known):
    known(waiting)
    found = tune(grid("process"), memory=9 << 20)
    assert found.best.memory <= 9 << 20
    assert found.best.setting.workers > 1


def test_a_grid_of_failures_is_an_error_with_the_reason(known, monkeypatch):
    known(waiting)
    failed = lambda target, setting, **_: Trial(setting, 0, 0, 0, 0, 0, 0, "OSError('gone')")  # noqa: E731
    monkeypatch.setattr(search, "measured", failed)
    with pytest.raises(ValueError, match="no setting works: OSError"):
        tune(grid("process"))


def test_the_best_few_are_measured_again_and_one_lucky_run_decides_nothing(known, monkeypatch):
    measured, runs = known(computing), []

    def noisy(target, setting, **given):
        trial = measured(target, setting, **given)
        runs.append(setting)
        # The first run of this point says 5 % too much, the others what it is.
        lucky = setting.prefetch == 4 and runs.count(setting) == 1
        return trial._replace(rate=trial.rate * (1.05 if lucky else 1.0))

    monkeypatch.setattr(search, "measured", noisy)
    found = tune(grid("process"))
    assert found.best.setting.prefetch < 4
    assert runs.count(found.best.setting) > 1
    assert len(runs) <= 0.25 * len(grid("process").grid())


# ---- what is tuned


def test_what_a_loader_has_now_is_what_it_was_told(tmp_path):
    source = """
    import numpy as np, feedline
    def make(num_workers=3, prefetch=6, order="ready"):
        rows = feedline.arrays(np.zeros((64, 2)))
        return feedline.Loader(
            rows, batch_size=8, num_workers=num_workers, prefetch=prefetch, order=order
        )
    """
    (tmp_path / "told_loader.py").write_text(textwrap.dedent(source))
    target = opened(f"{tmp_path / 'told_loader.py'}:make")
    assert target.now == Setting(3, "native", 6, "ready", 8)


def test_what_a_function_makes_is_measured_as_it_is(tmp_path):
    torch = pytest.importorskip("torch")
    source = """
    from torch.utils.data import DataLoader
    def make(): return DataLoader(range(64), batch_size=8)
    """
    (tmp_path / "own_loader.py").write_text(textwrap.dedent(source))
    target = opened(f"{tmp_path / 'own_loader.py'}:make")
    assert type(target.make(target.now)) is torch.utils.data.DataLoader
    ours = target.make(target.now._replace(workers=2))
    assert type(ours).__module__ == "feedline.torch.dataloader"
    assert [len(batch) for batch in target.make(target.now)] == [8] * 8


def made_by(code):
    here = {}
    exec(code, here)  # noqa: S102 - as a user runs it
    return here["loader"]


def test_code_to_paste_keeps_what_the_loader_had(tmp_path):
    torch = pytest.importorskip("torch")
    source = """
    import torch
    from torch.utils.data import DataLoader, WeightedRandomSampler
    def collated(samples): return torch.tensor(samples) * 10
    def begun(worker): pass
    def make():
        sampler = WeightedRandomSampler([0.0, 1.0] * 8, 12, generator=torch.Generator())
        return DataLoader(
            range(16), batch_size=5, sampler=sampler, drop_last=True, collate_fn=collated,
            worker_init_fn=begun, num_workers=1, persistent_workers=True, timeout=50,
        )
    """
    (tmp_path / "own-loader.py").write_text(textwrap.dedent(source))
    target = opened(f"{tmp_path / 'own-loader.py'}:make")
    loader = made_by(target.paste(Setting(2, "thread", 4, "planned", 6)))
    assert type(loader).__module__ == "feedline.torch.dataloader"
    assert (loader.num_workers, loader.worker_mode, loader.prefetch_factor) == (2, "thread", 4)
    assert loader.persistent_workers
    assert (loader.timeout, loader.worker_init_fn.__name__) == (50, "begun")
    batches = list(loader)
    assert [len(batch) for batch in batches] == [6, 6]
    assert set(torch.cat(batches).tolist()) <= {number * 10 for number in range(1, 16, 2)}
    # What it has already is made by the function alone.
    assert made_by(target.paste(target.now)).batch_size == 5
    # Without workers there is nothing that they could have.
    assert not made_by(target.paste(target.now._replace(workers=0))).persistent_workers


def test_code_to_paste_keeps_what_only_the_drop_in_has(tmp_path):
    pytest.importorskip("torch")
    source = """
    from feedline.torch import DataLoader
    def make():
        return DataLoader(
            range(16), batch_size=4, num_workers=1, seed=3, on_error="skip", max_errors=2,
            memory="1GiB", dataset_lock=True, on_worker_death="restart", sample_timeout=50,
        )
    """
    (tmp_path / "own_drop_in.py").write_text(textwrap.dedent(source))
    target = opened(f"{tmp_path / 'own_drop_in.py'}:make")
    names = ("seed", "on_error", "max_errors", "memory", "dataset_lock", "on_worker_death")
    kept = (3, "skip", 2, 1 << 30, True, "restart")
    for workers, mode, timeout in ((2, "process", 50), (2, "thread", None), (0, "process", None)):
        loader = made_by(target.paste(target.now._replace(workers=workers, mode=mode)))
        assert tuple(getattr(loader, name) for name in names) == kept
        # Threads with a lock, and the loop itself, cannot have one.
        assert loader.sample_timeout == timeout
        assert [len(batch) for batch in loader] == [4] * 4


@pytest.mark.parametrize(
    ("loader", "batch"),
    [
        ("DataLoader(range(9), batch_sampler=[[7, 8], [1]])", [7, 8]),
        ("DataLoader(range(9), batch_size=None, sampler=[4, 2])", 4),
        ("DataLoader(Stream(), batch_size=3)", [0, 1, 2]),
        ("DataLoader(range(9))", [0]),
    ],
)
def test_code_to_paste_runs_for_loaders_of_any_kind(tmp_path, loader, batch):
    pytest.importorskip("torch")
    source = f"""
    from torch.utils.data import DataLoader, IterableDataset
    class Stream(IterableDataset):
        def __iter__(self): return iter(range(9))
    def make(): return {loader}
    """
    (tmp_path / "kinds_of_loaders.py").write_text(textwrap.dedent(source))
    target = opened(f"{tmp_path / 'kinds_of_loaders.py'}:make")
    for setting in (target.now, target.now._replace(workers=1, mode="thread")):
        first = next(iter(made_by(target.paste(setting))))
        assert (first.tolist() if hasattr(first, "tolist") else first) == batch
        first = next(iter(target.make(setting)))
        assert (first.tolist() if hasattr(first, "tolist") else first) == batch


def test_a_function_that_takes_settings_is_pasted_with_them(tmp_path):
    pytest.importorskip("torch")
    source = """
    from torch.utils.data import DataLoader
    def make(num_workers=1, prefetch_factor=2, batch_size=4):
        return DataLoader(
            range(64), batch_size, num_workers=num_workers, prefetch_factor=prefetch_factor
        )
    """
    (tmp_path / "free_loader.py").write_text(textwrap.dedent(source))
    target = opened(f"{tmp_path / 'free_loader.py'}:make", batch_sizes=(8, 16))
    # Without workers torch takes no prefetch_factor.
    for workers in (0, 2):
        setting = target.now._replace(workers=workers, batch_size=16)
        assert setting in target.grid()
        made = made_by(target.paste(setting))
        assert (made.num_workers, made.batch_size) == (workers, 16)


def test_volumes_are_tuned_by_patches(tmp_path):
    nibabel = pytest.importorskip("nibabel")
    folder = tmp_path / "scans"
    for part in ("images", "masks"):
        (folder / part).mkdir(parents=True)
        for name in ("a.nii", "b.nii"):
            scan = nibabel.Nifti1Image(np.zeros((70, 60, 80), np.int16), np.eye(4))
            nibabel.save(scan, folder / part / name)
    target = opened(str(folder))
    volumes, masks = next(iter(target.make(target.now)))
    assert (volumes.shape, masks.shape) == ((2, 1, 64, 64, 64), (2, 64, 64, 64))
    pasted, _ = next(iter(made_by(target.paste(target.now))))
    assert pasted.shape == volumes.shape


def test_shards_of_a_folder_are_pasted_as_what_opens_them(tmp_path):
    buffer = io.BytesIO()
    Image.new("RGB", (32, 24)).save(buffer, "JPEG")
    with tarfile.open(tmp_path / "a.tar", "w") as shard:
        for name, data in (("0.jpg", buffer.getvalue()), ("0.cls", b"3")):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            shard.addfile(entry, io.BytesIO(data))
    target = opened(str(tmp_path))
    batch = next(iter(made_by(target.paste(target.now))))
    assert batch["image"].shape == (1, 3, 224, 224)


# ---- the command


def command(folder, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "feedline", "tune", "--seconds", "0.05", *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        cwd=folder,
    )


def pasted(folder, code, fact):
    """Run code as it was printed."""
    program = [sys.executable, "-c", f"{code}\n{fact}"]
    subprocess.run(program, check=True, cwd=folder, timeout=PATIENCE)


def test_a_source_is_tuned_and_the_code_runs(tmp_path):
    np.save(tmp_path / "rows.npy", np.zeros((4096, 8), np.float32))
    done = command(tmp_path, "rows.npy", "--json", "--page", "page.html", "--batch-sizes", "16,64")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert len(told["trials"]) <= 0.25 * told["grid_points"]
    assert told["best"]["settings"]["batch_size"] in (16, 64)
    assert "rows.npy" in (tmp_path / "page.html").read_text()
    pasted(tmp_path, told["code"], "assert len(next(iter(loader))) == 1")


def test_a_function_that_returns_a_loader_of_torch_is_tuned(tmp_path):
    pytest.importorskip("torch")
    source = """
    import time, torch
    from torch.utils.data import DataLoader
    class Slow(torch.utils.data.Dataset):
        def __len__(self): return 100_000
        def __getitem__(self, i):
            time.sleep(0.01)
            return torch.zeros(2)
    def make_loader():
        print("that a script prints something is no part of the answer")
        return DataLoader(Slow(), batch_size=4, shuffle=True)
    """
    (tmp_path / "data.py").write_text(textwrap.dedent(source))
    done = command(tmp_path, "data.py:make_loader", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["now"]["settings"] == {"batch_size": 4, "num_workers": 0}
    # Samples that sleep 10 ms: eight at once are eight times as many, on any machine.
    assert told["best"]["settings"]["num_workers"] >= 2
    assert told["gain"] == told["best"]["samples_per_second"] / told["now"]["samples_per_second"]
    workers = told["best"]["settings"]["num_workers"]
    fact = f"assert loader.num_workers == {workers}; assert next(iter(loader)).shape == (4, 2)"
    pasted(tmp_path, told["code"], fact)


TORCH = "from torch.utils.data import DataLoader\n"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("def make(): return 3", "returned int"),
        ("def other(): pass", "has no function make"),
        ("raise LookupError('x')", "raises when imported: LookupError('x')"),
        ("raise SystemExit(3)", "raises when imported: SystemExit(3)"),
        ("def make(): raise OSError('gone')", "raises when called: OSError('gone')"),
        ("def make(path): pass", "needs 'path', which is no setting"),
        (f"{TORCH}def make(num_workers=0): return DataLoader([1])", "takes no batch_size"),
        (f"{TORCH}def make(): return DataLoader([1], batch_sampler=[[0]])", "has a batch sampler"),
    ],
)
def test_what_cannot_be_tuned_is_told_about(tmp_path, source, words):
    (tmp_path / "broken_loader.py").write_text(source)
    with pytest.raises(TargetError, match=words.replace("(", "\\(").replace(")", "\\)")):
        opened(f"{tmp_path / 'broken_loader.py'}:make", batch_sizes=(2, 4))


def test_what_is_not_there_is_told_about(tmp_path):
    done = command(tmp_path, "no_such_folder")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == "error: cannot tune no_such_folder: there is no no_such_folder\n"


def test_arguments_that_cannot_be_are_refused(tmp_path):
    for options in (["--memory", "lots"], ["--batch-sizes", "0"], ["--step", "-1"]):
        done = command(tmp_path, "x.npy", *options)
        assert (done.returncode, done.stdout) == (2, "")
