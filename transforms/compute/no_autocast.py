"""A forward pass in float32 where half the bits would do.

Under `autocast`, products of matrices and convolutions are computed in bfloat16, on the tensor cores and with half the
memory traffic; what needs the digits, such as losses and norms, stays in float32. Weights and gradients stay float32,
too:

    output = model(images)                   with torch.autocast(device.type, dtype=torch.bfloat16):
    loss = criterion(output, labels)             output = model(images)
    loss.backward()                              loss = criterion(output, labels)
                                             loss.backward()

The backward pass stays outside: it runs in the types of the forward pass by itself. A loss that torch has no type for
under autocast, or that is written by hand, is computed behind the block, from `output.float()`.
"""

from __future__ import annotations

from collections.abc import Iterator

from perfmod.transforms.compute._forward_passes import ForwardPass, forward_passes
from perfmod.transforms.facts.accelerators import uses_accelerator
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.finding import Edit, Family, Finding, Numerics, Safety, Status
from perfmod.transforms.policy import HalfType
from perfmod.transforms.questions import Predicate
from perfmod.transforms.rule import Rule, question
from perfmod.transforms.writing import nest_statements


class NoAutocast(Rule):
    code = "PM301"
    name = "no-autocast"
    family = Family.COMPUTE
    summary = "The forward pass is computed in float32"
    fix_title = "Compute the forward pass in bfloat16 where that is safe"
    numerics = Numerics.PRECISION
    safety = Safety.OPT_IN
    min_torch = "1.10"
    status = Status.PREVIEW
    triggers = frozenset({"backward"})
    references = (
        "https://docs.pytorch.org/docs/stable/amp.html",
        "https://docs.pytorch.org/docs/stable/amp.html#cuda-op-specific-behavior",
    )
    changes_results = (
        "Outputs have 8 bits of mantissa instead of 24, losses are computed from them. Trainings mostly converge the "
        "same. What reads outputs behind the block gets bfloat16: NumPy has no such type. On the CPU, bfloat16 may be "
        "slower than float32."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        if not uses_accelerator(file):
            return
        for each in forward_passes(file):
            reason = each.why_not
            if not reason and file.policy.half_type is HalfType.FLOAT16:
                reason = "float16 needs its gradients scaled, which is to be written by hand; bfloat16 does not"
            if reason:
                yield self.refused(file, each.backward, reason)
                continue
            torch, imports = file.names.spelled("torch", each.first)
            header = f"with {torch}.autocast({each.device_type(file)}, dtype={torch}.bfloat16):"
            edits = [*nest_statements(file.source, each.first, each.last, header), *_widened(file, each)]
            asked = [question(file, Predicate.IS_TENSOR, name, watchable=True) for name in each.unknown(file)]
            names = ", ".join(f"`{name.expression}`" for name in asked)
            yield self.found(
                file,
                each.backward,
                f"perfmod cannot see that {names} is a tensor" if asked else "its backward pass follows",
                edits,
                imports=imports,
                safety=Safety.UNSAFE if asked else None,
                questions=asked,
            )


def _widened(file: FileFacts, each: ForwardPass) -> Iterator[Edit]:
    """The edits that give a loss behind the block its float32 back."""
    for read in each.widened:
        end = file.source.span(read)[1]
        yield Edit(end, end, ".float()", file.source.path)
