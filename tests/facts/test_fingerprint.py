"""What a finding is known by: the same for other formatting and other neighbours, another for other code."""

from __future__ import annotations

import pytest

from perfmod.transforms.fingerprint import fingerprint, normalised


@pytest.mark.parametrize(("one", "other"), [
    ("loss.item( )", "loss.item()  # shown"),
    ("DataLoader(data, batch_size=32)", "DataLoader(\n        data,\n        batch_size=32,\n    )"),
    ('print("loss", loss)', "print('loss', loss)"),
    ("for images, labels in loader:\n    step(images)", "for (images, labels) in loader:\n    other()\n    more()"),
    ("for images, labels in loader:", "for images, labels in loader:\n    step(images)"),
    ("async for batch in loader:\n    pass", "async for batch in loader:"),
    ("    x = 1\n    y = 2", "x = 1\ny = 2"),
    ("x = a + \\\n    b", "x = a + b"),
    ("x = (1", "x =   (1"),
])  # fmt: skip
def test_the_same_code(one: str, other: str) -> None:
    assert normalised(one) == normalised(other)


@pytest.mark.parametrize(("one", "other"), [
    ("loss.item()", "loss2.item()"),
    ("'a b'", "'a  b'"),
    ("for images, labels in loader:\n    pass", "for images, labels in validation:\n    pass"),
])  # fmt: skip
def test_other_code(one: str, other: str) -> None:
    assert normalised(one) != normalised(other)


def test_keyword_arguments_do_not_count() -> None:
    loaders = ("DataLoader(data, batch_size=32)", "DataLoader(data, batch_size=64, num_workers=8)", "DataLoader(other)")
    assert len({fingerprint("PM201", "main", code) for code in loaders}) == 2


def test_rule_and_scope_count() -> None:
    prints = [fingerprint(*each, "x.item()") for each in (("PM106", "f"), ("PM107", "f"), ("PM106", "A.f"))]
    assert len(set(prints)) == 3
    assert all(len(each) == 16 and int(each, 16) >= 0 for each in prints)
