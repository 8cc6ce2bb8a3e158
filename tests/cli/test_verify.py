"""`perfmod verify` and `apply --verify` from end to end, on the CPU, where equality alone is judged."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import forked_python
import psutil
import pytest
from cli_fakes.running import Run, Write

from perfmod.codemods import catalog
from perfmod.errors import ExitCode
from perfmod.review.decisions import Decision, render
from perfmod.review.items import Verdict
from perfmod.verify.job import RUN_VARIABLE
from perfmod.verify.template import Template

SCRIPT = """\
import sys

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
inputs, target = torch.randn(64, 4), torch.randn(64, 1)


def torch_slow():
    return 1.0


def torch_fast():
    return 1.0


for step in range(int(sys.argv[1]) if len(sys.argv) > 1 else 30):
    loss = (model(inputs) - target).square().mean() * torch_slow()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    torch.save(model.state_dict(), "checkpoint.pt")
"""
RULES = catalog.rules
"""The real ones; the command runs with made-up ones elsewhere."""
MARK = "PERFMOD_TEST_OF_VERIFY"
FAST = ("--device", "cpu", "--quick", "--steps", "5")


@pytest.fixture(autouse=True)
def _forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scripts run by a Python that has imported torch already, and so do the processes of `torchrun`."""
    monkeypatch.setattr(sys, "executable", forked_python.python())
    monkeypatch.setenv(forked_python.RANKS_BY, forked_python.python())
    for name, value in forked_python.THREADS.items():
        monkeypatch.setenv(name, value)


def left_behind(mark: str) -> list[int]:
    """Processes of runs that are still there, of those with `mark` in their environment."""

    def is_one(process: psutil.Process) -> bool:
        try:
            environment = process.environ()
        except psutil.Error:
            return False
        return RUN_VARIABLE in environment and environment.get(MARK) == mark

    return [process.pid for process in psutil.process_iter() if is_one(process)]


@pytest.mark.exhaustive
def test_two_scripts_that_train_alike(project: Path, perfmod: Run, write: Write) -> None:
    write("train.py", SCRIPT)
    write("other.py", SCRIPT.replace(".square()", ".pow(2)"))
    write("checkpoint.pt", b"mine")
    ran = perfmod("verify", "train.py", "--against", "other.py", *FAST, "--report", "out", "--", "12")
    assert ran.code == ExitCode.OK, ran.err
    assert ran.out.decode().startswith("proven: the same training over 5 steps; speed was not judged on the CPU")
    evidence = json.loads((project / "out" / "evidence.json").read_text("utf-8"))
    assert (evidence["verdict"], evidence["arguments"], evidence["equality"]["steps"]) == ("proven", ["12"], 5)
    assert {path.name for path in (project / "out").iterdir()} == {"evidence.json", "report.html", "report.md"}
    assert (project / "checkpoint.pt").read_bytes() == b"mine"
    assert {path.name for path in project.iterdir()} == {".git", "train.py", "other.py", "checkpoint.pt", "out"}


@pytest.mark.exhaustive
def test_two_scripts_that_train_differently(perfmod: Run, write: Write) -> None:
    write("train.py", SCRIPT)
    write("other.py", SCRIPT.replace("lr=0.1", "lr=0.101"))
    ran = perfmod("verify", "train.py", "--against", "other.py", *FAST, "--output-format", "json")
    assert ran.code == ExitCode.REFUTED
    evidence = json.loads(ran.out)
    assert evidence["verdict"] == "refuted"
    assert "lr" in evidence["reason"]


@pytest.mark.exhaustive
def test_a_script_that_fails_on_the_other_side(perfmod: Run, write: Write) -> None:
    write("train.py", SCRIPT)
    write("other.py", SCRIPT.replace("    optimizer.step()", "    raise ValueError('no more')"))
    ran = perfmod("verify", "train.py", "--against", "other.py", *FAST)
    assert ran.code == ExitCode.REFUTED
    assert "ValueError: no more (other.py:" in ran.out.decode()


@pytest.mark.parametrize(("change", "code", "reason"), [
    pytest.param(
        ("    optimizer.step()", "    pass"), ExitCode.INCONCLUSIVE, "optimizer", marks=pytest.mark.exhaustive
    ),
    pytest.param(("import torch\n", "import json\n"), ExitCode.FAILED, "it crashed", marks=pytest.mark.exhaustive),
    (("import sys", "input()"), ExitCode.FAILED, "asks for input"),
    pytest.param(
        ("torch.manual_seed(0)", "import nowhere"),
        ExitCode.FAILED,
        "No module named 'nowhere'",
        marks=pytest.mark.exhaustive,
    ),
])  # fmt: skip
def test_an_original_that_gives_nothing_to_judge(
    perfmod: Run,
    write: Write,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    change: tuple[str, str],
    code: ExitCode,
    reason: str,
) -> None:
    monkeypatch.setenv(MARK, str(tmp_path))
    write("train.py", SCRIPT.replace(*change))
    ran = perfmod("verify", "train.py", "--against", "train.py", *FAST)
    assert ran.code == code
    assert reason in ran.out.decode().splitlines()[0]
    assert not left_behind(str(tmp_path))


def test_wrong_usage(project: Path, perfmod: Run, write: Write) -> None:
    write("train.py", SCRIPT)
    (project / "folder").mkdir()
    assert perfmod("verify", "missing.py", *FAST).complaint == "missing.py: no such file"
    assert "--entry" in perfmod("verify", "folder", *FAST).complaint
    unknown = perfmod("verify", "train.py", "--against", "train.py", *FAST, "--python", "no-such-python")
    assert unknown.code == ExitCode.FAILED
    assert "no-such-python" in unknown.complaint
    both = perfmod("apply", "train.py", "folder", "--verify", *FAST)
    assert both.code == ExitCode.USAGE
    assert "--verify takes one script" in both.complaint


DATA_PARALLEL = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
samples = TensorDataset(torch.randn(32, 4), torch.randn(32, 2))
loader = DataLoader(samples, batch_size=8, shuffle=True)
model = nn.DataParallel(nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.1), nn.Linear(8, 2)).to(device))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.long
def test_one_process_against_several(perfmod: Run, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "rules", RULES)
    # To be forked from the Python of these tests is quicker than from a process that imports torch once more.
    monkeypatch.setattr(Template, "fork", lambda *_: None)
    write("train.py", DATA_PARALLEL)
    asked = ("verify", "train.py", "--select", "PM311", *FAST)
    alone = perfmod(*asked)
    assert alone.code == ExitCode.USAGE
    assert "PM311 makes several processes of one: name their number, --nproc N" in alone.complaint
    ran = perfmod(*asked, "--nproc", "2", "--output-format", "json")
    assert ran.code == ExitCode.OK, ran.out.decode()
    equality = json.loads(ran.out)["equality"]
    assert equality["reason"].startswith("all 2 ranks: without dropout: ")
    held = {check["name"] for check in equality["checks"]}
    assert {
        "parameters of the processes",
        "without dropout: batches",
        "without dropout: loss curve",
        "with short epochs",
    } <= held, held


def test_no_gpu(perfmod: Run, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    write("train.py", SCRIPT)
    ran = perfmod("verify", "train.py", "--against", "train.py")
    assert ran.code == ExitCode.FAILED
    assert "--device cpu" in ran.complaint


def test_nothing_to_rewrite(perfmod: Run, write: Write) -> None:
    write("train.py", SCRIPT.replace("torch_slow", "other"))
    ran = perfmod("verify", "train.py", *FAST)
    assert ran.code == ExitCode.OK
    assert "nothing to verify" in ran.out.decode().splitlines()[0]


@pytest.mark.exhaustive
def test_apply_keeps_what_is_proven(project: Path, perfmod: Run, write: Write) -> None:
    """The made-up rules call `torch_fast` for `torch_slow`, which changes nothing here."""
    write("train.py", SCRIPT)
    ran = perfmod("apply", "train.py", "--verify", *FAST, "--", "9")
    assert ran.code == ExitCode.OK, ran.err
    assert ".mean() * torch_fast()\n" in (project / "train.py").read_text()
    assert "proven" in ran.err


@pytest.mark.exhaustive
def test_a_run_answers_open_questions(project: Path, perfmod: Run, write: Write) -> None:
    """The made-up rule asks whether the argument of `torch_risky` is a scalar."""
    risky = "\n\ndef torch_risky(x):\n    return 1.0\n\n\ndef torch_brave(x):\n    return 1.0\n"
    calls = "    torch_risky(loss)\n    torch_risky(inputs)\n    torch_risky(loss + 1)\n    optimizer.step()"
    text = SCRIPT.replace("torch_slow", "other").replace("\n\ndef other", f"{risky}\n\ndef other")
    path = write("train.py", text.replace("    optimizer.step()", calls))
    ran = perfmod("apply", "train.py", "--verify", *FAST, "--report", "out", "--output-format", "json", "--", "9")
    assert ran.code == ExitCode.OK, ran.err
    assert "torch_brave(loss)\n    torch_risky(inputs)\n    torch_risky(loss + 1)\n" in path.read_text()
    rows = {row["line"]: row for row in json.loads(ran.out)["findings"]}
    kept, wrong, unseen = (rows[line] for line in sorted(rows))
    assert kept["observed"] == ["`loss`: a float32 tensor of shape [] on cpu"]
    assert kept["questions"][0]["predicate"] == "is-scalar"
    assert "it saw a float32 tensor of shape [64, 4] on cpu" in wrong["reason"]
    assert "a run cannot answer this" in unseen["reason"]
    found = json.loads((project / "out" / "evidence.json").read_text("utf-8"))["findings"]
    assert [row["outcome"] for row in found] == ["kept", "withdrawn", "open"]
    again = perfmod("verify", "train.py", "--read", "out/evidence.json")
    assert "stale: train.py has changed since" in again.out.decode()


@pytest.mark.exhaustive
def test_what_people_decided_is_proven_and_nothing_else(project: Path, perfmod: Run, write: Write) -> None:
    """Who accepted a rewrite has answered its open question, which no run could; what was rejected is not tried."""
    risky = "\n\ndef torch_risky(x):\n    return 1.0\n\n\ndef torch_brave(x):\n    return 1.0\n"
    calls = "    torch_risky(loss + 1)\n    torch_risky(inputs)\n    optimizer.step()"
    text = SCRIPT.replace("\n\ndef torch_slow", f"{risky}\n\ndef torch_slow").replace("    optimizer.step()", calls)
    path = write("train.py", text)
    found = json.loads(perfmod("check", "train.py", "--unsafe", "--output-format", "json").out)["findings"]
    rows = {row["line"]: row for row in found if row["fixable"]}
    slow, accepted, _ = (rows[line] for line in sorted(rows))
    assert accepted["questions"]
    verdicts = [(slow, Verdict.REJECTED), (accepted, Verdict.ACCEPTED)]
    write(
        ".perfmod/decisions.json",
        render(
            Decision("train.py", row["code"], row["scope"], row["fingerprint"], 1, 1, verdict)
            for row, verdict in verdicts
        ),
    )
    given = ("--decisions", ".perfmod/decisions.json", "--report", "out")
    ran = perfmod("apply", "train.py", "--verify", *FAST, *given, "--", "9")
    assert ran.code == ExitCode.OK, ran.err
    assert path.read_text() == text.replace("torch_risky(loss + 1)", "torch_brave(loss + 1)")
    evidence = json.loads((project / "out" / "evidence.json").read_text("utf-8"))
    assert [row["code"] for row in evidence["rules"]] == [accepted["code"]]
    assert perfmod("verify", "train.py", *FAST, "--", "9").out.decode().count(slow["code"]) == 0


@pytest.mark.exhaustive
def test_apply_withdraws_what_is_refuted(perfmod: Run, write: Write) -> None:
    text = SCRIPT.replace("def torch_fast():\n    return 1.0", "def torch_fast():\n    return 1.1")
    path = write("train.py", text)
    ran = perfmod("apply", "train.py", "--verify", *FAST)
    assert ran.code == ExitCode.REFUTED
    assert path.read_text() == text
    assert "withdrawn" in ran.err


ENGINE = """\
import torch


def torch_slow():
    return 1.0


def torch_fast():
    return 1.0


def torch_far():
    return 1.0


def loss_of(output, target):
    return (output - target).square().mean() * torch_slow() * torch_far()
"""
IN_TWO = SCRIPT.replace("import sys\n", "import sys\n\nfrom engine import loss_of\n").replace(
    "(model(inputs) - target).square().mean() * torch_slow()", "loss_of(model(inputs), target)"
)


@pytest.mark.exhaustive
def test_the_other_files_of_the_training(project: Path, perfmod: Run, write: Write) -> None:
    """What is verified and written is the whole training; a script of the folder that calls into it changes along."""
    write("train.py", IN_TWO)
    write("engine.py", ENGINE)
    write("evaluate.py", "import torch\nfrom engine import torch_far\n\ntorch_far()\ntorch_slow()\n")
    ran = perfmod("apply", ".", "--entry", "train.py", "--verify", *FAST)
    assert ran.code == ExitCode.OK, ran.err
    assert ".mean() * torch_fast() * torch_near()\n" in (project / "engine.py").read_text()
    expected = "import torch\nfrom engine import torch_near\n\ntorch_near()\ntorch_slow()\n"
    assert (project / "evaluate.py").read_text() == expected
    assert "evaluate.py: is not imported by this script, and changes only together with files that are" in ran.err
    assert "engine.py:17" in ran.err


@pytest.mark.exhaustive
def test_what_is_refuted_in_another_file_is_withdrawn_there(perfmod: Run, write: Write) -> None:
    """Also what belongs to it elsewhere; the other rule's rewrite stays."""
    write("train.py", IN_TWO)
    wrong = ENGINE.replace(
        "def torch_far():\n    return 1.0", "def torch_far():\n    return len(torch_far.__name__) / 9"
    )
    engine = write("engine.py", wrong)
    caller = write("evaluate.py", "from engine import torch_far\n\ntorch_far()\n")
    ran = perfmod("apply", ".", "--entry", "train.py", "--verify", *FAST)
    assert ran.code == ExitCode.OK, ran.err
    assert engine.read_text() == wrong.replace("* torch_slow()", "* torch_fast()")
    assert caller.read_text() == "from engine import torch_far\n\ntorch_far()\n"
    assert "withdrawn" in ran.err


@pytest.mark.exhaustive
def test_a_file_of_the_folder_that_the_script_does_not_import(project: Path, perfmod: Run, write: Write) -> None:
    write("train.py", IN_TWO)
    write("engine.py", ENGINE)
    write("other.py", "torch_slow()\n")
    ran = perfmod("apply", ".", "--entry", "train.py", "--verify", *FAST)
    assert ran.code == ExitCode.OK, ran.err
    assert "torch_fast() * torch_near()" in (project / "engine.py").read_text()
    assert (project / "other.py").read_text() == "torch_slow()\n"
    assert "other.py: is not imported by this script, so its rewrites are not verified" in ran.err


@pytest.mark.exhaustive
def test_ctrl_c_leaves_nothing_behind(project: Path, write: Write, tmp_path: Path) -> None:
    write("train.py", SCRIPT.replace("    optimizer.step()", "    optimizer.step(); import time; time.sleep(60)"))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    command = [sys.executable, "-m", "perfmod", "verify", "train.py", "--against", "train.py", *FAST]
    environment = {**os.environ, "TMPDIR": str(scratch), MARK: str(tmp_path)}
    started = subprocess.Popen(command, cwd=project, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process = psutil.Process(started.pid)
    # A process that has imported torch, and the runs that are forked from it.
    while started.poll() is None and len(children(process)) < 2:
        time.sleep(0.05)
    started.send_signal(2)
    _, err = started.communicate(timeout=300)
    assert (started.returncode, err.decode()) == (ExitCode.INTERRUPTED, "perfmod: interrupted\n")
    assert not left_behind(str(tmp_path))
    assert list(scratch.iterdir()) == []


def children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return [each for each in process.children(recursive=True) if each.is_running() and each.cmdline()]
    except psutil.Error:
        return []


def other_python() -> tuple[str, dict[str, str]] | None:
    """A supported Python of another version than this one, and the environment it needs."""
    for minor in (10, 11, 12, 13):
        name = f"python3.{minor}"
        path = shutil.which(name)
        if path is None or minor == sys.version_info.minor:
            continue
        for chosen in ({}, *({"PYENV_VERSION": f"3.{minor}.{patch}"} for patch in range(20))):
            done = subprocess.run([path, "-c", ""], env={**os.environ, **chosen}, capture_output=True, check=False)
            if done.returncode == 0:
                return path, chosen
    return None


@pytest.mark.exhaustive
def test_an_interpreter_of_another_version_and_environment(project: Path, write: Write, tmp_path: Path) -> None:
    """A new environment of another Python has perfmod and no torch; the script runs in that of these tests."""
    found = other_python()
    if found is None:
        pytest.skip("no other supported Python is installed")
    path, environment = found
    home = tmp_path / "other"
    subprocess.run([path, "-m", "venv", home], env={**os.environ, **environment}, check=True)
    root = Path(__file__).resolve().parents[2]
    install = [home / "bin" / "pip", "install", "--quiet", "--no-input", f"{root}[verify]"]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"cannot install into {path}: {done.stderr[-200:]}")
    write("train.py", SCRIPT)
    write("other.py", SCRIPT.replace("lr=0.1", "lr=0.101"))
    python = home / "bin" / "python"
    assert subprocess.run([python, "-c", "import torch"], capture_output=True, check=False).returncode != 0
    for other, code in (("train.py", ExitCode.OK), ("other.py", ExitCode.REFUTED)):
        command = [python, "-m", "perfmod", "verify", "train.py", "--against", other, "--python", sys.executable, *FAST]
        ran = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
        assert ran.returncode == code, ran.stdout + ran.stderr
