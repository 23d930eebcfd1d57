"""Which share a loader delivers where nobody tells it: each sample once over the ranks."""

import json
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import feedline
from patience import PATIENCE

NAMES = (
    "RANK",
    "WORLD_SIZE",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "MV2_COMM_WORLD_RANK",
    "MV2_COMM_WORLD_SIZE",
    "PMI_RANK",
    "PMI_SIZE",
    "SLURM_PROCID",
    "SLURM_NTASKS",
    "SLURM_STEP_ID",
    "SLURM_STEP_NUM_TASKS",
)


@pytest.fixture
def environment(monkeypatch):
    """Set variables after all that could tell a rank are gone."""

    def set_to(**variables):
        for name in NAMES:
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    set_to()
    return set_to


def loader(**settings):
    numbers = feedline.arrays(np.arange(12))
    return feedline.Loader(numbers, batch_size=2, shuffle=True, seed=3, num_workers=1, **settings)


def samples(loader):
    return [int(x) for (batch,) in loader for x in batch]


def share(loader):
    state = loader.state_dict()
    return state["rank"], state["world_size"]


STEP = {"SLURM_STEP_ID": "0"}
FOUND = [
    ({"RANK": "1", "WORLD_SIZE": "2"}, (1, 2), "torchrun's environment"),
    ({"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "3"}, (2, 3), "Open MPI"),
    ({"MV2_COMM_WORLD_RANK": "0", "MV2_COMM_WORLD_SIZE": "3"}, (0, 3), "MVAPICH2"),
    ({"PMI_RANK": "1", "PMI_SIZE": "4"}, (1, 4), "PMI"),
    ({"SLURM_PROCID": "1", "SLURM_NTASKS": "2", **STEP}, (1, 2), "Slurm"),
    # The allocation has eight tasks, this step of it two.
    (
        {"SLURM_PROCID": "1", "SLURM_NTASKS": "8", "SLURM_STEP_NUM_TASKS": "2", **STEP},
        (1, 2),
        "Slurm",
    ),
    # One task per node, each of which starts torchrun or mpirun.
    (
        {"SLURM_PROCID": "1", "SLURM_NTASKS": "2", **STEP, "RANK": "5", "WORLD_SIZE": "6"},
        (5, 6),
        "torchrun",
    ),
    (
        {
            "SLURM_PROCID": "1",
            "SLURM_NTASKS": "2",
            **STEP,
            "OMPI_COMM_WORLD_RANK": "3",
            "OMPI_COMM_WORLD_SIZE": "4",
        },
        (3, 4),
        "Open MPI",
    ),
]


@pytest.mark.parametrize(("variables", "expected", "who"), FOUND)
def test_a_share_is_found_in_the_environment_and_told(environment, variables, expected, who):
    environment(**variables)
    made = loader()
    assert share(made) == expected
    rank, world = expected
    assert f"rank {rank} of {world}, found by {who}" in repr(made)
    assert f"rank {rank} of {world}, found by {who}" in made.explain()
    assert samples(made) == samples(loader(rank=rank, world_size=world))


NOT_FOUND = [
    {},
    {"WORLD_SIZE": "2"},  # Lightning's, which tells the rank otherwise
    {"WORLD_SIZE": "2", "RANK": ""},
    {"SLURM_NTASKS": "4"},  # salloc
    {"SLURM_NTASKS": "4", "SLURM_PROCID": "0"},  # a batch script
    {"SLURM_NTASKS": "4", "SLURM_STEP_ID": "0"},
    # The shell of an allocation, and a batch script, as steps of their own.
    {"SLURM_NTASKS": "4", "SLURM_PROCID": "0", "SLURM_STEP_ID": "4294967290"},
    {"SLURM_NTASKS": "4", "SLURM_PROCID": "0", "SLURM_STEP_ID": "4294967291"},
]


@pytest.mark.parametrize("variables", NOT_FOUND)
def test_a_process_that_is_alone_loads_everything(environment, variables):
    environment(**variables)
    made = loader()
    assert share(made) == (0, 1)
    assert sorted(samples(made)) == list(range(12))
    assert "rank" not in repr(made)
    assert "rank" not in made.explain()


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"RANK": "0"}, "RANK=0 .*no WORLD_SIZE.*rank="),
        ({"PMI_RANK": "0"}, "PMI_RANK=0 .*no PMI_SIZE.*rank="),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "RANK=2 and WORLD_SIZE=2 .*below"),
        ({"RANK": "0", "WORLD_SIZE": "0"}, "RANK=0 and WORLD_SIZE=0 .*below"),
        ({"RANK": "-1", "WORLD_SIZE": "2"}, "RANK=-1 and WORLD_SIZE=2 .*no numbers"),
        ({"RANK": "one", "WORLD_SIZE": "2"}, "RANK=one and WORLD_SIZE=2 .*no numbers"),
        ({"SLURM_PROCID": "4", "SLURM_NTASKS": "4", **STEP}, "SLURM_PROCID=4 .*below"),
    ],
)
def test_an_environment_that_makes_no_sense_is_refused(environment, variables, message):
    environment(**variables)
    with pytest.raises(ValueError, match=message):
        loader()
    assert sorted(samples(loader(rank=0, world_size=1))) == list(range(12))


def test_what_is_given_counts_more_than_what_is_found(environment):
    environment(RANK="1", WORLD_SIZE="2")
    alone = loader(rank=0, world_size=1)
    assert sorted(samples(alone)) == list(range(12))
    assert "rank" not in repr(alone)
    assert "rank 2 of 3: " in repr(loader(rank=2, world_size=3))


@pytest.mark.parametrize("half", [{"rank": 0}, {"world_size": 2}])
def test_half_a_share_is_refused(half):
    with pytest.raises(ValueError, match=r"(rank|world_size) was given without"):
        loader(**half)


def test_a_filter_looks_at_all_samples_on_every_rank(environment):
    environment(RANK="1", WORLD_SIZE="2")
    even = feedline.arrays(np.arange(12)).filter(lambda x: x % 2 == 0)
    assert len(even) == 6
    assert [int(even[i][0]) for i in range(6)] == [0, 2, 4, 6, 8, 10]


def test_looking_for_ranks_imports_neither_torch_nor_jax(program):
    done = program("""
        import sys
        import numpy as np
        import feedline
        loader = feedline.Loader(feedline.arrays(np.arange(4)))
        list(loader)
        print([name for name in ("torch", "jax") if name in sys.modules])
    """)
    assert done.stdout.strip() == "[]"


# ---- launched for real


def launched(tmp_path, command, source, timeout=PATIENCE):
    """Run a program under a launcher. Each rank leaves what it has as JSON in a file of its own."""
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(source))
    environment = {name: value for name, value in os.environ.items() if name not in NAMES}
    done = subprocess.run(
        [*command, str(script), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=timeout,
        cwd=tmp_path,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(file.read_text()) for file in sorted(tmp_path.glob("rank-*.json"))]


TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]


@pytest.mark.timeout(85)
def test_under_torchrun_each_sample_comes_once_over_the_ranks(tmp_path):
    pytest.importorskip("torch")
    told = launched(
        tmp_path,
        TORCHRUN,
        """
        import json, pathlib, sys
        import numpy as np
        import feedline
        import torch.distributed as dist

        def loader():
            numbers = feedline.arrays(np.arange(12))
            return feedline.Loader(numbers, batch_size=2, shuffle=True, seed=3, num_workers=1)

        def samples(batches):
            return [int(x) for (batch,) in batches for x in batch]

        before = loader()  # by the environment
        peek = next(iter(before))[0].tolist()
        dist.init_process_group("gloo")
        rank = dist.get_rank()
        after = loader()  # by the group
        epoch = iter(after)
        first = samples([next(epoch) for _ in range(1 + rank)])  # stopped apart
        states = [None, None]
        dist.all_gather_object(states, after.state_dict())
        merged = loader()
        merged.load_state_dict(feedline.merge_states(states))
        told = {
            "shown": [repr(before), repr(after)],
            "whole": samples(before),
            "first": first,
            "rest": samples(merged),
        }
        pathlib.Path(sys.argv[1], f"rank-{rank}.json").write_text(json.dumps(told))
        dist.destroy_process_group()
        """,
    )
    assert [len(rank["whole"]) for rank in told] == [6, 6]
    assert sorted(told[0]["whole"] + told[1]["whole"]) == list(range(12))
    delivered = [x for rank in told for part in ("first", "rest") for x in rank[part]]
    assert set(delivered) == set(range(12))
    for number, rank in enumerate(told):
        assert f"rank {number} of 2, found by torch" in rank["shown"][0]
        assert f"rank {number} of 2, found by torch.distributed" in rank["shown"][1]


@pytest.mark.timeout(85)
def test_a_group_that_is_formed_after_the_loader_was_made_deals_out_its_samples(tmp_path):
    """As in programs that hand a loader to functions in spawned processes."""
    pytest.importorskip("torch")
    told = launched(
        tmp_path,
        [sys.executable],
        """
        import json, os, pathlib, sys
        import numpy as np
        import feedline
        import torch.distributed as dist
        import torch.multiprocessing as mp

        def loader():
            numbers = feedline.arrays(np.arange(12))
            return feedline.Loader(numbers, batch_size=2, shuffle=True, seed=3, num_workers=1)

        def samples(batches):
            return [int(x) for (batch,) in batches for x in batch]

        def train(rank, folder):
            made, left, resumed = loader(), loader(), loader()
            next(iter(left))
            epoch = iter(resumed)
            next(epoch)
            seen = resumed.state_dict()
            resumed.load_state_dict(seen)
            store = f"file://{folder}/store"
            dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
            told = {
                "len": len(made),
                "shown": repr(made),
                "whole": samples(made),
                "second": samples(left),
                "left": left.epoch,
                "rest": samples(resumed),
            }
            pathlib.Path(folder, f"rank-{rank}.json").write_text(json.dumps(told))
            dist.destroy_process_group()

        if __name__ == "__main__":
            mp.spawn(train, (sys.argv[1],), nprocs=2)
        """,
    )
    assert [rank["len"] for rank in told] == [3, 3]
    assert sorted(told[0]["whole"] + told[1]["whole"]) == list(range(12))
    # One was left half-way, so this is its second epoch, from the start.
    assert sorted(told[0]["second"] + told[1]["second"]) == list(range(12))
    assert [rank["left"] for rank in told] == [2, 2]
    # One had delivered two samples to each process before.
    rest = sorted(told[0]["rest"] + told[1]["rest"])
    assert len(set(rest)) == len(rest) == 10
    for number, rank in enumerate(told):
        assert f"rank {number} of 2, found by torch.distributed" in rank["shown"]


LIGHTNING = """
    import json, pathlib, sys, warnings
    warnings.simplefilter("ignore")
    import lightning.pytorch as lightning
    import numpy as np
    import torch
    import feedline

    def loader():
        rows = np.arange(12, dtype=np.float32).reshape(12, 1)
        return feedline.Loader(
            feedline.arrays(rows), batch_size=2, shuffle=True, seed=3, num_workers=1, output="torch"
        )

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)
            self.seen, self.validated = [], []

        def training_step(self, batch, _):
            self.seen += batch[0].flatten().int().tolist()
            return self.layer(batch[0]).mean()

        def val_dataloader(self):
            return loader()  # made when there is a group already

        def validation_step(self, batch, _):
            self.validated += batch[0].flatten().int().tolist()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

        def on_train_end(self):
            file = pathlib.Path(sys.argv[1], f"rank-{self.global_rank}.json")
            told = {"seen": self.seen, "validated": self.validated, "shown": repr(given)}
            file.write_text(json.dumps(told))

    if __name__ == "__main__":
        trainer = lightning.Trainer(
            max_epochs=1,
            accelerator="cpu",
            devices=2,
            strategy="ddp",
            num_sanity_val_steps=0,
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            enable_checkpointing=False,
            default_root_dir=sys.argv[1],
        )
        given = loader()  # made before the other rank is even started
        trainer.fit(Model(), given)
"""


@pytest.mark.timeout(85)
def test_under_lightning_ddp_each_sample_comes_once_over_the_ranks(tmp_path):
    pytest.importorskip("lightning")
    told = launched(tmp_path, [sys.executable], LIGHTNING)
    assert sorted(told[0]["seen"] + told[1]["seen"]) == list(range(12))
    assert sorted(told[0]["validated"] + told[1]["validated"]) == list(range(12))
    for number, rank in enumerate(told):
        assert f"rank {number} of 2, found by torch.distributed" in rank["shown"]


@pytest.mark.timeout(85)
def test_under_accelerate_each_sample_comes_once_over_the_ranks(tmp_path):
    pytest.importorskip("accelerate")
    told = launched(
        tmp_path,
        TORCHRUN,  # what `accelerate launch` runs for several GPUs
        """
        import json, pathlib, sys
        import numpy as np
        import feedline
        from accelerate import Accelerator

        accelerator = Accelerator(cpu=True)
        numbers = feedline.arrays(np.arange(12))
        loader = feedline.Loader(numbers, batch_size=2, shuffle=True, seed=3, num_workers=1)
        loader = accelerator.prepare(loader)
        seen = [int(x) for (batch,) in loader for x in batch]
        rank = accelerator.process_index
        told = {"seen": seen, "shown": repr(loader)}
        pathlib.Path(sys.argv[1], f"rank-{rank}.json").write_text(json.dumps(told))
        accelerator.end_training()
        """,
    )
    assert sorted(told[0]["seen"] + told[1]["seen"]) == list(range(12))
    for number, rank in enumerate(told):
        assert f"rank {number} of 2, found by torch" in rank["shown"]


@pytest.mark.timeout(85)
def test_jax_processes_share_the_samples(tmp_path):
    pytest.importorskip("jax")
    told = launched(
        tmp_path,
        [sys.executable],
        """
        import json, multiprocessing, os, pathlib, socket, sys
        import numpy as np
        import feedline

        def train(rank, port, folder):
            os.environ["JAX_PLATFORMS"] = "cpu"
            import jax
            numbers = feedline.arrays(np.arange(12))
            loader = feedline.Loader(numbers, batch_size=2, shuffle=True, seed=3, num_workers=1)
            assert "rank" not in repr(loader)
            jax.distributed.initialize(f"localhost:{port}", 2, rank)
            seen = [int(x) for (batch,) in loader for x in batch]
            told = {"seen": seen, "shown": repr(loader)}
            pathlib.Path(folder, f"rank-{rank}.json").write_text(json.dumps(told))
            jax.distributed.shutdown()

        if __name__ == "__main__":
            with socket.socket() as free:
                free.bind(("localhost", 0))
                port = free.getsockname()[1]
            spawn = multiprocessing.get_context("spawn")
            ranks = [spawn.Process(target=train, args=(i, port, sys.argv[1])) for i in range(2)]
            for rank in ranks:
                rank.start()
            for rank in ranks:
                rank.join()
            sys.exit(any(rank.exitcode for rank in ranks))
        """,
    )
    assert sorted(told[0]["seen"] + told[1]["seen"]) == list(range(12))
    for number, rank in enumerate(told):
        assert f"rank {number} of 2, found by jax.distributed" in rank["shown"]
