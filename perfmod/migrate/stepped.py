"""A series of rewrites as the steps of a project, with the files that they come as."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from perfmod import disk
from perfmod.migrate.results import Step
from perfmod.patches.mail import Author
from perfmod.patches.messages import Message
from perfmod.patches.series import Series
from perfmod.patches.steps import Step as Made

PATCHES, CONTENTS = "patches", "steps"
"""The folders that hold the patches, and what each step leaves in files."""
_LONGEST_SLUG = 60
"""Characters of what ends the name of a branch."""


def steps_in(series: Series, author: Author, out: Path, *, is_sharded: bool) -> Iterator[Step]:
    """The steps of a series, whose patches and contents are written to `out`. Raises `OSError`."""
    mails = series.mails(author)
    branches = branch_names([made.part.label for made, _ in series.steps]) if is_sharded else [""] * len(series.steps)
    for number, ((made, message), patch, branch) in enumerate(zip(series.steps, mails, branches, strict=True), start=1):
        write(out / PATCHES / patch, mails[patch])
        for path, after in made.after.items():
            write(out / CONTENTS / str(number) / path.relative_to(series.root), after)
        yield _step(series, made, message, patch, branch)


def _step(series: Series, made: Made, message: Message, patch: str, branch: str) -> Step:
    added, removed = _lines(series.diff(made), len(made.after))
    return Step(
        subject=message.subject,
        body=message.body,
        label=made.part.label,
        owners=made.part.owners,
        patch=patch,
        branch=branch,
        files=tuple(path.relative_to(series.root).as_posix() for path in made.after),
        before=tuple(_digest(made.before[path]) for path in made.after),
        findings=len(made.part.applied),
        added=added,
        removed=removed,
    )


def _digest(data: bytes | None) -> str:
    return "" if data is None else disk.digest(data)


def _lines(diff: bytes, files: int) -> tuple[int, int]:
    """How many lines a diff of so many files adds and removes; the header of each has one that looks like either."""
    lines = diff.split(b"\n")
    added, removed = (sum(line.startswith(sign) for line in lines) - files for sign in (b"+", b"-"))
    return added, removed


def branch_names(labels: Sequence[str]) -> list[str]:
    """What ends the name of each step's branch: its label in small letters, digits and hyphens; no two are equal."""
    names: list[str] = []
    for label in labels:
        slug = re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-")[:_LONGEST_SLUG].strip("-") or "part"
        name, number = slug, 1
        while name in names:
            number += 1
            name = f"{slug}-{number}"
        names.append(name)
    return names


def write(path: Path, data: bytes) -> None:
    """Write a file in a folder that may not be there yet. Raises `OSError`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
