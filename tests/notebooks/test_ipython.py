"""What the language of cells has beyond Python, and what is read instead."""

from __future__ import annotations

import ast

import pytest

from perfmod.transforms.notebook import ipython


def read(cell: str) -> str:
    """The Python that is read for a cell."""
    pieces, at = [], 0
    for each in ipython.stand_ins(cell):
        assert cell[each.start : each.end].count("\n") >= 0 <= at <= each.start <= each.end <= len(cell)
        added = "\n" if each.start == each.end else ""
        pieces += [cell[at : each.start], each.indentation, each.python, added]
        at = each.end
    return "".join([*pieces, cell[at:]])


@pytest.mark.parametrize(("line", "python"), [
    ("%matplotlib inline", "pass"),
    ("%load_ext autoreload", "pass"),
    ("%time", "pass"),
    ("%time train(model)", "train(model)"),
    ("%time total / n", "print(total / n)"),
    ("%time loss = step(x)", "loss = step(x)"),
    ("%timeit step(x, model.net)", "get_ipython().run(step, x, model)"),
    ("%prun -s cumulative train(model)", "get_ipython().run(s, cumulative, train, model)"),
    ("%who", "pass"),
    ("%unknown", "pass"),
    ("%pylab inline", "from pylab import *"),
    ("%run train.py --lr 0.1", "from train import *"),
    ("%run -i ../lib/utils.ipynb", "from utils import *"),
    ("!pip install torch", "pass"),
    ("!echo $total {model.name} $HOME", "get_ipython().run(total, model, HOME)"),
    ("!!ls", "pass"),
    ("?model", "get_ipython().run(model)"),
    ("model.fit??", "get_ipython().run(model)"),
    ("nn.Linear?", "get_ipython().run(nn)"),
    (", f a b", "get_ipython().run(f, a, b)"),
    ("files = !ls {folder}", "files = get_ipython().run(folder)"),
    ("a, b = !ls", "a, b = get_ipython().run()"),
    ("seconds = %timeit -o f(x)", "seconds = get_ipython().run(o, f, x)"),
    ("get_ipython().system('pip install x')", "get_ipython().run(pip, install, x)"),
    ("get_ipython().run_line_magic('matplotlib', 'inline')", "pass"),
    ("get_ipython().magic('matplotlib inline')", "pass"),
    ("get_ipython().run_line_magic('prun', 'f(x)')", "get_ipython().run(prun, f, x)"),
    ("n = get_ipython().getoutput('wc $path')", "n = get_ipython().run(wc, path)"),
])  # fmt: skip
def test_lines(line: str, python: str) -> None:
    assert read(line) == python
    assert read(f"x = 1\n{line}\ny = 2") == f"x = 1\n{python}\ny = 2"
    assert read(f"x = 1\r\n{line}\r\ny = 2") == f"x = 1\r\n{python}\r\ny = 2"
    if "import" not in python:
        assert read(f"if x:\n    {line}\n") == f"if x:\n    {python}\n"
    assert read(f"'''\n{line}\n'''") == f"'''\n{line}\n'''"
    ast.parse(python)


@pytest.mark.parametrize("cell", [
    "x = a %b\ny = (a\n%b)\nz = a \\\n%b",
    "x = y != z",
    "x %= 3",
    "f(\n!x\n)",
    "s = 'it?'  # why?",
    "# what?",
    'x = """\n!ls\n"""; y = f"{x}"',
    "x = 'a\\\n!b'",
    "'''%'''\n'it\\'s'\n\"#\"\n",
    "print('100 %')",
    "@dec\ndef f(): ...",
    "get_ipython().ast_node_interactivity = 'all'",
    "get_ipython().run_line_magic(name, line)",
    "await f()",
    "",
    "\n\n",
    "# only a comment",
    "\n# comment\n    # indented comment\nx = 1",
    "total(x) if y else z",
    "a;=%",
    "f(x) = !ls",
])  # fmt: skip
def test_python_stays(cell: str) -> None:
    assert read(cell) == cell


def test_a_command_may_be_continued() -> None:
    assert read("!ls \\\n  -l \\\n  $folder\nx = 1") == "get_ipython().run(folder)\nx = 1"
    assert read("%time f(x, \\\n  y)\n") == "print(f(x,    y))\n"


@pytest.mark.parametrize(("cell", "python"), [
    ("%%time\nx = 1\n!ls\n", "pass\nx = 1\npass\n"),
    ("\n\n%%time\nx = 1", "\n\npass\nx = 1"),
    ("%%capture\nx = 1", "pass\nx = 1"),
    ("%%capture --no-stderr out\nx = 1", "out = get_ipython().run()\nx = 1"),
    ("%%capture\n%%time\nx = 1", "pass\npass\nx = 1"),
    ("%%bash\nls\npython train.py", "pass"),
    ("%%writefile train.py\nmodel = 1\n\n", "pass\n\n"),
    ("%%timeit -n 3\ny = f(x)\n", "y = get_ipython().run(n, y, f, x)\n"),
    ("%%mystery\nimport a.b\nfor i in x:\n    def g(): ...", "a = i = g = get_ipython().run(a, i, x, g)"),
    ("%%mystery\n<p>x = 1</p>\ny = 2", "y = get_ipython().run(p, x, y)"),
    ("%%time\n%%mystery\ny = 2", "pass\ny = get_ipython().run(y)"),
    ("%%time?", "pass"),
    ("x = 1\n%%time\ny = 2", "x = 1\npass\ny = 2"),
])  # fmt: skip
def test_cell_magics(cell: str, python: str) -> None:
    assert read(cell) == python
    ast.parse(python)


@pytest.mark.parametrize(("cell", "python"), [
    ("pip install torch", "pass"),
    ("\n  cd ../data \n", "\n  pass \n"),
    ("time f(x)", "print(f(x))"),
    ("run train.py", "from train import *"),
    ("pip install torch\nx = 1", "pip install torch\nx = 1"),
    ("ls = 1", "ls = 1"),
    ("time - 3", "time - 3"),
    ("ls", "ls"),
    ("echo x", "echo x"),
])  # fmt: skip
def test_a_magic_may_lack_its_percent_sign(cell: str, python: str) -> None:
    assert read(cell) == python


def test_which_cells_belong_to_a_magic() -> None:
    assert [ipython.is_foreign(cell) for cell in ("%%time\nx", "x\n%%bash", "%%bash", "%%capture\n%%sql\nx", "")] == [
        False,
        False,
        True,
        True,
        False,
    ]


def test_indented_cells() -> None:
    assert read("    x = 1\n    y = 2\n") == "if True:\n    x = 1\n    y = 2\n"
    assert read(" # why\n x = 1\n # end") == "if True:\n # why\n x = 1\n # end"
    assert read(" # why\n\n# and\n x = 1") == "if True:\n # why\n\n# and\n x = 1"
    assert read(" # why\nx = 1") == " # why\nx = 1"
    assert read(" !ls\n x = 1") == "if True:\n pass\n x = 1"
    assert read("\n  \n    x = 1\ny = 2\n") == "\n  \nif True:\n    x = 1\ny = 2\n"
    assert read("%%time\n\tx = 1\n") == "pass\nif True:\n\tx = 1\n"


@pytest.mark.parametrize(("cell", "expression"), [
    ("x = 1\ntotal / n", "total / n"),
    ("total", "total"),
    ("total  # the sum", "total"),
    ("é = 1; f(é)\n\n# end\n", "f(é)"),
    ("(total,\n n)", "(total,\n n)"),
    ("f'{total}'", "f'{total}'"),
    ("train(model)[0]", "train(model)[0]"),
    ("model.to(device)", "model.to(device)"),
    ("await f(x)", "await f(x)"),
])  # fmt: skip
def test_a_last_expression_is_shown(cell: str, expression: str) -> None:
    shown = ipython.shown(cell)
    assert shown is not None
    assert cell[shown.start : shown.end] == expression


@pytest.mark.parametrize(
    "cell",
    [
        "", "# nothing", "x = 1", "total;", "total ; ", "total\nx = 1", "for x in y:\n    x", "1 + 1", "'text'", "...",
        "print(total)", "losses.append(x)", "optimizer.step()", "plt.show()", "x = (", "model.train()",
    ],
)  # fmt: skip
def test_what_is_not_shown_or_does_not_matter(cell: str) -> None:
    assert ipython.shown(cell) is None
