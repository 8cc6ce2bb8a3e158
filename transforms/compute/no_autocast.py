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

from collections.abc import Iterator, Sequence

from perfmod.transforms.compute._forward_passes import ForwardPass, forward_passes
from perfmod.transforms.compute._gradient_scaling import Scaling, scaling
from perfmod.transforms.compute._scaler_places import NotScaled
from perfmod.transforms.facts.accelerators import uses_accelerator
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import Scope
from perfmod.transforms.finding import Edit, Family, Finding, Numerics, Question, Safety, Status
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
        together: dict[Scope, list[ForwardPass]] = {}
        for each in forward_passes(file):
            if each.why_not:
                yield self.refused(file, each.backward, each.why_not)
            elif file.policy.half_type is HalfType.FLOAT16:
                together.setdefault(file.tree.scope(each.backward), []).append(each)
            else:
                yield self._written(file, [each])
        for scope, passes in together.items():
            yield from self._scaled(file, scope, passes)

    def _scaled(self, file: FileFacts, scope: Scope, passes: Sequence[ForwardPass]) -> Iterator[Finding]:
        """All passes of a function or module together: their gradients are scaled by the same scaler."""
        try:
            scaled = scaling(file, scope)
        except NotScaled as reason:
            for each in passes:
                yield self.refused(file, each.backward, f"float16 needs its gradients scaled: {reason}")
        else:
            yield self._written(file, passes, scaled)

    def _written(self, file: FileFacts, passes: Sequence[ForwardPass], scaled: Scaling | None = None) -> Finding:
        """Passes under autocast, with the scaler that they share."""
        edits = list(scaled.edits) if scaled is not None else []
        imports = list(scaled.imports) if scaled is not None else []
        asked: dict[str, Question] = {}
        for each in passes:
            torch, needed = file.names.spelled("torch", each.first)
            header = f"with {torch}.autocast({each.device_type(file)}, dtype={torch}.{file.policy.half_type.value}):"
            edits += [*nest_statements(file.source, each.first, each.last, header), *_widened(file, each)]
            imports += needed
            for name in each.unknown(file):
                asked.setdefault(name.value, question(file, Predicate.IS_TENSOR, name, watchable=True))
        names = ", ".join(f"`{name}`" for name in asked)
        return self.found(
            file,
            passes[0].backward,
            f"perfmod cannot see that {names} is a tensor" if asked else "its backward pass follows",
            edits,
            imports=dict.fromkeys(imports),
            min_torch=None if scaled is None else "2.3",
            safety=Safety.UNSAFE if asked else None,
            questions=asked.values(),
        )


def _widened(file: FileFacts, each: ForwardPass) -> Iterator[Edit]:
    """The edits that give a loss behind the block its float32 back."""
    for read in each.widened:
        end = file.source.span(read)[1]
        yield Edit(end, end, ".float()", file.source.path)
