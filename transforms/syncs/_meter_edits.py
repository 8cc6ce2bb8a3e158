"""What to write so that a meter class can keep its figures on the device.

The last figure and the sum become properties that read the device when somebody asks, and the mean is computed
then: dividing by a Python number on CUDA would give other last digits.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts.classes import ClassFacts
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import parameters
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.rule import Edit
from perfmod.transforms.syncs._host_reads import CannotRewrite
from perfmod.transforms.syncs._meter_class import SHOWS, Meter, Start, is_stored, own_field, quotient, whole_uses
from perfmod.transforms.writing import comments, delete_statement, insert_after_statement, replace


def class_edits(
    file: FileFacts, meter: Meter, *, weights_are_positive: bool, takes_tensors: bool = False
) -> tuple[tuple[Edit, ...], tuple[str, ...]]:
    """Edits that let a class keep its figures on the device, and the imports that they need.

    `weights_are_positive` says that no mean divides by zero; else `update` goes on raising as it did.
    `takes_tensors` says that some meters are given tensors, and show tensors.

    Raises:
        CannotRewrite: the class shows its attributes in a way that a property cannot follow.
    """
    source, cls = file.source, meter.cls
    edits: list[Edit] = []
    hidden = (*meter.latest, *meter.sums)
    gone = [*meter.means.values(), *(statement for statements in meter.renewed.values() for statement in statements)]
    for node in find_all(cls.node, cst.Attribute):
        if own_field(file, cls, node) not in hidden or file.tree.statement(node) in gone:
            continue
        if file.tree.function(node) is meter.update or is_stored(file, node):
            edits.append(replace(source, node.attr, f"_{node.attr.value}"))
    for method in cls.methods.values():
        edits += _shown_attributes(file, meter, method)
    for name, statement in meter.means.items():
        for start in meter.starts[name]:
            edits += _without_target(file, cls, start, name)
        edits.append(_without_mean(file, statement, is_never_zero=weights_are_positive))
        edits += [_without_mean(file, again, is_never_zero=False) for again in meter.renewed.get(name, ())]
    torch, imports = file.names.spelled("torch", meter.update)
    own = next(parameters(meter.update)).name.value
    indent = source.module.default_indent
    text = ""
    for name in hidden:
        kept = f"{own}._{name}"
        is_ours = f"{torch}.is_tensor({kept})" + (f" and {kept}.dtype == {torch}.float64" if takes_tensors else "")
        read = f"{kept}.item() if {is_ours} else {kept}"
        text += f"\n@property\ndef {name}({own}):\n{indent}return {read}\n"
    for name, statement in meter.means.items():
        division, first = quotient(statement.value), meter.starts[name][0].value
        assert division is not None
        assert first is not None
        mean = source.code(statement.value)
        if division is statement.value:
            mean += f" if {source.code(division.right)} else {source.code(first)}"
        comment = "".join(f"  {words}" for _, words in comments(source, statement))
        text += f"\n@property\ndef {name}({own}):\n{indent}return {mean}{comment}\n"
    edits.append(insert_after_statement(source, meter.update, text))
    return tuple(edits), imports


def _without_mean(file: FileFacts, statement: cst.Assign, *, is_never_zero: bool) -> Edit:
    """`self.avg = self.sum / self.count` gone, with its comment; what it raised for a count of zero stays."""
    source = file.source
    (line,) = delete_statement(source, statement)
    if is_never_zero or not isinstance(statement.value, cst.BinaryOperation):
        return Edit(line.start, line.end, "")
    start, end = source.span(statement)
    _, end = max([(start, end), *((at, at + len(words)) for at, words in comments(source, statement))])
    indent = source.newline + source.indentation(start) + source.module.default_indent
    count = source.code(statement.value.right)
    return Edit(start, end, f'if not {count}:{indent}raise ZeroDivisionError("division by zero")')


def _without_target(file: FileFacts, cls: ClassFacts, start: Start, name: str) -> Iterator[Edit]:
    """`self.avg = 0` gone, and `self.avg = self.sum = 0` as `self.sum = 0`."""
    if isinstance(start, cst.AnnAssign) or len(start.targets) == 1:
        yield from delete_statement(file.source, start)
        return
    for index, target in enumerate(start.targets):
        if own_field(file, cls, target.target) == name:
            following = start.targets[index + 1].target if index + 1 < len(start.targets) else start.value
            yield Edit(file.source.span(target.target)[0], file.source.span(following)[0], "")


def _shown_attributes(file: FileFacts, meter: Meter, method: cst.FunctionDef) -> Iterator[Edit]:
    """Let `format(**self.__dict__)` show the properties too; refuse what else looks behind them."""
    for own in whole_uses(file, method):
        parent = file.tree.parent(own)
        call = file.tree.parent(parent) if isinstance(parent, cst.Arg) else None
        if isinstance(parent, (cst.Return, cst.FormattedStringExpression)) or (
            call is not None and file.qualified(call) in SHOWS
        ):
            continue
        line = file.line(own)
        shown = call if call is not None and file.qualified(call) == "builtins.vars" else parent
        if not isinstance(shown, (cst.Call, cst.Attribute)) or (shown is not call and isinstance(shown, cst.Call)):
            raise CannotRewrite(f"`{meter.cls.name}.{method.name.value}` hands itself on (line {line})")
        arg = file.tree.parent(shown)
        formats = file.tree.parent(arg) if isinstance(arg, cst.Arg) and arg.star == "**" else None
        func = formats.func if isinstance(formats, cst.Call) else None
        if not (isinstance(func, cst.Attribute) and func.attr.value == "format"):
            code = file.code(shown)
            raise CannotRewrite(f"`{code}` on line {line} shows how `{meter.cls.name}` keeps its figures")
        at = file.source.span(shown)[1]
        yield Edit(at, at, "".join(f", {name}={own.value}.{name}" for name in meter.figures))
