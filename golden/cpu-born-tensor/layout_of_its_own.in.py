# golden: stay refused="the same call also changes its memory format"
"""The copy gives the tensor another layout in memory, which the factory does not."""
import torch


def pad(x):
    frame = torch.zeros(1, 3, 4, 4).to(x.device, memory_format=torch.channels_last)
    return frame * x.sum(), frame.stride()


def cases(make):
    yield (make.tensor((2, 3), torch.float32),)


def probe(x):
    return pad(x)
