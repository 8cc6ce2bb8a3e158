# golden: change
"""A scaler and a scheduler work with it as with any other."""
import torch
import torch.nn.functional as F
from torch import nn, optim


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(3, 4)
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        return self.head(torch.relu(self.body(x)))


def fit(loader, device):
    model = Net().to(device)
    optimizer = optim.AdamW(model.parameters(), lr=0.01)
    scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=1)
    scaler = torch.amp.GradScaler(device.type, enabled=device.type == "cuda")
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
    return model(loader[0][0])


def cases(make):
    loader = [(make.tensor((size, 3), finite=True), make.labels((size,), 3)) for size in (4, 4, 3)]
    yield nn.Identity().to(make.device), loader


def probe(model, loader):
    return fit(loader, loader[0][0].device)
