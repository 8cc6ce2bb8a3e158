"""Source and rules in, a `FileResult` out: findings, edits, rounds, checks. No I/O.

A round reads the facts of the text, asks every rule, and applies as many admitted findings as do not get in
each other's way. The next round starts from the new text, until nothing admitted is left. Text between edits
is copied, never printed from a tree, so it stays as it was.
"""

from __future__ import annotations

import os
import re
import traceback
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

import libcst as cst
from attrs import evolve, field, frozen

from perfmod.codemods.edits import disjoint, is_consistent
from perfmod.codemods.imports import Preamble, first_use, missing, preamble_edits
from perfmod.codemods.results import Choice, FileResult, Given, Outcome, Part, Pin
from perfmod.codemods.suppress import Suppressions, mentioned
from perfmod.codemods.texts import Text, Words, attributed
from perfmod.transforms.card import LIBRARIES
from perfmod.transforms.decoding import ForeignSource, SourceError, code_of, is_notebook
from perfmod.transforms.facts.file import FileFacts, Linkage, World, labels
from perfmod.transforms.facts.frameworks import trains_with_another, trains_with_torch
from perfmod.transforms.facts.old_torch import (
    LAST_WITH_FFI,
    LAST_WITH_VECTOR_LOSSES,
    import_of_ffi,
    loss_read_as_vector,
    made_volatile,
)
from perfmod.transforms.finding import Change, Edit, Finding, Place, PlacedEdit, Safety
from perfmod.transforms.fingerprint import fingerprint
from perfmod.transforms.rule import Rule
from perfmod.transforms.source import Source

MAX_ROUNDS = 10
"""How many rounds in a row may leave no fewer findings to apply than there were before."""


def rewrite(data: bytes, path: str, rules: Sequence[Rule], choice: Choice = Choice()) -> FileResult:
    """Check one file against `rules` and put the admitted rewrites into its text.

    Never raises for what a file holds: a file that cannot be read as Python comes back as `failed` with the
    reason, and so does one that we fail on ourselves; the environment variable `PERFMOD_DEBUG=1` adds the
    traceback then.
    """
    (result,) = rewrite_together([Given(path, data)], rules, choice)
    return result


def rewrite_together(
    files: Sequence[Given], rules: Sequence[Rule], choice: Choice = Choice()
) -> tuple[FileResult, ...]:
    """Check files that import each other, as `rewrite` does one; the results in the order of `files`.

    A finding whose edits lie in several files is applied in all of them or in none. A file that cannot be read is
    failed alone, and is not there for the others. One on which we fail together with the others is checked alone
    (with `PERFMOD_DEBUG=1` it is failed).
    """
    results: dict[str, FileResult] = {}
    sources: dict[str, Source] = {}
    trains = any(_names_library(file.data) for file in files)
    for file in files if any(_is_searched(file, rules, trains) for file in files) else ():
        read = _read(file)
        if isinstance(read, Source):
            sources[file.path] = read
        elif _is_searched(file, rules, _names_library(file.data)):
            results[file.path] = read
    while sources:
        group = [file for file in files if file.path in sources]
        try:
            results.update(_Rewriting(group, sources, rules, choice).run())
            break
        except AttributeError as error:
            if not _needs_full_trees(error, sources.values()):
                raise
            sources = {path: source.in_full() for path, source in sources.items()}
        except _Failed as error:
            sources.pop(error.path)
            (given,) = (file for file in group if file.path == error.path)
            is_alone = len(group) == 1 or os.environ.get("PERFMOD_DEBUG") == "1"
            reason = str(error)
            results[given.path] = (
                FileResult(given.path, Outcome.FAILED, given.data, given.data, reason)
                if is_alone
                else _alone(given, rules, choice)
            )
    return tuple(results.get(f.path) or FileResult(f.path, Outcome.UNCHANGED, f.data, f.data) for f in files)


def _is_searched(file: Given, rules: Sequence[Rule], trains: bool) -> bool:
    """Whether a file has to be parsed for its own sake: rules may find something in it, or comments speak to us.

    `trains` says whether it, or one that it is read with, names the libraries by which one trains.
    """
    if file.part is not Part.ASKED:
        return False
    if is_notebook(file.path) and not (_names_library(file.data) or b"perfmod:" in file.data):
        return False  # it is not even taken apart
    try:
        text = code_of(file.data, file.path)
    except Exception:  # noqa: BLE001, to be said when it is parsed
        return True
    return (trains and bool(_possible(rules, text))) or mentioned(text)


def _names_library(data: bytes) -> bool:
    """Whether a file may train by itself; others may be what is called in a step."""
    return any(library.encode() in data for library in LIBRARIES)


def _read(file: Given) -> Source | FileResult:
    try:
        return Source.parse(file.data, file.path)
    except ForeignSource as error:
        return FileResult(file.path, Outcome.SKIPPED, file.data, file.data, error.reason)
    except SourceError as error:
        reason = error.reason
    except RecursionError:
        reason = _TOO_DEEP
    except Exception as error:  # noqa: BLE001, a bug of ours must not end the run over the other files
        reason = _internal_error("the engine", error)
    return FileResult(file.path, Outcome.FAILED, file.data, file.data, reason)


def _alone(file: Given, rules: Sequence[Rule], choice: Choice) -> FileResult:
    """A file without those that it was to be read with."""
    if file.part is not Part.ASKED:
        return FileResult(file.path, Outcome.UNCHANGED, file.data, file.data)
    return rewrite(file.data, file.path, rules, choice)


_TOO_DEEP = "is nested too deeply to be checked"


def _needs_full_trees(error: AttributeError, sources: Iterable[Source]) -> bool:
    """Whether an error is that of a light tree, of which white space was asked for."""
    return isinstance(error.obj, cst.CSTNode) and not all(source.is_in_full for source in sources)


class _Failed(Exception):
    """The file at `path` stays as it was, for the reason in the message."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(reason)
        self.path = path


@frozen
class _Admitted:
    """A finding that is to be applied, and its changes by the path of the file."""

    path: str
    finding: Finding
    changes: Mapping[str, Change]


@frozen
class _Round:
    """What the rules found in one state of the files, by what is to become of it."""

    comments: dict[str, Suppressions] = field(factory=dict)
    preambles: dict[str, Preamble] = field(factory=dict)
    admitted: list[_Admitted] = field(factory=list)
    held_back: dict[str, list[Finding]] = field(factory=lambda: defaultdict(list))
    refused: dict[str, list[Finding]] = field(factory=lambda: defaultdict(list))
    suppressed: dict[str, list[Finding]] = field(factory=lambda: defaultdict(list))
    rejected: dict[str, list[Finding]] = field(factory=lambda: defaultdict(list))
    undecided: dict[str, list[Finding]] = field(factory=lambda: defaultdict(list))


class _Rewriting:
    """The rounds of files that are read together."""

    def __init__(
        self, files: Sequence[Given], sources: Mapping[str, Source], rules: Sequence[Rule], choice: Choice
    ) -> None:
        self.files = {file.path: file for file in sorted(files, key=lambda file: file.path)}
        self.texts = {path: Text(sources[path]) for path in self.files}
        self.new = {path for path, file in self.files.items() if file.part is Part.NEW}
        self.labels = labels([path for path in self.files if path not in self.new])
        self.words = Words({label: self.texts[path] for path, label in self.labels.items()})
        self.rules = {rule.code: rule for rule in rules}
        self.choice = choice
        self.trains = any(_names_library(file.data) for file in files)
        self.applied: dict[str, list[Finding]] = defaultdict(list)
        self.together = {path: {path} for path in self.files}
        """The files that have to be written with each file."""
        self.alone: dict[Place, tuple[PlacedEdit, ...] | None] = {}
        """What the findings of the given texts change, each if it alone is applied."""
        self.owners: dict[tuple[str, int, Edit], Place] = {}
        """Which finding made an edit: by the path of the file, the number of the splice in its text, and the edit."""
        self.used: dict[str, set[tuple[int, str]]] = defaultdict(set)
        """The suppressions that silenced something: offset in the given text, and selector."""

    def run(self) -> dict[str, FileResult]:
        """All rounds. Raises `_Failed` where a file has to stay as it was."""
        last = self._settle()
        return {path: self._result(path, last) for path in self.files}

    def _result(self, path: str, last: _Round) -> FileResult:
        text, data = self.texts[path], self.files[path].data
        comments = Suppressions.read(text.given)
        try:
            after = text.to_bytes(data)
        except SourceError as error:
            raise _Failed(path, error.reason) from error
        is_asked = self.files[path].part is Part.ASKED
        rules = self._asked(path)
        unused = comments.unused(rules, self.used[path]) if is_asked else ()
        warnings = comments.warnings(rules, unused) if is_asked else ()
        return FileResult(
            path=path,
            outcome=Outcome.UNCHANGED if after == data else Outcome.CHANGED,
            before=data,
            after=after,
            applied=self._placed(self.applied[path], path),
            held_back=self._placed(self._in_given(last.held_back, path), path),
            refused=self._placed(self._in_given(last.refused, path), path),
            suppressed=self._placed(self._in_given(last.suppressed, path), path),
            rejected=self._placed(self._in_given(last.rejected, path), path),
            undecided=self._placed(self._in_given(last.undecided, path), path),
            warnings=tuple(map(text.given.in_words, warnings)),
            unused=unused,
            together=tuple(sorted(self.together[path] - {path})),
            is_new=path in self.new,
        )

    def _settle(self) -> _Round:
        """Applies findings until none is left, and returns the round that found no more."""
        found = self._find()
        with_edits = [(each.path, each.finding) for each in found.admitted]
        with_edits += [(path, finding) for path, findings in found.held_back.items() for finding in findings]
        self.alone = {self._place_of(finding, path): self._alone(finding, path) for path, finding in with_edits}
        fewest, stalled = len(found.admitted) + 1, 0
        while found.admitted:
            stalled = 0 if len(found.admitted) < fewest else stalled + 1
            fewest = min(fewest, len(found.admitted))
            if stalled == MAX_ROUNDS:
                moving = found.admitted[0].path
                codes = _codes(each.finding for each in found.admitted if each.path == moving)
                raise _Failed(moving, f"the rewrites do not converge: {codes} would keep changing it")
            self._apply(found)
            found = self._find()
        return found

    def _find(self) -> _Round:
        """Asks every rule about every file, and sorts the findings out."""
        found = _Round()
        linkages = {
            self.texts[path].source: self._linkage(file) for path, file in self.files.items() if path not in self.new
        }
        world = World(linkages, self.choice.policy)
        for path, file in self.files.items():
            if file.part is Part.ASKED:
                facts = world.files[self.texts[path].source]
                for finding in self._reported(path, facts):
                    self._sort_out(finding, path, world, found)
        return found

    def _asked(self, path: str) -> tuple[Rule, ...]:
        """The rules that are asked about one file."""
        return tuple(rule for rule in self.rules.values() if rule.code not in self.files[path].ignored)

    def _linkage(self, file: Given) -> Linkage:
        beside = file.beside
        if beside is not None and not (beside.is_present or beside.problem or beside.path in self.new):
            beside = None  # given without it
        return Linkage(
            file.modules,
            file.imports,
            file.imported_elsewhere,
            file.is_beside_training,
            file.forks_by_default,
            file.outside,
            beside,
        )

    def _reported(self, path: str, file: FileFacts) -> list[Finding]:
        """What the rules say about one file. Raises `_Failed` where one is broken."""
        try:
            if not self.trains or not trains_with_torch(file):
                return []
            found = _findings(_possible(self._asked(path), file.source.text), file)
            pin = self._pin(path, file) if found else None
            return [_dated(finding, pin) for finding in found] if pin is not None else found
        except _Broken as error:
            raise _Failed(path, str(error)) from error
        except AttributeError as error:
            if _needs_full_trees(error, file.world.files):
                raise
            raise _Failed(path, _internal_error("the engine", error)) from error
        except RecursionError as error:
            raise _Failed(path, _TOO_DEEP) from error
        except Exception as error:
            raise _Failed(path, _internal_error("the engine", error)) from error

    def _pin(self, path: str, file: FileFacts) -> Pin | None:
        """What a file says of the torch that it runs with, or else its project."""
        for each in file.world.files.values():
            old, volatile = loss_read_as_vector(each), made_volatile(each)
            if old is not None:
                said = f"line {file.line(old)} uses `{file.code(old)}`, which only works before 0.4"
                return Pin(LAST_WITH_VECTOR_LOSSES, said)
            if volatile is not None:
                said = f"line {file.line(volatile)} passes `volatile=True`, which has no effect since 0.4"
                return Pin(LAST_WITH_VECTOR_LOSSES, said)
        ffi = import_of_ffi(file)
        if ffi is not None:
            return Pin(LAST_WITH_FFI, f"line {file.line(ffi)} imports torch.utils.ffi, which was removed in 1.0")
        return self.files[path].pin

    def _sort_out(self, reported: Finding, path: str, world: World, found: _Round) -> None:
        """Decides what becomes of a finding, and puts it where it belongs."""
        finding = reported
        changes = {change.path or path: change for change in finding.changes if change.edits}
        for place, change in changes.items():
            finding = self._fitted(finding, place, change, path, world)
        unnamed = tuple(place for place in changes if self.files[place].part is Part.UNNAMED)
        if unnamed and not finding.refused:
            needs = f"{' and '.join(unnamed)} {'has' if len(unnamed) == 1 else 'have'} to change as well"
            finding = evolve(finding, reason=f"{finding.reason}; {needs}", unnamed=unnamed)
        withheld = self.choice.withheld.get(self._place_of(finding, path))
        if self._is_silenced(finding, path, found):
            found.suppressed[path].append(finding)
        elif withheld is not None and changes and not finding.refused:
            told = evolve(finding, reason=withheld.reason)
            if withheld.in_review:
                (found.undecided if withheld.is_open else found.rejected)[path].append(told)
            elif withheld.is_open:
                found.held_back[path].append(told)
            else:
                found.refused[path].append(_refusal(finding, withheld.reason))
        elif finding.refused or not changes or finding.safety is Safety.ADVICE:
            found.refused[path].append(finding)
        else:
            is_admitted = not finding.unnamed and self.choice.admits(finding, self.rules[finding.code])
            # No option makes a rewrite whose imports cannot be had, so it waits for none either.
            if problem := self._problem(changes, path, world, found, is_admitted=is_admitted):
                found.refused[path].append(_refusal(finding, problem))
            elif is_admitted:
                found.admitted.append(_Admitted(path, finding, changes))
            else:
                found.held_back[path].append(finding)

    def _fitted(self, finding: Finding, place: str, change: Change, path: str, world: World) -> Finding:
        """A finding as far as a file can hold its edits, which a notebook cannot everywhere, and others not at all."""
        if finding.refused or place in self.new:
            return finding
        source = self.texts[place].source
        if self.files[place].part is Part.READ:
            why = self.files[place].why_read or "is only read"
            return _refusal(finding, f"{self.labels[place]} would have to change as well, and {why}")
        if place != path and trains_with_another(world.files[source]):
            return _refusal(
                finding, f"{self.labels[place]} would have to change as well, and also trains with another framework"
            )
        if obstacle := source.obstacle(change.edits):
            return _refusal(finding, self._said_of(place, obstacle, path))
        if finding.safety in (Safety.SAFE, Safety.OPT_IN) and (doubt := source.doubt(change.edits)):
            return evolve(finding, safety=Safety.UNSAFE, reason=self._said_of(place, doubt, path))
        return finding

    def _place_of(self, finding: Finding, path: str) -> Place:
        return Place(path, finding.code, self.texts[path].start_in_given(finding.start))

    def _is_silenced(self, finding: Finding, path: str, found: _Round) -> bool:
        """Whether a comment at the finding, or at a line that it would change, forbids it."""
        silenced = False
        for change in finding.changes:
            place = change.path or path
            text = self.texts[place]
            if place != path:
                first, last = change.edits[0].start, change.edits[-1].end
                finding = evolve(finding, start=first, end=max(first, last), edits=change.edits)
            if place not in found.comments:
                found.comments[place] = Suppressions.read(text.source)
            silencing = found.comments[place].silencing(finding, text.source, self.rules[finding.code])
            self.used[place].update((text.start_in_given(each.offset), name) for each, name in silencing)
            silenced = silenced or bool(silencing)
        return silenced

    def _problem(
        self, changes: Mapping[str, Change], path: str, world: World, found: _Round, *, is_admitted: bool
    ) -> str | None:
        """Why a file cannot get the imports and definitions that a change needs."""
        for place, change in changes.items():
            if place in self.new:
                continue
            if place not in found.preambles:
                found.preambles[place] = Preamble(world.files[self.texts[place].source])
            problem = found.preambles[place].problem(change, is_admitted=is_admitted)
            if problem:
                return self._said_of(place, problem, path)
        return None

    def _said_of(self, place: str, message: str, path: str) -> str:
        return message if place == path else attributed(message, self.labels[place])

    def _apply(self, found: _Round) -> None:
        """Puts as many admitted findings into the texts as fit together; the others wait for the next round."""
        batch: list[_Admitted] = []
        edits: dict[str, list[Edit]] = defaultdict(list)
        # What is replaced as a whole need not be improved before.
        for each in sorted(found.admitted, key=lambda each: not self.rules[each.finding.code].comes_first):
            if all(
                disjoint(self.texts[place].source.text, change.edits, edits[place])
                for place, change in each.changes.items()
                if place not in self.new
            ):
                batch.append(each)
                for place, change in each.changes.items():
                    if place not in self.new:
                        edits[place] += change.edits
                    elif not self.texts[place].splices:
                        edits[place] = [*change.edits]  # every finding that needs the file writes the same
        for each in batch:
            self.applied[each.path].append(self._as_given(each.finding, each.path))
            self._join(set(each.changes))
        for each in batch:
            owner = self._place_of(each.finding, each.path)
            self.owners.update(
                ((place, len(self.texts[place].splices), edit), owner)
                for place, change in each.changes.items()
                for edit in change.edits
            )
        needs = {
            place: missing(self.texts[place].source, [each.changes[place] for each in batch if place in each.changes])
            for place, wanted in edits.items()
            if wanted
        }
        for place, needed in needs.items():
            codes = _codes(each.finding for each in batch if place in each.changes)
            text = self.texts[place]
            try:
                used = first_use(text.source, edits[place])
                splice = text.splice(edits[place])
                if needed:
                    text.splice(preamble_edits(text.source, needed, splice.new(used)).edits)
            except SourceError as error:
                raise _Failed(place, f"{codes} would write invalid code: {error.reason}") from error

    def _join(self, changed: set[str]) -> None:
        """Remember that files were changed by one finding."""
        whole = set().union(*(self.together[path] for path in changed))
        for path in whole:
            self.together[path] = whole

    def _in_given(self, findings: Mapping[str, list[Finding]], path: str) -> list[Finding]:
        return [self._as_given(finding, path) for finding in findings.get(path, ())]

    def _as_given(self, finding: Finding, path: str) -> Finding:
        """A finding of the current texts, with what it says and its edits in the given ones."""
        own = self._place_of(finding, path)
        is_alone = own in self.alone
        given = self.words.in_given(finding, self.texts[path])
        return evolve(
            given,
            fingerprint=fingerprint(given.code, given.scope, given.snippet),
            placed=self.alone.get(own) if is_alone or finding.edits or finding.elsewhere else (),
            builds_on=() if is_alone else self._builds_on(finding, path),
            questions=tuple(self.texts[each.path or path].asked(each) for each in finding.questions),
        )

    def _alone(self, finding: Finding, path: str) -> tuple[PlacedEdit, ...] | None:
        """All that a finding of the given texts changes if it alone is applied; None where that cannot be told."""
        placed: list[PlacedEdit] = []
        for change in finding.changes:
            if change.edits:
                text = self.texts[change.path or path]
                needed = missing(text.given, [change])
                added = preamble_edits(text.given, needed, first_use(text.given, change.edits)).edits if needed else ()
                if not disjoint(text.given.text, change.edits, added):
                    return None
                placed += map(text.placed, (*change.edits, *added))
        return tuple(placed)

    def _builds_on(self, finding: Finding, path: str) -> tuple[Place, ...]:
        """The applied findings without which a finding would probably not be there.

        Those whose writing it changes, or else those at its statement, in its function, or in its file.
        """
        touched = {
            self.owners.get((place, number, earlier))
            for change in finding.changes
            for place in (change.path or path,)
            if not change.is_new  # whoever needs it writes it
            for edit in change.edits
            for number, earlier in self.texts[place].overwritten(edit)
        }
        start, end = (self.texts[path].start_in_given(at) for at in (finding.start, finding.end))
        applied = [(Place(path, each.code, each.start), each) for each in self.applied[path]]
        near = (
            {owner for owner in touched if owner is not None},
            {place for place, each in applied if each.start < end and start < each.end},
            {place for place, each in applied if each.scope == finding.scope},
            {place for place, _ in applied},
        )
        return tuple(sorted(next(filter(None, near), ())))

    def _placed(self, findings: Iterable[Finding], path: str) -> tuple[Finding, ...]:
        """Findings of the given text in order, placed for somebody who has the file open."""
        return tuple(self.words.placed(finding, self.texts[path]) for finding in _ordered(findings))


class _Broken(Exception):
    """A rule that cannot be asked."""


def _possible(rules: Iterable[Rule], text: str) -> list[Rule]:
    """The rules that can find something in a text, judged by its words alone."""
    rules = list(rules)
    present = set(_words(frozenset().union(*(rule.triggers for rule in rules))).findall(text))
    return [rule for rule in rules if not rule.triggers.isdisjoint(present)]


@cache
def _words(words: frozenset[str]) -> re.Pattern[str]:
    # No word at all: a pattern that matches nothing.
    return re.compile(rf"\b(?:{'|'.join(sorted(map(re.escape, words)))})\b" if words else r"(?!)")


def _dated(finding: Finding, pin: Pin) -> Finding:
    """A finding as it is where the code runs with an older torch than its rewrite needs."""
    if finding.safety is not Safety.SAFE or pin.allows(finding.min_torch):
        return finding
    return evolve(finding, safety=Safety.UNSAFE, reason=f"it needs torch {finding.min_torch} or later, and {pin.said}")


def _findings(rules: Iterable[Rule], file: FileFacts) -> list[Finding]:
    """What `rules` report, each thing once, in order of position. Raises `_Broken` where a rule is."""
    found: dict[tuple[object, ...], Finding] = {}
    for rule in rules:
        for finding in _checked(rule, file):
            for change in finding.changes:
                if change.is_new:
                    continue
                source = file.world.source_at(change.path) if change.path else file.source
                if not is_consistent(change.edits, len(source.text)):
                    raise _Broken(f"internal error in {rule.code}: the edits of a finding overlap or lie outside")
            found.setdefault((finding.code, finding.start, finding.end, finding.edits, finding.elsewhere), finding)
    return list(_ordered(found.values()))


def _checked(rule: Rule, file: FileFacts) -> list[Finding]:
    try:
        return list(rule.check(file))
    except RecursionError:
        raise
    except AttributeError as error:
        if _needs_full_trees(error, file.world.files):
            raise
        raise _Broken(_internal_error(rule.code, error)) from error
    except Exception as error:
        raise _Broken(_internal_error(rule.code, error)) from error


def _ordered(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(sorted(findings, key=lambda each: (each.start, each.end, each.code, each.edits, each.elsewhere)))


def _refusal(finding: Finding, reason: str) -> Finding:
    return evolve(
        finding, reason=reason, refused=True, safety=Safety.ADVICE, edits=(), imports=(), definitions=(), elsewhere=()
    )


def _codes(findings: Iterable[Finding]) -> str:
    return ", ".join(sorted({finding.code for finding in findings}))


def _internal_error(where: str, error: Exception) -> str:
    reason = " ".join(f"internal error in {where}: {type(error).__name__}: {error}".split())
    if os.environ.get("PERFMOD_DEBUG") == "1":
        return f"{reason}\n{traceback.format_exc()}"
    return reason
