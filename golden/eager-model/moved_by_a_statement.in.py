# golden: change numerics=rounding
"""The top level trains; the model is moved by a statement of its own."""
import torch
import torch.nn.functional as F
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def batches():
    torch.manual_seed(0)
    return [(torch.randn(size, 3), torch.randint(4, (size,))) for size in (6, 6, 6)]


torch.manual_seed(1)
net = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 4))
net.to(device)
criterion = nn.CrossEntropyLoss().to(device)
optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)

for epoch in range(2):
    for x, y in batches():
        optimizer.zero_grad()
        loss = criterion(net(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()


def probe():
    return net.state_dict()
