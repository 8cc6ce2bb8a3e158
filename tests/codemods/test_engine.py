from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import toy_rules as toys
from attrs import evolve

from perfmod.codemods.engine import MAX_ROUNDS, rewrite
from perfmod.codemods.results import Choice, Outcome
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.finding import Edit, Finding, Numerics, Safety

CODE = "import torch\nx = slow(1)\ny = 2\nz = slow(3)\n"


def positions(text: str, word: str) -> Iterator[int]:
    at = text.find(word)
    while at >= 0:
        yield at
        at = text.find(word, at + 1)


def test_safe_findings_are_applied_and_everything_else_stays() -> None:
    result = rewrite(CODE.encode(), "a.py", [toys.renaming()])
    assert result.outcome is Outcome.CHANGED
    assert result.after == CODE.replace("slow", "fast").encode()
    assert result.before == CODE.encode()
    assert [(each.line, each.column, each.snippet) for each in result.applied] == [
        (2, 5, "slow"),
        (4, 5, "slow"),
    ]


def test_a_second_run_finds_nothing() -> None:
    once = rewrite(CODE.encode(), "a.py", [toys.renaming()])
    again = rewrite(once.after, "a.py", [toys.renaming()])
    assert (again.outcome, again.after, again.applied) == (Outcome.UNCHANGED, once.after, ())


@pytest.mark.parametrize("data", [
    b"\xef\xbb\xbfimport torch\r\nx = slow(1)\r\n",
    b"import torch\nif x:\n\ty = slow(1)   \n\t# end",
    b"import torch\nx = slow(1)",
    b"# -*- coding: latin-1 -*-\nimport torch\nx = slow('\xe9')\n",
    "import torch\ns = 'a\u2028b'\nx = slow(1)\n\x0c\ny = 1 \x0c + 1\n".encode(),
    b"import torch\nx = slow(1)\r\ny = 1\n",
    b"import torch\nx = slow(1)\n\n   ",
    b"import torch\n\x0cdef f():\n    return slow(1)\n",
])  # fmt: skip
def test_bytes_outside_the_edits_stay(data: bytes) -> None:
    result = rewrite(data, "a.py", [toys.renaming()])
    assert result.after == data.replace(b"slow", b"fast")
    assert result.outcome is Outcome.CHANGED


def test_unsafe_and_opt_in_findings_are_held_back_until_chosen() -> None:
    unsafe = toys.renaming("slow", "fast", code="PM901", safety=Safety.UNSAFE)
    chosen = toys.renaming("y", "w", code="PM902", name="second", safety=Safety.OPT_IN)
    held = rewrite(CODE.encode(), "a.py", [unsafe, chosen])
    assert held.outcome is Outcome.UNCHANGED
    assert [each.code for each in held.held_back] == ["PM901", "PM902", "PM901"]
    assert rewrite(CODE.encode(), "a.py", [unsafe, chosen], Choice(unsafe=True)).after == (
        CODE.replace("slow", "fast").encode()
    )
    opted = rewrite(CODE.encode(), "a.py", [unsafe, chosen], Choice(opted_in=frozenset({"PM902"})))
    assert opted.after == CODE.replace("y", "w").encode()


@pytest.mark.parametrize("safety", [Safety.SAFE, Safety.LOW_IMPACT, Safety.UNSAFE])
def test_what_changes_the_training_waits_until_its_rule_is_chosen(safety: Safety) -> None:
    """Whatever else is admitted."""

    def check(file: FileFacts) -> Iterator[Finding]:
        if "slow" in file.source.text:
            edit = Edit(start := file.source.text.index("slow"), start + 4, "fast")
            yield evolve(toys.at(file, edit.start, edit.end, edit, safety=safety), numerics=Numerics.BEHAVIOURAL)

    def outcome(*opted_in: str) -> Outcome:
        choice = Choice(unsafe=True, low_impact=True, opted_in=frozenset(opted_in))
        return rewrite(CODE.encode(), "a.py", [toys.rule(check)], choice).outcome

    assert (outcome(), outcome("PM901")) == (Outcome.UNCHANGED, Outcome.CHANGED)


def test_an_unsafe_finding_of_an_opt_in_rule_needs_both() -> None:
    def check(file: FileFacts) -> Iterator[Finding]:
        at = file.source.text.find("slow")
        if at >= 0:
            yield toys.at(file, at, at + 4, Edit(at, at + 4, "fast"), safety=Safety.UNSAFE)

    chosen = toys.rule(check)
    chosen.safety = Safety.OPT_IN  # type: ignore[misc]
    opted_in = frozenset({chosen.code})
    for choice in (Choice(), Choice(unsafe=True), Choice(opted_in=opted_in)):
        assert rewrite(CODE.encode(), "a.py", [chosen], choice).outcome is Outcome.UNCHANGED
    assert rewrite(CODE.encode(), "a.py", [chosen], Choice(True, opted_in)).outcome is Outcome.CHANGED


def test_refusals_and_advice_are_reported_and_never_applied() -> None:
    def check(file: FileFacts) -> Iterator[Finding]:
        yield toys.at(file, 13, 14, refused=True, safety=Safety.ADVICE, reason="is used on line 3")
        yield toys.at(file, 25, 26, Edit(25, 26, "w"), safety=Safety.ADVICE)

    result = rewrite(CODE.encode(), "a.py", [toys.rule(check)], Choice(unsafe=True))
    assert result.outcome is Outcome.UNCHANGED
    assert [each.line for each in result.refused] == [2, 3]


def test_overlapping_findings_are_retried_in_the_next_round() -> None:
    def unwrap(file: FileFacts) -> Iterator[Finding]:
        text = file.source.text
        for at in positions(text, "slow("):
            depth, end = 0, at + 4
            while True:
                depth += {"(": 1, ")": -1}.get(text[end], 0)
                end += 1
                if depth == 0:
                    break
            yield toys.at(file, at, end, Edit(at, end, text[at + 5 : end - 1]))

    result = rewrite(b"import torch\nx = slow(slow(slow(1)))\n", "a.py", [toys.rule(unwrap)])
    assert result.after == b"import torch\nx = 1\n"
    assert len(result.applied) == 3


def test_edits_of_a_finding_are_applied_all_together_or_not_at_all() -> None:
    text = "import torch\nslow = a + b + c\n"
    a, b, c = (text.index(f" {name}") + 1 for name in "abc")

    def pairs(file: FileFacts) -> Iterator[Finding]:
        if file.source.text == text:
            yield toys.at(file, a, a + 1, Edit(a, a + 1, "p"), Edit(b, b + 1, "q"))
            yield toys.at(file, b, b + 1, Edit(b, b + 1, "r"), Edit(c, c + 1, "s"))

    result = rewrite(text.encode(), "a.py", [toys.rule(pairs)])
    assert result.after == b"import torch\nslow = p + q + c\n"
    assert len(result.applied) == 1


def test_many_findings_at_one_place_take_a_round_each_and_settle() -> None:
    # More than the cap: every round leaves fewer of them, so it is not a sign of a rule that runs in circles.
    names = [f"v{number}" for number in range(MAX_ROUNDS + 5)]

    def hoist(file: FileFacts) -> Iterator[Finding]:
        text = file.source.text
        at = text.index("while")
        for name in names:
            if f"slow({name})" in text:
                use = text.index(f"slow({name})")
                edits = Edit(at, at, f"h_{name} = {name}\n"), Edit(use, use + 6 + len(name), f"h_{name}")
                yield toys.at(file, use, use + 4, *edits)

    body = "".join(f"    use(slow({name}))\n" for name in names)
    result = rewrite(f"import torch\nwhile True:\n{body}".encode(), "a.py", [toys.rule(hoist)])
    assert result.outcome is Outcome.CHANGED
    assert len(result.applied) == len(names)
    assert [each.line for each in result.applied] == list(range(3, 3 + len(names)))


def test_a_rule_that_runs_in_circles_leaves_the_file_as_it_was() -> None:
    there, back = (
        toys.renaming("slow", "fast"),
        toys.renaming("fast", "slow", code="PM902", name="back", triggers=("fast",)),
    )
    result = rewrite(CODE.encode(), "a.py", [there, back])
    assert (result.outcome, result.after) == (Outcome.FAILED, CODE.encode())
    assert "do not converge" in result.reason
    assert "PM90" in result.reason


def test_circles_with_fewer_findings_in_every_other_round_are_seen() -> None:
    def check(file: FileFacts) -> Iterator[Finding]:
        at = file.source.text.index("slow")
        is_first = "slow(1)" in file.source.text
        yield toys.at(file, at, at + 7, Edit(at, at + 7, "slow(2)" if is_first else "slow(1)"))
        if is_first:
            yield toys.at(file, at, at + 4, Edit(at, at + 7, "slow(2)"))

    result = rewrite(b"import torch\nslow(1)\n", "a.py", [toys.rule(check)])
    assert (result.outcome, result.applied) == (Outcome.FAILED, ())


def test_a_rule_that_grows_its_own_pattern_leaves_the_file_as_it_was() -> None:
    result = rewrite(CODE.encode(), "a.py", [toys.renaming("slow", "slow, slow")])
    assert result.outcome is Outcome.FAILED
    assert "do not converge: PM901" in result.reason


def test_a_result_that_does_not_parse_is_not_kept() -> None:
    result = rewrite(CODE.encode(), "a.py", [toys.renaming("slow", "(")])
    assert (result.outcome, result.after, result.applied) == (Outcome.FAILED, CODE.encode(), ())
    assert result.reason.startswith("PM901 would write invalid code: line 2")


def test_a_result_that_the_encoding_cannot_hold_is_not_kept() -> None:
    data = b"# coding: latin-1\nimport torch\nx = slow(1)\n"
    result = rewrite(data, "a.py", [toys.renaming(new="\u4e2d")])
    assert (result.outcome, result.after) == (Outcome.FAILED, data)
    assert "encoding" in result.reason


def broken(_file: FileFacts) -> Iterator[Finding]:
    raise ValueError("no\nsuch thing")
    yield


def test_a_broken_rule_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PERFMOD_DEBUG", raising=False)
    result = rewrite(CODE.encode(), "a.py", [toys.rule(broken)])
    assert result.outcome is Outcome.FAILED
    assert result.reason == "internal error in PM901: ValueError: no such thing"


def test_a_broken_rule_shows_its_traceback_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFMOD_DEBUG", "1")
    assert "Traceback" in rewrite(CODE.encode(), "a.py", [toys.rule(broken)]).reason


def test_a_rule_whose_edits_overlap_is_broken() -> None:
    def check(file: FileFacts) -> Iterator[Finding]:
        yield toys.at(file, 13, 14, Edit(13, 15, ""), Edit(14, 16, ""))

    result = rewrite(CODE.encode(), "a.py", [toys.rule(check)])
    assert result.reason == "internal error in PM901: the edits of a finding overlap or lie outside"


def test_the_same_finding_is_reported_once() -> None:
    def twice(file: FileFacts) -> Iterator[Finding]:
        finding = toys.at(file, 13, 14, refused=True, safety=Safety.ADVICE)
        yield from (finding, evolve(finding))

    assert len(rewrite(CODE.encode(), "a.py", [toys.rule(twice)]).refused) == 1


@pytest.mark.parametrize(
    "code", ["x = slow(1)\n", "import torch\nx = slower(1)\nx.slow_ = 1\n", "import torch\nx = (\n"]
)
def test_files_without_torch_or_trigger_are_not_even_parsed(code: str) -> None:
    def never(_file: FileFacts) -> Iterator[Finding]:
        raise AssertionError

    result = rewrite(code.encode(), "a.py", [toys.rule(never)])
    assert (result.outcome, result.reason) == (Outcome.UNCHANGED, "")


def test_without_rules_nothing_happens() -> None:
    assert rewrite(CODE.encode(), "a.py", []).outcome is Outcome.UNCHANGED


@pytest.mark.parametrize(("data", "reason"), [
    (b"\xff\xfe", "cannot be decoded"),
    (b"x = 1\0", "null bytes"),
    (b"import torch\nslow = (\n", "syntax error"),
    (b"import torch\nx = slow.cuda(async=True)\n",
     "`async` is a keyword since Python 3.7: write non_blocking (x = slow.cuda("),
    (b"import torch\nprint slow\n", "Python 2"),
])  # fmt: skip
def test_what_is_no_python_fails_in_one_line(data: bytes, reason: str) -> None:
    result = rewrite(data, "a.py", [toys.renaming()])
    assert (result.outcome, result.after) == (Outcome.FAILED, data)
    assert reason in result.reason
    assert "\n" not in result.reason


@pytest.mark.parametrize("nested", ["1+" * 3000 + "1", "f(" * 150 + "1" + ")" * 150, "(" * 30000 + ")" * 30000])
def test_deep_nesting_ends_in_an_answer(nested: str) -> None:
    # In a process of its own: a parser that runs out of stack takes the process with it.
    code = (
        "import sys\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "import toy_rules\n"
        "from perfmod.codemods.engine import rewrite\n"
        "data = sys.stdin.buffer.read()\n"
        "result = rewrite(data, 'a.py', [toy_rules.renaming()])\n"
        "print(result.outcome.value, result.reason)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(Path(toys.__file__).parent)],
        input=f"import torch\nslow = {nested}\n".encode(),
        capture_output=True,
        env={**os.environ, "PERFMOD_DEBUG": ""},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    shown = done.stdout.decode().strip()
    assert shown == "changed" or ("failed" in shown and "nested too deeply" in shown), shown


def test_places_are_those_of_the_file_as_it_was_given() -> None:
    def grow(file: FileFacts) -> Iterator[Finding]:
        text = file.source.text
        if (at := text.find("slow = 1\n")) >= 0:
            yield toys.at(file, at, at + 8, Edit(at, at + 9, "a = 1\nb = 1\nc = 1\n"))

    def refuse(file: FileFacts) -> Iterator[Finding]:
        at = file.source.text.index("keep")
        line = file.source.position(file.source.text.index("used"))[0]
        reason = f"used again on line {line}, see lines {line} and {line - 1}, not 400 or line 400"
        yield toys.at(file, at, at + 4, code="PM902", refused=True, safety=Safety.ADVICE, reason=reason)

    text = "import torch\nslow = 1\nslow.x\nkeep = 2\n\nused\n"
    rules = [toys.rule(grow), toys.rule(refuse, code="PM902", name="second")]
    result = rewrite(text.encode(), "a.py", rules)
    assert result.outcome is Outcome.CHANGED
    [refused] = result.refused
    assert (refused.line, refused.column) == (4, 1)
    assert text[refused.start : refused.end] == "keep"
    assert refused.reason == "used again on line 6, see lines 6 and 5, not 400 or line 400"


def test_the_order_of_the_rules_does_not_matter() -> None:
    rules = [
        toys.renaming("slow", "fast", code="PM901"),
        toys.renaming(r"slow\(1\)", "1", code="PM902", name="second"),
        toys.renaming("z", "zz = z", code="PM903", name="third", safety=Safety.UNSAFE),
    ]
    results = [rewrite(CODE.encode(), "a.py", order) for order in (rules, rules[::-1])]
    assert results[0] == results[1]
    assert results[0].after == CODE.replace("slow", "fast").encode()
