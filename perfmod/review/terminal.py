"""The review in a terminal, in the manner of `git add -p`: one finding, one question, one line as the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from attrs import define, field
from rich.padding import Padding
from rich.rule import Rule as Divider
from rich.text import Text

from perfmod.errors import PerfmodError
from perfmod.review import words
from perfmod.review.groups import Group, grouped
from perfmod.review.items import Diff, Item, Verdict
from perfmod.review.session import Review

if TYPE_CHECKING:
    from rich.console import Console

Ask = Callable[[str], str]
"""Shows a prompt and gives the line that was typed. Raises `EOFError` at the end of the input."""
Explain = Callable[[str], None]
"""Prints the page of a rule, by its code."""
Open = Callable[[], Review]
"""Gives the review of the files as they are now."""

_HELP = """\
y         accept
n [NOTE]  reject; the note is kept with the decision
i [NOTE]  reject by a `# perfmod: ignore` comment in the code, with the note
j, Enter  leave undecided, go to the next undecided
J, K      go to the next, the previous, decided or not
u         take the decision on this one back
a         accept this and all undecided of the same rule
c         accept this and all undecided of its class (bitwise, rounding, ...)
s         split: decide about the findings of this group one by one
g [N]     list all, or go to number N
/TEXT     go to the next whose place, rule, message or code holds TEXT
e         explain the rule
q         quit; decisions are kept, the next review goes on here
?         this help
"""
_LONGEST_NUMBER = 9
_SIGNS = {"+": "green", "-": "red", " ": ""}
_MARKS = {Verdict.ACCEPTED: ("accepted", "green"), Verdict.REJECTED: ("rejected", "red")}


@define
class Terminal:
    """A review that is going on.

    Attributes:
        at: the number of the group that is shown, from 0.
    """

    review: Review
    console: Console
    ask: Ask
    explain: Explain
    open: Open
    groups: list[Group] = field(factory=list)
    at: int = 0
    _splits: set[str] = field(factory=set)

    def run(self) -> None:
        """Ask until nothing is undecided, or the user quits."""
        self._regroup()
        if not self.groups:
            self.console.print("nothing to review")
            return
        if not self._go_to_undecided(0):
            self.console.print("everything is decided; g lists it, q quits")
        is_new = True
        while True:
            if is_new:
                self._show(self.groups[self.at])
            try:
                answer = self.ask(self._prompt()).strip()
            except EOFError:
                self.console.print()
                return
            if answer == "q":
                return
            try:
                is_new = self._answer(answer)
            except PerfmodError as error:
                self.console.print(Text(str(error), style="red"))
                is_new = False
            if is_new and answer[:1] in ("y", "n", "a", "c", "i") and not self._undecided():
                return

    def _answer(self, answer: str) -> bool:
        """Do what was asked for; whether another group is to be shown, or this one again."""
        letter, rest = answer[:1], answer[1:].strip()
        if letter in _ACTIONS and (not rest or letter in _WITH_TEXT):
            return _ACTIONS[letter](self, rest)
        if letter != "?":
            self.console.print(Text(f"{answer!r} is no answer; ? lists them"))
        else:
            self.console.print(_HELP, highlight=False, markup=False)
        return False

    def accept(self, _rest: str) -> bool:
        """Accept what is shown."""
        return self._decide(self.groups[self.at], Verdict.ACCEPTED)

    def reject(self, note: str) -> bool:
        """Reject what is shown."""
        return self._decide(self.groups[self.at], Verdict.REJECTED, note)

    def accept_rule(self, _rest: str) -> bool:
        """Accept all of its rule."""
        code = self.groups[self.at][0].finding.code
        return self._decide_all(lambda item: item.finding.code == code)

    def accept_class(self, _rest: str) -> bool:
        """Accept all of its numerics class."""
        numerics = self.groups[self.at][0].finding.numerics
        return self._decide_all(lambda item: item.finding.numerics == numerics)

    def _decide_all(self, wanted: Callable[[Item], bool]) -> bool:
        shown = {item.key for item in self.groups[self.at]}
        chosen = [
            item
            for item in self.review.items.values()
            if wanted(item) and (item.verdict is Verdict.UNDECIDED or item.key in shown)
        ]
        return self._decide(chosen, Verdict.ACCEPTED)

    def _decide(self, items: Sequence[Item], verdict: Verdict, note: str = "") -> bool:
        self.review.decide([item.key for item in items], verdict, note)
        if len(items) > len(self.groups[self.at]):
            self.console.print(f"{len(items)} {verdict.value}", highlight=False)
        self._regroup()
        self._go_to_undecided(self.at)
        return True

    def take_back(self, _rest: str) -> bool:
        """Make it undecided again."""
        self.review.decide([item.key for item in self.groups[self.at]], Verdict.UNDECIDED)
        self._regroup()
        return True

    def ignore(self, note: str) -> bool:
        """Reject it by a comment in the code."""
        self.review.silence([item.key for item in self.groups[self.at]], note)
        self.review = self.open()
        self._regroup()
        if not self.groups:
            return True
        self.at = min(self.at, len(self.groups) - 1)
        self._go_to_undecided(self.at)
        return True

    def split(self, _rest: str) -> bool:
        """Decide about its findings one by one."""
        group = self.groups[self.at]
        if len(group) == 1:
            self.console.print("this is one finding: its edits belong together", highlight=False)
            return False
        self._splits.update(item.key for item in group)
        self._regroup()
        return True

    def skip(self, _rest: str) -> bool:
        """Go to the next undecided."""
        if self._go_to_undecided(self.at + 1):
            return True
        self.console.print("no other is undecided", highlight=False)
        return False

    def next(self, _rest: str) -> bool:
        """Go to the next."""
        return self._go(self.at + 1)

    def previous(self, _rest: str) -> bool:
        """Go to the one before."""
        return self._go(self.at - 1)

    def jump(self, number: str) -> bool:
        """Go to a number, or list all."""
        if number:
            return self._go(int(number) - 1 if number.isdecimal() and len(number) < _LONGEST_NUMBER else -1)
        for place, group in enumerate(self.groups, 1):
            mark, style = _MARKS.get(group[0].verdict, ("", ""))
            line = Text.assemble((f"{place:>4} ", "bold"), (f"{mark:<9}", style), words.title(group[0]))
            self.console.print(line, highlight=False)
        return False

    def search(self, text: str) -> bool:
        """Go to the next that holds a text."""
        order = [*range(self.at + 1, len(self.groups)), *range(self.at + 1)]
        for place in order:
            if any(text.casefold() in _text_of(item) for item in self.groups[place]):
                return self._go(place)
        self.console.print(Text(f"nothing holds {text!r}"))
        return False

    def explain_rule(self, _rest: str) -> bool:
        """Print the page of its rule."""
        self.explain(self.groups[self.at][0].finding.code)
        return False

    def _go(self, place: int) -> bool:
        if not 0 <= place < len(self.groups):
            self.console.print(f"there are numbers 1 to {len(self.groups)}", highlight=False)
            return False
        self.at = place
        return True

    def _go_to_undecided(self, start: int) -> bool:
        """Go to the first undecided group at or behind a place, or else before it; whether there is one."""
        order = [*range(start, len(self.groups)), *range(min(start, len(self.groups)))]
        undecided = [place for place in order if self.groups[place][0].verdict is Verdict.UNDECIDED]
        if undecided:
            self.at = undecided[0]
        return bool(undecided)

    def _undecided(self) -> int:
        return self.review.count(Verdict.UNDECIDED)

    def _regroup(self) -> None:
        """Group the items as they are decided now, and stay at the item that was shown first."""
        shown = self.groups[self.at][0].key if self.groups else None
        self.groups = [
            part
            for group in grouped(self.review.items.values())
            for part in ([(item,) for item in group] if self._splits & {item.key for item in group} else [group])
        ]
        places = [place for place, group in enumerate(self.groups) if any(item.key == shown for item in group)]
        self.at = places[0] if places else 0

    def _prompt(self) -> str:
        group = self.groups[self.at]
        what = "this" if len(group) == 1 else f"these {len(group)}"
        split = "s," if len(group) > 1 else ""
        return f"({self.at + 1}/{len(self.groups)}) accept {what} [y,n,i,j,J,K,u,a,c,{split}g,/,e,q,?]? "

    def _show(self, group: Group) -> None:
        item = group[0]
        finding = item.finding
        mark = _MARKS.get(item.verdict)
        heading = Text.assemble((f"{finding.code} {finding.name}", "bold cyan"), f"  {finding.numerics}")
        self.console.print(Divider(heading, align="left", style="dim", characters="─"))
        places = ", ".join(each.finding.place for each in group)
        self.console.print(Text.assemble((places, "bold"), f"  {finding.scope}" if finding.scope else ""))
        if mark is not None:
            self.console.print(Text.assemble(mark, f": {item.note}" if item.note else ""))
        self.console.print(Text(finding.message))
        outcome = words.OUTCOMES.get(finding.state)
        facts = [
            ("why", "; ".join(dict.fromkeys(each.finding.reason for each in group))),
            ("results", words.results(item)),
            ("outcome", outcome or ""),
            ("proof", words.proven(item.proof) if item.proof is not None else ""),
            ("needs", ", ".join(words.title(self.review.items[key]) for key in item.builds_on)),
        ]
        for name, text in facts:
            if text:
                self._print_fact(name, text)
        for diff in self.review.diffs([each.key for each in group]):
            self._print_diff(diff)

    def _print_fact(self, name: str, text: str) -> None:
        lines = Text(text).wrap(self.console, max(20, self.console.width - 10))
        for number, line in enumerate(lines):
            self.console.print(Text.assemble((f"{name if number == 0 else '':<9} ", "dim"), line), soft_wrap=True)

    def _print_diff(self, diff: Diff) -> None:
        self.console.print(Padding(Text(diff.name, style="bold"), (1, 0, 0, 0)))
        for hunk in diff.hunks:
            self.console.print(Text(f"@@ line {hunk.old_start} @@", style="cyan"))
            for line in hunk.lines:
                self.console.print(Text(f"{line.sign}{line.text}", style=_SIGNS[line.sign]), soft_wrap=True)
        self.console.print()


def _text_of(item: Item) -> str:
    """What is searched."""
    code = "\n".join(line.text for diff in item.diffs for hunk in diff.hunks for line in hunk.lines)
    finding = item.finding
    return "\n".join((words.title(item), finding.message, finding.reason, finding.scope, code)).casefold()


_ACTIONS: Mapping[str, Callable[[Terminal, str], bool]] = {
    "": Terminal.skip,
    "y": Terminal.accept,
    "n": Terminal.reject,
    "i": Terminal.ignore,
    "j": Terminal.skip,
    "J": Terminal.next,
    "K": Terminal.previous,
    "u": Terminal.take_back,
    "a": Terminal.accept_rule,
    "c": Terminal.accept_class,
    "s": Terminal.split,
    "g": Terminal.jump,
    "/": Terminal.search,
    "e": Terminal.explain_rule,
}
"""What the letters of `_HELP` do, with what is typed behind them; whether another group is to be shown then."""
_WITH_TEXT = frozenset("nig/")
