"""The example scripts, run as a user runs them before and after `perfmod apply`.

What is compared is what is printed. Where every rewrite that was applied is of the class `bitwise`,
the text has to be the same, character by character. Where one of them is `rounding`, the words have
to be the same and every number has to agree to one part in a thousand or one unit in its last
printed digit: the losses go through several optimizer steps, which carry a rounding difference on,
and are printed with four decimals.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
import torchvision_cpu
from forked_python import THREADS, python

from perfmod.codemods import catalog
from perfmod.codemods.engine import rewrite
from perfmod.codemods.results import FileResult, Outcome
from perfmod.transforms.finding import Numerics

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
# Rules that the README of the example promises.
PROMISED = {
    "classifier": {"PM106", "PM201", "PM202", "PM205"},
    "digits": {"PM106", "PM201", "PM202"},
    "segmentation": {"PM101", "PM103", "PM104", "PM105", "PM106", "PM201", "PM202"},
    "text": {"PM104", "PM106", "PM202"},
}
SMALL = {
    "classifier": ("--steps=6", "--batch-size=4", "--log-every=2", "--size=32", "--width=4"),
    "digits": ("--epochs=3", "--steps=6", "--batch-size=4", "--size=8"),
    "segmentation": ("--steps=6", "--batch-size=4", "--log-every=2", "--size=32", "--width=4"),
    "text": ("--steps=6", "--batch-size=4", "--log-every=2", "--width=16"),
}
NUMBER = re.compile(r"\d+(?:\.\d+)?")


def rewritten(example: str) -> FileResult:
    """The example after every safe rewrite."""
    script = EXAMPLES / example / "train.py"
    result = rewrite(script.read_bytes(), str(script), catalog.rules())
    assert result.outcome is Outcome.CHANGED, result.reason
    return result


def printed(script: Path, options: tuple[str, ...], environment: dict[str, str]) -> str:
    """What a script prints on the CPU."""
    command = [python(), str(script), "--device=cpu", *options]
    environment |= {**THREADS, "PYTHONWARNINGS": "ignore"}
    ran = subprocess.run(command, cwd=script.parent, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def same_to_rounding(before: str, after: str) -> bool:
    """Whether two texts have the same words, and numbers that agree as this module's docstring says."""
    if NUMBER.sub("#", before) != NUMBER.sub("#", after):
        return False
    pairs = zip(NUMBER.findall(before), NUMBER.findall(after), strict=True)
    return all(_close(old, new) for old, new in pairs)


def _close(old: str, new: str) -> bool:
    if "." not in old or "." not in new:
        return old == new
    last_digit = 10.0 ** -len(old.partition(".")[2])
    return abs(float(old) - float(new)) <= max(1e-3 * abs(float(old)), 1.01 * last_digit)


@pytest.mark.parametrize("example", sorted(SMALL))
def test_prints_the_same_before_and_after(example: str, tmp_path: Path) -> None:
    environment = dict(os.environ)
    if example == "classifier":
        torchvision_cpu.load_or_skip()
        environment = torchvision_cpu.environment()
    result = rewritten(example)
    texts = []
    for name, script in ("before", result.before), ("after", result.after):
        path = tmp_path / name / "train.py"
        path.parent.mkdir()
        path.write_bytes(script)
        texts.append(printed(path, SMALL[example], environment))
    before, after = texts
    assert len(re.findall("^(?:step|epoch) ", before, re.MULTILINE)) == 3
    if {finding.numerics for finding in result.applied} == {Numerics.BITWISE}:
        assert after == before
    else:
        assert same_to_rounding(before, after), f"{before}\n{after}"


@pytest.mark.parametrize("example", sorted(PROMISED))
def test_readme_tells_what_is_rewritten(example: str) -> None:
    assert {finding.code for finding in rewritten(example).applied} == PROMISED[example]
    readme = (EXAMPLES / example / "README.md").read_text("utf-8")
    assert set(re.findall(r"PM\d{3}", readme)) == PROMISED[example]


@pytest.mark.parametrize("example", sorted(PROMISED))
def test_second_run_changes_nothing(example: str) -> None:
    once = rewritten(example)
    again = rewrite(once.after, once.path, catalog.rules())
    assert again.outcome is Outcome.UNCHANGED
    assert again.applied == ()


@pytest.mark.parametrize(("before", "after", "same"), [
    ("step 2: loss 1.2345", "step 2: loss 1.2346", True),
    ("step 2: loss 1.2345", "step 2: loss 1.2400", False),
    ("step 2: loss 1.2345", "step 3: loss 1.2345", False),
    ("step 2: loss 1.2345", "step 2: mean 1.2345", False),
    ("step 2: loss 1.2345", "step 2: loss nan", False),
    ("trained on 904 tokens", "trained on 905 tokens", False),
])  # fmt: skip
def test_what_counts_as_the_same(before: str, after: str, same: bool) -> None:
    assert same_to_rounding(before, after) is same
