# golden: change script numerics=bitwise
"""Forward passes collect results in lists of their own."""
import torch
import torch.nn.functional as F
from torch import nn, optim

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = [(torch.randn(size, 4), torch.randint(3, (size,))) for size in (8, 8, 8, 8, 8, 5)]


class Pyramid(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.head = nn.Linear(12, 3)

    def forward(self, x):
        features = []
        for layer in self.layers:
            x = torch.relu(layer(x))
            features.append(x)
        return self.head(torch.cat(features, 1))


def accuracy(output, target, topk=(1,)):
    hits = output.topk(max(topk), 1).indices.t().eq(target)
    res = []
    for k in topk:
        res.append(hits[:k].float().mean())
    return res


model = Pyramid().to(device)
optimizer = optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        output = model(x)
        loss = F.cross_entropy(output, y)
        first, second = accuracy(output, y, (1, 2))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(loss.item(), first.item(), second.item())
