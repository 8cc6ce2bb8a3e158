# golden: change
"""Tokens that are counted by tensors of the device in a dictionary, and shown by a report of every tenth step."""

import torch
import torch.nn.functional as F


def train(model, loader, optimizer, device):
    seen = {
        "tokens": torch.tensor(0, device=device, dtype=torch.long),
        "padding": torch.tensor(0, device=device, dtype=torch.long),
        "steps": 0,
    }
    for step, batch in enumerate(loader):
        x, y, mask = (part.to(device) for part in batch)
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen["tokens"] += mask.sum().detach()
        seen["padding"] += (
            (~mask).sum().detach()
        )
        seen["steps"] += 1
        if step % 10 == 0:
            print({"tokens": seen["tokens"], "twice": seen["tokens"] * 2})
    return seen


def cases(make):
    batches = [(make.tensor((4, 3)), torch.tensor([0, 1, 1, 0]), make.mask((4, 7))) for _ in range(12)]
    yield batches, make.device
    yield batches[:0], make.device


def probe(batches, device):
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2).to(device)
    seen = train(model, batches, torch.optim.SGD(model.parameters(), lr=0.1), device)
    return {name: (int(count), type(count).__name__, getattr(count, "dtype", None)) for name, count in seen.items()}
