# golden: stay silent script
"""The loader reads a part of the tensors, which `random_split` chose."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
train_set, val_set = random_split(TensorDataset(torch.randn(20, 3), torch.randn(20, 1)), [15, 5])
loader = DataLoader(train_set, batch_size=8)
net = nn.Linear(3, 1).to(device)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in loader:
    x, y = x.to(device), y.to(device)
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(net(x), y)
    loss.backward()
    optimizer.step()
print(round(loss.item(), 4))
