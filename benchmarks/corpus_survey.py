"""What there is to rewrite in a tree, counted from its syntax alone.

Five kinds of occurrences are counted in the Python files and notebooks of a tree, by `corpus_index.py`, which shares no
code with perfmod:

**sums**: a statement of a training step that adds a device scalar to something (`+=`, or `x = x + ...`), appends it to
a list, or hands it to a meter's `update`, `add` or `push`. A device scalar is `.item()` of anything; `float(...)` and
`.numpy()` of what the step runs `backward` on; and a variable that the step assigned from one, last above it. What
stands behind an `if` that tests a modulo, or in an `except`, is not counted, nor is `.data[0]`, which torch refuses
since 0.5, nor what is computed only where a tensor is not on a GPU (`... if x.is_cuda else x.item()`). Sums whose
number every step needs for something else as well are told apart, and are no part of the reach (`corpus_sums.py` says
what that means).

**moves**: a `.to(...)` or `.cuda(...)` of a batch or of a part of it, in the loop of a training step, whose loader can
be found by following names: through `enumerate`, `tqdm` and the like, parameters, callers, attributes and functions
that return loaders. A part is what an index, an attribute, a method, a loop or an unpacking takes out of what the loop
draws, so copies of what the host made of a batch meanwhile (`x = torch.cat(images)`) count under the old name; copies
of what an assignment above has moved as a whole (`data = data.to(device)`) copy nothing, and do not. A copy lacks
`non_blocking`, or pinning where one of the loaders that its own variable was drawn from does not pin; what lacks
neither is not counted. Nor are loaders that take no `pin_memory`: those of DGL that draw batches from one graph, which
have settings of their own for that (its `GraphDataLoader` counts, and so do the graphs that it gives, whose `to` takes
`non_blocking`), and those of MXNet. Batches of loaders that go through `prepare` of Accelerate or `setup_dataloaders`
of Fabric are on the device when the loop gets them, so that `batch.to(accelerator.device)` copies nothing and is not
counted, unless the Accelerator of the tree is told about `device_placement`. Nor are copies in code for a torch before
0.4, where nothing takes `non_blocking` (its `async=` is no Python any more): where a list of requirements above the
file asks for one, or the file reads what it runs `backward` on by `.data[0]`, as one had to then.

**loaders**: a construction of `torch.utils.data.DataLoader` without workers (absent, or 0) or without pinning (absent,
or False), which are two lacks. Where keywords come out of a dictionary that cannot be found, what it may hold is not
counted as missing.

**tails**: a list of transforms, literally given to a `Compose`, that ends with `ToTensor(), Normalize(...)`, where all
loops that it feeds are visible, at least one of which trains; `corpus_tails.py` says what that takes.

**operations**: what the rules of the catalogue look for in a step, by its name: reads and copies of tensors, masks,
`nonzero` and `unique`, tests of tensors, reports of losses, constants made in the step, waits, casts, distributions,
kept graphs, `torch.cuda.amp`. They ask whether every one is spoken of, gated or not.

A training step is the body of the innermost loop that runs `backward`, itself or by calling a function of the tree that
does; or a function that does, where no such loop is found; with all functions of its file that it calls. A file counts
only if it, or one that it imports or that imports it, names a device (`cuda`, `device`, `accelerat`, `fabric`). What
the tree's `.gitignore` names is not read, though it may have been committed before.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from attrs import evolve
from corpus_index import File, Index
from corpus_loaders import loaders, moves
from corpus_occurrence import Occurrence
from corpus_operations import operations
from corpus_steps import Steps
from corpus_sums import sums
from corpus_tails import tails

_DEVICE = re.compile(r"cuda|device|accelerat|[Ff]abric")


def survey(index: Index) -> list[Occurrence]:
    """All occurrences of a tree; loaders and copies of the same key are numbered, for there are as many afterwards."""
    steps = Steps(index)
    counted = [file for file in index.files.values() if _names_device(index, file)]
    found: list[Occurrence] = []
    for file in counted:
        found += sums(file, steps)
        found += operations(file, steps)
        found += _numbered([*moves(index, file, steps), *loaders(index, file)])
    return found + list(tails(index, steps, counted))


def _numbered(found: list[Occurrence]) -> Iterator[Occurrence]:
    seen: Counter[tuple[str, str, str]] = Counter()
    for each in found:
        same = (each.measure, each.scope, each.key)
        seen[same] += 1
        yield evolve(each, key=f"{each.key} #{seen[same]}")


def _names_device(index: Index, file: File) -> bool:
    """Whether a file, or one that it imports or that imports it, names a device."""
    if _DEVICE.search(file.text):
        return True
    own = _module(file)
    imported = file.imported
    near = (other for other in index.files.values() if _module(other) in imported or own in other.imported)
    return any(_DEVICE.search(other.text) for other in near)


def _module(file: File) -> str:
    return file.path.rpartition("/")[2].removesuffix(".py")
