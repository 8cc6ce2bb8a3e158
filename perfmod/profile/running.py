"""Runs a script once as it is, and says where its step's time goes. Nothing is rewritten."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from perfmod import __version__
from perfmod.errors import Failure
from perfmod.examined import Examined
from perfmod.profile.breakdown import Breakdown, Wait, breakdown
from perfmod.roots import from_here, shown
from perfmod.verify import machine
from perfmod.verify.calling import Call
from perfmod.verify.interrupts import terminable
from perfmod.verify.job import Job, Mode
from perfmod.verify.laboratory import Progress
from perfmod.verify.request import Request
from perfmod.verify.running import Runner
from perfmod.verify.scratch import Scratch
from perfmod.verify.sides import ORIGINAL, Side
from perfmod.verify.tree import Tree
from perfmod.verify.why import Sources, why

_APPLIED = "rewritten, still waits"


def profile(request: Request, examined: Sequence[Examined], progress: Progress) -> Breakdown:
    """Where the time of a step goes. `examined` are the script's files, of whose lines the rules may say something.

    Raises:
        UsageMistake: the script lies where no copy can be made of it.
        Failure: it cannot be run, ends before enough steps, or trains on the CPU although a GPU was asked for.
    """
    progress("checking the interpreter")
    facts = machine.probe(request.python)
    facts.require(request.device)
    tree = Tree.of(request.script, request.links)
    side = Side(ORIGINAL, tree, request.script.relative_to(tree.root))
    with terminable(), Scratch.temporary() as scratch:
        call = Call(facts.python, request.arguments, Path.cwd(), has_bytecode=facts.has_bytecode)
        return look(Runner(scratch, call, request.timeout), side, request, facts, examined, progress)


def look(
    runner: Runner,
    side: Side,
    request: Request,
    facts: machine.Facts,
    examined: Sequence[Examined],
    progress: Progress,
) -> Breakdown:
    """The same with a runner that is there already. Raises `Failure`."""
    job = Job(Mode.PROFILE, Path(), Path(), request.device, plain_steps=request.steps)
    progress(f"timing {request.steps} steps, then profiling {job.sync_steps + job.profile_steps}")
    ran = runner.run(side, job)
    name = shown(from_here(request.script))
    if ran.trouble is not None:
        raise Failure(f"{name}: {ran.trouble.reason}")
    record = ran.records[0]
    if record["plain"] is None:
        steps = record["steps"]["0"]
        needed = job.warmup_steps + request.steps
        raise Failure(
            f"{name}: ended after {steps} steps, {needed} are needed, {job.warmup_steps} of them to warm up; "
            f"give it more data, or perfmod a lower --steps"
        )
    return breakdown(
        record,
        list(_waits(record, side, examined)),
        device=facts.gpu if request.device == "cuda" else machine.cpu() or "CPU",
        is_on_gpu=request.device == "cuda",
        notes=tuple(_notes(record, request.device)),
        command=request.command,
        torch=facts.torch,
        perfmod=__version__,
    )


def _waits(record: Mapping[str, Any], side: Side, examined: Sequence[Examined]) -> Iterator[Wait]:
    root = side.tree.root
    texts = {each["file"]: side.text(Path(each["file"])) for each in record["syncs"] if each["file"]}
    findings = {
        each.file.real.relative_to(root).as_posix(): each.result
        for each in examined
        if each.file.real.is_relative_to(root)
    }
    for row in why(record, record, Sources(texts, texts, findings)).syncs:
        said = "perfmod apply rewrites it" if row.status == _APPLIED else row.status
        code = "" if row.status != _APPLIED else f"{', '.join(row.rules)}: "
        yield Wait(row.path, row.line, row.code, row.before, row.before_ms, row.inside, f"{code}{said}")


def _notes(record: Mapping[str, Any], device: str) -> Iterator[str]:
    if device == "cpu":
        return
    if record["own_profiler"]:
        yield "the script runs a profiler of its own, so the GPU could not be looked at"
    elif record["trace"] is None:
        yield "the GPU could not be looked at: the script ended before that, or the profiler is not permitted here"
