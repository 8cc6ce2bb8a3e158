"""Whether workers find what they read when they import the modules again, as spawn and forkserver have them do."""

from __future__ import annotations

import libcst as cst
from attrs import define, field

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.worker_code import WorkerCode
from perfmod.transforms.feeding._changed_globals import changes
from perfmod.transforms.feeding._worker_reads import reads, repeated


@define
class Imported:
    """What workers find.

    Attributes:
        kept: what stands at top levels and has to run in workers too, so that no guard may be put around it.
        refusal: what they would miss, in one line; else empty.
    """

    kept: list[cst.CSTNode] = field(factory=list)
    refusal: str = ""


def imported_again(file: FileFacts, work: WorkerCode) -> Imported:
    """What the workers of a loader find."""
    found = Imported()
    read = reads(file, work)
    for name, use, place in changes(file, work, read):
        again = repeated(file, place)
        if again is None:
            where = f"{name}, which the workers read on line {file.line(use)},"
            found.refusal = f"{where} is changed on line {file.line(place)}, which spawned workers do not run"
            return found
        found.kept += again
    return found
