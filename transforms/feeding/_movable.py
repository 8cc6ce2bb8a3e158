"""What there is in sight that could be moved by a `to` or `cuda` of its own, besides tensors.

Objects come from classes: those in sight, and those of the libraries that the files import. Where none of these gives
objects with such a method, whatever a batch moves by `x.to(device)` is a tensor, a module or a packed sequence of
PyTorch, all of which take `non_blocking`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import dotted, import_source, parameters

_WITHOUT = frozenset(sys.stdlib_module_names) | {
    "PIL", "absl", "accelerate", "albumentations", "apex", "colorama", "cv2", "easydict", "einops", "fire", "gdown",
    "gensim", "h5py", "imageio", "imgaug", "joblib", "librosa", "lmdb", "lpips", "lxml", "matplotlib",
    "mpl_toolkits", "networkx", "nltk", "numba", "numpy", "ogb", "omegaconf", "onnx", "onnxruntime", "pandas",
    "prettytable", "psutil", "pycocotools", "requests", "rich", "scipy", "seaborn", "six", "skimage", "sklearn",
    "skopt", "soundfile", "tensorboard", "tensorboardX", "termcolor", "thop", "timm", "toml", "torch", "torchaudio",
    "torchinfo", "torchmetrics", "torchsummary", "torchtext", "torchvision", "tqdm", "visdom", "wandb", "yacs", "yaml",
}  # fmt: skip
"""Libraries that give no objects with a `to` or `cuda`, other than tensors, modules and packed sequences."""
_LATELY = {"transformers": "from version 4.48 on"}
"""Libraries whose objects take `non_blocking`, if they are new enough."""
_BUT = {"dgl": ("dgl.graphbolt", "dgl.sparse")}
"""Libraries whose objects take `non_blocking` (graphs of DGL do from version 0.5 on), but for those of some modules."""
_METHODS = ("to", "cuda")


def stranger(file: FileFacts) -> str:
    """What in sight may have a `to` of its own that takes no `non_blocking`, for messages; empty where nothing has."""
    return file.once(_stranger)


def _stranger(file: FileFacts) -> str:
    return next(_strangers(file), "")


def _strangers(file: FileFacts) -> Iterator[str]:
    aliases = (*file.tree.all(cst.ImportAlias), *file.tree.all(cst.ImportStar))
    known = {
        module for alias in aliases if _library(_imported(file, alias)) in _BUT for module in file.flow.imported(alias)
    }
    for node in file.tree.all(cst.ClassDef):
        own = [part for part in node.body.body if isinstance(part, cst.FunctionDef) and part.name.value in _METHODS]
        if not all(map(_takes_more, own)) and not _is_made_by_modules(file, node):
            yield f"{node.name.value} (line {file.line(own[0])})"
    for target in file.tree.all(cst.AssignTarget):
        if isinstance(target.target, cst.Attribute) and target.target.attr.value in _METHODS:
            yield f"{file.code(target.target.value)} (line {file.line(target)})"
    for alias in aliases:
        imported = _imported(file, alias)
        library = _library(imported)
        takes_it = library in _WITHOUT or (library in _BUT and not imported.startswith(_BUT[library]))
        # What a library that is known imports for itself, where its sources are read beside, is part of it.
        if not takes_it and not file.flow.imported(alias) and file.tree.module_of(alias) not in known:
            yield f"{library}, which takes non_blocking {_LATELY[library]}" if library in _LATELY else library


def _is_made_by_modules(file: FileFacts, node: cst.ClassDef) -> bool:
    """Whether the objects of a class are made by a model on the way of a batch through it, so that no batch holds any.

    Whatever is named like the class counts as the class.
    """
    return not node.decorators and all(
        _is_in_module(file, name) or file.tree.is_within(name, node) or _only_names_type(file, name)
        for name in file.tree.all(cst.Name)
        if name.value == node.name.value and name is not node.name
    )


def _is_in_module(file: FileFacts, name: cst.Name) -> bool:
    """Whether a name stands in a method of a module, or of a function inside one."""
    around = (file.classes.of(outer) for outer in file.tree.ancestors(name) if isinstance(outer, cst.ClassDef))
    return any(cls is not None and cls.is_module for cls in around)


def _only_names_type(file: FileFacts, name: cst.Name) -> bool:
    """Whether a class is imported, annotates something, or is asked for by `isinstance`."""
    return any(
        isinstance(around, (cst.ImportAlias, cst.Annotation))
        or (isinstance(around, cst.Call) and file.qualified(around) == "builtins.isinstance")
        for around in file.tree.ancestors(name)
    )


def _takes_more(method: cst.FunctionDef) -> bool:
    """Whether a method of a class in sight takes `non_blocking`."""
    return any(param.star == "**" or param.name.value == "non_blocking" for param in parameters(method))


def _imported(file: FileFacts, alias: cst.CSTNode) -> str:
    """What is imported, dotted; what a relative import takes from, with its leading dots."""
    statement = file.tree.parent(alias)
    name = dotted(alias.name) if isinstance(alias, cst.ImportAlias) else ""
    if not isinstance(statement, cst.ImportFrom):
        return name
    source = import_source(statement)
    return source if source.startswith(".") else f"{source}.{name}"


def _library(imported: str) -> str:
    return imported if imported.startswith(".") else imported.partition(".")[0]
