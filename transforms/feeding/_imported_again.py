"""Whether workers find what they read when they import the modules again, as spawn and forkserver have them do."""

from __future__ import annotations

import libcst as cst
from attrs import define, field

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.loaders import Loader
from perfmod.transforms.facts.worker_code import WorkerCode
from perfmod.transforms.feeding._changed_globals import changes
from perfmod.transforms.feeding._import_draws import drawn
from perfmod.transforms.feeding._process_switches import switches
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


def imported_again(file: FileFacts, loader: Loader, work: WorkerCode) -> Imported:
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
    for place, affected in switches(file, loader, work, read):
        again = repeated(file, place)
        if again is None:
            what, where = " ".join(file.code(place).split()), f"on which line {file.line(affected)} depends"
            found.refusal = f"line {file.line(place)} sets {what} in the main process only, {where}"
            return found
        found.kept += again
    for one in drawn(file, work, read):
        why = one.why.format(line=file.line(one.place))
        where = f"{one.name}, which the workers read on line {file.line(one.use)}, " if one.name else ""
        found.refusal = where + why
        return found
    return found
