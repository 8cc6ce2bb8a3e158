"""Who calls whom: functions, methods, constructors, modules; and what classes are and hold."""

from __future__ import annotations

import libcst as cst
import pytest
from snippets import facts

from perfmod.transforms.facts.calls import Calls, passed
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import parameters
from perfmod.transforms.facts.tree import find_all

MODULE = "from torch import nn\nclass K(nn.Module):\n    def forward(self, x): ...\n    def g(self, x): ...\n"


def marked(file: FileFacts) -> cst.Call:
    """The call on the line that ends with `# call`."""
    line = next(n for n, text in enumerate(file.source.text.splitlines(), 1) if text.endswith("# call"))
    return next(call for call in find_all(file.source.module, cst.Call) if file.source.line(call) == line)


def target(code: str) -> str:
    """Dotted name of the function that the marked call runs; empty where that is not in sight."""
    file = facts(code)
    function = file.values.calls.resolve(marked(file))
    return ".".join(filter(None, (file.scope_name(function), function.name.value))) if function is not None else ""


def reached(code: str) -> list[str]:
    """Dotted names of all functions that the marked call may run."""
    file = facts(code)
    return [f"{file.scope_name(each)}.{each.name.value}" for each in file.values.calls.reached(marked(file))]


@pytest.mark.parametrize(("made", "wanted"), [
    ("step = GraphedStep(step, [optimizer])", "step"),
    ("step = torch.compile(step)", "step"),
    ("if fast:\n    step = torch.compile(step)", "step"),
    ("step = traced(step)", ""),
    ("step = torch.compile(mode='default')", ""),
    ("step, other = torch.compile(step), 1", ""),
])  # fmt: skip
@pytest.mark.parametrize("call", ["step(x)  # call", "def train(x):\n    step(x)  # call"])
def test_a_function_that_was_compiled_or_recorded_is_called(made: str, wanted: str, call: str) -> None:
    start = "import torch\nfrom graphed_step import GraphedStep\ndef other(x): ...\ndef step(x): ...\n"
    assert target(f"{start}{made}\n{call}\n") == wanted


@pytest.mark.parametrize(("bound", "wanted"), [
    ("loss = smooth", "smooth"),
    ("loss = smooth\nif plain:\n    loss = exact", ""),
    ("loss = losses", ""),
    ("loss = exact if plain else smooth", ""),
    ("loss, other = smooth, exact", ""),
])  # fmt: skip
def test_a_function_may_be_called_by_another_name(bound: str, wanted: str) -> None:
    assert target(f"losses = make()\ndef exact(x): ...\ndef smooth(x): ...\n{bound}\nloss(x)  # call\n") == wanted


def test_a_name_that_may_be_one_of_two_functions_is_not_resolved() -> None:
    start = "import torch\ndef other(x): ...\ndef step(x): ...\nstep = torch.compile(other)\n"
    assert target(f"{start}step(x)  # call\n") == "other"
    assert target(f"{start}def train(x):\n    step(x)  # call\n") == ""


FAMILY = """
class K:
    def g(self):
        {base}
    def f(self):
        self.g(){in_base}
class L(K):
    def g(self):
        return 1
class M(L):
    def g(self):
        return super().g(){in_derived}
k = L()
k.g(){outside}
"""


def test_overridden_methods_are_reached() -> None:
    places = {"base": "return 2", "in_base": "", "in_derived": "", "outside": ""}
    call = "  # call"
    assert reached(FAMILY.format(**places | {"in_base": call})) == ["K.g", "L.g", "M.g"]
    assert reached(FAMILY.format(**places | {"in_base": call, "base": "raise NotImplementedError"})) == ["L.g", "M.g"]
    assert reached(FAMILY.format(**places | {"in_derived": call})) == ["L.g"]
    assert reached(FAMILY.format(**places | {"outside": call})) == ["L.g"]


def test_what_callers_pass_for_a_parameter_is_reached() -> None:
    code = "class K:\n    def g(self): ...\n    def h(self):\n        run(self.g)\n\n\ndef a(): ...\n\n\n"
    code += "def run(f):\n    f()  # call\n\n\nrun(a)\nrun(max)\n"
    assert reached(code) == ["K.g", ".a"]


TARGETS = {
    "function": ("def f(): ...\nf()  # call", "f"),
    "function of a function": ("def f():\n    def g(): ...\n    g()  # call", "f.g"),
    "defined later": ("def f():\n    g()  # call\ndef g(): ...", "g"),
    "either of two": ("if c:\n    def f(): ...\nelse:\n    def f(): ...\nf()  # call", ""),
    "bound again": ("def f(): ...\nf = g\nf()  # call", ""),
    "wrapped": ("def f(): ...\nf = compile(f)\nf()  # call", ""),
    "parameter": ("def f(): ...\ndef g(f):\n    f()  # call", ""),
    "method": ("class K:\n    def g(self): ...\n    def f(self):\n        self.g()  # call", "K.g"),
    "other name of self": ("class K:\n    def g(this): ...\n    def f(this):\n        this.g()  # call", "K.g"),
    "inherited": ("class K:\n    def g(self): ...\nclass L(K):\n    def f(self):\n        self.g()  # call", "K.g"),
    "overridden": (("class K:\n    def g(self): ...\nclass L(K):\n    def g(self): ...\n    def f(self):\n"
          "        self.g()  # call"), "L.g"),
    "super": ("class K:\n    def g(self): ...\nclass L(K):\n    def g(self):\n        super().g()  # call", "K.g"),
    "of an instance": ("class K:\n    def g(self): ...\nk = K()\nk.g()  # call", "K.g"),
    "of an attribute": (("class K:\n    def g(self): ...\nclass L:\n    def __init__(self):\n        self.k = K()\n"
          "    def f(self):\n        self.k.g()  # call"), "K.g"),
    "replaced": ("class K:\n    def g(self): ...\nK.g = lambda self: 0\nk = K()\nk.g()  # call", ""),
    "replaced by name": ("class K:\n    def g(self): ...\ndef h(): ...\nsetattr(K, 'g', h)\nK().g()  # call", ""),
    "set to a number elsewhere": ("class K:\n    def g(self): ...\nargs.g = 3\nk = K()\nk.g()  # call", "K.g"),
    "of an unknown": ("class K:\n    def g(self): ...\nk.g()  # call", ""),
    "through the class": ("class K:\n    def g(self): ...\nK.g(k)  # call", ""),
    "module": (MODULE + "k = K()\nk(x)  # call", "K.forward"),
    "moved module": (MODULE + "k = K().to(device)\nk(x)  # call", "K.forward"),
    "compiled module": ("import torch\n" + MODULE + "k = torch.compile(K())\nk(x)  # call", "K.forward"),
    "method of a module": (MODULE + "k = K().cuda()\nk.g(x)  # call", "K.g"),
    "module as an argument": (MODULE + "def f(k):\n    k(x)  # call\nf(K())", "K.forward"),
    "callable": ("class K:\n    def __call__(self): ...\nk = K()\nk()  # call", "K.__call__"),
    "construction": ("class K:\n    def __init__(self): ...\nK()  # call", ""),
    "library": ("import torch\ntorch.where(x)  # call", ""),
    "attribute that is a function": (("class K:\n    def __init__(self, f):\n        self.f = f\n    def g(self):\n"
          "        self.f()  # call"), ""),
}  # fmt: skip


@pytest.mark.parametrize("name", TARGETS)
def test_what_a_call_runs(name: str) -> None:
    code, expected = TARGETS[name]
    assert target(code) == expected


PASSED = {
    "def f(a, x): ...\nf(1, 2)  # call": "2",
    "def f(a, x): ...\nf(1, x=2)  # call": "2",
    "def f(a, x=0): ...\nf(1)  # call": None,
    "def f(a, *, x): ...\nf(1, x=2)  # call": "2",
    "def f(a, *x): ...\nf(1, 2)  # call": None,
    "def f(a, **x): ...\nf(1, y=2)  # call": None,
    "def f(a, x): ...\nf(*b, 2)  # call": None,
    "def f(x, /): ...\nf(2)  # call": "2",
    "class K:\n    def f(self, x): ...\nk = K()\nk.f(2)  # call": "2",
    "class K:\n    @classmethod\n    def f(cls, x): ...\nk = K()\nk.f(2)  # call": "2",
    "class K:\n    @classmethod\n    def f(cls, x): ...\nK.f(2)  # call": "2",
}


@pytest.mark.parametrize("code", PASSED)
def test_what_is_passed_for_x(code: str) -> None:
    file = facts(code)
    call = marked(file)
    function = file.values.calls.resolve(call)
    assert function is not None
    (param,) = (p for p in parameters(function) if p.name.value == "x")
    found = passed(call, function, param, bound=file.tree.class_of(function) is not None)
    assert (file.source.code(found) if found is not None else None) == PASSED[code]


CALLERS = {
    "def f(): ...  # def\nf()\nx = [f() for _ in y]\ng(f)": 2,
    "class K:\n    def __init__(self): ...  # def\nK()\nclass L(K): ...\nL()": 2,
    MODULE.replace("x): ...\n    def g", "x): ...  # def\n    def g") + "k = K()\nk(x)\nk.forward(x)\nk.g(x)": 2,
    "class K:\n    def g(self): ...  # def\n    def f(self):\n        self.g()\nk = K()\nk.g()\nother.g()": 2,
}


@pytest.mark.parametrize("code", CALLERS)
def test_callers(code: str) -> None:
    file = facts(code)
    line = next(n for n, text in enumerate(file.source.text.splitlines(), 1) if text.endswith("# def"))
    function = next(f for f in find_all(file.source.module, cst.FunctionDef) if file.source.line(f) == line)
    assert len(file.values.calls.callers(function)) == CALLERS[code]


def test_functions_that_are_handed_on() -> None:
    file = facts("def f(): ...\ndef g(): ...\nf()\nmap(g, x)\ng()")
    first, second = find_all(file.source.module, cst.FunctionDef)
    assert file.values.calls.is_only_called(first)
    assert not file.values.calls.is_only_called(second)


def test_kinds_of_classes() -> None:
    file = facts(
        """
        import torch
        from torch import nn
        from torch.utils.data import Dataset, IterableDataset
        class Net(nn.Module): ...
        class Block(Net): ...
        class Data(Dataset): ...
        class Stream(IterableDataset): ...
        class Listed:
            def __len__(self): ...
            def __getitem__(self, i): ...
        class Op(torch.autograd.Function):
            def forward(ctx, x): ...
        class Plain:
            def __len__(self): ...
        """
    )
    kinds = {cls.name: (cls.is_module, cls.is_dataset) for cls in file.classes}
    assert kinds == {
        "Net": (True, False),
        "Block": (True, False),
        "Data": (False, True),
        "Stream": (False, True),
        "Listed": (False, True),
        "Op": (False, False),
        "Plain": (False, False),
    }


def test_everything_that_an_attribute_gets() -> None:
    file = facts(
        """
        class K:
            a = 0
            def __init__(self):
                self.a, (self.b, *self.c) = 1, x
                self.register_buffer("d", y)
                with open(z) as self.e:
                    pass
            def g(this):
                this.a += 1
                for this.f in z:
                    pass
        class L(K):
            def h(self):
                self.a: int = 2
        """
    )
    first, second = file.classes
    values = {
        name: [file.source.code(found.value) if found.value is not None else "" for found in first.assignments(name)]
        for name in "abcdef"
    }
    assert values == {"a": ["0", "1, x", "", "2"], "b": ["1, x"], "c": ["1, x"], "d": ["y"], "e": [""], "f": [""]}
    assert [found.path for found in first.assignments("c")] == [(1, -1)]
    assert len(second.assignments("a")) == 4


def test_modules_that_call_each_other_are_resolved_in_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    size, steps = 15, 0
    modules = "from torch import nn\n" + "".join(
        f"""
class K{i}(nn.Module):
    def __init__(self):
        self.a, self.b, self.c = K{(i + 1) % size}(), K{(2 * i + 1) % size}(), [K{(i + 3) % size}()]
    def forward(self, x, y):
        for block in self.c:
            x, y = block(x, self.b(y, x))
        return self.a(self.b(x, y), self.pick(y)), y
    def pick(self, z):
        return self.c[0](z, self.a(z, z))
"""
        for i in range(size)
    )
    resolve = Calls._resolve

    def counted(calls: Calls, call: cst.Call) -> cst.FunctionDef | None:
        nonlocal steps
        steps += 1
        return resolve(calls, call)

    monkeypatch.setattr(Calls, "_resolve", counted)
    file = facts(modules)
    calls = file.tree.all(cst.Call)
    found = [file.values.calls.resolve(call) for call in calls]
    assert [file.values.calls.resolve(call) for call in reversed(calls)] == found[::-1]
    assert steps < 2 * len(calls)


def test_callers_of_many_forwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every `forward` has the same calls that may be calls of it: what is known of them is not asked for each."""
    number = 60
    classes = "".join(
        f"class K{n}(nn.Module):\n    def forward(self, x):\n        return x\n\nk{n} = K{n}()\n" for n in range(number)
    )
    calls = "".join(f"k{n}(1)\n" for n in (*range(number), *range(number)))
    file = facts(f"from torch import nn\n{classes}{calls}")
    asked = 0
    resolve = Calls.resolve

    def counted(self: Calls, call: cst.Call) -> cst.FunctionDef | None:
        nonlocal asked
        asked += 1
        return resolve(self, call)

    monkeypatch.setattr(Calls, "resolve", counted)
    for n, function in enumerate(find_all(file.source.module, cst.FunctionDef)):
        found = file.values.calls.callers(function)
        assert [call.func.value for call in found if isinstance(call.func, cst.Name)] == [f"k{n}"] * 2
        assert [file.source.line(call) for call in found] == sorted(map(file.source.line, found))
    assert asked < 10 * number
