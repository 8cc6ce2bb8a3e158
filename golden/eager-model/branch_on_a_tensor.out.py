# golden: change unsafe numerics=rounding
"""The forward pass prints where the inputs are large."""
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
        if x.sum() > 100:
            print("large inputs")
        return self.fc(torch.relu(self.body(x)))


def batches():
    torch.manual_seed(0)
    return [(torch.randn(size, 3), torch.randint(4, (size,))) for size in (6, 6, 6)]


def fit():
    model = Net().to(device)
    model.compile()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in batches():
        loss = F.cross_entropy(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.state_dict()


def probe():
    torch.manual_seed(1)
    return fit()
