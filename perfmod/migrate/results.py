"""What is asked of the pieces of work, and what they come to. They travel as JSON, see `perfmod.records`."""

from __future__ import annotations

import enum
from pathlib import Path

from attrs import field, frozen

from perfmod.config import Options
from perfmod.migrate.zoo import Script
from perfmod.patches.by import By


class Outcome(str, enum.Enum):
    """What a project, or a file, comes to."""

    CHANGED = "changed"
    UNCHANGED = "unchanged"
    SKIPPED = "skipped"
    FAILED = "failed"
    NEEDS_A_PERSON = "needs a person"


class Cause(str, enum.Enum):
    """Why something was skipped, failed or needs a person; what `retry --cause` takes."""

    NONE = ""
    TIMEOUT = "timeout"
    CRASH = "crash"
    WORKER_LOST = "worker-lost"
    WORKER_VERSION = "worker-version"
    CLONE = "clone"
    VANISHED = "vanished"
    NO_COMMITS = "no-commits"
    NO_PYTHON = "no-python"
    NO_REPOSITORY = "no-repository"
    CONFIGURATION = "configuration"
    GIT = "git"
    HOOK = "hook"
    DISK = "disk"
    BRANCH = "branch"
    """The branch is there already, with commits of others."""
    FILES = "files"
    """A file of it failed."""
    QUESTION = "question"
    """A rewrite depends on the answer to a question."""
    BEFORE = "fails-before"
    """A script fails before anything is changed."""
    REFUTED = "refuted"
    SCRIPT = "script"
    """What ZOO.toml says of a script does not fit the project."""


@frozen
class FileRow:
    """A file; `reason` says why it was skipped or failed, or what is asked about it."""

    path: str
    outcome: Outcome
    reason: str = ""


@frozen
class FindingRow:
    """A finding that is rewritten or waits for something; `state` is a `report.rows.State`'s value.

    In a notebook, lines count in the code cell that is number `cell` of all its cells, from 1.
    """

    path: str
    line: int
    code: str
    state: str
    numerics: str
    fingerprint: str
    message: str
    question: str = ""
    cell: int | None = None


@frozen
class Step:
    """One commit, or one patch.

    Attributes:
        subject, body: its message.
        label: what it is about: the rule, the files, the owners or the project.
        patch: name of the file in `out/patches`.
        branch: ends the name of the branch that it is on; empty where all steps are on one branch.
        files: what it leaves in files, by path from the root of the repository; the contents lie in `out/steps`, as
            `NUMBER/PATH`. `before` are digests (`disk.digest`) of what the files hold until then; empty for a file that
            it makes.
        findings: how many it holds. added, removed: lines.
    """

    subject: str
    body: str
    label: str
    owners: tuple[str, ...]
    patch: str
    branch: str
    files: tuple[str, ...]
    before: tuple[str, ...]
    findings: int
    added: int
    removed: int


@frozen
class AnalysisRequest:
    """Analyse a project.

    Attributes:
        repository: its folder; None where the files are in `snapshot.tar`.
        commit: what is analysed; empty for a folder that is no repository.
        decisions: the text of a `decisions.json` that holds instead of the project's own; empty for none.
        evidence: names of records of verifications in the folder of the job, which pages and messages speak of.
        by: what a step holds.
        is_sharded: whether each step has to be right on its own, on a branch of its own.
        author: of the patches, `Name <address>`; empty for git's own. date: of the patches, ISO 8601; empty for now.
    """

    project: str
    repository: Path | None
    commit: str
    options: Options
    by: By
    decisions: str = ""
    is_sharded: bool = False
    use_cache: bool = True
    evidence: tuple[str, ...] = ()
    author: str = ""
    date: str = ""


@frozen
class Analysis:
    """What an analysis comes to. In `out/` lie `patches/`, `steps/`, `changes.diff`, `review.html`, `findings.json`.

    Attributes:
        kind: what sort of project it is, in one word.
        decided, of: how many of its rewrites people have decided about.
        notes: what there is to say beside, one line each.
    """

    outcome: Outcome
    cause: Cause = Cause.NONE
    reason: str = ""
    kind: str = ""
    files: tuple[FileRow, ...] = ()
    findings: tuple[FindingRow, ...] = ()
    steps: tuple[Step, ...] = ()
    decided: int = 0
    of: int = 0
    notes: tuple[str, ...] = ()


@frozen
class VerificationRequest:
    """Run one script of a project before and after its rewrites; the fields are those of `AnalysisRequest`."""

    project: str
    repository: Path | None
    commit: str
    options: Options
    script: Script
    decisions: str = ""


@frozen
class Verification:
    """What a verification comes to. In `out/` lie `evidence.json`, `report.html` and `report.md`.

    Attributes:
        verdict: `proven`, `no measurable change`, `refuted`, `inconclusive` or `failed`; see `verify.evidence.Verdict`.
            Or `nothing to verify` where nothing is rewritten in what the script runs.
        cause: `Cause.BEFORE` where the original fails by itself.
        ratio, low, high: of the speed; None where it was not timed.
        notes: what there is to say about how it was run, one line each.
    """

    verdict: str
    cause: Cause = Cause.NONE
    reason: str = ""
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    gpu: str = ""
    torch: str = ""
    notes: tuple[str, ...] = ()


@frozen
class BranchesRequest:
    """Put steps on branches of a repository, each commit made by git itself in a working tree of its own.

    Attributes:
        steps: those of `Analysis`; `contents` is the folder with `NUMBER/PATH`, the numbers from 1.
        branch: the name, to which a step's own ending is added.
        author: `Name <address>`; empty for git's own.
        tips: the branches that this campaign has made before, with what they pointed at then.
        waiting: endings of branches that are not to be made yet.
        time_limit: seconds for each branch, with all that hooks do.
    """

    project: str
    repository: Path
    commit: str
    steps: tuple[Step, ...]
    contents: Path
    branch: str
    author: str = ""
    tips: dict[str, str] = field(factory=dict)
    waiting: tuple[str, ...] = ()
    time_limit: float = 600.0


@frozen
class Branch:
    """One branch; `tip` is its commit, empty where it was not made, with `cause` and `reason`."""

    name: str
    tip: str
    commits: int
    outcome: Outcome
    cause: Cause = Cause.NONE
    reason: str = ""


@frozen
class Branches:
    """All branches of a project; `waiting` are the names of those that are not made yet, because enough are open."""

    branches: tuple[Branch, ...]
    waiting: tuple[str, ...] = ()


@frozen
class Refused:
    """What a piece of work comes to that cannot be done at all."""

    outcome: Outcome
    cause: Cause
    reason: str


@frozen
class CloneRequest:
    """Get a repository from its address, or what is new in it; `folder` is where it lies or is to lie."""

    address: str
    folder: Path
    revision: str = ""


@frozen
class Cloned:
    """The repository is there."""


Request = AnalysisRequest | VerificationRequest | BranchesRequest | CloneRequest
Result = Analysis | Verification | Branches | Cloned | Refused
