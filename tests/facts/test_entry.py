"""What a module does when it is imported, and what of that may happen again."""

from __future__ import annotations

import libcst as cst
import pytest
from snippets import facts

from perfmod.transforms.facts.entry import is_main_test
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import find_all

GUARD = "if __name__ == '__main__':\n"


def use(file: FileFacts) -> cst.Call:
    return next(call for call in find_all(file.source.module, cst.Call) if file.source.code(call.func) == "use")


IMPORTED = {
    "top level": ("use()", True),
    "guarded": (GUARD + "    use()", False),
    "guarded the other way round": ("if '__main__' == __name__:\n    use()", False),
    "other branch of the guard": (GUARD + "    pass\nelse:\n    use()", True),
    "not the guard": ("if __name__ != '__main__':\n    use()", True),
    "behind the guard": (GUARD + "    pass\nuse()", True),
    "function": ("def f():\n    use()", False),
    "function that runs": ("def f():\n    use()\nf()", True),
    "function that the guard runs": ("def f():\n    use()\n" + GUARD + "    f()", False),
    "function of a function": ("def f():\n    use()\ndef g():\n    f()\ng()", True),
    "handed on": ("def f():\n    use()\nregister(f)", True),
    "method": ("class K:\n    def f(self):\n        use()\n" + GUARD + "    K().f()", False),
    "method of an instance that is made": ("class K:\n    def f(self):\n        use()\nk = K()", True),
    "class body": ("class K:\n    use()", True),
    "decorator": ("@use()\ndef f(): ...", True),
    "default": ("def f(x=use()): ...", True),
    "lambda": ("f = lambda: use()", True),
    "in a try": ("try:\n    use()\nfinally:\n    pass", True),
}  # fmt: skip


@pytest.mark.parametrize("name", IMPORTED)
def test_runs_on_import(name: str) -> None:
    code, expected = IMPORTED[name]
    file = facts(code)
    assert (file.entry.runs_on_import(use(file)) is not None) is expected


def test_what_code_needs() -> None:
    file = facts("import a\nx = 1\ny = x\nz = 2\ndef g():\n    return x\ndef f(k):\n    return g() + a.b + k + y\n")
    function = file.entry.statements[-1]
    names = {definition.name for definition in file.entry.needed([function])}
    assert names == {"a", "x", "y", "g"}


@pytest.mark.parametrize("code", ["__name__ == '__main__'", "'__main__' == __name__", '__name__ == "__main__"'])
def test_the_guard(code: str) -> None:
    assert is_main_test(cst.parse_expression(code))


@pytest.mark.parametrize(
    "code", ["__name__ != '__main__'", "name == '__main__'", "__name__ == 'x'", "__name__ == y", "f()"]
)
def test_no_guard(code: str) -> None:
    assert not is_main_test(cst.parse_expression(code))
