# golden: change
"""Lists of truths, counts and fractions: what they hold behind the loop is of the type that it was."""

import torch
from torch import nn


def train(model, batches, device):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    is_finite, hits, fractions, losses = [], [], [], []
    history = {"hits": []}
    for epoch in range(2):
        for x, y in batches:
            x, y = x.to(device), y.to(device)
            out = model(x)
            loss = nn.functional.cross_entropy(out, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            right = (out.argmax(1) == y).sum()
            is_finite.append(torch.isfinite(loss))
            hits.append((right > 1).long())
            fractions.append(right.double())
            losses.append(loss.detach())
            history["hits"].append(right.clone().double())
        history["hits"][:] = [value.item() if torch.is_tensor(value) else value for value in history["hits"]]
        losses[:] = [float(value) for value in losses]
        fractions[:] = [float(value) for value in fractions]
        hits[:] = [int(value) for value in hits]
        is_finite[:] = [bool(value) for value in is_finite]
    return is_finite, hits, fractions, losses, history


def probe():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batches = [(torch.randn(4, 3), torch.randint(0, 2, (4,))) for _ in range(3)]
    found = train(nn.Linear(3, 2).to(device), batches, device)
    print(found[:3], found[4], [f"{loss:.3f}" for loss in found[3]])
    return found
