from __future__ import annotations

import time

import pytest

from perfmod.project.statements import Imported, folders_added, imports


@pytest.mark.parametrize(("code", "found"), [
    ("import engine", [Imported("engine")]),
    ("import a.b as c, d", [Imported("a.b"), Imported("d")]),
    ("import a.b", [Imported("a.b", binds_package=True)]),
    ("from engine import train, evaluate as e  # both", [Imported("engine", ("train", "evaluate"))]),
    ("from . import engine", [Imported(".", ("engine",))]),
    ("from .. data import x", [Imported("..data", ("x",))]),
    ("from .loop import(a)", [Imported(".loop", ("a",))]),
    ("from pkg import *", [Imported("pkg", takes_all=True)]),
    ("from pkg import (\n    a,  # one\n    b,\n)\n", [Imported("pkg", ("a", "b"))]),
    ("from pkg \\\n    import a, \\\n    b\n", [Imported("pkg", ("a", "b"))]),
    ("from pkg \\\r\n    import a\r\nx = 1\r\n", [Imported("pkg", ("a",))]),
    ("x = 1; import a;import b", [Imported("a"), Imported("b")]),
    ("try: import a\nexcept ImportError: from b import a", [Imported("a"), Imported("b", ("a",))]),
    ("def f():\n\tfrom a import b\n", [Imported("a", ("b",))]),
    ("import \u00e9t\u00e9", [Imported("\u00e9t\u00e9")]),
    ("important = 1\nx = important\nd = {'k': importer (1)}", []),
    ("importlib.import_module('a')\n# import a\nx = 'import a'\nprint('from a import b')", []),
    ("from broken import (a,", []),
    ("from a import 1if", []),
    ("yield from x\nimport", []),
])  # fmt: skip
def test_imports(code: str, found: list[Imported]) -> None:
    assert list(imports(code.encode())) == found


def test_what_is_no_python_is_read_around() -> None:
    assert imports(b"print 'two'\nimport a\nexec code\n\xff\xfe\n") == (Imported("a"),)


def test_long_lines_take_no_time() -> None:
    began = time.perf_counter()
    assert imports(b"x = '" + b"; import a, from (" * 200_000) == ()
    assert time.perf_counter() - began < 5


@pytest.mark.parametrize(("code", "found"), [
    ("sys.path.append('core')", ("core",)),
    ('sys.path.insert(0, "../lib")', ("../lib",)),
    ("sys.path.append(os.path.join(ROOT_DIR, 'models', \"seg\"))  # 'no'", ("models/seg",)),
    ("sys.path.insert(0, str(Path(__file__).parent / 'src'))", ("src",)),
    ("sys.path.append('a')\nsys.path.append('b')\nsys.path.append('a')", ("a", "b")),
    ("sys.path.append(ROOT)", ()),
    ("sys.path.append(f'{root}/core')", ()),
    ("x = sys.path", ()),
])  # fmt: skip
def test_folders_that_are_put_on_the_path(code: str, found: tuple[str, ...]) -> None:
    assert folders_added(code.encode()) == found
