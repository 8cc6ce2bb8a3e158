"""Targets and options in, one result per file out. Writes nothing but the cache."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from perfmod.codemods import catalog
from perfmod.codemods.results import Given
from perfmod.config import Options, settings_for
from perfmod.examined import Examined, Progress, once
from perfmod.files import FoundFile
from perfmod.memory import Request, memory
from perfmod.selection import FileIgnores, require, rules_for


def silent(done: int, total: int, new: Sequence[Examined]) -> None:
    """Somebody who does not want to know."""


def examine(
    targets: Sequence[str],
    options: Options,
    *,
    cwd: Path,
    isolated: bool = False,
    jobs: int | None = None,
    use_cache: bool = True,
    progress: Progress = silent,
    creates: bool = True,
) -> list[Examined]:
    """Run the engine over every file that `targets` lead to, and over what belongs to the trainings in them.

    At most `jobs` processes are used, by default as many as there are processors. `isolated` keeps to the given
    files, each for itself. `progress` is told of files as they are done, those that are read together at once, in an
    order that does not depend on the processes; the result is in the order of their paths. `creates` allows rewrites
    that need new files; those are among the result, each once.

    Raises:
        UsageMistake: a wrong path, rule or configuration; nothing was read then.
    """
    request = Request(tuple(targets), options, cwd, isolated, creates)
    remembered = memory(use_cache=use_cache)
    known = remembered.run(request) if remembered is not None else None
    if known is not None:
        progress(len(known), len(known), known)
        return once(sorted(known, key=lambda each: each.file.real.parts))
    from perfmod.asking import ask
    from perfmod.parallel import usable_cpus

    return once(ask(request, jobs or usable_cpus(), progress, remembered))


def examine_bytes(data: bytes, options: Options, *, cwd: Path) -> Examined:
    """Run the engine over code from standard input, under the settings of `cwd`. Raises `UsageMistake`."""
    # A script that begins with a brace and speaks of that is none that anybody has written.
    suffix = ".ipynb" if data.lstrip().startswith(b"{") and b'"nbformat"' in data else ""
    file = FoundFile(f"<stdin>{suffix}", cwd / f"stdin{suffix or '.py'}", True, settings_for(cwd, options), cwd)
    from perfmod.task import Task

    cards = catalog.cards()
    require(options, cards)
    rules, choice = rules_for(file.settings, cards)
    ignored = FileIgnores.of(file.settings, cards).codes(file.real)
    given, named = (Given(file.shown, data, ignored=ignored),), frozenset({file.shown})
    (result,) = Task(given, named, rules, choice, file.settings.time_limit).run()
    return Examined(file, result)
