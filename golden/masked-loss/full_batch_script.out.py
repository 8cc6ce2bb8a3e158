# golden: change numerics=bitwise
"""The same at module level, in the shape of the PyG examples: `train()` reads globals and is called once per epoch."""
from types import SimpleNamespace

import torch
import torch.nn.functional as F

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
data = SimpleNamespace(
    x=torch.randn(12, 5).to(device), y=torch.arange(12).to(device) % 3, train_mask=(torch.arange(12) < 7).to(device)
)
train_index = data.train_mask.nonzero(as_tuple=True)
model = torch.nn.Linear(5, 3).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)


def train():
    model.train()
    optimizer.zero_grad()
    out = model(data.x)
    loss = F.cross_entropy(out[train_index], data.y[train_index])
    loss.backward()
    optimizer.step()
    return loss


for epoch in range(1, 5):
    loss = train()
    print(f"Epoch: {epoch:03d}, Loss: {loss:.6f}")


def probe():
    return model, loss.detach()
