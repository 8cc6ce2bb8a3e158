"""Whether random numbers are drawn in the same order when worker processes make the batches of a loader.

Without workers a loader asks its sampler for indices when the loop asks it for a batch. With workers it asks when it is
begun, and runs ahead of the loop: what a sampler draws, or keeps, comes earlier than what the loop draws or sees.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts import data_api, lightning
from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.classes import ClassFacts
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding
from perfmod.transforms.facts.loaders import Iteration, Loader
from perfmod.transforms.facts.tree import find_all, find_any, is_none, walk
from perfmod.transforms.facts.value import Kind
from perfmod.transforms.feeding._loader_runs import executed, while_iterated
from perfmod.transforms.feeding._sampler_state import kept_state

_BEGINS = frozenset(f"builtins.{name}" for name in ("iter", "enumerate", "zip", "map", "filter"))
_DRAWS_NOTHING = frozenset({"tqdm", "wandb", "tensorboardX", "accelerate", "matplotlib", "argparse"})


def why_other_order(file: FileFacts, loader: Loader) -> str:
    """Why numbers may be drawn in another order than before; empty where they are not."""
    shared = _why_not_generator(file, loader)
    if shared:
        return shared
    for name in ("sampler", "batch_sampler"):
        for value in loader.values(name):
            for end in file.tracing.ends(value):
                reason = _sampler(file, end.node)
                if reason:
                    return reason
    for iteration in loader.iterations:
        line = file.line(iteration.iterable)
        if iteration.by_framework:
            hook = next(filter(None, map(lightning.begins_early, file.classes)), None) if iteration.trains else None
            if hook is not None and _is_shuffled(loader):
                return (
                    f"with workers the order of the samples is drawn before line {file.line(hook)} runs, not after it"
                )
            continue
        if _is_shuffled(loader) and _draws_before_next(file, iteration):
            return (
                "with workers the order of the samples is drawn when the iterator is created, not at the "
                f"first batch (line {line})"
            )
        others = _begun_together(file, loader, iteration)
        if any(_is_shuffled(one) for one in (loader, *others)) and others:
            return (
                f"with workers the orders of the loaders on line {line} are drawn when their iterators are "
                "created, one after the other"
            )
    return ""


def _begun_together(file: FileFacts, loader: Loader, iteration: Iteration) -> list[Loader]:
    """The other loaders that `zip` begins before it draws the first batch of this one."""
    zips = (
        call
        for call in find_all(iteration.iterable, cst.Call)
        if file.qualified(call) == "builtins.zip" and len(call.args) > 1
    )
    ends = (end for call in zips for arg in call.args for end in file.tracing.ends(arg.value))
    found = (file.loaders.of(end.node) for end in ends)
    return [other for other in found if other is not None and other is not loader]


def _is_shuffled(loader: Loader) -> bool:
    """Whether the order of its samples may be drawn from the global generator when it is begun."""
    settings = [*loader.values("shuffle"), *loader.values("sampler"), *loader.values("batch_sampler")]
    return any(not (isinstance(value, cst.Name) and value.value in ("False", "None")) for value in settings)


def _sampler(file: FileFacts, made: cst.CSTNode) -> str:
    """Samplers of torch draw once, when they are begun; others may draw while they run, and run ahead with
    workers.
    """
    if not isinstance(made, cst.Call):
        return "" if is_none(made) else "the code of its sampler was not found"
    cls = file.values.calls.constructed(made)
    if cls is not None:
        draws = (
            data_api.draws(file.qualified(node) or "", seeded=bool(node.args))
            for base in cls.lineage()
            for name, method in base.methods.items()
            if name != "__init__"
            for node in walk(method.body)
            if isinstance(node, cst.Call)
        )
        if any(draws):
            return f"{cls.name} draws random numbers while it runs, and with workers it runs ahead of the training"
        stored = kept_state(file, cls)
        if stored is not None:
            line = file.line(stored)
            return f"{cls.name} changes its own state (line {line}), and with workers it runs ahead of the training"
        if cls.method("__iter__") is None and not cls.derives("torch.utils.data."):
            return f"the indices that {cls.name} yields could not be followed"
        return next((r for inner in _samplers_inside(file, made, cls) if (r := _sampler(file, inner))), "")
    name = file.qualified(made)
    if name is None or not name.startswith("torch."):
        return f"the code of the sampler {name or file.code(made)} was not found"
    inner = argument(made, "sampler", 0) if name == "torch.utils.data.BatchSampler" else None
    return next((r for end in file.tracing.ends(inner) if (r := _sampler(file, end.node))), "") if inner else ""


def _samplers_inside(file: FileFacts, made: cst.Call, cls: ClassFacts) -> Iterator[cst.Call]:
    """The samplers in sight that one of the project's own is given, or makes."""
    assigned = (each.value for base in cls.lineage() for group in base.assigned.values() for each in group)
    for value in (*(arg.value for arg in made.args), *(value for value in assigned if value is not None)):
        for end in file.tracing.ends(value):
            if not isinstance(end.node, cst.Call) or end.path:
                continue
            inner = file.values.calls.constructed(end.node)
            samples = inner is not None and inner.derives("torch.utils.data.") and not inner.is_dataset
            if samples and inner is not cls:
                yield end.node


def _why_not_generator(file: FileFacts, loader: Loader) -> str:
    """Why a loader may not draw ahead from its generator, in one line; empty where it may, or has none of its own."""
    given = list(loader.values("generator"))
    for name in ("sampler", "batch_sampler"):
        samplers = [end.node for value in loader.values(name) for end in file.tracing.ends(value)]
        given += [a.value for call in samplers if isinstance(call, cst.Call) for a in call.args if _is_generator(a)]
    ends = [end.node for value in given for end in file.tracing.ends(value)]
    for made in ends if _is_shuffled(loader) else ():
        if is_none(made):
            continue
        if not isinstance(made, cst.Call):
            return (
                f"its generator (line {file.line(made)}) comes from elsewhere, and with workers more is drawn "
                "from it ahead of time"
            )
        for use in file.handing.uses(made):
            if _uses_otherwise(file, loader, use.node):
                return (
                    f"line {file.line(use.node)} also uses its generator, from which more is drawn ahead of "
                    "time with workers"
                )
        for iteration in loader.iterations:
            early = _ends_early(iteration)
            if early is not None:
                return (
                    f"line {file.line(early)} may leave the loop early, when more has been drawn from its "
                    "generator with workers"
                )
    return ""


def _is_generator(arg: cst.Arg) -> bool:
    return arg.keyword is not None and arg.keyword.value == "generator"


def _uses_otherwise(file: FileFacts, loader: Loader, use: cst.CSTNode) -> bool:
    """Whether a generator draws for something else than for a loader, or for another one inside of the loop."""
    parent = file.tree.parent(use)
    if isinstance(parent, cst.Attribute):
        return parent.attr.value not in ("manual_seed", "seed", "initial_seed", "device", "get_state")
    call = file.tree.parent(parent) if isinstance(parent, cst.Arg) else None
    if not isinstance(call, cst.Call) or not isinstance(parent, cst.Arg) or not _is_generator(parent):
        return not isinstance(parent, (cst.Assign, cst.AnnAssign, cst.Return))
    other = file.loaders.of(call)
    if other is None:
        return not (file.qualified(call) or "").startswith("torch.utils.data.")
    if other is loader:
        return False
    drawn = {iteration.node for iteration in other.iterations}
    inside = (node for each in loader.iterations for node in executed(file, while_iterated(file, each)))
    return any(node in drawn for node in inside)


def _ends_early(iteration: Iteration) -> cst.CSTNode | None:
    """Where a loop ends before the loader does: a `break`, or batches that are drawn one by one."""
    if not isinstance(iteration.node, cst.For):
        return iteration.node if isinstance(iteration.node, cst.Call) and not iteration.by_framework else None
    inner = {node for loop in find_any(iteration.node.body, cst.For, cst.While) for node in find_all(loop, cst.Break)}
    return next((node for node in find_all(iteration.node.body, cst.Break) if node not in inner), None)


def _draws_before_next(file: FileFacts, iteration: Iteration) -> bool:
    """Whether something may draw random numbers between `iter(loader)` and the first `next`."""
    function = file.tree.function(iteration.node)
    module = file.tree.module_of(iteration.node)
    for begin in _begins(file, iteration):
        if file.tree.function(begin) is not function or file.tree.module_of(begin) is not module:
            return True
        source = file.source_of(begin)
        start, end = source.span(begin)[1], source.span(iteration.node)[0]
        for node in walk(function.body if function is not None else module):
            if isinstance(node, (cst.Call, cst.For)) and start <= source.span(node)[0] < end and _may_draw(file, node):
                return True
    return False


def _may_draw(file: FileFacts, node: cst.Call | cst.For) -> bool:
    """Whether a call, or a loop over a loader, may draw random numbers."""
    if isinstance(node, cst.For):
        return _draws_batches(file, node.iter)
    if _draws_itself(file, node):
        return True
    function = file.values.calls.resolve(node)
    if function is not None:
        calls = (inner for inner in executed(file, [function.body]) if isinstance(inner, cst.Call))
        return any(_draws_itself(file, call) for call in calls)
    name = file.qualified(node)
    return name is not None and name.partition(".")[0] not in data_api.TRUSTED | _DRAWS_NOTHING


def _draws_itself(file: FileFacts, call: cst.Call) -> bool:
    if file.value(call).kind is Kind.MODULE or file.value(call.func).kind is Kind.MODULE:
        return True
    name = file.qualified(call) or ""
    if name in _BEGINS | {"builtins.next"} and any(_draws_batches(file, arg.value) for arg in call.args):
        return True
    fills = not name and isinstance(call.func, cst.Attribute) and call.func.attr.value in data_api.RANDOM_FILLS
    return fills or name.startswith("torch.nn.init.") or data_api.draws(name, seeded=bool(call.args))


def _draws_batches(file: FileFacts, node: cst.BaseExpression) -> bool:
    """Whether to go through a value draws batches of a loader."""
    return any(
        end.path == (None,) and file.loaders.of(end.node) is not None for end in file.tracing.ends(node, (None,))
    )


def _begins(file: FileFacts, iteration: Iteration) -> Iterator[cst.CSTNode]:
    """What begins the loader before the place that draws its first batch: `iter(loader)`, `enumerate(loader)`."""
    if not isinstance(iteration.iterable, cst.Name):
        if isinstance(iteration.node, cst.Call) and not isinstance(iteration.iterable, cst.Call):
            yield file.source.module
        return
    for definition in file.flow.definitions(iteration.iterable):
        if isinstance(iteration.node, cst.Call):
            yield definition.value if definition.value is not None else file.source.module
        elif definition.value is not None and definition.binding is Binding.ASSIGNED:
            calls = find_all(definition.value, cst.Call)
            yield from (definition.value for call in calls if _begins_its_argument(file, call))


def _begins_its_argument(file: FileFacts, call: cst.Call) -> bool:
    """Whether a call begins to iterate at once; a progress bar waits for the loop."""
    name = file.qualified(call) or ""
    return name.startswith("itertools.") or name in _BEGINS
