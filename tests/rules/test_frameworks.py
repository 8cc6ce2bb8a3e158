"""Loops that belong to a framework: Lightning's Trainer, that of Hugging Face, Accelerate."""

from __future__ import annotations

from textwrap import dedent

import pytest

from perfmod.codemods.engine import rewrite
from perfmod.codemods.results import Choice, FileResult
from perfmod.transforms.feeding.cpu_normalisation import CpuNormalisation
from perfmod.transforms.feeding.loader_without_workers import LoaderWithoutWorkers
from perfmod.transforms.feeding.pageable_transfer import PageableTransfer
from perfmod.transforms.finding import Safety
from perfmod.transforms.syncs.masked_loss import MaskedLoss

LIGHTNING = """\
import torch
import pytorch_lightning as pl
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Squares(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.full((3,), float(index)).square(), index % 2


class Data(pl.LightningDataModule):
    def train_dataloader(self):
        return DataLoader(Squares(), batch_size=2, shuffle=True)

    def val_dataloader(self):
        return DataLoader(Squares(), batch_size=4)


class Lit(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(3, 2)

    def training_step(self, batch, batch_idx):
        x, y = batch
        mask = y > 0
        return nn.functional.cross_entropy(self.net(x)[mask], y[mask])

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


if __name__ == "__main__":
    pl.Trainer(max_epochs=1).fit(Lit(), Data())
"""


def run(code: str, *rules: object, unsafe: bool = False) -> FileResult:
    chosen = rules or (LoaderWithoutWorkers(), PageableTransfer())
    return rewrite(dedent(code).encode(), "train.py", chosen, Choice(unsafe=unsafe))  # type: ignore[arg-type]


def reasons(result: FileResult, code: str) -> list[str]:
    return [finding.reason for finding in result.refused if finding.code == code]


# Lightning


@pytest.mark.parametrize(
    "package", ["import pytorch_lightning as pl", "import lightning as pl", "import lightning.pytorch as pl"]
)
def test_lightning_s_training_loader_gets_workers_and_all_pin(package: str) -> None:
    after = run(LIGHTNING.replace("import pytorch_lightning as pl", package)).after.decode()
    assert "batch_size=2, shuffle=True, num_workers=min(8, os.cpu_count() or 1), pin_memory=True)" in " ".join(
        after.split()
    )
    assert "DataLoader(Squares(), batch_size=4, pin_memory=True)" in after


def test_a_hook_s_loader_that_is_tried_out_pins_too() -> None:
    tried = LIGHTNING.replace("def val_", "def test_").replace(
        "    pl.Trainer", "    print(next(iter(Data().test_dataloader())))\n    pl.Trainer"
    )
    assert run(tried).after.decode().count("pin_memory=True") == 2


def test_a_loader_handed_to_fit() -> None:
    direct = LIGHTNING.replace("fit(Lit(), Data())", "fit(Lit(), DataLoader(Squares(), batch_size=3))")
    after = " ".join(run(direct).after.decode().split())
    assert (
        "fit(Lit(), DataLoader(Squares(), batch_size=3, num_workers=min(8, os.cpu_count() or 1), pin_memory=True))"
        in after
    )
    named = LIGHTNING.replace(
        "fit(Lit(), Data())", "fit(Lit(), val_dataloaders=DataLoader(Squares(), batch_size=3))"
    ).replace("LightningDataModule", "Callback")
    result = run(named, LoaderWithoutWorkers())
    assert result.after == result.before
    assert set(reasons(result, "PM201")) == {
        "this loader only evaluates, where starting workers may cost more than it gains",
        "perfmod found no training loop over this loader",
    }


def test_without_a_fit_in_sight_nothing_is_known_of_the_loaders() -> None:
    library = LIGHTNING.partition("\n\nif __name__")[0] + "\n"
    result = run(library)
    assert result.after == library.encode()
    assert not reasons(result, "PM202")


def test_a_script_that_fits_at_its_top_level_forks_its_workers() -> None:
    bare = LIGHTNING.replace('if __name__ == "__main__":\n    pl', "pl")
    assert 'multiprocessing_context="fork")' in run(bare, LoaderWithoutWorkers()).after.decode()


def test_a_hook_between_the_loader_and_its_first_batch() -> None:
    hooked = LIGHTNING.replace(
        "    def configure", "    def on_train_start(self):\n        torch.rand(1)\n\n    def configure"
    )
    result = run(hooked, LoaderWithoutWorkers())
    (held,) = result.held_back
    assert held.safety is Safety.UNSAFE
    assert held.reason == "with workers the order of the samples is drawn before line 33 runs, not after it"


@pytest.mark.parametrize(("old", "new", "reason"), [
    ("max_epochs=1", "max_epochs=1, accelerator='cpu'", "the Trainer runs on the CPU (line 38)"),
    ("    def configure",
     "    def transfer_batch_to_device(self, batch, device, index):\n        return batch\n\n    def configure",
     "line 33 copies the batches in its own way"),
])  # fmt: skip
def test_lightning_that_copies_otherwise(old: str, new: str, reason: str) -> None:
    result = run(LIGHTNING.replace(old, new), PageableTransfer())
    assert result.after == result.before
    assert set(reasons(result, "PM202")) == {reason}


def test_training_step_is_a_step() -> None:
    after = run(LIGHTNING, MaskedLoss()).after.decode()
    assert "torch.where(mask, y, -100)" in after


def test_images_that_lightning_copies_stay_normalised() -> None:
    code = LIGHTNING.replace(
        "Squares(), batch_size=2",
        "MNIST('.', transform=transforms.Compose([transforms.ToTensor(), transforms.Normalize(0.1, 0.3)])), "
        "batch_size=2",
    ).replace(
        "from torch import nn\n",
        "from torch import nn\nfrom torchvision import transforms\nfrom torchvision.datasets import MNIST\n",
    )
    (reason,) = reasons(run(code, CpuNormalisation()), "PM205")
    assert reason == "Lightning copies the batches of the loader on line 19 before a step sees them"


# Hugging Face

TRAINER = """\
from transformers import Trainer, TrainingArguments


def main(data, model):
    args = TrainingArguments(output_dir="out", per_device_train_batch_size=8)
    Trainer(model=model, args=args, train_dataset=data).train()


if __name__ == "__main__":
    main(None, None)
"""


def test_the_trainer_s_loaders_get_workers_by_its_arguments() -> None:
    result = run(TRAINER)
    (held,) = result.held_back
    assert held.safety is Safety.UNSAFE
    assert "not followed" in held.reason
    after = run(TRAINER, unsafe=True).after.decode()
    assert (
        'output_dir="out", per_device_train_batch_size=8, dataloader_num_workers=min(8, os.cpu_count() or 1))'
        in " ".join(after.split())
    )
    assert run(after, unsafe=True).after == after.encode()
    zero = TRAINER.replace("batch_size=8", "batch_size=8, dataloader_num_workers=0")
    assert "dataloader_num_workers=min(8, os.cpu_count() or 1))" in run(zero, unsafe=True).after.decode()


@pytest.mark.parametrize("workers", ["dataloader_num_workers=4", "dataloader_num_workers=options.workers"])
def test_a_decision_is_left_alone(workers: str) -> None:
    result = run(TRAINER.replace("per_device_train_batch_size=8", workers), unsafe=True)
    assert (result.applied, result.refused, result.held_back) == ((), (), ())


def test_a_trainer_that_cannot_be_rewritten_says_why() -> None:
    hidden = TRAINER.replace("per_device_train_batch_size=8", "**options")
    assert reasons(run(hidden), "PM201") == ["the arguments in **options could not be determined"]


# Accelerate

ACCELERATE = """\
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, Dataset


class Squares(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.full((3,), float(index)).square()


def main():
    accelerator = Accelerator()
    loader = DataLoader(Squares(), batch_size=2)
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for x in loader:
        loss = model(x).sum()
        accelerator.backward(loss)
        optimizer.step()


if __name__ == "__main__":
    main()
"""


def test_accelerate_s_loaders_get_workers_and_advice() -> None:
    result = run(ACCELERATE)
    assert "num_workers=min(8, os.cpu_count() or 1))" in result.after.decode()
    (advice,) = (finding for finding in result.refused if finding.code == "PM202")
    assert (advice.safety, advice.refused) == (Safety.ADVICE, False)
    assert advice.reason.startswith("Accelerate copies its batches (line 19)")
    told = ACCELERATE.replace("Accelerator()", "Accelerator(dataloader_config=config)")
    assert reasons(run(told), "PM202") == ["line 15 tells Accelerate how to copy batches"]


def test_copies_of_what_accelerate_has_moved_are_left_alone() -> None:
    code = ACCELERATE.replace("model(x)", "model(x.to(accelerator.device))")
    result = run(code, PageableTransfer())
    assert result.after.decode() == code
    (advice,) = result.refused
    assert advice.reason.startswith("Accelerate copies its batches (line 19)")
    # Nobody moves them where Accelerate is told to leave that, and those of another loader.
    alone = code.replace("Accelerator()", "Accelerator(device_placement=False)").replace(
        "size=2", "size=2, num_workers=2"
    )
    assert "x.to(accelerator.device, non_blocking=True)" in run(alone, PageableTransfer(), unsafe=True).after.decode()
    two = code.replace(
        "    model = torch", "    other = DataLoader(Squares(), batch_size=2, num_workers=2)\n    model = torch"
    )
    two = two.replace(
        "        optimizer.step()\n", "        optimizer.step()\n    for y in other:\n        model(y.to('cuda'))\n"
    )
    after = run(two, PageableTransfer()).after.decode()
    assert "num_workers=2, pin_memory=True)" in after
    assert "y.to('cuda', non_blocking=True)" in after
    assert "x.to(accelerator.device))" in after


@pytest.mark.parametrize("library", ["torch_geometric.loader", "torch_geometric.data"])
def test_lightning_waits_for_copies_of_graphs(library: str) -> None:
    torch_s = "torch.utils.data import DataLoader, Dataset"
    code = LIGHTNING.replace(torch_s, f"torch.utils.data import Dataset\nfrom {library} import DataLoader")
    result = run(code, PageableTransfer())
    assert result.after.decode() == code
    assert [held.safety for held in result.held_back] == [Safety.LOW_IMPACT] * 2
    assert {held.reason for held in result.held_back} == {
        "Lightning waits for copies of graphs: it copies only tensors with non_blocking=True"
    }
