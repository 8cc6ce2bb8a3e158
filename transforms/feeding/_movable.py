"""What there is in sight that could be moved by a `to` or `cuda` of its own, besides tensors.

Objects come from classes: those in sight, and those of the libraries that the files import. Where none of these gives
objects with such a method, whatever a batch moves by `x.to(device)` is a tensor, a module or a packed sequence of
PyTorch, all of which take `non_blocking`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import PurePath

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
_LATELY = {"transformers": "transformers before version 4.48"}
"""Libraries whose objects take `non_blocking`, if they are new enough, and which are not."""
_BUT = {"dgl": ("dgl.graphbolt", "dgl.sparse")}
"""Libraries whose objects take `non_blocking` (graphs of DGL do from version 0.5 on), but for those of some modules."""
_METHODS = ("to", "cuda")
_Alias = cst.ImportAlias | cst.ImportStar


def stranger(file: FileFacts, at: cst.CSTNode) -> str:
    """What may have a `to` of its own that takes no `non_blocking` and come to a place, for messages; empty where
    nothing does.
    """
    return file.once(_by_module)[file.tree.module_of(at)]


def _by_module(file: FileFacts) -> dict[cst.Module, str]:
    """What may come to each module, out of those that it imports, or that import it, by way of whatever others.

    Libraries that are known, where their sources are read beside, hand nothing of one module to another.
    """
    aliases: tuple[_Alias, ...] = (*file.tree.all(cst.ImportAlias), *file.tree.all(cst.ImportStar))
    libraries = _libraries(file, aliases)
    found = dict.fromkeys(file.tree.modules, "")
    for module, text in _strangers(file, aliases):
        if module not in libraries:
            found[module] = found[module] or text
    beside: dict[cst.Module, set[cst.Module]] = {module: set() for module in found}
    for alias in aliases:
        importer = file.tree.module_of(alias)
        for imported in file.flow.imported(alias) - libraries if importer not in libraries else ():
            beside[importer].add(imported)
            beside[imported].add(importer)
    for module in (module for module in found if found[module]):
        stack = [module]
        while stack:
            reached = [other for other in beside[stack.pop()] if not found[other]]
            found |= dict.fromkeys(reached, found[module])
            stack += reached
    return found


def _strangers(file: FileFacts, aliases: Sequence[_Alias]) -> Iterator[tuple[cst.Module, str]]:
    for node in file.tree.all(cst.ClassDef):
        own = [part for part in node.body.body if isinstance(part, cst.FunctionDef) and part.name.value in _METHODS]
        if not all(map(_takes_more, own)) and not _is_made_by_modules(file, node):
            yield file.tree.module_of(node), f"{node.name.value} (line {file.line(own[0])})"
    for target in file.tree.all(cst.AssignTarget):
        if isinstance(target.target, cst.Attribute) and target.target.attr.value in _METHODS:
            yield file.tree.module_of(target), f"{file.code(target.target.value)} (line {file.line(target)})"
    for alias in aliases:
        imported = _imported(file, alias)
        library = _library(imported)
        takes_it = library in _WITHOUT or (library in _BUT and not imported.startswith(_BUT[library]))
        if not takes_it and (library in _BUT or not file.flow.imported(alias)):
            yield file.tree.module_of(alias), _LATELY.get(library, library)


def _libraries(file: FileFacts, aliases: Sequence[_Alias]) -> set[cst.Module]:
    """The modules of libraries that are known and whose sources are read beside: all in the folder of one."""
    folders: set[tuple[str, ...]] = set()
    for alias in aliases:
        library = _library(_imported(file, alias))
        for module in file.flow.imported(alias) if library in _BUT else ():
            parts = PurePath(file.source_of(module).path).with_suffix("").parts
            if library in parts:
                folders.add(parts[: parts.index(library) + 1])
    paths = {module: PurePath(file.source_of(module).path).with_suffix("").parts for module in file.tree.modules}
    return {module for module, parts in paths.items() if any(parts[: len(folder)] == folder for folder in folders)}


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
