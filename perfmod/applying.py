"""Puts changed files on the disk, or into a patch. Everything before this is the same for both.

Files that a finding changes together are written together: all of them, or none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from attrs import evolve

from perfmod.codemods.patch import unified_diff
from perfmod.codemods.results import Outcome
from perfmod.errors import Interrupted, explain
from perfmod.examined import Examined
from perfmod.journal import Entry, Journal
from perfmod.roots import patch_root, project_root
from perfmod.writing import NotWritten, check, replace

Bundle = Sequence[Examined]
"""Changed files of which all are written or none."""
Reasons = dict[Path, str]
"""Why files (real paths) were not written."""


def write(examined: Sequence[Examined], cwd: Path) -> list[Examined]:
    """Write every changed file, after its journal; one that cannot be written comes back as failed.

    Raises:
        Failure: the journal cannot be written; nothing was changed.
        Interrupted: Ctrl-C; what was written can be reverted.
    """
    entries: dict[Path, Entry] = {}
    failed: Reasons = {}
    ready: list[Bundle] = []
    for bundle in bundles(examined):
        own, troubles = _entries(bundle)
        if troubles:
            failed |= _spread(bundle, troubles)
        else:
            entries |= own
            ready.append(bundle)
    if entries:
        failed |= _write_journaled(ready, entries, cwd)
    unwritten = {each.result.path for each in examined if each.file.real in failed}
    return [_told(each, failed.get(each.file.real), unwritten) for each in examined]


def patch(examined: Sequence[Examined], cwd: Path) -> dict[Path, bytes]:
    """The unified diff of every changed file, by real path; the paths in it are from `patch_folder`."""
    root = patch_folder(examined, cwd)
    return {
        each.file.real: unified_diff(
            each.file.real.relative_to(root).as_posix(), each.result.original, each.result.after
        )
        for each in _changed(examined)
    }


def patch_folder(examined: Sequence[Examined], cwd: Path) -> Path:
    """The folder that the paths of `patch` are relative to: the repository's, where there is one."""
    return patch_root([each.file.real for each in _changed(examined)] or [cwd / "-"], cwd)


def bundles(examined: Sequence[Examined]) -> Iterator[Bundle]:
    """The changed files in sets that have to be written together, in the order of their first files."""
    changed = {each.result.path: each for each in _changed(examined)}
    joined = {path: {path} for path in changed}
    for path, each in changed.items():
        for other in each.result.together:
            if other in changed and joined[other] is not joined[path]:
                joined[path] |= joined[other]
                joined.update(dict.fromkeys(joined[other], joined[path]))
    for paths in {id(paths): paths for paths in joined.values()}.values():
        yield [each for path, each in changed.items() if path in paths]


def _changed(examined: Sequence[Examined]) -> list[Examined]:
    return [each for each in examined if each.result.outcome is Outcome.CHANGED]


def _entries(bundle: Bundle) -> tuple[dict[Path, Entry], Reasons]:
    """What the journal has to hold of files, and why some cannot be written."""
    entries: dict[Path, Entry] = {}
    troubles: Reasons = {}
    for each in bundle:
        path = each.file.real
        try:
            check(path, each.result.original)
            entries[path] = Entry.of(path, each.result.original, each.result.after)
        except NotWritten as error:
            troubles[path] = error.reason
        except OSError as error:
            troubles[path] = f"cannot be written: {explain(error)}"
    return entries, troubles


def _write_journaled(ready: Sequence[Bundle], entries: dict[Path, Entry], cwd: Path) -> Reasons:
    """Write the files of bundles; the reasons of those that were not written."""
    journal = Journal(project_root(cwd), tuple(entries.values()))
    failed: Reasons = {}
    written: list[Path] = []
    try:
        for bundle in ready:
            failed |= _write_bundle(bundle, written)
    except KeyboardInterrupt as error:
        done = f"{len(written)} of {len(entries)} files were written"
        raise Interrupted(f"interrupted after {done}; `perfmod revert` takes them back") from error
    if failed:
        journal.settle(written)
    return failed


def _write_bundle(bundle: Bundle, written: list[Path]) -> Reasons:
    """Write all files of a bundle or none, and add them to `written`; the reasons of those that were not written."""
    done: list[Examined] = []
    try:
        for each in bundle:
            try:
                replace(each.file.real, each.result.after, each.result.original)
            except NotWritten as error:
                stuck = _take_back(done)
                written += stuck
                rest = [other for other in bundle if other.file.real not in stuck]
                hint = "was rewritten and could not be restored; `perfmod revert` takes it back"
                return {**dict.fromkeys(stuck, hint), **_spread(rest, {each.file.real: error.reason})}
            done.append(each)
    except KeyboardInterrupt:
        written += _take_back(done)
        raise
    written += [each.file.real for each in bundle]
    return {}


def _take_back(done: Sequence[Examined]) -> list[Path]:
    """Give files their old bytes back; those where that did not work."""
    return [each.file.real for each in done if not _is_restored(each)]


def _is_restored(each: Examined) -> bool:
    try:
        replace(each.file.real, each.result.original, each.result.after)
    except NotWritten:
        return False
    return True


def _spread(bundle: Bundle, troubles: Reasons) -> Reasons:
    """The reasons of all files of a bundle, of which some are in trouble."""
    names = [each.result.path for each in bundle if each.file.real in troubles]
    partner = f"was not changed, because {' and '.join(names)}, which has to change with it, cannot be written"
    return {each.file.real: troubles.get(each.file.real, partner) for each in bundle}


def _told(each: Examined, reason: str | None, unwritten: Collection[str]) -> Examined:
    """A file after writing: `reason` is why it was not written, `unwritten` are the paths of all that were not."""
    if reason is not None:
        result = each.result
        result = evolve(result, outcome=Outcome.FAILED, reason=reason, after=result.before, applied=(), together=())
        return evolve(each, result=result)
    kept = tuple(
        finding for finding in each.result.applied if not any(change.path in unwritten for change in finding.elsewhere)
    )
    return evolve(each, result=evolve(each.result, applied=kept))
