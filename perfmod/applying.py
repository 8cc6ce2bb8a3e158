"""Puts changed files on the disk, or into a patch. Everything before this is the same for both."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from attrs import evolve

from perfmod.codemods.engine import Outcome
from perfmod.codemods.patch import unified_diff
from perfmod.errors import Interrupted, explain
from perfmod.examine import Examined
from perfmod.journal import Entry, Journal
from perfmod.roots import patch_root, project_root
from perfmod.writing import NotWritten, replace


def write(examined: Sequence[Examined], cwd: Path) -> list[Examined]:
    """Write every changed file, after its journal; one that cannot be written comes back as failed.

    Raises:
        Failure: the journal cannot be written; nothing was changed.
        Interrupted: Ctrl-C; what was written can be reverted.
    """
    entries: dict[Path, Entry] = {}
    failed: dict[Path, str] = {}
    for each in _changed(examined):
        path = each.file.real
        try:
            entries[path] = Entry.of(path, each.result.before, each.result.after)
        except OSError as error:
            failed[path] = f"cannot be written: {explain(error)}"
    if entries:
        failed |= _write_journaled(examined, entries, cwd)
    return [_failed(each, failed[each.file.real]) if each.file.real in failed else each for each in examined]


def patch(examined: Sequence[Examined], cwd: Path) -> dict[Path, bytes]:
    """The unified diff of every changed file, by real path; the paths in it are from `patch_folder`."""
    root = patch_folder(examined, cwd)
    return {
        each.file.real: unified_diff(each.file.real.relative_to(root).as_posix(), each.result.before, each.result.after)
        for each in _changed(examined)
    }


def patch_folder(examined: Sequence[Examined], cwd: Path) -> Path:
    """The folder that the paths of `patch` are relative to: the repository's, where there is one."""
    return patch_root([each.file.real for each in _changed(examined)] or [cwd / "-"], cwd)


def _changed(examined: Sequence[Examined]) -> list[Examined]:
    return [each for each in examined if each.result.outcome is Outcome.CHANGED]


def _write_journaled(examined: Sequence[Examined], entries: dict[Path, Entry], cwd: Path) -> dict[Path, str]:
    """Write the files that have an entry; the reasons of those that were not written."""
    journal = Journal(project_root(cwd), tuple(entries.values()))
    failed: dict[Path, str] = {}
    written: list[Path] = []
    try:
        for each in _changed(examined):
            path = each.file.real
            if path in entries:
                try:
                    replace(path, each.result.after, each.result.before)
                    written.append(path)
                except NotWritten as error:
                    failed[path] = error.reason
    except KeyboardInterrupt as error:
        done = f"{len(written)} of {len(entries)} files were written"
        raise Interrupted(f"interrupted after {done}; `perfmod revert` takes them back") from error
    if failed:
        journal.settle(written)
    return failed


def _failed(each: Examined, reason: str) -> Examined:
    result = evolve(each.result, outcome=Outcome.FAILED, reason=reason, after=each.result.before, applied=())
    return evolve(each, result=result)
