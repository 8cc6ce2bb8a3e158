"""Code of other frameworks looks like PyTorch's, and stays as it is."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

import pytest

from perfmod.codemods import catalog
from perfmod.codemods.engine import rewrite_together
from perfmod.codemods.results import Choice, FileResult, Given, Outcome
from perfmod.transforms.facts.frameworks import trains_with_torch
from tests.support.snippets import dotted_names, linked

ALL = Choice(unsafe=True, opted_in=frozenset(rule.code for rule in catalog.rules()))


def trained(**files: str) -> list[str]:
    """The files that train with PyTorch, by the names of their modules."""
    world = linked({f"{name}.py": code for name, code in files.items()})
    return [path.removesuffix(".py") for path, file in world.items() if trains_with_torch(file)]


def results(files: Mapping[str, str]) -> dict[str, FileResult]:
    """What all rules make of files that are read together, with all that is held back."""
    given = [Given(path, textwrap.dedent(code).encode(), dotted_names(path)) for path, code in files.items()]
    return {result.path: result for result in rewrite_together(given, catalog.rules(), ALL)}


def assert_silent(files: Mapping[str, str]) -> None:
    """Nothing is rewritten, and nothing is said about it."""
    for result in results(files).values():
        assert result.outcome is Outcome.UNCHANGED, result.after.decode()
        assert not [*result.applied, *result.held_back, *result.refused]


@pytest.mark.parametrize("code", [
    "import torch",
    "import torch.nn as nn",
    "from torch import nn",
    "from torchvision import models",
    "import pytorch_lightning as pl",
    "from transformers import Trainer",
    "def main():\n    import torch",
    "try:\n    import torch\nexcept ImportError:\n    torch = None",
    "import torch\nimport jax",
    "import tensorflow as tf\nfrom torch.utils.tensorboard import SummaryWriter",
    "x.backward()",
    "from . import engine",
    "import torch\n\n\nclass Sign(torch.autograd.Function):\n    def backward(ctx, grad):\n        return grad",
])  # fmt: skip
def test_a_file_that_trains_with_torch(code: str) -> None:
    assert trained(train=code) == ["train"]


@pytest.mark.parametrize("code", [
    "import numpy as np",
    "import os, torchx",
    "import torch_free",
    "from engine import run",
    "import paddle",
    "import paddle.nn as nn\nimport numpy",
    "import tensorflow as tf",
    "from tensorflow.keras import layers",
    "import jax.numpy as jnp",
    "import mindspore as ms",
    "import cupy as cp",
    "from flax import linen as nn",
    "class Value:\n    def backward(self):\n        self.grad = 1",
])  # fmt: skip
def test_a_file_that_does_not(code: str) -> None:
    assert trained(train=code) == []


def test_files_that_are_linked_with_one_that_does() -> None:
    """What it imports, over several; others that import the same, and files besides, are none of them."""
    found = trained(
        train="import torch\nfrom engine import run",
        engine="import numpy\nimport losses",
        losses="import math",
        evaluate="import sys\nimport engine",
        plots="import matplotlib",
    )
    assert found == ["train", "engine", "losses"]


def test_imports_by_way_of_another_file() -> None:
    assert trained(common="import torch", train="import sys\nfrom common import *") == ["common", "train"]
    assert trained(common="x = 1", train="import common") == ["common", "train"]


def test_projects_with_several_frameworks() -> None:
    """What a script of another framework imports is not PyTorch's alone, unless it says so itself."""
    found = trained(
        train_torch="import torch\nimport utils, data, models",
        train_paddle="import paddle\nimport utils, models",
        utils="import meters",
        meters="import math",
        data="import numpy",
        models="import torch\nimport layers",
        layers="import math",
    )
    assert found == ["train_torch", "data", "models", "layers"]


def test_what_uses_another_framework_by_way_of_a_file() -> None:
    """Also with data sets of torchvision; what imports PyTorch itself compares them, or only logs by TensorFlow."""
    ems = "import mindspore"
    assert trained(ems=ems, engine="import torch", train="import ems, engine") == ["engine"]
    assert trained(ems=ems, train="import ems\nfrom torchvision import datasets") == []
    assert trained(ems=ems, train="import ems, torch") == ["train"]
    assert trained(train="from torchvision import datasets") == ["train"]


METER = """
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
PADDLE = """
# Ported from torch.
import paddle
from paddle.io import DataLoader
from utils import AverageMeter


def train(model, dataset, optimizer, criterion, device):
    losses = AverageMeter()
    total = 0
    model.train()
    for images, labels in DataLoader(dataset, batch_size=32):
        images, labels = images.cuda(), labels.cuda()
        loss = criterion(model(images), labels)
        optimizer.clear_grad()
        loss.backward()
        optimizer.step()
        losses.update(loss.numpy().item(), images.shape[0])
        total += loss.item()
        print(loss.item())
    return losses.avg, total
"""
TORCH = (
    PADDLE.replace("# Ported from torch.\nimport paddle\n", "import torch\n")
    .replace("paddle.io", "torch.utils.data")
    .replace("clear_grad", "zero_grad")
    .replace("loss.numpy().item()", "loss.item()")
)


def test_paddle() -> None:
    """Neither the script nor the meter that it shares with nobody; of PyTorch the same is rewritten."""
    assert_silent({"train.py": PADDLE, "utils.py": METER})
    assert results({"train.py": TORCH, "utils.py": METER})["train.py"].outcome is Outcome.CHANGED


def test_a_meter_that_two_frameworks_share() -> None:
    """The script of PyTorch is rewritten as far as the file of both can stay."""
    made = results({"train_paddle.py": PADDLE, "train_torch.py": TORCH, "utils.py": METER})
    assert made["train_paddle.py"].outcome is Outcome.UNCHANGED
    assert made["utils.py"].outcome is Outcome.UNCHANGED, made["utils.py"].after.decode()
    assert made["train_torch.py"].outcome is Outcome.CHANGED


TENSORFLOW = """
import tensorflow as tf  # as in torch


def train(model, dataset, optimizer, loss_fn):
    total = 0.0
    for x, y in dataset:
        with tf.GradientTape() as tape:
            loss = loss_fn(y, model(x))
        optimizer.apply_gradients(zip(tape.gradient(loss, model.weights), model.weights))
        total += loss.numpy().item()
        print(f"loss {loss.numpy():.4f}")
    return total
"""
JAX = """
import jax
import jax.numpy as jnp
import optax  # torch.optim


def train(params, state, loader, optimizer, loss_fn):
    total = 0.0
    for x, y in loader:
        loss, grads = jax.value_and_grad(loss_fn)(params, jnp.asarray(x), jnp.asarray(y))
        updates, state = optimizer.update(grads, state)
        params = optax.apply_updates(params, updates)
        total += loss.item()
    return total
"""
MINDSPORE = """
import mindspore as ms  # not torch
from mindspore import nn


def train(net, dataset, optimizer, loss_fn):
    grad = ms.value_and_grad(lambda x, y: loss_fn(net(x), y), None, optimizer.parameters)
    total = 0.0
    for x, y in dataset.create_tuple_iterator():
        loss, grads = grad(x, y)
        optimizer(grads)
        total += loss.asnumpy().item()
        print(loss.item())
    return total
"""
CUPY = """
import cupy as cp  # instead of torch


def train(model, batches):
    total = 0.0
    for x, y in batches:
        x, y = cp.asarray(x), cp.asarray(y)
        loss = model.loss(x, y)
        loss.backward()
        total += loss.item()
        index = cp.unique(y)
        print(len(index), float(loss))
    return total
"""
MICROGRAD = """
import random  # the API is torch's


class Value:
    def __init__(self, data, _children=()):
        self.data = data
        self.grad = 0
        self._backward = lambda: None
        self._prev = set(_children)

    def item(self):
        return self.data

    def backward(self):
        self.grad = 1
        for v in reversed(list(self._prev)):
            v._backward()


def train(model, data, optimizer):
    total = 0.0
    for x, y in data:
        loss = model(x) - Value(y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
        print(loss.item(), random.random())
    return total
"""


@pytest.mark.parametrize("code", [TENSORFLOW, JAX, MINDSPORE, CUPY, MICROGRAD])
def test_training_loops_of_others(code: str) -> None:
    assert_silent({"train.py": code})


def test_an_engine_of_ones_own_that_is_compared_with_torch() -> None:
    """Its file is linked with PyTorch by the test alone, and holds nothing that is known to be a tensor."""
    test = """
    import torch
    from engine import Value, train


    def test_backward():
        x = torch.Tensor([-4.0])
        x.requires_grad = True
        y = x * x
        y.backward()
        z = Value(-4.0)
        z.backward()
        assert z.item() == y.data.item()
    """
    made = results({"engine.py": MICROGRAD, "test_engine.py": test})
    assert {result.outcome for result in made.values()} == {Outcome.UNCHANGED}
