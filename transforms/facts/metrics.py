"""Metrics of torchmetrics that look at the values they are given, and so wait for the device."""

from __future__ import annotations

import libcst as cst

from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import dotted
from perfmod.transforms.facts.tree import find_all

# The metrics of classification, as classes and functions are named: `BinaryAccuracy`, `multiclass_f1_score`. Each
# looks for labels that are no class, unless it is told `validate_args=False`; those of regression check shapes only.
_CHECKING = (
    "accuracy", "auroc", "averageprecision", "calibrationerror", "cohenkappa", "confusionmatrix", "exactmatch",
    "f1score", "fbetascore", "hammingdistance", "hingeloss", "jaccardindex", "matthewscorrcoef", "precision",
    "precisionrecallcurve", "recall", "roc", "specificity", "statscores",
)  # fmt: skip
_FED = ("update", "forward")


def checks_values(file: FileFacts, call: cst.Call) -> bool:
    """Whether a call gives values to such a metric: `accuracy.update(out, y)`, `accuracy(out, y)`, `f1_score(out, y)`.

    A collection does where one of its metrics does.
    """
    name = file.qualified(call) or ""
    if name:
        return name.startswith("torchmetrics.functional.") and _checks(file, call)
    func = call.func
    is_fed = isinstance(func, cst.Attribute) and func.attr.value in _FED
    made = file.value(func.value if is_fed and isinstance(func, cst.Attribute) else func).call
    if made is None or not (file.qualified(made) or "").startswith("torchmetrics."):
        return False
    return any(_checks(file, each) for each in find_all(made, cst.Call))


def _checks(file: FileFacts, call: cst.Call) -> bool:
    name = file.qualified(call) or ""
    is_checking = name.rpartition(".")[2].replace("_", "").lower().endswith(_CHECKING)
    asked = argument(call, "validate_args")
    return is_checking and name.startswith("torchmetrics.") and (asked is None or dotted(asked) == "True")
