"""Contrastive learning: two random views of every sample, drawn in the dataset, and the NT-Xent loss."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(17)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

TEMPERATURE = 0.2
EPOCHS = 3


class TwoViews(Dataset):
    def __init__(self, n, length=32):
        t = torch.linspace(0, 3.14, length)
        frequency = torch.rand(n, 1) * 6 + 1
        self.series = torch.sin(frequency * t) + 0.1 * torch.randn(n, length)

    def __len__(self):
        return len(self.series)

    def augment(self, x):
        shift = int(torch.randint(0, 6, (1,)))
        x = torch.roll(x, shift)
        x = x * (1 + 0.2 * torch.randn(1))
        if torch.rand(1) < 0.5:
            x = x.flip(0)
        return x + 0.05 * torch.randn_like(x)

    def __getitem__(self, index):
        x = self.series[index]
        return self.augment(x), self.augment(x)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(1, 16, 5, stride=2),
            nn.BatchNorm1d(16, momentum=0.2),
            nn.ReLU(),
            nn.Conv1d(16, 24, 3, stride=2),
            nn.ReLU(),
            nn.Flatten(),
        )
        self.projector = nn.Sequential(nn.Linear(24 * 6, 48), nn.ReLU(), nn.Linear(48, 16))

    def forward(self, x):
        return self.projector(self.body(x.unsqueeze(1)))


def nt_xent(a, b, temperature):
    z = F.normalize(torch.cat([a, b]), dim=1)
    n = len(a)
    similarity = z @ z.t() / temperature
    own = torch.eye(2 * n, dtype=torch.bool, device=z.device)
    similarity = similarity.masked_fill(own, -1e9)
    partner = torch.cat([torch.arange(n, 2 * n), torch.arange(n)]).to(z.device)
    return F.cross_entropy(similarity, partner)


loader = DataLoader(TwoViews(180), batch_size=20, shuffle=True, drop_last=True)
model = Encoder().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-3)
scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[9, 18], gamma=0.3)

for epoch in range(EPOCHS):
    model.train()
    losses = []
    for first, second in loader:
        first, second = first.to(device), second.to(device)
        optimizer.zero_grad()
        loss = nt_xent(model(first), model(second), TEMPERATURE)
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    print(f"epoch {epoch}: loss {sum(losses) / len(losses):.4f}, last {losses[-1]:.4f}")
    torch.save({"encoder": model.body.state_dict(), "epoch": epoch}, "encoder.pt")
