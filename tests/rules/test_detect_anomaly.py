"""PM401: which switches go, which somebody turns, and which error somebody handles."""

from __future__ import annotations

import pytest
from whole_files import WholeFiles

from perfmod.transforms.finding import Safety
from perfmod.transforms.leftovers.detect_anomaly import DetectAnomaly

FILES = WholeFiles(DetectAnomaly())
CHANGES = {
    "statement": ("torch.autograd.set_detect_anomaly(True)\nx = 1", "x = 1"),
    "keyword": ("torch.autograd.set_detect_anomaly(mode=True)\nx = 1", "x = 1"),
    "first of a line": ("torch.autograd.set_detect_anomaly(True); x = 1", "x = 1"),
    "only statement": ("def f():\n    torch.autograd.set_detect_anomaly(True)", "def f():\n    pass"),
    "main guard": ('if __name__ == "__main__":\n    torch.autograd.set_detect_anomaly(True)\n    main()',
        'if __name__ == "__main__":\n    main()'),
    "submodule": ("torch.autograd.anomaly_mode.set_detect_anomaly(True)\nx = 1", "x = 1"),
    "value": ("a = torch.autograd.set_detect_anomaly(True)", "a = torch.autograd.set_detect_anomaly(False)"),
    "block": ("with torch.autograd.detect_anomaly():\n    loss.backward()", "loss.backward()"),
    "one-line block": ("with torch.autograd.detect_anomaly(): loss.backward()", "loss.backward()"),
    "switch as a block": ("with torch.autograd.set_detect_anomaly(True):\n    loss.backward()", "loss.backward()"),
    "second manager": ("with torch.enable_grad(), torch.autograd.detect_anomaly():\n    loss.backward()",
        "with torch.enable_grad():\n    loss.backward()"),
    "first manager": ("with torch.autograd.detect_anomaly(), open(a) as f:\n    loss.backward()",
        "with open(a) as f:\n    loss.backward()"),
    "import": ("from torch.autograd import detect_anomaly\nwith detect_anomaly():\n    loss.backward()",
        "from torch.autograd import detect_anomaly\nloss.backward()"),
    "trainer": ("import lightning.pytorch as pl\nt = pl.Trainer(detect_anomaly=True, devices=1)",
        "import lightning.pytorch as pl\nt = pl.Trainer(detect_anomaly=False, devices=1)"),
}  # fmt: skip


@pytest.mark.parametrize(("before", "after"), CHANGES.values(), ids=CHANGES)
def test_is_taken_out_when_asked_to(before: str, after: str) -> None:
    FILES.assert_becomes(before, after, Safety.UNSAFE)


@pytest.mark.parametrize("call", [
    "set_detect_anomaly(True, False)",
    "set_detect_anomaly(True, check_nan=False)",
    "set_detect_anomaly(mode=True, check_nan=False)",
])  # fmt: skip
def test_goes_where_it_checks_nothing(call: str) -> None:
    FILES.assert_becomes(f"torch.autograd.{call}\nx = 1", "x = 1", Safety.SAFE)


def test_a_block_that_checks_nothing_goes() -> None:
    FILES.assert_becomes("with torch.autograd.detect_anomaly(check_nan=False):\n    a()", "a()", Safety.SAFE)


REFUSED = {
    "handled": (("try:\n    with torch.autograd.detect_anomaly():\n        loss.backward()\nexcept RuntimeError:\n"
          "    pass"), "caught on line 7"),
    "handled elsewhere": ("torch.autograd.set_detect_anomaly(True)\ntry:\n    loss.backward()\nexcept:\n    pass",
        "caught on line 7"),
    "kept": ("guard = torch.autograd.detect_anomaly()", "the context manager is stored for later use"),
    "unknown": ("torch.autograd.set_detect_anomaly(*mode)", "its arguments could not be determined"),
}  # fmt: skip


@pytest.mark.parametrize(("code", "reason"), REFUSED.values(), ids=REFUSED)
def test_is_refused(code: str, reason: str) -> None:
    assert reason in " | ".join(FILES.reasons(code))


@pytest.mark.parametrize("code", [
    "torch.autograd.set_detect_anomaly(False)",
    "torch.autograd.set_detect_anomaly(args.debug)",
    "if args.debug:\n    torch.autograd.set_detect_anomaly(True)",
    "with torch.autograd.set_detect_anomaly(debug):\n    loss.backward()",
    "import lightning.pytorch as pl\nt = pl.Trainer(detect_anomaly=debug)",
    "detect_anomaly(losses)",
])  # fmt: skip
def test_is_silent(code: str) -> None:
    assert FILES.reasons(code) == []


def test_other_handlers_do_not_matter() -> None:
    code = "try:\n    {}loss.backward()\nexcept KeyboardInterrupt:\n    pass"
    before = code.format("torch.autograd.set_detect_anomaly(True)\n    ")
    FILES.assert_becomes(before, code.format(""), Safety.UNSAFE)
