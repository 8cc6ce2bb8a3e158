# golden: stay refused="line 9: `DataParallel` gives parts of every step to other devices" script
"""One process drives several devices, with a thread for each."""
import torch
from torch import nn, optim

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = [torch.randn(8, 4) for _ in range(4)]
model = nn.DataParallel(nn.Linear(4, 1).to(device))
optimizer = optim.SGD(model.parameters(), lr=0.01)
for x in loader:
    x = x.to(device)
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
print(round(loss.item(), 4))
