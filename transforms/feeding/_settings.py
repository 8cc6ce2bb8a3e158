"""Where a loader's setting is written down: in its call, in a dictionary of keywords, in a variable, as a default of
the command line; and whether changing it there changes nothing but loaders.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.calls import passed
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, parameters
from perfmod.transforms.facts.loaders import Loader
from perfmod.transforms.facts.tree import walk
from perfmod.transforms.feeding._command_line import Option, option_of
from perfmod.transforms.outside import OutsideSetting

_READS = frozenset({"get", "keys", "items", "values", "copy", "setdefault", "pop"})
_WRITTEN = ("True", "False", "None")
_DEEPEST = 4


@frozen
class Place:
    """Where the value of a setting is written.

    Attributes:
        value: the expression that may be replaced, such as the `0` of `num_workers = 0`.
        through: what stands between it and the call, for messages; empty where it stands in the call itself.
        loaders: every loader that gets its setting from there.
        stray: a use of it that is no loader's setting; `None` where there is none.
        option: the option of the command line whose default it is, if it is one.
        escape: a place that may print it with others, or hands it on with them, as `print(args)` and `asdict(config)`
            do; `None` where none does.
    """

    value: cst.BaseExpression
    through: str
    loaders: tuple[Loader, ...]
    stray: cst.CSTNode | None
    option: Option | None = None
    escape: cst.CSTNode | None = None


def places(file: FileFacts, loader: Loader, parameter: str) -> list[Place]:
    """Every place where the value of a loader's parameter may be written."""
    setting = loader.settings.get(parameter)
    if setting is None:
        return []
    found: list[Place] = []
    for given in setting.values:
        for value in written(file, given):
            if not isinstance(value, cst.BaseExpression):
                continue
            users = [
                other for other in file.loaders if any(value in written(file, each) for each in other.values(parameter))
            ]
            option = option_of(file, given) if value is not given else None
            stray = _stray(file, given, value, users, parameter, option)
            escape = option.escape if option is not None else _escape(file, value)
            through = ""
            if option is not None:
                through = f"the command line ({option.name})"
            elif value is not given:
                through = "a variable"
            elif setting.arg is None:
                bound = file.values.calls.bound(loader.call) is not None
                through = "functools.partial" if bound else "a dictionary of keywords"
            found.append(Place(value, through, tuple(users), stray, option, escape))
    return found


def is_zero(value: cst.CSTNode) -> bool:
    """Whether a written number of workers is none. Any other number, and what is not written, is a decision."""
    return isinstance(value, cst.Integer) and value.evaluated_value == 0


def written(file: FileFacts, given: cst.BaseExpression) -> list[cst.CSTNode]:
    """Where the value of an argument was written: itself if it is a literal, the value of a variable, the default of an
    option of the command line; the `Param` whose callers are not (all) in sight.
    """
    option = option_of(file, given)
    if option is not None:
        return [option.default or given]
    ends = file.tracing.ends(given)
    return [end.node for end in ends] if ends and not any(end.path for end in ends) else [given]


def set_outside(file: FileFacts, loader: Loader, parameter: str, given: list[Place]) -> OutsideSetting | None:
    """The line outside of Python that sets a loader's parameter to 0; `None` where there is none, or Python sets it."""
    ends = [end for value in loader.values(parameter) for end in file.tracing.ends(value)]
    if any(isinstance(node, cst.Integer) for node in (*(end.node for end in ends), *(each.value for each in given))):
        return None
    names = {end.path[-1] for end in ends if end.path}
    names |= {end.node.name.value for end in ends if isinstance(end.node, cst.Param) and not end.path}
    return next((setting for setting in file.outside if setting.name in names), None)


def asked(file: FileFacts, loader: Loader, *attributes: str) -> cst.Attribute | None:
    """Where a loader is asked for one of its settings, `loader.num_workers`; `None` where it is not."""
    for node in file.tree.all(cst.Attribute):
        if node.attr.value in attributes and any(
            end.node is loader.call and not end.path for end in file.tracing.ends(node.value)
        ):
            return node
    return None


def switched_off(file: FileFacts, loader: Loader, parameter: str) -> str:
    """What a comment in the call of a loader shows of a setting, `# num_workers=4`; empty where none names it."""
    source = file.source_of(loader.call)
    start, end = source.span(loader.call)
    found = re.search(rf"#[^\r\n]*\b{parameter}\b[^\r\n]*", source.text[start : source.line_end(end)])
    if found is None:
        return ""
    return f"somebody switched it off: `{found[0].rstrip()}` stands in the call on line {file.line(loader.call)}"


def why_chosen(file: FileFacts, place: Place) -> str:
    """What shows that somebody chose a value: a comment on its line, or the settings among which it stands; empty for
    defaults, of options, parameters and fields.
    """
    is_field = isinstance(file.tree.scope(place.value), cst.ClassDef)
    if place.option is not None or is_field or isinstance(file.tree.parent(place.value), cst.Param):
        return ""
    source = file.source_of(place.value)
    end = source.span(place.value)[1]
    if "#" in source.text[end : source.line_end(end)] or _is_among_settings(file, place.value):
        return f"line {file.line(place.value)} sets the number of workers to {file.code(place.value)}"
    return ""


def why_overridden(file: FileFacts, place: Place) -> str:
    """Which default that has workers a call in sight replaces with its own value; empty where none."""
    arg = file.tree.parent(place.value)
    call = file.tree.parent(arg) if isinstance(arg, cst.Arg) else None
    if not isinstance(call, cst.Call):
        return ""
    made = file.values.calls.constructed(call)
    function = made.method("__init__") if made is not None else file.values.calls.resolve(call)
    if function is None:
        return ""
    for param in parameters(function):
        is_bound = next(parameters(function)).name.value == "self"
        if param.default is None or passed(call, function, param, bound=is_bound) is not place.value:
            continue
        default = file.constants.value(param.default)
        if isinstance(default, int) and default > 0:
            shown = f"{param.name.value}={file.code(param.default)}"
            return f"the call on line {file.line(call)} overrides the default {shown} on line {file.line(param)}"
    return ""


def _is_among_settings(file: FileFacts, value: cst.BaseExpression) -> bool:
    """Whether a name gets a value at the top level, or together with or next to others that get written values."""
    assignment = file.tree.statement(value)
    if not isinstance(assignment, (cst.Assign, cst.AnnAssign)):
        return False
    if assignment.value is not value:
        together = assignment.value
        return isinstance(together, cst.Tuple) and any(element.value is value for element in together.elements)
    if file.tree.function(value) is None:
        return True
    line = file.tree.line(assignment)
    block = file.tree.block(line)
    place = block.index(line)
    return any(map(_is_setting, (*block[max(place - 1, 0) : place], *block[place + 1 : place + 2])))


def _is_setting(line: cst.CSTNode) -> bool:
    """Whether a line binds what is written there: numbers, texts, lists of them."""
    if not isinstance(line, cst.SimpleStatementLine) or not isinstance(line.body[0], (cst.Assign, cst.AnnAssign)):
        return False
    value = line.body[0].value
    return value is not None and not any(
        isinstance(node, cst.Call) or (isinstance(node, cst.Name) and node.value not in _WRITTEN)
        for node in walk(value)
    )


def why_given_twice(loader: Loader, parameter: str) -> str:
    """Why writing a setting may pass it twice, which raises TypeError; empty where all keywords are known."""
    if not loader.open_keywords or parameter in loader.settings:
        return ""
    return f"`{loader.open_keywords}` may hold {parameter} already"


def _stray(
    file: FileFacts,
    given: cst.BaseExpression,
    value: cst.BaseExpression,
    users: list[Loader],
    parameter: str,
    option: Option | None,
) -> cst.CSTNode | None:
    """A use of a written value that is no setting of one of these loaders."""
    settings = {each for user in users for each in user.values(parameter)}
    if option is not None:
        return next((read for read in option.reads if read not in settings), None)
    if value is not given:
        for held in file.handing.uses(value):
            if held.node not in settings:
                return held.node
        return None
    setting = next((user.settings[parameter] for user in users if value in user.values(parameter)), None)
    if setting is None or setting.arg is not None:
        return None
    calls = {user.call for user in users}
    return next(_other_uses(file, value, calls, 0), None)


def _escape(file: FileFacts, value: cst.BaseExpression) -> cst.CSTNode | None:
    """Where an object goes as a whole, of whose class a value is a default, `num_workers: int = 0`."""
    scope = file.tree.scope(value)
    cls = file.classes.of(scope) if isinstance(scope, cst.ClassDef) else None
    if cls is None:
        return None
    for call in file.tree.all(cst.Call):
        made = file.values.calls.constructed(call)
        if made is None or cls not in made.lineage():
            continue
        for held in file.handing.uses(call):
            read = file.tree.parent(held.node)
            if held.path or not isinstance(read, cst.Attribute) or isinstance(file.tree.parent(read), cst.Call):
                return held.node
    return None


def _other_uses(
    file: FileFacts, value: cst.BaseExpression, loaders: set[cst.Call], depth: int
) -> Iterator[cst.CSTNode]:
    """Uses of the dictionary that holds a value, other than as keywords of these loaders."""
    around = file.tree.parent(value)
    container: cst.CSTNode | None = None
    if isinstance(around, cst.DictElement):
        container = file.tree.parent(around)
    elif isinstance(around, cst.Arg):
        call = file.tree.parent(around)
        made_by = file.qualified(call) if isinstance(call, cst.Call) else None
        if isinstance(call, cst.Call) and made_by == "functools.partial":
            uses = [held.node for held in file.handing.uses(call)]
            yield from (use for use in uses if file.tree.parent(use) not in loaders)
        if made_by != "builtins.dict":
            return  # a keyword of a call that hands it on
        container = call
    elif isinstance(around, cst.Assign) and isinstance(around.targets[0].target, cst.Subscript):
        container = around.targets[0].target.value
    if not isinstance(container, cst.BaseExpression):
        yield value
        return
    yield from _uses_of_dictionary(file, container, loaders, depth)


def _uses_of_dictionary(
    file: FileFacts, container: cst.BaseExpression, loaders: set[cst.Call], depth: int
) -> Iterator[cst.CSTNode]:
    if depth > _DEEPEST:
        yield container
        return
    reads: list[cst.CSTNode] = []
    if isinstance(container, cst.Name):
        for definition in file.flow.definitions(container):
            if definition.binding is not Binding.ASSIGNED:
                yield container
                return
            reads += file.flow.uses(definition)
    else:
        reads = [held.node for held in file.handing.uses(container)]
    for read in reads:
        parent = file.tree.parent(read)
        around = file.tree.parent(parent) if parent is not None else None
        if isinstance(parent, cst.Arg) and parent.star == "**" and around in loaders:
            continue
        if isinstance(parent, cst.Subscript) and isinstance(around, cst.AssignTarget):
            continue
        if isinstance(parent, cst.Attribute) and isinstance(around, cst.Call) and parent.attr.value in _READS:
            yield read
            continue
        if isinstance(parent, cst.Attribute) and parent.attr.value == "update":
            continue
        updated = _updated(around) if isinstance(parent, cst.Arg) else None
        if updated is not None:
            yield from _uses_of_dictionary(file, updated, loaders, depth + 1)
            continue
        yield read


def _updated(call: cst.CSTNode | None) -> cst.Name | None:
    """The dictionary into which `other.update(...)` puts what it is given."""
    if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute) or call.func.attr.value != "update":
        return None
    return call.func.value if isinstance(call.func.value, cst.Name) else None
