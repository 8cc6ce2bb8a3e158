# golden: stay refused="moves the tensor to the CPU"
"""It is collected on the host."""
import torch


def step(x: torch.Tensor):
    kept = []
    hits = (x > 0).type(torch.LongTensor)
    kept.append(hits)
    return kept[0].to(x.device), hits.device.type


def cases(make):
    for shape in ((), (0,), (2, 3)):
        yield (make.tensor(shape, torch.float32),)


def probe(x):
    return step(x)
