"""A tensor that is filled on the CPU, only to be copied to the device.

`torch.zeros(n).to(device)` fills CPU memory, copies it, and the CPU waits for the copy. With `device=` a kernel fills
the tensor on the device, and nothing is copied:

    hidden = torch.zeros(layers, batch, size).to(device)
    hidden = torch.zeros(layers, batch, size, device=device)

    mask = torch.triu(torch.ones(n, n), diagonal=1).bool().cuda()
    mask = torch.triu(torch.ones(n, n, device="cuda"), diagonal=1).bool()

    labels = torch.zeros(n).long().to(device)  # or torch.LongTensor(n).fill_(0).to(device)
    labels = torch.zeros(n, dtype=torch.long, device=device)

    zeros = torch.zeros(x.size()).cuda()  # x is on the device
    zeros = torch.zeros_like(x)

Operations between the two are done on the device as well, as long as they give the same bits there: views, triangular
masks, casts of zeros and ones, sums and products with numbers and with tensors that are made in the same expression. A
division may be rounded differently, which is an open question. Random tensors (`torch.rand`, `torch.randn`,
`torch.randint`) would use the device's generator instead of the CPU's and get other random numbers of the same
distribution: they are on request, `--extend-select PM206`.

Arrays of NumPy that become a tensor at once are made on the device, too. Of its noise the same holds as above:

    valid = Variable(Tensor(np.ones((n, 1))))  # Tensor is torch.cuda.FloatTensor, or that of the CPU
    valid = Variable(Tensor(n, 1).fill_(1.0))

    z = torch.from_numpy(np.random.normal(0, 1, (n, 100))).float().to(device)
    z = torch.randn(n, 100, device=device)

`perfmod verify` compares a training that draws on the device with the original by giving both the same random numbers.

Tensors in a `Variable` are of low impact, and so are lengths for `pack_padded_sequence`, which needs them on the CPU.

This is rewritten in the steps of a training or evaluation, in forward passes, and in functions and methods that these
may call: loss functions, mask helpers, samplers. A single copy at the start of a program does not matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import libcst as cst

from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.rounds import in_evaluation
from perfmod.transforms.facts.unread import unread
from perfmod.transforms.feeding._births import Birth, Target, born, target
from perfmod.transforms.feeding._born_types import (
    CONSTANT,
    cast_behind,
    cast_of_copy,
    is_rounded,
    named_type_of_copy,
    type_given,
)
from perfmod.transforms.feeding._legacy_fills import legacy_fill
from perfmod.transforms.feeding._like import like
from perfmod.transforms.feeding._little_gained import why_of_low_impact
from perfmod.transforms.feeding._numpy_births import numpy_births
from perfmod.transforms.finding import Edit, Family, Finding, Numerics, Safety, Status
from perfmod.transforms.keywords import add_keyword
from perfmod.transforms.rule import Rule
from perfmod.transforms.writing import replace

_SAME = "the same values, dtype and shape, created on the device"
_OTHER_NUMBERS = "different random numbers: drawn on the device instead of the CPU"


class CpuBornTensor(Rule):
    """PM206."""

    code = "PM206"
    name = "cpu-born-tensor"
    family = Family.FEEDING
    summary = "A tensor is created on the CPU in every step and copied to the device"
    fix_title = "Create it on the device"
    numerics = Numerics.BITWISE
    safety = Safety.SAFE
    min_torch = "1.0"
    status = Status.PREVIEW
    triggers = frozenset(
        {"zeros", "ones", "full", "empty", "arange", "eye", "linspace", "logspace", "rand", "randn", "randint",
         "randperm", "normal", "fill_", "zero_", "uniform", "random", "random_sample", "standard_normal"}
    )  # fmt: skip
    references = (
        "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#create-tensors-directly-on-the-target-device",
    )
    changes_results = (
        "Never for what is applied by default. Sequences of fractional numbers (`arange` with a fractional step, "
        "`linspace`) may differ in the last bit between CPU and GPU: open questions, of the class rounding. Random "
        "tensors get other random numbers: on request, of the class sampling."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        """Every tensor that a step makes on the host and moves."""
        for call in _moves(file):
            birth = born(file, call) or legacy_fill(file, call)
            if birth is None or not _is_repeated(file, call):
                continue
            where = target(file, call, birth.call)
            if where is None:
                continue
            gate = file.steps.gate_of_callers(call)
            word = "if" if isinstance(gate, cst.If) else "except"
            rarely = f"it runs only under the `{word}` on line {file.line(gate)}" if gate is not None else ""
            unused = f"`{name}` is never used: delete it" if (name := unread(file, call)) is not None else ""
            reason = unused or rarely or birth.refusal or where.refusal
            if reason:
                yield self.refused(file, call, reason)
            else:
                yield self._finding(file, call, birth, where)
        for made in numpy_births(file):
            if not _is_repeated(file, made.node):
                continue
            if made.refusal:
                yield self.refused(file, made.node, made.refusal)
            elif made.is_random:
                yield self.found(
                    file, made.node, _OTHER_NUMBERS, made.edits,
                    safety=Safety.OPT_IN, numerics=Numerics.SAMPLING, imports=made.imports,
                )  # fmt: skip
            else:
                yield self.found(file, made.node, _SAME, made.edits, imports=made.imports)

    def _finding(self, file: FileFacts, call: cst.Call, birth: Birth, where: Target) -> Finding:
        safety, numerics = Safety.SAFE, Numerics.BITWISE
        reason = _SAME
        if birth.is_random:
            safety, numerics = Safety.OPT_IN, Numerics.SAMPLING
            reason = _OTHER_NUMBERS
        elif is_rounded(file, birth):
            safety, numerics = Safety.UNSAFE, Numerics.ROUNDING
            reason = "the GPU may round the last bit of these numbers differently"
        elif why := why_of_low_impact(file, call, birth):
            safety, reason = Safety.LOW_IMPACT, why
        return self.found(file, call, reason, self._edits(file, call, birth, where), safety=safety, numerics=numerics)

    def _edits(self, file: FileFacts, call: cst.Call, birth: Birth, where: Target) -> tuple[Edit, ...]:
        assert isinstance(call.func, cst.Attribute)
        source = file.source
        if text := like(file, call, birth, where):
            return (replace(source, call, text),)
        end = source.span(call)[1]
        dot = source.text.rindex(".", 0, source.span(call.func.attr)[0])
        # A dot on a line of its own goes with its line, and with the continuation of the line before.
        is_alone = not source.text[source.line_start(dot) : dot].strip()
        start = len(source.text[:dot].rstrip().removesuffix("\\").rstrip()) if is_alone else dot
        text = f"device={where.device}"
        if birth.legacy_dtype:
            torch = file.code(cst.ensure_type(birth.call.func, cst.Attribute).value)
            dtype = file.code(where.dtype) if where.dtype is not None else f"{torch}.{birth.legacy_dtype}"
            return (
                Edit(*source.span(birth.call.func), f"{torch}.{birth.name}"),
                *add_keyword(source, birth.call, f"dtype={dtype}, {text}", wrap=False),
                Edit(source.span(birth.call)[1], end, ""),
            )
        takes_type = birth.name in CONSTANT and argument(birth.call, "dtype") is None
        cast = cast_behind(file, birth, birth.call)
        edits = [Edit(start, end, "")]
        if where.dtype is not None and takes_type and call.func.value is birth.call:
            text = f"dtype={file.code(where.dtype)}, {text}"
        elif where.dtype is None and (later := cast_of_copy(file, call, birth)) is not None:
            text = f"{type_given(file, birth, later)}{text}"
            edits = [Edit(start, source.span(later)[1], "")]
        elif where.dtype is None and (typed := named_type_of_copy(file, call, birth)) is not None:
            text = f"dtype={file.code(typed[1])}, {text}"
            edits = [Edit(start, source.span(typed[0])[1], "")]
        elif where.dtype is not None:
            edits = [Edit(start, end, f".to({file.code(where.dtype)})")]
        elif cast is not None and isinstance(birth.call.func, cst.Attribute):
            behind_birth, cast_end = source.span(birth.call)[1], source.span(cast)[1]
            text = f"{type_given(file, birth, cast)}{text}"
            edits = (
                [Edit(behind_birth, end, "")] if cast is call.func.value else [*edits, Edit(behind_birth, cast_end, "")]
            )
        others = (add_keyword(source, each, f"device={where.device}", wrap=False) for each in birth.others)
        if isinstance(file.tree.parent(call), (cst.Assign, cst.Return)) and "\n" not in file.code(call):
            edits += [Edit(*source.span(each), "") for each in (*call.func.value.lpar, *call.func.value.rpar)]
        return (*add_keyword(source, birth.call, text, wrap=False), *chain.from_iterable(others), *edits)


def _is_repeated(file: FileFacts, call: cst.Call) -> bool:
    """Whether a step of a training or an evaluation may run it."""
    return file.steps.reaches(call) or file.steps.may_run(call) or in_evaluation(file, call)


def _moves(file: FileFacts) -> Iterator[cst.Call]:
    for call in file.tree.all(cst.Call):
        if file.is_own(call) and isinstance(call.func, cst.Attribute) and call.func.attr.value in ("to", "cuda"):
            yield call
