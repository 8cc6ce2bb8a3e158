"""The recorder on CUDA beside what else trains: a scaler of gradients, another recorded step, a wrapped model."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from perfmod.transforms.compute.recorder.graphed_step import GraphedStep

pytestmark = pytest.mark.cuda


def _net(*sizes: int) -> nn.Module:
    layers = [each for a, b in itertools.pairwise(sizes) for each in (nn.Linear(a, b), nn.Tanh())]
    return nn.Sequential(*layers[:-1]).cuda()


def _scaled(optimizer: type[torch.optim.Optimizer], settings: dict[str, Any], *, recorded: bool) -> list[Any]:
    """Some rounds under a scaler, of which one overflows: it leaves out that step, and halves the scale."""
    torch.manual_seed(0)
    model = _net(4, 16, 3)
    made = optimizer(model.parameters(), fused=True, **settings)  # type: ignore[call-arg]
    scaler = torch.amp.GradScaler("cuda", growth_interval=5)

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        made.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(made)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(made)
        scaler.update()
        return loss

    trained = GraphedStep(step, [made]) if recorded else step
    shown = []
    for number in range(24):
        x = torch.randn(8, 4, device="cuda")
        x[0] = torch.inf if number == 15 else x[0]
        loss = trained(x, torch.randint(3, (8,), device="cuda"))
        shown += [loss.detach().clone(), torch.tensor(scaler.get_scale())]
    assert not isinstance(trained, GraphedStep) or (trained.problem, trained.replayed) == (None, 21)
    return [*shown, *model.state_dict().values()]


@pytest.mark.parametrize(("optimizer", "settings"), [
    (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    (torch.optim.AdamW, {"lr": 0.01, "capturable": True}),
])  # fmt: skip
def test_steps_of_a_scaler(optimizer: type[torch.optim.Optimizer], settings: dict[str, Any]) -> None:
    known = _scaled(optimizer, settings, recorded=False)
    replayed = _scaled(optimizer, settings, recorded=True)
    torch.testing.assert_close(replayed, known, rtol=1e-3, atol=1e-4, equal_nan=True)


def _of_two(every: int, *, recorded: bool) -> list[torch.Tensor]:
    """A critic that trains in each round, and a generator that does so in some, through the critic."""
    torch.manual_seed(0)
    generator, critic = _net(2, 16, 4), _net(4, 16, 1)
    of_generator = torch.optim.SGD(generator.parameters(), lr=0.05, momentum=0.9)
    of_critic = torch.optim.SGD(critic.parameters(), lr=0.05, momentum=0.9)

    def critic_step(x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        of_critic.zero_grad()
        loss: torch.Tensor = critic(generator(z)).mean() - critic(x).mean()
        loss.backward()
        of_critic.step()
        return loss

    def generator_step(z: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = -critic(generator(z)).mean()
        loss.backward()
        of_generator.step()
        return loss

    first: Any = GraphedStep(critic_step, [of_critic, of_generator]) if recorded else critic_step
    second: Any = GraphedStep(generator_step, [of_generator, of_critic]) if recorded else generator_step
    shown = []
    for _ in range(3):
        for number, size in enumerate([8] * 20 + [5]):
            z = torch.randn(size, 2, device="cuda")
            shown.append(first(torch.randn(size, 4, device="cuda"), z).detach().clone())
            of_generator.zero_grad()
            if number % every == 0:
                shown.append(second(z).detach().clone())
    assert not recorded or (first.problem, second.problem) == (None, None)
    assert not recorded or (first.replayed > 40 and second.replayed > 40 // every - 3)
    return [*shown, *generator.state_dict().values(), *critic.state_dict().values()]


@pytest.mark.parametrize("every", [1, 2, 5])
def test_two_steps_of_one_loop(every: int) -> None:
    for mine, its in zip(_of_two(every, recorded=True), _of_two(every, recorded=False), strict=True):
        assert torch.equal(mine, its)


def test_a_model_that_is_spread_over_one_device() -> None:
    def trained(*, recorded: bool) -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = nn.DataParallel(_net(4, 16, 3), device_ids=[0])
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(x: torch.Tensor) -> torch.Tensor:
            optimizer.zero_grad()
            loss: torch.Tensor = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        made = GraphedStep(step, [optimizer]) if recorded else step
        losses = [made(torch.randn(8, 4, device="cuda")).detach().clone() for _ in range(12)]
        assert not isinstance(made, GraphedStep) or (made.problem, made.replayed) == (None, 9)
        return losses

    assert all(map(torch.equal, trained(recorded=True), trained(recorded=False)))
