# golden: change numerics=rounding
"""A copy of the model keeps the average of the weights; it is never called by the step."""
import copy

import torch
import torch.nn.functional as F
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


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
    model = Net().to(device)
    model.compile()
    average = copy.deepcopy(model)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    for x, y in batches():
        loss = F.cross_entropy(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for old, new in zip(average.parameters(), model.parameters()):
                old.lerp_(new, 0.1)
    return average.state_dict(), average(torch.ones(2, 3, device=device))


def probe():
    torch.manual_seed(1)
    return fit()
