"""What `feedline doctor` makes of what it saw: names, gains, stages, ranks, changes it tries."""

import json
import sys
import threading

import pytest

from feedline.doctor import Run, diagnose
from feedline.doctor.costs import Costs
from feedline.doctor.course import Course
from feedline.doctor.probe import Probe
from feedline.doctor.ranks import agreed
from feedline.doctor.stages import place_of
from patience import PATIENCE

pytest.importorskip("torch")


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
