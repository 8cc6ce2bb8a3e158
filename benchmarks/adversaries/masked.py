"""Several targets per sample, many of them missing (NaN): the losses are masked, per target and with weights."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

seed = 5
torch.manual_seed(seed)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

TASKS = 4
weights = torch.tensor([1.0, 0.5, 2.0, 1.0], device=device)


def synthesize(n=270):
    x = torch.randn(n, 12)
    mix = torch.randn(12, TASKS) / 3
    y = torch.tanh(x @ mix) + 0.05 * torch.randn(n, TASKS)
    y[torch.rand(n, TASKS) < 0.35] = float("nan")
    return x, y


class MultiTask(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Linear(12, 64),
            nn.LayerNorm(64),
            nn.Tanh(),
            nn.Dropout(0.05),
            nn.Linear(64, 64),
            nn.Tanh(),
        )
        self.mean = nn.Linear(64, TASKS)
        self.log_var = nn.Linear(64, TASKS)

    def forward(self, x):
        h = self.trunk(x)
        return self.mean(h), self.log_var(h).clamp(-5, 3)


def masked_nll(mean, log_var, target):
    mask = ~torch.isnan(target)
    diff = mean[mask] - target[mask]
    nll = 0.5 * (diff**2 * torch.exp(-log_var[mask]) + log_var[mask])
    w = weights.expand_as(target)[mask]
    return (w * nll).sum() / mask.sum()


x, y = synthesize()
train = TensorDataset(x[:216], y[:216])
valid_x, valid_y = x[216:].to(device), y[216:].to(device)
loader = DataLoader(train, batch_size=20, shuffle=True)

model = MultiTask().to(device)
optimizer = torch.optim.RMSprop(model.parameters(), lr=2e-3, alpha=0.95, eps=1e-6)
best = float("inf")

for epoch in range(3):
    model.train()
    losses = []
    counted = 0
    for features, target in loader:
        features = features.to(device)
        target = target.to(device)
        optimizer.zero_grad()
        mean, log_var = model(features)
        loss = masked_nll(mean, log_var, target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        counted += (~torch.isnan(target)).sum().item()
    model.eval()
    with torch.no_grad():
        mean, log_var = model(valid_x)
        valid = masked_nll(mean, log_var, valid_y).item()
    print(f"epoch {epoch} train {sum(losses) / len(losses):.5f} valid {valid:.5f} targets {counted}")
    if valid < best:
        best = valid
        torch.save(model.state_dict(), "best.pt")
