"""PM403: every way to set the variable, and the mentions that do not."""

from __future__ import annotations

import pytest
from whole_files import WholeFiles

from perfmod.codemods.engine import Given, rewrite_together
from perfmod.transforms.leftovers.cuda_launch_blocking import CudaLaunchBlocking
from perfmod.transforms.rule import Safety

FILES = WholeFiles(CudaLaunchBlocking(), "import os\nimport torch")
CHANGES = {
    "item": ('os.environ["CUDA_LAUNCH_BLOCKING"] = "1"\nx = 1', "x = 1"),
    "default": ("os.environ.setdefault('CUDA_LAUNCH_BLOCKING', '1')\nx = 1", "x = 1"),
    "putenv": ('os.putenv("CUDA_LAUNCH_BLOCKING", "1")\nx = 1', "x = 1"),
    "imported": (
        'from os import environ\nenviron["CUDA_LAUNCH_BLOCKING"] = "1"',
        "from os import environ",
    ),
    "same line": ('os.environ["CUDA_LAUNCH_BLOCKING"] = "1"; x = 1', "x = 1"),
    "taken back later": (
        'os.environ["CUDA_LAUNCH_BLOCKING"] = "1"\nos.environ.pop("CUDA_LAUNCH_BLOCKING", None)',
        'os.environ.pop("CUDA_LAUNCH_BLOCKING", None)',
    ),
}


@pytest.mark.parametrize(("before", "after"), CHANGES.values(), ids=CHANGES)
def test_goes(before: str, after: str) -> None:
    FILES.assert_becomes(before, after)


def test_is_held_back_beside_streams() -> None:
    FILES.assert_becomes(
        'os.environ["CUDA_LAUNCH_BLOCKING"] = "1"\ns = torch.cuda.Stream()', "s = torch.cuda.Stream()", Safety.UNSAFE
    )


REFUSED = {
    "read": ('os.environ["CUDA_LAUNCH_BLOCKING"] = "1"\nprint(os.environ["CUDA_LAUNCH_BLOCKING"])', "read on line 4"),
    "asked for": (
        'os.environ["CUDA_LAUNCH_BLOCKING"] = "1"\nif os.getenv("CUDA_LAUNCH_BLOCKING"): slow()',
        "read on line 4",
    ),
    "algorithms": (
        'os.environ["CUDA_LAUNCH_BLOCKING"] = "1"\ntorch.use_deterministic_algorithms(True)',
        "`use_deterministic_algorithms` on line 4 asks for reproducible runs",
    ),
    "kernels": (
        'os.environ["CUDA_LAUNCH_BLOCKING"] = "1"\ntorch.backends.cudnn.deterministic = True',
        "`deterministic` on line 4 asks for reproducible runs",
    ),
    "workspace": (
        'os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"\nos.environ["CUDA_LAUNCH_BLOCKING"] = "1"',
        "`CUBLAS_WORKSPACE_CONFIG` on line 3",
    ),
    "helper": (
        'def setup_seed(n):\n    torch.manual_seed(n)\n    os.environ["CUDA_LAUNCH_BLOCKING"] = "1"',
        "`setup_seed` sets seeds",
    ),
    "helper of another name": (
        (
            "def prepare(n):\n    torch.manual_seed(n)\n    np.random.seed(n)\n"
            '    os.environ["CUDA_LAUNCH_BLOCKING"] = "1"'
        ),
        "`prepare` sets seeds",
    ),
    "comment": (
        'os.environ["CUDA_LAUNCH_BLOCKING"] = "1"  # for reproducibility',
        "a comment asks for it",
    ),
    "comment above": (
        '# the extension needs this,\n# see its README\nos.environ["CUDA_LAUNCH_BLOCKING"] = "1"',
        "a comment asks for it",
    ),
    "update": ('os.environ.update({"CUDA_LAUNCH_BLOCKING": "1", "A": "2"})', "together with other variables"),
    "update by keyword": ('os.environ.update(CUDA_LAUNCH_BLOCKING="1")', "together with other variables"),
    "child": ('run(env={**os.environ, "CUDA_LAUNCH_BLOCKING": "1"})', "another process"),
    "child's item": ('env["CUDA_LAUNCH_BLOCKING"] = "1"\nrun(env=env)', "another process"),
}


@pytest.mark.parametrize(("code", "reason"), REFUSED.values(), ids=REFUSED)
def test_is_refused(code: str, reason: str) -> None:
    assert reason in " | ".join(FILES.reasons(code))


@pytest.mark.parametrize(
    "code",
    [
        'os.environ["CUDA_LAUNCH_BLOCKING"] = "0"',
        'os.environ["CUDA_LAUNCH_BLOCKING"] = value',
        'if debug:\n    os.environ["CUDA_LAUNCH_BLOCKING"] = "1"',
        'print("CUDA_LAUNCH_BLOCKING=1 may help")',
        'HELP = {"CUDA_LAUNCH_BLOCKING": text}',
    ],
)
def test_is_silent(code: str) -> None:
    assert FILES.reasons(code) == []


def test_another_file_may_read_it() -> None:
    sets = b'import os\nos.environ["CUDA_LAUNCH_BLOCKING"] = "1"\nimport torch\nimport child\n'
    for reads in (b'import os\nprint(os.getenv("CUDA_LAUNCH_BLOCKING"))\n', b"import os\n"):
        files = [Given("train.py", sets), Given("child.py", reads, modules=("child",))]
        found, _ = rewrite_together(files, [CudaLaunchBlocking()])
        assert (found.after == sets) is (b"getenv" in reads)
        assert [finding.reason for finding in found.refused] == (
            ["the variable is read on line 2 of child.py"] if b"getenv" in reads else []
        )
