"""What rules report: a `Finding` carries its `Edit`s or its refusal. Plain data, which needs no parser to be read."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

from attrs import frozen


class Numerics(str, enum.Enum):
    """How far the results of a rewritten step may lie from the original's; picks the test that has to prove it."""

    BITWISE = "bitwise"
    """Equal bits: losses, gradients, parameters, printed figures."""
    ROUNDING = "rounding"
    """The same mathematics in another order of operations."""
    SAMPLING = "sampling"
    """The same distribution, other random draws."""
    PRECISION = "precision"
    """Other number formats or kernels: AMP, TF32, compile, fused kernels."""
    BEHAVIOURAL = "behavioural"
    """The training itself changes: batch size, dropped guards."""

    @property
    def words(self) -> str:
        """What that means for results, for somebody who does not know the names."""
        return _NUMERICS_WORDS[self]

    def is_within(self, widest: Numerics) -> bool:
        """Whether results lie no further apart than another class allows."""
        order = list(Numerics)
        return order.index(self) <= order.index(widest)


_NUMERICS_WORDS: Final[Mapping[Numerics, str]] = {
    Numerics.BITWISE: "equal to the last bit",
    Numerics.ROUNDING: "the same mathematics in another order of operations, equal up to rounding",
    Numerics.SAMPLING: "the same distribution, other random draws",
    Numerics.PRECISION: "other number formats or kernels, which may differ by more than rounding",
    Numerics.BEHAVIOURAL: "the training itself changes",
}


class Safety(str, enum.Enum):
    """What may be done with one finding, from what could be proven in the code at hand."""

    SAFE = "safe"
    """Applied by default."""
    LOW_IMPACT = "low-impact"
    """As safe, and worth little: applied with `--low-impact`."""
    UNSAFE = "unsafe"
    """An open question: right in the usual case, but something could not be shown. Applied with `--unsafe`."""
    OPT_IN = "opt-in"
    """Applied only when the rule is selected by its code or name, or by a preset."""
    ADVICE = "advice"
    """Reported, never rewritten."""


class Family(str, enum.Enum):
    """The folder a rule lives in, and the hundred its code belongs to."""

    SYNCS = "syncs"
    FEEDING = "feeding"
    COMPUTE = "compute"
    LEFTOVERS = "leftovers"


class Status(str, enum.Enum):
    """Whether a rule's behaviour may still change between minor versions."""

    STABLE = "stable"
    PREVIEW = "preview"


@frozen(order=True)
class Edit:
    """Replaces the characters `start` to `end` of the file's text by `replacement`; an insertion has `start == end`.

    Offsets count characters of `Source.text` (the decoded file without its byte order mark, line endings as they are).
    `path` is that of the file's `Source`; empty for the file of the finding.
    """

    start: int
    end: int
    replacement: str
    path: str = ""

    def overlaps(self, other: Edit) -> bool:
        """Whether both begin at the same place or share a character, so that the order would matter."""
        meet = self.start == other.start or (self.start < other.end and other.start < self.end)
        return meet and self.path == other.path


@frozen(order=True)
class Change:
    """What a finding changes in one file.

    Attributes:
        path: that of the file's `Source`; empty for the file of the finding.
        edits: what to write instead.
        imports: modules that the new code needs, as they stand behind `import` (`"os"`, `"torch"`), or the whole of
            `"from module import name"`.
        definitions: module-level statements that the new code needs, such as a class; findings that ask for the same
            share it.
        is_new: whether the file is not there and `edits` is its whole text.
    """

    path: str = ""
    edits: tuple[Edit, ...] = ()
    imports: tuple[str, ...] = ()
    definitions: tuple[str, ...] = ()
    is_new: bool = False


@frozen(order=True)
class Question:
    """What could not be shown about a piece of code, asked so that a person or a run can answer it with yes.

    Attributes:
        predicate: what is asked, see `perfmod.transforms.questions`: `is-scalar`, `may-have-workers`.
        expression: the code that it is asked about.
        line, column: where that starts, from 1.
        path: the file that it stands in; empty for the file of the finding.
        watchable: whether watching a run answers it: the shape, type, device or alias of a value, not that something
            never happens.
        cell: in what the engine hands out, the cell of a notebook in which line and column count, from 1.
    """

    predicate: str
    expression: str
    line: int
    column: int
    path: str = ""
    watchable: bool = False
    cell: int | None = None


@frozen
class PlacedEdit:
    """An edit for somebody who has the files open; lines and columns count from 1, ends lie behind the last character.

    Attributes:
        path: the file.
        cell: in a notebook, the place among all cells, from 1, to whose code the lines count.
        replacement: what stands there instead.
    """

    path: str
    cell: int | None
    line: int
    column: int
    end_line: int
    end_column: int
    replacement: str


@frozen(order=True)
class Place:
    """What tells a finding apart in all states of the files: its rule, and where it starts in the file as given."""

    path: str
    code: str
    start: int


@frozen
class Finding:
    """One place where a rule saw its pattern: an atomic set of edits, or a refusal.

    Attributes:
        code: the rule's code, such as `PM101`.
        start, end: the characters of `Source.text` that show the pattern.
        line, column: where it starts, both from 1.
        end_line, end_column: in what the engine hands out, where it ends, behind its last character.
        cell: in what the engine hands out, the place among all cells of the notebook, from 1, whose line that is; None
            for other files.
        message: what is wrong here, in one line.
        reason: in one line, why the rewrite is right; or what could not be shown; or why the code
            stays as it is.
        safety: what may be done with it.
        numerics: how far results may move, for this finding.
        min_torch: the oldest torch version that has what the rewrite relies on.
        edits, imports, definitions: what to write instead in the finding's own file, see `Change`.
        elsewhere: what to change in other files. All edits of a finding are applied together or not at all; refusals
            and advice have none.
        refused: whether the pattern stays as it is because a rewrite could change the training.
        scope: dotted place in the file, such as `MaskedLoss.forward`; empty at module level.
        snippet: the code of the pattern, part of the fingerprint.
        step_in_sight: whether a training step that reaches this code was seen in the file.
        unnamed: in what the engine hands out, the files that it would change and that nobody asked to be changed.
        placed: in what the engine hands out, its edits of the files as they were given if it alone is applied, with
            the imports and definitions that are missing; None where there is no such state: it is only right on top
            of others, or its imports would have to stand where it writes.
        builds_on: in what the engine hands out, those others.
        figures_may_differ: whether figures that are only shown or logged may differ by a rounding of float32; the
            training is as `numerics` says.
        questions: what is open, where the safety is `unsafe`.
        observed: what a run showed of that, where it answered all of it with yes.
        fingerprint: in what the engine hands out, sixteen hexadecimal digits that survive edits elsewhere in the file
            and another formatting of its code, see `perfmod.transforms.fingerprint`.
    """

    code: str
    start: int
    end: int
    line: int
    column: int
    message: str
    reason: str
    safety: Safety
    numerics: Numerics
    min_torch: str
    edits: tuple[Edit, ...] = ()
    imports: tuple[str, ...] = ()
    definitions: tuple[str, ...] = ()
    elsewhere: tuple[Change, ...] = ()
    refused: bool = False
    scope: str = ""
    snippet: str = ""
    step_in_sight: bool = True
    figures_may_differ: bool = False
    questions: tuple[Question, ...] = ()
    cell: int | None = None
    unnamed: tuple[str, ...] = ()
    end_line: int = 0
    end_column: int = 0
    placed: tuple[PlacedEdit, ...] | None = None
    builds_on: tuple[Place, ...] = ()
    observed: tuple[str, ...] = ()
    fingerprint: str = ""

    @property
    def changes(self) -> tuple[Change, ...]:
        """What it changes, by file; its own comes first, whether or not it is changed."""
        return (Change("", self.edits, self.imports, self.definitions), *self.elsewhere)
