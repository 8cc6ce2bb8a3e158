# golden: stay refused="line 10: `init_process_group` makes every step talk to other processes" script
"""Each process averages its gradients with those of the others, during the backward pass."""
import torch
import torch.distributed as dist
from torch import nn, optim
from torch.nn.parallel import DistributedDataParallel

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
loader = [torch.randn(8, 4) for _ in range(4)]
model = DistributedDataParallel(nn.Linear(4, 1).to(device))
optimizer = optim.SGD(model.parameters(), lr=0.01)
for x in loader:
    x = x.to(device)
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
print(round(loss.item(), 4))
dist.destroy_process_group()
