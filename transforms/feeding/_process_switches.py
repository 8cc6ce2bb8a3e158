"""What a training tells a library for the whole process, and what each worker's own process was not told.

`torch.set_default_dtype(torch.float64)` in `main` is unknown to a worker that is started by spawn or forkserver: its
tensors have the usual type. What stands at the top level of a module, every process that imports it is told again.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.loaders import Loader
from perfmod.transforms.facts.value import DType
from perfmod.transforms.facts.worker_code import WorkerCode
from perfmod.transforms.feeding._dataset_changes import SENT, held
from perfmod.transforms.feeding._worker_reads import Reads

_IMAGES = ("PIL.", "torchvision.", "imageio.", "skimage.io.")
_FORMATS = ("locale.", "time.strftime", "time.strptime", "datetime.datetime.strftime", "datetime.datetime.strptime")
_SWITCHES: dict[str, tuple[str, ...]] = {
    "numpy.seterr": ("numpy.",),
    "numpy.seterrcall": ("numpy.",),
    "locale.setlocale": _FORMATS,
    "decimal.getcontext": ("decimal.",),
    "decimal.setcontext": ("decimal.",),
    "csv.field_size_limit": ("csv.",),
    "torch.set_flush_denormal": ("torch.",),
    "torch.serialization.add_safe_globals": ("torch.load",),
    "torch.ops.load_library": ("torch.ops.",),
    "torch.classes.load_library": ("torch.classes.",),
    "torchvision.set_image_backend": ("torchvision.",),
    "torchvision.set_video_backend": ("torchvision.",),
    "torchaudio.set_audio_backend": ("torchaudio.",),
    "pillow_heif.register_heif_opener": _IMAGES,
    "pillow_heif.register_avif_opener": _IMAGES,
    "skimage.io.use_plugin": ("skimage.io.",),
    "PIL.Image.register_open": _IMAGES,
    "PIL.Image.register_extension": _IMAGES,
}
"""Functions that set up a library in their process, and the names that then behave otherwise."""
_TYPES = frozenset({"torch.set_default_dtype", "torch.set_default_tensor_type"})
_USUAL = frozenset({"torch.float", "torch.float32", "torch.FloatTensor"})
_KEEP_TYPE = frozenset(
    {
        "torch.from_numpy", "torch.load", "torch.stack", "torch.cat", "torch.concat", "torch.chunk", "torch.split",
        "torch.LongTensor", "torch.IntTensor", "torch.FloatTensor", "torch.DoubleTensor", "torch.ByteTensor",
        "torch.BoolTensor", "torch.flip", "torch.roll", "torch.where", "torch.squeeze", "torch.unsqueeze",
        "torch.nn.utils.rnn.pad_sequence", "torch.randperm", "torch.is_tensor", "torch.no_grad",
    }
)  # fmt: skip
"""Functions whose results have a type that does not depend on the default."""
_CALLED = ("torch.nn.", "torchvision.transforms.")
_HARMLESS = (
    "torch.backends.", "torch.cuda.", "torch.distributed.", "torch.multiprocessing.", "torch._", "torch.optim.",
    "torch.utils.", "torch.autograd.", "matplotlib.", "sys.", "os.", "warnings.", "logging.", "pandas.options.display.",
    "pandas.options.mode.chained_assignment",
)  # fmt: skip
"""Settings of libraries that leave samples as they are, or that processes inherit."""


def switches(
    file: FileFacts, loader: Loader, work: WorkerCode, reads: Reads
) -> Iterator[tuple[cst.CSTNode, cst.CSTNode]]:
    """Places that set up a process, each with code of the workers that then behaves otherwise."""
    used = dict(_used(file, loader, work, reads))
    for call in file.tree.all(cst.Call):
        name = file.names.qualified(call.func)
        affected: cst.CSTNode | None = None
        if name in _TYPES and not _is_usual(file, call):
            affected = _of_default_type(file, loader, reads)
        elif name == "sys.setrecursionlimit":
            affected = _recursive(file, work)
        elif name in _SWITCHES:
            affected = _first(used, _SWITCHES[name])
        if affected is not None:
            yield call, affected
    for target in file.tree.all_of(cst.AssignTarget, cst.AugAssign):
        node = target.target if isinstance(target, (cst.AssignTarget, cst.AugAssign)) else target
        name = file.names.qualified(node) if isinstance(node, cst.Attribute) else None
        if name is not None and not name.startswith(_HARMLESS):
            library = name.partition(".")[0] + "."
            affected = _first(used, _IMAGES if library == "PIL." else (library,))
            if affected is not None:
                yield node, affected


def _used(file: FileFacts, loader: Loader, work: WorkerCode, reads: Reads) -> Iterator[tuple[str, cst.CSTNode]]:
    """The names of libraries that workers use, in their code and in what they are sent."""
    bases = (base.value for cls in work.classes for own in cls.lineage() for base in own.node.bases)
    for node in (*reads.nodes(), *bases, *held(file, loader, SENT).paths):
        name = file.names.qualified(node.func if isinstance(node, cst.Call) else node)
        if name is not None:
            yield name, node


def _first(used: dict[str, cst.CSTNode], prefixes: tuple[str, ...]) -> cst.CSTNode | None:
    return next((node for name, node in used.items() if f"{name}.".startswith(prefixes)), None)


def _is_usual(file: FileFacts, call: cst.Call) -> bool:
    """Whether the default type is set to what it is anyway."""
    value = call.args[0].value if call.args else call
    return (value.evaluated_value if isinstance(value, cst.SimpleString) else file.names.qualified(value)) in _USUAL


def _of_default_type(file: FileFacts, loader: Loader, reads: Reads) -> cst.CSTNode | None:
    """What makes tensors in a worker whose type is up to the default."""
    for node in reads.nodes():
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Divide):
            left = file.value(node.left)
            if left.is_tensor and left.dtype is not DType.FLOATING:
                return node
        if isinstance(node, cst.Call) and _has_default_type(file, node):
            return node
    # Transforms and modules that workers are sent are called there; tensors were made before.
    sent = (node for node in held(file, loader, SENT).paths if isinstance(node, cst.Call))
    return next((call for call in sent if (file.names.qualified(call.func) or "").startswith(_CALLED)), None)


def _has_default_type(file: FileFacts, call: cst.Call) -> bool:
    name = file.names.qualified(call.func)
    if name is None or not name.startswith(("torch.", "torchvision.")) or name in _KEEP_TYPE:
        return False
    return argument(call, "dtype") is None and file.value(call).dtype not in (DType.INTEGER, DType.BOOL)


def _recursive(file: FileFacts, work: WorkerCode) -> cst.CSTNode | None:
    """A function of the workers that calls itself."""
    for function in work.functions:
        if isinstance(function, cst.FunctionDef) and any(
            file.tree.is_within(call, function) for call in file.values.calls.callers(function)
        ):
            return function
    return None
