"""How far a campaign is, while it runs: a few lines at the bottom of a terminal; else a line now and then."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Final

from attrs import frozen

from perfmod.migrate.report.summary import NOT_DONE, OUTCOMES, WORST_FIRST, counts_words, findings_of, verdicts_of
from perfmod.migrate.rows import ProjectRow
from perfmod.report.output import console
from perfmod.report.wording import counted
from perfmod.roots import shown

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

_FEWEST: Final = 5
"""Projects that have to be done before their pace says anything about the others."""
_MOST_NAMED: Final = 4


@frozen
class _Tally:
    """What one project adds to the numbers."""

    outcome: str
    files: int
    findings: int
    verdicts: tuple[str, ...]


class Progress:
    """Tells on stderr how far a campaign is, as long as its block runs. Its methods may be called by any thread."""

    def __init__(self, total: int = 0, *, stream: Console | None = None, every: float = 30.0) -> None:
        """Of `total` projects; without a terminal there is a line `every` so many seconds, and one at the end."""
        self._console = stream if stream is not None else console(stderr=True)
        self._every = every
        self._total = total
        self._before = 0
        self._began = time.monotonic()
        self._tallies: dict[str, _Tally] = {}
        self._outcomes: Counter[str] = Counter()
        self._verdicts: Counter[str] = Counter()
        self._files = 0
        self._findings = 0
        self._running: tuple[str, ...] = ()
        self._lock = threading.RLock()
        self._over = threading.Event()
        self._live: Live | None = None
        self._ticker: threading.Thread | None = None

    def __enter__(self) -> Progress:  # noqa: PYI034, Python 3.10 has no `Self`
        self._began = time.monotonic()
        if self._console.is_terminal:
            from rich.live import Live

            self._live = Live(get_renderable=self._picture, console=self._console, refresh_per_second=4, transient=True)
            self._live.start()
        else:
            self._ticker = threading.Thread(target=self._tick, name="progress", daemon=True)
            self._ticker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._over.set()
        if self._live is not None:
            self._live.stop()
        if self._ticker is not None:
            self._ticker.join()
        self._running = ()
        self._print()

    def total(self, number: int, before: int = 0) -> None:
        """How many projects there are; `before` of them were done by earlier runs, which say nothing of the pace."""
        with self._lock:
            self._total, self._before = number, before

    def update(self, done: ProjectRow) -> None:
        """Something of a project is done; told again, it counts in place of what was told before."""
        analysis = done.analysis
        tally = _Tally(
            outcome=done.outcome.value if done.outcome is not None else NOT_DONE,
            files=len(analysis.files) if analysis is not None else 0,
            findings=len(findings_of(done)),
            verdicts=tuple(verdict for verdict in verdicts_of(done) if verdict != NOT_DONE),
        )
        with self._lock:
            before = self._tallies.pop(done.name, None)
            if before is not None:
                self._count(before, -1)
            self._tallies[done.name] = tally
            self._count(tally, 1)

    def running(self, names: Sequence[str]) -> None:
        """What is worked on now."""
        with self._lock:
            self._running = tuple(names)

    def line(self) -> str:
        """All of it in one line, without what is running."""
        with self._lock:
            return "; ".join(filter(None, (self._done_words(), *self._facts(), self._time_words())))

    def _count(self, tally: _Tally, sign: int) -> None:
        self._outcomes[tally.outcome] += sign
        self._files += sign * tally.files
        self._findings += sign * tally.findings
        for verdict in tally.verdicts:
            self._verdicts[verdict] += sign

    @property
    def _done(self) -> int:
        """Projects that this run has done."""
        return sum(number for outcome, number in self._outcomes.items() if outcome != NOT_DONE)

    def _done_words(self) -> str:
        return f"{self._before + self._done:,} of {counted(self._total, 'project')} done"

    def _facts(self) -> list[str]:
        outcomes = {name: self._outcomes[name] for name in OUTCOMES if name != NOT_DONE and self._outcomes[name]}
        verdicts = {name: self._verdicts[name] for name in WORST_FIRST if self._verdicts[name]}
        facts = [counts_words(outcomes), f"{self._files:,} files", f"{self._findings:,} findings"]
        if verdicts:
            facts.append(f"verdicts: {counts_words(verdicts)}")
        return facts

    def _time_words(self) -> str:
        """Time that has passed, and what is left at the pace so far."""
        passed = time.monotonic() - self._began
        words = _duration(passed)
        left = self._total - self._before - self._done
        if left > 0 and self._done >= _FEWEST:
            words += f", about {_duration(passed / self._done * left)} left"
        return words

    def _picture(self) -> RenderableType:
        """What a terminal shows."""
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        with self._lock:
            head = Table.grid(padding=(0, 1))
            bar = ProgressBar(total=max(self._total, 1), completed=self._before + self._done, width=24)
            head.add_row(bar, self._done_words(), Text(self._time_words(), "dim", no_wrap=True))
            facts = Text("; ".join(filter(None, self._facts())))
            facts.highlight_regex(r"[\d,]+ (failed|refuted)", "red")
            named = [shown(name) for name in self._running[:_MOST_NAMED]]
            more = len(self._running) - len(named)
            named += [f"{more:,} more"] if more > 0 else []
            now = Text(f"now: {', '.join(named)}" if named else "", "dim", no_wrap=True, overflow="ellipsis")
            return Group(head, facts, now)

    def _tick(self) -> None:
        while not self._over.wait(self._every):
            self._print()

    def _print(self) -> None:
        """A plain line, whole wherever it goes."""
        with self._lock:
            running = f"; now: {shown(self._running[0])}" if self._running else ""
            more = f" and {len(self._running) - 1:,} more" if len(self._running) > 1 else ""
            text = f"{self.line()}{running}{more}"
        self._console.print(text, soft_wrap=True, highlight=False, markup=False)


def _duration(seconds: float) -> str:
    """`45 s`, `12 min`, `3 h 5 min`."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
