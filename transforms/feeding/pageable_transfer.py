"""A batch in pageable memory makes the host wait for its copy to the GPU.

The GPU's copy engine can read only pinned (page-locked) memory. A tensor in ordinary memory is first copied
into a staging buffer, piece by piece, and the host waits until that is done. A loader with `pin_memory=True`
puts each batch into pinned memory beforehand, in a thread of its own; a copy with `non_blocking=True` then
only queues the transfer, and the host goes on to launch the step. Either of the two alone gains little: they
belong together, and this rule writes them together or not at all:

    train_loader = DataLoader(train_set, batch_size=32, pin_memory=True)
    for images, labels in train_loader:
        images = images.to(device, non_blocking=True)
        labels = labels.to(device, non_blocking=True)

Work that is queued on the GPU afterwards waits for the copy, so no value changes. What would change values
stays as it is: copies to the host, and copies whose source is written in place on the host while the copy
may still be under way. Where there is no accelerator, `pin_memory=True` does nothing (PyTorch warns), and so
does `non_blocking=True`.

Only loaders that feed a training step in sight are rewritten; with one of them every copy of its batches is,
wherever it stands. A helper that also moves batches of another loader changes for both, which is right for
both.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.classes import ClassFacts
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import dotted
from perfmod.transforms.facts.loaders import TORCH_LOADER, Loader
from perfmod.transforms.facts.tracing import Step
from perfmod.transforms.facts.tree import walk
from perfmod.transforms.facts.values import is_loader_name
from perfmod.transforms.facts.worker_code import Trait, WorkerCode
from perfmod.transforms.feeding._copies import (
    Copy,
    Write,
    copies,
    has_accelerator,
    is_false,
    writes,
    written_after,
)
from perfmod.transforms.feeding._keywords import add_keyword
from perfmod.transforms.rule import Edit, Family, Finding, Numerics, Rule, Safety, Status

_GRAPH_LOADERS = frozenset({"torch_geometric.loader.DataLoader", "torch_geometric.data.DataLoader"})
_TORCH_LOADERS = frozenset({TORCH_LOADER, "torchdata.stateful_dataloader.StatefulDataLoader"})
_DEFAULT_COLLATE = frozenset({"torch.utils.data.default_collate", "torch.utils.data._utils.collate.default_collate"})


_AVAILABLE = "torch.cuda.is_available"


@frozen
class _Doubt:
    reason: str


class PageableTransfer(Rule):
    """PM202."""

    code = "PM202"
    name = "pageable-transfer"
    family = Family.FEEDING
    summary = "batches are copied to the device from pageable memory, and the host waits for each copy"
    fix_title = "Pin the loader's batches and copy them without waiting"
    numerics = Numerics.BITWISE
    safety = Safety.SAFE
    min_torch = "0.4"
    status = Status.STABLE
    triggers = frozenset({"DataLoader", "loader", "Loader"})
    references = (
        "https://docs.pytorch.org/docs/stable/data.html#memory-pinning",
        "https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html",
    )
    changes_results = (
        "Never for tensors: what the GPU does after the copy waits for it, and the source is not written "
        "meanwhile. Held back as unsafe where a batch may not consist of tensors (a collate function that is "
        "not in sight may give objects whose `to` takes no `non_blocking`), where pinning would turn a tuple "
        "into a list that is used whole, where somebody wrote `pin_memory=False` or `non_blocking=False`, "
        "and where the device may be MPS."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        """One finding for every loader, with all copies of its batches, and refusals for copies that stay."""
        found = list(copies(file))
        written = writes(file, found)
        for loader in file.loaders:
            if loader.trains:
                yield from self._examine(file, loader, [c for c in found if loader in c.origins], written)
        yield from self._built_elsewhere(file, found)

    def _examine(self, file: FileFacts, loader: Loader, found: list[Copy], written: list[Write]) -> Iterator[Finding]:
        pinned = self._is_pinned(loader)
        if pinned and not any(copy.blocks for copy in found):
            return
        if not found:
            if has_accelerator(file):
                yield self.refused(file, loader.call, "no copy of its batches to the device is in sight")
            return
        refusal = self._refusal(file, loader, pinned) or self._overwritten(file, found, written)
        if refusal:
            yield self.refused(file, loader.call, refusal)
            return
        good: list[Copy] = []
        for copy in found:
            reason = self._copy_refusal(file, copy)
            if not reason:
                good.append(copy)
            elif copy.blocks or not pinned:
                yield self.refused(file, copy.call, reason)
        if any(copy.blocks for copy in good) or (good and not pinned):
            yield self._finding(file, loader, good, pinned)

    def _finding(self, file: FileFacts, loader: Loader, good: list[Copy], pinned: bool) -> Finding:
        edits: list[Edit] = []
        if not pinned:
            edits += self._set_true(file, loader.call, "pin_memory", self._given(loader))
        blocking = [copy for copy in good if copy.blocks]
        for copy in blocking:
            edits += self._set_true(file, copy.call, "non_blocking", copy.non_blocking)
        doubt = self._doubt(file, loader, good, pinned)
        lines = ", ".join(str(n) for n in sorted({file.source.line(copy.call) for copy in good}))
        where = f"line {lines}" if "," not in lines else f"lines {lines}"
        reason = f"the GPU waits for queued copies, and the host does not write into the batch meanwhile ({where})"
        return self.found(
            file,
            blocking[0].call if pinned else loader.call,
            doubt.reason if doubt is not None else reason,
            edits,
            safety=Safety.UNSAFE if doubt is not None else Safety.SAFE,
        )

    def _set_true(
        self, file: FileFacts, call: cst.Call, name: str, given: cst.BaseExpression | None
    ) -> tuple[Edit, ...]:
        if given is None:
            return add_keyword(file.source, call, f"{name}=True", wrap=name == "pin_memory")
        start, end = file.source.span(given)
        return (Edit(start, end, "True"),)

    def _given(self, loader: Loader) -> cst.BaseExpression | None:
        setting = loader.settings.get("pin_memory")
        return setting.values[0] if setting is not None and setting.arg is not None else None

    def _is_pinned(self, loader: Loader) -> bool:
        """Whether anything but a literal `False` is passed on some way: `True`, `use_cuda`, `args.pin`."""
        return any(not is_false(value) for value in loader.values("pin_memory"))

    def _depends(self, file: FileFacts, loader: Loader) -> cst.BaseExpression | None:
        """What decides at run time whether the loader pins, apart from there being a device."""
        for value in loader.values("pin_memory"):
            ends = file.tracing.ends(value)
            sure = all(_is_true(end.node) or file.qualified(end.node) == _AVAILABLE for end in ends)
            if not (sure or is_false(value) or "cuda" in file.source.code(value)):
                return value
        return None

    # What stands against it

    def _refusal(self, file: FileFacts, loader: Loader, pinned: bool) -> str:
        if loader.name.startswith("dgl."):
            return "dgl's loader moves its batches itself"
        if loader.name not in _TORCH_LOADERS | _GRAPH_LOADERS:
            short = loader.name.rpartition(".")[2]
            return f"{short} puts its batches together after pinning, so they may not be pinned"
        if pinned:
            value = self._depends(file, loader)
            if value is None:
                return ""
            return f"whether the loader pins is up to {file.source.code(value)}: without, this is only half"
        setting = loader.settings.get("pin_memory")
        if setting is None and loader.unseen:
            return loader.unseen
        if setting is not None and setting.arg is None:
            line = file.source.line(setting.values[0])
            return f"pin_memory=False stands in a dictionary of keywords on line {line}"
        if loader.cls is not None and any("__init__" in cls.methods for cls in loader.cls.lineage()):
            return f"{loader.cls.name} decides itself what it passes on to DataLoader"
        own = self._own_batches(file, loader)
        if own is not None:
            return f"its batches are {own.name} objects, which could not be pinned: they have no pin_memory()"
        work = WorkerCode.of(file, loader)
        device = work.first(Trait.DEVICE)
        if device is not None:
            line = file.source.line(device.node)
            return f"its samples may lie in CUDA memory ({device.text}, line {line}), which cannot be pinned"
        for function in work.functions:
            for node in walk(function.body):
                if isinstance(node, cst.Call) and "sparse" in (file.qualified(node) or dotted(node.func)):
                    return f"sparse tensors cannot be pinned (line {file.source.line(node)})"
        return ""

    def _own_batches(self, file: FileFacts, loader: Loader) -> ClassFacts | None:
        """The class of this file that the collate function makes batches of, if those cannot be pinned."""
        for value in loader.values("collate_fn"):
            for end in file.tracing.ends(value):
                made = [file.classes.of(end.node)]
                if isinstance(end.node, (cst.FunctionDef, cst.Lambda)):
                    made = [file.value(given).cls for given in _returned(end.node)]
                for cls in made:
                    if cls is not None and cls.method("pin_memory") is None:
                        return cls
        return None

    def _overwritten(self, file: FileFacts, found: list[Copy], written: list[Write]) -> str:
        for copy in found:
            write = written_after(file, copy, written) if copy.blocks else None
            if write is not None:
                line, copied = file.source.line(write.node), file.source.line(copy.call)
                return f"line {line} writes into the batch on the host while line {copied} may still copy it"
        return ""

    def _copy_refusal(self, file: FileFacts, copy: Copy) -> str:
        """Why one copy stays as it is; empty where it need not."""
        if copy.pinned_here:
            return "it is pinned by hand in the step, which costs more than it gives: pin in the loader instead"
        if copy.cast is not None:
            cast = file.source.code(copy.cast.func).rpartition(".")[2]
            return f"{cast}() makes another, unpinned tensor on the host: cast on the device, behind the copy"
        if copy.others:
            line = file.source.line(copy.others[0].node)
            return f"it also copies what does not come out of a loader in sight (line {line})"
        return ""

    def _doubt(self, file: FileFacts, loader: Loader, good: list[Copy], pinned: bool) -> _Doubt | None:
        if not pinned and self._given(loader) is not None:
            return _Doubt("pin_memory=False is written out: somebody may have had a reason, such as little memory")
        if any(copy.non_blocking is not None for copy in good if copy.blocks):
            return _Doubt("non_blocking=False is written out: somebody may have had a reason")
        if any(copy.may_be_mps for copy in good):
            return _Doubt("the device may be MPS, where non-blocking copies have given wrong values")
        for copy in good:
            for other, paths in copy.origins.items():
                for path in paths:
                    if copy.blocks and not self._is_tensor(file, other, path):
                        line = file.source.line(copy.call)
                        return _Doubt(f"what line {line} copies may be no tensor, with a `to` of another kind")
        return None if pinned else self._tuple_doubt(file, loader)

    def _is_tensor(self, file: FileFacts, loader: Loader, path: tuple[Step, ...]) -> bool:
        """Whether a part of a batch is a tensor for sure (or one of PyTorch Geometric's, whose `to` takes
        the same).
        """
        if loader.name in _GRAPH_LOADERS:
            return True
        made = [end for value in loader.values("collate_fn") for end in file.tracing.ends(value)]
        sizes = loader.values("batch_size")
        unbatched = any(isinstance(size, cst.Name) and size.value == "None" for size in sizes)
        if not made:
            # The default collate function gives tensors, strings, and containers of those.
            return not unbatched
        for end in made:
            if isinstance(end.node, cst.Name) and end.node.value == "None":
                continue
            if isinstance(end.node, (cst.Name, cst.Attribute)) and file.qualified(end.node) in _DEFAULT_COLLATE:
                continue
            if not isinstance(end.node, (cst.FunctionDef, cst.Lambda)):
                return False
            if not all(self._gives_tensor(file, value, path[1:]) for value in _returned(end.node)):
                return False
        return True

    def _gives_tensor(self, file: FileFacts, value: cst.BaseExpression, path: tuple[Step, ...]) -> bool:
        ends = file.tracing.ends(value, path)
        return bool(ends) and all(
            isinstance(end.node, cst.Call)
            and (file.value(end.node).is_tensor or file.qualified(end.node) in _DEFAULT_COLLATE)
            for end in ends
        )

    def _tuple_doubt(self, file: FileFacts, loader: Loader) -> _Doubt | None:
        """Pinning gives a list for a tuple; that shows only where the batch is used whole."""
        makers = [
            end.node
            for value in loader.values("collate_fn")
            for end in file.tracing.ends(value)
            if isinstance(end.node, (cst.FunctionDef, cst.Lambda))
        ]
        gives_tuple = any(
            isinstance(end.node, cst.Tuple)
            for maker in makers
            for value in _returned(maker)
            for end in file.tracing.ends(value)
        )
        if not gives_tuple:
            return None
        for iteration in loader.iterations:
            node = iteration.node
            names = walk(node.target) if not isinstance(node, cst.Call) else ()
            for name in (n for n in names if isinstance(n, cst.Name)):
                for use in _uses(file, name):
                    if any(end.path == (None,) for end in file.tracing.ends(use)) and not self._takes_part(file, use):
                        line = file.source.line(use)
                        return _Doubt(
                            f"pinning makes a list of the collate function's tuple; line {line} uses it whole"
                        )
        return None

    def _takes_part(self, file: FileFacts, use: cst.Name) -> bool:
        parent = file.tree.parent(use)
        if isinstance(parent, (cst.For, cst.CompFor)):
            return parent.iter is use
        if isinstance(parent, cst.Subscript):
            return isinstance(parent.slice[0].slice, cst.Index)
        return isinstance(parent, cst.Assign) and all(
            isinstance(t.target, (cst.Tuple, cst.List)) for t in parent.targets
        )

    # Loaders of other files

    def _built_elsewhere(self, file: FileFacts, found: list[Copy]) -> Iterator[Finding]:
        """One refusal for each loader that a training step is handed from another file."""
        seen: set[cst.CSTNode] = set()
        for copy in found:
            if not copy.blocks or not file.steps.in_sight(copy.call):
                continue
            for end in copy.others:
                name = end.node.name.value if isinstance(end.node, cst.Param) else None
                if isinstance(end.node, (cst.Name, cst.Attribute)):
                    name = dotted(end.node)
                if name and end.path[:1] == (None,) and is_loader_name(name) and end.node not in seen:
                    seen.add(end.node)
                    reason = f"only half is possible: the loader {name} is built elsewhere, and must pin"
                    yield self.refused(file, copy.call, reason)


def _is_true(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Name) and node.value == "True"


def _returned(maker: cst.FunctionDef | cst.Lambda) -> Iterator[cst.BaseExpression]:
    """The values that a collate function may give."""
    if isinstance(maker, cst.Lambda):
        yield maker.body
        return
    for node in walk(maker.body):
        if isinstance(node, cst.Return) and node.value is not None:
            yield node.value


def _uses(file: FileFacts, name: cst.Name) -> Iterator[cst.Name]:
    for node in walk(file.tree.function(name) or file.source.module):
        if not (isinstance(node, cst.Name) and node.value == name.value and file.flow.is_read(node)):
            continue
        if any(definition.node is name for definition in file.flow.definitions(node)):
            yield node
