# golden: stay script refused="draws on the host"
"""Noise is drawn on the host between two backward passes."""
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn, optim

torch.manual_seed(0)
np.random.seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = [(torch.randn(size, 4), torch.randint(3, (size,))) for size in (8, 8, 8, 8, 8, 5)]
model = nn.Linear(4, 3).to(device)
optimizer = optim.SGD(model.parameters(), lr=0.1)

for x, y in loader:
    x, y = x.to(device), y.to(device)
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    noise = np.random.normal(0, 0.1, tuple(x.shape)).astype(np.float32)
    noisy = F.cross_entropy(model(x + torch.from_numpy(noise).to(device)), y)
    noisy.backward()
    optimizer.step()
    print(loss.item(), noisy.item())
