"""Scalars that a statement of its own reads into a variable, `d_x = output.mean().item()`, and what uses them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import libcst as cst

from perfmod.transforms.facts.endings import ends_step
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Definition
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.syncs._around import in_every_step
from perfmod.transforms.syncs._host_reads import HostRead, host_read
from perfmod.transforms.syncs._late_reads import is_used_late
from perfmod.transforms.syncs._report_figures import Figure, held_in
from perfmod.transforms.syncs._report_places import is_anothers


def held_figures(
    file: FileFacts, reports: Mapping[cst.BaseSmallStatement, Sequence[Figure]]
) -> tuple[list[tuple[cst.BaseSmallStatement, Figure]], dict[HostRead, str], list[tuple[HostRead, Definition]]]:
    """Scalars that are read into variables for reports, by report; reads for which nothing can be done; late ones."""
    taken = {figure.node for found in reports.values() for figure in found}
    held: list[tuple[cst.BaseSmallStatement, Figure]] = []
    elsewhere: dict[HostRead, str] = {}
    late: list[tuple[HostRead, Definition]] = []
    for call in find_all(file.tree.module, cst.Call):
        read = host_read(file, call) if call not in taken else None
        if read is None or not in_every_step(file, call) or is_anothers(file, read) or ends_step(file, call):
            continue
        definition = held_in(file, read)
        line = file.line(call)
        if definition is None:
            elsewhere[read] = _why_number(file, read, line)
            continue
        uses = file.flow.uses(definition)
        if is_used_late(file, definition):
            late.append((read, definition))
            continue
        places = [next((s for s in reports if file.tree.is_within(use, s)), None) for use in uses]
        other = next((use for use, place in zip(uses, places, strict=True) if place is None), None)
        if not any(places):
            at = f"used on line {file.line(other)}" if other is not None else "never used"
            elsewhere[read] = f"`{definition.name}` is {at}, and is no part of a report there"
            continue
        held += [
            (place, Figure(use, read.tensor, read, definition))
            for use, place in zip(uses, places, strict=True)
            if place is not None
        ]
    return held, elsewhere, late


def _why_number(file: FileFacts, read: HostRead, line: str) -> str:
    """What gets a figure that no report shows."""
    for ancestor in file.tree.ancestors(read.call):
        if isinstance(ancestor, cst.Call):
            return f"`{file.code(ancestor.func)}` on line {line} gets the figure as a number"
        if isinstance(ancestor, cst.Assign):
            return f"`{file.code(ancestor.targets[0].target)}` gets the figure as a number on line {line}"
        if isinstance(ancestor, cst.BaseStatement):
            break
    return f"the code on line {line} needs the figure as a number"
