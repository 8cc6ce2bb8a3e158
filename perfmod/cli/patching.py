"""The options of `apply` that make patches and commits, or take a patch: what goes together, and what they do."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perfmod.errors import ExitCode, UsageMistake
from perfmod.patches.by import By

if TYPE_CHECKING:
    from perfmod.examined import Examined
    from perfmod.memory import Memory
    from perfmod.patches.series import Series
    from perfmod.transforms.card import Card

PatchSeries = Annotated[
    Path | None,
    typer.Option("--patch-series", metavar="DIR", help="Change nothing; write numbered patches for `git am` to DIR."),
]
Commits = Annotated[bool, typer.Option("--commits", help="Make the changes and commit them, one commit per rule.")]
Grouping = Annotated[
    By | None,
    typer.Option("--by", help="What each patch or commit holds; `owner` reads CODEOWNERS.", show_default="rule"),
]
Branch = Annotated[
    str | None, typer.Option("--branch", metavar="NAME", help="With --commits: make them on this new branch.")
]
FromPatch = Annotated[
    Path | None,
    typer.Option(
        "--from",
        metavar="FILE",
        help="Apply a patch by perfmod that was edited by hand; all of it or nothing.",
        dir_okay=False,
        exists=True,
    ),
]
Partial = Annotated[
    bool, typer.Option("--partial", help="With --from: change the files that the patch fits, and leave the others.")
]

_EXCLUDES = {
    "reviewed": (),
    "commits": ("patch_series", "patch", "dry_run"),
    "patch_series": ("patch", "dry_run"),
}
"""What cannot be given with an option, by the names of parameters."""
_OF_A_RUN = ("entry", "device", "python", "steps", "horizon", "quick", "nproc", "timeout", "report", "budget", "link")
_NEEDS = {
    "by": ("patch_series", "commits"),
    "branch": ("commits",),
    "partial": ("reviewed",),
    **dict.fromkeys(_OF_A_RUN, ("verify",)),
}
"""Of what one has to be given with an option."""
_WITH_A_PATCH = ("paths", "reviewed", "partial", "dry_run", "no_cache", "verbose")
"""What can be given with --from: everything else is about finding rewrites."""


def require_fitting(context: typer.Context, paths: Sequence[str]) -> None:
    """Raise `UsageMistake` where options of the command line do not go together, or no path is given."""
    from perfmod.files import STDIN

    flags = {param.name: param.opts[0] for param in context.command.params if param.name and param.opts}
    sources = {name: context.get_parameter_source(name) for name in flags}
    given = [name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"]
    for name in given:
        needed = _NEEDS.get(name)
        if needed and not set(needed) & set(given):
            raise UsageMistake(f"{flags[name]} goes with {' or '.join(flags[other] for other in needed)}")
    for name in given:
        excluded = [other for other in given if other in _EXCLUDES.get(name, ())]
        if name == "reviewed":
            excluded = [other for other in given if other not in _WITH_A_PATCH]
        if excluded:
            raise UsageMistake(f"{flags[name]} and {flags[excluded[0]]} do not go together; leave one out")
        if name in _EXCLUDES and STDIN in paths:
            raise UsageMistake(f"{flags[name]} takes files and folders, not standard input")
    if not paths and "reviewed" not in given:
        raise UsageMistake("Missing argument 'PATH': name files or folders, or - for stdin (see perfmod apply --help)")


def apply_reviewed(patch: Path, paths: Sequence[str], *, partial: bool, dry_run: bool) -> ExitCode:
    """`apply --from`: write what a person left of a patch."""
    from perfmod import applying
    from perfmod.codemods.results import Outcome
    from perfmod.patches.reviewed import reviewed
    from perfmod.report.output import console, write_diff
    from perfmod.report.text import render_notes
    from perfmod.report.wording import counted
    from perfmod.roots import git_root, shown

    cwd = Path(os.path.realpath(Path.cwd()))
    only = [Path(os.path.realpath(cwd / path)) for path in paths]
    for path, given in zip(only, paths, strict=True):
        if not path.exists():
            raise UsageMistake(f"{shown(given)}: no such file or folder")
    results = reviewed(patch, git_root(cwd) or cwd, only, partial=partial)
    if dry_run:
        write_diff(b"".join(applying.patch(results, cwd).values()))
    else:
        results = applying.write(results, cwd)
    talk = console(stderr=True)
    failed = [each.result for each in results if each.result.outcome is Outcome.FAILED]
    notes = [f"{result.path}: failed: {result.reason}" for result in failed]
    changed = [each.result for each in results if each.result.outcome is Outcome.CHANGED]
    ending = "; nothing was written" if dry_run and changed else ""
    notes += [f"{result.path}: {'fits' if dry_run else 'changed'}" for result in changed]
    notes.append(f"{len(changed)} of {counted(len(results), 'file')} {'fit' if dry_run else 'changed'}{ending}")
    render_notes(notes, talk)
    return ExitCode.FAILED if failed else ExitCode.OK


class Patching:
    """`apply --patch-series` and `apply --commits`: refuses early what cannot work, and then makes them."""

    def __init__(self, patch_series: Path | None, *, commits: bool, branch: str | None, by: By | None) -> None:
        """Raises `UsageMistake` where there is no place for them."""
        self._folder, self._branch, self._by = patch_series, branch, by or By.RULE
        self._repository = None
        if patch_series is not None:
            from perfmod.patches.series import require_free

            require_free(patch_series)
        if commits:
            from perfmod.patches.commits import Repository

            self._repository = Repository.ready(Path.cwd(), branch)

    @property
    def commits(self) -> bool:
        """Whether commits are made."""
        return self._repository is not None

    @property
    def is_wanted(self) -> bool:
        """Whether either is made."""
        return self.commits or self._folder is not None

    def make(self, examined: Sequence[Examined], rules: Sequence[Card], remembered: Memory | None) -> Sequence[str]:
        """Write the patches or make the commits of examined files; what there is to say about it.

        Raises:
            UsageMistake: files have changes that are not committed, or nobody knows who owns them.
            Failure: the disk does not take it, or git or a hook refuses.
            Interrupted: Ctrl-C between or within commits.
        """
        from perfmod.beside import imported_beside
        from perfmod.patches.series import Series

        series = Series.of(examined, self._by, rules, Path.cwd(), remembered)
        if not series.steps:
            return ()
        return self._commit(series, imported_beside(examined)) if self._repository is not None else self._write(series)

    def _write(self, series: Series) -> Sequence[str]:
        from perfmod.patches.mail import Author
        from perfmod.patches.series import needs_keep_cr, write_mails
        from perfmod.report.wording import counted

        assert self._folder is not None
        mails: Mapping[str, bytes] = series.mails(Author.of(Path.cwd()))
        write_mails(self._folder, mails)
        option = "--keep-cr " if needs_keep_cr(mails) else ""
        command = f"git am {option}{shlex.quote(str(self._folder))}/*.patch"
        return (f"{counted(len(mails), 'patch', 'patches')} in {self._folder}: `{command}` makes commits of them",)

    def _commit(self, series: Series, imported: Sequence[Path]) -> Sequence[str]:
        """Make the commits; `imported` are files that the rewrites import and that are there already."""
        from perfmod.report.wording import counted

        assert self._repository is not None
        repository = self._repository
        repository.require_clean(
            list(dict.fromkeys((*(path for step, _ in series.steps for path in step.before), *imported))),
            new={path for step, _ in series.steps for path in step.new},
        )
        if self._branch is not None:
            repository = repository.switch_to_new(self._branch)
        repository.commit(series.steps, _again(sys.argv[1:]))
        count = len(series.steps)
        said = f"{counted(count, 'commit')}: `git log -p -{count}` shows {'it' if count == 1 else 'them'}"
        if repository.branch:
            return (said,)
        return said, "HEAD is detached: `git switch -c NAME` gives the commits a branch"


def _again(arguments: Sequence[str]) -> str:
    """The command line of this run, without the branch, which is there by then."""
    words = iter(arguments)
    kept = ["perfmod"]
    for word in words:
        if word == "--branch":
            next(words, None)
        elif not word.startswith("--branch="):
            kept.append(word)
    return shlex.join(kept)
