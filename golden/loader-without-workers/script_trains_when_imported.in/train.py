# golden: change opt-in script
"""The dataset stands in a file of its own; the script trains at its top level and gets the guard."""
import torch
from torch import nn

from pairs import make_loader

torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = make_loader(360)
for epoch in range(2):
    for points, values in loader:
        loss = (model(points).squeeze(1) - values).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, f"{loss.item():.5f}")
