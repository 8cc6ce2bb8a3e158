"""Variables and functions that carry scalars of the device to where these are added up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import libcst as cst
from attrs import define, field

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Definition, Read
from perfmod.transforms.facts.rounds import is_late
from perfmod.transforms.facts.value import Kind
from perfmod.transforms.rule import Edit
from perfmod.transforms.syncs._exposure import is_exposed
from perfmod.transforms.syncs._figures import as_number
from perfmod.transforms.syncs._host_reads import CannotRewrite, is_differentiated
from perfmod.transforms.syncs._kept_terms import kept_term
from perfmod.transforms.syncs._terms import Returned, Term, Variable, dtype_of, term_of, variable_of


@define
class Carried:
    """What to write for the carriers of terms.

    Attributes:
        edits: edits that keep them on the device, and make them numbers where a number is needed.
        imports: the imports that these need.
        doubts: what is taken for granted.
    """

    edits: list[Edit] = field(factory=list)
    imports: list[str] = field(factory=list)
    doubts: list[str] = field(factory=list)


def carried(file: FileFacts, terms: Iterable[Term], *, are_stored: bool) -> Carried:
    """The carriers of some terms; `are_stored` says that tensors are kept beyond the step.

    Raises:
        CannotRewrite: the number is needed in every step, or in code that cannot be followed.
    """
    found = Carried()
    variables: dict[Definition, Variable] = {}
    absorbed: set[cst.CSTNode] = set()
    returned: dict[Returned, None] = {}
    for term in terms:
        for node, variable in term.variables():
            variables.setdefault(variable.definition, variable)
            absorbed.add(node)
        for call, figure in term.returned():
            returned[figure] = None
            absorbed.add(call)
    for figure in returned:
        # The callers that are not in the terms may carry the figure elsewhere.
        for call in _callers(file, figure):
            for variable in _assigned(file, call, figure):
                variables.setdefault(variable.definition, variable)
                absorbed.add(call)
    for figure in returned:
        _keep_returned(file, figure, absorbed, found)
    _keep_variables(file, variables, absorbed, found, are_stored=are_stored)
    return found


def _keep_variables(
    file: FileFacts,
    variables: Mapping[Definition, Variable],
    absorbed: set[cst.CSTNode],
    found: Carried,
    *,
    are_stored: bool,
) -> None:
    for definition, variable in variables.items():
        reads = variable.term.reads
        # `double()` of a parameter in float64 is the parameter, which the optimizer changes; no loss is one.
        stored = [
            read
            for read in reads
            if are_stored or file.aliasing.is_mutated(read.tensor) or not is_differentiated(file, read.tensor)
        ]
        kept, needed, missing = kept_term(file, variable.term, variable.dtype, stored=stored, is_alone=not are_stored)
        found.edits += kept
        found.imports += needed
        found.doubts += missing
        for use in file.flow.uses(definition):
            if use not in absorbed:
                _read_late(file, definition, variable, use, found)


def _read_late(file: FileFacts, definition: Definition, variable: Variable, use: Read, found: Carried) -> None:
    """Make a variable a number where it is used behind the steps, or now and then."""
    if not is_late(file, use, definition.node) or file.tree.scope(use) is not definition.scope:
        raise CannotRewrite(f"`{definition.name}` is used on line {file.line(use)} too")
    if variable.term.dtype is None:
        raise CannotRewrite(f"whether `{definition.name}` is an integer or a float could not be shown")
    others = [other for other in file.flow.definitions(use) if other is not definition]
    if not all(file.values.of_definition(other).kind is Kind.NUMBER for other in others):
        raise CannotRewrite(f"`{definition.name}` may be no number on line {file.line(use)}")
    starts = [file.values.of_definition(other).dtype for other in others]
    written, required = as_number(file, use, variable.dtype, starts)
    found.edits += written
    found.imports += required


def _callers(file: FileFacts, figure: Returned) -> list[cst.Call]:
    """The calls of a function. Raises `CannotRewrite` where it may be called from elsewhere."""
    name = figure.function.name.value
    callers = list(file.values.calls.callers(figure.function))
    strangers = [call for call in callers if not file.is_own(call)]
    if strangers:
        raise CannotRewrite(f"`{name}` is called on line {file.line(strangers[0])}, too")
    if not file.values.calls.is_only_called(figure.function):
        raise CannotRewrite(f"`{name}`, which returns the figure, is handed on as a function")
    return callers


def _assigned(file: FileFacts, call: cst.Call, figure: Returned) -> list[Variable]:
    """The variables that a call gives a figure to: `loss` of `loss, hits = step(x)`."""
    statement = file.tree.parent(call)
    if not isinstance(statement, cst.Assign) or statement.value is not call or len(statement.targets) != 1:
        return []
    target: cst.BaseExpression = statement.targets[0].target
    if figure.index is not None:
        elements = target.elements if isinstance(target, (cst.Tuple, cst.List)) else ()
        if figure.index >= len(elements) or any(isinstance(e, cst.StarredElement) for e in elements):
            return []
        target = elements[figure.index].value
    found = [variable_of(file, definition) for definition in file.flow.defined(target)]
    return [variable for variable in found if variable is not None]


def _keep_returned(file: FileFacts, figure: Returned, absorbed: set[cst.CSTNode], found: Carried) -> None:
    """Return tensors, and make them numbers where callers need these."""
    dtype = dtype_of(file, figure)
    name = figure.function.name.value
    if dtype is None:
        raise CannotRewrite(f"whether `{name}` returns an integer or a float could not be shown")
    for call in _callers(file, figure):
        if call in absorbed or isinstance(file.tree.parent(call), cst.Expr):
            continue
        if figure.index is not None or file.steps.in_sight(call):
            raise CannotRewrite(f"what `{name}` returns is needed on line {file.line(call)}")
        written, required = as_number(file, call, dtype, ())
        found.edits += written
        found.imports += required
    for part in figure.parts():
        assert part is not None
        term = term_of(file, part)
        kept, needed, missing = kept_term(file, term, dtype, stored=term.reads, is_alone=False)
        found.edits += kept
        found.imports += needed
        found.doubts += missing
    if is_exposed(file, figure.function):
        found.doubts.append(f"other files may call `{name}`, and would get a tensor")
