"""Ray Train on two ranks: ours loads, each sample comes once, and an epoch is resumed."""

import json
import subprocess
import sys
import textwrap

import pytest
from flattened import flat

from patience import PATIENCE

pytest.importorskip("torch")
pytest.importorskip("ray.train.torch")

SCRIPT = """
    import json
    import pathlib
    import sys

    import ray
    from ray.train import RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer


    def loop(config):
        import numpy as np
        import torch
        from ray.train.torch import prepare_data_loader

        import feedline
        from feedline.torch import DataLoader

        rows = np.arange(32, dtype=np.float32).reshape(32, 1)
        datasets = {
            "tensors": torch.utils.data.TensorDataset(torch.from_numpy(rows)),
            "pipeline": feedline.arrays(rows),
        }

        def epoch(loader, number, count=None):
            loader.sampler.set_epoch(number)
            taken = []
            for batch in loader:
                taken.append(batch[0].flatten().int().tolist())
                if len(taken) == count:
                    break
            return taken

        answers, left_open = {}, {}
        for name, dataset in datasets.items():
            for seed in (None, 7):
                def fresh(**settings):
                    loader = DataLoader(
                        dataset, batch_size=4, shuffle=True, seed=seed, worker_mode="thread"
                    )
                    return prepare_data_loader(loader, **settings)

                around = fresh()
                first, second = epoch(around, 0), epoch(around, 1)
                # Without Ray's own loader around it, which has no state.
                ours, other = (fresh(move_to_device=False) for _ in range(2))
                epoch(ours, 1, 2)
                other.load_state_dict(ours.state_dict())
                answers[f"{name} {seed}"] = {
                    "loader": [type(ours).__module__, ours.worker_mode, ours.seed],
                    "made": around._dataloader.stats()["batches"],
                    "epochs": [first, second],
                    "resumed": epoch(other, 1),
                }
            loader = DataLoader(
                dataset,
                batch_size=4,
                num_workers=feedline.Auto(start=2),
                prefetch_factor="auto",
                memory="1MiB",
                worker_mode="thread",
            )
            ours = prepare_data_loader(loader, move_to_device=False)
            made = len(list(ours))
            kept = [repr(ours.num_workers.auto), repr(ours.prefetch_factor.auto), ours.memory]
            left_open[name] = [*kept, made, ours.stats()["control"] is not None]
        answers["left open"] = left_open
        rank = torch.distributed.get_rank()
        pathlib.Path(config["folder"], f"rank-{rank}.json").write_text(json.dumps(answers))


    if __name__ == "__main__":
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
        TorchTrainer(
            loop,
            train_loop_config={"folder": sys.argv[1]},
            scaling_config=ScalingConfig(num_workers=2, use_gpu=False),
            run_config=RunConfig(storage_path=sys.argv[1]),
        ).fit()
"""


@pytest.mark.timeout(PATIENCE + 60)
def test_ours_loads_each_sample_once_and_resumes(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(SCRIPT))
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    ranks = [json.loads((tmp_path / f"rank-{rank}.json").read_text()) for rank in range(2)]
    for name in ("tensors", "pipeline"):
        for seed in (None, 7):
            both = [rank[f"{name} {seed}"] for rank in ranks]
            for rank in both:
                assert rank["loader"] == ["feedline.torch.dataloader", "thread", seed]
                assert rank["made"] == 8
                assert rank["resumed"] == rank["epochs"][1][2:]
            for epoch in range(2):
                seen = flat(both[0]["epochs"][epoch] + both[1]["epochs"][epoch])
                assert sorted(seen) == list(range(32))
        for rank in ranks:
            kept = ["Auto(start=2, most=None)", "Auto(start=None, most=None)", 1 << 20]
            assert rank["left open"][name] == [*kept, 4, True]
