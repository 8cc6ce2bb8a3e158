"""Products of float32 matrices that do not use the tensor cores.

Since PyTorch 1.12, matrices of float32 are multiplied with all 24 bits of their mantissas. On GPUs from Ampere on the
tensor cores multiply TF32 many times as fast: the range of float32 with 11 bits of mantissa, added up in float32.

    device = torch.device("cuda")
    torch.set_float32_matmul_precision("high")

Convolutions use TF32 by default already. Products in half types, as under autocast, are as they were.
"""

from __future__ import annotations

from collections.abc import Iterator

from perfmod.transforms.compute._device_switches import set_already, switch, training_optimizers
from perfmod.transforms.facts.accelerators import uses_accelerator
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.finding import Family, Finding, Numerics, Safety, Status
from perfmod.transforms.rule import Rule

_SWITCHES = frozenset({"set_float32_matmul_precision", "allow_tf32", "fp32_precision", "use_deterministic_algorithms"})
_LINE = '.set_float32_matmul_precision("high")'


class Tf32Off(Rule):
    code = "PM302"
    name = "tf32-off"
    family = Family.COMPUTE
    summary = "Matrices of float32 are multiplied without the tensor cores"
    fix_title = "Allow TF32 in products of matrices"
    numerics = Numerics.PRECISION
    safety = Safety.OPT_IN
    min_torch = "1.12"
    status = Status.PREVIEW
    triggers = frozenset({"optim"})
    references = (
        "https://docs.pytorch.org/docs/stable/generated/torch.set_float32_matmul_precision.html",
        "https://docs.pytorch.org/docs/stable/notes/cuda.html#tensorfloat-32-tf32-on-ampere-and-later-devices",
    )
    changes_results = (
        "Factors of products are rounded to 11 bits instead of 24. Trainings mostly converge the same; what needs the "
        "digits, such as linear systems or positions in space, may not. On the CPU, and on older GPUs, nothing changes."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        if not uses_accelerator(file):
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
            reason = "products of float32 matrices use the tensor cores"
            yield self.found(file, optimizer, reason, edits, imports=imports)
