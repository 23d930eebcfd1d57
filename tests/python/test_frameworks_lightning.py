"""PyTorch Lightning uses our loader: fit, validate, predict, and going on in the middle."""

import warnings

import numpy as np
import pytest
from flattened import flat

import feedline

torch = pytest.importorskip("torch")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    lightning = pytest.importorskip("lightning.pytorch")

from feedline.torch import DataLoader  # noqa: E402

# Lightning's advice, and what it uses of torch.
pytestmark = pytest.mark.filterwarnings("ignore")

TorchLoader = torch.utils.data.DataLoader
ROWS = torch.arange(20, dtype=torch.float32).reshape(20, 1)
DATASETS = {
    "tensors": torch.utils.data.TensorDataset(ROWS),
    "pipeline": feedline.arrays(np.arange(20, dtype=np.float32).reshape(20, 1)),
}


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.seen = []

    def training_step(self, batch, _):
        self.seen.append(batch[0].flatten().int().tolist())
        return self.layer(batch[0]).mean()

    def validation_step(self, batch, _):
        self.seen.append(batch[0].flatten().int().tolist())

    def predict_step(self, batch, _):
        self.seen.append(batch[0].flatten().int().tolist())
        return batch[0]

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def trainer(folder, **settings):
    return lightning.Trainer(
        accelerator="cpu",
        devices=1,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
        num_sanity_val_steps=0,
        default_root_dir=folder,
        **settings,
    )


@pytest.fixture(params=DATASETS)
def dataset(request):
    return DATASETS[request.param]


def make(dataset, seed=4, loader=DataLoader, **settings):
    new = {"worker_mode": "thread", "seed": seed} if loader is DataLoader else {}
    return loader(dataset, batch_size=3, shuffle=True, num_workers=1, **new, **settings)


def test_fit_takes_the_batches_of_torchs_loader(tmp_path, dataset):
    def seen(loader):
        torch.manual_seed(5)
        model = Model()
        trainer(tmp_path, max_epochs=2).fit(model, make(dataset, seed=None, loader=loader))
        return model.seen

    assert seen(DataLoader) == seen(TorchLoader)


def test_fit_and_validate_are_given_ours(tmp_path, dataset):
    train, check = make(dataset), make(dataset, seed=None)
    model = Model()
    running = trainer(tmp_path, max_epochs=2, limit_val_batches=0)
    running.fit(model, train)
    assert running.train_dataloader is train
    assert train.stats()["batches"] == len(model.seen) == 14
    assert sorted(flat(model.seen[:7])) == sorted(flat(model.seen[7:])) == list(range(20))
    assert model.seen[:7] != model.seen[7:]
    model.seen.clear()
    trainer(tmp_path).validate(model, check, verbose=False)
    assert check.stats()["batches"] == 7
    assert sorted(flat(model.seen)) == list(range(20))


def test_epochs_with_a_seed_are_those_of_the_loader_alone(tmp_path, dataset):
    model = Model()
    trainer(tmp_path, max_epochs=3).fit(model, make(dataset))
    alone = make(dataset)
    epochs = [[batch[0].flatten().int().tolist() for batch in alone] for _ in range(3)]
    assert model.seen == flat(epochs)


class Saved(lightning.Callback):
    """Saves in the middle of the second epoch."""

    def on_train_batch_end(self, trainer, module, outputs, batch, number):
        if trainer.global_step == 10:
            trainer.save_checkpoint(f"{trainer.default_root_dir}/last.ckpt")


def test_a_checkpoint_in_the_middle_of_a_later_epoch_is_gone_on_with(tmp_path, dataset):
    whole, rest = Model(), Model()
    trainer(tmp_path, max_epochs=3, callbacks=[Saved()]).fit(whole, make(dataset))
    loader = make(dataset)
    trainer(tmp_path, max_epochs=3).fit(rest, loader, ckpt_path=tmp_path / "last.ckpt")
    assert rest.seen == whole.seen[10:]
    assert loader.stats()["batches"] == 11


def test_prediction_makes_ours_anew_with_its_settings(tmp_path, dataset):
    model, loader = Model(), make(dataset)
    running = trainer(tmp_path)
    running.predict(model, loader)
    (used,) = (
        running.predict_dataloaders
        if isinstance(running.predict_dataloaders, list)
        else (running.predict_dataloaders,)
    )
    assert type(used) is DataLoader
    assert (used.worker_mode, used.seed) == ("thread", 4)
    assert used.stats()["batches"] == 7
    assert sorted(flat(model.seen)) == list(range(20))


def test_what_is_left_open_stays_so_where_it_is_made_anew(tmp_path, dataset):
    loader = DataLoader(
        dataset,
        batch_size=3,
        num_workers="auto",
        prefetch_factor=feedline.Auto(start=3),
        memory="1MiB",
        worker_mode="thread",
    )
    model, running = Model(), trainer(tmp_path)
    running.predict(model, loader)
    used = running.predict_dataloaders
    (used,) = used if isinstance(used, list) else (used,)
    assert used.num_workers.auto == feedline.Auto()
    assert used.prefetch_factor.auto == feedline.Auto(start=3)
    assert used.memory == 1 << 20
    assert used.stats()["control"] is not None
    assert flat(model.seen) == list(range(20))


def test_a_seed_says_that_samples_are_dealt_out_already():
    distributed = torch.utils.data.DistributedSampler
    assert isinstance(make(DATASETS["tensors"]).sampler, distributed)
    assert not isinstance(make(DATASETS["tensors"], seed=None).sampler, distributed)
