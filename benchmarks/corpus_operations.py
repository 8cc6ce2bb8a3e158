"""The catalogue's operations in the training steps of a file, by their names alone.

This asks for completeness, not for reach: each of them is rewritten or has another outcome with a reason. What
the syntax shows to be done on the host (NumPy's functions, `.numpy()` of what lies there, sizes that are written down)
is not counted; what only the values show (a tensor of the CPU) is, so that silence may be right there.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from corpus_index import File, last
from corpus_occurrence import Occurrence, occurrence
from corpus_steps import BACKWARD, Steps, calls_in

_BY_NAME = {
    "item": "item",
    "tolist": "copy",
    "cpu": "copy",
    "nonzero": "nonzero",
    "argwhere": "nonzero",
    "unique": "unique",
    "unique_consecutive": "unique",
    "masked_select": "mask",
    "bincount": "size",
}
_WAITS = frozenset({"torch.cuda.synchronize", "torch.cuda.empty_cache", "gc.collect"})
_MADE = frozenset({"zeros", "ones", "full", "empty", "arange", "eye", "linspace", "tensor", "from_numpy", "FloatTensor",
                   "LongTensor", "Tensor", "meshgrid", "stack"})  # fmt: skip
_REPORTS = frozenset({"print", "format", "set_postfix", "set_description", "add_scalar", "log", "info", "write"})
_TESTS = frozenset({"any", "all", "isnan", "isinf", "isfinite", "equal", "allclose"})
_HOST = frozenset({"numpy", "math", "pandas", "cv2", "tensorflow", "jax", "random", "os", "scipy", "sklearn"})


def operations(file: File, steps: Steps) -> Iterator[Occurrence]:
    """The operations in the steps of a file that imports torch."""
    if "torch" not in {name.partition(".")[0] for name in file.imports.values()}:
        return
    done: set[int] = set()
    for body in steps.regions(file):
        nodes = [node for statement in body for node in ast.walk(statement)]
        losses = {
            ast.unparse(call.func.value)
            for call in calls_in(body)
            if last(call.func) in BACKWARD and isinstance(call.func, ast.Attribute)
        }
        for node in nodes:
            form = _form(file, node, losses)
            if form and id(node) not in done:
                done.add(id(node))
                place = _place(file, node)
                also = _uses(file, place, nodes) if form == "item" else frozenset()
                yield occurrence(file, place, "operations", form, f"{form} {ast.unparse(node)}", also=also)


def _form(file: File, node: ast.AST, losses: set[str]) -> str:
    """What a node is counted as; empty for what is not."""
    if isinstance(node, ast.Subscript):
        return "mask" if isinstance(node.slice, ast.Compare) else ""
    if isinstance(node, (ast.If, ast.While, ast.IfExp)):
        tests = (each for each in ast.walk(node.test) if isinstance(each, ast.Call) and not _of_host(file, each))
        # `any(word in name for word in frozen)` is Python's own.
        return (
            "branch" if any(last(t.func) in _TESTS and file.dotted(t.func) not in ("any", "all") for t in tests) else ""
        )
    if isinstance(node, ast.FormattedValue):
        return "report" if ast.unparse(node.value) in losses else ""
    if not isinstance(node, ast.Call) or _of_host(file, node) or _is_done_without_cuda(file, node):
        return ""
    return _of_call(file, node, losses)


def _is_done_without_cuda(file: File, node: ast.AST) -> bool:
    """Whether a node is the end of `x.double() if x.is_cuda else x.item()`."""
    choice = file.parents.get(node)
    return isinstance(choice, ast.IfExp) and choice.orelse is node and last(choice.test) == "is_cuda"


def _of_call(file: File, call: ast.Call, losses: set[str]) -> str:
    name, dotted = last(call.func), file.dotted(call.func)
    if name == "cpu" and isinstance(call.func, ast.Attribute) and _is_module(call.func.value):
        return ""
    shown = [ast.unparse(value) for value in (*call.args, *(keyword.value for keyword in call.keywords))]
    if name in _REPORTS and losses.intersection(shown):
        return "report"
    if dotted in ("float", "int") and losses.intersection(shown):
        return "item"
    if dotted == "torch.where" and len(shown) == 1:
        return "nonzero"
    if dotted in _WAITS:
        return "wait"
    if name == "repeat_interleave":
        repeats = call.args[-1] if call.args else None
        return "" if isinstance(repeats, ast.Constant) or "output_size" in _keywords(call) else "size"
    if name == "one_hot":
        return "size" if len(shown) == 1 else ""
    if name in ("to", "cuda") and isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Call):
        made = file.dotted(call.func.value.func)
        return "made" if made.startswith("torch.") and last(call.func.value.func) in _MADE else ""
    if name in ("tensor", "as_tensor") and dotted.startswith("torch.") and "device" in _keywords(call):
        return "made"
    if name == "type" and call.args and file.dotted(call.args[0]).startswith("torch.") and "Tensor" in shown[0]:
        return "cast"
    if name in BACKWARD and "retain_graph" in _keywords(call):
        return "retained"
    if dotted.startswith("torch.distributions.") and name[:1].isupper():
        return "distribution"
    if dotted.startswith("torch.cuda.amp."):
        return "amp"
    return _BY_NAME.get(name, "") if not call.args or name not in ("item", "tolist", "cpu") else ""


def _is_module(node: ast.AST) -> bool:
    """Whether only a module answers like this: `model.eval()`."""
    return isinstance(node, ast.Call) and last(node.func) in ("eval", "train")


def _keywords(call: ast.Call) -> set[str | None]:
    return {keyword.arg for keyword in call.keywords}


def _of_host(file: File, call: ast.Call) -> bool:
    """Whether a library of the host is called, or a method of what it gave: `np.unique(names).tolist()`."""
    head: ast.AST = call
    while isinstance(head, (ast.Call, ast.Attribute)):
        head = head.func if isinstance(head, ast.Call) else head.value
    return file.dotted(head).partition(".")[0] in _HOST


def _place(file: File, node: ast.AST) -> ast.AST:
    """The statement of a node; of a compound one the expression in its head."""
    child = node
    for ancestor in (node, *file.ancestors(node)):
        if isinstance(ancestor, (ast.For, ast.While, ast.If, ast.With, ast.FunctionDef)):
            inside = ancestor.test if child is ancestor and isinstance(ancestor, (ast.If, ast.While)) else child
            return inside.context_expr if isinstance(inside, ast.withitem) else inside
        if isinstance(ancestor, ast.stmt):
            return ancestor
        child = ancestor
    return child


def _uses(file: File, place: ast.AST, nodes: Sequence[ast.AST]) -> frozenset[int]:
    """The lines that read what a statement assigns: a finding about the number may stand there."""
    targets = place.targets if isinstance(place, ast.Assign) else []
    names = {target.id for target in targets if isinstance(target, ast.Name)}
    reads = (node for node in nodes if isinstance(node, ast.Name) and node.id in names)
    return frozenset(file.place(node.lineno)[1] for node in reads if isinstance(node.ctx, ast.Load))
