"""What a search has found so far, line by line: a second one goes on from there, or answers at once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from attrs import define, field, frozen

from perfmod.errors import Failure, explain
from perfmod.profile.breakdown import Breakdown
from perfmod.records import plain, restored
from perfmod.roots import shown
from perfmod.transforms.finding import Place
from perfmod.tune.result import Batch
from perfmod.tune.search import NO_TIME, Trial, pooled
from perfmod.tune.stack import Stack
from perfmod.verify.evidence import Evidence
from perfmod.verify.report import evidence_json


@frozen
class Proof:
    """What became of a stack when its training was compared with the original's.

    Attributes:
        withdrawn: the findings of the stack that are not part of what was proven.
        kept: whether something was.
    """

    stack: Stack
    evidence: Evidence
    withdrawn: tuple[Place, ...]
    kept: bool


@frozen
class Premises:
    """What runs of the original have shown.

    Attributes:
        profile: where the time of its step goes.
        withheld: the findings that they decide against, or show nothing about.
        seconds: that the first one took in which its training was watched; 0.0 where there was none.
    """

    profile: Breakdown
    withheld: tuple[Place, ...]
    seconds: float = 0.0


@define
class Journal:
    """One search, in a file.

    Attributes:
        key: of the code, the call and the machine; what was noted under another one is not believed.
        premises: None until they are known. trials: in the order in which they were made. proofs: by stack.
        batches: of other sizes, by the stack that they were given to.
    """

    path: Path
    key: str
    premises: Premises | None = None
    trials: list[Trial] = field(factory=list)
    proofs: dict[Stack, Proof] = field(factory=dict)
    batches: dict[Stack, tuple[Batch, ...]] = field(factory=dict)

    @classmethod
    def opened(cls, path: Path, key: str, *, resume: bool) -> Journal:
        """The journal at `path`: with what an earlier search has noted there under this key, or an empty one.

        Raises `Failure` where it cannot be written.
        """
        found = cls(path, key)
        lines = _lines(path) if resume else []
        is_known = bool(lines) and lines[0] == {"key": key}
        for line in lines[1:] if is_known else ():
            found._take(line)
        kept = lines if is_known else [{"key": key}]
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Without a last line that was cut off, to which the next one would be added.
            path.write_text("".join(json.dumps(line) + "\n" for line in kept), encoding="utf-8")
        except OSError as error:
            raise Failure(f"{shown(path)}: cannot be written: {explain(error)}") from error
        return found

    def _take(self, line: Mapping[str, Any]) -> None:
        if "premises" in line:
            self.premises = restored(Premises, line["premises"])
        if "trial" in line:
            self.trials.append(restored(Trial, line["trial"]))
        if "batches" in line:
            stack, batches = line["batches"]
            self.batches[restored(Stack, stack)] = tuple(restored(Batch, each) for each in batches)
        if "proof" in line:
            stack, withdrawn, kept, evidence = line["proof"]
            proof = Proof(
                restored(Stack, stack),
                evidence_json.load(evidence),
                tuple(restored(Place, each) for each in withdrawn),
                bool(kept),
            )
            self.proofs[proof.stack] = proof

    @property
    def known(self) -> dict[tuple[Stack, bool], Trial]:
        """The trials by stack, and by whether batches were at hand; those of one stack are put together."""
        found: dict[tuple[Stack, bool], Trial] = {}
        for trial in self.trials:
            key = trial.stack, trial.at_hand
            found[key] = pooled(found[key], trial) if key in found else trial
        return found

    def note_premises(self, premises: Premises) -> None:
        """Keep what the original has shown."""
        self.premises = premises
        self._append({"premises": plain(premises)})

    def note_trial(self, trial: Trial) -> None:
        """Keep a trial, unless another call could make it."""
        if trial.reason == NO_TIME:
            return
        self.trials.append(trial)
        self._append({"trial": plain(trial)})

    def note_proof(self, proof: Proof) -> None:
        """Keep a proof."""
        self.proofs[proof.stack] = proof
        withdrawn = [plain(place) for place in proof.withdrawn]
        self._append({"proof": [plain(proof.stack), withdrawn, proof.kept, evidence_json.render(proof.evidence)]})

    def note_batches(self, stack: Stack, batches: Iterable[Batch]) -> None:
        """Keep what became of batches of other sizes."""
        self.batches[stack] = tuple(batches)
        self._append({"batches": [plain(stack), [plain(each) for each in self.batches[stack]]]})

    def _append(self, line: Mapping[str, Any]) -> None:
        try:
            with self.path.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(line) + "\n")
        except OSError as error:
            raise Failure(f"{shown(self.path)}: cannot be written: {explain(error)}") from error


def digest(*parts: object) -> str:
    """A name for all that results depend on."""
    return hashlib.sha256(repr(parts).encode("utf-8", "surrogateescape")).hexdigest()


def _lines(path: Path) -> list[Mapping[str, Any]]:
    """The whole lines of a journal; the last one may have been cut off."""
    try:
        *lines, _ = path.read_text("utf-8").split("\n")
    except (OSError, ValueError):
        return []
    return [json.loads(line) for line in lines]
