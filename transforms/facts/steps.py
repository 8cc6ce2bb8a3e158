"""Training steps: which loops train, and which code every step runs.

A step is the body of a loop that runs `backward` (itself or through functions, and not only in loops below it), or,
where no loop in sight runs it, the body of the function that does, or of what the Trainers of Lightning and Hugging
Face call in every step. Everything that a step calls and that is in sight runs in every step too.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from functools import cached_property

import libcst as cst

from perfmod.transforms.facts import hugging_face, lightning
from perfmod.transforms.facts.classes import Classes
from perfmod.transforms.facts.firsts import runs_once
from perfmod.transforms.facts.flow import dotted
from perfmod.transforms.facts.solver import Questions
from perfmod.transforms.facts.tree import Tree, find_in_scope, walk, walk_scope
from perfmod.transforms.facts.value import Kind
from perfmod.transforms.facts.values import Values

_BACKWARD = frozenset({"backward", "manual_backward", "optimize_parameters", "training_step"})

# What switches reports on, as words of names: `args.log_interval`, but not `logits`.
_REPORTING = frozenset({"log", "logs", "logger", "logging", "print", "printing", "verbose"})
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")

Region = cst.For | cst.While | cst.FunctionDef


class Steps:
    """Training steps of the files."""

    def __init__(self, tree: Tree, classes: Classes, values: Values) -> None:
        self._tree = tree
        self._classes = classes
        self._values = values
        self._called: dict[cst.CSTNode, tuple[cst.FunctionDef, ...]] = {}
        self._gates_of_calls = Questions(values.solver, self._find_gate_of_calls, None)
        self.regions: tuple[Region, ...] = tuple(self._find_regions())
        self._in_modules = {tree.module_of(region) for region in self.regions}
        self._reached = self._reach(self.regions)
        self._forwards = {
            method for cls in classes if cls.is_module for name, method in cls.methods.items() if name == "forward"
        }

    @cached_property
    def _library(self) -> set[cst.FunctionDef]:
        """Forward passes of modules, and what they call."""
        return self._closure(tuple(self._forwards))

    @property
    def found(self) -> bool:
        """Whether any file has a training step."""
        return bool(self.regions)

    def in_file_of(self, node: cst.CSTNode) -> bool:
        """Whether the file in which `node` stands has a training step."""
        return self._tree.module_of(node) in self._in_modules

    def decide(self, node: cst.CSTNode) -> bool:
        """Whether steps in sight tell when the code at `node` runs.

        They do in files that have some, where they reach, and in the code that runs them.
        """
        if not self.found:
            return False
        if self.in_file_of(node) or self._runs_steps(node):
            return True
        return self.in_sight(node) or self.in_forward(node)

    def _runs_steps(self, node: cst.CSTNode) -> bool:
        function = self._tree.function(node)
        return self.trains(function.body if function is not None else self._tree.module_of(node))

    def in_sight(self, node: cst.CSTNode) -> bool:
        """Whether a training step in sight runs the code at `node`."""
        if self.region(node) is not None or self._function_reached(node, self._reached):
            return True
        return self.is_beside_parts(node)

    def is_beside_parts(self, node: cst.CSTNode) -> bool:
        """Whether `node` stands in a round that adds up the gradients of several parts before the optimizer's step.

        The parts are the rounds of a loop in it, and steps for most purposes: what runs once for all of them is no
        more often needed.
        """
        return any(self._tree.is_within(node, loop.body) for loop in self._around_parts)

    @cached_property
    def _around_parts(self) -> tuple[cst.For | cst.While, ...]:
        found: list[cst.For | cst.While] = []
        for region in self.regions:
            loops = self._tree.loops(region)
            if not loops or not isinstance(region, cst.For) or not self._has_backward(region.body):
                continue
            is_counted = isinstance(region.iter, cst.Call) and dotted(region.iter.func) == "range"
            outside = (node for node in walk_scope(loops[0].body) if not self._tree.is_within(node, region))
            if is_counted and not any(map(_is_step, walk_scope(region.body))) and any(map(_is_step, outside)):
                found.append(loops[0])
        return tuple(found)

    def in_forward(self, node: cst.CSTNode) -> bool:
        """Whether a module's forward pass runs the code at `node`: whoever trains the module comes by."""
        return self._function_reached(node, self._library)

    def reaches(self, node: cst.CSTNode) -> bool:
        """Whether sync rules act on the code at `node`: a step runs it, or it is a module's forward pass.

        In a file without any step, functions count too whose callers are elsewhere.
        """
        function = self._tree.function(node)
        is_free = function is not None and not self._is_data_code(function)
        if not self.found and is_free:
            return True
        if self.in_sight(node) or self.in_forward(node):
            return True
        if function is None or not is_free or self.in_file_of(node) or self._runs_steps(node):
            return False
        return self._may_be_reached(function, set())

    def may_run(self, node: cst.CSTNode) -> bool:
        """Whether a step may run the code at `node`, though none in sight does: not all who call it are known."""
        function = self._tree.function(node)
        return (
            function is not None
            and not (self._is_data_code(function) or self._runs_steps(node) or self.is_gated(node))
            and self._may_be_reached(function, set())
        )

    def _may_be_reached(self, function: cst.FunctionDef, passed: set[cst.FunctionDef]) -> bool:
        """Whether a function that no step in sight runs may be called from elsewhere, itself or through its callers."""
        passed.add(function)
        callers = self._values.calls.callers(function)
        around = {self._tree.function(call) for call in callers if self._tree.module_of(call) not in self._in_modules}
        return (
            not callers
            or not self._values.calls.is_only_called(function)
            or any(
                caller is not None
                and caller not in passed
                and not self._is_data_code(caller)
                and self._may_be_reached(caller, passed)
                for caller in around
            )
        )

    def region(self, node: cst.CSTNode) -> Region | None:
        """The step's loop or function whose text holds `node`."""
        child: cst.CSTNode = node
        for ancestor in self._tree.ancestors(node):
            if (
                ancestor in self.regions
                and isinstance(ancestor, (cst.For, cst.While, cst.FunctionDef))
                and child is ancestor.body
            ):
                return ancestor
            child = ancestor
        return None

    def trains(self, code: cst.CSTNode) -> bool:
        """Whether the code at or below a node (such as a loop's body) runs `backward`, itself or through functions."""
        if self._has_backward(code):
            return True
        return bool(self._training) and not self._training.isdisjoint(self.called_by(code))

    def runs_every_step(self, node: cst.CSTNode) -> bool:
        """Whether a step always comes by `node`: reached, and not behind an `if step % n == 0` or in an `except`."""
        return self.reaches(node) and not self.is_gated(node)

    def is_gated(self, node: cst.CSTNode, within: cst.CSTNode | None = None) -> bool:
        """Whether `node` stands behind a `gate`."""
        return self.gate(node, within) is not None

    def gate(self, node: cst.CSTNode, within: cst.CSTNode | None = None) -> cst.If | cst.ExceptHandler | None:
        """The `if` around `node` that asks for a modulo, the first step or one sample, or the `except`: it runs rarely.

        Only what stands in `within` is looked at, or what stands in the step. A condition that all of the training
        stands under (`if step % train_every == 0:` around the backward pass) tells when there is a step.
        """
        child: cst.CSTNode = node
        for ancestor in self._tree.ancestors(node):
            if isinstance(ancestor, cst.ExceptHandler):
                return ancestor
            is_rare = isinstance(ancestor, cst.If) and child is ancestor.body and self._tests_rarely(ancestor.test)
            if isinstance(ancestor, cst.If) and is_rare and not self._holds_step(ancestor):
                return ancestor
            is_first = isinstance(ancestor, cst.If) and runs_once(self._tree, ancestor, child, self._training_loops)
            if isinstance(ancestor, cst.If) and is_first and not self.trains(child):
                return ancestor
            if isinstance(ancestor, cst.FunctionDef) or ancestor in self.regions or ancestor is within:
                return None
            child = ancestor
        return None

    def gate_of_callers(self, node: cst.CSTNode) -> cst.If | cst.ExceptHandler | None:
        """The `gate` of a node, or else one of those in front of every call of the function around it."""
        gate = self.gate(node)
        function = self._tree.function(node)
        if gate is not None or function is None or self.region(node) is not None:
            return gate
        return self._gates_of_calls(function)

    def _find_gate_of_calls(self, function: cst.FunctionDef) -> cst.If | cst.ExceptHandler | None:
        gates = [self.gate_of_callers(call) for call in self._values.calls.callers(function)]
        return gates[0] if gates and None not in gates else None

    def _holds_step(self, branch: cst.If) -> bool:
        """Whether the loop around a branch runs `backward` in the branch's body and nowhere else."""
        region = self.region(branch)
        if region is None or not self.trains(branch.body):
            return False
        child: cst.CSTNode = branch
        for ancestor in self._tree.ancestors(branch):
            if isinstance(ancestor, cst.BaseSuite) and any(
                self.trains(part) for part in ancestor.body if part is not child
            ):
                return False
            if isinstance(ancestor, cst.If) and child is not ancestor.body:
                return False
            if ancestor is region:
                break
            child = ancestor
        return branch.orelse is None or not self.trains(branch.orelse)

    def _tests_rarely(self, test: cst.CSTNode) -> bool:
        """Whether a condition tests a modulo, itself or through a variable, a switch of reports, or for one sample."""
        if _asks_for_one(test):
            return True
        always = [node for node in walk(test) if self._is_modulo_of_one(node)]
        shown = {inner for node in always for inner in walk(node)}
        for node in (each for each in walk(test) if each not in shown):
            held = self._values.assigned_to(node)
            if self._is_modulo(node) or (held and all(any(map(self._is_modulo, walk(part))) for part in held)):
                return True
            # `log_probs` is a tensor, and no setting.
            words = _WORDS.findall(node.value) if isinstance(node, cst.Name) else []
            if any(word.lower() in _REPORTING for word in words) and not self._values.of(node).is_tensor:
                return True
        return False

    def _is_modulo(self, node: cst.CSTNode) -> bool:
        """Whether a node is a remainder, and no text with values in it."""
        if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, cst.Modulo):
            return False
        return self._values.of(node.left).kind is not Kind.TEXT

    def _is_modulo_of_one(self, node: cst.CSTNode) -> bool:
        """Whether a node is a remainder that is 0 in every round: `step % every` with `every = 1` in the files."""
        if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, cst.Modulo):
            return False
        divisors = self._values.assigned_to(node.right) or [node.right]
        return all(isinstance(each, cst.Integer) and each.evaluated_value == 1 for each in divisors)

    def called_by(self, node: cst.CSTNode) -> tuple[cst.FunctionDef, ...]:
        """The functions in sight that the code at or below `node` calls directly, or has called by what it calls."""
        known = self._called.get(node)
        if known is None:
            found: dict[cst.FunctionDef, None] = {}
            for call in (n for n in find_in_scope(node, cst.Call) if isinstance(n, cst.Call)):
                targets = self._values.calls.reached(call) or self._methods_called(call)
                found.update(dict.fromkeys((*targets, *self._values.calls.handed(call))))
            known = self._called[node] = tuple(found)
        return known

    def _resolved(self, node: cst.CSTNode) -> set[cst.FunctionDef]:
        """Those of the functions called by a node of which it is known, and not only told by a method's name."""
        calls = [call for call in find_in_scope(node, cst.Call) if isinstance(call, cst.Call)]
        reached, handed = self._values.calls.reached, self._values.calls.handed
        return {function for call in calls for function in (*reached(call), *handed(call))}

    def _methods_called(self, call: cst.Call) -> tuple[cst.FunctionDef, ...]:
        """What `model.prune()` may run where nothing shows the class of `model`: methods of the modules in sight."""
        if not isinstance(call.func, cst.Attribute):
            return ()
        found = self._module_methods.get(call.func.attr.value, ())
        owner = self._values.of(call.func.value) if found else None
        return found if owner is not None and owner.kind in (Kind.UNKNOWN, Kind.MODULE) and not owner.cls else ()

    @cached_property
    def _module_methods(self) -> dict[str, tuple[cst.FunctionDef, ...]]:
        found: dict[str, tuple[cst.FunctionDef, ...]] = {}
        for cls in self._classes:
            for name, method in cls.methods.items() if cls.is_module else ():
                found[name] = (*found.get(name, ()), method)
        return found

    def _find_regions(self) -> Iterator[Region]:
        looped = [loop for loop in self._training_loops if self._trains_itself(loop.body)]
        yield from looped
        reached = self._reach(tuple(looped))
        for function in self._tree.all(cst.FunctionDef):
            owns = self._has_backward(function.body)
            if owns and function not in reached and not any(self._tree.is_within(loop, function) for loop in looped):
                yield function
        hooks = (*lightning.training_steps(self._classes), *hugging_face.training_steps(self._classes))
        for function in hooks:
            if not (self._has_backward(function.body) or function in reached):
                yield function

    @cached_property
    def _training_loops(self) -> tuple[cst.For | cst.While, ...]:
        loops = (node for node in self._tree.all_of(cst.For, cst.While) if isinstance(node, (cst.For, cst.While)))
        return tuple(loop for loop in loops if self.trains(loop.body))

    def _trains_itself(self, code: cst.CSTNode) -> bool:
        """Whether code runs `backward`, itself or through functions, other than in the rounds of a loop below it.

        A loop around a loader's, or around calls to a function that has it, is one of epochs, and no step; one that
        trains the generator behind the rounds that train the critic is a step all the same.
        """
        return self._has_pass(self._calls_outside_of_rounds(code), self._training_themselves)

    def _has_pass(self, calls: Iterable[cst.Call], training: set[cst.FunctionDef]) -> bool:
        return any(_is_backward(call) or not training.isdisjoint(self.called_by(call)) for call in calls)

    @cached_property
    def _training_themselves(self) -> set[cst.FunctionDef]:
        """The functions that run `backward` other than in the rounds of a loop."""
        found: set[cst.FunctionDef] = set()
        calls = {function: list(self._calls_outside_of_rounds(function.body)) for function in self._training}
        size = -1
        while len(found) > size:
            size = len(found)
            for function, made in calls.items():
                if self._has_pass(made, found):
                    found.add(function)
        return found

    def _calls_outside_of_rounds(self, code: cst.CSTNode) -> Iterator[cst.Call]:
        """The calls at or below a node, not in functions below it, nor in loops below it that train."""
        rounds = {loop.body for loop in self._training_loops}
        return (node for node in walk_scope(code, without=rounds) if isinstance(node, cst.Call))

    def _has_backward(self, node: cst.CSTNode) -> bool:
        """Whether `backward` stands at or below a node, not in the body of a function or class below it."""
        return node in self._around_backward

    @cached_property
    def _around_backward(self) -> set[cst.CSTNode]:
        found: set[cst.CSTNode] = set()
        for call in filter(_is_backward, self._tree.all(cst.Call)):
            found.add(call)
            for ancestor in self._tree.ancestors(call):
                found.add(ancestor)
                if isinstance(ancestor, (cst.FunctionDef, cst.Lambda, cst.ClassDef)):
                    break
        return found

    @cached_property
    def _training(self) -> set[cst.FunctionDef]:
        """The functions that run `backward`, themselves or through what they call."""
        functions = self._tree.all(cst.FunctionDef)
        stack = [function for function in functions if self._has_backward(function.body)]
        if not stack:
            # Most files of a library; who calls whom takes long to find.
            return set()
        callers: dict[cst.FunctionDef, list[cst.FunctionDef]] = {}
        for function in functions:
            for called in self.called_by(function.body):
                callers.setdefault(called, []).append(function)
        found: set[cst.FunctionDef] = set()
        while stack:
            function = stack.pop()
            if function not in found:
                found.add(function)
                stack.extend(callers.get(function, ()))
        return found

    def _closure(
        self, functions: tuple[cst.FunctionDef, ...], without: Collection[cst.FunctionDef] = ()
    ) -> set[cst.FunctionDef]:
        seen: set[cst.FunctionDef] = set()
        stack = list(functions)
        while stack:
            function = stack.pop()
            if function not in seen and function not in without:
                seen.add(function)
                stack.extend(self.called_by(function.body))
        return seen

    def _reach(self, regions: tuple[Region, ...]) -> set[cst.FunctionDef]:
        return set().union(*(self._closure(self.called_by(region.body), self._running(region)) for region in regions))

    def _running(self, region: Region) -> set[cst.FunctionDef]:
        """The functions that run a region, and so are not run by its rounds, where they are only handed to somebody."""
        around = (region, *self._tree.ancestors(region))
        found = {node for node in around if isinstance(node, cst.FunctionDef)}
        reached = self._closure(self.called_by(region.body))
        if not found.isdisjoint(reached):
            size = -1
            while len(found) > size:
                size = len(found)
                found |= {each for each in reached if not found.isdisjoint(self._resolved(each.body))}
        return found

    def _function_reached(self, node: cst.CSTNode, functions: set[cst.FunctionDef]) -> bool:
        function = self._tree.function(node)
        while function is not None:
            if function in functions:
                return True
            function = self._tree.function(function)
        return False

    def _is_data_code(self, function: cst.FunctionDef) -> bool:
        """Whether a function belongs to a dataset or is a collate function: it runs on the CPU, outside of steps."""
        cls = self._classes.of(self._tree.scope(function))
        if cls is not None and (cls.is_dataset or function.name.value in ("__getitem__", "__init__")):
            return True
        return "collate" in function.name.value or (cls is not None and "collat" in cls.name.lower())


def makes_step(code: cst.CSTNode) -> bool:
    """Whether an optimizer's step stands at or below a node."""
    return any(map(_is_step, walk_scope(code)))


def _asks_for_one(test: cst.CSTNode) -> bool:
    """Whether a condition asks for a tensor of one row, `x.size(0) == 1`: few batches have one sample."""
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
        return False
    (target,) = test.comparisons
    one = target.comparator
    if not isinstance(target.operator, cst.Equal) or not isinstance(one, cst.Integer) or one.value != "1":
        return False
    length, first = test.left, None
    if isinstance(length, cst.Call) and dotted(length.func).endswith(".size") and len(length.args) == 1:
        first = length.args[0].value
    elif isinstance(length, cst.Subscript) and dotted(length.value).endswith(".shape") and len(length.slice) == 1:
        index = length.slice[0].slice
        first = index.value if isinstance(index, cst.Index) else None
    return isinstance(first, cst.Integer) and first.value == "0"


def _is_step(node: cst.CSTNode) -> bool:
    """Whether a call makes an optimizer's step, itself or by way of a `GradScaler`."""
    func = node.func if isinstance(node, cst.Call) else None
    is_step = isinstance(func, cst.Attribute) and func.attr.value == "step"
    return is_step and isinstance(func, cst.Attribute) and "sched" not in (dotted(func.value) or "").lower()


def _is_backward(call: cst.Call) -> bool:
    func = call.func
    if isinstance(func, cst.Attribute):
        if func.attr.value in _BACKWARD and dotted(func) != "super.backward":
            return not (isinstance(func.value, cst.Call) and dotted(func.value.func) == "super")
        return False
    # `loss_scaler(loss, optimizer, ...)` of the MAE family runs backward and step.
    return isinstance(func, cst.Name) and func.value == "loss_scaler" and len(call.args) > 1
