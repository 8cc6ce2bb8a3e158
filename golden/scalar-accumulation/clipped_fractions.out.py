# golden: change
"""A list that is extended by one figure in every step, through several epochs over the same batch."""
import torch
from torch import Tensor


def update(policy: Tensor, batches, optimizer, epochs):
    clipped = []
    for _ in range(epochs):
        for old in batches:
            ratio = (policy - old).exp()
            with torch.no_grad():
                clipped += [((ratio - 1.0).abs() > 0.2).float().mean()]
            loss = -torch.min(ratio, ratio.clamp(0.8, 1.2)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    clipped = torch.stack(clipped).tolist()
    print("clipped", sum(clipped) / len(clipped), clipped)
    return clipped


def cases(make):
    yield [torch.linspace(-1, 1, 5, device=make.device) * step for step in range(3)],


def probe(batches):
    policy = torch.zeros(5, device=batches[0].device, requires_grad=True)
    return update(policy, batches, torch.optim.SGD([policy], lr=0.1), 2)
