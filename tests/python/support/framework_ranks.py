"""One of two ranks that torchrun starts: loads under each framework, and writes down what it saw.

What each framework did is a function here and an entry of the file; tests/python/
test_frameworks_ranks.py looks at the files of both ranks.
"""

import json
import logging
import os
import pathlib
import sys
import warnings

import numpy as np
import torch
import torch.distributed

import feedline
from feedline.torch import DataLoader

SAMPLES = 32
ROWS = np.arange(SAMPLES, dtype=np.float32).reshape(SAMPLES, 1)
DATASETS = {
    "tensors": torch.utils.data.TensorDataset(torch.from_numpy(ROWS)),
    "pipeline": feedline.arrays(ROWS),
}


def make(name, seed, **settings):
    return DataLoader(
        DATASETS[name],
        batch_size=4,
        shuffle=True,
        seed=seed,
        num_workers=1,
        worker_mode="thread",
        **settings,
    )


def batches(loader, count=None):
    taken = []
    for batch in loader:
        taken.append(batch[0].flatten().int().tolist())
        if len(taken) == count:
            break
    return taken


def told(loader, *epochs, resumed, skipped=None):
    """What is written down: what the loader is, its epochs, and how the second one was resumed."""
    return {
        "loader": [type(loader).__module__, loader.worker_mode, loader.seed],
        "made": loader.stats()["batches"],
        "epochs": epochs,
        "resumed": resumed,
        "skipped": skipped,
    }


def by_torch(name, seed):
    """torch's own way: a DistributedSampler, or nothing but a seed."""

    def fresh():
        if seed is not None:
            return make(name, seed)
        sampler = torch.utils.data.DistributedSampler(DATASETS[name], seed=2)
        return DataLoader(
            DATASETS[name], batch_size=4, sampler=sampler, num_workers=1, worker_mode="thread"
        )

    def epoch(loader, number, count=None):
        loader.sampler.set_epoch(number)
        return batches(loader, count)

    loader = fresh()
    epochs = [epoch(loader, number) for number in range(2)]
    left = fresh()
    epoch(left, 0)
    epoch(left, 1, 2)
    other = fresh()
    other.load_state_dict(left.state_dict())
    return told(loader, *epochs, resumed=epoch(other, 1))


def by_accelerate(name, seed, **config):
    from accelerate import Accelerator, DataLoaderConfiguration, skip_first_batches

    def fresh():
        settings = DataLoaderConfiguration(**config)
        return Accelerator(cpu=True, dataloader_config=settings).prepare(make(name, seed))

    torch.manual_seed(3)
    loader = fresh()
    epochs = [batches(loader), batches(loader)]
    resumed = skipped = None
    if "use_stateful_dataloader" in config:
        torch.manual_seed(3)
        left = fresh()
        batches(left)
        batches(left, 2)
        state = left.state_dict()
        torch.manual_seed(4)
        other = fresh()
        other.load_state_dict(state)
        resumed = batches(other)
    elif "dispatch_batches" not in config:
        torch.manual_seed(3)
        left = fresh()
        batches(left)
        left.set_epoch(1)
        skipped = batches(skip_first_batches(left, 2))
    return told(loader.base_dataloader, *epochs, resumed=resumed, skipped=skipped)


def gathered(seed):
    """What `gather_for_metrics` returns of 21 samples, which two ranks cannot share evenly."""
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    loader = DataLoader(list(range(21)), batch_size=4, shuffle=True, seed=seed)
    prepared = accelerator.prepare(loader)
    return [accelerator.gather_for_metrics(batch).tolist() for batch in prepared]


def by_lightning(name, seed, folder):
    import lightning.pytorch as lightning

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)
            self.seen, self.validated = [], []

        def training_step(self, batch, _):
            self.seen.append(batch[0].flatten().int().tolist())
            return self.layer(batch[0]).mean()

        def validation_step(self, batch, _):
            self.validated.append(batch[0].flatten().int().tolist())

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    class Saved(lightning.Callback):
        def on_train_batch_end(self, trainer, module, outputs, batch, number):
            if trainer.global_step == 6:
                trainer.save_checkpoint(folder / f"lightning-{name}-{seed}.ckpt")

    def trainer(**settings):
        return lightning.Trainer(
            max_epochs=2,
            accelerator="cpu",
            devices=2,
            strategy="ddp",
            num_sanity_val_steps=0,
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            enable_checkpointing=False,
            default_root_dir=folder,
            **settings,
        )

    first, second = Model(), Model()
    running = trainer(callbacks=[Saved()])
    running.fit(first, make(name, seed), make(name, seed))
    path = folder / f"lightning-{name}-{seed}.ckpt"
    trainer().fit(second, make(name, seed), ckpt_path=path)
    epochs = first.seen[:4], first.seen[4:]
    answer = told(running.train_dataloader, *epochs, resumed=second.seen)
    return answer | {"validated": first.validated[:4]}


def by_trainer(name, seed, folder, *, own=False):
    """A Trainer that is given our loader, or has ours installed where it makes its own."""
    from transformers import PrinterCallback, Trainer, TrainingArguments

    seen = []

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)

        def forward(self, x):
            seen.append(x.flatten().int().tolist())
            return {"loss": self.layer(x).mean()}

    def collate(samples):
        return {"x": torch.stack([torch.as_tensor(sample[0]) for sample in samples])}

    class Ours(Trainer):
        def get_train_dataloader(self):
            if own:
                with feedline.torch.installed(worker_mode="thread", seed=seed):
                    self.loader = super().get_train_dataloader()
            else:
                self.loader = self.accelerator.prepare(make(name, seed, collate_fn=collate))
            return self.loader

    output = folder / f"trainer-{name}-{seed}-{own}"

    def trainer():
        arguments = TrainingArguments(
            output,
            use_cpu=True,
            ddp_backend="gloo",
            num_train_epochs=2,
            per_device_train_batch_size=4,
            dataloader_num_workers=1,
            remove_unused_columns=False,
            save_steps=6,
            report_to=[],
            disable_tqdm=True,
            logging_strategy="no",
        )
        made = Ours(Model(), arguments, train_dataset=DATASETS[name], data_collator=collate)
        made.remove_callback(PrinterCallback)
        return made

    first = trainer()
    first.train()
    whole = list(seen)
    seen.clear()
    trainer().train(resume_from_checkpoint=str(output / "checkpoint-6"))
    return told(first.loader.base_dataloader, whole[:4], whole[4:], resumed=list(seen))


CONFIGS = [
    {},
    {"use_stateful_dataloader": True},
    {"dispatch_batches": True},
    {"dispatch_batches": True, "use_stateful_dataloader": True},
    {"split_batches": True},
    {"use_seedable_sampler": True},
]


def main(folder):
    # The frameworks' advice.
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    early = make("tensors", 7)
    assert len(early) == SAMPLES // 4
    torch.distributed.init_process_group("gloo")
    assert len(early) == SAMPLES // 8
    answers = {"early": batches(early), "gathered": [gathered(None), gathered(7)]}
    for name in DATASETS:
        for seed in (None, 7):
            answers[f"torch {name} {seed}"] = by_torch(name, seed)
            for config in CONFIGS:
                key = " ".join(["accelerate", name, str(seed), *sorted(config)])
                answers[key] = by_accelerate(name, seed, **config)
            answers[f"lightning {name} {seed}"] = by_lightning(name, seed, folder)
            answers[f"transformers {name} {seed}"] = by_trainer(name, seed, folder)
            answers[f"installed {name} {seed}"] = by_trainer(name, seed, folder, own=True)
    rank = torch.distributed.get_rank()
    pathlib.Path(folder, f"rank-{rank}.json").write_text(json.dumps(answers))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
    # Without the interpreter's end: modules of all frameworks still hold groups, whose threads end
    # with it, and once in some sixty runs the process aborted there, after everything was written.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
