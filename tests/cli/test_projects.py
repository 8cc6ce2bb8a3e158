"""Files that belong together: which are examined, and which are changed."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from cli_fakes.running import Ran, Run, RunProcess, Write

from perfmod import planning
from perfmod.codemods.results import Part
from perfmod.config import Options
from perfmod.errors import ExitCode
from perfmod.files import discover
from perfmod.planning import Unit
from perfmod.task import Task
from perfmod.transforms.outside import OutsideSetting

SLOW, FAST = "torch_slow()\n", "torch_fast()\n"


def changed(ran: Ran) -> list[str]:
    """The files of a dry run's diff."""
    lines = ran.out.decode().splitlines()
    return [line.partition(" b/")[2] for line in lines if line.startswith("diff --git ")]


def dry(perfmod: Run, *arguments: str) -> list[str]:
    ran = perfmod("apply", "--dry-run", *arguments)
    assert ran.code == ExitCode.OK, ran.err
    return changed(ran)


def units(project: Path, *targets: str) -> list[dict[str, str]]:
    """For each unit that is to be parsed, the part of every file in it."""
    found = discover(targets, Options(), project)

    def named(unit: Unit) -> dict[str, str]:
        return {member.file.shown: member.part.value for member in unit.members}

    made = planning.together(found.files, lambda data: b"torch_" in data, project, found.configurations)
    return [named(unit) for unit in made if not unit.is_clear]


def test_a_file_brings_what_it_imports(write: Write, perfmod: Run) -> None:
    """Also over several files, packages, relative imports, re-exports; what imports it stays."""
    write("train.py", f"import torch\nimport engine\nfrom src.data import load\n{SLOW}")
    write("engine.py", f"import torch\nfrom lib import helper\n{SLOW}")
    write("lib/__init__.py", "from .deep import helper\n")
    write("lib/deep.py", f"from . import deeper\n{SLOW}")
    write("lib/deeper.py", SLOW)
    write("lib/unused.py", SLOW)
    write("src/data/__init__.py", f"import torch\n{SLOW}")
    write("evaluate.py", f"import torch\nimport engine\n{SLOW}")
    write("other.py", SLOW)
    everything = ["engine.py", "lib/deep.py", "lib/deeper.py", "src/data/__init__.py", "train.py"]
    assert dry(perfmod, "train.py") == everything
    assert dry(perfmod, "engine.py") == ["engine.py", "lib/deep.py", "lib/deeper.py"]
    assert dry(perfmod, "train.py", "evaluate.py") == sorted([*everything, "evaluate.py"])
    assert dry(perfmod, ".") == sorted([*everything, "evaluate.py", "lib/unused.py", "other.py"])
    assert dry(perfmod, "--isolated", "train.py") == ["train.py"]
    assert dry(perfmod, "--isolated", ".") == dry(perfmod, ".")


def test_parts(project: Path, write: Write) -> None:
    write("train.py", f"import engine\n{SLOW}")
    write("engine.py", SLOW)
    write("evaluate.py", f"import engine\n{SLOW}")
    write("notes.py", "import json\n")
    write("lonely.py", SLOW)
    parts = {"engine.py": "asked", "evaluate.py": "unnamed", "train.py": "asked"}
    assert units(project, "train.py") == [parts]
    assert units(project, "evaluate.py") == [{**parts, "evaluate.py": "asked", "train.py": "unnamed"}]
    assert units(project, ".") == [dict.fromkeys(parts, "asked"), {"lonely.py": "asked"}]
    assert units(project, "notes.py") == [{"notes.py": "asked"}]


def test_src_layout(write: Write, perfmod: Run) -> None:
    write("pyproject.toml", "[project]\n")
    write("scripts/train.py", f"from kit.engine import run\n{SLOW}")
    write("src/kit/__init__.py", "")
    write("src/kit/engine.py", f"from kit import data\nfrom .loops import loop\n{SLOW}")
    write("src/kit/data.py", SLOW)
    write("src/kit/loops.py", SLOW)
    found = ["scripts/train.py", "src/kit/data.py", "src/kit/engine.py", "src/kit/loops.py"]
    assert dry(perfmod, "scripts/train.py") == found


def test_neighbours_of_the_same_name(write: Write, perfmod: Run) -> None:
    for folder in "ab":
        write(f"{folder}/train.py", f"from model import Net\n{SLOW}")
        write(f"{folder}/model.py", SLOW)
    assert dry(perfmod, "a/train.py") == ["a/model.py", "a/train.py"]
    assert dry(perfmod, "b/train.py") == ["b/model.py", "b/train.py"]


def test_circles(project: Path, write: Write, perfmod: Run) -> None:
    write("a.py", f"import b\n{SLOW}")
    write("b.py", f"import a\n{SLOW}")
    assert dry(perfmod, "a.py") == dry(perfmod, "b.py") == ["a.py", "b.py"]
    assert units(project, "a.py") == [{"a.py": "asked", "b.py": "asked"}]


def test_what_git_ignores_stays(write: Write, perfmod: Run) -> None:
    write(".gitignore", "generated/\n")
    write("pyproject.toml", '[tool.perfmod]\nexclude = ["vendored.py"]\n')
    write("train.py", f"import torch, generated.engine, vendored, venv.x\n{SLOW}")
    for name in ("generated/engine.py", "vendored.py", "venv/x.py", "lib/site-packages/torch/__init__.py"):
        write(name, SLOW)
    assert dry(perfmod, "train.py") == ["train.py"]


def test_followed_files_are_told(project: Path, write: Write, perfmod: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the path from where the user stands, in the way that the given path was written."""
    write("exp/train.py", f"import sys, torch\nfrom lib import engine\n{SLOW}")
    write("lib/engine.py", SLOW)
    ran = perfmod("check", "exp/train.py")
    assert ran.code == ExitCode.FOUND
    assert b"lib/engine.py:1:1: PM901" in ran.out
    assert ran.err == "2 rewrites in 2 of 2 files; `perfmod apply exp/train.py` makes them\n"
    assert f"{project}/lib/engine.py:1:1" in perfmod("check", str(project / "exp/train.py")).out.decode()
    monkeypatch.chdir(project / "exp")
    assert b"../lib/engine.py:1:1: PM901" in perfmod("check", "train.py").out


def test_a_broken_file_fails_only_where_it_is_asked_about(write: Write, perfmod: Run) -> None:
    write("train.py", f"import torch, helper\nimport engine\n{SLOW}")
    write("helper.py", "import engine\nprint 'two'\n")
    write("engine.py", SLOW)
    write("test_engine.py", "import engine\ntorch_slow(\n")
    assert dry(perfmod, "train.py") == ["engine.py", "train.py"]
    write("engine.py", "torch_slow(\n")
    ran = perfmod("apply", "--dry-run", "train.py")
    assert ran.code == ExitCode.FAILED
    assert "engine.py: failed: " in ran.err
    assert changed(ran) == ["train.py"]


@pytest.mark.exhaustive
def test_order_and_processes_change_nothing(write: Write, perfmod: Run, perfmod_process: RunProcess) -> None:
    filler = "# " + "x" * 60 + "\n"
    names = ["a/main.py", "a/engine.py", "b/main.py", "b/engine.py", "shared.py"]
    for name in names:
        needed = "import engine\n" if name.endswith("main.py") else "import shared\n" if "/" in name else ""
        write(name, needed + SLOW + "torch_kept()\n" + filler * 700)
    orders = (names, names[::-1], names[2:] + names[:2])
    outcomes = {perfmod("check", "--no-cache", "--output-format", "json", *order).out for order in orders}
    assert len(outcomes) == 1
    spread = perfmod_process("check", "--no-cache", "--output-format", "json", "--jobs", "2", *names)
    assert spread.out in outcomes
    assert perfmod("check", "--no-cache", "--output-format", "json", ".").out in outcomes


def test_settings_of_their_own(project: Path, write: Write) -> None:
    """Files given under other settings are examined under theirs, and read by the others."""
    write("pyproject.toml", "[tool.perfmod]\nunsafe = false\n")
    write("exp/pyproject.toml", "[tool.perfmod]\nunsafe = true\n")
    write("engine.py", SLOW)
    write("train.py", f"import engine\n{SLOW}")
    write("exp/main.py", f"import engine\n{SLOW}")
    assert units(project, "train.py", "exp/main.py") == [
        {"engine.py": "asked", "exp/main.py": "read", "train.py": "asked"},
        {"engine.py": "read", "exp/main.py": "asked", "train.py": "read"},
    ]


@pytest.mark.exhaustive
def test_thousands_of_files(write: Write, perfmod: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that is one web of imports is read, and parsed only around what trains."""
    for number in range(3000):
        others = f"from lib import m{(number * 7 + 1) % 3000}, m{(number + 13) % 3000}\n"
        trains = f"loss.backward()\n{SLOW}" if number % 500 == 0 else ""
        write(f"lib/m{number}.py", others + trains + "x = 1\n")
    write("lib/__init__.py", "".join(f"from .m{number} import x\n" for number in range(3000)))
    parsed: list[list[str]] = []
    run = Task.run

    def record(task: Task) -> object:
        parsed.append([file.path for file in task.files])
        return run(task)

    monkeypatch.setattr(Task, "run", record)
    began = time.process_time()
    found = dry(perfmod, ".")
    assert time.process_time() - began < 20
    assert found == sorted(f"lib/m{number}.py" for number in range(0, 3000, 500))
    assert len(parsed) <= 6
    assert all(len(files) <= 60 for files in parsed)
    assert "lib/m500.py" in dry(perfmod, "lib/m500.py")


def test_files_that_are_read_do_not_depend_on_the_rules(
    write: Write, perfmod: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a rule finds in a file depends on the others, and is the same if the rule is selected alone."""
    write("train.py", "import helper\ntorch_far()\n")
    write("helper.py", "import inner\ntorch_slow()\n")
    write("inner.py", "import innermost\n")
    read: list[tuple[str, ...]] = []
    run = Task.run

    def record(task: Task) -> object:
        read.append(tuple(file.path for file in task.files))
        return run(task)

    monkeypatch.setattr(Task, "run", record)
    for options in ([], ["--select", "PM906"], ["--ignore", "PM901"]):
        perfmod("check", ".", "--no-cache", *options)
    assert read == [("helper.py", "inner.py", "train.py")] * 3


class TestCache:
    """What is clean depends on all files that are read together."""

    @pytest.fixture
    def ran(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        paths: list[str] = []
        run = Task.run

        def record(task: Task) -> object:
            paths.extend(file.path for file in task.files)
            return run(task)

        monkeypatch.setattr(Task, "run", record)
        return paths

    def test_groups_are_remembered(self, write: Write, perfmod: Run, ran: list[str]) -> None:
        write("train.py", "import engine\ntorch_slow = 1\n")
        write("engine.py", "x = 1\n")
        for again in (["engine.py", "train.py"], []):
            ran.clear()
            assert perfmod("check", "train.py").code == ExitCode.OK
            assert ran == again
        write("engine.py", "x = 2\n")
        assert perfmod("check", "train.py").code == ExitCode.OK
        assert ran == ["engine.py", "train.py"]

    def test_a_finding_through_another_file_is_not_forgotten(self, write: Write, perfmod: Run) -> None:
        write("train.py", "from engine import torch_far\ntorch_far()\n")
        write("engine.py", "def torch_near(): pass\n")
        assert b"left as it is" in perfmod("check", "train.py", "--explain-all").out
        write("engine.py", "def torch_far(): pass\n")
        assert perfmod("check", "train.py").code == ExitCode.FOUND

    def test_each_thing_that_counts(self) -> None:
        from attrs import evolve

        from perfmod.codemods.results import Choice, Given

        one, other = Given("a.py", b"import b", imports={"b": "b.py"}), Given("b.py", b"x")
        task = Task((one, other), frozenset(), (), Choice())
        tasks = [
            task,
            evolve(task, files=(other,)),
            evolve(task, files=(evolve(one, imports={}), other)),
            evolve(task, files=(evolve(one, data=b"import  b"), other)),
            evolve(task, files=(one, evolve(other, part=Part.PARTNER))),
            evolve(task, files=(one, evolve(other, imported_elsewhere=True))),
            evolve(task, files=(evolve(one, path="__init__.py"), other)),
            evolve(task, files=(evolve(one, outside=(OutsideSetting("n_cpu", "a.yaml", 1, "n_cpu: 0"),)), other)),
            evolve(task, named=frozenset({"a.py"})),
        ]
        assert len({each.digest for each in tasks}) == len(tasks)
        moved = evolve(task, files=(evolve(one, path="x/a.py", imports={"b": "x/b.py"}), evolve(other, path="x/b.py")))
        assert moved.digest == task.digest


FAR = {
    "train.py": "from engine import torch_far\nimport torch\ntorch_far()\n",
    "engine.py": "def torch_far(): pass\n",
    "evaluate.py": "from engine import torch_far\n\ntorch_far()\n",
    "other.py": SLOW,
}
TRAINING = ("train.py", "evaluate.py")
"""What is named where `other.py` is left out; `engine.py` is followed."""


class TestTogether:
    """Findings that change several files: all of them or none."""

    @pytest.fixture
    def paths(self, write: Write) -> dict[str, Path]:
        return {name: write(name, code) for name, code in FAR.items()}

    def unchanged(self, paths: dict[str, Path], *but: str) -> bool:
        return all(path.read_text() == FAR[name] for name, path in paths.items() if name not in but and path.exists())

    def test_all_are_written_and_reverted(self, paths: dict[str, Path], perfmod: Run) -> None:
        ran = perfmod("apply", *TRAINING)
        assert ran.code == ExitCode.OK
        assert paths["engine.py"].read_text() == "def torch_near(): pass\n"
        assert paths["train.py"].read_text() == "from engine import torch_near\nimport torch\ntorch_near()\n"
        assert paths["evaluate.py"].read_text() == "from engine import torch_near\n\ntorch_near()\n"
        assert paths["other.py"].read_text() == SLOW
        assert ran.err == (
            "train.py:3:1: PM906 far-call: a slow call (also changes engine.py and evaluate.py)\n"
            "1 rewrite made in 3 of 3 files\n"
        )
        assert perfmod("check", *TRAINING).code == ExitCode.OK
        assert perfmod("revert").code == ExitCode.OK
        assert self.unchanged(paths)

    def test_a_file_that_nobody_named_stays(self, paths: dict[str, Path], perfmod: Run) -> None:
        """Nor is it counted, nor is anything of its own found; naming it or its folder is what the finding asks for."""
        ran = perfmod("check", "train.py", "-v")
        assert ran.code == ExitCode.OK
        first, second = ran.out.decode().splitlines()
        assert first == "train.py:3:1: PM906 far-call: a slow call"
        reason = "the fast one does the same; evaluate.py has to change as well"
        assert second.startswith(f"    on request (evaluate.py): {reason} (also changes ")
        hint = "1 on request: `perfmod apply train.py evaluate.py` applies it"
        assert ran.err == f"nothing to rewrite in 2 files\n{hint}\n"
        assert perfmod("apply", "train.py").code == ExitCode.OK
        assert perfmod("apply", "train.py", "--dry-run").out == b""
        assert self.unchanged(paths)
        (row,) = json.loads(perfmod("check", "train.py", "--output-format", "json").out)["findings"]
        assert (row["state"], row["flag"], row["fixable"]) == ("on-request", "evaluate.py", True)
        assert row["elsewhere"] == ["engine.py", "evaluate.py"]
        for names in (["train.py", row["flag"]], ["."]):
            assert perfmod("check", *names).code == ExitCode.FOUND

    def test_several_files_that_nobody_named(
        self, project: Path, write: Write, paths: dict[str, Path], perfmod: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Their paths are those from where the user stands."""
        write("tools/export.py", FAR["evaluate.py"])
        ran = perfmod("check", "train.py", "-v")
        assert "evaluate.py and tools/export.py have to change as well" in ran.out.decode()
        assert "`perfmod apply train.py evaluate.py tools/export.py`" in ran.err
        monkeypatch.chdir(project / "tools")
        ran = perfmod("check", "../train.py", "export.py")
        hint = (
            "1 on request: `perfmod apply ../train.py export.py ../evaluate.py` applies it\n-v shows it, and says why"
        )
        assert ran.err == f"nothing to rewrite in 3 files\n{hint}\n"
        assert perfmod("apply", "../train.py", "export.py", "../evaluate.py").code == ExitCode.OK
        assert not self.unchanged(paths)

    def test_a_file_that_nobody_named_and_a_flag(self, write: Write, perfmod: Run) -> None:
        """Both are needed, and both are told."""
        write("train.py", "from engine import torch_far\ntorch_far(1)\n")
        write("engine.py", "def torch_far(x): pass\n")
        write("evaluate.py", "from engine import torch_far\n")
        ran = perfmod("check", "train.py", "-v")
        reason = "the fast one may not take arguments; evaluate.py has to change as well"
        assert f"    on request (evaluate.py --unsafe): {reason} (" in ran.out.decode()
        ran = perfmod("check", "train.py", "evaluate.py", "-v")
        assert ran.code == ExitCode.OK
        assert "    open question (--unsafe): the fast one may not take arguments (" in ran.out.decode()
        ran = perfmod("check", "train.py", "--unsafe", "-v")
        assert ran.code == ExitCode.OK
        assert f"    on request (evaluate.py --unsafe): {reason} (" in ran.out.decode()
        assert perfmod("check", "train.py", "evaluate.py", "--unsafe").code == ExitCode.FOUND

    def test_diffs_and_reports_show_all(self, project: Path, paths: dict[str, Path], perfmod: Run) -> None:
        ran = perfmod("apply", *TRAINING, "--dry-run")
        assert changed(ran) == ["engine.py", "evaluate.py", "train.py"]
        perfmod("apply", *TRAINING, "--patch", "speed.patch")
        assert (project / "speed.patch").read_bytes() == ran.out
        document = json.loads(perfmod("apply", *TRAINING, "--dry-run", "--output-format", "json").out)
        assert [row["path"] for row in document["files"]] == ["engine.py", "evaluate.py", "train.py"]
        assert all(row["patch"] and row["would_change"] for row in document["files"])
        assert [(row["path"], row["elsewhere"]) for row in document["findings"]] == [
            ("train.py", ["engine.py", "evaluate.py"])
        ]
        assert self.unchanged(paths)

    @pytest.mark.parametrize("partner", ["engine.py", "evaluate.py"])
    def test_a_partner_that_cannot_be_written(self, paths: dict[str, Path], perfmod: Run, partner: str) -> None:
        paths[partner].chmod(0o444)
        ran = perfmod("apply", *TRAINING, "other.py")
        assert ran.code == ExitCode.FAILED
        assert f"{partner}: failed: is read-only" in ran.err
        because = f"failed: was not changed, because {partner}, which has to change with it, cannot be written"
        assert f"train.py: {because}" in ran.err
        assert self.unchanged(paths, "other.py")
        assert paths["other.py"].read_text() == FAST
        assert ran.err.endswith("\n1 rewrite made in 1 of 4 files\n3 files failed\n")
        assert perfmod("revert").code == ExitCode.OK
        assert self.unchanged(paths)

    @pytest.mark.parametrize("what", ["gone", "edited"])
    @pytest.mark.parametrize("late", [False, True], ids=["before", "in between"])
    def test_a_partner_that_changes_meanwhile(
        self, paths: dict[str, Path], perfmod: Run, monkeypatch: pytest.MonkeyPatch, what: str, late: bool
    ) -> None:
        """Before the first file is written, or when the others have been written already."""
        from perfmod import applying

        victim = paths["train.py"]

        def meddle() -> None:
            if what == "gone":
                victim.unlink(missing_ok=True)
            else:
                victim.write_text("mine\n")

        name = "replace" if late else "check"
        original = getattr(applying, name)

        def meddling(path: Path, *arguments: bytes) -> None:
            if path.name == ("evaluate.py" if late else "engine.py"):
                meddle()
            original(path, *arguments)

        monkeypatch.setattr(applying, name, meddling)
        ran = perfmod("apply", *TRAINING)
        assert ran.code == ExitCode.FAILED
        assert "train.py: failed: " + ("was removed" if what == "gone" else "was edited") in ran.err
        assert ran.err.endswith("\n3 files failed\n")
        assert self.unchanged(paths, "train.py")
        assert not victim.exists() if what == "gone" else victim.read_text() == "mine\n"
        assert perfmod("revert").complaint.startswith("there is nothing to revert")

    def test_what_cannot_be_restored_is_in_the_journal(
        self, paths: dict[str, Path], perfmod: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from perfmod import applying
        from perfmod.writing import NotWritten

        original = applying.replace
        calls: list[str] = []

        def failing(path: Path, *arguments: bytes) -> None:
            calls.append(path.name)
            if len(calls) > 1:
                raise NotWritten("cannot be written: no space left on device")
            original(path, *arguments)

        monkeypatch.setattr(applying, "replace", failing)
        ran = perfmod("apply", *TRAINING)
        assert ran.code == ExitCode.FAILED
        assert calls == ["engine.py", "evaluate.py", "engine.py"]
        assert "engine.py: failed: was rewritten and could not be restored; `perfmod revert` takes it back" in ran.err
        monkeypatch.undo()
        assert paths["engine.py"].read_text() != FAR["engine.py"]

    def test_an_interruption_leaves_no_half(
        self, paths: dict[str, Path], perfmod: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from perfmod import applying

        original = applying.replace

        def interrupted(path: Path, *arguments: bytes) -> None:
            if path.name == "train.py":
                raise KeyboardInterrupt
            original(path, *arguments)

        monkeypatch.setattr(applying, "replace", interrupted)
        ran = perfmod("apply", *TRAINING)
        assert ran.code == ExitCode.INTERRUPTED
        assert self.unchanged(paths)

    def test_isolated(self, paths: dict[str, Path], perfmod: Run) -> None:
        ran = perfmod("check", *TRAINING, "--isolated", "--explain-all")
        assert "left as it is: `torch_far` is not in sight" in ran.out.decode()
        assert self.unchanged(paths)

    def test_settings_of_another_folder_are_respected(self, write: Write, paths: dict[str, Path], perfmod: Run) -> None:
        """A file under other settings is not changed along, and that is the reason that is told."""
        write("lib/pyproject.toml", "[tool.perfmod]\nunsafe = true\n")
        write("lib/export.py", "from engine import torch_far\n")
        ran = perfmod("check", *TRAINING, "lib", "--explain-all")
        reason = "export.py would have to change as well, and other settings hold for that file"
        assert f"    left as it is: {reason}\n" in ran.out.decode()
        assert perfmod("apply", *TRAINING, "lib").code == ExitCode.OK
        assert self.unchanged(paths)

    def test_several_files_are_one_request(self, paths: dict[str, Path], perfmod: Run) -> None:
        """As pre-commit gives them."""
        ran = perfmod("check", *paths)
        assert ran.code == ExitCode.FOUND
        assert ran.err == f"2 rewrites in 4 of 4 files; `perfmod apply {' '.join(paths)}` makes them\n"
        assert ran.out.count(b"PM906") == 1


def test_stdin_is_alone(write: Write, perfmod_process: RunProcess) -> None:
    write("engine.py", FAR["engine.py"])
    assert perfmod_process("apply", "-", stdin=FAR["train.py"].encode()).out.decode() == FAR["train.py"]
    ran = perfmod_process("check", "-", "--explain-all", stdin=FAR["train.py"].encode())
    assert "is not in sight" in ran.out.decode()


def test_explain_all(write: Write, perfmod: Run) -> None:
    calls = "torch_slow()\ntorch_risky()\ntorch_optional()\ntorch_kept()\ntorch_kept()\ntorch_far()\n"
    write("train.py", f"{calls}torch_slow()  # perfmod: ignore\n")
    ran = perfmod("check", ".", "--explain-all")
    lines = ran.out.decode().splitlines()
    assert "train.py:7:1: PM901 slow-call: a slow call" in lines
    assert lines[-6:] == [
        "1 rewritten PM901 slow-call: the fast one does the same",
        "1 open question PM902 risky-call: the fast one does the same",
        "1 on request PM903 optional-call: the fast one does the same",
        "2 left as it is PM904 kept-call: its result is used on line N",
        "1 left as it is PM906 far-call: \u2026 is not in sight",
        "1 suppressed PM901 slow-call: the fast one does the same",
    ]
    verbose = perfmod("check", ".", "-v").out.decode().splitlines()
    assert verbose == lines[:6]
    assert [line.split(":")[1] for line in lines[6:-6:2]] == ["4", "5", "6", "7"]
    assert "\n3 left as they are\n1 silenced by comments\n" in ran.err
    assert perfmod("check", ".").out.decode().splitlines() == lines[:1]
    document = json.loads(perfmod("check", ".", "--explain-all", "--output-format", "json").out)
    assert sum(row["count"] for row in document["reasons"]) == len(document["findings"]) == 7
    assert document["reasons"][3] == {
        "state": "left-as-it-is",
        "code": "PM904",
        "name": "kept-call",
        "reason": "its result is used on line N",
        "count": 2,
    }
    assert "reasons" not in json.loads(perfmod("check", ".", "--output-format", "json").out)


@pytest.mark.parametrize(("train", "is_beside"), [
    ("loss.backward()\n", True),
    ("print()\n", False),
    ("import torch\nfrom elsewhere.layers import step\nloss.backward()\n", False),
    ("from tools import layers\nloss.backward()\n", False),
    ("importlib.import_module(name)\nloss.backward()\n", False),
])  # fmt: skip
def test_files_beside_a_training_that_nothing_imports(write: Write, project: Path, train: str, is_beside: bool) -> None:
    """Neither those that are given by name, nor the modules of a package."""
    write("train.py", train)
    write("util/layers.py", SLOW)
    write("package/__init__.py", "")
    write("package/losses.py", SLOW)

    def beside(*targets: str) -> set[str]:
        found = discover(targets, Options(), project)
        made = planning.together(found.files, lambda data: b"torch_" in data, project, found.configurations)
        return {member.file.shown for unit in made for member in unit.members if member.is_beside_training}

    assert beside(".") & {"util/layers.py", "package/losses.py"} == ({"util/layers.py"} if is_beside else set())
    assert not beside("util/layers.py")
