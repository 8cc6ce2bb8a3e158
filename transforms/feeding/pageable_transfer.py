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

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import dotted
from perfmod.transforms.facts.loaders import Loader
from perfmod.transforms.facts.values import is_loader_name
from perfmod.transforms.feeding._copies import Copy, Write, copies, has_accelerator, writes
from perfmod.transforms.feeding._keywords import add_keyword
from perfmod.transforms.feeding._transfer_safety import (
    doubts,
    given_pin,
    is_pinned,
    why_not,
    why_not_copy,
    why_overwritten,
)
from perfmod.transforms.rule import Edit, Family, Finding, Numerics, Rule, Safety, Status


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
        pinned = is_pinned(loader)
        if pinned and not any(copy.blocks for copy in found):
            return
        if not found:
            if has_accelerator(file):
                yield self.refused(file, loader.call, "no copy of its batches to the device is in sight")
            return
        refusal = why_not(file, loader, pinned) or why_overwritten(file, found, written)
        if refusal:
            yield self.refused(file, loader.call, refusal)
            return
        good: list[Copy] = []
        for copy in found:
            reason = why_not_copy(file, copy)
            if not reason:
                good.append(copy)
            elif copy.blocks or not pinned:
                yield self.refused(file, copy.call, reason)
        if any(copy.blocks for copy in good) or (good and not pinned):
            yield self._finding(file, loader, good, pinned)

    def _finding(self, file: FileFacts, loader: Loader, good: list[Copy], pinned: bool) -> Finding:
        edits: list[Edit] = []
        if not pinned:
            edits += self._set_true(file, loader.call, "pin_memory", given_pin(loader))
        blocking = [copy for copy in good if copy.blocks]
        for copy in blocking:
            edits += self._set_true(file, copy.call, "non_blocking", copy.non_blocking)
        doubt = doubts(file, loader, good, pinned)
        lines = ", ".join(str(n) for n in sorted({file.source.line(copy.call) for copy in good}))
        where = f"line {lines}" if "," not in lines else f"lines {lines}"
        reason = f"the GPU waits for queued copies, and the host does not write into the batch meanwhile ({where})"
        return self.found(
            file,
            blocking[0].call if pinned else loader.call,
            doubt or reason,
            edits,
            safety=Safety.UNSAFE if doubt else Safety.SAFE,
        )

    def _set_true(
        self, file: FileFacts, call: cst.Call, name: str, given: cst.BaseExpression | None
    ) -> tuple[Edit, ...]:
        if given is None:
            return add_keyword(file.source, call, f"{name}=True", wrap=name == "pin_memory")
        start, end = file.source.span(given)
        return (Edit(start, end, "True"),)

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
