"""Two ranks under each framework: ours loads, each sample comes once, and epochs are resumed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from flattened import flat

from patience import PATIENCE

pytest.importorskip("torch")
for package in ("accelerate", "lightning", "transformers"):
    pytest.importorskip(package)

from framework_ranks import CONFIGS, DATASETS, SAMPLES  # noqa: E402

SCRIPT = Path(__file__).parent / "support" / "framework_ranks.py"

# All in one pair of processes: to start them takes longer than what they do.
pytestmark = pytest.mark.timeout(PATIENCE + 60)


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    found = {"RANK", "WORLD_SIZE", "LOCAL_RANK"}
    environment = {name: value for name, value in os.environ.items() if name not in found}
    done = subprocess.run(
        [*torchrun, str(SCRIPT), str(folder)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        cwd=folder,
        env=environment | {"OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads((folder / f"rank-{rank}.json").read_text()) for rank in range(2)]


ACCELERATE = ["accelerate " + " ".join(sorted(config)) for config in CONFIGS]


# "installed": where transformers makes its loader itself, and ours is in the place of torch's.
@pytest.fixture(
    params=["torch", *map(str.strip, ACCELERATE), "lightning", "transformers", "installed"]
)
def framework(request):
    return request.param


@pytest.fixture(params=DATASETS)
def dataset(request):
    return request.param


@pytest.fixture(params=[None, 7], ids=["sampler", "seed"])
def seed(request):
    return request.param


@pytest.fixture
def both(ranks, framework, dataset, seed):
    """What the two ranks wrote down."""
    name, *config = framework.split()
    key = " ".join([name, dataset, str(seed), *config])
    return [rank[key] for rank in ranks]


def test_what_loads_is_ours_with_its_settings(both, framework, seed):
    for number, rank in enumerate(both):
        assert rank["loader"] == ["feedline.torch.dataloader", "thread", seed]
        batches = sum(map(len, rank["epochs"]))
        # Whoever dispatches takes the batches of both ranks, and the other one none.
        dispatched = [2 * batches, 0][number]
        assert rank["made"] == (dispatched if "dispatch" in framework else batches)


def test_each_sample_comes_once_over_the_ranks(both):
    first, second = both
    for epoch in range(2):
        seen = flat(first["epochs"][epoch] + second["epochs"][epoch])
        assert sorted(seen) == list(range(SAMPLES))
    assert first["epochs"][0] != first["epochs"][1]


def test_the_second_epoch_is_gone_on_with_in_its_middle(both, framework):
    for rank in both:
        way = "resumed" if rank["resumed"] is not None else "skipped"
        # Accelerate itself skips too few where it dispatches: as many batches as steps.
        if framework != "accelerate dispatch_batches":
            assert rank[way] == rank["epochs"][1][2:]


def test_ranks_that_are_known_only_after_the_loader_was_asked_count(ranks):
    assert sorted(flat(ranks[0]["early"] + ranks[1]["early"])) == list(range(SAMPLES))


def test_accelerate_gathers_each_sample_once_where_ranks_share_unevenly(ranks):
    for rank in ranks:
        for gathered in rank["gathered"]:
            assert sorted(flat(gathered)) == list(range(21))


def test_lightning_validates_each_sample_once(ranks, dataset, seed):
    seen = [rank[f"lightning {dataset} {seed}"]["validated"] for rank in ranks]
    assert sorted(flat(seen[0] + seen[1])) == list(range(SAMPLES))


def test_with_a_seed_the_order_is_that_of_one_process(ranks, dataset):
    from framework_ranks import batches

    import feedline.torch as drop_in

    alone = drop_in.DataLoader(DATASETS[dataset], batch_size=SAMPLES, shuffle=True, seed=7)
    whole = batches(alone)[0]
    # By the loader itself a sample at a time, by Accelerate a batch at a time.
    for name in ("torch", "lightning"):
        dealt = [flat(rank[f"{name} {dataset} 7"]["epochs"][0]) for rank in ranks]
        assert dealt == [whole[0::2], whole[1::2]]
    for name in ("accelerate", "transformers"):
        first, second = (rank[f"{name} {dataset} 7"]["epochs"][0] for rank in ranks)
        pairs = zip(first, second, strict=True)
        assert flat(flat(pair) for pair in pairs) == whole
