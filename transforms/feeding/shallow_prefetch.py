"""Workers that prefetch hardly any batches.

Every worker prepares `prefetch_factor` batches ahead (2 by default). One worker, or a factor of 1, leaves the
training with one or two batches ready: if a sample takes longer than usual, because of a big image or a slow read,
the GPU waits. More workers, or a larger factor, even that out:

    DataLoader(photos, batch_size=32, num_workers=1)
    DataLoader(photos, batch_size=32, num_workers=4, prefetch_factor=4)

The right number depends on the machine and on the samples, and each batch takes CPU memory, so this is advice only:
measure it with `perfmod verify`.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.loaders import TORCH_LOADERS, Loader
from perfmod.transforms.feeding._command_line import option_of
from perfmod.transforms.feeding._graph_loaders import is_graph_loader
from perfmod.transforms.feeding._settings import written
from perfmod.transforms.finding import Family, Finding, Numerics, Safety, Status
from perfmod.transforms.rule import Rule

_DEFAULT_FACTOR = 2
_FEW = 2


class ShallowPrefetch(Rule):
    """PM204."""

    code = "PM204"
    name = "shallow-prefetch"
    family = Family.FEEDING
    summary = "The loader's workers load few batches ahead"
    fix_title = "Prefetch more batches"
    numerics = Numerics.BITWISE
    safety = Safety.ADVICE
    min_torch = "1.7"
    status = Status.PREVIEW
    triggers = frozenset({"num_workers"})
    references = ("https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader",)
    changes_results = (
        "Nothing is rewritten. A larger `prefetch_factor` changes no value; more workers change the random draws of "
        "random samples."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        """Advice for every loader that feeds a training and has at most two batches in store."""
        for loader in file.loaders:
            if not loader.trains or not (loader.name in TORCH_LOADERS or is_graph_loader(loader)):
                continue
            workers = _number(file, loader, "num_workers", 0)
            factor = _number(file, loader, "prefetch_factor", _DEFAULT_FACTOR)
            if not workers or not factor or workers * factor > _FEW:
                continue
            ahead = "only 1 batch is" if workers * factor == 1 else "only 2 batches are"
            by = "one worker" if workers == 1 else f"{workers} workers"
            if any(option_of(file, value) is not None for value in loader.values("num_workers")):
                by += " by default"
            yield self.found(
                file, loader.call, f"{ahead} loaded ahead ({by}, prefetch_factor {factor}): raise num_workers", ()
            )


def _number(file: FileFacts, loader: Loader, parameter: str, default: int) -> int | None:
    """A number that a loader is given for a parameter; `None` where it is not written in the code."""
    numbers = [number for value in loader.values(parameter) for number in written(file, value)]
    if not numbers:
        return default if not loader.unseen else None
    first = numbers[0]
    return first.evaluated_value if len(numbers) == 1 and isinstance(first, cst.Integer) else None
