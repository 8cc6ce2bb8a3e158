"""Arrays that NumPy fills on the host, and that become a tensor on the device in the same expression."""

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

_UNIT = {"numpy.random.randn": "normal", "numpy.random.rand": "uniform"}
"""Draws that take each size as an argument of its own; the others take all of them in one."""
_SIZED = {
    "numpy.random.normal": ("normal", ("loc", "scale", "size"), ("0.0", "1.0")),
    "numpy.random.standard_normal": ("normal", ("size",), ()),
    "numpy.random.uniform": ("uniform", ("low", "high", "size"), ("0.0", "1.0")),
    "numpy.random.random": ("uniform", ("size",), ()),
    "numpy.random.random_sample": ("uniform", ("size",), ()),
    "numpy.random.randint": ("random", ("low", "high", "size"), ("0", "")),
    "numpy.ones": ("ones", ("shape",), ()),
    "numpy.zeros": ("zeros", ("shape",), ()),
}
"""What they fill with, the names of their arguments, and the numbers that hold where none are given."""
_FACTORIES = {"normal": "randn", "uniform": "rand", "ones": "ones", "zeros": "zeros"}
_IN_PLACE = {"ones": "fill_(1.0)", "zeros": "zero_()"}
_WRAPS = frozenset({"torch.from_numpy", "torch.tensor", "torch.as_tensor"})
_CASTS = {"float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16", "long": "int64"}
_CONSTRUCTORS = {"Tensor": "float32", "FloatTensor": "float32", "DoubleTensor": "float64", "LongTensor": "int64"}
_COMMENT = "the expression contains a comment"
_INTEGERS = frozenset({"int64", "int32"})


@frozen
class _Fill:
    """A call of NumPy.

    Attributes:
        kind: `ones` or `zeros`, or how the method is called that draws the same: `normal`, `uniform`, `random`.
        numbers: the code of the two numbers of a distribution; empty where they are 0 and 1.
        sizes: the code of the sizes, as arguments.
        shape: the code of a tuple of them; empty where that depends on what the sizes are.
    """

    kind: str
    numbers: tuple[str, ...]
    sizes: str
    shape: str

    @property
    def is_random(self) -> bool:
        """Whether it draws."""
        return self.kind not in _IN_PLACE

    @property
    def method(self) -> str:
        """The call of a method that fills a tensor in place."""
        return _IN_PLACE.get(self.kind) or f"{self.kind}_({', '.join(self.numbers)})"

    def fits(self, dtype: str) -> bool:
        """Whether a tensor of a type may be filled at once: fractions are not drawn as integers."""
        is_fraction = self.kind in ("normal", "uniform")
        return dtype in {*_CASTS.values(), *_INTEGERS} and not (is_fraction and dtype in _INTEGERS)


@frozen
class NumpyBirth:
    """An expression that could make its tensor on the device.

    Attributes:
        node: what is written otherwise.
        is_random: whether its numbers are drawn.
        edits, imports: how; empty where there is a `refusal`.
        refusal: why it stays, in one line.
    """

    node: cst.Call
    is_random: bool
    edits: tuple[Edit, ...] = ()
    imports: tuple[str, ...] = ()
    refusal: str = ""


@frozen
class _Tensor:
    """A tensor that is made of an array, as far as the code around it was read, and the name of its type."""

    node: cst.Call
    dtype: str


def numpy_births(file: FileFacts) -> Iterator[NumpyBirth]:
    """Every such expression of a file."""
    for call in file.tree.all(cst.Call):
        fill = _fill(file, call) if file.is_own(call) else None
        birth = _birth(file, fill, call) if fill is not None else None
        if birth is not None:
            yield birth


def _fill(file: FileFacts, call: cst.Call) -> _Fill | None:
    name = file.qualified(call) or ""
    if name in _UNIT:
        if not call.args or any(arg.keyword is not None for arg in call.args):
            return None
        sizes = ", ".join(file.code(arg).rstrip(", ") for arg in call.args)
        return _Fill(_UNIT[name], (), sizes, f"({sizes},)")
    if name not in _SIZED or has_star(call):
        return None
    kind, names, usual = _SIZED[name]
    given = [argument(call, each, place) for place, each in enumerate(names)]
    *numbers, size = given
    if size is None or any(arg.value not in given for arg in call.args) or _is_empty(size):
        return None
    if not all(each is None or file.value(each).kind is Kind.NUMBER for each in numbers):
        return None
    texts = [file.code(each) if each is not None else text for each, text in zip(numbers, usual, strict=True)]
    figures = [file.constants.value(each) if each is not None else place for place, each in enumerate(numbers)]
    if kind == "random":
        texts = texts if texts[1] else ["0", texts[0]]
    elif all(figure == place for place, figure in enumerate(figures)):
        texts = []
    return _Fill(kind, tuple(texts), *_sizes(file, size))


def _is_empty(size: cst.BaseExpression) -> bool:
    """Whether no size is given, which makes one number."""
    return isinstance(size, cst.Tuple) and not size.elements


def _sizes(file: FileFacts, size: cst.BaseExpression) -> tuple[str, str]:
    """The sizes as arguments, and as a tuple."""
    code = file.code(size)
    if isinstance(size, cst.Tuple):
        sizes = [file.code(each).rstrip(", ") for each in size.elements]
        return ", ".join(sizes), f"({sizes[0]},)" if len(sizes) == 1 else f"({', '.join(sizes)})"
    value = file.value(size)
    if value.kind is Kind.NUMBER and value.dtype is DType.INTEGER:
        return code, f"({code},)"
    is_size = isinstance(size, cst.Attribute) and size.attr.value == "shape" and file.value(size.value).is_tensor
    return code, code if is_size else ""


def _birth(file: FileFacts, fill: _Fill, call: cst.Call) -> NumpyBirth | None:
    made = _as_array(file, fill, _Tensor(call, "int64" if fill.kind == "random" else "float64"))
    arg = file.tree.parent(made.node)
    wrap = file.tree.parent(arg) if isinstance(arg, cst.Arg) else None
    if not isinstance(wrap, cst.Call) or not wrap.args or wrap.args[0] is not arg or has_star(wrap):
        return None
    on_device = _constructor(file, wrap.func)
    if on_device is not None and len(wrap.args) == 1:
        return _filled(file, fill, wrap) if fill.fits(on_device) else None
    return _wrapped(file, fill, evolve(made, node=wrap))


def _as_array(file: FileFacts, fill: _Fill, made: _Tensor) -> _Tensor:
    """With a cast of NumPy behind: `.astype(np.float32)`, `.astype("float32")`."""
    call = _method(file, made.node)
    if call is None or _name(call) != "astype" or len(call.args) != 1:
        return made
    given = call.args[0].value
    name = given.raw_value if isinstance(given, cst.SimpleString) else (file.qualified(given) or "").rpartition(".")[2]
    dtype = {"float": "float64", "int": "int64"}.get(name, name)
    return _Tensor(call, dtype) if fill.fits(dtype) else made


def _constructor(file: FileFacts, node: cst.BaseExpression) -> str | None:
    """The type of `torch.cuda.FloatTensor`, or of `torch.cuda.FloatTensor if cuda else torch.FloatTensor` by name."""
    types = file.values.placement.tensor_types(node)
    dtypes = {_CONSTRUCTORS.get(name.rpartition(".")[2]) for name in types}
    is_device = file.values.placement.device_of_types(types) is Device.ACCELERATOR
    return dtypes.pop() if is_device and len(dtypes) == 1 else None


def _filled(file: FileFacts, fill: _Fill, wrap: cst.Call) -> NumpyBirth:
    """`Tensor(n, 100).normal_()`, where `Tensor` is a type of tensors that lie on the device."""
    if not fill.shape or "#" in file.code(wrap):
        return NumpyBirth(wrap, fill.is_random, refusal=_COMMENT if fill.shape else _unclear(fill))
    text = f"{file.code(wrap.func)}({fill.sizes}).{fill.method}"
    return NumpyBirth(wrap, fill.is_random, (replace(file.source, wrap, text),))


def _wrapped(file: FileFacts, fill: _Fill, made: _Tensor) -> NumpyBirth | None:
    """What `torch.from_numpy(...)` and its like make, with the casts behind, where it is given a device or moved."""
    wrap = made.node
    name = (file.qualified(wrap) or "").removeprefix("torch.")
    device, dtype = argument(wrap, "device"), argument(wrap, "dtype", 1)
    if f"torch.{name}" in _WRAPS and all(arg.value in (device, dtype) for arg in wrap.args[1:]):
        made = evolve(made, dtype=_dtype(file, dtype) if dtype is not None else made.dtype)
    elif name in _CONSTRUCTORS and len(wrap.args) == 1:
        made = evolve(made, dtype=_CONSTRUCTORS[name])
    else:
        return None
    if device is not None:
        is_host = file.values.placement.device_of(device) is Device.CPU
        return None if is_host else _written(file, fill, made, wrap, Target(file.code(device)))
    while (call := _method(file, made.node)) is not None and _name(call) in _CASTS and not call.args:
        made = _Tensor(call, _CASTS[_name(call)])
    arg = file.tree.parent(made.node)
    outer = file.tree.parent(arg) if isinstance(arg, cst.Arg) else None
    in_variable = isinstance(outer, cst.Call) and file.qualified(outer) == "torch.autograd.Variable"
    move = _method(file, outer if in_variable and isinstance(outer, cst.Call) else made.node)
    where = target(file, move, made.node) if move is not None and _name(move) in ("to", "cuda") else None
    return _written(file, fill, made, move, where) if move is not None and where is not None else None


def _written(file: FileFacts, fill: _Fill, made: _Tensor, whole: cst.Call, where: Target) -> NumpyBirth | None:
    dtype = _dtype(file, where.dtype) if where.dtype is not None else made.dtype
    if not fill.fits(dtype):
        return None
    torch, imports = file.names.spelled("torch", whole)
    usual = "int64" if fill.kind == "random" else "" if file.values.uses_double() else "float32"
    given = f"device={where.device}" if dtype == usual else f"dtype={torch}.{dtype}, device={where.device}"
    text = _factory(fill, torch, given)
    refusal = where.refusal or (_COMMENT if "#" in file.code(whole) else "")
    if refusal or text is None:
        return NumpyBirth(whole, fill.is_random, refusal=refusal or _unclear(fill))
    source = file.source
    edits: tuple[Edit, ...] = (replace(source, whole, text),)
    if whole is not made.node and _method(file, made.node) is not whole:  # in a `Variable`, which stays
        moved = source.span(cst.ensure_type(whole.func, cst.Attribute).value)[1]
        edits = replace(source, made.node, text), Edit(moved, source.span(whole)[1], "")
    return NumpyBirth(whole, fill.is_random, edits, imports)


def _unclear(fill: _Fill) -> str:
    return f"`{fill.sizes}` may be a number or a tuple"


def _factory(fill: _Fill, torch: str, given: str) -> str | None:
    """The call of torch that makes the same on the device; None where that needs to know what the sizes are."""
    if fill.kind == "random":
        return f"{torch}.randint({', '.join(fill.numbers)}, {fill.shape}, {given})" if fill.shape else None
    if not (fill.is_random or fill.shape or fill.sizes.endswith(".shape")):
        return None  # NumPy takes an array for a shape, torch does not
    if fill.numbers:
        return f"{torch}.empty({fill.sizes}, {given}).{fill.method}"
    return f"{torch}.{_FACTORIES[fill.kind]}({fill.sizes}, {given})"


def _dtype(file: FileFacts, node: cst.BaseExpression) -> str:
    """The name of a type of torch, `float32` also for `torch.float`; anything else may come of another expression."""
    name = (file.qualified(node) or "").removeprefix("torch.")
    return _CASTS.get(name, name)


def _method(file: FileFacts, node: cst.BaseExpression) -> cst.Call | None:
    """The call of a method of what an expression gives."""
    func = file.tree.parent(node)
    call = file.tree.parent(func) if isinstance(func, cst.Attribute) and func.value is node else None
    return call if isinstance(call, cst.Call) and call.func is func else None


def _name(call: cst.Call) -> str:
    return call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
