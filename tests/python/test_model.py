"""`feedline.model` and `feedline model`: the theory, asked from Python and on the command line."""

import json
import math
import random
import re
import subprocess
import sys

import pytest

from feedline import model
from patience import PATIENCE
from test_report_page import results


def command(*arguments):
    """Run the command; exit code, standard output, standard error."""
    done = subprocess.run(
        [sys.executable, "-m", "feedline", "model", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def figures(*arguments):
    code, out, err = command(*arguments, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)["figures"]


def erlang_c(arrival, service, servers):
    """The textbook's sums."""
    offered = arrival / service
    last = offered**servers / math.factorial(servers) * servers / (servers - offered)
    return last / (sum(offered**k / math.factorial(k) for k in range(servers)) + last)


def test_queues_are_the_textbooks():
    for arrival, service, servers in ((8, 1, 10), (2, 1, 3), (0.9, 1, 1), (30, 10, 5)):
        queue = model.mmc(arrival, service, servers)
        waits = erlang_c(arrival, service, servers)
        assert queue.probability_of_waiting == pytest.approx(waits)
        assert queue.mean_wait == pytest.approx(waits / (servers * service - arrival))
        assert queue.mean_in_system == pytest.approx(arrival * queue.mean_time)
    assert model.mm1(8, 10).waits_longer_than(0.5) == pytest.approx(0.8 * math.exp(-1))
    assert model.mg1(8, 10, spread=0).mean_wait == pytest.approx(0.2)
    assert model.mgc(8, 10, servers=1, spread=0) == model.mg1(8, 10, spread=0)


def test_scaling_laws_are_the_textbooks():
    assert model.amdahl(0.1, 5) == pytest.approx(1 / (0.1 + 0.9 / 5))
    assert model.gustafson(0.1, 5) == pytest.approx(0.1 + 0.9 * 5)
    law = [(n, 50 * n / (1 + 0.03 * (n - 1) + 0.002 * n * (n - 1))) for n in (1, 2, 4, 8, 16)]
    fit = model.fit_usl(law)
    assert (fit.single, fit.contention, fit.coherence) == pytest.approx((50, 0.03, 0.002))
    assert fit.margins == pytest.approx((0, 0, 0), abs=1e-6)
    assert fit.rate(32) == pytest.approx(50 * 32 / (1 + 0.03 * 31 + 0.002 * 32 * 31))
    assert model.usl(0.03, 0.002, 8).best_workers == 22


def test_a_loader_is_as_fast_as_the_slower_of_workers_and_step():
    for workers in (1, 4, 8, 20):
        found = model.loading(workers, cost=0.01, step=0.08, spread=0)
        assert found.throughput == pytest.approx(min(workers / 0.01, 64 / 0.08), rel=1e-6)
        assert found.waiting_share == pytest.approx(max(0, 1 - workers / 8), abs=1e-6)


def test_a_simulation_is_as_fast_as_the_theory_says():
    """Two ways to the same figure: the formula and the events."""
    dice = random.Random(3)
    for _ in range(20):
        workers, step = dice.randint(1, 16), dice.uniform(0.02, 0.2)
        stage = {"name": "decode", "cost": {"mean": "10ms", "spread": 0.5}}
        settings = {"samples": 12_800, "batch_size": 64, "workers": workers, "prefetch": 2}
        seen = model.simulate({**settings, "step": step, "stages": [stage]})
        said = model.loading(workers, cost=0.01, step=step, spread=0.5)
        assert seen.samples == 12_800
        assert said.throughput == pytest.approx(seen.throughput, rel=0.05)
        assert said.waiting_share == pytest.approx(seen.waiting_share, abs=0.05)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: model.mmc(10, 1, 10), "10 arrive per unit of time and at most 10 are served"),
        (lambda: model.mm1(-1, 1), "arrival is -1; pass a finite number that is at least 0"),
        (lambda: model.mmc(1, 1, -3), "servers is -3; pass a whole number from 0"),
        (lambda: model.mmc(1, 1, 0), "servers is 0; pass at least 1"),
        (lambda: model.amdahl(2, 4), "serial is 2; pass a share from 0 to 1"),
        (lambda: model.imbalance([]), "times has 0 values; pass at least 1"),
        (lambda: model.fit_usl([(1, 5), (2, 9)]), "pass at least three"),
        (lambda: model.largest_batch(100, 90), "a batch of one sample takes 180 bytes and 100"),
        (lambda: model.little(rate=3), "give two of number, rate and time"),
        (lambda: model.loading(4, cost=0), "cost is 0; pass a finite number above 0"),
        (lambda: model.tandem([model.Stage(1)], [3]), "1 stages have 0 buffers between them"),
        (lambda: model.simulate({"samples": 1}), "missing field `batch_size`"),
        (
            lambda: model.simulate({"samples": 1, "batch_size": 1, "step": "80 parsecs"}),
            "`80 parsecs` is no quantity",
        ),
    ],
)
def test_what_cannot_be_says_which_number_and_why(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()


def test_the_command_says_what_the_functions_say(tmp_path):
    queue = model.mmc(8, 1, 10)
    assert figures("mmc", "--arrival", 8, "--service", 1, "--servers", 10) == pytest.approx(
        {
            name: getattr(queue, name)
            for name in (
                "utilisation",
                "probability_of_waiting",
                "mean_wait",
                "mean_time",
                "mean_in_queue",
                "mean_in_system",
            )
        }
    )
    found = figures("loading", "--workers", 4, "--cost", "10ms", "--step", "80ms")
    assert found == pytest.approx(vars(model.loading(4, cost=0.01, step=0.08)))
    rates = tmp_path / "rates.csv"
    rates.write_text("workers,throughput\n1,10\n2,18\n4,30\n8,44\n")
    fit = model.fit_usl([(1, 10), (2, 18), (4, 30), (8, 44)])
    found = figures("usl", "--fit", rates, "--workers", 16)
    assert found["contention"] == pytest.approx(fit.contention)
    assert found["rate"] == pytest.approx(fit.rate(16))
    file = tmp_path / "cluster.toml"
    file.write_text(
        'samples = 640\nbatch_size = 16\nworkers = 4\nstep = "5ms"\n'
        '[[stages]]\nname = "decode"\ncost = { exponential = "2ms" }\n'
    )
    stage = {"name": "decode", "cost": {"exponential": 0.002}}
    settings = {"samples": 640, "batch_size": 16, "workers": 4, "step": 0.005, "stages": [stage]}
    assert figures("simulate", file)["duration"] == model.simulate(settings).duration


@pytest.mark.parametrize(
    "arguments",
    [
        "mm1 --arrival 8 --service 10",
        "mg1 --arrival 8 --service 10 --spread 2",
        "mgc --arrival 8 --service 1 --servers 10 --spread 0.5",
        "little --rate 500 --time 40ms",
        "workers --arrival 30 --service 10 --waiting-cost 20",
        "loading --workers 4 --cost 10ms --step 80ms",
        "tandem --stage 4ms:1:2 --stage 10ms:0.5:4 --stage 3ms --buffers 2,2",
        "amdahl --serial 5% --workers 8",
        "gustafson --serial 0.05 --workers 8",
        "usl --contention 0.05 --coherence 0.002",
        "imbalance --times 9s,10s,14s",
        "imbalance --workers 8 --samples 100",
        "memory --batch-size 64 --sample-bytes 600KB --stages 3 --workers 8 --limit 2GiB",
        "transfer --bytes 38MB --latency 50us --bandwidth 2GB/s",
        "bandwidth --total 2GB/s --users 16 --demand 500MB/s",
        "pinning --batch-bytes 38MB --memory 64GiB --step 80ms",
    ],
)
def test_every_calculator_answers_in_words_and_figures(arguments):
    code, out, err = command(*arguments.split())
    assert (code, err) == (0, "")
    name = arguments.split()[0]
    answer = json.loads(command(*arguments.split(), "--json")[1])
    assert answer["model"] == name
    assert answer["formula"]
    assert answer["limits"]
    for key in answer["figures"]:
        assert any(line.startswith(key) for line in out.splitlines())
    assert out.splitlines()[0] == answer["title"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("mmc --arrival 10 --service 1 --servers 10", "the queue grows for ever"),
        ("mm1 --arrival -8 --service 1", "arrival is -8; pass a finite number that is at least 0"),
        ("mm1 --arrival x --service 1", "`x` is no quantity; write a number"),
        ("little --rate 3", "give two of --number, --rate and --time"),
        ("amdahl --serial 1.5 --workers 8", "serial is 1.5; pass a share from 0 to 1"),
        ("usl --fit missing.csv", "cannot read missing.csv"),
        ("simulate missing.toml", "cannot read missing.toml"),
        ("predict missing --workers 64", "cannot read missing"),
        ("memory --batch-size 4 --sample-bytes 1GB --limit 1MB", "a batch of one sample takes"),
        ("pinning --batch-bytes 1GB --memory 1GB", "lock fewer batches, or smaller ones"),
        ("little --rate 3 --time 1s --chart a.svg", "little has no chart"),
    ],
)
def test_the_command_refuses_with_a_reason(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = command(*arguments.split())
    assert (code, out) == (2, "")
    assert message in err


def test_a_file_that_cannot_be_read_says_where(tmp_path):
    rates = tmp_path / "rates.csv"
    rates.write_text("1,10\n2,eighteen\n")
    code, _, err = command("usl", "--fit", rates)
    assert code == 2
    assert "line 2 is `2,eighteen`; write workers,throughput" in err
    file = tmp_path / "bad.toml"
    file.write_text("samples = 1\nbatch_size = 1\nwrokers = 3\n")
    code, _, err = command("simulate", file)
    assert code == 2
    assert "unknown field `wrokers`" in err


def test_measurements_predict_other_settings(tmp_path):
    (tmp_path / "results.jsonl").write_text(results())
    found = figures("predict", tmp_path, "--workers", 4, "--step", "10s")
    # A step that long decides alone: 64 samples every ten seconds.
    assert found["torch.throughput"] == pytest.approx(6.4, rel=0.01)
    assert found["feedline.waiting_share"] < 0.01
    fast = figures("predict", tmp_path, "--workers", 1, "--step", "0s")
    assert fast["torch.throughput"] == pytest.approx(80.3, rel=0.2)  # what was measured there
    assert fast["torch.waiting_share"] > 0.9


def test_python_predicts_from_measurements_what_the_command_does(tmp_path):
    (tmp_path / "results.jsonl").write_text(results())
    told = figures("predict", tmp_path, "--workers", 2, "--batch-size", 32, "--step", "80ms")
    found = model.predict(tmp_path, workers=2, batch_size=32, step_seconds=0.08)
    assert sorted(it["name"] for it in found) == ["feedline", "torch"]
    for it in found:
        assert it["setting"]["workers"] == 2
        predicted = it["prediction"]
        assert predicted["samples_per_second"] == told[f"{it['name']}.throughput"]
        assert predicted["waiting_share"] == told[f"{it['name']}.waiting_share"]
        assert predicted["memory_bytes"] == told[f"{it['name']}.memory"]
    with pytest.raises(ValueError, match="step_seconds is -1; pass a finite number"):
        model.predict(tmp_path, step_seconds=-1)
    with pytest.raises(ValueError, match="batch_size is 0; pass at least 1"):
        model.predict(tmp_path, batch_size=0)


def test_a_chart_is_an_svg(tmp_path):
    chart = tmp_path / "chart.svg"
    code, _, err = command("amdahl", "--serial", 0.1, "--workers", 8, "--chart", chart)
    assert (code, err) == (0, "")
    assert chart.read_text().startswith("<svg")
