"""PM106 and meters: they are given tensors, their class stays as it is, and what it shows has the same digits."""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import textwrap
from typing import Any

import pytest
import torch
from cases import says

from perfmod.codemods.engine import rewrite, rewrite_together
from perfmod.codemods.results import Choice, FileResult, Given, Outcome
from perfmod.transforms.finding import Safety
from perfmod.transforms.policy import Policy
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
"""
NEW = "losses = AverageMeter()"
UPDATE = "losses.update(loss.item(), x.size(0))"
MOVED = "losses.update(loss.detach(), x.size(0))"
EXACT = "losses.update(loss.detach().double(), x.size(0))"
SHOWN = "print(f'{losses.avg:.4f}')"


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


# Lines in and behind the steps, before and after.
CHANGES = {
    "weighted by the batch": ((UPDATE, SHOWN), (MOVED, SHOWN)),
    "by keyword": (("losses.update(n=2, val=loss.item())", SHOWN), ("losses.update(n=2, val=loss.detach())", SHOWN)),
    "through a variable": (("value = loss.item()\nlosses.update(value)", SHOWN),
        ("value = loss.detach()\nlosses.update(value)", SHOWN)),
    "scaled": (("losses.update(4 * loss.item())", SHOWN), ("losses.update(4 * loss.detach())", SHOWN)),
    "an accuracy": (("losses.update((out.argmax(1) == y).float().mean().item() * 100)", SHOWN),
        ("losses.update((out.argmax(1) == y).float().mean() * 100)", SHOWN)),
    "read behind a modulo": ((UPDATE + "\nif step % 9 == 0:\n    print(f'{losses.val:.4f} ({losses.avg})')", ""),
        (MOVED + "\nif step % 9 == 0:\n    print(f'{losses.val:.4f} ({losses.avg})')", "")),
    "shown by formats": (
        (UPDATE, "print('{l.val} {0:.3f}'.format(losses.avg * 2, l=losses), '%.3f %d' % (losses.sum, losses.count))"),
        (MOVED, "print('{l.val} {0:.3f}'.format(losses.avg * 2, l=losses), '%.3f %d' % (losses.sum, losses.count))")),
    "printed without a format": ((UPDATE, "print(losses.avg)"), (MOVED, "print(float(losses.avg))")),
    "shown by a format of texts": ((UPDATE, "print('%s' % losses.avg)"), (MOVED, "print('%s' % float(losses.avg))")),
    "returned": ((UPDATE, "return losses.avg, losses.count"), (EXACT, "return float(losses.avg), losses.count")),
    "compared": ((UPDATE, "return losses.avg < 3"), (EXACT, "return float(losses.avg) < 3")),
    "computed with": ((UPDATE, "best = max(3, losses.avg / 2)"), (MOVED, "best = max(3, float(losses.avg) / 2)")),
    "put into a dictionary": ((UPDATE, "return {'loss': losses.avg}"), (EXACT, "return {'loss': float(losses.avg)}")),
    "written by a logger": ((UPDATE, "model.writer.add_scalar('loss', losses.avg, 1)"),
        (MOVED, "model.writer.add_scalar('loss', losses.avg, 1)")),
    "written as several figures by a logger": ((UPDATE, "model.writer.add_scalars('loss', {'train': losses.avg}, 1)"),
        (MOVED, "model.writer.add_scalars('loss', {'train': losses.avg}, 1)")),
    "written to a file": ((UPDATE, "json.dump({'loss': losses.avg}, model.log)"),
        (EXACT, "json.dump({'loss': float(losses.avg)}, model.log)")),
    "asked for its type": ((UPDATE, "assert isinstance(losses.avg, float)"),
        (EXACT, "assert isinstance(float(losses.avg), float)")),
    "asked whether it is a number": ((UPDATE, "assert not math.isnan(losses.avg)"),
        (EXACT, "assert not math.isnan(float(losses.avg))")),
    "made a number already": ((UPDATE, "return float(losses.avg)"), (EXACT, "return float(losses.avg)")),
    "reset by hand": ((UPDATE, "print(f'{losses.avg}')\nlosses.sum = 0"),
        (MOVED, "print(f'{losses.avg}')\nlosses.sum = 0")),
    "a loss that is changed in place later": (("losses.update(loss.item())\nloss.data.mul_(2)", SHOWN),
        ("losses.update(loss.detach().clone())\nloss.data.mul_(2)", SHOWN)),
    "given tensors as well": ((UPDATE + "\nlosses.update(out.max())", SHOWN),
        (MOVED + "\nlosses.update(out.max())", SHOWN)),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_becomes(name: str) -> None:
    before, after = (script(step=step, after=behind) for step, behind in CHANGES[name])
    found = result(before)
    assert found.after.decode() == after, [finding.reason for finding in (*found.refused, *found.held_back)]
    (finding,) = found.applied
    assert finding.figures_may_differ
    again = result(after)
    assert (again.outcome, again.held_back) == (Outcome.UNCHANGED, ())


METHODS = {
    "that shows all attributes": "def __str__(self):\n    return '{val:.3f} {avg}'.format(**self.__dict__)",
    "that shows them by vars()": "def __str__(self):\n    return '{val:.3f} {avg}'.format(**vars(self))",
    "that formats them": "def __str__(self):\n    return f'{self.val:.3f} ({self.sum / self.count:.3f})'",
    "that builds its format": "def __str__(self):\n    return ('{avg' + self.fmt + '}').format(avg=self.avg)",
}


@pytest.mark.parametrize("name", [name for name in METHODS if "builds" not in name])
def test_a_meter_with_a_method(name: str) -> None:
    meter = METER + "\n" + textwrap.indent(METHODS[name], "    ") + "\n"
    found = result(script(meter=meter, after="print(losses)"))
    assert found.after.decode() == script(meter=meter, step=MOVED, after="print(losses)"), found.refused


MEAN = """\
class Mean(object):
    \"\"\"A mean.\"\"\"

    def __init__(self, name):
        self.name = name
        self.sum = 0.0
        self.count = 0

    def update(self, value):
        self.sum = self.sum + value
        self.count += 1

    {decorator}
    def avg(self):
        return self.sum / max(self.count, 1)
"""


@pytest.mark.parametrize(("decorator", "call"), [("@property", ""), ("# a mean", "()")])
def test_a_mean_that_is_computed_when_it_is_asked_for(decorator: str, call: str) -> None:
    parts = {"before": "losses = Mean('loss')", "meter": MEAN.format(decorator=decorator)}
    before = script(
        step="losses.update(loss.item())", after=f"print(f'{{losses.avg{call}}}')\nreturn losses.avg{call}", **parts
    )
    after = script(
        step="losses.update(loss.detach().double())",
        after=f"print(f'{{losses.avg{call}}}')\nreturn float(losses.avg{call})",
        **parts,
    )
    assert result(before).after.decode() == after


@pytest.mark.parametrize(
    "kept", ["val *= n\n        self.sum += val", "self.sum = self.sum + val\n        self.val += 1"]
)
def test_a_meter_that_writes_into_what_it_is_given(kept: str) -> None:
    meter = METER.replace("self.sum += val * n", kept)
    assert meter != METER
    after = result(script(meter=meter)).after.decode()
    assert "losses.update(loss.detach().clone(), x.size(0))" in after


CLOCK = "import time\nseconds = AverageMeter()\nend = time.time()"
TAKEN = "seconds.update(time.time() - end)\nend = time.time()"
COST = "print(f'{seconds.sum:.1f}s')"


@pytest.mark.parametrize(("before", "step", "after", "is_held"), [
    (CLOCK, f"{UPDATE}\n{TAKEN}", COST, True),
    ("import time\nseconds = 0.0", f"start = time.time()\n{UPDATE}\nseconds += time.time() - start", COST, True),
    # Rounds that show what they measured wait now and then, and so does the end of the epoch.
    (CLOCK, f"{UPDATE}\n{TAKEN}\nif step % 9 == 0:\n    print(f'{{seconds.val}} {{losses.avg}}')", COST, False),
    (CLOCK, f"{UPDATE}\n{TAKEN}\nif step % 9 == 0:\n    print(f'{{losses.avg}}')", COST, False),
    (CLOCK, f"{TAKEN}\n{UPDATE}", COST, False),
    (CLOCK, f"{UPDATE}\n{TAKEN}", "", False),
    (CLOCK, UPDATE, f"{TAKEN}\n{COST}", False),
])  # fmt: skip
def test_time_shown_behind_the_loop(before: str, step: str, after: str, is_held: bool) -> None:
    found = result(script(f"{NEW}\n{before}", step, f"{after}\n{SHOWN}"))
    assert found.outcome is (Outcome.UNCHANGED if is_held else Outcome.CHANGED)
    assert [finding.reason.partition(" on ")[0] for finding in found.held_back] == ["the time"] * is_held


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
    return {mean}
"""


def together(files: dict[str, str], **elsewhere: bool) -> tuple[FileResult, ...]:
    """Files that are read together; a keyword `utils=True` says that unseen files import `utils.py`, too."""
    given = [
        Given(path, code.encode(), (path.removesuffix(".py").replace("/", "."),), imported_elsewhere=name in elsewhere)
        for path, code in files.items()
        for name in [path.removesuffix(".py")]
    ]
    return rewrite_together(given, [ScalarAccumulation()])


@pytest.mark.parametrize("elsewhere", [{}, {"utils": True}])
def test_class_of_another_file_stays_as_it_is(elsewhere: dict[str, bool]) -> None:
    loop = functools.partial(LOOP.format, module="utils")
    files = {
        "train.py": loop(figure="loss.item()", more="", mean="losses.avg"),
        "utils.py": METER,
        "finetune.py": loop(figure="2 * loss.item()", more=", losses.val", mean="losses.avg"),
    }
    train, utils, finetune = together(files, **elsewhere)
    assert train.after.decode() == loop(figure="loss.detach().double()", more="", mean="float(losses.avg)")
    assert utils.outcome is Outcome.UNCHANGED
    # What another file does with meters of its own is nothing to these.
    assert [finding.reason for finding in finetune.refused] == ["`losses.val` is read in every step on line 15"]


LOGGER = """\
class Logger:
    def __init__(self, writer):
        self.writer = writer
        self.step = 0

    def add_scalar(self, name, value):
        {line}
        self.writer.add_scalar(name, value, self.step)
"""
LOGGED = """\
from log import Logger
from loop import fit


def main(model, loader, optimizer, writer):
    logger = Logger(writer)
    losses = fit(model, loader, optimizer, "cuda")
    logger.add_scalar("loss", {figure})
"""


@pytest.mark.parametrize(("line", "is_number"), [
    ("assert isinstance(value, float), type(value)", True),
    ("value = value if isinstance(value, (int, float)) else value.mean()", True),
    ("if math.isnan(value): raise ValueError", True),
    ("assert np.isscalar(value)", True),
    ("self.file.write(json.dumps({name: value}))", True),
    ("print(name, value)", True),
    ("self.last = value", True),
    ("print(f'{name}: {value:.3f}')", False),
    ("self.step += 1", False),
    ("self.last = float(value)", False),
    ("if isinstance(value, torch.Tensor): self.step += 1", False),
])  # fmt: skip
def test_logger_in_another_file_may_need_a_number(line: str, is_number: bool) -> None:
    loop = functools.partial(LOOP.format, module="log", more="", mean="losses")
    files = {
        "main.py": LOGGED.format(figure="losses.avg"),
        "loop.py": loop(figure="loss.item()"),
        "log.py": "import torch\n\n\n" + METER + "\n\n" + LOGGER.format(line=line),
    }
    main, step, log = together(files)
    assert step.after.decode() == loop(figure="loss.detach()"), [found.reason for found in step.refused]
    assert main.after.decode() == LOGGED.format(figure="float(losses.avg)" if is_number else "losses.avg")
    assert log.outcome is Outcome.UNCHANGED


DISPLAY = """

class Display:
    def __init__(self, {star}meters):
        self.meters = meters

    def show(self):
        print([str(meter) for meter in self.meters])
"""


@pytest.mark.parametrize(("star", "given"), [("", "[clock, losses]"), ("*", "clock, losses")])
@pytest.mark.parametrize(("gate", "is_rare"), [("if step % 9 == 0:\n    ", True), ("", False)])
def test_meters_that_an_object_shows(star: str, given: str, gate: str, is_rare: bool) -> None:
    meter = METER + "\n    def __str__(self):\n        return f'{self.avg:.3f}'\n" + DISPLAY.format(star=star)
    parts = {"before": f"clock, losses = AverageMeter(), AverageMeter()\ndisplay = Display({given})", "meter": meter}
    found = result(script(step=UPDATE + f"\n{gate}display.show()", after="", **parts))
    assert (found.outcome is Outcome.CHANGED) == is_rare, found.refused
    if not is_rare:
        assert [finding.reason for finding in found.refused] == ["`meter` is read in every step on line 30"]


def meter(old: str, new: str) -> str:
    """The meter class with a change."""
    assert old in METER
    return METER.replace(old, new)


REDUCED = """
    def all_reduce(self):
        total = torch.tensor([self.sum, self.count])
        self.sum, self.count = total.tolist()
"""
STAYS = {
    "read in every step": (script(step=UPDATE + "\nprint(losses.avg)"), "`losses.avg` … every step on line 32"),
    "progress bar": (script(step=UPDATE + "\nbar.set_postfix(loss=losses.val)"),
        "`losses.val` … every step on line 32"),
    "shown in every step": (script(step=UPDATE + "\nprint(losses)"), "`losses` … every step on line 32"),
    "read in every step by another function": (
        script(step=UPDATE + "\nshow(losses)", meter="def show(meter):\n    print(meter.avg)\n\n\n" + METER),
        "`meter.avg` … every step on line 6",
    ),
    "a figure that is used elsewhere too": (script(step="value = loss.item()\nlosses.update(value)\nprint(value)"),
        "`value` … as a number on line 33"),
    "shown by its dictionary": (script(after="print(losses.__dict__)"),
        "`losses.__dict__` … without a call on line 32"),
    "saved": (script(after="torch.save(losses, 'x')"), "`losses` … `torch.save` as a whole on line 32"),
    "saved with others": (script(NEW + "\nmeters = [losses]", after="torch.save({'m': meters}, 'x')"),
        "as a whole on line 33"),
    "copied": (script(after="import copy\nreturn copy.copy(losses)"), "`losses` … `copy.copy` as a whole"),
    "given to somebody": (script(after="model.keep(losses)"), "`losses` … `model.keep` as a whole on line 32"),
    "update handed on": (script(after="model.hook(losses.update)"), "`losses.update` … without a call on line 32"),
    "reduced over processes": (script(meter=METER + REDUCED, after="losses.all_reduce()"),
        "`AverageMeter.all_reduce` needs `self.sum` … line 22"),
    "base class": (script(meter=meter("AverageMeter:", "AverageMeter(torch.nn.Identity):")),
        "base class of `AverageMeter`"),
    "replaced from outside": (script(meter=METER + "\n\nAverageMeter.update = lambda self, val, n=1: print(val)\n"),
        "`update` is replaced on line 22"),
    "decorated and shown": (script(meter="from attrs import define\n\n\n@define\n" + METER, after="print(losses)"),
        "decorator of `AverageMeter` … line 36"),
    "hands itself on": (
        script(meter=METER + "\n    def save(self):\n        torch.save(self, 'x')\n", after="losses.save()"),
        "`AverageMeter.save` passes `self` … line 22",
    ),
    "dictionary returned": (
        script(
            meter=METER + "\n    def state_dict(self):\n        return self.__dict__\n",
            after="return losses.state_dict()",
        ),
        "`AverageMeter.state_dict` passes `self` … line 22",
    ),
    "shown as it is represented": (
        script(
            meter=METER + "\n    def __str__(self):\n        return '{val!r} {avg:.3f}'.format(**self.__dict__)\n",
            after="print(losses)",
        ),
        "`AverageMeter.__str__` … line 22",
    ),
    "history": (script(meter=meter("self.val = val\n", "self.val = val\n        self.history.append(val)\n")),
        "`AverageMeter.update` needs `val` … line 17"),
    "maximum": (script(meter=meter("self.val = val\n", "self.val = max(self.val, val)\n")),
        "`AverageMeter.update` needs `val` … line 16"),
    "power": (script(meter=meter("val * n", "val ** n")), "`AverageMeter.update` needs `val` … line 17"),
    "branch": (script(meter=meter("self.val = val\n", "if val > 0:\n            self.val = val\n")),
        "`AverageMeter.update` needs `val` … line 16"),
    "asked what it is": (
        script(
            meter=meter(
                "self.val = val\n",
                "if isinstance(val, torch.Tensor):\n            val = val.item()\n        self.val = val\n",
            )
        ),
        "`AverageMeter.update` needs `val` … line 16",
    ),
    "arguments by name only": (
        script(
            meter=meter("val, n=1", "**figures").replace("= val\n", "= figures['val']\n"),
            step="losses.update(val=loss.item())",
        ),
        "`AverageMeter.update` … `**figures`",
    ),
    "inference mode": (
        script(step="with torch.inference_mode():\n    losses.update(out.mean().item())\nlosses.update(loss.item())"),
        "`losses` … `torch.inference_mode()` on line 32 … line 33",
    ),
    "a dictionary that makes meters": (
        script(
            before="from collections import defaultdict\nmeters = defaultdict(AverageMeter)",
            step="meters['a'].update(loss.item())",
            after="",
        ),
        "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STAYS)
def test_stays_with_the_reason(name: str) -> None:
    code, reason = STAYS[name]
    found = reasons(code)
    assert not reason or any(says(each, reason) for each in found), found


HELD_BACK = {
    "integers": (script(step="losses.update((out.argmax(1) == y).sum().item(), len(x))"),
        "`(out.argmax(1) == y).sum().item()` is an integer"),
    "a figure that may have a dimension": (script(step="losses.update(out.float().sum(0, keepdim=True).item())"),
        "`out.float().sum(0, keepdim=True)` may have dimensions"),
}  # fmt: skip


@pytest.mark.parametrize("name", HELD_BACK)
def test_is_held_back(name: str) -> None:
    code, reason = HELD_BACK[name]
    found = result(code)
    assert found.outcome is Outcome.UNCHANGED, found.after.decode()
    (held,) = found.held_back
    assert held.safety is Safety.UNSAFE
    assert says(held.reason, reason)


def test_what_may_have_a_dimension_is_fine_where_nothing_is_formatted() -> None:
    found = result(script(step="losses.update(out.float().sum(0, keepdim=True).item())", after="return losses.avg"))
    assert "return float(losses.avg)" in found.after.decode(), found.held_back


def test_meter_that_every_step_waits_for_anyway() -> None:
    (held,) = result(script(step=UPDATE + "\nprint(loss.item())")).held_back
    assert (held.safety, held.reason) == (Safety.LOW_IMPACT, "line 32 waits for the device in every step anyway")


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
    found = [finding.reason for finding in result(code).refused]
    assert any(reason.startswith("`losses.val` is read in every step") for reason in found), found


METERED = (
    "import torch\n\n\n"
    + METER
    + textwrap.indent(
        '\ndef __str__(self):\n    return "{val} ({avg:.17g}) {sum:r} {count}".format(**self.__dict__)\n', "    "
    ).replace(":r}", "}")
    + textwrap.dedent("""

        class Display:
            def __init__(self, *meters):
                self.meters = meters

            def show(self):
                print(*(str(meter) for meter in self.meters), sep=" | ")


        def fit(losses, logits, labels, device):
            total, mixed = AverageMeter(), AverageMeter()
            plain, never = AverageMeter(), AverageMeter()
            display = Display(total, plain)
            for step, (loss, out, y) in enumerate(zip(losses, logits, labels)):
                out, y = out.to(device), y.to(device)
                loss = loss.reshape(()) * 1.0
                loss.backward()
                total.update(loss.item(), len(y))
                mixed.update(0.1 * loss.item() - 0.25)
                mixed.update(0.3, 7)
                plain.update(len(y), 2)
                if step % 3 == 2:
                    display.show()
                    total.reset()
                    print(f"{total} {total.avg:.3f} {total.sum:.3f}", plain, never)
            for meter in (total, mixed):
                print(repr(meter.val / 1), repr(meter.sum / 1), repr(meter.avg / 1), meter.count)
            return total.avg, mixed.sum
        """)
)


@functools.cache
def rewritten_meters() -> bytes:
    found = result(METERED, unsafe=True)
    assert found.applied, found.refused
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


@pytest.mark.parametrize("steps", [1, 7, 8])
@pytest.mark.parametrize(("dtype", "special"), list(itertools.product(DTYPES, SPECIAL)), ids=str)
def test_every_digit_is_the_same(dtype: torch.dtype, special: str, steps: int) -> None:
    generator = torch.Generator().manual_seed(steps)
    values = torch.randn(steps, generator=generator, dtype=torch.float64) * 10
    values[: len(SPECIAL[special])] = torch.tensor(SPECIAL[special][:steps], dtype=torch.float64)
    losses = list(values.to(dtype))
    logits = [torch.randn(n % 4 + 1, 3, generator=generator) for n in range(steps)]
    labels = [torch.randint(3, (len(out),), generator=generator) for out in logits]
    before = printed(METERED.encode(), losses, logits, labels)
    after = printed(rewritten_meters(), losses, logits, labels)
    assert after == before


@pytest.mark.parametrize(("line", "reason"), [
    ("self.log['loss'] = self.avg", "`AverageMeter.result` needs `self.avg` … line 22"),
    ("self.log['loss'] = self.mean()", "`AverageMeter.result` needs `self.mean()` … line 22"),
    ("self.log.append(self.half)", "`AverageMeter.result` needs `self.half` … line 22"),
])  # fmt: skip
def test_figures_that_a_meter_puts_into_a_log(line: str, reason: str) -> None:
    methods = f"""
    def result(self):
        {line}
        return self.log

    def mean(self):
        return self.sum / self.count

    @property
    def half(self):
        return self.mean() / 2
"""
    (found,) = reasons(script(meter=METER + methods, after="return losses.result()"))
    assert says(found, reason)


@pytest.mark.parametrize(("start", "read"), [
    ("self.avg = None", "losses.avg"),
    ("self.avg = '-'", "losses.avg"),
    ("self.best = None\n        self.avg = self.best", "losses.avg"),
    ("self.avg = 0", "losses.compute()"),
    ("self.avg = 0", "losses.checked()"),
])  # fmt: skip
def test_figures_that_may_be_none(start: str, read: str) -> None:
    meter = (
        METER.replace("self.avg = 0", start)
        + """
    def compute(self):
        if self.count:
            return self.sum / self.count

    def checked(self):
        return None if not self.count else self.avg
"""
    )
    line = script(meter=meter, after="").count("\n")
    reason = f"`{read}` on line {line} may be None, which `float()` does not accept"
    assert reasons(script(meter=meter, after=f"print({read})")) == [reason]
    shown = script(meter=meter, after=f"print(f'{{{read}}}')")
    assert result(shown).outcome is Outcome.CHANGED


MODEL = """\
import torch


class Net(torch.nn.Module):
    def __init__(self, criterion):
        super().__init__()
        self.fc, self.criterion = torch.nn.Linear(3, 1), criterion

    def forward(self, x):
        {body}
        return {returned}


{meter}

def fit(loader, optimizer):
    losses, model = AverageMeter(), Net(torch.nn.MSELoss()).cuda()
    for x in loader:
        {loss} = model(x.cuda())
        loss.backward()
        losses.update(loss.item())
        optimizer.step()
    print(f'{{losses.avg}}')
"""


@pytest.mark.parametrize(("returned", "loss", "is_scalar"), [
    ("out.square().mean(0)", "loss", False),
    ("self.head(out)", "loss", False),
    ("out, out.mean(0)", "_, loss", False),
    ("out.square().mean()", "loss", True),
    ("torch.nn.functional.mse_loss(out, x)", "loss", True),
    ("out, torch.nn.functional.mse_loss(out, x) + 0.1 * out.square().sum()", "_, loss", True),
    ("self.criterion(out, x)", "loss", True),
])  # fmt: skip
def test_a_loss_that_a_model_in_sight_returns(returned: str, loss: str, is_scalar: bool) -> None:
    code = MODEL.format(meter=METER, body="out = self.fc(x)", returned=returned, loss=loss)
    found = result(code)
    assert (found.outcome is Outcome.CHANGED) == is_scalar, found.held_back
    questions = [(each.predicate, each.expression) for finding in found.held_back for each in finding.questions]
    assert questions == ([] if is_scalar else [("is-scalar", "loss")])
    assumed = Choice(policy=Policy(assumed=frozenset({"is-scalar"})))
    assert rewrite(code.encode(), "train.py", [ScalarAccumulation()], assumed).outcome is Outcome.CHANGED
