"""Lightning: its Trainer has the loop, and the files have the hooks that it calls.

The Trainer asks `train_dataloader()` of a module or a data module for the loader, begins it, moves every batch to the
device by itself, without waiting for the copy, and hands it to `training_step`, whose result it differentiates.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.classes import Classes, ClassFacts
from perfmod.transforms.facts.names import Names
from perfmod.transforms.facts.tree import Tree, walk_scope

if TYPE_CHECKING:
    from perfmod.transforms.facts.values import Values

STEP = "training_step"
STEPS = frozenset({STEP, "validation_step", "test_step", "predict_step"})
"""The methods that are given a batch."""
PACKAGES = ("lightning.", "pytorch_lightning.")
_LOADERS = {
    "train_dataloader": True,
    "val_dataloader": False,
    "test_dataloader": False,
    "predict_dataloader": False,
}
"""The hooks that give loaders, and whether these train."""
_ARGUMENTS = {"train_dataloaders": True, "train_dataloader": True, "val_dataloaders": False, "dataloaders": False}
_RUNS = {"fit": (None, True, False), "validate": (None, False), "test": (None, False), "predict": (None, False)}
"""The methods of the Trainer that run a loop, and whether loaders train that they are given by position."""


def is_lightning_module(cls: ClassFacts) -> bool:
    """Whether a class is a LightningModule."""
    return _derives(cls, "LightningModule")


def training_steps(classes: Classes) -> Iterator[cst.FunctionDef]:
    """The methods that the Trainer calls in every step."""
    for cls in classes:
        if STEP in cls.methods and is_lightning_module(cls):
            yield cls.methods[STEP]


def runs(tree: Tree, names: Names, values: Values) -> Iterator[cst.Call]:
    """The calls that run Lightning's loops: `trainer.fit(model)`, and `LightningCLI(Model)`, which calls it."""
    for call in tree.all(cst.Call):
        name = names.qualified(call.func)
        if name is not None:
            if name.startswith(PACKAGES) and name.endswith(".LightningCLI"):
                yield call
        elif isinstance(call.func, cst.Attribute) and call.func.attr.value in _RUNS:
            made = values.of(call.func.value).name or ""
            if made.startswith(PACKAGES) and "Trainer" in made:
                yield call


def loaders_handed(call: cst.Call) -> Iterator[tuple[cst.BaseExpression, bool]]:
    """What a call that runs a loop gets for loaders, and whether they train."""
    if not isinstance(call.func, cst.Attribute):
        return
    for place, (trains, arg) in enumerate(zip(_RUNS.get(call.func.attr.value, ()), call.args, strict=False)):
        if place and trains is not None and arg.keyword is None and not arg.star:
            yield arg.value, trains
    for name, trains in _ARGUMENTS.items():
        value = argument(call, name)
        if value is not None:
            yield value, trains


def loaders_returned(classes: Classes) -> Iterator[tuple[cst.BaseExpression, bool]]:
    """What the hooks of modules and data modules give, each loader of a list by itself, and whether it trains."""
    for cls in classes:
        if not _derives(cls, "LightningModule", "LightningDataModule"):
            continue
        for name, trains in _LOADERS.items():
            for node in walk_scope(cls.methods[name].body) if name in cls.methods else ():
                if isinstance(node, cst.Return) and node.value is not None:
                    yield from ((value, trains) for value in _each(node.value))


def begins_early(cls: ClassFacts) -> cst.FunctionDef | None:
    """A hook that runs between the beginning of a loader and its first batch."""
    return next((method for name, method in cls.methods.items() if name in _BEFORE_FIRST_BATCH), None)


_BEFORE_FIRST_BATCH = frozenset({"on_train_start", "on_train_epoch_start", "on_epoch_start"})
WHILE_ITERATED = (
    STEPS
    | _BEFORE_FIRST_BATCH
    | {
        "on_train_batch_start", "on_train_batch_end", "on_before_zero_grad", "on_before_backward", "on_after_backward",
        "on_before_optimizer_step", "optimizer_step", "optimizer_zero_grad", "on_before_batch_transfer",
        "on_after_batch_transfer", "transfer_batch_to_device", "on_validation_batch_start", "on_validation_batch_end",
    }
)  # fmt: skip
"""The hooks that run when a loader has begun and has not ended."""


def _each(value: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    if isinstance(value, (cst.List, cst.Tuple, cst.Dict)):
        yield from (element.value for element in value.elements)
    else:
        yield value


def _derives(cls: ClassFacts, *names: str) -> bool:
    return any(
        base.startswith(PACKAGES) and base.rpartition(".")[2] in names for each in cls.lineage() for base in each.bases
    )
