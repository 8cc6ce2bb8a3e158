# golden: stay refused="its generator is a CPU generator"
"""The generator lies on the host, and gives the same numbers on every machine."""
import torch


def noise(x, generator):
    return x + torch.randn(x.shape, generator=generator).to(x.device)


def cases(make):
    yield (make.tensor((2, 3), torch.float32),)


def probe(x):
    return noise(x, torch.Generator().manual_seed(3))
