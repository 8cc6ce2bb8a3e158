"""Files that are read together: findings over several of them are applied whole or not at all."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence

import pytest
import toy_rules as toys
from attrs import evolve

from perfmod.codemods.engine import rewrite, rewrite_together
from perfmod.codemods.results import Choice, FileResult, Given, Outcome, Part
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.finding import Change, Edit, Finding, Safety
from perfmod.transforms.rule import Rule
from perfmod.transforms.source import Source

A = "import torch\nimport b\n\nx = slow(1)\n"
B = "import torch\n\n\ndef work():\n    return slowed\n"


def together(
    files: Mapping[str, str | bytes], rules: Sequence[Rule], choice: Choice = Choice(), **parts: Part
) -> dict[str, FileResult]:
    """The results by path; files are importable by their names, and `a=Part.READ` says what `a.py` is."""
    given = [
        Given(path, code.encode() if isinstance(code, str) else code, (stem,), part=parts.get(stem, Part.ASKED))
        for path, code in files.items()
        for stem in [path.removesuffix(".py")]
    ]
    return {result.path: result for result in rewrite_together(given, rules, choice)}


def text(result: FileResult) -> str:
    return result.after.decode()


def pairing(
    other: str = "b.py",
    there: str = r"\bslowed\b",
    new: str = "fasted",
    *,
    safety: Safety = Safety.SAFE,
    needs: Change | None = None,
    code: str = "PM901",
) -> Rule:
    """Replaces `slow` together with what another file has instead, where that is in sight."""

    def check(file: FileFacts) -> Iterator[Finding]:
        if other not in [source.path for source in file.world.files]:
            return
        source = file.world.source_at(other)
        matches = [*re.finditer(there, source.text)]
        for at in re.finditer(r"\bslow\b", file.source.text):
            finding = toys.at(file, at.start(), at.end(), Edit(*at.span(), "fast"), code=code, safety=safety)
            finding = evolve(finding, reason=f"as on {_lines(source, matches)} of {other}")
            edits = tuple(Edit(*match.span(), new) for match in matches)
            change = Change(other, edits, needs.imports if needs else (), needs.definitions if needs else ())
            yield evolve(finding, elsewhere=(change,) if edits else ())

    return toys.rule(check, code=code)


def _lines(source: Source, matches: Sequence[re.Match[str]]) -> str:
    return "line " + ", ".join(str(source.position(match.start())[0]) for match in matches)


def test_a_finding_changes_both_files_and_is_reported_once() -> None:
    results = together({"a.py": A, "b.py": B}, [pairing()])
    assert text(results["a.py"]) == A.replace("slow", "fast")
    assert text(results["b.py"]) == B.replace("slowed", "fasted")
    assert [(path, len(result.applied)) for path, result in results.items()] == [("a.py", 1), ("b.py", 0)]
    assert results["a.py"].together == ("b.py",)
    assert results["b.py"].together == ("a.py",)


def test_a_second_run_finds_nothing() -> None:
    once = together({"a.py": A, "b.py": B}, [pairing()])
    again = together({path: result.after for path, result in once.items()}, [pairing()])
    assert {result.outcome for result in again.values()} == {Outcome.UNCHANGED}
    assert not any(result.applied or result.together for result in again.values())


def test_the_order_of_the_files_does_not_matter() -> None:
    files = {"a.py": A, "b.py": B, "c.py": A.replace("x =", "y ="), "d.py": "import torch\nslow\n"}
    rules = [pairing(), toys.renaming(r"\bfast\b", "faster", code="PM902", name="second", triggers=("fast",))]
    expected = together(files, rules)
    assert text(expected["c.py"]) == "import torch\nimport b\n\ny = faster(1)\n"
    for order in itertools.permutations(files):
        assert together({path: files[path] for path in order}, rules) == expected


def test_results_come_in_the_order_of_the_files() -> None:
    given = [Given(path, A.encode()) for path in ("z.py", "a.py", "m.py")]
    assert [result.path for result in rewrite_together(given, [toys.renaming()])] == ["z.py", "a.py", "m.py"]


def test_files_with_nothing_between_them_are_as_alone() -> None:
    files = {"a.py": A, "b.py": "import torch\r\n\r\ny = slow(2)", "c.py": "nothing"}
    rules = [toys.renaming(imports=("os",), definitions=("N = 1",))]
    for path, result in together(files, rules).items():
        assert result == rewrite(files[path].encode(), path, rules)


def test_one_file_is_what_rewrite_makes_of_it() -> None:
    assert rewrite_together([Given("a.py", A.encode())], [toys.renaming()]) == (
        rewrite(A.encode(), "a.py", [toys.renaming()]),
    )


def test_imports_and_definitions_go_where_they_are_needed() -> None:
    needs = Change(imports=("os", "torch"), definitions=("COUNT = 3",))
    results = together({"a.py": A, "b.py": B}, [pairing(needs=needs)])
    assert text(results["a.py"]) == A.replace("slow", "fast")
    assert text(results["b.py"]) == ("import os\n\nimport torch\n\nCOUNT = 3\n\n\ndef work():\n    return fasted\n")


def test_what_a_file_cannot_get_refuses_the_finding_for_all() -> None:
    needs = Change(imports=("os",))
    other = B + "os = 1\n"
    results = together({"a.py": A, "b.py": other}, [pairing(needs=needs)])
    assert {result.outcome for result in results.values()} == {Outcome.UNCHANGED}
    (finding,) = results["a.py"].refused
    assert finding.reason == "os has another meaning on line 6 of b.py, so import os cannot be added"


def test_edits_that_get_in_the_way_elsewhere_wait_for_the_next_round() -> None:
    wider = toys.renaming(r"return (slowed|fasted)", r"yield \1", code="PM902", name="second", triggers=("torch",))
    results = together({"a.py": A, "b.py": B}, [wider, pairing()])
    assert text(results["a.py"]) == A.replace("slow", "fast")
    assert text(results["b.py"]) == B.replace("return slowed", "yield fasted")


def test_two_findings_of_which_one_would_change_the_same_place_come_one_after_the_other() -> None:
    files = {"a.py": A + "y = slow(2)\n", "b.py": B}
    results = together(files, [pairing()])
    # The first takes what both need; the second has nothing left to do in the other file.
    assert text(results["a.py"]) == files["a.py"].replace("slow", "fast")
    assert text(results["b.py"]) == B.replace("slowed", "fasted")
    assert len(results["a.py"].applied) == 2


@pytest.mark.parametrize("part", [Part.READ, Part.PARTNER])
def test_what_may_be_done_with_the_other_file(part: Part) -> None:
    results = together({"a.py": A, "b.py": B + "slow\n"}, [pairing()], b=part)
    assert not results["b.py"].applied, "nobody asks about it"
    if part is Part.PARTNER:
        assert text(results["b.py"]) == (B + "slow\n").replace("slowed", "fasted")
        assert results["a.py"].together == ("b.py",)
    else:
        assert {result.outcome for result in results.values()} == {Outcome.UNCHANGED}
        assert [each.reason for each in results["a.py"].refused] == [
            "b.py would have to change as well, and is only read"
        ]


@pytest.mark.parametrize("path", ["a.py", "b.py"])
def test_a_comment_at_any_of_its_places_silences_a_finding(path: str) -> None:
    files = {"a.py": A, "b.py": B}
    files[path] = files[path].replace("slow(1)", "slow(1)  # perfmod: ignore[PM901]")
    files[path] = files[path].replace("return slowed", "return slowed  # perfmod: ignore[toy]")
    results = together(files, [pairing()])
    assert {result.outcome for result in results.values()} == {Outcome.UNCHANGED}
    assert len(results["a.py"].suppressed) == 1
    assert not results["a.py"].warnings + results["b.py"].warnings


def test_unsafe_findings_are_held_back_in_all_files() -> None:
    rule = pairing(safety=Safety.UNSAFE)
    results = together({"a.py": A, "b.py": B}, [rule])
    assert {result.outcome for result in results.values()} == {Outcome.UNCHANGED}
    assert [each.elsewhere[0].path for each in results["a.py"].held_back] == ["b.py"]
    chosen = together({"a.py": A, "b.py": B}, [rule], Choice(unsafe=True))
    assert {result.outcome for result in chosen.values()} == {Outcome.CHANGED}


@pytest.mark.parametrize("broken", ["def f(:\n    slow torch\n", b"torch slow \xff", b"torch slow\0"])
def test_a_file_that_cannot_be_read_fails_alone(broken: str | bytes) -> None:
    results = together({"a.py": A, "b.py": B, "c.py": broken, "d.py": "import torch\nslow\n"}, [pairing()])
    assert results["c.py"].outcome is Outcome.FAILED
    assert results["c.py"].after == results["c.py"].before
    assert text(results["a.py"]) == A.replace("slow", "fast")
    assert text(results["d.py"]) == "import torch\nfast\n"


def test_a_partner_that_cannot_be_read_is_not_there() -> None:
    results = together({"a.py": A, "b.py": "torch slow ("}, [pairing()])
    assert results["a.py"].outcome is Outcome.UNCHANGED
    assert not results["a.py"].applied
    assert results["b.py"].outcome is Outcome.FAILED


def test_a_file_that_nobody_searches_may_be_anything() -> None:
    results = together({"a.py": A, "b.py": "(", "c.py": "("}, [toys.renaming()], c=Part.PARTNER)
    assert [result.outcome for result in results.values()] == [
        Outcome.CHANGED, Outcome.UNCHANGED, Outcome.UNCHANGED,
    ]  # fmt: skip


@pytest.mark.parametrize("debug", [False, True])
def test_a_file_that_would_be_broken_stays_whole_and_so_do_those_that_would_change_with_it(
    debug: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFMOD_DEBUG", "1" if debug else "0")
    results = together({"a.py": A, "b.py": B, "c.py": "import torch\nslow\n"}, [pairing(new="(")])
    assert {result.outcome for path, result in results.items() if path != "b.py"} == {Outcome.UNCHANGED}
    assert results["b.py"].outcome is (Outcome.FAILED if debug else Outcome.UNCHANGED)
    assert all(result.before == result.after for result in results.values())


@pytest.mark.parametrize("debug", [False, True])
def test_a_rule_that_fails_on_linked_files_is_asked_about_the_file_alone(
    debug: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFMOD_DEBUG", "1" if debug else "0")

    def check(file: FileFacts) -> Iterator[Finding]:
        if file.world.is_linked and file.source.path == "b.py":
            raise KeyError("gone")
        for at in re.finditer(r"\bslow\b", file.source.text):
            yield toys.at(file, *at.span(), Edit(*at.span(), "fast"))

    results = together({"a.py": A, "b.py": "import torch\nslow\n"}, [toys.rule(check)])
    assert text(results["a.py"]) == A.replace("slow", "fast")
    if debug:
        assert results["b.py"].reason.startswith("internal error in PM901: KeyError: 'gone'")
    else:
        assert text(results["b.py"]) == "import torch\nfast\n"


def test_bytes_of_the_other_file_stay() -> None:
    other = b"\xef\xbb\xbfimport torch\r\nif 1:\r\n\tx = slowed   \r\n\t# end"
    results = together({"a.py": A, "b.py": other}, [pairing()])
    assert results["b.py"].after == other.replace(b"slowed", b"fasted")


def test_lines_in_messages_are_those_of_the_files_as_given() -> None:
    above = toys.renaming(r"\bhere\b", "here\nabove", code="PM902", name="second", triggers=("here",))

    def check(file: FileFacts) -> Iterator[Finding]:
        for at in re.finditer(r"\bhere\b", file.source.text):
            yield toys.at(file, *at.span(), Edit(*at.span(), "there\nabove"), code="PM902")

    above = toys.rule(check, code="PM902", name="second", triggers=("here",))
    files = {"a.py": A + "here\n", "b.py": "import torch\nhere\nslowed\n"}
    results = together(files, [above, pairing(safety=Safety.UNSAFE)])
    assert text(results["b.py"]) == "import torch\nthere\nabove\nslowed\n"
    (finding,) = results["a.py"].held_back
    assert (finding.line, finding.reason) == (4, "as on line 3 of b.py")


def test_what_is_written_together_is_named_through_others_too() -> None:
    def check(file: FileFacts) -> Iterator[Finding]:
        following = {"a.py": "b.py", "b.py": "c.py"}.get(file.source.path)
        at = re.search(r"\bslow\b", file.source.text)
        if at is None or following is None:
            return
        source = file.world.source_at(following)
        end = len(source.text)
        change = Change(following, (Edit(end, end, "# more\n"),))
        yield evolve(toys.at(file, *at.span(), Edit(*at.span(), "fast")), elsewhere=(change,))

    files = dict.fromkeys(("a.py", "b.py", "c.py", "d.py"), "import torch\nslow\n")
    results = together(files, [toys.rule(check)])
    assert {path: result.together for path, result in results.items()} == {
        "a.py": ("b.py", "c.py"),
        "b.py": ("a.py", "c.py"),
        "c.py": ("a.py", "b.py"),
        "d.py": (),
    }


@pytest.mark.parametrize("choice", [Choice(), Choice(unsafe=True)])
def test_a_file_that_nobody_named_is_not_changed(choice: Choice) -> None:
    """The finding is held back, whatever else is admitted, and a comment silences it as any other."""
    result = together({"a.py": A, "b.py": B}, [pairing(safety=Safety.UNSAFE)], choice, b=Part.UNNAMED)
    (finding,) = result["a.py"].held_back
    assert finding.reason == "as on line 5 of b.py; b.py has to change as well"
    assert finding.unnamed == ("b.py",)
    assert {each.outcome for each in result.values()} == {Outcome.UNCHANGED}
    silenced = together({"a.py": A.replace("(1)", "(1)  # perfmod: ignore"), "b.py": B}, [pairing()], b=Part.UNNAMED)
    assert len(silenced["a.py"].suppressed) == 1
    assert not silenced["a.py"].held_back


def test_nothing_is_found_in_a_file_that_nobody_named() -> None:
    result = together({"a.py": A, "b.py": "import torch\nslow\n"}, [toys.renaming()], b=Part.UNNAMED)
    assert [len(each.applied) for each in result.values()] == [1, 0]
    assert result["b.py"].outcome is Outcome.UNCHANGED


@pytest.mark.parametrize("b", ["import paddle\nslowed\n", "slowed\n"])
def test_a_file_of_another_framework_is_not_changed_along(b: str) -> None:
    """Whether it imports that itself or is imported by a file that does."""
    files = {"a.py": A, "b.py": b, "c.py": "import paddle\nimport b\n"}
    result = together(files, [pairing()])["a.py"]
    assert result.outcome is Outcome.UNCHANGED
    assert [each.reason for each in result.refused] == [
        "b.py would have to change as well, and also trains with another framework"
    ]


def test_a_finding_may_change_nothing_but_other_files() -> None:
    def check(file: FileFacts) -> Iterator[Finding]:
        source = file.world.source_at("b.py")
        at = re.search(r"slowed", source.text)
        if at is not None and file.source.path == "a.py":
            change = Change("b.py", (Edit(*at.span(), "fasted"),))
            yield evolve(toys.at(file, 0, 6), elsewhere=(change,))

    results = together({"a.py": A, "b.py": B}, [toys.rule(check)])
    assert results["a.py"].outcome is Outcome.UNCHANGED
    assert len(results["a.py"].applied) == 1
    assert text(results["b.py"]) == B.replace("slowed", "fasted")
    assert (results["a.py"].together, results["b.py"].together) == ((), ())


def test_fingerprints_do_not_tell_whether_a_file_was_alone() -> None:
    (alone,) = rewrite(A.encode(), "a.py", [toys.renaming()]).applied
    (linked,) = together({"a.py": A, "b.py": B}, [toys.renaming()])["a.py"].applied
    assert alone.fingerprint == linked.fingerprint


def test_rewrites_that_never_end_leave_the_files_as_they_were() -> None:
    forth = toys.renaming(r"\bslow\b", "slow, slow")
    results = together({"a.py": A, "b.py": B}, [forth])
    assert results["a.py"].outcome is Outcome.FAILED
    assert "do not converge: PM901" in results["a.py"].reason
    assert results["b.py"].outcome is Outcome.UNCHANGED


def test_edits_outside_of_the_other_file_are_an_error_of_the_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFMOD_DEBUG", "1")

    def check(file: FileFacts) -> Iterator[Finding]:
        if file.source.path == "a.py":
            yield evolve(toys.at(file, 0, 6), elsewhere=(Change("b.py", (Edit(9000, 9001, "x"),)),))

    results = together({"a.py": A, "b.py": B}, [toys.rule(check)])
    assert results["a.py"].reason == "internal error in PM901: the edits of a finding overlap or lie outside"
