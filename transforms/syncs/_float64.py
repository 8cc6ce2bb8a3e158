"""Devices without float64, on which a sum cannot keep the digits of Python's."""

from __future__ import annotations

import re

from perfmod.transforms.facts.file import FileFacts

# As they are named in scripts.
_NO_FLOAT64 = re.compile(r"""["'](mps|xpu)(?::\d+)?["']|torch\.backends\.(mps)\b""")
# What picks the best device of the machine, which is MPS on a Mac.
_CHOOSES_DEVICE = re.compile(r"\btorch\.accelerator\b|\bAccelerator\(|\bFabric\(")


def missing_float64(file: FileFacts) -> str | None:
    """Why the script may run on a device without float64; `None` where nothing speaks for it."""
    texts = [source.text for source in file.world.files]
    device = next(filter(None, map(_NO_FLOAT64.search, texts)), None)
    if device is not None:
        return f'the script may run on "{device[1] or device[2]}", which has no float64'
    chooser = next(filter(None, map(_CHOOSES_DEVICE.search, texts)), None)
    return f"`{chooser[0]}` may choose a device without float64, such as MPS" if chooser is not None else None
