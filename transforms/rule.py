"""A `Rule` reads the facts of a file and reports `Finding`s.

A rule never touches a file. It says what it saw, what it would write instead, and how far the rewrite could be
proven; the engine (`perfmod.codemods.engine`) alone decides what is applied and puts it into the text.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, ClassVar

from attrs import evolve

from perfmod.transforms.card import Card
from perfmod.transforms.facts.idle import why_idle
from perfmod.transforms.finding import Change, Edit, Family, Finding, Numerics, Question, Safety, Status
from perfmod.transforms.questions import Predicate

if TYPE_CHECKING:
    import libcst as cst

    from perfmod.transforms.facts.file import FileFacts


class Rule(ABC):
    """One rewrite. A subclass stands alone in a file named after it and is found by importing the folder.

    The class attributes are the rule's page: they are printed by `perfmod explain` and rendered into `docs/rules/`.
    The docstring of the subclass's module explains the pattern to somebody who meets it for the first time.
    """

    code: ClassVar[str]
    """`PM` and three digits; the first digit is the family's."""
    name: ClassVar[str]
    """Kebab-case, named for the bad pattern; also the name of its folder in `golden/`."""
    family: ClassVar[Family]
    summary: ClassVar[str]
    """The bad pattern, in one line."""
    fix_title: ClassVar[str]
    """What the rewrite does, in a few words, imperative."""
    numerics: ClassVar[Numerics]
    """The widest class that its findings have by default."""
    safety: ClassVar[Safety]
    """What its findings are when everything could be proven."""
    min_torch: ClassVar[str]
    """The oldest torch version that has what the rewrite writes."""
    status: ClassVar[Status]
    triggers: ClassVar[frozenset[str]]
    """A file that holds none of these words cannot match and is not parsed."""
    references: ClassVar[tuple[str, ...]]
    changes_results: ClassVar[str]
    """The paragraph “When this changes results”."""
    comes_first: ClassVar[bool] = False
    """It replaces what other rules would improve: where their edits get in each other's way, theirs are not made."""

    @property
    def card(self) -> Card:
        """What is known of it without its code."""
        kind = type(self)
        triggers = tuple(sorted(self.triggers))
        return Card(self.code, self.name, self.family, self.safety, triggers, kind.__module__, kind.__qualname__)

    @abstractmethod
    def check(self, file: FileFacts) -> Iterator[Finding]:
        """Report every place of `file` that shows the pattern, with what becomes of each."""
        raise NotImplementedError

    def found(
        self,
        file: FileFacts,
        node: cst.CSTNode,
        reason: str,
        edits: Iterable[Edit],
        *,
        message: str | None = None,
        safety: Safety | None = None,
        numerics: Numerics | None = None,
        min_torch: str | None = None,
        imports: Iterable[str] = (),
        definitions: Iterable[str] = (),
        elsewhere: Iterable[Change] = (),
        figures_may_differ: bool = False,
        questions: Iterable[Question] = (),
    ) -> Finding:
        """A finding at `node` with its rewrite; `safety`, `numerics` and `min_torch` are the rule's unless given.

        `node` stands in `file`. Edits may lie in several files; `elsewhere` says what else other files need. What would
        be safe is of low impact where no training step or evaluation runs the code. What the project answers with yes
        is not open.
        """
        start, end = file.source.span(node)
        line, column = file.source.position(start)
        own, *others = _by_file(file.source.path, edits, elsewhere)
        safety = safety or self.safety
        asked = tuple(questions)
        if file.policy.answers(asked):
            safety = Safety.SAFE if safety is Safety.UNSAFE else safety
            reason = f"{reason}; assumed: {', '.join(dict.fromkeys(each.predicate for each in asked))}"
            asked = ()
        idle = why_idle(file, node) if safety is not Safety.ADVICE else None
        if idle is not None:
            safety, reason = Safety.LOW_IMPACT if safety is Safety.SAFE else safety, f"{reason}; {idle}"
        return Finding(
            code=self.code,
            start=start,
            end=end,
            line=line,
            column=column,
            message=message or self.summary,
            reason=_in_one_line(reason),
            safety=safety,
            numerics=numerics or self.numerics,
            min_torch=min_torch or self.min_torch,
            edits=own.edits,
            imports=(*imports, *own.imports),
            definitions=(*definitions, *own.definitions),
            elsewhere=tuple(others),
            scope=file.scope_name(node),
            snippet=file.source.text[start:end],
            step_in_sight=file.steps.in_sight(node),
            figures_may_differ=figures_may_differ,
            questions=asked,
        )

    def refused(self, file: FileFacts, node: cst.CSTNode, reason: str, *, message: str | None = None) -> Finding:
        """A finding at `node` that is left as it is, with the reason in one line."""
        return evolve(self.found(file, node, reason, (), message=message, safety=Safety.ADVICE), refused=True)


def question(file: FileFacts, predicate: Predicate, node: cst.CSTNode, *, watchable: bool = False) -> Question:
    """What is asked about a node, which may stand in another file."""
    source = file.source_of(node)
    line, column = source.position(source.span(node)[0])
    path = "" if source is file.source else source.path
    return Question(predicate.value, _in_one_line(source.code(node)), line, column, path, watchable)


def _in_one_line(reason: str) -> str:
    """A reason in which quoted code that goes over several lines stands in one."""
    bracketed = re.sub(r"(?<=[(\[{])\s*\n\s*|,?\s*\n\s*(?=[)\]}])", "", reason)
    return re.sub(r"\s*\\?\n\s*", " ", bracketed)


def _by_file(own: str, edits: Iterable[Edit], further: Iterable[Change]) -> list[Change]:
    """Edits and other needs of one finding, by file: first those of the file `own`, then the others by path."""
    changes = {"": Change()}
    for change in (*(Change(edit.path, (edit,)) for edit in edits), *further):
        path = "" if change.path == own else change.path
        known = changes.get(path, Change(path))
        changes[path] = Change(
            path,
            (*known.edits, *(evolve(edit, path="") for edit in change.edits)),
            (*known.imports, *change.imports),
            (*known.definitions, *change.definitions),
            change.is_new,
        )
    return [evolve(change, edits=tuple(sorted(change.edits))) for _, change in sorted(changes.items())]
