"""A pipeline that ends in `ToTensor(), Normalize(mean, std)` turns bytes into floats on the CPU: four times the memory
to collate, to hand from worker to process, to pin and to copy, and three passes over every pixel by the slower
processor.

The dataset hands on the bytes (`PILToTensor()`), and a small module converts and normalises the batch behind its copy:

    class NormalizeOnDevice(nn.Module):
        def __init__(self, mean, std):
            super().__init__()
            self.register_buffer("scale", torch.tensor(255.0), persistent=False)
            self.register_buffer("mean", torch.tensor(mean).view(-1, 1, 1), persistent=False)
            self.register_buffer("std", torch.tensor(std).view(-1, 1, 1), persistent=False)

        def forward(self, images):
            return images.float().div_(self.scale).sub_(self.mean).div_(self.std)

    normalize = NormalizeOnDevice(MEAN, STD).to(device)
    for images, labels in loader:
        images = normalize(images.to(device))

These are the same division, subtraction and division in the same order. Dividing by a tensor matters: CUDA multiplies
by the reciprocal of a Python number, which gives other bits for half of all byte values. Pipelines of
`torchvision.transforms.v2` multiply by the rounded reciprocal themselves (`ToDtype(torch.float32, scale=True)`), so
there the device does that too.

The class stands in the file of the pipeline, and a loop in another file imports it from there, if it imports anything
from there already. The module is made once, where the device is known, or else in front of the loop. Images may be
stacked by a collate function that does nothing else with them.

All loops over all loaders of such a dataset are rewritten together or not at all, because each of them would otherwise
see bytes; so are the pipelines of training and evaluation for datasets of one class. Where only an `if` copies the
images, they may stay on the CPU, where workers should go on normalising them: that pipeline stays. What a dataset
normalises by hand in its `__getitem__` stays too, with the advice to move it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.feeding._normalisations import Stays, judged
from perfmod.transforms.rule import Family, Finding, Numerics, Rule, Safety, Status


class CpuNormalisation(Rule):
    code: ClassVar[str] = "PM205"
    name: ClassVar[str] = "cpu-normalisation"
    family: ClassVar[Family] = Family.FEEDING
    summary: ClassVar[str] = "images are converted to floats and normalised on the CPU"
    fix_title: ClassVar[str] = "Feed bytes and normalise on the device"
    numerics: ClassVar[Numerics] = Numerics.BITWISE
    safety: ClassVar[Safety] = Safety.SAFE
    min_torch: ClassVar[str] = "1.8"
    status: ClassVar[Status] = Status.STABLE
    triggers: ClassVar[frozenset[str]] = frozenset({"Normalize", "normalize", "255"})
    references: ClassVar[tuple[str, ...]] = (
        "https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.PILToTensor.html",
        "https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.Normalize.html",
    )
    changes_results: ClassVar[str] = (
        "It does not, for pictures of eight bits a channel: every value passes the same float32 operations in the "
        "same order. Pictures of other modes, which ToTensor does not scale, are refused, as are float arrays and "
        "transforms behind Normalize."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        if not file.steps.found or not any(True for _ in file.loaders.everywhere):
            return
        for found in file.once(judged):
            if not file.is_own(found.node):
                continue
            if isinstance(found, Stays):
                yield self.refused(file, found.node, found.reason)
            else:
                yield self.found(file, found.node, found.reason, found.edits, elsewhere=found.needs)
