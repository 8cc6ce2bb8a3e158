from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from perfmod.codemods.edits import Splice, disjoint, is_consistent
from perfmod.transforms.finding import Edit

TEXT = st.text(alphabet="ab\n\r é\u2028", max_size=12)


@st.composite
def texts_with_edits(draw: st.DrawFn) -> tuple[str, list[Edit]]:
    """A text and edits that do not overlap: cut it into pieces, and rewrite some of them."""
    pieces = draw(st.lists(st.tuples(TEXT, st.booleans(), TEXT), max_size=8))
    edits: list[Edit] = []
    at = 0
    for text, is_rewritten, replacement in pieces:
        if is_rewritten and not any(edit.start == at for edit in edits):
            edits.append(Edit(at, at + len(text), replacement))
        at += len(text)
    order = draw(st.permutations(edits))
    return "".join(text for text, _, _ in pieces), order


@given(texts_with_edits())
def test_every_character_outside_the_edits_is_found_again_on_both_sides(case: tuple[str, list[Edit]]) -> None:
    text, edits = case
    splice = Splice.of(edits)
    new = splice.apply(text)
    for offset, character in enumerate(text):
        if not any(edit.start <= offset < edit.end for edit in edits):
            assert new[splice.new(offset)] == character
            assert splice.old(splice.new(offset)) == offset
            assert splice.old_end(splice.new(offset) + 1) == offset + 1


@given(texts_with_edits())
def test_written_characters_lead_to_the_text_that_they_replace(case: tuple[str, list[Edit]]) -> None:
    text, edits = case
    splice = Splice.of(edits)
    new = splice.apply(text)
    kept = {splice.new(offset) for offset in range(len(text)) if not _is_replaced(offset, edits)}
    written = [offset for offset in range(len(new)) if offset not in kept]
    assert "".join(new[offset] for offset in written) == "".join(edit.replacement for edit in sorted(edits))
    for offset in written:
        start, end = splice.old(offset), splice.old_end(offset + 1)
        assert any((edit.start, edit.end) == (start, end) for edit in edits)


@given(texts_with_edits())
def test_a_splice_equals_edits_made_one_by_one_from_the_end(case: tuple[str, list[Edit]]) -> None:
    text, edits = case
    expected = text
    for edit in sorted(edits, reverse=True):
        expected = expected[: edit.start] + edit.replacement + expected[edit.end :]
    assert Splice.of(edits).apply(text) == expected


def _is_replaced(offset: int, edits: list[Edit]) -> bool:
    return any(edit.start <= offset < edit.end for edit in edits)


def test_insertions_at_one_place_keep_the_order_in_which_they_were_given() -> None:
    splice = Splice.of([Edit(1, 1, "z"), Edit(1, 1, "a"), Edit(0, 1, "-")])
    assert splice.apply("xy") == "-zay"


@given(texts_with_edits(), st.integers(0, 40), st.integers(0, 40))
def test_what_no_edit_touched_stands_on_both_sides(case: tuple[str, list[Edit]], start: int, length: int) -> None:
    text, edits = case
    splice = Splice.of(edits)
    new = splice.apply(text)
    start = min(start, len(new))
    end = min(start + length, len(new))
    if not splice.touching(start, end) and end > start:
        assert new[start:end] == text[splice.old(start) : splice.old_end(end)]
    assert bool(splice.touching(start, end)) >= any(map(splice.wrote, range(start, end)))


def test_what_an_edit_touched() -> None:
    """`a----b`, of which the edit wrote the dashes, and `ab`, from between which it took them."""
    written, removed = Splice.of([Edit(1, 2, "----")]), Splice.of([Edit(1, 5, "")])
    assert [written.touching(0, 1), written.touching(5, 6), written.touching(1, 1), written.touching(5, 5)] == [[]] * 4
    assert written.touching(0, 2)
    assert written.touching(4, 6)
    assert written.touching(3, 3)
    assert [removed.touching(0, 1), removed.touching(1, 2), removed.touching(1, 1)] == [[]] * 3
    assert removed.touching(0, 2)


def test_touching_edits_do_not_overlap_and_equal_starts_do() -> None:
    text = "a = bc + d"
    assert disjoint(text, [Edit(0, 3, "")], [Edit(3, 5, ""), Edit(5, 5, "x")])
    assert not disjoint(text, [Edit(3, 3, "a")], [Edit(3, 5, "")])
    assert not disjoint(text, [Edit(4, 4, "a")], [Edit(3, 5, "")])


def test_lines_are_not_written_where_others_change_the_indentation() -> None:
    text = "a = b\nc = 2\n"
    indents = [Edit(0, 0, "if x:\n    "), Edit(6, 6, "    ")]
    assert disjoint(text, indents, [Edit(5, 5, "new"), Edit(8, 9, "")])
    assert not disjoint(text, indents, [Edit(5, 5, "\nnew")])
    assert not disjoint(text, [Edit(5, 5, "\r\nnew")], indents)
    assert disjoint(text, indents[:1], [Edit(5, 5, "\nnew")])

    text = "if x:\n    a = b\n    c = 2\n"
    dedents = [Edit(0, 6, ""), Edit(6, 10, ""), Edit(16, 20, "")]
    assert disjoint(text, dedents, [Edit(10, 11, "new")])
    assert not disjoint(text, dedents, [Edit(15, 15, "\nnew")])


def test_edits_that_overlap_or_lie_outside_are_inconsistent() -> None:
    assert is_consistent((Edit(2, 3, ""), Edit(0, 2, "")), 3)
    assert not is_consistent((Edit(0, 2, ""), Edit(1, 3, "")), 3)
    assert not is_consistent((Edit(2, 4, ""),), 3)
    assert not is_consistent((Edit(2, 1, ""),), 3)
