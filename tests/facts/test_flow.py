"""Which definitions a read may see: every binding form, every way through a function."""

from __future__ import annotations

import textwrap

import pytest
from snippets import facts, marks, reads, used_names

from perfmod.transforms.facts.flow import Binding

# In every snippet the comment behind a definition names it; `use(x)` lists the definitions of `x` that are seen there.
REACHING = {
    "straight line": ("x = 0  # a\nx = 1  # b\nuse(x)", "b"),
    "if": ("x = 0  # a\nif c:\n    x = 1  # b\nuse(x)", "a b"),
    "if else": ("x = 0  # a\nif c:\n    x = 1  # b\nelse:\n    x = 2  # c\nuse(x)", "b c"),
    "elif": ("if c:\n    x = 1  # a\nelif d:\n    x = 2  # b\nelse:\n    x = 3  # c\nuse(x)", "a b c"),
    "branch that returns": ("x = 0  # a\nif c:\n    x = 1  # b\n    return\nuse(x)", "a"),
    "branch that raises": ("x = 0  # a\nif c:\n    x = 1  # b\n    raise E\nuse(x)", "a"),
    "one-line suite": ("x = 0  # a\nif c: x = 1  # b\nuse(x)", "a b"),
    "semicolons": ("x = 0; x = 1; use(x)  # a", "a"),
    "loop": ("x = 0  # a\nfor i in n:\n    x = 1  # b\nuse(x)", "a b"),
    "inside a loop": ("x = 0  # a\nfor i in n:\n    use(x)\n    x = 1  # b", "a b"),
    "loop variable": ("x = 0  # a\nfor x in n:  # b\n    use(x)", "b"),
    "loop variable afterwards": ("x = 0  # a\nfor x in n:  # b\n    pass\nuse(x)", "a b"),
    "break": ("x = 0  # a\nfor i in n:\n    x = 1  # b\n    break\n    x = 2  # c\nuse(x)", "a b"),
    "break past an else": ("for i in n:\n    x = 1  # a\n    if c:\n        break\nelse:\n    x = 2  # b\nuse(x)",
        "a b"),
    "else of a loop": ("x = 0  # a\nfor i in n:\n    x = 1  # b\nelse:\n    use(x)", "a b"),
    "continue": ("x = 0  # a\nfor i in n:\n    use(x)\n    x = 1  # b\n    if c:\n        continue\n    x = 2  # c",
        "a b c"),
    "continue skips": ("x = 0  # a\nwhile c:\n    x = 1  # b\n    continue\n    x = 2  # c\nuse(x)", "a b"),
    "nested loops": ("x = 0  # a\nfor i in n:\n    for j in n:\n        use(x)\n    x = 1  # b", "a b"),
    "test of a while": ("x = 0  # a\nwhile use(x):\n    x = 1  # b", "a b"),
    "while with a walrus": ("x = 0  # a\nwhile (x := f()):  # b\n    use(x)", "b"),
    "except": ("x = 0  # a\ntry:\n    x = f()  # b\nexcept E:\n    use(x)", "a b"),
    "after except": ("x = 0  # a\ntry:\n    x = f()  # b\nexcept E:\n    x = 2  # c\nuse(x)", "b c"),
    "except that swallows": ("x = 0  # a\ntry:\n    x = f()  # b\n    g()\nexcept E:\n    pass\nuse(x)", "a b"),
    "raise inside of try": ("x = 0  # a\ntry:\n    for x in n:  # b\n        raise E\nexcept E:\n    use(x)", "a b"),
    "walrus before a raise": ("x = 0  # a\ntry:\n    raise E(x := 1)  # b\nexcept E:\n    use(x)", "a b"),
    "with before a raise": ("x = 0  # a\ntry:\n    with g() as x:  # b\n        raise E\nexcept E:\n    use(x)", "a b"),
    "return inside of try": ("x = 0  # a\ntry:\n    x = 1  # b\n    return g()\nexcept E:\n    use(x)", "a b"),
    "else of try": ("x = 0  # a\ntry:\n    x = 1  # b\nexcept E:\n    x = 2  # c\nelse:\n    use(x)", "b"),
    "name of the exception": ("x = 0  # a\ntry:\n    f()\nexcept E as x:  # b\n    use(x)", "b"),
    "finally": ("x = 0  # a\ntry:\n    x = f()  # b\nfinally:\n    use(x)", "a b"),
    "after finally": ("x = 0  # a\ntry:\n    x = f()  # b\nfinally:\n    g()\nuse(x)", "b"),
    "finally after a handler": (("x = 0  # a\ntry:\n    f()\nexcept E:\n    x = 1  # b\n    x = g()  # c\n"
          "finally:\n    use(x)"), "a b c"),
    "finally after return": ("x = 0  # a\ntry:\n    x = 1  # b\n    return x\nfinally:\n    use(x)", "a b"),
    "finally binds before a break": (("x = 0  # a\nfor i in n:\n    try:\n        break\n    finally:\n"
          "        x = 1  # b\nuse(x)"), "a b"),
    "inner try": (("x = 0  # a\ntry:\n    try:\n        x = f()  # b\n    except F:\n        x = g()  # c\n"
          "except E:\n    use(x)"), "a b c"),
    "with": ("x = 0  # a\nwith f() as x:  # b\n    pass\nuse(x)", "b"),
    "with several": ("with f() as (x, y), g(x) as z:  # a\n    use(x)", "a"),
    "suppressed": ("x = 0  # a\nwith suppress(E):\n    x = f()  # b\nuse(x)", "a b"),
    "suppressed by module": ("x = 0  # a\nwith contextlib.suppress(E):\n    f()\n    x = g()  # b\nuse(x)", "a b"),
    "no_grad suppresses nothing": ("x = 0  # a\nwith torch.no_grad():\n    x = f()  # b\nuse(x)", "b"),
    "match": (("x = 0  # a\nmatch y:\n    case [x, 1]:  # b\n        pass\n    case {'k': 2, **x}:  # c\n"
          "        pass\nuse(x)"), "a b c"),
    "match star": ("match y:\n    case [1, *x]:  # a\n        use(x)", "a"),
    "match as": ("match y:\n    case P(q=1) as x:  # a\n        use(x)", "a"),
    "match guard": ("x = 0  # a\nmatch y:\n    case 1 if (x := f()):  # b\n        pass\n    case _:\n        use(x)",
        "a b"),
    "walrus": ("x = 0  # a\nif (x := f()):  # b\n    pass\nuse(x)", "b"),
    "walrus behind and": ("x = 0  # a\nif c and (x := f()):  # b\n    pass\nuse(x)", "a b"),
    "walrus behind or": ("x = 0  # a\ny = c or (x := f())  # b\nuse(x)", "a b"),
    "walrus before and": ("x = 0  # a\nif (x := f()) and c:  # b\n    pass\nuse(x)", "b"),
    "walrus in a choice": ("x = 0  # a\ny = (x := f()) if c else 2  # b\nuse(x)", "a b"),
    "walrus in both choices": ("x = 0  # a\ny = ((x := 1)  # b\n    if c else (x := 2))  # c\nuse(x)", "b c"),
    "walrus in a test of a choice": ("x = 0  # a\ny = use(x) if (x := f()) else 2  # b", "b"),
    "walrus in a chain": ("x = 0  # a\ny = a < b < (x := f())  # b\nuse(x)", "a b"),
    "walrus in a comprehension": ("x = 0  # a\ny = [(x := v) for v in n]  # b\nuse(x)", "a b"),
    "walrus from an earlier round": ("x = 0  # a\ny = [use(x) + (x := v) for v in n]  # b", "a b"),
    "comprehension": ("x = 0  # a\ny = [x for x in n]  # b\nuse(x)", "a"),
    "inside a comprehension": ("x = 0  # a\ny = [use(x) for x in n]  # b", "b"),
    "iterable of a comprehension": ("x = 0  # a\ny = [x for x in use(x)]  # b", "a"),
    "nested comprehension": ("x = 0  # a\ny = {k: use(x) for k in n for x in k}  # b", "b"),
    "lambda in a comprehension": ("x = 0  # a\ny = [lambda: use(x) for x in n]  # b", "b"),
    "augmented": ("x = 0  # a\nx += 1  # b\nuse(x)", "b"),
    "target of augmented": ("x = 0  # a\nuse(x); x += 1  # b", "a"),
    "annotated": ("x: int = 0  # a\nuse(x)", "a"),
    "annotation alone": ("x = 0  # a\nx: int\nuse(x)", "a"),
    "unpacked": ("x = 0  # a\nx, y = f()  # b\nuse(x)", "b"),
    "nested targets": ("[y, (z, *x)] = f()  # a\nuse(x)", "a"),
    "chained targets": ("x = y = f()  # a\nuse(x)", "a"),
    "item of itself": ("x = f()  # a\nx[0] = 1  # b\nuse(x)", "a"),
    "import": ("x = 0  # a\nimport x.y  # b\nuse(x)", "b"),
    "import as": ("x = 0  # a\nfrom m import q as x  # b\nuse(x)", "b"),
    "function": ("x = 0  # a\ndef x():  # b\n    pass\nuse(x)", "b"),
    "class": ("x = 0  # a\nclass x:  # b\n    pass\nuse(x)", "b"),
    "closure": ("x = 0  # a\ndef g():\n    use(x)\nx = 1  # b", "a b"),
    "parameter of a closure": ("x = 0  # a\ndef g(x):  # b\n    use(x)", "b"),
    "default of a parameter": ("x = 0  # a\ndef g(y=use(x)):\n    pass\nx = 1  # b", "a"),
    "decorator": ("x = 0  # a\n@use(x)\ndef g():\n    pass\nx = 1  # b", "a"),
    "lambda": ("x = 0  # a\ng = lambda: use(x)\nx = 1  # b", "a b"),
    "parameter of a lambda": ("x = 0  # a\ng = lambda x: use(x)  # b", "b"),
    "default of a lambda": ("x = 0  # a\ng = lambda y=use(x): y\nx = 1  # b", "a"),
    "nonlocal": ("x = 0  # a\ndef g():\n    nonlocal x\n    x = 1  # b\ng()\nuse(x)", "a b"),
    "inside of nonlocal": ("x = 0  # a\ndef g():\n    nonlocal x\n    x = 1  # b\n    use(x)", "a b"),
    "nonlocal twice": (("x = 0  # a\ndef g():\n    nonlocal x\n    def h():\n        nonlocal x\n"
          "        x = 1  # b\nuse(x)"), "a b"),
    "class body": ("x = 0  # a\nclass K:\n    x = 1  # b\n    use(x)", "b"),
    "method does not see the class": ("x = 0  # a\nclass K:\n    x = 1  # b\n    def g(self):\n        use(x)", "a"),
    "deleted": ("x = 0  # a\ndel x\nx = 1  # b\nuse(x)", "b"),
    "unreachable": ("x = 0  # a\nreturn\nx = 1  # b", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", REACHING)
def test_reaching_definitions(name: str) -> None:
    code, expected = REACHING[name]
    assert reads(f"def f(c, n):\n{textwrap.indent(code, '    ')}") == expected


AT_MODULE_LEVEL = {
    "global": ("x = 0  # a\ndef g():\n    global x\n    x = 1  # b\ng()\nuse(x)", "a b"),
    "global read by another function": ("x = 0  # a\ndef g():\n    global x\n    x = 1  # b\ndef h():\n    use(x)",
        "a b"),
    "global past a closure": ("x = 0  # a\ndef g():\n    x = 1  # b\n    def h():\n        global x\n        use(x)",
        "a"),
    "global in a class": ("x = 0  # a\nclass K:\n    global x\n    x = 1  # b\nuse(x)", "a b"),
    "local hides": ("x = 0  # a\ndef g():\n    x = 1  # b\n    use(x)", "b"),
    "later module code": ("def g():\n    use(x)\nx = 0  # a", "a"),
    "global by import": ("x = 0  # a\ndef g():\n    global x\n    import x  # b\nuse(x)", "a b"),
    "global by loop": ("x = 0  # a\ndef g():\n    global x\n    for x in n:  # b\n        pass\nuse(x)", "a b"),
}  # fmt: skip


@pytest.mark.parametrize("name", AT_MODULE_LEVEL)
def test_reaching_definitions_of_globals(name: str) -> None:
    code, expected = AT_MODULE_LEVEL[name]
    assert reads(code) == expected


PATHS = {
    "x, y = v": (0,),
    "y, x = v": (1,),
    "y, (z, x) = v": (1, 1),
    "*x, y = v": (-1,),
    "y, *x = v": (-1,),
    "*y, x = v": (-1,),
    "y, *z, (x, u) = v": (-1, 0),
    "x = v": (),
    "for y, x in v: pass": (1,),
}


@pytest.mark.parametrize("code", PATHS)
def test_way_from_the_value(code: str) -> None:
    file = facts(code)
    (definition,) = file.flow.bound(file.source.module, "x")
    assert definition.path == PATHS[code]
    assert definition.value is not None
    assert file.source.code(definition.value) == "v"


EARLIER_ROUNDS = {
    "x = 0\nfor i in n:\n    use(x)\n    x = i  # a": "a",
    "x = 0\nfor i in n:\n    x = i  # a\n    use(x)": "",
    "x = 0\nfor i in n:\n    if c:\n        x = i  # a\n    use(x)": "a",
    "x = 0\nfor i in n:\n    if c:\n        x = i  # a\n    else:\n        x = 1  # b\n    use(x)": "",
    "for i in n:\n    x = i  # a\n    while c:\n        use(x)": "",
    "for i in n:\n    x = i  # a\n    while c:\n        use(x)\n        x = 2  # b": "b",
    "for i in n:\n    if c:\n        continue\n    x = i  # a\nuse(x)": "a",
    "for i in n:\n    x = i  # a\n    break\nuse(x)": "",
}


@pytest.mark.parametrize("code", EARLIER_ROUNDS)
def test_what_comes_from_an_earlier_round(code: str) -> None:
    file = facts(code)
    found = file.flow.from_earlier_rounds(used_names(file)[0])
    assert marks(file, found) == EARLIER_ROUNDS[code]


def test_uses_of_a_definition() -> None:
    file = facts("x = 0\ny.x = x\nf(x=x)\nx += 1\nprint(x)\nlambda: x")
    first, second = file.flow.bound(file.source.module, "x")
    assert [file.source.line(use) for use in file.flow.uses(first)] == [2, 3, 4, 6]
    assert [file.source.line(use) for use in file.flow.uses(second)] == [5, 6]
    assert second.binding is Binding.AUGMENTED


def test_targets_are_no_reads() -> None:
    file = facts("x = 0\nfor x in n: pass\nwith f() as x: pass\n(x := 1)\n[x for x in n]\nimport x\ndef g(x): pass")
    assert sum(len(file.flow.uses(definition)) for definition in file.flow.bound(file.source.module, "x")) == 0


def test_definition_of_a_target() -> None:
    file = facts("def f():\n    global x\n    x = 1\n")
    (definition,) = file.flow.bound(file.source.module, "x")
    assert file.flow.defined(definition.node) == [definition]
