from __future__ import annotations

import io
from pathlib import Path

import pytest
import verify_evidence
from attrs import evolve
from rich.console import Console

from perfmod.verify.evidence import Evidence, Verdict
from perfmod.verify.report import text


def printed(evidence: Evidence, width: int | None = None, *, folder: Path | None = None, colour: bool = False) -> str:
    """What is printed into a pipe, or onto a terminal of that width."""
    stream = io.StringIO()
    terminal = width is not None
    console = Console(
        file=stream,
        width=width,
        force_terminal=terminal,
        no_color=not colour,
        color_system="standard" if colour else None,
    )
    text.render(evidence, console, folder)
    return stream.getvalue()


def test_everything_in_a_pipe() -> None:
    reason = verify_evidence.equality().reason
    assert printed(verify_evidence.rich(), folder=Path("out")).splitlines() == [
        "proven: the training is the same, and a step is 1.47x faster",
        f"training: proven: {reason} (rounding; 40 steps, 40 backward passes, 1,280 samples)",
        "  loss of step 1       1.2e-07 apart  1.2e-05 allowed",
        "  gradients of step 1  4.1e-07 apart  1.2e-05 allowed",
        "  loss curve           3.3e-06 apart  1.2e-05 allowed",
        "  8 of 8 checks held",
        "speed: proven: the whole interval lies above the noise",
        "  1.47x, 95 % interval 1.46 to 1.48; noise +/- 0.4 %; 35.78 -> 24.32 ms per step",
        "  its start is slower, which pays off after 214 steps",
        "implicit synchronisations per step: 8 -> 2.2",
        "  train.py:41           1 -> 0    4.31 -> 0 ms     PM101 removed",
        "      unwanted = (labels == self.background).nonzero(as_tuple=True)",
        "  train.py:43           2 -> 0    3.62 -> 0 ms     PM103 removed",
        "      too_plain = labels.unique().numel() < 2",
        "  train.py:47           2 -> 0    2.44 -> 0 ms     PM104 removed",
        "      loss = self.criterion(scores[labelled], labels[labelled])",
        "  train.py:92           1 -> 0.2  1.90 -> 0.41 ms  PM106 rewritten",
        "      running += loss.item()",
        "  engine/metrics.py:18  1 -> 1    0.35 -> 0.38 ms  PM102 left as it is: it decides what runs next",
        "      return (predicted == target).float().mean().item()",
        "  train.py:88           1 -> 1    0.12 -> 0.12 ms  no rule covers it",
        "      optimizer.step()",
        "rules, each on top of those above it",
        "  PM101 nonzero-index  proven  1.12x (1.11 to 1.13)     1 sync gone   kept",
        "  PM103 unique-count   proven  1.090x (1.085 to 1.100)  2 syncs gone  kept",
        "  PM104 masked-loss    proven  1.20x (1.19 to 1.21)     2 syncs gone  kept",
        "  PM201 idle-loader    proven  0.998x (0.991 to 1.004)                withdrawn: no measurable change",
        "warning: the script writes checkpoints; they went into the scratch copy and were thrown away",
        "again: perfmod verify train.py --device cuda --seed 7 -- --data 'my data' --batch-size 32",
        f"report: {Path('out') / 'report.html'}",
    ]


@pytest.mark.parametrize(("name", "lines"), [
    ("cpu", ("speed: Speed was not judged: that needs --device cuda.",)),
    ("against", ("  1.002x, 95 % interval 0.996 to 1.007; noise +/- 0.4 %; 35.78 -> 35.71 ms per step",)),
    ("nan_losses",
     ("  loss curve             not finite    1.2e-05 allowed  not finite from step 7 on",
      "  parameters of step 40  inconclusive                   the losses differ already", "  1 of 3 checks held")),
    ("failed", ("failed: the script ended with RuntimeError in train.py:12", "speed: Speed was not measured.")),
    ("crowded", ("  and 188 more lines", "  suspiciously fast: 12.1x is above 10x; repeated with fresh inputs: 12.0x")),
])  # fmt: skip
def test_what_else_there_can_be(name: str, lines: tuple[str, ...]) -> None:
    shown = printed(verify_evidence.named(name)).splitlines()
    assert [line for line in lines if line not in shown] == []


def test_a_short_horizon_is_said() -> None:
    short = evolve(verify_evidence.rich(), equality=evolve(verify_evidence.equality(), short_horizon=True))
    assert "only these few steps were compared" in printed(short)


@pytest.mark.parametrize("name", verify_evidence.NAMES)
@pytest.mark.parametrize("width", [20, 45, 100, 400])
def test_a_terminal_of_any_width_shows_the_same_words(name: str, width: int) -> None:
    evidence = verify_evidence.named(name)
    assert printed(evidence, width).split() == printed(evidence).split()


def test_columns_are_aligned_where_there_is_room() -> None:
    places = {line.index("1 -> ") for line in printed(verify_evidence.rich(), 100).splitlines() if "  1 -> " in line}
    assert len(places) == 1
    places = {line.index("1 -> ") for line in printed(verify_evidence.rich(), 50).splitlines() if "  1 -> " in line}
    assert len(places) == 2


@pytest.mark.parametrize("verdict", Verdict)
def test_colours_are_only_colours(verdict: Verdict) -> None:
    evidence = evolve(verify_evidence.rich(), verdict=verdict)
    coloured = printed(evidence, 120, colour=True)
    assert coloured.startswith("\x1b[1;3")
    assert "\x1b" not in printed(evidence)
    assert "\x1b" not in printed(evidence, 120)


def test_control_characters_never_reach_the_terminal() -> None:
    shown = printed(verify_evidence.hostile(), 120)
    assert "\x1b" not in shown
    assert "\x00" not in shown
    assert r"\x1b[31m\x00\udc80.py" in shown
    shown.encode("utf-8")
