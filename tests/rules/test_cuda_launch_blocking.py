"""PM403: every way to set the variable, and the mentions that do not."""

from __future__ import annotations

import pytest
from whole_files import WholeFiles

from perfmod.codemods.engine import rewrite_together
from perfmod.codemods.results import Given
from perfmod.transforms.finding import Safety
from perfmod.transforms.leftovers.cuda_launch_blocking import CudaLaunchBlocking

FILES = WholeFiles(CudaLaunchBlocking(), "import os\nimport torch")
CHANGES = {
    "item": ('os.environ["CUDA_LAUNCH_BLOCKING"] = "1"\nx = 1', "x = 1"),
    "default": ("os.environ.setdefault('CUDA_LAUNCH_BLOCKING', '1')\nx = 1", "x = 1"),
    "putenv": ('os.putenv("CUDA_LAUNCH_BLOCKING", "1")\nx = 1', "x = 1"),
    "imported": ('from os import environ\nenviron["CUDA_LAUNCH_BLOCKING"] = "1"', "from os import environ"),
    "same line": ('os.environ["CUDA_LAUNCH_BLOCKING"] = "1"; x = 1', "x = 1"),
    "taken back later": ('os.environ["CUDA_LAUNCH_BLOCKING"] = "1"\nos.environ.pop("CUDA_LAUNCH_BLOCKING", None)',
        'os.environ.pop("CUDA_LAUNCH_BLOCKING", None)'),
}  # fmt: skip


@pytest.mark.parametrize(("before", "after"), CHANGES.values(), ids=CHANGES)
def test_goes(before: str, after: str) -> None:
    FILES.assert_becomes(before, after)


def test_is_held_back_beside_streams() -> None:
    FILES.assert_becomes(
        'os.environ["CUDA_LAUNCH_BLOCKING"] = "1"\ns = torch.cuda.Stream()', "s = torch.cuda.Stream()", Safety.UNSAFE
    )


TIMED = """\
os.environ["CUDA_LAUNCH_BLOCKING"] = "1"
def fit(model, loader, optimizer):
    start = time.time()
    for step, (x, y) in enumerate(loader):
        {first}
        loss = F.cross_entropy(model(x.cuda()), y.cuda())
        loss.backward()
        {last}
        optimizer.step()
    print(time.time() - start)
"""


@pytest.mark.parametrize(("first", "last", "line"), [
    ("since = time.time()", "print(time.time() - since)", 8),
    ("since = time.perf_counter()", "torch.cuda.synchronize(); print(time.perf_counter() - since)", None),
    ("pass", "pass", None),
    ("pass", "if step % 100 == 0: print(time.time() - start)", None),
])  # fmt: skip
def test_is_held_back_where_a_clock_times_the_steps(first: str, last: str, line: int | None) -> None:
    files = WholeFiles(CudaLaunchBlocking(), "import os, time\nimport torch\nimport torch.nn.functional as F")
    (finding,) = files.result(TIMED.format(first=first, last=last)).applied
    assert finding.safety is (Safety.SAFE if line is None else Safety.OPT_IN)
    reason = f"`time.time()` on line {line} times the step: without this setting it would measure the launches only"
    assert finding.reason == (reason if line is not None else "the kernels run in the same order")


def test_clocks_of_another_program_are_nothing_to_it() -> None:
    sets = 'import os\nos.environ["CUDA_LAUNCH_BLOCKING"] = "1"\nimport torch\nimport {module}\n'
    loop = "import time\nfor x in loader:\n    model(x).sum().backward()\n    {line}\n"
    files = [
        Given("first.py", sets.format(module="timed").encode()),
        Given("second.py", sets.format(module="plain").encode()),
        Given("timed.py", loop.format(line="print(time.time())").encode(), modules=("timed",)),
        Given("plain.py", loop.format(line="pass").encode(), modules=("plain",)),
    ]
    first, second, *_ = rewrite_together(files, [CudaLaunchBlocking()])
    (finding,) = first.held_back
    assert finding.reason.startswith("`time.time()` on line 4 of timed.py times the step")
    assert len(second.applied) == 1


REFUSED = {
    "read": ('os.environ["CUDA_LAUNCH_BLOCKING"] = "1"\nprint(os.environ["CUDA_LAUNCH_BLOCKING"])',
        "line 4 names the variable"),
    "asked for": ('os.environ["CUDA_LAUNCH_BLOCKING"] = "1"\nif os.getenv("CUDA_LAUNCH_BLOCKING"): slow()',
        "line 4 names the variable"),
    "algorithms": ('os.environ["CUDA_LAUNCH_BLOCKING"] = "1"\ntorch.use_deterministic_algorithms(True)',
        "`use_deterministic_algorithms` asks for reproducible runs"),
    "kernels": ('os.environ["CUDA_LAUNCH_BLOCKING"] = "1"\ntorch.backends.cudnn.deterministic = True',
        "`.deterministic = True` asks for reproducible runs"),
    "workspace": ('os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"\nos.environ["CUDA_LAUNCH_BLOCKING"] = "1"',
        "`CUBLAS_WORKSPACE_CONFIG` asks"),
    "helper": ('def setup_seed(n):\n    torch.manual_seed(n)\n    os.environ["CUDA_LAUNCH_BLOCKING"] = "1"',
        "`setup_seed` sets seeds"),
    "helper of another name": (
        (
            "def prepare(n):\n    torch.manual_seed(n)\n    np.random.seed(n)\n"
            '    os.environ["CUDA_LAUNCH_BLOCKING"] = "1"'
        ),
        "`prepare` sets seeds",
    ),
    "comment": ('os.environ["CUDA_LAUNCH_BLOCKING"] = "1"  # for reproducibility', "a comment asks for it"),
    "comment above": ('# the extension needs this,\n# see its README\nos.environ["CUDA_LAUNCH_BLOCKING"] = "1"',
        "a comment asks for it"),
}  # fmt: skip


@pytest.mark.parametrize(("code", "reason"), REFUSED.values(), ids=REFUSED)
def test_is_refused(code: str, reason: str) -> None:
    assert reason in " | ".join(FILES.reasons(code))


@pytest.mark.parametrize("code", [
    'os.environ["CUDA_LAUNCH_BLOCKING"] = "0"',
    'os.environ["CUDA_LAUNCH_BLOCKING"] = value',
    'if debug:\n    os.environ["CUDA_LAUNCH_BLOCKING"] = "1"',
    'print("CUDA_LAUNCH_BLOCKING=1 may help")',
    'HELP = {"CUDA_LAUNCH_BLOCKING": text}',
])  # fmt: skip
def test_is_silent(code: str) -> None:
    assert FILES.reasons(code) == []


def test_another_file_may_read_it() -> None:
    sets = b'import os\nos.environ["CUDA_LAUNCH_BLOCKING"] = "1"\nimport torch\nimport child\n'
    for reads in (b'import os\nprint(os.getenv("CUDA_LAUNCH_BLOCKING"))\n', b"import os\n"):
        files = [Given("train.py", sets), Given("child.py", reads, modules=("child",))]
        found, _ = rewrite_together(files, [CudaLaunchBlocking()])
        assert (found.after == sets) is (b"getenv" in reads)
        assert [finding.reason for finding in found.refused] == (
            ["line 2 of child.py names the variable as well"] if b"getenv" in reads else []
        )


@pytest.mark.parametrize(("line", "starts"), [
    ("subprocess.run([sys.executable, 'eval.py'])", "subprocess.run"),
    ("subprocess.Popen('python eval.py', shell=True)", "subprocess.Popen"),
    ("os.system(f'./run {x}')", "os.system"),
    ("multiprocessing.Process(target=tools.work).start()", "multiprocessing.Process"),
    ("subprocess.check_output(['git', 'rev-parse', 'HEAD'])", ""),
    ("multiprocessing.Process(target=work).start()", ""),
    ("torch.multiprocessing.spawn(work, nprocs=2)", ""),
])  # fmt: skip
def test_programs_that_inherit_it(line: str, starts: str) -> None:
    imports = "import multiprocessing\nimport subprocess\nimport sys\n"
    code = f"{imports}\n\ndef work(rank=0):\n    pass\n\n\nos.environ['CUDA_LAUNCH_BLOCKING'] = '1'\n{line}"
    if starts:
        reason = f"`{starts}` on line 13 starts a process, which inherits the variable"
        assert FILES.reasons(code) == [reason]
    else:
        FILES.assert_becomes(code, code.replace("os.environ['CUDA_LAUNCH_BLOCKING'] = '1'\n", ""))
