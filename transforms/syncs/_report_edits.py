"""Writing one transfer for several scalars of the device."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.value import DType
from perfmod.transforms.rule import Edit
from perfmod.transforms.syncs._host_reads import (
    CannotRewrite,
    HostRead,
    is_differentiated,
    own_copy,
    without_read,
)
from perfmod.transforms.syncs._report_figures import Figure, dtype_of, is_placed, several_devices, why_not_joined
from perfmod.transforms.syncs._unused import UnusedNames
from perfmod.transforms.writing import insert_before_statement, replace

_LONGEST_LINE = 100


def joined(
    file: FileFacts, group: Sequence[cst.BaseSmallStatement], found: Sequence[Figure]
) -> tuple[tuple[Edit, ...], tuple[str, ...], int]:
    """Edits that read the figures of a group in front of it, the imports they need, and how many transfers are left.

    Raises:
        CannotRewrite: there are no two that can be read together.
    """
    tensors: dict[str, list[Figure]] = {}
    reasons: list[str] = []
    for figure in found:
        why = why_not_joined(file, figure)
        if why is not None:
            reasons.append(why)
        else:
            key = file.code(figure.node if figure.definition is not None else figure.tensor)
            tensors.setdefault(key, []).append(figure)
    _require_one_device(file, tensors, reasons)
    by_type: dict[DType | None, list[str]] = {}
    for key, same in tensors.items():
        by_type.setdefault(dtype_of(file, same[0]), []).append(key)
    unused, lines, edits, transfers = UnusedNames(file), [], [], len(reasons)
    torch, imports = file.names.spelled("torch", group[0])
    for keys in by_type.values():
        transfers += 1
        if len(keys) == 1 and (len(tensors[keys[0]]) == 1 or tensors[keys[0]][0].definition is not None):
            continue
        names = [_name(file, tensors[key][0], unused) for key in keys]
        for key, name in zip(keys, names, strict=True):
            edits += _edits(file, tensors[key], name)
        if len(keys) == 1:
            lines.append(f"{names[0]} = {_read(file, tensors[keys[0]][0])}")
        else:
            lines.append(_stacked(torch, names, [_scalar(file, tensors[key][0], key) for key in keys]))
    if not lines:
        raise CannotRewrite(reasons[0] if reasons else "figures of different types cannot be read together")
    edits.append(insert_before_statement(file.source, group[0], "\n".join(lines)))
    stacks = any(".stack(" in line for line in lines)
    return tuple(edits), imports if stacks else (), transfers


def _require_one_device(file: FileFacts, tensors: dict[str, list[Figure]], reasons: list[str]) -> None:
    """Takes out the tensors that could be on another device than the rest."""
    placed = [key for key, same in tensors.items() if is_placed(file, same[0])]
    trained = [key for key, same in tensors.items() if is_differentiated(file, same[0].tensor)]
    kept = placed if len(placed) >= len(trained) else trained
    for key in [key for key in tensors if key not in kept]:
        if len(tensors) > 1:
            reasons.append(f"`{key}` could not be shown to be on the same device as the other figures")
            del tensors[key]
    if len(tensors) > 1:
        second = several_devices(file)
        if second is not None:
            raise CannotRewrite(f"the file uses several devices (line {file.line(second)})")


def _name(file: FileFacts, figure: Figure, unused: UnusedNames) -> str:
    if figure.definition is not None:
        return figure.definition.name
    node: cst.BaseExpression = figure.tensor
    while isinstance(node, (cst.Call, cst.Subscript, cst.Attribute)):
        if isinstance(node, cst.Call):
            is_function = file.qualified(node) is not None and bool(node.args)
            inner = node.args[0].value if is_function else node.func
            node = inner.value if isinstance(inner, cst.Attribute) and not is_function else inner
            if not is_function and not isinstance(inner, cst.Attribute):
                break
        elif isinstance(node, cst.Subscript) or node.attr.value == "data":
            node = node.value
        else:
            break
    base = node.attr.value if isinstance(node, cst.Attribute) else node.value if isinstance(node, cst.Name) else ""
    base = base.strip("_") or _label(file, figure.node)
    return unused.take(f"{base}_value" if base else "value")


def _label(file: FileFacts, node: cst.CSTNode) -> str:
    """What a keyword or a key of a dictionary calls a figure."""
    parent = file.tree.parent(node)
    text = ""
    if isinstance(parent, cst.Arg) and parent.keyword is not None:
        text = parent.keyword.value
    elif isinstance(parent, cst.DictElement) and isinstance(parent.key, cst.SimpleString):
        text = str(parent.key.evaluated_value)
    return text if text.isidentifier() else ""


def _read(file: FileFacts, figure: Figure) -> str:
    if figure.read is not None:
        return file.code(figure.read.call)
    return f"{file.code(figure.tensor)}.item()"


def _scalar(file: FileFacts, figure: Figure, key: str) -> str:
    """The tensor without a graph and without dimensions, as it stands in the stack."""
    tensor = figure.tensor
    shape = "" if file.value(tensor).rank == 0 else ".reshape(())"
    if figure.definition is not None:
        return key + shape
    read = figure.read or HostRead(cst.Call(cst.Name("item")), tensor, None, None)
    code = file.code(tensor)
    is_primary = isinstance(tensor, (cst.Name, cst.Attribute, cst.Call, cst.Subscript))
    # A copy is not needed: the numbers are taken at once.
    suffix = own_copy(file, read).removesuffix(".clone()")
    return (code if is_primary else f"({code})") + suffix + shape


def _edits(file: FileFacts, same: Sequence[Figure], name: str) -> list[Edit]:
    first = same[0]
    if first.definition is not None:
        assert first.read is not None
        return [without_read(file, first.read, own_copy(file, first.read))]
    return [replace(file.source, figure.node, name) for figure in same]


def _stacked(torch: str, names: Sequence[str], scalars: Sequence[str]) -> str:
    targets = ", ".join(names)
    line = f"{targets} = {torch}.stack(({', '.join(scalars)})).tolist()"
    if len(line) <= _LONGEST_LINE:
        return line
    return f"{targets} = {torch}.stack(\n    ({', '.join(scalars)})\n).tolist()"
