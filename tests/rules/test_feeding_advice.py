"""PM204 and PM207: advice on loaders and samples, which changes nothing."""

from __future__ import annotations

import pytest

from perfmod.codemods.engine import rewrite
from perfmod.codemods.results import Choice, FileResult, Outcome
from perfmod.transforms.feeding.costly_samples import CostlySamples
from perfmod.transforms.feeding.shallow_prefetch import ShallowPrefetch
from perfmod.transforms.finding import Safety
from perfmod.transforms.rule import Rule

CODE = """\
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class Rows(Dataset):
    def __getitem__(self, index):
        row = np.zeros(3)
        return SAMPLE

    def __len__(self):
        return 8


def together(samples):
    return BATCH


def main(model, count):
    loader = DataLoader(Rows(), collate_fn=together, OPTIONS)
    for x in loader:
        model(x).sum().backward()
"""


def run(rule: Rule, *, sample: str = "row", batch: str = "samples", options: str = "num_workers=4") -> FileResult:
    code = CODE.replace("SAMPLE", sample).replace("BATCH", batch).replace("OPTIONS", options)
    result = rewrite(code.encode(), "train.py", [rule], Choice(unsafe=True, opted_in=frozenset({rule.code})))
    assert result.outcome is Outcome.UNCHANGED, result.reason
    assert all(finding.safety is Safety.ADVICE and not finding.refused for finding in result.refused)
    return result


@pytest.mark.parametrize(("options", "advice"), [
    ("num_workers=1", "only 2 batches are loaded ahead (one worker, prefetch_factor 2): raise num_workers"),
    ("num_workers=2, prefetch_factor=1", "only 2 batches are loaded ahead (2 workers, prefetch_factor 1)"),
    ("num_workers=2", ""),
    ("num_workers=0", ""),
    ("num_workers=count", ""),
    ("num_workers=1, prefetch_factor=count", ""),
    ("num_workers=1, **count", ""),
])  # fmt: skip
def test_batches_in_store(options: str, advice: str) -> None:
    found = run(ShallowPrefetch(), options=options).refused
    assert [advice in finding.reason for finding in found] == ([True] if advice else [])


def test_workers_of_the_command_line_are_a_default() -> None:
    code = CODE.replace("OPTIONS", "num_workers=args.workers").replace("SAMPLE", "row").replace("BATCH", "samples")
    parser = "    parser = argparse.ArgumentParser()\n    parser.add_argument('--workers', type=int, default=1)\n"
    code = code.replace("    loader =", f"{parser}    args = parser.parse_args()\n    loader =")
    result = rewrite(f"import argparse\n{code}".encode(), "train.py", [ShallowPrefetch()])
    assert "only 2 batches are loaded ahead (one worker by default, prefetch_factor 2)" in result.refused[0].reason


@pytest.mark.parametrize(("sample", "batch", "advice"), [
    ("torch.from_numpy(row.astype(np.float64))", "samples", "float64: twice"),
    ("torch.zeros(3, dtype=torch.float64)", "samples", "float64: twice"),
    ("row.astype('float64')", "samples", "float64: twice"),
    ("torch.tensor([float(v) for v in row])", "samples", "a Python object"),
    ("torch.tensor(list(row))", "samples", "an array becomes a list"),
    ("torch.FloatTensor(row.tolist())", "samples", "an array becomes a list"),
    ("row", "torch.stack([torch.tensor(s) for s in samples])", "one tensor per element"),
    ("torch.from_numpy(row)", "torch.stack(samples)", ""),
    ("torch.tensor([index, index])", "samples", ""),
    ("torch.zeros(3, dtype=torch.float32)", "samples", ""),
    ("torch.zeros(3, dtype=float)", "samples", ""),
])  # fmt: skip
def test_costs_of_samples(sample: str, batch: str, advice: str) -> None:
    found = run(CostlySamples(), sample=sample, batch=batch).refused
    assert [advice in finding.reason for finding in found] == ([True] if advice else [])
