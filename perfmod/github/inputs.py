"""What a workflow asks the action for."""

from __future__ import annotations

import enum
import shlex
from collections.abc import Mapping
from typing import TypeVar

from attrs import frozen

from perfmod.errors import UsageMistake

_Choice = TypeVar("_Choice", bound=enum.Enum)


class Mode(str, enum.Enum):
    """Where findings are shown; the summary of the job has them in every mode."""

    REVIEW = "review"
    """As one review of the pull request, with suggestions."""
    ANNOTATE = "annotate"
    """As annotations of the job, which need no token."""
    SARIF = "sarif"
    """In a file for GitHub's code scanning, with all findings."""
    SUMMARY = "summary"
    """In the summary only."""


class FailOn(str, enum.Enum):
    """What fails the job, each with those before it; a mistake in the workflow always does."""

    NEVER = "never"
    ERROR = "error"
    """A file could not be analysed, or GitHub could not be reached."""
    FINDING = "finding"
    """`perfmod apply` would rewrite something in the lines that are looked at."""


@frozen
class Inputs:
    """The inputs of `action.yml`.

    Attributes:
        paths, args: of `perfmod check`.
        token: for the review; empty where there is none.
        max_comments: of one pull request, over all runs.
    """

    paths: tuple[str, ...]
    args: tuple[str, ...]
    mode: Mode
    fail_on: FailOn
    token: str
    max_comments: int

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Inputs:
        """Reads them as `action.yml` hands them over. Raises `UsageMistake`."""

        def given(name: str, default: str) -> str:
            variable = f"PERFMOD_ACTION_{name.upper().replace('-', '_')}"
            return environment.get(variable, "").strip() or default

        def words(name: str, default: str) -> tuple[str, ...]:
            try:
                return tuple(shlex.split(given(name, default)))
            except ValueError as error:
                raise UsageMistake(f"input {name}: {error}") from error

        most = given("max-comments", "20")
        if not most.isdecimal():
            raise UsageMistake(f"input max-comments: {most!r} is no number")
        return cls(
            paths=words("paths", "."),
            args=words("args", ""),
            mode=_one_of(Mode, "mode", given("mode", Mode.REVIEW.value)),
            fail_on=_one_of(FailOn, "fail-on", given("fail-on", FailOn.NEVER.value)),
            token=given("token", ""),
            max_comments=int(most),
        )


def _one_of(kind: type[_Choice], name: str, value: str) -> _Choice:
    try:
        return kind(value)
    except ValueError as error:
        raise UsageMistake(f"input {name}: {value!r} is none of {', '.join(each.value for each in kind)}") from error
