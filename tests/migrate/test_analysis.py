"""The analysis of a project for a campaign: what git makes of it is what `perfmod apply` writes."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import forked_python
import notebooks
import pytest
from attrs import evolve
from golden_harness.golden import ROOT as GOLDEN
from repositories import PLAIN, commit_all, git, subjects

from perfmod import disk
from perfmod.codemods import catalog
from perfmod.config import Options
from perfmod.examine import examine
from perfmod.migrate import branching
from perfmod.migrate.analysis import run
from perfmod.migrate.results import (
    Analysis,
    AnalysisRequest,
    Branches,
    BranchesRequest,
    Cause,
    FileRow,
    Outcome,
    Refused,
)
from perfmod.migrate.snapshot import pack
from perfmod.migrate.stepped import branch_names
from perfmod.patches.by import By
from perfmod.patches.parts import parts_of
from perfmod.patches.shards import shards_of
from perfmod.records import plain, restored
from perfmod.review.decisions import Decision, Decisions, render
from perfmod.review.items import Verdict
from perfmod.review.matching import found

EXAMPLES = GOLDEN.parent / "examples"
NAME = "zoo"
LOOP = """\
device = torch.device("cuda")
model = torch.nn.Linear(8, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.utils.data.TensorDataset(torch.randn(64, 8), torch.randint(0, 2, (64,)))
loader = torch.utils.data.DataLoader(data, batch_size=32, shuffle=True)
for images, labels in loader:
    images, labels = images.to(device), labels.to(device)
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
OPEN_QUESTION = GOLDEN / "cuda-launch-blocking" / "beside_streams.in.py"
OWNERS = "* @org/core\n/books/ @books\n/pair/data.py @data-team\n/digits/\n"

Cli = Callable[..., bytes]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the tests of this module share, since they are about the same files."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """State lies in the folder of the test, and git knows a name and a date."""
    for name, value in PLAIN.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PERFMOD_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("PERFMOD_CACHE_DIR", str(cache))


def write(root: Path, files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)


def repository(root: Path, files: Mapping[str, bytes]) -> Path:
    root.mkdir()
    git(root, "init", "--quiet", "--initial-branch=main")
    write(root, files)
    commit_all(root)
    return root


def a_bit_of_everything() -> dict[str, bytes]:
    """Files of many kinds: two that change together, Windows line ends, a notebook, one that is no Python."""
    pair = GOLDEN / "pageable-transfer" / "loader_in_another_file.in"
    return {
        "CODEOWNERS": OWNERS.encode(),
        "digits/train.py": (EXAMPLES / "digits" / "train.py").read_bytes(),
        "text/train.py": (EXAMPLES / "text" / "train.py").read_bytes().replace(b"\n", b"\r\n"),
        **{f"pair/{path.name}": path.read_bytes() for path in sorted(pair.iterdir())},
        "books/first.ipynb": notebooks.document(notebooks.text("# Training"), "import torch\n", LOOP),
        "questions/streams.py": OPEN_QUESTION.read_bytes(),
        "junk.py": b"import torch\n\ndef f(:\n",
        "tools/clean.py": b"import os\n",
    }


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return repository(tmp_path / NAME, a_bit_of_everything())


def request(project: Path, by: By = By.RULE) -> AnalysisRequest:
    commit = git(project, "rev-parse", "HEAD").decode().strip()
    return AnalysisRequest(NAME, project, commit, Options(), by)


def analysed(asked: AnalysisRequest, folder: Path) -> Analysis:
    folder.mkdir()
    found = run(asked, folder)
    assert isinstance(found, Analysis), found
    return found


def refused(asked: AnalysisRequest, folder: Path) -> Refused:
    folder.mkdir()
    found = run(asked, folder)
    assert isinstance(found, Refused), found
    assert str(folder) not in found.reason
    return found


def tree_of(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def committed(project: Path) -> dict[str, bytes]:
    return {name: data for name, data in tree_of(project).items() if not name.startswith(".git/")}


def clone(project: Path, place: Path) -> Path:
    git(project, "clone", "--quiet", str(project), str(place))
    return place


def perfmod(cwd: Path, *arguments: str) -> bytes:
    """What the command prints in a project; files that are no Python are no mistake of it."""
    command = [forked_python.perfmod(), "-m", "perfmod", *arguments]
    done = subprocess.run(command, cwd=cwd, capture_output=True, check=False)
    assert done.returncode in (0, 3), done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def applied(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files as `perfmod apply` leaves them."""
    root = repository(tmp_path_factory.mktemp("applied") / NAME, a_bit_of_everything())
    perfmod(root, "apply", ".")
    return {name: data for name, data in committed(root).items() if not name.startswith(".perfmod/")}


def outcomes(analysis: Analysis) -> dict[str, Outcome]:
    return {row.path: row.outcome for row in analysis.files}


@pytest.mark.parametrize("by", By)
def test_git_am_makes_of_it_what_apply_writes(project: Path, tmp_path: Path, applied: dict[str, bytes], by: By) -> None:
    analysis = analysed(request(project, by), tmp_path / "work")
    out = tmp_path / "work" / "out"
    copy = clone(project, tmp_path / "clone")
    assert [step.patch for step in analysis.steps] == sorted(path.name for path in (out / "patches").iterdir())
    for number, step in enumerate(analysis.steps, start=1):
        assert step.before == tuple(disk.digest((copy / path).read_bytes()) for path in step.files)
        git(copy, "am", "--quiet", "--keep-cr", str(out / "patches" / step.patch))
        assert tree_of(out / "steps" / str(number)) == {path: (copy / path).read_bytes() for path in step.files}
        changes = [line.split() for line in git(copy, "diff", "--numstat", "HEAD~1").decode().splitlines()]
        assert sorted(path for _, _, path in changes) == sorted(step.files)
        assert step.added == sum(int(added) for added, _, _ in changes)
        assert step.removed == sum(int(removed) for _, removed, _ in changes)
        message = git(copy, "log", "-1", "--format=%B").decode().strip()
        assert message == f"{step.subject}\n\n{step.body}".strip()
        assert step.branch == ""
    assert committed(copy) == applied
    assert subjects(copy) == ["everything", *(step.subject for step in analysis.steps)]
    rewritten = [row for row in analysis.findings if row.state == "rewritten"]
    assert sum(step.findings for step in analysis.steps) == len(rewritten) > 5
    git(project, "apply", stdin=(out / "changes.diff").read_bytes())
    assert committed(project) == applied


def test_rows_page_and_diff_are_those_of_the_commands(project: Path, tmp_path: Path) -> None:
    analysis = analysed(request(project), tmp_path / "work")
    out = tmp_path / "work" / "out"
    assert perfmod(project, "apply", ".", "--dry-run") == (out / "changes.diff").read_bytes()
    printed = perfmod(project, "apply", ".", "--dry-run", "--output-format", "json")
    assert printed == (out / "findings.json").read_bytes()
    perfmod(project, "review", ".", "--html", str(tmp_path / "review.html"))
    assert (tmp_path / "review.html").read_bytes() == (out / "review.html").read_bytes()
    told = json.loads(printed)
    kept = ("rewritten", "low-impact", "open-question", "on-request")
    expected = [(row["path"], row["line"], row["code"], row["state"], row["cell"], row["fingerprint"])
                for row in told["findings"] if row["state"] in kept]  # fmt: skip
    listed = [(row.path, row.line, row.code, row.state, row.cell, row.fingerprint) for row in analysis.findings]
    assert listed == expected
    assert {row.cell for row in analysis.findings if row.path.endswith(".ipynb")} == {3}


@pytest.mark.parametrize("is_sharded", [False, True])
def test_a_file_that_a_rewrite_makes_is_part_of_all(tmp_path: Path, is_sharded: bool) -> None:
    script = (GOLDEN / "launch-bound-step" / "two-loops.in.py").read_bytes()
    project = repository(tmp_path / NAME, {"engine/a.py": script, "engine/b.py": script, "train.py": b"import torch\n"})
    asked = evolve(request(project, By.FINDING), options=Options(select=("PM314",)), is_sharded=is_sharded)
    analysis = analysed(asked, tmp_path / "work")
    out = tmp_path / "work" / "out"
    made, first = "engine/graphed_step.py", analysis.steps[0]
    assert outcomes(analysis)[made] is Outcome.CHANGED
    assert dict(zip(first.files, first.before, strict=True))[made] == ""
    # What needs the same new file stays together where each branch stands for itself.
    assert [made in step.files for step in analysis.steps] == ([True] if is_sharded else [True, False, False, False])
    assert f"--- /dev/null\n+++ b/{made}\n".encode() in (out / "changes.diff").read_bytes()
    assert "also makes engine/graphed_step.py" in (out / "review.html").read_text()
    wanted = BranchesRequest(NAME, project, asked.commit, analysis.steps, out / "steps", "perfmod")
    made_branches = branching.run(wanted, tmp_path / "work")
    assert isinstance(made_branches, Branches)
    (branch,) = made_branches.branches
    assert (branch.outcome, branch.reason, branch.commits) == (Outcome.CHANGED, "", len(analysis.steps))
    copy = clone(project, tmp_path / "clone")
    perfmod(copy, "apply", ".", "--select", "PM314")
    for path, data in committed(copy).items():
        assert git(project, "show", f"{branch.name}:{path}") == data


def test_outcomes_of_files_and_of_the_project(project: Path, tmp_path: Path) -> None:
    analysis = analysed(request(project), tmp_path / "work")
    assert outcomes(analysis) == {
        "books/first.ipynb": Outcome.CHANGED,
        "digits/train.py": Outcome.CHANGED,
        "junk.py": Outcome.FAILED,
        "pair/data.py": Outcome.CHANGED,
        "pair/engine.py": Outcome.CHANGED,
        "pair/train.py": Outcome.UNCHANGED,
        "questions/streams.py": Outcome.NEEDS_A_PERSON,
        "text/train.py": Outcome.CHANGED,
        "tools/clean.py": Outcome.UNCHANGED,
    }
    assert (analysis.outcome, analysis.cause, analysis.reason) == (Outcome.CHANGED, Cause.NONE, "")
    assert analysis.kind == "plain"
    assert any(note.startswith("1 file failed: junk.py: line 3, ") for note in analysis.notes)
    assert restored(Analysis, json.loads(json.dumps(plain(analysis)))) == analysis
    assert restored(AnalysisRequest, json.loads(json.dumps(plain(request(project))))) == request(project)


@pytest.mark.parametrize(("name", "reason"), [
    ("cuda-launch-blocking/beside_streams", "line 8: PM403: the file uses CUDA streams, whose kernels may overlap"),
    ("loader-without-workers/random_augmentation", "line 24: PM201: different random numbers: torch.rand() (line 15) "),
])  # fmt: skip
def test_what_a_person_is_asked(tmp_path: Path, name: str, reason: str) -> None:
    project = repository(tmp_path / NAME, {"train.py": (GOLDEN / f"{name}.in.py").read_bytes()})
    analysis = analysed(request(project), tmp_path / "work")
    (row,) = analysis.files
    assert (row.outcome, analysis.outcome) == (Outcome.NEEDS_A_PERSON, Outcome.NEEDS_A_PERSON)
    assert row.reason.startswith(reason)
    question = next(found.question for found in analysis.findings if found.question)
    assert row.reason.endswith(f": {question}")
    asked = "; is it so that `DataLoader(Flipped(), batch_size=4, shuffle=True)` may have workers?"
    assert question.endswith(asked) == ("random" in name)


@pytest.mark.parametrize(("kept", "expected"), [
    (["tools/clean.py", "junk.py"], (Outcome.UNCHANGED, Cause.NONE, "")),
    (["questions/streams.py", "junk.py"], (Outcome.NEEDS_A_PERSON, Cause.QUESTION, "1 open question in 1 file")),
    (["CODEOWNERS"], (Outcome.SKIPPED, Cause.NO_PYTHON,
                      "no Python file found, apart from ignored or excluded ones")),
])  # fmt: skip
def test_a_project_in_which_nothing_is_rewritten(
    tmp_path: Path, kept: list[str], expected: tuple[Outcome, Cause, str]
) -> None:
    files = a_bit_of_everything()
    project = repository(tmp_path / NAME, {name: files[name] for name in kept})
    analysis = analysed(request(project), tmp_path / "work")
    assert (analysis.outcome, analysis.cause, analysis.reason) == expected
    assert analysis.steps == ()
    written = tree_of(tmp_path / "work" / "out")
    assert set(written) == (set() if expected[1] is Cause.NO_PYTHON else {"findings.json"})
    assert not (tmp_path / "work" / "tree").exists()


@pytest.mark.parametrize("from_snapshot", [False, True])
def test_no_folder_of_the_work_is_told(project: Path, tmp_path: Path, from_snapshot: bool) -> None:
    asked = evolve(request(project), date="2026-01-02T03:04:05Z", author="Bo <bo@example.org>")
    first = analysed(asked, tmp_path / "first")
    second_folder = tmp_path / "elsewhere" / "second"
    second_folder.mkdir(parents=True)
    if from_snapshot:
        (second_folder / "snapshot.tar").write_bytes(pack(project, asked.commit, everything=False))
        asked = evolve(asked, repository=None)
        shutil.rmtree(project)
    assert run(evolve(asked, use_cache=False), second_folder) == first
    assert run(asked, second_folder) == first
    written = tree_of(tmp_path / "first" / "out")
    assert tree_of(second_folder / "out") == written
    assert {path.name for path in second_folder.iterdir()} == {"out"} | ({"snapshot.tar"} if from_snapshot else set())
    for name, data in written.items():
        assert str(tmp_path).encode() not in data, name
    assert str(tmp_path) not in repr(first)
    (mail, *_) = (data.decode() for name, data in written.items() if name.startswith("patches/0001"))
    assert "From: Bo <bo@example.org>\nDate: Fri, 02 Jan 2026 03:04:05 +0000\n" in mail


def merged(project: Path, out: Path, analysis: Analysis) -> dict[str, bytes]:
    """The files once each step is a branch on top of the commit and all branches are merged."""
    for step in analysis.steps:
        git(project, "switch", "--quiet", "--create", f"perfmod/{step.branch}", "main")
        git(project, "am", "--quiet", "--keep-cr", str(out / "patches" / step.patch))
    git(project, "switch", "--quiet", "main")
    for step in reversed(analysis.steps):
        git(project, "merge", "--quiet", "--no-edit", f"perfmod/{step.branch}")
    return committed(project)


@pytest.mark.parametrize("by", By)
def test_branches_of_their_own_merge_into_what_apply_writes(
    project: Path, tmp_path: Path, applied: dict[str, bytes], by: By
) -> None:
    analysis = analysed(evolve(request(project, by), is_sharded=True), tmp_path / "work")
    out = tmp_path / "work" / "out"
    before = committed(project)
    assert merged(project, out, analysis) == applied
    assert len({path for step in analysis.steps for path in step.files}) == sum(
        len(step.files) for step in analysis.steps
    )
    for number, step in enumerate(analysis.steps, start=1):
        assert tree_of(out / "steps" / str(number)) == {path: applied[path] for path in step.files}
        assert step.before == tuple(disk.digest(before[path]) for path in step.files)


def test_shards_of_owners(project: Path, tmp_path: Path) -> None:
    """What two owners have to change together is one step of both."""
    analysis = analysed(evolve(request(project, By.OWNER), is_sharded=True), tmp_path / "work")
    assert [(step.branch, step.owners, step.files) for step in analysis.steps] == [
        ("books", ("@books",), ("books/first.ipynb",)),
        ("data-team-org-core", ("@data-team", "@org/core"), ("pair/data.py", "pair/engine.py")),
        ("org-core", ("@org/core",), ("text/train.py",)),
        ("without-owner", (), ("digits/train.py",)),
    ]
    assert not any("CODEOWNERS" in note for note in analysis.notes)


@pytest.mark.parametrize("is_sharded", [False, True])
def test_a_project_without_owners(project: Path, tmp_path: Path, is_sharded: bool) -> None:
    (project / "CODEOWNERS").unlink()
    commit_all(project)
    analysis = analysed(evolve(request(project, By.OWNER), is_sharded=is_sharded), tmp_path / "work")
    (step,) = analysis.steps
    assert (step.label, step.branch, step.owners) == ("without owner", "without-owner" if is_sharded else "", ())
    assert step.subject.startswith("without owner: ")
    assert analysis.notes[-1].startswith("no CODEOWNERS file (.github/CODEOWNERS, ")


def test_everything_as_one_step(project: Path, tmp_path: Path) -> None:
    analysis = analysed(request(project, By.PROJECT), tmp_path / "work")
    (step,) = analysis.steps
    codes = sorted({row.code for row in analysis.findings if row.state == "rewritten"})
    assert step.subject == (
        f"Rewrite training code for faster steps on CUDA: {step.findings} rewrites ({', '.join(codes)})"
    )
    assert (step.label, step.patch) == ("perfmod", "0001-perfmod.patch")


@pytest.mark.parametrize("folder", sorted(GOLDEN.glob("*/*.in")), ids=lambda path: path.name)
def test_a_shard_is_what_the_engine_makes_of_its_findings(tmp_path: Path, folder: Path) -> None:
    """Of files that belong together; each finding for itself is a shard, unless it needs others."""
    root = tmp_path.resolve() / "project"
    shutil.copytree(folder, root / "one")
    shutil.copytree(folder, root / "two")
    (root / ".git").mkdir()
    options = Options(unsafe=True, low_impact=True, extend_select=("ALL",))
    examined = examine(["."], options, cwd=root, jobs=1, use_cache=False)
    names = {card.code: card.name for card in catalog.cards()}
    shards = shards_of(examined, parts_of(examined, By.FINDING, names, lambda _path: ()))
    changed = {each.file.real: each.result.after for each in examined if each.result.before != each.result.after}
    assert {path: after for shard in shards for path, after in shard.after.items()} == changed
    assert sum(len(shard.after) for shard in shards) == len(changed)
    for shard in shards:
        alone = tmp_path / "alone"
        shutil.copytree(root, alone)
        for each in examined:
            if each.file.real not in shard.after:
                continue
            (alone / each.file.real.relative_to(root)).write_bytes(shard.after[each.file.real])
        left = examine(["."], options, cwd=alone, jobs=1, use_cache=False)
        still = {
            root / each.file.real.relative_to(alone): each.result.after
            for each in left
            if each.result.before != each.result.after
        }
        assert {path: still[path] for path in changed.keys() - shard.after.keys()} == {
            path: after for path, after in changed.items() if path not in shard.after
        }
        assert still.keys().isdisjoint(shard.after)
        shutil.rmtree(alone)


def decisions(project: Path, **verdicts: Verdict) -> str:
    """A file that decides about the findings of rules, by their codes."""
    examined = examine(["."], Options(), cwd=project, jobs=1, use_cache=False)
    rows: list[Decision] = [
        one.decided(verdicts[one.finding.code])
        for one in found(examined, Decisions.read(project))
        if one.finding.code in verdicts
    ]
    assert {row.rule for row in rows} == set(verdicts)
    return render(rows).decode()


def test_what_was_rejected_is_left_out(project: Path, tmp_path: Path) -> None:
    rejecting = decisions(project, PM201=Verdict.REJECTED)
    # Of the project's own decisions nothing holds beside them.
    write(project, {".perfmod/decisions.json": decisions(project, PM106=Verdict.REJECTED).encode()})
    commit_all(project)
    asked = request(project, By.FILE)
    own = analysed(asked, tmp_path / "own")
    given = analysed(evolve(asked, decisions=rejecting), tmp_path / "given")
    codes = [{row.code for row in each.findings if row.state == "rewritten"} for each in (own, given)]
    assert "PM201" in codes[0] - codes[1]
    assert "PM106" in codes[1] - codes[0]
    assert own.decided > 0
    assert given.decided > 0
    assert own.of == given.of
    write(project, {".perfmod/decisions.json": rejecting.encode()})
    perfmod(project, "apply", ".")
    for number, step in enumerate(given.steps, start=1):
        contents = {path: (project / path).read_bytes() for path in step.files}
        assert tree_of(tmp_path / "given" / "out" / "steps" / str(number)) == contents


def test_an_answered_question_needs_nobody_any_more(tmp_path: Path) -> None:
    project = repository(tmp_path / NAME, {"train.py": OPEN_QUESTION.read_bytes()})
    asked = request(project)
    before = analysed(asked, tmp_path / "before")
    assert (before.outcome, before.of) == (Outcome.NEEDS_A_PERSON, 0)
    (question,) = [row for row in before.findings if row.question]
    yes = analysed(evolve(asked, decisions=decisions(project, **{question.code: Verdict.ACCEPTED})), tmp_path / "yes")
    assert (yes.outcome, yes.decided, yes.of) == (Outcome.CHANGED, 1, 1)
    no = analysed(evolve(asked, decisions=decisions(project, **{question.code: Verdict.REJECTED})), tmp_path / "no")
    assert (no.outcome, {row.state for row in no.findings}) == (Outcome.UNCHANGED, {"on-request"})


def test_decisions_that_fit_nothing_are_told(project: Path, tmp_path: Path) -> None:
    asked = evolve(request(project), decisions=decisions(project, PM201=Verdict.REJECTED))
    write(project, {"digits/train.py": b"import torch\n"})
    commit_all(project)
    analysis = analysed(evolve(asked, commit=request(project).commit), tmp_path / "work")
    assert any(note.startswith("1 decision fits no rewrite any more: PM201 in digits/train.py: ")
               for note in analysis.notes)  # fmt: skip


def test_what_is_not_committed_is_told(project: Path, tmp_path: Path) -> None:
    assert not any("working tree" in note for note in analysed(request(project), tmp_path / "clean").notes)
    write(project, {"digits/train.py": b"import torch\n"})
    told = analysed(request(project), tmp_path / "dirty").notes
    assert "its working tree holds changes that are not committed; they were not looked at" in told


def test_links_of_the_project_lead_nowhere(project: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (project / ".perfmod").symlink_to(outside)
    commit_all(project)
    asked = evolve(request(project), decisions=decisions(project, PM201=Verdict.REJECTED))
    analysed(asked, tmp_path / "work")
    assert list(outside.iterdir()) == []


def test_a_wrong_configuration(project: Path, tmp_path: Path) -> None:
    write(project, {"pyproject.toml": b"[tool.perfmod]\nselct = ['PM201']\n"})
    commit_all(project)
    found = refused(request(project), tmp_path / "work")
    assert (found.outcome, found.cause) == (Outcome.FAILED, Cause.CONFIGURATION)
    assert found.reason == 'pyproject.toml: [tool.perfmod] has no key "selct"; did you mean "select"?'
    assert [path.name for path in (tmp_path / "work").iterdir()] == ["out"]


def test_decisions_that_cannot_be_read(project: Path, tmp_path: Path) -> None:
    found = refused(evolve(request(project), decisions="{"), tmp_path / "work")
    assert found.cause is Cause.CONFIGURATION
    assert found.reason.startswith(".perfmod/decisions.json: is not valid JSON: ")


def test_a_project_that_cannot_be_read(project: Path, tmp_path: Path) -> None:
    asked = request(project)
    assert refused(evolve(asked, commit="0" * 40), tmp_path / "commit").cause is Cause.GIT
    shutil.rmtree(project)
    assert refused(asked, tmp_path / "vanished").cause is Cause.VANISHED
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    (damaged / "snapshot.tar").write_bytes(b"no tar")
    assert isinstance(found := run(evolve(asked, repository=None), damaged), Refused)
    assert found.cause is Cause.DISK


def test_only_the_configuration_of_the_project_holds(project: Path, tmp_path: Path) -> None:
    (tmp_path / "perfmod.toml").write_text("ignore = ['PM201', 'PM202']\n")
    around = analysed(request(project), tmp_path / "around")
    assert {"PM201", "PM202"} <= {row.code for row in around.findings}
    write(project, {"perfmod.toml": b"ignore = ['PM201']\n"})
    commit_all(project)
    own = {row.code for row in analysed(request(project), tmp_path / "own").findings}
    assert "PM202" in own
    assert "PM201" not in own


def test_a_disk_that_takes_nothing(project: Path, tmp_path: Path) -> None:
    (tmp_path / "work").write_text("a file")
    found = run(request(project), tmp_path / "work")
    assert isinstance(found, Refused)
    assert (found.outcome, found.cause) == (Outcome.FAILED, Cause.DISK)


def test_the_working_directory_is_given_back(project: Path, tmp_path: Path) -> None:
    before = Path.cwd()
    analysed(request(project), tmp_path / "work")
    assert Path.cwd() == before
    assert [path.name for path in (tmp_path / "work").iterdir()] == ["out"]


def test_an_author_that_is_none(project: Path, tmp_path: Path) -> None:
    found = refused(evolve(request(project), author="Bo"), tmp_path / "work")
    assert found.reason == "Bo: is no author; write it as `Name <address>`"


def test_names_of_branches() -> None:
    labels = ["@org/team-a", "without owner", "@Org/Team_A", "ä", "ö", "x" * 99, "x" * 98]
    assert branch_names(labels) == [
        "org-team-a", "without-owner", "org-team-a-2", "part", "part-2", "x" * 60, f"{'x' * 60}-2",
    ]  # fmt: skip


def test_a_file_that_failed_makes_the_project_fail_only_alone() -> None:
    from perfmod.migrate.outcomes import project_outcome

    failed = FileRow("a.py", Outcome.FAILED, "cannot be read: permission denied")
    assert project_outcome([failed], []) == (
        Outcome.FAILED, Cause.FILES, "1 file failed: a.py: cannot be read: permission denied",
    )  # fmt: skip
    assert project_outcome([failed, FileRow("b.py", Outcome.UNCHANGED)], [])[0] is Outcome.UNCHANGED
    skipped = FileRow("c.py", Outcome.SKIPPED, "no Python")
    assert project_outcome([failed, skipped, failed], [])[2] == (
        "2 files failed: such as a.py: cannot be read: permission denied"
    )
    assert project_outcome([skipped], []) == (
        Outcome.SKIPPED, Cause.NO_PYTHON, "1 file was skipped: c.py: no Python",
    )  # fmt: skip
