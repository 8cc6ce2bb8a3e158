from __future__ import annotations

from collections.abc import Iterator

import pytest
import toy_rules as toys

from perfmod.codemods import catalog
from perfmod.codemods.engine import rewrite
from perfmod.codemods.results import FileResult
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.finding import Edit, Finding


@pytest.fixture(autouse=True)
def catalog_of_another_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that is known and not run."""
    monkeypatch.setattr(catalog, "rules", lambda: [toys.renaming(code="PM101", name="other")])


def run(code: str) -> FileResult:
    """Two rules: PM901 `toy` renames `slow`, PM902 `second` renames `lazy`."""
    rules = [
        toys.renaming(r"\bslow\b(?!\w)", "fast"),
        toys.renaming(r"\blazy\b", "eager", code="PM902", name="second", triggers=("lazy",)),
    ]
    return rewrite(f"import torch\n{code}".encode(), "a.py", rules)


def suppressed(result: FileResult) -> list[tuple[str, int]]:
    return [(finding.code, finding.line) for finding in result.suppressed]


@pytest.mark.parametrize("names", ["[PM901]", "[toy]", "[PM9]", "[pm901 , PM902]", "", "[ALL]", "[syncs] for now"])
def test_a_trailing_comment_silences_its_line(names: str) -> None:
    result = run(f"x = slow  # perfmod: ignore{names}\ny = slow\n")
    assert suppressed(result) == [("PM901", 2)]
    assert [each.line for each in result.applied] == [3]


def test_other_rules_go_on() -> None:
    result = run("x = slow(lazy)  # perfmod: ignore[PM901]\n")
    assert suppressed(result) == [("PM901", 2)]
    assert result.after == b"import torch\nx = slow(eager)  # perfmod: ignore[PM901]\n"


@pytest.mark.parametrize("line", [0, 1, 2, 3])
def test_a_comment_on_any_line_of_a_statement_silences_all_of_it(line: int) -> None:
    lines = ["x = f(", "    slow,", "    1,", ")", "y = slow"]
    lines[line] += "  # perfmod: ignore[PM901]"
    assert suppressed(run("\n".join(lines) + "\n")) == [("PM901", 3)]


def test_a_comment_line_inside_a_statement_silences_it() -> None:
    assert suppressed(run("x = f(\n    # perfmod: ignore\n    slow,\n)\n")) == [("PM901", 4)]


def test_a_comment_on_a_header_silences_the_header_only() -> None:
    result = run("for i in slow:  # perfmod: ignore[PM901]\n    slow\n")
    assert suppressed(result) == [("PM901", 2)]
    assert [each.line for each in result.applied] == [3]


def test_a_comment_above_a_statement_silences_its_whole_body() -> None:
    code = "# perfmod: ignore[PM901]\n# because\n@d\ndef f():\n    slow\n\n    if x:\n        slow\nslow\n"
    assert suppressed(run(code)) == [("PM901", 6), ("PM901", 9)]


def test_a_comment_above_a_blank_line_silences_nothing() -> None:
    result = run("# perfmod: ignore[PM901]\n\nx = slow\n")
    assert suppressed(result) == []
    assert result.warnings == ("line 2: unused `# perfmod: ignore[PM901]`",)


def test_off_and_on() -> None:
    code = (
        "slow\n# perfmod: off[PM901, PM902]\nslow\nlazy\n# perfmod: on[PM901]\nslow\nlazy\n"
        "# perfmod: on\nlazy\n# perfmod: off\nlazy\n"
    )
    result = run(code)
    assert suppressed(result) == [("PM901", 4), ("PM902", 5), ("PM902", 8), ("PM902", 12)]
    assert result.warnings == ()


def test_a_file_is_silenced_above_its_first_statement() -> None:
    rules = [toys.renaming()]
    data = b"#!/usr/bin/env python\n# perfmod: ignore-file[PM901]\n'''doc'''\nimport torch\nslow\n"
    result = rewrite(data, "a.py", rules)
    assert suppressed(result) == [("PM901", 5)]
    assert result.after == data


def test_further_down_it_does_not_silence_the_file() -> None:
    result = run("# perfmod: ignore-file\nslow\n")
    assert suppressed(result) == []
    assert result.warnings == ("line 2: `ignore-file` has to be above the first statement",)


def test_text_in_strings_is_no_comment() -> None:
    result = run("x = slow('# perfmod: ignore')\ny = '''\n# perfmod: off\n'''\nslow\n")
    assert (suppressed(result), result.warnings) == ([], ())


def test_a_comment_may_hold_other_words_too() -> None:
    result = run("x = slow  # noqa: E501  # perfmod: ignore[PM901] the loader is tiny\n")
    assert suppressed(result) == [("PM901", 2)]


def test_unknown_unused_and_misspelt_comments_are_warned_of() -> None:
    result = run(
        "a = 1  # perfmod: ignore[PM901, W605]\n"
        "b = slow  # perfmod: ignore[PM901, second]\n"
        "c = 1  # perfmod: ingore[PM901]\n"
        "d = 1  # perfmod: ignore[]\n"
        "e = 1  # perfmod: ignore[tooy]\n",
    )
    assert result.warnings == (
        "line 2: unknown rule 'W605'; `perfmod rules` lists them",
        "line 2: unused `# perfmod: ignore[PM901]`",
        "line 3: unused `# perfmod: ignore[second]`",
        "line 4: `# perfmod: ingore[PM901]` is not one of ignore, ignore-file, off, on",
        "line 5: `# perfmod: ignore[]` names no rule",
        "line 6: unknown rule 'tooy'; did you mean toy?",
    )


def test_a_comment_in_a_file_without_any_trigger_is_unused() -> None:
    result = rewrite(b"x = 1  # perfmod: ignore[PM901]\n", "a.py", [toys.renaming()])
    assert result.warnings == ("line 1: unused `# perfmod: ignore[PM901]`",)


def test_comments_for_rules_that_were_not_run_are_not_unused() -> None:
    # A bare comment and a prefix may be meant for the rules of the catalogue too.
    code = "x = 1  # perfmod: ignore[PM1]\ny = 1  # perfmod: ignore\n"
    assert run(code).warnings == ()


def test_an_edit_on_a_silenced_line_silences_the_finding() -> None:
    code = "import torch\nslow\nb = 1  # perfmod: ignore[PM901]\nc = 1\n"

    def check(file: FileFacts) -> Iterator[Finding]:
        for word in "bc":
            at = file.source.text.find(f"{word} = 1")
            if at >= 0:
                yield toys.at(file, 13, 17, Edit(at, at + 1, f"{word}2"))

    result = rewrite(code.encode(), "a.py", [toys.rule(check)])
    assert result.after == code.replace("c = 1", "c2 = 1").encode()
    assert len(result.suppressed) == 1


def test_lines_inserted_above_a_silenced_line_do_not_touch_it() -> None:
    code = "import torch\nslow\nb = 1  # perfmod: ignore[PM901]\n"

    def check(file: FileFacts) -> Iterator[Finding]:
        if "new" not in file.source.text:
            at = file.source.text.index("b = 1")
            yield toys.at(file, 13, 17, Edit(at, at, "new\n"))

    result = rewrite(code.encode(), "a.py", [toys.rule(check)])
    assert result.after == code.replace("b = 1", "new\nb = 1").encode()


def test_a_comment_that_is_only_needed_after_a_rewrite_is_used() -> None:
    rules = [
        toys.renaming(r"\bslow\b", "1 +\\\n  lazy"),
        toys.renaming(r"\blazy\b", "eager", code="PM902", name="second", triggers=("lazy",)),
    ]
    result = rewrite(b"import torch\n\nx = slow  # perfmod: ignore[PM902]\n", "a.py", rules)
    assert result.after == b"import torch\n\nx = 1 +\\\n  lazy  # perfmod: ignore[PM902]\n"
    assert (suppressed(result), result.warnings) == ([("PM902", 3)], ())
