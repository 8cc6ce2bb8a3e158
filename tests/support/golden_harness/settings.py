"""Switches that torch keeps for the whole process: a golden may turn them, its neighbours must not notice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.backends import cudnn


@contextmanager
def restored_settings() -> Iterator[None]:
    """Put back after the block what it changed for the whole process.

    Anomaly detection, gradient mode, default number format, precision of matrix products, deterministic
    algorithms and cuDNN's switches.
    """
    anomaly = torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()
    grad = torch.is_grad_enabled()
    dtype = torch.get_default_dtype()
    precision = torch.get_float32_matmul_precision()
    deterministic = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    switches = cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32
    try:
        yield
    finally:
        torch.autograd.set_detect_anomaly(*anomaly)
        torch.set_grad_enabled(grad)
        torch.set_default_dtype(dtype)
        torch.use_deterministic_algorithms(deterministic[0], warn_only=deterministic[1])
        cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32 = switches
        torch.set_float32_matmul_precision(precision)
