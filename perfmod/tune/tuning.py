"""A search from end to end: a script in, the fastest stack of each class out, with its proof."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from attrs import define, evolve, field, frozen

import perfmod
from perfmod import __version__
from perfmod.cache import location
from perfmod.errors import Failure
from perfmod.examined import Examined
from perfmod.parallel import usable_cpus
from perfmod.profile.breakdown import Breakdown
from perfmod.profile.running import look
from perfmod.roots import from_here, shown
from perfmod.transforms.finding import Numerics, Place
from perfmod.transforms.policy import HalfType
from perfmod.tune import sizes
from perfmod.tune.advice import advice, of_chosen_batch, of_switches, of_waits
from perfmod.tune.bench import Bench
from perfmod.tune.cards import seats
from perfmod.tune.journal import Journal, Premises, Proof, digest
from perfmod.tune.result import Offer, Row, Tuning
from perfmod.tune.search import MOVES, Search, Trial
from perfmod.tune.space import Space, not_now
from perfmod.tune.stack import Stack
from perfmod.verify import machine
from perfmod.verify.evidence import Evidence, Verdict
from perfmod.verify.interrupts import TimeIsUp, limited
from perfmod.verify.laboratory import Progress
from perfmod.verify.proving import CannotRun
from perfmod.verify.report.summary import RESERVED, memory
from perfmod.verify.report.wording import duration
from perfmod.verify.request import Request
from perfmod.verify.stacks import Rewriting
from perfmod.verify.verification import Verification, opened
from perfmod.withholding import place_of

FOR_TRIALS: Final = 0.6
"""Share of the budget, once something is faster; the rest is for proofs."""
_SECONDS_OF_A_PROOF: Final = 90.0
_RUNS_OF_A_PROOF: Final = 8
"""A proof takes so many seconds, and as long as so many first runs of the original; most runs go on side by side."""
_WITHOUT_ORIGINAL: Final = 0.6
"""Share of the first proof's time that a second one is likely to take."""
_PLAIN_STEPS: Final = 20
_LONGEST_RUN: Final = 0.5
"""Share of the budget that a single run may take; and the seconds that it may take in any case."""
_FEWEST_SECONDS: Final = 180.0
_TRIES: Final = 3
"""Stacks of a class whose training is compared with the original's, the fastest first."""

Settings = tuple[tuple[str, object], ...]
Examine = Callable[[Settings], Sequence[Examined]]
"""Examines the script's files, with some fields of `perfmod.config.Settings` in place of the project's."""


@frozen
class Terms:
    """What a search may do.

    Attributes:
        budget: seconds.
        allow: the widest class of stacks that are tried.
        steps: that the training is planned for; None where what compiling takes does not count.
        batch: the batch size to train with; None for the script's own.
        resume: whether to go on where an earlier search of the same kind ended.
        folder: where the journal lies; None for the user's cache.
    """

    budget: float
    allow: Numerics = Numerics.PRECISION
    steps: int | None = None
    batch: int | None = None
    resume: bool = True
    folder: Path | None = None

    @property
    def classes(self) -> tuple[Numerics, ...]:
        """Those that are allowed, the narrowest first."""
        return tuple(each for each in Numerics if each.is_within(self.allow))


@frozen
class Tuned:
    """What came out: the record, the evidence for its best stack, and the files with that; none where there is none."""

    tuning: Tuning
    evidence: Evidence | None = None
    files: tuple[Examined, ...] = ()


def tune(request: Request, terms: Terms, examine: Examine, progress: Progress) -> Tuned:
    """Search. Ctrl-C, or the end of the budget, ends it with what was found so far.

    Raises:
        UsageMistake: the script lies where no copy can be made of it.
        Failure: it cannot be run, not even once within the budget, or the journal cannot be written.
    """
    began = time.monotonic()
    timeout = min(request.timeout, max(_FEWEST_SECONDS, _LONGEST_RUN * terms.budget))
    request = evolve(request, quick=True, timeout=timeout)
    with opened(request, progress) as verification:
        settings = _for_the_gpu(verification.facts)
        usual = Rewriting.of(examine(settings))
        journal = Journal.opened(
            _journal_path(request, terms), _key(request, terms, usual, verification.facts), resume=terms.resume
        )
        try:
            return _Tuner(request, terms, examine, verification, journal, usual, settings, began).tuned()
        except TimeIsUp:
            script, budget = shown(from_here(request.script)), duration(terms.budget)
            raise Failure(f"{script}: {budget} is too short to see where its time goes; try --budget 10m") from None
        except CannotRun as error:
            raise Failure(f"{shown(from_here(request.script))}: {error.trouble.reason}") from error


def _for_the_gpu(facts: machine.Facts) -> Settings:
    """What is chosen for a GPU before anything is tried."""
    return () if facts.computes_bfloat16 else (("half_type", HalfType.FLOAT16),)


def _key(request: Request, terms: Terms, usual: Rewriting, facts: machine.Facts) -> str:
    """Names the code, the call and the machine."""
    code = sorted(
        (os.path.relpath(each.file.real, request.script.parent), file.data)
        for each in usual.examined
        if each.task is not None
        for file in each.task.files
        if file.path == each.result.path
    )
    there = facts.version, facts.torch, facts.gpu, machine.gpu().driver if request.device == "cuda" else ""
    call = request.script.read_bytes(), request.arguments, request.device, terms.batch
    return digest(__version__, _own_code(), code, *call, there)


def _own_code() -> str:
    """Names what searches and judges, by its text: a search may go on where perfmod is installed anew."""
    found = hashlib.sha256()
    for folder, folders, names in os.walk(Path(perfmod.__file__).parent, followlinks=True):
        folders.sort()
        for name in sorted(names):
            if name.endswith(".py"):
                found.update(Path(folder, name).read_bytes())
    return found.hexdigest()


def _journal_path(request: Request, terms: Terms) -> Path:
    if terms.folder is not None:
        return terms.folder / "journal.jsonl"
    return location().parent / "tune" / f"{digest(str(request.script), request.arguments)[:24]}.jsonl"


@define
class _Tuner:
    request: Request
    terms: Terms
    examine: Examine
    verification: Verification
    journal: Journal
    usual: Rewriting
    settings: Settings
    _began: float
    _stacks: dict[Numerics, Stack] = field(factory=dict, init=False)
    _files: dict[Stack, tuple[Examined, ...]] = field(factory=dict, init=False)
    _cut: set[Numerics] = field(factory=set, init=False)
    _proofs: list[float] = field(factory=list, init=False)
    _is_whole: bool = field(default=True, init=False)
    _is_interrupted: bool = field(default=False, init=False)

    def tuned(self) -> Tuned:
        known = self.journal.premises is not None
        with limited(self._left()):
            premises = self.journal.premises or self._looked()
        profile = premises.profile
        self._use_batch(profile)
        if self.terms.batch is None:
            self.verification.before_ms = profile.busy_ms
        space = Space(
            self.usual.without(not_now(premises.withheld)),
            lambda chosen: Rewriting.of(self.examine((*self.settings, *chosen.settings))),
            premises.withheld,
            usable_cpus(),
            patient=self.terms.steps is not None,
        )
        lab = self.verification.lab
        lab.seats = seats(self.request, lab.first)
        bench = Bench(space, self.verification.prover, self._end_of_trials, self.journal.note_trial)
        search = Search(space, bench, profile.bound, self.journal.known, self.terms.steps)
        try:
            with limited(self._left()):
                self._search(search, space)
                self._prove(search, space)
                self._measure_sizes(bench, profile)
        except KeyboardInterrupt as ended:
            self._is_whole, self._is_interrupted = False, not isinstance(ended, TimeIsUp)
            self._settle(search, space)
        return self._result(search, space, profile, known)

    def _left(self) -> float:
        """Seconds of the budget."""
        return self._began + self.terms.budget - time.monotonic()

    def _end_of_trials(self) -> float:
        """On the clock: as long as nothing is faster there is nothing to prove, and no time is kept for that."""
        end = self._began + self.terms.budget
        if not any(trial.ratio >= MOVES for trial in self.journal.known.values()):
            return end
        single = self.journal.premises.seconds if self.journal.premises is not None else 0.0
        proof = _SECONDS_OF_A_PROOF + _RUNS_OF_A_PROOF * single
        return min(self._began + FOR_TRIALS * self.terms.budget, end - proof)

    def _looked(self) -> Premises:
        """Run the original, to see where its time goes, and what it says of the findings. Raises `CannotRun`."""
        verification, lab = self.verification, self.verification.lab
        profile = look(
            lab.runner,
            verification.original,
            evolve(self.request, steps=_PLAIN_STEPS),
            verification.facts,
            self.usual.examined,
            lab.progress,
        )
        self._use_batch(profile)
        settled = set(_places(verification.settled(self.usual).examined))
        withheld = tuple(place for place in _places(self.usual.examined) if place not in settled)
        premises = Premises(profile, withheld, float(lab.first.get("seconds", 0.0)))
        self.journal.note_premises(premises)
        return premises

    def _use_batch(self, profile: Breakdown) -> None:
        """Have all runs from now on use the batch size that is asked for. Raises `Failure`."""
        if self.terms.batch is None:
            return
        own = sizes.usual_size(profile)
        if own is None:
            script = shown(from_here(self.request.script))
            raise Failure(f"{script}: --batch {self.terms.batch}: none of its loaders puts samples together to batches")
        self.verification.lab.batch = own, self.terms.batch

    def _classes(self, space: Space) -> list[Numerics]:
        """Those that have a stack of their own, the widest first: one that allows no further rule has none."""
        found = {space.within(numerics): numerics for numerics in reversed(self.terms.classes)}
        return [numerics for codes, numerics in found.items() if codes]

    def _search(self, search: Search, space: Space) -> None:
        # The widest class has most to gain, and what is left of the budget is for the others.
        found = {numerics: search.best(numerics) for numerics in self._classes(space)}
        narrow = Stack()
        for numerics in reversed(found):
            narrow = self._stacks[numerics] = search.preferred(narrow, found[numerics])
        for numerics in reversed(found):
            self._stacks[numerics] = space.effective(search.trimmed(self._stacks[numerics]))
        self._is_whole = not search.has_left(self.terms.allow)

    def _settle(self, search: Search, space: Space) -> None:
        """Of classes in which the search was ended, the fastest stack that was timed."""
        for numerics in reversed(self._classes(space)):
            if numerics not in self._stacks:
                self._cut.add(numerics)
                self._stacks[numerics] = next(iter(self._candidates(search, space, numerics)), Stack())

    def _prove(self, search: Search, space: Space) -> None:
        """Compare the training under the fastest stacks with the original's, the fastest of all first."""
        if self.verification.before_ms is None:
            fed = (trial.original_ms for trial in search.trials.values() if trial.at_hand)
            self.verification.before_ms = max(filter(None, fed), default=None)
        for numerics in reversed(self._stacks):
            for stack in self._candidates(search, space, numerics)[:_TRIES]:
                if stack not in self.journal.proofs and not self._has_time():
                    self._is_whole = False
                    return
                # Where none is proven, why the fastest is not is what there is to say.
                if self._proof(space, stack).kept:
                    self._stacks[numerics] = stack
                    break

    def _has_time(self) -> bool:
        """Whether another proof is likely to end within the budget; the first one is begun in any case.

        The first takes longest: the original's runs are in it.
        """
        return not self._proofs or self._likely_proof() < self._left()

    def _likely_proof(self) -> float:
        """Seconds."""
        return _WITHOUT_ORIGINAL * self._proofs[0] if len(self._proofs) == 1 else max(self._proofs[1:])

    def _measure_sizes(self, bench: Bench, profile: Breakdown) -> None:
        """Larger batches, if there is time, under the fastest stack that is proven, or as written."""
        stack, usual = self._proven(), sizes.usual_size(profile)
        if usual is None or self.terms.batch is not None or stack in self.journal.batches:
            return
        deadline = self._began + self.terms.budget
        found = list(sizes.measured(self.verification.lab, bench.side(stack), usual, deadline))
        if len(found) > 1:
            self.journal.note_batches(stack, found)

    def _of_chosen_batch(self, profile: Breakdown, stack: Stack) -> Iterator[str]:
        """What the batch size that was asked for brings together with the stack."""
        proof, own = self.journal.proofs.get(stack), sizes.usual_size(profile)
        speed = proof.evidence.speed if proof is not None else None
        if self.terms.batch is not None and own is not None and speed is not None and speed.rewritten_ms:
            yield of_chosen_batch(own, self.terms.batch, profile.step_ms, speed.rewritten_ms)

    def _proven(self) -> Stack:
        """The fastest stack that is proven; as written where none is."""
        kept = [stack for stack in self._stacks.values() if (proof := self.journal.proofs.get(stack)) and proof.kept]
        return max(kept, key=lambda stack: self._speed(stack), default=Stack())

    def _speed(self, stack: Stack) -> float:
        speed = self.journal.proofs[stack].evidence.speed
        return (speed.ratio or 0.0) if speed is not None else 0.0

    def _candidates(self, search: Search, space: Space, numerics: Numerics) -> list[Stack]:
        """The chosen stack of a class, then others of it that were nearly as fast."""
        chosen = self._stacks.get(numerics, Stack())
        others = [
            trial
            for trial in search.trials.values()
            if trial.ratio >= MOVES and space.numerics(trial.stack.codes).is_within(numerics)
        ]
        others.sort(key=lambda trial: (trial.at_hand, -trial.gain(self.terms.steps)))
        return [stack for stack in dict.fromkeys((chosen, *(trial.stack for trial in others))) if stack != Stack()]

    def _proof(self, space: Space, stack: Stack) -> Proof:
        if stack not in self.journal.proofs:
            self.verification.lab.progress(f"comparing the training under {stack}")
            began, rewriting = time.monotonic(), space.rewriting(stack)
            evidence, files = self.verification.of_best_stack(rewriting, is_settled=True)
            self._proofs.append(time.monotonic() - began)
            kept = _places(files)
            withdrawn = tuple(place for place in _places(rewriting.examined) if place not in kept)
            self.journal.note_proof(Proof(stack, evidence, withdrawn, bool(kept)))
        return self.journal.proofs[stack]

    def _files_of(self, space: Space, proof: Proof) -> tuple[Examined, ...]:
        return space.rewriting(proof.stack).without(not_now(proof.withdrawn)).examined

    def _result(self, search: Search, space: Space, profile: Breakdown, resumed: bool) -> Tuned:
        offers = tuple(self._offers(search))
        proven = [offer for offer in offers if offer.verdict == Verdict.PROVEN.value]
        best = max(proven, key=lambda offer: offer.ratio or 0.0, default=None)
        stack = self._proven()
        batches = self.journal.batches.get(stack, ())
        without_feeding = stack.under(stack.codes - space.feeding)
        proofs = {str(stack): proof for stack, proof in self.journal.proofs.items()}
        tuning = Tuning(
            command=self.request.command,
            script=shown(from_here(self.request.script)),
            profile=profile,
            offers=offers,
            rows=tuple(_row(trial) for trial in search.trials.values()),
            best=best.numerics if best is not None else "",
            seconds=time.monotonic() - self._began,
            budget_seconds=self.terms.budget,
            resumed=resumed,
            complete=self._is_whole,
            interrupted=self._is_interrupted,
            perfmod=__version__,
            torch=profile.torch,
            gpu=self.verification.facts.gpu,
            driver=machine.gpu().driver if self.request.device == "cuda" else "",
            batches=batches,
            advice=(
                *self._of_chosen_batch(profile, stack),
                *advice(search.trials, stack, without_feeding, batches),
                *(of_waits(profile.step_ms, profile.loader_ms) if stack == Stack() else ()),
                *of_switches(self.request.script.read_bytes(), self.request.arguments),
            ),
        )
        if best is None:
            return Tuned(tuning)
        proof = proofs[best.stack]
        return Tuned(tuning, proof.evidence, self._files_of(space, proof))

    def _offers(self, search: Search) -> Iterator[Offer]:
        for numerics, stack in self._stacks.items():
            words, tried = numerics.words, not (numerics in self._cut or search.has_left(numerics))
            proof = self.journal.proofs.get(stack)
            if stack == Stack() or proof is None:
                yield Offer(numerics.value, words, "" if stack == Stack() else str(stack), tried=tried)
                continue
            evidence, speed = proof.evidence, proof.evidence.speed
            offer = Offer(
                numerics.value,
                words,
                str(stack),
                evidence.verdict.value,
                evidence.reason,
                diff=evidence.diff,
                tried=tried,
            )
            if speed is None:
                trial = search.trials.get((stack, False)) or search.trials.get((stack, True))
                yield evolve(offer, ratio=trial.ratio) if trial is not None else offer
                continue
            most = next((each for each in memory(speed) if each.kind == RESERVED), None)
            yield evolve(
                offer,
                ratio=speed.ratio,
                low=speed.low,
                high=speed.high,
                ms=speed.rewritten_ms,
                original_ms=speed.original_ms,
                peak_mib=most.rewritten if most is not None else None,
                original_peak_mib=most.original if most is not None else None,
                break_even_step=speed.break_even_step,
            )


def _places(files: Sequence[Examined]) -> tuple[Place, ...]:
    return tuple(place_of(each, finding) for each in files for finding in each.result.applied)


def _row(trial: Trial) -> Row:
    return Row(
        str(trial.stack),
        trial.at_hand,
        trial.ms,
        trial.original_ms,
        trial.ratio,
        trial.compile_seconds,
        trial.peak_mib,
        trial.reason,
    )
