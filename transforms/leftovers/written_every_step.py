"""Checkpoints and images that are written in every step.

`torch.save` copies the whole model to the CPU, waits for that, and writes it to disk; an image is drawn and encoded
on the CPU. In every step of an epoch, that takes longer than the step:

    for step, batch in enumerate(loader):        for step, batch in enumerate(loader):
        ...                                          ...
        torch.save(model.state_dict(), path)         if step % 1000 == 0:
                                                         torch.save(model.state_dict(), path)

Only the author knows how often a checkpoint is wanted, so this is advice only. What is under a condition (every
thousandth step, the best score so far) or in the loop over epochs is not reported.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.finding import Family, Finding, Numerics, Safety, Status
from perfmod.transforms.rule import Rule

_FUNCTIONS = {
    "torch.save": "a checkpoint",
    "torch.distributed.checkpoint.save": "a checkpoint",
    "torchvision.utils.save_image": "an image",
    "torchvision.io.write_png": "an image",
    "torchvision.io.write_jpeg": "an image",
    "matplotlib.pyplot.savefig": "an image",
    "imageio.imwrite": "an image",
    "cv2.imwrite": "an image",
    "numpy.save": "an array",
    "numpy.savez": "an array",
}
_METHODS = {
    "save_pretrained": "a checkpoint",
    "save_checkpoint": "a checkpoint",
    "save_state": "a checkpoint",
    "savefig": "an image",
    "add_image": "an image",
    "add_images": "an image",
    "add_figure": "an image",
    "add_histogram": "a histogram",
    "add_embedding": "an embedding",
    "add_graph": "a graph",
}


class WrittenEveryStep(Rule):
    code = "PM406"
    name = "written-every-step"
    family = Family.LEFTOVERS
    summary = "A checkpoint or image is written in every training step"
    fix_title = "Write it every N steps"
    numerics = Numerics.BITWISE
    safety = Safety.ADVICE
    min_torch = "1.0"
    status = Status.PREVIEW
    triggers = frozenset(name.rpartition(".")[2] for name in (*_FUNCTIONS, *_METHODS))
    references = ("https://docs.pytorch.org/tutorials/recipes/recipes/saving_and_loading_a_general_checkpoint.html",)
    changes_results = (
        "Nothing is rewritten, because the files are part of the program's output. Written less often, "
        "the training stays "
        "bitwise the same."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        for call in find_all(file.tree.module, cst.Call):
            what = _written(file, call)
            if not what or not file.steps.in_sight(call):
                continue
            gate = file.steps.gate(call) or _condition(file, call)
            if gate is not None:
                yield self.refused(file, call, f"it is written only under the condition on line {file.line(gate)}")
            elif file.steps.runs_every_step(call):
                advice = (
                    f"{what} is written in every step: do it every N steps, for example under `if step % 1000 == 0:`"
                )
                yield self.found(file, call, advice, ())


def _written(file: FileFacts, call: cst.Call) -> str:
    name = file.qualified(call)
    if name is not None:
        return _FUNCTIONS.get(name, "")
    return _METHODS.get(call.func.attr.value, "") if isinstance(call.func, cst.Attribute) else ""


def _condition(file: FileFacts, call: cst.Call) -> cst.CSTNode | None:
    """A test inside of the step that decides about a call: of a count, a best score, a rank."""
    child: cst.CSTNode = call
    for ancestor in file.tree.ancestors(call):
        if isinstance(ancestor, (cst.If, cst.IfExp)) and child is not ancestor.test:
            return ancestor
        if ancestor in file.steps.regions or isinstance(ancestor, cst.FunctionDef):
            return _condition_of_callers(file, ancestor)
        child = ancestor
    return None


def _condition_of_callers(file: FileFacts, node: cst.CSTNode) -> cst.CSTNode | None:
    """A test in front of a call of the function that writes, where every call in a step stands behind one."""
    if not isinstance(node, cst.FunctionDef) or node in file.steps.regions:
        return None
    callers = [call for call in file.values.calls.callers(node) if file.steps.in_sight(call)]
    tests = [file.steps.gate(call) or _condition(file, call) for call in callers]
    return tests[0] if tests and None not in tests else None
