"""What the files of a training do that keeps all of its steps from being recorded."""

from __future__ import annotations

import re

import libcst as cst

from perfmod.transforms.compute._reached import reached
from perfmod.transforms.compute._recordable import HOOKS, RECORDER, Obstacle
from perfmod.transforms.facts import anomaly
from perfmod.transforms.facts.accelerators import records_graphs
from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import dotted
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.source import Source

_DISTRIBUTED = ("DistributedDataParallel", "FullyShardedDataParallel", "fully_shard", "init_process_group")
_LOOPED = re.compile(
    r"torch_geometric\.nn\.(?:\w+\.)*(?:AGNN|Cheb|ClusterGCN|DNA|EG|FA|FeaSt|GAT|GATv2|GCN|GCN2|MixHop|PDN|PPF|PointNet"
    r"|PointTransformer|SG|SSG|SuperGAT)Conv|torch_geometric\.nn\.(?:\w+\.)*APPNP"
)
_WITHOUT_LOOPS = {"add_self_loops": "False", "cached": "True", "normalize": "False"}
"""Arguments of such layers with which they look for none, or only once."""


def obstacle_of_files(file: FileFacts, loop: cst.CSTNode) -> Obstacle | None:
    """What the files with the code of a loop do that keeps any of their steps from being recorded."""
    if anomaly.is_checked(file):
        return Obstacle(loop, "anomaly detection looks at every gradient")
    sources = {file.source: None, **{file.source_of(function): None for function in reached(file, loop)}}
    if any(records_graphs(source) and not _has_recorder(source) for source in sources):
        return Obstacle(loop, "the files record CUDA graphs already")
    for source in sources:
        for call in find_all(source.module, cst.Call):
            name = dotted(call.func).rpartition(".")[2]
            if name in _DISTRIBUTED and _is_in_every_run(file, call):
                return Obstacle(call, f"`{name}` makes every step talk to other processes")
            if name in HOOKS and _is_in_every_run(file, call, is_called=False):
                return Obstacle(call, "the Python code of a hook would run only once")
            if _looks_for_loops(file, call):
                return Obstacle(call, f"`{name}` looks for self-loops in every step, which waits for the device")
    return None


def _is_in_every_run(file: FileFacts, call: cst.Call, *, is_called: bool = True) -> bool:
    """Whether no condition keeps a call from being made; the recorder looks in each run for processes and hooks.

    Functions that nothing in sight calls are run if `is_called`.
    """
    waiting, seen = [call], {call}
    while waiting:
        current = waiting.pop()
        around = file.tree.function(current)
        if _is_under_condition(file, current, around):
            continue
        callers = file.values.calls.callers(around) if around is not None else ()
        if around is None or (not callers and is_called):
            return True
        waiting += [each for each in callers if each not in seen]
        seen.update(callers)
    return False


def _is_under_condition(file: FileFacts, call: cst.Call, around: cst.FunctionDef | None) -> bool:
    for each in file.tree.ancestors(call):
        if each is around:
            break
        if isinstance(each, (cst.If, cst.IfExp)) and "__name__" not in file.code(each.test):
            return True
    return around is not None and any(file.comes_before(each, call) for each in file.tree.results(around))


def _looks_for_loops(file: FileFacts, call: cst.Call) -> bool:
    """Whether a layer for graphs selects edges by a mask in every forward pass, and does not keep the result."""
    if not _LOOPED.fullmatch(file.qualified(call) or ""):
        return False
    given = ((name, argument(call, name)) for name in _WITHOUT_LOOPS)
    return not any(value is not None and file.code(value) == _WITHOUT_LOOPS[name] for name, value in given)


def _has_recorder(source: Source) -> bool:
    """Whether it records graphs by what another step of it was given already."""
    return any(node.name.value == RECORDER for node in find_all(source.module, cst.ClassDef))
