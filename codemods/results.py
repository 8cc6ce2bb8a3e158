"""What the engine is given and what it gives back. Plain data, which needs no parser to be read."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import TYPE_CHECKING

from attrs import field, frozen

from perfmod.transforms.beside import Beside
from perfmod.transforms.finding import Finding, Numerics, Place, Safety
from perfmod.transforms.fingerprint import fingerprint
from perfmod.transforms.outside import OutsideSetting
from perfmod.transforms.policy import Policy

if TYPE_CHECKING:
    from perfmod.transforms.card import Card
    from perfmod.transforms.rule import Rule


class Outcome(str, enum.Enum):
    """What became of one file; every file has exactly one."""

    CHANGED = "changed"
    UNCHANGED = "unchanged"
    SKIPPED = "skipped"
    FAILED = "failed"


@frozen
class Choice:
    """Which findings may be applied.

    Attributes:
        unsafe: apply findings whose safety is `unsafe` too: their open questions count as answered with yes.
        opted_in: codes of the rules that were selected by code or name, which rules on request wait for, and findings
            that change the training.
        low_impact: apply what is safe and worth little, too.
        proposing: apply whatever a run can prove: what is worth little, open questions and opt-in rules, as long as
            their results lie within this class; None applies what was asked for alone.
        accepted: fingerprints of findings that a person accepted, whatever their outcome is by default.
        withheld: findings that are not applied whatever else is said.
        policy: what the project decided for all rules.
    """

    unsafe: bool = False
    opted_in: frozenset[str] = frozenset()
    low_impact: bool = False
    proposing: Numerics | None = None
    accepted: frozenset[str] = frozenset()
    withheld: Mapping[Place, Withheld] = field(factory=dict)
    policy: Policy = Policy()

    def admits(self, finding: Finding, rule: Rule | Card) -> bool:
        """Whether a finding that has edits may be applied."""
        return self.is_chosen(finding, rule) or (
            self.proposing is not None and finding.numerics.is_within(self.proposing)
        )

    def is_chosen(self, finding: Finding, rule: Rule | Card) -> bool:
        """Whether somebody asked for it or accepted it; an open question of a rule on request needs both flags."""
        if self.accepted and fingerprint(finding.code, finding.scope, finding.snippet) in self.accepted:
            return True
        if is_on_request(finding, rule) and finding.code not in self.opted_in:
            return False
        if finding.safety is Safety.LOW_IMPACT:
            return self.low_impact
        return finding.safety is not Safety.UNSAFE or self.unsafe


@frozen
class Withheld:
    """Why a finding is not applied.

    Attributes:
        is_open: whether it is right could not be decided, or was not yet; else it is wrong, not worth it, or unwanted.
        in_review: whether that is up to people.
    """

    reason: str
    is_open: bool = False
    in_review: bool = False


def is_on_request(finding: Finding, rule: Rule | Card) -> bool:
    """Whether a finding waits until its rule is selected by code or name; what changes the training always does."""
    return Safety.OPT_IN in (finding.safety, rule.safety) or finding.numerics is Numerics.BEHAVIOURAL


@frozen
class Unused:
    """A name in a `# perfmod:` comment that silences nothing although all rules that it names were run.

    Attributes:
        offset, line: where the comment starts in the text of the file as given; the line is from 1.
        kind: what it asks for: `ignore`, `ignore-file`, `off`, `on`.
        selector: the name as it is written there; `ALL` for a comment without names.
    """

    offset: int
    line: int
    kind: str
    selector: str

    @property
    def warning(self) -> str:
        """One line that says so."""
        named = "" if self.selector == "ALL" else f"[{self.selector}]"
        return f"line {self.line}: unused `# perfmod: {self.kind}{named}`"


@frozen
class FileResult:
    """One file after all rules.

    Places of the findings, and lines that their texts name, are those of the file as it was given; the
    offsets of their edits are those of the round that found them.

    Attributes:
        path: the path as given.
        outcome: see `Outcome`.
        reason: why it was skipped or failed, in one line; else empty.
        before, after: the file's bytes; equal unless the outcome is `changed`.
        applied: findings whose edits are in `after`.
        held_back: findings with edits that `Choice` did not admit: of low impact, with open questions, on request.
        refused: what is left as it is, and advice.
        suppressed: findings silenced by a `# perfmod: ignore` comment.
        rejected, undecided: findings with edits that people decided against, or have not decided about.
        warnings: what is wrong with such comments, each one line with its line number.
        unused: what of them is of no use, which is among the warnings, too.
        together: paths of the other files that applied findings changed along with this one: all of them have to be
            written, or none.
        in_part: whether it was analysed without some of the files that it belongs to, because all of them together
            are too large: less may have been found than there is.
        is_new: whether there was no such file, and `before` is empty: findings of the files in `together` create it.
        is_final: whether the same question has the same answer again; not where time ran out.
    """

    path: str
    outcome: Outcome
    before: bytes
    after: bytes
    reason: str = ""
    applied: tuple[Finding, ...] = ()
    held_back: tuple[Finding, ...] = ()
    refused: tuple[Finding, ...] = ()
    suppressed: tuple[Finding, ...] = ()
    warnings: tuple[str, ...] = ()
    unused: tuple[Unused, ...] = ()
    together: tuple[str, ...] = ()
    in_part: bool = False
    is_final: bool = True
    rejected: tuple[Finding, ...] = ()
    undecided: tuple[Finding, ...] = ()
    is_new: bool = False

    @property
    def original(self) -> bytes | None:
        """The bytes before; None where there was no file."""
        return None if self.is_new else self.before


class Part(str, enum.Enum):
    """What is done with one of several files that are read together."""

    ASKED = "asked"
    """Rules look for their patterns in it, and it is rewritten."""
    PARTNER = "partner"
    """No rule is asked about it; it is rewritten where a finding of another file has edits in it."""
    UNNAMED = "unnamed"
    """It belongs to the project, and nobody asked for changes in it: a finding that would edit it is held back."""
    READ = "read"
    """Only facts are taken from it. A finding that would have to edit it is refused."""
    NEW = "new"
    """It is not there, and has no data: findings of files that name it as `beside` may write it as a whole."""


@frozen
class Pin:
    """What a project says of the torch that it runs with.

    Attributes:
        newest: the newest version that it allows, as far as it says: `(1, 6)` stands for every 1.6.
        said: where it says so, for messages.
    """

    newest: tuple[int, ...]
    said: str

    def allows(self, version: str) -> bool:
        """Whether a version, `1.12`, is allowed."""
        return tuple(map(int, version.split(".")))[: len(self.newest)] <= self.newest


@frozen
class Given:
    """One of several files that are read together.

    Attributes:
        path: the path as the user would write it, unique among the files. A file called `__init__.py` is its package.
        data: its bytes.
        modules: the dotted names by which other files may import it, such as `("engine", "src.engine")`; empty for a
            script that nobody can import.
        imports: the paths, among the files, of what it imports, by dotted name as it is written there: `engine`,
            `pkg.loop`, `.loop`, `..data.loaders`, and for `from pkg import loop` both `pkg` and `pkg.loop`. What is
            not in it is no file of these. None where nobody has looked; then `modules` tell.
        part: see `Part`.
        imported_elsewhere: whether files that are not among these import it, too: its callers are not all to be seen.
        is_beside_training: whether other files of its project train, and none of them imports this one, which was found
            and not given by name.
        pin: what its project says of torch, if it does.
        forks_by_default: whether its project asks for a Python that forks processes by default on Linux, below 3.14.
        outside: what files of its project that are no Python set to 0.
        why_read: of a file of which only facts are taken, why that is so: `belongs to another part of a large project`.
        ignored: codes of rules that are not asked about it.
        beside: the file beside it in which rules may put code; None where none may be written.
    """

    path: str
    data: bytes
    modules: tuple[str, ...] = ()
    imports: Mapping[str, str] | None = None
    part: Part = Part.ASKED
    imported_elsewhere: bool = False
    is_beside_training: bool = False
    pin: Pin | None = None
    forks_by_default: bool = False
    outside: tuple[OutsideSetting, ...] = ()
    why_read: str = ""
    ignored: tuple[str, ...] = ()
    beside: Beside | None = None
