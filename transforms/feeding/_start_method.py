"""How the workers of a loader are started: as Python does it by default, or by fork.

Spawn and forkserver (the default on Linux from Python 3.14 on) have workers import the script again and pickle what
they are sent. Where the script trains as soon as it is imported, or something is found in its own process only, workers
are asked to be forked, as Linux did by default before.
"""

from __future__ import annotations

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import dotted
from perfmod.transforms.facts.loaders import Loader
from perfmod.transforms.facts.tracing import literal
from perfmod.transforms.facts.worker_code import Trait, WorkerCode


@frozen
class Start:
    """How workers are started.

    Attributes:
        forks: whether the call has to ask for a fork.
        reason: why it has to, or why it is no answer here; in one line.
        asked: what is open, for a question; `None` where nothing is.
    """

    forks: bool = False
    reason: str = ""
    asked: cst.CSTNode | None = None


def start(file: FileFacts, loader: Loader, work: WorkerCode) -> Start:
    """How the workers of a loader may be started."""
    why = _why_forked(file, loader, work)
    chosen, method = _chosen(file, loader)
    if not why or (chosen is None and file.forks_by_default) or method == "fork":
        return Start()
    if chosen is not None:
        return Start(reason=f"line {file.line(chosen)} chooses how processes are started, and {why}", asked=chosen)
    if file.policy.is_portable:
        return Start(reason=f"Windows and macOS do not fork workers, and {why}", asked=loader.call)
    return Start(forks=True, reason=f"workers are forked, because {why}")


def _why_forked(file: FileFacts, loader: Loader, work: WorkerCode) -> str:
    """Why only a fork gives workers what they need, in one line; empty where they would find it anyway."""
    remark = work.first(Trait.UNPICKLABLE)
    if remark is not None:
        return f"{remark.text} (line {file.line(remark.node)}) cannot be pickled"
    sent = [*work.functions, *(base.node for cls in work.classes for base in cls.lineage())]
    needed = [each.node for each in file.entry.needed(sent) if isinstance(each.scope, cst.Module)]
    for node in (*sent, *needed):
        is_later = node in needed and file.tree.function(node) is not None
        if is_later or file.source_of(node).has_cells or file.entry.is_guarded(node):
            return f"they need what line {file.line(node)} defines, which only this process runs"
    for iteration in loader.iterations:
        runs = file.entry.runs_on_import(iteration.node)
        if runs is not None:
            return f"line {file.line(runs)} trains as soon as the script is imported, without a `__main__` guard"
    return ""


def _chosen(file: FileFacts, loader: Loader) -> tuple[cst.CSTNode | None, object]:
    """Where the script itself chooses how processes are started, and the method as far as it is written there."""
    for value in loader.values("multiprocessing_context"):
        for end in file.tracing.ends(value):
            made = argument(end.node, "method", 0) if isinstance(end.node, cst.Call) else end.node
            return value, literal(made) if isinstance(made, cst.BaseExpression) else None
    for call in file.tree.all(cst.Call):
        if dotted(call.func).rpartition(".")[2] == "set_start_method":
            made = argument(call, "method", 0)
            return call, literal(made) if made is not None else None
    return None, None
