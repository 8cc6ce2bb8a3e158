"""What `review` does with its arguments: a review is opened, held, and told about at the end."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from attrs import define, field
from rich.console import Console
from rich.text import Text

from perfmod.codemods import catalog
from perfmod.config import Options
from perfmod.errors import Failure, explain
from perfmod.examined import Examined
from perfmod.report import pages, text
from perfmod.report.output import console, progress_bar, write_file
from perfmod.report.wording import counted
from perfmod.review.items import Verdict
from perfmod.review.page import Server, render, rule_text
from perfmod.review.serve import ReviewServer
from perfmod.review.session import Review
from perfmod.review.terminal import Terminal
from perfmod.roots import from_here, shown


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

    def in_terminal(self) -> None:
        """Ask about one finding after the other."""
        review = self.open()
        terminal = Terminal(review, self._out, self._ask, self._explain, self.open)
        try:
            terminal.run()
        finally:
            self._tell(terminal.review)

    def as_page(self, path: Path) -> None:
        """Write the page. Raises `Failure`."""
        review = self.open()
        write_file(path, self._page(review))
        told = f"{counted(len(review.items), 'finding')} in {shown(path)}"
        self._out.print(
            f"{told}; `perfmod apply {shlex.join(self.paths)} --decisions FILE` applies what is exported from it",
            highlight=False,
            soft_wrap=True,
        )

    def in_browser(self) -> None:
        """Serve the page until Ctrl-C. Raises `Failure` where no port can be had."""
        try:
            server = ReviewServer(self.open, self._page, Path.cwd())
        except OSError as error:
            raise Failure(f"the page cannot be served: {explain(error)}") from error
        self._out.print(f"{server.address} shows the review; Ctrl-C ends it", highlight=False, soft_wrap=True)
        with server:
            try:
                server.serve_forever()
            except KeyboardInterrupt:
                self._out.print()
        self._tell(server.review)

    def _page(self, review: Review, server: Server | None = None) -> bytes:
        codes = {item.finding.code for item in review.items.values()}
        rules = {rule.code: rule_text(rule) for rule in catalog.rules() if rule.code in codes}
        title = " ".join(map(shown, self.paths))
        return render(list(review.items.values()), rules, title=title, server=server)

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
        self._out.print(f"{told}{where}", style="bold", highlight=False)
        paths = shlex.join(self.paths)
        if counts[Verdict.ACCEPTED]:
            file = shlex.quote(shown(from_here(review.decisions.file)))
            self._out.print(
                f"`perfmod apply {paths} --decisions {file}` writes what was accepted", highlight=False, soft_wrap=True
            )
        if counts[Verdict.UNDECIDED]:
            own = [] if self.decisions is None else ["--decisions", str(self.decisions)]
            command = shlex.join(["perfmod", "review", *self.paths, *own])
            self._out.print(f"`{command}` goes on", highlight=False, soft_wrap=True)
