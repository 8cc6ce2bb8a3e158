# golden: stay script refused="`config.weight`"
"""A setting that decays while training is an attribute."""
import torch
import torch.nn.functional as F
from torch import nn, optim

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = [(torch.randn(size, 4), torch.randint(3, (size,))) for size in (8, 8, 8, 8, 8, 5)]


class Config:
    weight = 1.0


config = Config()
model = nn.Linear(4, 3).to(device)
optimizer = optim.SGD(model.parameters(), lr=0.1)

for epoch in range(2):
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = config.weight * F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        print(loss.item())
    config.weight *= 0.9
