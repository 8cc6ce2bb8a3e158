"""What worker code reads of the modules, and what runs again where workers import these modules again."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from attrs import define, field

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition, Read
from perfmod.transforms.facts.tree import walk
from perfmod.transforms.facts.worker_code import WorkerCode


@define(eq=False)
class Reads:
    """What the code of workers reads.

    Attributes:
        code: what runs in a worker, and the class bodies without their methods.
        found: definitions of modules, classes and functions among them, with one use of each.
        words: the names of all attributes, and all texts, that the code mentions.
        handed_on: whether it reads such a definition as a whole, so that more may be read than it mentions.
    """

    code: list[cst.CSTNode] = field(factory=list)
    found: dict[Definition, Read] = field(factory=dict)
    words: set[str] = field(factory=set)
    handed_on: bool = False

    def nodes(self) -> Iterator[cst.CSTNode]:
        """Every node of the code."""
        for part in self.code:
            yield from walk(part)

    def mentions(self, word: str | None) -> bool:
        """Whether an attribute or an item of this name may be read; `None` if the name is not known."""
        return word is None or self.handed_on or word in self.words


def reads(file: FileFacts, work: WorkerCode) -> Reads:
    """What the workers read. Methods that only the training runs, such as the constructor of a dataset, are no part."""
    found = Reads()
    own = dict.fromkeys(base for cls in work.classes for base in cls.lineage())
    stack: list[cst.CSTNode] = list(work.functions)
    for cls in own:
        stack += [part for part in cls.node.body.body if not isinstance(part, cst.FunctionDef)]
        found.words |= cls.methods.keys()
    seen = {*stack, *(cls.node for cls in own)}
    while stack:
        part = stack.pop()
        found.code.append(part)
        for node in walk(part):
            for definition in _of_modules(file, node):
                assert isinstance(node, (cst.Name, cst.Attribute))
                found.found.setdefault(definition, node)
                parent = file.tree.parent(node)
                is_part = isinstance(parent, (cst.Attribute, cst.Subscript)) and parent.value is node
                found.handed_on |= definition.binding is Binding.ASSIGNED and not is_part
                if definition.binding is Binding.DEFINED and definition.node not in seen:
                    seen.add(definition.node)
                    stack.append(definition.node)
            if isinstance(node, cst.Attribute):
                found.words.add(node.attr.value)
            elif isinstance(node, cst.SimpleString):
                found.words.add(str(node.evaluated_value))
    return found


def is_repeated(file: FileFacts, node: cst.CSTNode) -> bool:
    """Whether what stands at a top level runs again in a worker that imports its module: no cell, and no guard."""
    return file.tree.function(node) is None and not file.source_of(node).has_cells and not file.entry.is_guarded(node)


def repeated(file: FileFacts, node: cst.CSTNode) -> list[cst.CSTNode] | None:
    """The places of top levels that run some code in every worker; `None` if the training (also) runs it otherwise."""
    places = list(file.entry.runs(node))
    return places if places and all(is_repeated(file, place) for place in places) else None


def _of_modules(file: FileFacts, node: cst.CSTNode) -> Iterator[Definition]:
    if file.flow.is_variable(node) and (isinstance(node, cst.Attribute) or file.flow.is_read(node)):
        yield from (each for each in file.flow.definitions(node) if isinstance(each.scope, cst.Module))
