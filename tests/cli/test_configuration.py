"""Configuration files: which one holds for a file, what it takes over from others, and what its keys do."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from cli_fakes.running import Ran, Run, Write

from perfmod.errors import ExitCode

ALL_KINDS = "torch_slow(); torch_risky(1); torch_risky(); torch_minor()\n"


def found(ran: Ran) -> set[str]:
    """Rule and file of every finding."""
    return {f"{row['code']} {row['path']}" for row in json.loads(ran.out)["findings"]}


def check(perfmod: Run, *arguments: str) -> set[str]:
    return found(perfmod("check", *arguments, "--output-format", "json"))


@pytest.mark.parametrize(("table", "kept"), [
    ('"tests/" = ["PM901"]', {"PM901 train.py", "PM902 tests/a.py", "PM902 train.py"}),
    ('"/*.py" = ["PM9"]', {"PM901 tests/a.py", "PM902 tests/a.py"}),
    ('"a.py" = ["slow-call"]\n"train.py" = ["risky-call"]', {"PM901 train.py", "PM902 tests/a.py"}),
    ('"**/tests/*.py" = ["PM901"]\n"a.py" = ["PM902"]', {"PM901 train.py", "PM902 train.py"}),
    ('"*" = ["ALL"]', set()),
    ('"other/" = ["ALL"]', {"PM901 tests/a.py", "PM901 train.py", "PM902 tests/a.py", "PM902 train.py"}),
])  # fmt: skip
def test_rules_ignored_by_file(write: Write, perfmod: Run, table: str, kept: set[str]) -> None:
    write("pyproject.toml", f"[tool.perfmod.per-file-ignores]\n{table}\n")
    for name in ("train.py", "tests/a.py"):
        write(name, "torch_slow(); torch_risky()\n")
    assert check(perfmod, ".") == kept
    assert check(perfmod, "train.py", "tests/a.py") == kept


@pytest.mark.parametrize(("ignored", "written"), [("train.py", False), ("engine.py", True)])
def test_a_finding_over_several_files_follows_the_one_it_is_reported_in(
    write: Write, perfmod: Run, ignored: str, *, written: bool
) -> None:
    write("pyproject.toml", f'[tool.perfmod.per-file-ignores]\n"{ignored}" = ["PM906"]\n')
    write("train.py", "import torch\nfrom engine import torch_far\nloss.backward()\ntorch_far()\n")
    engine = write("engine.py", "def torch_far(): ...\n")
    perfmod("apply", ".")
    assert ("torch_near" in engine.read_text()) is written


def test_a_comment_for_a_rule_that_is_not_asked_is_no_unused_one(write: Write, perfmod: Run) -> None:
    write("train.py", "x = 1  # perfmod: ignore[PM901]\n")
    assert "unused" in perfmod("check", ".").err
    write("pyproject.toml", '[tool.perfmod.per-file-ignores]\n"train.py" = ["PM901"]\n')
    assert "unused" not in perfmod("check", ".").err


@pytest.mark.parametrize(("table", "arguments", "kept"), [
    ("", ["old/a.py", "build/b.py"], {"PM901 old/a.py", "PM901 build/b.py"}),
    ("force-exclude = true", ["old/a.py", "build/b.py"], set()),
    ("force-exclude = true", ["old/a.py", "train.py"], {"PM901 train.py"}),
    ("force-exclude = true", ["old"], set()),
    ("force-exclude = true", ["old/a.py", "--no-force-exclude"], {"PM901 old/a.py"}),
    ("", ["old/a.py", "train.py", "--force-exclude"], {"PM901 train.py"}),
])  # fmt: skip
def test_what_is_excluded_by_name(write: Write, perfmod: Run, table: str, arguments: list[str], kept: set[str]) -> None:
    """As pre-commit passes files; `build/` is excluded by default."""
    write("pyproject.toml", f'[tool.perfmod]\nexclude = ["/old/"]\n{table}\n')
    for name in ("train.py", "old/a.py", "build/b.py"):
        write(name, "torch_slow()\n")
    ran = perfmod("check", *arguments, "--output-format", "json")
    assert found(ran) == kept
    assert ran.code == (ExitCode.FOUND if kept else ExitCode.OK)


def test_the_nearest_file_counts_for_every_file(write: Write, perfmod: Run) -> None:
    """Also below the folder that was given, in files that are brought by imports, and for what is excluded."""
    write("pyproject.toml", '[tool.perfmod]\nexclude = ["generated.py"]\n')
    write("a/pyproject.toml", "[tool.perfmod]\nunsafe = true\n")
    write("a/deep/perfmod.toml", 'ignore = ["PM901"]\nexclude = ["left.py"]\n')
    names = ("top.py", "generated.py", "a/mid.py", "a/generated.py", "a/deep/low.py", "a/deep/left.py")
    paths = {name: write(name, "torch_slow(); torch_risky()\n") for name in names}
    paths["main.py"] = write("main.py", "import a.mid\ntorch_risky()\n")
    perfmod("apply", "main.py")
    assert paths["a/mid.py"].read_text() == "torch_fast(); torch_brave()\n"
    assert paths["main.py"].read_text() == "import a.mid\ntorch_risky()\n"
    perfmod("apply", ".")
    assert {name: path.read_text() for name, path in paths.items() if name != "main.py"} == {
        "top.py": "torch_fast(); torch_risky()\n",
        "generated.py": "torch_slow(); torch_risky()\n",
        "a/mid.py": "torch_fast(); torch_brave()\n",
        "a/generated.py": "torch_fast(); torch_brave()\n",
        "a/deep/low.py": "torch_slow(); torch_risky()\n",
        "a/deep/left.py": "torch_slow(); torch_risky()\n",
    }


@pytest.mark.parametrize(("files", "code"), [
    ({"perfmod.toml": "unsafe = true", "pyproject.toml": "[tool.perfmod]\nunsafe = false"}, "torch_brave()\n"),
    ({".perfmod.toml": "unsafe = true", "pyproject.toml": "[tool.perfmod]"}, "torch_brave()\n"),
    ({"perfmod.toml": "", ".perfmod.toml": "unsafe = true"}, "torch_risky()\n"),
    ({"perfmod.toml": "[tool.perfmod]\nunsafe = true"}, "torch_brave()\n"),
    ({"../perfmod.toml": "unsafe = true", "pyproject.toml": "[project]\nname = 'x'"}, "torch_brave()\n"),
])  # fmt: skip
def test_files_of_our_own(write: Write, perfmod: Run, files: dict[str, str], code: str) -> None:
    for name, text in files.items():
        write(f"pkg/{name}", text + "\n")
    path = write("pkg/train.py", "torch_risky()\n")
    perfmod("apply", ".")
    assert path.read_text() == code


@pytest.mark.parametrize(("base", "table", "code"), [
    ("unsafe = true", "", "torch_fast(); torch_brave(); torch_optional()\n"),
    ("unsafe = true", "unsafe = false", "torch_fast(); torch_risky(); torch_optional()\n"),
    ("[tool.perfmod]\nunsafe = true", "", "torch_fast(); torch_brave(); torch_optional()\n"),
    ('ignore = ["PM901"]', 'ignore = ["PM902"]', "torch_fast(); torch_risky(); torch_optional()\n"),
    ('extend-select = ["PM903"]', 'extend-select = ["PM909"]', "torch_fast(); torch_risky(); torch_chosen()\n"),
    ('extend = "~/team.toml"', "", "torch_slow(); torch_risky(); torch_optional()\n"),
])  # fmt: skip
def test_extend(
    tmp_path: Path, write: Write, perfmod: Run, monkeypatch: pytest.MonkeyPatch, base: str, table: str, code: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "team.toml").write_text('ignore = ["PM901"]\n')
    write("shared/base.toml", f"{base}\n")
    write("pkg/pyproject.toml", f'[tool.perfmod]\nextend = "../shared/base.toml"\n{table}\n')
    path = write("pkg/train.py", "torch_slow(); torch_risky(); torch_optional()\n")
    perfmod("apply", ".")
    assert path.read_text() == code


def test_a_wrong_file_beside_what_was_asked_about_is_not_looked_into(write: Write, perfmod: Run) -> None:
    write("other/perfmod.toml", "nonsense = 1\n")
    write("other/a.py", "torch_slow()\n")
    write("train.py", "torch_slow()\n")
    assert check(perfmod, "train.py") == {"PM901 train.py"}
    assert 'has no key "nonsense"' in perfmod("check", ".").complaint


def test_patterns_of_an_extended_file_are_relative_to_the_one_that_extends_it(write: Write, perfmod: Run) -> None:
    write("shared/base.toml", 'exclude = ["/old.py"]\n[per-file-ignores]\n"/new.py" = ["PM901"]\n')
    write("pkg/perfmod.toml", 'extend = "../shared/base.toml"\n')
    for name in ("old.py", "pkg/old.py", "pkg/new.py", "pkg/train.py"):
        write(name, "torch_slow()\n")
    assert check(perfmod, ".") == {"PM901 old.py", "PM901 pkg/train.py"}


@pytest.mark.parametrize(("files", "complaint"), [
    ({"pyproject.toml": '[tool.perfmod]\nextend = "gone.toml"'}, "gone.toml: no such file"),
    ({"pyproject.toml": '[tool.perfmod]\nextend = "sub"', "sub/x": ""}, "sub: no such file"),
    ({"perfmod.toml": 'extend = "b.toml"', "b.toml": 'extend = "perfmod.toml"'},
     'b.toml: "extend": perfmod.toml leads back to itself'),
    ({"perfmod.toml": 'extend = "perfmod.toml"'}, 'perfmod.toml: "extend": perfmod.toml leads back to itself'),
    ({"perfmod.toml": 'extend = "b.toml"', "b.toml": "selct = []"}, 'b.toml: has no key "selct"; did you mean '),
    ({"perfmod.toml": 'extend = "b.toml"', "b.toml": "select ="}, "b.toml: is not valid TOML"),
    ({"perfmod.toml": 'extend = "b.toml"', "b.toml": 'ignore = ["PM777"]'}, "b.toml: \"ignore\": unknown rule 'PM777'"),
    ({"perfmod.toml": 'extend = "b.toml"', "b.toml": 'exclude = ["["]'}, "b.toml: \"exclude\": invalid pattern '['"),
    ({"perfmod.toml": 'extend = "pyproject.toml"', "pyproject.toml": ""}, "pyproject.toml has no [tool.perfmod]"),
])  # fmt: skip
def test_extending_what_is_wrong(write: Write, perfmod: Run, files: dict[str, str], complaint: str) -> None:
    for name, text in files.items():
        write(name, text + "\n")
    write("train.py", "torch_slow()\n")
    for command in ("check", "config"):
        ran = perfmod(command, ".")
        assert ran.code == ExitCode.USAGE
        assert complaint in ran.complaint


@pytest.mark.parametrize(("assume", "code"), [
    ('["is-scalar"]', "torch_fast(); torch_brave(1); torch_risky(); torch_minor()\n"),
    ('["is-scalar", "may-have-workers"]', "torch_fast(); torch_brave(1); torch_risky(); torch_minor()\n"),
    ('["may-have-workers"]', "torch_fast(); torch_risky(1); torch_risky(); torch_minor()\n"),
])  # fmt: skip
def test_what_the_project_answers_itself(write: Write, perfmod: Run, assume: str, code: str) -> None:
    """A rewrite that is open for a reason that nothing asks about stays open."""
    write("pyproject.toml", f"[tool.perfmod]\nassume = {assume}\n")
    path = write("train.py", ALL_KINDS)
    perfmod("apply", ".")
    assert path.read_text() == code


@pytest.mark.parametrize("change", [
    'select = ["PM902"]', 'extend-select = ["PM903"]', 'ignore = ["PM901"]', "unsafe = true", "low-impact = true",
    'assume = ["is-scalar"]', 'exclude = ["train.py"]', 'per-file-ignores = { "train.py" = ["PM901"] }',
    'extend = "../base.toml"',
])  # fmt: skip
def test_a_changed_key_is_not_answered_from_the_cache(write: Write, perfmod: Run, change: str) -> None:
    write("pkg/other.py", "torch_slow()\n")
    write("pkg/train.py", f"torch_optional()\n{ALL_KINDS}")
    write("base.toml", 'ignore = ["PM902"]\n')
    command = ("check", ".", "-v", "--output-format", "json")
    before = perfmod(*command)
    write("pkg/perfmod.toml", f"{change}\n")
    after = perfmod(*command)
    assert after.out != before.out
    assert after == perfmod(*command, "--no-cache")
    write("base.toml", 'ignore = ["PM909"]\n')
    assert perfmod(*command) == perfmod(*command, "--no-cache")


def test_what_holds_is_shown_with_its_origin(write: Write, perfmod: Run, project: Path) -> None:
    write("base.toml", 'extend-select = ["PM903"]\nworkers = 4\n')
    write("pkg/pyproject.toml", '[tool.perfmod]\nextend = "../base.toml"\nextend-select = ["PM909"]\n'
          'per-file-ignores = { "tests/" = ["ALL"] }\n')  # fmt: skip
    write("pkg/deep/train.py", "")
    for place in ("pkg", "pkg/deep", "pkg/deep/train.py"):
        lines = perfmod("config", place).out.decode().splitlines()
        assert lines[1:5] == [
            'extend-select\t["PM903", "PM909"]\tpkg/pyproject.toml, extended from base.toml',
            "ignore\t[]\tdefault",
            'per-file-ignores\t{ "tests/" = ["ALL"] }\tpkg/pyproject.toml',
            "exclude\t[]\tdefault",
        ]
        assert "workers\t4\textended from base.toml" in lines
    told = json.loads(perfmod("config", "pkg", "--output-format", "json").out)
    assert told["files"] == [str(project / "pkg" / "pyproject.toml"), str(project / "base.toml")]
    assert told["settings"]["workers"] == {"value": 4, "from": [str(project / "base.toml")]}
    assert told["settings"]["target"] == {"value": "cuda", "from": []}
    assert b"workers\t8\tdefault" in perfmod("config").out
    assert perfmod("config", "gone").complaint == "gone: no such file or folder"


VALUES = [
    ("select", ["PM9"], "PM9"),
    ("per-file-ignores", {"tests/": ["ALL"]}, {"tests/": "ALL"}),
    ("exclude", ["a/"], [1]),
    ("force-exclude", True, 1),
    ("target", "portable", "mps"),
    ("workers", 1, 0),
    ("workers", 8, 2.5),
    ("time-limit", 0.5, 0),
    ("assume", ["is-scalar"], ["is-scaler"]),
    ("extend", "../base.toml", 1),
]


@pytest.mark.parametrize(("key", "right", "wrong"), VALUES, ids=[key for key, *_ in VALUES])
def test_the_schema_takes_what_perfmod_takes(
    write: Write, perfmod: Run, key: str, right: object, wrong: object
) -> None:
    schema = json.loads(perfmod("config", "--schema").out)
    jsonschema.Draft7Validator.check_schema(schema)
    write("base.toml", "")
    validator = jsonschema.Draft7Validator(schema)
    assert validator.is_valid({key: right})
    assert not validator.is_valid({key: wrong})
    assert not validator.is_valid({f"{key}s-": right})
    for value, code in ((right, ExitCode.OK), (wrong, ExitCode.USAGE)):
        write("pkg/perfmod.toml", f"{key} = {_inline(value)}\n")
        assert perfmod("config", "pkg").code == code


def _inline(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f'"{name}" = {json.dumps(each)}' for name, each in value.items()) + " }"
    return json.dumps(value)
