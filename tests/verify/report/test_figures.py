"""What is derived from a record, and how it reads."""

from __future__ import annotations

import math

import pytest
import verify_evidence
from attrs import evolve

from perfmod.verify.evidence import Check, Curve, Verdict, Why
from perfmod.verify.report import anatomy, diffs, plots, series, summary, wording

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(("shown", "expected"), [
    (wording.ratio(1.4712), "1.47x"),
    (wording.ratio(1.0021), "1.002x"),
    (wording.ratio(12.34), "12.3x"),
    (wording.ratio(NAN), "NaNx"),
    (wording.interval(0.991, 1.21), "0.991 to 1.210"),
    (wording.milliseconds(0), "0 ms"),
    (wording.milliseconds(0.0123), "0.012 ms"),
    (wording.milliseconds(0.98), "0.98 ms"),
    (wording.milliseconds(1234.56), "1,234.6 ms"),
    (wording.milliseconds(INF), "infinite ms"),
    (wording.from_to(12.74, 0, "ms"), "12.74 -> 0 ms"),
    (wording.from_to(0.004, 0.002, "ms"), "0.004 -> 0.002 ms"),
    (wording.difference(0.0), "0"),
    (wording.difference(3.0), "3"),
    (wording.difference(1.26e-6), "1.3e-06"),
    (wording.difference(NAN), "NaN"),
    (wording.difference(-INF), "-infinite"),
    (wording.per_step(1204), "1,204"),
    (wording.per_step(0.25), "0.2"),
    (wording.percent(0.0042), "0.4 %"),
    (wording.percent(0.93), "93 %"),
    (wording.percent(0), "0 %"),
    (wording.mebibytes(812.4), "812 MiB"),
    (wording.mebibytes(12595.2), "12.3 GiB"),
    (wording.byte_count(39_321_600), "39.3 MB"),
    (wording.byte_count(48), "48 B"),
    (wording.duration(192.4), "3 min 12 s"),
    (wording.duration(59.7), "1 min 0 s"),
    (wording.duration(3), "3 s"),
    (wording.counted(1, "backward pass"), "1 backward pass"),
    (wording.counted(2, "backward pass"), "2 backward passes"),
    (wording.counted(1204, "step"), "1,204 steps"),
    (wording.visible("a\x1b\n\udc80\u2028"), r"a\x1b\n\udc80\u2028"),
    (wording.visible("a\n\t\x00", keep="\n\t"), "a\n\t\\x00"),
    (wording.typeset("1.47x, 2x2, max"), "1.47\N{MULTIPLICATION SIGN}, 2x2, max"),
])  # fmt: skip
def test_how_figures_read(shown: str, expected: str) -> None:
    assert shown == expected


def curve(*losses: float) -> Curve:
    return Curve("", losses)


def test_differences_are_relative_to_the_original() -> None:
    one, other = curve(2.0, 0.0, NAN, INF, NAN, 1.0, -4.0), curve(2.5, 0.5, NAN, INF, 1.0, -INF, -4.0, 9.0)
    assert repr(series.differences(one, other)) == repr((0.25, 0.5, 0.0, 0.0, NAN, NAN, 0.0))


def test_the_largest_of_several() -> None:
    original, others = curve(1.0, 1.0, 1.0), (curve(1.5, 1.0, NAN), curve(1.25, 2.0, NAN))
    assert series.largest(original, others) == (0.5, 1.0, 0.0)
    assert series.largest(original, ()) == ()


def test_short_curves_are_drawn_whole() -> None:
    places, values = series.thinned([3.0, NAN, INF, 1.0])
    assert places == [1, 2, 3, 4]
    assert repr(values) == repr([3.0, NAN, NAN, 1.0])
    assert series.thinned([]) == ([], [])


def test_long_curves_keep_a_single_excursion() -> None:
    losses = [1.0] * 10_000
    losses[7777] = 50.0
    places, values = series.thinned(losses)
    assert len(places) == 500
    assert values[places.index(7778)] == 50.0
    assert places == sorted(places)


def test_a_diff_file_by_file() -> None:
    text = "--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@\n--- gone\n+++ come\n kept\n--- a/y.py\n+++ b/y.py\n+new\n"
    text = text.replace("--- gone\n+++ come\n", "--- gone\n kept\n+++ come\n")
    parsed = diffs.parse(text)
    assert [file.name for file in parsed.files] == ["x.py", "y.py"]
    assert (parsed.files[0].count("add"), parsed.files[0].count("del"), parsed.files[0].count("hunk")) == (1, 1, 1)
    assert parsed.files[1].lines == [diffs.DiffLine("add", "+new")]
    assert parsed.left_out == 0


def test_a_diff_without_names() -> None:
    assert [file.name for file in diffs.parse("+a").files] == [""]
    assert diffs.parse("").files == ()


def test_a_long_diff_is_cut_at_a_line() -> None:
    parsed = diffs.parse("--- a/x\n+++ b/x\n" + f"+{'y' * 999}\n" * 500)
    assert len(parsed.files[0].lines) + parsed.left_out == 500
    assert parsed.files[0].count("add") == pytest.approx(200, abs=1)


def test_checks_that_a_reader_in_a_hurry_needs() -> None:
    proven, refuted = Verdict.PROVEN, Verdict.REFUTED
    near = [Check(f"near {share}", proven, share, 1.0) for share in (0.1, 0.9, 0.3, 0.2)]
    checks = [Check("exact", proven, 0.0, 0.0), *near, Check("wrong", refuted, 3.0, 1.0), Check("yes", proven)]
    assert [check.name for check in summary.telling(checks)] == ["near 0.9", "near 0.3", "near 0.2", "wrong"]


@pytest.mark.parametrize(("check", "words"), [
    (Check("", Verdict.PROVEN), ""),
    (Check("", Verdict.REFUTED), "refuted"),
    (Check("", Verdict.PROVEN, 0.0, 0.0), "equal bits"),
    (Check("", Verdict.PROVEN, 0.0, 1e-6), "equal"),
    (Check("", Verdict.PROVEN, 1e-7, 1e-6), "1.0e-07 apart"),
    (Check("", Verdict.REFUTED, NAN, 1e-6), "not finite"),
    (Check("", Verdict.REFUTED, INF, 1e-6), "infinite apart"),
])  # fmt: skip
def test_what_a_check_saw(check: Check, words: str) -> None:
    assert summary.found(check) == words


def test_synchronisations_are_those_of_the_profile_else_the_sum_of_the_lines() -> None:
    why = verify_evidence.why()
    assert summary.sync_counts(why) == (8.0, 2.2)
    assert summary.sync_counts(evolve(why, original=None, rewritten=None)) == (8.0, 2.2)
    assert summary.sync_counts(Why(None, None)) is None
    assert summary.sync_counts(None) is None


def test_memory_is_the_median_over_the_processes() -> None:
    speed = verify_evidence.speed()
    shm = [evolve(run, peak_shm_mib=float(run.order), peak_allocated_mib=None) for run in speed.runs]
    rows = {row.kind: (row.original, row.rewritten) for row in summary.memory(evolve(speed, runs=tuple(shm)))}
    assert rows["host, growth of /dev/shm"] == (7.5, 5.5)
    assert "device, allocated" not in rows
    assert list(summary.memory(None)) == []


def test_a_step_to_scale() -> None:
    sides = anatomy.steps(verify_evidence.rich())
    original, rewritten = ({lane.name: round(lane.ms, 3) for lane in side.lanes} for side in sides)
    assert original == {"step": 35.78, "host waits": 12.74, "device busy": 21.826}
    assert rewritten == {"step": 24.32, "host waits": 0.91, "device busy": 22.618}
    assert anatomy.longest(sides) == 35.78
    assert [segment.label for segment in sides[1].lanes[1].segments] == [
        "engine/metrics.py:18",
        "train.py:88",
        "train.py:92",
    ]
    assert anatomy.longest(anatomy.steps(verify_evidence.cpu())) == 0


def test_there_are_no_figures_without_values() -> None:
    equality, speed = verify_evidence.equality(), verify_evidence.speed()
    assert plots.losses(evolve(equality, rewritten=None)) is None
    assert plots.losses(evolve(equality, original=curve())) is None
    assert plots.step_times(evolve(speed, runs=())) is None
    assert plots.step_times(evolve(speed, runs=speed.runs[:1])) is None
    assert plots.step_times(evolve(speed, runs=tuple(evolve(run, step_ms=(NAN,)) for run in speed.runs))) is None


@pytest.mark.parametrize("ratio", [0.2, 1.0, 40.0])
def test_any_ratio_can_be_drawn(ratio: float) -> None:
    speed = evolve(verify_evidence.speed(), ratio=ratio, low=ratio, high=ratio, spread=0.0)
    drawn = plots.step_times(speed)
    assert drawn is not None
    assert wording.typeset(wording.ratio(ratio)) in drawn.wide


@pytest.mark.parametrize("losses", [(NAN, NAN), (INF, 1.0), (0.0, 0.0), (1e300, -1e300), (5e-324, 1.0)])
def test_any_losses_can_be_drawn(losses: tuple[float, ...]) -> None:
    equality = verify_evidence.equality()
    for other in (losses, (1.0, 2.0), (1.0,)):
        odd = evolve(equality, original=curve(*losses), rewritten=curve(*other), repeats=(curve(*other),))
        assert plots.losses(odd) is not None
