"""Steps that synchronize the device, empty its cache or collect garbage without need.

`torch.cuda.synchronize()` makes the CPU wait until every kernel has run: the queue is empty afterwards, and the GPU
idles until the CPU has filled it again. `torch.cuda.empty_cache()` waits as well, and frees memory that the next step
allocates again. `gc.collect()` scans every Python object of the process, in each step.

    for x, y in loader:                              for x, y in loader:
        loss = criterion(model(x), y)                    loss = criterion(model(x), y)
        loss.backward()                                  loss.backward()
        optimizer.step()                                 optimizer.step()
        torch.cuda.synchronize()

Kernels of one stream run in order, and code that reads a result waits for it anyway. So such calls are removed,
together with an `if torch.cuda.is_available():` around them. They stay where something depends on them: next to a
clock, a CUDA event, a profiler or a query of the memory in use; in code with its own CUDA streams, non-blocking
copies to the CPU, asynchronous collectives, or libraries that use the GPU outside of PyTorch; inside a `try` of the
step that catches CUDA errors; and where automatic garbage collection is switched off.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import find_all, find_any
from perfmod.transforms.finding import Family, Finding, Numerics, Safety, Status
from perfmod.transforms.rule import Rule
from perfmod.transforms.syncs._around import in_every_step
from perfmod.transforms.syncs._measuring import why_measured
from perfmod.transforms.syncs._removing import adjacent, by_block, empties_block, is_plain, statement_of
from perfmod.transforms.syncs._waiting import why_caught, why_waited_for
from perfmod.transforms.writing import Statement, delete_with_comment

_WAITS = frozenset({"torch.cuda.synchronize", "torch.accelerator.synchronize"})
_EMPTIES = frozenset({"torch.cuda.empty_cache", "torch.cuda.memory.empty_cache", "torch.accelerator.empty_cache"})
_COLLECTS = "gc.collect"
_PLANS = frozenset(
    {"gc.disable", "gc.freeze", "gc.set_threshold", "gc.callbacks", "gc.set_debug", "gc.get_objects",
     "weakref.finalize", "weakref.ref", "weakref.WeakValueDictionary", "weakref.WeakKeyDictionary"}
)  # fmt: skip


class ExplicitSync(Rule):
    """PM111."""

    code = "PM111"
    name = "explicit-sync"
    family = Family.SYNCS
    summary = "The training step synchronizes the device, empties its cache or runs the garbage collector"
    fix_title = "Remove the call"
    numerics = Numerics.BITWISE
    safety = Safety.SAFE
    min_torch = "1.0"
    status = Status.PREVIEW
    triggers = frozenset({"synchronize", "empty_cache", "collect"})
    references = (
        "https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution",
        "https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management",
    )
    changes_results = (
        "No value changes. An error that the device reports late (a failed assertion in a kernel) shows up at the next "
        "line that waits. Without `empty_cache()` PyTorch keeps more memory in its cache, and without `gc.collect()` "
        "tensors that hang in reference cycles live until Python collects them by itself: both are open questions."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        """One finding for all removable calls of a block; refusals one by one."""
        gone: dict[Statement, cst.Call] = {}
        for call in find_all(file.tree.module, cst.Call):
            name = file.qualified(call)
            if name is None or name not in _WAITS | _EMPTIES | {_COLLECTS} or not _is_in_step(file, call):
                continue
            reason, statement = why_not(file, call, name), statement_of(file, call)
            if reason is None and statement is not None:
                gone[statement] = call
            else:
                yield self.refused(file, call, reason or "its return value is used")
        for group in by_block(file, gone):
            calls = {at: [call for old, call in gone.items() if file.tree.is_within(old, at)] for at in group}
            if empties_block(file, group):
                for call in (call for at in group for call in calls[at]):
                    yield self.refused(file, call, "it is the only statement of its block, which would be left empty")
                continue
            waits = {at: all(file.qualified(call) in _WAITS for call in calls[at]) for at in group}
            for run in adjacent(file, group, waits):
                yield self._removed(file, [call for at in run for call in calls[at]], run, waits[run[0]])

    def _removed(
        self, file: FileFacts, calls: list[cst.Call], statements: list[Statement], only_waits: bool
    ) -> Finding:
        edits = delete_with_comment(file.source, statements)
        if only_waits:
            reason = "kernels run in order anyway, and code that reads a result waits for it"
            return self.found(file, calls[0], reason, edits)
        reason = "PyTorch would keep the memory that is freed here: check that the training still fits"
        return self.found(file, calls[0], reason, edits, safety=Safety.UNSAFE)


def why_not(file: FileFacts, call: cst.Call, name: str) -> str | None:
    """Why a call has to stay, in one line; `None` where it may go."""
    if not all(is_plain(file, arg.value) for arg in call.args):
        return "its argument does more than name a device"
    if name in _WAITS:
        return why_measured(file, call) or why_waited_for(file, call)
    if name in _EMPTIES:
        return why_measured(file, call) or why_caught(file, call)
    return why_measured(file, call) or _why_collected_by_hand(file)


def _why_collected_by_hand(file: FileFacts) -> str | None:
    """Why `gc.collect()` does what nothing else would do; `None`: Python collects by itself as well."""
    for source in file.world.files:
        for node in find_any(source.module, cst.Attribute, cst.FunctionDef):
            if isinstance(node, cst.Attribute) and file.qualified(node) in _PLANS:
                return f"the code controls garbage collection itself (`{file.code(node)}` on line {file.line(node)})"
            if isinstance(node, cst.FunctionDef) and node.name.value == "__del__":
                return f"the `__del__` on line {file.line(node)} would run at another time"
    return None


def _is_in_step(file: FileFacts, call: cst.Call) -> bool:
    """Whether every step comes by; of files without steps, only forward passes are known to be parts of one."""
    return (file.steps.decide(call) or file.steps.in_forward(call)) and in_every_step(file, call)
