"""Models that normalise by the statistics of a batch: with several processes, by those of the samples of each."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from perfmod.transforms.compute._spread_parts import Parts
from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import find_all, is_true
from perfmod.transforms.finding import Question
from perfmod.transforms.questions import Predicate
from perfmod.transforms.rule import question

_NORMALISED_BY_LIBRARY = ("torchvision.models.", "timm.")


def normalising(file: FileFacts) -> cst.Call | None:
    """A call that makes a layer, or a model with layers, that normalises by the statistics of a batch."""
    for made in find_all(file.tree.module, cst.Call):
        name = file.qualified(made) or ""
        if "BatchNorm" in name or name.startswith(_NORMALISED_BY_LIBRARY):
            return made
    return None


def questions(file: FileFacts, found: Parts, made: cst.Call | None) -> Sequence[Question]:
    """What has to be answered of such a model; shuffled, any samples of a batch are as good as others."""
    shuffle = argument(found.loader.call, "shuffle")
    is_shuffled = shuffle is not None and is_true(shuffle)
    return [] if made is None or is_shuffled else [question(file, Predicate.NORMALISES_BY_PART, made)]
