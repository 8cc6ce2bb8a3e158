"""Random numbers that NumPy draws on the host, and that become a tensor on the device in the same expression."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from attrs import evolve, frozen

from perfmod.transforms.facts.calls import argument, has_star
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.value import Device, DType, Kind
from perfmod.transforms.feeding._births import Target, target
from perfmod.transforms.finding import Edit
from perfmod.transforms.writing import replace

_UNIT = {"numpy.random.randn": "randn", "numpy.random.rand": "rand"}
"""Draws that take each size as an argument of its own; the others, with how torch calls them, take `size=`."""
_SIZED = {
    "numpy.random.normal": ("normal", ("loc", "scale", "size"), ("0.0", "1.0")),
    "numpy.random.standard_normal": ("normal", ("size",), ()),
    "numpy.random.uniform": ("uniform", ("low", "high", "size"), ("0.0", "1.0")),
    "numpy.random.random": ("uniform", ("size",), ()),
    "numpy.random.random_sample": ("uniform", ("size",), ()),
    "numpy.random.randint": ("random", ("low", "high", "size"), ("0", "")),
}
_WRAPS = frozenset({"torch.from_numpy", "torch.tensor", "torch.as_tensor"})
_CASTS = {"float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16", "long": "int64"}
_CONSTRUCTORS = {"Tensor": "float32", "FloatTensor": "float32", "DoubleTensor": "float64", "LongTensor": "int64"}
_INTEGERS = frozenset({"int64", "int32"})


@frozen
class _Draw:
    """A call of NumPy.

    Attributes:
        kind: `normal`, `uniform` or `random`, as the methods of a tensor that fill it in place are called.
        numbers: the code of the two numbers of its distribution; empty where they are 0 and 1.
        sizes: the code of the sizes, as arguments; whether it is one tuple of them is `is_tuple`.
    """

    kind: str
    numbers: tuple[str, ...]
    sizes: str
    is_tuple: bool = False


@frozen
class Noise:
    """Numbers that a step could draw on the device.

    Attributes:
        node: what is written otherwise.
        edits, imports: how; empty where there is a `refusal`.
        refusal: why it stays, in one line.
    """

    node: cst.Call
    edits: tuple[Edit, ...] = ()
    imports: tuple[str, ...] = ()
    refusal: str = ""


@frozen
class _Tensor:
    """A tensor that is made of a draw, as far as the code around it was read."""

    node: cst.Call
    dtype: str


def numpy_noise(file: FileFacts) -> Iterator[Noise]:
    """Every such expression of a file."""
    for call in file.tree.all(cst.Call):
        name = file.qualified(call) or ""
        if not name.startswith("numpy.random.") or not file.is_own(call):
            continue
        draw = _draw(file, call, name)
        noise = _noise(file, draw, call) if draw is not None else None
        if noise is not None:
            yield noise


def _draw(file: FileFacts, call: cst.Call, name: str) -> _Draw | None:
    if name in _UNIT:
        if not call.args or any(arg.keyword is not None for arg in call.args):
            return None
        sizes = ", ".join(file.code(arg).rstrip(", ") for arg in call.args)
        return _Draw("normal" if name.endswith("n") else "uniform", (), sizes)
    if name not in _SIZED or has_star(call):
        return None
    kind, names, usual = _SIZED[name]
    given = [argument(call, each, place) for place, each in enumerate(names)]
    *numbers, size = given
    known = {each for each in given if each is not None}
    if size is None or any(arg.value not in known for arg in call.args):
        return None
    if not all(each is None or file.value(each).kind is Kind.NUMBER for each in numbers):
        return None
    texts = [file.code(each) if each is not None else text for each, text in zip(numbers, usual, strict=True)]
    figures = [file.constants.value(each) if each is not None else place for place, each in enumerate(numbers)]
    if kind == "random":
        texts = texts if texts[1] else ["0", texts[0]]
    elif all(figure == place for place, figure in enumerate(figures)):
        texts = []
    return _Draw(kind, tuple(texts), *_sizes(file, size))


def _sizes(file: FileFacts, size: cst.BaseExpression) -> tuple[str, bool]:
    """The sizes as arguments, and whether they are one argument that may be a tuple."""
    if isinstance(size, cst.Tuple) and not any(isinstance(each, cst.StarredElement) for each in size.elements):
        return ", ".join(file.code(each.value) for each in size.elements), False
    value = file.value(size)
    is_number = value.kind is Kind.NUMBER and value.dtype is DType.INTEGER
    return file.code(size), not is_number


def _noise(file: FileFacts, draw: _Draw, call: cst.Call) -> Noise | None:
    dtype = "int64" if draw.kind == "random" else "float64"
    made = _as_array(file, _Tensor(call, dtype))
    arg = file.tree.parent(made.node)
    wrap = file.tree.parent(arg) if isinstance(arg, cst.Arg) else None
    if not isinstance(wrap, cst.Call) or not wrap.args or wrap.args[0] is not arg or has_star(wrap):
        return None
    on_device = _constructor(file, wrap.func)
    if on_device is not None and len(wrap.args) == 1:
        return _filled(file, draw, wrap) if _fits(made.dtype, on_device) else None
    wrapped, device = _wrapped(file, evolve(made, node=wrap))
    return _moved(file, draw, wrapped, device) if wrapped is not None else None


def _as_array(file: FileFacts, made: _Tensor) -> _Tensor:
    """With a cast of NumPy behind the draw: `.astype(np.float32)`, `.astype("float32")`."""
    call = _method(file, made.node)
    if call is None or _name(call) != "astype" or len(call.args) != 1:
        return made
    given = call.args[0].value
    name = given.raw_value if isinstance(given, cst.SimpleString) else (file.qualified(given) or "").rpartition(".")[2]
    dtype = {"float": "float64", "int": "int64"}.get(name, name)
    is_known = dtype in {*_CASTS.values(), *_INTEGERS}
    return _Tensor(call, dtype) if is_known and _fits(made.dtype, dtype) else made


def _wrapped(file: FileFacts, made: _Tensor) -> tuple[_Tensor | None, cst.BaseExpression | None]:
    """What `torch.from_numpy(...)` and its like make, with the casts behind; and the device that it is given."""
    wrap = made.node
    name = file.qualified(wrap) or ""
    device = argument(wrap, "device")
    dtype = argument(wrap, "dtype", 1)
    if name in _WRAPS and {arg.value for arg in wrap.args[1:]} <= {device, dtype}:
        given = (file.qualified(dtype) or "?").removeprefix("torch.") if dtype is not None else made.dtype
        made = evolve(made, dtype=_CASTS.get(given, given))
    elif name.removeprefix("torch.") in _CONSTRUCTORS and len(wrap.args) == 1:
        made = evolve(made, dtype=_CONSTRUCTORS[name.removeprefix("torch.")])
    else:
        return None, None
    while (call := _method(file, made.node)) is not None and _name(call) in _CASTS and not call.args:
        made = _Tensor(call, _CASTS[_name(call)])
    return made, device


def _moved(file: FileFacts, draw: _Draw, made: _Tensor, device: cst.BaseExpression | None) -> Noise | None:
    """What is made of a draw and is given a device, or copied to one behind it."""
    node: cst.BaseExpression = made.node
    if device is not None:
        if file.values.placement.device_of(device) is Device.CPU:
            return None
        return _written(file, draw, made, made.node, Target(file.code(device)))
    arg = file.tree.parent(node)
    outer = file.tree.parent(arg) if isinstance(arg, cst.Arg) else None
    if isinstance(outer, cst.Call) and file.qualified(outer) == "torch.autograd.Variable" and len(outer.args) == 1:
        node = outer
    move = _method(file, node)
    if move is None or _name(move) not in ("to", "cuda"):
        return None
    where = target(file, move, made.node)
    return _written(file, draw, made, move, where) if where is not None else None


def _written(file: FileFacts, draw: _Draw, made: _Tensor, whole: cst.Call, where: Target) -> Noise | None:
    dtype = made.dtype
    if where.dtype is not None:
        dtype = (file.qualified(where.dtype) or "?").removeprefix("torch.")
        dtype = _CASTS.get(dtype, dtype)
    is_integer = draw.kind == "random"
    if not _fits("int64" if is_integer else "float64", dtype):
        return None
    if where.refusal:
        return Noise(whole, refusal=where.refusal)
    torch, imports = file.names.spelled("torch", whole)
    usual = "int64" if is_integer else "float32" if not file.values.uses_double() else ""
    given = f"device={where.device}" if dtype == usual else f"dtype={torch}.{dtype}, device={where.device}"
    text = _factory(draw, torch, given)
    if text is None:
        return Noise(whole, refusal=f"`{draw.sizes}` may be a number or a tuple")
    source = file.source
    if whole is made.node or _method(file, made.node) is whole:
        return Noise(whole, (replace(source, whole, text),), imports)
    variable = source.span(cst.ensure_type(whole.func, cst.Attribute).value)[1]
    return Noise(whole, (replace(source, made.node, text), Edit(variable, source.span(whole)[1], "")), imports)


def _factory(draw: _Draw, torch: str, given: str) -> str | None:
    """The call of torch that draws the same on the device; None where that needs to know what the sizes are."""
    shape = draw.sizes if draw.is_tuple else f"({draw.sizes},)" if "," not in draw.sizes else f"({draw.sizes})"
    if draw.kind == "random":
        return None if draw.is_tuple else f"{torch}.randint({', '.join(draw.numbers)}, {shape}, {given})"
    if not draw.numbers:
        return f"{torch}.{'randn' if draw.kind == 'normal' else 'rand'}({draw.sizes}, {given})"
    return f"{torch}.empty({draw.sizes}, {given}).{draw.kind}_({', '.join(draw.numbers)})"


def _filled(file: FileFacts, draw: _Draw, wrap: cst.Call) -> Noise:
    """`Tensor(n, 100).normal_()`, where `Tensor` is a type of tensors that lie on the device."""
    if draw.is_tuple:
        return Noise(
            wrap, refusal=f"`{draw.sizes}` may be a number or a tuple, which `{file.code(wrap.func)}` tells apart"
        )
    text = f"{file.code(wrap.func)}({draw.sizes}).{draw.kind}_({', '.join(draw.numbers)})"
    return Noise(wrap, (replace(file.source, wrap, text),))


def _constructor(file: FileFacts, node: cst.BaseExpression) -> str | None:
    """The type of `torch.cuda.FloatTensor`, or of `torch.cuda.FloatTensor if cuda else torch.FloatTensor` by name."""
    names = [file.qualified(node) or ""]
    if not names[0].startswith("torch."):
        names = [file.qualified(end.node) or "" for end in file.tracing.ends(node) if not end.path]
    types = {_CONSTRUCTORS.get(name.rpartition(".")[2], "") for name in names}
    is_device = any(name.startswith("torch.cuda.") for name in names)
    return types.pop() if is_device and len(types) == 1 and all(each.startswith("torch.") for each in names) else None


def _fits(drawn: str, dtype: str) -> bool:
    """Whether numbers that were drawn as one type may be drawn as another: fractions not as integers."""
    return dtype in {*_CASTS.values(), *_INTEGERS} and (drawn in _INTEGERS or dtype not in _INTEGERS)


def _method(file: FileFacts, node: cst.BaseExpression) -> cst.Call | None:
    """The call of a method of what an expression gives."""
    func = file.tree.parent(node)
    call = file.tree.parent(func) if isinstance(func, cst.Attribute) and func.value is node else None
    return call if isinstance(call, cst.Call) and call.func is func else None


def _name(call: cst.Call) -> str:
    return call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
