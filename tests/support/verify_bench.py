"""Judges variants of the self-test's scripts. What an original is run for is run once, for all test processes."""

from __future__ import annotations

import fcntl
import hashlib
import os
import pickle
import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import forked_python
from attrs import define, field, frozen
from verify_variants import Script, Variant

from perfmod.transforms.finding import Numerics
from perfmod.verify.calling import Call
from perfmod.verify.evidence import Equality
from perfmod.verify.job import Point
from perfmod.verify.laboratory import Laboratory, Setting
from perfmod.verify.proving import Candidate, Prover
from perfmod.verify.request import Request
from perfmod.verify.running import Ran, Runner
from perfmod.verify.scratch import Scratch
from perfmod.verify.sides import ORIGINAL, REWRITTEN, Side
from perfmod.verify.tree import Tree

STEPS = 12
HANDED = (1, 4, 7, 10)
COURSE = 60
"""A script's training, or most of it."""


@define
class SharingLaboratory(Laboratory):
    """Keeps runs of what nobody rewrote in a folder, where other processes find them.

    Attributes:
        folder: for this script on this device.
        original: whose states the others take over.
    """

    folder: Path = field(kw_only=True)
    original: Side = field(kw_only=True)
    _asked: Counter[str] = field(factory=Counter, init=False)

    def watch(
        self,
        runs: Sequence[tuple[Side, Setting]],
        seed: int,
        _beside: Sequence[Side] = (),
        asked: Sequence[tuple[Side, Sequence[Point]]] = (),
    ) -> list[Ran]:
        """Those of `Laboratory`. What another process runs just now is waited for last."""
        kept = [self._place(side, setting, seed) for side, setting in runs]
        found: dict[int, Ran] = {}
        for patient in (False, True):
            for number, place in enumerate(kept):
                ran = None if number in found else self._run(place, runs[number], seed, patient=patient)
                if ran is not None:
                    found[number] = ran
        return [found[number] for number in range(len(runs))] + [self.look(*each) for each in asked]

    def _handing_over(self, side: Side, setting: Setting, seed: int) -> tuple[Path, bool]:
        way = f"{self.by_hand} {self.bare} {self.clock}"
        what = f"{self.original.text(self.original.script)} {setting.reference} {seed} {self.request.steps} {way}"
        states = self.folder / f"states-{hashlib.sha256(what.encode()).hexdigest()}"
        states.mkdir(exist_ok=True)
        # Who comes first of those that all would write the same.
        is_first = side.name == ORIGINAL and setting == setting.reference and not any(states.iterdir())
        return states, is_first

    def _place(self, side: Side, setting: Setting, seed: int) -> Path | None:
        """Where a run is kept: by what is run, how, and, for the original, which time it is."""
        if side.name != ORIGINAL and side.replacements:
            return None
        what = f"{side.name} {side.text(side.script)} {setting} {seed} {self.request.steps}"
        self._asked[what] += side.name == ORIGINAL
        return self.folder / hashlib.sha256(f"{what} {self._asked[what]}".encode()).hexdigest()

    def _run(self, place: Path | None, run: tuple[Side, Setting], seed: int, *, patient: bool) -> Ran | None:
        """None where another process runs it and this one is not to wait."""
        if place is None:
            return super().watch([run], seed)[0]
        with place.open("a+b") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX if patient else fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return None
            file.seek(0)
            data = file.read()
            if data:
                ran: Ran = pickle.loads(data)
                # Who ran it made it again where it taught another way to run the script, and kept that one, too.
                return self.watch([run], seed)[0] if not self.first and self._learns_from(ran) else ran
            ran = super().watch([run], seed)[0]
            file.write(pickle.dumps(ran))
            return ran


@frozen
class Bench:
    """Where variants are judged.

    Attributes:
        scratch: for the copies of this process.
        shared: a folder of the whole test session.
    """

    scratch: Scratch
    shared: Path

    def judge(self, variant: Variant, device: str = "cpu") -> Equality:
        """The verdict on a variant.

        Raises:
            CannotRun: what is to be rewritten does not train.
        """
        prover, original = self._prover(variant.path, variant.original(), device)
        rewritten = Side(REWRITTEN, original.tree, original.script, {original.script: variant.rewritten()})
        return prover.judge([Candidate(rewritten, variant.numerics)])[0]

    def judge_itself(self, script: Script, classes: Sequence[Numerics], device: str = "cpu") -> list[Equality]:
        """The verdicts on a script that nobody rewrote, by classes. Raises `CannotRun` where it does not train."""
        prover, original = self._prover(script.path, script.path.read_bytes(), device)
        again = Side(REWRITTEN, original.tree, original.script)
        return prover.judge([Candidate(again, numerics) for numerics in classes])

    def _prover(self, path: Path, text: bytes, device: str) -> tuple[Prover, Side]:
        """For a script with that text."""
        runs = self.shared / device / path.parent.name
        runs.mkdir(parents=True, exist_ok=True)
        tree = self._tree(path)
        python = forked_python.python() if device == "cpu" and b"compile" not in text else sys.executable
        call = Call(python, cwd=tree.root, environment={**os.environ, **forked_python.THREADS})
        request = Request(
            script=tree.root / path.name,
            against=None,
            arguments=(),
            device=device,
            python=sys.executable,
            steps=STEPS,
            quick=True,
            nproc=None,
            timeout=300.0,
            numerics=None,
            links=(),
            command="",
        )
        runner = Runner(self.scratch, call, request.timeout, sample_memory=False, forks=False)
        original = Side(ORIGINAL, tree, Path(path.name), {Path(path.name): text})
        lab = SharingLaboratory(
            runner,
            request,
            progress=lambda _: None,
            handed=HANDED,
            epoch=3,
            longest=COURSE,
            folder=runs,
            original=original,
        )
        return Prover(lab, original), original

    def _tree(self, path: Path) -> Tree:
        """The script's folder alone: it lies in a repository that nobody wants copied for every run."""
        home = self.scratch.folder / path.parent.name
        if not home.exists():
            shutil.copytree(path.parent, home)
        return Tree.of(home / path.name)
