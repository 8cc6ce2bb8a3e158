"""Gradient scalers: the loss before it was scaled, and the steps that they leave out."""

from __future__ import annotations

from typing import Any, Callable, Iterator

import torch

from . import patching

_UNSCALED = "_perfmod_unscaled"
_used: list[Any] = []
"""The scalers that have scaled a loss, by their first; kept, as scripts do."""


def note_unscaled() -> None:
    """Have every scaled loss know from now what it was before."""
    for scaler in _classes():
        patching.around(scaler, "scale", _scale)


def unscaled(loss: torch.Tensor) -> torch.Tensor:
    """The loss before a scaler scaled it; itself where none did."""
    before: torch.Tensor = getattr(loss, _UNSCALED, loss)
    return before


def count_skipped(progress: Callable[[], int], skipped: Callable[[], None]) -> None:
    """Call `skipped` from now whenever a scaler was to step an optimizer and `progress` is what it was before."""

    def step(step: Callable[..., Any], scaler: Any, *args: Any, **kwargs: Any) -> Any:
        before = progress()
        result = step(scaler, *args, **kwargs)
        if progress() == before:
            skipped()
        return result

    for scaler in _classes():
        patching.around(scaler, "step", step)


def _classes() -> Iterator[type]:
    """The class that the scalers of all devices inherit from; before torch 2.3 there was but the one of CUDA."""
    yield getattr(torch.amp, "GradScaler", torch.cuda.amp.GradScaler)


def scales() -> Iterator[torch.Tensor]:
    """What the scalers of the script multiply by at present, and how many steps without an infinity they count."""
    for scaler in _used:
        held = (getattr(scaler, name, None) for name in ("_scale", "_growth_tracker"))
        yield from (value for value in held if isinstance(value, torch.Tensor))


def _scale(scale: Callable[..., Any], scaler: Any, outputs: Any) -> Any:
    if not any(scaler is each for each in _used):
        _used.append(scaler)
    result = scale(scaler, outputs)
    if isinstance(outputs, torch.Tensor):
        _note(result, outputs)
    elif isinstance(outputs, (list, tuple)):
        for scaled, output in zip(result, outputs):
            if isinstance(output, torch.Tensor):
                _note(scaled, output)
    return result


def _note(scaled: torch.Tensor, loss: torch.Tensor) -> None:
    if scaled is not loss:
        setattr(scaled, _UNSCALED, loss.detach())
