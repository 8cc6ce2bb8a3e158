"""A verification from end to end: sides in, the record of what was seen out."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

from attrs import define, evolve, field

from perfmod.codemods.results import Withheld
from perfmod.errors import ExitCode, UsageMistake
from perfmod.examined import Examined, in_order
from perfmod.transforms.finding import Place
from perfmod.verify import machine
from perfmod.verify.attribution import StackJudge, Timed
from perfmod.verify.calling import Call
from perfmod.verify.causes import Causes, causes
from perfmod.verify.evidence import Equality, Evidence, FindingRow, Speed, Verdict
from perfmod.verify.failures import Kind
from perfmod.verify.interrupts import terminable
from perfmod.verify.laboratory import Laboratory, Progress
from perfmod.verify.measuring import Stopwatch
from perfmod.verify.narrowing import Narrowing
from perfmod.verify.proving import Candidate, CannotRun, Prover
from perfmod.verify.recorder import Recorder
from perfmod.verify.request import Request
from perfmod.verify.running import Runner
from perfmod.verify.scratch import Scratch
from perfmod.verify.sides import ORIGINAL, REWRITTEN, Side, difference
from perfmod.verify.speed import too_good
from perfmod.verify.stacks import SPREADING, Rewriting, Stack, prefixes
from perfmod.verify.staleness import files_run
from perfmod.verify.tree import Tree
from perfmod.verify.watching import Watch, unasked
from perfmod.withholding import place_of

_NOTHING_CAPTURED: Final = frozenset({Kind.NEVER_STEPPED, Kind.NO_RECORD, Kind.ON_CPU})
_EXIT: Final = {
    Verdict.PROVEN: ExitCode.OK,
    Verdict.NO_CHANGE: ExitCode.OK,
    Verdict.REFUTED: ExitCode.REFUTED,
    Verdict.INCONCLUSIVE: ExitCode.INCONCLUSIVE,
    Verdict.FAILED: ExitCode.FAILED,
}


def exit_code(evidence: Evidence) -> ExitCode:
    """What a verification tells its caller."""
    return _EXIT[evidence.verdict]


def compare(request: Request, progress: Progress) -> Evidence:
    """Compare two scripts. Raises `UsageMistake` and `Failure`."""
    assert request.against is not None
    assert request.numerics is not None
    with opened(request, progress) as verification:
        tree = Tree.of(request.against, request.links)
        rewritten = Side(REWRITTEN, tree, request.against.relative_to(tree.root), nproc=request.nproc)
        return verification.of_side(Candidate(rewritten, request.numerics))


def verify(request: Request, rewriting: Rewriting, progress: Progress) -> Evidence:
    """Compare a script with what the rules make of it. Raises `UsageMistake` and `Failure`."""
    if not rewriting.stack:
        return Recorder(request).nothing_to_do(rewriting)
    request = _for_processes(request, rewriting)
    with opened(request, progress) as verification:
        return verification.of_stack(rewriting)


def keep_proven(request: Request, rewriting: Rewriting, progress: Progress) -> tuple[Evidence, list[Examined]]:
    """The record of verifying, and the files with those rewrites that leave the training the same and pay.

    On the CPU, where speed is not judged, with those that leave the training the same. Raises `UsageMistake` and
    `Failure`.
    """
    if not rewriting.stack:
        return Recorder(request).nothing_to_do(rewriting), list(rewriting.examined)
    request = _for_processes(request, rewriting)
    with opened(request, progress) as verification:
        return verification.of_best_stack(rewriting)


def _for_processes(request: Request, rewriting: Rewriting) -> Request:
    """The same request, which says whether the rewritten script alone is started in several processes."""
    spreading = [code for code in rewriting.stack if code in SPREADING]
    if spreading and request.nproc is None:
        code = spreading[0]
        raise UsageMistake(f"{code} makes several processes of one: name their number, --nproc N, or --ignore {code}")
    return evolve(request, spread=bool(spreading))


@contextlib.contextmanager
def opened(request: Request, progress: Progress) -> Iterator[Verification]:
    """A verification and its scratch folder, for as long as that exists. Raises `UsageMistake` and `Failure`."""
    recorder = Recorder(request)
    progress("checking the interpreter")
    facts = machine.probe(request.python)
    facts.require(request.device, request.nproc or 1)
    tree = Tree.of(request.script, request.links)
    call = Call(facts.python, request.arguments, Path.cwd(), has_bytecode=facts.has_bytecode)
    with terminable(), Scratch.temporary() as scratch:
        lab = Laboratory(Runner(scratch, call, request.timeout), request, progress, facts.free_mib)
        alone = None if request.spread else request.nproc
        original = Side(ORIGINAL, tree, request.script.relative_to(tree.root), nproc=alone)
        yield Verification(request, lab, original, recorder, facts)


@define
class Verification:
    """One verification, while its scratch folder exists.

    Attributes:
        prover: judges candidates against the original; shared by all that is judged.
        before_ms: what a step of the original takes without what it waits for, where that was looked at before.
    """

    request: Request
    lab: Laboratory
    original: Side
    recorder: Recorder
    facts: machine.Facts
    prover: Prover = field(init=False)
    before_ms: float | None = None
    _unseen: tuple[str, ...] = ()
    _withheld: dict[Place, Withheld] = field(factory=dict)
    _observed: dict[Place, tuple[str, ...]] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self.prover = Prover(self.lab, self.original)

    def of_side(self, candidate: Candidate) -> Evidence:
        """The record of comparing the original with another side."""
        try:
            (equality,) = self.prover.judge([candidate])
        except CannotRun as error:
            return self._not_run(error)
        if equality.verdict is not Verdict.PROVEN or self.request.device == "cpu":
            return self._record(candidate.side, equality)
        speed = Stopwatch(self.lab, self.original, candidate.side).speed()
        found = causes(self.lab, self.original, candidate.side, None)
        speed = self._repeated_if_too_good(speed, found, candidate)
        return self._record(candidate.side, equality, speed, found)

    def of_stack(self, rewriting: Rewriting) -> Evidence:
        """The record of comparing the original with all that the rules make of it."""
        try:
            stacks = StackJudge(self.settled(rewriting), self.prover)
            if not stacks.whole:
                return self._told(self._nothing_to_do(stacks.rewriting), rewriting)
            kept = stacks.keep(quick=self.request.quick)
        except CannotRun as error:
            return self._not_run(error)
        equality = stacks.judged[stacks.whole]
        if equality.verdict is Verdict.PROVEN:
            return self._told(self._of_equal_stack(stacks, stacks.whole)[0], rewriting)
        if kept:
            dropped = " and ".join(code for code in stacks.whole if code not in kept)
            equality = evolve(equality, reason=f"{equality.reason}; without {dropped} the training is the same")
        rows = stacks.rows(kept, (), None)
        return self._told(evolve(self._record(stacks.side(stacks.whole), equality), rules=rows), rewriting)

    def of_best_stack(self, rewriting: Rewriting, *, is_settled: bool = False) -> tuple[Evidence, list[Examined]]:
        """The record of comparing the original with what is equal and pays, and the files with that alone.

        `is_settled` is whether `settled` gave the rewriting, or the one that it is a part of.
        """
        if not is_settled:
            self._withheld, self._observed = {}, {}
        try:
            exercised = rewriting if is_settled else self.settled(rewriting)
            if exercised.stack:
                evidence, kept, exercised = self._best(exercised)
            else:
                evidence, kept = self._nothing_to_do(exercised), ()
        except CannotRun as error:
            evidence, kept, exercised = self._not_run(error), (), rewriting
        proven = {each.file.real: self._with_observed(each) for each in exercised.under(kept)}
        told = {each.file.real: each for each in exercised.examined}
        files = [
            proven.get(each.file.real) or told.get(each.file.real, each).left_alone()
            for each in rewriting.examined
            if not each.result.is_new
        ]
        new = [each for each in proven.values() if each.result.is_new]
        return self._told(evidence, rewriting), in_order([*files, *new])

    def _best(self, rewriting: Rewriting) -> tuple[Evidence, Stack, Rewriting]:
        """The record, and the rewriting and the rules of it that are kept."""
        search = Narrowing(rewriting, self._equality, self.request.budget)
        narrowed, equality = search.proven()
        self._withheld.update(search.withdrawn)
        gone = StackJudge(rewriting, self.prover, {rewriting.stack: search.whole})
        if equality is None or not narrowed.stack:
            record = self._record(gone.side(gone.whole), search.whole)
            return evolve(record, rules=gone.rows((), (), None)), (), narrowed
        evidence, kept = self._paying(StackJudge(narrowed, self.prover, {narrowed.stack: equality}))
        chosen = (
            narrowed
            if kept
            else narrowed.without(dict.fromkeys(unasked(narrowed), Withheld("it makes the step no faster")))
        )
        if not kept and chosen.stack and chosen.findings != narrowed.findings:
            equality = self._equality(chosen)
            if equality.verdict is Verdict.PROVEN:
                evidence, kept = self._paying(StackJudge(chosen, self.prover, {chosen.stack: equality}))
                narrowed = chosen
        withdrawn = []
        for row in gone.rows((), (), None):
            if row.code not in narrowed.stack:
                equality = search.refuting_rule(row.code) or Equality(Verdict.INCONCLUSIVE, search.why(row.code), "")
                withdrawn.append(evolve(row, equality=equality.verdict, reason=equality.reason))
        rows = sorted((*evidence.rules, *withdrawn), key=lambda row: row.code)
        return evolve(evidence, rules=tuple(rows)), kept, narrowed

    def _equality(self, rewriting: Rewriting) -> Equality:
        (equality,) = StackJudge(rewriting, self.prover).judge([rewriting.stack])
        return equality

    def _paying(self, stacks: StackJudge) -> tuple[Evidence, Stack]:
        """Of rules that leave the training the same together, those that do not slow it down."""
        kept = stacks.whole
        evidence, slow = self._of_equal_stack(stacks, kept)
        rest = tuple(code for code in kept if code not in slow)
        if slow and rest and stacks.judge([rest])[0].verdict is Verdict.PROVEN:
            rows = {row.code: row for row in evidence.rules}
            evidence, _ = self._of_equal_stack(stacks, rest, alone=True)
            # Why the slow ones were taken out is told by how they did among all.
            told = [evolve(rows[row.code], withdrawn=True) if row.code in slow else row for row in evidence.rules]
            evidence, kept = evolve(evidence, rules=tuple(told)), rest
        if self.request.device == "cpu" or evidence.verdict is Verdict.PROVEN:
            return evidence, kept
        gone = tuple(
            row if row.withdrawn else evolve(row, withdrawn=True, reason=evidence.reason) for row in evidence.rules
        )
        return evolve(evidence, rules=gone), ()

    def settled(self, rewriting: Rewriting) -> Rewriting:
        """Without the findings that a run of the original shows to be wrong, or nothing about. Raises `CannotRun`."""
        return self._watched(self.exercised(rewriting))

    def _watched(self, rewriting: Rewriting) -> Rewriting:
        """Without the findings that nobody asked for and whose open questions a run of the original does not answer."""
        watch = Watch.of(rewriting, self.original.tree.root, self.request.device)
        if not watch.points:
            return rewriting
        self._withheld, self._observed = watch.decided(self.prover.asked(watch.points))
        return rewriting.without(self._withheld)

    def _with_observed(self, each: Examined) -> Examined:
        """A file, with what a run has shown of its findings."""
        applied = []
        for finding in each.result.applied:
            observed = self._observed.get(place_of(each, finding), ())
            reason = f"{finding.reason}; a run showed {', '.join(observed)}" if observed else finding.reason
            applied.append(evolve(finding, observed=observed, reason=reason))
        return evolve(each, result=evolve(each.result, applied=tuple(applied)))

    def _told(self, evidence: Evidence, rewriting: Rewriting) -> Evidence:
        """The record with the findings of which something was decided by themselves."""
        names = rewriting.names()
        rows = []
        for each in rewriting.examined:
            for finding in each.result.applied:
                place = place_of(each, finding)
                withheld, observed = self._withheld.get(place), self._observed.get(place, ())
                if withheld is None and not observed:
                    continue
                outcome = "kept" if withheld is None else "open" if withheld.is_open else "withdrawn"
                rows.append(
                    FindingRow(
                        code=finding.code,
                        name=names[finding.code],
                        place=f"{each.result.path}:{finding.line}",
                        safety=finding.safety.value,
                        outcome=outcome,
                        reason="" if withheld is None else withheld.reason,
                        observed=observed,
                    )
                )
        return evolve(evidence, findings=tuple(rows))

    def exercised(self, rewriting: Rewriting) -> Rewriting:
        """Without the findings in files that the script does not import: nothing that a run shows is about them.

        Where a finding in an imported file changes another one along with it, that one is still written.
        """
        script = self.original.tree.root / self.original.script
        # A new one lies beside who imports it.
        changed = {each.file.real for each in rewriting.files if not each.result.is_new}
        if changed <= {script}:
            return rewriting
        unseen = changed - self.prover.imported()
        if not unseen:
            return rewriting
        spared = rewriting.sparing(unseen)
        along = {each.file.real for each in spared.files}
        told = {
            True: "is not imported by this script, and changes only together with files that are",
            False: "is not imported by this script, so its rewrites are not verified",
        }
        self._unseen = tuple(
            f"{each.result.path}: {told[each.file.real in along]}"
            for each in rewriting.files
            if each.file.real in unseen
        )
        return Rewriting(tuple(each for each in spared.examined if each.file.real not in unseen - along))

    def _of_equal_stack(self, stacks: StackJudge, stack: Stack, *, alone: bool = False) -> tuple[Evidence, set[str]]:
        """Time a stack that keeps the training the same; its record, and the rules in it that slow it down.

        `alone` leaves out what the single rules bring.
        """
        rewritten = evolve(stacks.candidate(stack), side=evolve(stacks.side(stack), name=REWRITTEN))
        if self.request.device == "cpu":
            record = self._record(rewritten.side, stacks.judged[stack])
            return evolve(record, rules=stacks.rows(stack, (), None)), set()
        between = [] if alone or self.request.quick else [stacks.side(part) for part in prefixes(stack)[:-1]]
        watch = Stopwatch(self.lab, self.original, rewritten.side, between)
        speed = watch.speed()
        timed = _timed(watch, stack) if between else []
        found = causes(self.lab, self.original, rewritten.side, stacks.rewriting)
        speed = self._repeated_if_too_good(speed, found, rewritten)
        record = self._record(rewritten.side, stacks.judged[stack], speed, found)
        slow = {each.code for each in timed if each.speed.verdict is Verdict.REFUTED}
        return evolve(record, rules=stacks.rows(stack, timed, found.why)), slow

    def _repeated_if_too_good(self, speed: Speed, found: Causes, candidate: Candidate) -> Speed:
        """A gain that is hard to believe has to show again, on other weights and other batches."""
        doubt = too_good(speed, found.busy_ms, found.before_ms or self.before_ms)
        if not doubt:
            return speed
        self.lab.progress("repeating a result that looks too good")
        try:
            (again,) = Prover(self.lab, self.original, seed=self.prover.seed + 1).judge([candidate])
        except CannotRun as error:
            # It did run on the first inputs, so this is no failure of the whole.
            again = Equality(Verdict.INCONCLUSIVE, f"the original cannot be judged: {error}", "")
        if again.verdict is not Verdict.PROVEN:
            reason = f"{doubt}, and on fresh inputs: {again.reason}"
            return evolve(speed, verdict=again.verdict, reason=reason, suspicious=reason)
        repeated = Stopwatch(self.lab, self.original, candidate.side).speed()
        told = f"{doubt}; repeated on fresh inputs: {repeated.ratio:.2f}x, and the training was the same again"
        return evolve(repeated, suspicious=told)

    def _record(
        self, rewritten: Side, equality: Equality, speed: Speed | None = None, found: Causes | None = None
    ) -> Evidence:
        evidence = self.recorder.record(self.lab.first, equality, speed)
        return evolve(
            evidence,
            why=found.why if found is not None else None,
            files=files_run(self.original, self.lab.first),
            diff=difference(self.original, rewritten),
            warnings=(*self._warnings(rewritten), *(found.warnings if found is not None else ())),
        )

    def _warnings(self, rewritten: Side) -> Sequence[str]:
        links = dict.fromkeys((*self.original.tree.outside_links, *rewritten.tree.outside_links))
        told = (
            f"{path}: is a link out of the tree; files that the script writes there are not isolated" for path in links
        )
        return [*self._unseen, *told]

    def _nothing_to_do(self, rewriting: Rewriting) -> Evidence:
        return evolve(self.recorder.nothing_to_do(rewriting), warnings=self._unseen)

    def _not_run(self, error: CannotRun) -> Evidence:
        verdict = Verdict.INCONCLUSIVE if error.trouble.kind in _NOTHING_CAPTURED else Verdict.FAILED
        return self.recorder.not_run(self.original.script, verdict, error.trouble)


def _timed(watch: Stopwatch, stack: Stack) -> list[Timed]:
    """What each rule brought to the stack before it, where both were timed."""
    sides = [watch.original, *watch.between, watch.rewritten]
    speeds = [watch.between_stacks(before, after) for before, after in pairwise(sides)]
    return [Timed(code, speed) for code, speed in zip(stack, speeds, strict=True) if speed is not None]
