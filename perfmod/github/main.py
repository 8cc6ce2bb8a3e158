"""The action: what it looks at, where it shows what it found, and how the job ends."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from attrs import frozen

from perfmod.errors import ExitCode, Failure, PerfmodError, UsageMistake
from perfmod.github import commands, markdown, review
from perfmod.github.api import GitHub, NotAllowed
from perfmod.github.commands import complaint
from perfmod.github.findings import Checked, Found, check, is_met, run_check
from perfmod.github.inputs import FailOn, Inputs, Mode
from perfmod.github.pull import FileChange, PullRequest, changes, checked_out, pull_request

SARIF = "perfmod.sarif"
"""The file of mode `sarif`, in the folder of the job."""


@frozen
class Result:
    """How a run went: what it found, and whether something failed."""

    found: Sequence[Found]
    failed: bool

    def code(self, fail_on: FailOn) -> ExitCode:
        """The exit code, with which the step of the job ends."""
        if self.failed and fail_on is not FailOn.NEVER:
            return ExitCode.FAILED
        return ExitCode.FOUND if self.found and fail_on is FailOn.FINDING else ExitCode.OK


def run() -> None:
    """Entry point: one line for every trouble, and an exit code that breaks the job only where it was asked for."""
    fail_on = FailOn.NEVER
    try:
        inputs = Inputs.of(os.environ)
        fail_on = inputs.fail_on
        code = Action(inputs, os.environ).run().code(fail_on)
    except UsageMistake as error:
        print(complaint("error", str(error)))
        code = error.exit_code
    except PerfmodError as error:
        print(complaint("warning" if fail_on is FailOn.NEVER else "error", str(error)))
        code = Result((), failed=True).code(fail_on)
    sys.exit(code)


@frozen
class Action:
    """One run of the action in the environment of a job."""

    inputs: Inputs
    environment: Mapping[str, str]

    def run(self) -> Result:
        """Find, show and summarise. Raises `PerfmodError`."""
        if self.inputs.mode is Mode.SARIF:
            return self._sarif()
        event = self.environment.get("GITHUB_EVENT_PATH")
        pull = pull_request(Path(event)) if event else None
        if pull is None:
            checked = check(self.inputs, Path.cwd())
            self._annotate(checked.found)
            self._summarise(checked.found, "the whole code", self.environment.get("GITHUB_SHA", ""))
            return Result(checked.found, checked.failed)
        with ExitStack() as stack:
            changed = changes(pull)
            folder = stack.enter_context(checked_out(pull))
            checked = check(self.inputs, folder) if changed else Checked((), failed=False)
            found = [each for each in checked.found if is_met(each.row, changed)]
            posted = self._show(pull, changed, found, folder)
        self._summarise(found, "the lines that this pull request changes", pull.head)
        return Result(found, failed=checked.failed or not posted)

    def _show(self, pull: PullRequest, changed: Mapping[str, FileChange], found: Sequence[Found], folder: Path) -> bool:
        """Show findings in a pull request; whether that went as it should."""
        if self.inputs.mode is Mode.REVIEW and self.inputs.token:
            try:
                self._review(pull, changed, found, folder)
            except Failure as error:
                level = "notice" if isinstance(error, NotAllowed) else "warning"
                print(complaint(level, f"no review, annotations instead: {error}"))
                self._annotate(found)
                return isinstance(error, NotAllowed)
        else:
            self._annotate(found)
        return True

    def _review(
        self, pull: PullRequest, changed: Mapping[str, FileChange], found: Sequence[Found], folder: Path
    ) -> None:
        if not found:
            return
        github = GitHub(self.environment.get("GITHUB_API_URL", "https://api.github.com"), self.inputs.token)
        said = review.keys(github.comments(pull))

        def content(path: str) -> str | None:
            try:
                return (folder / path).read_bytes().decode("utf-8-sig")
            except UnicodeDecodeError:
                return None

        comments = review.comments(found, changed, content, self.inputs, said)
        if comments:
            run = f"{self._repository}/actions/runs/{self.environment.get('GITHUB_RUN_ID', '')}"
            github.review(pull, review.review(pull, comments, found, run))

    def _annotate(self, found: Sequence[Found]) -> None:
        if self.inputs.mode is not Mode.SUMMARY:
            for line in commands.annotations(found):
                print(line)

    def _summarise(self, found: Sequence[Found], where: str, commit: str) -> None:
        """Add to the summary of the job, where GitHub has named a file for it."""
        file = self.environment.get("GITHUB_STEP_SUMMARY")
        if not file:
            return
        command = shlex.join(["perfmod", "apply", *self.inputs.paths, *self.inputs.args])
        link = f"{self._repository}/blob/{commit}" if commit else ""
        with Path(file).open("a", encoding="utf-8") as summary:
            summary.write(markdown.summary(found, where=where, command=command, link=link))

    def _sarif(self) -> Result:
        """Write the file, and its name as the output `sarif-file`."""
        Path(SARIF).unlink(missing_ok=True)
        done = run_check(self.inputs, ("--output-format", "sarif", "--output-file", SARIF, "--exit-zero"), Path.cwd())
        if not Path(SARIF).is_file():
            raise Failure(f"perfmod check ended with {done.returncode} and wrote no {SARIF}; see the log")
        if outputs := self.environment.get("GITHUB_OUTPUT"):
            with Path(outputs).open("a", encoding="utf-8") as file:
                file.write(f"sarif-file={SARIF}\n")
        return Result((), failed=done.returncode == ExitCode.FAILED)

    @property
    def _repository(self) -> str:
        server = self.environment.get("GITHUB_SERVER_URL", "https://github.com")
        return f"{server}/{self.environment.get('GITHUB_REPOSITORY', '')}"
