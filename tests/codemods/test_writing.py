from __future__ import annotations

from collections.abc import Iterable

import libcst as cst
import pytest

from perfmod.codemods.edits import Splice, is_consistent
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.finding import Edit
from perfmod.transforms.source import Source
from perfmod.transforms.writing import (
    comments,
    dedent_block,
    delete_statement,
    delete_statements,
    indent_range,
    insert_after_statement,
    insert_before_statement,
    nest_statements,
    replace,
)


def call(source: Source, name: str) -> cst.Expr:
    """The small statement that calls `name`."""
    [found] = [each for each in find_all(source.module, cst.Expr) if source.code(each).startswith(f"{name}(")]
    return found


def parse(code: str) -> Source:
    return Source.parse(code.encode())


def written(source: Source, edits: Edit | Iterable[Edit]) -> str:
    edits = (edits,) if isinstance(edits, Edit) else tuple(edits)
    assert is_consistent(edits, len(source.text))
    text = Splice.of(edits).apply(source.text)
    source.reparse(text)
    return text


@pytest.mark.parametrize(("code", "expected"), [
    ("a()\nf()\nb()\n", "a()\nb()\n"),
    ("f()", ""),
    ("a()\nf()", "a()\n"),
    ("if x:\n    f()\n", "if x:\n    pass\n"),
    ("if x: f()\n", "if x: pass\n"),
    ("if x: f(); b()\n", "if x: b()\n"),
    ("a(); f(); b()\n", "a(); b()\n"),
    ("f() ; b()\n", "b()\n"),
    ("a(); f()\n", "a()\n"),
    ("a(); f();\n", "a();\n"),
    ("f();\n", ""),
    ("if x:\r\n\tf()\r\n\tb()\r\n", "if x:\r\n\tb()\r\n"),
    ("a()\nf(\n    1,\n)\nb()\n", "a()\nb()\n"),
    ("a()\n\nf()\n\nb()\n", "a()\n\nb()\n"),
    ("# above\nf()\nb()\n", "# above\nb()\n"),
    ("if x:\n    f()  # why\n    b()\n", "if x:\n    # why\n    b()\n"),
    ("f()  # noqa: E501\nb()\n", "b()\n"),
    ("f(\n    1,  # one\n)  # two\n", "# one\n# two\n"),
    ("if x:\n    f()  # why\n", "if x:\n    # why\n    pass\n"),
    ("f(\n    '# no comment',\n)\nb()\n", "b()\n"),
])  # fmt: skip
def test_deleting_a_statement(code: str, expected: str) -> None:
    source = parse(code)
    assert written(source, delete_statement(source, call(source, "f"))) == expected


def test_deleting_all_statements_of_a_block_leaves_one_pass() -> None:
    source = parse("for i in x:\n    f()\n    g(); h()\nb()\n")
    statements = [call(source, name) for name in "fgh"]
    assert written(source, delete_statements(source, statements)) == "for i in x:\n    pass\nb()\n"


def test_deleting_all_statements_of_a_one_line_suite_leaves_one_pass() -> None:
    source = parse("for i in x: f(); g()  # note\n")
    statements = [call(source, name) for name in "fg"]
    assert written(source, delete_statements(source, statements)) == "for i in x: pass  # note\n"


def test_deleting_a_decorated_function_takes_its_decorators() -> None:
    source = parse("a()\n@d\n@e\ndef f():\n    return 1\nb()\n")
    [function] = find_all(source.module, cst.FunctionDef)
    assert isinstance(function, cst.FunctionDef)
    assert written(source, delete_statement(source, function)) == "a()\nb()\n"


@pytest.mark.parametrize(("code", "expected"), [
    ("f()\n", "n = 1\nf()\n"),
    ("if x:\n    f()\n", "if x:\n    n = 1\n    f()\n"),
    ("if x: f()\n", "if x: n = 1; f()\n"),
    ("a(); f()\n", "a(); n = 1; f()\n"),
    ("f(); a()\n", "n = 1\nf(); a()\n"),
    ("a()\n# about f\nf()\n", "a()\nn = 1\n# about f\nf()\n"),
    ("#!shebang\n# licence\nf()\n", "#!shebang\n# licence\nn = 1\nf()\n"),
    ("if x:\r\n\tf()", "if x:\r\n\tn = 1\r\n\tf()"),
    ("a()\n\x0c\nf()\n", "a()\n\x0c\nn = 1\nf()\n"),
])  # fmt: skip
def test_inserting_before_a_statement(code: str, expected: str) -> None:
    source = parse(code)
    assert written(source, insert_before_statement(source, call(source, "f"), "n = 1")) == expected


@pytest.mark.parametrize(("code", "expected"), [
    ("f()\nb()\n", "f()\nn = 1\nb()\n"),
    ("f()", "f()\nn = 1"),
    ("if x:\r\n    f()", "if x:\r\n    f()\r\n    n = 1"),
    ("f()  # note\nb()\n", "f()  # note\nn = 1\nb()\n"),
    ("f(); b()\n", "f(); n = 1; b()\n"),
    ("a(); f()\n", "a(); f()\nn = 1\n"),
    ("if x: f()\n", "if x: f(); n = 1\n"),
    ("if x: f();\n", "if x: f(); n = 1;\n"),
    ("f('''\n  a\n''')\nb()\n", "f('''\n  a\n''')\nn = 1\nb()\n"),
])  # fmt: skip
def test_inserting_after_a_statement(code: str, expected: str) -> None:
    source = parse(code)
    assert written(source, insert_after_statement(source, call(source, "f"), "n = 1")) == expected


def test_inserting_after_a_loop_leaves_the_comments_of_its_body_in_it() -> None:
    source = parse("for i in x:\n    f()\n\n    # end of body\n\n# about b\nb()\n")
    loop = source.module.body[0]
    expected = "for i in x:\n    f()\n\n    # end of body\nn = 1\n\n# about b\nb()\n"
    assert written(source, insert_after_statement(source, loop, "n = 1")) == expected


def test_inserting_before_a_decorated_function_goes_above_the_decorators() -> None:
    source = parse("class A:\n    @d\n    def f(self): pass\n")
    [function] = find_all(source.module, cst.FunctionDef)
    assert isinstance(function, cst.FunctionDef)
    assert written(source, insert_before_statement(source, function, "n = 1")) == (
        "class A:\n    n = 1\n    @d\n    def f(self): pass\n"
    )


def test_inserted_lines_are_indented_but_for_the_insides_of_strings() -> None:
    source = parse("if x:\n    f()\n")
    text = 'n = """\nraw\n"""\nwith y:\n    z()\n'
    assert written(source, insert_before_statement(source, call(source, "f"), text)) == (
        'if x:\n    n = """\nraw\n"""\n    with y:\n        z()\n    f()\n'
    )


def test_compound_statements_cannot_join_a_line() -> None:
    source = parse("if x: f()\n")
    with pytest.raises(ValueError, match="compound"):
        insert_before_statement(source, call(source, "f"), "if y:\n    z()\n")


@pytest.mark.parametrize(("code", "expected"), [
    ("if x:\n    f()\n    b()\nc()\n", "f()\nb()\nc()\n"),
    ("if x: f(); b()\nc()\n", "f(); b()\nc()\n"),
    ("if x:  # why\n    f()\n", "# why\nf()\n"),
    ("if (x  # one\n    and y):  # two\n    f()\n", "# one\n# two\nf()\n"),
    ("for i in y:\n\tif x:\n\t\tf()\n\n\t\t# end\n\tb()\n", "for i in y:\n\tf()\n\n\t# end\n\tb()\n"),
    ("if x:\n    f('''\n    raw\n  ''',\n      1)\n", "f('''\n    raw\n  ''',\n  1)\n"),
    ("if x:\n    f(f'''\n    {y}\n    ''')\n", "f(f'''\n    {y}\n    ''')\n"),
    ("if x:\r\n    f()", "f()"),
    ("if x:\n    f()\n# not of the body\nb()\n", "f()\n# not of the body\nb()\n"),
    ("if x:\n    f(\n  1)\n", "f(\n  1)\n"),
])  # fmt: skip
def test_dedenting_a_block(code: str, expected: str) -> None:
    source = parse(code)
    [guard] = find_all(source.module, cst.If)
    assert isinstance(guard, cst.If)
    assert written(source, dedent_block(source, guard)) == expected


def test_an_if_with_other_branches_keeps_its_header() -> None:
    source = parse("if x:\n    f()\nelif y:\n    g()\n")
    guard = source.module.body[0]
    assert isinstance(guard, cst.If)
    assert isinstance(guard.orelse, cst.If)
    for branch in (guard, guard.orelse):
        with pytest.raises(ValueError, match="branches"):
            dedent_block(source, branch)


def test_nesting_indents_everything_but_blank_lines_and_strings() -> None:
    source = parse('a()\n# about f\nf("""\nraw\n""")\n\nfor i in x:\n    g()\n    # end\n')
    edits = nest_statements(source, source.module.body[1], source.module.body[2], "with y:")
    assert written(source, edits) == (
        'a()\n# about f\nwith y:\n    f("""\nraw\n""")\n\n    for i in x:\n        g()\n        # end\n'
    )


def test_nesting_inside_a_block() -> None:
    source = parse("if x:\r\n  f()\r\n  g()\r\n")
    block = source.module.body[0].body
    assert isinstance(block, cst.IndentedBlock)
    assert written(source, nest_statements(source, block.body[0], block.body[0], "with y:")) == (
        "if x:\r\n  with y:\r\n    f()\r\n  g()\r\n"
    )


def test_indenting_uses_the_indentation_of_the_file() -> None:
    source = parse("if x:\n\tf()\nb()")
    assert written(source, indent_range(source, 0, 0)) == source.text
    with_header = nest_statements(source, source.module.body[0], source.module.body[1], "if y:")
    assert written(source, with_header) == "if y:\n\tif x:\n\t\tf()\n\tb()"


def test_replacing_keeps_parentheses_and_the_newlines_of_the_file() -> None:
    source = parse("x = (a + b)\r\n")
    [sum_] = find_all(source.module, cst.BinaryOperation)
    assert written(source, replace(source, sum_, "c(\n    d\n)")) == "x = (c(\r\n    d\r\n))\r\n"


def test_nodes_behind_a_form_feed_are_found_in_their_place() -> None:
    source = parse("\x0cimport os\n\x0cdef g():\n    f()\n  # c\n   ")
    statement = call(source, "f")
    assert source.code(statement) == "f()"
    assert written(source, replace(source, statement, "return")) == source.text.replace("f()", "return")


def test_comments_of_a_statement_are_those_inside_and_behind_it() -> None:
    source = parse("# above\nf(  # one\n    '# none',\n)  # two\n# below\n")
    assert [text for _, text in comments(source, call(source, "f"))] == ["# one", "# two"]
