# golden: stay refused="writes into the tensors of the data set" script
"""The labels are smoothed in place between the epochs."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
x_all, y_all = torch.randn(20, 3), torch.randn(20, 1)
train_set = TensorDataset(x_all, y_all)
loader = DataLoader(train_set, batch_size=8)
net = nn.Linear(3, 1).to(device)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(2):
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
    y_all.mul_(0.9)
print(round(loss.item(), 4))
