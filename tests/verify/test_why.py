from __future__ import annotations

from typing import Any

from perfmod.codemods.engine import rewrite
from perfmod.transforms.syncs.nonzero_index_assignment import NonzeroIndexAssignment
from perfmod.verify.why import Sources, why

ORIGINAL = "a = slow()\nif flag:\n    b = t.item()\nc = masked()\n"
REWRITTEN = "a = fast()\nif flag:\n    b = t.item()\n    added()\nc = masked()\n"


def result(
    *syncs: tuple[str, int, int, float], steps: int = 5, trace: dict[str, float] | None = None
) -> dict[str, Any]:
    found = [
        {"file": file, "line": line, "function": "f", "count": count, "ms": ms, "inside": ""}
        for file, line, count, ms in syncs
    ]
    return {"sync_steps": steps, "syncs": found, "profile_steps": 5, "trace": trace}


def test_a_line_is_followed_into_the_rewritten_file() -> None:
    sources = Sources({"t.py": ORIGINAL}, {"t.py": REWRITTEN}, {}, {"t.py": {1: ["PM101"]}})
    before = result(("t.py", 1, 10, 20.0), ("t.py", 4, 5, 1.0))
    found = why(before, result(("t.py", 5, 5, 1.5), ("t.py", 4, 5, 1.0)), sources)
    rows = {(row.path, row.line, row.status == "new"): row for row in found.syncs}
    assert (rows["t.py", 1, False].before, rows["t.py", 1, False].after, rows["t.py", 1, False].before_ms) == (
        2.0,
        0.0,
        4.0,
    )
    assert (rows["t.py", 1, False].status, rows["t.py", 1, False].rules) == ("removed", ("PM101",))
    assert rows["t.py", 1, False].code == "a = slow()"
    assert (rows["t.py", 4, False].before, rows["t.py", 4, False].after) == (1.0, 1.0)
    assert rows["t.py", 4, False].code == "c = masked()"
    assert (rows["t.py", 4, True].code, rows["t.py", 4, True].before) == ("added()", 0.0)
    assert next(row.line for row in found.syncs) == 1, "the costliest line comes first"


def test_syncs_that_no_rule_covers_and_refused_ones_are_told_apart() -> None:
    code = (
        "import torch\n\n\ndef step(target: torch.Tensor):\n"
        "    found = torch.nonzero(target == 2, as_tuple=True)\n    target[found] = -1\n    return found\n"
    )
    examined = rewrite(code.encode(), "t.py", [NonzeroIndexAssignment()])
    assert examined.refused, "the case needs a refusal"
    line = examined.refused[0].line
    sources = Sources({"t.py": code}, {"t.py": code}, {"t.py": examined})
    waits = result(("t.py", line, 10, 1.0), ("t.py", 7, 5, 1.0))
    rows = {row.line: row for row in why(waits, waits, sources).syncs}
    assert rows[line].status.startswith("left as it is: PM101 ")
    assert rows[line].rules == ("PM101",)
    assert rows[7].status == "no rule covers it"


def test_profiles_are_per_step_and_may_be_missing() -> None:
    trace = {"step_ms": 2.0, "sync_ms": 0.5, "to_device_bytes": 10.0, "pageable_bytes": 4.0}
    trace |= {"from_device_bytes": 1.0, "busy_share": 0.9, "kernels": 7.0}
    found = why(result(("t.py", 1, 10, 1.0), trace=trace), None, Sources({}, {}))
    assert found.original is not None
    assert (found.original.syncs, found.original.busy_share, found.original.pageable_bytes) == (2.0, 0.9, 4.0)
    assert found.rewritten is None
    untraced = why(result(), result(), Sources({}, {}))
    assert untraced.original is not None
    assert (untraced.original.syncs, untraced.original.busy_share) == (0.0, None)


def test_a_library_outside_of_the_tree_has_no_text() -> None:
    (row,) = why(result(("", 0, 5, 1.0)), result(), Sources({}, {})).syncs
    assert (row.path, row.line, row.code) == ("", 0, "")
