"""The loader's state in the checkpoints of others: torch.save, Lightning, Accelerate."""

import warnings

import numpy as np
import pytest

import feedline

torch = pytest.importorskip("torch")


def native():
    rows = np.arange(40, dtype=np.float32).reshape(20, 2)
    return feedline.Loader(
        feedline.arrays(rows), batch_size=2, shuffle=True, seed=4, num_workers=1, output="torch"
    )


def dropin():
    from feedline.torch import DataLoader

    rows = torch.arange(40, dtype=torch.float32).reshape(20, 2)
    data = torch.utils.data.TensorDataset(rows)
    return DataLoader(data, batch_size=2, shuffle=True, seed=4, num_workers=1)


@pytest.fixture(params=[native, dropin], ids=lambda make: make.__name__)
def loader(request):
    return request.param


def rows(loader, count=None):
    taken = []
    for (x,) in loader:
        taken.append(x.tolist())
        if len(taken) == count:
            break
    return taken


def test_a_state_survives_torch_save_with_weights_only(tmp_path, loader):
    first = loader()
    whole = rows(loader())
    assert rows(first, 3) == whole[:3]
    torch.save({"model": torch.ones(2), "loader": first.state_dict()}, tmp_path / "last.pt")
    second = loader()
    second.load_state_dict(torch.load(tmp_path / "last.pt", weights_only=True)["loader"])
    assert rows(second) == whole[3:]


def test_accelerate_saves_and_restores_it(tmp_path, loader):
    accelerate = pytest.importorskip("accelerate")
    whole = rows(loader())
    accelerator = accelerate.Accelerator(cpu=True)
    first = loader()
    accelerator.register_for_checkpointing(first)
    assert rows(first, 4) == whole[:4]
    accelerator.save_state(tmp_path / "checkpoint")
    second = loader()
    again = accelerate.Accelerator(cpu=True)
    again.register_for_checkpointing(second)
    again.load_state(tmp_path / "checkpoint")
    assert rows(second) == whole[4:]


def test_lightning_saves_and_restores_it_in_the_middle_of_an_epoch(tmp_path, loader):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lightning = pytest.importorskip("lightning.pytorch")
    seen = []

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(2, 1)

        def training_step(self, batch, _):
            seen.append(batch[0].tolist())
            return self.layer(batch[0]).mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    def trainer(steps):
        return lightning.Trainer(
            max_steps=steps,
            accelerator="cpu",
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            enable_checkpointing=False,
            default_root_dir=tmp_path,
        )

    whole = rows(loader())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first = trainer(4)
        first.fit(Model(), loader())
        first.save_checkpoint(tmp_path / "last.ckpt")
        assert seen == whole[:4]
        seen.clear()
        trainer(10).fit(Model(), loader(), ckpt_path=tmp_path / "last.ckpt")
    assert seen == whole[4:]
