"""PM202: pinning and non-blocking copies come together, and never where a value could change."""

from __future__ import annotations

import textwrap

import pytest
from cases import says

from perfmod.codemods.engine import rewrite, rewrite_together
from perfmod.codemods.results import Choice, FileResult, Given
from perfmod.transforms.feeding.pageable_transfer import PageableTransfer
from perfmod.transforms.finding import Safety

LOADER = "DataLoader(photos, num_workers=2, batch_size=4)"
LONG = "images.to(device=device), targets.to(device=device)"
TRAIN = """\
import torch
from torch.autograd import Variable
from torch.utils.data import DataLoader
from data import photos, pad, tensors, other_loader

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
Kind = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor
weights = torch.ones(3, device=device); model = torch.nn.Linear(3, 1)
loader = DataLoader(photos, num_workers=2, batch_size=4)


def helper(batch, where):
    if isinstance(batch, (list, tuple)):
        return [helper(part, where) for part in batch]
    if isinstance(batch, dict):
        return {name: part.to(where) for name, part in batch.items()}
    return batch.to(where)


for batch in loader:
    BODY
    loss.backward()
"""


def written(*body: str, loader: str = LOADER) -> str:
    return TRAIN.replace("BODY", "\n    ".join(body)).replace(LOADER, loader)


def run(code: str, *, unsafe: bool = False) -> FileResult:
    return rewrite(code.encode(), "train.py", [PageableTransfer()], Choice(unsafe=unsafe))


@pytest.mark.parametrize(("before", "after"), [
    ("x = batch[0].to(device)", "x = batch[0].to(device, non_blocking=True)"),
    ("x = batch[0].to(device=device)", "x = batch[0].to(device=device, non_blocking=True)"),
    ("x = batch[0].to(device, torch.half)", "x = batch[0].to(device, torch.half, non_blocking=True)"),
    ("x = batch['x'].cuda()", "x = batch['x'].cuda(non_blocking=True)"),
    ("x = batch['x'].cuda(0)", "x = batch['x'].cuda(0, non_blocking=True)"),
    ("x = Variable(batch[0].cuda())", "x = Variable(batch[0].cuda(non_blocking=True))"),
    ("x = Variable(batch[0]).cuda()", "x = Variable(batch[0]).cuda(non_blocking=True)"),
    ("x = [t.to(device) for t in batch]", "x = [t.to(device, non_blocking=True) for t in batch]"),
    ("batch = {k: v.to(device) for k, v in batch.items()}",
     "batch = {k: v.to(device, non_blocking=True) for k, v in batch.items()}"),
    ("loss = model(batch[0].to(device))", "loss = model(batch[0].to(device, non_blocking=True))"),
    ("x = batch[0].view(4, -1).to(device)", "x = batch[0].view(4, -1).to(device, non_blocking=True)"),
    ("x = batch[0].type(Kind)", "x = batch[0].type(Kind, non_blocking=True)"),
    ("x = Variable(batch[0].type(Kind))", "x = Variable(batch[0].type(Kind, non_blocking=True))"),
    ("x = batch[0].type('torch.cuda.FloatTensor')", "x = batch[0].type('torch.cuda.FloatTensor', non_blocking=True)"),
    ("x = batch[0].to(weights)", "x = batch[0].to(weights, non_blocking=True)"),
    ("x, y = Variable(batch[0].cuda()), batch[1].cuda(0)",
     "x = Variable(batch[0].cuda(non_blocking=True))\n    y = batch[1].cuda(0, non_blocking=True)"),
    ("x = batch[1][0].to(device)", "x = batch[1][0].to(device, non_blocking=True)"),
    ("batch['x'] = batch['x'].to(device)", "batch['x'] = batch['x'].to(device, non_blocking=True)"),
    ("x, (y, z) = batch; y = y.cuda()", "x, (y, z) = batch; y = y.cuda(non_blocking=True)"),
    ("x = batch[0].to(device=device, dtype=torch.half)",
     "x = batch[0].to(device=device, dtype=torch.half, non_blocking=True)"),
    ("x = batch[0].to(device=device, dtype=torch.float32)",
     "x = batch[0].to(device=device, non_blocking=True).float()"),
    ("x = batch[0].to(device, torch.long, copy=True)", "x = batch[0].to(device, non_blocking=True, copy=True).long()"),
    ("x = batch[0].to(device, kind)", "x = batch[0].to(device, kind, non_blocking=True)"),
])  # fmt: skip
def test_shapes_of_copies(before: str, after: str) -> None:
    result = run(written(before))
    assert result.after.decode() == written(
        after, loader="DataLoader(photos, num_workers=2, batch_size=4, pin_memory=True)"
    )
    assert result.applied[0].safety is Safety.SAFE
    again = run(result.after.decode())
    assert not again.applied
    assert not again.refused


def test_unpacking_in_one_assignment() -> None:
    body = "x, y = batch", "x, y = x.to(device), y.cuda()"
    result = run(written(*body))
    assert "x, y = x.to(device, non_blocking=True), y.cuda(non_blocking=True)" in result.after.decode()


@pytest.mark.parametrize(("before", "after"), [
    ("images, labels = images.to(device), labels.to(device)",
     "images = images.to(device, non_blocking=True)\n    labels = labels.to(device, non_blocking=True)"),
    ("images, y = images.float().to(device), (labels).to(device)",
     "images = images.to(device, non_blocking=True).float()\n    y = (labels).to(device, non_blocking=True)"),
    ("x, labels = images.to(device), labels.to(device, torch.long)",
     "x = images.to(device, non_blocking=True)\n    labels = labels.to(device, non_blocking=True).long()"),
    ("images, labels = labels.to(device), images.to(device)",
     "images, labels = labels.to(device, non_blocking=True), images.to(device, non_blocking=True)"),
    ("images, labels = images.to(device), labels.to(device)  # all",
     "images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)  # all"),
    ("pair = images, labels = images.to(device), labels.to(device)",
     "pair = images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)"),
])  # fmt: skip
def test_two_lines_where_one_would_be_too_long(before: str, after: str) -> None:
    narrow = TRAIN.replace('device = torch.device("cuda" if torch.cuda.is_available() else "cpu")', 'device = "cuda"')
    narrow = narrow.replace("Kind = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor\n", "")
    code = narrow.replace("BODY", f"images, labels = batch\n    {before}")
    assert f"\n    {after}\n" in run(code).after.decode()
    wide = code.replace("for batch", f"x = {'1' * 110}\ny = {'1' * 110}\nfor batch")
    assert run(wide).after.decode().count("\n") == wide.count("\n")


def test_all_copies_of_a_file_look_alike() -> None:
    """Where one of them gets two lines, the shorter ones do, too."""
    code = written("x, y = x.cuda(), y.cuda()", "images, targets = batch", f"images, targets = {LONG}")
    after = run(code.replace("    x, y =", "    x, y = batch\n    x, y =")).after.decode()
    assert "    x = x.cuda(non_blocking=True)\n    y = y.cuda(non_blocking=True)\n" in after
    assert "    images = images.to(device=device, non_blocking=True)\n" in after


def test_a_helper_that_goes_into_containers() -> None:
    after = run(written("batch = helper(batch, device)")).after.decode()
    assert "part.to(where, non_blocking=True)" in after
    assert "return batch.to(where, non_blocking=True)" in after
    assert "pin_memory=True" in after


def test_a_helper_that_also_moves_other_things() -> None:
    code = written("batch = helper(batch, device)", "extra = helper(tensors, device)")
    assert "also copies tensors that come from no known loader (line" in run(code).held_back[0].reason
    assert run(code.replace("helper(tensors", "helper(torch.ones(3)")).applied
    fetched = run(code.replace("helper(tensors, device)", "helper(model(batch), 'cpu')"), unsafe=True)
    assert not fetched.applied
    assert all("in some calls to the CPU" in finding.reason for finding in fetched.refused)


@pytest.mark.parametrize("passed", ["SummaryWriter('logs')", "3"])
def test_a_caller_that_passes_what_has_no_items_is_no_other_source(passed: str) -> None:
    code = """\
        import torch
        from torch.utils.data import DataLoader
        from torch.utils.tensorboard import SummaryWriter
        from data import photos, others


        def evaluate(loader):
            for batch in loader:
                print(model(batch[0].to("cuda")))


        train_loader = DataLoader(photos, 4, num_workers=2)
        for batch in train_loader:
            model(batch[0].to("cuda")).sum().backward()
        evaluate(DataLoader(others, 4, num_workers=2))
        evaluate(PASSED)
    """
    after = run(textwrap.dedent(code).replace("PASSED", passed)).after.decode()
    assert (after.count("pin_memory=True"), after.count("non_blocking=True")) == (2, 2)
    assert run(textwrap.dedent(code).replace("PASSED", "get()")).after.decode().count("pin_memory=True") < 2


@pytest.mark.parametrize(("sample", "copied", "after"), [
    ("torch.tensor(self.y[index], dtype=torch.long)", "device, dtype=torch.long", "device, dtype=torch.long, "),
    ("torch.LongTensor(self.y[index])", "device, dtype=torch.int64", "device, dtype=torch.int64, "),
    ("torch.tensor(self.y[index]).float()", "device, torch.float32", "device, torch.float32, "),
    ("torch.tensor(self.y[index])", "device, dtype=torch.long", "device, "),
    ("torch.tensor(self.y[index], dtype=torch.int32)", "device, dtype=torch.long", "device, "),
])  # fmt: skip
def test_a_copy_that_casts_to_the_type_that_the_samples_have(sample: str, copied: str, after: str) -> None:
    code = f"""\
        import torch
        from torch.utils.data import ConcatDataset, DataLoader, Dataset


        class Labels(Dataset):
            def __init__(self, y):
                self.y = y

            def __getitem__(self, index):
                parts = {{name: {sample} for name in ("a", "b")}}
                parts["c"] = {sample}
                return parts


        device = torch.device("cuda")
        loader = DataLoader(ConcatDataset([Labels([1, 2]), Labels([3, 4])]), 4, num_workers=2)
        for batch in loader:
            batch = {{name: part.to({copied}) for name, part in batch.items()}}
            model(batch["a"]).sum().backward()
    """
    written = run(textwrap.dedent(code)).after.decode()
    assert f"part.to({after}non_blocking=True){'.long()' if after == 'device, ' else ''} for" in written


def test_a_loop_shared_by_two_loaders() -> None:
    code = """\
import torch
from torch.utils.data import DataLoader
from data import train_set, val_set, model


def run(loader, device, train):
    for x, y in loader:
        loss = model(x.to(device), y.to(device))
        if train:
            loss.backward()


def main(device):
    train_loader = DataLoader(train_set, num_workers=2)
    val_loader = DataLoader(val_set, num_workers=2)
    run(train_loader, device, True)
    run(val_loader, device, False)
"""
    after = run(code).after.decode()
    assert after.count("non_blocking=True") == 2
    assert after.count("pin_memory=True") == 2


@pytest.mark.parametrize("loader", [
    "DataLoader(photos, num_workers=2, pin_memory=True)",
    "DataLoader(photos, num_workers=2, pin_memory=torch.cuda.is_available())",
])  # fmt: skip
def test_pinned_already(loader: str) -> None:
    result = run(written("x = batch[0].to(device)", loader=loader))
    assert result.after.decode() == written("x = batch[0].to(device, non_blocking=True)", loader=loader)


def test_not_blocking_already() -> None:
    result = run(written("x = batch[0].to(device, non_blocking=True)"))
    assert result.after.decode() == written(
        "x = batch[0].to(device, non_blocking=True)",
        loader="DataLoader(photos, num_workers=2, batch_size=4, pin_memory=True)",
    )


@pytest.mark.parametrize("body", [
    "x = batch[0]",
    "x = batch[0].to('cpu')",
    "x = batch[0].to(torch.float64)",
    "x = batch[0].to(dtype=torch.half)",
    "x = model(batch[0]).to(device)",
])  # fmt: skip
def test_no_copy_of_a_batch(body: str) -> None:
    assert not run(written(body)).applied


@pytest.mark.parametrize(("body", "reason"), [
    (("x = batch[0].float().long().to(device)",), "long() on line 21"),
    (("x = batch[0].half().to(device)",), "half() on line 21"),
    (("x = batch[0].bool().cuda()",), "bool() on line 21"),
    (("x = batch[0].float().unsqueeze(1).cuda()",), "float() on line 21"),
    (("x = Variable(batch[0].float(), volatile=True).cuda()",), "float() on line 21"),
    (("x = batch[0].float().to(device, torch.half)",), "float() on line 21"),
    (("x = batch[0].float()", "x = x.to(device)"), "float() on line 21"),
    (("y = batch[1].long()", "x, y = batch[0].to(device), y.to(device)"), "long() on line 21"),
    (("x, y = batch[0].half().to(device), batch[1].to(device)",), "half() on line 21"),
    (("x = batch[0].half().to(device)", "y = batch[1].to(device)"), "half() on line 21"),
    (("x, y = (batch[0] / 255).to(device), batch[1].to(device)",),
     "another copy on line 21"),
    (("x, m, y = batch", "x, m, y = read(x).to(device), m.to(device, non_blocking=True), y.to(device)"),
     "another copy on line 22"),
    (("x = batch[0].to(device)", "batch[0].add_(1)"), "modifies the batch"),
    (("x = batch[0].to(device)", "batch[0][0] = 1"), "modifies the batch"),
    (("x = batch[0].to(device)", "batch[0][0], y = 1, 2"), "line 22 modifies the batch"),
    (("x, y = batch", "g = x.to(device)", "x -= 1"), "modifies the batch"),
    (("x = batch['shape'].to(device)", "size = batch['shape'][0]", "size *= 2"), "modifies the batch"),
    (("x, y = batch", "if last is not None: last.zero_()", "last = x", "g = x.to(device)"), "line 22 modifies"),
    (("x = batch[0].to(device)", "print(loader.pin_memory)"), "line 22 checks"),
    (("x = batch[0].to(device)", "print(batch[0].is_pinned())"), "line 22 checks"),
    (("x = batch[0].pin_memory().to(device)",), "pinned by hand"),
    (("with torch.cuda.stream(side):", "    x = batch[0].to(device)"), "stream of line 21"),
])  # fmt: skip
def test_refusals_say_why(body: tuple[str, ...], reason: str) -> None:
    result = run(written(*body))
    assert result.after.decode() == written(*body)
    assert any(reason in finding.reason for finding in result.refused)


@pytest.mark.parametrize("body", [
    ("batch[0].add_(1)", "x = batch[0].to(device)"),
    ("batch[0] = batch[0].to(device)",),
    ("x = batch[0].to(device)", "x -= 1"),
    ("x = batch[0].to(device)", "size = batch[0].shape[0]", "total = size; total *= 2"),
])  # fmt: skip
def test_writes_that_do_not_matter(body: tuple[str, ...]) -> None:
    assert run(written(*body)).applied


@pytest.mark.parametrize(("loader", "body", "reason"), [
    ("DataLoader(photos, num_workers=2, pin_memory=False)", "x = batch[0].to(device)", "pin_memory=False"),
    (LOADER, "x = batch[0].to(device, non_blocking=False)", "non_blocking=False"),
    ("DataLoader(photos, num_workers=2, collate_fn=pad)", "x = batch.to(device)", "accept `non_blocking`"),
    ("DataLoader(photos, num_workers=2, batch_size=None)", "x = batch.to(device)", "accept `non_blocking`"),
])  # fmt: skip
def test_what_could_not_be_shown_is_held_back(loader: str, body: str, reason: str) -> None:
    code = written(body, loader=loader)
    result = run(code)
    assert result.after.decode() == code
    assert reason in result.held_back[0].reason
    forced = run(code, unsafe=True).after.decode()
    assert "pin_memory=True" in forced
    assert "non_blocking=True" in forced
    assert "False" not in forced


@pytest.mark.parametrize("write", [
    "batch[0].numpy()[0] = 1",
    "np.asarray(batch[0])[0] = 1",
    "np.random.shuffle(batch[0].numpy())",
    "torch.relu_(batch[0])",
    "torch.nn.functional.relu(batch[0], inplace=True)",
    "torch.add(batch[0], 1, out=batch[0])",
    "np.add.at(batch[0].numpy(), [0], 1)",
    "batch[0].__setitem__(0, 1)",
    "batch[0].numpy().__iadd__(1)",
    "operator.setitem(batch[0], 0, 1)",
    "torch.distributed.all_reduce(batch[0])",
    "torch.distributed.broadcast(batch[0], 0)",
    "torch.nn.ReLU(inplace=True)(batch[0])",
])  # fmt: skip
def test_writes_through_arrays_and_functions(write: str) -> None:
    code = "import operator; import numpy as np\n" + written("x = batch[0].to(device)", write)
    result = run(code)
    assert not result.applied
    assert "modifies the batch on the CPU while line" in result.refused[0].reason
    assert run(code.replace(write, f"y = batch[0].clone()\n    {write.replace('batch[0]', 'y')}")).applied


@pytest.mark.parametrize(("lines", "is_held_back"), [
    (("target = batch[1].to(device)", "scrub(batch[1])"), True),
    (("target = batch[1].to(device)", "kept.update(batch[1], 3)"), True),
    (("target = batch[1].to(device)", "scrub(batch)"), True),
    (("target = batch[1].to(device)", "cv2.rectangle(batch[1].numpy(), (0, 0), (1, 1), 3)"), True),
    (("scrub(batch[1])", "target = batch[1].to(device)"), False),
    (("target = batch[1].to(device)", "scrub(target, batch[0])"), False),
    (("target = batch[1].to(device)", "loss = model(batch[1])"), False),
    (("target = batch[1].to(device)", "print(len(batch[1]), batch[1])"), False),
    (("target = batch[1].to(device)", "names.append(batch[1])"), False),
    (("target = batch[1].to(device)", "hits = target.cpu().eq(batch[1])"), False),
    (("target = batch[1].to(device)", "score = sklearn.metrics.f1_score(batch[1], batch[1])"), False),
])  # fmt: skip
def test_functions_out_of_sight_may_write_into_the_batch(lines: tuple[str, ...], *, is_held_back: bool) -> None:
    code = "import cv2; import sklearn; from data import kept, scrub\n" + written(*lines)
    result = run(code)
    assert bool(result.applied) is not is_held_back
    called = lines[1].partition("(")[0]
    reason = (
        f"perfmod cannot see the code of `{called}` on line 23, which may modify the batch while line 22 is still "
        "copying it"
    )
    assert [each.reason for each in result.held_back] == [reason] * is_held_back
    assert "non_blocking=True" in run(code, unsafe=True).after.decode()


@pytest.mark.parametrize(
    ("order", "outcome"), [(("scrub(batch)", "step(batch)"), "applied"), (("step(batch)", "scrub(batch)"), "held_back")]
)
def test_order_is_seen_through_helpers(order: tuple[str, ...], outcome: str) -> None:
    code = "from data import scrub\n" + written(*order).replace(
        "for batch in loader", "def step(batch):\n    model(batch[0].to(device)).backward()\n\n\nfor batch in loader"
    )
    assert getattr(run(code), outcome)


def test_a_whole_batch_with_a_to_of_its_own() -> None:
    """What a tokenizer gives is collated to the same class, whose `to` may take no `non_blocking`."""
    code = written("batch.to(device)")
    assert "whose `to` may not accept `non_blocking`" in run(code).held_back[0].reason
    samples = (
        "class Photos(Dataset):\n    def __getitem__(self, index):\n        return RESULT\n\n    def __len__(self):\n"
    )
    own = code.replace("DataLoader\n", "DataLoader, Dataset\n", 1).replace("DataLoader(photos", "DataLoader(Photos()")
    own = own.replace("device = torch", f"{samples}        return 8\n\n\ndevice = torch", 1)
    assert run(own.replace("RESULT", "torch.full((3,), index)")).applied
    (held,) = run(own.replace("RESULT", "tokenizer(index)")).held_back
    assert "whose `to` may not accept `non_blocking`" in held.reason


def test_the_default_device_is_where_samples_lie() -> None:
    code = written("x = batch[0].to(device)").replace("device = ", 'torch.set_default_device("cuda")\ndevice = ', 1)
    assert "cannot be pinned" in run(code).refused[0].reason


def test_a_collate_function_in_sight() -> None:
    collate = "def pad(samples):\n    return {KEY: torch.stack(samples)}\n\n\nloader ="
    code = written("x = batch['x'].to(device)", loader="DataLoader(photos, num_workers=2, collate_fn=pad)")
    assert run(code.replace("loader =", collate.replace("KEY", "'x'"))).applied


def _with_collate(body: str, more: str = "") -> str:
    """A loader with a collate function of this body, and the default one where there is none."""
    collate = "def pad(samples):\n" + textwrap.indent(body, "    ") + "\n\n\n" if body else ""
    code = written("x = batch[0].to(device).view(3)", loader=f"DataLoader(photos, num_workers=2, collate_fn=pad{more})")
    code = code if body else code.replace("collate_fn=pad", "batch_size=4")
    return code.replace("loader =", f"{collate}loader =")


@pytest.mark.parametrize(("body", "name"), [
    ("x = torch.stack(samples)\nreturn x[:, :1].expand(-1, 3), 1", "expand"),
    ("x = torch.stack(samples)\nm = x[0].expand_as(x)\nbatch = {0: x, 1: m.t()}\nreturn batch", "expand_as"),
    ("x = torch.stack(samples)\nbatch = {}\nbatch[0] = torch.broadcast_to(x, (2, 3))\nreturn batch", "broadcast_to"),
    ("x = torch.stack(samples)\nreturn [x, *[1]] + [1], dict(y=x.broadcast_to(2, 3).float())", "broadcast_to"),
    ("x, y = torch.broadcast_tensors(*samples)\nreturn x.unsqueeze(0), 1", "broadcast_tensors"),
    ("grid = torch.meshgrid(torch.arange(3), torch.arange(3))\nreturn torch.stack(samples), grid", "meshgrid"),
    ("x = torch.as_strided(torch.stack(samples), (3, 2), (1, 0))\nreturn [x, 1]", "as_strided"),
    ("rows = []\nfor s in samples:\n    rows.append(s.expand(3, -1))\nreturn rows", "expand"),
    ("return [s.expand(3, -1) for s in samples]", "expand"),
    ("return wide(torch.stack(samples)), 1", "expand"),
    ("x = torch.stack(samples)\nreturn torch.as_tensor(x[:1].expand(4, 3)), 1", "expand"),
    ("import numpy\nreturn torch.from_numpy(numpy.broadcast_to(samples[0], (4, 3))), 1", "broadcast_to"),
    ("x = torch.stack(samples)\nbatch = {0: x}\nbatch.update({1: x[:1].expand(4, 3)})\nreturn batch", "expand"),
    ("x = torch.stack(samples)\nmore = {1: x[:1].expand(4, 3)}\nreturn {0: x, **more}", "expand"),
    ("x = torch.stack(samples)\nmore = [x[:1].expand(4, 3)]\nreturn [x, *more]", "expand"),
    ("x = torch.stack(samples)\nmore = [x[:1].expand(4, 3)]\nreturn [x] + more", "expand"),
    ("samples[0] = samples[0].expand(4, 3)\nreturn samples", "expand"),
    ("x = torch.stack(samples)\nreturn Pair(x, x[:1].expand(4, 3))", "expand"),
    ("x = torch.stack(samples)\nreturn x[:1].expand(4, 3).clone(), 1", ""),
    ("x = torch.stack(samples)\nreturn x[:1].expand(4, 3).contiguous(), 1", ""),
    ("x = torch.stack(samples)\nm = x[:1].expand(4, 3)\nreturn x * m, m[x > 0], m.sum(0)", ""),
    ("x = torch.stack([s.expand(3, -1) for s in samples])\nreturn x, 1", ""),
    ("grid = torch.stack(torch.meshgrid(torch.arange(3), torch.arange(3)))\nreturn torch.stack(samples), grid", ""),
])  # fmt: skip
def test_elements_in_one_place_cannot_be_pinned(body: str, name: str) -> None:
    code = _with_collate(body).replace("def pad", "def wide(x):\n    y = x[:1]\n    return y.expand(4, 3)\n\n\ndef pad")
    code = code.replace("device =", "Pair = namedtuple('Pair', 'a b')\ndevice =", 1)
    code = code.replace("import torch\n", "import torch\nfrom collections import namedtuple\n", 1)
    result = run(code)
    assert bool(result.applied) != bool(name), (result.applied, result.refused)
    assert all(each.reason.startswith(f"{name}() may make overlapping elements") for each in result.held_back)


OVERLAPPING = {
    "here": """
        def __getitem__(self, index):
            x = torch.ones(1, 3).expand(4, 3)
            return x, torch.ones(3)
    """,
    "by a method": """
        def __getitem__(self, index):
            return self.grey(torch.ones(3)), torch.ones(3)

        def grey(self, x):
            return x.unsqueeze(0).expand(4, 3)
    """,
    "iterated": """
        def __iter__(self):
            for x in self.all:
                yield x.expand(4, 3), torch.ones(3)
    """,
    "by a generator": """
        def __iter__(self):
            yield from self.draw()

        def draw(self):
            yield torch.ones(3).expand(4, 3), torch.ones(3)
    """,
    "kept": """
        def __init__(self):
            self.mask = torch.ones(3).expand(4, 3)

        def __getitem__(self, index):
            return self.mask, torch.ones(3)
    """,
}


@pytest.mark.parametrize(("collate", "more", "is_held"), [
    ("", "", False),
    ("", ", batch_size=None", True),
    ("return samples", ", batch_size=None", True),
    ("return [s[0] for s in samples]", "", True),
    ("return tuple(zip(*samples))", "", True),
    ("x, y = zip(*samples)\nreturn list(x), torch.stack(y)", "", True),
    ("x, y = map(list, zip(*samples))\nreturn x, y", "", True),
    ("return torch.stack([s[0] for s in samples])", "", False),
])  # fmt: skip
@pytest.mark.parametrize("sample", OVERLAPPING)
def test_samples_with_elements_in_one_place(sample: str, collate: str, more: str, is_held: bool) -> None:
    methods = textwrap.dedent(OVERLAPPING[sample])
    kind = "IterableDataset" if "__iter__" in methods else "Dataset"
    dataset = f"class Photos(torch.utils.data.{kind}):{textwrap.indent(methods, '    ')}\n\nloader ="
    code = _with_collate(collate, more).replace("(photos,", "(Photos(),").replace("loader =", dataset)
    result = run(code.replace("batch_size=4, batch_size=None", "batch_size=None"))
    assert any("may make overlapping elements in a batch" in each.reason for each in result.held_back) is is_held


@pytest.mark.parametrize(("collate", "is_held"), [("return list(zip(*samples))", True), ("", False)])
def test_transforms_with_elements_in_one_place(collate: str, is_held: bool) -> None:
    code = _with_collate(collate).replace("(photos,", "(VOCDetection('.', transform=grey),")
    code = code.replace("loader =", "grey = Compose([ToTensor(), lambda x: x.expand(3, -1, -1)])\nloader =")
    code = code.replace("import torch\n", "import torch\nfrom torchvision.datasets import VOCDetection\n", 1)
    result = run(
        code.replace("import torch\n", "import torch\nfrom torchvision.transforms import Compose, ToTensor\n", 1)
    )
    assert any("expand() may make overlapping elements" in each.reason for each in result.held_back) is is_held


def test_a_tuple_that_is_used_whole_would_become_a_list() -> None:
    collate = "def pad(samples):\n    return torch.stack(samples), torch.ones(3)\n\n\nloader ="
    body = "x = batch[0].to(device)", "model(batch)"
    code = written(*body, loader="DataLoader(photos, num_workers=2, collate_fn=pad)").replace("loader =", collate)
    assert "list" in run(code).held_back[0].reason
    assert run(code.replace("    model(batch)\n", "")).applied


@pytest.mark.parametrize(("collate", "use", "is_equal"), [
    ("torch.stack(samples), torch.ones(3)", "model(*batch)", True),
    ("torch.stack(samples), torch.ones(3)", "count = len(batch)", True),
    ("torch.stack(samples), torch.ones(3)", "parts = [part for part in batch]", True),
    ("torch.stack(samples), torch.ones(3)", "first, last = batch", True),
    ("torch.stack(samples), torch.ones(3)", "rest = batch[1:]", False),
    ("torch.stack(samples), torch.ones(3)", "rest = batch + (1,)", False),
    ("torch.stack(samples), torch.ones(3)", "kept = {batch}", False),
    ("torch.stack(samples), torch.ones(3)", "if isinstance(batch, tuple):\n        pass", False),
    ("torch.stack(samples), torch.ones(3)", "helper(batch, device)", False),
    ("torch.stack(samples), samples", "more = batch[1]", True),
    ("torch.stack(samples), tuple(samples)", "size = len(batch[1])", True),
    ("torch.stack(samples), tuple(samples)", "model(batch[1])", False),
    ("tuple(zip(*samples))", "x = torch.stack(batch[0])", True),
    ("tuple(zip(*samples))", "model(batch[1])", False),
    ("list(zip(*samples))", "model(batch[1])", False),
    ("list(zip(*samples))", "first, last = batch", True),
])  # fmt: skip
def test_uses_of_tuples_in_batches(collate: str, use: str, is_equal: bool) -> None:
    maker = f"def pad(samples):\n    return {collate}\n\n\nloader ="
    first = "batch[0][0]" if "zip" in collate else "batch[0]"
    body = f"x = {first}.to(device).view(3)", use
    code = written(*body, loader="DataLoader(photos, num_workers=2, collate_fn=pad)").replace("loader =", maker)
    result = run(code)
    assert bool(result.applied) is is_equal
    assert is_equal or "into a list" in result.held_back[0].reason


@pytest.mark.parametrize(("sample", "is_equal"), [("{'x': x}", True), ("x, index", False)])
def test_samples_that_are_handed_on_as_they_are(sample: str, is_equal: bool) -> None:
    dataset = f"""\
class Photos(torch.utils.data.Dataset):
    def __getitem__(self, index):
        x = torch.ones(3)
        return {sample}


loader ="""
    code = written("x = batch[0]['x'].to(device).view(3)", "model(batch[0])", loader=LOADER.replace("=4", "=4, KEPT"))
    code = code.replace("(photos, ", "(Photos(), ").replace("KEPT", "collate_fn=lambda samples: samples")
    assert bool(run(code.replace("loader =", dataset)).applied) is is_equal


@pytest.mark.parametrize(
    "kept", ["x, ids = zip(*samples)\n    return torch.stack(x), ids", "return TENSORS, [s[1] for s in samples]"]
)
@pytest.mark.parametrize(("use", "is_equal"), [
    ("for start, end in ids:\n        print(start + end)", True),
    ("for pair in ids:\n        known[pair] = len(ids)", False),
])  # fmt: skip
def test_tuples_in_samples(kept: str, use: str, is_equal: bool) -> None:
    code = f"""\
import torch
from torch.utils.data import DataLoader, Dataset
from model import model

class Spans(Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, index):
        return torch.ones(3), (index, index + 1)

def collate(samples):
    {kept.replace("TENSORS", "torch.stack([s[0] for s in samples])")}

known = {{}}
for x, ids in DataLoader(Spans(), 4, collate_fn=collate):
    model(x.cuda()).backward()
    {use}
"""
    result = run(code)
    assert bool(result.applied) is is_equal
    assert is_equal or "into a list" in result.held_back[0].reason


@pytest.mark.parametrize(("use", "is_equal"), [("pass", True), ("model(item)", False)])
def test_a_generator_that_hands_tuples_on(use: str, is_equal: bool) -> None:
    code = f"""\
import torch
from torch.utils.data import DataLoader
from data import photos, model

def pad(samples):
    return torch.stack(samples), torch.ones(3)

class Logger:
    def log_every(self, items, every):
        for item in items:
            yield item
            {use}

loader = DataLoader(photos, num_workers=2, collate_fn=pad)
logger = Logger()
for i, (x, y) in enumerate(logger.log_every(loader, 10)):
    model(x.cuda(), y.cuda()).backward()
"""
    assert bool(run(code).applied) is is_equal


OBJECTS = """\
import torch
from torch.utils.data import DataLoader, Dataset
IMPORT

class Photos(Dataset):
    def __init__(self, transform):
        self.transform = transform

    def __getitem__(self, index):
        return self.transform(index)

    def __len__(self):
        return 8

def pad(samples):
    return list(zip(*samples))

def train(model, transform):
    loader = DataLoader(Photos(transform), collate_fn=pad)
    for images, targets in loader:
        images = [image.to("cuda") for image in images]
        targets = [{name: part.to("cuda") for name, part in target.items()} for target in targets]
        model(images, targets).backward()
"""
BOXES = "class Boxes:\n    def to(self, device):\n        return self\n"


@pytest.mark.parametrize(("above", "other"), [
    ("import numpy as np", ""),
    ("from transformers import AutoTokenizer", "transformers before version 4.48"),
    ("from .boxes import Boxes", ".boxes"),
    (f"{BOXES}\nall_boxes = [Boxes()]", "Boxes"),
    (BOXES, ""),
    (BOXES.replace("device)", "device, **more)"), ""),
    (f"{BOXES}\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        return Boxes()\n", ""),
    (f"{BOXES}\ndef boxed(x):\n    return Boxes()\n", "Boxes"),
    ("class Boxes:\n    pass\n\nBoxes.to = lambda self, device: self\n", "Boxes"),
])  # fmt: skip
def test_what_else_could_have_a_to(above: str, other: str) -> None:
    result = run(OBJECTS.replace("IMPORT", above))
    assert bool(result.applied) is not other
    assert not other or f"an object of {other}" in result.held_back[0].reason


@pytest.mark.parametrize(("fields", "given", "is_shown"), [
    ('namedtuple("Batch", "x y")', "torch.stack(samples), None", True),
    ('namedtuple("Batch", ["x", "y"])', "y=None, x=torch.stack(samples)", True),
    ('namedtuple("Batch", ("x", "y"))', "*(torch.stack(part) for part in zip(*samples))", True),
    ('namedtuple("Batch", "x y")', "photos, None", False),
    ('namedtuple("Batch", photos)', "torch.stack(samples), None", False),
])  # fmt: skip
def test_named_tuples(fields: str, given: str, is_shown: bool) -> None:
    maker = f"Batch = {fields}\n\n\ndef pad(samples):\n    return Batch({given})\n\n\nloader ="
    code = written("x = batch.x.to(device)", loader="DataLoader(photos, num_workers=2, collate_fn=pad)").replace(
        "loader =", maker
    )
    result = run("from collections import namedtuple\n" + code)
    assert bool(result.applied) is is_shown
    assert is_shown or "whose `to` may not accept `non_blocking`" in result.held_back[0].reason


@pytest.mark.parametrize(
    "given", ['tokenizer(samples, return_tensors="pt")', 'BatchEncoding(samples, tensor_type="pt")']
)
def test_what_a_tokenizer_gives(given: str) -> None:
    maker = f"def pad(samples):\n    return {given}\n\n\nloader ="
    loader = "DataLoader(photos, num_workers=2, collate_fn=pad)"
    for body, is_shown in (
        ("batch['ids'].to(device)", True),
        ("batch.ids.to(device)", True),
        ("batch.to(device)", False),
    ):
        code = written(f"x = {body}", loader=loader).replace("loader =", maker)
        assert bool(run(code).applied) is is_shown
    untold = code.replace("batch.to", "batch['ids'].to").replace('"pt"', "kind")
    assert not run(untold).applied


@pytest.mark.parametrize("lines", [
    ("x = torch.cat(batch, dim=0)", "x = x.to(device)"),
    ("x = batch[0].numpy()", "x = torch.Tensor(x * 2)", "x = x.cuda()"),
    ("x = (batch[0] * 2).to(device)",),
    ("x = batch[0][:, [2, 1, 0]].to(device)",),
    ("x = batch[0][:, [2, 1, 0]].float().to(device)",),
    ("order = [2, 1, 0]", "x = batch[0][:, order]", "x = x.to(device)"),
    ("order = torch.randperm(4)", "x = batch[0][order].to(device)"),
    ("import numpy as np", "x = batch[0][np.argsort(table)].to(device)"),
    ("x, y = batch", "x = x[torch.ones(3) > 0].to(device)"),
])  # fmt: skip
def test_what_the_host_computes_of_a_batch(lines: tuple[str, ...]) -> None:
    result = run(written(*lines))
    assert not result.applied
    assert not result.held_back


@pytest.mark.parametrize(("lines", "is_half"), [
    (("x = torch.Tensor(x)", "x = x.to(device)", "y = y.to(device)"), True),
    (("x = read(x)", "x, z = x.to(device), 3", "y = y.to(device)"), True),
    (("x = (x / 255).to(device)", "y = y.to(device)"), True),
    (("x = x.flip(1).to(device)", "y = y.to(device)"), True),
    (("x = x[:, [2, 1, 0]].to(device)", "y = y.to(device)"), True),
    (("x = x[:8].to(device)", "y = y.to(device)"), False),
    (("x, y = x.to(device), y.to(device)", "x = x[y > 0].to(device)"), False),
    (("x = x.to(device)", "y = y.to(device)", "m = (y > 0).to(device)"), False),
    (("y = y.to(device)", "w = torch.tensor([table[i] for i in x]).to(device)"), False),
    (("y = y.to(device)", "w = torch.tensor([table[i] for i in x])", "w = w.to(device)"), False),
])  # fmt: skip
def test_parts_of_one_batch_go_together(lines: tuple[str, ...], is_half: bool) -> None:
    result = run(written("x, y = batch", *lines))
    assert bool(result.applied) is not is_half
    if is_half:
        assert any("from another part of the batch" in finding.reason for finding in result.refused)


@pytest.mark.parametrize("number", ["rank", 'int(os.environ["LOCAL_RANK"])', "0"])
def test_devices_by_number(number: str) -> None:
    code = written("x = batch[0].to(gpu)").replace("device = ", f"gpu = {number}\ndevice = ", 1)
    code = "import os\nfrom data import rank\n" + code
    assert "batch[0].to(gpu, non_blocking=True)" in run(code).after.decode()
    assert not run(code.replace("to(gpu)", "to(int)")).applied


def test_the_loader_is_built_elsewhere() -> None:
    result = run(written("x = batch[0].to(device)").replace("in loader", "in other_loader"))
    assert ["no copy of its batches" in finding.reason for finding in result.refused] == [True]
    assert not result.held_back


def test_loaders_of_graphs() -> None:
    code = written("batch = batch.to(device)").replace("torch.utils.data", "torch_geometric.loader")
    assert "batch.to(device, non_blocking=True)" in run(code).after.decode()
    cut = code.replace("DataLoader", "NeighborLoader")
    assert ") comes from elsewhere: if it is on the device, it cannot be pinned" in run(cut).held_back[0].reason
    read = "graph = datasets.Planetoid('cora', 'Cora')[0]\nloader = "
    cut = "from torch_geometric import datasets\n" + cut.replace("loader = ", read).replace("(photos", "(graph")
    assert run(cut).applied
    moved = cut.replace("graph = ", "graph = torch.load('x').to(device)\ngraph = ")
    assert run(moved).applied
    assert "may be on the device" in run(cut.replace("\nloader", ".to(device)\nloader")).refused[0].reason
    assert "may be on the device" in run(cut.replace("for batch", "graph.to(device)\nfor batch")).refused[0].reason


@pytest.mark.parametrize(("loader", "reason"), [
    ("DataLoader(graph, nodes, sampler, device=device)", "copies its batches itself"),
    ("DataLoader(graph, nodes, sampler)", "if it is given a device"),
])  # fmt: skip
def test_loaders_of_dgl(loader: str, reason: str) -> None:
    code = written("batch = batch.to(device)", loader=loader).replace("torch.utils.data", "dgl.dataloading")
    code = code.replace("import DataLoader", "import DataLoader, GraphDataLoader")
    assert reason in run(code).refused[0].reason


OF_DGL = written("batch = batch.to(device)", loader="loader = DataLoader(photos, num_workers=2)").replace(
    "torch.utils.data import DataLoader", "dgl.dataloading import GraphDataLoader as DataLoader"
)


@pytest.mark.parametrize("more", ["", ", collate_fn=None", ", shuffle=True"])
def test_a_loader_of_dgl_that_joins_graphs(more: str) -> None:
    after = run(OF_DGL.replace("(photos, num_workers=2)", f"(photos, num_workers=2{more})")).after.decode()
    assert f"DataLoader(photos, num_workers=2{more}, pin_memory=True)" in after
    assert "batch.to(device, non_blocking=True)" in after


@pytest.mark.parametrize("more", [", batch_size=None", ", collate_fn=pad"])
def test_a_loader_of_dgl_that_gives_anything(more: str) -> None:
    result = run("import monai\n" + OF_DGL.replace("(photos, num_workers=2)", f"(photos, num_workers=2{more})"))
    assert "an object of monai" in result.held_back[0].reason


@pytest.mark.parametrize(("write", "matters"), [
    ("batch.ndata['h'] = x", False),
    ("batch.ndata[key] = x", False),
    ("batch.edata['w'] = x", False),
    ("batch['h'] = x", False),
    ("batch.ndata['h'][0] = x", True),
    ("batch.ndata[key][0] = x", True),
    ("batch.ndata['h'] += x", True),
    ("batch.ndata['h'].zero_()", True),
    ("batch[0] = x", True),
])  # fmt: skip
def test_new_features_of_a_graph_are_no_writes_into_the_old(write: str, *, matters: bool) -> None:
    result = run(OF_DGL.replace("batch = batch.to(device)", f"graph = batch.to(device)\n    {write}"))
    assert bool(result.applied) is not matters
    assert not matters or "modifies the batch" in result.refused[0].reason


@pytest.mark.parametrize(("result", "is_graph"), [
    ("dgl.to_block(g, batch)", True),
    ("dgl.add_self_loop(dgl.remove_self_loop(g))", True),
    ("dgl.node_subgraph(g, batch) if batch else [1, 2]", True),
    ("parts", True),
    ("make(g)", False),
    ("[make(g)]", False),
    ("dgl.sampling.global_uniform_negative_sampling(g, 4)", False),
])  # fmt: skip
def test_collate_functions_that_make_graphs(result: str, is_graph: bool) -> None:
    code = written(
        f"x = batch{'[0]' * ('parts' in result or '[m' in result)}.to(device)",
        loader="DataLoader(photos, num_workers=2)",
    )
    function = (
        f"def join(batch):\n    parts = []\n    parts.append(dgl.batch(batch))\n    return {result}\n\n\ndevice ="
    )
    code = code.replace("(photos, num_workers=2)", "(photos, num_workers=2, collate_fn=join)").replace(
        "device =", function, 1
    )
    found = run("import dgl\nimport monai\n" + code)
    assert bool(found.applied) is is_graph
    assert is_graph or "an object of monai" in found.held_back[0].reason


@pytest.mark.parametrize(
    ("imported", "is_sure"),
    [("import dgl", True), ("import dgl.sparse as dglsp", False), ("from dgl import graphbolt", False)],
)
def test_graphs_of_dgl_take_non_blocking(imported: str, is_sure: bool) -> None:
    result = run(
        f"{imported}\n" + written("x = batch[0].to(device)", loader="DataLoader(photos, num_workers=2, collate_fn=pad)")
    )
    assert ("an object of dgl" not in result.held_back[0].reason) is is_sure


@pytest.mark.parametrize(("package", "is_sure"), [("dgl", True), ("graphs", False)])
def test_what_a_library_beside_its_examples_imports_is_part_of_it(package: str, is_sure: bool) -> None:
    code = written("x = batch[0].to(device)", loader=f"DataLoader([1], num_workers=2, collate_fn={package}.join)")
    code = code.replace("from data import photos, pad, tensors, other_loader", f"import {package}")
    library = Given(f"{package}/__init__.py", b"from .logging import log\n", (package,))
    result = rewrite_together([library, Given("train.py", code.encode())], [PageableTransfer()])[1]
    assert bool(result.applied) is is_sure
    assert is_sure or "an object of .logging" in result.held_back[0].reason


@pytest.mark.parametrize(("other", "imported", "reason"), [
    ("import dgl\nimport monai\n", "dgl", ""),
    ("import dgl\nimport monai\nimport train\n", "dgl", "an object of monai"),
    ("import dgl\nimport helpers\n", "dgl", ""),
    ("import dgl\nimport helpers\nimport train\n", "dgl", "an object of monai"),
    ("import dgl\nclass Box:\n    def to(self, device):\n        return self\n", "dgl", ""),
    ("import dgl\n", "dgl.sparse", "an object of dgl"),
    ("import dgl\n", "other", "an object of other"),
])  # fmt: skip
def test_scripts_that_only_share_a_library(other: str, imported: str, reason: str) -> None:
    code = written("x = batch[0].to(device)", loader=f"DataLoader([1], num_workers=2, collate_fn={imported}.join)")
    code = code.replace("from data import photos, pad, tensors, other_loader", f"import {imported}")
    files = [
        Given("dgl/__init__.py", b"from .logging import log\nfrom . import sparse\n", ("dgl",)),
        Given("dgl/sparse/__init__.py", b"class Matrix:\n    def to(self, device):\n        pass\n", ("dgl.sparse",)),
        Given("helpers.py", b"import monai\n", ("helpers",)),
        Given("other.py", other.encode()),
        Given("train.py", code.encode(), ("train",)),
    ]
    result = rewrite_together(files, [PageableTransfer()])[-1]
    assert bool(result.applied) is not bool(reason)
    assert not reason or reason in result.held_back[0].reason


def test_parts_of_graphs_by_name() -> None:
    code = written('batch = batch.to(device, "x", "y")').replace("torch.utils.data", "torch_geometric.loader")
    assert 'batch.to(device, "x", "y", non_blocking=True)' in run(code).after.decode()


BAR = """
from functools import partial

import torch
import tqdm
from data import device, model, opened, photos
from torch.utils.data import DataLoader

make = partial(DataLoader, batch_size=8, num_workers=2)
loader = make(photos)
for epoch in range(3):
    with tqdm.tqdm(loader, ascii=True) as bar:
        for step, (x, y) in enumerate(bar):
            loss = torch.nn.functional.cross_entropy(model(x.to(device)), y.to(device))
            loss.backward()
"""


def test_a_loader_that_is_bound_beforehand_and_a_bar_that_is_entered() -> None:
    after = run(BAR).after.decode()
    assert "loader = make(photos, pin_memory=True)" in after
    assert "model(x.to(device, non_blocking=True)), y.to(device, non_blocking=True)" in after


@pytest.mark.parametrize(("before", "after", "reason"), [
    ("tqdm.tqdm(loader, ascii=True) as", "opened(loader) as", "no copy of its batches"),
    ("num_workers=2)", "num_workers=2, pin_memory=False)",
     "pin_memory=False is set explicitly"),
    ("num_workers=2)", "num_workers=2, pin_memory=False)\nopened(make)",
     "pin_memory=False is set through functools.partial, which line 10 also uses for something else"),
])  # fmt: skip
def test_other_managers_and_other_ways_to_bind(before: str, after: str, reason: str) -> None:
    result = run(BAR.replace(before, after))
    assert not result.applied
    assert reason in [*result.refused, *result.held_back][0].reason


@pytest.mark.parametrize(
    ("transform", "reason"),
    [("ToSparseTensor()", "sparse tensors cannot be pinned"), ("ToDevice('cuda')", "already on the device")],
)
def test_graphs_that_a_transform_stores_otherwise(transform: str, reason: str) -> None:
    code = written("batch = batch.to(device)").replace("torch.utils.data", "torch_geometric.loader")
    code = code.replace("device = ", f"import torch_geometric.transforms as T\ntransform = T.{transform}\ndevice = ", 1)
    assert reason in run(code).refused[0].reason


def test_evaluation_too() -> None:
    code = written("x = batch[0].to(device)").replace("loss.backward()", "pass")
    (held,) = run(code).held_back
    assert held.reason.endswith("this script only evaluates")
    assert run(f"{code}optimizer.step()\n").applied


@pytest.mark.parametrize(("before", "after"), [
    ("batch[0].float().to(device)", "batch[0].to(device, non_blocking=True).float()"),
    ("batch[0].float().cuda()", "batch[0].cuda(non_blocking=True).float()"),
    ("batch[0].type(torch.FloatTensor).cuda()", "batch[0].cuda(non_blocking=True).float()"),
    ("batch[0].to(torch.float32).to(device)", "batch[0].to(device, non_blocking=True).to(torch.float32)"),
    ("batch[0].argmax(1).long().to(device)", "batch[0].argmax(1).long().to(device)"),
    ("batch[0].long().to(device)", "batch[0].to(device, non_blocking=True).long()"),
    ("batch[0].type(torch.LongTensor).cuda()", "batch[0].cuda(non_blocking=True).long()"),
    ("batch[0].float().to(device, non_blocking=True)", "batch[0].to(device, non_blocking=True).float()"),
    ("Variable(batch[0].float()).to(device)", "Variable(batch[0]).to(device, non_blocking=True).float()"),
    ("batch[0].float().to(device), batch[1].long().to(device)",
     "batch[0].to(device, non_blocking=True).float(), batch[1].to(device, non_blocking=True).long()"),
])  # fmt: skip
def test_casts_before_the_copy(before: str, after: str) -> None:
    result = run(written(f"x = {before}"))
    assert f"x = {after}\n" in result.after.decode()
    again = run(result.after.decode())
    assert not again.applied
    assert not again.held_back


SIDE_BY_SIDE = """\
from torch.utils.data import DataLoader

from data import photos, model, evaluate

train_loader = DataLoader(photos, num_workers=2, batch_size=4)
test_loader = DataLoader(photos, num_workers=2, batch_size=4)
for x, y in train_loader:
    x, y = x.cuda(), STEP
    loss = model(x).sum()
    loss.backward()
for x, y in test_loader:
    evaluate(x.cuda())
"""


def test_loaders_side_by_side_pin_together() -> None:
    assert run(SIDE_BY_SIDE.replace("STEP", "y.cuda()")).after.decode().count("pin_memory=True") == 2
    code = SIDE_BY_SIDE.replace("STEP", "y.half().cuda()")
    result = run(code)
    assert result.after.decode() == code
    (held,) = result.held_back
    assert held.safety is Safety.LOW_IMPACT
    assert says(held.reason, "beside it on line 5 … half() on line 8")
    # What evaluates may stay where what trains is pinned, unless it goes through the same copies.
    code = SIDE_BY_SIDE.replace("STEP", "y.cuda()").replace("evaluate(x.cuda())", "evaluate(x.half().cuda())")
    assert run(code).after.decode().count("pin_memory=True") == 1


@pytest.mark.parametrize(("part", "has_gaps"), [
    ("batch[0][:, :-1]", True),
    ("batch[0][:, 0]", True),
    ("batch[0][..., 0]", True),
    ("batch[0][::2]", True),
    ("batch[0][0, :, 1]", True),
    ("batch[0][:4]", False),
    ("batch[0][0]", False),
    ("batch[0][0, 1:]", False),
    ("batch[0][:4, :, ...]", False),
    ("batch[0][:4, None]", False),
])  # fmt: skip
def test_slices_with_gaps_in_memory(part: str, has_gaps: bool) -> None:
    for body in ((f"x = {part}.to(device)",), (f"z = {part}", "x = z.to(device)")):
        result = run(written(*body))
        assert bool(result.applied) is not has_gaps
        assert not has_gaps or "PyTorch first joins the pieces" in result.refused[0].reason


def test_what_another_function_makes_of_a_part_would_still_wait() -> None:
    packed = written(
        "x, y = batch", "packed = torch.nn.utils.rnn.pack_sequence(x)", "packed.to(device)", "y.to(device)"
    )
    result = run(packed)
    assert not result.applied
    assert "would still wait to copy what" in result.refused[0].reason
    # Its size alone is no copy of it.
    mask = written("x, y = batch", "mask = torch.ones(x.size(0))", "mask.to(device)", "y.to(device)", "x.to(device)")
    assert run(mask).applied


WITHOUT_WORKERS = """\
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset
from data import Photos, photos, labels, model, args


class Kept(Dataset):
    def __init__(self):
        self.photos, self.labels = torch.load("photos.pt"), torch.load("labels.pt")

    def __getitem__(self, index):
        return self.photos[index], self.labels[index]

    def __len__(self):
        return len(self.labels)


def main():
    train_loader = DataLoader(TRAIN, batch_size=4)
    test_loader = DataLoader(Photos("test"), batch_size=4)
    for x, y in train_loader:
        loss = model(x.cuda(), y.cuda())
        loss.backward()
    for x, y in test_loader:
        model(x.cuda(), y.cuda())
"""


@pytest.mark.parametrize(("train", "pins"), [
    ("Photos()", 0),
    ("Photos(), num_workers=0", 0),
    ("Photos(), num_workers=2", 2),
    ("Photos(), num_workers=args.workers", 2),
    ("TensorDataset(photos, labels)", 1),
    ("Kept()", 1),
    ("Photos(), pin_memory=True", 1),
])  # fmt: skip
def test_loaders_without_workers_pin_in_the_training_process(train: str, pins: int) -> None:
    """What takes samples from memory, has workers, or stands beside what has some gains by it; others may lose."""
    result = run(WITHOUT_WORKERS.replace("TRAIN", train))
    after = result.after.decode()
    assert after.count("pin_memory=True") == pins
    held = [finding.reason for finding in result.held_back if finding.safety is Safety.LOW_IMPACT]
    assert all("it has no workers" in reason for reason in held)
    assert bool(held) is (pins < 2)


@pytest.mark.parametrize(("size", "is_held"), [("", True), (", batch_size=1", True), (", batch_size=4", False)])
def test_single_samples_of_an_evaluation(size: str, is_held: bool) -> None:
    code = (
        "import torch\nfrom torch.utils.data import DataLoader\nfrom data import model, train_set, test_set\n\n"
        "train_loader = DataLoader(train_set, batch_size=8, num_workers=2)\n"
        f"test_loader = DataLoader(test_set, num_workers=2{size})\n"
        "for x, y in train_loader:\n    model(x.cuda()).backward()\n"
        "for x, y in test_loader:\n    scores.append(model(x.cuda()).cpu())\n"
    )
    result = run(code)
    assert result.after.decode().count("pin_memory=True") == 2 - is_held
    reason = "this loader only evaluates, one sample at a time: the CPU waits for each result anyway"
    assert [each.reason for each in result.held_back] == [reason] * is_held


@pytest.mark.parametrize(("settings", "is_held"), [
    ("", True),
    (", batch_size=1, num_workers=0", True),
    (", batch_sampler=None", True),
    (", batch_size=2", False),
    (", num_workers=2", False),
    (", batch_sampler=sampler", False),
    (", **settings", False),
])  # fmt: skip
def test_single_samples_from_memory(settings: str, is_held: bool) -> None:
    code = (
        "import torch\nfrom torch.utils.data import DataLoader, TensorDataset\n"
        "from data import model, sampler, settings\n\n"
        f"data = TensorDataset(torch.rand(9, 3), torch.rand(9))\nloader = DataLoader(data{settings})\n"
        "for x, y in loader:\n    model(x.cuda()).backward()\n    optimizer.step()\n"
    )
    result = run(code)
    assert any("one sample from memory" in each.reason for each in result.held_back) is is_held
    assert (result.after.decode() == code) is is_held or settings.startswith(", **")
    of_files = run(code.replace("TensorDataset(torch.rand(9, 3), torch.rand(9))", "photos"))
    assert not any("from memory" in each.reason for each in of_files.held_back)


@pytest.mark.parametrize("loader", [
    "DataLoader(\n    photos,\n    num_workers=2,\n    # pin_memory=True,\n    batch_size=4,\n)",
    f"{LOADER}  # , pin_memory=args.pin",
])  # fmt: skip
def test_pinning_that_somebody_switched_off(loader: str) -> None:
    code = written("x = batch[0].to(device)", loader=loader)
    result = run(code)
    assert result.after.decode() == code
    assert result.held_back[0].safety is Safety.UNSAFE
    assert result.held_back[0].reason.startswith("somebody switched it off: `# ")
    assert run(code.replace("# pin_memory", "# shuffle").replace("# , pin_memory", "# shuffle")).applied


def test_moved_twice() -> None:
    after = run(written("x = batch[0].to(device)", "y = x.to(device)")).after.decode()
    assert "x = batch[0].to(device, non_blocking=True)\n    y = x.to(device)\n" in after


def test_what_is_sure_waits_for_the_rest() -> None:
    code = written(
        "x = batch[0].to(device)",
        "x.size(0)",
        "batch[1].to(device)",
        loader="DataLoader(photos, num_workers=2, collate_fn=pad)",
    )
    result = run(code)
    assert result.after.decode() == code
    assert "whose `to` may not accept `non_blocking`" in result.held_back[0].reason
    assert run(code, unsafe=True).after.decode().count("non_blocking=True") == 2


@pytest.mark.parametrize("lines", [
    ("x = next(batches)[0].to(device)",),
    ("x = batches.next()[0].to(device)",),
])  # fmt: skip
def test_iterators(lines: tuple[str, ...]) -> None:
    code = written(*lines).replace("for batch in loader", "batches = iter(loader)\nfor step in range(900)")
    after = run(code).after.decode()
    assert "to(device, non_blocking=True)" in after
    assert "pin_memory=True" in after


@pytest.mark.parametrize(("head", "loader", "after"), [
    ("options = dict(num_workers=2)", "(photos, **options)", "(photos, pin_memory=True, **options)"),
    ("options = {'pin_memory': True} if cuda else {}", "(photos, **options)", "(photos, **options)"),
    ("pin = torch.cuda.is_available()", "(photos, pin_memory=pin)", "(photos, pin_memory=pin)"),
    ("pin = True", "(photos, pin_memory=pin)", "(photos, pin_memory=pin)"),
])  # fmt: skip
def test_settings_in_dictionaries_and_variables(head: str, loader: str, after: str) -> None:
    code = written("x = batch[0].to(device)", loader=f"DataLoader{loader}").replace(
        "loader = ", f"{head}\nloader = ", 1
    )
    result = run(code).after.decode()
    assert f"loader = DataLoader{after}\n" in result
    assert "non_blocking=True" in result


def test_keywords_that_a_caller_may_pass() -> None:
    maker = (
        "class Maker:\n    def __init__(self, options={}):\n        self.options = options\n\n"
        "    def make(self, data):\n        return DataLoader(data, batch_size=2, num_workers=2, **self.options)\n\n\n"
    )
    code = written("x = batch[0].to(device)", loader="Maker().make(photos)").replace(
        "loader = ", f"{maker}loader = ", 1
    )
    (held,) = run(code).held_back
    assert held.safety is Safety.UNSAFE
    assert says(held.reason, "`**self.options` … pin_memory")
    assert run(code.replace("Maker().make(photos)", "Maker({'drop_last': True}).make(photos)")).applied


@pytest.mark.parametrize("head", ["options = dict(pin_memory=False)", "options = {'pin_memory': False}"])
def test_a_refusal_to_pin_in_a_dictionary(head: str) -> None:
    code = written("x = batch[0].to(device)", loader="DataLoader(photos, num_workers=2, **options)")
    code = code.replace("loader = ", f"{head}\nloader = ", 1)
    assert "set explicitly" in run(code).held_back[0].reason
    assert head.replace("False", "True") in run(code, unsafe=True).after.decode()
    other = code.replace("for batch", "Writer(**options)\nfor batch")
    assert "uses for something else" in run(other, unsafe=True).refused[0].reason


@pytest.mark.parametrize(("option", "pins"), [
    ("'--pin', action='store_true'", False),
    ("'--pin', type=bool, default=True", True),
    ("'--no-pin', dest='pin', action='store_false'", True),
])  # fmt: skip
def test_settings_of_the_command_line(option: str, pins: bool) -> None:
    code = written("x = batch[0].to(device)", loader="DataLoader(photos, num_workers=2, pin_memory=args.pin)")
    parser = f"parser = argparse.ArgumentParser()\nparser.add_argument({option})\nargs = parser.parse_args()\nloader = "
    result = run("import argparse\n" + code.replace("loader = ", parser, 1), unsafe=True)
    assert "pin_memory=args.pin)" in result.after.decode()
    assert ("non_blocking=True" in result.after.decode()) == pins
    assert pins or "args.pin decides whether" in result.refused[0].reason


def test_a_mapping_that_is_read_by_attributes() -> None:
    loader = "loader = DataLoader(photos, num_workers=2, batch_size=4, collate_fn=tokenizer.pad)"
    code = written("x = model(batch.x.to(device))", loader=loader)
    (plain,) = run(code).held_back
    (read,) = run("import transformers\n" + code).held_back
    (by_key,) = run("import transformers\n" + code.replace("batch.x", "batch['x']")).held_back
    assert says(read.reason, "plain dictionary … `batch.x`")
    assert "dictionary" not in plain.reason + by_key.reason


def test_loaders_of_old_versions_of_pyg() -> None:
    new = written("batch = batch.to(device)").replace("torch.utils.data", "torch_geometric.loader")
    assert "non_blocking=True" in run(new).after.decode()
    (held,) = run(new.replace("torch_geometric.loader", "torch_geometric.data")).held_back
    assert "before 2.0" in held.reason


@pytest.mark.parametrize(("change", "is_equal"), [
    ("batch[0] = batch[0].to(device)", True),
    ("for i in range(len(batch)):\n        batch[i] = batch[i].to(device)", True),
    ("batch[0] = batch[1].to(device)", False),
    ("batch[0] = batch[0].to(device, torch.half)", False),
    ("batch[0] = batch[0].to(device) + 1", False),
    ("batch[0] = batch[0].to(device); batch[1] += 1", False),
])  # fmt: skip
def test_entries_of_a_kept_sample_that_are_moved(change: str, *, is_equal: bool) -> None:
    code = written(change, loader="DataLoader(photos, num_workers=2, collate_fn=lambda samples: samples[0])")
    result = run(code)
    reasons = [each.reason for each in (*result.held_back, *result.refused)]
    assert any("modifies the batch" in reason for reason in reasons) is not is_equal


@pytest.mark.parametrize(("settings", "change", "is_equal"), [
    ("batch_size=None", "images += 1", False),
    ("batch_size=None", "images.clamp_(0, 1)", False),
    ("collate_fn=lambda samples: samples[0]", "images += 1", False),
    ("batch_size=4", "images += 1", True),
])  # fmt: skip
def test_writes_into_samples_that_the_dataset_keeps(settings: str, change: str, is_equal: bool) -> None:
    loader = f"DataLoader(TensorDataset(photos, tensors), {settings})"
    code = written("images, labels = batch", change, "y = labels.to(device)", loader=loader)
    result = run(code.replace("import DataLoader", "import DataLoader, TensorDataset"))
    reasons = [each.reason for each in result.held_back]
    assert bool(result.applied) is is_equal
    assert reasons == ["line 22 modifies the batch, which may be a sample that the dataset keeps"] * (not is_equal)


def test_a_buffer_that_is_filled_anew_for_every_batch() -> None:
    code = written(
        "x = batch.to(device)", loader="DataLoader(photos, num_workers=2, batch_size=4, collate_fn=Filled())"
    )
    collate = (
        "class Filled:\n    def __init__(self):\n        self.buffer = torch.zeros(4)\n\n    def __call__(self, b):\n"
    )
    filled = f"{collate}        torch.stack(b, out=self.buffer)\n        return self.buffer\n\n"
    result = run(code.replace("def helper", filled + "def helper"))
    assert "keeps the batch it returns (line 18)" in result.refused[0].reason
    copied = filled.replace("return self.buffer", "return self.buffer.clone()")
    assert run(code.replace("def helper", copied + "def helper")).applied


def test_tensors_that_are_filled_with_batches_are_no_copies() -> None:
    code = written("images, labels = batch", "inputs.copy_(images)", "x = model(inputs)")
    (finding,) = run(code.replace("loader = Data", "inputs = torch.empty(4, 3, device=device)\nloader = Data")).refused
    assert "no copy of its batches" in finding.reason


COMPUTED = """\
import torch
from torch import nn
from torch.utils.data import ConcatDataset, DataLoader, Dataset, TensorDataset
from data import photos

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(3, 3).to(device)
first = DataLoader(photos, batch_size=4, num_workers=2)


class Pairs(Dataset):
    def __init__(self):
        self.pairs = []

    def push(self, x, y):
        self.pairs.append((x, y))

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, index):
        return self.pairs[index]


def encode(encoder: nn.Module):
    outputs, labels, pairs = [], [], Pairs()
    with torch.no_grad():
        for x, y in first:
            COLLECTED
    MADE


def fit(samples):
    loader = DataLoader(samples, batch_size=4, num_workers=2)
    for x, y in loader:
        loss = model(x.to(device)).sum() + y.to(device).sum()
        loss.backward()


fit(encode(model))
"""
PINNED = "DataLoader(samples, batch_size=4, num_workers=2, pin_memory=True)"


@pytest.mark.parametrize(("collected", "made"), [
    ("outputs.append(encoder(x.to(device)))", "return TensorDataset(torch.cat(outputs))"),
    ("outputs.append(encoder(x.to(device)))", "z = torch.cat(outputs).topk(2, dim=1).values; return TensorDataset(z)"),
    ("outputs.extend(encoder(x.to(device)))", "return TensorDataset(torch.stack(outputs) / 2)"),
    ("outputs += [encoder(x.to(device)).detach()]",
     "return ConcatDataset([photos, TensorDataset(torch.cat(outputs))])"),
    ("outputs.append(torch.full_like(x.to(device), 2))", "return TensorDataset(torch.cat(outputs))"),
    ("outputs.append((encoder(x.to(device)), y))", "return outputs"),
    ("outputs.append((encoder(x.to(device)), y))", "return list(zip(outputs, outputs))"),
    ("x = x.to(device); pairs.push(encoder(x), y)", "return pairs"),
    ("x = x.to(device); pairs.push(x, y)", "return pairs"),
    ("pass", "x = torch.rand(9, 3, device=device); return TensorDataset(x, torch.zeros_like(x))"),
    ("pass", "x = torch.rand(9, 3).cuda()[:5]; return TensorDataset(x.view(-1, 1), x.sum(1))"),
])  # fmt: skip
def test_samples_that_were_made_on_the_device(collected: str, made: str) -> None:
    code = COMPUTED.replace("COLLECTED", collected).replace("MADE", made)
    result = run(code)
    assert PINNED not in result.after.decode()
    assert any("its samples may be in CUDA memory" in finding.reason for finding in result.refused)


@pytest.mark.parametrize(("collected", "made"), [
    ("outputs.append(encoder(x.to(device)).cpu())", "return TensorDataset(torch.cat(outputs))"),
    ("outputs.append(encoder(x.to(device)))", "z = torch.cat(outputs).cpu(); return TensorDataset(z, z)"),
    ("outputs.append(encoder(x.to(device)).tolist())", "return TensorDataset(torch.tensor(outputs))"),
    ("outputs.append(encoder(x.to(device)))", "return TensorDataset(torch.rand(len(outputs), 3))"),
    ("pairs.push(x, encoder(x.to(device)).to('cpu'))", "return pairs"),
    ("pass", "return TensorDataset(torch.rand(9, 3), torch.zeros(9))"),
])  # fmt: skip
def test_samples_that_were_brought_back_from_the_device(collected: str, made: str) -> None:
    code = COMPUTED.replace("COLLECTED", collected).replace("MADE", made)
    assert PINNED in run(code).after.decode()


def test_what_lies_on_the_device_holds_no_other_loader_back() -> None:
    collected = "x = x.to(device); outputs.append(encoder(x))"
    code = COMPUTED.replace("COLLECTED", collected).replace("MADE", "return TensorDataset(torch.cat(outputs))")
    code = code.replace("fit(encode(model))", "").replace(
        "def fit(samples):", "def fit():\n    samples = encode(model)"
    )
    assert "photos, batch_size=4, num_workers=2, pin_memory=True" in run(code).after.decode()


@pytest.mark.parametrize("move", ["buffer.to(device)", "buffer.cuda()"])
def test_samples_of_what_was_moved_to_the_device(move: str) -> None:
    head = "import torch\nfrom torch.utils.data import DataLoader, TensorDataset\n\n\ndef train(buffer, device):\n    "
    body = f"{move}\n    loader = DataLoader(TensorDataset(buffer.x, buffer.y), 4)\n    for x, y in loader:\n"
    code = f"{head}{body}        model(x.cuda()).mean().backward()\n"
    result = run(code)
    assert not result.applied
    assert "line 6 moves what its samples are taken from" in result.held_back[0].reason
    assert run(code.replace(move, "pass")).applied


@pytest.mark.parametrize(("more", "reason"), [
    ("def fit(batches, pin_memory=True):\n    return batches",
     "line 33 has a parameter pin_memory: this loader should follow it"),
    ('test_loader = DataLoader(tensors, pin_memory=device.type != "cpu")',
     'line 33 sets pin_memory by `device.type != "cpu"`: this loader should follow it'),
    ("net = Net(pin_memory=args.pin)", "line 33 sets pin_memory by `args.pin`: this loader should follow it"),
    ("test_loader = DataLoader(tensors, pin_memory=True)", ""),
    ("buffer = torch.empty(3, pin_memory=device.type != 'cpu')", ""),
])  # fmt: skip
def test_a_project_that_chooses_whether_it_pins(more: str, reason: str) -> None:
    code = written("x = batch[0].to(device)") + f"\n\n\n{more}\n"
    line = code[: code.index(more)].count("\n") + 1
    result = run(code)
    if not reason:
        assert result.applied
        return
    assert result.after.decode() == code
    (held,) = result.held_back
    assert held.safety is Safety.UNSAFE
    assert held.reason == reason.replace("line 33", f"line {line}")
    files = [Given("train.py", written("x = batch[0].to(device)").encode()), Given("fit.py", more.encode())]
    assert not any(each.applied for each in rewrite_together(files, [PageableTransfer()], Choice()))


@pytest.mark.parametrize("given", ["loader", "iter(loader)", "tqdm(loader)"])
def test_cycle_keeps_every_batch(given: str) -> None:
    code = written("x = batch[0].to(device)").replace("for batch in loader", f"for batch in cycle({given})")
    code = "from itertools import cycle\nfrom tqdm import tqdm\n" + code
    result = run(code)
    assert result.after.decode() == code
    assert result.held_back[0].safety is Safety.UNSAFE
    assert "itertools.cycle (line 22)" in result.held_back[0].reason
    assert run(code.replace("itertools", "helpers").replace("in cycle", "in iter")).applied


@pytest.mark.parametrize(("given", "is_refused"), [("", True), (", 0", False)])
def test_pinning_by_a_parameter_that_no_call_gives(given: str, is_refused: bool) -> None:
    code = (
        "import torch\nfrom torch.utils.data import DataLoader\nfrom data import device, model, photos\n\n"
        "def load(size, gpu=-1):\n    options = {'pin_memory': True} if gpu > -1 else {}\n"
        "    return DataLoader(photos, batch_size=size, num_workers=2, **options)\n\n"
        f"for x, y in load(4{given}):\n    model(x.to(device), y.to(device)).backward()\n"
    )
    result = run(code)
    assert bool(result.applied) is not is_refused
    assert any("gpu > -1 decides whether" in each.reason for each in result.refused) is is_refused


def test_a_mover_that_is_handed_a_tuple_copies_its_parts() -> None:
    code = written("x, y = helper((batch[0], batch[1]), device)")
    (finding,) = run(code).applied
    assert "return batch.to(where, non_blocking=True)" in run(code).after.decode(), finding


SUBCLASS = (
    "class Feed(DataLoader):\n    def __init__(self, size):\n        super().__init__(photos, size, num_workers=2)\n"
)


def test_a_subclass_of_a_loader_is_pinned_where_it_passes_its_arguments_on() -> None:
    code = written("x = batch[0].to(device)", loader="Feed(4)").replace("\n\ndevice", f"\n\n{SUBCLASS}\ndevice", 1)
    after = run(code).after.decode()
    assert "super().__init__(photos, size, num_workers=2, pin_memory=True)" in after
    again = run(code.replace("\n\n\nfor", "\nother = Feed(8)\n\n\nfor"))
    assert "Feed decides itself which arguments it passes on to DataLoader" in [each.reason for each in again.refused]


BATCHES = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Batch:
    def __init__(self, x):
        self.x = x

    PINS


class Photos(Dataset):
    def __len__(self):
        return 800

    def __getitem__(self, index):
        return torch.load(f"{index}.pt")

    @staticmethod
    def collate(items):
        return Batch(torch.stack(items))


def main():
    device, model = torch.device("cuda"), nn.Linear(1, 1).to("cuda")
    train = DataLoader(Photos(), batch_size=2, num_workers=2, collate_fn=Photos.collate)
    for batch in train:
        model(batch.x.to(device)).mean().backward()
    for batch in DataLoader(Photos(), batch_size=2, num_workers=2, collate_fn=lambda items: Batch(torch.stack(items))):
        model(batch.x.to(device))


main()
"""


def test_the_collate_function_of_a_class_is_asked_whether_its_batches_pin_themselves() -> None:
    pins = "def pin_memory(self):\n        return Batch(self.x.pin_memory())"
    assert len(run(BATCHES.replace("PINS", pins)).applied) == 2
    reasons = [each.reason for each in run(BATCHES.replace("PINS", "pass")).refused]
    assert reasons == ["its batches are Batch objects, which cannot be pinned: they have no pin_memory()"] * 2


KEEPING = """\
class History:
    def __init__(self):
        self.batches = []

    def keep(self, x):
        self.batches.append(x)
        for old in self.batches[-3:]:
            old *= 0.5


history = History()
"""


def test_a_batch_that_an_object_keeps_is_modified_there() -> None:
    code = written("x = batch[0].to(device)", "history.keep(batch[0])").replace(
        "def helper", KEEPING + "\n\ndef helper"
    )
    result = run(code)
    assert not result.applied
    assert any("modifies the batch on the CPU" in finding.reason for finding in result.refused)


def test_a_stream_that_others_wait_for() -> None:
    waits = "torch.cuda.current_stream().wait_stream(side)"
    body = ("with torch.cuda.stream(side):", "    x = batch[0].to(device)", waits)
    assert run(written(*body)).applied


def test_samples_that_require_gradients() -> None:
    collate = "def grads(items):\n    return torch.stack(items).requires_grad_()\n\n\nloader ="
    code = written("x = batch.to(device)", loader=LOADER.replace("4)", "4, collate_fn=grads)"))
    result = run(code.replace("loader =", collate, 1))
    assert not result.applied
    assert any("require gradients" in finding.reason for finding in result.refused)


RING = """\
import torch
from torch import nn
from torch.utils.data import DataLoader


class IntoBuffer:
    def __init__(self, size):
        self.buffer = torch.empty(size, 2, pin_memory=True)

    def __call__(self, items):
        for index, item in enumerate(items):
            self.buffer[index] = item
        return self.buffer[: len(items)]


def main(photos):
    device, model = torch.device("cuda"), nn.Linear(2, 1).to("cuda")
    for x in DataLoader(photos, batch_size=4, num_workers=WORKERS, collate_fn=IntoBuffer(4), pin_memory=True):
        model(x.to(device)).mean().backward()
"""


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_pinned_buffer_that_the_next_batch_fills_again(workers: str) -> None:
    code = RING.replace("WORKERS", workers)
    result = run(code)
    assert result.after.decode() == code
    assert "keeps the batch it returns" in result.refused[0].reason
