"""The record of a verification: `evidence.json`. Everything that is printed or drawn is made from it.

The schema version is raised when a field changes its meaning or goes; new fields may come without.
"""

from __future__ import annotations

import enum

from attrs import field, frozen

SCHEMA_VERSION = 1


class Verdict(str, enum.Enum):
    """What became of a question, for a whole run, for one rule or for one check."""

    PROVEN = "proven"
    """Equal; and for a speed: faster, beyond the noise of this machine."""
    NO_CHANGE = "no measurable change"
    """The interval of the speed ratio does not clear the noise."""
    REFUTED = "refuted"
    """Different, or slower beyond the noise."""
    INCONCLUSIVE = "inconclusive"
    """The runs do not allow a judgement."""
    FAILED = "failed"
    """The script could not be run."""


@frozen
class Check:
    """One comparison of the E-run.

    Attributes:
        name: what was compared, as `gradients of step 1`.
        measured: how far the two sides lie apart (a relative difference, or a count); None where it is a yes or no.
        allowed: how far they may lie apart; 0.0 demands equal bits.
        noise: how far the original lies from itself (A/A, largest of the repeats).
        control: how far the original lies from itself with one-ulp noise on its inputs (largest of the repeats).
        reason: in one line, why it failed or is inconclusive; else what was seen, or empty.
    """

    name: str
    verdict: Verdict
    measured: float | None = None
    allowed: float | None = None
    noise: float | None = None
    control: float | None = None
    reason: str = ""


@frozen
class Curve:
    """A loss curve. One value per backward pass; NaN and infinities are themselves."""

    label: str
    losses: tuple[float, ...]


@frozen
class Equality:
    """Is the training the same?

    Attributes:
        checks: in the order of judgement; judging goes on after a failure only where it can still say something.
        numerics: the class that decided how far the sides may lie apart.
        short_horizon: the class changes results; equality was judged over these few steps only.
        steps, backwards, samples: what was compared (original).
        single_steps: those that were compared one by one, each begun with the original's state.
        original, rewritten: the loss curves.
        repeats, controls: those of the A/A repeats and of the perturbed runs.
        failed_side: `original` where that gave nothing to judge, by itself; `rewritten` where only the other side
            failed; else empty. trouble: what kind of failure that was, see `verify.symptoms.Kind`.
    """

    verdict: Verdict
    reason: str
    numerics: str
    checks: tuple[Check, ...] = ()
    short_horizon: bool = False
    steps: int = 0
    backwards: int = 0
    samples: int = 0
    single_steps: tuple[int, ...] = ()
    original: Curve | None = None
    rewritten: Curve | None = None
    repeats: tuple[Curve, ...] = ()
    controls: tuple[Curve, ...] = ()
    failed_side: str = ""
    trouble: str = ""


@frozen
class TimedRun:
    """One process of the T-run.

    Attributes:
        side: `original`, `rewritten`, or the stack's name where rules are attributed.
        order: place in the sequence of processes, from 0.
        step_ms: time between the ends of consecutive steps of the window, on the device's clock.
        mean_ms: wall clock of the window over its steps.
        first_step_seconds: from the start of the process to the end of its first step.
        compile_seconds: spent in torch.compile before the window; 0.0 without.
        peak_allocated_mib, peak_reserved_mib: device memory; None on the CPU.
        peak_resident_mib: of the whole tree of processes. peak_shm_mib: growth of /dev/shm.
        load, device_load: shares of the processors' and of the GPU's time that other processes took meanwhile.
        throttled: what held the GPU's clocks down meanwhile, beside its work and its settings; empty for nothing.
    """

    side: str
    order: int
    step_ms: tuple[float, ...]
    mean_ms: float
    first_step_seconds: float = 0.0
    compile_seconds: float = 0.0
    peak_allocated_mib: float | None = None
    peak_reserved_mib: float | None = None
    peak_resident_mib: float | None = None
    peak_shm_mib: float | None = None
    load: float = 0.0
    device_load: float = 0.0
    throttled: str = ""


@frozen
class Speed:
    """Is it faster?

    Attributes:
        ratio: time of an original step over time of a rewritten one; above 1 is faster. `low` and `high` are its
            95 % bootstrap interval.
        spread: how far the ratio of the original to itself strays from 1, over the A/A pairs; the noise to clear.
        load: the share of a step's time that other processes on the machine may have taken, on the side that had more
            of them beside it; it makes the noise wider.
        saved_ms: per step.
        break_even_step: after how many steps a longer start is earned back; None where the start is not longer or
            nothing is saved.
        suspicious: why the gain is too good to be taken on trust, and what repeating it gave; else empty.
    """

    verdict: Verdict
    reason: str
    ratio: float = 1.0
    low: float = 1.0
    high: float = 1.0
    spread: float = 0.0
    load: float = 0.0
    original_ms: float = 0.0
    rewritten_ms: float = 0.0
    saved_ms: float = 0.0
    break_even_step: int | None = None
    suspicious: str = ""
    runs: tuple[TimedRun, ...] = ()


@frozen
class SyncRow:
    """One line of code that made the host wait.

    Attributes:
        path, line: in the user's tree, in the original (or in the rewritten file where only that one waits).
        code: the line's text.
        before, after: implicit synchronisations per step.
        before_ms, after_ms: milliseconds per step that the host waited there.
        rules: codes of the findings at that line.
        status: `removed`, `rewritten, still waits`, `fewer`, `new`, `no rule covers it`, or what became of the
            finding there and why (`open question: …`, `left as it is: …`).
        inside: the library line that waited, where it is not the user's own.
    """

    path: str
    line: int
    code: str
    before: float
    after: float
    before_ms: float
    after_ms: float
    rules: tuple[str, ...] = ()
    status: str = ""
    inside: str = ""


@frozen
class Profile:
    """What torch's profiler saw, per step.

    Attributes:
        syncs: implicit synchronisations that the debug mode counted.
        sync_ms: waiting in synchronising calls of the runtime.
        to_device_bytes: host to device; `pageable_bytes` is the part from pageable memory.
        from_device_bytes: device to host.
        busy_share: share of the time in which at least one kernel or copy ran.
        kernels: launched.
    """

    syncs: float
    sync_ms: float = 0.0
    to_device_bytes: float = 0.0
    pageable_bytes: float = 0.0
    from_device_bytes: float = 0.0
    busy_share: float | None = None
    kernels: float = 0.0


@frozen
class Why:
    """Why is it faster? Syncs by line and the profiles of both sides; None for a side that could not be profiled."""

    original: Profile | None
    rewritten: Profile | None
    syncs: tuple[SyncRow, ...] = ()


@frozen
class RuleRow:
    """One rule in the stack, added to those above it.

    Attributes:
        lines: where its findings were applied, as `train.py:12`.
        fingerprints: of these findings.
        equality: of the stack up to and with this rule.
        speed: of the stack up to and with this rule against the stack before it; None where it was not timed.
        syncs_removed: implicit synchronisations per step at its lines that went; None where unknown.
        withdrawn: whether the rule was taken out of the final stack; `reason` says why.
    """

    code: str
    name: str
    numerics: str
    lines: tuple[str, ...]
    equality: Verdict
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    syncs_removed: float | None = None
    sync_ms_removed: float | None = None
    withdrawn: bool = False
    reason: str = ""
    fingerprints: tuple[str, ...] = ()


@frozen
class FindingRow:
    """A finding that was proposed, where something is to be said about it alone.

    Attributes:
        place: in the original, as `train.py:12`.
        safety: what may be done with it without a run.
        outcome: `kept`, `withdrawn`, or `open` where the runs could not decide.
        observed: what its questions were about, as the original's run showed it.
    """

    code: str
    name: str
    place: str
    safety: str
    outcome: str
    reason: str = ""
    observed: tuple[str, ...] = ()


@frozen
class FileRow:
    """A file of the user's that was run, from the folder that perfmod was called in, as it was then."""

    path: str
    sha256: str


@frozen
class Environment:
    """Where it was run. Unknown values are empty."""

    python: str = ""
    torch: str = ""
    cuda: str = ""
    gpu: str = ""
    driver: str = ""
    clocks: str = ""
    throttle: str = ""
    cpu: str = ""
    platform: str = ""
    packages: tuple[tuple[str, str], ...] = ()


@frozen
class Evidence:
    """A whole verification.

    Attributes:
        created: ISO 8601, UTC.
        command: what reproduces it, ready for a shell.
        script, against: as given. arguments: of the script.
        commit: of the script's repository, with `-dirty` where files differ; empty outside of one.
        device: `cuda` or `cpu`.
        reason: the verdict in one line.
        rules: the stack, in the order in which rules were added; empty with `--against`.
        findings: those of which a run decided something by themselves.
        files: the user's code that was run.
        stale: when an earlier record is read, what has changed since; one line each.
        diff: unified diff between the sides; cut where it is very long.
        warnings: one line each.
    """

    verdict: Verdict
    reason: str
    created: str
    perfmod: str
    command: str
    script: str
    against: str
    arguments: tuple[str, ...]
    commit: str
    device: str
    equality: Equality
    speed: Speed | None = None
    why: Why | None = None
    rules: tuple[RuleRow, ...] = ()
    environment: Environment = field(factory=Environment)
    warnings: tuple[str, ...] = ()
    findings: tuple[FindingRow, ...] = ()
    files: tuple[FileRow, ...] = ()
    stale: tuple[str, ...] = ()
    diff: str = ""
    seconds: float = 0.0
    schema: int = SCHEMA_VERSION
