"""The analysis of one project, from its files as committed to patches, contents of files, a page and rows.

It runs in a process of its own, whose working directory is the project meanwhile. Nothing of the project is run.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from attrs import evolve

from perfmod import applying
from perfmod.codemods.results import Outcome as Examination
from perfmod.errors import Failure, PerfmodError, UsageMistake, explain
from perfmod.examined import Examined
from perfmod.files import NoPython
from perfmod.memory import cards, memory
from perfmod.migrate.jobs import OUT, SNAPSHOT
from perfmod.migrate.kinds import OTHER, kind_of
from perfmod.migrate.outcomes import file_rows, finding_rows, project_outcome, told_of, troubles
from perfmod.migrate.results import Analysis, AnalysisRequest, Cause, FileRow, Outcome, Refused, Step
from perfmod.migrate.snapshot import is_dirty, pack, unpack
from perfmod.migrate.stepped import steps_in, write
from perfmod.migrate.targets import is_repository
from perfmod.patches.by import By
from perfmod.patches.mail import Author
from perfmod.patches.owners import PLACES, Owners
from perfmod.patches.parts import WITHOUT_OWNER
from perfmod.patches.series import Series
from perfmod.report import json
from perfmod.report.rows import report
from perfmod.report.view import View
from perfmod.review.decisions import FILE as DECISIONS
from perfmod.review.items import Verdict
from perfmod.review.page import review_page
from perfmod.review.proofs import RECORD
from perfmod.review.session import Review
from perfmod.roots import shown

DIFF, PAGE, FINDINGS = "changes.diff", "review.html", "findings.json"
"""What lies in `out/` beside patches and steps."""
_TREE = "tree"
_VERIFIED = ".perfmod/verified"
_NO_CONFIGURATION = "perfmod.toml"
"""Lies empty beside the tree: what is configured in the folders around it is not the project's."""


def run(request: AnalysisRequest, folder: Path) -> Analysis | Refused:
    """Analyse a project in `folder`; the results lie in its `out/` then, and the files as laid out are gone.

    Rewrites that were accepted are made whatever the options say, and those that were rejected are not.
    """
    folder = Path(os.path.realpath(folder))
    tree, out = folder / _TREE, folder / OUT
    try:
        for old in (tree, out):
            if old.exists():
                shutil.rmtree(old)
        out.mkdir()
        refused = _unpacked(request, folder)
        if refused is not None:
            return refused
        with _inside(tree):
            return _analysed(request, tree, out)
    except OSError as error:
        name = "" if error.filename is None else f"{_plain(str(error.filename), tree)}: "
        return Refused(Outcome.FAILED, Cause.DISK, f"{name}{explain(error)}")
    finally:
        shutil.rmtree(tree, ignore_errors=True)
        with contextlib.suppress(OSError):
            (folder / _NO_CONFIGURATION).unlink()


def _unpacked(request: AnalysisRequest, folder: Path) -> Refused | None:
    """Lay out the files of a project; why that cannot be done. Raises `OSError`."""
    tree = folder / _TREE
    if request.repository is None:
        data = (folder / SNAPSHOT).read_bytes()
    elif not request.repository.is_dir():
        return Refused(Outcome.FAILED, Cause.VANISHED, f"{shown(request.repository)}: is not there any more")
    else:
        try:
            data = pack(request.repository, request.commit, everything=False)
        except PerfmodError as error:
            return Refused(Outcome.FAILED, Cause.GIT, str(error))
    try:
        unpack(data, tree)
    except Failure as error:
        return Refused(Outcome.FAILED, Cause.DISK, _plain(str(error), tree))
    (folder / _NO_CONFIGURATION).write_bytes(b"")
    if request.decisions:
        _place(tree, str(DECISIONS), request.decisions.encode())
    for number, name in enumerate(request.evidence, start=1):
        _place(tree, f"{_VERIFIED}/{number}/{RECORD}", (folder / name).read_bytes())
    return None


def _place(tree: Path, path: str, data: bytes) -> None:
    """Put a file of ours where those of a project lie. A link of the project's must not lead out of the tree."""
    file = tree / path
    for each in (*list(file.relative_to(tree).parents)[-2::-1], Path(path)):
        place = tree / each
        if place.is_symlink() or (place != file and place.is_file()):
            place.unlink()
    write(file, data)


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _analysed(request: AnalysisRequest, tree: Path, out: Path) -> Analysis | Refused:
    """Raises `OSError` where results cannot be written."""
    try:
        review = Review.of(["."], request.options, cwd=tree, jobs=1, use_cache=request.use_cache)
        settled = review.without_rejected()
        analysis = _summed_up(request, review, settled, out)
        steps, notes = _stepped(request, settled, tree, out)
    except NoPython as error:
        return Analysis(Outcome.SKIPPED, Cause.NO_PYTHON, str(error).removeprefix(".: "), kind=OTHER)
    except UsageMistake as error:
        return Refused(Outcome.FAILED, Cause.CONFIGURATION, _plain(str(error), tree))
    except Failure as error:
        return Refused(Outcome.FAILED, Cause.DISK, _plain(str(error), tree))
    return evolve(analysis, steps=steps, notes=(*analysis.notes, *notes))


def _summed_up(request: AnalysisRequest, review: Review, settled: Sequence[Examined], out: Path) -> Analysis:
    """Everything but the steps; writes the diff, the page and the rows."""
    tree = review.decisions.root
    rules = cards(use_cache=request.use_cache)
    diffs = applying.patch(settled, tree)
    rows = report("apply", settled, rules, patches=diffs)
    view = View(rows, {rule.code: rule for rule in rules}, folder=tree, root=tree)
    write(out / FINDINGS, json.render(view).text.encode("utf-8", "backslashreplace"))
    if diffs:
        write(out / DIFF, b"".join(diffs.values()))
    if review.items:
        title = f"Review of {shown(request.project)}"
        write(out / PAGE, review_page(list(review.items.values()), title=title))
    files, findings = file_rows(rows), finding_rows(rows)
    outcome, cause, reason = project_outcome(files, findings)
    return Analysis(
        outcome,
        cause,
        reason,
        kind=kind_of(each.file.real for each in settled),
        files=files,
        findings=findings,
        decided=len(review.items) - review.count(Verdict.UNDECIDED),
        of=len(review.items),
        notes=(
            *_told_beside(outcome, files),
            *troubles(rows),
            *_told_of_decisions(review),
            *_told_of_changes(request.repository),
        ),
    )


def _stepped(
    request: AnalysisRequest, settled: Sequence[Examined], tree: Path, out: Path
) -> tuple[tuple[Step, ...], tuple[str, ...]]:
    """The steps, and what there is to say about them. Raises `UsageMistake` and `Failure`."""
    if not any(each.result.outcome is Examination.CHANGED for each in settled):
        return (), ()
    rules, remembered = cards(use_cache=request.use_cache), memory(use_cache=request.use_cache)
    series = Series.of(settled, request.by, rules, tree, remembered, needs_owners=False, is_sharded=request.is_sharded)
    steps = tuple(steps_in(series, _author(request, tree), out, is_sharded=request.is_sharded))
    if remembered is not None:
        remembered.flush()
    if request.by is By.OWNER and not Owners.read(tree).sections:
        return steps, (f"no CODEOWNERS file ({', '.join(PLACES)}): all rewrites are {WITHOUT_OWNER}",)
    return steps, ()


def _author(request: AnalysisRequest, tree: Path) -> Author:
    author = Author.of(request.repository or tree)
    if request.author:
        author = author.called(request.author)
    if not request.date:
        return author
    # Python 3.10 does not know the Z for UTC.
    return evolve(author, date=datetime.fromisoformat(request.date.replace("Z", "+00:00")))


def _told_beside(outcome: Outcome, files: Sequence[FileRow]) -> Iterator[str]:
    """What happened to files that are not what the project comes to."""
    for other in (Outcome.FAILED, Outcome.SKIPPED):
        if other is not outcome and (told := told_of(files, other)):
            yield told


def _told_of_decisions(review: Review) -> Iterator[str]:
    if review.unfit:
        first = review.unfit[0]
        example = f"{first.rule} in {shown(first.path)}: {shown(first.code)}"
        are = "decision fits" if len(review.unfit) == 1 else "decisions fit"
        yield f"{len(review.unfit)} {are} no rewrite any more: {example}"


def _told_of_changes(repository: Path | None) -> Iterator[str]:
    if repository is not None and is_repository(repository) and is_dirty(repository):
        yield "its working tree holds changes that are not committed; they were not looked at"


def _plain(text: str, tree: Path) -> str:
    """A message without the folder in which the project was only laid out."""
    return text.replace(f"{tree}{os.sep}", "").replace(str(tree), ".").replace(str(tree.parent), "..")
