"""A batch in pageable memory makes the CPU wait for its copy to the GPU.

The GPU's copy engine can read only pinned (page-locked) memory. A tensor in ordinary memory is first copied into a
staging buffer, piece by piece, and the CPU waits until that is done. A loader with `pin_memory=True` puts each batch
into pinned memory beforehand, in a separate thread; a copy with `non_blocking=True` then only queues the transfer,
and the CPU goes on to launch the step. Either of the two alone gains little, so this rule writes both together or
neither:

    train_loader = DataLoader(train_set, batch_size=32, pin_memory=True)
    for images, labels in train_loader:
        images = images.to(device, non_blocking=True)
        labels = labels.to(device, non_blocking=True)

Work that is queued on the GPU afterwards waits for the copy, so no value changes. What would change values stays as
it is: copies to the CPU, and copies whose source is modified on the CPU while the copy may still be running. Without
an accelerator, `pin_memory=True` does nothing (PyTorch warns), and neither does `non_blocking=True`.

A loader is rewritten together with every copy of its batches that was found, or not at all, in training and evaluation
alike, in helper functions too. A helper that also copies batches of another loader changes for both, which is right for
both. Loaders that one function, class or script creates side by side are pinned together: where one of them has to
stay, though it trains or its batches go through the same copies, the others are of low impact. So are loaders that give
one batch only: `next(iter(loader))`, a loop that always ends in its first round, or `batch_size=len(dataset)`; loaders
that give a few, `if step == 2: break`; and those of single samples that are not used for training.

A loader without workers has no such thread: the training process copies each batch into pinned memory itself. On an
H200 that made training 1.0 to 1.7 times as fast where the samples lie ready in memory, but 0.6 to 1.0 times where they
are computed. So a loader that neither has workers nor gets some by loader-without-workers (PM201) in the same run, and
stands beside none that has, is of low impact, unless its samples come from memory.

A cast before the copy makes a new tensor, which is not pinned: `x.float().to(device)` becomes `x.to(device,
non_blocking=True).float()` where the cast on the device gives the same values, and so does `x.to(device, torch.float)`,
which casts a batch of another type on the CPU, too. Where a cast has to stay, such as one to half precision or one in a
statement of its own, the loader stays too.

A slice that leaves gaps in memory, such as `x[:, 1:]`, is joined by PyTorch before it is copied, in memory that is not
pinned: the loader stays, with the advice to copy the tensor whole and to slice it on the device.

Tensors that the CPU computes from a batch before the copy, such as `x / 255`, `torch.cat(images)`, `x[:, [2, 1, 0]]`
or a tensor made from an array, are not pinned either. Such a copy stays: copy the batch itself, and do the rest on the
device. The other copies of the same statement stay, too.

Tensors made by `expand`, `meshgrid` or `broadcast_to` have several elements at the same place in memory, and PyTorch
cannot pin them: where batches may hold such a tensor, the rewrite is an open question, until `.contiguous()` gives each
element its own memory.

A DGL graph cannot be pinned by a loader, which leaves it as it is and pins the labels that come with it; its `to`
accepts `non_blocking` like that of tensors. DGL's own loaders take no `pin_memory`, and copy the batches themselves
if they are given a device: they stay.

Lightning copies batches itself with `non_blocking=True`: there only the loader is changed. It waits for copies of
graphs, whose loaders are of low impact. Accelerate waits unless its configuration says otherwise, which is reported as
advice; a copy in the loop then finds the batches on the device.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts.batch_copies import Copy, copies, has_accelerator, writes
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.loaders import LOADER_NAMES, Loader
from perfmod.transforms.feeding._frameworks import configuration, prepared, still_copied
from perfmod.transforms.feeding._loaders_together import held_back
from perfmod.transforms.feeding._mappings import needed_torch
from perfmod.transforms.feeding._pinning import Pinning
from perfmod.transforms.feeding._transfer_edits import not_waiting, pinned, torch_that_copies
from perfmod.transforms.feeding._transfer_safety import (
    doubt_of_copy,
    doubts,
    unseen_write,
    why_copied_otherwise,
    why_half,
    why_not,
    why_not_copy,
    why_overwritten,
)
from perfmod.transforms.finding import Family, Finding, Numerics, Safety, Status
from perfmod.transforms.questions import Predicate
from perfmod.transforms.rule import Rule, question


class PageableTransfer(Rule):
    """PM202."""

    code = "PM202"
    name = "pageable-transfer"
    family = Family.FEEDING
    summary = "Batches are copied to the device from pageable memory, and the CPU waits for each copy"
    fix_title = "Pin the loader's batches and copy them with non_blocking=True"
    numerics = Numerics.BITWISE
    safety = Safety.SAFE
    min_torch = "0.4.1"
    status = Status.STABLE
    triggers = LOADER_NAMES | {
        f"{kind}{name}"
        for kind in ("", "data", "data_", "train", "train_", "test", "test_", "val", "val_", "valid_")
        for name in ("loader", "Loader", "DataLoader")
    }
    references = (
        "https://docs.pytorch.org/docs/stable/data.html#memory-pinning",
        "https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html",
    )
    changes_results = (
        "Never for tensors: the work that the GPU does after the copy waits for it, and the source is not modified "
        "meanwhile. An open question where a function whose code perfmod cannot see gets the batch after the copy, and "
        "may write into it; where a batch may hold something else (objects of a class or library whose `to` may take "
        "no `non_blocking`, and nothing shows that none is in the batch); where a tuple that the collate function made "
        "is used whole (most versions of PyTorch turn it into a list when they pin; unpacking it makes no difference); "
        "where somebody wrote `pin_memory=False` or `non_blocking=False`, or left `pin_memory` in a comment of the "
        "call; where the project sets `pin_memory` elsewhere by a parameter or a value that is not written down there; "
        "where `itertools.cycle` keeps every batch; and, in projects whose target is `portable`, where the device may "
        "be another than CUDA, such as Apple's MPS. A BatchEncoding of transformers that is read by attributes stays "
        "one from torch 1.11 on, which the rewrite needs there."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        """One finding for every loader, with all copies of its batches."""
        found = file.once(copies)
        examined = {loader: [*self._examine(file, loader, found)] for loader in file.loaders}
        yield from held_back(file, examined)

    def _examine(self, file: FileFacts, loader: Loader, every: tuple[Copy, ...]) -> Iterator[Finding]:
        found = still_copied(file, loader, (copy for copy in every if loader in copy.origins))
        pinning = Pinning.of(file, loader)
        if pinning.on and not any(copy.blocks for copy in found):
            return
        if not found and loader.is_copied_by_framework:
            yield self._pinned_for_framework(file, loader, pinning)
            return
        if not found and (prepare := prepared(file, loader)) is not None:
            yield self._prepared(file, loader, prepare)
            return
        if not found:
            if has_accelerator(file) or any(loader in copy.computed for copy in every):
                yield self.refused(file, loader.call, "no copy of its batches to the device was found")
            return
        refusal = why_not(file, loader, pinning) or why_overwritten(file, found, file.once(writes))
        if refusal:
            yield self.refused(file, loader.call, refusal)
            return
        # All copies of its batches or none: those that wait would wait for the others too.
        examined = [copy for copy in found if copy.blocks or not pinning.on]
        kept = [(copy, reason) for copy in examined if (reason := why_not_copy(file, copy))]
        if kept:
            yield from (self.refused(file, self._near(file, copy, loader), reason) for copy, reason in kept)
        elif half := why_half(file, loader, found):
            yield self.refused(file, loader.call, half)
        else:
            yield self._finding(file, loader, found, pinning.on)

    def _near(self, file: FileFacts, copy: Copy, loader: Loader) -> cst.Call:
        """Where a copy is reported: where it stands, or at its loader if it stands in another file."""
        return copy.call if file.is_own(copy.call) else loader.call

    def _prepared(self, file: FileFacts, loader: Loader, prepare: cst.Call) -> Finding:
        """What is said of a loader whose batches Accelerate copies; it waits for each unless it is told not to."""
        decided = configuration(file, prepare)
        if decided is not None:
            return self.refused(file, loader.call, f"line {file.line(decided)} tells Accelerate how to copy batches")
        reason = (
            f"Accelerate copies its batches (line {file.line(prepare)}): pin_memory=True, and "
            "Accelerator(dataloader_config=DataLoaderConfiguration(non_blocking=True)) from version 0.30 on"
        )
        return self.found(file, loader.call, reason, (), safety=Safety.ADVICE)

    def _pinned_for_framework(self, file: FileFacts, loader: Loader, pinning: Pinning) -> Finding:
        """What becomes of a loader whose batches Lightning copies: `non_blocking=True` is what it does already."""
        refusal = why_not(file, loader, pinning) or why_copied_otherwise(file)
        if refusal:
            return self.refused(file, loader.call, refusal)
        doubt = doubts(file, loader, [], pinned=False)
        reason = "Lightning copies batches with non_blocking=True, which needs pinned memory"
        safety = Safety.UNSAFE if doubt else Safety.SAFE
        edits, needed = pinned(file, loader), needed_torch(file, loader)
        return self.found(file, loader.call, doubt or reason, edits, safety=safety, min_torch=needed)

    def _finding(self, file: FileFacts, loader: Loader, good: list[Copy], pins: bool) -> Finding:
        blocking = [copy for copy in good if copy.blocks]
        edits = [*(() if pins else pinned(file, loader)), *not_waiting(file, good)]
        doubt = doubts(file, loader, good, pins) or next(filter(None, (doubt_of_copy(file, c) for c in good)), "")
        where = file.lines([copy.call for copy in good])
        reason = f"the GPU uses the batch after its copy ({where}), and nothing modifies it on the CPU meanwhile"
        own = [copy.call for copy in blocking if file.is_own(copy.call)]
        scrubbed = unseen_write(file, good) if doubt else None
        return self.found(
            file,
            own[0] if pins and own else loader.call,
            doubt or reason,
            edits,
            safety=Safety.UNSAFE if doubt else Safety.SAFE,
            min_torch=(None if pins else needed_torch(file, loader)) or torch_that_copies(file, blocking),
            questions=[question(file, Predicate.LEAVES_ARGUMENTS, scrubbed.node)] if scrubbed is not None else (),
        )
