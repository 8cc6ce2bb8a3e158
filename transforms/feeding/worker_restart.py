"""Workers that end with every epoch, and are started again for the next.

A loader with `num_workers` starts its processes when a loop over it begins, and ends them when the loop is through:
each epoch begins with their start, the imports and the copying of the dataset, and with an empty queue. With
`persistent_workers=True` they stay:

    loader = DataLoader(photos, batch_size=32, num_workers=8)
    loader = DataLoader(photos, batch_size=32, num_workers=8, persistent_workers=True)

Workers that stay also keep what they have: the dataset as it was when they were started, and whatever it remembers.
So a loader is refused where the training changes the dataset between epochs (`dataset.set_epoch(epoch)`, an assigned
attribute), where the dataset changes itself, and where it is not in sight. A sampler lives in the training's process
and may change.

Workers are seeded once instead of once per epoch, so random numbers from the second epoch on are other draws of the
same distribution: the rule has to be selected by its code or name.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.loaders import TORCH_LOADERS, Iteration, Loader, Setting
from perfmod.transforms.facts.worker_code import Trait, WorkerCode
from perfmod.transforms.feeding._dataset_changes import first_change
from perfmod.transforms.feeding._graph_loaders import joins_graphs
from perfmod.transforms.feeding._settings import written
from perfmod.transforms.keywords import add_keyword
from perfmod.transforms.rule import Family, Finding, Numerics, Rule, Safety, Status

_DEEPEST = 3


class WorkerRestart(Rule):
    """PM203."""

    code = "PM203"
    name = "worker-restart"
    family = Family.FEEDING
    summary = "the loader's workers are ended and started again with every epoch"
    fix_title = "Keep the workers from one epoch to the next"
    numerics = Numerics.SAMPLING
    safety = Safety.OPT_IN
    min_torch = "1.7"
    status = Status.PREVIEW
    triggers = frozenset({"num_workers"})
    references = ("https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader",)
    changes_results = (
        "From the second epoch on: workers are seeded once, and the main process draws no further seed for them, so "
        "shuffles, augmentations and dropout are other draws of the same distribution."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        """Every loader with workers over which an epoch loop begins several times."""
        for loader in file.loaders:
            if loader.name not in TORCH_LOADERS and not joins_graphs(loader):
                continue
            workers = loader.settings.get("num_workers")
            if workers is None or "persistent_workers" in loader.settings:
                continue
            kept = _kept(file, workers)
            if kept is None or not any(_begins_again(file, loader, each) for each in loader.iterations):
                continue
            refusal = _why_not(file, loader, kept)
            if refusal:
                yield self.refused(file, loader.call, refusal)
                continue
            reason = "other random draws from the second epoch on; nothing that the workers hold changes between epochs"
            yield self.found(
                file, loader.call, reason, add_keyword(file.source, loader.call, f"persistent_workers={kept}")
            )


def _kept(file: FileFacts, workers: Setting) -> str | None:
    """The code that says whether there are workers to keep; empty where that could not be said, `None` without."""
    numbers = [number for value in workers.values for number in written(file, value)]
    known = [_count(file, number) for number in numbers]
    if all(count == 0 for count in known):
        return None
    if all(count for count in known) and (workers.always or workers.arg is not None):
        return "True"
    value = workers.arg.value if workers.arg is not None else None
    return f"{file.code(value)} > 0" if isinstance(value, (cst.Name, cst.Attribute)) else ""


def _count(file: FileFacts, number: cst.CSTNode) -> int | None:
    """A number of workers, as far as it is positive for sure: `None` where it is not known."""
    if isinstance(number, cst.Integer):
        return number.evaluated_value
    if not isinstance(number, cst.Call):
        return None
    name = file.qualified(number)
    if name in ("builtins.min", "builtins.max") and number.args:
        counts = [_count(file, arg.value) for arg in number.args]
        if name == "builtins.max":
            return next((count for count in counts if count), None)
        return 1 if all(counts) else None
    # `len(os.sched_getaffinity(0))`, `os.cpu_count()`: a process has at least one.
    return 1 if name in ("os.cpu_count", "multiprocessing.cpu_count") or "affinity" in file.code(number) else None


def _begins_again(file: FileFacts, loader: Loader, iteration: Iteration) -> bool:
    """Whether a loop over a loader runs several times for one loader."""
    if not isinstance(iteration.node, cst.For) or iteration.in_step:
        return False
    around = set(file.tree.loops(loader.call))
    return _is_repeated(file, iteration.node, around, 0)


def _is_repeated(file: FileFacts, node: cst.CSTNode, around: set[cst.For | cst.While], depth: int) -> bool:
    if any(loop not in around for loop in file.tree.loops(node)):
        return True
    function = file.tree.function(node)
    if function is None or depth > _DEEPEST:
        return False
    return any(_is_repeated(file, call, around, depth + 1) for call in file.values.calls.callers(function))


def _why_not(file: FileFacts, loader: Loader, kept: str) -> str:
    """Why a loader's workers may not stay, in one line; empty where they may."""
    if loader.unseen:
        return loader.unseen
    if not kept:
        return "whether it has workers is decided at run time, and without any they cannot be kept"
    if loader.cls is not None and any("__init__" in cls.methods for cls in loader.cls.lineage()):
        return f"{loader.cls.name} decides itself what it passes on to DataLoader"
    change = first_change(file, loader, file.tree.all_of(cst.AssignTarget, cst.AugAssign, cst.Call), ("dataset",))
    if change is not None:
        return f"line {file.line(change)} may change the dataset, of which workers that stay keep their copy"
    work = WorkerCode.of(file, loader)
    for trait in (Trait.STATE, Trait.MAY_WRITE, Trait.OWN_GENERATOR):
        remark = work.first(trait)
        if remark is not None:
            line = file.line(remark.node)
            return f"{remark.text} (line {line}) would go on from one epoch to the next instead of starting anew"
    unseen = work.first(Trait.UNSEEN)
    if unseen is not None:
        line = file.line(unseen.node)
        return f"{unseen.text} (line {line}) is not in sight: it may remember something from one epoch to the next"
    return ""
