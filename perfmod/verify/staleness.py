"""Whether a record still tells something about what would run today."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import evolve

from perfmod.errors import UsageMistake
from perfmod.roots import from_here, shown
from perfmod.verify import machine
from perfmod.verify.evidence import Environment, Evidence, FileRow
from perfmod.verify.report import evidence_json
from perfmod.verify.sides import Side


def files_run(side: Side, first: Mapping[str, Any]) -> tuple[FileRow, ...]:
    """The user's code in a run, of which `first` is the record."""
    names = dict.fromkeys((side.script.as_posix(), *first.get("modules", ())))
    paths = [side.tree.root / name for name in names]
    return tuple(FileRow(shown(from_here(path)), digest) for path in paths if (digest := _digest(path)))


def stale(evidence: Evidence, folder: Path, now: Environment) -> tuple[str, ...]:
    """What has changed since, one line each: the files, as seen from `folder`, and where the script would run."""
    found = []
    for file in evidence.files:
        digest = _digest(folder / file.path)
        if digest != file.sha256:
            found.append(f"{file.path} {'has changed since' if digest else 'is gone'}")
    then = evidence.environment
    for what, before, after in (
        ("torch", then.torch, now.torch),
        ("CUDA of torch", then.cuda, now.cuda),
        ("driver", then.driver, now.driver),
        ("GPU", then.gpu, now.gpu),
    ):
        if before and before != after:
            found.append(f"{what} was {before}, and is {after or 'not there'}")
    return tuple(found)


def read(path: Path, python: str) -> Evidence:
    """An earlier record, with what has changed since. Raises `UsageMistake` for a file that is none, and `Failure`."""
    try:
        evidence = evidence_json.load(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UsageMistake(f"{shown(path)}: {error}") from error
    return evolve(evidence, stale=stale(evidence, Path.cwd(), here(python)))


def here(python: str) -> Environment:
    """Where a script would run now. Raises `Failure` where the interpreter cannot be asked."""
    facts, gpu = machine.probe(python), machine.gpu()
    return Environment(torch=facts.torch, cuda=facts.cuda, gpu=gpu.name, driver=gpu.driver)


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""
