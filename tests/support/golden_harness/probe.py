"""Runs a golden's `probe` once and writes down everything that could differ after a rewrite."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import random
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from golden_harness.make import Make

Leaf = Tensor | np.ndarray[Any, Any] | float | int | bool | str | bytes | None
Outcome = dict[str, Leaf]
"""What one run did: observations by name (`returned[0]`, `argument[1] gradient`, `printed`, `raised`)."""


def load(code: bytes, name: str, folder: Path, seed: int = 0) -> tuple[ModuleType, str]:
    """Import `code` as a module of its own and return it with what it printed.

    It is written into `folder`, which must be on `sys.path`: worker processes find its classes by name.
    """
    path = folder / f"{name}.py"
    path.write_bytes(code)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    with _observed(seed) as printed:
        spec.loader.exec_module(module)
    return module, printed.getvalue()


def arguments(module: ModuleType, make: Make) -> list[tuple[Any, ...]]:
    """The argument tuples of one trial: what the golden's `cases` yields, or one call without arguments."""
    cases: Callable[[Make], Iterable[tuple[Any, ...]]] | None = getattr(module, "cases", None)
    return list(cases(make)) if cases else [()]


def run(probe: Callable[..., Any], args: Sequence[Any], seed: int) -> Outcome:
    """Call `probe`, differentiate what it returned, and note all that `Outcome` names."""
    observed: Outcome = {}
    returned: dict[str, object] = {}
    with _observed(seed) as printed:
        try:
            returned = dict(_leaves(probe(*args), "returned"))
            _differentiate(returned.values())
        except Exception as error:  # noqa: BLE001 - whatever it raises must be raised after the rewrite too
            observed["raised"] = type(error).__name__
    given: dict[str, object] = {}
    for index, arg in enumerate(args):
        given.update(_leaves(arg, f"argument[{index}]"))
    for name, leaf in {**returned, **given}.items():
        observed[name] = _snapshot(leaf)
        if isinstance(leaf, Tensor):
            observed[f"{name} requires_grad"] = leaf.requires_grad
            if leaf.is_leaf and leaf.grad is not None:
                observed[f"{name} gradient"] = _snapshot(leaf.grad)
    observed.update(_aliases(returned, given))
    observed["printed"] = printed.getvalue()
    return observed


@contextlib.contextmanager
def _observed(seed: int) -> Iterator[io.StringIO]:
    """Fixed random streams, captured prints, warnings as quiet as in a script that nobody watches."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    with contextlib.redirect_stdout(io.StringIO()) as printed, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield printed


def _leaves(value: object, name: str) -> Iterator[tuple[str, object]]:
    """The tensors, numbers and strings inside a value, each with the place where it stands."""
    if isinstance(value, nn.Module):
        for key, tensor in (*value.named_parameters(), *value.named_buffers()):
            yield f"{name}.{key}", tensor
    elif isinstance(value, Mapping):
        yield f"{name} keys", repr(list(value))
        for key, item in value.items():
            yield from _leaves(item, f"{name}[{key!r}]")
    elif isinstance(value, (list, tuple)):
        yield f"{name} type", f"{type(value).__name__} of {len(value)}"
        for index, item in enumerate(value):
            yield from _leaves(item, f"{name}[{index}]")
    elif isinstance(value, (Tensor, np.ndarray, float, int, str, bytes)) or value is None:
        yield name, value
    else:
        yield f"{name} type", type(value).__name__
        for key, item in getattr(value, "__dict__", {}).items():
            yield from _leaves(item, f"{name}.{key}")


def _snapshot(leaf: object) -> Leaf:
    if isinstance(leaf, Tensor):
        return leaf.detach().clone().cpu()
    if isinstance(leaf, np.ndarray):
        return leaf.copy()
    return cast("Leaf", leaf)


def _differentiate(returned: Iterable[object]) -> None:
    """Back-propagate a fixed random vector from every returned tensor that has a graph."""
    outputs = [leaf for leaf in returned if isinstance(leaf, Tensor) and leaf.grad_fn is not None]
    generator = torch.Generator().manual_seed(len(outputs))
    vectors = [torch.randn(output.shape, generator=generator).to(output) for output in outputs]
    if outputs:
        torch.autograd.backward(outputs, vectors)


def _aliases(returned: Mapping[str, object], given: Mapping[str, object]) -> Outcome:
    """Which returned tensors share their memory with which arguments."""

    def memory(leaf: object) -> int:
        return leaf.untyped_storage().data_ptr() if isinstance(leaf, Tensor) else 0

    return {
        f"{name} shares memory with": " ".join(
            other for other, argument in given.items() if memory(leaf) and memory(argument) == memory(leaf)
        )
        for name, leaf in returned.items()
        if isinstance(leaf, Tensor)
    }
