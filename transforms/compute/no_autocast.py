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

With `half-type = "float16"`, for cards before Ampere, which have no bfloat16, gradients are scaled as well, since small
ones are zero in float16. One scaler serves all optimizers of a training; it is made beside them and handed to functions
as they are, or made before the loop over the loader where they come from elsewhere. Gradients that something reads
before the step are unscaled first:

    loss.backward()                          scaler.scale(loss).backward()
                                             scaler.unscale_(optimizer)
    clip_grad_norm_(parameters, 1.0)         clip_grad_norm_(parameters, 1.0)
    optimizer.step()                         scaler.step(optimizer)
                                             scaler.update()

A step with infinite gradients is left out, and the scale is halved; that is how the scaler finds its scale in the first
steps. A scheduler that goes on in every step goes on without it, and torch warns if that is its first. Checkpoints are
saved as before, without the scaler: a training that is resumed finds its scale again, and may leave out a few steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from perfmod.transforms.compute._forward_passes import ForwardPass, forward_passes
from perfmod.transforms.compute._gradient_scaling import Scaling, scaling
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
        "slower than float32. In float16, outputs have 11 bits and no number above 65504, steps with infinite "
        "gradients are left out, and each step waits for the GPU to know whether there are any."
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
        yield from self._scaled(file, together)

    def _scaled(self, file: FileFacts, together: Mapping[Scope, Sequence[ForwardPass]]) -> Iterator[Finding]:
        """One finding for all functions whose gradients are scaled: they may share a scaler."""
        scaled: list[Scaling] = []
        written: list[ForwardPass] = []
        for scope, passes in together.items():
            found = scaling(file, scope)
            if isinstance(found, Scaling):
                scaled.append(found)
                written += passes
            else:
                reason = f"float16 needs its gradients scaled: {found}"
                yield from (self.refused(file, each.backward, reason) for each in passes)
        if written:
            yield self._written(file, written, scaled)

    def _written(self, file: FileFacts, passes: Sequence[ForwardPass], scaled: Sequence[Scaling] = ()) -> Finding:
        """Passes under autocast, in float16 with the scalers of the functions that they stand in."""
        made: dict[tuple[str, Scope], Edit] = {}
        for each in scaled:
            key = each.scaler.name, each.scaler.home
            made[key] = min(made.get(key, each.scaler.edit), each.scaler.edit)
        passing = dict.fromkeys(edit for each in scaled for edit in each.scaler.passing)
        edits = [*made.values(), *passing, *(edit for each in scaled for edit in each.uses)]
        imports = [name for each in scaled for name in each.scaler.imports]
        asked: dict[str, Question] = {}
        for forward in passes:
            torch, needed = file.names.spelled("torch", forward.first)
            half = f"{torch}.{file.policy.half_type.value}"
            header = f"with {torch}.autocast({forward.device_type(file)}, dtype={half}):"
            edits += [*nest_statements(file.source, forward.first, forward.last, header), *_widened(file, forward)]
            imports += needed
            for name in forward.unknown(file):
                asked.setdefault(name.value, question(file, Predicate.IS_TENSOR, name, watchable=True))
        names = ", ".join(f"`{name}`" for name in asked)
        return self.found(
            file,
            passes[0].backward,
            f"perfmod cannot see that {names} is a tensor" if asked else "its backward pass follows",
            edits,
            imports=dict.fromkeys(imports),
            min_torch="2.3" if scaled else None,
            safety=Safety.UNSAFE if asked else None,
            questions=asked.values(),
        )


def _widened(file: FileFacts, each: ForwardPass) -> Iterator[Edit]:
    """The edits that give a loss behind the block its float32 back."""
    for read in each.widened:
        end = file.source.span(read)[1]
        yield Edit(end, end, ".float()", file.source.path)
