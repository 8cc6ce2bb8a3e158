"""What a search keeps, and when it is believed."""

from __future__ import annotations

from pathlib import Path

import pytest
from breakdowns import PROFILE

from perfmod.errors import Failure
from perfmod.transforms.finding import Place
from perfmod.transforms.policy import CompileMode
from perfmod.tune.journal import Journal, Premises, Proof
from perfmod.tune.result import Batch
from perfmod.tune.search import NO_TIME, Trial
from perfmod.tune.stack import Stack
from perfmod.verify.evidence import Equality, Evidence, Verdict

STACK = Stack.of({"PM303", "PM304"}, CompileMode.REDUCE_OVERHEAD)
TRIAL = Trial(STACK, True, 2.5, 10.0, compile_seconds=31.0, peak_mib=512.0)
EVIDENCE = Evidence(
    Verdict.PROVEN,
    "the same training",
    "2026-11-26T18:00:00+00:00",
    "0.1.0",
    "perfmod tune train.py",
    "train.py",
    "",
    (),
    "",
    "cuda",
    Equality(Verdict.PROVEN, "equal", "precision"),
)
PLACE = Place("train.py", "PM304", 120)
BATCHES = (Batch(32, 2.0, 16000.0, 512.0), Batch(64, reason="it ran out of memory"))


def written(path: Path) -> Journal:
    journal = Journal.opened(path, "key", resume=True)
    journal.note_premises(Premises(PROFILE, (PLACE,)))
    journal.note_trial(TRIAL)
    journal.note_trial(Trial(Stack(), False, reason=NO_TIME))
    journal.note_proof(Proof(STACK, EVIDENCE, (PLACE,), True))
    journal.note_batches(STACK, BATCHES)
    return journal


def test_a_second_search_knows_what_the_first_has_found(tmp_path: Path) -> None:
    path = tmp_path / "tune" / "journal.jsonl"
    first, second = written(path), Journal.opened(path, "key", resume=True)
    assert second.trials == first.trials == [TRIAL]
    assert second.premises == Premises(PROFILE, (PLACE,))
    assert second.proofs == {STACK: Proof(STACK, EVIDENCE, (PLACE,), True)}
    assert second.batches == {STACK: BATCHES}


def test_trials_of_one_stack_are_put_together(tmp_path: Path) -> None:
    journal = written(tmp_path / "journal.jsonl")
    journal.note_trial(TRIAL)
    assert {key: trial.processes for key, trial in journal.known.items()} == {(STACK, True): 2}


@pytest.mark.parametrize(("key", "resume"), [("another", True), ("key", False)])
def test_what_was_found_with_other_code_or_unwanted_is_gone(tmp_path: Path, key: str, resume: bool) -> None:
    path = tmp_path / "journal.jsonl"
    written(path)
    found = Journal.opened(path, key, resume=resume)
    assert (found.trials, found.proofs, found.premises, found.batches) == ([], {}, None, {})
    assert Journal.opened(path, "key", resume=True).trials == []


def test_a_line_that_was_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    written(path)
    with path.open("a") as stream:
        stream.write('{"trial": [[["PM3')
    found = Journal.opened(path, "key", resume=True)
    assert found.trials == [TRIAL]
    found.note_trial(TRIAL)
    assert len(Journal.opened(path, "key", resume=True).trials) == 2


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Failure, match=r"journal\.jsonl: cannot be written"):
        Journal.opened(tmp_path / "file" / "journal.jsonl", "key", resume=True)
