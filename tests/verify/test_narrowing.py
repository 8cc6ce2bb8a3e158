"""What is kept of findings of which some change the training, and how often one has to try."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from cli_fakes import RULES

from perfmod.codemods import catalog
from perfmod.config import Options
from perfmod.examine import examine
from perfmod.transforms.finding import Numerics
from perfmod.verify.evidence import Check, Equality, Verdict
from perfmod.verify.judging import UNFIT
from perfmod.verify.narrowing import OVER, Narrowing, groups
from perfmod.verify.stacks import Rewriting

SCRIPT = """\
import torch

torch_slow(0)
torch_slow(1)
torch_slow(2), torch_risky()
torch_twice(3)
torch_risky(loss)
"""


@pytest.fixture
def rewriting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rewriting:
    monkeypatch.setattr(catalog, "rules", lambda: RULES)
    (tmp_path / "train.py").write_text(SCRIPT)
    return Rewriting.of(examine(["train.py"], Options(proposing=Numerics.ROUNDING), cwd=tmp_path, use_cache=False))


def written(rewriting: Rewriting) -> str:
    return "".join(data.decode() for data in rewriting.replacements(rewriting.stack).values())


def refuting(*bad: str) -> Callable[[Rewriting], Equality]:
    def judge(version: Rewriting) -> Equality:
        found = any(text in written(version) for text in bad)
        return Equality(Verdict.REFUTED if found else Verdict.PROVEN, "another loss" if found else "", "bitwise")

    return judge


def test_findings_that_edit_one_statement_belong_together(rewriting: Rewriting) -> None:
    found = [(group.code, len(group.places)) for group in groups(rewriting)]
    # What is written for `torch_twice` is written once more.
    assert found == [("PM901", 1), ("PM901", 1), ("PM908", 2), ("PM902", 2), ("PM902", 1)]


def test_everything_is_one_try_where_all_is_well(rewriting: Rewriting) -> None:
    search = Narrowing(rewriting, refuting())
    version, equality = search.proven()
    assert (len(search.judged), search.withdrawn, version.findings) == (1, {}, rewriting.findings)
    assert equality is not None


def test_what_changes_the_training_is_found_and_the_rest_is_kept(rewriting: Rewriting) -> None:
    search = Narrowing(rewriting, refuting("torch_fast(1)"))
    version, equality = search.proven()
    assert written(version) == (
        SCRIPT.replace("slow(0)", "fast(0)")
        .replace("slow(2)", "fast(2)")
        .replace("twice", "fast")
        .replace("risky", "brave")
    )
    assert equality is not None
    assert equality.verdict is Verdict.PROVEN
    ((place, withheld),) = search.withdrawn.items()
    assert (place.code, withheld.is_open, withheld.reason) == ("PM901", False, "a run decided against it: another loss")
    (refused,) = (each for file in version.examined for each in file.result.refused)
    assert (refused.line, refused.reason) == (4, "a run decided against it: another loss")


def test_of_two_in_one_statement_one_is_kept(rewriting: Rewriting) -> None:
    version, _ = Narrowing(rewriting, refuting("torch_fast(2)")).proven()
    assert "torch_slow(2), torch_brave()" in written(version)


def test_two_that_do_not_go_together(rewriting: Rewriting) -> None:
    def judge(version: Rewriting) -> Equality:
        text = written(version)
        both = "torch_fast(0)" in text and "torch_brave(loss)" in text
        return Equality(Verdict.REFUTED if both else Verdict.PROVEN, "", "bitwise")

    version, _ = Narrowing(rewriting, judge).proven()
    # The doubtful one goes.
    assert "torch_fast(0)" in written(version)
    assert "torch_risky(loss)" in written(version)
    assert "torch_brave()" in written(version)


def test_what_is_not_tried_within_the_budget_is_open(rewriting: Rewriting) -> None:
    search = Narrowing(rewriting, refuting("torch_fast(1)", "torch_brave(loss)"), budget=3)
    version, equality = search.proven()
    assert len(search.judged) == 3
    assert all(withheld.is_open == (withheld.reason == OVER) for withheld in search.withdrawn.values())
    assert any(withheld.reason == OVER for withheld in search.withdrawn.values())
    kept = written(version)
    assert "torch_fast(1)" not in kept
    assert "torch_brave(loss)" not in kept
    assert (equality is None) == (kept == "")


def test_an_original_that_cannot_be_judged_is_asked_once(rewriting: Rewriting) -> None:
    unfit = Check(UNFIT, Verdict.INCONCLUSIVE, reason="set its seeds")
    search = Narrowing(rewriting, lambda _version: Equality(Verdict.INCONCLUSIVE, "", "bitwise", (unfit,)))
    version, equality = search.proven()
    assert (len(search.judged), equality, version.findings) == (1, None, ())
