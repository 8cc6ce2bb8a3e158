# golden: change syncs=0
"""The mask of a transformer is the same for every batch of a length, and is made anew."""
import torch


def mask_of(x):
    size = x.size(1)
    mask = torch.triu(torch.ones(size, size), diagonal=1).bool().to(x.device)
    return x.masked_fill(mask, float("-inf"))


def cases(make):
    for size in (1, 4):
        yield (make.tensor((2, size, size), torch.float32),)


def probe(x):
    return mask_of(x)
