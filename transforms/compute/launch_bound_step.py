"""A training step of hundreds of small kernels, each of which the host has to launch.

On a modern GPU the kernels of most models end sooner than Python can launch the next ones. A step that never waits for
the device, and does the same for every batch, can be recorded once as a CUDA graph and replayed with one launch:

    for x, y in loader:                                  def train_step(x, y):
        x, y = x.to(device), y.to(device)                    optimizer.zero_grad()
        optimizer.zero_grad()                                loss = criterion(model(x), y)
        loss = criterion(model(x), y)                        loss.backward()
        loss.backward()                                      optimizer.step()
        optimizer.step()                                     return loss
        total += loss.detach()
                                                         train_step = GraphedStep(train_step, [optimizer])
                                                         for x, y in loader:
                                                             x, y = x.to(device), y.to(device)
                                                             loss = train_step(x, y)
                                                             total += loss.detach()

The lines only move. `GraphedStep` comes in a file of its own, `graphed_step.py`, which is written beside the script and
shared by all scripts of the folder; it needs nothing but torch. Patches, commits and reviews hold it with the first
rewrite that imports it, and `perfmod revert` removes it. The class runs the first steps as they are, records the next
one, copies each further batch into the recorded one's memory, and replays. On the CPU it calls the step.

A loop may train a second model in some rounds only, as a GAN does, in an `if` behind the lines that train in every
round. Those lines become one step, and what the `if` trains another; where that one cannot be recorded, it stays:

    for i, x in enumerate(loader):                       def critic_step(x):
        optimizer_D.zero_grad()                              optimizer_D.zero_grad()
        loss = critic(generator(z())).mean() ...             loss = critic(generator(z())).mean() ...
        loss.backward()                                      loss.backward()
        optimizer_D.step()                                   optimizer_D.step()
        optimizer_G.zero_grad()                              return loss
        if i % 5 == 0:
            loss_G = -critic(generator(z())).mean()      critic_step = GraphedStep(critic_step, [optimizer_D, ...])
            loss_G.backward()                            generator_step = GraphedStep(generator_step, ...)
            optimizer_G.step()                           for i, x in enumerate(loader):
                                                             loss = critic_step(x)
                                                             optimizer_G.zero_grad()
                                                             if i % 5 == 0:
                                                                 loss_G = generator_step()

A replay leaves gradients where the recorded step left them, and sets none to zero in Python. So the step has to zero
those of its own optimizers before its backward pass, and those of the others have to be zeroed behind it, before the
backward pass in the `if`. Otherwise, or where something looks at a gradient, the step stays as it is.

Python runs only while the step is recorded. So whatever would wait for the device, print, draw numbers on the host,
count in Python or decide in Python keeps a step as it is, with its line; the rules of the first hundred remove the
waits. An `if` may decide by what stays the same while the step is recorded: options, attributes that nobody changes.
Batches that are moved to the device where they are used, `model(x.to(device))`, are moved in the call of the step.
Optimizers of the Adam family get `fused=True` and `capturable=True`, which keep their counts on the device. Under a
`GradScaler` SGD gets `fused=True` as well: fused optimizers look for infinite gradients on the device, others ask the
host.

Trainings on several GPUs stay as they are. `DistributedDataParallel` and its like, which talk to other processes in
every step, keep the code as it is. Where an option asks for them, or for `DataParallel`, the class looks in each run,
and runs the step without a graph where other processes or devices take part in it.

`perfmod verify` counts replayed steps and compares what each leaves behind; recorders that were made wrong on purpose
(batches, labels, learning rates, statistics or averages that stand still, and others) are told from right ones on an
H200. Where a layer of a library waits for the device after all, the class finds out before it records, says so with the
line in one warning, and goes on without a graph.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

import libcst as cst

from perfmod.transforms.compute._optimizers import models
from perfmod.transforms.compute._recordable import RECORDER, Round, draws
from perfmod.transforms.compute._recordable_step import RecordableStep, is_recorded, recordable_step
from perfmod.transforms.compute._scaled_steps import stepping
from perfmod.transforms.compute._step_calls import NotRecorded, training_lines
from perfmod.transforms.compute._step_edits import recorder_file, step_call, step_functions, step_name, step_place
from perfmod.transforms.compute.recorder import recorder
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import dotted
from perfmod.transforms.facts.tree import find_any
from perfmod.transforms.finding import Change, Edit, Family, Finding, Numerics, Safety, Status
from perfmod.transforms.rule import Rule


class LaunchBoundStep(Rule):
    code = "PM314"
    name = "launch-bound-step"
    family = Family.COMPUTE
    summary = "Every kernel of the training step is launched by the host, and one launch could replay all of them"
    fix_title = "Record the step as a CUDA graph"
    numerics = Numerics.SAMPLING
    safety = Safety.OPT_IN
    min_torch = "2.4"
    status = Status.PREVIEW
    triggers = frozenset({"backward"})
    references = (
        "https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs",
        "https://docs.pytorch.org/docs/stable/generated/torch.cuda.CUDAGraph.html",
    )
    changes_results = (
        "Not with SGD: the same kernels run. Optimizers of the Adam family compute the same formula in another order "
        "of operations, equal up to rounding. With dropout or other random numbers the draws may differ. A value that "
        "changes in Python where perfmod did not see it would stay as it was when the step was recorded."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        written = {node.value for node in find_any(file.tree.module, cst.Name) if isinstance(node, cst.Name)}
        taken: dict[cst.CSTNode | None, set[str]] = defaultdict(lambda: set(written))
        for loop in find_any(file.tree.module, cst.For, cst.While, cst.FunctionDef):
            assert isinstance(loop, (cst.For, cst.While, cst.FunctionDef))
            lines = training_lines(file, loop)
            if not lines or is_recorded(file, loop):
                continue
            try:
                yield self._recorded(file, loop, taken)
            except NotRecorded as reason:
                line = f"line {file.line(reason.node)}: " if reason.node is not file.tree.module else ""
                yield self.refused(file, lines[0], f"{line}{reason.why}")

    def _recorded(self, file: FileFacts, loop: Round, taken: Mapping[cst.CSTNode | None, set[str]]) -> Finding:
        step = recordable_step(file, loop)
        beside = recorder_file(file)
        place = step_place(file, step.parts)
        names = taken[file.tree.function(place)]
        trained = {each: _trained(file, each) if step.apart else "" for each in step.all}
        named = [(each.parts, step_name(place, names, trained[each]), each.optimizers) for each in step.all]
        settings = dict.fromkeys(edit for each in step.all for edit in each.settings)
        calls = [edit for found, name, _ in named for edit in step_call(file, found, name)]
        edits = [*calls, step_functions(file, place, named), *settings]
        is_random = any(draws(file, each.parts.moved) for each in step.all)
        numerics = Numerics.SAMPLING if is_random else Numerics.ROUNDING if settings else Numerics.BITWISE
        return self.found(
            file,
            step.parts.moved[0],
            "no line of the step waits for the device, and each does the same for every batch",
            edits,
            numerics=numerics,
            imports=(f"from {beside.module} import {RECORDER}",),
            elsewhere=() if beside.is_present else (Change(beside.path, (Edit(0, 0, recorder()),), is_new=True),),
        )


def _trained(file: FileFacts, step: RecordableStep) -> str:
    """The name of the one model that a step trains, if it shows."""
    made = file.value(stepping(file, step.own[0])).when_used.call
    names = {dotted(model).rpartition(".")[2] for model in (models(made) if made is not None else ())}
    return names.pop() if len(step.own) == 1 == len(names) else ""
