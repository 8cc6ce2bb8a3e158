"""PM106 in meter classes of the file: what is left on the device, what stays, and that figures keep every digit."""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import textwrap
from typing import Any

import pytest
import torch

from perfmod.codemods.engine import Choice, FileResult, Given, Outcome, rewrite, rewrite_together
from perfmod.transforms.syncs.scalar_accumulation import ScalarAccumulation

METER = """\
class AverageMeter:
    def __init__(self):
        self.reset()

    def reset(self):
        self.val = 0
        self.avg = 0
        self.sum = 0
        self.count = 0

    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count
"""
KEPT = """\
class AverageMeter:
    def __init__(self):
        self.reset()

    def reset(self):
        self._val = 0
        self._sum = 0
        self.count = 0

    def update(self, val, n=1):
        self._val = val
        self._sum += val * n
        self.count += n
{check}
    @property
    def val(self):
        return self._val.item() if torch.is_tensor(self._val) else self._val

    @property
    def sum(self):
        return self._sum.item() if torch.is_tensor(self._sum) else self._sum

    @property
    def avg(self):
        return self.sum / self.count if self.count else 0
"""
CHECK = """\
        if not self.count:
            raise ZeroDivisionError("division by zero")
"""
SCRIPT = """\
import torch
import torch.nn.functional as F


{meter}

def fit(model, loader, optimizer, device):
{before}
    for step, (x, y) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        out = model(x)
        loss = F.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
{step}
{after}


if __name__ == "__main__":
    fit(torch.nn.Linear(3, 3), [], None, "cuda")
"""
NEW = "losses = AverageMeter()"
UPDATE = "losses.update(loss.item(), x.size(0))"
MOVED = "losses.update(loss.detach().double(), x.size(0))"
SHOWN = "print(losses.avg)"


def script(before: str = NEW, step: str = UPDATE, after: str = SHOWN, meter: str = METER) -> str:
    """A training script with this meter class and these lines before, in and after its steps."""
    return SCRIPT.format(
        meter=meter,
        before=textwrap.indent(before, " " * 4),
        step=textwrap.indent(step, " " * 8),
        after=textwrap.indent(after, " " * 4),
    )


def result(code: str, *, unsafe: bool = False) -> FileResult:
    return rewrite(code.encode(), "train.py", [ScalarAccumulation()], Choice(unsafe=unsafe))


def reasons(code: str) -> list[str]:
    """Why the rule refuses; the code must stay as it is."""
    found = result(code, unsafe=True)
    assert found.outcome is Outcome.UNCHANGED, found.reason or found.after.decode()
    return [finding.reason for finding in found.refused]


def assert_becomes(before: str, after: str, *, unsafe: bool = False) -> None:
    found = result(before, unsafe=unsafe)
    assert found.after.decode() == after
    assert len(found.applied) == 1
    again = result(after, unsafe=unsafe)
    assert (again.outcome, again.held_back) == (Outcome.UNCHANGED, ())


WEIGHTED = KEPT.format(check=CHECK)
UNWEIGHTED = KEPT.format(check="")
TAGGED = WEIGHTED.replace("_val) else", "_val) and self._val.dtype == torch.float64 else").replace(
    "_sum) else", "_sum) and self._sum.dtype == torch.float64 else"
)
ALL_REDUCED = """
    def all_reduce(self):
        total = torch.tensor([self.sum, self.count], dtype=torch.float64)
        self.{sum}, self.count = total.tolist()
"""

CHANGES = {
    "weighted by the batch": (script(), script(step=MOVED, meter=WEIGHTED)),
    "weights of one": (
        script(step="losses.update(loss.item())"),
        script(step="losses.update(loss.detach().double())", meter=UNWEIGHTED),
    ),
    "by keyword": (
        script(step="losses.update(n=2, val=loss.item())"),
        script(step="losses.update(n=2, val=loss.detach().double())", meter=UNWEIGHTED),
    ),
    "through a variable": (
        script(step="value = loss.item()\nlosses.update(value)"),
        script(step="value = loss.detach().double()\nlosses.update(value)", meter=UNWEIGHTED),
    ),
    "scaled": (
        script(step="losses.update(4 * loss.item())"),
        script(step="losses.update(4 * loss.detach().double())", meter=UNWEIGHTED),
    ),
    "a loss that is changed in place later": (
        script(step="losses.update(loss.item())\nloss.data.mul_(2)"),
        script(step="losses.update(loss.detach().clone().double())\nloss.data.mul_(2)", meter=UNWEIGHTED),
    ),
    "integers": (
        script(step="losses.update((out.argmax(1) == y).sum().item(), len(x))"),
        script(step="losses.update((out.argmax(1) == y).sum(), len(x))", meter=WEIGHTED),
    ),
    "integers and floats in meters of their own": (
        script(NEW + "\nhits = AverageMeter()", "losses.update(loss.item())\nhits.update((out > 0).sum().item())"),
        script(
            NEW + "\nhits = AverageMeter()",
            "losses.update(loss.detach().double())\nhits.update((out > 0).sum())",
            meter=UNWEIGHTED,
        ),
    ),
    "numbers of Python in other meters": (
        script("import time\nclock = AverageMeter()\n" + NEW, "clock.update(time.time())\n" + UPDATE),
        script("import time\nclock = AverageMeter()\n" + NEW, "clock.update(time.time())\n" + MOVED, meter=WEIGHTED),
    ),
    "read behind a modulo": (
        script(step=UPDATE + "\nif step % 9 == 0:\n    print(f'{losses.val:.4f} ({losses.avg:.4f})')"),
        script(step=MOVED + "\nif step % 9 == 0:\n    print(f'{losses.val:.4f} ({losses.avg:.4f})')", meter=WEIGHTED),
    ),
    "shown by a format string": (
        script(after="print('{l.val} {l.avg}'.format(l=losses))"),
        script(step=MOVED, after="print('{l.val} {l.avg}'.format(l=losses))", meter=WEIGHTED),
    ),
    "attributes in one chain": (
        script(
            meter=METER.replace("self.val = 0\n        self.avg = 0\n        self.sum = 0\n", "@").replace(
                "@        self.count = 0", "self.val = self.avg = self.sum = self.count = 0"
            )
        ),
        script(
            step=MOVED,
            meter=WEIGHTED.replace("self._val = 0\n        self._sum = 0\n", "@").replace(
                "@        self.count = 0", "self._val = self._sum = self.count = 0"
            ),
        ),
    ),
    "a method that shows all attributes": (
        script(meter=METER + "\n    def __str__(self):\n        return '{val} {avg}'.format(**self.__dict__)\n"),
        script(
            step=MOVED,
            meter=WEIGHTED + "\n    def __str__(self):\n        return '{val} {avg}'"
            ".format(**self.__dict__, val=self.val, sum=self.sum, avg=self.avg)\n",
        ),
    ),
    "returned": (
        script(after="return losses.avg, losses.sum"),
        script(step=MOVED, after="return losses.avg, losses.sum", meter=WEIGHTED),
    ),
    "other meters are given tensors": (
        script(step=UPDATE + "\nother.update(out.max())", before=NEW + "\nother = AverageMeter()"),
        script(step=MOVED + "\nother.update(out.max())", before=NEW + "\nother = AverageMeter()", meter=TAGGED),
    ),
    "other meters are given values from elsewhere": (
        script(step=UPDATE + "\nother.update(model.metric(x))", before=NEW + "\nother = AverageMeter()"),
        script(step=MOVED + "\nother.update(model.metric(x))", before=NEW + "\nother = AverageMeter()", meter=TAGGED),
    ),
    "reduced over processes": (
        script(meter=METER + ALL_REDUCED.format(sum="sum") + "        self.avg = self.sum / self.count\n"),
        script(step=MOVED, meter=WEIGHTED + ALL_REDUCED.format(sum="_sum") + CHECK),
    ),
    "device without float64": (
        script("device = 'mps'\n" + NEW),
        script(
            "device = 'mps'\n" + NEW,
            "losses.update(loss.detach().double() if loss.is_cuda else loss.item(), x.size(0))",
            meter=WEIGHTED,
        ),
    ),
    "a mean that has a number for no weight": (
        script(meter=METER.replace("self.sum / self.count", "self.sum / self.count if self.count != 0 else 0")),
        script(step=MOVED, meter=UNWEIGHTED.replace("if self.count else 0", "if self.count != 0 else 0")),
    ),
    "a comment moves with the mean": (
        script(meter=METER.replace("self.sum / self.count", "self.sum / self.count  # of the epoch")),
        script(step=MOVED, meter=WEIGHTED.replace("else 0\n", "else 0  # of the epoch\n")),
    ),
}


@pytest.mark.parametrize(("before", "after"), CHANGES.values(), ids=CHANGES)
def test_becomes(before: str, after: str) -> None:
    assert_becomes(before, after)


def test_mean_that_is_a_property_already() -> None:
    meter = textwrap.dedent("""\
        class Mean(object):
            \"\"\"A mean.\"\"\"

            def __init__(self, name):
                self.name = name
                self.{sum} = 0.0
                self.count = 0

            def update(self, value):
                self.{sum} = self.{sum} + value
                self.count += 1
        {property}
            @property
            def avg(self):
                return self.sum / max(self.count, 1)
        """)
    property_ = textwrap.indent(
        "\n@property\ndef sum(self):\n    return self._sum.item() if torch.is_tensor(self._sum) else self._sum\n",
        "    ",
    )
    before = script("losses = Mean('loss')", "losses.update(loss.item())", meter=meter.format(sum="sum", property=""))
    after = script(
        "losses = Mean('loss')",
        "losses.update(loss.detach().double())",
        meter=meter.format(sum="_sum", property=property_),
    )
    assert_becomes(before, after)


def test_file_that_others_import_is_held_back() -> None:
    library = script().partition("\n\nif __name__")[0] + "\n"
    held = result(library)
    assert held.outcome is Outcome.UNCHANGED
    assert [finding.reason for finding in held.held_back] == [
        "other files may import `AverageMeter` and hand tensors to it"
    ]
    assert_becomes(library, script(step=MOVED, meter=WEIGHTED).partition("\n\nif __name__")[0] + "\n", unsafe=True)


LOOP = """\
import torch.nn.functional as F
from {module} import AverageMeter


def fit(model, loader, optimizer, device):
    losses, clock = AverageMeter(), AverageMeter()
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.update({figure}, x.size(0))
        clock.update(1.5)
        print(clock.avg{more})
    return losses.avg
"""


def together(files: dict[str, str], **elsewhere: bool) -> tuple[FileResult, ...]:
    """Files that are read together; a keyword `utils=True` says that unseen files import `utils.py`, too."""
    given = [
        Given(path, code.encode(), (path.removesuffix(".py").replace("/", "."),), imported_elsewhere=name in elsewhere)
        for path, code in files.items()
        for name in [path.removesuffix(".py")]
    ]
    return rewrite_together(given, [ScalarAccumulation()])


def test_class_of_another_file() -> None:
    files = {
        "train.py": LOOP.format(module="utils", figure="loss.item()", more=""),
        "utils.py": METER,
        "finetune.py": LOOP.format(module="utils", figure="2 * loss.item()", more=""),
    }
    results = {result.path: result.after.decode() for result in together(files)}
    assert results["train.py"] == LOOP.format(module="utils", figure="loss.detach().double()", more="")
    assert results["finetune.py"] == LOOP.format(module="utils", figure="2 * loss.detach().double()", more="")
    assert results["utils.py"] == "import torch\n\n\n" + WEIGHTED
    again = together(results)
    assert [(result.outcome, result.refused) for result in again] == [(Outcome.UNCHANGED, ())] * 3


def test_a_figure_that_stays_is_not_where_the_change_of_the_class_is_reported() -> None:
    files = {
        "finetune.py": LOOP.format(module="utils", figure="model.penalty.item()", more=""),
        "train.py": LOOP.format(module="utils", figure="loss.item()", more=""),
        "utils.py": METER,
    }
    finetune, train, utils = together(files)
    assert [finding.line for finding in train.applied] == [13]
    assert (finetune.outcome, finetune.applied, utils.applied) == (Outcome.UNCHANGED, (), ())
    assert len(finetune.refused) == 1


def test_class_of_another_file_that_unseen_files_import_is_held_back() -> None:
    files = {"train.py": LOOP.format(module="utils", figure="loss.item()", more=""), "utils.py": METER}
    train, utils = together(files, utils=True)
    assert (train.outcome, utils.outcome) == (Outcome.UNCHANGED, Outcome.UNCHANGED)
    assert [finding.reason for finding in train.held_back] == [
        "other files may import `AverageMeter` and hand tensors to it"
    ]


def test_class_of_another_file_whose_figure_a_third_file_needs_in_every_step() -> None:
    files = {
        "train.py": LOOP.format(module="utils", figure="loss.item()", more=""),
        "utils.py": METER,
        "finetune.py": LOOP.format(module="utils", figure="loss.item()", more=", losses.val"),
    }
    train, _, finetune = together(files)
    assert [finding.reason for finding in train.refused] == [
        "`losses.val` is read in every step on line 15 of finetune.py"
    ]
    assert [finding.reason for finding in finetune.refused] == ["`losses.val` is read in every step on line 15"]


def test_weight_of_unknown_type_is_held_back() -> None:
    held = result(script(step="losses.update(loss.item(), model.weight_of(x))"))
    assert [finding.reason for finding in held.held_back] == ["`model.weight_of(x)` is taken for a Python number"]


BATCHES = textwrap.dedent("""

    class Photos(torch.utils.data.Dataset):
        def __getitem__(self, index):
            return {sample}

        def __len__(self):
            return 4


    loader = torch.utils.data.DataLoader(Photos(), batch_size=2{more})
    fit(torch.nn.Linear(3, 3).cuda(), loader, None, "cuda")
    """)


@pytest.mark.parametrize(
    ("sample", "more", "is_shown"),
    [
        ("torch.ones(3), 1", "", True),
        ("self.pair", "", False),
        ("torch.ones(3), 1", ", collate_fn=list", False),
    ],
)
def test_batches_of_a_loader_are_never_empty(sample: str, more: str, is_shown: bool) -> None:
    code = script(step="hits = (out.argmax(1) == y).sum()\nlosses.update(hits.item() / x.size(0), x.size(0))")
    code = code.partition("\n\nif __name__")[0] + BATCHES.format(sample=sample, more=more)
    found = result(code).after.decode()
    assert ("        if not x.size(0):\n            raise ZeroDivisionError" in found) is not is_shown
    assert "losses.update(hits.double() / torch.full_like(hits, x.size(0), dtype=torch.float64), x.size(0))" in found
    assert (UNWEIGHTED if is_shown else WEIGHTED) in found


def meter(old: str, new: str) -> str:
    """The meter class with a change."""
    assert old in METER
    return METER.replace(old, new)


REDUCED = "\n    def all_reduce(self):\n        self.sum, self.count = reduce(self.sum, self.count)\n"
STAYS = {
    "mean that starts as another number than it has for no weight": (
        script(meter=METER.replace("self.sum / self.count", "self.sum / self.count if self.count > 0 else 1")),
        "`avg` of `AverageMeter` starts in different ways",
    ),
    "mean that asks for something else": (
        script(meter=METER.replace("self.sum / self.count", "self.sum / self.count if self.count > 1 else 0")),
        "`AverageMeter.update` does more than keep the figure and add it up (line 19)",
    ),
    "read in every step": (
        script(step=UPDATE + "\nprint(losses.avg)"),
        "`losses.avg` is read in every step on line 32",
    ),
    "progress bar": (
        script(step=UPDATE + "\nbar.set_postfix(loss=losses.val)"),
        "`losses.val` is read in every step on line 32",
    ),
    "shown in every step": (script(step=UPDATE + "\nprint(losses)"), "`losses` is read in every step on line 32"),
    "read in every step by another function": (
        script(step=UPDATE + "\nshow(losses)", meter="def show(meter):\n    print(meter.avg)\n\n\n" + METER),
        "`meter.avg` is read in every step on line 6",
    ),
    "shown in every step by an object that holds it": (
        script(
            NEW + "\ndisplay = Display([losses])",
            UPDATE + "\ndisplay.show()",
            meter=METER + "\n\nclass Display:\n    def __init__(self, meters):\n        self.meters = meters\n\n"
            "    def show(self):\n        print([str(meter) for meter in self.meters])\n",
        ),
        "`meter` is read in every step on line 27",
    ),
    "given tensors and numbers": (
        script(step=UPDATE + "\nlosses.update(out.max())"),
        "`out.max()` on line 32 is a tensor, and so is the mean that it goes into",
    ),
    "given tensors of 64 bits": (
        script(step=UPDATE + "\nother.update(out.double().max())", before=NEW + "\nother = AverageMeter()"),
        "`out.double().max()` on line 33 may be a tensor of the type that the sums have",
    ),
    "given tensors, where sums are of integers": (
        script(
            step="losses.update((out > 0).sum().item())\nother.update(out.max())",
            before=NEW + "\nother = AverageMeter()",
        ),
        "`out.max()` on line 33 may be a tensor of the type that the sums have",
    ),
    "weight from the device": (
        script(step="losses.update(loss.item(), (y > 0).sum().item())"),
        "the weight `(y > 0).sum().item()` on line 31 comes from the device too",
    ),
    "integers and floats in one meter": (
        script(step="losses.update((out > 0).sum().item())\nlosses.update(0.5)"),
        "on line 32 a float may be added to the integers of `AverageMeter`",
    ),
    "a figure that is used elsewhere too": (
        script(step="value = loss.item()\nlosses.update(value)\nprint(value)"),
        "`value` is used on line 33 too",
    ),
    "an unknown tensor": (
        script(step="losses.update(model.penalty.item())"),
        "whether `model.penalty.item()` is an integer or a float could not be shown",
    ),
    "set from outside": (script(after="losses.sum = 0.0"), "`losses.sum` is set on line 32"),
    "shown by its dictionary": (
        script(after="print(losses.__dict__)"),
        "`losses.__dict__` on line 32 shows how `AverageMeter` keeps its figures",
    ),
    "saved": (script(after="torch.save(losses, 'x')"), "`losses` is handed to `torch.save` as a whole on line 32"),
    "saved with others": (
        script(NEW + "\nmeters = [losses]", after="torch.save({'m': meters}, 'x')"),
        "`meters` is stored by `torch.save` on line 33",
    ),
    "update handed on": (script(after="model.hook(losses.update)"), "`losses.update` is handed on as a function"),
    "arguments unpacked": (script(after="losses.update(*model.figures)"), "what `update` is given on line 32"),
    "reduced over processes": (
        script(meter=METER + REDUCED),
        "`all_reduce` sets `sum` on line 22 to what is no constant",
    ),
    "slots": (
        script(meter=meter("class AverageMeter:\n", "class AverageMeter:\n    __slots__ = ('val', 'avg')\n\n")),
        "`AverageMeter` has more than methods (line 6)",
    ),
    "base class": (
        script(meter=meter("AverageMeter:", "AverageMeter(torch.nn.Identity):")),
        "`AverageMeter` inherits from other classes, which may use what it keeps",
    ),
    "derived class": (
        script(meter=METER + "\n\nclass Other(AverageMeter):\n    pass\n"),
        "`Other` inherits from `AverageMeter` on line 22",
    ),
    "replaced from outside": (
        script(meter=METER + "\n\nAverageMeter.update = lambda self, val, n=1: print(val)\n"),
        "`update` is replaced on line 22",
    ),
    "replaced by name": (
        script(meter=METER + "\n\ndef log(val, n=1):\n    print(val)\n\n\nsetattr(meter, 'update', log)\n"),
        "`update` is replaced on line 26",
    ),
    "decorated": (
        script(meter="from attrs import define\n\n\n@define\n" + METER),
        "a decorator changes `AverageMeter` (line 8)",
    ),
    "pickled in its own way": (
        script(meter=METER + "\n    def __getstate__(self):\n        return {}\n"),
        "`AverageMeter.__getstate__` sees how the figures are kept (line 21)",
    ),
    "dictionary returned": (
        script(meter=METER + "\n    def state_dict(self):\n        return self.__dict__\n"),
        "`self.__dict__` on line 22 shows how `AverageMeter` keeps its figures",
    ),
    "hands itself on": (
        script(meter=METER + "\n    def save(self):\n        torch.save(self, 'x')\n"),
        "`AverageMeter.save` hands itself on (line 22)",
    ),
    "history": (
        script(meter=meter("self.val = val\n", "self.val = val\n        self.history.append(val)\n")),
        "`AverageMeter.update` does more than keep the figure and add it up (line 17)",
    ),
    "maximum": (
        script(meter=meter("self.val = val\n", "self.val = max(self.val, val)\n")),
        "`AverageMeter.update` does more than keep the figure and add it up (line 16)",
    ),
    "variance": (
        script(meter=meter("val * n", "val * val")),
        "`AverageMeter.update` does more than keep the figure and add it up (line 17)",
    ),
    "branch": (
        script(meter=meter("self.val = val\n", "if n > 0:\n            self.val = val\n")),
        "`AverageMeter.update` does more than keep the figure and add it up (line 16)",
    ),
    "mean from before": (
        script(meter=meter("        self.avg = 0\n", "")),
        "`AverageMeter.reset` leaves `avg` as before",
    ),
    "count that starts at one": (
        script(meter=meter("self.count = 0\n", "self.count = 1\n")),
        "`count` of `AverageMeter` does not start at zero",
    ),
    "name taken": (
        script(meter=meter("self.reset()\n", "self.reset()\n        self._sum = None\n")),
        "`AverageMeter` uses the name `_sum` already",
    ),
}


@pytest.mark.parametrize(("code", "reason"), STAYS.values(), ids=STAYS)
def test_stays_with_the_reason(code: str, reason: str) -> None:
    assert [found for found in reasons(code) if reason in found], reasons(code)


def test_evaluation_keeps_handing_numbers() -> None:
    evaluation = textwrap.dedent("""

        def evaluate(model, loader):
            losses = AverageMeter()
            for x, y in loader:
                losses.update(F.cross_entropy(model(x), y).item(), x.size(0))
            return losses.avg
        """)
    assert_becomes(script() + evaluation, script(step=MOVED, meter=WEIGHTED) + evaluation)


METERED = (
    "import torch\n\n\n"
    + METER
    + textwrap.indent(
        textwrap.dedent("""
            def __str__(self):
                return "{val} ({avg:.17g}) {sum!r} {count}".format(**self.__dict__)
            """),
        "    ",
    )
    + textwrap.dedent("""

        class Display:
            def __init__(self, *meters):
                self.meters = meters

            def show(self):
                print(*(str(meter) for meter in self.meters), sep=" | ")


        def fit(losses, logits, labels, device):
            total, mixed = AverageMeter(), AverageMeter()
            hits = AverageMeter()
            plain, never = AverageMeter(), AverageMeter()
            display = Display(total, hits, plain)
            for step, (loss, out, y) in enumerate(zip(losses, logits, labels)):
                out, y = out.to(device), y.to(device)
                loss.backward()
                total.update(loss.item(), len(y))
                mixed.update(0.1 * loss.item() - 0.25)
                mixed.update(0.3, 7)
                hits.update((torch.argmax(out, 1) == y).sum().item(), len(y))
                plain.update(len(y), 2)
                if step % 3 == 2:
                    display.show()
                    total.reset()
                    print(total, total.avg, total.val, total.sum)
            for meter in (total, mixed, hits, plain, never):
                print(repr(meter.val), repr(meter.sum), repr(meter.avg), meter.count, type(meter.val), type(meter.avg))
            return total.avg, mixed.sum


        if __name__ == "__main__":
            fit([], [], [], "cuda")
        """)
)


@functools.cache
def rewritten_meters() -> bytes:
    found = result(METERED)
    assert len(found.applied) == 1, found.refused
    assert b".item()," not in found.after
    return found.after


def printed(code: bytes, losses: list[torch.Tensor], logits: list[torch.Tensor], labels: list[torch.Tensor]) -> str:
    space: dict[str, Any] = {"__name__": "train"}
    exec(compile(code, "train.py", "exec"), space)
    text = io.StringIO()
    leaves = [loss.clone().requires_grad_() for loss in losses]
    with contextlib.redirect_stdout(text):
        print(repr(space["fit"](leaves, logits, labels, "cpu")))
    print([leaf.grad for leaf in leaves], file=text)
    return text.getvalue()


DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
SPECIAL = {
    "plain": (),
    "nan": (float("nan"),),
    "inf": (float("inf"),),
    "opposite": (float("inf"), float("-inf")),
    "zero": (-0.0, 0.0),
    "tiny": (1e-45, -1e-310, 6e-8),
    "large": (6e4, 3e38, -1e308),
}


@pytest.mark.parametrize("steps", [0, 1, 8])
@pytest.mark.parametrize(("dtype", "special"), list(itertools.product(DTYPES, SPECIAL)), ids=str)
def test_every_digit_is_the_same(dtype: torch.dtype, special: str, steps: int) -> None:
    generator = torch.Generator().manual_seed(steps)
    values = torch.randn(steps, generator=generator, dtype=torch.float64) * 10
    values[: len(SPECIAL[special])] = torch.tensor(SPECIAL[special][:steps], dtype=torch.float64)
    losses = list(values.to(dtype))
    logits = [torch.randn(n % 4 + 1, 3, generator=generator) for n in range(steps)]
    labels = [torch.randint(3, (len(out),), generator=generator) for out in logits]
    before = printed(METERED.encode(), losses, logits, labels)
    assert printed(rewritten_meters(), losses, logits, labels) == before


def test_empty_first_batch_raises_in_its_step() -> None:
    for code in (METERED.encode(), rewritten_meters()):
        with pytest.raises(ZeroDivisionError) as raised:
            printed(code, [torch.ones(())] * 2, [torch.ones(0, 3)] * 2, [torch.ones(0, dtype=torch.long)] * 2)
        assert raised.traceback[-1].name == "update"


def test_a_meter_that_every_round_of_an_evaluation_shows() -> None:
    code = script(before="", step="if step % 100 == 0:\n    validate(model, loader, device)", after="")
    code += textwrap.dedent("""
        @torch.no_grad()
        def validate(model, loader, device):
            losses = AverageMeter()
            for x, y in loader:
                loss = F.cross_entropy(model(x.to(device)), y.to(device))
                losses.update(loss.item())
                loader.set_description("%2.5f" % losses.val)
            print(losses.avg)
        """)
    reasons = [finding.reason for finding in result(code).refused]
    assert any(reason.startswith("`losses.val` is read in every step") for reason in reasons), reasons
