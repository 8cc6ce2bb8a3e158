# golden: stay refused="does not unpack the batch" script
"""The batch is a list that is moved as a whole."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
loader = DataLoader(TensorDataset(torch.randn(20, 3), torch.randn(20, 1)), batch_size=8)
net = nn.Linear(3, 1).to(device)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for batch in loader:
    x, y = batch[0].to(device), batch[1].to(device)
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(net(x), y)
    loss.backward()
    optimizer.step()
print(round(loss.item(), 4))
