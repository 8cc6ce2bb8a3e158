"""One line a finding, `path:line:col: CODE name: message`, as editors and `grep` read it."""

from __future__ import annotations

from perfmod.report.view import Rendering, View
from perfmod.report.wording import along


def render(view: View) -> Rendering:
    """A line for each finding that `-v` would list, in the order of paths and lines."""
    lines = (f"{row.place}: {row.code} {row.name}: {row.message}{along(row)}\n" for row in view.listed)
    return Rendering("".join(lines))
