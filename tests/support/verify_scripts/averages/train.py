import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class EMA:
    """Moving averages of a model's parameters, by name."""

    def __init__(self, model, decay):
        self.decay = decay
        self.shadow = {name: p.detach().clone() for name, p in model.named_parameters()}

    @torch.no_grad()
    def update(self, model):
        for name, p in model.named_parameters():
            self.shadow[name].mul_(self.decay).add_(p, alpha=1 - self.decay)


def data(count):
    g = torch.Generator().manual_seed(4)
    points = torch.randn(count, 12, generator=g)
    return TensorDataset(points, (points[:, :4].sum(dim=1) > 0).long() + (points[:, 4] > 0).long())


def main():
    torch.manual_seed(8)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = nn.Sequential(nn.Linear(12, 32), nn.Tanh(), nn.Linear(32, 3)).to(device)
    teacher = copy.deepcopy(model)
    ema = EMA(model, decay=0.99)
    loader = DataLoader(data(512), batch_size=16, shuffle=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for epoch in range(3):
        for x, y in loader:
            loss = F.cross_entropy(model(x.to(device)), y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            ema.update(model)
            with torch.no_grad():
                for p, q in zip(model.parameters(), teacher.parameters()):
                    q.lerp_(p, 0.001)
        print(f"epoch {epoch}: loss {loss.item():.4f}")
    model.load_state_dict(ema.shadow)
    torch.save(model.state_dict(), "averaged.pt")


if __name__ == "__main__":
    main()
