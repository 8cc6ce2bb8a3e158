"""Is the training the same? E-runs of the original with its controls, and of what is compared with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from attrs import define, evolve, field, frozen

from perfmod.transforms.finding import Numerics
from perfmod.verify import conditions
from perfmod.verify.courses import UNOBSERVED, compare_unobserved
from perfmod.verify.evidence import Check, Equality, Verdict
from perfmod.verify.failures import Kind, Trouble
from perfmod.verify.job import SEED, Point
from perfmod.verify.judging import (
    ALIKE,
    ALIKE_AND_DRAWN_ALIKE,
    DRAWN_ALIKE,
    SHORT_EPOCHS,
    WITHOUT_DROPOUT,
    Controls,
    judge_ranks,
    with_course,
)
from perfmod.verify.laboratory import PLAIN, Laboratory, Setting
from perfmod.verify.outputs import figures_by_line
from perfmod.verify.repeatability import may_be_chance, repeats_itself, weigh_chance
from perfmod.verify.running import Ran, Unobserved
from perfmod.verify.runs import Runs
from perfmod.verify.sides import ORIGINAL, REWRITTEN, Side
from perfmod.verify.spreading import judge_spread

_HALF_PRECISION: Final = 2.0**15
"""Rounding units of float32 in one of bfloat16, the coarsest type that a rewrite brings in."""
_PATIENCE: Final = 10
"""A side that needs this many times the original's time hangs."""
_ELSEWHERE: Final = frozenset({Kind.HOST_MEMORY, Kind.NO_SPACE, Kind.PORT_TAKEN, Kind.SIGNALLED})
"""Troubles that may have nothing to do with the code."""
_IN_DOUBT: Final = 8
"""Runs of an original before a rounding refutes what is compared with it, unless they differ earlier."""
_SEEDS: Final = {False: 5, True: 3}
"""Other seeds with which the original is run to judge another precision over many steps; and with `--quick`."""
_MORE_SEEDS: Final = 4
"""Further ones, where a candidate is in doubt: a handful of draws says little of what lies just beyond them."""
_TWICE: Final = 2
"""To compare the original with itself."""
_ALONE: Final = 2
"""Runs of the original in which nobody looks on."""
_MORE_ALONE: Final = 4
"""Further ones, where a candidate is in doubt."""
_TOGETHER: Final = 3
"""So many are added at a time."""


_Seen: TypeAlias = dict[tuple[int, Setting], Ran]
"""Runs of candidates, by their places and settings."""


class CannotRun(Exception):
    """The original itself gives nothing to judge."""

    def __init__(self, trouble: Trouble) -> None:
        super().__init__(trouble.reason)
        self.trouble = trouble


@frozen
class Candidate:
    """Something to be compared with the original, and the class that says how closely."""

    side: Side
    numerics: Numerics


@define
class Prover:
    """Judges candidates against one original, whose own runs are made once.

    `judge` may be called again with further candidates. `seed` is that of the pinned random streams.
    """

    lab: Laboratory
    original: Side
    seed: int = SEED
    _observed: dict[Setting, list[Ran]] = field(factory=dict)
    _alone: list[Unobserved] = field(factory=list)

    def imported(self) -> set[Path]:
        """The user's files that the original runs, absolute. Raises `CannotRun`."""
        self._observe_original(PLAIN)
        root = self.original.tree.root
        records = self._seen(PLAIN)[0].records
        return {root / self.original.script, *(root / path for record in records for path in record["modules"])}

    def asked(self, points: Sequence[Point]) -> Ran:
        """A run of the original that answers what is asked about its values, beside its first one where that is due.

        Raises `CannotRun`.
        """
        seen = self._seen(PLAIN)
        if seen:
            self.lab.progress("watching the original")
            return self.lab.look(self.original, points)
        first, answers = self.lab.watch([(self.original, PLAIN)], self.seed, asked=[(self.original, points)])
        seen.append(first)
        self._require(first)
        return answers

    def judge(self, candidates: Sequence[Candidate]) -> list[Equality]:
        """The verdict on each. Raises `CannotRun` where the original is in trouble."""
        if not self.lab.request.quick:
            # Alone, because it tells whether the script runs at all, and how many of it fit side by side.
            self._observe_original(PLAIN)
        wanted: list[tuple[Side, Setting]] = []
        for setting in self._controls(candidates):
            wanted += [(self.original, setting)] * max(0, self._times(setting) - len(self._seen(setting)))
        places = [(at, setting) for at, each in enumerate(candidates) for setting in (PLAIN, *self._closer(each))]
        runs = [(candidates[at].side, setting) for at, setting in places]
        hurried = self.lab.request.quick and self.lab.request.device == "cuda" and not self.lab.first
        beside = [self.original, *(each.side for each in candidates)] if hurried else []
        found = self.lab.watch([*wanted, *runs], self.seed, beside)
        for (_, setting), ran in zip(wanted, found, strict=False):
            self._seen(setting).append(ran)
        self._require(self._seen(PLAIN)[0])
        seen = dict(zip(places, found[len(wanted) :], strict=True))
        seen.update(self._without_new_dropout(candidates, seen))
        if any(record["half"] for record in self._seen(PLAIN)[0].records):
            # Those that claim to round as the original does are compared in float32, too.
            rounding = [at for at, each in enumerate(candidates) if each.numerics is Numerics.ROUNDING]
            seen.update(self._observe(candidates, dict.fromkeys(rounding, conditions.ALIKE)))
        judged = [self._judged(each, _of(at, seen)) for at, each in enumerate(candidates)]
        self._draw_alike(candidates, seen, judged)
        for setting in conditions.OTHERWISE_ALIKE:
            unlike = [at for at, each in enumerate(judged) if self._may_drop_otherwise(each, _of(at, seen))]
            seen.update(self._observe(candidates, dict.fromkeys(unlike, setting)))
            for at in unlike:
                judged[at] = self._judged(candidates[at], _of(at, seen))
        proven = [at for at, each in enumerate(judged) if each.verdict is Verdict.PROVEN]
        seen.update(self._observe(candidates, self._in_short_epochs(candidates, seen, proven)))
        for at in proven:
            further = self._judged(candidates[at], _of(at, seen))
            # How it was proven is told by the whole run.
            is_same = further.verdict is Verdict.PROVEN
            judged[at] = evolve(further, reason=judged[at].reason) if is_same else further
        for fills in (False, True):
            self._see_courses(candidates, seen, judged, fills=fills)
        return judged

    def _draw_alike(self, candidates: Sequence[Candidate], seen: _Seen, judged: list[Equality]) -> None:
        """Compare those that drew other random numbers, and are not proven, where both sides get the same ones."""
        unlike = [
            at
            for at, each in enumerate(candidates)
            if each.numerics in conditions.WIDER
            and not self._is_spread(each.side)
            and judged[at].verdict is not Verdict.PROVEN
            and self._draws_otherwise(_of(at, seen))
        ]
        wanted = {at: conditions.drawn_alike(candidates[at].numerics) for at in unlike}
        seen.update(self._observe(candidates, wanted))
        for numerics in (Numerics.SAMPLING, Numerics.PRECISION):
            # What a number format changes is not shown in float32.
            further = [
                at
                for at in unlike
                if candidates[at].numerics is numerics
                and self._further(Numerics.ROUNDING, seen[at, wanted[at]], wanted[at]).verdict is Verdict.PROVEN
            ]
            in_own_formats = dict.fromkeys(further, conditions.WITHOUT_DROPOUT_DRAWN_ALIKE)
            seen.update(self._observe(candidates, in_own_formats, conditions.closeness(numerics)))
        for at in unlike:
            judged[at] = self._judged(candidates[at], _of(at, seen))

    def _draws_otherwise(self, seen: Mapping[Setting, Ran]) -> bool:
        """Whether the sides draw other random numbers even where they are compared more closely."""
        closer = [each for each in (conditions.WITHOUT_DROPOUT, conditions.ALIKE) if each in seen]
        return any(self._steps_drawn_otherwise(seen[each], each) for each in closer if seen[each].trouble is None)

    def _see_courses(
        self, candidates: Sequence[Candidate], seen: _Seen, judged: list[Equality], *, fills: bool
    ) -> None:
        """Compare what is proven so far, in another precision, over many steps and with other seeds of the original.

        Those come first that draw what the original draws, then those that have to be given the same (`fills`).
        """
        places = [
            at
            for at, each in enumerate(candidates)
            if each.numerics is Numerics.PRECISION
            and judged[at].verdict is Verdict.PROVEN
            and (conditions.WITHOUT_DROPOUT_DRAWN_ALIKE in _of(at, seen)) is fills
        ]
        steps = self.lab.course() if places else 0
        if not steps:
            return
        plain = Setting(course=steps, fills=fills)
        shaken: Sequence[Setting] = self._reactions(plain, Numerics.PRECISION)
        usual = range(1, 1 + _SEEDS[self.lab.request.quick])
        seeds: Sequence[Setting] = [evolve(plain, reseed=number) for number in usual]
        own = [] if self._seen(plain) else [plain] * self._times(plain) + [*shaken, *seeds]
        sides = [(self.original, setting) for setting in own] + [(candidates[at].side, plain) for at in places]
        found = self.lab.watch(sides, self.seed)
        for setting, ran in zip(own, found, strict=False):
            self._seen(setting).append(ran)
        original, *repeats = self._seen(plain)
        for at, ran in zip(places, found[len(own) :], strict=True):
            failed = next((each.trouble for each in (original, *repeats) if each.trouble is not None), None)
            if failed is not None:
                reason = f"the original failed when it was run over more steps: {failed.reason}"
                judged[at] = evolve(judged[at], verdict=Verdict.INCONCLUSIVE, reason=reason, failed_side=ORIGINAL)
            elif ran.trouble is not None:
                judged[at] = _in_trouble(ran.trouble, ran, original, candidates[at].numerics)
            else:
                one_by_one = judged[at]
                judged[at] = self._with_course(one_by_one, ran, shaken, seeds)
                if judged[at].verdict is Verdict.INCONCLUSIVE:
                    shaken, seeds = self._in_doubt(plain, shaken, seeds)
                    judged[at] = self._with_course(one_by_one, ran, shaken, seeds)
            if judged[at].verdict is Verdict.PROVEN:
                judged[at] = self._left_alone(judged[at], candidates[at].side, plain, seeds)

    def _in_doubt(
        self, plain: Setting, shaken: Sequence[Setting], seeds: Sequence[Setting]
    ) -> tuple[Sequence[Setting], Sequence[Setting]]:
        """The settings of the original's runs over many steps, with more of its own noise and more seeds than usual."""
        noise = evolve(plain, perturb=_HALF_PRECISION, perturb_seed=1)
        usual = _SEEDS[self.lab.request.quick]
        more = [evolve(plain, reseed=number) for number in range(1 + usual, 1 + usual + _MORE_SEEDS)]
        wanted = [each for each in (noise, *more) if not self._seen(each)]
        found = self.lab.watch([(self.original, each) for each in wanted], self.seed)
        for setting, ran in zip(wanted, found, strict=True):
            self._seen(setting).append(ran)
        return tuple(dict.fromkeys((*shaken, noise))), (*seeds[:usual], *more)

    def _left_alone(self, judged: Equality, side: Side, plain: Setting, seeds: Sequence[Setting]) -> Equality:
        """What is proven is run once more where nothing tells the script that it is watched."""
        course, seconds = self._seen(plain)[0].traces[0].printed, self._seen(plain)[0].seconds
        if self.lab.request.nproc is not None or not figures_by_line(course):
            return judged
        own = [self.original] * (_ALONE - len(self._alone))
        *found, ran = self.lab.leave_alone([*own, side], seconds)
        self._alone += found
        if any(each.failed for each in self._alone):
            return judged
        drawn = [each.traces[0].printed for key in seeds for each in self._seen(key) if each.trouble is None]

        def compared() -> Check | None:
            return compare_unobserved([each.printed for each in self._alone], ran.printed, course, drawn, cut=ran.cut)

        row: Check | None = Check(UNOBSERVED, Verdict.REFUTED, reason="it fails when nobody looks on")
        if not ran.failed:
            row = compared()
        if row is not None and row.verdict is Verdict.INCONCLUSIVE and len(self._alone) == _ALONE:
            further = self.lab.leave_alone([self.original] * _MORE_ALONE, seconds)
            self._alone += [each for each in further if not each.failed]
            row = compared()
        if row is None:
            return judged
        judged = evolve(judged, checks=(*judged.checks, row))
        return judged if row.verdict is Verdict.PROVEN else evolve(judged, verdict=row.verdict, reason=row.reason)

    def _with_course(self, judged: Equality, ran: Ran, shaken: Sequence[Setting], seeds: Sequence[Setting]) -> Equality:
        original, *repeats = (each.traces for each in self._seen(evolve(seeds[0], reseed=0)))
        noisy, drawn = (
            [each.traces for setting in settings for each in self._seen(setting) if each.trouble is None]
            for settings in (shaken, seeds)
        )
        if len(ran.traces) != len(original):
            return judged
        ranks = range(len(original))
        runs = [
            Runs(
                original[rank],
                ran.traces[rank],
                tuple(each[rank] for each in repeats),
                tuple(each[rank] for each in noisy if rank < len(each)),
            )
            for rank in ranks
        ]
        return with_course(judged, runs, [[each[rank] for each in drawn if rank < len(each)] for rank in ranks])

    def _judged(self, candidate: Candidate, seen: Mapping[Setting, Ran]) -> Equality:
        """The verdict on a candidate's runs, once it is known whether what refutes it may be chance."""
        judged = self._verdict(candidate.numerics, seen)
        if not may_be_chance(judged):
            return judged
        self._ask_again()
        judged = self._verdict(candidate.numerics, seen)
        return weigh_chance(judged, self._seen(PLAIN), self._seen(conditions.DETERMINISTIC)[0])

    def _observe(
        self, candidates: Sequence[Candidate], wanted: Mapping[int, Setting], numerics: Numerics = Numerics.ROUNDING
    ) -> _Seen:
        """Further runs of candidates, by their places, and of the original beside them, to be judged as a class."""
        own: list[Setting] = []
        for setting in dict.fromkeys(wanted.values()):
            own += [setting] * (_TWICE - len(self._seen(setting)))
            own += [each for each in self._reactions(setting, numerics) if not self._seen(each)]
        sides = [(self.original, setting) for setting in own]
        sides += [(candidates[at].side, setting) for at, setting in wanted.items()]
        found = self.lab.watch(sides, self.seed)
        for setting, ran in zip(own, found, strict=False):
            self._seen(setting).append(ran)
        return dict(zip(wanted.items(), found[len(own) :], strict=True))

    def _in_short_epochs(
        self, candidates: Sequence[Candidate], seen: _Seen, proven: Sequence[int]
    ) -> dict[int, Setting]:
        """The settings for candidates in which both sides come to further epochs, and perhaps to the script's end."""
        original = self._seen(PLAIN)[0].traces[0]
        batches = sum(1 for _ in original.batches()) / original.last
        if not batches or original.ended == "exit":
            return {}
        short = Setting(epoch=max(2, round(batches * self.lab.epoch)))
        found = {}
        for at in proven:
            if any(True for _ in seen[at, PLAIN].traces[0].batches()):
                alike, fills = max((setting.alike, setting.fills) for setting in _of(at, seen))
                found[at] = evolve(short, alike=alike, fills=fills, dropout=not self._is_spread(candidates[at].side))
        return found

    def _ask_again(self) -> None:
        """Run the original until its bits differ, or often, and once where torch names what need not repeat its own."""
        seen = self._seen(PLAIN)
        while len(seen) < _IN_DOUBT and repeats_itself(seen):
            seen += self.lab.watch([(self.original, PLAIN)] * min(_TOGETHER, _IN_DOUBT - len(seen)), self.seed)
        if not self._seen(conditions.DETERMINISTIC):
            again = self.lab.watch([(self.original, conditions.DETERMINISTIC)], self.seed)
            self._seen(conditions.DETERMINISTIC).extend(again)

    def _observe_original(self, setting: Setting) -> None:
        seen = self._seen(setting)
        if not seen:
            seen += self.lab.watch([(self.original, setting)], self.seed)
        self._require(seen[0])

    def _require(self, ran: Ran) -> None:
        if ran.trouble is not None:
            raise CannotRun(ran.trouble)

    def _seen(self, setting: Setting) -> list[Ran]:
        return self._observed.setdefault(setting, [])

    def _is_spread(self, side: Side) -> bool:
        """Whether a side has several processes, and the original one."""
        return side.nproc is not None and self.original.nproc is None

    def _closer(self, candidate: Candidate) -> tuple[Setting, ...]:
        """In what other settings a candidate is compared with the original; parts of a batch drop otherwise."""
        closer = conditions.closer(candidate.numerics)
        if self._is_spread(candidate.side):
            return closer[:1]
        seen = self._observed.get(PLAIN)
        return closer if not seen or _may_drop(seen[0]) else closer[1:]

    def _without_new_dropout(self, candidates: Sequence[Candidate], seen: _Seen) -> _Seen:
        """Runs without dropout of those that may drop something where the original does not, and had none so far."""
        found: _Seen = {}
        for numerics in conditions.WIDER:
            places = [
                at
                for at, each in enumerate(candidates)
                if each.numerics is numerics
                and (at, conditions.WITHOUT_DROPOUT) not in seen
                and _may_drop(seen[at, PLAIN])
            ]
            if places:
                wanted = dict.fromkeys(places, conditions.WITHOUT_DROPOUT)
                found.update(self._observe(candidates, wanted, conditions.closeness(numerics)))
        return found

    def _controls(self, candidates: Sequence[Candidate]) -> list[Setting]:
        """The settings in which the original has to be seen to judge candidates."""
        classes = {each.numerics for each in candidates}
        settings = [PLAIN]
        if classes - {Numerics.BITWISE}:
            settings += self._reactions(PLAIN, Numerics.ROUNDING)
            if not self.lab.request.quick:
                settings.append(conditions.DOUBLE)
        for setting in dict.fromkeys(setting for each in candidates for setting in self._closer(each)):
            settings += [setting, *self._reactions(setting, Numerics.ROUNDING)]
        if Numerics.PRECISION in classes:
            in_own_formats = [each for each in (PLAIN, conditions.WITHOUT_DROPOUT) if each in settings]
            settings += [each for setting in in_own_formats for each in self._reactions(setting, Numerics.PRECISION)]
        return settings

    def _reactions(self, setting: Setting, numerics: Numerics) -> list[Setting]:
        """What shows how the original reacts, in a setting, to rounding such as a class brings it about."""
        is_coarse = numerics is Numerics.PRECISION
        units = _HALF_PRECISION if is_coarse else 1.0
        seeds = range(2 if setting == PLAIN and not self.lab.request.quick else 1)
        noisy = [evolve(setting, perturb=units, perturb_seed=seed) for seed in seeds]
        return [*noisy, evolve(setting, half=True)] if is_coarse else noisy

    def _times(self, setting: Setting) -> int:
        """How often the original is run in a setting: to compare it with itself, once and three times more."""
        is_course = setting == Setting(course=setting.course, fills=setting.fills)
        if is_course or setting in (conditions.WITHOUT_DROPOUT, conditions.ALIKE):
            return 2 if self.lab.request.quick else 4
        return 1

    def _verdict(self, numerics: Numerics, seen: Mapping[Setting, Ran]) -> Equality:
        """What the runs of a candidate say, by their settings."""
        strict = {}
        for setting in (each for each in conditions.IN_OWN_FORMATS if each in seen):
            judged = self._further(conditions.closeness(numerics), seen[setting], setting)
            strict[conditions.IN_OWN_FORMATS[setting]] = self._unless_drawn(judged, seen[setting], setting)
        for setting in (each for each in seen if each.alike or each.epoch):
            name = SHORT_EPOCHS if setting.epoch else ALIKE_AND_DRAWN_ALIKE if setting.fills else ALIKE
            closeness: Numerics = Numerics.ROUNDING if setting.alike or not setting.dropout else numerics
            if name != SHORT_EPOCHS or self._is_like_itself(closeness, setting):
                # Of several ways to make them alike, the last is the one that succeeded, if any did.
                strict[name] = self._further(closeness, seen[setting], setting)
        if numerics is Numerics.SAMPLING and conditions.is_written_otherwise(strict, seen[PLAIN]):
            del strict[WITHOUT_DROPOUT]
        closest = strict.get(DRAWN_ALIKE) or strict.get(ALIKE_AND_DRAWN_ALIKE)
        if closest is not None and closest.verdict is Verdict.PROVEN:
            # Where the sides drew otherwise, there was nothing to compare.
            strict = {name: each for name, each in strict.items() if not conditions.lacks_same_draws(name, each)}
        return self._worst(numerics, seen[PLAIN], PLAIN, strict)

    def _is_like_itself(self, numerics: Numerics, setting: Setting) -> bool:
        """Whether the original can be judged in a setting in which nobody but us runs it."""
        return self._worst(numerics, self._seen(setting)[-1], setting).verdict is Verdict.PROVEN

    def _may_drop_otherwise(self, judged: Equality, seen: Mapping[Setting, Ran]) -> bool:
        """Whether nothing but what dropout drops may be what the sides were not alike in."""
        found = {check.name: check.verdict for check in judged.checks}
        # A class that has to drop what the original drops is not run without dropout.
        if conditions.WITHOUT_DROPOUT not in seen or found.get(WITHOUT_DROPOUT) is Verdict.REFUTED:
            return False
        if found.get(ALIKE, Verdict.PROVEN) is Verdict.PROVEN:
            return False
        runs = (*self._seen(conditions.WITHOUT_DROPOUT), seen[conditions.WITHOUT_DROPOUT])
        return any(trace.left_out is None or trace.left_out for ran in runs for trace in ran.traces)

    def _further(self, numerics: Numerics, ran: Ran, setting: Setting) -> Equality:
        """The judgement under a further condition; one that makes both sides alike leaves nothing to excuse."""
        judged = self._worst(numerics, ran, setting)
        if judged.verdict is not Verdict.REFUTED or not (setting.alike or setting.fills):
            return judged
        if ran.trouble is not None:
            return evolve(judged, verdict=Verdict.INCONCLUSIVE, reason=f"it cannot be run so: {ran.trouble.reason}")
        if setting.alike and any(record["half"] for record in ran.records):
            reason = f"{judged.reason}; it computes in half types of its own, which hide a change of the training"
            return evolve(judged, verdict=Verdict.INCONCLUSIVE, reason=reason)
        return self._unless_drawn(judged, ran, setting)

    def _unless_drawn(self, judged: Equality, ran: Ran, setting: Setting) -> Equality:
        """A distance refutes nothing where other random numbers were drawn: there is nothing to compare it with."""
        decisive = next((check for check in judged.checks if check.verdict is Verdict.REFUTED), None)
        if judged.verdict is not Verdict.REFUTED or decisive is None or decisive.measured is None:
            return judged
        steps = self._steps_drawn_otherwise(ran, setting)
        if not steps:
            return judged
        reason = f"{judged.reason}; it draws other random numbers than the original, first in step {min(steps)}"
        return evolve(judged, verdict=Verdict.INCONCLUSIVE, reason=reason)

    def _steps_drawn_otherwise(self, ran: Ran, setting: Setting) -> list[int]:
        pairs = zip(self._seen(setting)[0].traces, ran.traces, strict=False)
        return [step for original, other in pairs for step in original.steps_drawn_otherwise(other)]

    def _worst(
        self,
        numerics: Numerics,
        ran: Ran,
        setting: Setting,
        strict: Mapping[str, Equality] | None = None,
    ) -> Equality:
        """The judgement of the rank that differs most."""
        originals = self._seen(setting)
        flaky = next((each.trouble for each in originals if each.trouble is not None), None)
        if flaky is not None:
            return Equality(
                Verdict.INCONCLUSIVE,
                f"the original failed when it was run a second time: {flaky.reason}",
                numerics.value,
                failed_side=ORIGINAL,
                trouble=flaky.kind.value,
            )
        if ran.trouble is not None:
            return _in_trouble(ran.trouble, ran, originals[0], numerics)
        original, *repeats = (each.traces for each in originals)
        perturbed_runs = [
            each.traces
            for key in self._reactions(setting, numerics)
            for each in self._seen(key)
            if each.trouble is None
        ]
        doubles = [each.traces for each in self._seen(conditions.DOUBLE) if each.trouble is None and setting == PLAIN]
        controls = [
            Controls(
                tuple(each[rank] for each in repeats if rank < len(each)),
                tuple(each[rank] for each in perturbed_runs if rank < len(each)),
                next((each[rank] for each in doubles if rank < len(each)), None),
            )
            for rank in range(len(original))
        ]
        several = self.lab.request.spread and len(ran.traces) > len(original)
        return (judge_spread if several else judge_ranks)(original, ran.traces, controls, numerics, strict or {})


def _of(at: int, seen: _Seen) -> dict[Setting, Ran]:
    """The runs of one candidate."""
    return {setting: ran for (place, setting), ran in seen.items() if place == at}


def _may_drop(ran: Ran) -> bool:
    """Whether a run may have dropped something: on a GPU that takes random numbers of its own."""
    return any(record.get("draws_on_devices", True) for record in ran.records)


def _in_trouble(trouble: Trouble, ran: Ran, original: Ran, numerics: Numerics) -> Equality:
    """A side that fails where the original runs is not the same, unless something else may be to blame."""
    hangs = trouble.kind is Kind.TIME_LIMIT
    elsewhere = trouble.kind in _ELSEWHERE or (hangs and ran.seconds < _PATIENCE * original.seconds)
    verdict = Verdict.INCONCLUSIVE if elsewhere else Verdict.REFUTED
    return Equality(
        verdict,
        f"the original runs, but the other version fails: {trouble.reason}",
        numerics.value,
        failed_side=REWRITTEN,
        trouble=trouble.kind.value,
    )
