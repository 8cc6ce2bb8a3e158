# golden: stay refused="is not known to be computed in this step"
"""The weights before the step are kept by a cast that copies them; without the copy they would change with it."""
import torch
from torch import nn


def drift(x: torch.Tensor):
    torch.manual_seed(0)
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    before = [p.type(torch.FloatTensor).to(x.device) for p in model.parameters()]
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    return [(p.detach() - old).abs().sum() for p, old in zip(model.parameters(), before)]


def cases(make):
    yield (make.tensor((2, 3), torch.float32),)


def probe(x):
    return drift(x)
