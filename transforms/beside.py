"""The file beside a script that keeps code which its rewrites share. Plain data, which needs no parser to be read."""

from __future__ import annotations

from attrs import frozen


@frozen
class Beside:
    """Where a rule may put code that is no part of a script.

    Attributes:
        path: the file, in the folder of the script.
        module: the name by which the script imports it: `graphed_step`, or `.graphed_step` in a package.
        is_present: whether it is there already and holds that code; else it is to be written.
        problem: why the script could not import it, in one line; empty where it can.
    """

    path: str
    module: str
    is_present: bool = False
    problem: str = ""
