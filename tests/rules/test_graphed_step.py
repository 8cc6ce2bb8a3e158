"""The recorder that scripts get: on the CPU it calls the step; on CUDA its replays train as the step does."""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from perfmod.transforms.compute.recorder.graphed_step import GraphedStep

Batch = tuple[torch.Tensor, torch.Tensor]
Trained = tuple[list[float], list[torch.Tensor]]


def _batches(sizes: tuple[int, ...], device: str) -> list[Batch]:
    generator = torch.Generator().manual_seed(1)
    return [
        (
            torch.randn(size, 4, generator=generator).to(device),
            torch.randint(3, (size,), generator=generator).to(device),
        )
        for size in sizes
    ]


def _net(device: str = "cpu") -> nn.Module:
    torch.manual_seed(0)
    # No bias before the normalisation: its gradient is nothing but rounding, which Adam would scale up to whole steps.
    return nn.Sequential(nn.Linear(4, 16, bias=False), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3)).to(device)


def _step(model: nn.Module, optimizer: torch.optim.Optimizer) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def test_calls_the_step_on_the_cpu() -> None:
    model = _net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = GraphedStep(_step(model, optimizer), [optimizer])
    losses = [step(x, y) for x, y in _batches((8, 8, 5), "cpu")]
    assert (step.eager, step.recorded, step.replayed) == (3, 0, 0)
    assert all(loss.requires_grad for loss in losses)


def test_passes_on_what_a_step_raises_on_the_cpu() -> None:
    model = _net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = GraphedStep(_step(model, optimizer), [optimizer])
    with pytest.raises(RuntimeError):
        step(torch.zeros(3, 5), torch.zeros(3, dtype=torch.long))


def _prepared(**settings: Any) -> tuple[GraphedStep, torch.optim.Optimizer, nn.Module]:
    """A recorder as it is behind its first call on CUDA."""
    model = _net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, **settings)
    step = GraphedStep(_step(model, optimizer), [optimizer])
    step.modules = list(model.modules())
    return step, optimizer, model


def test_a_graph_is_for_shapes_types_modes_and_other_values() -> None:
    step, _, model = _prepared()
    (x, y), (short, _) = _batches((8, 5), "cpu")
    kinds = [step._kind(batch) for batch in ((x, y), (short, y), (x.double(), y), (x, 1), (x, 2), (x, 1.0))]
    model.eval()
    kinds.append(step._kind((x, y)))
    assert len(set(kinds)) == len(kinds)
    model.train()
    assert step._kind((x + 1, y)) == kinds[0]


@pytest.mark.parametrize("given", [[1], {"x": 1}, object()])
def test_what_cannot_be_refreshed_is_not_recorded(given: object) -> None:
    step, _, _ = _prepared()
    with pytest.raises(TypeError, match="neither a tensor nor a number"):
        step._kind((given,))


def test_a_tensor_with_a_history_is_not_recorded() -> None:
    step, _, _ = _prepared()
    with pytest.raises(TypeError, match="history"):
        step._kind((torch.ones(2, requires_grad=True) * 2,))


def test_settings_change_with_what_a_graph_took_over() -> None:
    step, optimizer, model = _prepared()
    known = step._settings()
    assert step._settings() == known
    optimizer.param_groups[0]["lr"] = 0.2
    assert step._settings() != known
    known = step._settings()
    optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert step._settings() != known
    known = step._settings()
    next(model.parameters()).data = torch.zeros(16, 4)
    assert step._settings() != known
    known = step._settings()
    next(model.parameters()).requires_grad_(False)
    assert step._settings() != known


@pytest.mark.parametrize("settings", [{"fused": True}, {"capturable": True}])
def test_a_learning_rate_that_is_read_on_the_device_may_change(settings: dict[str, bool]) -> None:
    step, optimizer, _ = _prepared(**settings)
    known = step._settings()
    optimizer.param_groups[0]["lr"] = 0.2
    assert step._settings() == known
    optimizer.param_groups[0]["weight_decay"] = 0.2
    assert step._settings() != known


def test_is_recorded_when_nothing_changed_for_some_calls() -> None:
    step, _, _ = _prepared()
    assert [step._is_time_to_record("a", 1) for _ in range(4)] == [False, False, False, True]
    assert [step._is_time_to_record("b", n) for n in range(8)] == [False] * 8
    step.graphs = {"a": (1,), "b": (1,)}
    assert [step._is_time_to_record("c", 1) for _ in range(5)] == [False] * 5
    assert [step._is_time_to_record("a", 2) for _ in range(4)] == [False, False, False, True]


def test_leaves_steps_of_several_processes_or_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    spread = nn.DataParallel(_net())
    spread.device_ids = [0, 1]
    step, _, _ = _prepared()
    with pytest.warns(UserWarning, match="DataParallel works on several devices"):
        step._begin()
    del spread
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    step, _, _ = _prepared()
    with pytest.warns(UserWarning, match="other processes take part in each step"):
        step._begin()


@pytest.mark.parametrize("register", ["register_forward_hook", "register_forward_pre_hook"])
def test_hooks_are_not_recorded(register: str) -> None:
    step, _, model = _prepared()
    step._require_recordable()
    getattr(model[1], register)(lambda *_: None)  # type: ignore[index]
    with pytest.raises(RuntimeError, match="hooks of a BatchNorm1d"):
        step._require_recordable()


def test_says_once_why_it_gave_up() -> None:
    step, _, _ = _prepared()

    def broken(_: torch.Tensor) -> None:
        raise RuntimeError("operation not permitted\nwhen stream is capturing")

    step.step = broken
    try:
        try:
            broken(torch.ones(1))
        finally:
            raise ValueError("the recording was broken off")
    except ValueError as error:
        with pytest.warns(UserWarning, match="runs without a CUDA graph"):
            step._give_up(step._described(error))
    assert re.fullmatch(r"RuntimeError: operation not permitted in line \d+: raise RuntimeError.*", step.problem)


def test_a_step_that_is_seen_to_wait_is_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    step, _, _ = _prepared()
    modes: list[Any] = []
    monkeypatch.setattr(torch.cuda, "get_sync_debug_mode", lambda: 0)
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", modes.append)

    @step._watched()
    def run() -> None:
        warnings.warn("Synchronization debug mode is a prototype feature", stacklevel=1)
        warnings.warn("of the script", stacklevel=1)
        warnings.warn("called a synchronizing CUDA operation", stacklevel=1)

    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        run()
    assert modes == ["warn", 0]
    assert [str(each.message).partition(" (")[0] for each in heard] == [
        "of the script",
        "the training step runs without a CUDA graph",
    ]
    assert re.fullmatch(r"it waits for the device in .*test_graphed_step.py, line \d+: warnings.warn.*", step.problem)


def test_detaches_what_a_step_returns() -> None:
    loss = torch.ones(1, requires_grad=True) * 2
    one, (other, number) = GraphedStep._detached((loss, [loss, 3]))
    assert (one.requires_grad, other.requires_grad, number) == (False, False, 3)


def _train(optimizer: type[torch.optim.Optimizer], graphed: bool, **settings: Any) -> tuple[list[Any], list[Any], Any]:
    model = _net("cuda")
    made = optimizer(model.parameters(), **{"lr": 0.05, **settings})  # type: ignore[call-arg]
    schedule = torch.optim.lr_scheduler.LambdaLR(made, lambda n: 1 / (1 + n // 10))
    step = GraphedStep(_step(model, made), [made]) if graphed else _step(model, made)
    losses = []
    for x, y in _batches((8,) * 9 + (5,), "cuda") * 4:
        losses.append(step(x, y).detach().clone())
        schedule.step()
    return losses, [*model.state_dict().values()], step


@pytest.mark.cuda
@pytest.mark.parametrize(
    ("optimizer", "settings"),
    [
        (torch.optim.SGD, {"momentum": 0.9, "weight_decay": 1e-3}),
        (torch.optim.AdamW, {"capturable": True, "foreach": True}),
        (torch.optim.AdamW, {"fused": True, "capturable": True}),
        (torch.optim.SGD, {"fused": True, "momentum": 0.9}),
    ],
)
def test_replays_train_as_the_step_does(optimizer: type[torch.optim.Optimizer], settings: dict[str, Any]) -> None:
    losses, state, _ = _train(optimizer, False, **settings)
    replayed, state_of_replays, step = _train(optimizer, True, **settings)
    assert step.problem is None
    assert step.replayed > 10
    torch.testing.assert_close(replayed, losses, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(state_of_replays, state, rtol=1e-5, atol=1e-6)


@pytest.mark.cuda
def test_a_step_that_waits_is_not_recorded() -> None:
    model = _net("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inner = _step(model, optimizer)
    step = GraphedStep(lambda x, y: torch.tensor(inner(x, y).item()), [optimizer])
    with pytest.warns(UserWarning, match="runs without a CUDA graph"):
        losses = [step(x, y).item() for x, y in _batches((8,) * 6, "cuda")]
    assert (step.recorded, step.eager, len(losses)) == (0, 6, 6)


WAITS = {"a copy to the host": lambda loss: loss.item(), "the whole device": lambda _: torch.cuda.synchronize()}
"""The second is no wait that torch tells of, so that the recording itself breaks off."""


@pytest.mark.cuda
@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_a_step_that_waits_and_draws_goes_on_as_it_is(wait: Callable[[torch.Tensor], object]) -> None:
    model = nn.Sequential(_net("cuda"), nn.Dropout(0.5)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inner = _step(model, optimizer)

    def waiting(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = inner(x, y)
        wait(loss)
        return loss

    step = GraphedStep(waiting, [optimizer])
    with pytest.warns(UserWarning, match="runs without a CUDA graph") as heard:
        losses = [step(x, y).item() for x, y in _batches((8,) * 9, "cuda")]
    assert len([each for each in heard if "without a CUDA graph" in str(each.message)]) == 1
    assert (step.recorded, step.replayed, len(set(losses))) == (0, 0, 9)


@pytest.mark.cuda
def test_another_pass_whose_loss_is_kept_does_not_keep_a_step_from_being_recorded() -> None:
    def trained(*, recorded: bool) -> list[float]:
        model = _net("cuda")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        inner = _step(model, optimizer)
        step = GraphedStep(inner, [optimizer])
        losses = []
        for number, (x, y) in enumerate(_batches((8,) * 16, "cuda")):
            losses.append((step if recorded else inner)(x, y).item())
            if number % 3 == 0:
                optimizer.zero_grad()
                other = model(x).square().mean()
                other.backward()
                optimizer.step()
                losses.append(other.item())
        assert not recorded or (step.problem is None and step.replayed > 8)
        return losses

    assert trained(recorded=True) == pytest.approx(trained(recorded=False), rel=1e-5)


@pytest.mark.cuda
def test_modes_have_graphs_of_their_own() -> None:
    model = _net("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    step = GraphedStep(_step(model, optimizer), [optimizer])
    ((x, y),) = _batches((8,), "cuda")
    trained = [step(x, y).item() for _ in range(6)]
    model.eval()
    evaluated = [step(x, y).item() for _ in range(6)]
    assert step.recorded == 2
    assert trained[-1] != evaluated[-1]


def _long_training(optimizer: type[torch.optim.Optimizer], settings: dict[str, Any], *, recorded: bool) -> Trained:
    """Thirty epochs with a schedule and evaluations between them, of which the second half resumes a checkpoint."""
    batches, (evaluated, targets) = _batches((16,) * 99 + (9,), "cuda"), _batches((64,), "cuda")[0]
    checkpoint: Any = None
    shown = []
    for begin, end in ((0, 15), (15, 30)):
        model = _net("cuda")
        of_model = optimizer(model.parameters(), **settings)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(of_model, 30)
        if checkpoint is not None:
            for owner, state in zip((model, of_model, schedule), checkpoint, strict=True):
                owner.load_state_dict(state)
        eager = _step(model, of_model)
        step = GraphedStep(eager, [of_model])
        for _ in range(begin, end):
            model.train()
            for x, y in batches:
                loss = step(x, y) if recorded else eager(x, y)
            schedule.step()
            model.eval()
            with torch.no_grad():
                shown += [loss.item(), F.cross_entropy(model(evaluated), targets).item()]
        checkpoint = copy.deepcopy([model.state_dict(), of_model.state_dict(), schedule.state_dict()])
        assert not recorded or step.replayed > 1000
    return shown, [each.detach().clone() for each in model.state_dict().values()]


@pytest.mark.cuda
@pytest.mark.parametrize(("optimizer", "settings", "is_bitwise"), [
    (torch.optim.SGD, {"lr": 0.05, "momentum": 0.9, "weight_decay": 1e-3}, True),
    (torch.optim.AdamW, {"lr": 1e-3, "fused": True, "capturable": True}, False),
])  # fmt: skip
def test_three_thousand_steps_with_a_schedule_evaluations_and_a_checkpoint(
    optimizer: type[torch.optim.Optimizer], settings: dict[str, Any], *, is_bitwise: bool
) -> None:
    shown, state = _long_training(optimizer, settings, recorded=False)
    replayed_shown, replayed_state = _long_training(optimizer, settings, recorded=True)
    apart = {"rtol": 0.0, "atol": 0.0} if is_bitwise else {"rtol": 1e-3, "atol": 1e-4}
    torch.testing.assert_close(torch.tensor(replayed_shown), torch.tensor(shown), **apart)
    torch.testing.assert_close(replayed_state, state, **apart)
