"""Targets and options in, one result per file out: settings, files, cache, engine. Writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from attrs import evolve, frozen

from perfmod import parallel
from perfmod.cache import Cache, fingerprint
from perfmod.codemods import catalog
from perfmod.codemods.engine import Choice, FileResult, Outcome
from perfmod.config import Options, Settings, settings_for
from perfmod.errors import UsageMistake
from perfmod.files import FoundFile, Unreadable, discover, read
from perfmod.roots import shown
from perfmod.task import Task
from perfmod.transforms.rule import Rule


@frozen
class Examined:
    """One file and what became of it; `result` holds the bytes of the file only where it is changed."""

    file: FoundFile
    result: FileResult

    def left_alone(self) -> Examined:
        """The same without its rewrites."""
        if self.result.outcome is not Outcome.CHANGED:
            return self
        return evolve(self, result=evolve(self.result, outcome=Outcome.UNCHANGED, before=b"", after=b"", applied=()))


@frozen(eq=False)
class _Plan:
    """What `Settings` mean for the engine."""

    rules: tuple[Rule, ...]
    choice: Choice
    cache: Cache | None


Progress = Callable[[int, int], None]
"""Told the number of files done and the number of all."""


def _silent(_done: int, _total: int) -> None:
    """Somebody who does not want to know."""


def examine(
    targets: Sequence[str],
    options: Options,
    *,
    cwd: Path,
    jobs: int | None = None,
    use_cache: bool = True,
    progress: Progress = _silent,
) -> list[Examined]:
    """Run the engine over every file that `targets` lead to.

    At most `jobs` processes are used, by default as many as there are processors. `progress` is told after
    every file.

    Raises:
        UsageMistake: a wrong path, rule or configuration; nothing was read then.
    """
    found = discover(targets, options, cwd)
    plans = {
        settings: _plan(settings, options, use_cache)
        for settings in dict.fromkeys(file.settings for file in found.files)
    }
    results = parallel.run(_tasks(found.files, plans), jobs or parallel.usable_cpus())
    examined = []
    with closing(results):
        for done, (file, result) in enumerate(zip(found.files, results, strict=True), start=1):
            cache = plans[file.settings].cache
            if cache is not None and _is_clean(result):
                cache.add_clean(result.before, named=file.named)
            if result.outcome is not Outcome.CHANGED:
                result = evolve(result, before=b"", after=b"")
            examined.append(Examined(file, result))
            progress(done, len(found.files))
    for plan in plans.values():
        if plan.cache is not None:
            plan.cache.save()
    unlisted = [_unlisted(path, reason) for path, reason in found.unlisted]
    return [*examined, *unlisted]


def examine_bytes(data: bytes, options: Options, *, cwd: Path) -> Examined:
    """Run the engine over code from standard input, under the settings of `cwd`. Raises `UsageMistake`."""
    file = FoundFile("<stdin>", cwd / "stdin.py", True, settings_for(cwd, options))
    plan = _plan(file.settings, options, use_cache=False)
    return Examined(file, Task(file.shown, data, file.named, plan.rules, plan.choice).run())


def rules_for(settings: Settings) -> tuple[tuple[Rule, ...], Choice]:
    """The rules that run under `settings`, and which of their findings may be applied. Raises `UsageMistake`."""
    try:
        rules = tuple(catalog.select(settings.select, settings.ignore))
    except catalog.SelectionError as error:
        raise UsageMistake(f"{shown(settings.origin or '')}: [tool.perfmod]: {error}") from error
    return rules, Choice(unsafe=settings.unsafe, opted_in=catalog.opted_in(settings.select))


def _tasks(files: Sequence[FoundFile], plans: dict[Settings, _Plan]) -> Iterator[FileResult | Task]:
    for file in files:
        plan = plans[file.settings]
        try:
            data = read(file)
        except Unreadable as error:
            outcome = Outcome.FAILED if error.failed else Outcome.SKIPPED
            yield FileResult(file.shown, outcome, b"", b"", error.reason)
            continue
        if plan.cache is not None and plan.cache.is_clean(data, named=file.named):
            yield FileResult(file.shown, Outcome.UNCHANGED, data, data)
        else:
            yield Task(file.shown, data, file.named, plan.rules, plan.choice)


def _plan(settings: Settings, options: Options, use_cache: bool) -> _Plan:
    try:
        for selector in (*options.select, *options.ignore):
            catalog.require(selector, catalog.rules())
    except catalog.SelectionError as error:
        raise UsageMistake(str(error)) from error
    rules, choice = rules_for(settings)
    codes = [rule.code for rule in rules]
    return _Plan(rules, choice, Cache(fingerprint(codes, choice)) if use_cache else None)


def _is_clean(result: FileResult) -> bool:
    found = result.held_back or result.refused or result.suppressed or result.warnings
    return result.outcome is Outcome.UNCHANGED and not found


def _unlisted(path: str, reason: str) -> Examined:
    file = FoundFile(path, Path(path), False, Settings())
    return Examined(file, FileResult(path, Outcome.FAILED, b"", b"", reason))
