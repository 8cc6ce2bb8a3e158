"""Verifies one script of a project: `perfmod verify` in a tree and surroundings of its own, and what that comes to."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Final

from attrs import evolve, frozen

from perfmod.config import Options
from perfmod.errors import ExitCode, Failure, PerfmodError, UsageMistake, explain
from perfmod.examine import examine
from perfmod.migrate import snapshot
from perfmod.migrate.jobs import OUT, SNAPSHOT
from perfmod.migrate.redaction import Secrets, in_record, redacted
from perfmod.migrate.results import Cause, Outcome, Refused, Verification, VerificationRequest
from perfmod.migrate.sandbox import Sandbox, removed
from perfmod.migrate.zoo import leaves
from perfmod.review.decisions import FILE as DECISIONS
from perfmod.review.settling import Settling
from perfmod.roots import shown
from perfmod.verify.evidence import Evidence, Verdict
from perfmod.verify.failures import Kind
from perfmod.verify.interrupts import held_back, terminable
from perfmod.verify.report import evidence_json, files
from perfmod.verify.sides import ORIGINAL
from perfmod.verify.stacks import Rewriting
from perfmod.verify.tree import SCRATCH_PREFIX
from perfmod.verify.verification import exit_code

NOTHING: Final = "nothing to verify"
"""The verdict on a script in whose files no rule rewrites anything."""
_START: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv.pop(1)); sys.argv[0] = 'perfmod'; "
    "from perfmod.cli.main import run; run()"
)
"""perfmod as it is found by this process, whatever lies in the folder where it starts."""
_RUNS: Final = 3
"""So many runs of a script as long as may be would take all the time that there is."""
_SHORTEST_RUN: Final = 10.0
"""Seconds."""
_LONGEST_LINE: Final = 64 * 1024
_LAST_LINES: Final = 20
_DRAINING: Final = 5.0
"""Seconds for the rest of what a command printed, once it is over; what it left running may hold the pipe."""
_CLEANING: Final = 30.0
"""Seconds."""
_COMPLAINT: Final = "perfmod: "
_NO_SPACE: Final = re.compile(r"no space|quota exceeded", re.IGNORECASE)


def run(request: VerificationRequest, folder: Path) -> Verification | Refused:
    """Verify a script in `folder`, which is its own; what can be passed on lies in `out/` of it afterwards.

    Nothing else is left there. What the commands print is printed, without secrets. The process needs no particular
    working directory, and may be ended at any time by SIGTERM.
    """
    work = folder / "work"
    with terminable():
        try:
            removed(work)  # of an attempt that was cut short
            work.mkdir(parents=True)
            # Paths that scripts print are those of no links.
            work = work.resolve()
            return _Trial.prepared(request, folder, work).verdict()
        except _Wrong as error:
            return Refused(Outcome.FAILED, error.cause, redacted(error.reason, Secrets.of()))
        except (PerfmodError, OSError) as error:
            return Refused(Outcome.FAILED, Cause.DISK, redacted(str(error), Secrets.of()))
        finally:
            with held_back():
                removed(work)


class _Wrong(Exception):
    """What is asked for does not fit the project, or this machine."""

    def __init__(self, reason: str, cause: Cause = Cause.SCRIPT) -> None:
        super().__init__(reason)
        self.reason = reason
        self.cause = cause


@frozen
class _Trial:
    """The verification of one script.

    Attributes:
        out: the folder for evidence.
        work: the folder for everything else.
        tree: the files of the project. cwd: where the script runs. script: its path from there.
        links: absolute.
    """

    request: VerificationRequest
    out: Path
    work: Path
    tree: Path
    cwd: Path
    script: str
    links: tuple[Path, ...]

    @classmethod
    def prepared(cls, request: VerificationRequest, folder: Path, work: Path) -> _Trial:
        """The tree is there, with its decisions. Raises `_Wrong` and `Failure`."""
        tree = work / "tree"
        snapshot.unpack(_packed(request, folder), tree)
        if request.decisions:
            _decide(tree, request.decisions)
        script, cwd = _inside(tree, request.script.script), _inside(tree, request.script.folder)
        if not script.is_file():
            raise _Wrong(f'"script": {shown(request.script.script)}: no such file in {shown(request.project)}')
        if not cwd.is_dir():
            raise _Wrong(f'"folder": {shown(request.script.folder)}: no such folder in {shown(request.project)}')
        named = os.path.relpath(script, cwd)
        return cls(
            request=request,
            out=folder / OUT,
            work=work,
            tree=tree,
            cwd=cwd,
            script=f"./{named}" if named.startswith("-") else named,
            links=tuple(_linked(tree, each) for each in request.script.links),
        )

    def verdict(self) -> Verification:
        """Run what has to be run. Raises `_Wrong` and `Failure`."""
        asked = self.request.script
        try:
            with Sandbox.below(self.work, asked.environment, network=asked.network) as sandbox:
                found = self._verdict(sandbox, self._secrets(sandbox))
                return evolve(found, notes=(*sandbox.notes, *found.notes))
        except UsageMistake as error:
            raise _Wrong(str(error)) from error

    def _verdict(self, sandbox: Sandbox, secrets: Secrets) -> Verification:
        if self.request.script.data and not self._is_left_alone():
            failed = self._failed_data(sandbox, secrets)
            if failed is not None:
                return failed
        report = self.work / "report"
        asked = self._options()
        arguments = ["--", *self.request.script.arguments]
        command = ["verify", *asked, "--python", self._python(), "--report", str(report), *arguments]
        modules = json.dumps([os.path.abspath(entry) for entry in sys.path if entry])  # noqa: PTH100, may be an archive
        ended = _run(sandbox, [sys.executable, "-I", "-c", _START, modules, *command], self.cwd, secrets)
        try:
            evidence = evidence_json.load((report / files.RECORD).read_text("utf-8"))
        except FileNotFoundError:
            return _without_evidence(ended)
        except (OSError, ValueError) as error:
            return Verification(Verdict.FAILED.value, Cause.CRASH, f"evidence.json: {redacted(str(error), secrets)}")
        if ended.code != exit_code(evidence):
            reason = f"perfmod verify ended with {ended.code}, which does not fit its evidence: {ended.last}"
            return Verification(Verdict.FAILED.value, Cause.CRASH, reason)
        told = evolve(
            in_record(evidence, secrets),
            command=redacted(shlex.join(["perfmod", "verify", *asked, *arguments]), secrets),
            commit=self.request.commit,
        )
        files.write(told, self.out)
        return _of_evidence(told)

    def _options(self) -> list[str]:
        """The script and options of `perfmod verify` that mean something to others, too."""
        asked = self.request.script
        options = [self.script, "--device", asked.device, "--timeout", f"{self._longest_run():g}"]
        options += ["--steps", str(asked.steps)] if asked.steps else []
        options += ["--quick"] if asked.quick else []
        options += ["--nproc", str(asked.gpus)] if asked.gpus > 1 else []
        for link in self.links:
            options += ["--link", str(link)]
        return options + _rules(self.request.options)

    def _longest_run(self) -> float:
        whole = self.request.script.timeout
        return min(whole, max(whole / _RUNS, _SHORTEST_RUN))

    def _python(self) -> str:
        python = self.request.script.python
        return str(Path(python).expanduser()) if python else sys.executable

    def _is_left_alone(self) -> bool:
        """Whether nothing is rewritten, so that nothing has to be run; what goes wrong is told by `verify` itself."""
        try:
            found = examine([self.script], self.request.options, cwd=self.cwd, use_cache=False)
            settled = Settling.of(None, use_cache=False, cwd=self.cwd)(found)
            return not Rewriting.of(settled).stack
        except PerfmodError:
            return False

    def _failed_data(self, sandbox: Sandbox, secrets: Secrets) -> Verification | None:
        """Make the data; what that comes to where it fails."""
        program, *rest = self.request.script.data
        if re.fullmatch(r"python(3(\.\d+)?)?", program):
            program = self._python()
        ended = _run(sandbox, [program, *rest], self.cwd, secrets)
        if ended.code == 0:
            return None
        said = f": {ended.last}" if ended.last else " and printed nothing"
        return Verification(Verdict.FAILED.value, Cause.SCRIPT, f'"data" ended with {_status(ended.code)}{said}')

    def _secrets(self, sandbox: Sandbox) -> Secrets:
        """Runs happen in copies of the tree below the temporary folder."""
        copies = re.escape(str(sandbox.temporary.resolve())) + rf"/{SCRATCH_PREFIX}[^/\s]+/\d+/tree"
        return Secrets.of(
            (os.environ, sandbox.environment),
            (*self.request.script.arguments, *self.request.script.data),
            {self.tree: "<project>", sandbox.temporary: "<tmp>", sandbox.home: "~", self.work: "<job>"},
            {copies + re.escape(str(self.tree)): "<project>"},
        )


@frozen
class _Ended:
    """How a command ended, and the last line that it printed, without secrets; one that perfmod says comes first."""

    code: int
    last: str


def _packed(request: VerificationRequest, folder: Path) -> bytes:
    repository = request.repository
    if repository is not None:
        try:
            return snapshot.pack(repository, request.commit, everything=True)
        except PerfmodError as error:
            raise _Wrong(str(error), Cause.GIT if repository.exists() else Cause.VANISHED) from error
    path = folder / SNAPSHOT
    try:
        return path.read_bytes()
    except OSError as error:
        raise Failure(f"{shown(path)}: cannot be read: {explain(error)}") from error


def _decide(tree: Path, decisions: str) -> None:
    path = tree / DECISIONS
    try:
        if path.parent.is_symlink() or path.parent.is_file():
            path.parent.unlink()
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_text(decisions, encoding="utf-8")
    except OSError as error:
        raise Failure(f"{DECISIONS}: cannot be written: {explain(error)}") from error


def _inside(tree: Path, path: str) -> Path:
    """A path of the project, links followed. Raises `_Wrong` where it leads out of it."""
    found = (tree / path).resolve()
    if leaves(path) or not found.is_relative_to(tree):
        raise _Wrong(f"{shown(path)} leaves the project; paths are from its root")
    return found


def _linked(tree: Path, link: str) -> Path:
    """A folder with data; one in the project may still have to be made."""
    path = Path(link).expanduser()
    if not path.is_absolute():
        return _inside(tree, link)
    if not path.exists():
        raise _Wrong(f'"links": {shown(link)}: no such folder on this machine')
    return path


def _rules(options: Options) -> list[str]:
    """Options of an analysis as `perfmod verify` takes them."""
    words = ["--propose", "all"] if options.proposing else []
    for name in ("select", "extend_select", "ignore"):
        rules = getattr(options, name)
        words += [f"--{name.replace('_', '-')}", ",".join(rules)] if rules else []
    for name in ("unsafe", "low_impact"):
        given = getattr(options, name)
        option = name.replace("_", "-")
        words += [] if given is None else [f"--{option}" if given else f"--no-{option}"]
    return words


def _run(sandbox: Sandbox, arguments: Sequence[str], cwd: Path, secrets: Secrets) -> _Ended:
    """Run a command; what it prints is printed, line by line."""
    with _started(sandbox.command(arguments), cwd, sandbox.environment) as process:
        assert process.stdout is not None
        lines: deque[str] = deque(maxlen=_LAST_LINES)
        reading = threading.Thread(target=_pass_on, args=(process.stdout, secrets, lines), daemon=True)
        reading.start()
        code = process.wait()
        reading.join(_DRAINING)
    said = [line for line in lines if line.strip()]
    complaint = next((line.removeprefix(_COMPLAINT) for line in reversed(said) if line.startswith(_COMPLAINT)), "")
    return _Ended(code, complaint or (shown(" ".join(said[-1].split())) if said else ""))


@contextlib.contextmanager
def _started(command: Sequence[str], cwd: Path, environment: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process that does not outlive the block."""
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env={**environment, "PWD": str(cwd)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            # It cleans up, and ends all that it has started.
            process.terminate()
            try:
                process.wait(_CLEANING)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _pass_on(stream: IO[bytes], secrets: Secrets, lines: deque[str]) -> None:
    """Print lines without secrets, and keep the last ones."""
    with contextlib.suppress(ValueError):  # closed, because nobody waits any longer
        while line := stream.readline(_LONGEST_LINE):
            text = redacted(line.decode("utf-8", "replace").rstrip("\r\n"), secrets)
            lines.append(text)
            print(text, flush=True)


def _without_evidence(ended: _Ended) -> Verification:
    """What `perfmod verify` says where it did not come to a run."""
    if ended.code == ExitCode.USAGE:
        return Verification(Verdict.FAILED.value, Cause.CONFIGURATION, ended.last)
    if ended.code == ExitCode.FAILED:
        cause = Cause.DISK if _NO_SPACE.search(ended.last) else Cause.SCRIPT
        return Verification(Verdict.FAILED.value, cause, ended.last)
    said = f": {ended.last}" if ended.last else ""
    return Verification(Verdict.FAILED.value, Cause.CRASH, f"perfmod verify ended with {_status(ended.code)}{said}")


def _status(code: int) -> str:
    return f"status {code}" if code >= 0 else f"signal {-code}"


def _of_evidence(evidence: Evidence) -> Verification:
    speed, equality = evidence.speed, evidence.equality
    is_nothing = equality.verdict is Verdict.NO_CHANGE
    return Verification(
        verdict=NOTHING if is_nothing else evidence.verdict.value,
        cause=_cause(evidence),
        reason=evidence.reason,
        ratio=None if speed is None else speed.ratio,
        low=None if speed is None else speed.low,
        high=None if speed is None else speed.high,
        gpu=evidence.environment.gpu,
        torch=evidence.environment.torch,
        notes=evidence.warnings,
    )


def _cause(evidence: Evidence) -> Cause:
    """What fails before anything is changed is told apart from what a change broke."""
    equality = evidence.equality
    if equality.failed_side == ORIGINAL:
        return _OF_TROUBLE.get(equality.trouble, Cause.BEFORE)
    return Cause.REFUTED if evidence.verdict is Verdict.REFUTED else Cause.NONE


_OF_TROUBLE: Final = {Kind.TIME_LIMIT.value: Cause.TIMEOUT, Kind.NO_SPACE.value: Cause.DISK}
"""Troubles of an original with causes of their own."""
