"""Scripts that leave DataParallel train on two processes as they did in one, and what keeps others as they are."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import forked_python
import pytest

from perfmod.codemods import catalog
from perfmod.codemods.engine import rewrite
from perfmod.codemods.results import Choice, FileResult

HEAD = """\
import os
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
{extra}
torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
"""
FLAT = (
    HEAD
    + """\
samples = TensorDataset(torch.randn(48, 6), torch.randint(3, (48,)))
loader = {loader}
model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 3)).to(device)
model = {parallel}
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
{before}
for epoch in range(2):
    for step, (x, y) in enumerate({batches}):
        x, y = x.to(device), y.to(device)
        out = {out}
        loss = {loss}
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {late}
    {report}
for value in model.parameters():
    print(*value.detach().double().flatten().tolist())
"""
)
USUAL = {
    "extra": "",
    "loader": "DataLoader(samples, batch_size=8)",
    "parallel": "nn.DataParallel(model)",
    "before": "pass",
    "batches": "loader",
    "out": "model(x.view(x.size(0), -1))",
    "loss": "F.cross_entropy(out, y)",
    "late": "print(step, loss.item())",
    "report": "print(epoch)",
}
IN_FUNCTIONS = (
    HEAD
    + """\

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 8)
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        return self.head(torch.tanh(self.body(x)))


def train(model, loader, criterion, optimizer):
    model.train()
    total = 0.0
    for x, y in loader:
        loss = 0.5 * criterion(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(loader)


def evaluate(model, loader):
    model.eval()
    worst = 0.0
    with torch.no_grad():
        for x, y in loader:
            worst = max(worst, (model(x.to(device)) - y.to(device)).abs().max().item())
    return worst


def main():
    samples = TensorDataset(torch.randn(22, 4), torch.randn(22, 2))
    others = TensorDataset(torch.randn(7, 4), torch.randn(7, 2))
    loader = DataLoader(samples, batch_size=4, shuffle=False, drop_last=True)
    held_out = DataLoader(others, batch_size=3)
    model = Net()
    if torch.cuda.device_count() > 1:
        model = nn.DataParallel(model)
    model.to(device)
    criterion = nn.MSELoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for epoch in range(3):
        mean = train(model, loader, criterion, optimizer)
        worst = evaluate(model, held_out)
        print(epoch, mean, worst)
    for value in model.parameters():
        print(*value.detach().double().flatten().tolist())


if __name__ == "__main__":
    main()
"""
)
COUNTED = FLAT.format(
    **{
        **USUAL,
        "before": "hits = seen = 0; total = 0.0",
        "late": """_, best = torch.max(out.data, 1)
        hits += (best == y).sum().item()
        seen += y.size(0)
        total += loss.item() * len(x)
        accuracy = best.eq(y).float().mean().item()
        print(seen, hits, total, accuracy, step * len(x))""",
    }
)
SHUFFLED = FLAT.format(
    **{
        **USUAL,
        "loader": "DataLoader(samples, batch_size=8, shuffle=True, drop_last=True)",
        "late": "print(step, loss.item(), len(loader), len(loader.dataset))",
        "report": "torch.save(model.state_dict(), 'model.pt'); print(os.path.exists('model.pt'))",
    }
).replace("; print(os.path", "\n    print(os.path")
IN_THE_ORDER_OF_THE_SAMPLER = SHUFFLED.replace(
    "shuffle=True, drop_last=True",
    "sampler=torch.utils.data.DistributedSampler(samples, 1, 0)",
).replace("    for step", "    loader.sampler.set_epoch(epoch)\n    for step")


def rewritten(code: str, *, unsafe: bool = False) -> FileResult:
    """What becomes of a script."""
    rules = [rule for rule in catalog.rules() if rule.code == "PM311"]
    return rewrite(code.encode(), "train.py", rules, Choice(opted_in=frozenset({"PM311"}), unsafe=unsafe))


def printed(code: str, folder: Path, processes: int = 0, *, launcher: bool = False) -> str:
    """What a script prints, run by itself or by some processes, which `torchrun` starts with `launcher`."""
    script = folder / "train.py"
    script.write_text(code, encoding="utf-8")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    for _ in range(4):
        alike = [([forked_python.python()], rank) for rank in _ranks(processes)]
        calls: list[tuple[list[str], dict[str, str]]] = [(torchrun, {})] if launcher else alike
        with contextlib.ExitStack() as running:
            started = [
                running.enter_context(
                    subprocess.Popen(
                        [*command, str(script)],
                        cwd=folder,
                        env={**os.environ, **forked_python.THREADS, "PYTHONWARNINGS": "ignore", **rank},
                        stdout=subprocess.PIPE,
                        stderr=subprocess.PIPE,
                        text=True,
                    )
                )
                for command, rank in calls
            ]
            ends = _ends(started)
        errors = "".join(error for _, error in ends)
        # Any script that trains through gloo may abort or hang when its interpreter ends (torch 2.13: one run in ten).
        if ends and "terminate called without an active exception" not in errors:
            break
    assert not any(process.returncode for process in started), errors
    return "".join(out for out, _ in ends)


def _ends(processes: Sequence[subprocess.Popen[str]]) -> list[tuple[str, str]]:
    """What processes print, and their errors; nothing where one of them hangs, and all are killed."""
    try:
        return [process.communicate(timeout=45) for process in processes]
    except subprocess.TimeoutExpired:
        for process in processes:
            process.kill()
        return []


def _ranks(processes: int) -> list[dict[str, str]]:
    """What `torchrun` tells each of its processes; nothing where there is one that trains alone."""
    if not processes:
        return [{}]
    with socket.create_server(("localhost", 0)) as server:
        meeting = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(server.getsockname()[1])}
    together = {**meeting, "WORLD_SIZE": str(processes), "LOCAL_WORLD_SIZE": str(processes)}
    return [{**together, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(processes)]


def numbers(text: str) -> list[float]:
    return [float(word) for word in re.findall(r"-?\d+(?:\.\d+)?(?:e-?\d+)?", text)]


@pytest.mark.parametrize(
    ("code", "original", "launcher"),
    [
        (FLAT.format(**USUAL), FLAT.format(**USUAL), True),
        (IN_FUNCTIONS.format(extra=""), IN_FUNCTIONS.format(extra=""), False),
        (COUNTED, COUNTED, False),
        (SHUFFLED, IN_THE_ORDER_OF_THE_SAMPLER, False),
    ],
    ids=["top level", "functions", "counted", "shuffled"],
)
def test_two_processes_train_as_one(code: str, original: str, launcher: bool, tmp_path: Path) -> None:
    """Started by `torchrun`, or as it starts them by a Python that has imported torch."""
    result = rewritten(code)
    assert result.after != result.before, [finding.reason for finding in result.refused]
    expected = numbers(printed(original, tmp_path))
    found = numbers(printed(result.after.decode(), tmp_path, 2, launcher=launcher))
    assert len(expected) > 20
    assert found == pytest.approx(expected, rel=2e-4, abs=2e-6)


def test_a_batch_that_cannot_be_split_is_an_error(tmp_path: Path) -> None:
    code = rewritten(FLAT.format(**{**USUAL, "loader": "DataLoader(samples, batch_size=7)"})).after.decode()
    with pytest.raises(AssertionError, match="the batch size 7 has to be a multiple"):
        printed(code, tmp_path, 2)


@pytest.mark.parametrize(("parts", "reason"), [
    ({"loss": "F.cross_entropy(out, y, reduction='sum')"}, "not seen to be a mean"),
    ({"loss": "F.cross_entropy(out, y, weight=None)"}, "not seen to be a mean"),
    ({"loss": "nn.CrossEntropyLoss(ignore_index=0)(out, y)"}, "not seen to be a mean"),
    ({"loss": "out[y == 1].mean()"}, "not seen to be a mean"),
    ({"loss": "(out @ out.T).mean()"}, "not seen to be a mean"),
    ({"loss": "F.cross_entropy(out, y) / len(x)"}, "not seen to be a mean"),
    ({"late": "print(out.argmax(1))"}, "own part"),
    ({"late": "print(len(x), x)"}, "own part"),
    ({"late": "n = len(x)"}, "own part"),
    ({"late": "n = (out.argmax(0) == y).sum()"}, "own part"),
    ({"late": "if step: step += len(x)"}, "own part"),
    ({"late": "hits = (out.argmax(1) == y).sum().item() / len(x)"}, "own part"),
    ({"report": "print(out.shape)"}, "own part"),
    ({"report": "print(loader.batch_size)"}, "loader.batch_size"),
    ({"report": "print(next(iter(loader)))"}, "own share"),
    ({"report": "logging.info('done')", "extra": "import logging"}, "each process would run `logging.info`"),
    ({"report": "open('log', 'w').write('done')"}, "each process would run"),
    ({"report": "torch.save(model, 'model.pt')"}, "whole model"),
    ({"report": "a = print(epoch)"}, "line of its own"),
    ({"report": "print(model(x))"}, "own part"),
    ({"before": "print(torch.load('model.pt')) or torch.cuda.set_device(0)"}, "device of one process"),
    ({"loader": "DataLoader(samples, 8, True)"}, "without its name"),
    ({"loader": "DataLoader(samples)"}, "no batch size"),
    ({"loader": "DataLoader(samples, batch_size=4 * 2)"}, "computed in the call"),
    ({"loader": "DataLoader(TensorDataset(torch.ones(8, 6)), batch_size=4)"}, "no name of its own"),
    ({"parallel": "nn.DataParallel(model, device_ids=[0, 1])"}, "which devices"),
    ({"parallel": "nn.DataParallel(nn.DataParallel(model))"}, "several models"),
    ({"before": "from helpers import schedule"}, "`helpers`"),
    ({"before": "data = download(root='data', download=True)"}, "download"),
    ({"before": "import numpy as np; print(np.random.rand())"}, "numpy.random.seed"),
    ({"late": "if time.time() > 3: print(1)", "extra": "import time"}, "decide differently"),
    ({"late": "if step: print(1)"}, "line of its own"),
    ({"out": "model.module(x)"}, "passes by the wrapper"),
    ({"before": "local_rank = 3"}, "local_rank"),
    ({"report": "torch.save(model.state_dict(), 'a')\nmodel.load_state_dict(torch.load('a'))"}, "before that is"),
    ({"before": "os.environ['CUDA_VISIBLE_DEVICES'] = '0,1'"}, "CUDA_VISIBLE_DEVICES"),
    ({"before": "schedule = torch.device('cuda:1')"}, "one process only"),
    ({"before": "device_name = f'cuda:{0}'"}, "one process only"),
    ({"before": "scale = torch.ones(1).to(0)"}, "one process only"),
    ({"before": "scale = torch.ones(1, device=0)"}, "one process only"),
    ({"before": "gpu = torch.device(0)"}, "one process only"),
    ({"before": "head = nn.Linear(3, 3)", "out": "head(model(x))"}, "not under the wrapper"),
    ({"before": "import copy; teacher = copy.deepcopy(model)", "out": "teacher(x)"}, "not under the wrapper"),
    ({"before": "w = nn.Parameter(torch.ones(1))", "loss": "F.cross_entropy(out, y) * w"}, "trained beside"),
    ({"before": "w = torch.ones(1, requires_grad=True)", "loss": "F.cross_entropy(out, y) * w"}, "trained beside"),
    ({"parallel": "nn.Sequential(nn.DataParallel(model), nn.Linear(3, 3))"}, "only a part of the model"),
    ({"report": "model.requires_grad_(epoch > 0)"}, "changes behind the wrapper"),
    ({"report": "for p in model.parameters(): p.requires_grad = epoch > 0"}, "changes behind the wrapper"),
    ({"report": "plain = type(model) is not nn.DataParallel"}, "no longer be the class"),
    ({"before": "labels = [0, -100]"}, "not seen to be a mean"),
    ({"before": "os.system('rm old.pt')"}, "each process would run"),
    ({"before": "name = input('name')"}, "each process would run"),
    ({"before": "from pathlib import Path; Path('a').rename('b')"}, "each process would run"),
    ({"before": "from pathlib import Path; Path('a').replace('b')"}, "each process would run"),
    ({"before": "from pathlib import Path; log = Path('a').open('w')"}, "each process would run"),
    ({"report": "print(words.pop())"}, "only one process reports"),
    ({"report": "print(torch.rand(1))"}, "only one process reports"),
    ({"report": "if loss.item() < 1: sys.exit()", "extra": "import sys"}, "wait for ever"),
    ({"late": "spent = time.time() - 3; slow = spent > 60\n        if slow: lr = 1", "extra": "import time"},
     "decide differently"),
    ({"before": "sched = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)", "report": "sched.step(1.0)"},
     "its last digits"),
    ({"before": "names = list(set(words))"}, "another order"),
    ({"before": "words = {'a', 'b'}; index = {word: i for i, word in enumerate(words)}"}, "another order"),
    ({"before": "import numpy as np; numbers = np.random.default_rng()"}, "give the generator a seed"),
    ({"before": "from torch.utils.tensorboard import SummaryWriter\nwriter = SummaryWriter()\nwriter.add_graph(model)"},
     "wait for the others"),
    ({"before": "from torch.utils.tensorboard import SummaryWriter\nwriter = SummaryWriter()\nfolder = writer.log_dir"},
     "only one process has"),
    ({"before": "model.register_forward_hook(print)"}, "hook"),
    ({"before": "for p in model.parameters(): p.register_hook(lambda g: g.clamp(-1, 1))"}, "hook"),
    ({"report": "torch.optim.swa_utils.update_bn(loader, model)"}, "each process would run"),
    ({"before": "torch.seed()"}, "another number in each process"),
    ({"before": "torch.manual_seed(int(time.time()))", "extra": "import time"}, "another number in each process"),
    ({"before": "first = os.getpid()\ntorch.manual_seed(first + 1)"}, "another number in each process"),
    ({"before": "number = hash('cat')"}, "another number in each process"),
    ({"before": "import random\nif len(samples) > 3: random.seed(0)\nfirst = random.random()"}, "random.seed"),
    ({"late": "if loss.item() < 1: optimizer.param_groups[0]['lr'] = 0.1"}, "its last digits"),
    ({"report": "low = evaluate()\n    if low < 1:\n        continue"}, "wait for ever"),
    ({"before": "import torch.distributed as dist; dist.init_process_group('gloo')"}, "there already"),
])  # fmt: skip
def test_what_keeps_a_script(parts: dict[str, str], reason: str) -> None:
    result = rewritten(FLAT.format(**{**USUAL, **parts}))
    assert result.after == result.before, result.after.decode()
    assert reason in result.refused[0].reason, result.refused[0].reason


@pytest.mark.parametrize(("out", "is_kept"), [("model(x)", False), ("inner(x)", True)])
def test_a_model_with_another_name_below_its_wrapper_is_not_called(out: str, is_kept: bool) -> None:
    code = FLAT.format(**{**USUAL, "parallel": "nn.DataParallel(inner)", "out": out})
    code = code.replace("model = nn.Sequential", "inner = nn.Sequential").replace(
        "model.to(device)", "inner.to(device)"
    )
    result = rewritten(code)
    assert bool(result.refused) is is_kept, result.refused
    assert not is_kept or "passes by the wrapper" in result.refused[0].reason


KEEPS = """\
class Net(nn.Linear):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        {first}

    def forward(self, x):
        out = super().forward(x)
        {line}
        return out

"""


@pytest.mark.parametrize(("first", "line", "is_kept"), [
    ("pass", "self.last = out", False),
    ("self.last = None", "self.last = out.detach()", True),
    ("self.register_buffer('last', torch.zeros(1))", "self.last = out.detach().mean()", True),
    ("self.rounds = 0", "self.rounds += 1", True),
])  # fmt: skip
def test_a_model_that_goes_on_with_what_a_round_left_in_it_stays(first: str, line: str, is_kept: bool) -> None:
    code = FLAT.format(**USUAL).replace("device =", KEEPS.format(first=first, line=line) + "device =")
    result = rewritten(re.sub(r"nn\.Sequential\(.*\)\.to", "Net(6, 3).to", code))
    assert bool(result.refused) is is_kept, result.refused
    assert not is_kept or "kept for the next round" in result.refused[0].reason


@pytest.mark.parametrize("parts", [
    {"late": "n = (out.argmax(1, keepdim=True) == y).sum().item()"},
    {"before": "narrow = nn.Linear(6, 1)", "loss": "F.mse_loss(out, y)"},
    {"before": "narrow = nn.Linear(6, 1)", "loss": "nn.SmoothL1Loss()(out, y)"},
    {"before": "narrow = nn.Linear(6, 1)", "loss": "((out - y) ** 2).mean()"},
])  # fmt: skip
def test_whether_columns_meet_rows_of_samples_is_a_question(parts: dict[str, str]) -> None:
    code = FLAT.format(**{**USUAL, **parts})
    assert [each.predicate for each in rewritten(code).held_back[0].questions] == ["compares-like-shapes"]
    assert rewritten(code, unsafe=True).applied


COLLECTS = """\
SEEN = {{}}


class Net(nn.Linear):
    def forward(self, x):
        out = super().forward(x)
        kept = {{}}
        {line}
        return out

"""


@pytest.mark.parametrize(("line", "is_kept"), [
    ("kept['sum'] = 3; kept.update(a=3)", False),
    ("SEEN['sum'] = out.sum()", True),
    ("SEEN.update(sum=out.sum())", True),
])  # fmt: skip
def test_a_model_that_collects_figures_in_names_of_the_script_stays(line: str, is_kept: bool) -> None:
    code = FLAT.format(**USUAL).replace("device =", COLLECTS.format(line=line) + "device =")
    result = rewritten(re.sub(r"nn\.Sequential\(.*\)\.to", "Net(6, 3).to", code))
    assert bool(result.refused) is is_kept, result.refused
    assert not is_kept or "collect" in result.refused[0].reason


UNSEEDED = """\
class Part(torch.utils.data.Dataset):
    def __init__(self):
        self.rows = {drawn}

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return self.rows[index] + torch.rand(6), index % 3

"""


@pytest.mark.parametrize(("drawn", "is_kept"), [
    ("torch.ones(8, 6)", False),
    ("torch.randn(8, 6)", True),
    ("torch.empty(8, 6).normal_()", True),
    ("np.random.permutation(8)", True),
])  # fmt: skip
def test_samples_that_are_drawn_when_a_dataset_is_made_need_a_seed(drawn: str, is_kept: bool) -> None:
    code = FLAT.format(**{**USUAL, "extra": "import numpy as np"}).replace("torch.manual_seed(0)\n", "")
    code = re.sub(r"samples = .*", "samples = Part()", code).replace(
        "device =", UNSEEDED.format(drawn=drawn) + "device ="
    )
    result = rewritten(code)
    assert bool(result.refused) is is_kept
    assert not is_kept or "draw its own numbers" in result.refused[0].reason


def test_a_script_that_asks_for_the_wrapper_keeps_the_names_of_its_checkpoints() -> None:
    """Without `module.` in front, as it saved them."""
    asked = "if isinstance(model, nn.DataParallel):\n        torch.save(model.module.state_dict(), 'model.pt')"
    after = rewritten(FLAT.format(**{**USUAL, "report": asked})).after.decode()
    assert "if isinstance(model, nn.parallel.DistributedDataParallel):" in after


def test_arguments_that_are_parsed_behind_the_loader_do_not_delay_the_start() -> None:
    parsed = "args = argparse.ArgumentParser().parse_args()"
    after = rewritten(FLAT.format(**{**USUAL, "extra": "import argparse", "before": parsed})).after.decode()
    assert 0 < after.index("dist.init_process_group") < after.index("dist.get_world_size()") < after.index(parsed)


def test_old_files_are_removed_and_renamed_by_the_first_process() -> None:
    report = "torch.save(model.state_dict(), 'a.tmp')\n    os.replace('a.tmp', 'a.pt')"
    after = rewritten(FLAT.format(**{**USUAL, "report": report})).after.decode()
    assert re.search(r"if dist.get_rank\(\) == 0:\n +torch.save.*\n +os.replace", after)


@pytest.mark.parametrize("order", ["", ", shuffle=False", ", shuffle=first"])
def test_batch_normalisation_of_samples_in_order_is_a_question(order: str) -> None:
    code = FLAT.format(**{**USUAL, "loader": f"DataLoader(samples, batch_size=8{order})", "extra": "first = True"})
    code = code.replace("nn.ReLU()", "nn.BatchNorm1d(12)")
    assert rewritten(code).after == code.encode()
    assert rewritten(code, unsafe=True).after != code.encode()


SPLIT = """\
import torch
import torch.nn as nn


class DataParallel(nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, x):
        first = self.module(x[0::2])
        copies = {name: buffer.clone() for name, buffer in self.module.named_buffers()}
        second = torch.func.functional_call(self.module, copies, (x[1::2],))
        return torch.stack([first, second], dim=1).flatten(0, 1)
"""
"""On the CPU, what DataParallel does on two devices with the samples that a sampler gives to two processes."""


def test_batch_normalisation_of_shuffled_samples_is_that_of_dataparallel(tmp_path: Path) -> None:
    (tmp_path / "split.py").write_text(SPLIT, encoding="utf-8")
    layers = "nn.Linear(6, 12), nn.BatchNorm1d(12), nn.ReLU()"
    shuffled, original = (
        code.replace("nn.Linear(6, 12), nn.ReLU()", layers).replace("parameters():", "state_dict().values():")
        for code in (SHUFFLED, IN_THE_ORDER_OF_THE_SAMPLER)
    )
    expected = numbers(printed(original.replace("nn.DataParallel", "__import__('split').DataParallel"), tmp_path))
    whole = numbers(printed(original, tmp_path))
    result = rewritten(shuffled)
    assert result.applied, [finding.reason for finding in result.refused]
    found = numbers(printed(result.after.decode(), tmp_path, 2))
    assert found == pytest.approx(expected, rel=2e-4, abs=2e-6)
    assert found != pytest.approx(whole, rel=2e-4, abs=2e-6)


def test_a_model_that_is_parallel_on_cuda_is_so_in_several_processes(tmp_path: Path) -> None:
    body = "    model = nn.DataParallel(model)\n    torch.backends.cudnn.benchmark = True"
    wrapped = f"model.to(device)\nif device.type == 'cuda':\n{body}"
    result = rewritten(FLAT.format(**{**USUAL, "parallel": wrapped}))
    assert result.applied, result.refused[0].reason
    assert b"if device.type == 'cuda' or dist.get_world_size() > 1:\n" in result.after
    expected = numbers(printed(result.before.decode(), tmp_path))
    assert numbers(printed(result.after.decode(), tmp_path, 2)) == pytest.approx(expected, rel=2e-4, abs=2e-6)
    other = wrapped.replace("torch.backends.cudnn.benchmark = True", "torch.manual_seed(3)")
    assert rewritten(FLAT.format(**{**USUAL, "parallel": other})).refused


def test_progress_bars_and_event_files_are_the_first_process_own() -> None:
    after = rewritten(FLAT.format(**{
        **USUAL,
        "extra": "from torch.utils.tensorboard import SummaryWriter\nfrom tqdm import tqdm",
        "before": "writer = SummaryWriter('runs')",
        "batches": "tqdm(loader)",
        "late": "writer.add_scalar('loss', loss.item(), step)",
        "report": "writer.flush()",
    })).after.decode()  # fmt: skip
    assert "tqdm(loader, disable=dist.get_rank() != 0)" in after
    assert "writer = SummaryWriter('runs') if dist.get_rank() == 0 else None" in after
    assert re.search(
        r"loss = sum_of_processes\(loss\) / .*\n.*\n +if dist.get_rank\(\) == 0:\n +writer.add_scalar", after
    )
    assert re.search(r"if dist.get_rank\(\) == 0:\n +writer.flush", after)
