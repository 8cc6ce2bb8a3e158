"""Convolutions whose algorithm is chosen by rule of thumb instead of by trying.

cuDNN has several algorithms for a convolution. By default a heuristic picks one for each shape; with `benchmark` the
first step of each shape times them, and the fastest is used from then on:

    device = torch.device("cuda")
    torch.backends.cudnn.benchmark = True

That pays where shapes stay the same from step to step, as with images of one size. Where every batch has another shape,
each is timed anew, which costs more than it saves.
"""

from __future__ import annotations

from collections.abc import Iterator

from perfmod.transforms.compute._device_switches import convolves, set_already, switch, training_optimizers
from perfmod.transforms.facts.accelerators import uses_accelerator
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.finding import Family, Finding, Numerics, Safety, Status
from perfmod.transforms.rule import Rule

_SWITCHES = frozenset({"benchmark", "deterministic", "use_deterministic_algorithms"})
_LINE = ".backends.cudnn.benchmark = True"


class CudnnBenchmarkOff(Rule):
    code = "PM309"
    name = "cudnn-benchmark-off"
    family = Family.COMPUTE
    summary = "The algorithms of convolutions are guessed instead of timed"
    fix_title = "Let cuDNN time its algorithms"
    numerics = Numerics.ROUNDING
    safety = Safety.OPT_IN
    min_torch = "1.0"
    status = Status.PREVIEW
    triggers = frozenset({"optim"})
    references = (
        "https://docs.pytorch.org/docs/stable/backends.html#torch.backends.cudnn.torch.backends.cudnn.benchmark",
    )
    changes_results = (
        "By rounding: another algorithm adds up in another order. Which one is fastest may differ from run to run, so "
        "that two runs need not agree in the last bits."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        if not uses_accelerator(file) or not convolves(file):
            return
        for optimizer in training_optimizers(file):
            said = set_already(file, _SWITCHES)
            if said is not None:
                yield self.refused(
                    file, optimizer, f"`{file.code(said)}` on line {file.line(said)} decides that already"
                )
                continue
            torch, imports = file.names.spelled("torch", optimizer)
            edits = [switch(file, optimizer, f"{torch}{_LINE}")]
            yield self.found(file, optimizer, "each shape is timed once", edits, imports=imports)
