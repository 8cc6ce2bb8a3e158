# golden: stay refused="uses `y` before it is copied" script
"""The labels of a batch are counted on the host."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
train_set = TensorDataset(torch.randn(20, 3), torch.randint(2, (20,)))
net = nn.Linear(3, 2).to(device)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in DataLoader(train_set, batch_size=8, shuffle=True):
    print(y.numpy().sum())
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(net(x.to(device)), y.to(device))
    loss.backward()
    optimizer.step()
print(round(loss.item(), 4))
