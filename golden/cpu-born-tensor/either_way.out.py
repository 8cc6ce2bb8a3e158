# golden: change opt-in
"""Both sides of a choice make the same ones."""
import torch


def rest(x, on_device):
    ones = torch.ones(x.size(), device=x.device) if on_device else torch.ones(x.size())
    return x + ones


def cases(make):
    yield make.tensor((2, 3), torch.float32), True


def probe(x, on_device):
    return rest(x, on_device)
