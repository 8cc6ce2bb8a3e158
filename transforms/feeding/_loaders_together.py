"""Loaders that are made side by side, for training, validation and test: all of them pin, or none does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attrs import evolve

from perfmod.transforms.facts.batch_copies import copies
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.loaders import Loader
from perfmod.transforms.facts.worker_code import Trait, WorkerCode
from perfmod.transforms.feeding._frameworks import prepared
from perfmod.transforms.feeding._gain_of_pinning import made_in, why_no_gain
from perfmod.transforms.finding import Finding, Safety


def held_back(file: FileFacts, examined: Mapping[Loader, list[Finding]]) -> Iterator[Finding]:
    """What was found of each loader; held back where pinning it gains nothing, or would leave one beside it out."""
    left = {loader: reason for loader, findings in examined.items() if (reason := _why_left(file, loader, findings))}
    for loader, findings in examined.items():
        reason = why_no_gain(file, loader) or ("" if loader in left else _why_not_alone(file, loader, left))
        for finding in findings:
            is_held = reason and finding.safety is Safety.SAFE
            yield evolve(finding, safety=Safety.LOW_IMPACT, reason=reason) if is_held else finding


def _why_left(file: FileFacts, loader: Loader, findings: list[Finding]) -> str:
    """Why a loader stays as it is by default, by what was found of it; empty where it does not, or where its samples
    lie on the device already and need no pinning, or Accelerate copies its batches.
    """
    on_device = WorkerCode.of(file, loader).first(Trait.DEVICE) is not None or prepared(file, loader) is not None
    if on_device or any(finding.safety is Safety.SAFE for finding in findings):
        return ""
    return next((finding.reason for finding in findings if finding.refused or finding.safety is Safety.UNSAFE), "")


def _why_not_alone(file: FileFacts, loader: Loader, left: Mapping[Loader, str]) -> str:
    """Which loader beside this one stays pageable, though it trains or its batches go through the same copies."""
    copied = {other for copy in file.once(copies) if loader in copy.origins for other in copy.origins}
    for other, reason in left.items():
        if made_in(file, other) is made_in(file, loader) and (other.trains or other in copied):
            return f"the loader beside it on line {file.line(other.call)} could not be pinned: {reason}"
    return ""
