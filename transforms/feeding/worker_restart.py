"""Workers that are stopped after every epoch and started again for the next.

A loader with `num_workers` starts its processes when a loop over it begins, and stops them when the loop ends: each
epoch begins with starting processes, imports and copies of the dataset, and with an empty queue. With
`persistent_workers=True` the workers stay alive:

    loader = DataLoader(photos, batch_size=32, num_workers=8)
    loader = DataLoader(photos, batch_size=32, num_workers=8, persistent_workers=True)

Persistent workers also keep their state: the dataset as it was when they were started, and whatever it caches. So a
loader stays as it is where the training changes the dataset between epochs (`dataset.set_epoch(epoch)`, an assigned
attribute, a list that the dataset was built from), where the dataset changes itself, and where perfmod cannot see its
code. A sampler runs in the main process and may change.

Such a loader has one iterator, which every `iter(loader)` restarts. So a loader also stays where two loops iterate over
it at the same time, as in `zip(loader, loader)`, and where it is copied or pickled.

Workers are seeded once instead of once per epoch, so random numbers from the second epoch on are other draws of the
same distribution: the rule is on request, `--extend-select PM203`.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts import data_api
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.kept import CACHES
from perfmod.transforms.facts.loaders import TORCH_LOADERS, Loader
from perfmod.transforms.facts.worker_code import Trait, WorkerCode
from perfmod.transforms.feeding._dataset_changes import SENT, first_change, first_training
from perfmod.transforms.feeding._graph_loaders import joins_graphs
from perfmod.transforms.feeding._loader_runs import Loop, executed, repeating, sampling
from perfmod.transforms.feeding._one_iterator import why_not_one_iterator
from perfmod.transforms.feeding._settings import asked
from perfmod.transforms.feeding._worker_count import is_positive
from perfmod.transforms.finding import Family, Finding, Numerics, Safety, Status
from perfmod.transforms.keywords import add_keyword
from perfmod.transforms.rule import Rule

_SEEDS = ("random.seed", "numpy.random.seed", "torch.manual_seed", "torch.random.manual_seed")
_ASKS_FOR_SEED = ("torch.initial_seed", "torch.utils.data.get_worker_info")


class WorkerRestart(Rule):
    """PM203."""

    code = "PM203"
    name = "worker-restart"
    family = Family.FEEDING
    summary = "The loader's workers are stopped and started again in every epoch"
    fix_title = "Keep the workers alive between epochs"
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
            kept = is_positive(file, workers)
            again = [each for each in loader.iterations if isinstance(each.node, cst.For) and not each.in_step]
            loops = [loop for each in again for loop in repeating(file, loader, each)]
            if kept is None or not loops:
                continue
            refusal = _why_not(file, loader, kept, loops)
            if refusal:
                yield self.refused(file, loader.call, refusal)
                continue
            source, call = file.source_of(loader.written), loader.written
            yield self.found(
                file, loader.call, _other_draws(file, loader), add_keyword(source, call, f"persistent_workers={kept}")
            )


def _other_draws(file: FileFacts, loader: Loader) -> str:
    """Which random numbers are other ones where the workers stay, in one line."""
    drawn = WorkerCode.of(file, loader).first(Trait.RANDOM)
    if drawn is None:
        return "every sample stays the same; later shuffles and dropout draw other random numbers"
    place = f"`{drawn.text}` (line {file.line(drawn.node)})"
    return f"from epoch 2 on {place} draws other random numbers, because the workers are seeded only once"


def _why_not(file: FileFacts, loader: Loader, kept: str, loops: list[Loop]) -> str:
    """Why a loader's workers may not stay, in one line; empty where they may."""
    if loader.unseen:
        return loader.unseen
    if not kept:
        return "num_workers is only known at run time, and persistent_workers=True raises an error if it is 0"
    told = asked(file, loader, "persistent_workers")
    if told is not None:
        return f"line {file.line(told)} reads `persistent_workers` of the loader"
    change = first_change(file, loader, [*(loop.body for loop in loops), *sampling(file, loader)], SENT)
    if change is not None:
        line = file.line(change)
        return f"line {line} may change the dataset or data that it reads, of which persistent workers keep an old copy"
    trained = first_training(file, loader)
    if trained is not None:
        return f"its samples come from a module that line {file.line(trained)} trains: workers keep an old copy"
    work = WorkerCode.of(file, loader)
    for trait in (Trait.STATE, Trait.MAY_WRITE, Trait.OWN_GENERATOR):
        remark = work.first(trait)
        if remark is not None:
            line = file.line(remark.node)
            return f"{remark.text} (line {line}) would go on from one epoch to the next instead of starting again"
    unseen = work.first(Trait.UNSEEN)
    if unseen is not None:
        code = f"the code of {unseen.text} (line {file.line(unseen.node)})"
        return f"perfmod cannot see {code}, which may keep state from one epoch to the next"
    return _kept_draws(file, loader, work) or why_not_one_iterator(file, loader)


def _kept_draws(file: FileFacts, loader: Loader, work: WorkerCode) -> str:
    """Which random draws are the same, or are made anew, in every epoch only because its workers are new."""
    for function in work.functions:
        decorators = function.decorators if isinstance(function, cst.FunctionDef) else ()
        calls = [node for node in executed(file, [function.body]) if isinstance(node, cst.Call)]
        if any(file.qualified(decorator.decorator) in CACHES for decorator in decorators) and any(
            data_api.draws(file.qualified(call) or "", seeded=bool(call.args)) for call in calls
        ):
            return f"the random draws of line {file.line(function)} would be kept from one epoch to the next"
    for end in (end for value in loader.values("worker_init_fn") for end in file.tracing.ends(value)):
        calls = [node for node in executed(file, [end.node]) if isinstance(node, cst.Call)]
        seeds = next((call for call in calls if file.qualified(call) in _SEEDS), None)
        if seeds is not None and not any(file.qualified(call) in _ASKS_FOR_SEED for call in calls):
            return f"line {file.line(seeds)} gives the workers of every epoch the same seeds"
    return ""
