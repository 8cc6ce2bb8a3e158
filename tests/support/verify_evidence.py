"""Records of verifications to render: one with everything in it, and the ways in which a record can lack something."""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Sequence
from itertools import count

from attrs import evolve

from perfmod.verify.evidence import (
    Check,
    Curve,
    Environment,
    Equality,
    Evidence,
    Profile,
    RuleRow,
    Speed,
    SyncRow,
    TimedRun,
    Verdict,
    Why,
)
from perfmod.verify.report import page as html

STEPS = 40
SEQUENCE = "ORROORROORROOO"
"""The sides of the timed processes; the last two originals are a pair of their own."""
HOSTILE = "a</script><script>document.title='broken'</script>&\"'|`*_\x1b[31m\x00\udc80.py"
"""A path that tries to leave every notation that it is written in."""
DIFF = """\
--- a/train.py
+++ b/train.py
@@ -38,9 +38,9 @@ class ForegroundLoss(nn.Module):
     def forward(self, logits, labels):
         # Background pixels teach nothing: treat them like unlabelled ones.
-        unwanted = (labels == self.background).nonzero(as_tuple=True)
+        unwanted = labels == self.background
         labels[unwanted] = self.void
-        too_plain = labels.unique().numel() < 2
+        flat = labels.flatten()
+        too_plain = (flat[1:] == flat[:-1]).all()
         labelled = labels != self.void
"""


def rich() -> Evidence:
    """A verification on CUDA that proved the rewrite equal and faster, with one rule withdrawn."""
    return Evidence(
        verdict=Verdict.PROVEN,
        reason="the training is the same, and a step is 1.47x faster",
        created="2026-11-20T15:02:11Z",
        perfmod="0.2.0",
        command="perfmod verify train.py --device cuda --seed 7 -- --data 'my data' --batch-size 32",
        script="examples/segmentation/train.py",
        against="",
        arguments=("--data", "my data", "--batch-size", "32"),
        commit="1f3870be274f6c49b3e31a0c6728957f9b2e7d4c-dirty",
        device="cuda",
        equality=equality(),
        speed=speed(),
        why=why(),
        rules=rules(),
        environment=Environment(
            python="3.12.8",
            torch="2.11.0+cu130",
            cuda="13.0",
            gpu="NVIDIA H200, 141 GiB",
            driver="580.82.07",
            clocks="1,980 MHz of 1,980 MHz",
            throttle="none seen",
            cpu="16 cores, Intel Xeon Platinum 8558",
            platform="Linux 6.8.0, glibc 2.39",
            packages=(("numpy", "2.3.4"), ("torchvision", "0.28.0")),
        ),
        warnings=("the script writes checkpoints; they went into the scratch copy and were thrown away",),
        diff=DIFF,
        seconds=192.4,
    )


def losses(seed: int = 0, scatter: float = 0.0, steps: int = STEPS) -> tuple[float, ...]:
    """A loss that falls and jitters; `scatter` moves it relatively, growing over the steps."""
    jitter, noise = random.Random(1), random.Random(seed)
    values = (0.4 + 2.2 * math.exp(-step / 9) + 0.08 * jitter.gauss(0, 1) for step in range(steps))
    return tuple(value * (1 + scatter * (1.15**step) * noise.gauss(0, 1)) for step, value in enumerate(values))


def equality() -> Equality:
    """Equal within rounding, over forty steps."""
    exact = ("initial parameters", "batches", "optimizer steps")
    near = (("loss of step 1", 1.2e-7), ("gradients of step 1", 4.1e-7), ("loss curve", 3.3e-6), ("buffers", 0.0))
    checks = [Check(name, Verdict.PROVEN, 0.0, 0.0, 0.0) for name in exact]
    checks += [Check(name, Verdict.PROVEN, far, 2 * 6.0e-6, 0.0, 6.0e-6) for name, far in near]
    checks.append(Check("patterns of NaN", Verdict.PROVEN))
    return Equality(
        Verdict.PROVEN,
        "equal within twice what one-ulp noise on the inputs does",
        "rounding",
        tuple(checks),
        steps=STEPS,
        backwards=STEPS,
        samples=1280,
        original=Curve("original", losses()),
        rewritten=Curve("rewritten", losses(2, 4e-8)),
        repeats=tuple(Curve(f"repeat {n}", losses(n + 10, 1e-9)) for n in range(3)),
        controls=tuple(Curve(f"one ulp, seed {n}", losses(n + 20, 9e-8)) for n in range(3)),
    )


def timed_runs(original_ms: float = 35.78, rewritten_ms: float = 24.32, steps: int = 80) -> tuple[TimedRun, ...]:
    """The processes of a T-run, with a slow step now and then."""
    draw, order = random.Random(3), count()
    runs = []
    for letter in SEQUENCE:
        typical = (original_ms if letter == "O" else rewritten_ms) * draw.gauss(1, 0.003)
        step_ms = tuple(
            abs(typical * draw.gauss(1, 0.012) * (1.2 if draw.random() < 0.01 else 1)) for _ in range(steps)
        )
        runs.append(
            TimedRun(
                "original" if letter == "O" else "rewritten",
                next(order),
                step_ms,
                sum(step_ms) / steps,
                first_step_seconds=6.1,
                peak_allocated_mib=4210.5 if letter == "O" else 4385.0,
                peak_reserved_mib=5120.0,
                peak_resident_mib=2913.0 if letter == "O" else 3350.0,
                peak_shm_mib=0.0 if letter == "O" else 96.0,
            )
        )
    return tuple(runs)


def speed() -> Speed:
    """Faster, beyond the noise."""
    return Speed(
        Verdict.PROVEN,
        "the whole interval lies above the noise",
        ratio=1.471,
        low=1.462,
        high=1.481,
        spread=0.004,
        original_ms=35.78,
        rewritten_ms=24.32,
        saved_ms=11.46,
        break_even_step=214,
        runs=timed_runs(),
    )


def sync_rows() -> tuple[SyncRow, ...]:
    """Lines that waited: removed, still there, refused, new, and inside of a library."""
    places = {
        41: "unwanted = (labels == self.background).nonzero(as_tuple=True)",
        43: "too_plain = labels.unique().numel() < 2",
        47: "loss = self.criterion(scores[labelled], labels[labelled])",
        92: "running += loss.item()",
        18: "return (predicted == target).float().mean().item()",
        88: "optimizer.step()",
    }
    figures = {
        41: (1.0, 0.0, 4.31, 0.0, ("PM101",), "removed"),
        43: (2.0, 0.0, 3.62, 0.0, ("PM103",), "removed"),
        47: (2.0, 0.0, 2.44, 0.0, ("PM104",), "removed"),
        92: (1.0, 0.2, 1.9, 0.41, ("PM106",), "rewritten"),
        18: (1.0, 1.0, 0.35, 0.38, ("PM102",), "left as it is: it decides what runs next"),
        88: (1.0, 1.0, 0.12, 0.12, (), "no rule covers it"),
    }
    paths, insides = {18: "engine/metrics.py"}, {88: "torch/optim/adam.py:417"}
    return tuple(
        SyncRow(paths.get(line, "train.py"), line, code, *figures[line], inside=insides.get(line, ""))
        for line, code in places.items()
    )


def why() -> Why:
    """The profiles of both sides."""
    return Why(
        Profile(8.0, 12.6, 39_321_600.0, 39_321_600.0, 48.0, 0.61, 412.0),
        Profile(2.2, 0.9, 39_321_600.0, 0.0, 12.0, 0.93, 405.0),
        sync_rows(),
    )


def rules() -> tuple[RuleRow, ...]:
    """A stack of four rules, the last of which was withdrawn."""
    idle = tuple(f"data/loaders.py:{line}" for line in range(12, 22))
    both = ("train.py:47", "train.py:51")
    proven = Verdict.PROVEN
    return (
        RuleRow("PM101", "nonzero-index", "bitwise", ("train.py:41",), proven, 1.12, 1.11, 1.13, 1.0, 4.31),
        RuleRow("PM103", "unique-count", "bitwise", ("train.py:43",), proven, 1.09, 1.085, 1.1, 2.0, 3.62),
        RuleRow("PM104", "masked-loss", "rounding", both, proven, 1.2, 1.19, 1.21, 2.0, 2.44),
        RuleRow(
            "PM201",
            "idle-loader",
            "sampling",
            idle,
            proven,
            0.998,
            0.991,
            1.004,
            withdrawn=True,
            reason="no measurable change",
        ),
    )


def cpu() -> Evidence:
    """On the CPU: speed is not judged, and nothing is profiled."""
    reason = "the training is the same; speed was not judged on the CPU"
    command = "perfmod verify train.py --device cpu"
    return evolve(
        rich(),
        device="cpu",
        speed=None,
        why=None,
        reason=reason,
        command=command,
        environment=Environment(python="3.11.2", torch="2.13.0"),
    )


def against() -> Evidence:
    """Two given scripts: no rules. Nothing was gained."""
    unchanged = evolve(
        speed(),
        verdict=Verdict.NO_CHANGE,
        reason="the interval lies within the noise",
        ratio=1.002,
        low=0.996,
        high=1.007,
        rewritten_ms=35.71,
        saved_ms=0.07,
        break_even_step=None,
        runs=timed_runs(rewritten_ms=35.71),
    )
    reason = "the training is the same, without a measurable change of speed"
    return evolve(
        rich(), verdict=Verdict.NO_CHANGE, reason=reason, against="train_by_hand.py", rules=(), speed=unchanged
    )


def nan_losses() -> Evidence:
    """Refuted: the rewrite gives NaN from the seventh step on, and an infinity before."""
    broken = (*losses()[:6], math.inf, *[math.nan] * (STEPS - 7))
    checks = (
        Check("initial parameters", Verdict.PROVEN, 0.0, 0.0, 0.0),
        Check("loss curve", Verdict.REFUTED, math.nan, 1.2e-5, 0.0, 6e-6, "not finite from step 7 on"),
        Check("parameters of step 40", Verdict.INCONCLUSIVE, None, None, reason="the losses differ already"),
    )
    reason = "the loss is not finite from step 7 on, and that of the original is"
    rewritten = Curve("rewritten", broken)
    other = evolve(equality(), verdict=Verdict.REFUTED, reason=reason, checks=checks, rewritten=rewritten)
    return evolve(rich(), verdict=Verdict.REFUTED, reason=f"different training: {reason}", equality=other, speed=None)


def failed() -> Evidence:
    """The script could not be run: a record with next to nothing in it."""
    nothing = Equality(Verdict.FAILED, "the script ended with RuntimeError in train.py:12", "bitwise")
    return evolve(
        cpu(),
        verdict=Verdict.FAILED,
        reason=nothing.reason,
        equality=nothing,
        rules=(),
        diff="",
        commit="",
        environment=Environment(),
        warnings=(),
        arguments=(),
        device="cuda",
    )


def one_step() -> Evidence:
    """A single backward and a single timed step per process, no controls, no difference at all."""
    curve = Curve("original", (0.6931471805599453,))
    same = evolve(
        equality(),
        original=curve,
        rewritten=evolve(curve, label="rewritten"),
        repeats=(),
        controls=(),
        steps=1,
        backwards=1,
        samples=4,
    )
    runs = tuple(evolve(run, step_ms=run.step_ms[:1]) for run in timed_runs()[:2])
    return evolve(rich(), equality=same, speed=evolve(speed(), runs=runs))


def crowded() -> Evidence:
    """Two hundred waiting lines, very long lines, many processes with many steps, a long diff."""
    row = sync_rows()[0]
    rows = tuple(evolve(row, line=n, code=f"x{n} = " + "very_long_name + " * 30 + "1") for n in range(1, 201))
    diff = DIFF + "".join(f"+{'wide ' * 100}{n}\n" for n in range(6000))
    slow = evolve(
        speed(), suspicious="12.1x is above 10x; repeated with fresh inputs: 12.0x", runs=timed_runs(steps=3000)
    )
    long = equality()
    long = evolve(
        long,
        original=Curve("original", losses(steps=5000)),
        rewritten=Curve("rewritten", losses(2, 0.0, 5000)),
        repeats=(),
        controls=(),
    )
    return evolve(rich(), why=evolve(why(), syncs=rows), diff=diff, speed=slow, equality=long)


def hostile() -> Evidence:
    """Every text that a user's tree can choose is `HOSTILE`."""
    names = [HOSTILE] * 2
    rows = tuple(evolve(row, path=HOSTILE, code=HOSTILE, status=HOSTILE, inside=HOSTILE) for row in sync_rows())
    rule = evolve(rules()[0], lines=tuple(names), reason=HOSTILE, withdrawn=True)
    checks = (Check(HOSTILE, Verdict.REFUTED, reason=HOSTILE),)
    return evolve(
        rich(),
        reason=HOSTILE,
        command=HOSTILE,
        script=HOSTILE,
        against=HOSTILE,
        arguments=tuple(names),
        commit=HOSTILE,
        equality=evolve(equality(), reason=HOSTILE, checks=checks),
        speed=evolve(speed(), reason=HOSTILE, suspicious=HOSTILE),
        why=evolve(why(), syncs=rows),
        rules=(rule,),
        environment=Environment(gpu=HOSTILE, packages=((HOSTILE, HOSTILE),)),
        warnings=tuple(names),
        diff=f"--- a/{HOSTILE}\n+++ b/{HOSTILE}\n+{HOSTILE}\n",
    )


ALL = (rich, cpu, against, nan_losses, failed, one_step, crowded, hostile)


def named(name: str) -> Evidence:
    """The record that the function of that name makes."""
    return {make.__name__: make for make in ALL}[name]()


NAMES: Sequence[str] = tuple(make.__name__ for make in ALL)


@functools.cache
def page(name: str) -> str:
    """The page of a record, which several tests of a process look at."""
    return html.render(named(name))
