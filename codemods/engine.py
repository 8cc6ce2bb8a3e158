"""Source and rules in, a `FileResult` out: findings, edits, rounds, checks. No I/O."""

from __future__ import annotations

import enum
from collections.abc import Sequence

from attrs import frozen

from perfmod.transforms.rule import Finding, Rule


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
        unsafe: apply findings whose safety is `unsafe` too.
        opted_in: codes of the opt-in rules that were selected by code or name.
    """

    unsafe: bool = False
    opted_in: frozenset[str] = frozenset()


@frozen
class FileResult:
    """One file after all rules. Lines and columns of the findings are those of the file as it was given.

    Attributes:
        path: the path as given.
        outcome: see `Outcome`.
        reason: why it was skipped or failed, in one line; else empty.
        before, after: the file's bytes; equal unless the outcome is `changed`.
        applied: findings whose edits are in `after`.
        held_back: findings with edits that `Choice` did not admit (unsafe, opt-in).
        refused: refusals and advice.
        suppressed: findings silenced by a `# perfmod: ignore` comment.
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


def rewrite(data: bytes, path: str, rules: Sequence[Rule], choice: Choice = Choice()) -> FileResult:
    """Check one file against `rules` and put the admitted rewrites into its text.

    Never raises for what a file holds: a file that cannot be read as Python comes back as `failed` with the reason.
    """
    raise NotImplementedError
