"""Jobs that share actors by name: each batch is made once for all that are near each other."""

import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import feedline
from patience import PATIENCE

N = 96
SETTINGS = {"batch_size": 8, "shuffle": True, "seed": 3, "num_loaders": 2}
pytestmark = pytest.mark.filterwarnings("ignore:no batch in")


@pytest.fixture(scope="module", autouse=True)
def cluster():
    import ray

    quiet = {"include_dashboard": False, "log_to_driver": False}
    ray.init(num_cpus=4, object_store_memory=200_000_000, **quiet)
    yield
    ray.shutdown()


def pipeline(where):
    """Samples that leave a file for each time they are made, and are held up by another."""

    def noted(x):
        import tempfile
        import time

        while (where / "held").exists():
            time.sleep(0.01)
        tempfile.mkstemp(prefix=f"{int(x)}-", dir=where)
        return np.full(10, x)

    return feedline.arrays(np.arange(N)).map(noted)


def made(where):
    """How often each sample was made; looking at a pipeline makes its first one, too."""
    return np.bincount(
        [int(file.name.partition("-")[0]) for file in where.glob("*-*")], minlength=N
    )


def begun(where, *loaders):
    """Begin an epoch of each; nothing is made before all have joined."""
    (where / "held").touch()
    iterators = [iter(loader) for loader in loaders]
    while loaders[0].stats()["readers"] < len(loaders):
        time.sleep(0.01)
    (where / "held").unlink()
    return iterators


def shared(name, where, **settings):
    import feedline.ray

    return feedline.ray.Loader(pipeline(where), name=name, **(SETTINGS | settings))


def expected(epochs=1):
    loader = feedline.Loader(
        feedline.arrays(np.arange(N)), batch_size=8, shuffle=True, seed=3, num_workers=0
    )
    return [x.tolist() for _ in range(epochs) for (x,) in loader]


def taken(loader):
    return [x[:, 0].tolist() for (x,) in loader]


def has_ended(name):
    import ray

    try:
        ray.get_actor(name, namespace="feedline")
    except ValueError:
        return True
    return False


def test_jobs_side_by_side_have_each_batch_made_once_and_actors_end_after_them(
    tmp_path,
):
    one, other = (shared("pair", tmp_path, epochs=1) for _ in range(2))
    before = made(tmp_path)
    got = [
        [x[:, 0].tolist() for (x,) in pair]
        for pair in zip(*begun(tmp_path, one, other), strict=True)
    ]
    assert got == [[batch, batch] for batch in expected()]
    assert (made(tmp_path) - before == 1).all()
    assert one.stats()["readers"] == 2
    one.close()
    other.close()
    until = time.monotonic() + PATIENCE / 4
    while not has_ended("pair") and time.monotonic() < until:
        time.sleep(0.1)
    assert has_ended("pair")


def test_a_fast_job_waits_for_a_slow_one_that_is_near(tmp_path):
    slow, fast = (shared("pace", tmp_path, epochs=1, prefetch=1, num_loaders=1) for _ in range(2))
    before = made(tmp_path)
    steps, others = begun(tmp_path, slow, fast)
    with ThreadPoolExecutor(1) as pool:
        fasts = pool.submit(lambda: [x[:, 0].tolist() for (x,) in others])
        slows = []
        for (x,) in steps:
            time.sleep(0.05)
            slows.append(x[:, 0].tolist())
        assert slows == fasts.result() == expected()
    assert (made(tmp_path) - before == 1).all()
    slow.close()
    fast.close()


def test_a_job_that_comes_late_or_resumes_has_its_batches_made_on_their_own(tmp_path):
    early = shared("late", tmp_path, epochs=2)
    assert taken(early) == expected()
    late = shared("late", tmp_path, epochs=2)
    assert taken(late) == expected()
    state = late.state_dict()
    early.close()
    late.close()
    resumed = shared("late", tmp_path, epochs=2)
    resumed.load_state_dict(state)
    assert taken(resumed) == expected(2)[N // 8 :]
    resumed.close()


def test_other_settings_by_the_same_name_are_refused_with_what_differs(tmp_path):
    loader = shared("one", tmp_path)
    with pytest.raises(ValueError, match=r"name='one', and seed is 3 there and 4 here"):
        shared("one", tmp_path, seed=4)
    with pytest.raises(ValueError, match=r"or autoscale is \(2, 2\) there and \(1, 1\)"):
        shared("one", tmp_path, num_loaders=1)
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(ValueError, match="the pipeline, with its files and functions, is"):
        shared("one", other)
    with pytest.raises(TypeError, match=r"name must be a text that jobs agree on.*got ''"):
        shared("", tmp_path)
    loader.close()


def test_a_desk_ends_that_nobody_joins_and_questions_start_no_other(tmp_path):
    loader = shared("nobody", tmp_path)
    until = time.monotonic() + PATIENCE / 4
    while not has_ended("nobody") and time.monotonic() < until:
        time.sleep(0.1)
    assert (loader.stats()["readers"], loader.stats()["actors"]) == (0, [])
    assert "0 of 0 loader actors" in loader.explain()
    loader.scale(1)
    assert has_ended("nobody")
    # One of another job is found, and has other settings.
    other = shared("nobody", tmp_path, seed=4)
    next(iter(other))
    assert loader.stats()["readers"] == 1
    with pytest.raises(ValueError, match="name='nobody', and seed is 4 there and 3 here"):
        next(iter(loader))
    other.close()
    loader.close()


def test_options_that_know_no_equality_are_the_same_for_each_job(tmp_path):
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    node = ray.get_runtime_context().get_node_id()
    one, other = (
        shared(
            "affine",
            tmp_path,
            epochs=1,
            actor_options={"scheduling_strategy": NodeAffinitySchedulingStrategy(node, soft=False)},
        )
        for _ in range(2)
    )
    assert taken(one) == expected()
    one.close()
    other.close()


def test_tensors_of_one_job_are_not_those_of_another(tmp_path):
    torch = pytest.importorskip("torch")
    one, other = (shared("tensors", tmp_path, epochs=1, output="torch") for _ in range(2))
    for (x,), (y,), batch in zip(one, other, expected(), strict=True):
        x += 1
        assert isinstance(y, torch.Tensor)
        assert y[:, 0].tolist() == batch
        y += 1
    one.close()
    other.close()


JOB = """
    import pathlib
    import sys
    import time

    import numpy as np
    import ray

    import feedline
    import feedline.ray
    from shared_pipeline import pipeline

    ray.init(address=sys.argv[1], log_to_driver=False)
    loader = feedline.ray.Loader(pipeline(sys.argv[2]), name="jobs", epochs=1, **{settings})
    print("made", flush=True)
    sys.stdin.readline()
    got = []
    for number, (x,) in enumerate(loader):
        got.append(x[:, 0].tolist())
        if number == int(sys.argv[3]):
            print("there", flush=True)
            sys.stdin.readline()
    print(got, flush=True)
"""

PIPELINE = """
    import tempfile

    import numpy as np

    import feedline


    class Noted:
        def __init__(self, where):
            self.where = where

        def __call__(self, x):
            tempfile.mkstemp(prefix=f"{int(x)}-", dir=self.where)
            return np.full(10, x)


    def pipeline(where):
        return feedline.arrays(np.arange(96)).map(Noted(where))
"""


def test_of_two_jobs_of_their_own_one_may_die_and_the_other_goes_on(tmp_path):
    import ray

    (tmp_path / "made").mkdir()
    (tmp_path / "shared_pipeline.py").write_text(textwrap.dedent(PIPELINE))
    script = tmp_path / "job.py"
    script.write_text(textwrap.dedent(JOB).replace("{settings}", repr(SETTINGS)))
    address = ray.get_runtime_context().gcs_address
    # The first job made the desk: it is the one that dies.
    jobs = []
    for stops in (5, 999):
        command = [sys.executable, str(script), address, str(tmp_path / "made"), str(stops)]
        pipe = subprocess.PIPE
        jobs.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True))
        assert jobs[-1].stdout.readline() == "made\n"
    for job in jobs:
        job.stdin.write("\n")
        job.stdin.flush()
    assert jobs[0].stdout.readline() == "there\n"
    jobs[0].kill()
    jobs[0].wait()
    out, _ = jobs[1].communicate(timeout=PATIENCE / 2)
    assert out == f"{expected()}\n"
    for job in jobs:
        job.stdout.close()
        job.stdin.close()
