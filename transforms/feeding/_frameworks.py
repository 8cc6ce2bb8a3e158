"""Loaders that a framework makes or prepares: what of them is an argument in the script."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from perfmod.transforms.facts import torch_api
from perfmod.transforms.facts.batch_copies import Copy
from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.loaders import Loader
from perfmod.transforms.facts.tree import find_all

ARGUMENTS = frozenset({"TrainingArguments", "Seq2SeqTrainingArguments"})
WORKERS = "dataloader_num_workers"


def training_arguments(file: FileFacts) -> Iterator[cst.Call]:
    """The calls of a file that make arguments for the Trainer of Hugging Face."""
    for call in find_all(file.source.module, cst.Call):
        name = file.qualified(call) or ""
        if name.startswith("transformers.") and name.rpartition(".")[2] in ARGUMENTS:
            yield call


def why_no_workers_for_trainer(file: FileFacts, call: cst.Call) -> str:
    """Why the Trainer's loaders stay without workers, in one line; empty where they need not."""
    star = next((arg for arg in call.args if arg.star), None)
    return f"the arguments in {star.star}{file.code(star.value)} could not be determined" if star is not None else ""


def prepared(file: FileFacts, loader: Loader) -> cst.Call | None:
    """The call by which Accelerate gets a loader, whose batches it moves by itself from then on."""
    for call in file.tree.all(cst.Call):
        if not isinstance(call.func, cst.Attribute) or call.func.attr.value not in torch_api.PREPARES:
            continue
        if not (file.value(call.func.value).name or "").startswith("accelerate."):
            continue
        if any(end.node is loader.call and not end.path for arg in call.args for end in file.tracing.ends(arg.value)):
            return call
    return None


def still_copied(file: FileFacts, loader: Loader, copies: Iterable[Copy]) -> list[Copy]:
    """The copies that batches of a loader reach on the host: what Accelerate has prepared it has moved already."""
    prepare = prepared(file, loader)
    if prepare is None or not isinstance(prepare.func, cst.Attribute):
        return [*copies]
    accelerator = file.value(prepare.func.value).call
    told = [call for call in (accelerator, prepare) if call is not None]
    if any(argument(call, "device_placement") is not None for call in told):
        return [*copies]
    return [copy for copy in copies if _comes_past(file, loader, copy, prepare)]


def _comes_past(file: FileFacts, loader: Loader, copy: Copy, prepare: cst.Call) -> bool:
    """Whether a copy gets batches of a loader that did not go through a call of `prepare`."""
    assert isinstance(copy.call.func, cst.Attribute)
    ends = file.tracing.ends_behind(copy.call.func.value, (prepare,))
    return any(end.node is loader.call for end in ends) or prepare not in (end.node for end in ends)


def configuration(file: FileFacts, prepare: cst.Call) -> cst.BaseExpression | None:
    """How its Accelerator has been told to handle loaders."""
    assert isinstance(prepare.func, cst.Attribute)
    made = file.value(prepare.func.value).call
    return argument(made, "dataloader_config") if made is not None else None
