# golden: change syncs=0
"""Mask helpers in a file without a training: computed with numbers and with each other on the way to the device."""
import torch


def subsequent_mask(size, device):
    return torch.triu(torch.ones(size, size) * float("-inf"), diagonal=1).to(device)


def neighbours(size, device):
    others = (1 - torch.eye(size) - torch.triu(torch.ones(size, size), diagonal=2)) \
        .to(device)
    return others


def hidden_entries(size, device):
    mask = (torch.triu(torch.ones(size, size)) == 1).transpose(0, 1)
    return (torch.arange(size)[:, None] - 1).to(device), mask


def cases(make):
    for size in (1, 4):
        yield (make.tensor((2, size, size), torch.float32),)


def probe(x):
    size = x.size(1)
    positions, _ = hidden_entries(size, x.device)
    return x + subsequent_mask(size, x.device), x * neighbours(size, x.device), positions
