"""What sort of project something is, told in one word without parsing, and samples that are spread over the sorts."""

from __future__ import annotations

import contextlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from perfmod import disk
from perfmod.migrate.snapshot import contents
from perfmod.migrate.targets import python_files
from perfmod.transforms.decoding import is_notebook

NOTEBOOKS, LIGHTNING, TRANSFORMERS, ACCELERATE = "notebooks", "lightning", "transformers", "accelerate"
DISTRIBUTED, PLAIN, OTHER = "distributed", "plain", "other"
KINDS = (NOTEBOOKS, LIGHTNING, TRANSFORMERS, ACCELERATE, DISTRIBUTED, PLAIN, OTHER)
"""`other` has no training with torch in sight."""

_LARGEST = 5_000_000
"""Bytes of a file that are looked at; what is behind them is a notebook's pictures."""
_BEGIN = rb"^[ \t]*\"?[ \t]*"
"""Of a line of code, which stands in quotes in a notebook."""


def _imports(names: bytes) -> re.Pattern[bytes]:
    return re.compile(_BEGIN + rb"(?:import|from)[ \t]+(?:" + names + rb")\b", re.MULTILINE)


def _calls(names: bytes) -> re.Pattern[bytes]:
    return re.compile(rb"(?:" + names + rb")[ \t]*\(")


_TORCH = _imports(rb"torch|lightning|pytorch_lightning|transformers|accelerate|deepspeed")
_FRAMEWORKS = (
    (LIGHTNING, _imports(rb"lightning|pytorch_lightning"), re.compile(rb"\bLightningModule\b|\bTrainer[ \t]*\(")),
    (ACCELERATE, _imports(rb"accelerate"), _calls(rb"\bAccelerator")),
    (TRANSFORMERS, _imports(rb"transformers|trl"), _calls(rb"\b\w{0,30}Trainer")),
)
_BACKWARD = re.compile(rb"^[^#\n]{0,300}\.backward[ \t]*\(", re.MULTILINE)
_DISTRIBUTED = re.compile(
    rb"\b(?:DistributedDataParallel|FullyShardedDataParallel|fully_shard|init_process_group|deepspeed\.initialize)"
    rb"[ \t]*\("
)


def kind_of(source: Path | Iterable[Path]) -> str:
    """The kind of the project in a folder, or of files; what cannot be read says nothing."""
    return kind_in(_texts(python_files(source) if isinstance(source, Path) else source))


def kind_of_snapshot(data: bytes) -> str:
    """The kind of the project in a snapshot. Raises `Failure` where it is none."""
    return kind_in(contents(data))


def kind_in(files: Iterable[tuple[str, bytes]]) -> str:
    """The kind of a project of these files, by path and content.

    It is that of most of the files that train; a framework goes before a loop that is written out, and one process
    before several only where nothing speaks of several.
    """
    trained: Counter[str] = Counter()
    in_notebooks, is_distributed = 0, False
    for path, content in files:
        data = content[:_LARGEST]
        if b"torch" not in data and b"lightning" not in data and b"transformers" not in data:
            continue
        is_distributed = is_distributed or _DISTRIBUTED.search(data) is not None
        if kind := _trains(data):
            trained[kind] += 1
            in_notebooks += is_notebook(path)
    if not trained:
        return OTHER
    total = sum(trained.values())
    if 2 * in_notebooks > total:
        return NOTEBOOKS
    found = next((kind for kind, _, _ in _FRAMEWORKS if 2 * trained[kind] >= total), PLAIN)
    return DISTRIBUTED if found == PLAIN and is_distributed else found


def pilot(names_with_kinds: Mapping[str, str], count: int) -> list[str]:
    """So many projects, spread over the kinds: one of each, the frequent first, then by how many there are of each.

    Which ones, only their names decide. They are sorted.
    """
    by_kind: defaultdict[str, list[str]] = defaultdict(list)
    for name in sorted(names_with_kinds, key=lambda name: (_hash(name), name)):
        by_kind[names_with_kinds[name]].append(name)
    kinds = sorted(by_kind, key=lambda kind: (-len(by_kind[kind]), kind))
    taken = dict.fromkeys(kinds, 0)
    for _ in range(min(count, len(names_with_kinds))):
        # Whoever would still have the most projects for each that is taken; nobody has two before all have one.
        open_kinds = [kind for kind in kinds if taken[kind] < len(by_kind[kind])]
        chosen = max(open_kinds, key=lambda kind: (not taken[kind], len(by_kind[kind]) / (taken[kind] + 1)))
        taken[chosen] += 1
    return sorted(name for kind in kinds for name in by_kind[kind][: taken[kind]])


def _trains(data: bytes) -> str:
    """The kind of a file that trains; empty where it does not."""
    for kind, imports, use in _FRAMEWORKS:
        if imports.search(data) and use.search(data):
            return kind
    return PLAIN if _TORCH.search(data) and _BACKWARD.search(data) else ""


def _texts(files: Iterable[Path]) -> Iterator[tuple[str, bytes]]:
    for path in files:
        with contextlib.suppress(OSError), path.open("rb") as file:
            yield str(path), file.read(_LARGEST)


def _hash(name: str) -> str:
    return disk.digest(name.encode("utf-8", "surrogateescape"))
