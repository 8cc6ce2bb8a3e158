# golden: stay refused="requires a gradient"
"""The tensor of the host is the leaf whose gradient somebody reads."""
import torch


def bias(x):
    start = torch.zeros(x.size(-1), requires_grad=True)
    moved = torch.zeros(x.size(-1), requires_grad=True).to(x.device)
    loss = (x + start.to(x.device) + moved).sum()
    loss.backward()
    return start.grad, moved.is_leaf or moved.device.type == "cpu"


def cases(make):
    yield (make.tensor((2, 3), torch.float32),)


def probe(x):
    return bias(x)
