# golden: stay refused="a non-blocking copy to the CPU may be in flight"
"""Without the wait the host would read memory that the device still writes to."""

import torch
from torch import nn


def train(model, batches):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = []
    for x in batches:
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        copy = loss.detach().to("cpu", non_blocking=True)
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        seen.append(float(copy))
    return model, seen


def probe():
    return train(nn.Linear(4, 1), [torch.randn(8, 4) for _ in range(3)])
