"""Several scalars that are read one by one for a report of every step.

Every `item()` is a transfer of its own: the host waits for the device, asks for eight bytes, and then asks again.
What one report shows can be brought over at once:

    print(f"{loss.item():.4f} {kl.item():.4f}")

    loss_value, kl_value = torch.stack((loss.detach(), kl.detach())).tolist()
    print(f"{loss_value:.4f} {kl_value:.4f}")

The figures are the same to the last digit: `stack` widens the types of floating-point tensors to one that holds all
of them, and `tolist()` gives the same Python numbers as `item()`. Statements that report directly one after the other
share a transfer, and a scalar that was read earlier (`d_x = output.mean().item()`) stays on the device until the first
report. One that is only used now and then, under `if step % 50 == 0:` or behind the loop, is read there.

The host still waits once in every step. To report only now and then, with `if step % 50 == 0:`, gains more; but it is
another report, so that is yours to decide. Reports that stand behind such a test already are left alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from perfmod.transforms.facts.endings import ends_step
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Definition
from perfmod.transforms.facts.tree import find_any
from perfmod.transforms.rule import Family, Finding, Numerics, Rule, Safety, Status
from perfmod.transforms.syncs._around import in_every_step
from perfmod.transforms.syncs._held_figures import held_figures
from perfmod.transforms.syncs._host_reads import CannotRewrite, HostRead
from perfmod.transforms.syncs._late_reads import read_where_used
from perfmod.transforms.syncs._report_edits import joined
from perfmod.transforms.syncs._report_figures import Figure, bare, figures, why_not_joined
from perfmod.transforms.syncs._report_groups import groups
from perfmod.transforms.syncs._report_order import why_not_kept, why_out_of_order
from perfmod.transforms.syncs._report_places import is_anothers, is_report


class PerStepReport(Rule):
    """PM107."""

    code = "PM107"
    name = "per-step-report"
    family = Family.SYNCS
    summary = "Scalars are read from the device one by one, for a report of every step"
    fix_title = "Read what one report shows at once"
    numerics = Numerics.BITWISE
    safety = Safety.SAFE
    min_torch = "2.0"
    status = Status.PREVIEW
    triggers = frozenset({"item", "float", "format", "print", "log", "add_scalar", "set_postfix", "set_description"})
    references = ("https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",)
    changes_results = (
        "Never: the figures are the same numbers, read in front of the statement instead of inside of it. An error "
        "that the device reports late (a failed assertion in a kernel) shows up one line earlier."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        """One finding for the statements that report together."""
        reports = {statement: _own_figures(file, statement) for statement in _statements(file)}
        held, elsewhere, late = held_figures(file, reports)
        for read, definition in late:
            yield self._late(file, read, definition)
        for statement, figure in held:
            reports[statement].append(figure)
        moved: set[HostRead] = set()
        for group in groups(file, {statement: found for statement, found in reports.items() if found}):
            # What an earlier report of the round has brought over is a number by now.
            found = [figure for statement in group for figure in reports[statement] if figure.read not in moved]
            found.sort(key=lambda figure: file.source.span(figure.node))
            why = {figure: why_not_kept(file, figure, group) for figure in found}
            elsewhere.update((figure.read, reason) for figure, reason in why.items() if figure.read and reason)
            kept = [figure for figure in found if why[figure] is None]
            if kept:
                finding = self._reported(file, group, kept)
                moved |= {figure.read for figure in kept if figure.read and _is_moved(file, figure.read, finding)}
                yield finding
        for statement, found in reports.items():
            shown = next(bare(file, statement), None) if not found else None
            if shown is not None:
                tensor, code = file.code(shown[0]), file.code(shown[1].func)
                yield self.refused(file, shown[0], f"`{code}` gets the tensor `{tensor}` itself, and shows it as such")
        for read, reason in elsewhere.items():
            if read not in moved:
                yield self.refused(file, read.call, reason)

    def _late(self, file: FileFacts, read: HostRead, definition: Definition) -> Finding:
        """A scalar that waits in every step to be used now and then."""
        try:
            found = read_where_used(file, read, definition)
        except CannotRewrite as refusal:
            return self.refused(file, read.call, str(refusal))
        reason = f"`{definition.name}` is only used on {file.lines(file.flow.uses(definition))}, and not in every step"
        doubts = list(found.doubts)
        return self.found(
            file,
            read.call,
            doubts[0] if doubts else reason,
            found.edits,
            safety=Safety.UNSAFE if doubts else None,
            imports=found.imports,
        )

    def _reported(self, file: FileFacts, group: Sequence[cst.BaseSmallStatement], found: list[Figure]) -> Finding:
        node = found[0].node
        count = len({id(figure.definition or figure.node) for figure in found})
        if count == 1:
            why = why_not_joined(file, found[0]) or _why_several(file, group[0])
            if why is not None:
                return self.refused(file, node, why)
            reason = "one figure is one transfer already; to show it every N steps only is left to you"
            return self.found(file, node, reason, (), safety=Safety.ADVICE)
        order = why_out_of_order(file, group, found)
        if order is not None:
            return self.refused(file, node, order)
        try:
            edits, imports, transfers = joined(file, group, found)
        except CannotRewrite as refusal:
            return self.refused(file, node, str(refusal))
        reason = f"{count} figures of one report come over in {transfers} transfer{'s' if transfers > 1 else ''}"
        return self.found(file, node, reason, edits, imports=imports)


def _why_several(file: FileFacts, statement: cst.CSTNode) -> str | None:
    """Why a statement that reads one figure reads several in a step: a loop inside of the step comes by."""
    loops, region = file.tree.loops(statement), file.steps.region(statement)
    if loops and loops[0] is not region and region is not None and file.tree.is_within(loops[0], region):
        return f"the loop on line {file.line(loops[0])} reads one figure in each round"
    return None


def _own_figures(file: FileFacts, statement: cst.CSTNode) -> list[Figure]:
    found = figures(file, statement)
    return [figure for figure in found if figure.read is None or not is_anothers(file, figure.read)]


def _statements(file: FileFacts) -> list[cst.BaseSmallStatement]:
    """What shows, writes down or collects figures in every step, in order of the file."""
    found = filter(is_report, find_any(file.tree.module, cst.Expr, cst.Assign))
    return [
        node
        for node in found
        if isinstance(node, cst.BaseSmallStatement) and in_every_step(file, node) and not ends_step(file, node)
    ]


def _is_moved(file: FileFacts, read: HostRead, finding: Finding) -> bool:
    """Whether a finding leaves a read on the device."""
    start, end = file.source.span(read.call)
    return any(start <= edit.start < end for edit in finding.edits)
