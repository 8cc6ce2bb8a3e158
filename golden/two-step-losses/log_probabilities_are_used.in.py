# golden: stay refused="used on line"
"""The entropy reads them, too: they are computed anyway."""
import torch
import torch.nn.functional as F
from torch import nn


def losses(x, y):
    log_probs = F.log_softmax(x, dim=1)
    entropy = -(log_probs.exp() * log_probs).sum(1).mean()
    return F.nll_loss(log_probs, y) - 0.1 * entropy


def cases(make):
    for dtype in (torch.float32, torch.float64):
        yield make.tensor((5, 3), dtype, requires_grad=True), make.labels((5,), 3)


def probe(x, y):
    return losses(x, y)
