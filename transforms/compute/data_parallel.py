"""A model under `DataParallel`: one process drives all GPUs, and copies the model to each of them in every step.

With `DistributedDataParallel` each GPU has a process of its own, which keeps its copy of the model. Gradients are
averaged while the backward pass still runs:

    model = nn.DataParallel(model)               model = nn.parallel.DistributedDataParallel(model, device_ids=...)
    ...                                          ...
    for epoch in range(epochs):                  for epoch in range(epochs):
        for x, y in loader:                          sampler.set_epoch(epoch)
            ...                                      for x, y in loader:
                                                         ...

Start the script with `torchrun --nproc-per-node=<GPUs> train.py`; started by `python` alone it ends with an error. The
processes find each other, and each takes its share of every batch, so that the whole batch stays as it is written; a
batch size that the number of processes does not divide is an error. The training loss is averaged over the processes
before it is read, and hits that a step counts are added up. Evaluation runs over all samples, in each process. Only the
first one prints and writes. Checkpoints keep the names that they have under `DataParallel`, with `module.` in front.

What a step computes from its batch, other than its mean loss, hits and numbers of samples, would be a part of it only:
such scripts stay as they are, with the line. So do scripts of several files, losses that are no mean over samples,
gradients that are added up, downloads, and log files; parameters beside the model, or that are trained only later,
whose gradients nobody would average; and what may differ between processes: seeds, samples that are drawn without one,
the order of a set, the end of a training or a learning rate that a clock or a figure decides.

Batch normalisation uses the statistics of a process's part of the batch, as it uses those of a GPU's part under
`DataParallel`, and running statistics are those of the first part. With as many processes as there were GPUs, parts
have the same size; `SyncBatchNorm`, which uses those of the whole batch, would be another training, and is not written.
The parts hold other samples: every N-th of a batch instead of neighbours. Where the loader shuffles, this is another
draw. Where it does not, neighbours may be alike, and it is a question.

A model with parameters that no loss depends on cannot be seen: `DistributedDataParallel` raises an error in the second
step, and takes `find_unused_parameters=True`. Where the script sets a seed, random augmentation and dropout draw the
same numbers in each process. Each process has as many workers as the loader asks for.

Its rewrites were proven with two processes on the CPU, through `gloo`, and two of them on two H200.
`perfmod verify train.py --nproc 2 --select PM311` runs the original in one process and the rewritten script in two, and
compares losses, gradients, parameters and the samples of each batch; under `DataParallel` it splits the batches of the
original, too, so that batch normalisation is compared as well. `perfmod tune` does not try it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from perfmod.transforms.compute._spread_edits import figure_edits, loader_edits, model_edits
from perfmod.transforms.compute._spread_parts import parts
from perfmod.transforms.compute._spread_program import DATA_PARALLEL, NotSpread
from perfmod.transforms.compute._spread_reports import reports
from perfmod.transforms.compute._spread_start import start_edits
from perfmod.transforms.compute._spread_statistics import normalising, questions
from perfmod.transforms.compute._spread_step import Step
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.finding import Edit, Family, Finding, Numerics, Safety, Status
from perfmod.transforms.questions import Predicate
from perfmod.transforms.rule import Rule, question
from perfmod.transforms.writing import insert_after_statement

_SUM = '''\
def sum_of_processes(value):
    """The sum of a value over all processes."""
    value = value.detach().clone()
    dist.all_reduce(value)
    return value
'''


class DataParallel(Rule):
    code = "PM311"
    name = "data-parallel"
    family = Family.COMPUTE
    summary = "One process drives all GPUs, and copies the model to each of them in every step"
    fix_title = "Give each GPU a process of its own"
    numerics = Numerics.SAMPLING
    safety = Safety.OPT_IN
    min_torch = "1.10"
    status = Status.PREVIEW
    triggers = frozenset({"DataParallel"})
    references = (
        "https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html",
        "https://docs.pytorch.org/docs/stable/elastic/run.html",
    )
    changes_results = (
        "Shuffled samples come in another order, which the sampler draws from a seed of its own, and dropout draws "
        "other numbers. Where the number of samples is not a multiple of the number of processes, the last batch of "
        "an epoch gets some samples twice; with `drop_last=True`, those left over are dropped. Without shuffling and "
        "random layers, losses and gradients are means of means: equal up to rounding. Batch normalisation takes its "
        "statistics from other samples of a batch, as many for each GPU; with another number of processes than there "
        "were GPUs, from more or from fewer."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        for call in find_all(file.tree.module, cst.Call):
            if file.qualified(call) in DATA_PARALLEL:
                try:
                    yield self._spread(file, call)
                except NotSpread as reason:
                    line = f"line {file.line(reason.node)}: " if reason.node is not call else ""
                    yield self.refused(file, call, f"{line}{reason.why}")

    def _spread(self, file: FileFacts, call: cst.Call) -> Finding:
        found = parts(file, call)
        step = Step(file, found)
        edits = [*start_edits(file, found), *model_edits(file, found), *loader_edits(file, found)]
        edits += figure_edits(file, step)
        if step.is_shown:
            line = f"{step.loss} = sum_of_processes({step.loss}) / dist.get_world_size()"
            edits.append(insert_after_statement(file.source, step.backward, line))
        edits += reports(file, found)
        made = normalising(file)
        shapes = [question(file, Predicate.COMPARES_LIKE_SHAPES, side) for side in step.doubts[:1]]
        asked = [*questions(file, found, made), *shapes]
        return self.found(
            file,
            call,
            "batch statistics stay those of each device's part of a batch"
            if made is not None
            else "the loss is a mean over samples, and nothing else of a step leaves its process",
            _joined(edits),
            safety=Safety.UNSAFE if asked else None,
            questions=asked,
            imports=("os", "torch.distributed as dist", *file.names.spelled("torch", call)[1]),
            definitions=(_SUM,) if step.is_shown or step.figures else (),
        )


def _joined(edits: Sequence[Edit]) -> list[Edit]:
    """The same edits, with what is inserted at one place in one of them."""
    inserted: dict[int, str] = {}
    for edit in edits:
        if edit.start == edit.end:
            inserted[edit.start] = inserted.get(edit.start, "") + edit.replacement
    others = [edit for edit in edits if edit.start != edit.end]
    return [*others, *(Edit(at, at, text, edits[0].path) for at, text in inserted.items())]
