# golden: stay refused="draws batches without a loop of its own" script
"""An iterator is asked for one batch after the other."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
train_set = TensorDataset(torch.randn(20, 3), torch.randn(20, 1))
loader = DataLoader(train_set, batch_size=8, shuffle=True)
net = nn.Linear(3, 1).to(device)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
batches = iter(loader)
for step in range(2):
    x, y = next(batches)
    x, y = x.to(device), y.to(device)
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(net(x), y)
    loss.backward()
    optimizer.step()
print(round(loss.item(), 4))
