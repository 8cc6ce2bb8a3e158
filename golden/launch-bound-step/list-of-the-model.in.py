# golden: stay refused="`history.append(x.mean())` changes a value in Python" script
"""A forward pass adds to a list of the model, by another name."""
import torch
import torch.nn.functional as F
from torch import nn, optim

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = [(torch.randn(8, 4), torch.randint(3, (8,))) for _ in range(6)]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.seen = []

    def forward(self, x):
        history = self.seen
        history.append(x.mean())
        return self.layer(x)


model = Net().to(device)
optimizer = optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    x, y = x.to(device), y.to(device)
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    print(loss.item(), len(model.seen))
