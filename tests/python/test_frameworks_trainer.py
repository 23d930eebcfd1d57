"""transformers' Trainer with our loader: one that it is given, and one that it makes itself."""

import numpy as np
import pytest
from flattened import flat

import feedline

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from feedline.torch import DataLoader  # noqa: E402

# The Trainer's advice.
pytestmark = pytest.mark.filterwarnings("ignore")

ROWS = np.arange(20, dtype=np.float32).reshape(20, 1)
DATASETS = {
    "tensors": torch.utils.data.TensorDataset(torch.from_numpy(ROWS)),
    "pipeline": feedline.arrays(ROWS),
}


@pytest.fixture(params=DATASETS)
def dataset(request):
    return DATASETS[request.param]


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.seen = []

    def forward(self, x):
        self.seen.append(x.flatten().int().tolist())
        return {"loss": self.layer(x).mean()}


def collate(samples):
    return {"x": torch.stack([torch.as_tensor(sample[0]) for sample in samples])}


class Given(transformers.Trainer):
    """A Trainer that is given our loaders."""

    seed = None

    def get_train_dataloader(self):
        loader = DataLoader(
            self.train_dataset,
            batch_size=4,
            shuffle=True,
            collate_fn=collate,
            num_workers=1,
            worker_mode="thread",
            seed=self.seed,
        )
        self.loader = self.accelerator.prepare(loader)
        return self.loader


class Own(transformers.Trainer):
    """A Trainer that makes its loaders itself."""

    def get_train_dataloader(self):
        self.loader = super().get_train_dataloader()
        return self.loader


def trainer(kind, folder, dataset, **settings):
    arguments = transformers.TrainingArguments(
        folder,
        use_cpu=True,
        num_train_epochs=2,
        per_device_train_batch_size=4,
        per_device_eval_batch_size=4,
        save_steps=7,
        report_to=[],
        disable_tqdm=True,
        logging_strategy="no",
        remove_unused_columns=False,
        **settings,
    )
    made = kind(
        Model(), arguments, train_dataset=dataset, eval_dataset=dataset, data_collator=collate
    )
    made.remove_callback(transformers.PrinterCallback)
    return made


def trained(kind, folder, dataset, *, resume=None, **settings):
    running = trainer(kind, folder, dataset, **settings)
    running.train(resume_from_checkpoint=resume)
    return running


@pytest.mark.parametrize("seed", [None, 3])
def test_a_loader_that_it_is_given_stays_ours_and_is_gone_on_with(tmp_path, dataset, seed):
    kind = type("Seeded", (Given,), {"seed": seed})
    first = trained(kind, tmp_path, dataset)
    base = first.loader.base_dataloader
    assert (type(base), base.worker_mode, base.seed) == (DataLoader, "thread", seed)
    assert base.stats()["batches"] == 10
    whole = first.model.seen
    assert sorted(flat(whole[:5])) == sorted(flat(whole[5:])) == list(range(20))
    assert whole[:5] != whole[5:]
    second = trained(kind, tmp_path, dataset, resume=str(tmp_path / "checkpoint-7"))
    assert second.model.seen == whole[7:]


class Open(transformers.Trainer):
    """A Trainer that is given a loader which decides its workers and read-ahead itself."""

    def get_train_dataloader(self):
        loader = DataLoader(
            self.train_dataset,
            batch_size=4,
            collate_fn=collate,
            num_workers="auto",
            prefetch_factor="auto",
            memory="1MiB",
            worker_mode="thread",
        )
        self.loader = self.accelerator.prepare(loader)
        return self.loader


def test_what_is_left_open_stays_so(tmp_path, dataset):
    base = trained(Open, tmp_path, dataset).loader.base_dataloader
    assert base.num_workers.auto == base.prefetch_factor.auto == feedline.Auto()
    assert base.memory == 1 << 20
    assert base.stats()["control"] is not None


def test_with_a_seed_epochs_are_those_of_the_loader_alone(tmp_path, dataset):
    first = trained(type("Seeded", (Given,), {"seed": 3}), tmp_path, dataset)
    alone = DataLoader(dataset, batch_size=4, shuffle=True, seed=3, collate_fn=collate)
    epochs = [batch["x"].flatten().int().tolist() for _ in range(2) for batch in alone]
    assert first.model.seen == epochs


@pytest.mark.parametrize("workers", [0, 1])
def test_the_loaders_that_it_makes_itself_are_ours_where_ours_is_installed(
    tmp_path, dataset, workers
):
    settings = {"dataloader_num_workers": workers}
    with feedline.torch.installed(worker_mode="thread"):
        first = trained(Own, tmp_path, dataset, **settings)
        second = trained(Own, tmp_path, dataset, resume=str(tmp_path / "checkpoint-7"), **settings)
        checked = second.get_eval_dataloader()
    for loader in (first.loader, checked):
        assert isinstance(loader.base_dataloader, DataLoader)
        assert loader.base_dataloader.worker_mode == "thread"
    assert first.loader.base_dataloader.stats()["batches"] == 10
    reference = trained(Own, tmp_path, DATASETS["tensors"], **settings)
    assert not isinstance(reference.loader.base_dataloader, DataLoader)
    assert first.model.seen == reference.model.seen
    assert second.model.seen == first.model.seen[7:]
