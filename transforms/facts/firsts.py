"""Conditions that hold once: `if step == 0:`; `if x is None:`, `if not self.is_ready:` where that is then set, and
`if len(state) == 0:` where it is then filled.
"""

from __future__ import annotations

import re

import libcst as cst

from perfmod.transforms.facts.flow import dotted
from perfmod.transforms.facts.tree import Tree, find_all

_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_COUNTERS = frozenset({"step", "steps", "epoch", "epochs", "iter", "iters", "iteration", "iterations", "itr"})
_FIRST: frozenset[tuple[type, str]] = frozenset({(cst.Equal, "0"), (cst.LessThan, "1"), (cst.LessThanEqual, "0")})
_LATER: frozenset[tuple[type, str]] = frozenset(
    {(cst.NotEqual, "0"), (cst.GreaterThan, "0"), (cst.GreaterThanEqual, "1")}
)


def runs_once(tree: Tree, branch: cst.If, child: cst.CSTNode, rounds: tuple[cst.CSTNode, ...]) -> bool:
    """Whether a part of an `if`, its body or its `else`, runs in the first step or epoch only, or until it has set
    what is None before. `rounds` are the loops that train: a counter of another loop begins anew in each step.
    """
    if child is branch.body:
        is_cached = _sets_attribute(tree, branch) or _fills_cache(tree, branch, rounds) or _fills_state(tree, branch)
        return is_cached or _is_at(tree, branch.test, _FIRST, rounds)
    return isinstance(child, cst.Else) and child is branch.orelse and _is_at(tree, branch.test, _LATER, rounds)


def _is_at(
    tree: Tree, test: cst.BaseExpression, wanted: frozenset[tuple[type, str]], rounds: tuple[cst.CSTNode, ...]
) -> bool:
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And) and wanted is _FIRST:
        return any(_is_at(tree, side, wanted, rounds) for side in (test.left, test.right))
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
        return False
    (compared,) = test.comparisons
    number = compared.comparator.value if isinstance(compared.comparator, cst.Integer) else ""
    return (type(compared.operator), number) in wanted and _counts_rounds(tree, test.left, rounds)


def _counts_rounds(tree: Tree, node: cst.BaseExpression, rounds: tuple[cst.CSTNode, ...]) -> bool:
    """Whether an expression is the number of the step or epoch: by the loop that sets it, or else by its name."""
    if isinstance(node, cst.Name):
        for loop in tree.loops(node):
            if isinstance(loop, cst.For) and any(name.value == node.value for name in find_all(loop.target, cst.Name)):
                return loop in rounds and _is_number(loop, node.value)
    name = dotted(node).rpartition(".")[2]
    return any(word.lower() in _COUNTERS for word in _WORDS.findall(name)[-1:])


def _is_number(loop: cst.For, name: str) -> bool:
    """Whether a loop counts its rounds by a name: `for i, x in enumerate(loader)`, `for epoch in range(9)`."""
    maker = dotted(loop.iter.func) if isinstance(loop.iter, cst.Call) else ""
    if isinstance(loop.target, cst.Name):
        return maker in ("range", "trange", "tqdm")
    first = loop.target.elements[0].value if isinstance(loop.target, cst.Tuple) else None
    return isinstance(first, cst.Name) and first.value == name


def _sets_attribute(tree: Tree, branch: cst.If) -> bool:
    """Whether a body sets the attribute that its condition finds to be missing, None or not set, and nothing but a
    constructor empties it.
    """
    flag = _flag(branch.test)
    name = flag or _missing(branch.test)
    is_set = False
    for statement in find_all(tree.module_of(branch), cst.Assign) if name else ():
        if any(dotted(target.target) == name for target in statement.targets):
            function = tree.function(statement)
            is_filled = not flag or _holds(statement.value, "True")
            is_set = is_set or (is_filled and tree.is_within(statement, branch.body))
            if (dotted(statement.value) == "None" or _holds(statement.value, "False")) and (
                function is None or function.name.value != "__init__"
            ):
                return False
    return is_set


def _fills_cache(tree: Tree, branch: cst.If, rounds: tuple[cst.CSTNode, ...]) -> bool:
    """Whether a body stores what an object keeps by a key that was missing, `if n not in self.masks:`, and nothing but
    a constructor empties that.
    """
    test = branch.test
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
        return False
    kept = test.comparisons[0].comparator
    if not isinstance(test.comparisons[0].operator, cst.NotIn) or not isinstance(kept, cst.Attribute):
        return False
    name = dotted(kept)
    stored = [target.target for each in find_all(branch.body, cst.Assign) for target in each.targets]
    is_stored = any(isinstance(each, cst.Subscript) and dotted(each.value) == name for each in stored)
    if not name or not is_stored or _counts_rounds(tree, test.left, rounds):
        return False
    module = tree.module_of(branch)
    anew = [each for each in find_all(module, cst.Assign) if any(dotted(t.target) == name for t in each.targets)]
    functions = [tree.function(each) for each in anew]
    removed = any(
        dotted(call.func) in (f"{name}.clear", f"{name}.pop", f"{name}.popitem") for call in find_all(module, cst.Call)
    )
    deleted = any(
        isinstance(n, cst.Subscript) and dotted(n.value) == name
        for d in find_all(module, cst.Del)
        for n in find_all(d, cst.Subscript)
    )
    return not removed and not deleted and all(f is None or f.name.value == "__init__" for f in functions)


def _fills_state(tree: Tree, branch: cst.If) -> bool:
    """Whether a body fills what is kept elsewhere and empty before, as an optimizer's state: `state = self.state[p]`,
    `if len(state) == 0:`, `state["step"] = 0`.
    """
    test = branch.test
    asked = test.expression if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not) else None
    if isinstance(test, cst.Comparison) and isinstance(test.left, cst.Call) and len(test.left.args) == 1:
        (compared,) = test.comparisons[:1]
        is_empty = isinstance(compared.operator, cst.Equal) and dotted(test.left.func) == "len"
        is_zero = isinstance(compared.comparator, cst.Integer) and compared.comparator.value == "0"
        asked = test.left.args[0].value if is_empty and is_zero else None
    name = dotted(asked) if asked is not None else ""
    if not name:
        return False
    function = tree.function(branch) or tree.module_of(branch)
    assigned = [(target.target, each.value) for each in find_all(function, cst.Assign) for target in each.targets]
    made = [value for target, value in assigned if dotted(target) == name]
    stored = [target for target, _ in assigned if isinstance(target, cst.Subscript) and dotted(target.value) == name]
    is_kept = bool(made) and all(isinstance(value, cst.Subscript) and "." in dotted(value.value) for value in made)
    return is_kept and any(tree.is_within(target, branch.body) for target in stored)


def _flag(test: cst.BaseExpression) -> str:
    """`self.is_ready` of `not self.is_ready`."""
    asked = test.expression if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not) else None
    return dotted(asked) if isinstance(asked, cst.Attribute) else ""


def _holds(value: cst.BaseExpression, wanted: str) -> bool:
    """Whether a value is `True` or `False`, also as in `torch.tensor(True, device=device)`."""
    if isinstance(value, cst.Call) and dotted(value.func).rpartition(".")[2] == "tensor" and value.args:
        value = value.args[0].value
    return dotted(value) == wanted


def _missing(test: cst.BaseExpression) -> str:
    """`self.mask` of `self.mask is None` and of `not hasattr(self, "mask")`."""
    if isinstance(test, cst.Comparison) and isinstance(test.left, cst.Attribute) and len(test.comparisons) == 1:
        (compared,) = test.comparisons
        is_none = isinstance(compared.operator, cst.Is) and dotted(compared.comparator) == "None"
        return dotted(test.left) if is_none else ""
    asked = test.expression if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not) else None
    if not isinstance(asked, cst.Call) or dotted(asked.func) != "hasattr" or len(asked.args) != 2:
        return ""
    owner, attribute = (arg.value for arg in asked.args)
    is_plain = dotted(owner) and isinstance(attribute, cst.SimpleString)
    return f"{dotted(owner)}.{attribute.raw_value}" if is_plain and isinstance(attribute, cst.SimpleString) else ""
