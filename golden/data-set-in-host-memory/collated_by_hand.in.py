# golden: stay refused="the loader is given `collate_fn`" script
"""A function of the script puts the batch together."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"


def collate(samples):
    return torch.stack([x for x, _ in samples]) * 2, torch.stack([y for _, y in samples])


train_set = TensorDataset(torch.randn(20, 3), torch.randn(20, 1))
loader = DataLoader(train_set, batch_size=8, collate_fn=collate)
net = nn.Linear(3, 1).to(device)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in loader:
    x, y = x.to(device), y.to(device)
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(net(x), y)
    loss.backward()
    optimizer.step()
print(round(loss.item(), 4))
