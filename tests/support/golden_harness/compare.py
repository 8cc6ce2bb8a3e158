"""Whether two outcomes are the same under a numerics class, and in what they differ."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping
from typing import Final

import numpy as np
import torch
from torch import Tensor

from golden_harness.probe import Leaf
from perfmod.transforms.finding import Numerics

FLOOR: Final = 8.0
"""Rounding steps of its largest value by which a result may always move: a short sum in another order."""
_EPS: Final = torch.finfo(torch.float32).eps
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?(?:e[-+]\d+)?")
FACTOR: Final = 4.0
"""How many times further than the original itself moves when its inputs move by one rounding step."""

_HALF_PRECISION = 0.05
"""Of the largest value: some steps of a small training in bfloat16."""
_USUAL = 1e3
"""Larger values than that train nothing."""


def differences(
    before: Mapping[str, Leaf],
    after: Mapping[str, Leaf],
    numerics: Numerics,
    control: Mapping[str, Leaf] | None = None,
) -> list[str]:
    """What a training could notice, one line each; empty when the rewrite is right.

    `bitwise` wants equal bits: NaN where NaN was, the sign of a zero, dtype, shape. Gradients may differ in
    the sign of a zero: autograd adds contributions up, and 0 + -0 is 0. `rounding` wants the same NaN and
    infinities, and values within `FLOOR` rounding steps or `FACTOR` times what the original moves by when its
    inputs move by one rounding step, which `control` shows. `sampling` wants the same shapes and types. `behavioural`
    wants equal bits, and of the lines that were printed some.
    """
    found = [f"{name}: {_shown(before[name])} before, gone after" for name in before if name not in after]
    found += [f"{name}: nothing before, {_shown(after[name])} after" for name in after if name not in before]
    for name in before:
        if name in after:
            moved = control.get(name) if control else None
            gradient = name.endswith(" gradient")
            if (
                numerics is Numerics.BEHAVIOURAL
                and name.startswith("printed")
                and _are_some_of(before[name], after[name])
            ):
                continue
            if reason := _difference(before[name], after[name], numerics, moved, gradient=gradient):
                found.append(f"{name}: {reason}")
    return found


def _are_some_of(old: Leaf, new: Leaf) -> bool:
    """Whether the lines of a text are lines of another one, in their order."""
    lines = iter(str(old).splitlines())
    return all(line in lines for line in str(new).splitlines())


def _beyond_half_precision(old: Tensor, new: Tensor) -> str:
    """Whether a result lies further off than bfloat16 brings about; of values out of the usual there is no telling."""
    if not (old.isfinite().all() and old.abs().max() < _USUAL):
        return ""
    apart = (old - new).abs().max()
    return (
        ""
        if apart <= _HALF_PRECISION * max(1.0, float(old.abs().max()))
        else f"{_shown(old)} before, {_shown(new)} after"
    )


def _difference(old: Leaf, new: Leaf, numerics: Numerics, moved: Leaf, *, gradient: bool) -> str:
    if type(old) is not type(new):
        return f"{type(old).__name__} before, {type(new).__name__} after"
    if isinstance(old, Tensor):
        assert isinstance(new, Tensor)
        if (old.dtype, old.shape) != (new.dtype, new.shape):
            return f"{old.dtype} {tuple(old.shape)} before, {new.dtype} {tuple(new.shape)} after"
        if numerics is Numerics.SAMPLING or _same_bits(old, new, signed_zeros=not gradient):
            return ""
        if numerics is Numerics.PRECISION and old.dtype.is_floating_point:
            return _beyond_half_precision(old, new)
        if numerics is Numerics.ROUNDING and old.dtype.is_floating_point:
            return _out_of_bounds(old, new, moved if isinstance(moved, Tensor) else None)
        return f"{_shown(old)} before, {_shown(new)} after"
    if isinstance(old, np.ndarray):
        assert isinstance(new, np.ndarray)
        same = (old.dtype, old.shape, old.tobytes()) == (new.dtype, new.shape, new.tobytes())
        return "" if same else f"{_shown(old)} before, {_shown(new)} after"
    if isinstance(old, float):
        assert isinstance(new, float)
        # The sign of a NaN depends on the processor.
        both_nan = math.isnan(old) and math.isnan(new)
        if numerics is Numerics.SAMPLING or both_nan or struct.pack("d", old) == struct.pack("d", new):
            return ""
        if numerics is Numerics.ROUNDING:
            # A figure that a script reads back was float32 on the way.
            shaken = torch.tensor(moved) if isinstance(moved, float) else None
            return _out_of_bounds(torch.tensor(old), torch.tensor(new), shaken)
        return f"{old!r} before, {new!r} after"
    is_close = numerics is Numerics.ROUNDING and isinstance(old, str) and isinstance(new, str) and _same_text(old, new)
    return "" if old == new or is_close or numerics is Numerics.SAMPLING else f"{old!r} before, {new!r} after"


def _same_text(old: str, new: str) -> bool:
    """Whether two texts have the same words, and numbers that agree to a rounding of float32."""
    pairs = zip(_NUMBER.findall(old), _NUMBER.findall(new), strict=False)
    same_words = _NUMBER.sub("#", old) == _NUMBER.sub("#", new)
    return same_words and all(math.isclose(float(a), float(b), rel_tol=FLOOR * _EPS) for a, b in pairs)


def _same_bits(old: Tensor, new: Tensor, *, signed_zeros: bool) -> bool:
    if not old.dtype.is_floating_point:
        return torch.equal(old, new)
    nan = old.isnan()
    if not torch.equal(nan, new.isnan()) or not torch.equal(old[~nan], new[~nan]):
        return False
    return not signed_zeros or torch.equal(old[~nan].signbit(), new[~nan].signbit())


def _out_of_bounds(old: Tensor, new: Tensor, moved: Tensor | None) -> str:
    finite = old.isfinite()
    same_places = torch.equal(finite, new.isfinite())
    if not same_places or not _same_bits(old[~finite], new[~finite], signed_zeros=True):
        return f"NaN or infinity in other places: {_shown(old)} before, {_shown(new)} after"
    if not finite.any():
        return ""
    a, b = old[finite].double(), new[finite].double()
    bound = FLOOR * torch.finfo(old.dtype).eps * a.abs().max().item()
    if moved is not None and moved.shape == old.shape:
        shift = (moved[finite].double() - a).abs()
        bound += FACTOR * shift[shift.isfinite()].amax().item() if shift.isfinite().any() else 0.0
    off = (a - b).abs().max().item()
    times = off / bound if bound else math.inf
    return "" if off <= bound else f"off by {off:.3g}, {times:.1f} times what rounding explains"


def _shown(value: object) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) < 120 else f"{text[:117]}..."
