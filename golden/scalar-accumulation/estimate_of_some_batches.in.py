# golden: stay refused="leaves elements out"
"""Rounds that are left out leave zeros in the tensor: it cannot be filled from a list."""

import torch
import torch.nn.functional as F
from torch import nn

eval_iters = 5


@torch.no_grad()
def estimate_loss(model, batches, device):
    model.eval()
    losses = torch.zeros(eval_iters)
    for k in range(eval_iters):
        x, y = batches[k]
        if len(x) < 8:
            continue
        loss = F.cross_entropy(model(x.to(device)), y.to(device))
        losses[k] = loss.item()
    return losses


def probe():
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    batches = [(torch.randn(n, 4), torch.randint(3, (n,))) for n in (8, 3, 8, 4, 8)]
    return estimate_loss(model, batches, torch.device("cpu"))
