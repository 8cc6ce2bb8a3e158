"""Meters such as `AverageMeter` that every step gives a scalar: they get the tensor, and the class stays as it is.

That is right where `update` only assigns, adds, multiplies and divides, and where the figures are formatted, added up
or written by a logger that takes tensors. Where a number is needed, `float(meter.avg)` reads it at that place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import libcst as cst
from attrs import define, field

from perfmod.transforms.facts.calls import is_decorated, passed
from perfmod.transforms.facts.classes import AttributeAssignment, ClassFacts
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import parameters
from perfmod.transforms.facts.formats import is_plain_format, shows_number, shows_type
from perfmod.transforms.facts.handing import Held
from perfmod.transforms.facts.loggers import is_logged
from perfmod.transforms.facts.rounds import is_repeated, round_loop
from perfmod.transforms.facts.tree import find_all, walk
from perfmod.transforms.facts.value import DType, Kind
from perfmod.transforms.finding import Edit
from perfmod.transforms.needed import is_only_shown
from perfmod.transforms.syncs._around import in_every_step
from perfmod.transforms.syncs._host_reads import CannotRewrite, may_change_later
from perfmod.transforms.syncs._sinks import Metered
from perfmod.transforms.syncs._sums import Kept, inference_mode, missing_float64, require_one_device
from perfmod.transforms.syncs._terms import (
    ARITHMETIC,
    as_number,
    cast_of,
    converted,
    ends_with_return,
    kept_on_device,
    not_scalar,
    term_of,
)

_IN_PLACE = (cst.AddAssign, cst.SubtractAssign, cst.MultiplyAssign, cst.DivideAssign)
_LOOKS = frozenset(f"builtins.{name}" for name in ("isinstance", "len", "type", "id", "callable", "hasattr"))
_LOOKING = (cst.Comparison, cst.ComparisonTarget, cst.If, cst.Expr)
_SHOWS = frozenset({"builtins.str", "builtins.repr", "builtins.print", "builtins.format"})


def makers_of(file: FileFacts, receiver: cst.BaseExpression) -> frozenset[cst.CSTNode]:
    """The calls that make the meters that an expression may be; nothing where they are not all in sight."""
    cls, ends = file.value(receiver).cls, file.tracing.ends(receiver)
    made = [isinstance(end.node, cst.Call) and file.values.calls.constructed(end.node) is cls for end in ends]
    is_seen = cls is not None and all(made) and not any(end.path for end in ends)
    return frozenset(end.node for end in ends) if is_seen else frozenset()


def keep_in_meter(file: FileFacts, makers: frozenset[cst.CSTNode], sites: Sequence[Metered]) -> Kept:
    """Tensors for the meters that are made at some calls. Raises `CannotRewrite`."""
    receiver = cst.ensure_type(sites[0].call.func, cst.Attribute).value
    code, cls = file.code(receiver), file.value(receiver).cls
    if cls is None or not makers:
        raise CannotRewrite(f"perfmod did not find where `{code}` is created")
    terms = [term_of(file, site.value) for site in sites]
    require_one_device(file, code, terms)
    given = {_parameter(file, cls, site).name.value for site in sites}
    uses = _Uses(file, makers, _MeterClass.of(file, cls, given))
    for maker in makers:
        for held in file.handing.uses(cst.ensure_type(maker, cst.Call)):
            uses.add(held)
    uses.require_fit()
    for read in uses.reads:
        for site in sites:
            if _every_round_reads(file, read, site.call):
                raise CannotRewrite(f"`{file.code(read)}` is read in every step on line {file.line(read)}")
    modes = {inference_mode(file, call) is None: call for call in (*uses.updates, *(site.call for site in sites))}
    if len(modes) > 1:
        lines = f"line {file.line(modes[False])} and outside of it on line {file.line(modes[True])}"
        raise CannotRewrite(f"`{code}` is updated inside of `torch.inference_mode()` on {lines}")
    doubts = [*uses.doubts, *(doubt for term in terms for doubt in term.doubts)]
    for term in terms:
        if term.dtype is DType.INTEGER:
            doubts.append(f"`{file.code(term.node)}` is an integer, and `{code}` would show a float")
        if term.dtype is None:
            doubts.append(f"`{file.code(term.node)}` may be an integer or a float, which could not be determined")
    if uses.are_formatted:
        doubts += not_scalar(file, terms, "`{}` may have dimensions, and could not be formatted as a number")
    edits = list(uses.edits)
    cast = cast_of(file, terms, is_shown=all(is_only_shown(file, read) for read in uses.reads))
    doubts += missing_float64(file, code, cast)
    for term in terms:
        copied = uses.meter.writes or any(may_change_later(file, read.tensor, parts=False) for read in term.reads)
        edits += kept_on_device(file, term, cast, copied=copied)
    is_rounded = cast != ".double()" or uses.meter.divides
    return Kept(f"`{code}`", edits, terms, uses.reads, doubts, cast=cast, figures_may_differ=is_rounded)


def _parameter(file: FileFacts, cls: ClassFacts, site: Metered) -> cst.Param:
    """The parameter of `update` that takes a figure."""
    update = cls.method("update")
    for param in parameters(update) if update is not None else ():
        if param.star == "**":
            raise CannotRewrite(
                f"`{cls.name}.update` takes its values through `**{param.name.value}`, which perfmod does not follow"
            )
        if not param.star and update is not None and passed(site.call, update, param, bound=True) is site.value:
            return param
    raise CannotRewrite(
        f"which parameter of `{cls.name}.update` takes `{file.code(site.value)}` could not be determined"
    )


def _every_round_reads(file: FileFacts, node: cst.CSTNode, update: cst.CSTNode) -> bool:
    """Whether every round that updates a meter comes by a place, through calls too."""
    loop = round_loop(file, update)
    return in_every_step(file, node) if loop is None else _comes_by(file, node, loop, frozenset())


def _comes_by(file: FileFacts, node: cst.CSTNode, loop: cst.For | cst.While, seen: frozenset[cst.FunctionDef]) -> bool:
    if is_repeated(file, node, loop):
        return not file.steps.is_gated(node, loop)
    function = file.tree.function(node)
    if function is None or function in seen or file.steps.is_gated(node):
        return False
    return any(_comes_by(file, call, loop, seen | {function}) for call in file.values.calls.callers(function))


@define(eq=False)
class _MeterClass:
    """A class, and what of it may hold tensors once its `update` is given some.

    Attributes:
        cls: the class.
        fields: attributes that may hold tensors.
        names: variables of its methods that may, with their methods.
        returning: methods that may return tensors.
        divides: whether it divides them.
        kept: attributes and variables that get one of them as it is.
        added: those that are changed by `+=` and the like, which writes into a tensor.
    """

    cls: ClassFacts
    fields: set[str] = field(factory=set)
    names: set[tuple[cst.FunctionDef | None, str]] = field(factory=set)
    returning: set[cst.FunctionDef] = field(factory=set)
    divides: bool = False
    kept: set[str] = field(factory=set)
    added: set[str] = field(factory=set)

    @property
    def writes(self) -> bool:
        """Whether a method may write into the tensor that it was given."""
        return not self.kept.isdisjoint(self.added)

    @classmethod
    def of(cls, file: FileFacts, meter: ClassFacts, given: set[str]) -> _MeterClass:
        """The class, where nothing but itself says what it does. Raises `CannotRewrite`."""
        unknown = len(meter.bases) + len(meter.parents) < len(meter.node.bases)
        if unknown or any(base != "builtins.object" for each in meter.lineage() for base in each.bases):
            raise CannotRewrite(f"perfmod cannot see the code of a base class of `{meter.name}`")
        for name in meter.methods:
            replaced = file.classes.replaced(name)
            if replaced is not None:
                raise CannotRewrite(f"the method `{name}` is replaced on line {file.line(replaced)}")
        found = cls(meter, names={(meter.method("update"), name) for name in given}, kept=set(given))
        size = -1
        while len(found.fields) + len(found.names) + len(found.returning) > size:
            size = len(found.fields) + len(found.names) + len(found.returning)
            for each in meter.lineage():
                for method in each.methods.values():
                    found._spread(file, method)
        return found

    def _spread(self, file: FileFacts, method: cst.FunctionDef) -> None:
        for leaf in self.leaves(file, method):
            node, divides = _arithmetic_around(file, leaf)
            self.divides |= divides
            parent = file.tree.parent(node)
            self.returning |= {method} if isinstance(parent, cst.Return) else set()
            for target in _targets(parent):
                if isinstance(parent, cst.AugAssign):
                    self.added.add(file.code(target))
                elif node is leaf:
                    self.kept.add(file.code(target))
                self.divides |= isinstance(parent, cst.AugAssign) and isinstance(parent.operator, cst.DivideAssign)
                own = file.classes.self_attribute(target)
                if own is not None:
                    self.fields.add(own[1])
                elif isinstance(target, cst.Name):
                    self.names.add((method, target.value))

    def leaves(self, file: FileFacts, method: cst.FunctionDef) -> Iterator[cst.BaseExpression]:
        """The expressions of a method that may be tensors: fields, variables, and what its other methods return."""
        for node in walk(method.body):
            if isinstance(node, cst.Attribute):
                own, parent = file.classes.self_attribute(node), file.tree.parent(node)
                if own is not None and own[1] in self.fields and not _is_target(file, node):
                    yield node
                elif own is not None and self.cls.method(own[1]) in self.returning:
                    yield parent if isinstance(parent, cst.Call) and parent.func is node else node
            elif isinstance(node, cst.Name) and (method, node.value) in self.names and file.flow.is_read(node):
                yield node

    def require_fit(self, file: FileFacts, method: cst.FunctionDef) -> bool:
        """Whether a method formats tensors. Raises `CannotRewrite` where it does more with them than arithmetic."""
        name, formats = f"{self.cls.name}.{method.name.value}", False
        for leaf in self.leaves(file, method):
            node, _ = _arithmetic_around(file, leaf)
            parent = file.tree.parent(node)
            around = file.tree.parent(parent) if isinstance(parent, cst.Arg) else None
            is_shown, is_read = shows_number(file, node), around is not None and converted(file, around) is node
            is_kept = isinstance(parent, (cst.Return, cst.Expr)) or _are_own(file, _targets(parent))
            formats |= is_shown
            if not (is_shown or is_read or is_kept or _asks_for_none(parent)):
                raise CannotRewrite(f"`{name}` needs `{file.code(leaf)}` as a number on line {file.line(leaf)}")
        own = next(parameters(method), None)
        for use in find_all(method.body, cst.Name):
            if own is not None and use.value == own.name.value:
                formats |= self._shows_all(file, use, name)
        texts = find_all(method.body, cst.SimpleString)
        converted_text = next((text for text in texts if re.search(r"\{\w*![rsa]", text.value)), None)
        if formats and converted_text is not None:
            raise CannotRewrite(
                f"`{name}` would print a tensor instead of a number on line {file.line(converted_text)}"
            )
        return formats

    def is_figure(self, file: FileFacts, name: str, seen: frozenset[str] = frozenset()) -> bool:
        """Whether a field always holds a figure, and a method returns one: not `None`, a text or a list."""
        method = self.cls.method(name)
        given: list[tuple[cst.FunctionDef | None, cst.BaseExpression | None]]
        if method is not None:
            ends = [end.value for end in file.tree.results(method) if isinstance(end, cst.Return)]
            given = [(method, end) for end in ends] if ends_with_return(method) else []
        else:
            given = [(each.method, None if each.path else each.value) for each in self._assigned(file, name)]
        seen |= {name}
        return bool(given) and all(end is not None and self._gives(file, where, end, seen) for where, end in given)

    def _assigned(self, file: FileFacts, name: str) -> list[AttributeAssignment]:
        every = self.cls.assignments(name)
        return [each for each in every if not isinstance(file.tree.parent(each.node), cst.AugAssign)]

    def _gives(
        self, file: FileFacts, method: cst.FunctionDef | None, value: cst.BaseExpression, seen: frozenset[str]
    ) -> bool:
        if isinstance(value, cst.IfExp):
            return all(self._gives(file, method, arm, seen) for arm in (value.body, value.orelse))
        own = file.classes.self_attribute(value.func if isinstance(value, cst.Call) else value)
        if own is not None and (own[1] in self.fields or self.cls.method(own[1]) in self.returning):
            return own[1] in seen or self.is_figure(file, own[1], seen)
        is_given = isinstance(value, cst.Name) and (method, value.value) in self.names
        is_sum = isinstance(value, cst.BinaryOperation) and isinstance(value.operator, ARITHMETIC)
        return is_given or is_sum or file.value(value).kind in (Kind.NUMBER, Kind.TENSOR)

    def _shows_all(self, file: FileFacts, own: cst.Name, method: str) -> bool:
        """Whether a use of `self` is that of `"...".format(**self.__dict__)`. Raises where it hands the object on."""
        parent = file.tree.parent(own)
        is_vars = isinstance(parent, cst.Arg) and file.qualified(file.tree.parent(parent) or own) == "builtins.vars"
        is_dictionary = isinstance(parent, cst.Attribute) and parent.attr.value == "__dict__"
        if isinstance(parent, cst.Attribute) and not is_dictionary:
            return False
        arg = file.tree.parent((file.tree.parent(parent) or own) if is_vars and parent is not None else parent or own)
        call = file.tree.parent(arg) if isinstance(arg, cst.Arg) and arg.star == "**" else None
        func = call.func if isinstance(call, cst.Call) else None
        if not (is_vars or is_dictionary) or not isinstance(func, cst.Attribute) or func.attr.value != "format":
            raise CannotRewrite(f"`{method}` passes `{file.code(own)}` itself to other code on line {file.line(own)}")
        return True


@define(eq=False)
class _Uses:
    """What is done with some meters, in all files in sight.

    Attributes:
        meter: their class.
        updates: the calls of `update`.
        reads: where figures are read.
        edits: what makes them numbers where these are needed.
        doubts: what is taken for granted of other meters that come by the same places.
        are_formatted: whether they are formatted as they are.
    """

    file: FileFacts
    makers: frozenset[cst.CSTNode]
    meter: _MeterClass
    updates: list[cst.Call] = field(factory=list)
    reads: list[cst.BaseExpression] = field(factory=list)
    edits: list[Edit] = field(factory=list)
    doubts: list[str] = field(factory=list)
    are_formatted: bool = False
    _methods: dict[cst.FunctionDef, None] = field(factory=dict)

    def add(self, held: Held) -> None:
        """Note one use. Raises `CannotRewrite` where the meter gets out of sight."""
        file, node = self.file, held.node
        parent = file.tree.parent(node)
        around = file.tree.parent(parent) if parent is not None else None
        if not held.path and isinstance(parent, cst.Attribute):
            self._attribute(parent, around)
        elif isinstance(parent, _LOOKING) or (isinstance(around, cst.Call) and file.qualified(around) in _LOOKS):
            return
        elif not held.path and (isinstance(parent, cst.FormattedStringExpression) or _shows(file, around)):
            self._shown(node)
            self.are_formatted |= isinstance(around, cst.Call) and is_plain_format(around)
        else:
            what = f"passed to `{file.code(around.func)}`" if isinstance(around, cst.Call) else "used"
            raise CannotRewrite(f"`{file.code(node)}` is {what} as a whole on line {file.line(node)}")

    def _shown(self, node: cst.BaseExpression) -> None:
        cls = self.meter.cls
        if cls.node.decorators:
            raise CannotRewrite(
                f"a decorator of `{cls.name}` may change how it is printed on line {self.file.line(node)}"
            )
        method = cls.method("__str__") or cls.method("__repr__")
        self._methods.update({method: None} if method is not None else {})
        self.reads.append(node)

    def _attribute(self, node: cst.Attribute, around: cst.CSTNode | None) -> None:
        file, name = self.file, node.attr.value
        method = self.meter.cls.method(name)
        is_called = isinstance(around, cst.Call) and around.func is node
        if name == "__dict__" or (method is not None and not is_called and not is_decorated(method, "property")):
            raise CannotRewrite(f"`{file.code(node)}` is passed on without a call on line {file.line(node)}")
        if isinstance(around, cst.Call) and is_called and name == "update":
            self.updates.append(around)
        elif method is not None:
            self._methods[method] = None
            figure: cst.BaseExpression = around if isinstance(around, cst.Call) and is_called else node
            if method in self.meter.returning:
                self._read(figure)
            elif any(self.meter.leaves(file, method)):
                self.reads.append(figure)
        elif name in self.meter.fields and not _is_target(file, node):
            self._read(node)

    def _read(self, figure: cst.BaseExpression) -> None:
        """A figure that code outside of the class reads: formatted, written by a logger, or made a number."""
        file = self.file
        node, divides = _arithmetic_around(file, figure)
        self.meter.divides |= divides
        self.reads.append(figure)
        if shows_number(file, node):
            self.are_formatted = True
        elif not is_logged(file, node) and not isinstance(file.tree.parent(node), cst.Expr):
            edit = as_number(file, figure, "float({})")
            self.edits += [edit] if edit is not None else []
            owner = cst.ensure_type(figure.func if isinstance(figure, cst.Call) else figure, cst.Attribute)
            if edit is not None and not self.meter.is_figure(file, owner.attr.value):
                code, line = file.code(figure), file.line(figure)
                raise CannotRewrite(f"`{code}` on line {line} may be None, which `float()` does not accept")
            known = makers_of(file, owner.value)
            if edit is not None and not (known and known <= self.makers) and shows_type(file, figure):
                self.doubts.append(
                    f"line {file.line(figure)} may also print a meter of integers, which would show floats"
                )

    def require_fit(self) -> None:
        """Raise `CannotRewrite` where a method that is used needs numbers, or one that it calls."""
        update = self.meter.cls.method("update")
        waiting = [*self._methods, *([update] if update is not None else [])]
        seen: set[cst.FunctionDef] = set()
        while waiting:
            method = waiting.pop()
            if method not in seen:
                seen.add(method)
                self.are_formatted |= self.meter.require_fit(self.file, method)
                attributes = [node.attr.value for node in walk(method.body) if isinstance(node, cst.Attribute)]
                waiting += [found for found in map(self.meter.cls.method, attributes) if found is not None]


def _arithmetic_around(file: FileFacts, node: cst.BaseExpression) -> tuple[cst.BaseExpression, bool]:
    """The largest sum, product or choice that an expression is a part of, and whether it is divided there."""
    divides = False
    while True:
        parent = file.tree.parent(node)
        is_operand = isinstance(parent, cst.BinaryOperation) and isinstance(parent.operator, ARITHMETIC)
        is_sign = isinstance(parent, cst.UnaryOperation) and isinstance(parent.operator, (cst.Plus, cst.Minus))
        if not (is_operand or is_sign or (isinstance(parent, cst.IfExp) and parent.test is not node)):
            return node, divides
        divides |= isinstance(parent, cst.BinaryOperation) and isinstance(parent.operator, cst.Divide)
        assert isinstance(parent, cst.BaseExpression)
        node = parent


def _targets(parent: cst.CSTNode | None) -> list[cst.BaseExpression]:
    """What an expression is assigned or added to."""
    if isinstance(parent, cst.Assign):
        return [target.target for target in parent.targets]
    if isinstance(parent, cst.AnnAssign):
        return [parent.target]
    return [parent.target] if isinstance(parent, cst.AugAssign) and isinstance(parent.operator, _IN_PLACE) else []


def _are_own(file: FileFacts, targets: list[cst.BaseExpression]) -> bool:
    """Whether targets are fields and variables; what is put into a list or a dictionary may leave the object."""
    own = (isinstance(target, cst.Name) or file.classes.self_attribute(target) is not None for target in targets)
    return bool(targets) and all(own)


def _is_target(file: FileFacts, node: cst.CSTNode) -> bool:
    parent = file.tree.parent(node)
    return isinstance(parent, (cst.AssignTarget, cst.AnnAssign)) and parent.target is node


def _shows(file: FileFacts, call: cst.CSTNode | None) -> bool:
    return isinstance(call, cst.Call) and (file.qualified(call) in _SHOWS or is_plain_format(call))


def _asks_for_none(parent: cst.CSTNode | None) -> bool:
    """Whether a value is only asked whether it is `None`."""
    return isinstance(parent, cst.Comparison) and all(
        isinstance(target.operator, (cst.Is, cst.IsNot)) for target in parent.comparisons
    )
