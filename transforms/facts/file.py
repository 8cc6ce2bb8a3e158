"""All facts of one file, each computed when it is first asked for."""

from __future__ import annotations

import libcst as cst

from perfmod.transforms.source import Source


class FileFacts:
    """What a rule may ask about a file. One instance per file and round; nothing is shared between files."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def scope_name(self, node: cst.CSTNode) -> str:
        """Dotted name of the functions and classes around `node`; empty at module level."""
        raise NotImplementedError
