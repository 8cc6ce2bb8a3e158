"""What `review` does with its arguments: a review is opened, held, and told about at the end."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from attrs import define, field
from rich.console import Console
from rich.text import Text

from perfmod.cli.options import apply_command
from perfmod.codemods import catalog
from perfmod.config import Options
from perfmod.errors import Failure, explain
from perfmod.examined import Examined
from perfmod.report import pages, text
from perfmod.report.output import console, progress_bar, write_file
from perfmod.report.wording import counted
from perfmod.review.items import Verdict
from perfmod.review.page import Server, review_page
from perfmod.review.serve import ReviewServer
from perfmod.review.session import Review
from perfmod.review.terminal import Terminal
from perfmod.roots import from_here, shown

_TITLED = 3
"""Paths that the title of a page names."""


def page_title(root: Path, targets: Sequence[Path]) -> str:
    """What a page is called: by its project, and by what of that is reviewed, unless it is all; all paths absolute."""
    project = f"Review of {shown(root.name or root)}"
    if root in targets:
        return project
    names = [shown(target.relative_to(root) if target.is_relative_to(root) else target) for target in targets]
    more = [f"{len(names) - _TITLED} more"] if len(names) > _TITLED else []
    return f"{project}: {', '.join([*names[:_TITLED], *more])}"


@define
class Reviewing:
    """A call of `perfmod review`; the attributes are its arguments."""

    paths: list[str]
    options: Options
    decisions: Path | None
    evidence: Sequence[Path]
    jobs: int | None
    use_cache: bool
    isolated: bool
    _out: Console = field(factory=lambda: console(stderr=False), init=False)

    def open(self) -> Review:
        """The review as things stand. Raises `UsageMistake` and `Failure`."""
        with progress_bar("Reading", self._out) as show:

            def progress(done: int, total: int, new: Sequence[Examined]) -> None:
                del new  # told when all are there
                show(done, total)

            review = Review.of(
                self.paths,
                self.options,
                cwd=Path.cwd(),
                decisions=self.decisions,
                evidence=self.evidence,
                jobs=self.jobs,
                isolated=self.isolated,
                use_cache=self.use_cache,
                progress=progress,
            )
        text.render_troubles((each.result for each in review.examined), self._out)
        text.render_unfit(review.unfit, self._out)
        return review

    def in_terminal(self) -> Review:
        """Ask about one finding after the other; what was shown last."""
        review = self.open()
        terminal = Terminal(review, self._out, self._ask, self._explain, self.open)
        try:
            terminal.run()
        finally:
            self._tell(terminal.review)
        return terminal.review

    def as_page(self, path: Path) -> Review:
        """Write the page; what it shows. Raises `Failure`."""
        review = self.open()
        write_file(path, self._page(review))
        told = f"{counted(len(review.items), 'finding')} in {shown(path)}"
        if not review.items:
            self._out.print(told)
            return review
        hint = f"`{self._command('apply')} --decisions decisions.json` writes what was accepted on it and exported"
        text.render_notes([f"{told}; {hint}"], self._out)
        return review

    def in_browser(self) -> Review:
        """Serve the page until Ctrl-C; what it showed last. Raises `Failure` where no port can be had."""
        try:
            server = ReviewServer(self.open, self._page, Path.cwd())
        except OSError as error:
            raise Failure(f"the page cannot be served: {explain(error)}") from error
        text.render_notes([f"{server.address} shows the review; Ctrl-C ends it"], self._out)
        with server:
            try:
                server.serve_forever()
            except KeyboardInterrupt:
                self._out.print()
        self._tell(server.review)
        return server.review

    def _page(self, review: Review, server: Server | None = None) -> bytes:
        title = page_title(review.decisions.root, [Path(os.path.normpath(Path.cwd() / path)) for path in self.paths])
        return review_page(list(review.items.values()), title=title, server=server)

    def _ask(self, prompt: str) -> str:
        return self._out.input(Text(prompt, style="bold"))

    def _explain(self, code: str) -> None:
        pages.render_page(pages.find(code, catalog.rules()), self._out)

    def _tell(self, review: Review) -> None:
        """What was decided, and the commands that go on from here."""
        counts = {verdict: review.count(verdict) for verdict in Verdict}
        if not review.items:
            return
        told = ", ".join(f"{counts[verdict]} {verdict.value}" for verdict in Verdict if counts[verdict])
        where = f" in {shown(from_here(review.decisions.file))}" if review.decisions.rows else ""
        self._out.print(Text(f"{told}{where}", style="bold"))
        hints = []
        if counts[Verdict.ACCEPTED]:
            file = shlex.quote(shown(from_here(review.decisions.file)))
            hints.append(f"`{self._command('apply')} --decisions {file}` writes what was accepted")
        if counts[Verdict.UNDECIDED]:
            own = "" if self.decisions is None else f" --decisions {shlex.quote(str(self.decisions))}"
            hints.append(f"`{self._command('review')}{own}` goes on")
        text.render_notes(hints, self._out)

    def _command(self, name: str) -> str:
        """A command that finds the same."""
        return apply_command(self.paths, self.options, isolated=self.isolated, command=name)
