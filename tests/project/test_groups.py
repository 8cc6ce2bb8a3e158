"""How files are put together, and kept apart."""

from __future__ import annotations

import time

import pytest

from perfmod.project import groups as module
from perfmod.project.groups import Facts, Group, groups
from perfmod.project.links import Links

MATTERS, TRAINS, NOTHING = Facts(1000, True, False), Facts(1000, True, True), Facts(1000, False, False)


def links(*pairs: str, files: str = "") -> Links:
    """Links from pairs such as `main>engine`."""
    imports: dict[str, dict[str, str]] = {file: {} for file in files.split()}
    for pair in pairs:
        one, other = pair.split(">")
        imports.setdefault(one, {})[other] = other
        imports.setdefault(other, {})
    return Links(imports)


def grouped(found: Links, **facts: Facts) -> list[Group]:
    return list(groups(found, {file: facts.get(file, NOTHING) for file in found.imports}))


def test_all_that_is_linked() -> None:
    found = links("main>engine", "main>data", "other>x")
    assert grouped(found, engine=TRAINS, data=MATTERS, x=MATTERS) == [
        Group(("data", "engine", "main")),
        Group(("other", "x")),
    ]


def test_what_neither_matters_nor_links_is_left_out() -> None:
    found = links("engine>names", "names>far", "test>main", "main>engine", "a>b")
    assert grouped(found, engine=TRAINS) == [Group(("engine", "far", "main", "names"))]


def test_what_is_imported_by_what_is_imported_is_read_as_far_as_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """A training runs it, and it need not name torch; who imports the training is not followed further."""
    found = links("engine>names", "names>far", "far>farther", "test>main", "main>engine")
    monkeypatch.setattr(module, "MOST_FILES", 4)
    assert grouped(found, engine=TRAINS) == [Group(("engine", "far", "main", "names"))]


def test_what_lies_between_is_kept() -> None:
    found = links("a>b", "b>c", "c>d", "d>e", "end>c")
    assert grouped(found, a=MATTERS, e=MATTERS) == [Group(("a", "b", "c", "d", "e"))]


def test_who_imports_a_package_calls_what_it_hands_on() -> None:
    found = links("main>pkg/__init__.py", "pkg/__init__.py>loop", "test>main", "a>names")
    assert grouped(found, loop=TRAINS) == [Group(("loop", "main", "pkg/__init__.py"))]


def test_one_file_may_be_large() -> None:
    assert grouped(links(files="a"), a=Facts(5_000_000, True, True)) == [Group(("a",))]


@pytest.mark.parametrize("limit", ["MOST_FILES", "MOST_BYTES"])
def test_too_many_are_split_around_those_that_train(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    """`hub` goes with one of them, and is read with the other; what is far from all is alone."""
    monkeypatch.setattr(module, limit, 4 if limit == "MOST_FILES" else 4000)
    found = links("a/main>a/engine", "a/main>a/data", "a/engine>hub", "b/main>b/engine", "b/engine>hub", "hub>far")
    facts = {"a/engine": TRAINS, "a/data": TRAINS, "b/engine": TRAINS, "hub": MATTERS, "far": MATTERS}
    assert grouped(found, **facts) == [
        Group(("a/data", "a/engine", "a/main", "hub")),
        Group(("b/engine", "b/main"), ("hub",)),
        Group(("far",)),
    ]


def test_a_library_is_quick_and_every_file_is_rewritten_once() -> None:
    """Thousands of files around one `__init__`, some of which train."""
    names = [f"lib/m{number}" for number in range(5000)]
    imports = {
        name: {"lib": "lib/__init__", "next": names[(number * 7 + 1) % 5000]} for number, name in enumerate(names)
    }
    imports["lib/__init__"] = {name: name for name in names}
    facts = {name: TRAINS if number % 50 == 0 else MATTERS for number, name in enumerate(names)}
    facts["lib/__init__"] = Facts(400_000, False, False)
    began = time.process_time()
    found = list(groups(Links(imports), facts))
    assert time.process_time() - began < 5
    together = [file for group in found for file in group.files]
    assert len(together) == len(set(together))
    assert set(names) <= set(together)
    assert max(len(group.files) + len(group.beside) for group in found) <= module.MOST_FILES
    backwards = {file: dict(reversed(targets.items())) for file, targets in reversed(imports.items())}
    assert list(groups(Links(backwards), dict(reversed(facts.items())))) == found
