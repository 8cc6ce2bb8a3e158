# golden: stay silent
"""The exponential is computed on the host, whose last bit may be another."""
import torch


def weights(x):
    return x * torch.arange(x.size(-1)).float().exp().to(x.device)


def cases(make):
    yield (make.tensor((2, 3), torch.float32),)


def probe(x):
    return weights(x)
