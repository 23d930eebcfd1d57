"""`feedline bench`, `report` and `generate`, from outside and at tiny sizes."""

import csv
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from patience import PATIENCE

TINY = ["--set", "batch_size=4", "--set", "batches=3", "--set", "delay_ms=1", "--rounds", "1"]
TINY += ["--set", "shape=[3,8,8]"]


def command(*arguments, timeout=PATIENCE, **settings):
    return subprocess.run(
        [sys.executable, "-m", "feedline", "-q", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        **settings,
    )


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def lines(folder):
    return [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def workers(tmp_path_factory):
    """A tiny run of `workers` with both loaders."""
    out = tmp_path_factory.mktemp("workers")
    done = command("bench", "workers", *TINY, "--workers", "0,2", "--out", out)
    assert done.returncode == 0, done.stderr
    return out, done.stdout


def test_workers_prints_a_table_and_names_the_report(workers):
    out, printed = workers
    assert "torch" in printed
    assert "feedline" in printed
    assert "items/s" in printed
    assert f"Report: {out / 'report.html'}" in printed


def test_workers_measures_the_tree_and_its_parts(workers):
    out, _ = workers
    kinds = [line["kind"] for line in lines(out)]
    assert kinds.count("measurement") == 4
    checks = [line for line in lines(out) if line["kind"] == "check"]
    assert all(check["agrees"] and check["what"] == "equal bit by bit" for check in checks)
    for run in (line for line in lines(out) if line["kind"] == "measurement"):
        assert run["items"] == 12
        assert len(run["waits_s"]) == 3
        assert {"start_s", "end_s", "first_batch_s", "fetch_s", "collate_s"} <= run[
            "figures"
        ].keys()
        assert run["figures"]["fetch_s"] >= 0.001
        assert run["usage"]["cpu_s"] > 0
        assert run["usage"]["pss_peak_bytes"] > 10e6
        indices = sorted(sample for _, sample, _, _ in run["trace"])
        assert indices == list(range(12))
        torch_workers = run["point"]["contestants"] == "torch" and run["point"]["workers"] == 2
        if torch_workers:
            assert {worker for worker, *_ in run["trace"]} == {0, 1}


def test_every_output_is_there(workers):
    out, _ = workers
    names = {path.name for path in out.rglob("*")}
    assert {"report.html", "table.md", "runs.csv", "summary.json", "results.jsonl"} <= names
    with Image.open(out / "charts" / "throughput-against-workers.png") as picture:
        assert picture.size == (1440, 880)
    assert "<svg" in (out / "charts" / "throughput-against-workers.svg").read_text()


def test_a_finished_run_is_not_run_again(workers):
    out, _ = workers
    before = (out / "results.jsonl").read_bytes()
    done = command("bench", "workers", *TINY, "--workers", "0,2", "--out", out, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["complete"] is True
    assert (out / "results.jsonl").read_bytes() == before


def test_an_interrupted_run_keeps_what_it_has_and_goes_on(tmp_path):
    out = tmp_path / "out"
    arguments = ["bench", "workers", *TINY[:-2], "--set", "shape=[2]", "--workers", "0,1,2,3"]
    arguments += ["--contestants", "feedline", "--set", "batches=40", "--set", "delay_ms=10"]
    process = subprocess.Popen(
        [sys.executable, "-m", "feedline", "-q", *arguments, "--out", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + PATIENCE
    file = out / "results.jsonl"
    while not (file.exists() and file.read_text().count('"measurement"') >= 1):
        assert time.monotonic() < deadline, "nothing was measured"
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    _, complaints = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, complaints
    assert "start the same command again" in complaints
    assert (out / "report.html").exists()
    kept = file.read_text().splitlines()
    with file.open("a") as half:
        half.write('{"kind":"measurement","po')
    done = command(*arguments, "--out", out)
    assert done.returncode == 0, done.stderr
    assert file.read_text().splitlines()[: len(kept)] == kept
    assert sum(line["kind"] == "measurement" for line in lines(out)) == 4


def test_report_redraws_and_compares(workers, tmp_path):
    out, printed = workers
    (out / "report.html").unlink()
    done = command("report", out)
    assert done.returncode == 0
    assert done.stdout == printed
    assert (out / "report.html").exists()
    assert "nothing changed beyond noise" in command("report", out, out).stdout
    slower = tmp_path / "slower"
    slower.mkdir()
    changed = lines(out)
    for line in changed:
        if line["kind"] == "measurement" and line["point"] == {
            "contestants": "feedline",
            "prefetch": 2,
            "workers": 2,
        }:
            line["seconds"] *= 3
    (slower / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in changed))
    done = command("report", out, slower)
    assert "1 of 4 points changed beyond noise" in done.stdout
    assert "times torch: 67 % slower beside it" in done.stdout
    assert "slower" in done.stdout


def test_settings_come_from_a_file(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(
        'experiment = "schedulers"\nquick = true\npolicies = ["steal", "central"]\n'
        'costs = ["even"]\nsamples = 32\nmean_ms = 0.5\nrounds = 1\n'
    )
    done = command("bench", file, "--out", tmp_path / "out", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [point["point"]["policies"] for point in found["points"]] == ["steal", "central"]
    assert found["points"][0]["quantities"]["efficiency"]["median"] > 0


def test_grid_lists_what_does_not_fit_into_memory(tmp_path):
    sizes = ["--set", "batch_sizes=[4,60000]", "--workers", "1", "--set", "sleep_s=[0.0,0.01]"]
    counts = ["--set", "batches=2", "--set", "samples=12", "--contestants", "torch,feedline"]
    done = command("bench", "grid", "--quick", *sizes, *counts, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    found = lines(tmp_path / "out")
    measured = [line["point"] for line in found if line["kind"] == "measurement"]
    assert len(measured) == 8
    assert {point["data"] for point in measured} == {"images", "preprocessed"}
    left_out = [line for line in found if line["kind"] == "not_run"]
    assert len(left_out) == 8
    assert all(line["needed_bytes"] > 30e9 for line in left_out)
    assert "needs about" in done.stdout
    for run in (line for line in found if line["kind"] == "measurement"):
        samples = sorted(sample for _, sample, _, _ in run["trace"])
        assert samples == list(range(run["items"])), run["point"]
        assert all(0 <= begin <= end <= run["seconds"] for *_, begin, end in run["trace"])
    checks = [line for line in found if line["kind"] == "check"]
    assert len(checks) == 4
    assert all(check["agrees"] for check in checks), checks


def test_compare_checks_outputs_of_all_who_are_there(tmp_path):
    few = ["--rounds", "2", "--set", "batches=3", "--set", "batch_size=4", "--set", "samples=12"]
    out = ["--out", tmp_path / "out", "--json"]
    done = command("bench", "compare", "--quick", *few, *out)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    there = {point["point"]["contestants"] for point in found["points"]}
    assert {"torch", "torchdata", "feedline", "feedline.torch"} <= there
    assert all(check["agrees"] for check in found["checks"])
    assert any("as fast as torch" in sentence for sentence in found["verdict"])


def test_a_cold_cache_is_read_from_storage_and_said(tmp_path):
    few = ["--rounds", "1", "--set", "batches=2", "--set", "batch_size=4", "--set", "samples=8"]
    few += ["--set", "cache=cold", "--contestants", "feedline", "--out", tmp_path / "out"]
    done = command("bench", "compare", "--quick", *few)
    assert done.returncode == 0, done.stderr
    header, *rest = lines(tmp_path / "out")
    assert header["page_cache"].startswith("cold; before every run the files were dropped")
    (run,) = (line for line in rest if line["kind"] == "measurement")
    # On a file system in memory nothing can be dropped, and that is said.
    in_memory = "the files seem to lie in memory" in done.stdout
    assert in_memory == (run["usage"]["storage_read_bytes"] == 0)


def test_warm_up_runs_are_said_and_not_counted(workers):
    out, _ = workers
    header, *rest = lines(out)
    assert header["warm_ups"] == 2
    assert {line["round"] for line in rest if line["kind"] == "measurement"} == {1}
    assert "these 2 runs do not count" in (out / "report.html").read_text()


@pytest.mark.skipif(sys.platform != "linux", reason="process trees are metered on Linux")
def test_gpus_are_watched_where_there_are_some(tmp_path):
    """By a double of NVIDIA's library: two devices, 40 % busy on average, 3 GiB in use."""
    source = Path(__file__).parents[2] / "crates/feedline-bench/tests/nvml_double/nvml_double.c"
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None or not source.exists():
        pytest.skip("needs a C compiler and the sources")
    double = tmp_path / "libnvml_double.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", double, source], check=True, timeout=PATIENCE
    )
    settings = {"env": {**os.environ, "FEEDLINE_NVML": str(double)}}
    few = [*TINY, "--workers", "0", "--set", "batches=20", "--set", "delay_ms=5"]
    few += ["--contestants", "feedline", "--out", tmp_path / "out"]
    done = command("bench", "workers", *few, **settings)
    assert done.returncode == 0, done.stderr
    header, *rest = lines(tmp_path / "out")
    assert header["machine"]["gpus"] == ["Double A100, 8.00 GiB", "Double B200, 8.00 GiB"]
    (run,) = (line for line in rest if line["kind"] == "measurement")
    assert run["usage"]["gpu_busy"] == pytest.approx(0.4)
    assert run["usage"]["gpu_memory_peak_bytes"] == 3 << 30
    assert len(run["moments"]) > 2
    assert all(it["gpu"] == {"busy": 0.4, "memory_bytes": 3 << 30} for it in run["moments"])
    assert "GPU busy" in done.stdout
    page = (tmp_path / "out" / "report.html").read_text()
    assert "GPU over time" in page
    assert "GPU memory over time" in page


def test_without_gpus_the_reason_is_recorded(tmp_path):
    settings = {"env": {**os.environ, "FEEDLINE_NVML": "/no/such/nvml.so"}}
    few = [*TINY, "--workers", "0", "--contestants", "feedline", "--out", tmp_path / "out"]
    done = command("bench", "workers", *few, **settings)
    assert done.returncode == 0, done.stderr
    header, *rest = lines(tmp_path / "out")
    assert "cannot load `/no/such/nvml.so`" in header["machine"]["no_gpu"]
    assert all("gpu_busy" not in line["usage"] for line in rest if line["kind"] == "measurement")
    assert "GPU" not in done.stdout
    page = (tmp_path / "out" / "report.html").read_text()
    assert "GPU over time" not in page
    assert "cannot load `/no/such/nvml.so`" in page


def test_transport_and_storage_run_to_their_end(tmp_path):
    small = ["--set", "sizes_kib=[1]", "--set", "seconds=0.01", "--rounds", "1"]
    done = command("bench", "transport", "--quick", *small, "--out", tmp_path / "t", "--json")
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["points"]) == 16
    small = ["--set", "pieces=8", "--set", "reads=8", "--set", "piece_kib=4", "--rounds", "1"]
    done = command("bench", "storage", "--quick", *small, "--out", tmp_path / "s", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["complete"] is True


def test_generated_pictures_are_pictures_and_the_same_again(tmp_path):
    for name in ("a", "b"):
        done = command("generate", "images", "--count", 6, "--classes", 2, "--out", tmp_path / name)
        assert done.returncode == 0, done.stderr
    first, second = (sorted((tmp_path / name).rglob("*.jpg")) for name in ("a", "b"))
    assert len(first) == 6
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()
        with Image.open(one) as picture:
            picture.load()
            assert max(picture.size) == 500
            assert np.asarray(picture).std() > 20


def test_generated_samples_are_what_numpy_reads(tmp_path):
    done = command("generate", "preprocessed", "--count", 3, "--out", tmp_path / "p")
    assert done.returncode == 0, done.stderr
    paths = sorted((tmp_path / "p").glob("*.npy"))
    arrays = [np.load(path) for path in paths]
    again = io.BytesIO()
    np.save(again, arrays[0])
    assert paths[0].read_bytes() == again.getvalue(), "another form of header, for some readers"
    assert [(it.shape, it.dtype.name) for it in arrays] == [((3, 224, 224), "float32")] * 3
    assert all(np.abs(it).max() < 4 for it in arrays)


REVIEWS = ["generate", "reviews", "--count", 40, "--seed", 3]


def test_generated_reviews_lie_as_those_of_imdb_and_are_the_same_again(tmp_path):
    for name in ("a", "b"):
        done = command(*REVIEWS, "--out", tmp_path / name)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("40 reviews of 1.")
    first, second = (sorted((tmp_path / name).rglob("*.txt")) for name in ("a", "b"))
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    places = [path.relative_to(tmp_path / "a").parent.as_posix() for path in first]
    assert {place: places.count(place) for place in places} == dict.fromkeys(
        ("train/neg", "train/pos", "test/neg", "test/pos"), 10
    )
    note = json.loads((tmp_path / "a" / "dataset.json").read_text())
    assert note["bytes"] == sum(path.stat().st_size for path in first)


def test_generated_reviews_are_what_the_csv_and_json_modules_read(tmp_path):
    for form in ("lines", "csv", "jsonl"):
        done = command(*REVIEWS, "--form", form, "--out", tmp_path)
        assert done.returncode == 0, done.stderr
    for split in ("train", "test"):
        lines = (tmp_path / f"{split}.txt").read_text("utf-8").splitlines()
        labels = np.load(tmp_path / f"{split}-labels.npy")
        with (tmp_path / f"{split}.csv").open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        written = (tmp_path / f"{split}.jsonl").read_text("utf-8")
        objects = [json.loads(line) for line in written.splitlines()]
        assert len(lines) == 20
        assert labels.dtype == np.int64
        assert [row["text"] for row in rows] == [it["text"] for it in objects] == lines
        assert [int(row["label"]) for row in rows] == labels.tolist()
        assert [it["label"] for it in objects] == labels.tolist()
        assert [int(row["stars"]) for row in rows] == [it["meta"]["stars"] for it in objects]
        assert all((it["meta"]["stars"] > 5) == (it["label"] == 1) for it in objects)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """A tiny run of `text` with all that take part."""
    out = tmp_path_factory.mktemp("text")
    sizes = [
        "--set",
        "batch_sizes=[4,8]",
        "--workers",
        "0,2",
        "--set",
        "reviews=40",
        "--rounds",
        "1",
    ]
    sizes += ["--set", "length=32", "--set", "vocabulary=500"]
    environment = {**os.environ, "XDG_CACHE_HOME": str(out / "cache")}
    done = command("bench", "text", "--quick", *sizes, "--out", out, env=environment)
    assert done.returncode == 0, done.stderr
    return out, done.stdout


def test_text_checks_outputs_and_trains_with_the_same_batches(text):
    out, _ = text
    checks = [line for line in lines(out) if line["kind"] == "check"]
    assert {check["contestant"] for check in checks} == {"torch", "datasets", "feedline"}
    assert all(check["what"] == "equal bit by bit" for check in checks), checks
    runs = [line for line in lines(out) if line["kind"] == "measurement"]
    assert len(runs) == 2 * 3 * 2 * 2 * 2
    assert all(run["items"] == 40 and run["figures"]["epoch_s"] > 0 for run in runs)
    for batch in (4, 8):
        losses = {
            run["figures"]["loss"]
            for run in runs
            if run["point"]["task"] == "training" and run["point"]["batch"] == batch
        }
        assert len(losses) == 1, "the same words and labels in the same order"


def test_text_says_that_there_is_no_page_locked_memory_where_there_is_none(text):
    out, printed = text
    header, *_ = lines(out)
    marked = any(note.startswith("pin_memory has no effect here") for note in header["notes"])
    assert marked == (not torch.accelerator.is_available())
    assert ("no effect" in printed) == marked


def test_text_has_predictions_beside_measurements(text):
    out, _ = text
    summary = json.loads((out / "summary.json").read_text())
    groups = {group["group"]["contestants"] for group in summary["model"]["groups"]}
    assert groups == {"torch", "datasets", "feedline"}
    trained = [it for it in summary["points"] if it["point"]["task"] == "training"]
    assert all(it["predicted"]["held_out"] for it in trained)
    assert "An epoch of training by batch size" in (out / "report.html").read_text()


WRONG = [
    (["bench", "text", "--contestants", "spdl"], "must be of torch, datasets, feedline"),
    (["bench", "text", "--set", "pin_memory=['maybe']"], "must be of off, on, got `maybe`"),
    (["bench", "text", "--data", "."], "reviews (train/pos, train/neg)"),
    (["generate", "reviews", "--count", "3"], "at least 4, got 3"),
    (["generate", "reviews", "--form", "xml"], "--form"),
    (["bench", "worker"], "did you mean `workers`?"),
    (["bench", "nonsense"], "--list"),
    (["bench", "workers", "--workers", "-1"], "0 or more, got -1"),
    (["bench", "workers", "--set", "colour=1"], "colour"),
    (["bench", "workers", "--set", "batch_size"], "KEY=VALUE"),
    (["bench", "workers", "--rounds", "0"], "from 1 to"),
    (["bench", "workers", "--contestants", "nobody"], "there is no contestant `nobody`"),
    (["bench", "workers", "--contestants", "spdl"], "spdl is not installed (`pip install spdl`)"),
    (["bench", "compare", "--set", "cache=tepid"], "expected `warm` or `cold`"),
    (["bench", "workers", "--python", "/no/such/python"], "--python PATH"),
    (["bench", "missing.toml"], "missing.toml"),
    (["bench", "schedulers", "--set", "policies=['best']"], "there is no policy `best`"),
    (["report", "no-such-folder"], "no-such-folder"),
    (["generate", "images", "--count", "0"], "--count"),
]


@pytest.mark.parametrize(("arguments", "hint"), WRONG)
def test_wrong_usage_gets_an_error_with_a_hint(arguments, hint, tmp_path):
    if arguments[0] == "bench":
        arguments = [*arguments, "--out", tmp_path / "out"]
    done = command(*arguments, cwd=tmp_path)
    assert done.returncode == 2, done.stdout
    assert hint in done.stderr
    assert "hint:" in done.stderr or "try '--help'" in done.stderr
    assert "panicked" not in done.stderr
    assert "Traceback" not in done.stderr


def test_an_empty_data_folder_is_said(tmp_path):
    (tmp_path / "data").mkdir()
    for name in ("grid", "compare"):
        arguments = ["--data", tmp_path / "data", "--out", tmp_path / name]
        done = command("bench", name, "--quick", "--contestants", "feedline", *arguments)
        assert done.returncode == 2
        assert "holds no class folders" in done.stderr
        assert "feedline generate" in done.stderr


def test_a_full_disk_is_said(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "results.jsonl").symlink_to("/dev/full")
    done = command("bench", "schedulers", "--quick", "--out", tmp_path / "out")
    assert done.returncode == 2
    assert "No space left" in done.stderr
    assert "free some space" in done.stderr


def test_unreadable_results_are_said(tmp_path):
    (tmp_path / "results.jsonl").write_text("nonsense\n")
    done = command("report", tmp_path)
    assert done.returncode == 2
    assert "line 1: not a result" in done.stderr
    assert "hint:" in done.stderr
    (tmp_path / "results.jsonl").unlink()
    assert "holds no results" in command("report", tmp_path).stderr


def test_without_torch_it_says_so_and_the_rest_goes_on(tmp_path):
    """A package of that name that cannot be found, as on a machine without it."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Nowhere:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'torch' or name.startswith('torch.'):\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Nowhere())\n"
    )
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    settings = {"env": {**os.environ, "PYTHONPATH": path}}
    few = [*TINY, "--workers", "0", "--out", tmp_path / "out"]
    done = command("bench", "workers", *few, "--contestants", "torch", **settings)
    assert done.returncode == 2
    assert "torch is not installed" in done.stderr
    assert "pip install torch" in done.stderr
    done = command("bench", "workers", *few, **settings)
    assert done.returncode == 0, done.stderr
    assert "torch took no part: torch is not installed" in done.stdout
