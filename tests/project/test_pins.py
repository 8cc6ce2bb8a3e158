"""What requirements say of the newest torch, and what becomes of rewrites that need a newer one."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfmod.codemods.engine import rewrite_together
from perfmod.codemods.results import Choice, Given, Pin
from perfmod.project.pins import Pins
from perfmod.transforms.feeding.pageable_transfer import PageableTransfer
from perfmod.transforms.syncs.masked_loss import MaskedLoss

LINES = {
    "torch==1.6.0": (1, 6, 0),
    "torch == 1.6.0  # with CUDA 10.1": (1, 6, 0),
    "torch==1.7.1+cu110": (1, 7, 1),
    "torch==2.*": (2,),
    "torch<=1.9": (1, 9),
    "torch<1.8": (1, 7),
    "torch<1.7.1": (1, 7),
    "torch>=1.4,<2.0": (1,),
    "torch>=1.4, <=1.10.2": (1, 10, 2),
    "torch~=1.6.0": (1, 6),
    "  - pytorch=1.5": (1, 5),
    "    'torch==1.4.0',": (1, 4, 0),
    "torch>=1.4": None,
    "torch": None,
    "torch-scatter==2.0.4": None,
    "torch_geometric==1.6.1": None,
    "pytorch-lightning==1.0.2": None,
    "# torch==1.6.0": None,
    "-f https://download.pytorch.org/whl/torch_stable.html": None,
    "torch!=1.9": None,
}


@pytest.mark.parametrize("line", LINES)
def test_bounds(line: str, tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text(f"numpy\n{line}\n")
    found = Pins().of(tmp_path / "train.py")
    assert (found.newest if found else None) == LINES[line]


def test_a_readme_holds_nothing_back(tmp_path: Path) -> None:
    """It tells what was new when it was written; a list of requirements tells what is installed."""
    (tmp_path / "README.md").write_text("Requires PyTorch 0.4 or 0.5")
    assert Pins().of(tmp_path / "train.py") is None
    (tmp_path / "requirements.txt").write_text("torch==1.6")
    assert Pins().of(tmp_path / "train.py") == Pin((1, 6), "requirements.txt asks for torch==1.6")


def test_the_nearest_list_counts_and_the_oldest_of_several(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "old" / "deep").mkdir(parents=True)
    (tmp_path / "requirements.txt").write_text("torch==2.1")
    (tmp_path / "old" / "requirements-cpu.txt").write_text("torch==1.8.1")
    (tmp_path / "old" / "environment.yml").write_text("  - pytorch=1.7.0")
    pins = Pins()
    assert pins.of(tmp_path / "train.py") == Pin((2, 1), "requirements.txt asks for torch==2.1")
    assert pins.of(tmp_path / "old" / "deep" / "train.py") == Pin((1, 7, 0), "environment.yml asks for pytorch=1.7.0")


def test_nothing_is_read_above_the_repository(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("torch==1.6")
    (tmp_path / "own" / ".git").mkdir(parents=True)
    assert Pins().of(tmp_path / "own" / "train.py") is None


def test_lists_that_cannot_be_read_say_nothing(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_bytes("torch==1.6".encode("utf-16"))
    (tmp_path / "requirements-dir.txt").mkdir()
    assert Pins().of(tmp_path / "train.py") is None


@pytest.mark.parametrize(("newest", "version", "allowed"), [
    ((1, 6, 0), "1.6", True),
    ((1, 6, 0), "1.12", False),
    ((1, 12), "1.12", True),
    ((1,), "1.12", True),
    ((1,), "2.0", False),
    ((2, 1), "1.12", True),
])  # fmt: skip
def test_what_a_pin_allows(newest: tuple[int, ...], version: str, *, allowed: bool) -> None:
    assert Pin(newest, "").allows(version) is allowed


CODE = b"""import torch
import torch.nn.functional as F


def step(logits: torch.Tensor, labels: torch.Tensor):
    mask = labels != -100
    F.cross_entropy(logits[mask], labels[mask]).backward()
"""


def test_what_needs_a_newer_torch_is_held_back() -> None:
    def examined(pin: Pin | None) -> tuple[bool, list[str]]:
        (result,) = rewrite_together([Given("train.py", CODE, pin=pin)], [MaskedLoss()], Choice())
        return bool(result.applied), [finding.reason for finding in result.held_back]

    assert examined(None) == (True, [])
    assert examined(Pin((2, 1), "")) == (True, [])
    held_back = "it needs torch 1.12 or later, and requirements.txt asks for torch==1.6.0"
    assert examined(Pin((1, 6, 0), "requirements.txt asks for torch==1.6.0")) == (False, [held_back])


def test_a_loss_that_is_read_as_a_vector_tells_of_an_old_torch() -> None:
    old = CODE.replace(
        b"    F.cross_entropy(logits[mask], labels[mask]).backward()",
        b"""\
    loss = F.cross_entropy(logits[mask], labels[mask])
    loss.backward()
    print(loss.data[0])""",
    )
    (result,) = rewrite_together([Given("train.py", old)], [MaskedLoss()], Choice())
    reason = "it needs torch 1.12 or later, and line 9 uses `loss.data[0]`, which only works before 0.4"
    assert [finding.reason for finding in result.held_back] == [reason]
    (result,) = rewrite_together([Given("train.py", old.replace(b"loss.data", b"(loss + 1).data"))], [MaskedLoss()])
    assert "`(loss + 1).data[0]`" in result.held_back[0].reason
    helper = old + b"\n\ndef ssim(x, whole=True):\n    return x.mean() if whole else x\n\n\nprint(ssim(1).data[0])\n"
    (result,) = rewrite_together([Given("train.py", helper.replace(b"loss.data[0]", b"loss"))], [MaskedLoss()])
    assert "`ssim(1).data[0]`" in result.held_back[0].reason
    for other in (b"loss.data[1]", b"logits.data[0]", b"loss.data"):
        (result,) = rewrite_together([Given("train.py", old.replace(b"loss.data[0]", other))], [MaskedLoss()], Choice())
        assert len(result.applied) == 1


def test_copies_that_do_not_wait_need_the_first_torch_that_has_them() -> None:
    code = b"""\
import torch
from torch.utils.data import DataLoader, TensorDataset


def train(model, optimizer, device):
    loader = DataLoader(TensorDataset(torch.zeros(8, 3)), batch_size=4)
    for (x,) in loader:
        loss = model(x.to(device)).sum()
        loss.backward()
        optimizer.step()
"""

    def applied(newest: tuple[int, ...]) -> int:
        (result,) = rewrite_together([Given("train.py", code, pin=Pin(newest, ""))], [PageableTransfer()], Choice())
        return len(result.applied)

    assert (applied((0, 4, 0)), applied((0, 4, 1))) == (0, 1)
    code = code.replace(b"x.to(device)", b"x.transpose(0, 1).to(device)")  # such tensors raise before 1.2
    assert (applied((1, 1)), applied((1, 2))) == (0, 1)


def test_volatile_inputs_tell_of_an_old_torch() -> None:
    code = CODE.replace(b"    mask =", b"    logits = Variable(logits, volatile=True)\n    mask =")
    (result,) = rewrite_together([Given("train.py", code)], [MaskedLoss()], Choice())
    reason = "it needs torch 1.12 or later, and line 6 passes `volatile=True`, which has no effect since 0.4"
    assert [finding.reason for finding in result.held_back] == [reason]
    (result,) = rewrite_together([Given("train.py", code.replace(b"=True", b"=False"))], [MaskedLoss()], Choice())
    assert result.applied
    files = [
        Given("train.py", b"import data\n" + CODE),
        Given("data.py", b"x = Variable(y, volatile=True)\n", ("data",)),
    ]
    (reason,) = [finding.reason for finding in rewrite_together(files, [MaskedLoss()], Choice())[0].held_back]
    assert "line 1 of data.py passes `volatile=True`" in reason


def test_extensions_by_ffi_tell_of_an_old_torch() -> None:
    def examined(extension: bytes) -> list[str]:
        train = Given("train.py", b"import nms\n" + CODE)
        result, _ = rewrite_together([train, Given("nms.py", extension, ("nms",))], [MaskedLoss()], Choice())
        return [finding.reason for finding in result.held_back]

    reason = "it needs torch 1.12 or later, and line 1 of nms.py imports torch.utils.ffi, which was removed in 1.0"
    wrapped = b"from torch.utils.ffi import _wrap_function\n"
    assert examined(wrapped) == [reason]
    assert examined(b"try:\n    " + wrapped + b"except ImportError:\n    pass\n") == []


@pytest.mark.parametrize(("name", "line", "forks"), [
    ("pyproject.toml", 'requires-python = ">=3.9,<3.14"', True),
    ("pyproject.toml", 'requires-python = "<=3.13"', True),
    ("pyproject.toml", 'python = ">=3.8,<3.12"', True),
    ("setup.py", "setup(python_requires='>=3.6, <3.11')", True),
    ("pyproject.toml", 'requires-python = ">=3.9,<=3.14"', False),
    ("pyproject.toml", 'requires-python = ">=3.9,<4"', False),
    ("pyproject.toml", 'requires-python = ">=3.9"', False),
    ("README.md", 'requires-python = "<3.12"', False),
])  # fmt: skip
def test_a_python_that_forks_by_default(name: str, line: str, forks: bool, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "src").mkdir()
    (tmp_path / name).write_text(f"{line}\n")
    assert Pins().forks_by_default(tmp_path / "src" / "train.py") is forks
