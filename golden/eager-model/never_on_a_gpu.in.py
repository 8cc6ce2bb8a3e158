# golden: stay refused="never uses the GPU"
"""Everything is on the CPU."""
import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(3, 8)
        self.fc = nn.Linear(8, 4)

    def forward(self, x):
        return self.fc(torch.relu(self.body(x)))


def batches():
    torch.manual_seed(0)
    return [(torch.randn(size, 3), torch.randint(4, (size,))) for size in (6, 6, 6)]


def fit():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in batches():
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.state_dict()


def probe():
    torch.manual_seed(1)
    return fit()
