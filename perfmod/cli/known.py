"""What `check` does not report because it is known: it is in a baseline, or on lines that did not change."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from attrs import frozen

from perfmod import baseline as baselines
from perfmod import disk
from perfmod.baseline import Baseline
from perfmod.errors import UsageMistake
from perfmod.examined import Examined
from perfmod.files import STDIN
from perfmod.report.narrowing import narrowed
from perfmod.report.rows import Report
from perfmod.report.wording import counted
from perfmod.roots import from_here, shown


@frozen
class Known:
    """What is left out.

    Attributes:
        baseline: None where there is none; without entries where it is to be written and is not there yet.
        writes: whether the baseline is to hold what is found.
        since: the revision since which lines have to have changed; None where that does not matter.
        command: the command line, to which hints add `--write-baseline`.
    """

    baseline: Baseline | None
    writes: bool
    since: str | None
    command: str

    @classmethod
    def of(cls, paths: Sequence[str], given: Path | None, *, writes: bool, since: str | None, command: str) -> Known:
        """What the command line or the configuration asks for; `command` is that line without these options.

        Raises:
            UsageMistake: the options do not go together, or the baseline cannot be read.
        """
        if STDIN in paths and (given or writes or since):
            raise UsageMistake("what is new in standard input, nobody can tell: name a file instead of -")
        if writes and since:
            raise UsageMistake("--write-baseline takes all findings: leave out --new-only and --since")
        cwd = Path.cwd()
        named = None if STDIN in paths else baselines.file_of(paths, cwd)
        place = named if given is None else cwd / given
        if given is not None:
            command = f"{command} --baseline {shlex.quote(shown(given))}"
        if place is None:
            if writes:
                raise UsageMistake("--write-baseline needs a file: add --baseline FILE")
            return cls(None, writes, since, command)
        place = Path(os.path.realpath(place))
        if not disk.exists(place):
            if not writes:
                hint = f"`{command} --write-baseline` writes it"
                raise UsageMistake(f"{shown(from_here(place))}: there is no such baseline; {hint}")
            return cls(Baseline(place), writes, since, command)
        return cls(Baseline.read(place), writes, since, command)

    def __bool__(self) -> bool:
        return self.baseline is not None or self.since is not None

    def apart(self, report: Report, examined: Sequence[Examined]) -> tuple[Report, tuple[str, ...]]:
        """The report of a run without what is known, and what is to be said of that; writes the baseline.

        Raises:
            UsageMistake, Failure: git or the disk does not do its part.
        """
        known, notes = set[int](), list[str]()
        if self.baseline is not None:
            name = shown(from_here(self.baseline.path))
            compared = baselines.compare(self.baseline, report, examined)
            known.update(compared.found if self.writes else compared.known)
            if self.writes:
                compared.current.write()
                notes.append(f"{name}: {counted(compared.current.count, 'finding')} written")
            elif compared.known:
                notes.append(f"{counted(len(compared.known), 'finding')} left out: known from {name}")
            if compared.gone and not self.writes:
                number = sum(entry.count for entry in compared.gone)
                gone, them = ("1 entry is", "it") if number == 1 else (f"{number} entries are", "them")
                notes.append(f"{gone} no longer found: `{self.command} --write-baseline` removes {them} from {name}")
        if self.since is not None:
            from perfmod.unchanged import unchanged

            old = unchanged(report, examined, self.since) - known
            known |= old
            if old:
                notes.append(f"{counted(len(old), 'finding')} left out: on lines unchanged since {shown(self.since)}")
        return narrowed(report, known), tuple(notes)
