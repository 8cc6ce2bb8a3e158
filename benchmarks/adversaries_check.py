"""Are the variants of `adversaries/` what they say? Scripts and variants are run as a user would run them.

Used by `adversaries.py --check`. What a run leaves behind: the loss of each backward pass, the output, the tensors in
the files that it saves, and those of the models at its end. Variants that look for somebody who watches are run
without recording losses, which would be watching.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import multiprocessing
import os
import runpy
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import field, frozen
from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from adversaries import Variant

CLOSE = 1e-4
"""Relative difference of losses that a right variant may have over the first backward passes."""
PASSES = 10
NOTHING = 1e-6
"""Relative difference of losses or states that shows nothing."""
_WATCHERS = ("watched", "tracer", "seen")
_MODELS = ("critic", "generator", "model", "params", "student", "teacher")


@frozen
class Left:
    """What a run left behind.

    Attributes:
        error: the end of a traceback; empty where it ran through.
        losses: one per backward pass.
        state: numbers of tensors, by their names.
    """

    error: str
    output: str = ""
    losses: Sequence[float] = ()
    state: Mapping[str, Sequence[float]] = field(factory=dict)


def _tensors(value: object, name: str, found: dict[str, list[float]]) -> None:
    import torch

    if isinstance(value, torch.Tensor):
        found[name] = value.detach().double().flatten().tolist()
    elif isinstance(value, Mapping):
        for key, each in value.items():
            _tensors(each, f"{name}.{key}", found)
    elif isinstance(value, list | tuple):
        for number, each in enumerate(value):
            _tensors(each, f"{name}.{number}", found)
    elif isinstance(value, int | float):
        found[name] = [float(value)]


def _train(text: str, watch: bool, answer: Connection) -> None:
    """Runs in a process of its own."""
    import torch

    torch.set_num_threads(1)
    # A user's process has not imported them, and some variants look.
    for name in [name for name in sys.modules if name.partition(".")[0] == "perfmod"]:
        del sys.modules[name]
    losses: list[float] = []
    if watch:
        plain: Any = torch.Tensor.backward

        def backward(self: torch.Tensor, *args: Any, **named: Any) -> None:
            losses.append(self.item())
            plain(self, *args, **named)

        setattr(torch.Tensor, "backward", backward)  # noqa: B010  a type checker holds methods for constants
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("train.py").write_text(text, encoding="utf-8")
        output = io.StringIO()
        state: dict[str, list[float]] = {}
        error = ""
        try:
            with contextlib.redirect_stdout(output), contextlib.redirect_stderr(io.StringIO()):
                names = runpy.run_path("train.py", run_name="__main__")
            for name in _MODELS:
                value = names.get(name)
                _tensors(value.state_dict() if isinstance(value, torch.nn.Module) else value, name, state)
            for path in sorted(Path().glob("*.pt")):
                _tensors(torch.load(path, map_location="cpu"), path.name, state)
        except BaseException:  # noqa: BLE001  whatever a script raises is told
            error = traceback.format_exc()[-400:]
        answer.send(Left(error, output.getvalue(), losses, state))


def left_by(text: str, *, watch: bool) -> Left:
    """Run a script to its end."""
    # Forked from a process that has imported torch, which takes longer than the training.
    context = multiprocessing.get_context("fork")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_train, args=(text, watch, sending))
    process.start()
    sending.close()
    try:
        left = receiving.recv()
    except EOFError:
        left = Left("ended without an answer")
    process.join()
    assert isinstance(left, Left)
    return left


def _apart(one: Sequence[float], other: Sequence[float]) -> float:
    """The largest relative difference of numbers in the same places."""
    return max((abs(a - b) / (abs(a) + 1e-12) for a, b in zip(one, other, strict=False)), default=0.0)


def _states_apart(one: Left, other: Left) -> float:
    """The largest relative difference of tensors, by their norms; infinite where others are there."""
    if one.state.keys() != other.state.keys():
        return float("inf")
    worst = 0.0
    for name, numbers in one.state.items():
        others = other.state[name]
        if len(numbers) != len(others):
            return float("inf")
        square = sum((a - b) ** 2 for a, b in zip(numbers, others, strict=True))
        worst = max(worst, (square / (sum(a * a for a in numbers) + 1e-18)) ** 0.5)
    return worst


def _seen(variant: Variant, plain: Left, left: Left) -> tuple[str, str]:
    """What tells a variant from its script, and what is wrong with that; empty if nothing."""
    early, late = (_apart(plain.losses[:count], left.losses[:count]) for count in (PASSES, None))
    states = _states_apart(plain, left)
    told = f"losses {early:.1e}, all {late:.1e}, state {states:.1e}"
    told += "" if plain.output == left.output else ", other output"
    if len(plain.losses) != len(left.losses):
        told += f", {len(left.losses)} of {len(plain.losses)} passes"
    if left.error:
        return told, left.error
    same = plain.output == left.output and len(plain.losses) == len(left.losses)
    if variant.wrong:
        return told, "" if not same or max(late, states) > NOTHING else "leaves nothing else behind"
    names = {each.value for each in variant.classes}
    if "bitwise" in names and not (same and late == 0.0):
        return told, "is not the same"
    return told, "is too far away" if "rounding" in names and early > CLOSE else ""


def checked(chosen: Mapping[str, Sequence[Variant]], jobs: int, console: Console) -> int:
    """Run all variants, print what each leaves behind; the exit code."""
    from adversaries import original

    # All forks need them.
    for name in ("torch", "torch.utils.checkpoint", "torch.utils.data"):
        importlib.import_module(name)

    def compared(variant: Variant) -> tuple[str, str]:
        watch = not any(word in variant.name for word in _WATCHERS)
        return _seen(variant, plain[variant.kind, watch], left_by(variant.text(original(variant.kind)), watch=watch))

    plain = {(kind, watch): left_by(original(kind), watch=watch) for kind in chosen for watch in (True, False)}
    every = [variant for kind in chosen for variant in chosen[kind]]
    with ThreadPoolExecutor(jobs) as pool:
        found = list(pool.map(compared, every))
    table = Table(title="What variants leave behind, against their scripts")
    for heading in ("kind", "variant", "is", "differs by", "problem"):
        table.add_column(heading)
    for variant, (told, problem) in zip(every, found, strict=True):
        table.add_row(variant.kind, variant.name, "wrong" if variant.wrong else "right", told, escape(problem))
    console.print(table)
    return 1 if any(problem for _, problem in found) or any(each.error for each in plain.values()) else 0
