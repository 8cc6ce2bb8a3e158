"""What is reviewed: one finding with its diffs from all files, its proof, and what was decided. Plain data."""

from __future__ import annotations

import enum

from attrs import frozen

from perfmod.report.rows import FindingRow


class Verdict(str, enum.Enum):
    """What a person decided about a finding."""

    UNDECIDED = "undecided"
    ACCEPTED = "accepted"
    REJECTED = "rejected"


@frozen
class Line:
    """One line of a hunk.

    Attributes:
        sign: a space for context, `-` for a line that goes, `+` for one that comes.
        text: without its line ending; undecodable and control characters are escaped.
    """

    sign: str
    text: str


@frozen
class Hunk:
    """Lines of a file that change, with some around them.

    Attributes:
        old_start, new_start: the number of its first line before and after, from 1.
    """

    old_start: int
    new_start: int
    lines: tuple[Line, ...]


@frozen
class Diff:
    """What a finding changes in one file, or in one cell of a notebook.

    Attributes:
        path: of the file, as the user would write it.
        cell: the place of the cell among all cells, from 1, to whose code the lines count; None for other files.
        is_new: whether there is no such file before.
    """

    path: str
    cell: int | None
    hunks: tuple[Hunk, ...]
    is_new: bool = False

    @property
    def name(self) -> str:
        """Whose diff it is, as it is printed."""
        cell = "" if self.cell is None else f", cell {self.cell}"
        return f"{self.path}{cell}{' (new file)' if self.is_new else ''}"


@frozen
class Proof:
    """What `perfmod verify` found out about the finding's rule in a script that runs this code.

    Attributes:
        verdict: of the training with the rule: `proven`, `refuted`, `inconclusive`.
        ratio, low, high: time of a step before over after, with its 95 % interval; None where it was not timed.
        syncs_removed: implicit synchronisations per step that went; None where unknown.
        where: GPU and torch version, or the device.
        source: the `evidence.json` that says so.
        is_stale: whether the code that was run has changed since.
        together: the codes of the rules that `ratio` is about, where it was not measured for the finding's own alone.
    """

    verdict: str
    ratio: float | None
    low: float | None
    high: float | None
    syncs_removed: float | None
    where: str
    source: str
    is_stale: bool
    together: tuple[str, ...] = ()


@frozen
class Item:
    """One finding to decide about.

    Attributes:
        key: names it within a review: path, fingerprint and occurrence.
        path: its file as decisions name it, from the root of the project.
        occurrence: which of the findings of its file with the same fingerprint it is, from 1. of: how many there are.
        code: the first line of its code, for readers.
        finding: what is printed of it.
        diffs: what it alone changes, its own file first.
        builds_on: the keys of items whose rewrites it changes further; it cannot be had without them.
        proof: None where no verification speaks of it.
        verdict: what was decided.
        note: why, in the words of who decided; mostly empty.
    """

    key: str
    path: str
    occurrence: int
    of: int
    code: str
    finding: FindingRow
    diffs: tuple[Diff, ...]
    builds_on: tuple[str, ...] = ()
    proof: Proof | None = None
    verdict: Verdict = Verdict.UNDECIDED
    note: str = ""
