"""PM201: trainings that look as if workers could make their batches, and where something would come out otherwise."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from perfmod.codemods.engine import rewrite_together
from perfmod.codemods.results import Choice, Given
from perfmod.transforms.feeding.loader_without_workers import LoaderWithoutWorkers
from perfmod.transforms.finding import Safety

CODE = """\
import collections, csv, itertools, logging, multiprocessing, pathlib, sqlite3, sys
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler, Subset, random_split
from curriculum import advance

logger = logging.getLogger(__name__)
TOP
HOST = torch.tensor([1.0])


class Shift:
    def __init__(self):
        self.by = 0.0

    def __call__(self, x):
        return x + self.by


class Photos(Dataset):
    def __init__(self, items, shift):
        self.items = items
        self.shift = shift
        KEEPS

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        x = torch.tensor([float(self.items[index])]).sqrt()
        SAMPLE
        return x


class Steps(Sampler):
    def __init__(self, size, weights):
        self.size = size
        self.weights = weights

    def __iter__(self):
        for index in range(self.size):
            ORDER
            yield index


def harder(dataset, x):
    dataset.scale = float(x.mean())


def initialise(model):
    for p in model.parameters():
        nn.init.normal_(p)


def halved(x):
    return x.mul_(0.5)


def first(batch):
    return batch[0]


def joined(batch, seen=[]):
    COLLATED
    return torch.stack(batch)


def main():
    model = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    items, weights, shift = [float(n) for n in range(800)], [1.0] * 8, Shift()
    generator = torch.Generator()
    dataset = Photos(items, shift)
    BEFORE
    loader = DataLoader(dataset, batch_size=2)
    for epoch in range(2):
        for x in loader:
            INSIDE
            loss = model(x.to(model.weight.device)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
"""
CACHED = "import functools\n\n\n@functools.lru_cache(maxsize=8)\ndef read(n):\n    return torch.ones(n + 1)\n"
MADE = "DataLoader(dataset, batch_size=2)"


def written(**parts: str) -> str:
    """The script with these parts; `loader` is what makes the loader."""
    code = CODE.replace(MADE, parts.pop("loader", MADE))
    for name in ("KEEPS", "SAMPLE", "ORDER", "COLLATED", "BEFORE", "INSIDE", "TOP"):
        code = code.replace(name, parts.pop(name.lower(), "pass"))
    assert not parts
    return code


def said(code: str | Mapping[str, str]) -> str:
    """Why nothing is rewritten, or `""` where it is."""
    files = {"train.py": code} if isinstance(code, str) else code
    given = [Given(path, text.encode(), (path.removesuffix(".py"),)) for path, text in files.items()]
    results = rewrite_together(given, [LoaderWithoutWorkers()], Choice())
    assert not [result.reason for result in results if result.reason]
    findings = [f for result in results for f in (*result.refused, *result.held_back)]
    applied = [f for result in results for f in result.applied]
    assert bool(findings) != bool(applied)
    assert all(finding.safety is Safety.SAFE for finding in applied)
    return " | ".join(finding.reason for finding in findings)


@pytest.mark.parametrize(
    "inside",
    [
        "shift.by = float(x.mean())", "items[0] = 1.0", "items.append(1.0)", "Photos.scale = 2", "harder(dataset, x)",
        "advance(dataset, x)", "dataset.shift.by += 1", "loader.dataset.items.pop()",
        "DataLoader(Subset(dataset, [0])).dataset.dataset.scale = 2", "random_split(dataset, [1])[0].dataset.scale = 2",
    ],
)  # fmt: skip
def test_the_loop_changes_what_samples_are_made_of(inside: str) -> None:
    reason = said(written(inside=inside))
    assert "changes data that the loader reads while it runs, which workers would not see" in reason
    assert "line 78" in reason


@pytest.mark.parametrize(("before", "inside"), [
    ("own = dataset.items", "own.clear()"),
    ("bump = dataset.items.append", "bump(1.0)"),
    ("change = functools.partial(setattr, dataset, 'scale')", "change(2)"),
    ("hooks = [print]", "for hook in hooks: hook(dataset)"),
    ("pass", "for dataset.scale in (1, 2): pass"),
    ("pass", "with open('x') as dataset.file: pass"),
    ("pass", "dataset.scale, y = 1, 2"),
    ("pass", "model.register_forward_hook(lambda m, i, o: setattr(dataset, 'scale', 2))"),
])  # fmt: skip
def test_it_is_changed_by_other_names(before: str, inside: str) -> None:
    reason = said(written(before=before, inside=inside).replace("import collections", "import functools, collections"))
    assert "changes data that the loader reads while it runs, which workers would not see" in reason


@pytest.mark.parametrize(("loader", "inside"), [
    ("DataLoader(Subset(dataset, [0, 1]), batch_size=2)", "dataset.scale = 1"),
    ("DataLoader(random_split(dataset, [6, 2])[0], batch_size=2)", "dataset.scale = 1"),
    ("DataLoader(dataset, batch_size=2, sampler=Steps(8, weights))", "weights[0] = float(x.mean())"),
    ("DataLoader(dataset, batch_size=2, sampler=Steps(8, weights), collate_fn=joined)", "joined.scale = 1"),
])  # fmt: skip
def test_what_it_reads_lies_deeper(loader: str, inside: str) -> None:
    assert "line 78 changes data that the loader reads" in said(written(loader=loader, inside=inside))


@pytest.mark.parametrize(("parts", "reason"), [
    ({"keeps": "self.rest = iter(items)", "sample": "x = x + next(self.rest)"}, "changes"),
    ({"keeps": "self.rest = itertools.cycle([1])", "sample": "x += next(self.rest)"}, "line 31 changes self.rest"),
    ({"keeps": "self.by = torch.distributions.Beta(1, 1)", "sample": "x *= self.by.sample()"}, ".sample() (line"),
    ({"keeps": "self.drop = nn.Dropout(0.1)", "sample": "x = self.drop(x)"}, "torch.nn.Dropout"),
    ({"sample": "x = nn.functional.gumbel_softmax(x)"}, "gumbel_softmax() (line 31)"),
    ({"top": CACHED, "sample": "a = read(index); a -= a.mean()"}, "may modify"),
    ({"top": CACHED, "sample": "a = read(index); a[0] = 1"}, "changes a"),
    ({"top": "COUNT = itertools.count()", "sample": "x = x + next(COUNT)"}, "line 31 changes COUNT"),
    ({"keeps": "self.rows = sqlite3.connect('x.db').cursor()"}, "is opened before"),
    ({"keeps": "self.rows = csv.reader(items)"}, "changes the iterator csv.reader(items)"),
    ({"keeps": "self.file = pathlib.Path('x').open('rb')"}, "is opened before"),
    ({"keeps": "self.net = torch.jit.load('net.pt')"}, "is opened before"),
    ({"before": "dataset.shift = torch.rand", "sample": "x = self.shift(1)"}, "torch.rand() (line 74)"),
    ({"sample": "Photos.calls += 1"}, "line 31 changes Photos.calls"),
    ({"sample": "type(self).calls += 1"}, "line 31 changes type(self).calls"),
    ({"sample": "setattr(self, 'last', index)"}, "line 31 changes self"),
    ({"sample": "object.__setattr__(self, 'last', index)"}, "line 31 changes self"),
    ({"sample": "vars(self)['last'] = index"}, "line 31 changes vars(self)"),
    ({"sample": "torch.stack([x, x], out=HOST)"}, "line 31 changes HOST"),
    ({"keeps": "self.maps = torch.ones(8, 3)", "sample": "m = self.maps[0].view(-1); m.mul_(2)"}, "may modify"),
    ({"keeps": "self.maps = torch.ones(8, 3)", "sample": "halved(self.maps[index])"}, "line 56 may modify"),
    ({"sample": "open('log.txt', 'a').write('sample')"}, "line 31 appends to a file"),
    ({"sample": "logger.info('sample %d', index)"}, "line 31 logs"),
    ({"sample": "logging.warning('sample %d', index)"}, "line 31 logs"),
    ({"sample": "sys.stdout.write('sample')"}, "line 31 prints"),
    ({"top": "LOG = open('log.txt', 'w')", "sample": "LOG.write('sample')"}, "line 31 writes"),
    ({"top": "MEAN = torch.ones(1).to('cuda')", "sample": "x = x - MEAN.cpu()"}, "MEAN uses the GPU (line 31)"),
    ({"loader": MADE.replace(")", ", collate_fn=joined)"), "collated": "seen.append(1)"}, "line 64 changes seen"),
    ({"loader": MADE.replace(")", ", collate_fn=joined)"), "collated": "joined.n = 1"}, "line 64 changes joined.n"),
    ({"before": "dataset = Photos(items, model)", "sample": "x = self.shift(x)"}, "a module that line 70 trains"),
])  # fmt: skip
def test_what_samples_are_made_by(parts: dict[str, str], reason: str) -> None:
    assert reason in said(written(**parts))


SHUFFLED = MADE.replace(")", ", shuffle=True)")
DRAWN = MADE.replace(")", ", shuffle=True, generator=generator)")
STEPPED = MADE.replace(")", ", sampler=Steps(8, weights))")


@pytest.mark.parametrize(("parts", "reason"), [
    ({"loader": DRAWN, "inside": "x = x + torch.randn(1, generator=generator)"}, "line 78 also uses its generator"),
    ({"loader": DRAWN, "inside": "if x.mean() > 9: break"}, "line 78 may leave the loop"),
    ({"loader": STEPPED, "order": "self.weights[index] += 1"}, "Steps changes its own state (line 42)"),
    ({"loader": STEPPED, "order": "self.size -= 1"}, "Steps changes its own state (line 42)"),
    ({"loader": "DataLoader([torch.ones(2)], collate_fn=first)", "inside": "x.add_(1)"}, "line 78 modifies"),
    ({"loader": "DataLoader([{}], collate_fn=first)", "inside": "x['n'] = 1; x = x['x']"}, "line 78 modifies"),
    ({"loader": "DataLoader(dataset, batch_size=None)", "sample": "x = self.items[index]", "inside": "x.add_(1)"},
     "line 78 modifies the batch"),
])  # fmt: skip
def test_workers_run_ahead_of_the_loop(parts: dict[str, str], reason: str) -> None:
    assert reason in said(written(**parts))


@pytest.mark.parametrize("parts", [
    {},
    {"before": "dataset.scale = 2; items.append(3.0)"},
    {"inside": "print(dataset.items.index(3.0), len(dataset))"},
    {"sample": "x = x - HOST"},
    {"sample": "x.mul_(2); x[0] = 1"},
    {"sample": "torch.backends.mkldnn.enabled = True"},
    {"keeps": "self.maps = torch.ones(8, 3)", "sample": "m = self.maps[index].clone(); m.mul_(2)"},
    {"keeps": "self.maps = torch.ones(8, 3)", "sample": "halved(self.maps[index] + 1)"},
    {"sample": "logger.debug('sample %d', index)"},
    {"keeps": "self.names = collections.defaultdict(list)"},
    {"before": "dataset.shift = Shift()", "sample": "x = self.shift(x)"},
    {"loader": DRAWN, "before": "generator.manual_seed(1)"},
    {"loader": SHUFFLED, "inside": "if x.mean() > 9: break"},
    {"loader": STEPPED},
    {"loader": MADE.replace(")", ", collate_fn=joined)"), "inside": "x.add_(1)"},
    {"loader": "DataLoader(dataset, batch_size=None)", "inside": "x.add_(1)"},
])  # fmt: skip
def test_look_alikes_get_workers(parts: dict[str, str]) -> None:
    assert said(written(**parts)) == ""


BY_HAND = """\
    source = DataLoader(dataset, batch_size=2, shuffle=True)
    target = DataLoader(dataset, batch_size=2, shuffle=SHUFFLE)
    for epoch in range(2):
        MIDDLE
        source_batches = iter(source)
        BETWEEN
        target_batches = iter(target)
        for step in range(4):
            x = next(source_batches)
            y = next(target_batches)
            loss = (model(x.to(model.weight.device)) - model(y)).mean()
            loss.backward()
            dataset.scale = 1
"""


@pytest.mark.parametrize(
    ("shuffle", "between", "reason"),
    [("True", "pass", "when the iterator is created"), ("False", "initialise(model)", "when the iterator is created")],
)
def test_iterators_that_are_begun_one_after_the_other(shuffle: str, between: str, reason: str) -> None:
    code = written()
    start, end = code.index("    loader ="), code.index("\n\nif __name__")
    loops = BY_HAND.replace("            dataset.scale = 1\n", "").replace("SHUFFLE", shuffle)
    code = code[:start] + loops.replace("BETWEEN", between).replace("MIDDLE", "pass") + code[end:]
    results = rewrite_together([Given("train.py", code.encode(), ("train",))], [LoaderWithoutWorkers()], Choice())
    assert reason in results[0].held_back[0].reason
    assert len(results[0].held_back) == (2 if shuffle == "True" else 1)


def test_batches_drawn_by_hand_and_a_changed_dataset() -> None:
    code = written()
    start, end = code.index("    loader ="), code.index("\n\nif __name__")
    loops = BY_HAND.replace("SHUFFLE", "False").replace("BETWEEN", "pass").replace("MIDDLE", "dataset.scale = 3")
    code = code[:start] + loops + code[end:]
    assert said(code).count("line 87 changes data that the loader reads while it runs") == 2


@pytest.mark.parametrize("asks", ["print(loader.num_workers)", "assert loader.num_workers == 0"])
def test_the_number_of_workers_is_asked_for(asks: str) -> None:
    assert "line 78 reads its number of workers" in said(written(inside=asks))


def test_processes_that_become_daemons() -> None:
    code = written().replace(
        "    main()\n", "    p = multiprocessing.Process(target=main)\n    p.daemon = True\n    p.start()\n"
    )
    assert "line 87 starts daemonic processes" in said(code)
    engine = code.replace("    p.daemon = True\n", "").replace("multiprocessing.Process(target=main)", "None")
    starts = "import multiprocessing\nfrom engine import main\n\nmultiprocessing.Pool(2).apply(main)\n"
    assert "starts daemonic processes" in said({"engine.py": engine, "train.py": starts})


TRAINER = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from callbacks import Curriculum

class Numbers(Dataset):
    def __init__(self):
        self.scale = 1.0

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.tensor([float(index) * self.scale]).sqrt()

class Trainer:
    def __init__(self, callbacks):
        self.callbacks = callbacks
        self.loader = DataLoader(Numbers(), batch_size=2)
        self.model = nn.Linear(1, 1)

    def call(self, name):
        for callback in self.callbacks:
            getattr(callback, name)(self)

    def fit(self):
        for x in self.loader:
            self.model(x.to(self.model.weight.device)).mean().backward()
            CALL

if __name__ == "__main__":
    Trainer([Curriculum()]).fit()
"""
CALLBACKS = """\
class Curriculum:
    def on_batch(self, trainer):
        trainer.loader.dataset.scale *= 0.5
"""


@pytest.mark.parametrize("parts", [
    {"keeps": "self.names = collections.defaultdict(lambda: 0)"},
    {"keeps": "self.F = torch.nn.functional"},
    {"before": "dataset.shift = lambda x: x"},
    {"loader": MADE.replace(")", ", collate_fn=lambda batch: torch.stack(batch))")},
])  # fmt: skip
def test_what_a_fork_hands_to_workers(parts: dict[str, str]) -> None:
    code = written(**parts)
    assert said(code) == ""
    (result,) = rewrite_together([Given("train.py", code.encode())], [LoaderWithoutWorkers()], Choice())
    assert 'multiprocessing_context="fork")' in result.after.decode()


@pytest.mark.parametrize(("before", "function", "reason"), [
    ("rows = open('x')", "lambda b: (rows.readline(), first(b))[1]", "changes rows"),
    ("rows = open('x')", "lambda b: (next(rows), first(b))[1]", "changes rows"),
    ("seen = []", "lambda b: (seen.append(1), first(b))[1]", "changes seen"),
    ("rows = sqlite3.connect('x')", "lambda b: (rows.execute(''), first(b))[1]", "is opened before"),
    ("rows = [open('x')]", "lambda b: (rows[0], first(b))[1]", "is opened before"),
    ("pass", "lambda b: first(b).to('cuda')", "uses the GPU"),
    ("on = torch.ones(1).to('cuda')", "lambda b: first(b) * on", "on uses the GPU"),
    ("g = torch.Generator()", "lambda b: first(b) + torch.rand(1, generator=g)", "an equal copy"),
])  # fmt: skip
@pytest.mark.parametrize("form", ["lambda", "def"])
def test_what_a_function_reads_from_around_it(before: str, function: str, reason: str, form: str) -> None:
    if form == "def":
        body = function.removeprefix("lambda b: ")
        before, function = f"{before}\n    def local(b):\n        return {body}", "local"
    loader = MADE.replace(")", f", collate_fn={function})")
    assert reason in said(written(before=before, loader=loader))


@pytest.mark.parametrize("read", ["level", "levels[0]"])
def test_a_variable_that_the_loop_changes(read: str) -> None:
    loader = MADE.replace(")", f", collate_fn=lambda b: first(b) * {read})")
    change = "level = level + 1" if read == "level" else "levels.append(1)"
    before = "level, levels = 1, [1]"
    assert "changes data that the loader reads" in said(written(before=before, inside=change, loader=loader))
    assert said(written(before=f"{before}; {change}", loader=loader)) == ""


@pytest.mark.parametrize("call", ["self.call('on_batch')", "for each in self.callbacks: each.on_batch(self)"])
def test_callbacks_that_change_the_dataset(call: str) -> None:
    files = {"train.py": TRAINER.replace("CALL", call), "callbacks.py": CALLBACKS}
    assert "line 3 of callbacks.py changes data that the loader reads" in said(files)
    files["callbacks.py"] = CALLBACKS.replace(
        "trainer.loader.dataset.scale *= 0.5", "print(len(trainer.loader.dataset))"
    )
    assert said(files) == ""


LIGHTNING = """\
import pytorch_lightning as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

class Numbers(Dataset):
    def __init__(self):
        self.scale = 1.0

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.tensor([float(index) * self.scale]).sqrt()

class Lit(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(1, 1)
        self.numbers = Numbers()

    def training_step(self, batch, index):
        return self.net(batch).mean()

    def HOOK(self, *_):
        self.numbers.scale = 2.0

    def train_dataloader(self):
        return DataLoader(self.numbers, batch_size=2)

if __name__ == "__main__":
    pl.Trainer(max_epochs=1).fit(Lit())
"""


@pytest.mark.parametrize(
    ("hook", "matters"),
    [("on_train_batch_end", True), ("on_train_epoch_start", True), ("on_train_epoch_end", False), ("setup", False)],
)
def test_hooks_of_lightning_that_change_the_dataset(hook: str, matters: bool) -> None:
    reason = said(LIGHTNING.replace("HOOK", hook))
    assert ("line 26 changes data that the loader reads" in reason) is matters
