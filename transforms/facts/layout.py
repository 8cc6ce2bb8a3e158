"""How tensors lie in memory: row by row, unless dimensions were exchanged or a memory format was asked for."""

from __future__ import annotations

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Definition
from perfmod.transforms.facts.tree import find_all

SHOW_LAYOUT = frozenset({
    "view", "view_as", "as_strided", "stride", "is_contiguous", "data_ptr", "storage", "untyped_storage",
})  # fmt: skip
"""What a tensor that lies otherwise answers otherwise, or refuses."""
_REORDERS = frozenset({
    "permute", "transpose", "transpose_", "t", "t_", "T", "mT", "H", "mH", "adjoint", "swapaxes", "swapdims", "movedim",
    "moveaxis", "expand", "expand_as", "broadcast_to", "as_strided", "einsum", "memory_format", "channels_last",
    "channels_last_3d", "to_sparse", "to_mkldnn",
})  # fmt: skip


def is_row_by_row(file: FileFacts, x: cst.BaseExpression) -> bool:
    """Whether nothing in sight that leads to `x` exchanges dimensions or asks for a memory format."""
    open_ends, seen = [x], set[Definition]()
    while open_ends:
        for name in find_all(open_ends.pop(), cst.Name):
            if name.value in _REORDERS:
                return False
            for made in file.flow.definitions(name) if file.flow.is_read(name) else ():
                if made.part is not None and made not in seen:
                    open_ends.append(made.part)
                seen.add(made)
    return True
