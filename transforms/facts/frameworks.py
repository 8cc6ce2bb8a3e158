"""Which library a file trains with: PyTorch, by itself or through a framework built on it, or another one.

The code of other frameworks looks alike: `loss.numpy().item()`, `DataLoader(dataset)`, `loss.backward()` stand in
scripts of Paddle too, and mean something else there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import dotted
from perfmod.transforms.facts.tree import find_any

_TORCH = frozenset(
    {
        "accelerate", "allennlp", "apex", "avalanche", "botorch", "catalyst", "clip", "colossalai", "composer",
        "deepspeed", "detectron2", "dgl", "diffusers", "espnet", "fairscale", "fairseq", "fastai", "flair",
        "gpytorch", "ignite", "kornia", "lightning", "lightning_fabric", "mmcv", "mmdet", "mmengine", "mmseg",
        "monai", "nemo", "open_clip", "peft", "pyro", "pytorch3d", "pytorch_lightning", "pytorch_metric_learning",
        "pytorch_transformers", "recbole", "segmentation_models_pytorch", "sentence_transformers", "setfit",
        "skorch", "speechbrain", "stable_baselines3", "tensordict", "tianshou", "timm", "torch", "torch_geometric",
        "torch_xla", "torchaudio", "torchdata", "torchmetrics", "torchrl", "torchtext", "torchvision",
        "transformers", "trl", "ultralytics",
    }
)  # fmt: skip
"""PyTorch, and packages that are built on it, by the first part of their names."""
_DATA = frozenset({"torchaudio", "torchdata", "torchtext", "torchvision"})
"""Those of them whose data sets are loaded by scripts of other frameworks, too."""
_OTHERS = frozenset(
    {
        "chainer", "cupy", "flax", "haiku", "jax", "jittor", "keras", "megengine", "mindspore", "mlx", "mxnet",
        "oneflow", "paddle", "paddlenlp", "ppdet", "tensorflow", "tf_keras", "theano", "tinygrad",
    }
)  # fmt: skip
"""Packages with tensors and training loops of their own."""


def trains_with_torch(file: FileFacts) -> bool:
    """Whether a file imports PyTorch or a framework built on it, itself or through files in sight, or such a file
    imports it.

    It is none of PyTorch's where it imports another framework alone, itself or through files in sight, or where such a
    file imports it; nor where it differentiates by itself. Code that imports nothing from out of sight is a fragment,
    and may be PyTorch's.
    """
    return file.source.module in file.once(_trainings).torch


def trains_with_another(file: FileFacts) -> bool:
    """Whether a file imports another framework alone, or such a file imports it."""
    return file.source.module in file.once(_trainings).others


@frozen
class _Trainings:
    """The files that train with PyTorch, and those that train with other frameworks."""

    torch: Collection[cst.Module]
    others: Collection[cst.Module]


def _trainings(file: FileFacts) -> _Trainings:
    imports = {source.module: _Imports.of(file, source.module) for source in file.world.files}
    used = {module: _reached(module, {each: imports[each].files for each in imports}) for module in imports}
    with_torch = {module for module, each in imports.items() if each.packages & _TORCH}
    foreign = {module for module, each in imports.items() if each.packages & _OTHERS} - with_torch
    with_torch -= {module for module in with_torch if used[module] & foreign and imports[module].loads_data_only}
    without = {module: imports[module].files for module in imports if module not in with_torch}
    others = {other for module in foreign for other in _reached(module, without) if other in without}
    # What differentiates by itself, as micrograd does, and what uses it.
    methods = (function for function in file.tree.all(cst.FunctionDef) if function.name.value == "backward")
    engines = {file.source_of(method).module for method in methods}
    others |= {module for module in imports if used[module] & engines and not used[module] & with_torch}
    # What leads to PyTorch and to another framework is the other's, unless it imports PyTorch itself.
    others |= {module for module in without if used[module] & foreign}
    found = {other for module in imports if used[module] & with_torch for other in used[module]}
    return _Trainings((found | _fragments(imports)) - others, others)


def _fragments(imports: Mapping[cst.Module, _Imports]) -> set[cst.Module]:
    """Files that import nothing from out of sight, nor does any that they are linked with."""
    neighbours = {module: set(each.files) for module, each in imports.items()}
    for module, each in imports.items():
        for other in each.files:
            neighbours[other].add(module)
    linked = {module: _reached(module, neighbours) for module in imports}
    return {module for module, all_ in linked.items() if not any(imports[each].packages for each in all_)}


def _reached(start: cst.Module, further: Mapping[cst.Module, Collection[cst.Module]]) -> set[cst.Module]:
    found, waiting = {start}, [start]
    while waiting:
        new = set(further.get(waiting.pop(), ())) - found
        found |= new
        waiting += new
    return found


@frozen
class _Imports:
    """What a file imports, wherever in it.

    Attributes:
        packages: those out of sight, by the first part of their names.
        files: those in sight.
    """

    packages: frozenset[str]
    files: Collection[cst.Module]

    @property
    def loads_data_only(self) -> bool:
        """Whether what it imports of PyTorch's packages may serve other frameworks as well."""
        return self.packages & _TORCH <= _DATA

    @classmethod
    def of(cls, file: FileFacts, module: cst.Module) -> _Imports:
        packages: set[str] = set()
        files: dict[cst.Module, None] = {}
        for alias in find_any(module, cst.ImportAlias, cst.ImportStar):
            seen = file.flow.imported(alias)
            files.update(dict.fromkeys(seen))
            statement = file.tree.parent(alias)
            if isinstance(statement, cst.Import) and isinstance(alias, cst.ImportAlias):
                name = dotted(alias.name)
            elif isinstance(statement, cst.ImportFrom) and not statement.relative and statement.module is not None:
                name = dotted(statement.module)
            else:
                continue
            if not seen:
                packages.add(name.partition(".")[0])
        return cls(frozenset(packages), tuple(files))
