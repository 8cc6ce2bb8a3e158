# golden: change
"""Lists of truths, counts and fractions: what they hold behind the loop is of the type that it was."""

import torch
from torch import nn


def train(model, batches, device):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    is_finite, fractions, losses = [], [], []
    for epoch in range(2):
        for x, y in batches:
            x, y = x.to(device), y.to(device)
            out = model(x)
            loss = nn.functional.cross_entropy(out, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            right = (out.argmax(1) == y).sum()
            is_finite.append(torch.isfinite(loss).item())
            fractions.append(float(right))
            losses.append(loss.item())
    return is_finite, fractions, losses


def probe():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batches = [(torch.randn(4, 3), torch.randint(0, 2, (4,))) for _ in range(3)]
    found = train(nn.Linear(3, 2).to(device), batches, device)
    print(found[:2], [f"{loss:.3f}" for loss in found[2]])
    return found
