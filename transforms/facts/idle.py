"""Code that no training runs, as far as the files that are read together show: a faster line gains nothing there."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from os.path import commonpath
from pathlib import PurePath

import libcst as cst
from attrs import define, frozen

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import dotted
from perfmod.transforms.facts.programs import imports, reached_from
from perfmod.transforms.facts.tree import children, find_any

_PASSIVE = frozenset({"abstractmethod", "classmethod", "no_grad", "property", "staticmethod", "inference_mode"})
"""Decorators that leave it to others to call what they decorate; any other may be what uses it."""
_TRAINS = re.compile(r"backward|^\.?fit|optim|training_step|[tT]rainer|^train(_.*)?(epoch|step|loop|model|net|\(\))$")
"""What tells of a training in a name, behind which `()` stands where it is called."""

_LOOK_UPS = frozenset({"__import__", "attrgetter", "eval", "exec", "globals", "import_module", "locals", "vars"})
"""Functions that find others by texts; `getattr` does so too where its text is made."""
_SELF = frozenset({"self", "cls"})
_TESTS = frozenset({"pytest", "unittest"})

_FOUND_BY_NAME = frozenset({"__init__", "conftest", "hubconf"})
"""Files that others find by their names and import themselves."""
_OF_MODULES = frozenset({"apply", "eval", "train"})
"""Methods of `nn.Module` that functions are often called like."""


def why_idle(file: FileFacts, node: cst.CSTNode) -> str | None:
    """Why nothing is gained at a node, if so: nobody uses what it is part of, or only what never trains runs it."""
    never = next(filter(_is_never, file.tree.ancestors(node)), None)
    if never is not None:
        return f"the condition on line {file.line(never)} is never true"
    uses = file.once(_Uses.of)
    module = file.source.module
    helps = "tests" in _path(file, module)[:-1] and uses.users(module)
    if _is_unit_test(file, module) or (helps and all(_is_unit_test(file, user) for user in uses.users(module))):
        return "only unit tests run it"
    if file.world.is_beside_training(file.source) and _only_defines(file, module):
        return "nothing in the project imports this file"
    unused = [uses.unused[around] for around in file.tree.ancestors(node) if around in uses.unused]
    if unused:
        return f"`{unused[-1]}` is never used"
    if uses.only_evaluated(file.source.module):
        return "this script only evaluates"
    return None


def _is_never(node: cst.CSTNode) -> bool:
    """Whether a node is `if False:`, or a loop of that kind, which has no `else`."""
    return (
        isinstance(node, (cst.If, cst.While))
        and node.orelse is None
        and isinstance(node.test, (cst.Name, cst.Integer))
        and node.test.value in ("False", "0")
    )


def _is_unit_test(file: FileFacts, module: cst.Module) -> bool:
    """Whether a file is called or placed like tests and holds some; a `test.py` that evaluates a model holds none."""
    *folders, stem = _path(file, module)
    if not stem.startswith("test_") and not stem.endswith("_test") and not {"test", "tests"} & set(folders):
        return False
    names, imported = _names(module)
    # What pytest collects is not called; `test_epoch(model, loader)` of a script is.
    functions = [each.name.value for each in module.body if isinstance(each, cst.FunctionDef)]
    return bool(_TESTS & imported) or any(name.startswith("test_") and f"{name}()" not in names for name in functions)


def _path(file: FileFacts, module: cst.Module) -> tuple[str, ...]:
    """The folders and the name of a file; of an absolute path those below the folder that holds all files read here."""
    path = PurePath(file.source_of(module).path)
    if path.is_absolute():
        folders = (PurePath(file.source_of(each).path).parent for each in file.tree.modules)
        path = path.relative_to(commonpath(folders))
    return (*path.parts[:-1], path.stem)


@frozen
class _Part:
    """A function, a method, or the rest of a class or of a file.

    Attributes:
        module: the file that it stands in.
        node: what it is; a class without its methods, a file without its functions and classes.
        name: its name.
        names: all names that stand in it, but for imports; with `()` once more where they are called, and with a dot in
            front where they are attributes or texts: of the former those that may be a module's with a colon once
            more, of the latter all in quotes.
        imported: the names in its imports; none of a package's `__init__`, which only hands them on.
        owner: a method's class.
        is_taken: whether it is used without being named: what runs on import, what a decorator may register, and
            what a class's base may call.
    """

    module: cst.Module
    node: cst.CSTNode
    name: str
    names: frozenset[str]
    imported: frozenset[str]
    owner: cst.ClassDef | None = None
    is_taken: bool = False

    def is_used(
        self,
        named: Collection[str],
        of_modules: Collection[tuple[cst.Module, str]],
        used: Collection[cst.CSTNode],
    ) -> bool:
        """Whether it is, if `used` are known to be, `named` stand in them, and may be these `of_modules`."""
        if self.owner is None:
            return self.is_taken or (self.module, self.name) in of_modules
        return self.owner in used and (self.is_taken or f".{self.name}" in named or self.name in named)


@define(eq=False)
class _Uses:
    """What the files use of each other.

    Names of methods are compared without asking what they stand for, so that what is unused is unused whoever calls
    it. What a file defines itself is named by itself, by what imports the name from it or from files that hand it on,
    and by attributes of anything but `self`. What is run or given alone may be used from elsewhere.

    Attributes:
        parts: what the files are made of; one that is no library, which others import, is one part.
        imports: the libraries that each file imports.
        libraries: all of them.
        origins: where the names may be defined that each file imports from others, by name; `*` for all others.
        looks_up: whether any file finds functions by texts.
    """

    parts: Mapping[cst.Module, Collection[_Part]]
    imports: Mapping[cst.Module, Collection[cst.Module]]
    libraries: Collection[cst.Module]
    origins: Mapping[cst.Module, Mapping[str, Collection[cst.Module]]]
    looks_up: bool

    @classmethod
    def of(cls, file: FileFacts) -> _Uses:
        known = {
            module: {each for each in imported if not file.flow.is_open(each)}
            for module, imported in file.once(imports).items()
        }
        libraries = set().union(*known.values())
        parts = {each: tuple(_parts(file, each, each in libraries)) for each in known}
        return cls(parts, known, libraries, _origins(file), _looks_up(file))

    def users(self, module: cst.Module) -> list[cst.Module]:
        """The files that import one."""
        return [each for each, imported in self.imports.items() if module in imported]

    @cached_property
    def unused(self) -> Mapping[cst.CSTNode, str]:
        """Functions, classes and methods of libraries that no file names, with their names."""
        used = {part.node for part in self._used(self.parts)}
        return {part.node: part.name for parts in self.parts.values() for part in parts if part.node not in used}

    def only_evaluated(self, module: cst.Module) -> bool:
        """Whether all that runs a file are programs that do not train."""
        programs = [
            each for each in self.parts if each not in self.libraries and module in reached_from(each, self.imports)
        ]
        return bool(programs) and all(map(_is_program, programs)) and not any(map(self._trains, programs))

    def _trains(self, program: cst.Module) -> bool:
        if program not in self._training:
            (own,) = self.parts[program]
            known = any(map(_TRAINS.search, own.names))
            further = () if known else self._used(reached_from(program, self.imports))
            self._training[program] = known or any(_TRAINS.search(name) for part in further for name in part.names)
        return self._training[program]

    @cached_property
    def _training(self) -> dict[cst.Module, bool]:
        """Whether programs train, as far as it was asked."""
        return {}

    def _used(self, modules: Iterable[cst.Module]) -> list[_Part]:
        """The parts of some files that are used by them."""
        waiting = [part for module in modules for part in self.parts[module]]
        named, nodes, used = set[str](), set[cst.CSTNode](), list[_Part]()
        of_modules = set[tuple[cst.Module, str]]()
        while found := [part for part in waiting if part.is_used(named, of_modules, nodes)]:
            used += found
            nodes.update(part.node for part in found)
            named.update(name for part in found for name in (*part.names, *part.imported))
            of_modules.update(pair for part in found for pair in self._of_modules(part))
            waiting = [part for part in waiting if part.node not in nodes]
        return used

    def _of_modules(self, part: _Part) -> Iterator[tuple[cst.Module, str]]:
        """What files define themselves and a part may mean by its names."""
        own, origins = part.module, self.origins[part.module]
        for name in (*part.names, *part.imported):
            word = name.strip(":'")
            for module in self._defined.get(word, ()):
                if name.startswith(":"):
                    is_meant = word not in _OF_MODULES
                elif name.startswith("'"):
                    is_meant = self.looks_up and word not in _OF_MODULES
                else:
                    is_meant = module in origins.get(word, ()) or module in origins.get("*", ())
                if is_meant or module is own:
                    yield module, word

    @cached_property
    def _defined(self) -> Mapping[str, Collection[cst.Module]]:
        """The files that define a name themselves."""
        found: dict[str, list[cst.Module]] = {}
        for part in (part for parts in self.parts.values() for part in parts if part.owner is None):
            found.setdefault(part.name, []).append(part.module)
        return found


def _origins(file: FileFacts) -> Mapping[cst.Module, Mapping[str, Collection[cst.Module]]]:
    """Where the names may be defined that each file imports from others, by name; what is not found may be in any."""
    known = file.once(imports)
    found: dict[cst.Module, dict[str, set[cst.Module]]] = {module: {} for module in known}
    reached: dict[cst.Module, set[cst.Module]] = {}
    for alias in (*file.tree.all(cst.ImportAlias), *file.tree.all(cst.ImportStar)):
        statement = file.tree.parent(alias)
        if not isinstance(statement, cst.ImportFrom):
            continue
        sources = file.flow.imported(alias)
        for source in sources - reached.keys():
            reached[source] = reached_from(source, known)
        name = dotted(alias.name) if isinstance(alias, cst.ImportAlias) else "*"
        modules = set().union(*(reached[source] for source in sources)) if sources else set(known)
        found[file.tree.module_of(alias)].setdefault(name, set()).update(modules)
    return found


def _looks_up(file: FileFacts) -> bool:
    """Whether any file finds functions by texts: `getattr(losses, name)`, but not `getattr(torch.nn, name)`."""
    for call in file.tree.all(cst.Call):
        name = dotted(call.func)
        if name.rpartition(".")[2] in _LOOK_UPS and not name.endswith(".eval"):
            return True
        if name != "getattr" or len(call.args) < 2 or isinstance(call.args[1].value, cst.SimpleString):
            continue
        owner = call.args[0].value
        is_self = isinstance(owner, cst.Name) and owner.value in _SELF
        if not is_self and not (file.qualified(owner) or "").startswith("torch"):
            return True
    names = map(dotted, file.tree.all(cst.Attribute))
    return any(name == "sys.modules" or (name.endswith(".__dict__") and name != "self.__dict__") for name in names)


def _parts(file: FileFacts, module: cst.Module, is_library: bool) -> Iterator[_Part]:
    inner = [each for each in module.body if isinstance(each, (cst.FunctionDef, cst.ClassDef))] if is_library else []
    hands_on = PurePath(file.source_of(module).path).stem == "__init__"
    exports = [each for each in module.body if hands_on and "__all__" in _names(each)[0]]
    names, imported = _names(module, [*inner, *exports])
    yield _Part(module, module, "", names, _renamed(module) if hands_on else imported, is_taken=True)
    for node in inner:
        methods: list[cst.FunctionDef] = []
        if isinstance(node, cst.ClassDef):
            methods = [each for each in node.body.body if isinstance(each, cst.FunctionDef)]
            for method in methods:
                is_taken = _is_registered(method) or _may_be_hook(file, node, method)
                yield _Part(module, method, method.name.value, *_names(method), node, is_taken)
        yield _Part(module, node, node.name.value, *_names(node, methods), is_taken=_is_registered(node))


def _renamed(module: cst.Module) -> frozenset[str]:
    """The names that a package hands on under other names."""
    aliases = (each for each in find_any(module, cst.ImportAlias) if isinstance(each, cst.ImportAlias))
    return frozenset(dotted(each.name) for each in aliases if each.asname is not None)


def _is_registered(node: cst.FunctionDef | cst.ClassDef) -> bool:
    return any(name not in _PASSIVE for name in _decorators(node))


def _decorators(node: cst.FunctionDef | cst.ClassDef) -> list[str]:
    """The last names of a function's or class's decorators."""
    decorators = (decorator.decorator for decorator in node.decorators)
    named = (each.func if isinstance(each, cst.Call) else each for each in decorators)
    return [dotted(each).rpartition(".")[2] for each in named]


def _may_be_hook(file: FileFacts, cls: cst.ClassDef, method: cst.FunctionDef) -> bool:
    """Whether others than its class's own users may call a method: Python, a base out of sight, or `nn.Module`."""
    name = method.name.value
    bases = {file.qualified(base.value) or "" for base in cls.bases}
    return name == "forward" or name.startswith("__") or not bases <= {"torch.nn.Module", "builtins.object"}


def _names(node: cst.CSTNode, without: Collection[cst.CSTNode] = ()) -> tuple[frozenset[str], frozenset[str]]:
    """The names in the code of a node, as `_Part` has them, and those in its imports."""
    names, imported = set[str](), set[str]()
    waiting: list[tuple[cst.CSTNode, set[str]]] = [(node, names)]
    while waiting:
        each, found = waiting.pop()
        parts = children(each)
        if isinstance(each, cst.Name):
            found.add(each.value)
        elif isinstance(each, cst.Attribute):
            found.add(f".{each.attr.value}")
            if not (isinstance(each.value, cst.Name) and each.value.value in _SELF):
                found.add(f":{each.attr.value}")
            parts = [each.value]
        elif isinstance(each, cst.Arg):
            parts = [each.value]
        elif isinstance(each, cst.SimpleString) and each.raw_value.isidentifier():
            found |= {f".{each.raw_value}", f"'{each.raw_value}'"}
        if isinstance(each, cst.Call) and isinstance(each.func, cst.Name):
            found.add(f"{each.func.value}()")
            texts = (arg.value for arg in each.args[1:2] if each.func.value == "getattr")
            found |= {f":{text.raw_value}" for text in texts if isinstance(text, cst.SimpleString)}
        into = imported if isinstance(each, (cst.Import, cst.ImportFrom)) else found
        waiting += ((part, into) for part in parts if part not in without)
    return frozenset(names), frozenset(imported)


def _only_defines(file: FileFacts, module: cst.Module) -> bool:
    """Whether a file holds functions and classes that nothing registers, and assigns nothing but constants."""
    if PurePath(file.source_of(module).path).stem in _FOUND_BY_NAME:
        return False
    for statement in module.body:
        if isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
            if _is_registered(statement):
                return False
        elif not isinstance(statement, cst.SimpleStatementLine) or any(
            not isinstance(small, (cst.Import, cst.ImportFrom)) and any(find_any(small, cst.Call))
            for small in statement.body
        ):
            return False
    return True


def _is_program(module: cst.Module) -> bool:
    """Whether a file does something when it is run: it has a loop on its top level, or asks whether it is run."""
    return any(
        isinstance(statement, (cst.For, cst.While))
        or (isinstance(statement, cst.If) and "__name__" in _names(statement.test)[0])
        for statement in module.body
    )
