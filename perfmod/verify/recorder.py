"""Fills in the record of a verification: the verdict over all, where it was run, how it is run again."""

from __future__ import annotations

import datetime as dt
import platform
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen

from perfmod import __version__
from perfmod.roots import from_here, shown
from perfmod.verify import machine
from perfmod.verify.evidence import Environment, Equality, Evidence, Speed, Verdict
from perfmod.verify.failures import Trouble
from perfmod.verify.request import Request
from perfmod.verify.sides import ORIGINAL
from perfmod.verify.stacks import Rewriting
from perfmod.verify.why import outcome


@frozen
class Recorder:
    """Makes the records of one request; made when it begins."""

    request: Request
    _began: float = field(factory=time.monotonic)

    def record(self, first: Mapping[str, Any], equality: Equality, speed: Speed | None) -> Evidence:
        """A record with its verdict. `first` is what the harness wrote in the first run; empty without one."""
        verdict, reason = _verdict(equality, speed)
        request = self.request
        return Evidence(
            verdict=verdict,
            reason=reason,
            created=dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds"),
            perfmod=__version__,
            command=request.command,
            script=shown(from_here(request.script)),
            against=shown(from_here(request.against)) if request.against is not None else "",
            arguments=request.arguments,
            commit=machine.commit(request.script.parent),
            device=request.device,
            equality=equality,
            speed=speed,
            environment=_environment(first.get("environment", {}), request.device),
            seconds=time.monotonic() - self._began,
        )

    def not_run(self, script: Path, verdict: Verdict, trouble: Trouble) -> Evidence:
        """The record of an original that gave nothing to judge."""
        reason = f"{shown(script)}: {trouble.reason}"
        equality = Equality(verdict, reason, "", failed_side=ORIGINAL, trouble=trouble.kind.value)
        return self.record({}, equality, None)

    def nothing_to_do(self, rewriting: Rewriting) -> Evidence:
        """The record of a script that no rule changes."""
        results = [each.result for each in rewriting.examined]
        counts = Counter(outcome(finding) for each in results for finding in (*each.held_back, *each.refused))
        counts.pop("left as it is", None)
        seen = ", ".join(f"{number} {what}" for what, number in sorted(counts.items()))
        reason = f"nothing to verify: no rule rewrites anything here ({seen or 'nothing was found'})"
        return self.record({}, Equality(Verdict.NO_CHANGE, reason, ""), None)


def _verdict(equality: Equality, speed: Speed | None) -> tuple[Verdict, str]:
    """The verdict over all, in one line."""
    if equality.verdict is not Verdict.PROVEN:
        return equality.verdict, equality.reason
    if speed is None:
        return Verdict.PROVEN, f"{_same(equality)}; speed was not judged on the CPU"
    return speed.verdict, f"{_same(equality)}; {speed.reason}"


def _same(equality: Equality) -> str:
    horizon = " (only few steps: this rewrite changes values)" if equality.short_horizon else ""
    return f"the same training over {equality.steps} steps{horizon}"


def _environment(told: Mapping[str, Any], device: str) -> Environment:
    gpu = machine.gpu() if device == "cuda" else machine.Gpu()
    return Environment(
        python=told.get("python", ""),
        torch=told.get("torch", ""),
        cuda=told.get("cuda") or "",
        gpu=gpu.name,
        driver=gpu.driver,
        clocks=gpu.clocks,
        throttle=gpu.throttle,
        cpu=machine.cpu(),
        platform=platform.platform(),
        packages=tuple(sorted(told.get("packages", {}).items())),
    )
