"""Where values were made, and where they go."""

from __future__ import annotations

import libcst as cst
import pytest
from snippets import facts, used

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import find_all

MP = "import torch.multiprocessing as mp\n"
HEAD = "from torch.utils.data import DataLoader\nloader = DataLoader(data)\nother = DataLoader(more)\n"


def ends(code: str) -> list[str]:
    """The ends of the trail of `use(...)`, as `code` or `code: path`."""
    file = facts(code)
    return sorted(_shown(file, end.node, end.path) for node in used(file) for end in file.tracing.ends(node))


def _shown(file: FileFacts, node: cst.CSTNode, path: tuple[int | str | None, ...]) -> str:
    code = file.source.code(node.name if isinstance(node, (cst.Param, cst.FunctionDef, cst.ClassDef)) else node)
    return f"{code}: {list(path)}" if path else code


ENDS = {
    "itself": ("use(f())", ["f()"]),
    "variable": ("x = f()\nuse(x)", ["f()"]),
    "either": ("x = f()\nif c:\n    x = g()\nuse(x)", ["f()", "g()"]),
    "interrupted": ("x = f()\ntry:\n    x = g()\nfinally:\n    use(x)", ["f()", "g()"]),
    "choice": ("use(f() if c else g())", ["f()", "g()"]),
    "default": ("use(f() or g())", ["f()", "g()"]),
    "unpacked": ("x, y = f(), g()\nuse(y)", ["g()"]),
    "unpacked call": ("x, (y, z) = f()\nuse(z)", ["f(): [1, 1]"]),
    "starred": ("x, *y = f()\nuse(y)", ["f(): [None]"]),
    "behind a star": ("*x, y = f()\nuse(y)", ["f(): [None]"]),
    "item": ("x = [f(), g()]\nuse(x[1])", ["g()"]),
    "last item": ("x = [f(), g()]\nuse(x[-1])", ["f()", "g()"]),
    "any item": ("x = [f(), g()]\nuse(x[i])", ["f()", "g()"]),
    "key": ("x = {'a': f(), 'b': g()}\nuse(x['b'])", ["g()"]),
    "unknown key": ("x = {'a': f(), **y}\nuse(x['a'])", ["{'a': f(), **y}: ['a']"]),
    "key stored later": ("x = {}\nx['a'] = f()\nx['b'] = g()\nuse(x['a'])", ["f()"]),
    "appended": ("x = []\nx.append(f())\nuse(x[0])", ["f()"]),
    "inserted": ("x = []\nx.insert(0, f())\nuse(x[0])", ["f()"]),
    "extended": ("x = [f()]\nx.extend([g()])\nuse(x[0])", ["f()", "g()"]),
    "updated": ("x = {'a': f()}\nx.update(a=g(), b=h())\nuse(x['a'])", ["f()", "g()"]),
    "updated by another": ("x = {'a': f()}\nx.update({'a': g()})\nuse(x['a'])", ["f()", "g()"]),
    "by default": ("x = {}\nx.setdefault('a', f())\nx.setdefault('b', g())\nuse(x['a'])", ["f()"]),
    "batch": (HEAD + "for b in loader:\n    use(b)", ["DataLoader(data): [None]"]),
    "part of a batch": (HEAD + "for x, y in loader:\n    use(y)", ["DataLoader(data): [None, 1]"]),
    "numbered": (HEAD + "for i, (x, y) in enumerate(loader):\n    use(x)", ["DataLoader(data): [None, 0]"]),
    "number": (HEAD + "for i, b in enumerate(loader):\n    use(i)", ["enumerate(loader): [None, 0]"]),
    "drawn": (HEAD + "it = iter(loader)\nuse(next(it)[0])", ["DataLoader(data): [None, 0]"]),
    "zipped": (HEAD + "for a, b in zip(loader, other):\n    use(b)", ["DataLoader(more): [None]"]),
    "moved": (HEAD + "for b in loader:\n    use(b['x'].view(-1))", ["DataLoader(data): [None, 'x']"]),
    "by a helper": (HEAD + "def g(b):\n    use(b)\nfor b in loader:\n    g(b)\nfor b in other:\n    g(b)",
        ["DataLoader(data): [None]", "DataLoader(more): [None]"]),
    "returned": (HEAD + "def g():\n    return loader, 1\nuse(g()[0])", ["DataLoader(data)"]),
    "yielded": (HEAD + "def g():\n    for x, y in loader:\n        yield x\nfor x in g():\n    use(x)",
        ["DataLoader(data): [None, 0]"]),
    "through accelerate": (HEAD + "model, opt, loader = acc.prepare(model, opt, loader)\nfor b in loader:\n    use(b)",
        ["DataLoader(data): [None]"]),
    "attribute": (
        HEAD + "class K:\n    def __init__(self):\n        self.l = loader\n"
        "    def g(self):\n        for b in self.l:\n            use(b)",
        ["DataLoader(data): [None]"],
    ),
    "parameter": ("def g(x):\n    use(x)", ["x"]),
    "parameter by its calls": ("def g(x):\n    use(x)\ng(f())\ng(x=h())", ["f()", "h()"]),
    "parameter of what is handed on": ("def g(x):\n    use(x)\ng(f())\nmap(g, y)", ["f()", "x"]),
    "parameter of what is spawned": (MP + "def g(i, x):\n    use(x)\nmp.spawn(g, args=(f(), 1), nprocs=2)", ["f()"]),
    "number of what is spawned": (MP + "def g(i, x):\n    use(i)\nmp.spawn(g, args=(f(), 1), nprocs=2)", ["i"]),
    "spawned and called": (MP + "def g(i, x):\n    use(x)\nmp.spawn(g, (f(),), 2)\ng(0, h())", ["f()", "h()"]),
    "parameter of a process": (MP + "def g(x):\n    use(x)\nmp.Process(target=g, args=(f(),)).start()", ["f()"]),
    "daemon": (MP + "def g(x):\n    use(x)\nmp.Process(target=g, args=(f(),), daemon=True)", ["x"]),
    "daemon later": (MP + "def g(x):\n    use(x)\np = mp.Process(target=g, args=(f(),))\np.daemon = True", ["x"]),
    "process with keywords": (MP + "def g(x):\n    use(x)\nmp.Process(target=g, kwargs=k).start()", ["x"]),
    "process with hidden arguments": (MP + "def g(x):\n    use(x)\nmp.Process(target=g, args=k)", ["x"]),
    "process with starred arguments": (MP + "def g(x, y):\n    use(y)\nmp.Process(target=g, args=(1, *k))", ["y"]),
    "process of another library": ("def g(x):\n    use(x)\nlib.Process(target=g, args=(f(),))", ["x"]),
    "spawned and handed on": (MP + "def g(i, x):\n    use(x)\nmp.spawn(g, (f(),))\nmap(g, y)", ["f()", "x"]),
    "default of a parameter": ("def g(x=f()):\n    use(x)\ng()", ["f()"]),
    "function": ("def g(): ...\nuse(g)", ["g"]),
    "class": ("class K: ...\nuse(K)", ["K"]),
    "cycle": ("x = f()\nfor i in y:\n    x = x\nuse(x)", ["f()"]),
    "global": ("x = f()\ndef g():\n    global x\n    x = h()\nuse(x)", ["f()", "h()"]),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDS)
def test_where_it_was_made(name: str) -> None:
    code, expected = ENDS[name]
    assert ends(code) == expected


def goes(code: str) -> list[str]:
    """What finally holds the value of `make()`: the code around each use, by its line."""
    file = facts(code)
    made = next(
        node
        for node in file.tree.ancestors(next(n for n in _names(file) if n.value == "make"))
        if isinstance(node, cst.Call)
    )
    return sorted(f"{file.source.line(held.node)} {file.source.code(held.node)}" for held in file.handing.uses(made))


def _names(file: FileFacts) -> list[cst.Name]:
    return list(find_all(file.source.module, cst.Name))


GOES = {
    "used at once": ("f(make())", ["1 make()"]),
    "variable": ("x = make()\nf(x)\ng(x)", ["2 x", "3 x"]),
    "unused": ("x = make()", []),
    "another variable": ("x = make()\ny = x\nf(y)", ["3 y"]),
    "tuple": ("x = make(), 1\na, b = x\nf(a)\ng(b)", ["3 a"]),
    "dictionary": ("x = {'a': make(), 'b': 1}\nf(x['a'])\ng(x['b'])", ["2 x['a']"]),
    "parameter": ("def f(a, b):\n    g(b)\n    h(a)\nf(1, make())", ["2 b"]),
    "keyword": ("def f(a, b):\n    g(b)\n    h(a)\nf(b=1, a=make())", ["3 a"]),
    "one of many arguments": ("def f(*a):\n    for b in a:\n        g(b)\n    h(a)\nf(1, make())", ["3 b", "4 a"]),
    "static method": (("class K:\n    @staticmethod\n    def f(a, b):\n        g(a)\n        h(b)\nk = K()\n"
          "k.f(make(), 1)"),
        ["4 a"]),
    "returned": ("def f():\n    return make()\ng(f())", ["3 f()"]),
    "returned in a tuple": ("def f():\n    return 1, make()\na, b = f()\ng(a)\nh(b)", ["5 b"]),
    "attribute": ("class K:\n    def __init__(self):\n        self.x = make()\n    def g(self):\n        f(self.x)",
        ["5 self.x"]),
    "walrus": ("if (x := make()):\n    f(x)", ["1 x := make()", "2 x"]),
    "closure": ("x = make()\ndef g():\n    f(x)", ["3 x"]),
}  # fmt: skip


@pytest.mark.parametrize("name", GOES)
def test_where_it_goes(name: str) -> None:
    code, expected = GOES[name]
    assert goes(code) == expected


@pytest.mark.parametrize("statement", ["global x", "global x, y"])
def test_values_of_globals_are_not_lost(statement: str) -> None:
    assert goes(f"def g():\n    {statement}\n    x = make()\ndef h():\n    f(x)") != []


def test_a_long_trail() -> None:
    lines = [f"x{number + 1} = x{number}" for number in range(3000)]
    assert ends("\n".join(("x0 = f()", *lines, "use(x3000)"))) == ["f()"]
