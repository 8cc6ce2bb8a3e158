# golden: stay refused="sets a mode in Python" script
"""Between its two passes the step sets the mode of a layer, which a replay would not."""
import torch
import torch.nn.functional as F
from torch import nn, optim

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = [(torch.randn(8, 4), torch.randint(3, (8,))) for _ in range(4)]
norm = nn.BatchNorm1d(4).to(device)
net = nn.Linear(4, 3).to(device)
optimizer = optim.SGD([*norm.parameters(), *net.parameters()], lr=0.1)
for x, y in loader:
    x, y = x.to(device), y.to(device)
    optimizer.zero_grad()
    first = net(norm(x))
    norm.eval()
    loss = F.cross_entropy(first, y) + F.cross_entropy(net(norm(x)), y)
    loss.backward()
    optimizer.step()
    norm.train()
print(round(loss.item(), 4))
