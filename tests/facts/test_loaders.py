"""Loaders: their settings, the loops over them, and which of those train."""

from __future__ import annotations

import pytest
from snippets import facts

HEAD = "from torch.utils.data import DataLoader\n"


def settings(code: str) -> dict[str, list[str]]:
    file = facts(HEAD + code)
    (loader,) = file.loaders
    return {name: [file.source.code(value) for value in setting.values] for name, setting in loader.settings.items()}


SETTINGS = {
    "x = DataLoader(d)": {"dataset": ["d"]},
    "x = DataLoader(d, 32, True)": {"dataset": ["d"], "batch_size": ["32"], "shuffle": ["True"]},
    "x = DataLoader(dataset=d, num_workers=4)": {"dataset": ["d"], "num_workers": ["4"]},
    "k = {'num_workers': 4}\nx = DataLoader(d, **k)": {"dataset": ["d"], "num_workers": ["4"]},
    "k = dict(num_workers=4)\nx = DataLoader(d, **k)": {"dataset": ["d"], "num_workers": ["4"]},
    "k = {}\nm = k\nm['num_workers'] = 4\nx = DataLoader(d, **k)": {"dataset": ["d"], "num_workers": ["4"]},
    "def f():\n    k = {}\n    k.update(num_workers=4)\n    return k\nm = f()\nx = DataLoader(d, **m)": {
        "dataset": ["d"], "num_workers": ["4"]},
    "k = {'num_workers': 4} if c else {}\nx = DataLoader(d, **k)": {"dataset": ["d"], "num_workers": ["4"]},
    "k = {}\nif c:\n    k = {'num_workers': 4}\nx = DataLoader(d, **k)": {"dataset": ["d"], "num_workers": ["4"]},
    "def f(a, **k):\n    x = DataLoader(a, **k)\nk = {'num_workers': 4, 'a': d}\nf(**k)": {"dataset": ["a"],
        "num_workers": ["4"]},
    "def f(a, **k):\n    x = DataLoader(a, **k)\nf(d, drop_last=c, **dict(num_workers=4 if c else 2))": {
        "dataset": ["a"],
        "num_workers": ["4 if c else 2"],
        "drop_last": ["c"],
    },
}  # fmt: skip


@pytest.mark.parametrize("code", SETTINGS)
def test_settings(code: str) -> None:
    assert settings(code) == SETTINGS[code]


BASE = "class L(DataLoader):\n    def __init__(self, %s):\n        %s\nx = L(%s)"
SUBCLASSES = {
    ("data, n=0", "super().__init__(data, num_workers=n)", "d, 2"): {"dataset": ["d"], "num_workers": ["2"]},
    ("data, n=0", "super().__init__(data, num_workers=n)", "data=d"): {"dataset": ["d"], "num_workers": ["0"]},
    ("data, **more", "super(L, self).__init__(data, **more)", "d, shuffle=c"): {"dataset": ["d"], "shuffle": ["c"]},
    ("*a, **k", "super().__init__(*a, **k)", "d, 4, drop_last=c"): {"dataset": ["d"], "batch_size": ["4"],
        "drop_last": ["c"]},
    ("data, *, size", "DataLoader.__init__(self, f(data), batch_size=size)", "d, size=4"): {"dataset": ["f(data)"],
        "batch_size": ["4"]},
    ("n, *a", "n = n or 1; super().__init__(*a, num_workers=n)", "3, d"): {"dataset": ["d"], "num_workers": ["n"]},
}  # fmt: skip


@pytest.mark.parametrize("parts", SUBCLASSES)
def test_settings_that_a_subclass_passes_on(parts: tuple[str, str, str]) -> None:
    assert settings(BASE % parts) == SUBCLASSES[parts]


def test_settings_that_several_subclasses_pass_on() -> None:
    code = BASE % ("data, size", "super().__init__(data, batch_size=size)", "d, 4")
    code = code.replace("\nx =", "\nclass M(L):\n    def __init__(self, *a):\n        super().__init__(*a)\nx =")
    assert settings(code.replace("x = L", "x = M")) == {"dataset": ["d"], "batch_size": ["4"]}


@pytest.mark.parametrize("parts", [
    ("data, **more", "more.pop('n'); super().__init__(data, **more)", "d, n=3"),
    ("data, n", "if n: super().__init__(data)", "d, 3"),
    ("data, n=1, **more", "super().__init__(data, num_workers=n, **more)", "d, **m"),
    ("data", "super().__init__(data)\n    def __iter__(self):\n        return f(self)", "d"),
    ("data", "super().__init__(data)", "d); y = L(e"),
])  # fmt: skip
def test_subclasses_that_decide_themselves(parts: tuple[str, str, str]) -> None:
    loader = next(iter(facts(HEAD + BASE % parts).loaders))
    assert loader.unseen == "L decides itself which arguments it passes on to DataLoader"


UNSEEN = [
    "x = DataLoader(d, **k)",
    "def f(**k):\n    x = DataLoader(d, **k)",
    "x = DataLoader(*a)",
    "def f(**k):\n    x = DataLoader(d, **k)\nf(**m)",
    "def f(**k):\n    x = DataLoader(d, **k)\nf(*a)",
    "def f(**k):\n    x = DataLoader(d, **k)\nf(**({'num_workers': 4} if c else {}))",
    "def f(**k):\n    x = DataLoader(d, **k)\nf(**{'num_workers': 4})\nf()",
]


@pytest.mark.parametrize("code", UNSEEN)
def test_unseen_settings(code: str) -> None:
    (loader,) = facts(HEAD + code).loaders
    assert loader.unseen


def test_a_setting_that_depends_on_a_condition() -> None:
    code = HEAD + "k = {'num_workers': 4} if c else {}\nx = DataLoader(d, num_workers=2)\ny = DataLoader(d, **k)"
    first, second = facts(code).loaders
    assert first.settings["num_workers"].always
    assert not second.settings["num_workers"].always


TRAINS = {
    "loop": ("for b in DataLoader(d):\n    f(b).backward()", True),
    "variable": ("x = DataLoader(d)\nfor b in x:\n    f(b).backward()", True),
    "evaluation": ("x = DataLoader(d)\nfor b in x:\n    f(b)", False),
    "by position": (("x, y = DataLoader(d), 1\ndef train(n, loader):\n    for b in loader:\n"
          "        f(b).backward()\ntrain(1, x)"), True),
    "of a dictionary": ("x = {'train': DataLoader(d)}\nfor b in x['train']:\n    f(b).backward()", True),
    "of a function": ("def make():\n    return DataLoader(d)\nfor b in make():\n    f(b).backward()", True),
    "of an attribute": (("class K:\n    def __init__(self):\n        self.x = DataLoader(d)\n    def fit(self):\n"
          "        for b in self.x:\n            f(b).backward()"), True),
    "numbered": ("from tqdm import tqdm\nfor i, b in enumerate(tqdm(DataLoader(d))):\n    f(b).backward()", True),
    "drawn": ("x = iter(DataLoader(d))\nfor i in range(3):\n    f(next(x)).backward()", True),
    "global": ("x = None\ndef make():\n    global x\n    x = DataLoader(d)\nmake()\nfor b in x:\n    f(b).backward()",
        True),
    "subclass": ("class L(DataLoader): ...\nfor b in L(d):\n    f(b).backward()", True),
    "method of the loop": (("x = DataLoader(d)\nclass T:\n    def step(self, b):\n        f(b).backward()\n"
          "    def fit(self):\n        for b in x:\n            self.step(b)"), True),
}  # fmt: skip


@pytest.mark.parametrize("name", TRAINS)
def test_which_loaders_train(name: str) -> None:
    code, expected = TRAINS[name]
    (loader,) = facts(HEAD + code).loaders
    assert loader.trains is expected


@pytest.mark.parametrize("code", ["x = f(DataLoader)", "class L(DataLoader): ...", "DataLoader = g\nx = DataLoader(d)"])
def test_no_loaders(code: str) -> None:
    assert list(facts(HEAD + code).loaders) == []


def test_loops_that_begin_anew_in_every_step() -> None:
    code = HEAD + "x, y = DataLoader(d), DataLoader(e)\nfor b in x:\n    f(b, next(iter(y))).backward()\n"
    first, second = facts(code).loaders
    assert [iteration.in_step for iteration in first.iterations] == [False]
    assert [iteration.in_step for iteration in second.iterations] == [True]


@pytest.mark.parametrize(
    ("inside", "begun"),
    [("", "drawn = iter(loader)"), ("drawn = iter(loader)", "")],
)
def test_generators_that_begin_anew_in_every_step(inside: str, begun: str) -> None:
    code = (
        f"{HEAD}loader = DataLoader(d)\n{begun}\n\ndef batches(loader):\n    {inside}\n    while True:\n"
        "        yield next(drawn)\n\nfor step in range(9):\n    f(next(batches(loader))).backward()\n"
    )
    file = facts(code)
    (loader,) = file.loaders
    in_steps = {file.code(each.iterable): each.in_step for each in loader.iterations}
    assert in_steps["drawn"] is bool(inside)
