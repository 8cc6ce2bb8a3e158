# golden: stay silent
"""The copy of an expanded tensor has memory for every element; an expanded one on the device would not."""
import torch


def counters(x):
    counts = torch.zeros(1).expand(x.size(0)).to(x.device).clone()
    counts[0] += 1
    return counts


def cases(make):
    yield (make.tensor((3, 2), torch.float32),)


def probe(x):
    return counters(x)
