"""Is torch.compile at work? Then nothing of ours may end up in the graph."""

from __future__ import annotations

import torch

# torch 2.1 has no public name for it.
is_compiling = getattr(torch.compiler, "is_compiling", None) or torch._utils.is_compiling
