"""Libraries whose loaders, graphs and functions rules know by name, whether their sources lie beside or not."""

from __future__ import annotations

_KNOWN_BY_NAME = frozenset({"dgl", "torch_geometric"})


def is_known_by_name(dotted: str) -> bool:
    """Whether a dotted name is that of such a library, or leads into one."""
    return dotted.partition(".")[0] in _KNOWN_BY_NAME
