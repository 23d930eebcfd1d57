"""Hugging Face's Accelerate keeps our loader: `prepare`, `skip_first_batches`, states."""

import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from flattened import flat

import feedline
from patience import PATIENCE

torch = pytest.importorskip("torch")
accelerate = pytest.importorskip("accelerate")

from feedline.torch import DataLoader  # noqa: E402
from feedline.torch.frameworks import accelerate as keeping  # noqa: E402

TWENTY = list(range(20))
TorchLoader = torch.utils.data.DataLoader


@pytest.fixture(autouse=True)
def _forgotten():
    """Accelerate remembers loops that were left, in one place for all of a process."""
    yield
    accelerate.state.GradientState._reset_state()


def pipeline():
    return feedline.arrays(np.arange(20))


def prepared(loader, **config):
    config = accelerate.DataLoaderConfiguration(**config)
    return accelerate.Accelerator(cpu=True, dataloader_config=config).prepare(loader)


def batches(loader):
    return [(b[0] if isinstance(b, list) else b).tolist() for b in loader]


def made_anew(given):
    """What a loader must have that Accelerate has made of another."""
    return type(given), given.worker_mode, given.num_workers, given.seed, given.on_error


CONFIGS = [
    {},
    {"use_stateful_dataloader": True},
    {"dispatch_batches": True},
    {"dispatch_batches": True, "use_stateful_dataloader": True},
    {"split_batches": True},
    {"use_seedable_sampler": True},
]


@pytest.mark.parametrize("seed", [None, 5])
@pytest.mark.parametrize("dataset", [TWENTY, pipeline()], ids=["list", "pipeline"])
@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_a_prepared_loader_is_ours_and_goes_on_where_it_was(config, dataset, seed):
    def make():
        loader = DataLoader(
            dataset,
            batch_size=3,
            shuffle=True,
            num_workers=1,
            worker_mode="thread",
            seed=seed,
            on_error="skip",
        )
        return prepared(loader, **config)

    torch.manual_seed(1)
    first = make()
    assert made_anew(first.base_dataloader) == (DataLoader, "thread", 1, seed, "skip")
    whole = batches(first)
    assert sorted(flat(whole)) == TWENTY
    assert first.base_dataloader.stats()["batches"] == len(whole) == 7
    torch.manual_seed(1)
    later = accelerate.skip_first_batches(make(), 2)
    assert made_anew(later.base_dataloader) == (DataLoader, "thread", 1, seed, "skip")
    # Where there are states, seeds are drawn when it is prepared, and skipping draws others.
    if seed is not None or "use_stateful_dataloader" not in config:
        assert batches(later) == whole[2:]
    if "use_stateful_dataloader" in config:
        torch.manual_seed(1)
        taken = make()
        loop = iter(taken)
        assert [batches([next(loop)])[0] for _ in range(3)] == whole[:3]
        said = taken.state_dict()
        torch.manual_seed(2)
        resumed = make()
        resumed.load_state_dict(said)
        assert batches(resumed) == whole[3:]


@pytest.mark.parametrize("config", CONFIGS, ids=str)
@pytest.mark.parametrize("dataset", [TWENTY, pipeline()], ids=["list", "pipeline"])
def test_what_is_left_open_stays_so(config, dataset):
    loader = DataLoader(
        dataset,
        batch_size=3,
        num_workers=feedline.Auto(start=2),
        prefetch_factor="auto",
        memory="1MiB",
        worker_mode="thread",
    )
    first = prepared(loader, **config)
    for made in (first, accelerate.skip_first_batches(first, 2)):
        base = made.base_dataloader
        assert base.num_workers.auto == feedline.Auto(start=2)
        assert base.prefetch_factor.auto == feedline.Auto()
        assert base.memory == 1 << 20
    assert sorted(flat(batches(first))) == TWENTY
    assert first.base_dataloader.stats()["control"]["most_workers"] >= 2


@pytest.mark.parametrize("config", CONFIGS[:1] + CONFIGS[4:], ids=str)
@pytest.mark.parametrize("workers", [0, 2])
def test_batches_are_those_of_torchs_loader(config, workers):
    def epochs(loader_class):
        torch.manual_seed(7)
        loader = prepared(
            loader_class(TWENTY, batch_size=4, shuffle=True, num_workers=workers), **config
        )
        return batches(loader), batches(loader), batches(accelerate.skip_first_batches(loader, 3))

    assert epochs(DataLoader) == epochs(TorchLoader)


@pytest.mark.parametrize("dataset", [TWENTY, pipeline()], ids=["list", "pipeline"])
def test_without_an_accelerator_skipping_keeps_ours(dataset):
    loader = DataLoader(dataset, batch_size=4, shuffle=True, seed=3, worker_mode="thread")
    later = accelerate.skip_first_batches(loader, 2)
    assert made_anew(later) == (DataLoader, "thread", 0, 3, "raise")
    assert batches(later) == batches(loader)[2:]


def test_a_seed_decides_the_order_of_every_epoch_and_of_those_that_are_set():
    alone = DataLoader(TWENTY, batch_size=4, shuffle=True, seed=3)
    epochs = [batches(alone) for _ in range(4)]
    assert epochs[0] != epochs[1]
    for config in ({}, {"use_seedable_sampler": True}, {"dispatch_batches": True}):
        loader = prepared(DataLoader(TWENTY, batch_size=4, shuffle=True, seed=3), **config)
        assert [batches(loader) for _ in range(2)] == epochs[:2]
        loader.set_epoch(3)
        assert batches(accelerate.skip_first_batches(loader, 2)) == epochs[3][2:]
        assert batches(loader) == epochs[3]


class Noise(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.rand(())


def test_random_numbers_of_samples_follow_from_the_seed_and_the_epoch():
    alone = DataLoader(Noise(), batch_size=2, seed=3)
    epochs = [batches(alone) for _ in range(3)]
    loader = prepared(DataLoader(Noise(), batch_size=2, seed=3, num_workers=2))
    loader.set_epoch(2)
    assert batches(accelerate.skip_first_batches(loader, 1)) == epochs[2][1:]
    assert batches(loader) == epochs[2]


def test_single_samples_and_streams_stay_ours():
    single = prepared(DataLoader(TWENTY, batch_size=None, shuffle=True, seed=3))
    assert list(single) == list(DataLoader(TWENTY, batch_size=None, shuffle=True, seed=3))

    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter(TWENTY)

    stream = prepared(DataLoader(Stream(), batch_size=8, on_worker_death="restart"))
    assert type(stream.base_dataloader) is DataLoader
    assert stream.base_dataloader.on_worker_death == "restart"
    assert batches(stream) == [TWENTY[:8], TWENTY[8:16], TWENTY[16:]]
    assert batches(accelerate.skip_first_batches(stream, 1)) == [TWENTY[8:16], TWENTY[16:]]


def test_save_state_and_load_state_resume_in_the_middle_of_a_later_epoch(tmp_path):
    config = accelerate.DataLoaderConfiguration(use_stateful_dataloader=True)

    def make():
        accelerator = accelerate.Accelerator(cpu=True, dataloader_config=config)
        loader = DataLoader(TWENTY, batch_size=4, shuffle=True, seed=3, num_workers=1)
        return accelerator, accelerator.prepare(loader)

    _, whole = make()
    epochs = [batches(whole) for _ in range(4)]
    accelerator, loader = make()
    assert [batches(loader) for _ in range(2)] == epochs[:2]
    for number, _ in enumerate(loader):
        if number == 1:
            accelerator.save_state(tmp_path)
            break
    again, resumed = make()
    again.load_state(tmp_path)
    assert batches(resumed) == epochs[2][2:]
    # Accelerate counts epochs from 0 again; the state knows better.
    assert batches(resumed) == epochs[3]


def test_a_prepared_loader_can_be_pickled_and_prepared_again():
    loader = prepared(DataLoader(TWENTY, batch_size=4, shuffle=True, seed=3))
    copy = pickle.loads(pickle.dumps(loader))
    assert type(copy.base_dataloader) is DataLoader
    assert batches(copy) == batches(loader)
    twice = prepared(loader)
    assert type(twice.base_dataloader) is DataLoader


# torchdata's, of torch.
@pytest.mark.filterwarnings("ignore:.set_vital.:UserWarning")
def test_loaders_of_torch_are_left_alone():
    for config in CONFIGS[:2]:
        loader = prepared(TorchLoader(TWENTY, batch_size=4), **config)
        assert not isinstance(loader.base_dataloader, DataLoader)
        assert batches(loader) == batches(TorchLoader(TWENTY, batch_size=4))


def test_settings_come_through_a_loader_of_torchs_that_was_made_of_ours():
    """Accelerate prepares for Megatron in two steps; the first one makes torch's."""
    names = accelerate.data_loader._PYTORCH_DATALOADER_KWARGS
    ours = DataLoader(TWENTY, batch_size=4, worker_mode="thread", on_error="skip")
    copied = {name: getattr(ours, name, names[name]) for name in names if name != "batch_sampler"}
    torchs = TorchLoader(ours.dataset, **copied)
    assert made_anew(prepared(torchs).base_dataloader) == (DataLoader, "thread", 0, None, "skip")


def test_a_value_that_carries_settings_is_the_text_it_was():
    loader = DataLoader(TWENTY, pin_memory_device="cuda")
    assert loader.pin_memory_device == "cuda"
    assert vars(loader)["pin_memory_device"] == "cuda"
    assert type(pickle.loads(pickle.dumps(loader.pin_memory_device))) is str


def test_what_is_replaced_can_be_put_back():
    module = accelerate.data_loader
    prepared(DataLoader(TWENTY))
    assert keeping.is_kept()
    keeping.release()
    try:
        assert module.DataLoader is TorchLoader
        assert "frameworks" not in module.DataLoaderAdapter.__init__.__module__
        assert not isinstance(prepared(DataLoader(TWENTY)).base_dataloader, DataLoader)
    finally:
        keeping.keep()
    assert type(prepared(DataLoader(TWENTY)).base_dataloader) is DataLoader


def test_an_accelerate_made_otherwise_is_left_alone_with_a_warning(monkeypatch):
    keeping.release()
    try:
        with monkeypatch.context() as other:
            other.setattr(accelerate.data_loader, "DataLoaderAdapter", None)
            other.setitem(keeping._state, "warned", False)
            with pytest.warns(UserWarning, match="put torch's DataLoader in place of feedline's"):
                keeping.keep()
            assert not keeping.is_kept()
    finally:
        keeping.keep()
    assert keeping.is_kept()


def test_accelerate_may_be_imported_after_the_loader_was_made():
    script = """
        from feedline.torch import DataLoader
        from feedline.torch.frameworks import accelerate as keeping

        loader = DataLoader(list(range(8)), batch_size=2, worker_mode="thread")
        import accelerate

        prepared = accelerate.Accelerator(cpu=True).prepare(loader)
        print(type(prepared.base_dataloader) is DataLoader, prepared.base_dataloader.worker_mode)
        # As if it were imported now.
        keeping.release()
        keeping._state["released"] = False
        later = accelerate.skip_first_batches(loader, 1)
        print(type(later) is DataLoader, later.worker_mode)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert done.stdout.splitlines() == ["True thread", "True thread"]
