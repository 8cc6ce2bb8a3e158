"""What a person left of a patch, as changed files that can be written."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from attrs import evolve

from perfmod import disk
from perfmod.codemods.patch import PatchError
from perfmod.codemods.results import FileResult, Outcome
from perfmod.config import Settings
from perfmod.errors import UsageMistake, explain
from perfmod.examined import Examined
from perfmod.files import SUFFIXES, FoundFile
from perfmod.patches.edited import EditedFile, read_edited
from perfmod.patches.fitting import fitted
from perfmod.roots import from_here, shown
from perfmod.transforms.decoding import SourceError, is_notebook
from perfmod.transforms.source import Source


class _Unfit(Exception):
    """A file that is not changed as the patch says; the message says why, in one line."""


def reviewed(patch: Path, root: Path, only: Sequence[Path], *, partial: bool) -> list[Examined]:
    """The files that a patch changes, changed; or failed, with the reason.

    Unless `partial`, either all are changed or none: rewrites may belong together. Paths in the patch are relative to
    `root` (links followed). Where files and folders are given as `only` (real paths), others are passed over.

    Raises:
        UsageMistake: the patch cannot be read.
    """
    try:
        files = read_edited(patch.read_bytes())
    except OSError as error:
        raise UsageMistake(f"{shown(patch)}: cannot be read: {explain(error)}") from error
    except PatchError as error:
        raise UsageMistake(f"{shown(patch)}: {error}") from error
    by_path: dict[str, list[EditedFile]] = {}
    for file in files:
        if not only or any((root / file.path).is_relative_to(at) for at in only):
            by_path.setdefault(file.path, []).append(file)
    results = [_examined(path, own, root) for path, own in by_path.items()]
    failed = [each.result.path for each in results if each.result.outcome is Outcome.FAILED]
    if partial:
        return results
    if failed:
        reason = f"was not changed, because {failed[0]} cannot be; --partial changes what fits"
        return [each if each.result.path in failed else _failed(each, reason) for each in results]
    whole = tuple(each.result.path for each in results)
    return [evolve(each, result=evolve(each.result, together=whole)) for each in results]


def _examined(path: str, files: Sequence[EditedFile], root: Path) -> Examined:
    """A file as the patch leaves it, which may come to it several times: one patch may stand behind another."""
    real = root / path
    found = FoundFile(shown(from_here(real)), real, True, Settings(), root)
    try:
        _require_place(path, root, files)
        is_made = files[0].is_new and not os.path.lexists(real)
        before = b"" if is_made else _read(path, root)
        after = b"" if files[0].is_new else before
        for file in files:
            after = fitted(after, file.hunks)
        _require_same(before, after, is_there=files[0].is_new and not is_made)
        _require_readable(before, after, found.shown)
    except (_Unfit, PatchError) as error:
        return _failed(Examined(found, FileResult(found.shown, Outcome.FAILED, b"", b"")), str(error))
    outcome = Outcome.UNCHANGED if before == after else Outcome.CHANGED
    return Examined(found, FileResult(found.shown, outcome, before, after, is_new=is_made))


def _failed(each: Examined, reason: str) -> Examined:
    return evolve(each, result=FileResult(each.result.path, Outcome.FAILED, b"", b"", reason))


def _read(path: str, root: Path) -> bytes:
    """The bytes of a file that a patch may change. Raises `_Unfit`."""
    real = root / path
    try:
        target = real.resolve(strict=True)
        if target != real:
            where = "in the project; name the file itself" if target.is_relative_to(root) else "outside of the project"
            raise _Unfit(f"is reached by a symbolic link to a place {where}")
        if not real.is_file():
            raise _Unfit("is no file")
        return disk.read(real)
    except FileNotFoundError as error:
        raise _Unfit("is not there; paths in a patch begin at the root of the repository, or where you are") from error
    except (OSError, RuntimeError, ValueError) as error:
        raise _Unfit(f"cannot be read: {explain(error) if isinstance(error, OSError) else error}") from error


def _require_place(path: str, root: Path, files: Sequence[EditedFile]) -> None:
    """Raise `_Unfit` where a patch may not write a file, or wants something else of it."""
    for unwanted in filter(None, (file.unwanted for file in files)):
        raise _Unfit(unwanted)
    parts = PurePosixPath(path).parts
    if path.startswith("/") or ".." in parts:
        raise _Unfit("is not named by a path inside of the project")
    if any(part.lower() == ".git" for part in parts):
        raise _Unfit("belongs to git")
    if not path.endswith(SUFFIXES):
        raise _Unfit("is neither a Python file nor a notebook")
    if "\0" in path:
        raise _Unfit("cannot be read: its name holds a zero byte")
    if any(file.is_new for file in files) and (root / path).parent.resolve() != (root / path).parent:
        raise _Unfit("would be made in a folder that is reached by a symbolic link")


def _require_same(before: bytes, after: bytes, *, is_there: bool) -> None:
    """Raise `_Unfit` where a file that the patch makes is there and holds something else."""
    if is_there and before != after:
        raise _Unfit("is there already, with other content")


def _require_readable(before: bytes, after: bytes, path: str) -> None:
    """Raise `_Unfit` where the file as changed is no Python or no notebook any more."""
    try:
        Source.parse(after, path)
    except SourceError as error:
        raise _Unfit(f"as the patch leaves it, {error.reason}") from error
    except RecursionError as error:
        raise _Unfit("as the patch leaves it, is nested too deeply") from error
    if is_notebook(path) and (why := _fault(after)) and not _fault(before):
        raise _Unfit(f"as the patch leaves it, is not a valid notebook: {why}")


def _fault(notebook: bytes) -> str:
    """What is wrong with a notebook by its own schema, in one line; mostly empty."""
    import nbformat

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            nbformat.validate(nbformat.reads(notebook.decode("utf-8-sig"), as_version=nbformat.NO_CONVERT))  # type: ignore[no-untyped-call]
        except nbformat.ValidationError as error:
            return " ".join(error.message.split())
        except Exception as error:  # noqa: BLE001, it lets others through
            return " ".join(str(error).split())
    return ""
