# golden: stay script refused="a single round is no step"
"""A batch comes in parts: their gradients are added up in a loop of their own, behind which the optimizer steps."""

import torch
from torch import nn
from torch.nn import functional as F

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)
PARTS = 2
model = nn.Linear(8, 3).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def get_batch():
    return torch.randn(4, 8).to(device), torch.randint(3, (4,)).to(device)


x, y = get_batch()
for step in range(4):
    for part in range(PARTS):
        loss = F.cross_entropy(model(x), y) / PARTS
        x, y = get_batch()
        loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    print(loss.item() * PARTS)
