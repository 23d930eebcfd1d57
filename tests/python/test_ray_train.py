"""`feedline.ray` inside Ray Train: ranks are found, and a run goes on from a checkpoint."""

import importlib.util
import os
import subprocess
import sys
import textwrap

import pytest

from patience import PATIENCE

SCRIPT = """
    import json
    import pathlib
    import sys
    import tempfile

    import numpy as np
    import ray
    from ray import train
    from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    import feedline
    import feedline.ray

    EPOCHS, STOPS = 2, 5


    def loop(config):
        import torch.distributed

        loader, rank = config["loader"], torch.distributed.get_rank()
        folder, steps = pathlib.Path(config["folder"]), 0
        checkpoint = train.get_checkpoint()
        if checkpoint is not None:
            with checkpoint.as_directory() as saved:
                state = json.loads(pathlib.Path(saved, f"{rank}.json").read_text())
            loader.load_state_dict(state)
        while loader.epoch < EPOCHS:
            for (batch,) in loader:
                with open(folder / f"rank-{rank}.jsonl", "a") as out:
                    print(json.dumps(batch.tolist()), file=out)
                steps += 1
                with tempfile.TemporaryDirectory() as saved:
                    pathlib.Path(saved, f"{rank}.json").write_text(json.dumps(loader.state_dict()))
                    train.report({"steps": steps}, checkpoint=Checkpoint.from_directory(saved))
                if checkpoint is None and steps == STOPS:
                    # Both ranks have reported this step.
                    torch.distributed.barrier()
                    raise RuntimeError("stopped")


    if __name__ == "__main__":
        ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
        settings = {"batch_size": 4, "shuffle": True, "seed": 3}
        numbers = feedline.arrays(np.arange(64))
        loader = feedline.ray.Loader(numbers, num_loaders=2, epochs=EPOCHS, **settings)
        TorchTrainer(
            loop,
            train_loop_config={"folder": sys.argv[1], "loader": loader},
            scaling_config=ScalingConfig(num_workers=2, use_gpu=False),
            run_config=RunConfig(
                storage_path=sys.argv[1], failure_config=FailureConfig(max_failures=1)
            ),
        ).fit()
        for rank in range(2):
            got = pathlib.Path(sys.argv[1], f"rank-{rank}.jsonl").read_text().splitlines()
            alone = feedline.Loader(numbers, rank=rank, world_size=2, **settings)
            expected = [batch.tolist() for _ in range(EPOCHS) for (batch,) in alone]
            assert [json.loads(line) for line in got] == expected
        print("each once")
"""


@pytest.mark.timeout(PATIENCE + 60)
def test_each_rank_gets_its_share_once_though_the_run_fails_and_goes_on(tmp_path):
    if importlib.util.find_spec("ray") is None or importlib.util.find_spec("torch") is None:
        pytest.skip("Ray or torch is not installed")
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(SCRIPT))
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)],
        env=os.environ | {"RAY_AUTH_MODE": "disabled"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert "each once" in done.stdout, done.stdout + done.stderr
