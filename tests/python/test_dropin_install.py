"""Ours in the place of torch's, and torch's put back; programs that are run as they are."""

import inspect
import pickle
import subprocess
import sys
import types
from abc import ABC

import pytest

torch = pytest.importorskip("torch")

import torch.utils.data as named  # noqa: E402
from torch.utils.data import DataLoader as Held  # noqa: E402
from torch.utils.data import IterableDataset, dataloader  # noqa: E402

import feedline.torch  # noqa: E402
from feedline.torch import install, installed, uninstall  # noqa: E402

ORIGINAL = Held
TEN = list(range(10))


@pytest.fixture(autouse=True)
def _taken_back():
    yield
    uninstall()


def places():
    """Return the class under every name that a program may have it."""
    here = sys.modules[__name__]
    return [torch.utils.data.DataLoader, dataloader.DataLoader, named.DataLoader, here.Held]


def test_it_is_put_everywhere_and_taken_back_entirely(monkeypatch):
    other = types.ModuleType("somebodys_module")
    other.Loader = ORIGINAL
    monkeypatch.setitem(sys.modules, "somebodys_module", other)
    before = [dict(vars(module)) for module in (torch.utils.data, dataloader)]
    install()
    for place in (*places(), other.Loader):
        assert issubclass(place, feedline.torch.DataLoader)
    # A module that is imported meanwhile has ours.
    late = types.ModuleType("a_late_module")
    exec("from torch.utils.data import DataLoader", vars(late))  # noqa: S102
    monkeypatch.setitem(sys.modules, "a_late_module", late)
    assert issubclass(late.DataLoader, feedline.torch.DataLoader)
    uninstall()
    for place in (*places(), other.Loader, late.DataLoader):
        assert place is ORIGINAL
    after = [dict(vars(module)) for module in (torch.utils.data, dataloader)]
    assert after == before
    assert feedline.torch.DataLoader.__base__.__base__ is ORIGINAL


def test_what_asks_for_torchs_class_finds_ours_and_torchs():
    plain = ORIGINAL(TEN)

    class Earlier(ORIGINAL):
        pass

    earlier = Earlier(TEN)
    with installed():
        ours = torch.utils.data.DataLoader(TEN)
        now = torch.utils.data.DataLoader
        assert isinstance(ours, ORIGINAL)
        assert isinstance(ours, feedline.torch.DataLoader)
        # Whoever asks by the name that is ours now means any DataLoader.
        assert isinstance(plain, now)
        assert isinstance(earlier, now)
        assert issubclass(Earlier, now)
        assert issubclass(feedline.torch.DataLoader, now)
        assert not isinstance(TEN, now)
        assert not isinstance(plain, feedline.torch.DataLoader)

        class Later(now[int], ABC):
            pass

        assert isinstance(Later(TEN), feedline.torch.DataLoader)
        assert not isinstance(ours, Later)
    assert not isinstance(TEN, ORIGINAL)
    assert isinstance(ours, ORIGINAL)


def test_a_class_that_was_derived_before_says_once_that_it_stays_torchs():
    class Earlier(ORIGINAL):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)

    # A name that is not a module's.
    (torchs,) = Earlier.__bases__
    signature = inspect.signature(torchs)
    with installed():
        with pytest.warns(UserWarning, match=r"Earlier was derived from torch's .* before inst"):
            loader = Earlier(TEN, 4)
        # Only once; and classes that are derived now are ours.
        assert len(Earlier(TEN, 4)) == 3
        assert inspect.signature(torchs) == signature

        class Later(torch.utils.data.DataLoader):
            pass

        assert isinstance(Later(TEN, 4), feedline.torch.DataLoader)
    assert [batch.tolist() for batch in loader] == [batch.tolist() for batch in ORIGINAL(TEN, 4)]


def test_a_class_that_was_kept_in_a_container_says_that_it_stays_torchs(program):
    program(
        """
        import warnings
        import torch.utils.data
        import feedline.torch
        kept = {"loader": torch.utils.data.DataLoader}
        init = torch.utils.data.DataLoader.__init__
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            kept["loader"](range(3))
            with feedline.torch.installed(), feedline.torch.installed(worker_mode="thread"):
                kept["loader"](range(3))
                kept["loader"](range(3))
                torch.utils.data.DataLoader(range(3))
            kept["loader"](range(3))
        assert ["was kept where" in str(one.message) for one in said] == [True], said
        assert torch.utils.data.DataLoader.__init__ is init
        """
    )


def test_its_batches_are_torchs_and_it_pickles():
    expected = [batch.tolist() for batch in ORIGINAL(TEN, 4)]
    with installed():
        loader = torch.utils.data.DataLoader(TEN, 4)
        assert [batch.tolist() for batch in loader] == expected
        assert loader.stats()["batches"] == 3
        copy = pickle.loads(pickle.dumps(loader))
    assert [batch.tolist() for batch in copy] == expected


def test_settings_hold_where_a_loader_says_nothing_of_them():
    with installed(worker_mode="thread", seed=3):
        loader = torch.utils.data.DataLoader(TEN, num_workers=1)
        assert (loader.worker_mode, loader.seed) == ("thread", 3)
        assert torch.utils.data.DataLoader(TEN, worker_mode="process").worker_mode == "process"
        with installed(assignment="dynamic"):
            inner = torch.utils.data.DataLoader(TEN)
            assert (inner.worker_mode, inner.assignment) == ("process", "dynamic")
        assert torch.utils.data.DataLoader(TEN).worker_mode == "thread"
    assert torch.utils.data.DataLoader is ORIGINAL
    # The class itself is as it was.
    assert feedline.torch.DataLoader(TEN).worker_mode == "process"


class Stream(IterableDataset):
    def __iter__(self):
        return iter(TEN)


def test_settings_that_a_loader_cannot_have_are_left_out_and_told_of_once(caplog):
    with installed(assignment="dynamic", on_error="skip", sample_timeout=60, worker_mode="thread"):
        for _ in range(2):
            stream = torch.utils.data.DataLoader(Stream(), num_workers=1)
            assert (stream.assignment, stream.on_error) == (None, "raise")
            assert stream.worker_mode == "thread"
        assert torch.utils.data.DataLoader(TEN).sample_timeout is None
        assert torch.utils.data.DataLoader(TEN, num_workers=1).sample_timeout == 60
        spawned = torch.utils.data.DataLoader(TEN, num_workers=1, multiprocessing_context="spawn")
        assert spawned.worker_mode == "process"
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == len(set(said))
    assert "sample_timeout= does not fit a DataLoader, and is left out: it has no workers" in said
    with installed(seed=1, rank=0, world_size=2):
        assert len(torch.utils.data.DataLoader(TEN)) == 5
        assert len(torch.utils.data.DataLoader(TEN, sampler=range(4))) == 4


def test_settings_are_checked_when_they_are_given():
    with pytest.raises(TypeError, match="'batch_size' is none of assignment, dataset_lock, "):
        install(batch_size=3)
    with pytest.raises(ValueError, match="worker_mode"):
        install(worker_mode="magic")
    with pytest.raises(ValueError, match="seed"):
        install(seed=-1)
    assert torch.utils.data.DataLoader is ORIGINAL


def test_torchs_errors_stay_torchs():
    with pytest.raises(TypeError) as theirs:
        ORIGINAL(TEN, no_such=1)
    with installed(seed=1), pytest.raises(TypeError) as ours:
        torch.utils.data.DataLoader(TEN, no_such=1)
    assert str(ours.value) == str(theirs.value)


def test_torchdatas_loader_works_on_top_of_it(program):
    program(
        """
        import feedline.torch, warnings
        warnings.simplefilter("ignore")
        feedline.torch.install()
        from torchdata.stateful_dataloader import StatefulDataLoader
        loader = StatefulDataLoader(range(6), batch_size=2, num_workers=1)
        assert [batch.tolist() for batch in loader] == [[0, 1], [2, 3], [4, 5]]
        assert len(loader) == 3
        """
    )


# ---- programs

SCRIPT = """
import sys
import torch.utils.data
from torch.utils.data import DataLoader

import beside


class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, i):
        return i * i


if __name__ == "__main__":
    if "raise" in sys.argv:
        raise LookupError("it is not there")
    print(sys.argv)
    print(__file__, sys.modules["__main__"].Squares is Squares)
    loader = DataLoader(
        Squares(), batch_size=3, num_workers=1,
        **{"multiprocessing_context": "spawn"} if "spawn" in sys.argv else {},
    )
    print([batch.tolist() for batch in loader])
    print(type(loader).__module__, loader.worker_mode, loader.stats()["batches"], beside.NAME)
    if "exit" in sys.argv:
        sys.exit(7)
    if "words" in sys.argv:
        sys.exit("these are my last words")
"""


@pytest.fixture
def run(tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "beside.py").write_text("NAME = 'beside'\n")

    def run(*arguments, python=("-m", "feedline", "run")):
        return subprocess.run(
            [sys.executable, *python, *arguments],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            check=False,
        )

    return run


def test_a_program_runs_as_it_is_with_our_loader(run, tmp_path):
    done = run("--worker-mode", "thread", "train.py", "--worker-mode", "x", "-m")
    assert done.stderr == ""
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "['train.py', '--worker-mode', 'x', '-m']",
        f"{tmp_path / 'train.py'} True",
        "[[0, 1, 4], [9, 16, 25]]",
        "feedline.torch.installation thread 2 beside",
    ]


def test_its_workers_may_be_spawned(run):
    done = run("train.py", "spawn")
    assert (done.returncode, done.stderr) == (0, "")
    assert "[[0, 1, 4], [9, 16, 25]]" in done.stdout


def test_a_module_runs_as_it_is(run):
    done = run("--assignment=dynamic", "-m", "train", "spawn")
    assert (done.returncode, done.stderr) == (0, "")
    assert "feedline.torch.installation process 2 beside" in done.stdout


@pytest.mark.parametrize(
    ("how", "code", "words"), [("exit", 7, ""), ("words", 1, "these are my last words\n")]
)
def test_its_exit_code_is_kept(run, how, code, words):
    done = run("train.py", how)
    assert (done.returncode, done.stderr) == (code, words)


def test_what_it_raises_is_told_as_python_does(run):
    ours, pythons = run("train.py", "raise"), run("train.py", "raise", python=())
    assert ours.returncode == pythons.returncode == 1
    assert ours.stderr.endswith("LookupError: it is not there\n")
    assert ours.stderr == pythons.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nowhere.py",), "error: cannot run nowhere.py: there is no such file"),
        (("--worker-mode", "magic", "train.py"), "worker_mode"),
        (("--no-such-option", "train.py"), "unrecognized arguments: --no-such-option"),
        ((), "the following arguments are required: PROGRAM"),
        (("-m", "no_such_module"), "No module named no_such_module"),
    ],
)
def test_what_cannot_be_run_is_said(run, arguments, words):
    done = run(*arguments)
    assert done.returncode == 2, done
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_program_that_python_cannot_read_is_told_as_python_does(run, tmp_path):
    (tmp_path / "broken.py").write_text("for\n")
    done = run("broken.py")
    assert done.returncode == 1
    assert "SyntaxError: invalid syntax" in done.stderr
    assert "_run.py" not in done.stderr
