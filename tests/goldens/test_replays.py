"""Every golden of PM314 prints the same where its steps are replayed, by graphs that work on the CPU."""

from __future__ import annotations

from pathlib import Path

import pytest
import torchvision_cpu
from golden_harness.golden import Golden, goldens
from golden_harness.sides import run_script

RECORDER = Path(__file__).parents[1] / "support" / "replaying" / "graphed_step.py"
RECORDED = [golden for golden in goldens() if golden.head.change and "launch-bound-step" in golden.rules]


@pytest.mark.parametrize("golden", RECORDED, ids=lambda golden: golden.name)
def test_replays_print_the_same(golden: Golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if b"torchvision" in golden.before:
        torchvision_cpu.load_or_skip()
    (tmp_path / "after").mkdir()
    (tmp_path / "after" / "graphed_step.py").symlink_to(RECORDER)
    monkeypatch.setenv("REPLAYS", str(tmp_path / "replays"))
    assert run_script(golden.after, tmp_path / "after") == run_script(golden.before, tmp_path / "before")
    replays = (tmp_path / "replays").read_text().splitlines()
    assert sum(int(line.partition(" ")[0]) for line in replays) > 0, replays
