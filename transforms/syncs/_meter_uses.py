"""Where the instances of a meter class go, in all files in sight, and which code reads their figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition
from perfmod.transforms.facts.rounds import is_repeated, round_loop
from perfmod.transforms.facts.tree import find_all, walk
from perfmod.transforms.facts.value import Kind
from perfmod.transforms.syncs._host_reads import CannotRewrite
from perfmod.transforms.syncs._meter_class import SHOWS, Meter, is_stored, reading_methods

# What only holds on to a meter, or asks what it is.
_HOLDS = frozenset(
    f"builtins.{name}" for name in ("list", "tuple", "dict", "zip", "enumerate", "len", "isinstance", "type", "id")
)
_COLLECTS = frozenset({"append", "insert", "setdefault", "add"})
# What stores or copies objects with all that they hold.
_STORES = ("torch.save", "pickle.", "cloudpickle.", "dill.", "joblib.", "copy.", "torch.multiprocessing.")


class MeterUses:
    """Every use of a meter class.

    Attributes:
        updates: the calls of `update`.
        unsure: calls of an `update` that may be a meter's, or another object's, with numbers.
        reads: the expressions that read a figure, or show a meter as text.
    """

    def __init__(self, file: FileFacts, meter: Meter) -> None:
        """Follow the instances.

        Raises:
            CannotRewrite: code sets their fields, or hands them to where they cannot be followed.
        """
        self._file = file
        self._meter = meter
        self._reading = reading_methods(file, meter)
        self._is_held = False
        self.updates: list[cst.Call] = []
        self.unsure: list[cst.Call] = []
        self.reads: list[cst.BaseExpression] = []
        nodes = [node for node in self._expressions() if not file.tree.is_within(node, meter.cls.node)]
        self._own = {node for node in nodes if file.value(node).cls is meter.cls}
        for node in nodes:
            if node in self._own:
                self._use(node, is_sure=True)
        if self._is_held:
            for node in nodes:
                if node not in self._own and self._may_be_held(node):
                    self._use(node, is_sure=False)
            self._require_not_stored()

    def _expressions(self) -> Iterator[cst.BaseExpression]:
        for node in (node for facts in self._file.world.files.values() for node in walk(facts.tree.module)):
            if isinstance(node, (cst.Attribute, cst.Subscript, cst.Call)) or (
                isinstance(node, cst.Name) and self._file.flow.is_read(node)
            ):
                yield node

    def _use(self, node: cst.BaseExpression, *, is_sure: bool) -> None:
        """Sort one expression that is a meter, or may be one."""
        tree = self._file.tree
        parent = tree.parent(node)
        if isinstance(parent, cst.Attribute):
            self._use_attribute(parent, is_sure=is_sure)
        elif isinstance(parent, cst.FormattedStringExpression) or self._is_formatted(node, parent, is_sure=is_sure):
            self.reads.append(node)
        elif isinstance(parent, cst.Arg):
            call = tree.parent(parent)
            if isinstance(call, cst.Call):
                self._use_argument(node, call, is_sure=is_sure)
        elif isinstance(parent, cst.Assign) and is_sure:
            targets = [target.target for target in parent.targets]
            self._is_held |= not all(target in self._own or isinstance(target, cst.Name) for target in targets)
        elif not (is_stored(self._file, node) or isinstance(parent, (cst.Expr, cst.ComparisonTarget, cst.Comparison))):
            self._is_held |= is_sure

    def _use_attribute(self, node: cst.Attribute, *, is_sure: bool) -> None:
        file, meter, name = self._file, self._meter, node.attr.value
        call = file.tree.parent(node)
        is_called = isinstance(call, cst.Call) and call.func is node
        line, code = file.line(node), file.code(node)
        if name in (*meter.figures, *meter.counts) and is_stored(file, node):
            raise CannotRewrite(f"`{code}` is set on line {line}")
        if name == "__dict__":
            raise CannotRewrite(f"`{code}` on line {line} shows how `{meter.cls.name}` keeps its figures")
        if name in meter.figures:
            if is_sure or not is_called:
                self.reads.append(node)
        elif name == "update" and is_called:
            assert isinstance(call, cst.Call)
            if is_sure:
                self.updates.append(call)
            elif not all(self._is_harmless(arg.value) for arg in call.args):
                raise CannotRewrite(f"`{code}` on line {line} may be given a tensor")
            elif any(self._file.value(arg.value).kind is Kind.NUMBER for arg in call.args):
                self.unsure.append(call)
        elif name in self._reading and name in meter.cls.methods:
            self.reads.append(node)
        elif name == "update" and is_sure:
            raise CannotRewrite(f"`{code}` is handed on as a function on line {line}")

    def _is_harmless(self, node: cst.BaseExpression) -> bool:
        """Whether a value is no figure of the device: `update` is a method of dictionaries and sets as well."""
        return self._file.value(node).kind in (Kind.NUMBER, Kind.TEXT, Kind.OBJECT, Kind.SEQUENCE, Kind.NONE)

    def _is_formatted(self, node: cst.CSTNode, parent: cst.CSTNode | None, *, is_sure: bool) -> bool:
        """Whether a value is shown by `text % value` or `text % (value, other)`."""
        if isinstance(parent, cst.Element):
            node, parent = parent, self._file.tree.parent(parent)
            if isinstance(parent, cst.Tuple):
                node, parent = parent, self._file.tree.parent(parent)
        if not (isinstance(parent, cst.BinaryOperation) and isinstance(parent.operator, cst.Modulo)):
            return False
        kind = self._file.value(parent.left).kind
        return parent.right is node and (kind is Kind.TEXT or (is_sure and kind is Kind.UNKNOWN))

    def _use_argument(self, node: cst.BaseExpression, call: cst.Call, *, is_sure: bool) -> None:
        file = self._file
        name = file.qualified(call)
        method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
        if name in SHOWS or (method == "format" and name is None):
            self.reads.append(node)
        elif not is_sure:
            if name in ("builtins.vars", "builtins.setattr", "builtins.delattr"):
                raise CannotRewrite(f"`{file.code(call)}` on line {file.line(call)} may be about a meter")
        elif (
            name in _HOLDS
            or method in _COLLECTS
            or file.values.calls.constructed(call) is not None
            or file.values.calls.resolve(call) is not None
        ):
            self._is_held = True
        else:
            line, code = file.line(call), file.code(call.func)
            raise CannotRewrite(f"`{file.code(node)}` is handed to `{code}` as a whole on line {line}")

    def _may_be_held(self, node: cst.BaseExpression) -> bool:
        """Whether an expression of unknown value may be a meter that was put into a container or an object."""
        file = self._file
        value = file.value(node)
        if value.kind is not Kind.UNKNOWN or file.qualified(node) is not None or isinstance(node, cst.Call):
            return False
        if not isinstance(node, cst.Name):
            return True
        for definition in file.flow.definitions(node):
            if definition.binding is Binding.PARAMETER:
                if any(given in self._own or self._holds(given) for given in file.values.given(definition)):
                    return True
            elif definition.binding in (Binding.IMPORTED, Binding.DEFINED):
                continue
            elif definition.binding is not Binding.ASSIGNED or isinstance(
                definition.value, (cst.Attribute, cst.Subscript, cst.Call)
            ):
                return True
        return False

    def _holds(self, node: cst.CSTNode | None) -> bool:
        return node is not None and any(inner in self._own for inner in walk(node))

    def _require_not_stored(self) -> None:
        """Raise where a container with meters in it is saved or copied."""
        file = self._file
        for call in file.world.tree.all(cst.Call):
            if (file.qualified(call) or "").startswith(_STORES):
                for name in (node for arg in call.args for node in find_all(arg, cst.Name)):
                    kept = name in self._own or any(self._holds(d.value) for d in file.flow.definitions(name))
                    if kept and file.flow.is_read(name) and not isinstance(file.tree.parent(name), cst.Attribute):
                        line, code = file.line(call), file.code(call.func)
                        raise CannotRewrite(f"`{name.value}` is stored by `{code}` on line {line}")

    def require_rare_reads(self, fed: Sequence[cst.Call]) -> None:
        """Raise `CannotRewrite` where a figure is needed in every step; `fed` are the updates from the device."""
        for node in self.reads:
            meter = node.value if isinstance(node, cst.Attribute) else node
            feeding = [call for call in fed if self.may_be_same(meter, call)]
            beside = any(self._is_in_same_round(node, call) for call in feeding)
            if beside or (feeding and self._is_in_every_step(node, frozenset())):
                line, code = self._file.line(node), self._file.code(node)
                raise CannotRewrite(f"`{code}` is read in every step on line {line}")

    def _is_in_same_round(self, node: cst.CSTNode, call: cst.Call) -> bool:
        """Whether every round that updates a meter also reads it, be it of an evaluation that runs now and then."""
        loop = round_loop(self._file, call)
        return loop is not None and is_repeated(self._file, node, loop) and not self._file.steps.is_gated(node, loop)

    def may_be_same(self, meter: cst.BaseExpression, call: cst.Call) -> bool:
        """Whether `update` may reach a meter: not where the variables of both hold meters of their own."""
        assert isinstance(call.func, cst.Attribute)
        mine, others = self._makers(meter), self._makers(call.func.value)
        return mine is None or others is None or not mine.isdisjoint(others)

    def _makers(self, meter: cst.BaseExpression) -> set[Definition] | None:
        """The definitions of a variable, if each of them makes a new meter."""
        file = self._file
        definitions = file.flow.definitions(meter) if isinstance(meter, cst.Name) else ()
        is_new = all(
            isinstance(definition.part, cst.Call) and file.values.calls.constructed(definition.part) is not None
            for definition in definitions
        )
        return set(definitions) if definitions and is_new else None

    def _is_in_every_step(self, node: cst.CSTNode, seen: frozenset[cst.CSTNode]) -> bool:
        """Whether steps come by `node` each time, not only behind a modulo, through calls in the file too."""
        file = self._file
        if file.steps.is_gated(node):
            return False
        if not file.steps.decide(node):
            return bool(file.tree.loops(node)) or file.steps.in_forward(node)
        if file.steps.region(node) is not None:
            return True
        function = file.tree.function(node)
        if function is None or function in seen or not file.steps.in_sight(node):
            return False
        callers = file.values.calls.callers(function)
        return any(self._is_in_every_step(call, seen | {function}) for call in callers)
