# golden: stay script refused="`x.to(device)` copies from the host"
"""The loss is computed by lines that cannot be recorded: its history cannot be given to a step."""
import torch
import torch.nn.functional as F
from torch import nn, optim

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = [(torch.randn(size, 4), torch.randint(3, (size,))) for size in (8, 8, 8, 8, 8, 5)]


class Solver:
    def __init__(self):
        self.net = nn.Linear(4, 3).to(device)
        self.optim = optim.SGD(self.net.parameters(), lr=0.1)
        self.calls = 0

    def loss(self, x, y):
        self.calls += 1
        return F.cross_entropy(self.net(x), y)

    def fit(self):
        for x, y in loader:
            loss = self.loss(x.to(device), y.to(device))
            self.optim.zero_grad()
            loss.backward()
            self.optim.step()
            print(self.calls, loss.item())


Solver().fit()
