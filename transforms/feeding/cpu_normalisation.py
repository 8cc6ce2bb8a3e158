"""A pipeline that ends in `ToTensor(), Normalize(mean, std)` turns bytes into floats on the CPU: four times the memory
to collate, to send from worker to main process, to pin and to copy, and three passes over every pixel by the slower
processor.

The dataset returns uint8 images (`PILToTensor()`), and a small module converts and normalises the batch after its
copy:

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
the device does the same there.

The class is put into the file with the transforms, and a loop in another file imports it from there, if it already
imports something from that file. The module is created once, where the device is known, or else before the loop.
Images may be stacked by a collate function that does nothing else with them.

All loops over all loaders of such a dataset are rewritten together or not at all, because otherwise some of them would
get uint8 images; so are the training and evaluation transforms of datasets of one class. Where the images are copied
only under an `if`, they may stay on the CPU, where workers should keep normalising them: those transforms stay. Images
of one channel, as of MNIST, are cheap on the CPU, and a module that several functions would have to make is more code
than most want: such findings are of low impact. What a dataset normalises by hand in its `__getitem__` stays too, with
the advice to move it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.feeding._normalisations import Stays, judged
from perfmod.transforms.finding import Family, Finding, Numerics, Safety, Status
from perfmod.transforms.rule import Rule


class CpuNormalisation(Rule):
    code: ClassVar[str] = "PM205"
    name: ClassVar[str] = "cpu-normalisation"
    family: ClassVar[Family] = Family.FEEDING
    summary: ClassVar[str] = "Images are converted to floats and normalised on the CPU"
    fix_title: ClassVar[str] = "Load uint8 images and normalise them on the device"
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
        "Never for images with 8 bits per channel: every value passes the same float32 operations in the same order. "
        "Images of other modes, which ToTensor does not scale, stay as they are, and so do float arrays and transforms "
        "after Normalize."
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
                reason = f"{found.reason}; {found.burden}" if found.burden else found.reason
                safety = Safety.LOW_IMPACT if found.burden else Safety.SAFE
                yield self.found(file, found.node, reason, found.edits, safety=safety, elsewhere=found.needs)
